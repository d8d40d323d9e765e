"""FPGA: what a block costs, boards, bitstreams. Needs the packages of the extra ``fpga``."""
