"""Plan state against a model, cycle by cycle; then tracker, trigger and plan state together."""

import random

import pytest
from amaranth import Module, Signal
from amaranth.lib import stream
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.plan_state import PlanState
from t3hw.hdl.seams import ErrorCause, Table, next_epoch, table_write
from t3hw.hdl.tracker import Tracker
from t3hw.hdl.trigger import Trigger

ARM, CLEAR = 1, 2
#: Where half the epoch of a clear stands.
EPOCH = 4
TILES, COMMANDS, TOUCH = 64, 32, 64


def make_config(plans=3, **changes):
    # 64 touch entries of 8 bytes.
    fields = {"tiles": TILES, "commands": COMMANDS, "plans": plans, "touch_bytes": 8 * TOUCH,
              "tracker_sets": 2, "tracker_ways": 2, "wg_width": 8, "wf_width": 2}
    return NodeConfig(**fields | changes)


class Plan:
    """What is known of a plan: its words, and the state that they must lead to."""

    def __init__(self, first_tile=0, tiles=0, first_command=0, commands=0, timeout=0, first_touch=0,
                 touch_beats=0):
        self.words = [first_tile, tiles, first_command, commands, timeout, first_touch, touch_beats]
        self.first_tile, self.tiles, self.commands, self.timeout = (
            first_tile, tiles, commands, timeout)
        self.armed = self.done = self.timed_out = self.clearing = 0
        self.epoch = self.tiles_done = self.commands_done = self.age = 0
        self.asked_at = None

    @property
    def complete(self):
        return self.armed and (self.tiles_done, self.commands_done) == (self.tiles, self.commands)

    def arm(self):
        self.armed, self.done, self.timed_out = 1, 0, 0
        self.epoch = {0: 1, 15: 2}.get(self.epoch, self.epoch + 1)
        self.tiles_done = self.commands_done = self.age = 0

    def cut(self, first, count, size):
        """The inclusive range of a table's entries, or None where nothing is in the table."""
        return (first, min(first + count, size) - 1) if count and first < size else None

    def ranges(self):
        words = self.words
        return (self.cut(words[0], words[1], TILES), self.cut(words[2], words[3], COMMANDS),
                self.cut(words[5], words[6], TOUCH))

    def status(self):
        return (self.armed, self.done, self.timed_out, self.clearing, self.epoch, self.tiles_done,
                self.commands_done)


