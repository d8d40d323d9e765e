"""The relative plan: real rings and a loop-back of one device give the reference's sums,
by formula."""

import numpy as np
import pytest
from rings import DrivenRing, same_bits

from t3hw.config import NodeConfig
from t3hw.reference import NUMPY_DTYPES, add
from t3hw.runtime.plan import PlanError
from t3hw.runtime.relative_plan import relative_reduce_scatter

CONFIG = NodeConfig.preset("small").replace(tiles=256, commands=256)


def produced(rng, devices, chunk_bytes, dtype):
    """A device's own partial sums, a row of bytes for each position."""
    kind = NUMPY_DTYPES[dtype]
    elements = devices * chunk_bytes // kind.itemsize
    if dtype == "int32":
        values = rng.integers(-2**31, 2**31, elements).astype(kind)
    else:
        values = (rng.standard_normal(elements)
                  * 10.0 ** rng.integers(-3, 3, elements)).astype(kind)
    return values.reshape(devices, -1)


def sums(own, dtype):
    """By device, the values at each position in the end: [device][position]."""
    devices = len(own)
    result = [[None] * devices for _ in own]
    for position in range(1, devices):
        for device in range(devices):
            came = (own if position == 1 else result)[(device + 1) % devices][position - 1]
            result[device][position] = add(came, own[device][position], dtype)
    return result


@pytest.mark.parametrize("devices, producers, dtype, granularity, seed", [
    (2, 2, "int32", 1, 1), (3, 3, "float16", 4, 2), (4, 4, "bfloat16", 3, 3),
    (8, 8, "float32", 1, 4), (4, 1, "float16", 1, 5), (8, 1, "bfloat16", 2, 6),
    (2, 1, "float32", 1, 7)])
def test_ring_and_loop_back(devices, producers, dtype, granularity, seed):
    rng = np.random.default_rng(seed)
    plan = relative_reduce_scatter(devices=devices, chunk_tiles=5, tile_bytes=32, dtype=dtype,
                                   config=CONFIG, granularity=granularity, base=64)
    # A loop-back is a ring of one node, which stands for ``devices`` equal ones.
    ring = DrivenRing(producers, CONFIG, seed=seed)
    for driver in ring.drivers:
        driver.program(plan)
    own = [produced(rng, devices, 160, dtype) for _ in range(producers)]
    for _run in range(2):
        for driver in ring.drivers:
            driver.clear_counters()
            driver.arm()
        for device in range(producers):
            raw = own[device].view(np.uint8).reshape(-1, CONFIG.beat_bytes)
            ring.model.produce(device, (
                (64 + index * CONFIG.beat_bytes, beat.tobytes(), (1 << CONFIG.beat_bytes) - 1, 0, 0)
                for index, beat in enumerate(raw)))
        for driver in ring.drivers:
            driver.wait(timeout=100_000)
        assert ring.errors() == [()] * producers
        expected = sums(own if producers > 1 else own * devices, dtype)
        for device, driver in enumerate(ring.drivers):
            held = ring.model.devices[device].read_memory(64 + 160, 160 * (devices - 1))
            held = np.frombuffer(held, NUMPY_DTYPES[dtype]).reshape(devices - 1, -1)
            for position in range(1, devices):
                assert same_bits(held[position - 1], expected[device][position]), (
                    f"seed {seed}, device {device}, position {position + 1}")
            counters = driver.counters()
            for name in ("producer_write_bytes", "remote_write_bytes", "incoming_update_bytes",
                         "dma_read_bytes"):
                assert counters[name] == getattr(plan.traffic, name), f"seed {seed}: {name}"


@pytest.mark.parametrize("fields, message", [
    ({"devices": 1}, "devices must be an integer of at least 2, not 1"),
    ({"chunk_tiles": 0}, "chunk_tiles must be an integer of at least 1, not 0"),
    ({"granularity": 0}, "granularity must be an integer of at least 1, not 0"),
    ({"tile_bytes": 24}, "tile_bytes must be a power of two of at least a beat, 8, not 24"),
    ({"tile_bytes": 4}, "tile_bytes must be a power of two of at least a beat, 8, not 4"),
    ({"base": 4}, "base must be a multiple of the beat, 8, not 4")])
def test_what_cannot_be_is_refused(fields, message):
    arguments = {"devices": 4, "chunk_tiles": 4, "tile_bytes": 32, "dtype": "float16",
                 "config": CONFIG} | fields
    with pytest.raises(PlanError, match=message):
        relative_reduce_scatter(**arguments)
