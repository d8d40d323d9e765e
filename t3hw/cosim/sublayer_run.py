"""One sublayer in every variant, on a simulated loop-back node or a ring."""

import dataclasses

import numpy as np

from t3hw.config import NodeConfig
from t3hw.perf.sublayer_slice import FRACTION, SublayerSlice
from t3hw.reference import NUMPY_DTYPES, add
from t3hw.reference.traffic import gemm_words
from t3hw.registers import encode_entry, entry_address
from t3hw.runtime.device import Device
from t3hw.runtime.relative_plan import relative_reduce_scatter
from t3hw.runtime.traffic import TrafficEngines
from t3hw.workloads.collectives import ring_all_gather_steps, ring_reduce_scatter_steps
from t3hw.workloads.errors import InputError

from .session import CycleLimit
from .simulators import SimulatorError

__all__ = ["Phase", "SublayerRun", "check_fits", "run_sublayer", "slice_config"]

#: Parts of a cycle, and of a beat, in the GEMM engine's settings.
_PARTS = 256

#: What a traffic node has if it is not told otherwise, and what its registers take: engine's units,
#: entries of the tables of stages and steps, beats of a load and of a collective's burst, streams.
_UNITS, _STAGES, _STEPS = 128, 128, 64
_BURST, _TILE, _STREAMS = 64, 256, 16

#: Addresses that a node sends to its neighbour: behind all memory.
_REMOTE_STAGING, _REMOTE_OUTPUT = 1 << 28, 1 << 29

#: From phase to phase; more than there are devices.
_SEEDS = 1000

#: Of the kernels' three regions; those before it are the plan's.
_FIRST_REGION = 2

