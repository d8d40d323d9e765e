"""Ring: nodes whose links are chained."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..config import ConfigError
from .node import Node

__all__ = ["Ring"]

_LINK = ("link_tx", "link_rx")


class Ring(wiring.Component):
    """``devices`` nodes; node ``d`` sends to node ``d`` - 1, and the first to the last.

    Every port of a node but its links stands at the top with the prefix ``node<d>_``.

    Parameters
    ----------
    config : NodeConfig
        What each node is.
    devices : int
        Number of nodes, at least 2.

    Raises
    ------
    ValueError
        If ``devices`` is not at least 2.
    ConfigError
        If the configuration is not ``collective``.
    """

    def __init__(self, *, config, devices):
        if not isinstance(devices, int) or devices < 2:
            raise ValueError(f"devices must be an integer of at least 2, not {devices!r}")
        if not config.collective:
            raise ConfigError("collective must be true in a ring, not False")
        self._nodes = [Node(config=config) for _device in range(devices)]
        super().__init__({
            f"node{device}_{name}": member
            for device, node in enumerate(self._nodes)
            for name, member in node.signature.members.items() if not name.startswith(_LINK)
        })

    def elaborate(self, platform):
        m = Module()

        for device, node in enumerate(self._nodes):
            m.submodules[f"node{device}"] = node
            for name, member in node.signature.members.items():
                if name.startswith(_LINK):
                    continue
                inner, outer = getattr(node, name), getattr(self, f"node{device}_{name}")
                m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
            receiver = self._nodes[device - 1]
            for name in ("tdata", "tkeep", "tlast", "tvalid"):
                m.d.comb += getattr(receiver, f"link_rx_{name}").eq(
                    getattr(node, f"link_tx_{name}"))
            m.d.comb += [
                node.link_tx_tready.eq(receiver.link_rx_tready),
                node.link_tx_credit.eq(receiver.link_rx_credit),
            ]

        return m
