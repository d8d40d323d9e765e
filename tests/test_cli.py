"""The command line: exit codes, messages, and the contract of --json and --out."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from t3hw.cli import BAD_INPUT, INTERRUPTED, OK, main
from t3hw.hdl.node import Node

#: A configuration and a ring that other tests simulate too, so that they share one build.
RING = ["sim", "--preset", "tiny", "--devices", "3", "--tile", "4x8"]


def refused(capsys, *arguments):
    """What standard error says of arguments that are refused."""
    try:
        code = main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == BAD_INPUT
    assert "Traceback" not in captured.err
    return captured.err


def test_no_command_shows_the_help(capsys):
    assert main([]) == BAD_INPUT
    assert "t3hw" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, message", [
    (["--devices", "1"], "2 to 8 devices, not 1"),
    (["--devices", "9"], "2 to 8 devices, not 9"),
    (["--m", "0"], "at least 1, not 0"),
    (["--tile", "4"], "like 16x64, not 4"),
    (["--granularity", "0"], "not 0"),
    (["--dtype", "float64"], "float64"),
    (["--preset", "huge"], "huge"),
    (["--config", "missing.toml"], "missing.toml"),
    (["--preset", "tiny", "--m", "300", "--tile", "300x256"], "first-touch map"),
    (["--preset", "tiny", "--m", "64", "--n", "64", "--tile", "1x8"], "tile"),
    (["--a", "missing.npy", "--b", "missing.npy"], "missing.npy"),
    (["--weights", "missing.safetensors", "--tensor", "w", "--activations", "x.npy"], "x.npy"),
    (["--json", "no/such/folder/x.json"], "no such folder"),
])
def test_bad_input_is_refused_by_name(capsys, arguments, message):
    assert message in refused(capsys, "sim", *arguments)


def test_a_dtype_that_the_hardware_lacks_is_refused_by_name(capsys, tmp_path):
    config = tmp_path / "narrow.toml"
    config.write_text('preset = "tiny"\ndtypes = ["float16"]\n')
    message = refused(capsys, "sim", "--config", str(config), "--dtype", "bfloat16", "--m", "8",
                      "--n", "8")
    assert "bfloat16" in message and "float16" in message


@pytest.mark.parametrize("content, message", [
    (np.zeros((3, 4), np.float32), "equal"),
    (np.zeros(4, np.float32), "matrix"),
    (np.array([["a"]]), "must hold"),
])
def test_operands_of_wrong_shape_or_type_are_refused(capsys, tmp_path, content, message):
    np.save(tmp_path / "a.npy", content)
    np.save(tmp_path / "b.npy", np.zeros((3, 5), np.float32))
    assert message in refused(capsys, "sim", "--a", str(tmp_path / "a.npy"), "--b",
                              str(tmp_path / "b.npy"))


def test_a_file_that_is_no_npy_is_refused(capsys, tmp_path):
    (tmp_path / "a.npy").write_text("no matrix")
    assert "a.npy" in refused(capsys, "sim", "--a", str(tmp_path / "a.npy"), "--b",
                              str(tmp_path / "a.npy"))


def test_a_missing_simulator_says_what_to_install(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    message = refused(capsys, *RING, "--m", "8", "--n", "8", "--simulator", "icarus")
    assert "iverilog is not installed" in message and "apt-get install iverilog" in message
    assert len(message.strip().splitlines()) == 1


def test_json_and_out_are_as_promised(tmp_path, capsys):
    """NaN and infinity in the input are allowed, and the result is still bit-exact."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((9, 12)).astype(np.float32)
    b = rng.standard_normal((12, 20)).astype(np.float32)
    a[2, 3], a[4, 5] = np.nan, np.inf
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    code = main([*RING, "--a", str(tmp_path / "a.npy"), "--b", str(tmp_path / "b.npy"), "--dtype",
                 "bfloat16", "--json", str(tmp_path / "run.json"), "--out",
                 str(tmp_path / "c.npy"), "--timeline", str(tmp_path / "run.html")])
    text = capsys.readouterr().out
    assert code == OK, text
    assert "bit-exact: yes" in text
    facts = json.loads((tmp_path / "run.json").read_text())
    assert list(facts) == [
        "schema", "collective", "devices", "m", "n", "k", "dtype", "seed", "simulator", "bit_exact",
        "mismatches", "cycles", "trigger_latency_cycles", "bytes_per_device", "errors"]
    assert (facts["schema"], facts["devices"], facts["m"], facts["n"], facts["k"]) == (
        1, 3, 9, 20, 12)
    assert facts["bit_exact"] is True and facts["mismatches"] == 0 and facts["errors"] == []
    cycles = facts["cycles"]
    assert 0 < cycles["producer"] < cycles["sequential"]
    assert cycles["overlapped"] < cycles["sequential"]
    latency = facts["trigger_latency_cycles"]
    assert Node.trigger_latency == latency["min"] <= latency["median"] <= latency["max"]
    assert len(facts["bytes_per_device"]) == 3
    output = 9 * 20 * 2
    assert all(row["output"] == output for row in facts["bytes_per_device"])
    for name, chunks in (("remote_write", 1), ("producer_write", 2), ("incoming_update", 2),
                         ("dma_read", 1)):
        assert sum(row[name] for row in facts["bytes_per_device"]) == chunks * output, name
    result = np.load(tmp_path / "c.npy")
    assert result.dtype == np.uint16 and result.shape == (9, 20)
    assert (result[2] == 0x7FC0).all(), "a row with NaN has the canonical one in every sum"
    assert (tmp_path / "run.png").stat().st_size > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.npy", "b.npy", "c.npy", "run.html", "run.json", "run.png"]


