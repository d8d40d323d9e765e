"""The tracker against a model of dictionaries, cycle by cycle: events, places, clears, lookups."""

import random

import pytest
from amaranth import Module, ResetInserter, Signal
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.seams import NO_COMMAND, ErrorCause, Table
from t3hw.hdl.tracker import Tracker

SHAPES = [(1, 2), (4, 2), (32, 8), (64, 1), (1, 0)]
BEAT = 8


def make_config(sets=4, ways=2, tiles=64, plans=3, **changes):
    return NodeConfig(tracker_sets=sets, tracker_ways=ways, tiles=tiles, plans=plans, commands=64,
                      wg_width=8, wf_width=2, addr_width=16, memory_bytes=1 << 16, touch_bytes=64,
                      **changes)


class Tile:
    """One tile of a test: its slot, the ids that its producer gives it, what it expects."""

    def __init__(self, plan, slot, wg, wf, expected, command=NO_COMMAND):
        self.plan, self.slot, self.wg, self.wf = plan, slot, wg, wf
        self.expected, self.command = expected, command

    def chunks(self, rng):
        """Beats of this tile: any numbers of bytes of a beat that make up what it expects."""
        left, result = self.expected, []
        while left:
            result.append(min(left, rng.choice((1, 3, BEAT, BEAT, BEAT))))
            left -= result[-1]
        return [(self, size) for size in result]


class Model:
    """What a tracker should do, commit by commit.

    A way that a tile leaves stands empty until `Tracker.reuse` cycles later.
    """

    def __init__(self, sets, ways):
        self.sets, self.ways = sets, ways
        self.tiles = {}
        self.in_ways = {}      # slot -> bytes
        self.was_late = False  # some tile found no way only because one still stood empty
        self.left_at = []      # (set, cycle) of each way that became free
        self.in_overflow = {}  # slot -> bytes
        self.full_in = {}      # slot -> epoch

    def bytes_of(self, slot):
        return self.in_ways.get(slot, self.in_overflow.get(slot, 0))

    def has_room(self, slot, cycle):
        """Whether the slot's set has a way to give away."""
        index = slot % self.sets
        self.left_at = [(set_, at) for set_, at in self.left_at if cycle < at + Tracker.reuse]
        used = sum(other % self.sets == index for other in self.in_ways)
        empty = sum(set_ == index for set_, _at in self.left_at)
        self.was_late |= used < self.ways <= used + empty
        return used + empty < self.ways

    def commit(self, tile, size, epoch, cycle):
        """Count; return ``"full"``, a cause of error, or None."""
        known = self.tiles.get(tile.slot)
        if known is None or known.expected == 0:
            return ErrorCause.UNKNOWN_TILE
        now = self.bytes_of(tile.slot) + size
        if self.full_in.get(tile.slot) == epoch or now > known.expected:
            return ErrorCause.OVER_COUNT
        if now == known.expected:
            if self.in_ways.pop(tile.slot, None) is not None:
                self.left_at.append((tile.slot % self.sets, cycle))
            self.in_overflow.pop(tile.slot, None)
            self.full_in[tile.slot] = epoch
            return "full"
        if tile.slot in self.in_overflow:
            self.in_overflow[tile.slot] = now
        elif tile.slot in self.in_ways or self.has_room(tile.slot, cycle):
            self.in_ways[tile.slot] = now
        else:
            self.in_overflow[tile.slot] = now
        return None

    def clear(self, first, last):
        for table in (self.in_ways, self.in_overflow, self.full_in):
            for slot in [slot for slot in table if first <= slot <= last]:
                del table[slot]

    def state(self, slot):
        partly = slot in self.in_ways or slot in self.in_overflow
        return self.bytes_of(slot) | self.full_in.get(slot, 0) << 24 | partly << 31


