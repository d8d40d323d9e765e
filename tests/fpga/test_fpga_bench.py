"""`t3hw bench fpga`: its table of blocks, its report, and what it calls a regression."""

import copy
import json

import pytest

from t3hw.bench import markdown
from t3hw.cli import BAD_INPUT, OK, WRONG, main
from t3hw.fpga import bench
from t3hw.fpga.bench import bench_fpga, read_report, regressions
from t3hw.fpga.blocks import BLOCKS, Block
from t3hw.fpga.tools import FlowError

#: Small enough for a test.
SMALL = Block(name="small", title="serial line's sender", parts=("uart:UartTransmitter",),
              arguments=({"bit_cycles": 100},), config=None, mhz=100, lut4=200)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_can_be_made(name):
    made = list(BLOCKS[name].components())
    assert [part.rpartition(":")[2] for part in BLOCKS[name].parts] == [name for name, _ in made]
    assert BLOCKS[name].name == name


def test_the_goals_are_those_of_the_issue():
    assert {name: block.lut4 for name, block in BLOCKS.items() if block.lut4} == {
        "tracker": 1200, "dma-4": 1000, "dma-16": 2000, "nmc-bf16": 1500, "nmc-fp32": 2000,
        "gemm": 1500}
    assert BLOCKS["node"].mhz == 100
    assert all(block.mhz == 120 for name, block in BLOCKS.items() if name != "node")
    assert BLOCKS["dma-16"].config.outstanding_reads == 16
    assert BLOCKS["tracker"].config.tracker_sets * BLOCKS["tracker"].config.tracker_ways == 256


def test_a_block_is_measured_stored_and_compared(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench, "BLOCKS", {"small": SMALL})
    stored = tmp_path / "fpga.json"
    arguments = ["bench", "fpga", "--blocks", "small", "--seeds", "1", "--json", str(stored)]
    assert main([*arguments, "--targets", "xilinx", "gowin"]) == OK
    report = read_report(stored)
    found = report["blocks"]["small"]
    assert 10 < found["lut4"] <= 200 and found["ff"] > 10 and found["mhz"] >= 100
    assert [row["name"] for row in report["rows"]] == [
        "serial line's sender, clock", "serial line's sender, LUT4"]
    for target in ("xilinx", "gowin"):
        assert found["synthesis_only"][target]["LUT"] > 5
        assert found["synthesis_only"][target]["FF"] > 10
    assert "synthesis only" in report["text"] and report["text"] in markdown(report)

    # As it was: nothing to report. Faster and smaller then: a regression.
    assert main([*arguments, "--compare", str(stored)]) == OK
    assert "nothing is worse" in capsys.readouterr().out
    content = json.loads(stored.read_text())
    content["blocks"]["small"] |= {"mhz": 2 * found["mhz"], "lut4": found["lut4"] // 2}
    stored.write_text(json.dumps(content))
    assert main([*arguments, "--compare", str(stored)]) == WRONG
    assert "small: " in capsys.readouterr().out


def test_more_than_five_percent_is_a_regression():
    old = {"blocks": {"a": {"lut4": 1000, "mhz": 100.0}, "gone": {"lut4": 1, "mhz": 1.0}}}
    new = copy.deepcopy(old)
    new["blocks"]["new"] = {"lut4": 9999, "mhz": 1.0}
    assert regressions(old, new) == []
    new["blocks"]["a"] = {"lut4": 1050, "mhz": 95.0}
    assert regressions(old, new) == []
    new["blocks"]["a"] = {"lut4": 1051, "mhz": 94.9}
    assert regressions(old, new) == [
        "a: 1051 LUT4, 5.1 % more than 1000", "a: 94.9 MHz, 5.1 % less than 100.0"]


@pytest.mark.parametrize("names, targets, message", [
    (["trackers"], (), "no block 'trackers'; there are node, tracker"),
    (["tracker"], ["intel"], "no target 'intel'; there are xilinx, gowin"),
])
def test_a_name_that_is_not_there_is_refused(names, targets, message):
    with pytest.raises(FlowError, match=message):
        bench_fpga(names, seeds=1, targets=targets)


@pytest.mark.parametrize("content, message", [
    ("{", "Expecting"), ("{}", "no report of"), ('{"blocks": {"a": {}}}', "'lut4' is missing"),
    ("[]", "no report of"),
])
def test_a_stored_result_that_is_none_is_refused_before_anything_is_measured(
        capsys, tmp_path, content, message):
    path = tmp_path / "old.json"
    path.write_text(content)
    assert main(["bench", "fpga", "--compare", str(path)]) == BAD_INPUT
    assert message in capsys.readouterr().err
