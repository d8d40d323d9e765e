"""Packet queue: holds a packet back until all of it is there."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .stream_queue import StreamQueue

__all__ = ["PacketQueue"]


class PacketQueue(wiring.Component):
    """Queue that shows a packet at ``o`` only when its last beat is in.

    What follows is never held up in the middle of a packet by a source that stops there. Latency 1
    cycle from a packet's last beat at ``i`` to its first at ``o``; throughput one beat a cycle.

    Parameters
    ----------
    shape : shape-like
        Payload, with a field ``last``.
    depth : int
        Beats that the queue holds: at least the longest packet, or that would never leave; twice
        that for full throughput.

    Members
    -------
    i, o : stream of ``shape``
        In and out.

    Raises
    ------
    ValueError
        If ``depth`` is not at least 1.
    """

    def __init__(self, *, shape, depth):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be an integer of at least 1, not {depth!r}")
        self._shape = shape
        self._depth = depth
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.queue = queue = StreamQueue(shape=self._shape, depth=self._depth)
        packets = Signal(range(self._depth + 1))
        came = Signal()
        went = Signal()
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(self.i.payload),
            self.i.ready.eq(queue.i.ready),
            self.o.valid.eq(packets != 0),
            self.o.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.o.valid & self.o.ready),
            came.eq(self.i.valid & self.i.ready & self.i.payload.last),
            went.eq(queue.o.ready & self.o.payload.last),
        ]
        m.d.sync += packets.eq(packets + came - went)

        return m
