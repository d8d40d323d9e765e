"""The trigger against a model: one fire a run, in order, and none from before a clear."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.seams import NO_COMMAND, Table
from t3hw.hdl.trigger import Trigger

COMMANDS = 16


def make_config(**changes):
    fields = {"tiles": 64, "commands": COMMANDS, "plans": 3, "routes": 4, "touch_bytes": 64}
    return NodeConfig(**fields | changes)


class Command:
    def __init__(self, number, plan, need, route=0, first=0, count=1):
        self.number, self.plan, self.need = number, plan, need
        self.route, self.first, self.count = route, first, count

    def fire(self, stamp):
        return (self.plan, self.route, self.first, self.count, stamp)


class Bench:
    """Drives one cycle after another; keeps what was fired, and checks that an offer stands."""

    def __init__(self, ctx, dut, config, note=""):
        self.ctx, self.dut, self.note = ctx, dut, note
        self.cycle = 0
        self.fired = []      # (plan, route, first, count, stamp)
        self.fired_at = []   # the cycle of each
        self.offer = None
        self.clear_ready = 0
        for plan in range(config.plans):
            self.arm(plan, 1)

    def arm(self, plan, epoch):
        self.ctx.set(self.dut.plans[plan], {"armed": epoch != 0, "epoch": epoch})

    async def tick(self, plan=None, command=0, *, ready=1):
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.full.valid, plan is not None)
        if plan is not None:
            ctx.set(dut.full.payload, {"plan": plan, "slot": 0, "command": command,
                                       "stamp": self.cycle & 0xFFFFFF})
        ctx.set(dut.fire.ready, ready)
        _, _, valid, fire, self.clear_ready = await ctx.tick().sample(
            dut.fire.valid, dut.fire.payload, dut.clear.ready)
        offer = (fire.plan, fire.route, fire.first, fire.count, fire.stamp) if valid else None
        assert self.offer is None or offer == self.offer, f"{self.note} cycle {self.cycle}"
        if valid and ready:
            self.fired.append(offer)
            self.fired_at.append(self.cycle)
        self.offer = None if ready else offer
        self.cycle += 1

    async def write(self, entry, word, value, table=Table.COMMAND):
        self.ctx.set(self.dut.table.payload,
                     {"table": table, "entry": entry, "word": word, "data": value})
        self.ctx.set(self.dut.table.valid, 1)
        await self.tick()
        self.ctx.set(self.dut.table.valid, 0)

    async def program(self, commands):
        for command in commands:
            await self.write(command.number, 0,
                             command.need | command.route << 16 | command.plan << 20)
            await self.write(command.number, 1, command.first | command.count - 1 << 16)

    async def drain(self, cycles=40):
        for _cycle in range(cycles):
            await self.tick()

    def start_clear(self, plan, first, last, any_commands=1):
        self.ctx.set(self.dut.clear.payload, {
            "plan": plan, "any_commands": any_commands, "first_command": first,
            "last_command": last})
        self.ctx.set(self.dut.clear.valid, 1)

    async def clear(self, plan, first, last, fulls=(), any_commands=1, ready=lambda: 1, limit=400):
        """Clear beside an iterator of full tiles (None: none).

        Return the cycles that it took, and how many of the plan's fires got away: taken before, or
        on offer when it began.
        """
        self.start_clear(plan, first, last, any_commands)
        away = [*self.fired, self.offer or (None,)]
        fulls = iter(fulls)
        for cycles in range(1, limit + 1):
            await self.tick(*(next(fulls, None) or ()), ready=ready())
            if self.clear_ready:
                self.ctx.set(self.dut.clear.valid, 0)
                return cycles, sum(fire[0] == plan for fire in away)
        pytest.fail(f"{self.note}: not cleared after {limit} cycles")


def simulate(config, scenario, note=""):
    dut = Trigger(config=config)

    async def bench(ctx):
        await scenario(Bench(ctx, dut, config, note))

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


def random_commands(rng, plans=3):
    """A third of the commands for each plan, in one range a plan."""
    share = COMMANDS // plans
    return [Command(number, number // share, rng.randrange(1, 6), rng.randrange(4),
                    rng.randrange(64), rng.choice((1, 2, 64))) for number in range(share * plans)]


@pytest.mark.parametrize("seed", range(4))
def test_each_command_fires_exactly_once_a_run(seed):
    rng = random.Random(seed)
    note = f"seed {seed}"

    async def scenario(bench):
        commands = random_commands(rng)
        await bench.program(commands)
        for epoch in (1, 2, 15, 2, 3):
            for plan in range(3):
                bench.arm(plan, epoch)
            fulls = [command for command in commands for _tile in range(command.need)]
            rng.shuffle(fulls)
            seen, due = dict.fromkeys(range(COMMANDS), 0), []
            for command in fulls:
                while rng.random() < 0.2:
                    nothing = rng.choice(((), (command.plan, NO_COMMAND), (command.plan, COMMANDS),
                                          ((command.plan + 1) % 3, command.number)))
                    await bench.tick(*nothing, ready=rng.random() < 0.3)
                seen[command.number] += 1
                if seen[command.number] == command.need:
                    due.append(command.fire(bench.cycle))
                await bench.tick(command.plan, command.number, ready=rng.random() < 0.3)
            await bench.drain()
            assert bench.fired == due, f"{note} epoch {epoch}"
            bench.fired.clear()

    simulate(make_config(), scenario, note)


def test_latency_and_throughput_are_as_stated():
    async def scenario(bench):
        commands = [Command(number, 0, 1, number % 4, number, 1) for number in range(COMMANDS)]
        await bench.program(commands)
        start = bench.cycle
        for number in range(COMMANDS):
            await bench.tick(0, number)
        await bench.drain()
        assert bench.fired == [command.fire(start + command.number) for command in commands]
        assert bench.fired_at == [start + number + Trigger.latency for number in range(COMMANDS)]

    simulate(make_config(), scenario)


def test_one_full_tile_a_cycle_for_one_command():
    async def scenario(bench):
        commands = [Command(5, 0, 64, 1, 7, 64)]
        await bench.program(commands)
        start = bench.cycle
        for _tile in range(64):
            await bench.tick(0, 5)
        await bench.drain()
        assert bench.fired == [commands[0].fire(start + 63)]
        assert bench.fired_at == [start + 63 + Trigger.latency]

    simulate(make_config(), scenario)


def test_all_commands_fit_into_the_queue_of_a_consumer_that_waits():
    async def scenario(bench):
        commands = [Command(number, 0, 1, 0, number, 1) for number in range(COMMANDS)]
        await bench.program(commands)
        start = bench.cycle
        for number in range(COMMANDS):
            await bench.tick(0, number, ready=0)
        for _cycle in range(50):
            await bench.tick(ready=0)
        await bench.drain()
        assert bench.fired == [command.fire(start + command.number) for command in commands]

    simulate(make_config(), scenario)


def test_tiles_beyond_need_and_need_0_fire_nothing():
    async def scenario(bench):
        commands = [Command(1, 0, 2), Command(2, 0, 0)]
        await bench.program(commands)
        for _tile in range(9):
            await bench.tick(0, 1)
            await bench.tick(0, 2)
        await bench.drain()
        assert len(bench.fired) == 1
        bench.arm(0, 2)
        await bench.tick(0, 1)
        await bench.drain()
        assert len(bench.fired) == 1, "the tiles of the last run count in this one"
        await bench.tick(0, 1)
        await bench.drain()
        assert len(bench.fired) == 2

    simulate(make_config(), scenario)


@pytest.mark.parametrize("need", [1025, 2048])
def test_a_need_of_as_many_tiles_as_the_table_has_is_counted_in_full(need):
    async def scenario(bench):
        await bench.program([Command(1, 0, need), Command(2, 0, 2049)])
        for _tile in range(need - 1):
            await bench.tick(0, 1)
        await bench.drain(6)
        assert bench.fired == []
        await bench.tick(0, 1)
        await bench.drain(6)
        assert len(bench.fired) == 1
        for _tile in range(2049):
            await bench.tick(0, 2)
        await bench.drain(6)
        assert len(bench.fired) == 1, "more than there are tiles never comes"

    simulate(make_config(tiles=2048), scenario)


@pytest.mark.parametrize("seed", range(4))
def test_clear_forgets_one_plan_beside_the_others(seed):
    """Counts go, queued fires go, and the plan runs again from epoch 1 while others go on."""
    rng = random.Random(seed)
    note = f"seed {seed}"

    async def scenario(bench):
        commands = random_commands(rng)
        await bench.program(commands)
        share = COMMANDS // 3
        for round_ in range(4):
            due = {plan: [] for plan in range(3)}
            fulls = [command for command in commands for _tile in range(command.need)]
            rng.shuffle(fulls)
            cut = rng.randrange(len(fulls))
            seen = dict.fromkeys(range(COMMANDS), 0)

            def count(command):
                seen[command.number] += 1
                if seen[command.number] == command.need:
                    due[command.plan].append(command.number)
                return command.plan, command.number

            for command in fulls[:cut]:
                await bench.tick(*count(command), ready=rng.random() < 0.2)
            # Before a clear the plan is disarmed and the pipeline in front of the trigger runs dry.
            bench.arm(1, 0)
            for _cycle in range(Trigger.latency + 2):
                await bench.tick(ready=rng.random() < 0.2)
            rest = iter([command for command in fulls[cut:] if command.plan != 1])

            def beside():
                while True:
                    if rng.random() < 0.5:
                        yield None
                    else:
                        command = next(rest, None)
                        yield command and count(command)

            _cycles, away = await bench.clear(1, share, 2 * share - 1, beside(),
                                              ready=lambda: rng.random() < 0.5)
            due[1] = []
            for number in range(share, 2 * share):
                seen[number] = 0
            bench.arm(1, 1)
            again = list(rest) + [command for command in commands if command.plan == 1
                                  for _tile in range(command.need)]
            rng.shuffle(again)
            for command in again:
                await bench.tick(*count(command), ready=rng.random() < 0.5)
            await bench.drain(80)
            for plan in range(3):
                got = [fire for fire in bench.fired if fire[0] == plan]
                if plan == 1:
                    got = got[away:]
                expected = [commands[number].fire(0)[:4] for number in due[plan]]
                assert [fire[:4] for fire in got] == expected, f"{note} round {round_} plan {plan}"
            bench.fired.clear()
            for plan in range(3):
                bench.arm(plan, round_ + 2)

    simulate(make_config(), scenario, note)


def test_a_clear_waits_for_the_fires_before_and_throws_its_own_away():
    """The plan is armed again with the same epoch each time; its old fires never come out."""
    async def scenario(bench):
        commands = [Command(number, plan, 1, first=10 + number)
                    for number, plan in enumerate((0, 0, 1, 1))]
        await bench.program(commands)
        for life in range(3):
            bench.fired.clear()
            bench.arm(0, life + 1)
            for number in (0, 2, 3, 1):
                await bench.tick(commands[number].plan, number, ready=0)
            for _cycle in range(Trigger.latency + 2):
                await bench.tick(ready=0)
            assert bench.ctx.get(bench.dut.queued) == 0b11
            bench.start_clear(1, 2, 3)
            for _cycle in range(30):
                await bench.tick(ready=0)
                assert not bench.clear_ready
            # One taken, two thrown away; the one behind them may stay.
            await bench.tick(ready=1)
            for _cycle in range(5):
                await bench.tick(ready=0)
                if bench.clear_ready:
                    break
            assert bench.clear_ready
            bench.ctx.set(bench.dut.clear.valid, 0)
            assert bench.ctx.get(bench.dut.queued) == 0b01
            start = bench.cycle
            await bench.tick(1, 3, ready=0)
            await bench.tick(1, 2, ready=0)
            await bench.drain()
            assert [fire[2] for fire in bench.fired] == [10, 11, 13, 12]
            assert [fire[4] for fire in bench.fired[2:]] == [start, start + 1]
            assert bench.ctx.get(bench.dut.queued) == 0
            await bench.clear(1, 2, 3)

    simulate(make_config(plans=2), scenario)


def test_a_fire_on_offer_stands_and_the_clear_waits_for_it():
    async def scenario(bench):
        commands = [Command(number, plan, 1, first=10 + number)
                    for number, plan in enumerate((1, 1, 0), start=1)]
        await bench.program(commands)
        start = bench.cycle
        for command in commands:
            await bench.tick(command.plan, command.number, ready=0)
        for _cycle in range(Trigger.latency + 2):
            await bench.tick(ready=0)
        bench.start_clear(1, 1, 2)
        for _cycle in range(30):
            await bench.tick(ready=0)
            assert not bench.clear_ready
        await bench.tick(ready=1)
        for _cycle in range(4):
            await bench.tick(ready=0)
            if bench.clear_ready:
                break
        assert bench.clear_ready
        bench.ctx.set(bench.dut.clear.valid, 0)
        await bench.tick(1, 2, ready=0)
        await bench.drain()
        assert bench.fired[0] == commands[0].fire(start)
        assert [fire[2] for fire in bench.fired] == [11, 13, 12]

    simulate(make_config(plans=2), scenario)


def test_clear_takes_the_stated_cycles():
    async def scenario(bench):
        await bench.program([Command(3, 0, 2)])
        more = Trigger.clear_cycles
        assert await bench.clear(1, 4, 9) == (6 + more, 0)
        assert await bench.clear(1, 5, 5) == (1 + more, 0)
        assert await bench.clear(1, 0, 15, any_commands=0) == (2, 0)
        # The first cycle of a clear needs no gap.
        assert await bench.clear(1, 4, 9, fulls=[(0, 3)] * 20) == (20 + 6 + more - 1, 0)
        await bench.drain()
        assert len(bench.fired) == 1

    simulate(make_config(plans=2), scenario)


def test_other_tables_and_words_change_nothing():
    async def scenario(bench):
        command = Command(3, 1, 1, 2, 9, 4)
        await bench.program([command])
        for table in Table:
            for word in range(4):
                if table is not Table.COMMAND or word > 1:
                    await bench.write(3, word, 0x00FF00FF, table)
        start = bench.cycle
        await bench.tick(1, 3)
        await bench.drain()
        assert bench.fired == [command.fire(start)]

    simulate(make_config(), scenario)


@pytest.mark.parametrize("config", [None, {}, "default"])
def test_what_is_no_configuration_is_refused(config):
    with pytest.raises(TypeError, match=f"not {config!r}"):
        Trigger(config=config)
