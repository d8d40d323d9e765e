"""Runs the cases of the experiment on the loop-back node, several at a time,
and keeps what came."""

import concurrent.futures
import dataclasses
import hashlib
import json
import resource
import tempfile
import time
from pathlib import Path

from t3hw.perf.machine import Machine
from t3hw.perf.records import OVERLAPPED, CaseRecord, Samples
from t3hw.perf.sublayer_slice import SublayerSlice
from t3hw.workloads.errors import InputError
from t3hw.workloads.sublayers import Sublayer

from .bench import node_verilog
from .session import RingSimulation
from .simulators import cache_directory
from .sublayer_run import SublayerRun, check_fits, run_sublayer, slice_config
from .timeline import ACTIVITY, parse_trace

__all__ = ["Case", "CaseOutcome", "run_cases", "loop_back"]

#: Cycles of a bin of what is sampled over time.
SAMPLE_CYCLES = 2000

#: Bits of the simulated data path: a beat carries so many of the bits that a column has.
DATA_WIDTH = 64

#: Counters that a record keeps of each overlapped variant.
_COUNTERS = ("compute_issues", "communication_issues", "communication_holds", "forced_accesses",
             "dram_activates", "dram_precharges", "dram_refreshes", "dram_reads", "dram_writes",
             "dram_updates", "tracker_high_water", "overflow_high_water", "trigger_latency_min",
             "trigger_latency_max", "link_stall", "dma_stall")
