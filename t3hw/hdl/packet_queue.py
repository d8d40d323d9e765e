"""Packet queue: holds a packet back until all of it is there."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .counting import waits_next
from .prefetch_queue import PrefetchQueue

__all__ = ["PacketQueue"]


class PacketQueue(wiring.Component):
    """Queue that shows a packet at ``o`` only when its last beat is in.

    What follows is never held up in the middle of a packet by a source that stops there. Latency
    `latency` cycles from a packet's last beat at ``i`` to its first at ``o``; throughput one beat a
    cycle.

    Parameters
    ----------
    shape : shape-like
        Payload, with a field ``last``.
    depth : int
        Beats that the queue holds: at least the longest packet, or that would never leave; twice
        that, and 4 at least, for full throughput.

    Members
    -------
    i, o : stream of ``shape``
        In and out.

    Raises
    ------
    ValueError
        If ``depth`` is not at least 1.
    """

    #: Cycles from a packet's last beat at ``i`` to its first at ``o``.
    latency = PrefetchQueue.latency

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

        m.submodules.queue = queue = PrefetchQueue(shape=self._shape, depth=self._depth)
        # Packets whose last beat can be taken as soon as those before it have been, and whether
        # there are any.
        packets = Signal(range(self._depth + 1))
        whole = Signal()
        came = Signal(self.latency - 1)
        went = Signal()
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(self.i.payload),
            self.i.ready.eq(queue.i.ready),
            self.o.valid.eq(whole),
            self.o.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.o.valid & self.o.ready),
            went.eq(queue.o.ready & self.o.payload.last),
        ]
        m.d.sync += [
            came.eq(Cat(self.i.valid & self.i.ready & self.i.payload.last, came)),
            packets.eq(packets + came[-1] - went),
            whole.eq(waits_next(whole, packets, came[-1], went)),
        ]

        return m
