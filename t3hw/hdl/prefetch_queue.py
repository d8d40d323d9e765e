"""Prefetch queue: a deep FIFO that reads ahead, for nothing is fast behind a large memory."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .counting import next_place, room_next

__all__ = ["PrefetchQueue"]


class PrefetchQueue(wiring.Component):
    """Queue of ``depth`` transfers between two streams, with all of ``o`` from registers.

    A block RAM takes most of a cycle to show what was asked for. Here nothing but a register
    follows it: transfers are read ahead of time, through the memory's own register and that of
    ``o``. Their places in the memory are free again when they have left ``o``.

    Latency `latency` cycles from ``i`` to ``o``; throughput one transfer a cycle.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.
    depth : int
        Transfers that the queue holds, at least 1. Below 4 it does not keep up its throughput.
    attrs : dict
        Further attributes of the memory.
    reserved : bool
        Whoever puts something in knows that there is room: ``i.ready`` is always high, and what
        comes nevertheless destroys what is there.

    Members
    -------
    i, o : stream of ``shape``
        In and out.

    Raises
    ------
    ValueError
        If ``depth`` is not at least 1.
    """

    #: Cycles from ``i`` to ``o`` of an empty queue.
    latency = 3

    def __init__(self, *, shape, depth, attrs={}, reserved=False):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be an integer of at least 1, not {depth!r}")
        self._shape = shape
        self._depth = depth
        self._attrs = dict(attrs)
        self._reserved = reserved
        super().__init__({
            "i": In(stream.Signature(shape, always_ready=reserved)),
            "o": Out(stream.Signature(shape)),
        })

    def elaborate(self, platform):
        m = Module()

        # At least two places, or equal pointers would not mean that all has been read.
        places = max(self._depth, 2)
        # No place is read in the cycle in which it is written; synthesis does not see that.
        m.submodules.storage = storage = Memory(shape=self._shape, depth=places, init=[],
                                                attrs={"no_rw_check": 1} | self._attrs)
        write = storage.write_port()
        read = storage.read_port()

        put = Signal()
        put_at = Signal(range(places))
        read_at = Signal(range(places))
        fetch = Signal()
        fetched = Signal()  # the memory shows something that is not in ``o`` yet
        step = Signal()
        m.d.comb += [
            put.eq(self.i.valid & self.i.ready),
            write.addr.eq(put_at),
            write.data.eq(self.i.payload),
            write.en.eq(put),
            step.eq(~self.o.valid | self.o.ready),
            # What is put in is read in the next cycle at the latest as long as nothing waits before
            # it. So not all places are ever full and unread.
            fetch.eq((read_at != put_at) & (~fetched | step)),
            read.addr.eq(read_at),
            read.en.eq(fetch),
        ]
        m.d.sync += fetched.eq(fetch | (fetched & ~step))
        with m.If(put):
            m.d.sync += put_at.eq(next_place(put_at, places))
        with m.If(fetch):
            m.d.sync += read_at.eq(next_place(read_at, places))
        with m.If(step):
            m.d.sync += [
                self.o.valid.eq(fetched),
                self.o.payload.eq(read.data),
            ]
        if not self._reserved:
            self._count(m, put)

        return m

    def _count(self, m, put):
        """``i.ready`` from a register: whether there is room."""
        level = Signal(range(self._depth + 1))
        room = Signal(init=1)
        taken = Signal()
        m.d.comb += [
            taken.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(room),
        ]
        m.d.sync += [
            level.eq(level + put - taken),
            room.eq(room_next(room, level, self._depth, put, taken)),
        ]
