"""UART: every byte arrives, at clocks that differ, with spikes, after breaks; frames are exact."""

import random
from fractions import Fraction

import pytest

from memory_agents import monitor, sender
from serial_line import LineReader, send_bytes
from simulation import simulate
from t3hw.hdl.uart import UartReceiver, UartTransmitter

RATES = [4, 5, 8, 12, Fraction(25, 3), 43.4]


def receive(dut, *steps):
    """Bytes and errors after steps: bytes to send with a bit's cycles and the stop bits' level, or
    levels of the line, one a cycle."""
    received, errors = [], []

    async def bench(ctx):
        for step in steps:
            if isinstance(step, str):
                for level in step:
                    ctx.set(dut.rx, int(level))
                    await ctx.tick()
                ctx.set(dut.rx, 1)
            else:
                data, bit_cycles, level = step
                await send_bytes(ctx, dut.rx, data, bit_cycles=bit_cycles, level=level)
        await ctx.tick().repeat(100)

    async def watch(ctx):
        async for _, _, error in ctx.tick().sample(dut.error):
            if error:
                errors.append(len(received))
    simulate(dut, bench, background=[monitor(dut.o, received), watch])
    return bytes(payload for _, payload in received), errors


@pytest.mark.parametrize("bit_cycles", RATES, ids=str)
@pytest.mark.parametrize("drift", [0.97, 1.0, 1.03])
def test_all_bytes_arrive_without_gaps(bit_cycles, drift):
    rng = random.Random(1)
    # At 4 cycles a bit there is nothing to spare for a clock that differs.
    drift = 1.0 if bit_cycles < 8 else drift
    data = bytes([0, 255, 0x55, 0xAA, 1, 128, *rng.randbytes(60)])
    assert receive(UartReceiver(bit_cycles=bit_cycles),
                   (data, float(bit_cycles) * drift, 1)) == (data, [])


def test_spikes_of_one_cycle_are_nothing():
    """Neither at rest nor in the middle of a bit."""
    bits = [0, *(0x35 >> index & 1 for index in range(8)), 1]
    line = "".join(str(bit) * 9 for bit in bits)
    spiked = "".join(str(1 - int(level)) if index % 9 == 4 else level
                     for index, level in enumerate(line))
    assert receive(UartReceiver(bit_cycles=9), "11110" + "1" * 100 + spiked) == (b"\x35", [])


def test_a_start_bit_that_is_none_is_dropped():
    assert receive(UartReceiver(bit_cycles=16), "1" * 20 + "0" * 5 + "1" * 40,
                   (b"\x5A", 16, 1)) == (b"\x5A", [])


def test_bytes_without_stop_bit_are_errors_and_breaks_are_one():
    dut = UartReceiver(bit_cycles=8)
    assert receive(dut, (b"\x11", 8, 1), (b"\x22", 8, 0), "1" * 8, (b"\x33", 8, 1)) == (
        b"\x11\x33", [1])
    assert receive(UartReceiver(bit_cycles=8), "0" * 1000 + "1" * 8, (b"\x44", 8, 1)) == (
        b"\x44", [0])


def test_latency_of_the_receiver_is_as_stated():
    """From the middle of the stop bit, and one cycle more or less; active until then."""
    for bit_cycles in (4, 9, 16):
        dut = UartReceiver(bit_cycles=bit_cycles)
        seen = []

        async def bench(ctx):
            await ctx.tick().repeat(5)
            await send_bytes(ctx, dut.rx, b"\0", bit_cycles=bit_cycles)
            await ctx.tick().repeat(20)

        async def watch(ctx):
            cycle = 0
            async for _, _, valid, active in ctx.tick().sample(dut.o.valid, dut.active):
                if valid:
                    seen.append(cycle - 5 - 9.5 * bit_cycles)
                cycle += 1
                assert active or cycle < 5 + dut.latency or cycle > 9.5 * bit_cycles
        simulate(dut, bench, background=[watch])
        assert len(seen) == 1 and abs(seen[0] - dut.latency) <= 1, (bit_cycles, seen)


@pytest.mark.parametrize("bit_cycles", RATES, ids=str)
def test_the_transmitter_sends_one_byte_in_ten_bits(bit_cycles):
    dut = UartTransmitter(bit_cycles=bit_cycles)
    rng = random.Random(2)
    data = rng.randbytes(40)
    reader = LineReader(dut.tx, bit_cycles=float(bit_cycles))
    taken = []

    async def bench(ctx):
        for _ in range(round(bit_cycles * 10 * len(data)) + 40):
            await ctx.tick()
    simulate(dut, bench, background=[
        sender(dut.i, list(data)), monitor(dut.i, taken), reader.bench])
    assert bytes(reader.data) == data
    assert abs(reader.starts[-1] - reader.starts[0] - bit_cycles * 10 * (len(data) - 1)) <= 1 + (
        len(data) * 10 / 32)
    # The start bit is on the line a cycle after the byte is taken.
    assert reader.starts[0] - taken[0][0] in (1, 2)


def test_pauses_between_bytes_are_kept():
    dut = UartTransmitter(bit_cycles=6)
    rng = random.Random(3)
    data = rng.randbytes(20)
    reader = LineReader(dut.tx, bit_cycles=6)

    async def bench(ctx):
        for _ in range(20_000):
            await ctx.tick()
            if len(reader.data) == len(data):
                return
        pytest.fail(f"{len(reader.data)} bytes in 20000 cycles")
    simulate(dut, bench, background=[sender(dut.i, list(data), rng=rng, pace=0.02), reader.bench])
    assert bytes(reader.data) == data


@pytest.mark.parametrize("bit_cycles", [3, 70000, "8", None, True])
def test_bad_rates_are_refused_with_their_value(bit_cycles):
    for kind in (UartReceiver, UartTransmitter):
        with pytest.raises(ValueError, match="not " + repr(bit_cycles)):
            kind(bit_cycles=bit_cycles)
