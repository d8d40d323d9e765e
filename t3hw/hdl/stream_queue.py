"""Stream queue: the general FIFO of the design."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .counting import count_late, next_place, room_next, waits_next

__all__ = ["StreamQueue"]

#: Deepest queue whose memory is read in the cycle in which it is asked.
_SHALLOW = 33
#: Depth of the queue behind a block RAM: what leaves while a transfer that has come is counted,
#: asked for and answered.
_FRONT = 5


class StreamQueue(wiring.Component):
    """Queue of ``depth`` transfers between two streams.

    Latency 1 cycle from ``i`` to ``o``; throughput one transfer a cycle, also when full or empty in
    turn. ``o.valid``, ``o.payload`` and ``i.ready`` come from registers: what lies between two
    blocks is cut here. Shallow queues are LUT RAM behind that register; deep ones are block RAM,
    whose output goes to a register and nothing else, behind a shallow queue.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.
    depth : int
        Transfers that the queue holds, at least 1. With 1 its throughput is a transfer in two
        cycles.
    cut : bool
        Without it the queue is a single register, whatever its ``depth``, and ``i.ready`` is a gate
        away from ``o.ready``: the throughput is that of ``o``.

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

    def __init__(self, *, shape, depth, cut=True):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be an integer of at least 1, not {depth!r}")
        self._shape = shape
        self._depth = depth
        self._cut = cut
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
            "level": Out(range(depth + 1)),
        })

    def elaborate(self, platform):
        m = Module()

        if not self._cut:
            m.d.comb += [
                self.i.ready.eq(~self.o.valid | self.o.ready),
                self.level.eq(self.o.valid),
            ]
            with m.If(self.i.ready):
                m.d.sync += [
                    self.o.valid.eq(self.i.valid),
                    self.o.payload.eq(self.i.payload),
                ]
            return m

        put = Signal()
        get = Signal()
        room = Signal(init=1)
        m.d.comb += [
            put.eq(self.i.valid & room),
            get.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(room),
        ]
        m.d.sync += room.eq(room_next(room, self.level, self._depth, put, get))
        count_late(m, self.level, up=put, down=get)
        if self._depth <= _SHALLOW:
            self._shallow(m, put, room)
        else:
            self._deep(m, put)
        return m

    def _shallow(self, m, put, room):
        """The output's register, and a memory for what comes while that is taken."""
        waits = Signal()
        take = Signal()
        oldest = Signal(self._shape)
        m.d.comb += take.eq(~self.o.valid | self.o.ready)
        with m.If(take):
            m.d.sync += [
                self.o.valid.eq(waits | put),
                self.o.payload.eq(Mux(waits, oldest, self.i.payload)),
            ]
        places = self._depth - 1
        if not places:
            return

        store = Signal()
        fetch = Signal()
        waiting = Signal(range(places + 1))
        m.d.comb += [
            store.eq(put & (waits | ~take)),
            fetch.eq(waits & take),
        ]
        # What ``store`` and ``fetch`` come to, with ``take`` last, since that comes late.
        m.d.sync += [
            waits.eq(Mux(take, waits & (put | (waiting != 1)), waits | put)),
            waiting.eq(Mux(take, waiting - (waits & ~put), waiting + put)),
        ]
        if places == 1:
            spare = Signal(self._shape, reset_less=True)
            m.d.comb += oldest.eq(spare)
            # What comes without ``store`` is replaced by the next one, and the enable comes early.
            with m.If(~waits):
                m.d.sync += spare.eq(self.i.payload)
            return

        m.submodules.storage = storage = Memory(shape=self._shape, depth=places, init=[])
        write = storage.write_port()
        # A mux follows, so that no tool takes the register behind it into a block RAM.
        read = storage.read_port(domain="comb")
        m.d.comb += [
            write.data.eq(self.i.payload),
            # Without ``store`` it writes what the next one replaces, and the enable comes early.
            write.en.eq(room),
            oldest.eq(read.data),
        ]
        for port, moves in ((write, store), (read, fetch)):
            at = Signal(range(places))
            m.d.comb += port.addr.eq(at)
            with m.If(moves):
                m.d.sync += at.eq(next_place(at, places))

    def _deep(self, m, put):
        """A front queue that has its transfers from ``i`` while the block RAM is empty."""
        m.submodules.front = front = StreamQueue(shape=self._shape, depth=_FRONT)
        # It never is full, since a transfer that waits there is asked for at once as long as the
        # front queue has space: so what is read is never written, and needs no logic for that case.
        m.submodules.storage = storage = Memory(shape=self._shape, depth=self._depth, init=[],
                                                attrs={"no_rw_check": 1})
        write = storage.write_port()
        read = storage.read_port()

        # Places of the front queue, counted when something is sent there.
        reserved = Signal(range(_FRONT + 1))
        space = Signal(init=1)
        put_at = Signal(range(self._depth))
        get_at = Signal(range(self._depth))
        stored = Signal(range(self._depth + 1))
        waits = Signal()
        direct = Signal()
        store = Signal()
        stores = Signal()
        fetch = Signal()
        asked = Signal()
        answered = Signal()
        answer = Signal(self._shape, reset_less=True)
        leaves = Signal()
        m.d.comb += [
            fetch.eq(waits & space),
            direct.eq(put & ~(waits | stores | asked | answered) & space),
            store.eq(put & ~direct),
            write.addr.eq(put_at),
            write.data.eq(self.i.payload),
            # Without ``store`` it writes what the next one replaces, and the enable comes early.
            write.en.eq(1),
            read.addr.eq(get_at),
            read.en.eq(fetch),
            front.i.valid.eq(answered | direct),
            front.i.payload.eq(Mux(answered, answer, self.i.payload)),
            self.o.valid.eq(front.o.valid),
            self.o.payload.eq(front.o.payload),
            front.o.ready.eq(self.o.ready),
            leaves.eq(front.o.valid & front.o.ready),
        ]
        m.d.sync += [
            stores.eq(store),
            waits.eq(waits_next(waits, stored, stores, fetch)),
            asked.eq(fetch),
            answered.eq(asked),
            answer.eq(read.data),
            space.eq(room_next(space, reserved, _FRONT, fetch | direct, leaves)),
        ]
        # What is stored comes late in its cycle, and is counted in the next.
        count_late(m, stored, up=stores, down=fetch)
        count_late(m, reserved, up=fetch | direct, down=leaves)
        with m.If(store):
            m.d.sync += put_at.eq(next_place(put_at, self._depth))
        with m.If(fetch):
            m.d.sync += get_at.eq(next_place(get_at, self._depth))
