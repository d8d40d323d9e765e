"""Counters count every event once, show one coherent moment, and lose nothing when cleared."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.counters import Counters
from t3hw.registers import COUNTERS

CONFIG = NodeConfig.preset("tiny")
SOURCES = 5


def make(config=CONFIG):
    return Counters(config=config, error_sources=SOURCES)


def simulate(dut, bench):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


class Harness:
    """Drives events, follows them in plain sums, and works ``control``.

    ``sums`` are of the events since the last clear; ``marks`` is what ``clear_marks`` said.
    """

    def __init__(self, ctx, dut, rng, density=0.5):
        self.ctx, self.dut, self.rng, self.density = ctx, dut, rng, density
        self.largest = {name: 1 if field.width == 1 else CONFIG.beat_bytes
                        for name, field in dut.events.shape()}
        self.history = []
        self.quiet = False

    async def cycle(self):
        """One cycle of random events; what happened goes to ``history``."""
        ctx, dut, rng = self.ctx, self.dut, self.rng
        events = {name: rng.randint(0, largest) if rng.random() < self.density else 0
                  for name, largest in self.largest.items()}
        errors = rng.randint(0, SOURCES) if rng.random() < self.density else 0
        read_after = rng.choice([0, 1, 17, 2 ** 24 - 1]) if rng.random() < self.density else None
        if self.quiet:
            events, errors, read_after = dict.fromkeys(events, 0), 0, None
        levels = {name: rng.randrange(3) for name, _field in dut.levels.shape()}
        ctx.set(dut.events, events)
        ctx.set(dut.errors, errors)
        ctx.set(dut.levels, levels)
        ctx.set(dut.first_read.valid, read_after is not None)
        ctx.set(dut.first_read.p.stamp, ctx.get(dut.cycle) - (read_after or 0) & 2 ** 24 - 1)
        await ctx.tick()
        self.history.append((events, errors, read_after, levels))

    async def control(self, **bits):
        """Run a control and return the index in ``history`` of the moment when it took effect."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.control.p, bits)
        ctx.set(dut.control.valid, 1)
        moment = None
        for waited in range(dut.latency + 1):
            if ctx.get(dut.control.ready):
                await self.cycle()
                ctx.set(dut.control.valid, 0)
                return moment, waited
            if ctx.get(dut.clear_marks):
                assert moment is None
                moment = len(self.history)
            await self.cycle()
        pytest.fail(f"control {bits} took more than {dut.latency} cycles")

    async def read(self):
        ctx, dut = self.ctx, self.dut
        values = {}
        for index, name in enumerate(dut.names):
            ctx.set(dut.index, index)
            await self.cycle()
            values[name] = ctx.get(dut.value)
        return values

    def expected(self, start, stop):
        """Sums over history[start:stop]; the time of a first read counts one cycle later."""
        span = self.history[start:stop]
        latencies = [latency for _e, _r, latency, _l in self.history[max(start - 1, 0):stop - 1]
                     if latency is not None]
        sums = {name.upper(): sum(events[name] for events, *_rest in span) for name in self.largest}
        levels = self.history[stop][3]
        return sums | {name.upper(): value for name, value in levels.items()} | {
            "CYCLES": len(span),
            "ERRORS": sum(errors for _e, errors, *_rest in span),
            "TRIGGER_LATENCY_COUNT": len(latencies),
            "TRIGGER_LATENCY_SUM": sum(latencies),
            "TRIGGER_LATENCY_MIN": min(latencies, default=0),
            "TRIGGER_LATENCY_MAX": max(latencies, default=0),
        }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.05, 1.0])
def test_snapshots_and_clears_partition_what_happened(seed, density):
    """Each snapshot with clear shows exactly the events between two moments, all counters alike."""
    rng = random.Random(seed)
    dut = make()

    async def bench(ctx):
        harness = Harness(ctx, dut, rng, density)
        start = 0
        for _round in range(6):
            for _cycle in range(rng.randrange(120)):
                await harness.cycle()
            moment, _waited = await harness.control(snapshot=1, clear=1)
            values = await harness.read()
            assert values == harness.expected(start, moment), f"seed {seed}"
            start = moment

    simulate(dut, bench)


def test_snapshot_alone_keeps_counting_and_clear_alone_keeps_the_shadow():
    rng = random.Random(1)
    dut = make()

    async def bench(ctx):
        harness = Harness(ctx, dut, rng)
        for _cycle in range(50):
            await harness.cycle()
        harness.quiet = True
        await harness.cycle()
        await harness.cycle()
        await harness.control(snapshot=1)
        first = await harness.read()
        wanted = harness.expected(0, len(harness.history) - 1)
        for name, value in first.items():
            if name != "CYCLES" and name.lower() not in dut.levels.shape().members:
                assert value == wanted[name], name
        moment, _waited = await harness.control(clear=1)
        assert await harness.read() == first
        later, _waited = await harness.control(snapshot=1, clear=1)
        values = await harness.read()
        assert values["CYCLES"] == later - moment
        assert values["PRODUCER_READ_BYTES"] == values["TRIGGER_LATENCY_MAX"] == 0

    simulate(dut, bench)


