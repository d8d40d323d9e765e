"""One channel's slice of a sublayer: what the hardware is set to, and what is to be expected.

The memory's channels are alike, and addresses are spread over them evenly, so one channel has
1/channels of every tile, of every load, and of the link's rate. All is counted in beats (one column
of the channel) and in cycles of its memory controller.

``python -m t3hw.perf.sublayer_slice`` prints the tables of what is to be expected.
"""

import argparse
import dataclasses
import functools
import math

from t3hw.workloads.errors import InputError
from t3hw.workloads.sublayers import Sublayer, sublayers

from .cache import GemmTiling, stage_reads
from .machine import Machine

__all__ = ["FRACTION", "MODES", "MemoryMap", "Region", "SublayerSlice", "Traffic", "analytic_table",
           "geomean", "traffic_table"]

MODES = ("baseline", "t3")
#: Parts of a cycle in which intervals are set.
FRACTION = 1 << 16
_PAGE = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class Region:
    """Part of the node's memory: its first byte, and its size in bytes."""

    base: int
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryMap:
    """Where things lie in the node's memory, at the simulated size of a beat.

    Parameters
    ----------
    beat_bytes : int
        Bytes that a beat has in the simulation.
    output : Region
        Tile after tile, in the order of dispatch.
    staging : Region
        As large; where the baseline's neighbour puts what it sends.
    operands : Region
        A and B, rounded up to a power of two, and aligned to it: loads wrap around in it.
    bytes : int
        All of the memory, a power of two.
    """

    beat_bytes: int
    output: Region
    staging: Region
    operands: Region
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """Beats that cross one channel's memory bus in a sublayer, by class.

    ``rs_writes`` are, in the baseline, what the reduce-scatter stores, and with T3 the neighbour's
    updates.
    """

    gemm_reads: float
    gemm_writes: int
    rs_reads: int
    rs_writes: int
    ag_reads: int
    ag_writes: int

    @property
    def without_all_gather(self):
        """Beats of GEMM and reduce-scatter."""
        return self.gemm_reads + self.gemm_writes + self.rs_reads + self.rs_writes

    @property
    def total(self):
        """Beats of all that the sublayer does."""
        return self.without_all_gather + self.ag_reads + self.ag_writes


