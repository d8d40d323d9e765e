"""Collective engine: exact traffic, its gates and its errors, and the pace that it states."""

import random

import pytest

from collective_agents import (
    DECERR, DELTA, SLVERR, Device, check_traffic, expected_bursts, finish, pulse, run, write_table,
)
from simulation import simulate
from t3hw.config import DTYPE_NAMES, NodeConfig
from t3hw.hdl.collective_engine import CollectiveEngine
from t3hw.workloads.collectives import CollectiveStep

INTEGER = NodeConfig(data_width=32, dtypes=("int32",))
OWN, STAGING = 0x1000, 0x40000


def single(config=INTEGER, *, seed=1, steps=64, buffer=256, **options):
    """An engine and its device, whose memory has a value everywhere that is used."""
    engine = CollectiveEngine(config=config, steps=steps, buffer=buffer)
    device = Device(engine, config=config, rng=random.Random(seed), **options)
    device.neighbour = Device(engine, config=config, rng=device.rng)
    return engine, device


def fill(device, start, beats):
    """Random beats from an address on."""
    for number in range(beats):
        device.memory[start + number * device.config.beat_bytes] = device.rng.getrandbits(
            device.config.data_width)


@pytest.mark.parametrize("seed", range(6))
def test_random_tables_of_any_shape(seed):
    """Steps of no beats, short last bursts, bursts as long as a page, addresses beyond 32 bits."""
    print("seed", seed)
    rng = random.Random(seed)
    width, burst = [(32, 1), (64, 8), (512, 64), (128, 2), (32, 64), (64, 16)][seed]
    config = NodeConfig(data_width=width, addr_width=rng.choice([32, 40, 64]), dtypes=("int32",))
    engine, device = single(config, seed=seed, steps=9, buffer=rng.choice([64, 100]),
                            pace=rng.choice([0.5, 0.9, 1]), latency=lambda: rng.randint(1, 50))
    length = burst * config.beat_bytes
    # Sources and destinations lie apart, on both sides of the highest page border there is.
    base = (1 << min(config.addr_width, 33)) - (1 << 22)
    steps = []
    for number in range(9):
        beats = rng.choice([0, 1, rng.randint(1, 3 * burst), 2 * burst])
        places = [base + (3 * number + part) * 0x10000 + rng.randrange(0, 0x8000, length)
                  for part in range(3)]
        for start in places[:2]:
            fill(device, start, beats)
        add = rng.random() < 0.5
        steps.append(CollectiveStep(source_a=places[0], source_b=places[1] if add else None,
                                    destination=places[2], beats=beats))
    sources = dict(device.memory)
    # What goes to a place beyond `DELTA` is the neighbour's.
    received = device.neighbour

    async def bench(ctx):
        await run(ctx, engine, steps=steps, burst=burst, limit=8000)
        check_traffic(device, steps, burst)
        assert not ctx.get(engine.error)

    simulate(engine, bench, background=[device.bench])
    got = {address: value for _, address, value in received.coming}
    wanted = {}
    for step in steps:
        for offset in range(0, step.beats * config.beat_bytes, config.beat_bytes):
            value = sources[step.source_a + offset]
            if step.add:
                both = (value, sources[step.source_b + offset])
                value = sum(
                    (sum(operand >> at & 0xFFFFFFFF for operand in both) & 0xFFFFFFFF) << at
                    for at in range(0, width, 32))
            wanted[step.destination + offset - DELTA] = value
    assert got == wanted