class Bench:
    """Drives one cycle after another; ``plans`` is the model and is compared in every cycle."""

    def __init__(self, ctx, dut, config, note=""):
        self.ctx, self.dut, self.note = ctx, dut, note
        self.plans = [Plan() for _plan in range(config.plans)]
        self.cycle = 0
        self.done_due = 0
        self.done_at = []
        self.clears = []
        self.errors = []
        self.timeouts = []
        self.last_busy = [0, 0]  # of the last two cycles, the older first
        self.offer = None

    async def tick(self, write=None, full=None, command_done=None, ready=1, busy=0):
        """One cycle: a table write (plan, word, value), a plan's full tile, a plan's command."""
        ctx, dut, plans = self.ctx, self.dut, self.plans
        ctx.set(dut.table.valid, write is not None)
        if write is not None:
            ctx.set(dut.table.payload, {"table": Table.PLAN, "entry": write[0], "word": write[1],
                                        "data": write[2]})
        ctx.set(dut.full.valid, full is not None)
        ctx.set(dut.full.payload.plan, full or 0)
        ctx.set(dut.command_done.valid, command_done is not None)
        ctx.set(dut.command_done.payload.plan, command_done or 0)
        ctx.set(dut.clear.ready, ready)
        ctx.set(dut.busy, busy)
        _, _, status, done, valid, clear, error, event = await ctx.tick().sample(
            dut.status, dut.done, dut.clear.valid, dut.clear.payload, dut.error.valid,
            dut.error.payload)
        note = f"{self.note} cycle {self.cycle}"
        for index, plan in enumerate(plans):
            got = status[index]
            assert (got.armed, got.done, got.timed_out, got.clearing, got.epoch, got.tiles_done,
                    got.commands_done) == plan.status(), f"{note} plan {index}"
        assert done == self.done_due, note
        self.done_at += [(self.cycle, index) for index in range(len(plans)) if done >> index & 1]
        if error:
            assert (event.cause, event.tile.tracked) == (ErrorCause.PLAN_TIMEOUT, 1), note
            self.errors.append((self.cycle, event.tile.plan, event.tile.slot))
        taken = self.check_clear(note, valid, clear, ready)
        self.last_busy = [self.last_busy[1], busy]
        self.step(write, full, command_done, taken)
        self.cycle += 1

    def check_clear(self, note, valid, clear, ready):
        offer = None
        if valid:
            offer = (clear.plan,
                     (clear.first_tile, clear.last_tile) if clear.any_tiles else None,
                     (clear.first_command, clear.last_command) if clear.any_commands else None,
                     (clear.first_touch, clear.last_touch) if clear.any_touch else None)
            plan = self.plans[clear.plan]
            assert plan.clearing and offer[1:] == plan.ranges(), note
            assert self.cycle >= plan.asked_at + PlanState.drain_cycles, f"{note}: too early"
            if self.offer is None:
                assert not self.last_busy[0] >> clear.plan & 1, f"{note}: busy"
        assert self.offer is None or offer == self.offer, f"{note}: an offer must stand"
        self.offer = None if ready else offer
        if valid and ready:
            self.clears.append((self.cycle, clear.plan))
            return clear.plan
        return None

    def step(self, write, full, command_done, taken):
        self.done_due = 0
        for index, plan in enumerate(self.plans):
            control = write[2] if write and write[:2] == (index, 0) else 0
            complete = plan.complete
            if plan.armed:
                plan.age += 1
                plan.tiles_done += full == index
                plan.commands_done += command_done == index
                if plan.age == plan.timeout and not complete and not control & CLEAR:
                    plan.timed_out = 1
                    self.timeouts.append(index)
            elif control == ARM and not plan.clearing:
                plan.arm()
            if complete:
                plan.armed, plan.done = 0, 1
                if not control & CLEAR:
                    self.done_due |= 1 << index
            if taken == index:
                plan.clearing = plan.done = plan.timed_out = 0
            if control & CLEAR:
                if not plan.clearing:
                    plan.asked_at = self.cycle
                plan.armed, plan.clearing = 0, 1
                plan.epoch = 2 * (control >> EPOCH & 7)

    async def program(self, index, **words):
        self.plans[index].__init__(**words)
        for word, value in enumerate(self.plans[index].words, start=1):
            await self.tick((index, word, value))

    async def idle(self, cycles, **inputs):
        for _cycle in range(cycles):
            await self.tick(**inputs)


def simulate(config, scenario, note=""):
    dut = PlanState(config=config)

    async def bench(ctx):
        await scenario(Bench(ctx, dut, config, note))

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("plans", [1, 3, 8])
@pytest.mark.parametrize("seed", range(2))
def test_random_events_match_the_model_in_every_cycle(plans, seed):
    rng = random.Random(seed)

    async def scenario(bench):
        for index in range(plans):
            await bench.program(index, first_tile=rng.randrange(TILES), tiles=rng.randrange(5),
                                first_command=rng.randrange(COMMANDS), commands=rng.randrange(3),
                                timeout=rng.choice((0, 1, 5, 30)) if index else 5,
                                first_touch=rng.randrange(TOUCH), touch_beats=rng.randrange(8))
        for _cycle in range(700):
            chance = rng.random()
            index = rng.randrange(plans)
            clear = CLEAR | rng.randrange(8) << EPOCH
            write = ((index, 0, ARM) if chance < 0.3 else (index, 0, clear) if chance < 0.33
                     else (index, 0, ARM | CLEAR) if chance < 0.34 else (index, 0, 0)
                     if chance < 0.4 else None)
            # Not more than a plan has: that is the tracker's and the DMA's promise.
            full = rng.randrange(plans) if rng.random() < 0.5 else None
            if full is not None and bench.plans[full].tiles_done == bench.plans[full].tiles:
                full = None
            done = rng.randrange(plans) if rng.random() < 0.4 else None
            if done is not None and bench.plans[done].commands_done == bench.plans[done].commands:
                done = None
            await bench.tick(write, full, done, ready=rng.random() < 0.1,
                             busy=rng.randrange(1 << plans) if rng.random() < 0.3 else 0)
        await bench.idle(200)
        assert not any(plan.clearing for plan in bench.plans), bench.note
        assert sorted(error[1] for error in bench.errors) == sorted(bench.timeouts), bench.note
        assert bench.done_at and bench.clears and bench.errors, f"{bench.note}: nothing was tested"

    simulate(make_config(plans), scenario, f"{plans} plans, seed {seed}")


