"""What one block costs on an ECP5: cells, and the clock that it reaches between registers."""

import dataclasses
import json
import re
import statistics
from pathlib import Path

from amaranth import Cat, Const, Module, Signal, Value
from amaranth.back import verilog
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from .devices import ECP5_SMALL
from .tools import run_tool

__all__ = ["Cost", "measure", "place", "synthesize", "write_block"]

#: LFE5U-85F, speed grade 6.
DEVICE = ("--85k", "--package", "CABGA756", "--speed", "6")

#: More than any block reaches, so that placer and router do what they can.
TARGET_MHZ = 150


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What a block costs.

    Parameters
    ----------
    lut4, ff, block_ram, lut_ram, multipliers : int
        Cells: LUT4 as logic, carry included (two a CCU2C), and as memory (``lut_ram``, 16 x 4 bits
        each); flip-flops; DP16KD.
    fmax : list of float
        MHz, for each seed.
    path : list of dict
        The path that limits the median seed: ``delay`` in ns, ``what``, ``where`` of each step.
    """

    lut4: int
    ff: int
    block_ram: int
    lut_ram: int
    multipliers: int
    fmax: list
    path: list

    @property
    def median(self):
        """MHz, the median of the seeds."""
        return statistics.median_low(self.fmax)


class Registered(wiring.Component):
    """A block between registers: each input from one, each output to one, and nothing else.

    The inputs' registers are a chain from one pin; the outputs' registers are kept, and lead
    nowhere. So all logic that is counted is the block's own.
    """

    shift: In(1)

    def __init__(self, block):
        self._block = block
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.block = block = self._block
        inputs, outputs = [], []
        for _path, member, value in block.signature.flatten(block):
            # An always_ready stream's ready is a constant.
            if not isinstance(value, Const):
                (inputs if member.flow is In else outputs).append(Value.cast(value))
        into = Cat(*inputs)
        chain = Signal(len(into), reset_less=True)
        kept = Signal(max(sum(len(value) for value in outputs), 1), reset_less=True,
                      attrs={"keep": 1})
        m.d.sync += [chain.eq(Cat(self.shift, chain)), kept.eq(Cat(*outputs))]
        m.d.comb += into.eq(chain)
        return m


def write_block(block, folder):
    """Write a block between registers to ``top.v`` in a folder, which is made."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = verilog.convert(Registered(block), name="top", strip_internal_attrs=True)
    (folder / "top.v").write_text(text)
    return folder


def synthesize(block, folder):
    """Synthesize a block between registers for ECP5, into ``folder``; returns the cells by type."""
    folder = write_block(block, folder)
    run_tool("yosys", ["-q", "-p", "read_verilog -DSYNTHESIS top.v; "
                       "synth_ecp5 -top top -json top.json; "
                       "tee -o stat.json stat -json"], cwd=folder, log="yosys.log")
    return json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]


def place(folder, seed, *, options):
    """Place and route what `synthesize` left; returns nextpnr's report.

    Parameters
    ----------
    folder : path-like
        With ``top.json``.
    seed : int
        Of the placer.
    options : sequence of str
        Placer and router.
    """
    run_tool("nextpnr-ecp5", [*DEVICE, *options, "--json", "top.json", "--seed", seed,
                              "--freq", TARGET_MHZ, "--timing-allow-fail",
                              "--lpf-allow-unconstrained", "--report", f"report{seed}.json"],
             cwd=folder, log=f"nextpnr{seed}.log")
    return json.loads((Path(folder) / f"report{seed}.json").read_text())


def measure(block, folder, *, seeds, options=ECP5_SMALL):
    """Cost of a block.

    Parameters
    ----------
    block : wiring.Component
        What to measure.
    folder : path-like
        For the tools' files.
    seeds : sequence of int
        Of the placer.
    options : sequence of str
        Placer and router.

    Returns
    -------
    Cost
    """
    cells = synthesize(block, folder)
    reports = {seed: place(folder, seed, options=options) for seed in seeds}
    speeds = {seed: min(clock["achieved"] for clock in report["fmax"].values())
              for seed, report in reports.items()}
    middle = sorted(speeds, key=speeds.get)[(len(speeds) - 1) // 2]
    return Cost(lut4=cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0),
                ff=cells.get("TRELLIS_FF", 0), block_ram=cells.get("DP16KD", 0),
                lut_ram=cells.get("TRELLIS_DPR16X4", 0), multipliers=cells.get("MULT18X18D", 0),
                fmax=[round(speed, 1) for speed in speeds.values()],
                path=_critical_path(reports[middle]))


def _critical_path(report):
    """The slowest path that begins and ends at the clock."""
    paths = [path for path in report["critical_paths"]
             if "posedge" in path["from"] and "posedge" in path["to"]]
    steps = max(paths, key=lambda path: sum(step["delay"] for step in path["path"]))["path"]
    return [{"delay": step["delay"], "what": step["type"],
             "where": re.sub(r"^top\.", "", step.get("net") or step["to"]["cell"])}
            for step in steps]
