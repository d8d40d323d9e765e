"""UART: bytes on a serial line, one start bit, eight data bits, one stop bit, no parity."""

from fractions import Fraction

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["UartReceiver", "UartTransmitter", "checked_bit_cycles"]

#: Bits of the fraction of a bit's cycles.
FRACTION_BITS = 4


def checked_bit_cycles(bit_cycles):
    """``bit_cycles`` in 1/16 cycle, if it is a number from 4 to 65535; anything else is a
    ValueError."""
    if (isinstance(bit_cycles, bool) or not isinstance(bit_cycles, (int, float, Fraction))
            or not 4 <= bit_cycles <= 65535):
        raise ValueError(f"bit_cycles must be a number from 4 to 65535, not {bit_cycles!r}")
    return round(bit_cycles * 2**FRACTION_BITS)


class BitTimer(wiring.Component):
    """Tell when a bit's time is over, again and again.

    Latency: `tick` is high in the last cycle of a bit. The first bit begins behind the last cycle
    of ``hold``. Bits are longer or shorter by less than a cycle, so that they are right on average.

    Parameters
    ----------
    bit_cycles : number
        Cycles of a bit; fractions are in 1/16.
    first : number
        Cycles of the first bit, without a fraction.

    Members
    -------
    hold : In(1)
        Begin anew.
    tick : Out(1)
        A bit's time is over. Meaningless during ``hold``.
    """

    hold: In(1)
    tick: Out(1)

    def __init__(self, *, bit_cycles, first):
        self._whole, self._part = divmod(checked_bit_cycles(bit_cycles), 2**FRACTION_BITS)
        self._first = first
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        count = Signal(range(self._whole + 1))
        longer = Signal()
        m.d.comb += self.tick.eq(count == 0)
        if self._part:
            fraction = Signal(FRACTION_BITS)
            total = Signal(FRACTION_BITS + 1)
            m.d.comb += [total.eq(fraction + self._part), longer.eq(total[-1])]
            with m.If(self.tick & ~self.hold):
                m.d.sync += fraction.eq(total)
        with m.If(self.hold):
            m.d.sync += count.eq(self._first - 1)
        with m.Elif(self.tick):
            m.d.sync += count.eq(Mux(longer, self._whole, self._whole - 1))
        with m.Else():
            m.d.sync += count.eq(count - 1)
        return m


class UartReceiver(wiring.Component):
    """Take bytes from a serial line.

    The line goes through two flip-flops. What counts is the majority of three samples, so that a
    spike of one cycle is nothing, neither in a bit's middle nor as a start. After a byte without a
    stop bit nothing is taken before the line is high again.

    Latency `latency` cycles from the middle of the stop bit to ``o``, and one cycle more or less;
    throughput one byte in ten bits, without gaps.

    Parameters
    ----------
    bit_cycles : number
        Cycles of a bit, at least 4; fractions are in 1/16.

    Members
    -------
    rx : In(1)
        The line, asynchronous.
    o : stream of 8 bits, always ready
        Bytes.
    error : Out(1)
        Pulse: a byte had no stop bit, and is lost.
    active : Out(1)
        The line is not at rest: it is low, or a byte is under way.

    Raises
    ------
    ValueError
        If ``bit_cycles`` is out of its range.
    """

    latency = 4

    def __init__(self, *, bit_cycles):
        self._bit_cycles = bit_cycles
        self._half = checked_bit_cycles(bit_cycles) >> FRACTION_BITS + 1
        super().__init__({
            "rx": In(1, init=1),
            "o": Out(stream.Signature(8, always_ready=True)),
            "error": Out(1),
            "active": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        # The first two are the synchroniser.
        # No reset: the line is at rest, whatever the reset does.
        samples = Signal(4, init=0b1111, reset_less=True)
        level = Signal()
        m.d.sync += samples.eq(Cat(self.rx, samples))
        old, middle, new = samples[3], samples[2], samples[1]
        m.d.comb += level.eq(old & middle | middle & new | new & old)

        m.submodules.timer = timer = BitTimer(bit_cycles=self._bit_cycles, first=self._half)
        number = Signal(range(10))
        m.d.sync += [self.o.valid.eq(0), self.error.eq(0)]
        with m.FSM():
            with m.State("REST"):
                m.d.comb += [timer.hold.eq(1), self.active.eq(~level)]
                m.d.sync += number.eq(0)
                with m.If(~level):
                    m.next = "BITS"
            with m.State("BITS"):
                m.d.comb += self.active.eq(1)
                with m.If(timer.tick):
                    m.d.sync += number.eq(number + 1)
                    with m.If(number == 9):
                        m.d.sync += [self.o.valid.eq(level), self.error.eq(~level)]
                        # The next start bit may come at once, so there is no time to lose.
                        with m.If(level):
                            m.next = "REST"
                        with m.Else():
                            m.next = "BREAK"
                    with m.Elif((number == 0) & level):
                        m.next = "REST"
                    with m.Else():
                        m.d.sync += self.o.payload.eq(Cat(self.o.payload[1:], level))
            with m.State("BREAK"):
                m.d.comb += self.active.eq(~level)
                with m.If(level):
                    m.next = "REST"

        return m


class UartTransmitter(wiring.Component):
    """Send bytes on a serial line.

    Latency 1 cycle from ``i`` to the start bit; throughput one byte in ten bits, without gaps.

    Parameters
    ----------
    bit_cycles : number
        Cycles of a bit, at least 4; fractions are in 1/16.

    Members
    -------
    i : stream of 8 bits
        Bytes.
    tx : Out(1)
        The line; registered.

    Raises
    ------
    ValueError
        If ``bit_cycles`` is out of its range.
    """

    def __init__(self, *, bit_cycles):
        self._bit_cycles = bit_cycles
        self._whole = checked_bit_cycles(bit_cycles) >> FRACTION_BITS
        super().__init__({
            "i": In(stream.Signature(8)),
            "tx": Out(1, init=1),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.timer = timer = BitTimer(bit_cycles=self._bit_cycles, first=self._whole)
        left = Signal(range(11))
        bits = Signal(9, init=0x1FF)
        rests = Signal()
        m.d.comb += [
            rests.eq(left == 0),
            timer.hold.eq(rests),
            self.i.ready.eq(rests | (left == 1) & timer.tick),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [self.tx.eq(0), bits.eq(Cat(self.i.payload, 1)), left.eq(10)]
        with m.Elif(timer.tick & ~rests):
            m.d.sync += [self.tx.eq(bits[0]), bits.eq(Cat(bits[1:], 1)), left.eq(left - 1)]

        return m