@dataclasses.dataclass(frozen=True, kw_only=True)
class SublayerSlice:
    """What one channel of one device does in a sublayer.

    Tiles that stick out of the output count as whole, in work and in beats. Loads do not: nothing
    is read beyond the operands.

    Parameters
    ----------
    sublayer : Sublayer
        The GEMM, and the TP degree.
    machine : Machine
        What it runs on.
    mode : str
        ``"baseline"``: output tiles go through the last-level cache; ``"t3"``: they bypass it.

    Raises
    ------
    InputError
        If a wavefront's tile is no whole number of beats in each channel, or the workgroups cannot
        be parted into equal chunks, one a device.
    """

    sublayer: Sublayer
    machine: Machine
    mode: str = "t3"

    def __post_init__(self):
        if self.mode not in MODES:
            raise InputError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        machine = self.machine
        tile_bytes = machine.workgroup_bytes // machine.wavefronts
        if tile_bytes % self._all_channels_bytes:
            raise InputError(
                f"{machine.name}: a wavefront's tile of {tile_bytes} bytes must be whole columns "
                f"of {machine.column_bytes} bytes in each of {machine.channels} channels, not "
                f"{tile_bytes / self._all_channels_bytes:g}")
        if machine.read_burst_bytes % machine.column_bytes:
            raise InputError(f"{machine.name}: read_burst_bytes must be whole columns of "
                             f"{machine.column_bytes} bytes, "
                             f"not {machine.read_burst_bytes!r}")
        if self.workgroups % self.devices:
            raise InputError(
                f"{self.sublayer}: its {self.workgroups} workgroups must be divisible by the TP "
                f"degree, so that each device gets a chunk of as many; not {self.devices}")

    @property
    def _all_channels_bytes(self):
        """Bytes of one beat in every channel."""
        return self.machine.channels * self.machine.column_bytes

    @property
    def tiling(self):
        """The GEMM cut into workgroups."""
        machine = self.machine
        return GemmTiling(
            rows=self.sublayer.rows, columns=self.sublayer.columns, k=self.sublayer.k,
            element_bytes=machine.element_bytes, tile_rows=machine.tile_rows,
            tile_columns=machine.tile_columns, k_step=machine.k_step, units=machine.units,
            band_rows=machine.band_rows)

    @property
    def devices(self):
        """Of the ring."""
        return self.sublayer.tp

    @property
    def workgroups(self):
        """Of the GEMM, those at the edges included."""
        return self.tiling.workgroups

    @property
    def chunk_workgroups(self):
        """Consecutive workgroups that write the chunk of one device."""
        return self.workgroups // self.devices

    @property
    def units(self):
        """Workgroups that run at a time."""
        return self.machine.units

    @property
    def stages(self):
        """How often the compute units are filled."""
        return self.tiling.stages

    @property
    def wavefronts(self):
        """Tiles of a workgroup."""
        return self.machine.wavefronts

    @property
    def tiles(self):
        """Wavefront tiles of the output."""
        return self.workgroups * self.wavefronts

    @property
    def tile_beats(self):
        """Beats of a wavefront's tile."""
        return self.machine.workgroup_bytes // self.wavefronts // self._all_channels_bytes

    @property
    def workgroup_beats(self):
        """Beats of a workgroup's tile."""
        return self.tile_beats * self.wavefronts

    @property
    def chunk_beats(self):
        """Beats of one device's chunk."""
        return self.chunk_workgroups * self.workgroup_beats

    @property
    def output_beats(self):
        """Beats of the output."""
        return self.workgroups * self.workgroup_beats

    @property
    def steps(self):
        """Loads of K that a workgroup makes, one after the other."""
        return self.tiling.steps

    @property
    def workgroup_cycles(self):
        """Cycles that a workgroup computes, not rounded."""
        machine = self.machine
        flops = 2 * machine.tile_rows * machine.tile_columns * self.sublayer.k
        return flops / machine.unit_flops_per_second * machine.controller_hz

    @property
    def step_cycles(self):
        """Cycles that a workgroup computes for each of its steps, all alike, not rounded."""
        return self.workgroup_cycles / self.steps

    @property
    def stage_workgroups(self):
        """Workgroups of each stage."""
        return tuple(min(self.units, self.workgroups - stage * self.units)
                     for stage in range(self.stages))

    @property
    def stage_read_beats(self):
        """Beats that each stage loads from memory, not rounded."""
        return tuple(read / self._all_channels_bytes for read in _stage_reads(
            self.tiling, self.machine.cache_bytes, self.mode == "baseline"))

    @property
    def step_read_beats(self):
        """Beats that each workgroup loads in each of its steps, for each stage, not rounded."""
        return tuple(beats / count / self.steps for beats, count in
                     zip(self.stage_read_beats, self.stage_workgroups, strict=True))

    def step_read_parts(self, parts):
        """The same in whole parts of a beat, a tuple, for a table in hardware.

        A stage's rounding is made good by the next ones, so that the sum over the GEMM is right.

        Parameters
        ----------
        parts : int
            That a beat has.
        """
        entries, owed = [], 0.0
        for beats, count in zip(self.stage_read_beats, self.stage_workgroups, strict=True):
            owed += beats
            unit = count * self.steps / parts
            entries.append(max(round(owed / unit), 0))
            owed -= entries[-1] * unit
        return tuple(entries)

    @property
    def gemm_read_beats(self):
        """Beats that the GEMM loads from memory, not rounded."""
        return sum(self.stage_read_beats)

    @property
    def first_stage_intensity(self):
        """Loads a cycle in the first stage, if memory keeps up: what T3-MCA measures."""
        return self.stage_read_beats[0] / self.workgroup_cycles

    @property
    def read_burst_beats(self):
        """Beats of a load."""
        return self.machine.read_burst_bytes // self.machine.column_bytes

    @property
    def read_streams(self):
        """Places that loads come from at a time."""
        return self.machine.read_streams

    @property
    def link_cycles_per_beat(self):
        """Cycles that the link takes for a beat, not rounded."""
        machine = self.machine
        return self._all_channels_bytes / machine.link_bytes_per_second * machine.controller_hz

    @property
    def link_interval(self):
        """The same as whole cycles and parts of `FRACTION`, rounded up: never too fast."""
        return _parts(self.link_cycles_per_beat)

    @property
    def header_interval(self):
        """Cycles of a packet's header, as whole cycles and parts of `FRACTION`, rounded up."""
        machine = self.machine
        return _parts(machine.link_header_bytes * machine.channels / machine.link_bytes_per_second
                      * machine.controller_hz)

    @property
    def link_latency(self):
        """Cycles from one end of the link to the other, rounded up."""
        machine = self.machine
        return _round_up(machine.link_latency_seconds * machine.controller_hz)

    @property
    def traffic(self):
        """Beats by class, as the formulas have them."""
        count, chunk = self.devices, self.chunk_beats
        gather = (count - 1) * chunk
        if self.mode == "baseline":
            return Traffic(gemm_reads=self.gemm_read_beats, gemm_writes=count * chunk,
                           rs_reads=(2 * count - 1) * chunk, rs_writes=count * chunk,
                           ag_reads=gather, ag_writes=gather)
        return Traffic(gemm_reads=self.gemm_read_beats, gemm_writes=(count - 1) * chunk,
                       rs_reads=(count - 2) * chunk, rs_writes=(count - 1) * chunk,
                       ag_reads=gather, ag_writes=gather)

    def _memory_cycles(self, beats):
        """What so many beats take at the memory's peak."""
        return beats * self.machine.memory_timing.column_time

    @property
    def gemm_compute_cycles(self):
        """What the GEMM takes if it never waits for memory."""
        return self.stages * self.workgroup_cycles

    @property
    def gemm_memory_cycles(self):
        """What the GEMM's beats take at the memory's peak."""
        return self._memory_cycles(self.gemm_read_beats + self.traffic.gemm_writes)

    @property
    def gemm_cycles(self):
        """The larger of the two."""
        return max(self.gemm_compute_cycles, self.gemm_memory_cycles)

    @property
    def link_cycles(self):
        """What the link takes for all but one of the chunks, and once to the neighbour."""
        return (self.devices - 1) * self.chunk_beats * self.link_cycles_per_beat + self.link_latency

    @property
    def reduce_scatter_memory_cycles(self):
        """What the reduce-scatter's beats take at the memory's peak."""
        return self._memory_cycles(self.traffic.rs_reads + self.traffic.rs_writes)

    @property
    def reduce_scatter_cycles(self):
        """The larger of link and memory."""
        return max(self.link_cycles, self.reduce_scatter_memory_cycles)

    @property
    def all_gather_cycles(self):
        """The larger of link and memory."""
        return max(self.link_cycles,
                   self._memory_cycles(self.traffic.ag_reads + self.traffic.ag_writes))

    @property
    def ideal_speedup(self):
        """Of the sublayer, with GEMM and reduce-scatter at the same time and neither slowed."""
        sequential = self.gemm_cycles + self.reduce_scatter_cycles + self.all_gather_cycles
        overlapped = max(self.gemm_cycles, self.reduce_scatter_cycles) + self.all_gather_cycles
        return sequential / overlapped

    def memory_map(self, beat_bytes):
        """Where things lie in the node's memory.

        Parameters
        ----------
        beat_bytes : int
            Bytes of a beat in the simulation, a power of two; fewer than a column has make a thin
            path, with the same beats and cycles.
        """
        if type(beat_bytes) is not int or beat_bytes < 1 or beat_bytes & (beat_bytes - 1):
            raise InputError(f"beat_bytes must be a power of two, not {beat_bytes!r}")
        sublayer = self.sublayer
        operand_bytes = (sublayer.rows + sublayer.columns) * sublayer.k * self.machine.element_bytes
        operand_beats = -(-operand_bytes // self._all_channels_bytes)
        operands = _power_of_two(max(operand_beats * beat_bytes, _PAGE))
        output = -(-self.output_beats * beat_bytes // _PAGE) * _PAGE
        base = -(-2 * output // operands) * operands
        return MemoryMap(
            beat_bytes=beat_bytes, output=Region(base=0, bytes=output),
            staging=Region(base=output, bytes=output), operands=Region(base=base, bytes=operands),
            bytes=_power_of_two(base + operands))

    def as_dict(self):
        """Its numbers as plain data."""
        names = ("devices", "workgroups", "chunk_workgroups", "units", "stages", "wavefronts",
                 "tile_beats", "steps", "step_cycles", "read_burst_beats", "read_streams",
                 "link_interval", "header_interval", "link_latency", "gemm_read_beats",
                 "first_stage_intensity")
        return {"model": self.sublayer.model.name, "sublayer": self.sublayer.name,
                "tp": self.devices, "mode": self.mode} | {
                    name: getattr(self, name) for name in names}


@functools.lru_cache(maxsize=256)
def _stage_reads(tiling, cache_bytes, output_in_cache):
    return stage_reads(tiling, cache_bytes=cache_bytes, output_in_cache=output_in_cache)


def _round_up(value):
    """Up to a whole, but not for the last bits of a float."""
    return math.ceil(value - 1e-9 * max(value, 1))


def _parts(cycles):
    """Cycles as whole ones and parts of `FRACTION`, rounded up."""
    return divmod(_round_up(cycles * FRACTION), FRACTION)


def _power_of_two(value):
    return 1 << (value - 1).bit_length()


def geomean(values):
    """Geometric mean."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def _groups(chosen):
    """Sublayers by the group of their model, in order."""
    groups = {}
    for sublayer in chosen:
        groups.setdefault(sublayer.model.group, []).append(sublayer)
    return groups


def traffic_table(machine, chosen=None):
    """GEMM reads and all data movement, baseline and T3, as lines of text."""
    lines = [f"{'':<24}{'GEMM reads / output':^27}{'data movement less by':>26}",
             f"{'sublayer':<24}{'baseline':>9}{'T3':>9}{'fewer':>9}{'GEMM + RS':>15}{'+ AG':>11}"]
    for group, members in _groups(sublayers() if chosen is None else chosen).items():
        fewer, without, everything = [], [], []
        for sublayer in members:
            before, after = (SublayerSlice(sublayer=sublayer, machine=machine, mode=mode)
                             for mode in MODES)
            fewer.append(before.gemm_read_beats / after.gemm_read_beats)
            without.append(after.traffic.without_all_gather / before.traffic.without_all_gather)
            everything.append(after.traffic.total / before.traffic.total)
            lines.append(
                f"{sublayer!s:<24}{before.gemm_read_beats / before.output_beats:>9.3f}"
                f"{after.gemm_read_beats / after.output_beats:>9.3f}{fewer[-1]:>8.2f}x"
                f"{1 - without[-1]:>15.1%}{1 - everything[-1]:>11.1%}")
        lines.append(f"{group + ', geomean':<42}{geomean(fewer):>8.2f}x"
                     f"{1 - geomean(without):>15.1%}{1 - geomean(everything):>11.1%}")
        lines.append(f"{group + ', max':<42}{max(fewer):>8.2f}x{1 - min(without):>15.1%}"
                     f"{1 - min(everything):>11.1%}")
    return "\n".join(lines)


def analytic_table(machine, chosen=None):
    """What each sublayer takes at the peaks of compute, memory and link, as lines of text."""
    lines = [f"{'':<24}{'workgroups':>11}{'stages':>7}{'K':>6}{'step':>8}{'loads a':>9}"
             f"{'GEMM, kcycles':>18}{'RS':>8}{'AG':>8}{'ideal':>8}",
             f"{'sublayer':<48}{'cycles':>8}{'cycle':>9}{'compute':>9}{'memory':>9}"]
    for group, members in _groups(sublayers() if chosen is None else chosen).items():
        ideals = []
        for sublayer in members:
            part = SublayerSlice(sublayer=sublayer, machine=machine, mode="baseline")
            ideals.append(part.ideal_speedup)
            lines.append(
                f"{sublayer!s:<24}{part.workgroups:>11}{part.stages:>7}{sublayer.k:>6}"
                f"{part.step_cycles:>8.1f}{part.first_stage_intensity:>9.3f}"
                f"{part.gemm_compute_cycles / 1e3:>9.1f}{part.gemm_memory_cycles / 1e3:>9.1f}"
                f"{part.reduce_scatter_cycles / 1e3:>8.1f}{part.all_gather_cycles / 1e3:>8.1f}"
                f"{ideals[-1]:>7.3f}x")
        lines.append(f"{group + ', geomean and max of the ideal':<92}{geomean(ideals):>7.3f}x "
                     f"{max(ideals):.3f}x")
    return "\n".join(lines)


def efficiency_table(machine, efficiencies, chosen=None):
    """How the ideal speed-up depends on the GEMM's efficiency, as lines of text."""
    groups = _groups(sublayers() if chosen is None else chosen)
    lines = [f"{'efficiency':<12}" + "".join(f"{group:>30}" for group in groups),
             f"{'':<12}" + f"{'geomean':>20}{'max':>10}" * len(groups)]
    for efficiency in efficiencies:
        tried = machine.replace(gemm_efficiency=efficiency)
        cells = []
        for members in groups.values():
            ideals = [SublayerSlice(sublayer=sublayer, machine=tried, mode="baseline").ideal_speedup
                      for sublayer in members]
            cells.append(f"{geomean(ideals):>20.3f}{max(ideals):>10.3f}")
        lines.append(f"{efficiency:<12.2f}" + "".join(cells))
    return "\n".join(lines)


def band_table(machine, bands, chosen=None):
    """How reads and data movement depend on the order of workgroups, as lines of text."""
    groups = _groups(sublayers() if chosen is None else chosen)
    lines = [f"{'tile rows':<12}" + "".join(f"{group:>36}" for group in groups),
             f"{'of a band':<12}"
             + f"{'GEMM reads':>12}{'moved, geomean':>16}{'max':>8}" * len(groups)]
    for band in bands:
        tried = machine.replace(band_rows=band)
        cells = []
        for members in groups.values():
            pairs = [[SublayerSlice(sublayer=sublayer, machine=tried, mode=mode) for mode in MODES]
                     for sublayer in members]
            fewer = geomean(before.gemm_read_beats / after.gemm_read_beats
                            for before, after in pairs)
            moved = [after.traffic.total / before.traffic.total for before, after in pairs]
            cells.append(f"{fewer:>11.2f}x{geomean(moved) - 1:>16.1%}{min(moved) - 1:>8.1%}")
        lines.append(f"{band:<12}" + "".join(cells))
    return "\n".join(lines)


def main(argv=None):
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What to expect of the experiment's sublayers.")
    parser.add_argument("--machine", default="paper", help="of sim/machines (default: paper)")
    arguments = parser.parse_args(argv)
    machine = Machine.preset(arguments.machine)
    print(traffic_table(machine), analytic_table(machine),
          band_table(machine, (1, 2, 4, 8, 16, 128)),
          efficiency_table(machine, [step / 20 for step in range(8, 21)]),
          sep="\n\n")


if __name__ == "__main__":
    main()
