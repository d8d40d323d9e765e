"""Serial link: from the pins of a serial line to the board's registers and the host bus."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..registers.board import BOARD_BASE, register_address
from .board_registers import WORD_BITS, BoardRegisters
from .host_bus import HostDecoder, host_bus
from .link_checksum import LinkChecksum
from .serial_bridge import SerialBridge
from .uart import UartReceiver, UartTransmitter

__all__ = ["SerialLink"]

#: Words whose checksums would change what they tell.
_UNCOUNTED_WRITES = ("RX_CRC",)
_UNCOUNTED_READS = ("RX_CRC", "TX_CRC", "ACCESS_ERRORS", "ACCESS_ERROR_ADDRESS")


class SerialLink(wiring.Component):
    """All that a board has but its nodes: UART, bridge, checksums, board registers, decoder.

    Latency and throughput are those of `SerialBridge` and `HostDecoder`.

    Parameters
    ----------
    design : BoardDesign
        What the board's registers tell.
    bit_cycles : number
        Cycles of a bit on the line.
    silence : int
        Cycles of silence after which a command is forgotten.
    windows : list of (int, int)
        First byte and number of bytes of each slave's window beside the board's registers.
    timeout : int
        Cycles that a slave has for an answer, a power of two.

    Members
    -------
    rx : In(1)
        The line from the host, asynchronous.
    tx : Out(1)
        The line to the host.
    slaves : array of Out(host_bus)
        In the order of ``windows``.
    irq : In(devices)
        Interrupts of the nodes.
    leds : Out(8)
        Lights.
    """

    def __init__(self, *, design, bit_cycles, silence, windows, timeout):
        self._receiver = UartReceiver(bit_cycles=bit_cycles)
        self._transmitter = UartTransmitter(bit_cycles=bit_cycles)
        self._bridge = SerialBridge(
            silence=silence,
            uncounted_writes=[register_address(name) for name in _UNCOUNTED_WRITES],
            uncounted_reads=[register_address(name) for name in _UNCOUNTED_READS])
        self._registers = BoardRegisters(design=design)
        self._decoder = HostDecoder(windows=[(BOARD_BASE, 4 << WORD_BITS), *windows],
                                    timeout=timeout)
        super().__init__({
            "rx": In(1, init=1),
            "tx": Out(1, init=1),
            "slaves": Out(host_bus).array(len(windows)),
            "irq": In(design.devices),
            "leds": Out(8),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.receiver = receiver = self._receiver
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.bridge = bridge = self._bridge
        m.submodules.checksum = checksum = LinkChecksum()
        m.submodules.registers = registers = self._registers
        m.submodules.decoder = decoder = self._decoder

        wiring.connect(m, receiver.o, bridge.i)
        wiring.connect(m, bridge.o, transmitter.i)
        wiring.connect(m, bridge.host, decoder.host)
        wiring.connect(m, bridge.checked, checksum.i)
        wiring.connect(m, decoder.refused, registers.refused)
        wiring.connect(m, decoder.slaves[0], registers.host)
        for number, slave in enumerate(self.slaves):
            wiring.connect(m, decoder.slaves[1 + number], wiring.flipped(slave))
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            bridge.active.eq(receiver.active),
            bridge.damaged.eq(receiver.error),
            registers.damaged.eq(receiver.error),
            registers.abandoned.eq(bridge.abandoned),
            registers.lost.eq(bridge.lost),
            registers.came.eq(checksum.came),
            registers.sent.eq(checksum.sent),
            checksum.clear_came.eq(registers.clear_came),
            checksum.clear_sent.eq(registers.clear_sent),
            registers.irq.eq(self.irq),
            self.leds.eq(registers.leds),
        ]

        return m
