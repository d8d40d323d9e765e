"""Write a bitstream to a board with openFPGALoader."""

import hashlib
import json
import subprocess
from pathlib import Path

from .tools import FlowError, find_tool

__all__ = ["program_board", "read_sidecar"]

#: Seconds after which a board does not answer any more.
_TIMEOUT = 300


def read_sidecar(path):
    """Content of a sidecar that `t3hw.fpga.build` wrote.

    Raises
    ------
    FlowError
        If it cannot be read, or is none.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FlowError(f"{path}: {getattr(error, 'strerror', None) or error}; "
                        "`t3hw fpga build` writes it") from None
    wanted = {"design": dict, "board_hash": str, "bitstream": dict}
    if not isinstance(content, dict) or any(
            not isinstance(content.get(key), kind) for key, kind in wanted.items()):
        raise FlowError(f"{path} is no sidecar of a bitstream: it needs {', '.join(wanted)}")
    return content


def checked_bitstream(design, folder):
    """Path of the design's bitstream in a folder.

    Raises
    ------
    FlowError
        If there is none, it is that of another design, or it was changed.
    """
    folder = Path(folder)
    sidecar = read_sidecar(folder / f"{design.name}.json")
    if sidecar["board_hash"] != f"{design.hash:08x}":
        raise FlowError(f"the bitstream in {folder} is of another design: its hash is "
                        f"{sidecar['board_hash']}, that of {design.name} is {design.hash:08x}; "
                        f"`t3hw fpga build {design.name} -o {folder}` builds it anew")
    path = folder / str(sidecar["bitstream"].get("file"))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FlowError(f"{path}: {error.strerror}; `t3hw fpga build {design.name} -o {folder}` "
                        "makes it") from None
    if hashlib.sha256(content).hexdigest() != sidecar["bitstream"].get("sha256"):
        raise FlowError(f"{path} is not what was built ({len(content)} bytes, "
                        f"{sidecar['bitstream'].get('bytes')} when it was); build it anew")
    return path


def loader_arguments(design, bitstream, *, flash=False):
    """openFPGALoader's arguments for a board."""
    if not design.loader:
        raise FlowError(f"{design.name} is not programmed from here: the vendor's tools do that")
    if design.loader == "dfu":
        return ["--board", "orangeCrab", str(bitstream)]
    return ["--board", design.loader, *(["--write-flash"] if flash else []), str(bitstream)]


def program_board(design, folder, *, flash=False, show=print, run=subprocess.run):
    """Write the bitstream in a folder to the board that is plugged in.

    Parameters
    ----------
    design : BoardDesign
        The board.
    folder : path-like
        Where `t3hw.fpga.build.build_board` put it.
    flash : bool
        Into the flash, so that it is there after power comes back.
    show : callable
        Is given lines for people.
    run : callable
        What runs the program: `subprocess.run`, or something like it in a test.

    Raises
    ------
    FlowError
        If there is no fitting bitstream, openFPGALoader is not installed, or it fails.
    """
    bitstream = checked_bitstream(design, folder)
    arguments = loader_arguments(design, bitstream, flash=flash)
    command = [find_tool("openFPGALoader"), *arguments]
    show(f"writing {bitstream.name} (hash {design.hash:08x}) to {design.title}")
    try:
        result = run(command, capture_output=True, text=True, timeout=_TIMEOUT,
                     stdin=subprocess.DEVNULL)
    except OSError as error:
        raise FlowError(f"openFPGALoader does not start: {error}") from None
    except subprocess.TimeoutExpired:
        raise FlowError(f"openFPGALoader did not end within {_TIMEOUT} s; unplug the board and "
                        "plug it in again") from None
    if result.returncode:
        text = f"{result.stdout}\n{result.stderr}"
        if "shared libraries" in text:
            raise FlowError(f"openFPGALoader does not start: {text.strip()}\n"
                            "Debian and Ubuntu: apt-get install libftdi1-2 libusb-1.0-0")
        lines = [line for line in text.splitlines() if line.strip()][-5:]
        raise FlowError("openFPGALoader failed, with exit code "
                        f"{result.returncode}: is the board plugged in and powered, and may you "
                        "use its port?\n" + "\n".join(lines))
    show("done")
