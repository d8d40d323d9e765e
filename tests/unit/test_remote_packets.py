"""Remote beats go in packets as long as the rules allow, and never wait at the end of a burst."""

import random

import pytest

from region_agents import getter, monitor, put, wait_for
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.remote_packets import RemotePackets

TINY = NodeConfig.preset("tiny")
CONSTANTS = ("op", "dtype", "tracked", "plan", "epoch", "wg", "wf")


def random_beats(rng, config, count):
    """(beat, alone, flushed afterwards), most of them continuing the one before."""
    entries = []
    beat = dict.fromkeys(CONSTANTS, 1) | {"address": 0}
    for number in range(count):
        if rng.random() < 0.15:
            name = rng.choice(CONSTANTS)
            beat[name] = rng.randrange(2 if name in ("tracked", "plan") else 3)
        steps = 1 if rng.random() < 0.85 else rng.randrange(2**20)
        beat["address"] = (beat["address"] + steps * config.beat_bytes) % 2**config.addr_width
        last = int(rng.random() < 0.1)
        entries.append((beat | {"data": number, "strobe": rng.randrange(16), "last": last},
                        int(rng.random() < 0.05), rng.random() < 0.1))
    beat, alone, _ = entries[-1]
    entries[-1] = (beat | {"last": 1}, alone, False)
    return entries


def lasts(config, entries):
    """Where the packets end."""
    result, length = [], 0
    for (beat, alone, flushed), (after, after_alone, _) in zip(entries, [*entries[1:], entries[-1]],
                                                               strict=True):
        length += 1
        ends = (beat["last"] or alone or flushed or after_alone or length == config.burst_beats
                or any(beat[name] != after[name] for name in CONSTANTS)
                or (beat["address"] + config.beat_bytes) % 2**config.addr_width != after["address"])
        result.append(int(ends))
        length = 0 if ends else length
    return result


@pytest.mark.parametrize("pace", [0.4, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_random_beats_in_packets_as_the_model_says(pace, seed):
    rng = random.Random(seed)
    config = TINY if seed % 2 else TINY.replace(burst_beats=16)
    dut = RemotePackets(config=config)
    entries = random_beats(rng, config, 300)
    beats, tags = [], []

    async def bench(ctx):
        for number, (beat, alone, flushed) in enumerate(entries):
            await put(ctx, dut.i, [{"beat": beat, "alone": alone, "tag": number % 2}],
                      rng=rng, pace=pace)
            if flushed:
                ctx.set(dut.flush, 1)
                await ctx.tick().repeat(rng.randrange(1, 4))
                ctx.set(dut.flush, 0)
        await wait_for(ctx, lambda: len(beats) == len(entries), cycles=1000,
                       what=lambda: f"seed {seed}: {len(beats)} beats")

    def plain(beat):
        return {name: getattr(beat, name)
                for name in (*CONSTANTS, "address", "data", "strobe", "last")}

    simulate(dut, bench, background=[getter(dut.o, beats, rng=rng, pace=pace, convert=plain),
                                     monitor(dut.accepted, tags)])
    for beat in beats:
        beat["op"], beat["dtype"] = beat["op"].value, beat["dtype"].value
    wanted = [beat | {"last": last}
              for (beat, _, _), last in zip(entries, lasts(config, entries), strict=True)]
    assert beats == wanted, f"seed {seed}"
    assert tags == [number % 2 for number in range(len(entries))]


def test_only_a_beat_that_another_may_join_waits():
    dut = RemotePackets(config=TINY)
    beats = []

    async def bench(ctx):
        await put(ctx, dut.i, [{"beat": {"address": 0}}])
        await ctx.tick().repeat(50)
        assert not beats
        await put(ctx, dut.i, [{"beat": {"address": 4}}])
        await ctx.tick().repeat(5)
        assert beats == [(0, 0)]
        ctx.set(dut.flush, 1)
        await ctx.tick()
        ctx.set(dut.flush, 0)
        await ctx.tick().repeat(3)
        assert beats == [(0, 0), (4, 1)]
        await put(ctx, dut.i, [{"beat": {"address": 8, "last": 1}}])
        await ctx.tick().repeat(3)
        assert beats == [(0, 0), (4, 1), (8, 1)]
        await put(ctx, dut.i, [{"beat": {"address": 12}, "alone": 1}])
        await ctx.tick().repeat(3)
        assert beats == [(0, 0), (4, 1), (8, 1), (12, 1)]

    simulate(dut, bench, background=[
        getter(dut.o, beats, convert=lambda beat: (beat.address, beat.last))])


@pytest.mark.parametrize("alone", [0, 1])
def test_latency_and_throughput_as_stated(alone):
    dut = RemotePackets(config=TINY)
    seen = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(50):
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload, {"beat": {"address": 4 * cycle}, "alone": alone})
            _, _, ready, valid, address = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.payload.address)
            assert ready
            if valid:
                seen.append((cycle, address // 4))

    simulate(dut, bench)
    assert seen == [(cycle, cycle - 1) for cycle in range(1, 50)]
