"""Reduce-scatters on rings of functional devices: same bits, exact traffic, in any order of
events."""

import random

import numpy as np
import pytest

from rings import DrivenRing, check_result, check_traffic, random_gemm
from t3hw.config import DTYPE_NAMES, PRESETS, NodeConfig
from t3hw.reference import NUMPY_DTYPES, ring_running_sums
from t3hw.runtime.plan import ring_reduce_scatter
from t3hw.workloads import real

CONFIGS = {
    "tiny": PRESETS["tiny"].replace(tiles=256, commands=256),
    "small": PRESETS["small"],
    "wide": PRESETS["wide"],
}


def random_case(seed):
    """Arguments of a plan that fits, and its GEMM."""
    rng = random.Random(seed)
    name = rng.choice(sorted(CONFIGS))
    devices = rng.choice([2, 3, 4, 5, 8])
    dtype = rng.choice(DTYPE_NAMES)
    m, n = rng.randint(1, 24), rng.randint(1, 24)
    element = NUMPY_DTYPES[dtype].itemsize
    shape = dict(
        m=m, n=n, dtype=dtype, devices=devices, tile=(rng.randint(1, 9), rng.randint(2, 9)),
        wavefronts=rng.choice([1, 1, 2, 4]), granularity=rng.choice(["tile", "chunk", 2, 3]),
        scatter_dim=rng.randint(0, 1), base=element * rng.randint(0, 50))
    if rng.random() < 0.5:
        shape["pitch"] = element * (n + rng.randint(0, 5))
    return CONFIGS[name], shape, random_gemm(m=m, n=n, k=rng.randint(1, 12), dtype=dtype,
                                            devices=devices, seed=seed)


@pytest.mark.parametrize("seed", range(50))
def test_random_plans_give_the_references_bits_and_the_formulas_traffic(seed):
    config, shape, gemm = random_case(seed)
    plan = ring_reduce_scatter(config=config, **shape)
    ring = DrivenRing(plan.devices, config, seed=seed)
    ring.program(plan)
    for driver in ring.drivers:
        driver.clear_counters()
    for device in ring.model.devices:
        device.write_memory(0, b"\xff" * len(device.memory.data))    # NaN, where it matters
    where = f"seed {seed}, {shape}"
    ring.run(plan, gemm.partials, poll=seed % 2 == 1, seed=seed, split=0.3, shuffle=seed % 3 == 0)
    check_result(ring, plan, gemm.running_sums(plan), where)
    check_traffic(ring, plan)
    assert not any(ring.errors()), where
    assert any(part.any() for part in gemm.partials)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_traffic_is_that_of_the_paper_where_chunks_are_equal(devices):
    plan = ring_reduce_scatter(m=16, n=8, dtype="float16", devices=devices, tile=(2, 4),
                               config=NodeConfig())
    for device_plan in plan.device_plans:
        traffic = device_plan.traffic
        output = plan.output_bytes
        assert output == 16 * 8 * 2
        assert traffic.memory_write_bytes * devices == (2 * devices - 2) * output
        assert traffic.dma_read_bytes * devices == (devices - 2) * output
        assert traffic.remote_write_bytes * devices == output


