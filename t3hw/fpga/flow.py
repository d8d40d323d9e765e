"""Steps from a board design to a bitstream, with the open tools."""

import dataclasses
import json
import warnings
from pathlib import Path

from amaranth.hdl import UnusedElaboratable

from ..config import ConfigError
from ..generate import zeros_left_out
from ..shared_nodes import NODE
from .devices import ECP5_LARGE, ecp5_options, gowin_family, ice40_options
from .tools import run_tool
from .top import BoardTop, open_platform

__all__ = ["FLOWS", "TOP", "Flow", "prepare", "write_sources"]

#: Name of the top module, and of all files of the tools.
TOP = "top"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flow:
    """How the tools are called for a family.

    Parameters
    ----------
    synthesis : str
        Yosys's command.
    constraints : str
        Ending of the file with pins and clocks.
    place : str
        Name of place and route in `t3hw.fpga.tools`.
    options : callable
        Its arguments, from the design.
    pack : str
        Name of the packer.
    packing : callable
        Its arguments, from the design.
    ending : str
        Of the bitstream.
    small : str
        Yosys's selection of the memories that are marked small (`t3hw.hdl.seams.small_memory`) and
        shall be block RAM; empty: none.
    has_large_ram : bool
        Whether chips have large RAM of one port, for the memory of a node that adds nothing.
    """

    synthesis: str
    constraints: str
    place: str
    options: object
    pack: str
    packing: object
    ending: str
    small: str = ""
    has_large_ram: bool = False

    def synthesize(self, folder, node=None):
        """Synthesize; returns Yosys's netlist, and the bits of flip-flops that the design declares.

        With ``node``, its configuration, memories may go where its memory is best.
        """
        placed = [f'setattr -set ram_style "block" {self.small}'] if self.small else []
        if self.has_large_ram and node is not None and not node.collective:
            placed.append('setattr -set ram_style "huge" t:$mem_v2 '
                          f"r:SIZE={node.memory_bytes // node.beat_bytes} %i")
        shared = (Path(folder) / f"{NODE}.v").exists()
        run_tool("yosys", ["-q", "-p", "; ".join((
            f"read_rtlil {TOP}.il",
            *([f"read_verilog -DSYNTHESIS {NODE}.v", f"setattr -mod -set keep_hierarchy 1 {NODE}"]
              if shared else []),
            # In two parts: between them, flip-flops are the design's own and memories are memories.
            f"{self.synthesis} -top {TOP} -run begin:map_ram",
            f"tee -q -o declared.json stat -top {TOP} -width -json",
            *placed,
            f"{self.synthesis} -top {TOP} -run map_ram:",
            # Now the nodes' cells, mapped once, to each place, but those that lead nowhere there.
            *([f"setattr -mod -unset keep_hierarchy {NODE}", "flatten", "opt_clean"]
              if shared else []),
            f"write_json {TOP}.json",
        ))], cwd=folder, log="yosys.log")
        declared = json.loads((Path(folder) / "declared.json").read_text())
        return (json.loads((Path(folder) / f"{TOP}.json").read_text()),
                _flip_flops(declared["design"]["num_cells_by_type"]))

    def place_and_route(self, design, folder, seed):
        """Place and route; returns nextpnr's report."""
        run_tool(self.place, [
            *self.options(design), "--json", f"{TOP}.json", "--seed", seed,
            "--freq", f"{design.clock_hz / 1e6:g}",
            # What misses its clock is told by the report, not by an end without one.
            "--timing-allow-fail", "--report", "nextpnr.json", "--detailed-timing-report",
        ], cwd=folder, log="nextpnr.log")
        return json.loads((Path(folder) / "nextpnr.json").read_text())

    def pack_bitstream(self, design, folder):
        """Make the bitstream; returns its path."""
        run_tool(self.pack, self.packing(design), cwd=folder, log="pack.log")
        return Path(folder) / f"{TOP}{self.ending}"


