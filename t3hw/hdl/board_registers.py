"""Registers of a board: what it is, the time, and how its link does."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..registers.board import REGISTERS, identity
from .host_bus import host_bus

__all__ = ["BoardRegisters"]

#: Address bits of a word within the registers.
WORD_BITS = 5


def _first_names():
    """Names of the first 16 words, in their order."""
    names = {register.offset >> 2: name for name, register in REGISTERS.items()}
    return [names.get(number, "") for number in range(16)]


class BoardRegisters(wiring.Component):
    """The registers of `t3hw.registers.board`.

    A write acts in the cycle after its access. An event in the cycle of a clear is counted.

    Latency from an access to its answer 2 cycles; throughput one access after the other.

    Parameters
    ----------
    design : BoardDesign
        What the registers tell.

    Members
    -------
    host : In(host_bus)
        Who asks; of the address the 5 lowest bits count.
    irq : In(devices)
        Interrupts of the nodes.
    refused : In, stream of 32 bits, always ready
        Addresses of refused accesses.
    damaged, abandoned, lost : In(1)
        Pulses: what went wrong on the line.
    came, sent : In(32)
        Checksums.
    clear_came, clear_sent : Out(1)
        Pulses: begin the checksums anew.
    leds : Out(8)
        Lights.
    """

    def __init__(self, *, design):
        self._identity = identity(design)
        super().__init__({
            "host": In(host_bus),
            "irq": In(design.devices),
            "refused": In(stream.Signature(32, always_ready=True)),
            "damaged": In(1),
            "abandoned": In(1),
            "lost": In(1),
            "came": In(32),
            "sent": In(32),
            "clear_came": Out(1),
            "clear_sent": Out(1),
            "leds": Out(8),
        })

    def elaborate(self, platform):
        m = Module()

        access, answer = self.host.access, self.host.answer
        number = access.payload.address[:WORD_BITS]
        word = access.payload.data
        written = {}
        for name, register in REGISTERS.items():
            if register.access != "ro":
                written[name] = Signal(name=f"written_{name.lower()}")
                m.d.sync += written[name].eq(access.valid & access.payload.write
                                             & (number == register.offset >> 2))

        # Time. The low half is read two cycles before its answer, and so is the high half.
        low = Signal(32)
        high = Signal(32)
        carry = Signal()
        captured = Signal(32)
        m.d.sync += [Cat(low, carry).eq(low + 1), high.eq(high + carry)]
        reads_low = Signal()
        m.d.sync += reads_low.eq(access.valid & ~access.payload.write
                                 & (number == REGISTERS["CYCLES_LO"].offset >> 2))
        with m.If(reads_low):
            m.d.sync += captured.eq(high)

        # What went wrong.
        refusals = Signal(16)
        first = Signal(32)
        line = {"framing": (self.damaged, Signal(8)), "abandoned": (self.abandoned, Signal(8)),
                "lost": (self.lost, Signal(8))}
        self._count(m, refusals, self.refused.valid, written["ACCESS_ERRORS"])
        with m.If(self.refused.valid & ((refusals == 0) | written["ACCESS_ERRORS"])):
            m.d.sync += first.eq(self.refused.payload)
        with m.Elif(written["ACCESS_ERRORS"]):
            m.d.sync += first.eq(0)
        for event, count in line.values():
            self._count(m, count, event, written["LINE_ERRORS"])

        scratch = Signal(32)
        with m.If(written["SCRATCH"]):
            m.d.sync += scratch.eq(word)
        with m.If(written["LEDS"]):
            m.d.sync += self.leds.eq(word)
        m.d.comb += [
            self.clear_came.eq(written["RX_CRC"]),
            self.clear_sent.eq(written["TX_CRC"]),
        ]

        live = {
            "CYCLES_LO": low,
            "CYCLES_HI": captured,
            "SCRATCH": scratch,
            "IRQ": self.irq,
            "ACCESS_ERRORS": refusals,
            "ACCESS_ERROR_ADDRESS": first,
            "LINE_ERRORS": Cat(count for _, count in line.values()),
            "RX_CRC": self.came,
            "TX_CRC": self.sent,
            "LEDS": self.leds,
        }
        # What never changes is a function of four address bits: one LUT for each bit.
        fixed = Array(Const(self._identity.get(name, 0), 32) for name in _first_names())
        value = Mux(number[4], 0, fixed[number[:4]])
        for name, current in live.items():
            value = value | Mux(number == REGISTERS[name].offset >> 2, current, 0)
        known = Signal()
        asked = Signal()
        m.d.sync += [asked.eq(access.valid), known.eq(0)]
        with m.Switch(number):
            for register in REGISTERS.values():
                with m.Case(register.offset >> 2):
                    m.d.sync += known.eq(~access.payload.write | (register.access != "ro"))
        word_read = Signal(32)
        m.d.sync += [
            word_read.eq(value),
            answer.valid.eq(asked),
            answer.payload.data.eq(word_read),
            answer.payload.error.eq(~known),
        ]

        return m

    @staticmethod
    def _count(m, count, event, clear):
        """Count events up to the largest value; ``clear`` begins anew."""
        more = Mux(clear, 0, count) + (event & (clear | ~count.all()))
        m.d.sync += count.eq(more)