def test_a_burst_begins_when_its_last_beat_has_come_and_not_before():
    """Two cycles after: one for the count, one for the address. The last burst is shorter."""
    engine, device = single()
    fill(device, STAGING, 10)
    device.poison = set(device.memory)
    steps = [CollectiveStep(source_a=STAGING, destination=OWN, beats=10, wait=True)]

    async def bench(ctx):
        await write_table(ctx, engine, steps)
        ctx.set(engine.settings, {"steps": 1, "burst": 4, "dtype": 0, "expected": 10})
        await pulse(ctx, engine.start)
        come = 0
        for count in (4, 4, 2):
            for _ in range(count):
                for _ in range(25):
                    await ctx.tick()
                before = len(device.read_bursts)
                assert before == come // 4
                device.coming.append((0, STAGING + 4 * come, come))
                come += 1
            seen = len(device.read_bursts)
            for _ in range(6):
                await ctx.tick()
            assert len(device.read_bursts) == seen + 1
        await finish(ctx, engine, limit=100)

    arrived = []

    async def watch(ctx):
        cycle = 0
        async for _, _, bit in ctx.tick().sample(engine.arrived):
            if bit:
                arrived.append(cycle)
            cycle += 1

    simulate(engine, bench, background=[device.bench, watch])
    assert [count for _, _, count in device.read_bursts] == [4, 4, 2]
    for (cycle, _, _), last in zip(device.read_bursts, (arrived[3], arrived[7], arrived[9])):
        assert cycle == last + 2


async def arrive(ctx, engine, count):
    """So many beats come."""
    for _ in range(count):
        await pulse(ctx, engine.arrived)


async def stays_busy(ctx, engine, cycles=40):
    """The run does not end by itself."""
    for _ in range(cycles):
        await ctx.tick()
        assert ctx.get(engine.busy) and not ctx.get(engine.done)


def test_what_comes_early_is_kept_from_run_to_run_and_clear_forgets_it():
    """No memory: the runs only wait for what they expect."""
    engine = CollectiveEngine(config=INTEGER)

    async def start(ctx, expected):
        ctx.set(engine.settings, {"steps": 0, "burst": 1, "dtype": 0, "expected": expected})
        await pulse(ctx, engine.start)

    async def bench(ctx):
        await arrive(ctx, engine, 5)
        await start(ctx, 3)
        await finish(ctx, engine, limit=5)
        assert ctx.get(engine.unused) == 2
        await start(ctx, 4)
        await stays_busy(ctx, engine)
        await arrive(ctx, engine, 2)
        await finish(ctx, engine, limit=3)
        assert ctx.get(engine.unused) == 0
        await arrive(ctx, engine, 7)
        ctx.set(engine.arrived, 1)
        await pulse(ctx, engine.clear)
        ctx.set(engine.arrived, 0)
        assert ctx.get(engine.unused) == 1
        await start(ctx, 2)
        await stays_busy(ctx, engine)
        await arrive(ctx, engine, 1)
        await finish(ctx, engine, limit=3)
        # What comes in the cycle in which a run ends is the next one's.
        for distance in range(5):
            await start(ctx, 0)
            for _ in range(distance):
                await ctx.tick()
            await arrive(ctx, engine, 1)
            for _ in range(5):
                await ctx.tick()
            assert ctx.get(engine.unused) == distance + 1 and not ctx.get(engine.busy)

    simulate(engine, bench)


def test_expected_beats_that_no_step_waits_for_are_waited_for_at_the_end():
    engine, device = single()
    fill(device, STAGING, 8)
    fill(device, OWN, 8)
    steps = [CollectiveStep(source_a=OWN, destination=0x2000, beats=8),
             CollectiveStep(source_a=STAGING, destination=0x3000, beats=8, wait=True)]

    async def bench(ctx):
        await write_table(ctx, engine, steps)
        ctx.set(engine.settings, {"steps": 2, "burst": 4, "dtype": 0, "expected": 13})
        await pulse(ctx, engine.start)
        for number in range(12):
            device.coming.append((0, STAGING + 4 * number, 7))
        await stays_busy(ctx, engine, 100)
        assert len(device.answer_cycles) == 4
        device.coming.append((0, STAGING, 7))
        await finish(ctx, engine, limit=5)
        assert ctx.get(engine.unused) == 0

    simulate(engine, bench, background=[device.bench])


def copies(count, beats, *, add=False, beat_bytes=4):
    """Steps from and to places of their own."""
    size = 0x1000
    assert beats * beat_bytes <= size
    return [CollectiveStep(
        source_a=0x100000 + number * size, source_b=0x200000 + number * size if add else None,
        destination=0x400000 + number * size, beats=beats) for number in range(count)]


