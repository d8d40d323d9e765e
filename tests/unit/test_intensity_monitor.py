"""The monitor measures a kernel's first stage and no more, and looks the right threshold up."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.intensity_monitor import IntensityMonitor

CONFIG = NodeConfig.preset("tiny")
BOUNDARIES = (128, 64, 32)
THRESHOLDS = (5, 10, 30, 0)


def simulate(scenario, *, boundaries=BOUNDARIES, thresholds=THRESHOLDS):
    """Run ``scenario(ctx, dut, tick)``; ``tick(access, store)`` is a cycle."""
    dut = IntensityMonitor(config=CONFIG)

    async def bench(ctx):
        async def tick(access=0, store=0):
            ctx.set(dut.access, access)
            ctx.set(dut.store, store)
            await ctx.tick()
            ctx.set(dut.access, 0)
            ctx.set(dut.store, 0)

        for port, value in zip(dut.boundaries, boundaries):
            ctx.set(port, value)
        for port, value in zip(dut.thresholds, thresholds):
            ctx.set(port, value)
        await scenario(ctx, dut, tick)

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


def level_of(intensity, boundaries=BOUNDARIES):
    """The first boundary that is reached."""
    return next((level for level, boundary in enumerate(boundaries) if intensity >= boundary), 3)


async def arm(ctx, dut, tick, plan=0):
    """A plan is armed, which it was not."""
    ctx.set(dut.armed, ctx.get(dut.armed) & ~(1 << plan))
    await tick()
    ctx.set(dut.armed, ctx.get(dut.armed) | 1 << plan)
    await tick()


def state(ctx, dut):
    """measuring, complete, level."""
    return tuple(ctx.get(dut.status[name]) for name in ("measuring", "complete", "level"))


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels(seed):
    """Any number of idle cycles before the first access, accesses at any pace, plans in turn."""
    rng = random.Random(seed)
    boundaries = [rng.randrange(0, 300) for _level in range(3)]
    thresholds = [rng.randrange(1 << 16) for _level in range(4)]

    async def scenario(ctx, dut, tick):
        levels = set()
        for _kernel in range(40):
            await arm(ctx, dut, tick, plan=rng.randrange(CONFIG.plans))
            for _cycle in range(rng.randrange(30)):
                await tick()
            pace = rng.choice([0.02, 0.1, 0.2, 0.4, 0.9, 1])
            pattern = [1] + [int(rng.random() < pace) for _cycle in range(rng.randrange(200))]
            for access in pattern:
                await tick(access)
                assert state(ctx, dut) == (1, 0, 0), f"seed {seed}"
            assert ctx.get(dut.status.threshold) == thresholds[0]
            # The store itself may be an access; what comes behind it is no matter.
            await tick(access=rng.randrange(2), store=1)
            for _cycle in range(dut.latency - 1):
                assert state(ctx, dut) == (1, 0, 0)
                await tick(rng.randrange(2), rng.randrange(2))
            intensity = sum(pattern) * 256 // len(pattern)
            level = level_of(intensity, boundaries)
            levels.add(level)
            assert ctx.get(dut.status.intensity) == intensity
            assert state(ctx, dut) == (0, 1, level)
            await tick(1, 1)
            for _cycle in range(rng.randrange(30)):
                assert ctx.get(dut.status.threshold) == thresholds[level]
                await tick(rng.randrange(2), rng.randrange(2))
            assert ctx.get(dut.status.intensity) == intensity
        assert len(levels) > 1

    simulate(scenario, boundaries=boundaries, thresholds=thresholds)


@pytest.mark.parametrize("accesses, cycles, intensity, level", [
    (1, 2, 128, 0), (127, 255, 127, 1), (1, 4, 64, 1), (63, 253, 63, 2), (1, 8, 32, 2),
    (31, 249, 31, 3), (1, 300, 0, 3), (300, 300, 256, 0), (1, 1, 256, 0)])
def test_levels_by_the_defaults(accesses, cycles, intensity, level):
    """Exactly at each boundary and just below it; the ends."""
    async def scenario(ctx, dut, tick):
        await arm(ctx, dut, tick)
        for cycle in range(cycles):
            await tick(access=cycle < accesses)
        await tick(store=1)
        for _cycle in range(dut.latency):
            await tick()
        assert ctx.get(dut.status.intensity) == intensity == accesses * 256 // cycles
        assert ctx.get(dut.status.level) == level
        assert ctx.get(dut.status.threshold) == THRESHOLDS[level]

    simulate(scenario)


def test_cycles_beyond_the_count_are_left_out_with_their_accesses(monkeypatch):
    monkeypatch.setattr("t3hw.hdl.intensity_monitor._COUNT_WIDTH", 6)

    async def scenario(ctx, dut, tick):
        await arm(ctx, dut, tick)
        for cycle in range(300):
            await tick(access=cycle < 21 or cycle >= 63)
        await tick(store=1)
        for _cycle in range(dut.latency):
            await tick()
        assert ctx.get(dut.status.intensity) == 21 * 256 // 63

    simulate(scenario)


@pytest.mark.parametrize("together", [0, 1])
def test_a_store_before_any_access_is_no_intensity_at_all(together):
    async def scenario(ctx, dut, tick):
        await arm(ctx, dut, tick)
        for _cycle in range(10):
            await tick()
        await tick(access=together, store=1)
        for _cycle in range(dut.latency):
            await tick(access=1)
        assert (ctx.get(dut.status.intensity), state(ctx, dut)) == (0, (0, 1, 3))

    simulate(scenario)


def test_before_the_first_plan_the_most_careful_threshold_holds():
    async def scenario(ctx, dut, tick):
        for _cycle in range(20):
            await tick(access=1, store=1)
        assert state(ctx, dut) == (0, 0, 0)
        assert ctx.get(dut.status.threshold) == 5

    simulate(scenario)


@pytest.mark.parametrize("late", range(14))
def test_a_plan_that_is_armed_in_the_middle_starts_anew(late):
    """Whether the former measurement counts, divides or has just ended; and again at once."""
    async def scenario(ctx, dut, tick):
        await arm(ctx, dut, tick, plan=0)
        for _cycle in range(9):
            await tick(access=1)
        await tick(store=late < 13)
        for _cycle in range(late):
            await tick()
        await arm(ctx, dut, tick, plan=1)
        assert state(ctx, dut) == (1, 0, 0)
        await tick()
        assert ctx.get(dut.status.threshold) == 5
        for cycle in range(64):
            await tick(access=cycle % 8 == 0)
        await tick(store=1)
        for _cycle in range(dut.latency):
            await tick()
        assert (ctx.get(dut.status.intensity), state(ctx, dut)) == (32, (0, 1, 2))

    simulate(scenario)


def test_latencies_as_stated():
    async def scenario(ctx, dut, tick):
        await arm(ctx, dut, tick)
        await tick(access=1)
        await tick(store=1)
        cycles = 1
        while not ctx.get(dut.status.complete):
            await tick()
            cycles += 1
        assert cycles == dut.latency == 11
        ctx.set(dut.armed, 0)
        await tick()
        ctx.set(dut.thresholds[0], 77)
        await tick()
        assert ctx.get(dut.status.threshold) == 77
        ctx.set(dut.armed, 1)
        await tick()
        assert state(ctx, dut) == (1, 0, 0)

    simulate(scenario)


def test_software_can_fix_the_threshold_and_let_go_of_it():
    async def scenario(ctx, dut, tick):
        ctx.set(dut.fixed_threshold, 17)
        await tick()
        assert ctx.get(dut.status.threshold) == 5
        ctx.set(dut.fixed, 1)
        await tick()
        assert ctx.get(dut.status.threshold) == 17
        # It is measured all the same.
        await arm(ctx, dut, tick)
        for cycle in range(20):
            await tick(access=cycle % 5 == 0)
        await tick(store=1)
        for _cycle in range(dut.latency):
            await tick()
        assert (ctx.get(dut.status.threshold), ctx.get(dut.status.level)) == (17, 2)
        ctx.set(dut.fixed, 0)
        await tick()
        assert ctx.get(dut.status.threshold) == 30

    simulate(scenario)


@pytest.mark.parametrize("config", ["tiny", None])
def test_bad_config_is_refused_with_its_value(config):
    with pytest.raises(TypeError, match=f"not {config!r}"):
        IntensityMonitor(config=config)
