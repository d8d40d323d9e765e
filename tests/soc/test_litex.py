"""The LiteX example: a node in a LiteX SoC with its memory in LiteDRAM.
Where litex is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("litedram", reason="needs litex and litedram 2024.12")

ROOT = Path(__file__).parents[2]
LITEX = ROOT / "fpga" / "litex"


def run(*command):
    # Warnings of other projects are not ours.
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, text=True, timeout=900,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=os.environ | {"PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_plan_is_what_the_planner_makes(tmp_path):
    run("fpga/soc/make_plan.py", "--preset", "axi", "--output", tmp_path)
    assert (tmp_path / "plan.hex").read_text() == (LITEX / "plan.hex").read_text()


def test_reduce_scatter_in_litedram(tmp_path):
    assert "node_tb: 64 sums are right" in run(
        LITEX / "t3_litedram.py", "--output", tmp_path, "--run")
