"""AXI reads: every burst gets its data in order; memory is never asked for more than fits."""

import random

import pytest

from axi_bursts import OKAY, RESERVED, SLVERR, WRAP, Burst, random_burst
from region_agents import getter, put, wait_for
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.axi_reads import AxiReads
from t3hw.hdl.seams import MemoryOp, Source

TINY = NodeConfig.preset("tiny")
CONFIGS = {"tiny": TINY, "wide": NodeConfig(data_width=128, addr_width=40, id_width=7)}


def content(config, address):
    """What the memory of these tests holds, and whether it can be read."""
    word = address // config.beat_bytes
    return word * 0x9E3779B9 % 2**config.data_width, int(word % 11 == 3)


def memory(config, dut, *, rng, delay, pace=1.0, asked=None):
    """A background bench: answers requests in order after some time, among answers for others."""
    async def bench(ctx):
        waiting = []
        cycle = 0
        while True:
            cycle += 1
            answer = waiting and waiting[0][0] <= cycle and rng.random() < pace
            if answer:
                _, address, last = waiting.pop(0)
                data, error = content(config, address)
                ctx.set(dut.read.payload, {"source": Source.PRODUCER, "last": last, "error": error,
                                           "data": data})
            else:
                ctx.set(dut.read.payload, {"source": rng.choice([Source.DMA, Source.LINK]),
                                           "last": 1, "error": 1, "data": 0})
            ctx.set(dut.read.valid, 1)
            ctx.set(dut.request.ready, rng.random() < pace)
            _, _, valid, ready, request = await ctx.tick().sample(
                dut.request.valid, dut.request.ready, dut.request.payload)
            if valid and ready:
                assert (request.op, request.source) == (MemoryOp.READ, Source.PRODUCER)
                assert request.address % config.beat_bytes == 0
                if asked is not None:
                    asked.append(request.address)
                waiting.append((cycle + delay(), request.address, request.last))
    return bench


def expected(config, bursts):
    """R beats: (id, data, resp, last)."""
    beats = []
    for burst in bursts:
        for number, address in enumerate(burst.addresses(config)):
            data, error = content(config, address)
            beats.append((burst.id, data, SLVERR if error or not burst.legal(config) else OKAY,
                          int(number == burst.len)))
    return beats


def response(payload):
    return payload.id, payload.data, payload.resp, payload.last


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_random_bursts_get_their_data_in_order(name, seed):
    config = CONFIGS[name]
    rng = random.Random(seed)
    dut = AxiReads(config=config, beats=rng.choice([2, 5, 32]))
    bursts = [random_burst(rng, config, addr=rng.randrange(2**20), illegal=0.1) for _ in range(40)]
    # Beyond the bus width the addresses still step by the size that the master asked for.
    wanted = expected(config, bursts)
    beats = []

    async def bench(ctx):
        await put(ctx, dut.ar, [burst.channel for burst in bursts], rng=rng, pace=0.7)
        await wait_for(ctx, lambda: len(beats) == len(wanted), cycles=30000,
                       what=lambda: f"seed {seed}: {len(beats)} of {len(wanted)} beats")

    simulate(dut, bench, background=[
        getter(dut.r, beats, rng=rng, pace=0.7, convert=response),
        memory(config, dut, rng=rng, delay=lambda: rng.choice([1, 3, 20]), pace=0.8)])
    assert beats == wanted, f"seed {seed}"


