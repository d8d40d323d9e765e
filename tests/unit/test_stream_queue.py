"""The queue keeps order, never loses a transfer, and meets its stated latency and throughput."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.hdl.stream_queue import StreamQueue


def simulate(dut, *benches):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    for bench in benches:
        sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("depth", [1, 2, 3, 16])
@pytest.mark.parametrize("seed", range(3))
def test_random_traffic_keeps_order(depth, seed):
    rng = random.Random(seed)
    dut = StreamQueue(shape=8, depth=depth)
    sent = [rng.randrange(256) for _ in range(200)]
    received = []

    async def put(ctx):
        for value in sent:
            while rng.random() < 0.3:
                await ctx.tick()
            ctx.set(dut.i.payload, value)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def get(ctx):
        for _cycle in range(4000):
            ctx.set(dut.o.ready, rng.random() < 0.6)
            _, _, valid, ready, payload, level = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload, dut.level)
            assert level <= depth
            if valid and ready:
                received.append(payload)
            if len(received) == len(sent):
                return
        pytest.fail(f"seed {seed}: {len(received)} of {len(sent)} transfers after 4000 cycles")

    simulate(dut, put, get)
    assert received == sent


def test_latency_is_one_and_throughput_is_one_a_cycle():
    dut = StreamQueue(shape=8, depth=2)
    seen = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(20):
            ctx.set(dut.i.payload, cycle)
            ctx.set(dut.i.valid, 1)
            _, _, valid, payload, ready = await ctx.tick().sample(
                dut.o.valid, dut.o.payload, dut.i.ready)
            assert ready
            if valid:
                seen.append((cycle, payload))

    simulate(dut, bench)
    assert seen == [(cycle, cycle - 1) for cycle in range(1, 20)]


@pytest.mark.parametrize("depth", [0, -1, 1.5, None])
def test_bad_depth_is_refused_with_its_value(depth):
    with pytest.raises(ValueError, match=rf"not {depth!r}"):
        StreamQueue(shape=8, depth=depth)
