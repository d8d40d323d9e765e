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


@pytest.mark.parametrize("depth", [1, 2, 3, 16, 33, 34, 40, 64])
@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_keeps_order(depth, seed):
    rng = random.Random(seed)
    # Phases in which it fills, and in which it empties.
    pause, taken = rng.choice([(0.3, 0.6), (0.0, 0.5), (0.5, 1.0)]), []
    dut = StreamQueue(shape=8, depth=depth)
    sent = [rng.randrange(256) for _ in range(400)]
    received = []

    async def put(ctx):
        for value in sent:
            while rng.random() < pause[len(taken) // 50 % 2]:
                await ctx.tick()
            ctx.set(dut.i.payload, value)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def get(ctx):
        for _cycle in range(4000):
            ctx.set(dut.o.ready, rng.random() < pause[1 - len(taken) // 50 % 2])
            taken.append(0)
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


@pytest.mark.parametrize("depth", [2, 3, 33, 34, 64])
def test_latency_is_one_and_throughput_is_one_a_cycle(depth):
    dut = StreamQueue(shape=8, depth=depth)
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


@pytest.mark.parametrize("depth", [2, 3, 4, 16, 33, 34, 40, 64])
def test_a_full_queue_holds_its_depth_and_empties_and_fills_at_one_a_cycle(depth):
    """Filled, drained to any level, and from there on one in and one out in each cycle."""
    for drained in sorted({0, 1, 2, min(3, depth), depth // 2, depth}):
        dut = StreamQueue(shape=16, depth=depth)
        received = []

        async def bench(ctx):
            sent = 0
            for cycle in range(4 * depth + 20):
                filling = cycle <= depth + 2
                ctx.set(dut.o.ready, not filling)
                ctx.set(dut.i.valid, filling or cycle > depth + 2 + drained)
                ctx.set(dut.i.payload, sent)
                _, _, ready, push, valid, pull, payload, level = await ctx.tick().sample(
                    dut.i.ready, dut.i.valid, dut.o.valid, dut.o.ready, dut.o.payload, dut.level)
                assert ready == (level != depth)
                sent += ready & push
                if filling:
                    assert level == min(cycle, depth)
                elif valid & pull:
                    received.append((cycle, payload))

        simulate(dut, bench)
        assert [payload for _, payload in received] == list(range(len(received)))
        first = depth + 3
        pause = 1 if drained == depth else 0
        # An empty queue's next transfer comes a cycle later.
        assert [cycle for cycle, _ in received] == [
            cycle + (pause if cycle >= first + depth else 0)
            for cycle in range(first, first + len(received))]


@pytest.mark.parametrize("depth", [0, -1, 1.5, None])
def test_bad_depth_is_refused_with_its_value(depth):
    with pytest.raises(ValueError, match=rf"not {depth!r}"):
        StreamQueue(shape=8, depth=depth)