class Bench:
    """Drives one cycle after another and compares each cycle's outputs with the model's."""

    def __init__(self, ctx, dut, config, note=""):
        self.ctx, self.dut, self.note = ctx, dut, note
        self.model = Model(config.tracker_sets, config.tracker_ways)
        self.cycle = 0
        self.due = {}       # cycle -> (what, tile, stamp, address)
        self.occupied = {}  # cycle -> (ways, overflow), both as in the model
        self.places = True  # False once commits ran beside a clear: their order is the hardware's
        self.clear_ready = self.state_done = False
        self.fulls = []
        self.armed = [1] * config.plans
        self.epochs = [1] * config.plans
        for plan in range(config.plans):
            self.arm(plan, 1)

    def arm(self, plan, epoch, armed=1):
        self.armed[plan], self.epochs[plan] = armed, epoch
        self.ctx.set(self.dut.plans[plan], {"armed": armed, "epoch": epoch})

    async def tick(self, tile=None, size=0, *, tracked=1, error=0):
        """One cycle, with a commit of ``size`` bytes or without."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.commit.valid, tile is not None)
        ctx.set(dut.cycle, self.cycle & 0xFFFFFF)
        if tile is not None:
            address = self.cycle * BEAT & 0xFFFF
            ctx.set(dut.commit.payload, {
                "bytes": size, "error": error, "address": address,
                "tile": {"tracked": tracked, "plan": tile.plan, "slot": tile.slot, "wg": tile.wg,
                         "wf": tile.wf}})
            if tracked and size and not error and self.armed[tile.plan]:
                what = self.model.commit(tile, size, self.epochs[tile.plan], self.cycle)
                if what is not None:
                    self.due[self.cycle + dut.latency] = (what, tile, self.cycle, address)
        self.occupied[self.cycle + dut.latency + 1] = (
            len(self.model.in_ways), len(self.model.in_overflow))
        (_, _, full, full_payload, error, error_payload, ways, overflow, self.clear_ready,
         self.state_done, self.state) = await ctx.tick().sample(
             dut.full.valid, dut.full.payload, dut.error.valid, dut.error.payload, dut.occupancy,
             dut.overflow_occupancy, dut.clear.ready, dut.state_done, dut.state)
        what, tile, stamp, address = self.due.pop(self.cycle, (None, None, None, None))
        note = f"{self.note} cycle {self.cycle}"
        assert full == (what == "full"), f"{note}: full is {full}, due is {what}"
        assert error == isinstance(what, ErrorCause), f"{note}: error is {error}, due is {what}"
        if full:
            command = self.model.tiles[tile.slot].command
            assert (full_payload.plan, full_payload.slot, full_payload.command, full_payload.stamp
                    ) == (tile.plan, tile.slot, command, stamp & 0xFFFFFF), note
            self.fulls.append(tile.slot)
        if error:
            got = error_payload.tile
            assert (error_payload.cause, error_payload.address) == (what, address), note
            assert (got.tracked, got.plan, got.slot, got.wg, got.wf) == (
                1, tile.plan, tile.slot, tile.wg, tile.wf), note
        if self.places:
            assert (ways, overflow) == self.occupied.pop(self.cycle, (0, 0)), note
        self.cycle += 1

    async def write(self, table, entry, word, value):
        self.ctx.set(self.dut.table.payload,
                     {"table": table, "entry": entry, "word": word, "data": value})
        self.ctx.set(self.dut.table.valid, 1)
        await self.tick()
        self.ctx.set(self.dut.table.valid, 0)

    async def program(self, tiles):
        for tile in tiles:
            # The upper fields of both words are other blocks' business.
            await self.write(Table.TILE, tile.slot, 0, tile.expected | 0xA5 << 24)
            await self.write(Table.TILE, tile.slot, 1, tile.command | 0x1234 << 16)
            self.model.tiles[tile.slot] = tile

    async def settle(self):
        for _cycle in range(self.dut.latency + 2):
            await self.tick()

    async def clear(self, first, last, commits=(), limit=1000, any_tiles=1):
        """Clear a range beside an iterator of commits (None: none); return the cycles it took."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.clear.payload, {"any_tiles": any_tiles, "first_tile": first, "last_tile": last})
        ctx.set(dut.clear.valid, 1)
        commits = iter(commits)
        for cycles in range(1, limit + 1):
            item = next(commits, None)
            if item is not None:
                self.places = False
            await self.tick(*(item or ()))
            if self.clear_ready:
                break
        else:
            pytest.fail(f"{self.note}: not cleared after {limit} cycles")
        ctx.set(dut.clear.valid, 0)
        return cycles

    async def look(self, slot, limit=200):
        self.ctx.set(self.dut.state_index, slot)
        self.ctx.set(self.dut.state_start, 1)
        await self.tick()
        self.ctx.set(self.dut.state_start, 0)
        for _cycle in range(limit):
            await self.tick()
            if self.state_done:
                return self.state
        pytest.fail(f"{self.note}: no state of slot {slot} after {limit} cycles")