def test_done_comes_with_the_stated_latency_after_the_last_event():
    async def scenario(bench):
        await bench.program(0, tiles=3, commands=2)
        await bench.tick((0, 0, ARM))
        for _event in range(3):
            await bench.tick(full=0)
        await bench.tick(command_done=0)
        await bench.idle(20)
        assert bench.done_at == []
        last = bench.cycle
        await bench.tick(command_done=0)
        await bench.idle(5)
        assert bench.done_at == [(last + PlanState.latency, 0)]
        # Tiles last, one a cycle, with the commands already done.
        await bench.tick((0, 0, ARM))
        await bench.tick(command_done=0)
        await bench.tick(command_done=0, full=0)
        await bench.tick(full=0)
        last = bench.cycle
        await bench.tick(full=0)
        await bench.idle(5)
        assert bench.done_at[1:] == [(last + PlanState.latency, 0)]

    simulate(make_config(), scenario)


def test_a_plan_without_tiles_and_commands_is_done_at_once():
    async def scenario(bench):
        await bench.program(1)
        start = bench.cycle
        await bench.tick((1, 0, ARM))
        await bench.idle(5)
        assert bench.done_at == [(start + PlanState.latency, 1)]

    simulate(make_config(), scenario)


def test_epochs_run_to_15_go_on_with_2_and_start_again_after_a_clear():
    async def scenario(bench):
        await bench.program(0)
        epochs = []
        for _run in range(31):
            await bench.tick((0, 0, ARM))
            epochs.append(bench.ctx.get(bench.dut.plans[0].epoch))
            await bench.idle(3)
        assert epochs == [*range(1, 16), *range(2, 16), 2, 3]
        assert all(after % 2 != before % 2 for before, after in zip(epochs, epochs[1:]))
        await bench.tick((0, 0, CLEAR))
        await bench.idle(20)
        assert bench.ctx.get(bench.dut.plans[0].epoch) == 0
        await bench.tick((0, 0, ARM))
        assert bench.ctx.get(bench.dut.plans[0].epoch) == 1
        for half, after in ((3, 7), (7, 15), (1, 3)):
            # From the next cycle on: late packets are stale at once.
            await bench.tick((0, 0, CLEAR | half << EPOCH))
            assert bench.ctx.get(bench.dut.plans[0].epoch) == 2 * half
            await bench.idle(20)
            await bench.tick((0, 0, ARM))
            assert bench.ctx.get(bench.dut.plans[0].epoch) == after
        await bench.tick()

    simulate(make_config(), scenario)


def test_timeout_is_reported_once_an_arm_and_the_plan_goes_on():
    async def scenario(bench):
        await bench.program(2, first_tile=17, tiles=1, timeout=25)
        for _run in range(2):
            armed = bench.cycle + 1
            await bench.tick((2, 0, ARM))
            await bench.idle(60)
            # Its 25th cycle ends, the flag is up, the report is registered once more.
            assert bench.errors == [(armed + 25 + 1, 2, 17)]
            bench.errors.clear()
            assert bench.plans[2].armed and bench.plans[2].timed_out
            await bench.tick(full=2)
            await bench.idle(3)
            assert bench.plans[2].done and bench.plans[2].timed_out

    simulate(make_config(), scenario)


def test_plans_that_time_out_in_one_cycle_are_all_reported():
    async def scenario(bench):
        for index in range(8):
            await bench.program(index, first_tile=index, tiles=1, timeout=40 - index)
        for index in range(8):
            await bench.tick((index, 0, ARM))
        await bench.idle(60)
        assert [error[1:] for error in bench.errors] == [(index, index) for index in range(8)]

    simulate(make_config(8), scenario)


