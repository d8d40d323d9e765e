"""Packet merge: two streams of packets into one, a packet at a time."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PacketMerge"]


class PacketMerge(wiring.Component):
    """Let packets of two streams through in turn; a packet is never cut.

    Latency 0 cycles; throughput one transfer a cycle, also from packet to packet. When both ask,
    the one that had no turn last is next. A choice stands once it is offered.

    Parameters
    ----------
    shape : shape-like
        Payload, with a field ``last``.
    ahead : bool
        The choice is a register, for the speed of ``a``: ``b`` waits a cycle for its turn, and one
        more after each of its packets. For a ``b`` that asks seldom.

    Members
    -------
    a, b : In, streams of ``shape``
        In.
    o : Out, stream of ``shape``
        Out.
    """

    def __init__(self, *, shape, ahead=False):
        self._ahead = ahead
        super().__init__({
            "a": In(stream.Signature(shape)),
            "b": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()

        second = Signal()
        m.d.comb += [
            self.o.valid.eq(Mux(second, self.b.valid, self.a.valid)),
            self.o.payload.eq(Mux(second, self.b.payload, self.a.payload)),
            self.a.ready.eq(self.o.ready & ~second),
            self.b.ready.eq(self.o.ready & second),
        ]
        if self._ahead:
            self._choose_ahead(m, second)
        else:
            self._choose(m, second)
        return m

    def _choose(self, m, second):
        under_way = Signal()
        chosen = Signal()
        previous = Signal()
        with m.If(under_way):
            m.d.comb += second.eq(chosen)
        with m.Elif(self.a.valid & self.b.valid):
            m.d.comb += second.eq(~previous)
        with m.Else():
            m.d.comb += second.eq(self.b.valid)
        with m.If(self.o.valid):
            m.d.sync += [under_way.eq(1), chosen.eq(second)]
            with m.If(self.o.ready & self.o.payload.last):
                m.d.sync += [under_way.eq(0), previous.eq(second)]

    def _choose_ahead(self, m, second):
        under_way = Signal()  # a packet of ``a``
        with m.If(second):
            with m.If(self.b.valid & self.o.ready & self.b.payload.last):
                m.d.sync += second.eq(0)
        with m.Elif(self.a.valid):
            with m.If(self.o.ready):
                m.d.sync += [
                    under_way.eq(~self.a.payload.last),
                    second.eq(self.b.valid & self.a.payload.last),
                ]
        with m.Else():
            m.d.sync += second.eq(self.b.valid & ~under_way)
