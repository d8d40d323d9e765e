"""Stream spare: cuts the way back between two blocks, and costs no time."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["StreamSpare"]


class StreamSpare(wiring.Component):
    """A place for a transfer that comes when the receiver is not ready.

    Latency 0 cycles; throughput one transfer a cycle. ``i.ready`` is a register.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.

    Members
    -------
    i, o : stream of ``shape``
        In and out.
    """

    def __init__(self, *, shape):
        self._shape = shape
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()

        full = Signal()
        spare = Signal(self._shape)
        m.d.comb += [
            self.i.ready.eq(~full),
            self.o.valid.eq(full | self.i.valid),
            self.o.payload.eq(Mux(full, spare, self.i.payload)),
        ]
        m.d.sync += full.eq(self.o.valid & ~self.o.ready)
        with m.If(~full):
            m.d.sync += spare.eq(self.i.payload)

        return m
