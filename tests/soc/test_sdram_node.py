"""Nodes with their memory in SDRAM run a reduce-scatter, to the right bits."""

import pytest
from sdram_node import sdram_node
from test_sdram import CLOCK, MICRON, rules

from t3hw.config import NodeConfig
from t3hw.cosim.session import RingSimulation
from t3hw.fpga.gate_level import check_ring


@pytest.mark.parametrize("width", [32, 64])
def test_a_ring_in_sdram(width):
    config = NodeConfig.preset("tiny").replace(
        data_width=width, memory="axi", memory_bytes=1 << 16, memory_outstanding=4)
    node = sdram_node(config, rules(MICRON, CLOCK), chip=MICRON, clock_hz=CLOCK)
    check_ring(RingSimulation(config, 2, simulator="icarus", node=node), runs=1, seed=width)
