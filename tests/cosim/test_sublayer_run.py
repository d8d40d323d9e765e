"""A small sublayer in every variant on the hardware, bit for bit,
and with the bytes of the formulas."""

import dataclasses

import pytest
import sublayer_jobs as jobs
from small_sublayer import ALIGN, CONFIG, MACHINE, simulation, small_run

from t3hw.cosim import sublayer_cases
from t3hw.cosim.loop_back_bench import compare
from t3hw.cosim.sublayer_cases import Case, run_case
from t3hw.cosim.session import CycleLimit
from t3hw.cosim.simulators import SimulatorError
from t3hw.cosim.sublayer_run import run_sublayer
from t3hw.perf.sublayer_slice import SublayerSlice

LIMIT = 2_000_000
PHASES = ["gemm", "reduce_scatter", "all_gather", "gemm_bypass", "t3", "t3_mca"]
BEAT = CONFIG.beat_bytes
#: Tiles of all chunks, and beats.
TILES, BEATS = 256, 1024

#: Of what moves bytes, in chunks a device, for a ring of n.
TRAFFIC = {
    "gemm": lambda n: {"producer_write": n},
    "reduce_scatter": lambda n: {"producer_read": 2 * n - 1, "producer_write": 1,
                                 "remote_write": n - 1, "incoming_store": n - 1},
    "all_gather": lambda n: {"producer_read": n - 1, "remote_write": n - 1,
                             "incoming_store": n - 1},
    "gemm_bypass": lambda n: {"producer_write": n},
    "t3": lambda n: {"producer_write": n - 1, "remote_write": 1, "incoming_update": n - 1,
                     "dma_read": n - 2},
}
TRAFFIC["t3_mca"] = TRAFFIC["t3"]