@pytest.mark.parametrize("tile_rows, tile_columns, pitch, m, n", [
    (4, 16, 64, 23, 31), (2, 8, 16, 9, 5)])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_tile_ids_by_address(tile_rows, tile_columns, pitch, m, n, devices):
    config = CONFIGS["small"]
    plan = ring_reduce_scatter(m=m, n=n, dtype="bfloat16", devices=devices, tile_ids="address",
                               tile=(tile_rows, tile_columns), pitch=pitch, base=64, config=config)
    gemm = random_gemm(m=m, n=n, k=8, dtype="bfloat16", devices=devices, seed=3)
    ring = DrivenRing(devices, config, seed=devices)
    ring.program(plan)
    for driver in ring.drivers:
        driver.clear_counters()
    # The producer's own ids mean nothing in this mode.
    for driver in ring.drivers:
        driver.arm()
    ring.produce(plan, gemm.partials, seed=1, shuffle=True)
    for work in ring.model._work:
        for index, (address, data, strobe, _, _) in enumerate(work):
            work[index] = address, data, strobe, 77, 3
    for driver in ring.drivers:
        driver.wait()
    check_result(ring, plan, gemm.running_sums(plan))
    check_traffic(ring, plan)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_nan_infinity_and_signed_zero(dtype):
    """Values that an addition could get wrong, in all combinations of neighbours."""
    kind = NUMPY_DTYPES[dtype]
    unsigned = np.uint32 if kind.itemsize == 4 else np.uint16
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], kind)
    payload = special.view(unsigned).copy()
    payload[4] |= 1                                              # a payload, and the sign
    payload[4] |= 1 << 8 * kind.itemsize - 1
    rng = np.random.default_rng(4)
    partials = [payload[rng.integers(0, 7, (12, 11))].view(kind) for _ in range(3)]
    plan = ring_reduce_scatter(m=12, n=11, dtype=dtype, devices=3, tile=(2, 4),
                               config=CONFIGS["small"])
    ring = DrivenRing(3, CONFIGS["small"])
    ring.program(plan)
    ring.run(plan, partials)
    check_result(ring, plan, ring_running_sums(partials, dtype, bounds=plan.bounds))


def test_bfloat16_rounding_at_every_hop_on_the_devices():
    """The values of nccl#1026: 772, where a float32 sum gives 768."""
    partials = [None] * 4
    for device, value in zip((2, 1, 0, 3), (3, 256, 255, 256)):
        partials[device] = np.full((4, 2), value, NUMPY_DTYPES["bfloat16"])
    plan = ring_reduce_scatter(m=4, n=2, dtype="bfloat16", devices=4, tile=(1, 2),
                               config=CONFIGS["small"])
    ring = DrivenRing(4, CONFIGS["small"])
    ring.program(plan)
    ring.run(plan, partials)
    assert plan.read_chunk(3, ring.model.devices[3].read_memory)[0, 0] == 772


def test_a_thousand_runs_of_changing_shapes_without_a_reset():
    """Stale state shows at the second run, at a wrap of the epoch, or at another shape."""
    config = PRESETS["wide"]
    ring = DrivenRing(3, config, seed=11)
    ring.model.paces = [1] * 6
    shapes = [(4, 16), (8, 9), (1, 13)]
    runs = 0
    for turn in range(30):
        m, n = shapes[turn % 3]
        plan = ring_reduce_scatter(m=m, n=n, dtype="float16", devices=3, tile=(4, 16),
                                   config=config, base=2 * (turn % 5))
        ring.program(plan)
        for repeat in range(34):
            gemm = random_gemm(m=m, n=n, k=3, dtype="float16", devices=3, seed=runs)
            ring.run(plan, gemm.partials)
            check_result(ring, plan, gemm.running_sums(plan), f"run {runs}")
            runs += 1
        assert not any(ring.errors()), runs
    assert runs >= 1000
    assert [device.counts["errors"] for device in ring.model.devices] == [0] * 3


@pytest.mark.parametrize("slow", range(3))
def test_a_fast_rank_runs_into_the_next_iteration(slow):
    """No barrier: each rank arms its next run as soon as its own is done; one is far behind."""
    config = CONFIGS["small"]
    plan = ring_reduce_scatter(m=12, n=8, dtype="float32", devices=3, tile=(2, 4), config=config)
    ring = DrivenRing(3, config, seed=slow)
    ring.model.paces = [1] * 6
    ring.program(plan)
    gemms = [random_gemm(m=12, n=8, k=6, dtype="float32", devices=3, seed=seed)
             for seed in range(20)]
    started = [0] * 3
    finished = [0] * 3
    was_held = False
    patience = [0] * 3
    for _ in range(200_000):
        for index, driver in enumerate(ring.drivers):
            if started[index] > finished[index] and driver.status().done:
                check_part(ring, plan, gemms[finished[index]], index)
                finished[index] += 1
                patience[index] = 60 if index == slow else 0
            patience[index] -= 1
            if started[index] == finished[index] < len(gemms) and patience[index] < 0:
                driver.arm()
                ring.produce(plan, gemms[started[index]].partials, device=index)
                started[index] += 1
            was_held |= driver.read("LINK_STATUS")["holding"] == 1
        if finished == [len(gemms)] * 3:
            break
    assert finished == [len(gemms)] * 3
    assert was_held
    assert not any(ring.errors())


