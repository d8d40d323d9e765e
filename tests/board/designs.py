"""Designs that tests of boards use."""

from t3hw.config import NodeConfig
from t3hw.fpga.boards import BoardDesign

__all__ = ["TWO_TINY"]

#: Two nodes, as small as they can be, with engines. At this rate a command is soon forgotten.
TWO_TINY = BoardDesign(
    name="two-tiny", title="two tiny nodes", family="ecp5", part="none", platform="none:None",
    clock_hz=50_000_000, devices=2, traffic=True, node=NodeConfig.preset("tiny"), gemm_units=2,
    gemm_stages=4, collective_steps=4, baud=115_200)