@pytest.mark.parametrize("count, beats, burst", [
    (2, 512, 16), (5, 128, 64), (16, 40, 8), (64, 9, 1), (64, 1, 1)])
@pytest.mark.parametrize("add", [False, True])
def test_keeps_a_memory_of_100_cycles_busy(count, beats, burst, add):
    """At least 90 % of a beat a cycle of reads, writes beside them; over the whole run, less the
    time of the first beats there and back."""
    engine, device = single(latency=lambda: 100)
    steps = copies(count, beats, add=add)
    for step in steps:
        fill(device, step.source_a, beats)
        if add:
            fill(device, step.source_b, beats)

    async def bench(ctx):
        await run(ctx, engine, steps=steps, burst=burst, limit=10000)
        reads = count * beats * (1 + add)
        assert ctx.get(engine.read_beats) == reads
        assert ctx.get(engine.write_beats) == count * beats
        # There and back: 100 cycles of a read, 100 of a write, the engine's own, the last burst.
        overhead = 200 + 4 + 2 + engine.latency + (burst if add else 0)
        cycles = ctx.get(engine.cycles)
        span = device.read_cycles[-1] - device.read_cycles[0] + 1
        print(f"{reads} reads in {span} cycles, {reads / span:.3f}; run {cycles} cycles")
        assert span <= reads / 0.9
        assert cycles <= reads / 0.9 + overhead

    simulate(engine, bench, background=[device.bench])


@pytest.mark.parametrize("latency, full", [(110, True), (111, False)])
def test_the_buffer_covers_the_latency_that_is_stated(latency, full):
    engine, device = single(buffer=128, latency=lambda: latency)
    fill(device, 0x100000, 512)

    async def bench(ctx):
        await run(ctx, engine, steps=copies(1, 512), burst=16, limit=2000)
        span = device.read_cycles[-1] - device.read_cycles[0] + 1
        assert (span == 512) == full

    simulate(engine, bench, background=[device.bench])


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "bfloat16"])
def test_latencies_are_those_stated(dtype, add):
    config = NodeConfig(data_width=32, dtypes=(dtype,))
    engine, device = single(config, latency=lambda: 7)
    fill(device, 0x100000, 4)
    fill(device, 0x200000, 4)
    assert engine.latency == (2 if dtype == "int32" else 8)

    async def bench(ctx):
        await write_table(ctx, engine, copies(1, 4, add=add))
        ctx.set(engine.settings, {"steps": 1, "burst": 4, "dtype": DTYPE_NAMES.index(dtype),
                                  "expected": 0})
        await pulse(ctx, engine.start)
        await finish(ctx, engine, limit=100)
        await ctx.tick()
        (started,) = device.started
        assert device.read_bursts[0][0] == started + 4
        # The first beat of the last operand.
        operand = device.read_cycles[-4]
        assert device.write_bursts[0][0] == operand + 2
        assert device.write_cycles == [operand + engine.latency + number for number in range(4)]
        assert device.finished == [device.answer_cycles[-1] + 2]
        assert ctx.get(engine.cycles) == device.finished[0] - started

    simulate(engine, bench, background=[device.bench])


@pytest.mark.parametrize("where, resp", [("reads", SLVERR), ("reads", DECERR), ("writes", SLVERR)])
def test_a_wrong_answer_is_reported_until_the_next_start(where, resp):
    engine, device = single()
    fill(device, 0x100000, 16)
    steps = copies(1, 16)
    bad = device.bad_reads if where == "reads" else device.bad_writes
    bad[0x100018 if where == "reads" else 0x400010] = resp

    async def bench(ctx):
        await run(ctx, engine, steps=steps, burst=4, limit=200)
        assert ctx.get(engine.error)
        for _ in range(20):
            await ctx.tick()
        assert ctx.get(engine.error)
        check_traffic(device, steps, 4)
        bad.clear()
        await run(ctx, engine, steps=steps, burst=4, limit=200)
        assert not ctx.get(engine.error)
        check_traffic(device, steps, 4)

    simulate(engine, bench, background=[device.bench])