@pytest.mark.parametrize("first, count, cut", [
    (0, 64, (0, 63)), (0, 65, (0, 63)), (63, 1, (63, 63)), (63, 2, (63, 63)), (64, 1, None),
    (5, 0, None), (0, 0, None), (0, 1, (0, 0)), (0xFFFFFFFF, 1, None), (62, 0xFFFFFFFF, (62, 63)),
    (0, 1 << 16, (0, 63)), (1 << 16, 4, None)])
def test_ranges_end_with_the_tables(first, count, cut):
    async def scenario(bench):
        half = first // 2 if first < 1 << 16 else first
        await bench.program(1, first_tile=first, tiles=count, first_command=half, commands=count,
                            first_touch=first, touch_beats=count)
        assert bench.plans[1].ranges()[::2] == (cut, cut)
        await bench.idle(2)
        view = bench.ctx.get(bench.dut.plans[1])
        if cut is None:
            assert view.first_tile > view.last_tile
        else:
            assert (view.first_tile, view.last_tile) == cut
        await bench.tick((1, 0, CLEAR))
        await bench.idle(20)
        assert len(bench.clears) == 1

    simulate(make_config(), scenario)


@pytest.mark.parametrize("tiles, commands", [(65, 0), (1 << 16, 0), (0, 33), (0, 1 << 31)])
def test_a_number_larger_than_the_table_never_completes(tiles, commands):
    async def scenario(bench):
        await bench.program(0, tiles=tiles, commands=commands, timeout=100)
        await bench.tick((0, 0, ARM))
        for _event in range(64):
            await bench.tick(full=0, command_done=0 if _event < 32 else None)
        await bench.idle(60)
        assert bench.errors and not bench.done_at

    simulate(make_config(1), scenario)


def test_clears_come_one_after_another_and_a_busy_plan_holds_up_no_other():
    async def scenario(bench):
        for index in range(3):
            await bench.program(index, first_tile=8 * index, tiles=8)
            await bench.tick((index, 0, ARM))
        for index in range(3):
            await bench.tick((index, 0, CLEAR), busy=0b001)
        assert not any(plan.armed for plan in bench.plans)
        await bench.idle(100, busy=0b001)
        assert [plan for _cycle, plan in bench.clears] == [1, 2]
        # Not busy for a moment is not enough: a fire may still come.
        await bench.tick(busy=0)
        await bench.idle(100, busy=0b001)
        assert [plan for _cycle, plan in bench.clears] == [1, 2]
        await bench.idle(20)
        assert [plan for _cycle, plan in bench.clears] == [1, 2, 0]

    simulate(make_config(), scenario)


def test_a_clear_asked_for_at_the_end_of_a_clear_is_not_lost():
    async def scenario(bench):
        await bench.program(0, tiles=4)
        await bench.tick((0, 0, CLEAR), ready=0)
        await bench.idle(20, ready=0)
        assert bench.offer is not None
        await bench.tick((0, 0, CLEAR), ready=1)
        await bench.idle(20)
        assert len(bench.clears) == 2

    simulate(make_config(), scenario)


def test_writes_to_other_tables_are_ignored():
    async def scenario(bench):
        ctx, dut = bench.ctx, bench.dut
        await bench.program(1, tiles=2, commands=1)
        for table in set(Table) - {Table.PLAN}:
            for word in range(8):
                ctx.set(dut.table.payload, {"table": table, "entry": 1, "word": word, "data": 3})
                ctx.set(dut.table.valid, 1)
                await ctx.tick()
        await bench.idle(2)
        await bench.tick((1, 0, ARM))
        await bench.tick(full=1, command_done=1)
        await bench.tick(full=1)
        await bench.idle(4)
        assert bench.plans[1].done

    simulate(make_config(), scenario)


def test_next_epoch_is_the_one_successor_function():
    epoch, after = Signal(4), Signal(4)
    m = Module()
    m.d.comb += after.eq(next_epoch(epoch))
    seen = []

    async def bench(ctx):
        for value in range(16):
            ctx.set(epoch, value)
            seen.append(ctx.get(after))

    sim = Simulator(m)
    sim.add_testbench(bench)
    sim.run()
    assert seen == [*range(1, 16), 2]


