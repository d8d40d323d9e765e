"""Byte queue: order, room and what waits, in every cycle, and its slow but steady output."""

import random
from collections import deque

import pytest

from host_agents import late_taker
from memory_agents import monitor, sender, wait_until
from simulation import simulate
from t3hw.hdl.byte_queue import ByteQueue


def random_bytes(rng, count):
    return [{"byte": rng.randrange(256), "first": rng.randrange(2)} for _ in range(count)]


def plain(payload):
    return {"byte": payload.byte, "first": payload.first}


@pytest.mark.parametrize("depth", [2, 4, 16, 64])
@pytest.mark.parametrize("seed", range(3))
def test_random_traffic_keeps_order_and_flags_are_exact(depth, seed):
    """Phases in which it fills, and in which it empties."""
    print("seed", seed)
    rng = random.Random(seed)
    dut = ByteQueue(depth=depth)
    sent = random_bytes(rng, 100 + 4 * depth)
    held, received = deque(), []
    levels = set()

    async def bench(ctx):
        source = deque(sent)
        offered = filling = None
        for cycle in range(4000 + 20 * depth):
            if cycle % (4 * depth) == 0:
                filling = rng.random() < 0.5
            if offered is None and source and rng.random() < (0.9 if filling else 0.2):
                offered = source.popleft()
                ctx.set(dut.i.payload, offered)
            ctx.set(dut.i.valid, offered is not None)
            ctx.set(dut.o.ready, rng.random() < (0.1 if filling else 0.95))
            _, _, room, valid, ready, payload, waiting = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.ready, dut.o.payload, dut.waiting)
            where = f"seed {seed}, cycle {cycle}"
            # A byte at the output has left the queue proper.
            stored = len(held) - valid
            levels.add(stored)
            assert waiting == (stored > 0), where
            assert room == (stored < depth), where
            if valid:
                assert plain(payload) == held[0], where
            if valid and ready:
                received.append(held.popleft())
            if offered is not None and room:
                held.append(offered)
                offered = None
            if len(received) == len(sent):
                return
        pytest.fail(f"seed {seed}: {len(received)} of {len(sent)} bytes after {cycle} cycles")

    simulate(dut, bench, background=[monitor(dut.o, [])])
    assert received == sent
    assert {0, depth} <= levels


@pytest.mark.parametrize("depth", [2, 8, 512])
def test_it_holds_its_depth_and_one_more_and_takes_one_a_cycle(depth):
    """Bytes come in every cycle until there is no room; who takes none gets one, and keeps it."""
    dut = ByteQueue(depth=depth)
    sent = random_bytes(random.Random(depth), depth + 3)
    taken, received = [], []

    async def bench(ctx):
        await ctx.tick().repeat(depth + 20)
        assert len(taken) == depth + 1
        # The smallest is full before its first byte has reached the output.
        assert depth == 2 or [cycle for cycle, _ in taken] == list(range(depth + 1))
        assert not received and ctx.get(dut.o.valid) and not ctx.get(dut.i.ready)
        ctx.set(dut.o.ready, 1)
        await wait_until(ctx, lambda: len(received) == len(sent), cycles=4 * depth + 20,
                         what=lambda: f"{len(received)} of {len(sent)} bytes")

    simulate(dut, bench, background=[sender(dut.i, sent), monitor(dut.i, taken),
                                     monitor(dut.o, received)])
    assert [plain(payload) for _, payload in received] == sent


def test_latency_is_three_and_a_byte_comes_in_three_cycles():
    """One byte alone, and then many; nothing comes earlier for a queue that has been in use."""
    dut = ByteQueue(depth=16)
    taken, received = [], []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(80)

    sent = random_bytes(random.Random(4), 12)
    simulate(dut, bench, background=[sender(dut.i, [sent[0], *[None] * 9, *sent[1:]]),
                                     monitor(dut.i, taken), monitor(dut.o, received)])
    assert [cycle for cycle, _ in taken] == [0, *range(10, 21)]
    assert [cycle for cycle, _ in received] == [3, *(13 + 3 * number for number in range(11))]


def test_valid_does_not_wait_for_ready():
    rng = random.Random(5)
    dut = ByteQueue(depth=4)
    sent, received = random_bytes(rng, 30), []

    async def bench(ctx):
        await wait_until(ctx, lambda: len(received) == len(sent), cycles=1000,
                         what=lambda: f"{len(received)} of {len(sent)} bytes")

    simulate(dut, bench, background=[sender(dut.i, sent), monitor(dut.o, received),
                                     late_taker(dut.o, rng=rng, pace=0.5)])
    assert [plain(payload) for _, payload in received] == sent


@pytest.mark.parametrize("depth", [0, 1, 3, -2, 48, 2.0, True, None])
def test_a_bad_depth_is_refused_with_its_value(depth):
    with pytest.raises(ValueError, match=rf"not {depth!r}"):
        ByteQueue(depth=depth)
