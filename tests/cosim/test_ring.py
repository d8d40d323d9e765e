"""Whole rings, on both simulators: the same bits as the reference, whatever happened before."""

import ring_jobs as jobs
import numpy as np
import pytest

from t3hw.config import DTYPE_NAMES
from t3hw.cosim.random_case import DRAM_RINGS, draw_case, run_case
from t3hw.cosim.ring_run import Settings, run_plan
from t3hw.cosim.script import write_script
from t3hw.runtime.plan import ring_reduce_scatter


def run(ring, directory, plan, gemm, *, settings=Settings(), overlap=True, **options):
    """Run a plan and compare with the reference; returns the `RingResult`."""
    scripts = {}
    for device, bursts in jobs.all_stores(plan, gemm, config=ring.config).items():
        directory.mkdir(exist_ok=True)
        scripts[device] = directory / f"producer{device}.bin"
        write_script(scripts[device], bursts, beat_bytes=ring.config.beat_bytes)
    result = ring.run(_run_plan, plan, scripts, settings, overlap, cycles=jobs.LIMIT, **options)
    wanted = gemm.reduced(plan)
    assert any(want.tobytes().strip(b"\0") for want in wanted)
    for device, (want, got) in enumerate(zip(wanted, result.chunks, strict=True)):
        assert np.asarray(got).tobytes() == want.tobytes(), \
            f"device {device}:\n{got}\ninstead of\n{want}"
    assert not any(result.errors) and not any(result.player_errors)
    return result


def _run_plan(session, plan, scripts, settings, overlap):
    return run_plan(session, plan, scripts, settings, overlap=overlap)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_every_dtype(tmp_path, dtype):
    run(jobs.simulation(), tmp_path, *jobs.make(dtype=dtype, seed=3))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_special_numbers_in_the_input(tmp_path, dtype):
    plan, gemm = jobs.make(dtype=dtype, seed=4)
    places = [(row, column) for row in range(gemm.m) for column in range(gemm.n)]
    specials = [np.nan, -np.nan, np.inf, -np.inf, -0.0, np.finfo(np.float16).smallest_subnormal]
    for number, partial in enumerate(gemm.partials):
        for index, place in enumerate(places):
            if (index + number) % 3 == 0:
                partial[place] = specials[index % 5 if number % 2 else index % 6]
    run(jobs.simulation(), tmp_path, plan, gemm)


@pytest.mark.parametrize("seed, dram", [(42, False), (126, False), (6, True)])
def test_both_simulators_take_the_same_cycles(seed, dram):
    case = draw_case(seed, dram=dram)
    config = DRAM_RINGS[jobs.TINY, jobs.DEVICES] if dram else jobs.TINY
    assert (case.config, case.devices) == (config, jobs.DEVICES)
    outcomes = [run_case(case, jobs.simulation(config, simulator=simulator))
                for simulator in ("verilator", "icarus")]
    assert outcomes[0].problems == outcomes[1].problems == (), case
    assert outcomes[0].timing == outcomes[1].timing, case


def test_the_generated_ring_is_as_good_as_the_wired_one(tmp_path):
    plan, gemm = jobs.make(m=5, n=4, k=3)
    wired = run(jobs.simulation(), tmp_path / "wired", plan, gemm)
    ring = run(jobs.simulation(simulator="icarus", ring=True), tmp_path / "ring", plan, gemm)
    assert (wired.start, wired.done, wired.counters) == (ring.start, ring.done, ring.counters)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_memory_that_applies_data_late(tmp_path, dtype, overlap):
    # Without overlap, two devices read by DMA too. The memory is full of NaNs at first.
    plan, gemm = jobs.make(config=jobs.AXI, devices=jobs.AXI_DEVICES, dtype=dtype, seed=5,
                           overlap=overlap)
    result = run(jobs.simulation(jobs.AXI, jobs.AXI_DEVICES), tmp_path, plan, gemm, overlap=overlap,
                 memory_latency=0, memory_jitter=300)
    for counters, one in zip(result.counters, plan.device_plans, strict=True):
        assert counters["dma_read_bytes"] == one.traffic.dma_read_bytes
        assert (counters["dma_read_bytes"] == 0) == overlap


