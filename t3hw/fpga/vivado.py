"""A board as a Vivado project: a Tcl script, constraints, Verilog, and the sidecar."""

import json
import os
from pathlib import Path

from ..config import ConfigError
from .csr_csv import csr_csv
from .flow import TOP, prepare

__all__ = ["export_vivado", "project_tcl"]


def project_tcl(design):
    """Tcl that makes the project and, unless told otherwise, the bitstream."""
    name = design.name.replace("-", "_")
    return f"""\
# {design.title}: makes a project of Vivado in the folder `project`, and its bitstream.
#   vivado -mode batch -source {name}.tcl
#   vivado -mode batch -source {name}.tcl -tclargs project    stops with the project
set here [file dirname [file normalize [info script]]]
create_project -force {name} [file join $here project] -part {design.part}
add_files -norecurse [file join $here {TOP}.v]
add_files -fileset constrs_1 -norecurse [file join $here {TOP}.xdc]
set_property top {TOP} [current_fileset]
set_property verilog_define SYNTHESIS=1 [current_fileset]
update_compile_order -fileset sources_1
if {{[lindex $argv 0] eq "project"}} {{ exit }}
launch_runs synth_1 -jobs 2
wait_on_run synth_1
if {{[get_property PROGRESS [get_runs synth_1]] ne "100%"}} {{ error "synthesis failed" }}
launch_runs impl_1 -to_step write_bitstream -jobs 2
wait_on_run impl_1
if {{[get_property PROGRESS [get_runs impl_1]] ne "100%"}} {{ error "implementation failed" }}
open_run impl_1
report_utilization -hierarchical -file [file join $here utilization.txt]
report_timing_summary -file [file join $here timing.txt]
set slack [get_property STATS.WNS [get_runs impl_1]]
if {{$slack < 0}} {{
    error "the clock of {design.clock_hz / 1e6:g} MHz is missed by [expr {{-$slack}}] ns"
}}
set made [file join $here project {name}.runs impl_1 {TOP}.bit]
file copy -force $made [file join $here {design.name}.bit]
puts "made {design.name}.bit, hash {design.hash:08x}"
"""


def export_vivado(design, folder):
    """Write a project for Vivado.

    Parameters
    ----------
    design : BoardDesign
        A board with a Xilinx chip.
    folder : path-like
        Where; made if it is not there.

    Returns
    -------
    list of Path
        The files; the Tcl script first.

    Raises
    ------
    ConfigError
        If the board's chip is another maker's.
    """
    if design.family != "xilinx":
        raise ConfigError(f"{design.name} has a chip of {design.family}: `t3hw fpga build` makes "
                          "its bitstream; only boards with one of Xilinx are exported (--ip: any)")
    # The conversion to Verilog by what pip installed, whatever else is there.
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    sources = prepare(design)
    sidecar = {"schema": 1, "design": design.as_dict(), "board_hash": f"{design.hash:08x}",
               "config_hash": f"{design.node.hash:08x}",
               "bitstream": {"file": f"{design.name}.bit"}}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        f"{design.name.replace('-', '_')}.tcl": project_tcl(design),
        f"{TOP}.v": _text(sources[f"{TOP}.v"]),
        f"{TOP}.xdc": _unindented(_text(sources[f"{TOP}.xdc"])),
        f"{design.name}.json": json.dumps(sidecar, indent=1) + "\n",
        "csr.csv": csr_csv(design),
    }
    for name, content in files.items():
        (folder / name).write_text(content)
    return [folder / name for name in files]


def _text(content):
    return content.decode() if isinstance(content, bytes) else content


def _unindented(text):
    """Lines without the indentation that templates leave."""
    return "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())
