"""The copy writer stores each beat once, and lets a packet go when it is visible."""

import random

import pytest
from memory_agents import LINK, PRODUCER, STORE, monitor, sender, taker, wait_until
from simulation import simulate

from t3hw.config import NodeConfig
from t3hw.hdl.copy_writer import CopyWriter

CONFIG = NodeConfig.preset("nano")


def packets(rng, count):
    beats = []
    for _packet in range(count):
        length = rng.randint(1, CONFIG.burst_beats)
        start = 4 * rng.randrange(64)
        beats += [{"address": start + 4 * number, "data": rng.getrandbits(32),
                   "strobe": rng.randrange(16), "last": number == length - 1}
                  for number in range(length)]
    return beats


@pytest.mark.parametrize("seed", range(4))
def test_all_is_stored_and_nothing_is_done_before_it_is_visible(seed):
    rng = random.Random(seed)
    beats = packets(rng, 30)
    dut = CopyWriter(config=CONFIG)
    requests, taken, visible = [], [], []

    async def memory(ctx):
        """Commits requests in order, now and then; commits of others are none of its business."""
        pending = []
        async for _, _, valid, ready in ctx.tick().sample(dut.request.valid, dut.request.ready):
            if valid and ready:
                pending.append(len(visible) + len(pending))
            ctx.set(dut.commit.valid, 0)
            choice = rng.random()
            if choice < 0.2:
                ctx.set(dut.commit.payload.source, PRODUCER)
                ctx.set(dut.commit.valid, 1)
            elif choice < 0.6 and pending:
                visible.append(pending.pop(0))
                ctx.set(dut.commit.payload.source, LINK)
                ctx.set(dut.commit.valid, 1)

    async def order(ctx):
        async for _, _, valid, ready, last in ctx.tick().sample(
                dut.packet.valid, dut.packet.ready, dut.packet.payload.last):
            if valid and ready:
                taken.append(last)
                assert not last or len(visible) == len(taken), "done before all of it is visible"

    async def wait(ctx):
        await wait_until(ctx, lambda: len(taken) == len(beats), cycles=5000,
                         what=lambda: f"{len(taken)} of {len(beats)} beats")

    simulate(dut, wait, background=[
        sender(dut.packet, beats, rng=rng, pace=0.8), taker(dut.request, rng=rng, pace=0.7),
        monitor(dut.request, requests), memory, order])
    assert [(request.address, request.data, request.strobe, request.last)
            for _, request in requests] == [
        (beat["address"], beat["data"], beat["strobe"], beat["last"]) for beat in beats]
    assert {(request.op.value, request.source.value, request.tile.tracked)
            for _, request in requests} == {(STORE, LINK, 0)}
