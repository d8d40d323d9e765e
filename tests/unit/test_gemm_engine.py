"""GEMM engine: exact addresses, ids and data; steps, reads and stores in their own time."""

import fractions
import itertools
import random

import numpy as np
import pytest
from amaranth import ResetInserter, Signal

from axi_slave_agent import AxiSlaveAgent
from memory_agents import wait_until
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.gemm_engine import GemmEngine
from t3hw.reference.traffic import gemm_words

NARROW = NodeConfig(data_width=32, wg_width=8, wf_width=2)
MIDDLE = NodeConfig(data_width=64)
WIDE = NodeConfig(data_width=256, addr_width=40)
CONFIGS = {"narrow": NARROW, "middle": MIDDLE, "wide": WIDE}


def job(config, **changes):
    """Settings of a GEMM: by default 10 workgroups of 2 tiles of 4 beats, which read nothing."""
    size = config.beat_bytes
    settings = {
        "units": 4, "workgroups": 10, "first_workgroup": 0, "chunk_workgroups": 5, "steps": 3,
        "step_cycles": 50 * 256, "burst_log2": 1, "streams_log2": 1, "stream_bytes_log2": 8,
        "read_base": 0x8000, "base": 0x1000, "workgroup_bytes": 8 * size, "wavefronts": 2,
        "tile_beats_log2": 2, "seed": 3, "and_mask": 0xFFFFFFFF, "or_mask": 0}
    return settings | changes


class Bench:
    """An engine, a memory, and the cycles in which it began and was done."""

    def __init__(self, config, *, units=4, stages=4, seed=0, reset=None, **memory):
        self.config = config
        self.stages = stages
        self.engine = GemmEngine(config=config, units=units, stages=stages)
        self.dut = self.engine if reset is None else ResetInserter(reset)(self.engine)
        self.rng = random.Random(seed)
        print("seed", seed)
        self.memory = AxiSlaveAgent(config, self.engine, self.rng, **memory)
        self.starts, self.dones = [], []

    async def prepare(self, ctx, settings, reads=()):
        """Settings and the stage table, in beats; the last one holds for all further entries."""
        ctx.set(self.engine.settings, settings)
        for index in range(self.stages):
            beats = reads[min(index, len(reads) - 1)] if reads else 0
            ctx.set(self.engine.stage.payload, {"index": index, "reads": int(beats * 256)})
            ctx.set(self.engine.stage.valid, 1)
            await ctx.tick()
        ctx.set(self.engine.stage.valid, 0)
        await ctx.tick().repeat(16)
        assert ctx.get(self.engine.legal)

    async def go(self, ctx, cycles):
        """From start to done; returns what was measured."""
        engine = self.engine
        ctx.set(engine.start, 1)
        await ctx.tick()
        ctx.set(engine.start, 0)
        assert ctx.get(engine.busy)
        await wait_until(ctx, lambda: ctx.get(engine.done), cycles=cycles,
                         what=lambda: f"{len(self.memory.beats)} beats")
        assert ctx.get(engine.busy)
        await ctx.tick()
        assert not ctx.get(engine.busy) and not ctx.get(engine.done)
        return {name: ctx.get(engine.results[name])
                for name in engine.results.shape().members}

    async def watch(self, ctx):
        """Cycles of start and done, counted as the memory counts."""
        cycle = 0
        async for _, _, start, done in ctx.tick().sample(self.engine.start, self.engine.done):
            if start:
                self.starts.append(cycle)
            if done:
                self.dones.append(cycle)
            cycle += 1

    def simulate(self, bench):
        """Run ``bench`` with the memory."""
        simulate(self.dut, bench, background=[*self.memory.benches(), self.watch])

    def run(self, settings, reads=(), cycles=20_000):
        """One run; what was measured."""
        results = {}

        async def bench(ctx):
            await self.prepare(ctx, settings, reads)
            results.update(await self.go(ctx, cycles))
            results["error"] = ctx.get(self.engine.error)
        self.simulate(bench)
        return results


def tiles(config, settings):
    """(address, user) of all tiles, workgroup by workgroup."""
    size = config.beat_bytes << settings["tile_beats_log2"]
    for dispatched in range(settings["workgroups"]):
        number = (settings["first_workgroup"] + dispatched) % settings["workgroups"]
        for wavefront in range(settings["wavefronts"]):
            yield (settings["base"] + number * settings["workgroup_bytes"] + wavefront * size,
                   wavefront << config.wg_width | number % settings["chunk_workgroups"])


