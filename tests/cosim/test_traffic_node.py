"""A node with traffic engines, its link fed back to itself:
software programs, waits, reads back."""

import functools

import numpy as np
import traffic_jobs as jobs

from t3hw.config import NodeConfig
from t3hw.cosim.bench import node_verilog
from t3hw.cosim.session import RingSimulation
from t3hw.reference.traffic import gemm_words
from t3hw.runtime.relative_plan import relative_reduce_scatter

LIMIT = 50_000
CONFIG = NodeConfig.preset("tiny").replace(dtypes=("int32",))


@functools.cache
def loop():
    return RingSimulation(CONFIG, 1, node=node_verilog(CONFIG, traffic=True))


def test_a_gemm_stores_and_software_reads_it_back():
    results, output, behind = loop().run(jobs.gemm_alone, cycles=LIMIT)
    print(results)
    assert np.array_equal(output, gemm_words(0x1000 // 4, 96, 9))
    assert not behind.any()
    assert results["read_beats"] == int(12 * 3 * 3.25) // 2 * 2
    assert results["write_beats"] == 12 * 8
    # Three waves of three steps, and what reads and stores add.
    assert 9 * 60 < results["last_store"] < 9 * 60 + 300
    assert 3 * 60 < results["first_store"] < results["last_store"] < results["cycles"]
    assert results["read_wait"] > 0


def test_one_engine_runs_at_a_time():
    loop().run(jobs.one_at_a_time, cycles=LIMIT)


def test_a_collective_copies_and_adds():
    source, copy, results = loop().run(jobs.copied, cycles=LIMIT)
    assert np.array_equal(source, gemm_words(0x1000 // 4, 96, 9))
    assert np.array_equal(copy[:48], source[:48])
    assert np.array_equal(copy[48:], source[:48] + source[48:])
    assert (results["read_beats"], results["write_beats"]) == (48 * 3, 48 * 2)


def test_a_gemm_is_reduced_around_the_loop():
    """One node as one of a ring of four: all produce the same,
    so its sums follow from its output."""
    devices, chunk_words = 4, 24
    plan = relative_reduce_scatter(devices=devices, chunk_tiles=6, tile_bytes=16, dtype="int32",
                                   config=CONFIG, base=0x1000)
    found, counters = loop().run(jobs.overlapped, plan, (devices - 1) * chunk_words, cycles=LIMIT)
    own = gemm_words(0x1000 // 4, devices * chunk_words, 9).reshape(devices, chunk_words)
    assert np.array_equal(found.reshape(devices - 1, chunk_words),
                          np.cumsum(own, axis=0, dtype=np.uint32)[1:])
    for name in ("producer_write_bytes", "remote_write_bytes", "incoming_update_bytes",
                 "dma_read_bytes"):
        assert counters[name] == getattr(plan.traffic, name), name
