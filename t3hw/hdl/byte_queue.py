"""Byte queue: a deep queue in block RAM for what comes slowly."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["ByteQueue", "line_byte"]

#: A byte from the line; ``first``: the line was silent before it.
line_byte = data.StructLayout({"byte": 8, "first": 1})


class ByteQueue(wiring.Component):
    """Queue of ``depth`` bytes, and one more.

    What block RAM reads goes to a register and nowhere else, so that the clock may be fast. A byte
    is never read in the cycle in which it is written.

    Latency 3 cycles from ``i`` to ``o``; throughput one byte a cycle in, one in 3 cycles out.

    Parameters
    ----------
    depth : int
        Bytes, a power of two from 2 on.

    Members
    -------
    i, o : stream of `line_byte`
        In and out.
    waiting : Out(1)
        There is more to come at ``o``; a byte that is there does not count.

    Raises
    ------
    ValueError
        If ``depth`` is no power of two.
    """

    def __init__(self, *, depth):
        if type(depth) is not int or depth < 2 or depth & depth - 1:
            raise ValueError(f"depth must be a power of two of at least 2, not {depth!r}")
        self._depth = depth
        super().__init__({
            "i": In(stream.Signature(line_byte)),
            "o": Out(stream.Signature(line_byte)),
            "waiting": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.storage = storage = Memory(shape=line_byte, depth=self._depth, init=[])
        write = storage.write_port()
        read = storage.read_port()
        # One bit more than an address, so that full and empty differ.
        put_at = Signal(range(2 * self._depth))
        get_at = Signal(range(2 * self._depth))
        asked = Signal()
        m.d.comb += [
            self.waiting.eq(put_at != get_at),
            self.i.ready.eq((put_at ^ get_at) != self._depth),
            write.addr.eq(put_at),
            write.data.eq(self.i.payload),
            write.en.eq(self.i.valid & self.i.ready),
            read.addr.eq(get_at),
            read.en.eq(self.waiting & ~asked & ~self.o.valid),
        ]
        m.d.sync += asked.eq(read.en)
        with m.If(write.en):
            m.d.sync += put_at.eq(put_at + 1)
        with m.If(asked):
            m.d.sync += [
                self.o.payload.eq(read.data),
                self.o.valid.eq(1),
                get_at.eq(get_at + 1),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)

        return m