@pytest.mark.parametrize("config", [None, {}, "default"])
def test_what_is_no_configuration_is_refused(config):
    with pytest.raises(TypeError, match=f"not {config!r}"):
        PlanState(config=config)


class Chain:
    """Tracker, trigger and plan state as a node joins them, with a DMA that is done at once."""

    def __init__(self, config):
        self.tracker = tracker = Tracker(config=config)
        self.trigger = trigger = Trigger(config=config)
        self.state = state = PlanState(config=config)
        self.table = stream.Signature(table_write(config), always_ready=True).create()
        self.module = m = Module()
        m.submodules.tracker = tracker
        m.submodules.trigger = trigger
        m.submodules.state = state
        for block in (tracker, trigger, state):
            m.d.comb += [
                block.table.valid.eq(self.table.valid),
                block.table.payload.eq(self.table.payload),
            ]
        for block in (trigger, state):
            m.d.comb += [
                block.full.valid.eq(tracker.full.valid),
                block.full.payload.eq(tracker.full.payload),
            ]
        # Each block takes the range once; the range is taken when all have it.
        taken = []
        for block in (tracker, trigger):
            had = Signal(name="had")
            taken.append(had | block.clear.ready)
            m.d.comb += [
                block.plans.eq(state.plans),
                block.clear.valid.eq(state.clear.valid & ~had),
                block.clear.payload.eq(state.clear.payload),
            ]
            m.d.sync += had.eq((had | block.clear.ready) & ~state.clear.ready)
        m.d.comb += [
            state.clear.ready.eq(taken[0] & taken[1]),
            trigger.fire.ready.eq(1),
            state.command_done.valid.eq(trigger.fire.valid),
            state.command_done.payload.plan.eq(trigger.fire.payload.plan),
        ]


class ChainBench:
    """Two plans with equal ids of 3 tiles: two for the first command, one for the second."""

    #: slot within the plan -> bytes, command within the plan
    TILES = {0: (5, 0), 1: (16, 1), 2: (12, 0)}
    NEED = {0: 2, 1: 1}

    def __init__(self, ctx, chain):
        self.ctx, self.chain = ctx, chain
        self.cycle = 0
        self.fires, self.done, self.errors = [], [], []
        self.clearing = 0

    async def tick(self, plan=None, tile=0, size=0):
        ctx, chain = self.ctx, self.chain
        ctx.set(chain.tracker.commit.valid, plan is not None)
        if plan is not None:
            ctx.set(chain.tracker.commit.payload, {
                "bytes": size,
                "tile": {"tracked": 1, "plan": plan, "slot": 4 * plan + tile, "wg": tile}})
        ctx.set(chain.tracker.cycle, self.cycle)
        fire = chain.trigger.fire
        _, _, valid, payload, done, error, clearing = await ctx.tick().sample(
            fire.valid, fire.payload, chain.state.done, chain.tracker.error.valid,
            chain.state.status[1].clearing)
        if valid:
            self.fires.append((self.cycle, payload.plan, payload.first - 4 * payload.plan,
                               payload.stamp))
        self.done += [(self.cycle, plan) for plan in range(2) if done >> plan & 1]
        self.errors += [self.cycle] * error
        self.clearing = clearing
        self.cycle += 1

    async def write(self, table, entry, word, value):
        self.ctx.set(self.chain.table.payload,
                     {"table": table, "entry": entry, "word": word, "data": value})
        self.ctx.set(self.chain.table.valid, 1)
        await self.tick()
        self.ctx.set(self.chain.table.valid, 0)

    async def program(self):
        for plan in range(2):
            for word, value in enumerate((4 * plan, 3, 2 * plan, 2), start=1):
                await self.write(Table.PLAN, plan, word, value)
            for tile, (size, command) in self.TILES.items():
                await self.write(Table.TILE, 4 * plan + tile, 0, size)
                await self.write(Table.TILE, 4 * plan + tile, 1, 2 * plan + command)
            for command, need in self.NEED.items():
                await self.write(Table.COMMAND, 2 * plan + command, 0, need | plan << 20)
                await self.write(Table.COMMAND, 2 * plan + command, 1, 4 * plan + command)

    def beats(self, rng, plan):
        result = []
        for tile, (size, _command) in self.TILES.items():
            while size:
                part = min(size, rng.choice((3, 8, 8)))
                result.append((plan, tile, part))
                size -= part
        rng.shuffle(result)
        return result

    async def idle(self, cycles):
        for _cycle in range(cycles):
            await self.tick()


