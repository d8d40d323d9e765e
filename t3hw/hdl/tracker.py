"""Tracker: counts the bytes of each tile as they become visible, and says when a tile is full."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .one_hot import index_of
from .seams import (EPOCH_WIDTH, EXPECTED_WIDTH, STAMP_WIDTH, ErrorCause, Table,
                    byte_count_width, clear_range, commit, error_event, plan_views, slot_width,
                    small_memory, table_write, tile_full)

__all__ = ["Tracker"]


class Tracker(wiring.Component):
    """Count committed bytes per tile; report each tile once an epoch, when it has all it expects.

    A set-associative store counts: the set is the low bits of the tile's slot, the tag the others.
    Behind it stands the *overflow table* with one counter a slot. A tile keeps the place that it
    has; a new one takes a free way of its set, or its place in the overflow table when there is
    none. So there is always a place, a commit never waits, and no deadlock can start here. A way
    that becomes free is given away again `reuse` cycles later.

    A commit counts if it has a tracked tile, bytes, no error, and an armed plan; what a stopped
    plan still had under way is ignored. A commit for a tile that was full in this epoch already, or
    that has more bytes than the tile still lacks, is reported as ``OVER_COUNT`` and changes
    nothing; one for a tile of which 0 bytes are expected as ``UNKNOWN_TILE``.

    Latency `latency` cycles from ``commit`` to ``full`` or ``error``; throughput one commit a
    cycle, always, any number of them for the same tile included. The cycles: a commit, or a step of
    a walk, comes to the tracker's registers, if ``config.pipelined``; memories are read; their
    outputs go to registers, tags are compared; a place is chosen; the count goes down, and all that
    has changed is written.

    Clears and lookups use cycles without a commit for a tracked tile. Commits cannot be held up and
    may need the read ports in each cycle, so an unbroken train of them holds a clear up, for at
    most as long as other plans get stores in every single cycle. It cannot block: a clear holds
    nothing that a commit needs.

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
        The plan must not be armed. Needs a cycle without commit for each, and `clear_cycles` more.
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
        counted. Needs one cycle without commit, in the second after ``state_start`` or later, and
        comes `look_cycles` after it.
    occupancy, high_water : Out
        Ways in use, 1 cycle after ``full`` would come, and at most since ``clear_marks``.
    overflow_occupancy, overflow_high_water : Out
        The same for overflow counters.
    clear_marks : In(1)
        Set both high-water marks to what is in use now.

    Attributes
    ----------
    latency : int
        Cycles from a commit to ``full`` or ``error``: 5, or 4 if the configuration is not
        pipelined.
    reuse : int
        Cycles from the commit that frees a way to the first one that may take it.
    clear_cycles : int
        Cycles that a clear needs beyond one for each tile; one less if not pipelined.
    look_cycles : int
        Cycles from a lookup's cycle without commit to ``state_done``; one less if not pipelined.

    Raises
    ------
    TypeError
        If ``config`` is no `NodeConfig`.
    """

    latency = 5
    reuse = 4
    clear_cycles = 5
    look_cycles = 6

    def __init__(self, *, config):
        self._config = checked_config(config)
        if not config.pipelined:
            self.latency, self.clear_cycles, self.look_cycles = 4, 4, 5
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
            "occupancy": Out(range(max(entries, 1) + 1)),
            "high_water": Out(range(max(entries, 1) + 1)),
            "overflow_occupancy": Out(range(config.tiles + 1)),
            "overflow_high_water": Out(range(config.tiles + 1)),
            "clear_marks": In(1),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        ways = config.tracker_ways
        # Without ways, one that is never taken: Verilog has no signals without bits.
        places = max(ways, 1)
        slot_shape = slot_width(config)
        set_bits = min((config.tracker_sets - 1).bit_length(), slot_shape)

        # Counters hold what a tile still lacks, not what it has: then "is this the last" and "is
        # this too much" are comparisons beside the subtraction and not behind it. They need only
        # the few bits of one commit's bytes, since it is stored whether any other bit is set.
        few = byte_count_width(config)
        expected_width = config.expected_width
        left_layout = data.StructLayout({"few": few, "many": expected_width - few, "large": 1})
        row_layout = data.StructLayout({"tag": max(slot_shape - set_bits, 1), "valid": 1})
        # The overflow table's word also remembers the epoch in which the tile was last full.
        word_layout = data.StructLayout({"counted": 1, "epoch": EPOCH_WIDTH, "left": left_layout})

        def set_of(slot):
            return slot[:set_bits]

        def tag_of(slot):
            # Verilog has no fields without bits.
            return slot[set_bits:] if set_bits < slot_shape else Const(0, 1)

        # Memories. What the last three steps make of their tiles comes from registers, so it does
        # not matter what a memory returns that is written in the same cycle. Saying so spares a
        # bypass behind each block RAM, which is too slow for anything but a register.
        def memory(shape, depth):
            return Memory(shape=shape, depth=depth, init=[], attrs={"no_rw_check": 1})

        m.submodules.expected = expected_memory = memory(left_layout, config.tiles)
        m.submodules.command = command_memory = memory(16, config.tiles)
        m.submodules.overflow = overflow_memory = memory(word_layout, config.tiles)
        expected_read = expected_memory.read_port()
        command_read = command_memory.read_port()
        word_write = overflow_memory.write_port()
        word_read = overflow_memory.read_port()
        # Two rows at least: a memory without address bits is not portable.
        if ways:
            m.submodules.counts = count_memory = memory(left_layout, max(ways << set_bits, 2))
            count_write = count_memory.write_port()
            count_read = count_memory.read_port()
        row_writes, row_reads = [], []
        for way in range(ways):
            m.submodules[f"way{way}"] = way_memory = memory(row_layout, max(1 << set_bits, 2))
            row_writes.append(way_memory.write_port())
            row_reads.append(way_memory.read_port())

        # Software's words.
        table = self.table.payload
        expected_write = expected_memory.write_port()
        command_write = command_memory.write_port()
        m.d.comb += [
            expected_write.data.few.eq(table.data[:few]),
            expected_write.data.many.eq(table.data[few:expected_width]),
            expected_write.data.large.eq(table.data[few:expected_width].any()),
            command_write.data.eq(table.data),
        ]
        for word, write in enumerate((expected_write, command_write)):
            m.d.comb += [
                write.addr.eq(table.entry),
                write.en.eq(self.table.valid & (table.table == Table.TILE) & (table.word == word)),
            ]

        # A step is a commit, or one of a clear or a lookup. All go through the same stages, so none
        # can pass another. A list's index is the number of the stage.
        step_layout = data.StructLayout({"slot": slot_shape, "bytes": few, "epoch": EPOCH_WIDTH})
        count = [Signal(name=f"count{stage}") for stage in range(5)]
        clear = [Signal(name=f"clear{stage}") for stage in range(4)]
        look = [Signal(name=f"look{stage}") for stage in range(5)]
        step = [Signal(step_layout, name=f"step{stage}", reset_less=True) for stage in range(4)]
        told = [Signal(commit(config), name=f"told{stage}", reset_less=True) for stage in range(4)]
        stamp = [Signal(STAMP_WIDTH, name=f"stamp{stage}", reset_less=True) for stage in range(4)]
        for chain in (count, clear, look, step, stamp):
            m.d.sync += [after.eq(before) for before, after in zip(chain, chain[1:])]
        self._keep_told(m, told)

        # What comes: a commit, or else a step of a walk.
        new = self.commit.payload
        plan = self.plans[new.tile.plan]
        coming = Signal()
        walk_slot = Signal(slot_shape)
        clears = Signal()
        looks = Signal()
        m.d.comb += coming.eq(self.commit.valid & new.tile.tracked)
        self._walk(m, coming=coming, slot=walk_slot, clears=clears, looks=looks, under_way=clear)
        # Memory and tracker are large and lie apart, so for a fast clock what comes has a cycle for
        # its way.
        m.d["sync" if config.pipelined else "comb"] += [
            count[0].eq(coming & ~new.error & (new.bytes != 0) & plan.armed),
            clear[0].eq(clears),
            look[0].eq(looks),
            step[0].slot.eq(Mux(coming, new.tile.slot, walk_slot)),
            # Walks take nothing away, so that a lookup sees what is left.
            step[0].bytes.eq(Mux(coming, new.bytes, 0)),
            step[0].epoch.eq(plan.epoch),
            told[0].eq(new),
            stamp[0].eq(self.cycle),
        ]

        # Stage 0: the memories' read ports take the address.
        for port in (expected_read, word_read):
            m.d.comb += port.addr.eq(step[0].slot)
        for port in row_reads:
            m.d.comb += port.addr.eq(set_of(step[0].slot))

        # What is in front of a step by 1, 2 or 3 cycles and counts for the same tile, or in the
        # same set. The memories do not know of it yet.
        same = [[None] + [Signal(name=f"same{stage}_{ahead}") for ahead in range(1, 4)]
                for stage in range(4)]
        peer = [[None] + [Signal(name=f"peer{stage}_{ahead}") for ahead in range(1, 4)]
                for stage in range(3)]
        for ahead in range(1, 4):
            here, there = step[0].slot, step[ahead].slot
            in_set = Signal(name=f"in_set{ahead}")
            m.d.comb += [
                in_set.eq(count[ahead] & (set_of(here) == set_of(there))),
                peer[0][ahead].eq(in_set),
                same[0][ahead].eq(in_set & (tag_of(here) == tag_of(there))),
            ]
            for chain in (same, peer):
                m.d.sync += [after[ahead].eq(before[ahead])
                             for before, after in zip(chain, chain[1:])]

        # What each stage knows of its tile. ``at`` is its way, one-hot; none is the overflow table.
        at = [None, None, None, Signal(places, name="at3"), Signal(places, name="at4")]
        fresh = {stage: Signal(name=f"fresh{stage}") for stage in (3, 4, 5)}
        over = {stage: Signal(name=f"over{stage}") for stage in (3, 4, 5)}
        epoch = {stage: Signal(EPOCH_WIDTH, name=f"epoch{stage}") for stage in (3, 4, 5)}
        left = {stage: Signal(left_layout, name=f"left{stage}", reset_less=True)
                for stage in (4, 5)}
        claims = Signal()
        kept = Signal()
        # Whether the step had a place or took one. One that did not leaves its choice to others.
        holds = [None, None, None, Signal(name="holds3"), Signal(name="holds4")]

        # Stage 1: is the tile in a way? Which ways are free, as far as is known?
        hit = Signal(places)
        located = Signal()
        known_at = Signal(places)
        may_take = Signal(places)
        placed = [None, None, same[1][2] & holds[3], same[1][3] & holds[4]]
        for way, port in enumerate(row_reads):
            m.d.comb += hit[way].eq(port.data.valid & (port.data.tag == tag_of(step[1].slot)))
            m.d.sync += [
                known_at[way].eq(Mux(placed[2], at[3][way],
                                     Mux(placed[3], at[4][way], hit[way]))),
                may_take[way].eq(~port.data.valid & ~(peer[1][2] & claims & at[3][way])
                                 & ~(peer[1][3] & kept & at[4][way])),
            ]
        word = Signal(word_layout, reset_less=True)
        expected = [None, None] + [Signal(left_layout, name=f"expected{stage}", reset_less=True)
                                   for stage in (2, 3, 4)]
        m.d.sync += [
            located.eq(placed[2] | placed[3] | hit.any()),
            word.eq(word_read.data),
            expected[2].eq(expected_read.data),
        ]

        # Stage 2: a place for a new tile; what is known but for the step one ahead.
        free = Signal(places)
        other_left = Signal(left_layout, reset_less=True)
        from_way = Signal()
        can_keep = Signal()
        inherits = same[2][2] | same[2][3]
        m.d.comb += free.eq(may_take & ~Mux(peer[2][1] & claims, at[3], 0))
        if ways:
            m.d.sync += at[3].eq(Mux(same[2][1] & holds[3], at[3],
                                     Mux(located, known_at, Mux(word.counted, 0, free & -free))))
        m.d.sync += [
            fresh[3].eq(Mux(same[2][2], fresh[4],
                            Mux(same[2][3], fresh[5], ~located & ~word.counted))),
            over[3].eq(Mux(same[2][2], over[4],
                           Mux(same[2][3], over[5], word.epoch == step[2].epoch))),
            epoch[3].eq(Mux(same[2][2], epoch[4], Mux(same[2][3], epoch[5], word.epoch))),
            from_way.eq(~inherits & located if ways else 0),
            other_left.eq(Mux(same[2][2], left[4],
                              Mux(same[2][3], left[5],
                                  Mux(word.counted, word.left, expected[2])))),
            # A new tile takes a place if this commit leaves something to come.
            can_keep.eq(expected[2].large | (expected[2].few > step[2].bytes)),
            expected[3].eq(expected[2]),
        ]
        way_left = Signal(left_layout, reset_less=True)
        if ways:
            m.d.comb += count_read.addr.eq(Cat(set_of(step[1].slot), index_of(hit)))
            m.d.sync += way_left.eq(count_read.data)
        m.d.comb += command_read.addr.eq(step[2].slot)

        # Stage 3: count, and write. A full tile always gets its epoch; one that is full with its
        # first commit leaves the new way free.
        after_same = same[3][1]
        now = Signal(left_layout)
        less = Signal(left_layout)
        was_over = Signal()
        was_fresh = Signal()
        was_epoch = Signal(EPOCH_WIDTH)
        exact = Signal()
        excess = Signal()
        counts = Signal()
        fills = Signal()
        keeps = Signal()
        borrows = Signal()

        def chosen(function):
            return Mux(after_same, function(left[4]),
                       Mux(from_way, function(way_left), function(other_left)))

        in_way = at[3].any()
        known = expected[3].large | (expected[3].few != 0)
        m.d.comb += [
            now.eq(chosen(lambda left: left)),
            was_over.eq(Mux(after_same, over[4], over[3])),
            was_fresh.eq(Mux(after_same, fresh[4], fresh[3])),
            was_epoch.eq(Mux(after_same, epoch[4], epoch[3])),
            claims.eq(count[3] & can_keep & ~was_over),
            holds[3].eq(claims | ~was_fresh),
            # Each source is compared beside the choice, and not behind it. An unknown tile is
            # fresh and lacks nothing, so all is excess.
            exact.eq(chosen(lambda left: ~left.large & (left.few == step[3].bytes))),
            excess.eq(chosen(lambda left: ~left.large & _less(left.few, step[3].bytes))),
            borrows.eq(_less(now.few, step[3].bytes)),
            counts.eq(count[3] & ~was_over & ~excess),
            fills.eq(counts & exact),
            keeps.eq(counts & ~exact),
            Cat(less.few, less.many).eq(Cat(now.few, now.many) - step[3].bytes),
            less.large.eq(now.large & ~((now.many == 1) & borrows)),
        ]
        for way, write in enumerate(row_writes):
            m.d.comb += [
                write.addr.eq(set_of(step[3].slot)),
                write.data.valid.eq(~exact & ~clear[3]),
                write.data.tag.eq(tag_of(step[3].slot)),
                write.en.eq(at[3][way] & (counts | clear[3])),
            ]
        if ways:
            m.d.comb += [
                count_write.addr.eq(Cat(set_of(step[3].slot), index_of(at[3]))),
                count_write.data.eq(less),
                count_write.en.eq(counts & in_way),
            ]
        m.d.comb += [
            word_write.addr.eq(step[3].slot),
            word_write.data.counted.eq(~exact & ~clear[3]),
            word_write.data.epoch.eq(Mux(clear[3], 0, Mux(exact, step[3].epoch, was_epoch))),
            word_write.data.left.eq(less),
            word_write.en.eq((counts & (exact | ~in_way)) | clear[3]),
        ]
        m.d.sync += [
            self.full.valid.eq(fills),
            self.full.payload.plan.eq(told[3].tile.plan),
            self.full.payload.slot.eq(step[3].slot),
            self.full.payload.command.eq(command_read.data),
            self.full.payload.stamp.eq(stamp[3]),
        ]
        m.d["sync" if config.pipelined else "comb"] += [
            self.error.valid.eq(count[3] & ~counts),
            self.error.payload.cause.eq(
                Mux(known, ErrorCause.OVER_COUNT, ErrorCause.UNKNOWN_TILE)),
            self.error.payload.address.eq(told[3].address),
            self.error.payload.tile.eq(told[3].tile),
        ]

        # Stages 4 and 5: what the steps behind need to know.
        m.d.sync += [
            at[4].eq(at[3]),
            kept.eq(keeps),
            holds[4].eq(holds[3]),
            left[4].eq(Mux(excess, now, less)),
            fresh[4].eq((was_fresh & ~keeps) | fills),
            over[4].eq(was_over | fills),
            epoch[4].eq(Mux(fills, step[3].epoch, was_epoch)),
            expected[4].eq(expected[3]),
            left[5].eq(left[4]),
            fresh[5].eq(fresh[4]),
            over[5].eq(over[4]),
            epoch[5].eq(epoch[4]),
        ]

        # Lookup.
        counted = Signal(expected_width)
        m.d.comb += counted.eq(Cat(expected[4].few, expected[4].many)
                               - Cat(left[4].few, left[4].many))
        m.d.sync += self.state_done.eq(look[4])
        with m.If(look[4]):
            m.d.sync += self.state.eq(
                Cat(Mux(fresh[4], 0, counted), Const(0, EXPECTED_WIDTH - expected_width), epoch[4],
                    Const(0, 3), ~fresh[4]))

        # Occupancies, one cycle later. They keep their value over a reset since the memories keep
        # their entries.
        for number, mark, here in ((self.occupancy, self.high_water, in_way),
                                   (self.overflow_occupancy, self.overflow_high_water, ~in_way)):
            total = Signal.like(number, name=f"{number.name}_count", reset_less=True)
            up = Signal(name=f"{number.name}_up", reset_less=True)
            down = Signal(name=f"{number.name}_down", reset_less=True)
            m.d.comb += number.eq(total)
            m.d.sync += [
                up.eq(here & keeps & was_fresh),
                down.eq(here & (fills | clear[3]) & ~was_fresh),
            ]
            with m.If(up != down):
                m.d.sync += total.eq(Mux(up, total + 1, total - 1))
            with m.If(self.clear_marks | (total > mark)):
                m.d.sync += mark.eq(total)

        return m

    def _keep_told(self, m, told):
        """Keep what a commit said until the last stage: in registers, or, where these are scarce,
        in a block RAM. That shows only what is needed there."""
        if self._config.pipelined:
            m.d.sync += [after.eq(before) for before, after in zip(told, told[1:])]
            return
        first, last = told[0], told[-1]
        shape = data.StructLayout({"address": len(first.address), "tile": first.tile.shape()})
        m.submodules.told = memory = Memory(shape=shape, depth=4, init=[],
                                            attrs={"no_rw_check": 1} | small_memory(self._config))
        write = memory.write_port()
        read = memory.read_port()
        at = Signal(2)
        m.d.sync += at.eq(at + 1)
        m.d.comb += [
            write.en.eq(1),
            write.addr.eq(at),
            write.data.address.eq(first.address),
            write.data.tile.eq(first.tile),
            # What was written two cycles ago is there in the next, the third.
            read.addr.eq(at - 2),
            last.address.eq(read.data.address),
            last.tile.eq(read.data.tile),
        ]

    def _walk(self, m, *, coming, slot, clears, looks, under_way):
        """Steps of clears and lookups, in cycles without a commit for a tracked tile."""
        range_ = self.clear.payload
        wanted = Signal()
        wanted_slot = Signal.like(slot)
        with m.FSM(name="walk"):
            with m.State("IDLE"):
                m.d.sync += slot.eq(Mux(self.clear.valid, range_.first_tile, wanted_slot))
                with m.If(self.clear.valid):
                    with m.If(range_.any_tiles):
                        m.next = "CLEAR"
                    with m.Else():
                        m.next = "CLEARED"
                with m.Elif(wanted):
                    m.next = "LOOK"
            with m.State("CLEAR"):
                m.d.comb += clears.eq(~coming)
                with m.If(~coming):
                    m.d.sync += slot.eq(slot + 1)
                    with m.If(slot == range_.last_tile):
                        m.next = "CLEARED"
            with m.State("CLEARED"):
                # When the last step writes; what enters after this cycle reads behind it.
                m.d.comb += self.clear.ready.eq(~Cat(under_way[:3]).any())
                with m.If(self.clear.ready):
                    m.next = "IDLE"
            with m.State("LOOK"):
                m.d.comb += looks.eq(~coming)
                with m.If(~coming):
                    m.d.sync += wanted.eq(0)
                    m.next = "IDLE"
        with m.If(self.state_start):
            m.d.sync += [
                wanted.eq(1),
                wanted_slot.eq(self.state_index),
            ]


def _less(a, b):
    """``a < b`` in a few LUTs: a carry chain would be slower to enter and leave."""
    result = Const(0)
    for mine, other in zip(a, b):
        result = Mux(mine == other, result, other)
    return result
