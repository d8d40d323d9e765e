"""The packet queue keeps order, and shows no packet before all of it is in."""

import random

import pytest
from amaranth.lib import data

from region_agents import getter, put, wait_for
from simulation import simulate
from t3hw.hdl.packet_queue import PacketQueue

SHAPE = data.StructLayout({"number": 16, "last": 1})


def beats(rng, *, packets, longest):
    """Beats numbered through."""
    lasts = [position == length - 1 for length in (rng.randint(1, longest) for _ in range(packets))
             for position in range(length)]
    return [{"number": number, "last": int(last)} for number, last in enumerate(lasts)]


@pytest.mark.parametrize("longest, depth", [(1, 1), (4, 4), (4, 8), (5, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_random_packets_come_whole_and_in_order(longest, depth, seed):
    rng = random.Random(seed)
    dut = PacketQueue(shape=SHAPE, depth=depth)
    sent = beats(rng, packets=60, longest=longest)
    received = []

    async def bench(ctx):
        await put(ctx, dut.i, sent, rng=rng, pace=0.6)
        await wait_for(ctx, lambda: len(received) == len(sent), cycles=1000,
                       what=lambda: f"seed {seed}: {len(received)} of {len(sent)} beats")

    async def no_gap(ctx):
        """Once a packet has begun to show, its beats follow each other without a pause."""
        inside = False
        while True:
            _, _, valid, ready, last = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload.last)
            assert valid or not inside, f"seed {seed}: a gap in a packet"
            if valid:
                inside = not (ready and last)

    simulate(dut, bench, background=[
        getter(dut.o, received, rng=rng, pace=0.6, convert=lambda beat: beat.number), no_gap])
    assert received == [beat["number"] for beat in sent]


def test_latency_from_the_last_beat_as_stated_and_throughput_one_a_cycle():
    dut = PacketQueue(shape=SHAPE, depth=8)
    seen = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(40):
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload, {"number": cycle, "last": int(cycle % 4 == 3)})
            _, _, ready, valid, number = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.payload.number)
            assert ready
            if valid:
                seen.append((cycle, number))

    simulate(dut, bench)
    first = 3 + dut.latency
    assert seen == [(number + first, number) for number in range(40 - first)]


@pytest.mark.parametrize("depth", [0, -1, 1.5, None])
def test_bad_depth_is_refused_with_its_value(depth):
    with pytest.raises(ValueError, match=rf"not {depth!r}"):
        PacketQueue(shape=SHAPE, depth=depth)
