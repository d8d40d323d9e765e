"""Checksums of the line: zlib's, of either direction, whatever is cleared when."""

import random
import zlib

import pytest

from memory_agents import monitor, sender
from simulation import simulate
from t3hw.hdl.link_checksum import LinkChecksum

CAME, SENT = range(2)


def run(payloads, *, cycles, rng=None, pace=1.0, clears=lambda cycle: (0, 0)):
    """Compare both checksums with zlib's in each cycle in which no byte of theirs is under way; the
    cycles in which bytes were taken."""
    dut = LinkChecksum()
    taken = []
    compared = [0, 0]

    async def bench(ctx):
        counted = [b"", b""]
        # Direction of a byte under way, and the cycle from which its checksum has it.
        under_way = None
        for cycle in range(cycles):
            cleared = clears(cycle)
            ctx.set(dut.clear_came, cleared[CAME])
            ctx.set(dut.clear_sent, cleared[SENT])
            _, _, valid, ready, payload, *shown = await ctx.tick().sample(
                dut.i.valid, dut.i.ready, dut.i.payload, dut.came, dut.sent)
            if under_way and cycle == under_way[1]:
                under_way = None
            assert ready == (under_way is None), f"cycle {cycle}"
            for direction in (CAME, SENT):
                if not under_way or under_way[0] != direction:
                    assert shown[direction] == zlib.crc32(counted[direction]), (
                        f"cycle {cycle}, direction {direction}")
                    compared[direction] += 1
                if cleared[direction]:
                    counted[direction] = b""
                    if under_way and under_way[0] == direction:
                        under_way = (direction, cycle + 1)
            # A byte that is taken in the cycle of a clear comes after it.
            if valid and ready:
                under_way = (payload.sent, cycle + 9)
                counted[payload.sent] += bytes([payload.byte])

    simulate(dut, bench, background=[sender(dut.i, payloads, rng=rng, pace=pace),
                                     monitor(dut.i, taken)])
    return [cycle for cycle, _ in taken], compared


def random_bytes(rng, count):
    return [{"byte": rng.randrange(256), "sent": rng.randrange(2)} for _ in range(count)]


@pytest.mark.parametrize("pace", [1.0, 0.3, 0.05])
@pytest.mark.parametrize("clear", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("seed", range(2))
def test_random_bytes_and_clears(seed, clear, pace):
    """A clear wins over a byte that is under way, of its own direction and of no other."""
    print("seed", seed)
    rng = random.Random(seed)
    _, compared = run(random_bytes(rng, 1000), cycles=800, rng=rng, pace=pace,
                      clears=lambda cycle: (rng.random() < clear, rng.random() < clear))
    assert min(compared) > 200


@pytest.mark.parametrize("direction", [CAME, SENT])
@pytest.mark.parametrize("other", [0, 1], ids=["own", "other"])
def test_a_clear_in_each_cycle_of_a_byte(direction, other):
    for at in range(12):
        payload = [{"byte": 0xA5, "sent": direction}, *[None] * 13,
                   {"byte": 0x3C, "sent": direction}]
        cleared = direction ^ other
        run([{"byte": 0x11, "sent": direction}, *[None] * 10, *payload], cycles=50,
            clears=lambda cycle: tuple(int(cycle == 11 + at and side == cleared)
                                       for side in (CAME, SENT)))


def test_latency_and_throughput_are_nine_cycles():
    """`run` looks at the checksums from the ninth cycle on."""
    taken, compared = run(random_bytes(random.Random(3), 40), cycles=400)
    assert taken == [9 * number for number in range(40)]
    assert min(compared) > 100


def test_checksums_are_those_of_a_known_message():
    payloads = [{"byte": byte, "sent": 0} for byte in b"123456789"]
    dut = LinkChecksum()

    async def bench(ctx):
        assert (ctx.get(dut.came), ctx.get(dut.sent)) == (0, 0)
        await ctx.tick().repeat(100)
        assert (ctx.get(dut.came), ctx.get(dut.sent)) == (0xCBF43926, 0)

    simulate(dut, bench, background=[sender(dut.i, payloads)])
