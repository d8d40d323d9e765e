"""Deep queue: a long FIFO whose output does not come from a block RAM."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .stream_queue import StreamQueue

__all__ = ["DeepQueue"]


class DeepQueue(wiring.Component):
    """Queue of at least ``depth`` transfers with a short way out, for what feeds logic at once.

    A block RAM answers late in the cycle. Here it only refills a front of LUT RAM, by way of a
    register, and what finds the block RAM empty goes to the front directly. The front holds more
    than the refill takes cycles, so nobody sees the way round.

    Latency 1 cycle from ``i`` to ``o``; throughput one transfer a cycle, always.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.
    depth : int
        Transfers that the queue holds at least, at least 1. Up to `front` are held without a block
        RAM.

    Members
    -------
    i, o : stream of ``shape``
        In and out.

    Attributes
    ----------
    front : int
        Transfers in front of the block RAM.

    Raises
    ------
    ValueError
        If ``depth`` is not at least 1.
    """

    front = 16

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

        depth = self._depth
        m.submodules.front = front = StreamQueue(shape=self._shape, depth=min(depth, self.front))
        wiring.connect(m, front.o, wiring.flipped(self.o))
        if depth <= self.front:
            wiring.connect(m, wiring.flipped(self.i), front.i)
            return m

        # The long way: memory, its read port's register, and another one. ``level`` counts all. A
        # place is read in a later cycle than it is written in, so collisions do not matter.
        m.submodules.storage = storage = Memory(
            shape=self._shape, depth=depth, init=[], attrs={"no_rw_check": 1})
        write = storage.write_port()
        read = storage.read_port()
        level = Signal(range(depth + 1))
        room = Signal(init=1)
        used = Signal()
        fetched = Signal()
        between_valid = Signal()
        between = Signal(self._shape, reset_less=True)
        put = Signal()
        get = Signal()
        direct = Signal()
        m.d.comb += [
            # In order: directly only when nothing is on the long way, and then it may.
            direct.eq(front.i.ready & ~used),
            put.eq(self.i.valid & room & ~direct),
            get.eq(between_valid & front.i.ready),
            self.i.ready.eq(room),
            front.i.valid.eq(between_valid | (self.i.valid & ~used)),
            front.i.payload.eq(Mux(between_valid, between, self.i.payload)),
            write.data.eq(self.i.payload),
            write.en.eq(room),
            read.en.eq(~fetched | ~between_valid | front.i.ready),
        ]
        with m.If(put):
            m.d.sync += write.addr.eq(_after(write.addr, depth))
        with m.If(read.en):
            m.d.sync += fetched.eq(read.addr != write.addr)
            with m.If(read.addr != write.addr):
                m.d.sync += read.addr.eq(_after(read.addr, depth))
        with m.If(~between_valid | front.i.ready):
            m.d.sync += [
                between_valid.eq(fetched),
                between.eq(read.data),
            ]
        with m.If(put & ~get):
            m.d.sync += [level.eq(level + 1), room.eq(level != depth - 2), used.eq(1)]
        with m.If(get & ~put):
            m.d.sync += [level.eq(level - 1), room.eq(1), used.eq(level != 1)]

        return m


def _after(pointer, depth):
    """The place after ``pointer`` in a memory of ``depth``."""
    if depth == 1 << len(pointer):
        return pointer + 1
    return Mux(pointer == depth - 1, 0, pointer + 1)