@pytest.mark.parametrize("offset", range(-3, 3))
def test_an_event_near_a_snapshot_is_in_this_one_or_the_next(offset):
    dut = make()

    async def bench(ctx):
        async def control(**bits):
            ctx.set(dut.control.p, bits)
            ctx.set(dut.control.valid, 1)
            await ctx.tick().until(dut.control.ready)
            ctx.set(dut.control.valid, 0)

        async def commits():
            ctx.set(dut.index, dut.names.index("COMMITS"))
            await ctx.tick()
            return ctx.get(dut.value)

        await control(clear=1)
        for cycle in range(-4, 4):
            if cycle == 0:
                ctx.set(dut.control.p, {"snapshot": 1, "clear": 1})
                ctx.set(dut.control.valid, 1)
            ctx.set(dut.events.commits, cycle == offset)
            await ctx.tick()
        ctx.set(dut.events.commits, 0)
        await ctx.tick().until(dut.control.ready)
        ctx.set(dut.control.valid, 0)
        first = await commits()
        await control(snapshot=1)
        assert first + await commits() == 1
        if offset < 0:
            assert first == 1

    simulate(dut, bench)


@pytest.mark.parametrize("before", [0, 1])
def test_a_first_read_near_a_clear_belongs_to_one_side(before):
    """Least, most, sum and number agree wherever the clear falls; older extremes are gone."""
    dut = make()

    async def bench(ctx):
        async def control():
            """Snapshot and clear; the values of the snapshot."""
            ctx.set(dut.control.p, {"snapshot": 1, "clear": 1})
            ctx.set(dut.control.valid, 1)
            await ctx.tick().until(dut.control.ready)
            ctx.set(dut.control.valid, 0)
            return await latencies()

        async def latencies():
            values = []
            for name in ("COUNT", "MIN", "MAX", "SUM"):
                ctx.set(dut.index, dut.names.index(f"TRIGGER_LATENCY_{name}"))
                await ctx.tick()
                values.append(ctx.get(dut.value))
            return values

        async def first_read(latency):
            ctx.set(dut.first_read.p.stamp, ctx.get(dut.cycle) - latency & 2 ** 24 - 1)
            ctx.set(dut.first_read.valid, 1)
            await ctx.tick()
            ctx.set(dut.first_read.valid, 0)

        sides = []
        for offset in range(-2, 3):
            await control()
            if before:
                await first_read(5)
                await first_read(500)
            ctx.set(dut.control.p, {"snapshot": 1, "clear": 1})
            ctx.set(dut.control.valid, 1)
            # ``clear_marks`` comes with the end of a round, a known time after the one before.
            while not ctx.get(dut.clear_marks):
                await ctx.tick()
            await ctx.tick().until(dut.control.ready)
            ctx.set(dut.control.valid, 0)
            await ctx.tick().repeat(len(dut.names) - 9)
            if before:
                await first_read(5)
                await first_read(500)
            else:
                await ctx.tick().repeat(2)
            ctx.set(dut.control.valid, 1)
            marks = 0
            for cycle in range(-2, 3):
                if cycle == offset:
                    ctx.set(dut.first_read.p.stamp, ctx.get(dut.cycle) - 70 & 2 ** 24 - 1)
                    ctx.set(dut.first_read.valid, 1)
                marks |= ctx.get(dut.clear_marks) << cycle + 2
                await ctx.tick()
                ctx.set(dut.first_read.valid, 0)
            assert marks == 1 << 2, f"{marks:#b}: the sweep is not around the clear"
            await ctx.tick().until(dut.control.ready)
            ctx.set(dut.control.valid, 0)
            first, second = await latencies(), await control()
            older = [5, 500] if before else []
            mine = [older, [70]] if second[0] else [older + [70], []]
            for values, wanted in zip((first, second), mine, strict=True):
                assert values == [len(wanted), min(wanted, default=0), max(wanted, default=0),
                                  sum(wanted)], offset
            sides.append(second[0])
        assert sides == sorted(sides) and set(sides) == {0, 1}

    simulate(dut, bench)