@pytest.mark.parametrize("change", [
    {"burst": 0}, {"burst": 3}, {"burst": 65}, {"burst": 96}, {"steps": 5}, {"steps": 0xFFFF},
    {"dtype": 1}, {"dtype": 3}], ids=str)
def test_bad_settings_are_refused_without_traffic(change):
    engine, device = single(NodeConfig(data_width=32, dtypes=("int32", "bfloat16")), steps=4)
    fill(device, 0x100000, 0x4000)
    good = {"steps": 4, "burst": 64, "dtype": 2, "expected": 0}

    async def bench(ctx):
        await write_table(ctx, engine, copies(4, 8))
        ctx.set(engine.settings, good | change | {"expected": 100})
        await pulse(ctx, engine.start)
        await finish(ctx, engine, limit=3)
        assert ctx.get(engine.error)
        assert not device.read_bursts and not device.write_bursts
        ctx.set(engine.settings, good)
        await pulse(ctx, engine.start)
        await finish(ctx, engine, limit=200)
        assert not ctx.get(engine.error)
        check_traffic(device, copies(4, 8), 64)

    simulate(engine, bench, background=[device.bench])


@pytest.mark.parametrize("field", ["source_a", "source_b", "destination"])
@pytest.mark.parametrize("offset", [1, 4, 32])
def test_an_unaligned_step_is_refused_and_those_behind_it_are_not_run(field, offset):
    engine, device = single()
    steps = copies(4, 32, add=True)
    for step in steps:
        fill(device, step.source_a, 64)
        fill(device, step.source_b, 64)
    values = {"source_a": 0x102000, "source_b": 0x202000, "destination": 0x402000}
    values[field] += offset
    steps[2] = CollectiveStep(**values, beats=32)

    async def bench(ctx):
        await run(ctx, engine, steps=steps, burst=16, expected=9, limit=300)
        assert ctx.get(engine.error)
        bursts = len(device.read_bursts) // 2
        # What was under way when the step was looked at is finished, nothing is left half done.
        assert bursts in (3, 4) and len(device.answer_cycles) == bursts
        if offset < 32:
            await run(ctx, engine, steps=copies(2, 32, add=True), burst=16, limit=300)
            assert not ctx.get(engine.error)

    simulate(engine, bench, background=[device.bench])


def test_an_unaligned_second_source_that_is_not_read_does_no_harm():
    engine, device = single()
    fill(device, 0x100000, 16)

    async def bench(ctx):
        await write_table(ctx, engine, copies(1, 16))
        ctx.set(engine.table.payload, {"entry": 0, "word": 3, "data": 5})
        ctx.set(engine.table.valid, 1)
        await ctx.tick()
        ctx.set(engine.table.payload, {"entry": 64, "word": 0, "data": 0})  # beyond the table
        await ctx.tick()
        ctx.set(engine.table.valid, 0)
        ctx.set(engine.settings, {"steps": 1, "burst": 16, "dtype": 0, "expected": 0})
        await pulse(ctx, engine.start)
        await finish(ctx, engine, limit=100)
        assert not ctx.get(engine.error)
        check_traffic(device, copies(1, 16), 16)

    simulate(engine, bench, background=[device.bench])