def _flip_flops(cells):
    """Bits of flip-flops among cells of types such as ``$sdffe_8``."""
    total = 0
    for kind, number in cells.items():
        name, _, width = kind.rpartition("_")
        if name.startswith(("$dff", "$sdff", "$adff", "$aldff", "$dffsr")) and width.isdigit():
            total += int(width) * number
    return total


def _ecp5_packing(design):
    # The boot loader of boards that are programmed over their own USB port reads the flash slowly.
    slow = ["--freq", "38.8"] if design.loader == "dfu" else []
    return ["--compress", *slow, "--input", f"{TOP}.config", "--bit", f"{TOP}.bit"]


#: The flows by family.
FLOWS = {
    "ecp5": Flow(
        synthesis="synth_ecp5", constraints=".lpf", place="nextpnr-ecp5",
        options=lambda design: [*ecp5_options(design.part), "--lpf", f"{TOP}.lpf",
                                "--textcfg", f"{TOP}.config", *ECP5_LARGE],
        pack="ecppack", packing=_ecp5_packing, ending=".bit"),
    "ice40": Flow(
        # Few enables: the eight cells of a tile share theirs, and a gate before a flip-flop costs
        # nothing.
        synthesis="synth_ice40 -dsp -spram -dffe_min_ce_use 8", has_large_ram=True,
        # These chips have no LUT RAM.
        small="a:small_memory", constraints=".pcf", place="nextpnr-ice40",
        options=lambda design: [*ice40_options(design.part), "--pcf", f"{TOP}.pcf",
                                "--asc", f"{TOP}.asc"],
        pack="icepack", packing=lambda _design: [f"{TOP}.asc", f"{TOP}.bin"], ending=".bin"),
    "gowin": Flow(
        # Amaranth places the pads; Yosys would put some at the ports of shared nodes, too.
        synthesis="synth_gowin -noiopads", constraints=".cst",
        # A LUT RAM takes the flip-flops of its tile, and holds 4 bits a word.
        small="a:small_memory r:WIDTH>=16 %i", place="nextpnr-himbaechel",
        options=lambda design: ["--device", design.part,
                                "--vopt", f"family={gowin_family(design.part)}",
                                "--vopt", f"cst={TOP}.cst", "--write", f"{TOP}.pnr.json"],
        pack="gowin_pack",
        # Pins of the configuration port that the boards use after configuration.
        packing=lambda design: ["-d", gowin_family(design.part), "-o", f"{TOP}.fs",
                                "--sspi_as_gpio", "--mspi_as_gpio", f"{TOP}.pnr.json"],
        ending=".fs"),
}


def prepare(design, *, share=False):
    """Files for the tools by name: of amaranth-boards' plan,
    and with ``share`` perhaps the nodes'."""
    # Chips start with zeros in memories that nothing is said about.
    with warnings.catch_warnings(), zeros_left_out():
        warnings.simplefilter("ignore", UnusedElaboratable)
        board = BoardTop(design, share=share)
        files = dict(open_platform(design).prepare(board, TOP, emit_src=False).files)
    if board.shared:
        files[f"{NODE}.v"] = board.shared
    return files


def write_sources(design, folder):
    """Write the design and its constraints for the tools.

    Parameters
    ----------
    design : BoardDesign
        What to build.
    folder : path-like
        Where; made if it is not there.

    Returns
    -------
    Flow
        What to go on with.

    Raises
    ------
    ConfigError
        If the open tools have no flow for the board's family, or the design cannot be put on the
        board.
    """
    if not design.has_bitstream:
        raise ConfigError(f"the open tools make no bitstream for {design.part}; `t3hw fpga export "
                          f"{design.name}` writes a project for the vendor's")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    flow = FLOWS[design.family]
    files = prepare(design, share=True)
    for name in (f"{TOP}.il", f"{TOP}{flow.constraints}", f"{NODE}.v"):
        (folder / name).unlink(missing_ok=True)
        if name in files:
            content = files[name]
            (folder / name).write_bytes(
                content if isinstance(content, bytes) else content.encode())
    return flow