def check_traffic(phases, run):
    """All counters of bytes, and of what the DRAM did, against formulas in chunks."""
    devices = run.t3.devices
    chunk = BEATS // devices
    for name, phase in phases.items():
        for counters, engine in zip(phase.counters, phase.engine, strict=True):
            chunks = TRAFFIC[name](devices)
            loads = 0
            if name not in ("reduce_scatter", "all_gather"):
                part = run.baseline if name == "gemm" else run.t3
                # Whole bursts are read, of what fractions of beats add up to.
                assert (-part.read_burst_beats
                        < engine["read_beats"] - part.gemm_read_beats <= 8), name
                assert engine["write_beats"] == BEATS
                loads = engine["read_beats"]
                assert counters["producer_read_bytes"] == loads * BEAT
            for kind in ("producer_read", "producer_write", "remote_write", "incoming_update",
                         "incoming_store", "dma_read"):
                if kind != "producer_read" or not loads:
                    assert counters[f"{kind}_bytes"] == chunks.get(kind, 0) * chunk * BEAT, (
                        name, kind)
            overlapped = name.startswith("t3")
            # With T3, whichever of both comes to a place first is stored, the other one added.
            updates = (devices - 1) * chunk if overlapped else 0
            assert counters["dram_updates"] == updates, name
            assert counters["dram_writes"] == chunk * sum(chunks.get(kind, 0) for kind in (
                "producer_write", "incoming_update", "incoming_store")) - updates, name
            assert counters["dram_reads"] == loads + chunk * (chunks.get("dma_read", 0) + (
                0 if loads else chunks.get("producer_read", 0))), name
            assert counters["tx_words"] == counters["rx_words"]
            assert counters["errors"] == 0
            chunk_tiles = TILES // devices
            assert counters["tiles_full"] == (devices - 1) * chunk_tiles * overlapped
            assert counters["commands_fired"] == (
                (devices - 2) * -(-chunk_tiles // run.granularity) * overlapped)


@pytest.mark.parametrize("devices, dtype, granularity, threshold", [
    (2, "float16", 1, None),
    (4, "float16", 1, None),
    (8, "float16", 1, None),
    (4, "float16", 3, 1),
    (4, "float16", 64, 0),  # a command for a whole chunk
    (8, "bfloat16", 3, 0),
    (2, "int32", 1, 1),
    (4, "float32", 16, None),
])
def test_every_variant_is_right_and_moves_what_the_formulas_say(
        devices, dtype, granularity, threshold):
    run = small_run(devices, dtype=dtype, granularity=granularity, threshold=threshold)
    phases = simulation().run(run_sublayer, run, cycles=LIMIT)
    assert list(phases) == PHASES
    check_traffic(phases, run)
    starts = [phase.start for phase in phases.values()]
    assert starts == sorted(starts) and len({start % ALIGN for start in starts}) == 1
    for name, phase in phases.items():
        assert phase.end == phase.start + phase.cycles[0]
        # The interrupt comes when the engine is done, or when the last update has come as well.
        engine = phase.engine[0]["cycles"]
        assert phase.cycles[0] >= engine - 2, name
        if not name.startswith("t3"):
            assert phase.cycles[0] <= engine + 2, name
    # Of two devices the output pushes operands out of the cache, unless it bypasses it.
    loads = [phases[name].engine[0]["read_beats"]
             for name in ("gemm", "gemm_bypass", "t3", "t3_mca")]
    assert loads[0] == (18432 if devices == 2 else loads[1]) and len(set(loads[1:])) == 1
    # Overlapped, it is faster than one after the other.
    assert phases["t3"].cycles[0] < phases["gemm"].cycles[0] + phases["reduce_scatter"].cycles[0]
    policy = phases["t3_mca"].policy[0]
    assert policy.complete and 0 < policy.intensity <= 1
    measured = run.t3.machine.occupancy_thresholds[policy.level]
    assert policy.threshold == (measured if threshold is None else threshold)


def test_coarse_commands_are_slower():
    """Whoever waits for a whole chunk before he sends it cannot hide the sending."""
    fine, coarse = (simulation().run(run_sublayer, small_run(8, size=64, granularity=granularity),
                                     cycles=LIMIT)["t3"].cycles[0] for granularity in (1, 8))
    assert fine < coarse


def test_the_seed_decides_the_data_and_nothing_else():
    runs = [simulation().run(run_sublayer, small_run(4, size=64, seed=seed), cycles=LIMIT)
            for seed in (3, 99)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("job, arguments, run, message", [
    (jobs.with_wrong_seed, (), {}, "baseline, device 0, position 4: .* of 128 elements are wrong"),
    # Rounding shows it: a sum of floats in another order is another.
    (jobs.with_wrong_order, (), {}, "baseline, device 0, position 4: .* of 128 elements are wrong"),
    (jobs.with_wrong_order, (), {"dtype": "bfloat16"}, "elements are wrong"),
    (jobs.with_one_count_too_many, ("dram_reads",), {}, "gemm, device 0: reads of .* counted as"),
    (jobs.with_one_count_too_many, ("dram_updates",), {},
     "gemm, device 0: writes of .* counted as"),
    # The plan is never done; the message says what the node had against it.
    (jobs.with_a_closed_region, (), {"max_cycles": 5000},
     "device 0 is not done after 5000 cycles; errors: REFUSED_PACKET"),
])
def test_what_is_wrong_is_found(job, arguments, run, message):
    run = small_run(4, size=64, **run)
    with pytest.raises(SimulatorError, match=message):
        simulation().run(job, run, *arguments, cycles=LIMIT)


def test_integers_add_in_any_order():
    """The counterpart of the wrong order that is found: nothing but the order was wrong."""
    simulation().run(jobs.with_wrong_order, small_run(4, size=64, dtype="int32"), cycles=LIMIT)


def test_a_run_that_is_not_done_in_time_says_so():
    with pytest.raises(CycleLimit, match="device 0 is not done after 100 cycles; errors: none"):
        simulation().run(run_sublayer, small_run(4, size=64, max_cycles=100), cycles=LIMIT)


def test_a_case_becomes_a_record_with_its_run_over_time(monkeypatch):
    monkeypatch.setattr(sublayer_cases, "SAMPLE_CYCLES", 64)
    sublayer = small_run(4).t3.sublayer
    outcome = run_case(Case(sublayer=sublayer, machine=MACHINE, granularity=2, threshold=3,
                            check=True), simulation())
    record = outcome.record
    assert (str(record), record.output_beats) == (str(sublayer), BEATS)
    assert outcome.seconds > 0 and outcome.peak_bytes > 1 << 20
    assert outcome.simulated_cycles > sum(record.cycles[name] for name in PHASES)
    parts = {mode: SublayerSlice(sublayer=sublayer, machine=MACHINE, mode=mode).traffic
             for mode in ("baseline", "t3")}
    for variant, beats in record.beats.items():
        expected = parts["baseline" if variant == "sequential" else "t3"]
        assert beats == dataclasses.asdict(expected), variant
    for variant in ("t3", "t3_mca"):
        samples, beats = record.samples[variant], record.beats[variant]
        # Samples begin with a bin, the GEMM somewhere in it.
        assert 0 <= samples.gemm_end - record.gemm_cycles[variant] < sublayer_cases.SAMPLE_CYCLES
        assert record.gemm_cycles[variant] <= record.cycles[variant]
        assert len(samples.gemm_reads) == record.cycles[variant] // 64 + 1 or (
            len(samples.gemm_reads) == record.cycles[variant] // 64 + 2)
        assert sum(samples.gemm_writes) == beats["gemm_writes"]
        assert sum(samples.incoming_updates) == beats["rs_writes"]
        assert sum(samples.dma_reads) == beats["rs_reads"]
        # A beat of the DMA engine is seen to be sent a few bins after it was read.
        assert abs(sum(samples.gemm_reads) - beats["gemm_reads"]) < 0.1 * beats["gemm_reads"]
        assert 0 < max(samples.occupancy) < 64
        assert sum(record.counters[variant]["occupancy"]) > record.cycles[variant]
    assert record.counters["t3_mca"]["threshold"] == 3
    assert record.counters["t3"]["communication_holds"] == 0 < (
        record.counters["t3_mca"]["communication_holds"])


def test_one_node_whose_link_comes_back_is_as_each_of_a_ring():
    """In all cycles and counters, not nearly; and the ring's sums are of
    different devices' data."""
    run = small_run(2)
    alone = simulation().run(run_sublayer, run, cycles=LIMIT)
    ring = simulation(2).run(run_sublayer, run, cycles=LIMIT)
    assert compare(alone, ring) == (0, 0)
    for name, phase in ring.items():
        # The interrupt comes within the cycle, whoever's it is.
        assert phase.cycles == alone[name].cycles * 2
        assert phase.engine == alone[name].engine * 2
    check_traffic(ring, run)


def test_a_ring_of_another_size_is_refused():
    with pytest.raises(ValueError, match="a ring of 4 is 1 device that is fed back or 4, not 2"):
        simulation(2).run(run_sublayer, small_run(4), cycles=LIMIT)


def test_icarus_takes_the_same_cycles():
    run = small_run(2, size=32, align=1)
    verilator, icarus = (simulation(simulator=simulator).run(run_sublayer, run, cycles=LIMIT)
                         for simulator in ("verilator", "icarus"))
    assert verilator == icarus


def test_a_difference_of_a_counter_is_not_overlooked():
    run = small_run(2, size=32, check=False)
    alone = simulation().run(run_sublayer, run, cycles=LIMIT)

    def changed(**changes):
        phase = alone["t3"]
        return alone | {"t3": dataclasses.replace(phase, **changes)}

    counters = alone["t3"].counters[0]
    assert compare(alone, alone) == (0, 0)
    assert compare(alone, changed(cycles=[alone["t3"].cycles[0] + 5])) == (
        5 / alone["t3"].cycles[0], 0)
    assert compare(alone, changed(counters=[
        counters | {"dma_packets": counters["dma_packets"] + 1}])
                   )[1] == 1 / max(counters["dma_packets"], 1)
    assert compare(alone, changed(counters=[counters | {"link_stall": counters["link_stall"] + 7}])
                   )[1] == 7 / max(counters["link_stall"], 1)
    # What goes on until software has read it says nothing.
    assert compare(alone, changed(counters=[counters | {"cycles": 1}])) == (0, 0)
