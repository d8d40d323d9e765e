"""Collective engines in a ring: the reference's bits, exact traffic, nothing read too early."""

import random

import numpy as np
import pytest
from amaranth import Module

from collective_agents import DELTA, Device, check_traffic, run
from simulation import simulate
from t3hw.config import DTYPE_NAMES, NodeConfig
from t3hw.hdl.collective_engine import CollectiveEngine
from t3hw.reference import NUMPY_DTYPES, ring_reduce_scatter
from t3hw.workloads.collectives import ring_all_gather_steps, ring_reduce_scatter_steps

OWN, STAGING = 0x1000, 0x40000


def random_values(numbers, dtype, count):
    """Elements of all magnitudes, rounding and odd ones among them."""
    kind = NUMPY_DTYPES[dtype]
    if dtype == "int32":
        return numbers.integers(-2**31, 2**31, count).astype(kind)
    values = (numbers.normal(size=count) * 2.0 ** numbers.integers(-6, 7, count)).astype(kind)
    for odd in (np.nan, np.inf, -0.0, np.finfo(np.float16).smallest_subnormal):
        values[numbers.random(count) < 0.02] = odd
    return values


def beats_of(values, config):
    """Array to integers of a beat each."""
    raw, size = values.tobytes(), config.beat_bytes
    return [int.from_bytes(raw[at:at + size], "little") for at in range(0, len(raw), size)]


@pytest.mark.parametrize("devices, dtype", [
    (2, "int32"), (2, "float32"), (2, "bfloat16"), (3, "float16"), (3, "bfloat16"), (3, "float32"),
    (4, "int32"), (4, "float16")])
def test_ring_at_random_pace_gives_the_reference(devices, dtype):
    """Each device starts at its own time, twice, so neighbours are early in both collectives."""
    seed = 10 * devices + DTYPE_NAMES.index(dtype)
    print("seed", seed)
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    config = NodeConfig(data_width=rng.choice([32, 64]),
                        dtypes=DTYPE_NAMES if devices == 2 else (dtype,))
    burst = rng.choice([1, 2, 4])
    beats = burst * rng.randint(1, 8 // burst)
    longest = rng.choice([2, 30])

    top = Module()
    ring = []
    for number in range(devices):
        engine = CollectiveEngine(config=config, steps=8, buffer=64)
        top.submodules[f"engine_{number}"] = engine
        ring.append(Device(engine, config=config, rng=rng, pace=rng.choice([0.4, 0.8]),
                           latency=lambda: rng.randint(1, longest),
                           link=lambda: rng.randint(1, 40)))
    for number, device in enumerate(ring):
        device.neighbour = ring[number - 1]

    size = beats * config.beat_bytes
    total = devices * size // NUMPY_DTYPES[dtype].itemsize
    partials = [random_values(numbers, dtype, total) for _ in ring]
    chunks = [[beats_of(part, config) for part in np.split(partial, devices)]
              for partial in partials]
    reduced = [beats_of(part, config) for part in ring_reduce_scatter(partials, dtype)]
    for number, device in enumerate(ring):
        for position in range(1, devices + 1):
            for index, value in enumerate(chunks[number][(number + position) % devices]):
                device.memory[OWN + (position - 1) * size + index * config.beat_bytes] = value
        staged = {STAGING + offset
                  for offset in range(0, (devices - 1) * size, config.beat_bytes)}
        device.poison |= staged

    shape = {"devices": devices, "chunk_beats": beats, "beat_bytes": config.beat_bytes,
             "burst": burst}
    scatter = ring_reduce_scatter_steps(
        **shape, own=OWN, staging=STAGING, remote_staging=STAGING + DELTA)
    gather = ring_all_gather_steps(**shape, output=OWN, remote_output=OWN + DELTA)
    settings = {"burst": burst, "dtype": DTYPE_NAMES.index(dtype), "limit": 5000,
                "what": f"seed {seed}"}

    def program(device):
        """Software of one device. There is no `clear`, and nothing between the two collectives."""
        async def bench(ctx):
            async def sleep():
                for _ in range(rng.choice([0, 0, 60, 400])):
                    await ctx.tick()

            def held(position):
                start = OWN + (position - 1) * size
                return [device.memory[address]
                        for address in range(start, start + size, config.beat_bytes)]

            engine, number = device.engine, ring.index(device)
            await sleep()
            await run(ctx, engine, steps=scatter.steps, expected=scatter.expected, **settings)
            check_traffic(device, scatter.steps, burst)
            assert held(devices) == reduced[number]
            assert ctx.get(engine.read_beats) == (2 * devices - 1) * beats
            assert ctx.get(engine.write_beats) == devices * beats
            await sleep()
            await run(ctx, engine, steps=gather.steps, expected=gather.expected, **settings)
            check_traffic(device, gather.steps, burst)
            for position in range(1, devices + 1):
                assert held(position) == reduced[(number + position) % devices]
            assert ctx.get(engine.read_beats) == ctx.get(engine.write_beats) == gather.expected
            assert not ctx.get(engine.error) and not ctx.get(engine.unused)
            # The device's own bench may see the end a moment later.
            await ctx.tick()
            assert len(device.finished) == 2
        return bench

    simulate(top, *(program(device) for device in ring),
             background=[device.bench for device in ring])
    for device in ring:
        assert device.arrivals == 2 * (devices - 1) * beats