@pytest.fixture
def nothing_runs(monkeypatch):
    """Whoever builds or simulates has seen too late that the input is bad."""
    from t3hw.cosim import bench, dram_bench, sublayer_cases, session, simulators

    def too_late(*_arguments, **_options):
        raise AssertionError("something is built or simulated")

    monkeypatch.setattr(simulators, "build", too_late)
    monkeypatch.setattr(simulators, "run", too_late)
    for module in (bench, sublayer_cases, dram_bench):
        if hasattr(module, "node_verilog"):
            monkeypatch.setattr(module, "node_verilog", too_late)
    monkeypatch.setattr(session.RingSimulation, "__init__", too_late)


MACHINE = Path(__file__).parents[1] / "sim" / "machines" / "paper.toml"
ONE = ["--model", "T-NLG", "--sublayer", "OP", "--tp", "8"]


@pytest.mark.parametrize("arguments, message", [
    ([], "choose cases by --model, --sublayer and --tp, or --all; models are Mega-GPT-2, T-NLG"),
    (["--json", "x.json"], "choose cases by"),
    (["--model", "BERT"], "no model 'BERT'; models are Mega-GPT-2, T-NLG, GPT-3, PALM, MT-NLG"),
    (["--sublayer", "FC-3"], "no sublayer 'FC-3'; sublayers are OP, FC-2, FC-1, IP"),
    ([*ONE, "--machine", "laptop"], "no machine 'laptop'; machines are paper"),
    ([*ONE, "--machine", "missing.toml"], "missing.toml: No such file"),
    ([*ONE, "--sweep", "voltage"],
     "no sweep 'voltage'; sweeps are granularity, threshold, link, compute"),
    (["--model", "T-NLG", "--tp", "3"],
     "T-NLG: tp must divide the 32 heads (2, 4, 8, 16, 32), not 3"),
    (["--tp", "5"], "heads"),
    (["--model", "T-NLG", "--tp", "0"], "at least 2, not 0"),
    (["--model", "T-NLG", "--tp", "1"], "at least 2, not 1"),
    ([*ONE, "--threshold", "33"],
     "threshold must be from 0 (none) to 32, the depth of the memory's queue, not 33"),
    (["--all", "--model", "T-NLG"], "--all leaves nothing to choose"),
    (["--all", "--sublayer", "OP"], "--all leaves nothing to choose"),
    (["--all", "--tp", "8"], "--all leaves nothing to choose"),
    (["--all", "--tp", "0"], "--all leaves nothing to choose"),
    ([*ONE, "--over-time", "T-NLG FC-2 TP 8"],
     "no case 'T-NLG FC-2 TP 8' is run; cases are T-NLG OP"),
    ([*ONE, "--over-time", "T-NLG OP TP 8", "--sweep", "link"], "--sweep does not"),
    ([*ONE, "--json", "no/such/folder/x.json"], "no such folder"),
    ([*ONE, "--figures", str(MACHINE)], "paper.toml: File exists"),
])
def test_bench_overlap_refuses_before_anything_is_built(capsys, nothing_runs, arguments, message):
    said = refused(capsys, "bench", "overlap", *arguments)
    assert message in said
    assert len(said.strip().splitlines()) == 1 and said.startswith("t3hw: ")