def simulate_chain(config, scenario):
    chain = Chain(config)

    async def bench(ctx):
        await scenario(ChainBench(ctx, chain))

    sim = Simulator(chain.module)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


def test_a_thousand_runs_without_reset_fire_and_finish_exactly_once_each():
    rng = random.Random(3)

    async def scenario(bench):
        ctx, chain = bench.ctx, bench.chain
        await bench.program()
        for run in range(500):
            for plan in range(2):
                await bench.write(Table.PLAN, plan, 0, ARM)
            beats = [*bench.beats(rng, 0), *bench.beats(rng, 1)]
            if run % 2:
                rng.shuffle(beats)
            for beat in beats:
                await bench.tick(*beat)
            last = bench.cycle - 1
            latency = Tracker.latency + Trigger.latency
            await bench.idle(latency + PlanState.latency + 1)
            assert sorted(fire[1:3] for fire in bench.fires) == [
                (0, 0), (0, 1), (1, 0), (1, 1)], f"run {run}"
            # A fire waits only while another one stands before it in the queue, one cycle each.
            assert all(latency <= cycle - stamp <= latency + 3
                       for cycle, _plan, _command, stamp in bench.fires), f"run {run}"
            assert bench.fires[-1][3] == last, f"run {run}"
            assert sorted(plan for _cycle, plan in bench.done) == [0, 1], f"run {run}"
            assert bench.done[-1][0] == bench.fires[-1][0] + PlanState.latency, f"run {run}"
            assert not bench.errors, f"run {run}"
            bench.fires.clear()
            bench.done.clear()
        assert ctx.get(chain.tracker.occupancy) == ctx.get(chain.tracker.overflow_occupancy) == 0

    simulate_chain(make_config(2), scenario)


@pytest.mark.parametrize("seed", range(2))
def test_a_stopped_plan_runs_again_while_the_other_one_goes_on(seed):
    rng = random.Random(seed)

    async def scenario(bench):
        await bench.program()
        for round_ in range(20):
            note = f"seed {seed} round {round_}"
            for plan in range(2):
                await bench.write(Table.PLAN, plan, 0, ARM)
            lost = bench.beats(rng, 1)
            for beat in lost[:rng.randrange(len(lost))]:
                await bench.tick(*beat)
            others = iter(bench.beats(rng, 0))
            stopped = bench.cycle
            await bench.write(Table.PLAN, 1, 0, CLEAR)
            while True:
                # Late commits of the stopped plan are not counted.
                choice = rng.random()
                await bench.tick(*(rng.choice(lost) if choice < 0.3 else
                                   next(others, ()) if choice < 0.5 else ()))
                if not bench.clearing:
                    break
                assert bench.cycle < stopped + 200, note
            bench.fires = [fire for fire in bench.fires if fire[1] == 0]
            await bench.write(Table.PLAN, 1, 0, ARM)
            assert bench.ctx.get(bench.chain.state.plans[1].epoch) == 1, note
            rest = [*others, *bench.beats(rng, 1)]
            rng.shuffle(rest)
            for beat in rest:
                await bench.tick(*beat)
            await bench.idle(10)
            assert sorted(fire[1:3] for fire in bench.fires) == [
                (0, 0), (0, 1), (1, 0), (1, 1)], note
            assert sorted(plan for _cycle, plan in bench.done) == [0, 1], note
            assert not bench.errors, note
            tracker = bench.chain.tracker
            occupied = bench.ctx.get(tracker.occupancy), bench.ctx.get(tracker.overflow_occupancy)
            assert occupied == (0, 0), note
            bench.fires.clear()
            bench.done.clear()

    simulate_chain(make_config(2), scenario)
