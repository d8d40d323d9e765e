"""A producer's stores write each of its bytes once, where the plan says, within AXI's rules."""

import random

import numpy as np
import pytest

from t3hw.config import PRESETS, NodeConfig
from t3hw.reference import NUMPY_DTYPES
from t3hw.runtime.plan import ring_reduce_scatter
from t3hw.workloads import random_operands
from t3hw.workloads.gemm import producer_stages, producer_writes


def written(bursts):
    """Bytes by address, and the tile ids that came with them; fails if one is written twice."""
    values = {}
    for burst in bursts:
        for address, data, strobe in burst.beats():
            for index in range(len(data)):
                if strobe >> index & 1:
                    assert address + index not in values, f"{address + index:#x} is written twice"
                    values[address + index] = data[index], burst.wg, burst.wf
    return values


@pytest.mark.parametrize("split, shuffle", [(0, False), (0.7, True)])
@pytest.mark.parametrize("seed", range(12))
def test_every_byte_of_every_tile_once(seed, split, shuffle):
    rng = random.Random(seed)
    dtype = rng.choice(sorted(NUMPY_DTYPES))
    kind = NUMPY_DTYPES[dtype]
    config = PRESETS[rng.choice(["tiny", "small", "wide"])].replace(tiles=4096)
    m, n, devices = rng.randint(1, 40), rng.randint(1, 40), rng.randint(2, 8)
    plan = ring_reduce_scatter(
        m=m, n=n, dtype=dtype, devices=devices, config=config, check=False,
        tile=(rng.randint(1, 16), rng.randint(1, 16)), wavefronts=rng.choice([1, 2, 4]),
        scatter_dim=rng.randint(0, 1), base=kind.itemsize * rng.randint(0, 3000),
        pitch=kind.itemsize * (n + rng.randint(0, 3)))
    values = np.random.default_rng(seed).integers(0, 256, m * n * kind.itemsize, dtype=np.uint8)
    partial = values.view(kind).reshape(m, n)
    device = rng.randrange(devices)
    stages = producer_stages(plan, device, partial, config, seed=seed, split=split, shuffle=shuffle)
    assert len(stages) == len(plan.device_plans[device].stages)
    for stage, bursts in zip(plan.device_plans[device].stages, stages):
        got = written(bursts)
        want = {}
        for tile in plan.chunks[stage.chunk].tiles:
            for row in range(tile.rows):
                start = tile.address + row * plan.pitch
                data = partial[tile.row + row, tile.column:tile.column + tile.columns].tobytes()
                for index, byte in enumerate(data):
                    want[start + index] = byte, tile.wg, tile.wf
        assert got == want, f"seed {seed}, chunk {stage.chunk}"


@pytest.mark.parametrize("base", [0xFF0, 0xFFE, 0x1000, 0x1002, 0x1010])
@pytest.mark.parametrize("row_bytes", [4096, 8192, 16384, 30000])
def test_bursts_stay_within_pages_and_the_longest_length(base, row_bytes):
    config = NodeConfig(data_width=64, memory_bytes=1 << 20, touch_bytes=1 << 20)
    plan = ring_reduce_scatter(m=2, n=row_bytes // 2, dtype="float16", devices=2, base=base,
                               tile=(1, row_bytes // 2), config=config)
    partial = np.ones((2, row_bytes // 2), np.float16)
    total = 0
    for burst in producer_writes(plan, 0, partial, config):
        beats = len(burst.strobes)
        first, last = burst.address, burst.address - burst.address % 8 + 8 * beats - 1
        assert 1 <= beats <= 256
        assert first // 4096 == last // 4096, f"{first:#x} to {last:#x}"
        # The first strobe is that of the address; none comes before it.
        assert burst.strobes[0] & -burst.strobes[0] == 1 << first % 8
        total += sum(strobe.bit_count() for strobe in burst.strobes)
    assert total == 2 * row_bytes


def test_stages_are_staggered_and_users_carry_the_ids():
    config = PRESETS["small"]
    plan = ring_reduce_scatter(m=16, n=4, dtype="float32", devices=4, tile=(2, 4), wavefronts=2,
                               config=config)
    partial = np.ones((16, 4), np.float32)
    for device in range(4):
        order = [stage.chunk for stage in plan.device_plans[device].stages]
        assert order == [(device + step) % 4 for step in (1, 2, 3, 4)]
    bursts = producer_stages(plan, 0, partial, config)[0]
    assert [(burst.wg, burst.wf) for burst in bursts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert bursts[3].user(config) == 1 << 16 | 1


def test_a_partial_sum_of_another_shape_or_type_is_refused():
    config = PRESETS["small"]
    plan = ring_reduce_scatter(m=4, n=4, dtype="float32", devices=2, config=config)
    with pytest.raises(ValueError, match=r"4 x 4 float32, not \(4, 5\) float32"):
        producer_stages(plan, 0, np.ones((4, 5), np.float32), config)
    with pytest.raises(ValueError, match="not .* float16"):
        producer_stages(plan, 0, np.ones((4, 4), np.float16), config)


def test_gemms_are_reproducible_and_not_zero():
    for dtype in NUMPY_DTYPES:
        one, other = (random_operands(m=5, n=4, k=6, dtype=dtype, seed=9).gemm(3) for _ in range(2))
        for mine, theirs in zip(one.partials, other.partials):
            assert mine.tobytes() == theirs.tobytes()
            assert mine.any()