def test_latency_of_control_is_as_stated():
    dut = make()
    waits = set()

    async def bench(ctx):
        for pause in range(len(dut.names)):
            await ctx.tick().repeat(pause + 1)
            ctx.set(dut.control.p, {"snapshot": 1})
            ctx.set(dut.control.valid, 1)
            waited = 0
            while not ctx.get(dut.control.ready):
                await ctx.tick()
                waited += 1
                assert waited <= dut.latency
            await ctx.tick()
            ctx.set(dut.control.valid, 0)
            waits.add(waited)

    simulate(dut, bench)
    assert max(waits) == dut.latency
    assert min(waits) == len(dut.names) + 4


def test_a_long_run_at_the_largest_rate_is_exact():
    """The narrow parts are as wide as a round of largest events needs."""
    dut = make()

    async def bench(ctx):
        ctx.set(dut.control.p, {"clear": 1, "snapshot": 1})
        ctx.set(dut.events, {name: 1 if field.width == 1 else CONFIG.beat_bytes
                             for name, field in dut.events.shape()})
        ctx.set(dut.errors, SOURCES)
        ctx.set(dut.first_read.valid, 1)
        await ctx.tick().repeat(3)
        for _round in range(2):
            ctx.set(dut.control.valid, 1)
            cycles = 0
            while not ctx.get(dut.control.ready):
                # Each first read is one cycle after its stamp's wrap: the largest latency.
                ctx.set(dut.first_read.p.stamp, ctx.get(dut.cycle) + 1 & 2 ** 24 - 1)
                await ctx.tick()
                cycles += 1
            await ctx.tick()
            ctx.set(dut.control.valid, 0)
        values = {}
        for index, name in enumerate(dut.names):
            ctx.set(dut.index, index)
            await ctx.tick()
            values[name] = ctx.get(dut.value)
        cycles = values["CYCLES"]
        assert cycles >= len(dut.names)
        assert values["ERRORS"] == SOURCES * cycles
        assert values["TRIGGER_LATENCY_SUM"] >= (2 ** 24 - 1) * (cycles - 3)
        for name, field in dut.events.shape():
            assert values[name.upper()] == cycles * (1 if field.width == 1 else CONFIG.beat_bytes)

    simulate(dut, bench)


def test_sums_carry_beyond_32_bits():
    dut = make()

    async def bench(ctx):
        ctx.set(dut.first_read.valid, 1)
        for _cycle in range(600):
            ctx.set(dut.first_read.p.stamp, ctx.get(dut.cycle) + 1 & 2 ** 24 - 1)
            await ctx.tick()
        ctx.set(dut.first_read.valid, 0)
        await ctx.tick()
        ctx.set(dut.control.p, {"snapshot": 1})
        ctx.set(dut.control.valid, 1)
        await ctx.tick().until(dut.control.ready)
        ctx.set(dut.index, dut.names.index("TRIGGER_LATENCY_SUM"))
        await ctx.tick()
        assert ctx.get(dut.value) == 600 * (2 ** 24 - 1) > 2 ** 32

    simulate(dut, bench)


def test_reset_zeroes_the_memories_too():
    """A memory keeps its words through a reset; nothing of them may show."""
    dut = make()
    reset = Signal()

    async def bench(ctx):
        ctx.set(dut.events.commits, 1)
        ctx.set(dut.control.p, {"snapshot": 1})
        ctx.set(dut.control.valid, 1)
        await ctx.tick().until(dut.control.ready)
        ctx.set(dut.control.valid, 0)
        ctx.set(dut.index, dut.names.index("COMMITS"))
        await ctx.tick()
        assert ctx.get(dut.value) > 0
        await ctx.tick().repeat(7)
        ctx.set(dut.events.commits, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        cycles = 0
        while not ctx.get(dut.ready):
            await ctx.tick()
            cycles += 1
            assert cycles <= len(dut.names) + 7
        for index in range(len(dut.names)):
            ctx.set(dut.index, index)
            await ctx.tick()
            assert ctx.get(dut.value) == 0
        ctx.set(dut.control.valid, 1)
        await ctx.tick().until(dut.control.ready)
        ctx.set(dut.index, dut.names.index("COMMITS"))
        await ctx.tick()
        assert ctx.get(dut.value) == 0

    sim = Simulator(ResetInserter(reset)(dut))
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


def test_names_are_those_of_the_register_map():
    dut = make()
    assert sorted(dut.names) == sorted(counter.name for counter in COUNTERS)
    assert len(set(dut.names)) == len(dut.names)


@pytest.mark.parametrize("sources", [0, -1, 1.5, None])
def test_bad_sources_are_refused_with_their_value(sources):
    with pytest.raises(ValueError, match=rf"not {sources!r}"):
        Counters(config=CONFIG, error_sources=sources)


def test_bad_config_is_refused_with_its_value():
    with pytest.raises(TypeError, match="not None"):
        Counters(config=None, error_sources=1)
