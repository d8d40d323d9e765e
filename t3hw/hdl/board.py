"""Board: a ring of nodes behind a serial link, all that a chip has but clock, reset and pins."""

from fractions import Fraction

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..registers.board import (
    BOARD_BASE, MEMORY_BASE, MEMORY_WINDOW, NODE_WINDOW, register_address)
from .amba import AxiLitePorts, AxiPorts
from .board_registers import WORD_BITS, BoardRegisters
from .host_axil import HostAxil
from .host_bus import HostDecoder
from .host_memory import HostMemory
from .link_checksum import LinkChecksum
from .node import Node
from .serial_bridge import SerialBridge
from .traffic_node import TrafficNode
from .uart import UartReceiver, UartTransmitter

__all__ = ["Board"]

#: The bridge forgets a command after a silence of so many milliseconds.
SILENCE_MS = 100
#: Cycles that a node has for the answer to an access.
TIMEOUT = 1 << 18
#: Words whose checksums would change what they tell.
_UNCOUNTED_WRITES = ("RX_CRC",)
_UNCOUNTED_READS = ("RX_CRC", "TX_CRC", "ACCESS_ERRORS", "ACCESS_ERROR_ADDRESS")
_CHANNELS = ("aw", "w", "b", "ar", "r")


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
    node<d>_m_axi_* : AXI4 masters, if the nodes' memory is ``"axi"``
        To the memories.
    """

    def __init__(self, design, *, bit_cycles=None):
        self._design = design
        config = design.node
        own = Fraction(design.clock_hz, design.baud)
        self._bit_cycles = own if bit_cycles is None else bit_cycles
        self._silence = max(64, int(SILENCE_MS * design.baud * Fraction(self._bit_cycles) / 1000))
        self._receiver = UartReceiver(bit_cycles=self._bit_cycles)
        self._transmitter = UartTransmitter(bit_cycles=self._bit_cycles)
        if design.traffic:
            self.nodes = [
                TrafficNode(config=config, units=design.gemm_units, stages=design.gemm_stages,
                            steps=design.collective_steps, host=True)
                for _device in range(design.devices)]
        else:
            self.nodes = [Node(config=config) for _device in range(design.devices)]
        self._memory = {f"node{device}_{name}": (node, name, member)
                        for device, node in enumerate(self.nodes)
                        for name, member in node.signature.members.items()
                        if name.startswith("m_axi_")}
        super().__init__({
            "rx": In(1, init=1),
            "tx": Out(1, init=1),
            "leds": Out(8),
        } | {name: member for name, (_node, _inner, member) in self._memory.items()})

    def elaborate(self, platform):
        m = Module()

        devices = self._design.devices
        config = self._design.node
        m.submodules.receiver = receiver = self._receiver
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.bridge = bridge = SerialBridge(
            silence=self._silence,
            uncounted_writes=[register_address(name) for name in _UNCOUNTED_WRITES],
            uncounted_reads=[register_address(name) for name in _UNCOUNTED_READS])
        m.submodules.checksum = checksum = LinkChecksum()
        m.submodules.registers = registers = BoardRegisters(design=self._design)
        m.submodules.decoder = decoder = HostDecoder(
            windows=[(BOARD_BASE, 4 << WORD_BITS),
                     *((device * NODE_WINDOW, NODE_WINDOW) for device in range(devices)),
                     *((MEMORY_BASE + device * MEMORY_WINDOW, MEMORY_WINDOW)
                       for device in range(devices))],
            timeout=TIMEOUT)

        # The line and what is told of it.
        wiring.connect(m, receiver.o, bridge.i)
        wiring.connect(m, bridge.o, transmitter.i)
        wiring.connect(m, bridge.host, decoder.host)
        wiring.connect(m, bridge.checked, checksum.i)
        wiring.connect(m, decoder.refused, registers.refused)
        wiring.connect(m, decoder.slaves[0], registers.host)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            self.leds.eq(registers.leds),
            bridge.active.eq(receiver.active),
            bridge.damaged.eq(receiver.error),
            registers.damaged.eq(receiver.error),
            registers.abandoned.eq(bridge.abandoned),
            registers.lost.eq(bridge.lost),
            registers.came.eq(checksum.came),
            registers.sent.eq(checksum.sent),
            checksum.clear_came.eq(registers.clear_came),
            checksum.clear_sent.eq(registers.clear_sent),
            registers.irq.eq(Cat(node.irq for node in self.nodes)),
        ]

        # The nodes.
        axil = AxiLitePorts(prefix="s_axil", master=False)
        axi = AxiPorts(prefix="s_axi", master=False, config=config, id_width=config.id_width)
        for device, node in enumerate(self.nodes):
            m.submodules[f"node{device}"] = node
            m.submodules[f"axil{device}"] = to_registers = HostAxil()
            m.submodules[f"memory{device}"] = to_memory = HostMemory(
                config=config, window=MEMORY_WINDOW)
            wiring.connect(m, decoder.slaves[1 + device], to_registers.host)
            wiring.connect(m, decoder.slaves[1 + devices + device], to_memory.host)
            axil.connect(m, node, {name: getattr(to_registers, name) for name in _CHANNELS},
                         from_outside=True)
            axi.connect(m, node, {name: getattr(to_memory, name) for name in _CHANNELS},
                        from_outside=True)
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
        for name, (node, inner, member) in self._memory.items():
            ours, theirs = getattr(self, name), getattr(node, inner)
            m.d.comb += ours.eq(theirs) if member.flow is Out else theirs.eq(ours)

        return m