def read_addresses(config, settings):
    """Addresses of read bursts, one after the other, for ever."""
    size = config.beat_bytes << settings["burst_log2"]
    for number in itertools.count():
        turn, stream = divmod(number, 1 << settings["streams_log2"])
        yield (settings["read_base"] + (stream << settings["stream_bytes_log2"])
               + turn * size % (1 << settings["stream_bytes_log2"]))


def beats_of_steps(settings, reads):
    """Beats that each workgroup's steps read, as fractions."""
    return [fractions.Fraction(int(reads[min(workgroup // settings["units"], len(reads) - 1)]
                                   * 256), 256)
            for workgroup in range(settings["workgroups"])]


def check(bench, settings, reads):
    """All that does not depend on time."""
    config, memory = bench.config, bench.memory
    size, burst = config.beat_bytes, 1 << settings["burst_log2"]
    written = {(address, user) for _, address, _, user in memory.writes}
    assert written == set(tiles(config, settings))
    assert len(memory.writes) == settings["workgroups"] * settings["wavefronts"]
    assert {beats for _, _, beats, _ in memory.writes} == {1 << settings["tile_beats_log2"]}
    total = sum(beats_of_steps(settings, reads)) * settings["steps"] if reads else 0
    assert [(address, beats) for _, address, beats, _ in memory.reads] == [
        (address, burst) for address, _ in zip(read_addresses(config, settings),
                                               range(int(total / burst)))]
    for address, _ in tiles(config, settings):
        words = gemm_words(address // 4, size // 4 << settings["tile_beats_log2"],
                           settings["seed"], settings["and_mask"], settings["or_mask"])
        found = b"".join(memory.memory[address + beat * size].to_bytes(size, "little")
                         for beat in range(1 << settings["tile_beats_log2"]))
        assert np.array_equal(np.frombuffer(found, np.uint32), words)
    assert len(memory.memory) == len(memory.beats)


@pytest.mark.parametrize("name, pace, latency, changes", [
    ("middle", 1.0, 1, {}),
    ("middle", 0.5, 40, {"first_workgroup": 7, "chunk_workgroups": 3, "burst_log2": 2}),
    ("middle", 0.3, 90, {"units": 3, "steps": 1, "streams_log2": 4, "stream_bytes_log2": 6}),
    ("middle", 0.7, 9, {"units": 1, "tile_beats_log2": 0, "steps": 4, "step_cycles": 1000}),
    ("middle", 0.8, 9, {"wavefronts": 8, "tile_beats_log2": 0, "workgroup_bytes": 64,
                        "workgroups": 3, "first_workgroup": 2}),
    ("narrow", 0.6, 20, {"chunk_workgroups": 256, "wavefronts": 4, "workgroup_bytes": 96,
                         "burst_log2": 6, "and_mask": 0xFFF0FF8F, "or_mask": 0x12,
                         "seed": 0xFFFFFFFF}),
    ("wide", 0.6, 20, {"base": 0x80_0000_1000, "read_base": 0xFF_0000_0000, "wavefronts": 1,
                       "tile_beats_log2": 6, "workgroup_bytes": 2048, "stream_bytes_log2": 12,
                       "streams_log2": 0, "burst_log2": 0, "workgroups": 5}),
])
def test_a_run_under_back_pressure(name, pace, latency, changes):
    config = CONFIGS[name]
    rng = random.Random(latency)
    bench = Bench(config, seed=latency, pace=pace,
                  read_latency=lambda: rng.randint(1, latency),
                  write_latency=lambda: rng.randint(1, latency))
    settings = job(config, **changes)
    # As many beats as there are units, and some: fractions add up over workgroups and stages.
    reads = (5 + 1 / 256, 0.5, 3 + 77 / 256, 9)
    results = bench.run(settings, reads)
    check(bench, settings, reads)
    memory = bench.memory
    start = bench.starts[0]
    assert results == {
        "cycles": bench.dones[0] - start,
        "first_store": memory.beats[0][0] - start,
        "last_store": memory.beats[-1][0] - start,
        "read_wait": results["read_wait"],
        "read_beats": len(memory.reads) << settings["burst_log2"],
        "write_beats": len(memory.beats),
        "store_stall": results["store_stall"],
        "error": 0,
    }
    assert memory.answers[-1] + 1 == bench.dones[0]
    assert (results["store_stall"] > 0) == (pace < 1)
    print(f"{len(memory.reads)} bursts, {results}")


def test_workgroups_store_in_order_of_their_ends():
    """With equal steps that is the order of dispatch, staggered, wrapping around."""
    settings = job(MIDDLE, first_workgroup=6, chunk_workgroups=4)
    bench = Bench(MIDDLE)
    bench.run(settings)
    assert [(address, user) for _, address, _, user in bench.memory.writes] == list(
        tiles(MIDDLE, settings))


@pytest.mark.parametrize("latency, reads, step", [
    (3, (2,), 40),                  # always in time
    (60, (2,), 40),                 # always late
    (38, (1, 3.25, 6.5, 2), 40 + 9 / 256),
    (25, (0.3, 0, 7), 30.5),
])
def test_steps_begin_exactly(latency, reads, step):
    """One unit: every end of a step and the cycles lost follow from when the reads came."""
    settings = job(MIDDLE, units=1, workgroups=5, steps=6, step_cycles=int(step * 256))
    bench = Bench(MIDDLE, units=1, read_latency=lambda: latency)
    results = bench.run(settings, reads)
    check(bench, settings, reads)
    memory = bench.memory
    ends = iter(memory.read_ends)
    owed = wait = fractions.Fraction(0)
    due = fractions.Fraction(bench.starts[0] + GemmEngine.start_latency)
    per_tile = settings["wavefronts"] * 4
    for workgroup in range(5):
        for _step in range(6):
            owed += fractions.Fraction(int(reads[min(workgroup, len(reads) - 1)] * 256), 256)
            arrival = 0
            while owed >= 2:
                owed -= 2
                arrival = next(ends) + 1
            begun = max(due, arrival)
            wait += begun - due
            due = begun + fractions.Fraction(settings["step_cycles"], 256)
        first = memory.beats[workgroup * per_tile][0]
        seen = first - GemmEngine.look_latency - GemmEngine.store_latency
        assert 0 <= seen - due < bench.engine.looks, f"workgroup {workgroup}: {float(seen - due)}"
        due = fractions.Fraction(memory.beats[(workgroup + 1) * per_tile - 1][0]
                                 + GemmEngine.free_latency)
    assert next(ends, None) is None
    assert results["read_wait"] == int(wait)


def test_waves_take_as_long_as_their_steps():
    """With an ideal memory a run is workgroups / units waves,
    and the lateness that is documented."""
    settings = job(MIDDLE, units=8, workgroups=24, steps=4, step_cycles=100 * 256 + 64)
    bench = Bench(MIDDLE, units=8)
    results = bench.run(settings, (3,))
    # Reads of a first step: to AR, to the memory and back 2, noted 2; with waits for others' turns.
    first_reads = GemmEngine.ask_latency + 4 + 8 * 3
    stores = 8 * settings["wavefronts"] * 4
    wave = 4 * (100 + 1 / 4)
    lateness = 8 + GemmEngine.look_latency + GemmEngine.store_latency + GemmEngine.free_latency
    assert 3 * wave < results["cycles"] - GemmEngine.start_latency <= (
        3 * (wave + first_reads + lateness) + stores + 8)
    # Only first steps wait.
    assert results["read_wait"] <= 24 * first_reads
    print(results["cycles"], 3 * wave)


def test_time_does_not_drift():
    """Lateness of up to ``units`` cycles in each of 40 steps leaves the end where it belongs."""
    settings = job(MIDDLE, units=16, workgroups=16, steps=40, step_cycles=33 * 256 + 128)
    bench = Bench(MIDDLE, units=16)
    results = bench.run(settings)
    begun = GemmEngine.start_latency + GemmEngine.look_latency + GemmEngine.store_latency
    assert begun + 40 * 33.5 <= results["first_store"] <= begun + 40 * 33.5 + 16 + 1


def test_a_unit_is_free_when_its_stores_are_accepted():
    """Not when they are answered."""
    settings = job(MIDDLE, units=1, workgroups=3, steps=1, step_cycles=20 * 256)
    bench = Bench(MIDDLE, units=1, read_latency=lambda: 5, write_latency=lambda: 700)
    results = bench.run(settings, (2,))
    memory = bench.memory
    begun = [bench.starts[0] + GemmEngine.start_latency,
             *(memory.beats[last][0] + GemmEngine.free_latency for last in (7, 15))]
    assert [cycle for cycle, *_ in memory.reads] == [
        cycle + GemmEngine.ask_latency for cycle in begun]
    assert memory.beats[-1][0] < memory.answers[0]
    assert results["cycles"] == memory.beats[-1][0] + 701 - bench.starts[0]


@pytest.mark.parametrize("tile_beats_log2", [0, 2])
def test_a_beat_is_stored_every_cycle(tile_beats_log2):
    """Also between tiles and workgroups; and W comes so long behind AW."""
    settings = job(MIDDLE, units=8, workgroups=8, steps=1, step_cycles=256,
                   tile_beats_log2=tile_beats_log2, wavefronts=8, workgroup_bytes=256)
    bench = Bench(MIDDLE, units=8)
    bench.run(settings)
    cycles = [cycle for cycle, _ in bench.memory.beats]
    assert cycles == list(range(cycles[0], cycles[0] + (64 << tile_beats_log2)))
    assert cycles[0] == bench.memory.writes[0][0] + GemmEngine.store_latency


def test_a_burst_is_asked_for_every_cycle():
    settings = job(MIDDLE, units=2, workgroups=2, burst_log2=0, steps=1)
    bench = Bench(MIDDLE, units=2)
    bench.run(settings, (100,))
    cycles = [cycle for cycle, *_ in bench.memory.reads]
    assert cycles == [*range(cycles[0], cycles[0] + 100),
                      *range(cycles[0] + 101, cycles[0] + 201)]


def test_as_many_bursts_as_a_step_can_ask_for():
    """256 beats, of bursts of one beat, all under way at once, from a slow memory."""
    settings = job(MIDDLE, units=1, workgroups=1, burst_log2=0, steps=2)
    bench = Bench(MIDDLE, units=1, read_latency=lambda: 400)
    results = bench.run(settings, (255 + 255 / 256,))
    check(bench, settings, (255 + 255 / 256,))
    assert results["read_wait"] > 2 * 600


@pytest.mark.parametrize("bad", ["read", "write", None])
def test_errors_are_kept_until_the_next_run(bad):
    settings = job(MIDDLE)
    addresses = {"read": {0x8010}, "write": {0x1040}, None: set()}[bad]
    bench = Bench(MIDDLE, bad=addresses)

    async def runs(ctx):
        await bench.prepare(ctx, settings, (2,))
        await bench.go(ctx, 5000)
        assert ctx.get(bench.engine.error) == (bad is not None)
        bench.memory.bad = ()
        await bench.go(ctx, 5000)
        assert not ctx.get(bench.engine.error)
    bench.simulate(runs)


def test_runs_that_follow_each_other_are_alike():
    settings = job(MIDDLE, units=3)
    bench = Bench(MIDDLE)
    seen = []

    async def runs(ctx):
        await bench.prepare(ctx, settings, (2.5, 3, 1, 1))
        for _run in range(3):
            results = await bench.go(ctx, 5000)
            memory, start = bench.memory, bench.starts[-1]
            seen.append((results, [(cycle - start, *rest) for cycle, *rest in memory.reads],
                         [(cycle - start, *rest) for cycle, *rest in memory.writes],
                         [(cycle - start, *rest) for cycle, *rest in memory.beats]))
            for log in (memory.reads, memory.writes, memory.beats):
                log.clear()
            await ctx.tick().repeat(bench.rng.randint(1, 5))
    bench.simulate(runs)
    assert seen[0][1] and seen[0] == seen[1] == seen[2]


def test_a_reset_forgets_a_run():
    """Contexts are in memories, which a reset does not reach."""
    reset = Signal()
    bench = Bench(MIDDLE, reset=reset)
    first, second = job(MIDDLE, steps=9), job(MIDDLE, workgroups=2, chunk_workgroups=1)

    async def runs(ctx):
        await bench.prepare(ctx, first)
        ctx.set(bench.engine.start, 1)
        await ctx.tick()
        ctx.set(bench.engine.start, 0)
        await ctx.tick().repeat(150)
        assert ctx.get(bench.engine.busy)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        assert not ctx.get(bench.engine.busy)
        ctx.set(bench.engine.settings, second)
        await ctx.tick().repeat(2)
        # Contexts are still being cleared.
        await bench.go(ctx, 2000)
    bench.simulate(runs)
    check(bench, second, ())
    start = bench.starts[-1] + GemmEngine.start_latency
    to_store = GemmEngine.look_latency + GemmEngine.store_latency
    assert start + 3 * 50 < bench.memory.beats[0][0] - to_store < start + 3 * 50 + 7


@pytest.mark.parametrize("changes", [
    {"units": 0}, {"units": 5}, {"workgroups": 0}, {"first_workgroup": 10}, {"chunk_workgroups": 0},
    {"chunk_workgroups": 257}, {"steps": 0}, {"wavefronts": 0}, {"wavefronts": 5},
    {"burst_log2": 7, "stream_bytes_log2": 16}, {"streams_log2": 5}, {"stream_bytes_log2": 2},
    {"stream_bytes_log2": 33}, {"tile_beats_log2": 9, "base": 0, "workgroup_bytes": 4096},
    {"read_base": 0x8004}, {"base": 0x1008}, {"workgroup_bytes": 40},
], ids=str)
def test_what_cannot_be_run_is_not_started(changes):
    engine = GemmEngine(config=NARROW, units=4, stages=4)

    async def bench(ctx):
        ctx.set(engine.settings, job(NARROW, workgroup_bytes=32))
        await ctx.tick().repeat(2)
        assert ctx.get(engine.legal)
        ctx.set(engine.settings, job(NARROW, workgroup_bytes=32) | changes)
        await ctx.tick().repeat(2)
        assert not ctx.get(engine.legal)
        ctx.set(engine.start, 1)
        await ctx.tick().repeat(3)
        assert not ctx.get(engine.busy)
    simulate(engine, bench)


@pytest.mark.parametrize("config, changes", [
    (WIDE, {"tile_beats_log2": 8, "base": 0, "workgroup_bytes": 8192}),
    (NodeConfig(data_width=512, burst_beats=16), {
        "burst_log2": 6, "stream_bytes_log2": 12, "base": 0, "workgroup_bytes": 4096,
        "tile_beats_log2": 7}),
])
def test_nothing_is_longer_than_4_kib(config, changes):
    engine = GemmEngine(config=config)
    settings = job(config) | changes

    async def bench(ctx):
        ctx.set(engine.settings, settings)
        await ctx.tick().repeat(2)
        assert not ctx.get(engine.legal)
        ctx.set(engine.settings, settings | {"tile_beats_log2": settings["tile_beats_log2"] - 1})
        await ctx.tick().repeat(2)
        assert ctx.get(engine.legal)
    simulate(engine, bench)


@pytest.mark.parametrize("name, value", [("units", 0), ("units", 257), ("stages", 0),
                                         ("stages", 1.5), ("units", None)])
def test_bad_sizes_are_refused_with_their_value(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .* not {value!r}"):
        GemmEngine(config=MIDDLE, **{name: value})


def test_words_by_hand():
    """Of the hash by its author's formula, in plain integers."""
    def mix(x):
        x = (x + 0x7ED55D16 + (x << 12)) & 0xFFFFFFFF
        x = (x ^ 0xC761C23C) ^ (x >> 19)
        x = (x + 0x165667B1 + (x << 5)) & 0xFFFFFFFF
        x = ((x + 0xD3A2646C) ^ (x << 9)) & 0xFFFFFFFF
        x = (x + 0xFD7046C5 + (x << 3)) & 0xFFFFFFFF
        return (x ^ 0xB55A4F09) ^ (x >> 16)

    words = gemm_words(0xFFFFFFF0, 64, 7, 0xFFFFFF0F, 1)
    assert words.dtype == np.uint32
    assert [int(word) for word in words] == [
        mix((0xFFFFFFF0 + n + 7 * 0x9E3779B9) & 0xFFFFFFFF) & 0xFFFFFF0F | 1 for n in range(64)]
    # Every bit of neighbours' words is as often 0 as 1.
    ones = np.unpackbits(gemm_words(0, 4096, 1).view(np.uint8)).reshape(4096, 32).mean(axis=0)
    assert np.all(abs(ones - 0.5) < 0.05)
    for arguments in ((-1, 1, 0), (0, -1, 0), (0, 1, -1)):
        with pytest.raises(ValueError, match="not -1"):
            gemm_words(*arguments)
