"""Beats leave in the order in which each source asked, whatever the order in which they come."""

import random

import pytest
from memory_agents import DMA, LINK, PRODUCER, monitor
from simulation import simulate

from t3hw.config import NodeConfig
from t3hw.hdl.read_reorder import ReadReorder

CONFIG = NodeConfig.preset("tiny")


@pytest.mark.parametrize("seed", range(3))
def test_order_of_each_source(seed):
    rng = random.Random(seed)
    dut = ReadReorder(config=CONFIG, places=4)
    asked = {source: [] for source in (PRODUCER, LINK, DMA)}
    received = []
    refused = 0

    async def bench(ctx):
        nonlocal refused
        under_way = []
        for cycle in range(900):
            asks = cycle < 800 and rng.random() < 0.7
            source = rng.randrange(3)
            ctx.set(dut.reserve.valid, asks)
            ctx.set(dut.reserve.payload, source)
            if asks and ctx.get(dut.reserve.ready):
                beat = {"source": source, "last": rng.randrange(2), "error": rng.randrange(2),
                        "data": rng.randrange(1 << 32)}
                asked[source].append(tuple(beat.values()))
                under_way.append({"place": ctx.get(dut.place), "beat": beat})
            elif asks:
                refused += 1
            # A beat comes at the earliest in the cycle after its read got a place.
            old = under_way[:-1] if cycle < 800 else under_way
            comes = bool(old) and rng.random() < 0.6
            ctx.set(dut.i.valid, comes)
            if comes:
                ctx.set(dut.i.payload, under_way.pop(rng.randrange(len(old))))
            await ctx.tick()

    simulate(dut, bench, background=[monitor(dut.o, received)])
    assert refused > 50
    for source, beats in asked.items():
        assert len(beats) > 50
        assert [(beat.source.value, beat.last, beat.error, beat.data) for _, beat in received
                if beat.source.value == source] == beats, f"seed {seed}"


def test_latency_and_throughput():
    dut = ReadReorder(config=CONFIG, places=8)
    received = []

    async def bench(ctx):
        for cycle in range(41):
            ctx.set(dut.reserve.valid, cycle < 40)
            ctx.set(dut.i.valid, cycle > 0)
            ctx.set(dut.i.payload, {"place": (cycle - 1) % 8, "beat": {"source": PRODUCER,
                                                                       "data": cycle}})
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(3)

    simulate(dut, bench, background=[monitor(dut.o, received)])
    assert [(cycle, beat.data) for cycle, beat in received] == [
        (cycle + 2, cycle) for cycle in range(1, 41)]


def test_sources_take_turns():
    """Three full sources; each gets every third cycle."""
    dut = ReadReorder(config=CONFIG, places=8)
    received = []

    async def bench(ctx):
        for source in (PRODUCER, LINK, DMA):
            for place in range(8):
                ctx.set(dut.reserve.valid, 1)
                ctx.set(dut.reserve.payload, source)
                assert ctx.get(dut.reserve.ready) and ctx.get(dut.place) == place
                await ctx.tick()
        ctx.set(dut.reserve.valid, 0)
        # The first of each comes last.
        for place in (*range(1, 8), 0):
            for source in (PRODUCER, LINK, DMA):
                ctx.set(dut.i.valid, 1)
                ctx.set(dut.i.payload, {"place": place, "beat": {"source": source}})
                await ctx.tick()
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(30)

    simulate(dut, bench, background=[monitor(dut.o, received)])
    sources = [beat.source.value for _, beat in received]
    assert len(sources) == 24
    assert all(len(set(sources[at:at + 3])) == 3 for at in range(2, 21))


@pytest.mark.parametrize("places", [0, 1, 3, -4, 4.0, None])
def test_places_must_be_a_power_of_two(places):
    with pytest.raises(ValueError, match=f"power of two of at least 2, not {places!r}"):
        ReadReorder(config=CONFIG, places=places)
