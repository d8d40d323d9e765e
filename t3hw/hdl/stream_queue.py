"""Stream queue: the one FIFO of the design."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["StreamQueue"]


class StreamQueue(wiring.Component):
    """Queue of ``depth`` transfers between two streams.

    Latency 1 cycle from ``i`` to ``o``; throughput one transfer a cycle, also when full or empty in
    turn. Storage is a memory with a registered read port, so it maps to block RAM or LUT RAM.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.
    depth : int
        Transfers that the queue holds, at least 1.

    Members
    -------
    i, o : stream of ``shape``
        In and out.
    level : Out(range(depth + 1))
        Transfers in the queue, registered.

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
            "level": Out(range(depth + 1)),
        })

    def elaborate(self, platform):
        m = Module()

        # Not less than two places, since Verilog has no signals without bits.
        places = max(self._depth, 2)
        m.submodules.storage = storage = Memory(shape=self._shape, depth=places, init=[])
        write = storage.write_port()
        read = storage.read_port(transparent_for=[write])

        def after(pointer):
            if self._depth == 1 << len(pointer):
                return pointer + 1
            return Mux(pointer == self._depth - 1, 0, pointer + 1)

        put = Signal()
        get = Signal()
        put_at = Signal(range(places))
        get_at = Signal(range(places))
        get_next = Signal(range(places))
        # Whether a place is free and whether one is used are registers of their own, so that no
        # handshake begins with a comparison.
        room = Signal(init=1)
        some = Signal()
        m.d.comb += [
            self.i.ready.eq(room),
            self.o.valid.eq(some),
            put.eq(self.i.valid & self.i.ready),
            get.eq(self.o.valid & self.o.ready),
            write.addr.eq(put_at),
            write.data.eq(self.i.payload),
            # Without ``put`` it writes what the next one replaces, and the enable comes early.
            write.en.eq(room),
            # The read port runs one cycle ahead, on the address that is first in the next cycle.
            get_next.eq(Mux(get, after(get_at), get_at)),
            read.addr.eq(get_next),
            self.o.payload.eq(read.data),
        ]
        m.d.sync += get_at.eq(get_next)
        with m.If(put & ~get):
            m.d.sync += [
                self.level.eq(self.level + 1),
                room.eq(self.level != self._depth - 1),
                some.eq(1),
            ]
        with m.If(get & ~put):
            m.d.sync += [
                self.level.eq(self.level - 1),
                room.eq(1),
                some.eq(self.level != 1),
            ]
        with m.If(put):
            m.d.sync += put_at.eq(after(put_at))

        return m