def simulate(config, scenario, note=""):
    dut = Tracker(config=config)

    async def bench(ctx):
        await scenario(Bench(ctx, dut, config, note))

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


def make_tiles(rng, config, per_plan, most=40):
    """Tiles of all plans with the same ids, ``per_plan`` slots apart, of any size."""
    return [Tile(plan, plan * per_plan + number, number // 2, number % 2, rng.randrange(1, most),
                 rng.choice((NO_COMMAND, rng.randrange(64))))
            for plan in range(config.plans) for number in range(per_plan)]


@pytest.mark.parametrize("sets, ways", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_random_traffic_matches_the_model_in_every_cycle(sets, ways, seed):
    rng = random.Random(seed)
    config = make_config(sets, ways)
    note = f"{sets}x{ways} seed {seed}"

    async def scenario(bench):
        tiles = make_tiles(rng, config, 20)
        stranger = Tile(1, 63, 5, 1, 0)
        await bench.program(tiles)
        for _run in range(3):
            beats = [beat for tile in tiles for beat in tile.chunks(rng)]
            rng.shuffle(beats)
            for tile, size in beats:
                await bench.tick(tile, size)
                chance = rng.random()
                other = rng.choice(tiles)
                if chance < 0.1:
                    await bench.tick()
                elif chance < 0.15:
                    await bench.tick(other, BEAT, tracked=0)
                elif chance < 0.2:
                    await bench.tick(other, 0)
                elif chance < 0.25:
                    await bench.tick(other, BEAT, error=1)
                elif chance < 0.3:
                    await bench.tick(stranger, BEAT)
                elif chance < 0.4:
                    done = bench.model.full_in.get(other.slot) == bench.epochs[other.plan]
                    if done or bench.model.bytes_of(other.slot) + BEAT > other.expected:
                        await bench.tick(other, BEAT)
            await bench.settle()
            assert sorted(bench.fulls) == [tile.slot for tile in tiles], note
            bench.fulls.clear()
            for plan in range(config.plans):
                bench.arm(plan, bench.epochs[plan] + 1 + plan)
        assert not bench.model.in_ways and not bench.model.in_overflow, note

    simulate(config, scenario, note)


@pytest.mark.parametrize("sets, ways", [(1, 1), (1, 2), (2, 2), (1, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_few_tiles_at_every_distance_with_every_outcome_and_lookups_between(sets, ways, seed):
    """Commits of 1 to 6 tiles, 0 to 4 cycles apart: counted, full, full at once, too many, unknown.

    A lookup's answer is the state in the cycle that it used.
    """
    rng = random.Random(seed)
    config = make_config(sets, ways, tiles=8)
    note = f"{sets}x{ways} seed {seed}"

    async def scenario(bench):
        ctx, dut = bench.ctx, bench.dut
        asked, states = None, {}

        async def tick(*commit):
            """A cycle; checks the lookup that is under way."""
            nonlocal asked
            if asked is not None:
                states[bench.cycle] = bench.model.state(asked)
            await bench.tick(*commit)
            ctx.set(dut.state_start, 0)
            if bench.state_done:
                step = bench.cycle - 1 - Tracker.look_cycles
                assert bench.state == states[step], f"{note} cycle {step} slot {asked}"
                asked = None
                states.clear()

        for _round in range(120):
            slots = rng.sample(*rng.choice(((range(8), rng.randrange(1, 7)), (range(0, 8, 2), 4))))
            used = [Tile(rng.randrange(3), slot, slot, 0, rng.choice((0, 1, 5, 8, 9, 16, 24)))
                    for slot in slots]
            await bench.program(used)
            gaps = rng.choice((0, 0.1, 0.4))
            for _cycle in range(rng.choice((6, 30, 80))):
                tile, size = rng.choice(used), rng.randrange(1, BEAT + 1)
                if rng.random() < 0.3:
                    size = min(tile.expected - bench.model.bytes_of(tile.slot), BEAT) or size
                if asked is None and rng.random() < 0.2:
                    asked = rng.choice(used).slot
                    ctx.set(dut.state_index, asked)
                    ctx.set(dut.state_start, 1)
                await tick(*(() if rng.random() < gaps else (tile, size)))
            for _cycle in range(Tracker.latency + Tracker.look_cycles):
                await tick()
            assert asked is None, note
            # A tile's number means something else in the next run.
            for plan in range(config.plans):
                bench.arm(plan, 1, armed=0)
            # Places become free one after another, so they are compared again from its end on.
            bench.places = False
            await bench.clear(0, 7)
            bench.model.clear(0, 7)
            await bench.settle()
            bench.occupied.clear()
            bench.places = True
            for plan in range(config.plans):
                bench.arm(plan, rng.randrange(1, 16))
        assert bench.model.was_late or not ways, f"{note}: no new tile came while a way stood empty"

    simulate(config, scenario, note)


def test_sixty_tiles_in_flight_in_one_set_of_two_ways():
    config = make_config(1, 2, plans=2)

    async def scenario(bench):
        tiles = [Tile(slot % 2, slot, slot // 4, slot % 4, 3 * BEAT) for slot in range(60)]
        await bench.program(tiles)
        for part in range(3):
            if part == 2:
                await bench.settle()
                get = bench.ctx.get
                assert get(bench.dut.occupancy) == get(bench.dut.high_water) == 2
                assert get(bench.dut.overflow_occupancy) == get(bench.dut.overflow_high_water) == 58
            for tile in tiles:
                await bench.tick(tile, BEAT)
        await bench.settle()
        assert bench.fulls == list(range(60))

    simulate(config, scenario)


@pytest.mark.parametrize("in_overflow", [False, True])
def test_one_commit_a_cycle_for_one_tile_and_the_stated_latency(in_overflow):
    config = make_config(1, 1, plans=1)

    async def scenario(bench):
        blocker = Tile(0, 1, 1, 0, 2 * BEAT)
        tile = Tile(0, 2, 2, 0, 200 * BEAT, command=7)
        await bench.program([blocker, tile])
        if in_overflow:
            await bench.tick(blocker, BEAT)
        first = bench.cycle
        seen = []

        async def tick(*commit):
            await bench.tick(*commit)
            if len(bench.fulls) > len(seen):
                seen.append(bench.cycle - 1)

        for _beat in range(200):
            await tick(tile, BEAT)
        assert bench.model.full_in == {2: 1}
        for _cycle in range(Tracker.latency + 1):
            await tick()
        assert seen == [first + 199 + Tracker.latency]

    simulate(config, scenario)


def test_a_tile_of_one_beat_is_full_every_cycle():
    config = make_config(4, 2, plans=1)

    async def scenario(bench):
        tiles = [Tile(0, slot, slot, 0, BEAT - slot % 3, slot) for slot in range(64)]
        await bench.program(tiles)
        for tile in tiles:
            await bench.tick(tile, tile.expected)
        await bench.settle()
        assert bench.fulls == list(range(64))
        assert bench.ctx.get(bench.dut.high_water) == 0, "a tile full at once takes no place"

    simulate(config, scenario)


@pytest.mark.parametrize("in_overflow", [False, True])
def test_an_over_count_changes_nothing(in_overflow):
    config = make_config(1, 1, plans=2)

    async def scenario(bench):
        blocker = Tile(1, 1, 1, 0, 2 * BEAT)
        tile = Tile(0, 2, 2, 0, 2 * BEAT + 3)
        await bench.program([blocker, tile])
        if in_overflow:
            await bench.tick(blocker, BEAT)
        await bench.tick(tile, BEAT)
        await bench.tick(tile, BEAT)
        await bench.tick(tile, 4)          # One byte too many,
        assert await bench.look(2) == 2 * BEAT | 1 << 31
        await bench.tick(tile, 3)          # and the right number still completes it.
        await bench.tick(tile, 1)          # Full in this epoch.
        await bench.settle()
        assert bench.fulls == [2]
        assert await bench.look(2) == 1 << 24
        bench.arm(0, 2)
        await bench.tick(tile, BEAT)       # A new epoch counts from 0.
        await bench.settle()
        assert await bench.look(2) == BEAT | 1 << 24 | 1 << 31

    simulate(config, scenario)


def test_the_first_commit_may_be_too_large_already():
    config = make_config(plans=1)

    async def scenario(bench):
        tile = Tile(0, 2, 2, 0, BEAT - 1)
        await bench.program([tile])
        await bench.tick(tile, BEAT)
        await bench.settle()
        assert await bench.look(2) == 0
        await bench.tick(tile, BEAT - 1)
        await bench.settle()
        assert bench.fulls == [2]

    simulate(config, scenario)


def test_the_largest_expected_count_is_counted_in_full():
    config = make_config(plans=1)

    async def scenario(bench):
        tile = Tile(0, 2, 2, 0, (1 << 24) - 1)
        await bench.program([tile])
        for _beat in range(5):
            await bench.tick(tile, BEAT)
        assert await bench.look(2) == 5 * BEAT | 1 << 31

    simulate(config, scenario)


def test_commits_of_a_plan_that_is_not_armed_are_ignored():
    config = make_config(plans=2)

    async def scenario(bench):
        tile = Tile(1, 2, 2, 0, BEAT)
        await bench.program([tile])
        bench.arm(1, 5, armed=0)
        await bench.tick(tile, BEAT)
        await bench.settle()
        assert bench.fulls == [] and await bench.look(2) == 0

    simulate(config, scenario)


def test_stores_that_disagree_about_a_slots_workgroup_are_counted_together():
    """A bad plan: the slot is the tile, whatever workgroup the stores name."""
    config = make_config(2, 1, plans=1)

    async def scenario(bench):
        tile = Tile(0, 5, 0, 0, 3 * BEAT)
        await bench.program([tile])
        for wg in (0, 1, 2):
            tile.wg = wg
            await bench.tick(tile, BEAT)
        await bench.settle()
        assert bench.fulls == [5] and not bench.model.in_ways

    simulate(config, scenario)


def test_other_tables_and_words_change_nothing():
    config = make_config(plans=1)

    async def scenario(bench):
        tile = Tile(0, 2, 2, 0, BEAT, command=9)
        await bench.program([tile])
        for table in Table:
            for word in range(4):
                if table is not Table.TILE or word > 1:
                    await bench.write(table, 2, word, 0x00FF00FF)
        await bench.tick(tile, BEAT)
        await bench.settle()
        assert bench.fulls == [2]

    simulate(config, scenario)


@pytest.mark.parametrize("sets, ways", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_clear_of_one_plan_beside_the_others_commits(sets, ways, seed):
    """Gaps now and then; the other plans' tiles are in the same sets and in the words beside."""
    rng = random.Random(seed)
    config = make_config(sets, ways)
    note = f"{sets}x{ways} seed {seed}"

    async def scenario(bench):
        tiles = make_tiles(rng, config, 20)
        await bench.program(tiles)
        for _round in range(2):
            beats = [beat for tile in tiles for beat in tile.chunks(rng)]
            rng.shuffle(beats)
            for tile, size in beats[:len(beats) // 3]:
                await bench.tick(tile, size)
            bench.arm(1, 1, armed=0)
            rest = [beat for beat in beats[len(beats) // 3:] if beat[0].plan != 1]
            sent = []

            def commits():
                for beat in rest:
                    while rng.random() < 0.5:
                        # Late commits of the stopped plan leave their cycles to the clear.
                        yield rng.choice((None, (tiles[20 + rng.randrange(20)], BEAT)))
                    sent.append(beat)
                    yield beat

            await bench.clear(20, 39, commits())
            bench.model.clear(20, 39)
            for slot in range(18, 42):
                assert await bench.look(slot) == bench.model.state(slot), f"{note} slot {slot}"
            bench.arm(1, 1)
            again = rest[len(sent):] + [beat for tile in tiles if tile.plan == 1
                                        for beat in tile.chunks(rng)]
            rng.shuffle(again)
            bench.fulls = [slot for slot in bench.fulls if not 20 <= slot <= 39]
            for tile, size in again:
                await bench.tick(tile, size)
            await bench.settle()
            assert sorted(bench.fulls) == list(range(60)), note
            assert bench.ctx.get(bench.dut.occupancy) == 0, note
            assert bench.ctx.get(bench.dut.overflow_occupancy) == 0, note
            bench.fulls.clear()
            for plan in range(config.plans):
                bench.arm(plan, bench.epochs[plan] + 1)

    simulate(config, scenario, note)


@pytest.mark.parametrize("sets", [1, 32])
def test_clear_takes_the_stated_cycles_and_waits_for_an_unbroken_train(sets):
    config = make_config(sets, 2, plans=2)

    async def scenario(bench):
        tiles = [Tile(0, slot, slot, 0, 400 * BEAT) for slot in range(30)]
        runner = Tile(1, 40, 3, 0, 400 * BEAT)
        await bench.program([*tiles, runner])
        for tile in tiles:
            await bench.tick(tile, BEAT)
        bench.arm(0, 1, armed=0)
        train = 150
        cycles = await bench.clear(0, 29, [(runner, BEAT)] * train)
        # The first cycle of a clear needs no gap.
        assert cycles == train + 30 + Tracker.clear_cycles - 1
        bench.model.clear(0, 29)
        await bench.settle()
        assert [await bench.look(slot) for slot in range(30)] == [0] * 30
        assert await bench.look(40) == bench.model.state(40) == train * BEAT | 1 << 31
        assert bench.ctx.get(bench.dut.occupancy) + bench.ctx.get(bench.dut.overflow_occupancy) == 1
        # Idle: as documented. An empty range is done at once, and changes nothing.
        assert await bench.clear(0, 29) == 30 + Tracker.clear_cycles
        assert await bench.clear(40, 40, any_tiles=0) == 2
        assert await bench.look(40) == train * BEAT | 1 << 31

    simulate(config, scenario)


@pytest.mark.parametrize("sets, ways", SHAPES)
def test_lookup_finds_ways_overflow_and_nothing(sets, ways):
    config = make_config(sets, ways)

    async def scenario(bench):
        rng = random.Random(1)
        tiles = make_tiles(rng, config, 20)
        await bench.program(tiles)
        for plan in range(config.plans):
            bench.arm(plan, 13 + plan)
        for tile in tiles:
            await bench.tick(tile, min(BEAT, tile.expected))
        await bench.settle()
        for slot in range(64):
            start = bench.cycle
            assert await bench.look(slot) == bench.model.state(slot), f"slot {slot}"
            assert bench.cycle == start + 2 + Tracker.look_cycles + 1

    simulate(config, scenario)


def test_a_lookup_waits_for_a_clear_and_for_commits():
    config = make_config(4, 2, plans=2)

    async def scenario(bench):
        tiles = [Tile(0, slot, slot, 0, 400 * BEAT) for slot in range(20)]
        runner = Tile(1, 40, 3, 0, 400 * BEAT)
        await bench.program([*tiles, runner])
        await bench.tick(tiles[3], BEAT)
        bench.arm(0, 1, armed=0)
        ctx, dut = bench.ctx, bench.dut
        # Asked in the cycle in which the clear begins: answered after it, from what it left.
        ctx.set(dut.state_index, 3)
        ctx.set(dut.state_start, 1)
        ctx.set(dut.clear.payload, {"any_tiles": 1, "first_tile": 0, "last_tile": 19})
        ctx.set(dut.clear.valid, 1)
        await bench.tick()
        ctx.set(dut.state_start, 0)
        bench.places = False
        while not bench.clear_ready:
            assert bench.cycle < 200
            await bench.tick()
            assert not bench.state_done
        ctx.set(dut.clear.valid, 0)
        bench.model.clear(0, 19)
        for _cycle in range(50):
            await bench.tick(runner, BEAT)
            assert not bench.state_done
        for _cycle in range(Tracker.look_cycles + 1):
            await bench.tick()
            if bench.state_done:
                break
        assert bench.state_done and bench.state == 0

    simulate(config, scenario)


def test_a_thousand_runs_leave_the_tables_empty():
    """Program once, run with alternating shapes, no reset, no clear."""
    rng = random.Random(7)
    config = make_config(1, 2, tiles=16, plans=2)

    async def scenario(bench):
        # Plan 0 has tiles of 1 to 13 bytes, plan 1 of 8 to 17, in sets that they share.
        tiles = [Tile(0, slot, slot, 0, 1 + slot * 4) for slot in range(4)]
        tiles += [Tile(1, 8 + slot, slot, 0, 8 + slot * 3) for slot in range(4)]
        await bench.program(tiles)
        epochs = [0, 0]
        for run in range(1000):
            plan = run % 2
            epochs[plan] = 2 if epochs[plan] == 15 else epochs[plan] + 1
            bench.arm(plan, epochs[plan])
            used = tiles[4 * plan:4 * plan + 4]
            beats = [(tile, size) for tile in used
                     for size in (min(BEAT, tile.expected), tile.expected - BEAT) if size > 0]
            rng.shuffle(beats)
            for tile, size in beats:
                for part in (BEAT, size - BEAT) if size > BEAT else (size,):
                    await bench.tick(tile, part)
            if run % 100 > 97:
                await bench.settle()
                assert bench.ctx.get(bench.dut.occupancy) == 0, f"run {run}"
                assert bench.ctx.get(bench.dut.overflow_occupancy) == 0, f"run {run}"
                assert sorted(bench.fulls[-4:]) == [tile.slot for tile in used], f"run {run}"
        await bench.settle()
        assert len(bench.fulls) == 4000
        for tile in tiles:
            assert await bench.look(tile.slot) == epochs[tile.plan] << 24

    simulate(config, scenario)


def test_marks_keep_the_most_and_are_cleared_to_now():
    config = make_config(1, 2, plans=1)

    async def scenario(bench):
        get, dut = bench.ctx.get, bench.dut
        tiles = [Tile(0, slot, slot, 0, 2 * BEAT) for slot in range(5)]
        await bench.program(tiles)
        for tile in tiles:
            await bench.tick(tile, BEAT)
        for tile in (tiles[0], *tiles[3:]):
            await bench.tick(tile, BEAT)
        await bench.settle()
        assert (get(dut.occupancy), get(dut.high_water)) == (1, 2)
        assert (get(dut.overflow_occupancy), get(dut.overflow_high_water)) == (1, 3)
        bench.ctx.set(dut.clear_marks, 1)
        await bench.tick()
        bench.ctx.set(dut.clear_marks, 0)
        assert (get(dut.high_water), get(dut.overflow_high_water)) == (1, 1)
        for tile in tiles[1:3]:
            await bench.tick(tile, BEAT)
        await bench.settle()
        assert (get(dut.occupancy), get(dut.high_water)) == (0, 1)
        assert (get(dut.overflow_occupancy), get(dut.overflow_high_water)) == (0, 1)

    simulate(config, scenario)


def test_a_reset_keeps_occupancies_with_the_entries_and_a_clear_frees_them():
    config = make_config(1, 2, plans=1)
    dut = Tracker(config=config)
    reset = Signal()
    m = Module()
    m.submodules.dut = ResetInserter(reset)(dut)

    async def bench_(ctx):
        bench = Bench(ctx, dut, config)
        tiles = [Tile(0, slot, slot, 0, 2 * BEAT) for slot in range(5)]
        await bench.program(tiles)
        for tile in tiles:
            await bench.tick(tile, BEAT)
        await bench.settle()
        ctx.set(reset, 1)
        await bench.tick()
        ctx.set(reset, 0)
        assert (ctx.get(dut.occupancy), ctx.get(dut.overflow_occupancy)) == (2, 3)
        bench.places = False
        await bench.clear(0, 4)
        bench.model.clear(0, 4)
        await bench.settle()
        assert (ctx.get(dut.occupancy), ctx.get(dut.overflow_occupancy)) == (0, 0)
        for tile in tiles:
            await bench.tick(tile, BEAT)
            await bench.tick(tile, BEAT)
        await bench.settle()
        assert bench.fulls == [0, 1, 2, 3, 4]

    sim = Simulator(m)
    sim.add_clock(10e-9)
    sim.add_testbench(bench_)
    sim.run()


@pytest.mark.parametrize("config", [None, {}, "default"])
def test_what_is_no_configuration_is_refused(config):
    with pytest.raises(TypeError, match=f"not {config!r}"):
        Tracker(config=config)