#: Random signs, mantissas and two bits of the exponent: finite values whose sums must be rounded.
_MASKS = {"float16": (0x8FFF8FFF, 0x30003000), "bfloat16": (0x80FF80FF, 0x3E003E00),
          "float32": (0x80FFFFFF, 0x3E000000), "int32": (0xFFFFFFFF, 0)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SublayerRun:
    """What is run, and how.

    Parameters
    ----------
    baseline, t3 : SublayerSlice
        The sublayer, with the output in the last-level cache and past it.
    granularity : int
        Tiles that one DMA command waits for and sends.
    threshold : int or None
        Of T3-MCA's occupancy, 0 for none; None: by the intensity that the hardware measures.
    dtype : str
        Element type.
    seed : int
        Of the data.
    check : bool
        Whether to compare the results with the reference, bit for bit.
    align : int
        Engines start in cycles that are multiples of this, after a refresh at rest, so that what
        runs by itself is where it was for every other kernel. 1: as soon as they are set up.
    max_cycles : int
        Limit of each phase.
    """

    baseline: SublayerSlice
    t3: SublayerSlice
    granularity: int = 1
    threshold: int | None = None
    dtype: str = "float16"
    seed: int = 1
    check: bool = False
    align: int = 1
    max_cycles: int = 50_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """What was measured of one phase, a list entry a device.

    Parameters
    ----------
    name : str
        Of the phase.
    start, end : int
        Cycles of the simulation: the engines were started, the last device was seen to be done.
    cycles : list of int
        What each device took.
    engine : list of dict
        What its engine measured.
    counters : list of dict
        The node's counters over the phase.
    policy : list of McaStatus
        At the end of the phase.
    """

    name: str
    start: int
    end: int
    cycles: list
    engine: list
    counters: list
    policy: list


def slice_config(machine, *, data_width=64, memory_bytes=1 << 21, tiles=16384, dtype="float16"):
    """The node that stands for one channel of a device, with whatever beat the simulation has.

    Parameters
    ----------
    machine : Machine
        Its queues and its memory's timing.
    data_width : int
        Bits that a beat carries: fewer than the memory's columns have make the simulation faster,
        and change no cycle.
    memory_bytes, tiles : int
        Size of the memory, and of the tables of tiles and commands.
    dtype : str
        Element type.
    """
    return NodeConfig(
        name="slice", data_width=data_width, dtypes=(dtype,), tiles=tiles,
        commands=min(tiles, 16384), regions=8, routes=2, plans=1, touch_bytes=memory_bytes // 2,
        compute_queue=machine.compute_queue, communication_queue=machine.communication_queue,
        outstanding_reads=16, outstanding_writes=16, burst_beats=16, producer_reads=512,
        memory="dram", dram=machine.memory_timing, memory_bytes=memory_bytes,
        link_credits=1024, link_max_latency=1024)


def check_fits(part, config):
    """Refuse what the node cannot run, before anything is built.

    Parameters
    ----------
    part : SublayerSlice
        The sublayer.
    config : NodeConfig
        The node, of `slice_config`.

    Raises
    ------
    InputError
        If a number is beyond the node's limits.
    """
    where = f"{part.sublayer} on machine {part.machine.name}"
    chunk_tiles = part.chunk_workgroups * part.wavefronts
    for what, value, limit in (
            ("units", part.units, _UNITS), ("stages", part.stages, _STAGES),
            ("devices", part.devices, _STEPS), ("workgroups", part.workgroups, (1 << 16) - 1),
            ("wavefronts", part.wavefronts, 1 << config.wf_width),
            ("steps of a workgroup", part.steps, (1 << 16) - 1),
            ("cycles of a step", part.step_cycles, ((1 << 24) - 1) / _PARTS),
            ("beats that a step loads", max(part.step_read_beats), ((1 << 16) - 1) / _PARTS - 1),
            ("cycles of a beat on the link", part.link_interval[0], (1 << 16) - 1),
            ("cycles of a header on the link", part.header_interval[0], (1 << 16) - 1),
            ("cycles of the link's latency", part.link_latency, config.link_max_latency),
            ("tiles of the chunks to track", (part.devices - 1) * chunk_tiles, config.tiles),
            ("simulated bytes of memory", part.memory_map(config.beat_bytes).bytes,
             config.memory_bytes)):
        if value > limit:
            raise InputError(f"{where}: {what} must be at most {limit:g}, not {value:g}")
    for what, value, limit in (
            ("beats of a load", part.read_burst_beats, _BURST),
            ("streams of loads", part.read_streams, _STREAMS),
            ("beats of a wavefront's tile", part.tile_beats, _TILE),
            ("beats of a workgroup's tile", part.workgroup_beats, _BURST)):
        if value > limit or value & value - 1:
            raise InputError(f"{where}: {what} must be a power of two of at most {limit}, "
                             f"not {value}")


def run_sublayer(session, run):
    """Run all variants, in a simulation; the last phase is T3-MCA's.

    Parameters
    ----------
    session : Session
        One device: its link comes back to itself, and it stands for the whole ring. More: a real
        ring, which must have as many devices as the sublayer's.
    run : SublayerRun
        What to do.

    Returns
    -------
    dict of str to Phase
        ``gemm``, ``reduce_scatter``, ``all_gather``, ``gemm_bypass``, ``t3``, ``t3_mca``.

    Raises
    ------
    SimulatorError
        If a node reports an error, traffic is not what it must be, or a result is wrong.
    """
    return _Runner(session, run).all_phases()


class _Runner:
    """The phases of a run, one after the other, on all devices at once."""

    def __init__(self, session, run):
        self.session = session
        self.run = run
        self.slice = run.t3
        count = self.slice.devices
        if session.devices not in (1, count):
            raise ValueError(f"a ring of {count} is 1 device that is fed back or {count}, "
                             f"not {session.devices}")
        self.nodes = [Device(transport, config=session.config) for transport in session.transports]
        self.engines = [TrafficEngines(transport) for transport in session.transports]
        self.memory = self.slice.memory_map(session.config.beat_bytes)
        self.chunk_bytes = self.slice.chunk_beats * session.config.beat_bytes
        self.seed = run.seed
        self.plan = relative_reduce_scatter(
            devices=count, chunk_tiles=self.slice.chunk_workgroups * self.slice.wavefronts,
            tile_bytes=self.slice.tile_beats * session.config.beat_bytes, dtype=run.dtype,
            config=session.config, granularity=run.granularity, base=self.memory.output.base)

    def all_phases(self):
        self._settle()
        phases = {}
        self._map_baseline()
        self._set_gemm(self.run.baseline)
        phases["gemm"] = self._engine_phase("gemm", "gemm")
        self._set_collective("reduce_scatter")
        phases["reduce_scatter"] = self._engine_phase("reduce_scatter", "collective")
        self._check_last_chunk("baseline")
        self._set_collective("all_gather")
        phases["all_gather"] = self._engine_phase("all_gather", "collective")
        self._check_all_gather()
        self._reseed()
        self._set_gemm(self.run.t3)
        phases["gemm_bypass"] = self._engine_phase("gemm_bypass", "gemm")
        self._unmap_baseline()
        for node in self.nodes:
            node.program(self.plan)
        machine = self.slice.machine
        for name, policy, options in (
                ("t3", "ROUND_ROBIN", {}),
                ("t3_mca", "MCA", {"threshold": self.run.threshold,
                                   "starvation_limit": machine.starvation_limit})):
            for node in self.nodes:
                node.set_policy(policy, **options)
            self._reseed()
            phases[name] = self._overlapped_phase(name)
            self._check_last_chunk(name)
        self._check_traffic(phases)
        return phases

    # Set up.

    def _settle(self):
        machine = self.slice.machine
        interval, header_interval = (
            whole + parts / FRACTION for whole, parts in (self.slice.link_interval,
                                                          self.slice.header_interval))
        for node, engine in zip(self.nodes, self.engines, strict=True):
            node.set_link(latency=self.slice.link_latency, interval=interval,
                          header_interval=header_interval)
            node.set_mca_table(boundaries=machine.intensity_boundaries,
                               thresholds=machine.occupancy_thresholds)
            engine.forget_arrivals()

    def _map_baseline(self):
        """Regions of the kernels: what comes is stored; two windows lead to the neighbour."""
        memory, size = self.memory, self.chunk_bytes * self.slice.devices
        space = 1 << self.session.config.addr_width
        common = {"enable": 1, "tracked": 0, "dtype": self.run.dtype.upper()}
        regions = [
            {"action": "LOCAL_STORE", "accept_store": 1, "base": memory.output.base,
             "limit": memory.staging.base + memory.staging.bytes - 1},
            {"action": "REMOTE_STORE", "base": _REMOTE_STAGING, "limit": _REMOTE_STAGING + size - 1,
             "remote_delta": (memory.staging.base - _REMOTE_STAGING) % space},
            {"action": "REMOTE_STORE", "base": _REMOTE_OUTPUT, "limit": _REMOTE_OUTPUT + size - 1,
             "remote_delta": (memory.output.base - _REMOTE_OUTPUT) % space}]
        for node in self.nodes:
            node.transport.write_words(
                (entry_address("REGION", index, word), value)
                for index, region in enumerate(regions, _FIRST_REGION)
                for word, value in enumerate(encode_entry("REGION", **common, **region)))

    def _unmap_baseline(self):
        for node in self.nodes:
            for index in range(_FIRST_REGION, _FIRST_REGION + 3):
                node.transport.write32(entry_address("REGION", index), 0)

    def _set_gemm(self, part):
        beat = self.session.config.beat_bytes
        and_mask, or_mask = _MASKS[self.run.dtype]
        memory = self.memory
        for device, engine in enumerate(self.engines):
            engine.set_gemm(
                units=part.units, workgroups=part.workgroups,
                chunk_workgroups=part.chunk_workgroups, steps=part.steps,
                step_cycles=round(part.step_cycles * _PARTS),
                burst_beats=part.read_burst_beats, streams=part.read_streams,
                stream_bytes=memory.operands.bytes // part.read_streams,
                read_base=memory.operands.base, base=memory.output.base,
                workgroup_bytes=part.workgroup_beats * beat, wavefronts=part.wavefronts,
                tile_beats=part.tile_beats, seed=self.seed + device, and_mask=and_mask,
                or_mask=or_mask, stage_reads=part.step_read_parts(_PARTS))

    def _reseed(self):
        """Other data from now on: what an earlier phase has left must not pass for a result."""
        self.seed += _SEEDS
        for device, engine in enumerate(self.engines):
            engine.write("GEMM_SEED", seed=self.seed + device)

    def _set_collective(self, name):
        common = {"devices": self.slice.devices, "chunk_beats": self.slice.chunk_beats,
                  "beat_bytes": self.session.config.beat_bytes,
                  "burst": self.slice.workgroup_beats}
        output = self.memory.output.base
        if name == "reduce_scatter":
            table = ring_reduce_scatter_steps(own=output, staging=self.memory.staging.base,
                                              remote_staging=_REMOTE_STAGING, **common)
        else:
            table = ring_all_gather_steps(output=output, remote_output=_REMOTE_OUTPUT, **common)
        for engine in self.engines:
            engine.set_collective(table, burst=self.slice.workgroup_beats, dtype=self.run.dtype)

    # Run.

    def _engine_phase(self, name, kind):
        """An engine on every device, from one and the same cycle on."""
        for engine in self.engines:
            engine.prepare(kind)
        start = self._start(kind)
        ends = self._wait_interrupts()
        return self._phase(name, kind, start, ends)

    def _overlapped_phase(self, name):
        """The GEMM on every device, until its plan is done, which needs all of its stores."""
        done = {"plan_done": 1 << self.plan.plan}
        for node in self.nodes:
            node.arm(self.plan.plan)
            node.write("IRQ_STATUS", **done)
            node.write("IRQ_ENABLE", **done)
        start = self._start("gemm")
        ends = self._wait_interrupts()
        for node in self.nodes:
            node.write("IRQ_ENABLE")
            node.write("IRQ_STATUS", **done)
        return self._phase(name, "gemm", start, ends)

    def _start(self, kind):
        for node in self.nodes:
            node.clear_counters()
        if self.run.align > 1:
            # First, a refresh closes the banks that setting up and reading back have left open.
            rest = self.session.config.dram.tREFI
            self.session.wait(rest + -(self.session.cycle + rest) % self.run.align)
        self.session.write_all(*self.engines[0].start_word(kind))
        return self.session.cycle

    def _wait_interrupts(self):
        """Cycle of each device's interrupt."""
        ends = [None] * len(self.nodes)

        def all_raised():
            for device, transport in enumerate(self.session.transports):
                if ends[device] is None and transport.interrupt:
                    ends[device] = self.session.cycle
            return None not in ends

        if not self.session.wait_until(all_raised, self.run.max_cycles):
            late = [str(device) for device, end in enumerate(ends) if end is None]
            seen = sorted({cause for node in self.nodes for cause in node.errors().causes})
            raise CycleLimit(f"device {', '.join(late)} is not done after {self.run.max_cycles} "
                             f"cycles; errors: {', '.join(seen) or 'none'}")
        return ends

    def _phase(self, name, kind, start, ends):
        # Counters first: they go on counting.
        counters = [node.counters() for node in self.nodes]
        results = []
        for engine in self.engines:
            engine.wait(kind, timeout=self.run.max_cycles)
            results.append(engine.gemm_results() if kind == "gemm" else engine.collective_results())
        for device, node in enumerate(self.nodes):
            errors = node.errors()
            if errors:
                raise SimulatorError(f"{name}, device {device}: {', '.join(errors.causes)}, first "
                                     f"{errors.first}")
        return Phase(name=name, start=start, end=max(ends), cycles=[end - start for end in ends],
                     engine=results, counters=counters,
                     policy=[node.mca_status() for node in self.nodes])

    # Check.

    def _check_traffic(self, phases):
        """Counters of the node, of the DRAM and of the engines, against each other."""
        beat = self.session.config.beat_bytes
        for name, phase in phases.items():
            for device, (engine, counters) in enumerate(
                    zip(phase.engine, phase.counters, strict=True)):
                reads = counters["producer_read_bytes"] + counters["dma_read_bytes"]
                writes = (counters["producer_write_bytes"] + counters["incoming_update_bytes"]
                          + counters["incoming_store_bytes"])
                dram_writes = counters["dram_writes"] + counters["dram_updates"]
                for what, one, other in (
                        ("reads", reads, counters["dram_reads"] * beat),
                        ("writes", writes, dram_writes * beat),
                        ("reads of the engine", counters["producer_read_bytes"],
                         engine["read_beats"] * beat),
                        ("writes of the engine", counters["producer_write_bytes"]
                         + counters["remote_write_bytes"], engine["write_beats"] * beat)):
                    if one != other:
                        raise SimulatorError(f"{name}, device {device}: {what} of {one} bytes are "
                                             f"counted as {other} elsewhere")

    def _partials(self, device, position):
        """What a device stores at a position, as elements."""
        and_mask, or_mask = _MASKS[self.run.dtype]
        address = self.memory.output.base + position * self.chunk_bytes
        words = gemm_words(address // 4, self.chunk_bytes // 4, self.seed + device, and_mask,
                           or_mask)
        return words.view(NUMPY_DTYPES[self.run.dtype])

    def _reduced(self, device):
        """The sum at the device's last position, in the order in which the ring adds."""
        count = self.slice.devices
        total = None
        for position in range(count):
            # What ends at this device's last position began upstream.
            maker = (device + count - 1 - position) % self.session.devices
            own = self._partials(maker, position)
            total = own if total is None else add(total, own, self.run.dtype)
        return total

    def _compare(self, name, device, position, expected):
        address = self.memory.output.base + position * self.chunk_bytes
        held = self.engines[device].read_memory(address, self.chunk_bytes)
        kind = np.dtype(f"u{expected.itemsize}")
        wrong = np.flatnonzero(np.frombuffer(held, kind) != expected.view(kind))
        if wrong.size:
            raise SimulatorError(f"{name}, device {device}, position {position + 1}: {wrong.size} "
                                 f"of {expected.size} elements are wrong, the first at {wrong[0]}")

    def _check_last_chunk(self, name):
        if self.run.check:
            for device in range(self.session.devices):
                self._compare(name, device, self.slice.devices - 1, self._reduced(device))

    def _check_all_gather(self):
        if not self.run.check:
            return
        for device in range(self.session.devices):
            for position in range(self.slice.devices):
                owner = (device + position + 1) % self.session.devices
                self._compare("all-gather", device, position, self._reduced(owner))
