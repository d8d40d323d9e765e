"""A node with traffic engines, its link fed back to itself: software programs, waits, reads back."""

import functools

import numpy as np
import pytest
import traffic_jobs as jobs

from t3hw.config import NodeConfig
from t3hw.cosim.bench import node_verilog
from t3hw.cosim.session import RingSimulation
from t3hw.reference.traffic import gemm_words

LIMIT = 50_000
CONFIG = NodeConfig.preset("small")


@functools.cache
def loop():
    return RingSimulation(CONFIG, 1, node=node_verilog(CONFIG, traffic=True))


def test_a_gemm_stores_and_software_reads_it_back():
    results, output, behind = loop().run(jobs.gemm_alone, cycles=LIMIT)
    assert np.array_equal(output, gemm_words(0x1000 // 4, 192, 9))
    assert not behind.any()
    assert results["READ_BEATS"] == int(12 * 3 * 3.25) // 2 * 2
    assert results["WRITE_BEATS"] == 12 * 8
    assert 3 * 3 * 60 < results["LAST_STORE"] < 3 * 3 * 60 + 3 * 60
    assert 3 * 60 < results["FIRST_STORE"] < results["LAST_STORE"] < results["CYCLES"]
    assert results["READ_WAIT_LO"] > 0
    print(results)


def test_one_engine_runs_at_a_time():
    loop().run(jobs.one_at_a_time, cycles=LIMIT)


def test_a_collective_copies_and_adds():
    source, copy, counts = loop().run(jobs.copied, cycles=LIMIT)
    assert np.array_equal(source, gemm_words(0x1000 // 4, 192, 9))
    assert np.array_equal(copy[:96], source[:96])
    assert np.array_equal(copy[96:], source[:96] + source[96:])
    assert counts == [48 * 3, 48 * 2]


@pytest.mark.parametrize("link_stall", [0.0])
def test_speed(link_stall):
    print(f"{loop().run(jobs.idle_speed, 200_000, cycles=1_000_000):.0f} cycles a second")
