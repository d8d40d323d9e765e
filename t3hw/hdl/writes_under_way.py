"""Writes under way: which of the last writes go to a given beat."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["WritesUnderWay"]


class WritesUnderWay(wiring.Component):
    """Remember the beats of the writes of the last ``cycles`` cycles, and compare them with one.

    Latency 1 cycle from ``issue`` to ``match``, 0 from ``beat``; throughput one write and one
    comparison a cycle.

    Parameters
    ----------
    width : int
        Bits of a beat's number.
    cycles : int
        How long a write is remembered, at least 1.

    Members
    -------
    issue : In, ``{valid, beat}``
        A write is issued in this cycle.
    beat : In(width)
        What to compare with.
    match : Out(cycles)
        Bit n: the write that was issued n + 1 cycles ago went to ``beat``.
    """

    def __init__(self, *, width, cycles):
        if not isinstance(cycles, int) or cycles < 1:
            raise ValueError(f"cycles must be an integer of at least 1, not {cycles!r}")
        self._write = data.StructLayout({"valid": 1, "beat": width})
        super().__init__({
            "issue": In(self._write),
            "beat": In(width),
            "match": Out(cycles),
        })

    def elaborate(self, platform):
        m = Module()

        earlier = self.issue
        for age, match in enumerate(self.match):
            write = Signal(self._write, name=f"write_{age}")
            m.d.sync += write.eq(earlier)
            m.d.comb += match.eq(write.valid & (write.beat == self.beat))
            earlier = write

        return m