@pytest.mark.parametrize("length", [1, 2, 255, 256])
@pytest.mark.parametrize("addr", [0x1000, 0x1002, 0xFFFFFE00])
def test_long_bursts_from_any_address(length, addr):
    dut = AxiReads(config=TINY, beats=8)
    bursts = [Burst(addr=addr, len=length - 1, size=2, id=5), Burst(addr=4, len=0, size=2, id=6)]
    beats, asked = [], []

    async def bench(ctx):
        await put(ctx, dut.ar, [burst.channel for burst in bursts])
        await wait_for(ctx, lambda: len(beats) == length + 1, cycles=800, what="beats")

    simulate(dut, bench, background=[
        getter(dut.r, beats, convert=response),
        memory(TINY, dut, rng=random.Random(0), delay=lambda: 1, asked=asked)])
    assert beats == expected(TINY, bursts)
    assert asked == [(addr // 4 + number) * 4 % 2**32 for number in range(length)] + [4]


@pytest.mark.parametrize("places", [2, 7, 32])
def test_no_more_is_asked_for_than_there_are_places(places):
    """The master takes nothing; the memory is fast. Then it takes all, and nothing was lost."""
    dut = AxiReads(config=TINY, beats=places)
    bursts = [Burst(addr=64 * number, len=15, size=2, id=number) for number in range(4)]
    beats, asked = [], []

    async def bench(ctx):
        await put(ctx, dut.ar, [burst.channel for burst in bursts[:2]])
        await ctx.tick().repeat(100)
        assert len(asked) == places and ctx.get(dut.r.valid) and ctx.get(dut.stall) == (places < 32)
        ctx.set(dut.r.ready, 1)
        await ctx.tick().repeat(100)

    async def watch(ctx):
        while True:
            _, _, valid, ready, beat = await ctx.tick().sample(
                dut.r.valid, dut.r.ready, dut.r.payload)
            if valid and ready:
                beats.append(response(beat))

    simulate(dut, bench, background=[
        watch, memory(TINY, dut, rng=random.Random(0), delay=lambda: 1, asked=asked)])
    assert beats == expected(TINY, bursts[:2])


def test_bytes_are_counted_by_size_and_first_address():
    dut = AxiReads(config=TINY, beats=32)
    cases = [(Burst(addr=0, len=3, size=2), 16), (Burst(addr=1, len=3, size=2), 15),
             (Burst(addr=3, len=3, size=0), 4), (Burst(addr=3, len=1, size=1), 3),
             (Burst(addr=8, len=3, size=2, burst=WRAP), 16), (Burst(addr=0, len=0, size=7), 4)]
    counted = 0

    async def bench(ctx):
        for burst, count in cases:
            before = counted
            await put(ctx, dut.ar, [burst.channel])
            await ctx.tick().repeat(20)
            assert counted - before == count, burst

    async def watch(ctx):
        nonlocal counted
        while True:
            counted += (await ctx.tick().sample(dut.bytes))[2]

    simulate(dut, bench, background=[
        watch, getter(dut.r, []), memory(TINY, dut, rng=random.Random(0), delay=lambda: 1)])


@pytest.mark.parametrize("burst", [Burst(addr=0, len=2, size=3), Burst(addr=0, len=2, size=2,
                                                                       burst=RESERVED)])
def test_an_illegal_burst_answers_slverr_and_the_next_is_served(burst):
    dut = AxiReads(config=TINY, beats=4)
    beats = []

    async def bench(ctx):
        await put(ctx, dut.ar, [burst.channel, Burst(addr=4, len=0, size=2).channel])
        await ctx.tick().repeat(20)

    simulate(dut, bench, background=[getter(dut.r, beats, convert=response),
                                     memory(TINY, dut, rng=random.Random(0), delay=lambda: 1)])
    assert [(resp, last) for _, _, resp, last in beats] == [
        (SLVERR, 0), (SLVERR, 0), (SLVERR, 1), (OKAY, 1)]


def test_latency_and_throughput_as_stated():
    """One burst of many beats, then bursts of one, without a pause; memory answers in a cycle."""
    dut = AxiReads(config=TINY, beats=8)
    asked, came = [], []
    bursts = [Burst(addr=0, len=63, size=2)]
    bursts += [Burst(addr=4 * number, len=0, size=2) for number in range(64)]

    async def bench(ctx):
        ctx.set(dut.request.ready, 1)
        ctx.set(dut.r.ready, 1)
        number = 0
        for cycle in range(140):
            ctx.set(dut.ar.valid, number < len(bursts))
            if number < len(bursts):
                ctx.set(dut.ar.payload, bursts[number].channel)
            _, _, ar_ready, request, last, valid = await ctx.tick().sample(
                dut.ar.ready, dut.request.valid, dut.request.payload.last, dut.r.valid)
            number += ar_ready and number < len(bursts)
            if request:
                asked.append(cycle)
            if valid:
                came.append(cycle)
            # Memory that answers in the cycle after the request: ``read`` is one cycle behind.
            ctx.set(dut.read.valid, request)
            ctx.set(dut.read.payload, {"source": Source.PRODUCER, "last": last})

    simulate(dut, bench)
    assert asked == list(range(1, 129))
    assert came == list(range(3, 131))


@pytest.mark.parametrize("beats", [0, -1, None])
def test_too_small_a_queue_is_refused_with_its_value(beats):
    with pytest.raises(ValueError, match=rf"not {beats!r}"):
        AxiReads(config=TINY, beats=beats)
