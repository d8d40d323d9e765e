"""The splitter asks for each beat of each burst once, in order, one a cycle."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.read_splitter import ReadSplitter
from t3hw.hdl.seams import MemoryOp, Source


def split(config, bursts, *, seed=0, offer=1.0, take=1.0, source=Source.DMA):
    """Requests as (cycle, payload), and the cycles in which the bursts were taken."""
    rng = random.Random(seed)
    dut = ReadSplitter(config=config, source=source)
    requests, taken = [], []
    beats = sum(count for _, count in bursts)

    async def bench(ctx):
        waiting = list(bursts)
        valid = False
        stuck = None
        for cycle in range(beats * 20 + 50):
            if not valid and waiting and rng.random() < offer:
                address, count = waiting[0]
                ctx.set(dut.burst.payload, {"address": address, "beats": count - 1})
                valid = True
            ctx.set(dut.burst.valid, valid)
            ready = rng.random() < take
            ctx.set(dut.request.ready, ready)
            _, _, burst_ready, request_valid, request = await ctx.tick().sample(
                dut.burst.ready, dut.request.valid, dut.request.payload)
            if valid and burst_ready:
                waiting.pop(0)
                taken.append(cycle)
                valid = False
            assert stuck is None or (request_valid and request == stuck), f"seed {seed}: changed"
            stuck = request if request_valid and not ready else None
            if request_valid and ready:
                requests.append((cycle, request))
            if len(requests) == beats and not request_valid:
                return
        pytest.fail(f"seed {seed}: {len(requests)} of {beats} requests in time")

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
    return requests, taken


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("seed", range(3))
def test_random_bursts_under_random_back_pressure(data_width, seed):
    rng = random.Random(seed)
    config = NodeConfig(data_width=data_width, burst_beats=rng.choice([2, 8, 64]), addr_width=40)
    size = config.beat_bytes
    bursts = []
    for _ in range(30):
        beats = rng.randint(1, config.burst_beats)
        # Anywhere in a page, and as often as not up to its end.
        start = 4096 - beats * size
        if rng.random() < 0.5:
            start = rng.randrange(start // size + 1) * size
        bursts.append((rng.randrange(1 << 28) << 12 | start, beats))
    requests, _ = split(config, bursts, seed=seed, offer=rng.choice([0.2, 1]),
                        take=rng.choice([0.3, 0.8]))
    expected = [(address + beat * size, beat == count - 1)
                for address, count in bursts for beat in range(count)]
    assert [(request.address, request.last) for _, request in requests] == expected, f"seed {seed}"
    for _, request in requests:
        assert request.op == MemoryOp.READ
        assert request.source == Source.DMA
        assert (request.tag, request.tile.tracked, request.touch.enable) == (0, 0, 0)


def test_latency_is_one_and_throughput_one_a_cycle_across_bursts():
    bursts = [(0x1000, 1), (0x2000, 4), (0x3000, 1), (0x4000, 1), (0x5000, 16)]
    requests, taken = split(NodeConfig(), bursts)
    assert requests[0][0] == taken[0] + 1
    assert [cycle for cycle, _ in requests] == list(range(1, 24))


@pytest.mark.parametrize("source", list(Source))
def test_source_is_passed_on(source):
    requests, _ = split(NodeConfig(), [(0, 2)], source=source)
    assert {request.source for _, request in requests} == {source}


@pytest.mark.parametrize("source", [2, None, "dma"])
def test_bad_source_is_refused_with_its_value(source):
    with pytest.raises(ValueError, match=f"not {source!r}"):
        ReadSplitter(config=NodeConfig(), source=source)
