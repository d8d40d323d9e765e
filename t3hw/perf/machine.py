"""The machine that the experiment runs on: a checked dataclass, read from a file."""

import dataclasses
import math

from t3hw.data_files import DATA, check_fields, read_toml
from t3hw.dram import DramTiming
from t3hw.workloads.errors import InputError

__all__ = ["Machine"]

#: Field: table of the file, least, most, kind.
_FIELDS = {
    "units": ("compute", 1, 4096, int),
    "clock_hz": ("compute", 1e6, 1e11, float),
    "flops_per_clock": ("compute", 1, 1 << 20, int),
    "gemm_efficiency": ("compute", 0.01, 1, float),
    "element_bytes": ("compute", 1, 8, int),
    "tile_rows": ("compute", 1, 4096, int),
    "tile_columns": ("compute", 1, 4096, int),
    "wavefronts": ("compute", 1, 16, int),
    "k_step": ("compute", 1, 4096, int),
    "band_rows": ("compute", 1, 1 << 20, int),
    "read_burst_bytes": ("compute", 1, 1 << 16, int),
    "read_streams": ("compute", 1, 4096, int),
    "cache_bytes": ("cache", 0, 1 << 40, int),
    "memory_bytes_per_second": ("memory", 1e6, 1e15, float),
    "link_bytes_per_second": ("link", 1e3, 1e15, float),
    "link_latency_seconds": ("link", 0, 1, float),
    "link_header_bytes": ("link", 0, 4096, int),
    "compute_queue": ("controller", 2, 1024, int),
    "communication_queue": ("controller", 2, 1024, int),
    "starvation_limit": ("controller", 0, (1 << 32) - 1, int),
}
_LISTS = {"occupancy_thresholds": 4, "intensity_boundaries": 3}
#: Fields whose table's name is a part of them.
_PREFIXED = ("cache", "memory", "link")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """Compute units, cache, memory, link and memory controller of one device.

    Parameters
    ----------
    name : str
        For people.
    units : int
        Compute units; each runs one workgroup at a time.
    clock_hz : float
        Of the compute units.
    flops_per_clock : int
        Of one compute unit, at its peak.
    gemm_efficiency : float
        Share of that peak that a GEMM reaches as long as its operands come in time.
    element_bytes : int
        Of operands and output.
    tile_rows, tile_columns : int
        Elements of one workgroup's output.
    wavefronts : int
        Equal parts of that tile, each written by one wavefront.
    k_step : int
        Elements of K that a workgroup loads at a time.
    band_rows : int
        Tile rows that consecutive workgroups go down before they go to the next tile column.
    read_burst_bytes : int
        Neighbouring bytes that a load takes from one channel.
    read_streams : int
        Places that a channel's loads come from at a time.
    cache_bytes : int
        Of the last-level cache.
    memory_timing : DramTiming or str
        Of a channel: timing, or the name of a preset.
    memory_bytes_per_second : float
        Of all channels. There are as many as the power of two nearest to it gives.
    link_bytes_per_second : float
        Of the link to the neighbour, in one direction.
    link_latency_seconds : float
        From one end of the link to the other.
    link_header_bytes : int
        That a packet has besides its payload.
    compute_queue, communication_queue : int
        Entries of the memory controller's queues, in each channel.
    occupancy_thresholds : tuple of int
        T3-MCA: occupancy of the DRAM queue below which communication issues, for each level of
        memory intensity, the highest first; 0 stands for any occupancy.
    intensity_boundaries : tuple of float
        Accesses a cycle that part those levels, falling.
    starvation_limit : int
        Cycles that communication waits at most; 0: for ever.
    assumed : dict of str to str
        Field: what was assumed, as there is no source for it.

    Raises
    ------
    InputError
        For every value that cannot be.
    """

    name: str
    units: int
    clock_hz: float
    flops_per_clock: int
    gemm_efficiency: float
    element_bytes: int
    tile_rows: int
    tile_columns: int
    wavefronts: int
    k_step: int
    band_rows: int
    read_burst_bytes: int
    read_streams: int
    cache_bytes: int
    memory_timing: DramTiming
    memory_bytes_per_second: float
    link_bytes_per_second: float
    link_latency_seconds: float
    link_header_bytes: int
    compute_queue: int
    communication_queue: int
    occupancy_thresholds: tuple
    intensity_boundaries: tuple
    starvation_limit: int
    assumed: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name of a machine must be text, not {self.name!r}")
        for field, (_, least, most, kind) in _FIELDS.items():
            value = getattr(self, field)
            whole = type(value) is int
            fits = whole or (kind is float and type(value) is float and math.isfinite(value))
            if not fits or not least <= value <= most:
                noun = "an integer" if kind is int else "a number"
                raise InputError(f"{self.name}: {field} must be {noun} from {least:.12g} to "
                                 f"{most:.12g}, not {value!r}")
        if isinstance(self.memory_timing, str):
            try:
                object.__setattr__(self, "memory_timing", DramTiming.preset(self.memory_timing))
            except ValueError as error:
                raise InputError(f"{self.name}: memory_timing: {error}") from None
        if not isinstance(self.memory_timing, DramTiming):
            raise InputError(f"{self.name}: memory_timing must be a DramTiming or the name of a "
                             f"preset, not {self.memory_timing!r}")
        for field, count in _LISTS.items():
            value = getattr(self, field)
            if not isinstance(value, (list, tuple)) or len(value) != count:
                raise InputError(f"{self.name}: {field} must be {count} numbers, not {value!r}")
            object.__setattr__(self, field, tuple(value))
        self._check_policy()
        if self.workgroup_bytes % self.wavefronts:
            raise InputError(f"{self.name}: wavefronts must divide the {self.workgroup_bytes} "
                             f"bytes of a workgroup's tile, not {self.wavefronts!r}")
        if not isinstance(self.assumed, dict):
            raise InputError(f"{self.name}: assumed must be a table, not {self.assumed!r}")
        fields = {field.name for field in dataclasses.fields(self)}
        for field in self.assumed:
            if field not in fields:
                raise InputError(f"{self.name}: assumed names {field!r}, which is no field")
        self._check_channels()

    def _check_policy(self):
        for value in self.occupancy_thresholds:
            if type(value) is not int or value < 0:
                raise InputError(f"{self.name}: occupancy_thresholds must be integers of at least "
                                 f"0, not {value!r}")
        boundaries = self.intensity_boundaries
        numbers = all(type(value) in (int, float) and 0 <= value <= 1 for value in boundaries)
        if not numbers or list(boundaries) != sorted(boundaries, reverse=True):
            raise InputError(f"{self.name}: intensity_boundaries must fall, from 1 to 0 accesses a "
                             f"cycle, not {list(boundaries)!r}")

    def _check_channels(self):
        channel = self.memory_timing.peak_bytes_per_second
        total = self.channels * channel
        if not 0.9 < total / self.memory_bytes_per_second < 1.1:
            raise InputError(
                f"{self.name}: memory_bytes_per_second must be within 10 % of a power of two of "
                f"channels of {channel:.4g} bytes a second, not {self.memory_bytes_per_second!r}")

    @property
    def controller_hz(self):
        """Of the memory controller, whose cycles count all else."""
        return 1e12 / float(self.memory_timing.cycle_ps)

    @property
    def column_bytes(self):
        """Bytes of a beat: of one access to one channel."""
        return self.memory_timing.column_bytes

    @property
    def channels(self):
        """The power of two whose bandwidth comes nearest to ``memory_bytes_per_second``."""
        wanted = self.memory_bytes_per_second / self.memory_timing.peak_bytes_per_second
        below = 1 << max(math.floor(math.log2(wanted)), 0) if wanted >= 1 else 1
        return min(below, 2 * below, key=lambda count: abs(count - wanted))

    @property
    def workgroup_bytes(self):
        """Of one workgroup's output tile."""
        return self.tile_rows * self.tile_columns * self.element_bytes

    @property
    def unit_flops_per_second(self):
        """What one compute unit reaches in a GEMM."""
        return self.clock_hz * self.flops_per_clock * self.gemm_efficiency

    def replace(self, **changes):
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_toml(cls, path):
        """Read a machine from a TOML file.

        Raises
        ------
        InputError
            If the file cannot be read, a field is unknown or missing, or a value cannot be.
        """
        content = read_toml(path)
        tables = {table: [] for table in ("compute", "cache", "memory", "link", "controller")}
        for field, (table, *_) in _FIELDS.items():
            tables[table].append(field.removeprefix(f"{table}_") if table in _PREFIXED else field)
        tables["memory"].append("timing")
        tables["controller"] += _LISTS
        check_fields(path, content, [*tables, "name", "assumed"], optional=("name", "assumed"))
        values = {}
        for table, fields in tables.items():
            check_fields(f"{path}: {table}", content[table], fields)
            prefix = f"{table}_" if table in _PREFIXED else ""
            values |= {prefix + field: value for field, value in content[table].items()}
        # In the table [link], and so on, a field has no prefix; among what was assumed, likewise.
        names = {field: field for field in (*_FIELDS, *_LISTS)} | {
            field: f"{table}_{field}" for table in _PREFIXED for field in tables[table]}
        assumed = content.get("assumed", {})
        if isinstance(assumed, dict):
            assumed = {names.get(field, field): text for field, text in assumed.items()}
        return cls(name=content.get("name", _stem(path)), assumed=assumed, **values)

    @classmethod
    def preset(cls, name="paper"):
        """The machine of that name in ``sim/machines``.

        Raises
        ------
        InputError
            If there is none; the message lists those that there are.
        """
        folder = DATA / "machines"
        known = sorted(file.stem for file in folder.glob("*.toml"))
        if name not in known:
            raise InputError(f"no machine {name!r}; machines are {', '.join(known)}")
        return cls.from_toml(folder / f"{name}.toml")


def _stem(path):
    return str(path).rsplit("/", 1)[-1].removesuffix(".toml")
