"""A spare place keeps order, loses nothing, costs no time, and cuts the way back."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.hdl.stream_spare import StreamSpare


def simulate(dut, *benches):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    for bench in benches:
        sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_keeps_order(seed):
    rng = random.Random(seed)
    dut = StreamSpare(shape=8)
    sent = [rng.randrange(256) for _ in range(300)]
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
        before = None
        for _cycle in range(3000):
            ctx.set(dut.o.ready, rng.random() < 0.6)
            _, _, valid, ready, payload = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload)
            assert before is None or (valid, payload) == before, "an offer was withdrawn"
            before = (valid, payload) if valid and not ready else None
            if valid and ready:
                received.append(payload)
            if len(received) == len(sent):
                return
        pytest.fail(f"seed {seed}: {len(received)} of {len(sent)} transfers after 3000 cycles")

    simulate(dut, put, get)
    assert received == sent


def test_latency_is_zero_throughput_one_and_ready_a_register():
    dut = StreamSpare(shape=8)

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.valid, 1)
        for value in range(20):
            ctx.set(dut.i.payload, value)
            _, _, valid, ready, payload = await ctx.tick().sample(
                dut.o.valid, dut.i.ready, dut.o.payload)
            assert (valid, ready, payload) == (1, 1, value)
        ctx.set(dut.o.ready, 0)
        assert ctx.get(dut.i.ready), "it sees only in the next cycle that the receiver waits"
        await ctx.tick()
        assert not ctx.get(dut.i.ready)

    simulate(dut, bench)