def test_runs_without_reset():
    shapes = [dict(m=8, n=4, tile=(2, 2)), dict(m=3, n=12, tile=(1, 4), granularity="chunk")]
    first, _ = jobs.make(**shapes[0])
    plans = [first, jobs.make(**shapes[1], **first.next_free())[0]]
    pairs = [(plan, [jobs.make(**shape, seed=seed)[1] for seed in (6, 7, 8)])
             for plan, shape in zip(plans, shapes, strict=True)]
    # More tiles at a time than the two that the tracker's ways hold.
    assert jobs.simulation().run(jobs.run_repeatedly, pairs, 50, cycles=10 * jobs.LIMIT,
                                 link_stall=0.2) > 0


def test_other_plans_in_the_same_place_without_reset():
    pairs = [jobs.make(m=m, n=n, dtype=dtype, seed=9, tile=tile) for m, n, dtype, tile in (
        (4, 32, "float16", (4, 4)), (8, 16, "int32", (8, 8)), (1, 9, "bfloat16", (1, 1)),
        (4, 32, "float32", (1, 32)), (9, 1, "float16", (1, 1)), (4, 32, "float16", (4, 4)))]
    jobs.simulation().run(jobs.reprogram_repeatedly, pairs, cycles=10 * jobs.LIMIT)


@pytest.mark.parametrize("stalled", range(3))
def test_fast_ranks_run_into_the_next_iteration(stalled):
    plan, _ = jobs.make(plan=1)
    gemms = [jobs.make(seed=seed)[1] for seed in (10, 11, 12)]
    held = jobs.simulation().run(jobs.run_ahead, plan, gemms, stalled, 4000)
    assert held == {"holding": 1, "plan": 1}


@pytest.mark.parametrize("late", range(3))
def test_a_device_that_is_armed_late(late):
    held = jobs.simulation().run(jobs.arm_late, *jobs.make(plan=1, seed=13), late)
    assert held == {"holding": 1, "plan": 1}


def test_two_plans_with_the_same_tile_ids():
    first = jobs.make(m=6, n=8, seed=14)
    second = jobs.make(m=6, n=8, dtype="float32", seed=15, **first[0].next_free())
    assert first[0].chunks[0].tiles[0].wg == second[0].chunks[0].tiles[0].wg
    jobs.simulation().run(jobs.run_two_plans, first, second)


@pytest.mark.parametrize("slow", range(3))
def test_a_slow_link(slow):
    plan, gemm = jobs.make(m=6, n=4, seed=16)
    cycles, words = jobs.simulation().run(jobs.run_with_a_slow_link, plan, gemm, slow, 64)
    assert cycles >= 64 * (words - 1)


def test_a_store_made_twice_at_home():
    plan, gemm = jobs.make(seed=17)
    errors, repeated = jobs.simulation().run(jobs.store_twice, plan, gemm, "forward")
    assert not errors[1] and not errors[2]
    assert errors[0].causes == ("DUPLICATE_UPDATE",)
    assert errors[0].count == len(repeated.data) // jobs.TINY.beat_bytes
    _check_first(errors[0], plan, repeated)


def test_a_store_made_twice_at_the_neighbour():
    plan, gemm = jobs.make(seed=18)
    errors, repeated = jobs.simulation().run(jobs.store_twice, plan, gemm, "remote")
    assert not errors[0] and not errors[1]
    assert errors[2].causes == ("DUPLICATE_UPDATE",)
    assert errors[2].count == len(repeated.data) // jobs.TINY.beat_bytes
    _check_first(errors[2], plan, repeated)


