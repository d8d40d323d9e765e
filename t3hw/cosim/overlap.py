"""The main experiment: one GEMM on a ring, with its reduce-scatter overlapped and after it."""

import dataclasses
import shutil
import tempfile
from pathlib import Path

import numpy as np

from ..config import DTYPE_BYTES
from ..hdl.tracker import Tracker
from ..progress import progress
from ..reference import NUMPY_DTYPES
from ..runtime.plan import ring_reduce_scatter
from ..workloads.gemm import producer_writes
from .ring_run import Settings, player_bursts, run_plan
from .script import write_script
from .session import RingSimulation
from .timeline import read_run

__all__ = ["Experiment", "Outcome", "run_experiment"]

#: Cycles of one entry of the trace logs.
TRACE_BIN = 32
#: Cycles from what happens to the cycle in which the trace shows it.
TO_TRACE = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run, and where.

    Parameters
    ----------
    operands : Operands
        The GEMM's.
    config : NodeConfig
        The nodes.
    devices : int
        How many.
    settings : Settings
        What software sets on them.
    tile : (int, int)
        Rows and columns of a workgroup's output.
    granularity : "tile", "chunk" or int
        Tiles that a DMA command waits for.
    pace : int
        Cycles from beat to beat of a producer.
    seed : int
        Of the stalls.
    link_stall : float
        Chance that a link does not move in a cycle.
    simulator : str
        ``"verilator"`` or ``"icarus"``.
    max_cycles : int
        Limit of a simulation.
    """

    operands: object
    config: object
    devices: int
    settings: Settings
    tile: tuple = (16, 64)
    granularity: object = "tile"
    pace: int = 2
    seed: int = 1
    link_stall: float = 0.0
    simulator: str = "verilator"
    max_cycles: int = 50_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of an experiment.

    Parameters
    ----------
    result : array
        The gathered M x N result of the overlapped run.
    mismatches : int
        Elements of either run whose bits differ from the reference.
    plan : Plan
        Of the overlapped run.
    overlapped, sequential : RingResult
        The two runs.
    runs : list of Run
        What the timeline shows, overlapped first.
    trigger_latencies : list of int
        Cycles from the commit of a command's last update to its first read, of all commands.
    """

    result: object
    mismatches: int
    plan: object
    overlapped: object
    sequential: object
    runs: list
    trigger_latencies: list

    @property
    def cycles(self):
        """Cycles of the GEMM alone, and of both runs until the last device is done."""
        return {
            "producer": max(log.produced[1] for log in self.runs[1].devices if log.produced),
            "overlapped": self.runs[0].cycles,
            "sequential": self.runs[1].cycles,
        }


def run_experiment(experiment, *, wave=None):
    """Run a GEMM with its reduce-scatter overlapped, and again with the reduce-scatter after it.

    Hardware and traffic on the links are the same. In the second run the first stage's stores stay
    local and are sent by DMA, and all commands are held until the producers are ready.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    wave : path-like or None
        Where waveforms of the overlapped run go.

    Returns
    -------
    Outcome

    Raises
    ------
    PlanError
        If the plan does not fit the nodes.
    SimulatorError
        If a simulator is missing or fails.
    """
    operands, config = experiment.operands, experiment.config
    plans = [ring_reduce_scatter(
        m=operands.m, n=operands.n, dtype=operands.dtype, devices=experiment.devices, config=config,
        tile=experiment.tile, granularity=experiment.granularity, overlap=overlap)
        for overlap in (True, False)]
    with progress("computing the reference"):
        gemm = operands.gemm(experiment.devices)
        expected = gemm.reduced(plans[0])
    with progress("building the simulation (once for each configuration)"):
        simulation = RingSimulation(config, experiment.devices, simulator=experiment.simulator,
                                    waves=wave is not None)
    with tempfile.TemporaryDirectory(prefix="t3hw-") as directory:
        results = []
        for plan, overlap in zip(plans, (True, False), strict=True):
            name = "overlapped" if overlap else "sequential"
            with progress(f"simulating, {name}"):
                results.append(_run(experiment, simulation, plan, gemm, Path(directory) / name,
                                    overlap=overlap, waves=overlap and wave is not None))
        if wave is not None:
            shutil.move(Path(directory) / "overlapped" / "waves.fst", wave)
        runs = [_read_run(label, Path(directory) / label, result, plan)
                for label, result, plan in zip(("overlapped", "sequential"), results, plans,
                                               strict=True)]
    return Outcome(
        result=np.concatenate(results[0].chunks, axis=plans[0].scatter_dim),
        mismatches=sum(_differing(got, wanted, operands.dtype)
                       for result in results
                       for got, wanted in zip(result.chunks, expected, strict=True)),
        plan=plans[0], overlapped=results[0], sequential=results[1], runs=runs,
        trigger_latencies=_trigger_latencies(plans[0], runs[0], experiment.config))


def _run(experiment, simulation, plan, gemm, directory, *, overlap, waves):
    directory.mkdir()
    scripts = {}
    for device in range(experiment.devices):
        scripts[device] = (directory / f"script{device}.bin").absolute()
        stores = producer_writes(plan, device, gemm.partials[device], experiment.config)
        write_script(scripts[device], player_bursts(stores, experiment.pace),
                     beat_bytes=experiment.config.beat_bytes, seed=experiment.seed + device)
    return simulation.run(
        run_plan, plan, scripts, experiment.settings, overlap, directory=directory,
        cycles=experiment.max_cycles, seed=experiment.seed,
        link_stall=experiment.link_stall, trace_bin=TRACE_BIN, waves=waves,
        memory_latency=experiment.settings.memory_latency)


def _read_run(label, directory, result, plan):
    """A run's trace, up to the cycle in which the last device is done."""
    devices = plan.devices
    whole = read_run(label, directory, devices, start=result.start, end=result.done, plan=plan)
    last = max(cycle for log in whole.devices
               for cycle in (log.done, log.produced and log.produced[1]) if cycle is not None)
    return read_run(label, directory, devices, start=result.start, end=result.start + last + 1,
                    plan=plan)


def _differing(got, wanted, dtype):
    """Elements whose bits differ; all of them where shapes do."""
    bits = f"u{DTYPE_BYTES[dtype]}"
    got, wanted = (np.ascontiguousarray(array, NUMPY_DTYPES[dtype]).view(bits)
                   for array in (got, wanted))
    return int((got != wanted).sum()) if got.shape == wanted.shape else wanted.size


def _trigger_latencies(plan, run, config):
    """Cycles from the commit of each command's last update to its first read, from the trace."""
    # The trace has tiles, not commits. A tracker that is not pipelined is a cycle faster.
    commit_to_full = Tracker.latency - (not config.pipelined)
    latencies = []
    for device_plan, log in zip(plan.device_plans, run.devices, strict=True):
        command_of = {entry.slot: entry.command for entry in device_plan.tiles}
        complete = {}
        for cycle, slot in log.fulls:
            complete[command_of[slot]] = cycle - TO_TRACE - commit_to_full
        first = {command.first: command.index for command in device_plan.commands}
        for (_fired, _done, slot), read in zip(log.commands, log.first_reads, strict=True):
            latencies.append(read - TO_TRACE - complete[first[slot]])
    return latencies
