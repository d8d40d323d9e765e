"""First touch: decides, lane by lane, whether an update stores or adds."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..config import DTYPE_BYTES, DTYPE_NAMES, checked_config
from .counting import count_late, room_next, waits_next
from .seams import (Dtype, ErrorCause, MemoryOp, Writer, clear_range, error_event, memory_access,
                    memory_request, touch_tag)

__all__ = ["FirstTouch"]

#: Entries of the map in a bank.
#: A larger memory would choose between block RAMs behind their outputs.
_BANK = 1 << 14


class FirstTouch(wiring.Component):
    """Turn requests into accesses: the first of an element's two writers stores, the second adds.

    The map has an entry for each beat of update buffers, and in it a bit for each writer and 16-bit
    lane. A bit is set when it equals the parity of the plan's epoch, so the next epoch finds it
    unset and nothing is cleared between runs. Therefore both writers must touch an element in each
    run.

    An update that has ``touch.enable`` adds where the other writer's bit is set, stores elsewhere,
    and sets its own bits. Where its own bit is set already it is a duplicate. Other updates add
    everywhere, stores store, and reads pass. What an update must not do is taken out of its strobe
    and reported: elements of which only some bytes are strobed (``PARTIAL_ELEMENT``), duplicates
    (``DUPLICATE_UPDATE``), and all of it if no adder for its type was built (``MISSING_DTYPE``).
    What is left, nothing at all perhaps, goes on, since a response depends on it.

    Latency `latency` cycles from ``request`` to ``access``; throughput one request a cycle, any two
    for the same entry included. A request with two causes of error takes one cycle more, and while
    a range is being cleared every other cycle may be lost.

    The stages never stand still: a request is taken when there is room for it at the end. What
    decides nothing waits there for what does.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Attributes
    ----------
    latency : int
        Cycles from ``request`` to ``access``, if nothing waits.
    places : int
        Requests between ``request`` and ``access`` at most.

    Members
    -------
    request : In, stream of `memory_request`
        What to do.
    access : Out, stream of `memory_access`
        The same, in the same order, registered.
    clear : In, stream of `clear_range`
        Forget the map's entries ``first_touch`` to ``last_touch`` (modulo the map's size), one a
        cycle while no request comes. Ready for one cycle when requests accepted from then on find
        them clear.
    error : Out, stream of `error_event`, always ready
        What was wrong with a request.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    #: Map, its register, choice of the entry, rules, output.
    latency = 5
    #: As many as there are cycles from a request to the place that it has left.
    places = 8

    def __init__(self, *, config):
        self._config = checked_config(config)
        super().__init__({
            "request": In(stream.Signature(memory_request(config))),
            "access": Out(stream.Signature(memory_access(config))),
            "clear": In(stream.Signature(clear_range(config))),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        lanes = config.lanes
        request = self.request.payload

        # Requests from their entry to their end. Whoever enters has a place.
        under_way = Signal(range(self.places + 1))
        room = Signal(init=1)
        enters = Signal()
        leaves = Signal()
        clears_turn = Signal()
        m.d.comb += [
            self.request.ready.eq(room & ~clears_turn),
            enters.eq(self.request.valid & self.request.ready),
        ]
        m.d.sync += room.eq(room_next(room, under_way, self.places, enters, leaves))
        count_late(m, under_way, up=enters, down=leaves)

        # The clear walks through the same stages; a request that waits has every other turn. Whose
        # turn it is a register says, since the map's address depends on it.
        walk = Signal(range(config.touch_beats))
        with m.FSM(name="clear_state"):
            with m.State("IDLE"):
                m.d.sync += walk.eq(self.clear.payload.first_touch)
                with m.If(self.clear.valid):
                    with m.If(self.clear.payload.any_touch):
                        m.d.sync += clears_turn.eq(1)
                        m.next = "WALK"
                    with m.Else():
                        m.next = "DONE"
            with m.State("WALK"):
                m.d.sync += clears_turn.eq(~(clears_turn & self.request.valid))
                with m.If(clears_turn):
                    m.d.sync += walk.eq(walk + 1)
                    with m.If(walk == self.clear.payload.last_touch):
                        m.d.sync += clears_turn.eq(0)
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.clear.ready.eq(1)
                m.next = "IDLE"

        # What decides what becomes of a request, or of a step of the clear. Stage n is n cycles
        # behind the entry.
        wide_dtypes = [name for name in DTYPE_NAMES if DTYPE_BYTES[name] == 4]
        stage_layout = data.StructLayout({
            "clear": 1,
            "write": 1,
            "update": 1,
            "known": 1,
            "wide": 1,
            "strobe": config.beat_bytes,
            "touch": touch_tag(config),
        })
        stages = [Signal(stage_layout, name=f"stage_{number}") for number in range(4)]
        valid = Signal(4)
        entering = stages[0]
        index = entering.touch.index
        m.d.comb += [
            valid[0].eq(enters),
            entering.clear.eq(clears_turn),
            entering.write.eq(request.op != MemoryOp.READ),
            entering.update.eq(request.op == MemoryOp.UPDATE),
            entering.known.eq(_one_of(request.dtype, config.dtypes)),
            entering.wide.eq(_one_of(request.dtype, wide_dtypes)),
            entering.strobe.eq(request.strobe),
            entering.touch.eq(request.touch),
            index.eq(Mux(clears_turn, walk, request.touch.index)),
        ]
        for before, after in zip(stages, stages[1:]):
            m.d.sync += after.eq(before)
        m.d.sync += valid[1:].eq(valid[:-1])

        # Who writes the map, and where, one stage longer than it takes.
        writes = Signal(6)
        indices = [stage.touch.index for stage in stages]
        indices += [Signal(index.shape(), name=f"index_{number}") for number in (4, 5)]
        m.d.comb += writes[0].eq(clears_turn
                                 | enters & entering.update & request.touch.enable)
        m.d.sync += [
            writes[1:].eq(writes[:-1]),
            indices[4].eq(indices[3]),
            indices[5].eq(indices[4]),
        ]

        # Stage 1, the map answers, in banks, so that its answer goes to a register and nowhere
        # else; it is there in stage 2. What is found in stage 3 is written in stage 4: answers miss
        # the entries of the four before, which are kept as long. So it does not matter what the map
        # returns that is written in the same cycle; saying so spares the logic that would make a
        # block RAM return what was there before.
        entry_layout = data.StructLayout({"local": lanes, "incoming": lanes})
        after = Signal(entry_layout)
        kept = [Signal(entry_layout, name=f"kept_{age}") for age in range(3)]
        m.d.sync += [later.eq(earlier) for earlier, later in zip([after, *kept], kept)]
        bank_bits = ceil_log2(min(config.touch_beats, _BANK))
        answers = []
        for bank in range(config.touch_beats >> bank_bits):
            map_ = Memory(shape=entry_layout, depth=1 << bank_bits, init=[],
                          attrs={"no_rw_check": 1})
            m.submodules[f"map_{bank}"] = map_
            write = map_.write_port()
            read = map_.read_port()
            answer = Signal(entry_layout, name=f"answer_{bank}")
            m.d.comb += [
                write.addr.eq(indices[4][:bank_bits]),
                write.data.eq(kept[0]),
                write.en.eq(writes[4] & _is_bank(indices[4][bank_bits:], bank)),
                read.addr.eq(index[:bank_bits]),
            ]
            m.d.sync += answer.eq(read.data)
            answers.append(answer)

        # Stage 2 takes the answer, or what the second to fourth before have written; stage 3, what
        # the one before has.
        newer = Signal(3)
        newest = Signal()
        entry = Signal(entry_layout)
        found = Signal(entry_layout)
        m.d.sync += [
            newest.eq(writes[3] & (indices[3] == indices[2])),
            newer.eq(Cat(writes[stage] & (indices[stage] == indices[1]) for stage in (3, 4, 5))),
        ]
        with m.If(newer[0]):
            m.d.sync += entry.eq(kept[0])
        with m.Elif(newer[1]):
            m.d.sync += entry.eq(kept[1])
        with m.Elif(newer[2]):
            m.d.sync += entry.eq(kept[2])
        with m.Else():
            for bank, answer in enumerate(answers):
                with m.If(_is_bank(indices[2][bank_bits:], bank)):
                    m.d.sync += entry.eq(answer)
        m.d.comb += found.eq(Mux(newest, kept[0], entry))

        # Stage 3, the rules, a bit per 16-bit lane. The two lanes of a 32-bit element always agree.
        now = stages[3]
        strobed = Signal(lanes)
        whole = Signal(lanes)
        m.d.sync += [
            strobed.eq(_per_element([strobes.any() for strobes in _lanes(stages[2].strobe)],
                                    stages[2].wide)),
            whole.eq(~_per_element([~strobes.all() for strobes in _lanes(stages[2].strobe)],
                                   stages[2].wide)),
        ]
        parity = now.touch.parity.replicate(lanes)
        local = Signal()
        own = Signal(lanes)
        other = Signal(lanes)
        touches = (now.update & now.touch.enable).replicate(lanes)
        duplicate = Signal(lanes)
        active = Signal(lanes)
        updated = Signal(lanes)
        m.d.comb += [
            local.eq(now.touch.writer == Writer.LOCAL),
            own.eq(_per_element(~(Mux(local, found.local, found.incoming) ^ parity), now.wide)),
            other.eq(_per_element(~(Mux(local, found.incoming, found.local) ^ parity), now.wide)),
            duplicate.eq(whole & own & touches),
            active.eq(whole & ~duplicate & now.known.replicate(lanes)),
            updated.eq(Mux(local, found.local, found.incoming) & ~active | parity & active),
            after.local.eq(Mux(local, updated, found.local)),
            after.incoming.eq(Mux(local, found.incoming, updated)),
        ]
        with m.If(now.clear):
            m.d.comb += after.eq(0)
        result = Signal(data.StructLayout({
            "write": 1,
            "add": lanes,
            "strobe": config.beat_bytes,
            "unknown": 1,
            "partial": 1,
            "duplicate": 1,
        }))
        m.d.comb += [
            result.write.eq(now.write),
            result.add.eq(Mux(now.update, active & (other | ~touches), 0)),
            result.strobe.eq(Mux(now.update, Cat(lane.replicate(2) for lane in active),
                                 now.strobe)),
            result.unknown.eq(now.update & ~now.known),
            result.partial.eq(now.update & now.known & (strobed & ~whole).any()),
            result.duplicate.eq(now.update & now.known & duplicate.any()),
        ]

        # The rest of a request has waited for that.
        fields = ("dtype", "source", "tag", "last", "address", "data", "tile")
        rest = data.StructLayout({
            field: memory_access(config)[field].shape for field in fields})
        rests = self._waiting(m, "rests", rest, enters,
                              {field: request[field] for field in fields})
        results = self._waiting(m, "results", result.shape(), valid[3], {"": result})
        there = Signal()
        count = Signal(range(self.places + 1))
        get_at = Signal(range(self.places))
        held = Signal()
        take = Signal()
        pop = Signal()
        m.d.comb += [
            take.eq(~held | leaves),
            pop.eq(take & there),
        ]
        m.d.sync += [
            count.eq(count + valid[3] - pop),
            there.eq(waits_next(there, count, valid[3], pop)),
            get_at.eq(get_at + pop),
        ]
        with m.If(take):
            m.d.sync += held.eq(there)
        for port in (rests, results):
            m.d.comb += [port.addr.eq(get_at), port.en.eq(take)]

        # The error stream takes one event a cycle, so a request with two causes stays for a second
        # one.
        access = self.access.payload
        outcome = results.data
        again = Signal()
        reported = Signal()
        m.d.comb += [
            again.eq(held & outcome.partial & outcome.duplicate & ~reported),
            self.access.valid.eq(held & ~again),
            leaves.eq(self.access.valid & self.access.ready),
            *(access[field].eq(outcome[field]) for field in ("write", "add", "strobe")),
            *(access[field].eq(rests.data[field]) for field in fields),
        ]
        with m.If(again):
            m.d.sync += reported.eq(1)
        with m.If(leaves):
            m.d.sync += reported.eq(0)
        m.d.sync += [
            self.error.valid.eq(again | leaves & (outcome.unknown | outcome.partial
                                                  | outcome.duplicate)),
            self.error.payload.address.eq(access.address),
            self.error.payload.tile.eq(access.tile),
        ]
        with m.If(outcome.unknown):
            m.d.sync += self.error.payload.cause.eq(ErrorCause.MISSING_DTYPE)
        with m.Elif(outcome.partial & ~reported):
            m.d.sync += self.error.payload.cause.eq(ErrorCause.PARTIAL_ELEMENT)
        with m.Else():
            m.d.sync += self.error.payload.cause.eq(ErrorCause.DUPLICATE_UPDATE)

        return m

    def _waiting(self, m, name, shape, put, values):
        """A memory that takes a place after the other; returns its read port."""
        m.submodules[name] = memory = Memory(shape=shape, depth=self.places, init=[])
        write = memory.write_port()
        at = Signal(range(self.places), name=f"{name}_at")
        m.d.comb += [
            write.addr.eq(at),
            write.en.eq(put),
            *((write.data[field] if field else write.data).eq(value)
              for field, value in values.items()),
        ]
        m.d.sync += at.eq(at + put)
        return memory.read_port()


def _is_bank(bits, bank):
    """Whether it is that bank; the only one has no bits."""
    return bits == bank if len(bits) else Const(1)


def _lanes(strobe):
    """The strobes of each 16-bit lane."""
    return [strobe[at:at + 2] for at in range(0, len(strobe), 2)]


def _per_element(bits, wide):
    """``bits`` of each lane, or-ed over the lanes of its element."""
    bits = list(bits)
    return Cat(bits[lane] | (bits[lane ^ 1] & wide) for lane in range(len(bits)))


def _one_of(dtype, names):
    """Whether ``dtype`` is one of those names."""
    return Cat(dtype == Dtype(DTYPE_NAMES.index(name)) for name in names).any()
