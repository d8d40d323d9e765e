"""No report is lost, however many come at once and whenever bits are cleared; the first is kept."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.error_collector import ErrorCollector
from t3hw.hdl.seams import ErrorCause

CONFIG = NodeConfig.preset("tiny")


def simulate(dut, bench):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


class Model:
    """What software should see, one step a cycle."""

    def __init__(self):
        self.sticky = set()
        self.first = None
        self.total = 0

    def step(self, reports, clear):
        """``reports``: list of (cause, address) in order of the sources."""
        self.sticky -= clear
        if not self.sticky:
            self.first = reports[0] if reports else None
        self.sticky |= {cause for cause, _address in reports}
        self.total += len(reports)


async def report(ctx, dut, reports):
    """Set up one cycle's reports, by source."""
    for index, source in enumerate(dut.error):
        cause, address = reports.get(index, (0, 0))
        ctx.set(source.valid, index in reports)
        ctx.set(source.p, {"cause": ErrorCause(cause), "address": address,
                           "tile": {"slot": address % 64, "tracked": cause & 1}})


def seen(ctx, dut):
    sticky = {bit for bit in range(len(dut.status)) if ctx.get(dut.status) >> bit & 1}
    first = None
    if ctx.get(dut.first_valid):
        first = (ctx.get(dut.first.cause).value, ctx.get(dut.first.address))
        assert ctx.get(dut.first.tile.slot) == first[1] % 64
        assert ctx.get(dut.first.tile.tracked) == first[0] & 1
    return sticky, first


@pytest.mark.parametrize("sources", [1, 3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_random_reports_and_clears_against_a_model(sources, seed):
    rng = random.Random(seed)
    dut = ErrorCollector(config=CONFIG, sources=sources)
    model = Model()

    async def bench(ctx):
        for cycle in range(600):
            busy = rng.choice([0.02, 0.3, 1.0])
            reports = {index: (rng.randrange(len(ErrorCause)), rng.getrandbits(32))
                       for index in range(sources) if rng.random() < busy}
            often = rng.choice([0, 0.5, 1])
            clear = {bit for bit in range(len(dut.status)) if rng.random() < often}
            await report(ctx, dut, reports)
            ctx.set(dut.clear, sum(1 << bit for bit in clear))
            await ctx.tick()
            model.step([reports[index] for index in sorted(reports)], clear)
            assert seen(ctx, dut) == (model.sticky, model.first), f"seed {seed}, cycle {cycle}"
        await report(ctx, dut, {})
        await ctx.tick().repeat(2)
        assert ctx.get(dut.count) == model.total, f"seed {seed}"

    simulate(dut, bench)


def test_all_sources_with_all_causes_in_one_cycle():
    dut = ErrorCollector(config=CONFIG, sources=len(ErrorCause))

    async def bench(ctx):
        await report(ctx, dut, {cause.value: (cause.value, 0x100 + cause.value)
                                for cause in ErrorCause})
        await ctx.tick()
        await report(ctx, dut, {})
        assert seen(ctx, dut) == ({cause.value for cause in ErrorCause}, (0, 0x100))
        assert ctx.get(dut.reported) == len(ErrorCause)
        await ctx.tick()
        assert ctx.get(dut.count) == len(ErrorCause)
        assert ctx.get(dut.reported) == 0

    simulate(dut, bench)


@pytest.mark.parametrize("offset", range(-2, 3))
def test_clear_near_a_report_of_the_same_cause(offset):
    """A report in the cycle of the clear or after it survives; one before it was to be cleared."""
    dut = ErrorCollector(config=CONFIG, sources=2)

    async def bench(ctx):
        await report(ctx, dut, {0: (5, 0xAAA0)})
        await ctx.tick()
        for cycle in range(-3, 4):
            await report(ctx, dut, {1: (5, 0xBBB0)} if cycle == offset else {})
            ctx.set(dut.clear, 1 << 5 if cycle == 0 else 0)
            await ctx.tick()
            if cycle == offset:
                assert ctx.get(dut.status) == 1 << 5
        assert seen(ctx, dut) == (({5}, (5, 0xBBB0)) if offset >= 0 else (set(), None))
        assert ctx.get(dut.count) == 2

    simulate(dut, bench)


def test_a_partly_cleared_status_keeps_the_first_error():
    dut = ErrorCollector(config=CONFIG, sources=1)

    async def bench(ctx):
        for cause in (3, 4):
            await report(ctx, dut, {0: (cause, 0x40 * cause)})
            await ctx.tick()
        await report(ctx, dut, {})
        ctx.set(dut.clear, 1 << 3)
        await ctx.tick()
        assert seen(ctx, dut) == ({4}, (3, 0xC0))
        ctx.set(dut.clear, 1 << 4)
        await ctx.tick()
        assert seen(ctx, dut) == (set(), None)

    simulate(dut, bench)


def test_count_stays_at_its_largest_value_and_restarts():
    dut = ErrorCollector(config=CONFIG, sources=3)

    async def bench(ctx):
        ctx.set(dut.count, 2 ** 32 - 8)
        for _cycle in range(4):
            await report(ctx, dut, {0: (1, 0), 1: (2, 0), 2: (3, 0)})
            await ctx.tick()
        await report(ctx, dut, {})
        await ctx.tick()
        assert ctx.get(dut.count) == 2 ** 32 - 1
        await report(ctx, dut, {1: (2, 0)})
        await ctx.tick()
        await report(ctx, dut, {})
        ctx.set(dut.clear_count, 1)
        assert ctx.get(dut.reported) == 1
        await ctx.tick()
        ctx.set(dut.clear_count, 0)
        assert ctx.get(dut.count) == 1

    simulate(dut, bench)


def test_latency_is_one_and_throughput_one_a_source_and_cycle():
    dut = ErrorCollector(config=CONFIG, sources=4)

    async def bench(ctx):
        for cycle in range(10):
            await report(ctx, dut, {index: (cycle, 0) for index in range(4)})
            await ctx.tick()
            assert ctx.get(dut.status) == (1 << cycle + 1) - 1
            assert ctx.get(dut.reported) == 4
            assert ctx.get(dut.count) == 4 * cycle

    simulate(dut, bench)


@pytest.mark.parametrize("sources", [0, -1, 1.5, None])
def test_bad_sources_are_refused_with_their_value(sources):
    with pytest.raises(ValueError, match=rf"not {sources!r}"):
        ErrorCollector(config=CONFIG, sources=sources)


def test_bad_config_is_refused_with_its_value():
    with pytest.raises(TypeError, match="not 'tiny'"):
        ErrorCollector(config="tiny", sources=1)