@pytest.mark.parametrize("seed", range(6))
def test_clear_in_a_run_ends_it_cleanly(seed):
    """Also between the two reads of a burst; what is begun is written; the next run is right."""
    print("seed", seed)
    rng = random.Random(seed)
    engine, device = single(seed=seed, pace=0.7, latency=lambda: rng.randint(1, 30))
    steps = copies(6, 16, add=True)
    for step in steps:
        fill(device, step.source_a, 16)
        fill(device, step.source_b, 16)

    async def bench(ctx):
        await write_table(ctx, engine, steps)
        ctx.set(engine.settings, {"steps": 6, "burst": 2, "dtype": 0, "expected": 50})
        await pulse(ctx, engine.start)
        for _ in range(12 * seed + rng.randrange(8)):
            await ctx.tick()
        await pulse(ctx, engine.clear)
        await finish(ctx, engine, limit=300)
        reads, writes = expected_bursts(steps, 2, INTEGER)
        begun = len(device.write_bursts)
        assert begun < len(writes)
        assert [entry[1:] for entry in device.write_bursts] == writes[:begun]
        assert [entry[1:] for entry in device.read_bursts] == reads[:2 * begun]
        assert ctx.get(engine.unused) == 0
        device.read_bursts.clear()
        device.write_bursts.clear()
        await run(ctx, engine, steps=steps, burst=2, limit=2000)
        assert not ctx.get(engine.error)
        check_traffic(device, steps, 2)

    simulate(engine, bench, background=[device.bench])
    for step in steps:
        for offset in range(0, 64, 4):
            assert (step.destination - DELTA + offset,
                    (device.memory[step.source_a + offset] + device.memory[step.source_b + offset])
                    % 2**32) in [entry[1:] for entry in device.neighbour.coming]


@pytest.mark.parametrize("add", [False, True])
def test_writes_that_stand_still_stop_the_reads_and_lose_nothing(add):
    """Each operand's places fill to the last, and no read is asked for that has no place."""
    engine, device = single(buffer=64)
    device.write_start = 500
    steps = copies(4, 64, add=add)
    for step in steps:
        fill(device, step.source_a, 64)
        fill(device, step.source_b or 0, 64)

    async def bench(ctx):
        await write_table(ctx, engine, steps)
        ctx.set(engine.settings, {"steps": 4, "burst": 8, "dtype": 0, "expected": 0})
        await pulse(ctx, engine.start)
        for _ in range(400):
            await ctx.tick()
        # The first burst is in the adder as far as it goes, and has given places back.
        asked = sum(count for _, _, count in device.read_bursts)
        assert asked == len(device.read_cycles) == 64 * (1 + add)
        await finish(ctx, engine, limit=1500)
        check_traffic(device, steps, 8)

    simulate(engine, bench, background=[device.bench])
    for step in steps:
        for offset in range(0, 256, 4):
            both = [device.memory[start + offset]
                    for start in (step.source_a, step.source_b) if start is not None]
            assert (step.destination + offset - DELTA, sum(both) % 2**32) in (
                entry[1:] for entry in device.neighbour.coming)


def test_start_is_ignored_in_a_run_and_taken_in_the_cycle_of_done():
    engine, device = single()
    steps = copies(2, 16)
    for step in steps:
        fill(device, step.source_a, 16)

    async def bench(ctx):
        await write_table(ctx, engine, steps)
        ctx.set(engine.settings, {"steps": 2, "burst": 8, "dtype": 0, "expected": 0})
        await pulse(ctx, engine.start)
        ctx.set(engine.start, 1)
        for _ in range(2):
            await finish(ctx, engine, limit=100)
            check_traffic(device, steps, 8)
        ctx.set(engine.start, 0)

    simulate(engine, bench, background=[device.bench])


def test_a_shorter_table_after_a_longer_one_is_run_and_nothing_before():
    engine, device = single()

    async def bench(ctx):
        for count in (4, 2, 3, 1):
            steps = copies(count, 16)
            for step in steps:
                fill(device, step.source_a, 16)
            await write_table(ctx, engine, steps)
            ctx.set(engine.settings, {"steps": count, "burst": 8, "dtype": 0, "expected": 0})
            await ctx.tick().repeat(40)
            await pulse(ctx, engine.start)
            await finish(ctx, engine, limit=300)
            check_traffic(device, steps, 8)
            assert ctx.get(engine.read_beats) == 16 * count

    simulate(engine, bench, background=[device.bench])


@pytest.mark.parametrize("name, value", [
    ("steps", 1), ("steps", 65536), ("steps", 2.0), ("buffer", 63), ("buffer", None)])
def test_bad_parameters_are_refused_with_their_value(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be .* not {value!r}"):
        CollectiveEngine(config=INTEGER, **{name: value})
