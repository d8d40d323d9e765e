"""Memories of a whole node, as synthesis sees them."""

import re

import pytest
from amaranth.back import rtlil

from t3hw.config import NodeConfig
from t3hw.hdl.node import Node
from t3hw.hdl.traffic_node import TrafficNode

#: A cell of a memory's port in RTLIL: kind, and all its parameters.
_PORT = re.compile(r"cell \$mem(rd|wr)_v2 .*?\n(.*?)\n *end\b", re.S)

#: Of memories that become LUT RAM or flip-flops.
_SMALL_ADDRESS_BITS = 6


@pytest.mark.parametrize("memory, kind", [("builtin", TrafficNode), ("axi", Node)])
def test_every_read_port_of_block_ram_has_a_clock(memory, kind):
    """A read port without one, with a register behind it, can lose its data in block RAM.

    Queues of a few words are read without a clock: no tool puts so little into block RAM, and
    `tests/gate` looks at the netlist.
    """
    config = NodeConfig.preset("tiny").replace(memory=memory)
    text = rtlil.convert(kind(config=config), emit_src=False)
    ports = _PORT.findall(text)
    kinds = [kind for kind, _ in ports]
    assert kinds.count("rd") >= 10 and kinds.count("wr") >= 10
    assert len(ports) == len(re.findall(r"cell \$mem", text)) - len(
        re.findall(r"cell \$meminit", text))
    for _, parameters in ports:
        address_bits = int(re.search(r"parameter \\ABITS (\d+)", parameters).group(1))
        assert (re.search(r"parameter \\CLK_ENABLE (1'1|1)\b", parameters)
                or address_bits <= _SMALL_ADDRESS_BITS), parameters
