"""Equal nodes of a board as one module of Verilog, converted and synthesized once
and not once for each.

Verilog, since only there Yosys heeds a memory's ``no_rw_check``: in RTLIL a read port is a register
already, and gets logic for reads of what is being written.
"""

from amaranth import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib.wiring import In

from .generate import to_verilog

__all__ = ["NODE", "share_nodes"]

#: Name of the module.
NODE = "t3_shared_node"


def share_nodes(nodes):
    """Let nodes be instances of one module, and return its Verilog.

    Parameters
    ----------
    nodes : list of wiring.Component
        Equal ones, before they are elaborated.
    """
    text = to_verilog(nodes[0], NODE)
    for node in nodes:
        node.elaborate = lambda _platform, node=node: _instance(node)
    return text


def _instance(node):
    m = Module()
    ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
    for path, member, value in node.signature.flatten(node):
        direction = "i" if member.flow is In else "o"
        ports[f"{direction}_{'__'.join(map(str, path))}"] = Value.cast(value)
    m.submodules.shared = Instance(NODE, **ports)
    return m
