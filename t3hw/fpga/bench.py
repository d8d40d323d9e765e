"""`t3hw bench fpga`: what the blocks cost on an ECP5-85, against goals and a stored result."""

import concurrent.futures
import json
import os
import re
import tempfile
from pathlib import Path

from ..bench import HEADER, Row, line, report
from ..progress import progress
from .blocks import BLOCKS, TARGETS
from .measure import measure, write_block
from .tools import FlowError, run_tool

__all__ = ["bench_fpga", "read_report", "regressions"]

#: A larger loss than this, in LUT4 or MHz, is a regression.
TOLERANCE = 0.05


def bench_fpga(names, *, seeds, targets=(), show=print):
    """Measure blocks.

    Parameters
    ----------
    names : iterable of str
        Of `BLOCKS`.
    seeds : int
        Placements of each; the clock is their median.
    targets : iterable of str
        Of `TARGETS`: other chips to synthesize for.
    show : callable
        Is given each line of the table when it is there.

    Returns
    -------
    dict
        The report: ``rows`` against goals, ``blocks`` with all figures, and ``text``, the table of
        all cells.

    Raises
    ------
    FlowError
        If there is no such block or target, or a tool fails.
    """
    for kind, given, known in (("block", names, BLOCKS), ("target", targets, TARGETS)):
        for name in given:
            if name not in known:
                raise FlowError(f"no {kind} {name!r}; there are {', '.join(known)}")
    rows, blocks = [], {}
    show(HEADER)
    # The tools use one processor each.
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = {name: pool.submit(_measure, name, seeds, targets) for name in names}
        try:
            for name, run in runs.items():
                blocks[name] = run.result()
                for row in _rows(BLOCKS[name], blocks[name]):
                    rows.append(row)
                    show(line(row))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    text = table(blocks)
    show(f"\n{text}")
    return report(rows, device="LFE5U-85F, speed grade 6", seeds=seeds, blocks=blocks, text=text)


def _measure(name, seeds, targets):
    """All figures of the block of that name."""
    block = BLOCKS[name]
    parts = []
    other = {target: {} for target in targets}
    for name, component in block.components():
        with tempfile.TemporaryDirectory(prefix="t3hw-bench-") as folder:
            with progress(f"{block.title}: {name}"):
                parts.append(measure(component, folder, seeds=range(1, seeds + 1),
                                     options=block.options))
        for target, total in other.items():
            # A component is elaborated once.
            again = dict(block.components())[name]
            with progress(f"{block.title}: {name}, synthesis for {target}"):
                for kind, number in _synthesize(again, target).items():
                    total[kind] = total.get(kind, 0) + number
    slowest = min(parts, key=lambda cost: cost.median)
    found = {"title": block.title, "mhz": slowest.median, "mhz_by_seed": slowest.fmax,
             "path": slowest.path}
    for kind in ("lut4", "ff", "block_ram", "lut_ram", "multipliers"):
        found[kind] = sum(getattr(cost, kind) for cost in parts)
    return found | ({"synthesis_only": other} if other else {})


def _synthesize(component, target):
    """Cells by kind on a chip that is not placed here."""
    command, kinds = TARGETS[target]
    with tempfile.TemporaryDirectory(prefix="t3hw-bench-") as folder:
        write_block(component, folder)
        run_tool("yosys", ["-q", "-p", f"read_verilog -DSYNTHESIS top.v; {command} -top top; "
                           "tee -q -o stat.json stat -json"], cwd=folder, log="yosys.log")
        cells = json.loads((Path(folder) / "stat.json").read_text())["design"]["num_cells_by_type"]
    return {kind: sum(number for cell, number in cells.items() if re.fullmatch(pattern, cell))
            for kind, pattern in kinds.items()}


def _rows(block, found):
    yield Row(name=f"{block.title}, clock", value=found["mhz"], unit="MHz", goal=block.mhz,
              better="higher")
    if block.lut4 is not None:
        yield Row(name=f"{block.title}, LUT4", value=found["lut4"], unit="LUT4", goal=block.lut4,
                  better="lower")


def table(blocks):
    """All figures of blocks, as text."""
    form = "{:<34} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7}  {}"
    lines = [form.format("ECP5-85, speed 6", "LUT4", "FF", "LUTRAM", "BRAM", "MULT", "MHz",
                         "MHz by seed")]
    for found in blocks.values():
        lines.append(form.format(
            found["title"], found["lut4"], found["ff"], found["lut_ram"], found["block_ram"],
            found["multipliers"], f"{found['mhz']:.1f}",
            " ".join(f"{value:.0f}" for value in found["mhz_by_seed"])))
    for target, (command, kinds) in TARGETS.items():
        chosen = [found for found in blocks.values() if target in found.get("synthesis_only", ())]
        if not chosen:
            continue
        lines += ["", f"{target}: {command.partition(' ')[0]}, synthesis only: nothing was placed, "
                      "so no clock is known"]
        head = "{:<34}" + " {:>10}" * len(kinds)
        lines.append(head.format("", *kinds))
        lines += [head.format(found["title"], *found["synthesis_only"][target].values())
                  for found in chosen]
    return "\n".join(lines)


def read_report(path):
    """A report that `bench_fpga` made and someone stored.

    Raises
    ------
    FlowError
        If the file cannot be read, or is no such report.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        for found in content["blocks"].values():
            if not all(isinstance(found[key], int | float) for key in ("lut4", "mhz")):
                raise KeyError("lut4 and mhz")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FlowError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise FlowError(f"{path} is no report of `t3hw bench fpga`: {error} is missing") from None
    return content


def regressions(before, after):
    """What became worse by more than `TOLERANCE` between two reports, as texts.

    Blocks that only one of them has are not compared.

    Parameters
    ----------
    before, after : dict
        Reports.
    """
    found = []
    for name, new in after["blocks"].items():
        old = before["blocks"].get(name)
        if old is None:
            continue
        if new["lut4"] > old["lut4"] * (1 + TOLERANCE):
            found.append(f"{name}: {new['lut4']} LUT4, {_percent(new['lut4'] / old['lut4'] - 1)} "
                         f"more than {old['lut4']}")
        if new["mhz"] < old["mhz"] * (1 - TOLERANCE):
            found.append(f"{name}: {new['mhz']:.1f} MHz, {_percent(1 - new['mhz'] / old['mhz'])} "
                         f"less than {old['mhz']:.1f}")
    return found



def _percent(change):
    return f"{100 * change:.1f} %"
