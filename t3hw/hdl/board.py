"""Board: a ring of nodes behind a serial link, all that a chip has but clock, reset and pins."""

from fractions import Fraction

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..registers.board import MEMORY_BASE, MEMORY_WINDOW, NODE_WINDOW
from .amba import AxiLitePorts, AxiPorts
from .axi_memory import M_AXI_ID_WIDTH
from .host_axil import HostAxil
from .host_memory import HostMemory
from .node import Node
from .sdram_chip import CHIPS
from .sdram_controller import SdramController
from .serial_link import SerialLink
from .traffic_node import TrafficNode

__all__ = ["Board"]

#: The bridge forgets a command after a silence of so many milliseconds.
SILENCE_MS = 100
#: Cycles that a node has for the answer to an access.
TIMEOUT = 1 << 18
_CHANNELS = ("aw", "w", "b", "ar", "r")


def _node(design):
    """A node of a board, as the design has it."""
    if not design.traffic:
        return Node(config=design.node)
    return TrafficNode(config=design.node, units=design.gemm_units, stages=design.gemm_stages,
                       steps=design.collective_steps, host=True)


class Board(wiring.Component):
    """A ring of nodes, its registers and memories on a serial line.

    Node ``d`` sends to node ``d`` - 1, and the first to the last; the link of a single node leads
    back to itself. What is where is in `t3hw.registers.board`.

    While an engine of a node runs, the node's memory refuses the host, with which it shares the
    producer port.

    Latency and throughput of the line are those of `SerialBridge`. Behind it, without what waits
    in the node, a register of a node needs 4 cycles and the node's own, its memory 6 and the
    node's own.

    Parameters
    ----------
    design : BoardDesign
        What to build.
    bit_cycles : number or None
        Cycles of a bit on the line, at least 4; by default what the design's clock and baud give.
        A command is forgotten after as many bits of silence as at the design's own rate.

    Attributes
    ----------
    nodes : list of Node or TrafficNode
        The nodes, equal ones.

    Members
    -------
    rx : In(1)
        The serial line from the host, asynchronous.
    tx : Out(1)
        The serial line to the host.
    leds : Out(8)
        Lights, by the register LEDS.
    sdram : Out, `SdramPins`, if the design's memory is ``"sdram"``
        To the chip that is the node's memory. Its clock is the inverse of ours, and ``dq_i`` is
        what was on its pins at the last edge of our clock: from registers, which belong into the
        I/O cells, since data come late in the half cycle before that edge.
    """

    def __init__(self, design, *, bit_cycles=None):
        self._design = design
        if bit_cycles is None:
            bit_cycles = Fraction(design.clock_hz, design.baud)
        devices = range(design.devices)
        self._link = SerialLink(
            design=design, bit_cycles=bit_cycles,
            silence=max(64, int(SILENCE_MS * design.baud * Fraction(bit_cycles) / 1000)),
            windows=[*((device * NODE_WINDOW, NODE_WINDOW) for device in devices),
                     *((MEMORY_BASE + device * MEMORY_WINDOW, MEMORY_WINDOW)
                       for device in devices)],
            timeout=TIMEOUT)
        self.nodes = [_node(design) for _device in devices]
        self._sdram = None
        if design.memory == "sdram":
            # The register at ``dq_i`` takes back the half cycle that the chip is early.
            self._sdram = SdramController(config=design.node, chip=CHIPS[design.sdram],
                                          clock_hz=design.clock_hz, inverted_clock=False)
        super().__init__({
            "rx": In(1, init=1),
            "tx": Out(1, init=1),
            "leds": Out(8),
        } | ({"sdram": self._sdram.signature.members["pins"]} if self._sdram else {}))

    def elaborate(self, platform):
        m = Module()

        devices = self._design.devices
        config = self._design.node
        m.submodules.link = link = self._link
        m.d.comb += [
            link.rx.eq(self.rx),
            self.tx.eq(link.tx),
            self.leds.eq(link.leds),
            link.irq.eq(Cat(node.irq for node in self.nodes)),
        ]

        axil = AxiLitePorts(prefix="s_axil", master=False)
        axi = AxiPorts(prefix="s_axi", master=False, config=config, id_width=config.id_width)
        for device, node in enumerate(self.nodes):
            m.submodules[f"node{device}"] = node
            m.submodules[f"axil{device}"] = to_registers = HostAxil()
            m.submodules[f"memory{device}"] = to_memory = HostMemory(
                config=config, window=MEMORY_WINDOW)
            wiring.connect(m, link.slaves[device], to_registers.host)
            wiring.connect(m, link.slaves[devices + device], to_memory.host)
            axil.connect(m, node, {name: getattr(to_registers, name) for name in _CHANNELS},
                         from_outside=True)
            axi.connect(m, node, {name: getattr(to_memory, name) for name in _CHANNELS},
                        from_outside=True)
            if not config.collective:
                continue
            if self._design.traffic:
                m.d.comb += to_memory.blocked.eq(node.trace_busy)

            receiver = self.nodes[device - 1]
            for name in ("tdata", "tkeep", "tlast", "tvalid"):
                m.d.comb += getattr(receiver, f"link_rx_{name}").eq(
                    getattr(node, f"link_tx_{name}"))
            m.d.comb += [
                node.link_tx_tready.eq(receiver.link_rx_tready),
                node.link_tx_credit.eq(receiver.link_rx_credit),
            ]
        if self._sdram:
            m.submodules.sdram = controller = self._sdram
            AxiPorts(prefix="m_axi", master=True, config=config, id_width=M_AXI_ID_WIDTH).connect(
                m, self.nodes[0], {name: getattr(controller, name) for name in _CHANNELS},
                from_outside=True)
            wiring.connect(m, controller.pins, wiring.flipped(self.sdram))

        return m