_OCCUPANCY = ("0", "1_4", "5_9", "10_14", "15_19", "20_29", "30_39", "40")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A sublayer on a machine, with what the hardware is set to.

    Parameters
    ----------
    sublayer : Sublayer
        What runs.
    machine : Machine
        What it runs on.
    granularity : int
        Tiles that one DMA command waits for and sends.
    threshold : int or None
        Of T3-MCA, 0 for none; None: by the intensity that the hardware measures.
    check : bool
        Whether to compare the results with the reference, bit for bit.

    Raises
    ------
    InputError
        For what cannot be, or the node cannot run.
    """

    sublayer: Sublayer
    machine: Machine
    granularity: int = 1
    threshold: int | None = None
    check: bool = False

    def __post_init__(self):
        if type(self.granularity) is not int or self.granularity < 1:
            raise InputError(f"granularity must be at least 1 tile, not {self.granularity!r}")
        depth = self.machine.memory_timing.window
        for value in (self.threshold, *self.machine.occupancy_thresholds):
            if value is not None and not 0 <= value <= depth:
                raise InputError(f"threshold must be from 0 (none) to {depth}, the depth of the "
                                 f"memory's queue, not {value}")
        run = self.run
        for part in (run.baseline, run.t3):
            check_fits(part, slice_config(self.machine, data_width=DATA_WIDTH))

    @property
    def run(self):
        """What the simulation is told."""
        baseline, t3 = (SublayerSlice(sublayer=self.sublayer, machine=self.machine, mode=mode)
                        for mode in ("baseline", "t3"))
        return SublayerRun(baseline=baseline, t3=t3, granularity=self.granularity,
                           threshold=self.threshold, check=self.check)

    @property
    def key(self):
        """What decides the outcome besides hardware and software, as plain data.

        Sublayers of one shape have the same.
        """
        machine = dataclasses.asdict(self.machine) | {"name": "", "assumed": {}}
        return [self.sublayer.shape, machine, self.granularity, self.threshold, self.check]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """A case's record, and what the simulation took.

    Parameters
    ----------
    record : CaseRecord
        What was measured.
    simulated_cycles : int
        In all variants together, programming included.
    seconds : float
        Of real time, without the building of the simulation.
    peak_bytes : int
        Memory of the largest process so far, compilers included.
    """

    record: CaseRecord
    simulated_cycles: int
    seconds: float
    peak_bytes: int

    def named(self, sublayer):
        """The same for another sublayer of the same shape."""
        record = dataclasses.replace(self.record, model=sublayer.model.name, sublayer=sublayer.name,
                                     group=sublayer.model.group)
        return dataclasses.replace(self, record=record)

    def as_dict(self):
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, given):
        """From what `as_dict` gives."""
        return cls(**given | {"record": CaseRecord.from_dict(given["record"])})


def loop_back(machine):
    """The loop-back node of a machine, built."""
    config = slice_config(machine, data_width=DATA_WIDTH)
    return RingSimulation(config, 1, node=node_verilog(config, traffic=True))


def _fingerprint(machine):
    """Of the hardware, and of the software that drives it."""
    config = slice_config(machine, data_width=DATA_WIDTH)
    text, _ = node_verilog(config, traffic=True)
    package = Path(__file__).parents[1]
    # What only shows results decides none.
    shows = {package / "perf" / name for name in ("figures.py", "report.py")}
    sources = {*package.rglob("*.py"), *package.rglob("*.sv")} - shows
    digest = hashlib.sha256(text.encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def run_cases(cases, *, jobs=2, fresh=False, on_done=None):
    """Run cases, or take over what an earlier call, also one that was broken off, has measured.

    Parameters
    ----------
    cases : list of Case
        What to run; those of one shape run once.
    jobs : int
        Simulations at a time.
    fresh : bool
        Whether to run again what has been measured.
    on_done : callable
        Called with a case, its `CaseOutcome` and whether it has just been run, as each is ready.

    Returns
    -------
    list of CaseOutcome
        In the order of the cases.
    """
    simulations, fingerprints, unique = {}, {}, {}
    for case in cases:
        machine = case.machine
        config_hash = slice_config(machine, data_width=DATA_WIDTH).hash
        if config_hash not in simulations:
            simulations[config_hash] = loop_back(machine)
            fingerprints[config_hash] = _fingerprint(machine)
        name = hashlib.sha256(json.dumps(
            [fingerprints[config_hash], case.key], sort_keys=True).encode()).hexdigest()[:24]
        unique.setdefault(name, (case, simulations[config_hash], []))[2].append(case)
    store = cache_directory() / "cases"
    store.mkdir(parents=True, exist_ok=True)
    found = {}

    def one(name):
        case, simulation, alike = unique[name]
        path = store / f"{name}.json"
        known = path.exists() and not fresh
        if known:
            outcome = CaseOutcome.from_dict(json.loads(path.read_text()))
        else:
            outcome = run_case(case, simulation)
            partial = path.with_suffix(".part")
            partial.write_text(json.dumps(outcome.as_dict()))
            partial.replace(path)
        for same in alike:
            found[id(same)] = outcome.named(same.sublayer)
            if on_done is not None:
                on_done(same, found[id(same)], not known)

    # Simulators are processes of their own, so threads suffice. The first failure ends the rest.
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        for future in concurrent.futures.as_completed([pool.submit(one, name) for name in unique]):
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)
    return [found[id(case)] for case in cases]


def run_case(case, simulation):
    """Run one case, in every variant, on a loop-back node that is built."""
    with tempfile.TemporaryDirectory(prefix="t3hw-") as directory:
        started = time.monotonic()
        phases = simulation.run(run_sublayer, case.run, cycles=1 << 40, directory=directory,
                                trace_bin=SAMPLE_CYCLES)
        seconds = time.monotonic() - started
        samples = {variant: _samples(Path(directory) / "trace0.txt", phases[variant])
                   for variant in OVERLAPPED}
    return CaseOutcome(
        record=_record(case, phases, samples, simulation.config.beat_bytes), seconds=seconds,
        simulated_cycles=phases["t3_mca"].end,
        # Linux counts in KiB.
        peak_bytes=1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def _record(case, phases, samples, beat_bytes):
    counters = {name: phase.counters[0] for name, phase in phases.items()}
    engines = {name: phase.engine[0] for name, phase in phases.items()}

    def beats(phase, *names):
        return sum(counters[phase][f"{name}_bytes"] for name in names) // beat_bytes

    gather = {"ag_reads": beats("all_gather", "producer_read"),
              "ag_writes": beats("all_gather", "incoming_store")}
    traffic = {"sequential": gather | {
        "gemm_reads": engines["gemm"]["read_beats"],
        "gemm_writes": beats("gemm", "producer_write"),
        "rs_reads": beats("reduce_scatter", "producer_read"),
        "rs_writes": beats("reduce_scatter", "producer_write", "incoming_store")}}
    for variant in OVERLAPPED:
        traffic[variant] = gather | {
            "gemm_reads": engines[variant]["read_beats"],
            "gemm_writes": beats(variant, "producer_write"),
            "rs_reads": beats(variant, "dma_read"),
            "rs_writes": beats(variant, "incoming_update")}
    unit_cycles = case.machine.units * engines["gemm_bypass"]["cycles"]
    kept = {variant: {name: counters[variant][name] for name in _COUNTERS} | {
        "occupancy": [counters[variant][f"occupancy_{bucket}"] for bucket in _OCCUPANCY],
        "intensity": phases[variant].policy[0].intensity,
        "threshold": phases[variant].policy[0].threshold,
        "gemm_read_wait": engines[variant]["read_wait"] / unit_cycles,
        "gemm_read_wait_alone": engines["gemm_bypass"]["read_wait"] / unit_cycles,
        "gemm_store_stall": engines[variant]["store_stall"],
        "gemm_store_stall_alone": engines["gemm_bypass"]["store_stall"],
    } for variant in OVERLAPPED}
    return CaseRecord(
        model=case.sublayer.model.name, sublayer=case.sublayer.name,
        group=case.sublayer.model.group, tp=case.sublayer.tp,
        output_beats=case.run.t3.output_beats,
        # Kernels by their own count; what overlaps ends with the plan, when software sees it.
        cycles={name: phase.cycles[0] if name in OVERLAPPED else engines[name]["cycles"]
                for name, phase in phases.items()},
        gemm_cycles={variant: engines[variant]["cycles"] for variant in OVERLAPPED},
        beats=traffic, counters=kept, samples=samples)


def _samples(trace, phase):
    """A phase over time, from its trace."""
    bin_, lines = parse_trace(trace)
    first = phase.start // bin_
    count = phase.end // bin_ - first + 1
    columns = {name: [0] * count for name in ("local", "incoming", "memory", "dma", "occupancy")}
    for letter, (cycle, *values) in lines:
        place = cycle // bin_ - first
        if not 0 <= place < count:
            continue
        if letter == "A":
            for name, value in zip(ACTIVITY, values, strict=True):
                if name in columns:
                    columns[name][place] = value
        elif letter == "O":
            columns["occupancy"][place] = values[0] / bin_
    # The trace counts a DMA beat when it is sent, some time after it was read.
    reads = [max(memory - local - incoming - dma, 0) for memory, local, incoming, dma in zip(
        columns["memory"], columns["local"], columns["incoming"], columns["dma"], strict=True)]
    return Samples(bin_cycles=bin_, gemm_reads=reads, gemm_writes=columns["local"],
                   incoming_updates=columns["incoming"], dma_reads=columns["dma"],
                   occupancy=columns["occupancy"],
                   gemm_end=phase.start % bin_ + phase.engine[0]["cycles"])
