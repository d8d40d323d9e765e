"""The prefetch queue keeps order, holds what it says, and meets its latency and throughput."""

import random

import pytest
from amaranth.lib import data

from region_agents import getter, put, wait_for
from simulation import simulate
from t3hw.hdl.prefetch_queue import PrefetchQueue

SHAPE = data.StructLayout({"number": 16})


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 16, 33])
@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_keeps_order(depth, seed):
    rng = random.Random(seed)
    dut = PrefetchQueue(shape=SHAPE, depth=depth)
    sent = [{"number": number} for number in range(300)]
    received = []

    async def bench(ctx):
        await put(ctx, dut.i, sent, rng=random.Random(f"put {seed}"),
                  pace=rng.choice([0.3, 0.7, 1]))
        await wait_for(ctx, lambda: len(received) == len(sent), cycles=4000,
                       what=lambda: f"seed {seed}: {len(received)} of {len(sent)} transfers")

    simulate(dut, bench, background=[
        getter(dut.o, received, rng=rng, pace=rng.choice([0.3, 0.7, 1]),
               convert=lambda payload: payload.number)])
    assert received == list(range(300))


@pytest.mark.parametrize("depth", [4, 5, 256])
@pytest.mark.parametrize("reserved", [False, True])
def test_latency_as_stated_and_throughput_one_a_cycle(depth, reserved):
    dut = PrefetchQueue(shape=SHAPE, depth=depth, reserved=reserved)
    seen = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(600):
            ctx.set(dut.i.payload.number, cycle)
            ctx.set(dut.i.valid, 1)
            _, _, valid, payload, ready = await ctx.tick().sample(
                dut.o.valid, dut.o.payload.number, dut.i.ready)
            assert ready
            if valid:
                seen.append((cycle, payload))

    simulate(dut, bench)
    assert seen == [(cycle, cycle - dut.latency) for cycle in range(dut.latency, 600)]


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_it_takes_as_many_as_its_depth_and_shows_the_first(depth):
    dut = PrefetchQueue(shape=SHAPE, depth=depth)
    received = []

    async def bench(ctx):
        taken = 0
        ctx.set(dut.i.valid, 1)
        for _cycle in range(depth + 20):
            ctx.set(dut.i.payload.number, taken)
            taken += (await ctx.tick().sample(dut.i.ready))[2]
        assert taken == depth
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        for _cycle in range(depth + 5):
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload.number)
            if valid:
                received.append(payload)

    simulate(dut, bench)
    assert received == list(range(depth))


@pytest.mark.parametrize("depth", [0, -1, 1.5, None])
def test_bad_depth_is_refused_with_its_value(depth):
    with pytest.raises(ValueError, match=rf"not {depth!r}"):
        PrefetchQueue(shape=8, depth=depth)