def check_part(ring, plan, gemm, device):
    want = gemm.running_sums(plan)[device, device]
    got = plan.read_chunk(device, ring.model.devices[device].read_memory)
    assert got.tobytes() == want.tobytes(), f"device {device}"


@pytest.mark.parametrize("seed", range(6))
def test_two_plans_at_once(seed):
    """Same tile ids, other buffers; armed and produced in another order on every device."""
    config = CONFIGS["tiny"]
    plan_a = ring_reduce_scatter(m=9, n=6, dtype="float32", devices=3, tile=(3, 4), config=config)
    plan_b = ring_reduce_scatter(m=5, n=11, dtype="int32", devices=3, tile=(2, 4), config=config,
                                 **plan_a.next_free())
    gemm_a = random_gemm(m=9, n=6, k=6, dtype="float32", devices=3, seed=seed)
    gemm_b = random_gemm(m=5, n=11, k=6, dtype="int32", devices=3, seed=seed)
    ring = DrivenRing(3, config, seed=seed)
    ring.program(plan_a)
    ring.program(plan_b)
    for _ in range(3):
        for index, driver in enumerate(ring.drivers):
            for plan, gemm in ((plan_a, gemm_a), (plan_b, gemm_b))[::1 if index % 2 else -1]:
                driver.arm(plan.index)
                ring.produce(plan, gemm.partials, device=index, seed=seed)
        for driver in ring.drivers:
            driver.wait(0)
            driver.wait(1)
        check_result(ring, plan_a, gemm_a.running_sums(plan_a), f"seed {seed}")
        check_result(ring, plan_b, gemm_b.running_sums(plan_b), f"seed {seed}")
    assert not any(ring.errors())


def test_one_plans_updates_do_not_complete_the_other():
    config = CONFIGS["small"]
    plan_a = ring_reduce_scatter(m=6, n=6, dtype="float32", devices=2, tile=(3, 4), config=config)
    plan_b = ring_reduce_scatter(m=6, n=6, dtype="float32", devices=2, tile=(3, 4), config=config,
                                 **plan_a.next_free())
    gemm = random_gemm(m=6, n=6, k=4, dtype="float32", devices=2, seed=0)
    ring = DrivenRing(2, config)
    ring.program(plan_a)
    ring.program(plan_b)
    for driver in ring.drivers:
        driver.arm(0)
        driver.arm(1)
    ring.produce(plan_a, gemm.partials)
    for driver in ring.drivers:
        driver.wait(0)
    assert [driver.status(1).tiles_done for driver in ring.drivers] == [0, 0]
    assert all(driver.status(1).armed for driver in ring.drivers)


def test_the_real_input():
    """The demo's GEMM: 73 rows, which no number of devices divides."""
    operands = real.load(columns=96)
    config = PRESETS["wide"]
    plan = ring_reduce_scatter(m=operands.m, n=operands.n, dtype=operands.dtype, devices=4,
                               tile=(16, 64), config=config)
    gemm = operands.gemm(4)
    ring = DrivenRing(4, config, seed=1)
    ring.program(plan)
    for driver in ring.drivers:
        driver.clear_counters()
    ring.run(plan, gemm.partials)
    check_result(ring, plan, gemm.running_sums(plan))
    check_traffic(ring, plan)
