"""What `t3hw bench blocks` measures: cycles of the blocks,
traffic and speed of rings, generation."""

import os
import platform
import subprocess
import sys
import tempfile
import time

from t3hw.bench import HEADER, Row, line, report
from t3hw.config import NodeConfig
from t3hw.progress import progress

from .bus_use import measure_bus_use
from .chain_bench import measure_adder, measure_chain, measure_tracker
from .ring_bench import measure_functional_traffic, measure_speed, measure_traffic

__all__ = ["bench_blocks", "cycle_rows", "generation_rows", "ring_rows"]

#: Bytes of the block, and goals in percent by latency of the memory.
_BUS_GOALS = {
    2: {1 << 16: 99.5, 256: 99, 64: 97},
    32: {1 << 16: 99, 256: 98, 64: 95},
    100: {1 << 16: 98, 256: 97, 64: 70},
}

#: What moves in a measurement of bus use, unless told otherwise.
_BUS_BYTES = 1 << 16

#: Sets, ways, tiles, beats of each; what that is.
_TRACKER_CASES = (
    ("all for one tile", 32, 8, 1, 1000),
    ("spread over 200 tiles", 32, 8, 200, 5),
    ("100 tiles in one set of 2 ways", 1, 2, 100, 10),
)

#: Cycles from a tile's last commit to the first read.
_TRIGGER_GOAL = 6


def bench_blocks(*, show=print):
    """Measure everything.

    Parameters
    ----------
    show : callable
        Is given each line of the table when it is there.

    Returns
    -------
    dict
        The report: ``schema``, ``rows``, and ``machine``, where the times were taken.
    """
    rows = []
    show(HEADER)
    for source in (cycle_rows, ring_rows, generation_rows):
        for row in source():
            rows.append(row)
            show(line(row))
    return report(rows, machine={
        "cores": os.cpu_count(), "architecture": platform.machine(),
        "python": platform.python_version(),
        "load_average": [round(value, 2) for value in os.getloadavg()]})


def cycle_rows(*, bus_bytes=_BUS_BYTES):
    """Rows that count cycles in Amaranth's simulator: the same on every machine.

    Parameters
    ----------
    bus_bytes : int
        What moves in each measurement of bus use.
    """
    config = NodeConfig.preset("default")
    stalls = 0
    for what, sets, ways, tiles, beats in _TRACKER_CASES:
        with progress(f"tracker, {what}"):
            rate, lost, _overflow = measure_tracker(sets, ways, tiles, beats)
        stalls += lost
        yield Row(name=f"tracker, commits {what}", value=rate, unit="a cycle", goal=1,
                  better="higher")
    yield Row(name="tracker, cycles lost in the three cases", value=stalls, unit="cycles", goal=0,
              better="lower")

    with progress("chain from commit to read"):
        chain = measure_chain(config)
    yield Row(name="commit of a tile's last update to the DMA's first read, blocks in a chain",
              value=chain["first read"], unit="cycles", goal=_TRIGGER_GOAL, better="lower")
    yield Row(name="DMA engine, block taken to first read",
              value=chain["first read"] - chain["block"], unit="cycles", goal=1, better="lower")
    for latency, goals in _BUS_GOALS.items():
        for block_bytes, goal in goals.items():
            where = f"DMA, blocks of {block_bytes} bytes, memory latency {latency}"
            with progress(where):
                use = measure_bus_use(config, block_bytes, latency,
                                      blocks=max(1, bus_bytes // block_bytes))
            yield Row(name=f"{where}, first to last beat", value=100 * use.share,
                      unit="% of cycles", goal=goal, better="higher")
            yield Row(name=f"{where}, first read to last beat", value=100 * use.share_with_start,
                      unit="% of cycles", goal=goal, better="higher")
    for dtype in config.dtypes:
        with progress(f"near-memory compute, {dtype}"):
            rate = measure_adder(config, dtype)
        yield Row(name=f"near-memory compute, {dtype}", value=rate, unit="beats a cycle", goal=1,
                  better="higher")


def ring_rows():
    """Traffic against the formulas, and simulation speed."""
    tiny = NodeConfig.preset("tiny")
    for devices in range(2, 9):
        with progress(f"functional ring of {devices}"):
            difference = measure_functional_traffic(devices, tiny)
        yield _traffic_row(f"ring of {devices}, functional devices", difference)
    for devices in (2, 3):
        with progress(f"ring of {devices} in Verilator: build and run"):
            difference, _latency = measure_traffic(devices, tiny, "verilator")
        yield _traffic_row(f"ring of {devices}, hardware in Verilator", difference)

    with progress("ring of 4 in Verilator: build and run"):
        speed = measure_speed(NodeConfig.preset("default"))
    yield _traffic_row("ring of 4, hardware in Verilator", speed.difference)
    yield Row(name="commit of a tile's last update to the DMA's first read, least of a ring of 4",
              value=speed.trigger_latency, unit="cycles", goal=_TRIGGER_GOAL, better="lower")
    for what, value in (("", speed.rate), (", processor time", speed.processor_rate)):
        yield Row(name=f"ring of 4, 64 bit, in Verilator under cocotb, all producers busy{what}",
                  value=value, unit="cycles/s", goal=10_000, better="higher")


def _traffic_row(where, difference):
    return Row(name=f"{where}: traffic off the formulas", value=difference, unit="bytes", goal=0,
               better="lower")


def generation_rows():
    """Seconds of the command that generates a node, the start of Python included; best of three."""
    for preset in ("small", "default"):
        with tempfile.TemporaryDirectory(prefix="t3hw-") as directory, \
                progress(f"generating preset {preset}"):
            command = [sys.executable, "-m", "t3hw.cli", "generate", "--preset", preset,
                       "-o", directory]
            times = [_seconds(command) for _run in range(3)]
        for index, what in enumerate(("", ", processor time")):
            yield Row(name=f"generating a node, preset {preset}{what}", unit="seconds", goal=10,
                      value=min(run[index] for run in times), better="lower")


def _seconds(command):
    """Seconds, and seconds of processor time, that a command takes."""
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - start, os.times()
    return seconds, (after.children_user + after.children_system
                     - before.children_user - before.children_system)
