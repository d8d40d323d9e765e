"""Tracker: counts the bytes of each tile as they become visible, and says when a tile is full."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .seams import (EPOCH_WIDTH, EXPECTED_WIDTH, STAMP_WIDTH, ErrorCause, Table,
                    byte_count_width, clear_range, commit, error_event, plan_views, slot_width,
                    table_write, tile_full)

__all__ = ["Tracker"]


class Tracker(wiring.Component):
    """Count committed bytes per tile; report each tile once an epoch, when it has all it expects.

    A set-associative store counts: the set is the low bits of the workgroup's number, the tag is
    the tile's slot. Behind it stands the *overflow table* with one counter a slot. A tile keeps the
    place that it has; a new one takes a free way of its set, or its place in the overflow table
    when there is none. So there is always a place, a commit never waits, and no deadlock can start
    here.

    A commit counts if it has a tracked tile, bytes, no error, and an armed plan; what a stopped
    plan still had under way is ignored. A commit for a tile that was full in this epoch already, or
    that has more bytes than the tile still lacks, is reported as ``OVER_COUNT`` and changes
    nothing; one for a tile of which 0 bytes are expected as ``UNKNOWN_TILE``.

    Latency 2 cycles from ``commit`` to ``full`` or ``error``; throughput one commit a cycle,
    always, any number of them for the same tile included.

    Clears and lookups use cycles that bring no commit that counts. Commits cannot be held up and
    may need the write port in each cycle, so an unbroken train of them holds a walk up, for at most
    as long as other armed plans get stores in every single cycle. It cannot block: walks hold
    nothing that a commit needs, and a plan that is to be cleared is not armed any more, so its own
    commits leave their cycles to the walk.

    A reset does not empty memories. Occupancies survive it too, and after a reset that is not a
    power-up software clears each plan before it arms it.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Members
    -------
    commit : In, stream of `commit`, always ready
        What became visible.
    table : In, stream of `table_write`, always ready
        Words 0 and 1 of the tile table are taken: expected bytes, and the command that waits.
    plans : In(plan_views)
        Only ``armed`` and ``epoch`` matter, in the cycle of the commit.
    clear : In, stream of `clear_range`
        Forget tiles ``first_tile`` to ``last_tile``. Ready for one cycle when all are forgotten.
        The plan must not be armed. Needs the larger of the number of slots and of sets in cycles
        without commit, and 2 more.
    full : Out, stream of `tile_full`, always ready
        A tile has all its bytes.
    error : Out, stream of `error_event`, always ready
        ``OVER_COUNT`` or ``UNKNOWN_TILE``.
    cycle : In(STAMP_WIDTH)
        Now, for the stamp of ``full``.
    state_index : In(slot_width), state_start : In(1)
        Look up a slot. Not to be started again before ``state_done``.
    state : Out(32), state_done : Out(1)
        Its state, when ``state_done`` is high and until the next: ``[23:0]`` bytes of a partly
        counted tile, ``[27:24]`` epoch in which it was last full (0: never), ``[31]`` it is partly
        counted. Needs up to as many cycles without commit as there are sets; a tile that gets its
        first bytes meanwhile may still be seen as it was before.
    occupancy, high_water : Out
        Ways in use, 3 cycles after the commit, and at most since ``clear_marks``.
    overflow_occupancy, overflow_high_water : Out
        The same for overflow counters.
    clear_marks : In(1)
        Set both high-water marks to what is in use now.

    Attributes
    ----------
    latency : int
        Cycles from a commit to ``full`` or ``error``.

    Raises
    ------
    TypeError
        If ``config`` is no `NodeConfig`.
    """

    latency = 2

    def __init__(self, *, config):
        self._config = checked_config(config)
        entries = config.tracker_sets * config.tracker_ways
        super().__init__({
            "commit": In(stream.Signature(commit(config), always_ready=True)),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "plans": In(plan_views(config)),
            "clear": In(stream.Signature(clear_range(config))),
            "full": Out(stream.Signature(tile_full(config), always_ready=True)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "cycle": In(STAMP_WIDTH),
            "state_index": In(slot_width(config)),
            "state_start": In(1),
            "state": Out(32),
            "state_done": Out(1),
            "occupancy": Out(range(entries + 1)),
            "high_water": Out(range(entries + 1)),
            "overflow_occupancy": Out(range(config.tiles + 1)),
            "overflow_high_water": Out(range(config.tiles + 1)),
            "clear_marks": In(1),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        sets, ways = config.tracker_sets, config.tracker_ways
        slot_shape = slot_width(config)

        # Entries hold what a tile still lacks, not what it has: then "is this the last" and "is
        # this too much" are comparisons beside the subtraction and not behind it. They need only
        # the few bits of one commit's bytes, since it is stored whether any other bit is set.
        few = byte_count_width(config)
        left_layout = data.StructLayout({"few": few, "many": EXPECTED_WIDTH - few, "large": 1})
        entry_layout = data.StructLayout({"valid": 1, "slot": slot_shape, "left": left_layout})
        # The overflow table's word also remembers the epoch in which the tile was last full.
        word_layout = data.StructLayout({"counted": 1, "epoch": EPOCH_WIDTH, "left": left_layout})

        m.submodules.expected = expected_memory = Memory(
            shape=left_layout, depth=config.tiles, init=[])
        m.submodules.command = command_memory = Memory(shape=16, depth=config.tiles, init=[])
        m.submodules.overflow = overflow_memory = Memory(
            shape=word_layout, depth=config.tiles, init=[])
        expected_read = expected_memory.read_port()
        command_read = command_memory.read_port()
        word_write = overflow_memory.write_port()
        word_read = overflow_memory.read_port(transparent_for=[word_write])
        way_writes, way_reads = [], []
        for way in range(ways):
            # Two rows at least: a memory without address bits is not portable.
            way_memory = Memory(shape=entry_layout, depth=max(sets, 2), init=[])
            m.submodules[f"way{way}"] = way_memory
            way_writes.append(way_memory.write_port())
            way_reads.append(way_memory.read_port(transparent_for=[way_writes[-1]]))

        # Software's words.
        table = self.table.payload
        expected_write = expected_memory.write_port()
        command_write = command_memory.write_port()
        m.d.comb += [
            expected_write.data.few.eq(table.data[:few]),
            expected_write.data.many.eq(table.data[few:EXPECTED_WIDTH]),
            expected_write.data.large.eq(table.data[few:EXPECTED_WIDTH].any()),
            command_write.data.eq(table.data),
        ]
        for word, write in enumerate((expected_write, command_write)):
            m.d.comb += [
                write.addr.eq(table.entry),
                write.en.eq(self.table.valid & (table.table == Table.TILE) & (table.word == word)),
            ]

        # First cycle: the memories' read ports take the address of the commit, or of a walk's step.
        # A step goes through the same two stages, so it cannot pass or be passed by a commit.
        new = self.commit.payload
        plan = self.plans[new.tile.plan]
        take = Signal()
        m.d.comb += take.eq(self.commit.valid & new.tile.tracked & ~new.error & (new.bytes != 0)
                            & plan.armed)

        walk_slot = Signal(slot_shape)
        walk_set = Signal(range(max(sets, 2)))
        slot_now = Signal.like(walk_slot)
        set_now = Signal.like(walk_set)
        m.d.comb += [
            slot_now.eq(Mux(take, new.tile.slot, walk_slot)),
            set_now.eq(Mux(take, new.tile.wg[:(sets - 1).bit_length()], walk_set)),
        ]
        for port in (expected_read, command_read, word_read):
            m.d.comb += port.addr.eq(slot_now)
        for port in way_reads:
            m.d.comb += port.addr.eq(set_now)

        counting = Signal()
        slot = Signal.like(walk_slot)
        set_ = Signal.like(walk_set)
        held = Signal.like(new)
        epoch = Signal(EPOCH_WIDTH)
        stamp = Signal(STAMP_WIDTH)
        m.d.sync += [
            counting.eq(take),
            slot.eq(slot_now),
            set_.eq(set_now),
            held.eq(new),
            epoch.eq(plan.epoch),
            stamp.eq(self.cycle),
        ]

        # Walks: a clear visits all slots of its range and all sets, a lookup one slot and the sets.
        clear_slot = Signal()
        clear_set = Signal()
        looking = Signal()
        last_look = Signal()
        answer = Signal()
        more_slots = Signal()
        more_sets = Signal()
        last_slot = Signal()
        last_set = Signal()
        wanted = Signal()
        wanted_slot = Signal.like(walk_slot)
        clear = self.clear.payload
        m.d.comb += [
            last_slot.eq(walk_slot == clear.last_tile),
            last_set.eq(walk_set == sets - 1),
        ]
        m.d.sync += [
            clear_slot.eq(0),
            clear_set.eq(0),
            looking.eq(0),
            last_look.eq(last_set),
        ]
        with m.FSM(name="walk"):
            with m.State("IDLE"):
                m.d.sync += [
                    walk_slot.eq(Mux(self.clear.valid, clear.first_tile, wanted_slot)),
                    walk_set.eq(0),
                    more_slots.eq(1),
                    more_sets.eq(1),
                ]
                with m.If(self.clear.valid):
                    with m.If(clear.any_tiles):
                        m.next = "CLEAR"
                    with m.Else():
                        m.next = "CLEARED"
                with m.Elif(wanted):
                    m.next = "LOOK"
            with m.State("CLEAR"):
                with m.If(~take):
                    m.d.sync += [
                        clear_slot.eq(more_slots),
                        clear_set.eq(more_sets),
                        more_slots.eq(more_slots & ~last_slot),
                        more_sets.eq(more_sets & ~last_set),
                        walk_slot.eq(walk_slot + 1),
                        walk_set.eq(walk_set + 1),
                    ]
                    with m.If((last_slot | ~more_slots) & (last_set | ~more_sets)):
                        m.next = "CLEARED"
            with m.State("CLEARED"):
                # The last step writes in this cycle, and what enters now reads behind it.
                m.d.comb += self.clear.ready.eq(1)
                m.next = "IDLE"
            with m.State("LOOK"):
                with m.If(answer):
                    m.next = "IDLE"
                with m.Elif(~take & more_sets):
                    m.d.sync += [
                        looking.eq(1),
                        more_sets.eq(~last_set),
                        walk_set.eq(walk_set + 1),
                    ]

        # Second cycle: where is the tile, what does it lack, is that what came?
        word = word_read.data
        expected = expected_read.data
        hit = Signal(ways)
        free = Signal(ways)
        in_way = Signal()
        in_overflow = Signal()
        fresh = Signal()
        for way, port in enumerate(way_reads):
            m.d.comb += [
                hit[way].eq(port.data.valid & (port.data.slot == slot)),
                free[way].eq(~port.data.valid),
            ]
        m.d.comb += [
            in_way.eq(hit.any()),
            # It is in both only if stores disagree about the workgroup of one slot. Then its bytes
            # are split and it never becomes full, which is better than too early.
            in_overflow.eq(~in_way & word.counted),
            fresh.eq(~in_way & ~word.counted),
        ]

        left = Signal(left_layout)
        exact = Signal()
        excess = Signal()
        places = [(hit[way], port.data.left) for way, port in enumerate(way_reads)]
        places += [(in_overflow, word.left), (fresh, expected)]
        m.d.comb += [
            # One place is chosen, so and-or does it, with comparisons beside those of the tags.
            left.eq(_any(Mux(here, value.as_value(), 0) for here, value in places)),
            exact.eq(_any(here & ~value.large & (value.few == held.bytes)
                          for here, value in places)),
            excess.eq(_any(here & ~value.large & (value.few < held.bytes)
                           for here, value in places)),
        ]

        known = Signal()
        counts = Signal()
        fills = Signal()
        keeps = Signal()
        less = Signal(left_layout)
        m.d.comb += [
            known.eq((expected.few != 0) | expected.large),
            # An unknown tile is fresh and lacks nothing, so all is excess.
            counts.eq(counting & (word.epoch != epoch) & ~excess),
            fills.eq(counts & exact),
            keeps.eq(counts & ~exact),
            Cat(less.few, less.many).eq(Cat(left.few, left.many) - held.bytes),
            less.large.eq(left.large & ~((left.many == 1) & (left.few < held.bytes))),
        ]

        # Writes: a tile's way, or a new way, or its word; a full tile always gets its epoch. A tile
        # that is full with its first commit leaves the new way free.
        chosen = Signal(ways)
        dropped = Signal(ways)
        m.d.comb += chosen.eq(hit | Mux(fresh, free & -free, 0))
        for way, (write, read) in enumerate(zip(way_writes, way_reads)):
            in_range = (read.data.slot >= clear.first_tile) & (read.data.slot <= clear.last_tile)
            m.d.comb += [
                dropped[way].eq(clear_set & read.data.valid & in_range),
                write.addr.eq(set_),
                write.data.valid.eq(keeps),
                write.data.slot.eq(slot),
                write.data.left.eq(less),
                write.en.eq((counts & chosen[way]) | dropped[way]),
            ]
        m.d.comb += [
            word_write.addr.eq(slot),
            word_write.data.counted.eq(keeps),
            word_write.data.epoch.eq(Mux(clear_slot, 0, Mux(fills, epoch, word.epoch))),
            word_write.data.left.eq(less),
            word_write.en.eq((counts & (exact | ~chosen.any())) | clear_slot),
        ]

        m.d.sync += [
            self.full.valid.eq(fills),
            self.full.payload.plan.eq(held.tile.plan),
            self.full.payload.slot.eq(slot),
            self.full.payload.command.eq(command_read.data),
            self.full.payload.stamp.eq(stamp),
            self.error.valid.eq(counting & ~counts),
            self.error.payload.cause.eq(
                Mux(known, ErrorCause.OVER_COUNT, ErrorCause.UNKNOWN_TILE)),
            self.error.payload.address.eq(held.address),
            self.error.payload.tile.eq(held.tile),
        ]

        # Lookup: the first step that finds the tile in a way answers, else the last one.
        with m.If(self.state_start):
            m.d.sync += [
                wanted.eq(1),
                wanted_slot.eq(self.state_index),
            ]
        counted = Signal(EXPECTED_WIDTH)
        m.d.comb += [
            answer.eq(looking & (in_way | last_look)),
            counted.eq(Mux(fresh, 0, Cat(expected.few, expected.many)
                           - Cat(left.few, left.many))),
        ]
        m.d.sync += self.state_done.eq(answer)
        with m.If(answer):
            m.d.sync += [
                wanted.eq(0),
                self.state.eq(Cat(counted, word.epoch, Const(0, 3), ~fresh)),
            ]

        # Occupancies, one cycle later: the second cycle is long enough. They keep their value over
        # a reset since the memories keep their entries.
        way_count = Signal.like(self.occupancy, reset_less=True)
        way_up = Signal(reset_less=True)
        way_down = Signal(ways, reset_less=True)
        overflow_count = Signal.like(self.overflow_occupancy, reset_less=True)
        overflow_up = Signal(reset_less=True)
        overflow_down = Signal(reset_less=True)
        m.d.sync += [
            way_up.eq(keeps & fresh & free.any()),
            way_down.eq(dropped | Mux(fills, hit, 0)),
            way_count.eq(way_count + way_up - sum(way_down[way] for way in range(ways))),
            overflow_up.eq(keeps & fresh & ~free.any()),
            overflow_down.eq((fills & in_overflow) | (clear_slot & word.counted)),
            overflow_count.eq(overflow_count + overflow_up - overflow_down),
        ]
        m.d.comb += [
            self.occupancy.eq(way_count),
            self.overflow_occupancy.eq(overflow_count),
        ]
        for count, mark in ((way_count, self.high_water),
                            (overflow_count, self.overflow_high_water)):
            with m.If(self.clear_marks | (count > mark)):
                m.d.sync += mark.eq(count)

        return m


def _any(values):
    """All ``values`` or-ed."""
    result, *others = values
    for value in others:
        result = result | value
    return result