@pytest.mark.parametrize("arguments, message", [
    (["--granularity", "0"], "at least 1, not 0"),
    (["--threshold", "-1"], "at least 0, not -1"),
    (["--jobs", "0"], "at least 1, not 0"),
    (["--tp", "eight"], "eight"),
])
def test_bench_overlap_refuses_numbers_out_of_range(capsys, nothing_runs, arguments, message):
    assert message in refused(capsys, "bench", "overlap", *ONE, *arguments)


@pytest.mark.parametrize("field, value, message", [
    ("units", "200", "units must be at most 128, not 200"),
    ("read_streams", "12", "streams of loads must be a power of two of at most 16, not 12"),
    ("latency_seconds", "1.0", "cycles of the link's latency must be at most 1024, not 5e+08"),
    ("occupancy_thresholds", "[5, 10, 33, 0]", "threshold must be from 0 (none) to 32"),
    ("intensity_boundaries", "[0.1, 0.2, 0.3]", "intensity_boundaries must fall"),
    ("tile_rows", "120", "must be whole columns of 32 bytes in each of 64 channels, not 3.75"),
    ("units", '"many"', "units must be an integer"),
    ("timing", '"hbm9"', "hbm9"),
])
def test_a_machine_that_cannot_be_is_refused_before_anything_is_built(
        capsys, nothing_runs, tmp_path, field, value, message):
    text, count = re.subn(rf"(?m)^{field} = [^#\n]*", f"{field} = {value} ",
                          MACHINE.read_text(), count=1)
    assert count == 1
    (tmp_path / "odd.toml").write_text(text)
    said = refused(capsys, "bench", "overlap", *ONE, "--machine", str(tmp_path / "odd.toml"))
    assert message in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("arguments, message", [
    (["--memory", "sdram"], "sdram"),
    (["--memory", "missing.toml"], "missing.toml"),
    (["--json", "no/such/folder/x.json"], "no such folder"),
])
def test_bench_memory_refuses_before_anything_is_built(capsys, nothing_runs, arguments, message):
    said = refused(capsys, "bench", "memory", *arguments)
    assert message in said
    assert len(said.strip().splitlines()) == 1


def children(process):
    """Process ids of all that runs below a process."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *children(int(child))]
    return found


def test_an_interrupt_leaves_no_process_and_no_half_written_file(tmp_path):
    main([*RING, "--m", "8", "--n", "8"])  # The build, if it is not there.
    process = subprocess.Popen(
        [sys.executable, "-m", "t3hw.cli", *RING, "--m", "12", "--n", "60", "--pace", "20000",
         "--json", str(tmp_path / "run.json"), "--out", str(tmp_path / "c.npy")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    below = []
    while not any("simulation" in Path(f"/proc/{pid}/cmdline").read_text() for pid in below
                  if os.path.exists(f"/proc/{pid}/cmdline")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
        below = children(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == INTERRUPTED
    assert err == "t3hw: interrupted\n"
    assert not list(tmp_path.iterdir())
    for pid in below:
        assert not os.path.exists(f"/proc/{pid}/stat") or \
            Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"