def _check_first(errors, plan, burst):
    assert errors.first.address == burst.address
    number, _slot, wg, wf = errors.first.tile
    assert (number, wg, wf) == (plan.index, burst.wg, burst.wf)


def test_more_bytes_than_a_tile_has():
    plan, gemm = jobs.make(seed=19, overlap=False)
    errors, repeated = jobs.simulation().run(jobs.store_twice, plan, gemm, "forward")
    assert not errors[1] and not errors[2]
    assert errors[0].causes == ("OVER_COUNT",)
    _check_first(errors[0], plan, repeated)


def test_stores_to_a_plan_that_is_not_armed():
    plan, gemm = jobs.make(seed=20)
    stores, refused, errors = jobs.simulation().run(jobs.store_unarmed, plan, gemm)
    assert refused == stores
    assert errors.causes == ("REFUSED_STORE",)
    assert plan.base <= errors.first.address < plan.end


@pytest.mark.parametrize("cause, field, value", [
    ("UNMAPPED_PACKET", "limit", 7),
    ("REFUSED_PACKET", "accept_update", False),
    ("REFUSED_PACKET", "dtype", "float16"),
    ("UNKNOWN_TILE", "first_tile", 60),
])
def test_packets_that_the_receiver_must_refuse(cause, field, value):
    plan, gemm = jobs.make(seed=21)
    chunk = plan.chunks[1]
    if field == "limit":
        value += chunk.address
    errors, missing = jobs.simulation().run(jobs.send_wrong, plan, gemm, {field: value})
    assert cause in errors.causes
    assert errors.first.cause == cause
    assert chunk.address <= errors.first.address <= chunk.limit
    assert {tile.chunk for tile in missing} == {1}


def test_tiles_that_do_not_exist():
    plan, gemm = jobs.make(seed=22)
    errors, refused, wrong = jobs.simulation().run(jobs.send_unknown_tile, plan, gemm)
    assert [one.causes for one in errors] == [("UNKNOWN_TILE",), (), ("UNKNOWN_TILE",)]
    # The neighbour cannot answer; at home the store is refused.
    assert refused == 1
    assert errors[2].first.address == wrong[0].address
    assert errors[0].first.address == wrong[1].address
    assert errors[0].first.tile[2] == errors[2].first.tile[2] == 50


def test_a_time_out_names_the_missing_tiles():
    plan, gemm = jobs.make(seed=23, timeout=3000)
    tile, message, errors = jobs.simulation().run(jobs.forget_stores, plan, gemm, 1)
    assert f"(wg {tile.wg}, wf {tile.wf}, chunk {tile.chunk}, row {tile.row}, " \
           f"column {tile.column}): {tile.bytes} of {2 * tile.bytes} bytes" in message
    assert errors.causes == ("PLAN_TIMEOUT",)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_plan_cleared_while_another_one_runs(order):
    stopped = jobs.make(m=6, n=8, seed=24)
    other = jobs.make(m=6, n=8, seed=25, **stopped[0].next_free())
    jobs.simulation().run(jobs.clear_in_the_middle, stopped, other, order)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
@pytest.mark.parametrize("cycles", [20, 60])
def test_a_plan_cleared_with_packets_in_flight(order, cycles):
    stopped = jobs.make(m=6, n=8, seed=24)
    other = jobs.make(m=6, n=8, seed=25, **stopped[0].next_free())
    causes = jobs.simulation().run(
        jobs.clear_with_packets_in_flight, stopped, other, order, cycles, cycles=jobs.LIMIT)
    assert causes <= {"STALE_PACKET", "REFUSED_STORE"}
    assert "STALE_PACKET" in causes


def test_a_plan_of_a_single_element():
    plan = ring_reduce_scatter(m=1, n=1, dtype="float16", devices=3, config=jobs.TINY)
    _, gemm = jobs.make(m=1, n=1, dtype="float16", k=3, seed=26)
    jobs.simulation().run(jobs.reprogram_repeatedly, [(plan, gemm)])
