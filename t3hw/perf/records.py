"""What was measured of a sublayer, as plain data: one record a case, read and written as JSON.

A file is ``{"schema": 1, "cases": [...]}``; a case is what `CaseRecord.as_dict` gives. Cycles are
those of the memory controller, beats those of one channel.
"""

import dataclasses
import json
import math
from pathlib import Path

from t3hw.workloads.errors import InputError

__all__ = ["BEATS", "CYCLES", "OCCUPANCY_BUCKETS", "OVERLAPPED", "SERIES", "VARIANTS", "CaseRecord",
           "Samples", "SweepPoint", "load_records", "save_records"]

SCHEMA = 1
#: Variants that move bytes: GEMM, then reduce-scatter, then all-gather as kernels; T3 with
#: round-robin arbitration; T3-MCA.
VARIANTS = ("sequential", "t3", "t3_mca")
OVERLAPPED = VARIANTS[1:]
#: ``gemm``, ``reduce_scatter`` and ``all_gather`` as kernels, each alone; ``gemm_bypass``, if
#: known, the GEMM alone whose output bypasses the cache; the others are GEMM and reduce-scatter
#: overlapped, from the GEMM's start until both are done, without the all-gather.
CYCLES = ("gemm", "reduce_scatter", "all_gather", *OVERLAPPED)
#: Beats by class. ``rs_writes`` are, overlapped, the neighbour's updates.
BEATS = ("gemm_reads", "gemm_writes", "rs_reads", "rs_writes", "ag_reads", "ag_writes")
#: Of the occupancy of the DRAM's queue.
OCCUPANCY_BUCKETS = ("0", "1–4", "5–9", "10–14", "15–19", "20–29", "30–39", "≥ 40")
#: Of `Samples`.
SERIES = ("gemm_reads", "gemm_writes", "incoming_updates", "dma_reads")


def _number(name, value):
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        raise InputError(f"{name} must be a number of at least 0, not {value!r}")


def _numbers(name, given, needed, optional=()):
    if not isinstance(given, dict):
        raise InputError(f"{name} must be a table, not {given!r}")
    for key in needed:
        if key not in given:
            raise InputError(f"{name}: {key} is missing")
    for key, value in given.items():
        if key not in needed and key not in optional:
            raise InputError(f"{name}: no {key!r}; there are {', '.join((*needed, *optional))}")
        _number(f"{name}: {key}", value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """A run over time: beats in bins of equal length.

    Parameters
    ----------
    bin_cycles : int
        Cycles of a bin.
    gemm_reads, gemm_writes, incoming_updates, dma_reads : tuple of number
        Beats on the memory bus in each bin.
    occupancy : tuple of number or None
        Mean occupancy of the DRAM's queue in each bin, if known.
    gemm_end : int or None
        Cycle in which the GEMM's last store was done.
    """

    bin_cycles: int
    gemm_reads: tuple
    gemm_writes: tuple
    incoming_updates: tuple
    dma_reads: tuple
    occupancy: tuple | None = None
    gemm_end: int | None = None

    def __post_init__(self):
        if type(self.bin_cycles) is not int or self.bin_cycles < 1:
            raise InputError(f"samples: bin_cycles must be an integer of at least 1, "
                             f"not {self.bin_cycles!r}")
        length = None
        for name in (*SERIES, "occupancy"):
            values = getattr(self, name)
            if values is None and name == "occupancy":
                continue
            if not isinstance(values, (list, tuple)) or not values:
                raise InputError(f"samples: {name} must be one or more numbers, not {values!r}")
            for value in values:
                _number(f"samples: {name}", value)
            length = len(values) if length is None else length
            if len(values) != length:
                raise InputError(f"samples: {name} must have as many bins as {SERIES[0]}, "
                                 f"{length}, not {len(values)}")
            object.__setattr__(self, name, tuple(values))
        if self.gemm_end is not None:
            _number("samples: gemm_end", self.gemm_end)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseRecord:
    """What was measured of one sublayer.

    Parameters
    ----------
    model, sublayer, group : str
        Names; the group is that of the model.
    tp : int
        TP degree.
    output_beats : int
        Beats of the output in one channel.
    cycles : dict of str to number
        For each of `CYCLES`, and perhaps ``gemm_bypass``.
    gemm_cycles : dict of str to number
        What the GEMM took, for each of `OVERLAPPED`.
    beats : dict of str to dict
        For each of `VARIANTS`, beats by class, for each of `BEATS`.
    counters : dict of str to dict
        For some of `VARIANTS`, counters by name. ``occupancy`` has cycles for each of
        `OCCUPANCY_BUCKETS`.
    samples : dict of str to Samples
        For some of `VARIANTS`, the run over time.

    Raises
    ------
    InputError
        For what is missing, unknown, or cannot be.
    """

    model: str
    sublayer: str
    group: str
    tp: int
    output_beats: int
    cycles: dict
    gemm_cycles: dict
    beats: dict
    counters: dict = dataclasses.field(default_factory=dict)
    samples: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for name in ("model", "sublayer", "group"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise InputError(f"case: {name} must be text, not {value!r}")
        for name, least in (("tp", 2), ("output_beats", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise InputError(f"{self.model} {self.sublayer}: {name} must be an integer of at "
                                 f"least {least}, not {value!r}")
        _numbers(f"{self}: cycles", self.cycles, CYCLES, ("gemm_bypass",))
        for name, value in self.cycles.items():
            if not value:
                raise InputError(f"{self}: cycles: {name} must be more than 0, not {value!r}")
        _numbers(f"{self}: gemm_cycles", self.gemm_cycles, OVERLAPPED)
        if not isinstance(self.beats, dict) or set(self.beats) != set(VARIANTS):
            given = list(self.beats) if isinstance(self.beats, dict) else self.beats
            raise InputError(f"{self}: beats must have {', '.join(VARIANTS)}, not {given!r}")
        for variant in VARIANTS:
            _numbers(f"{self}: beats: {variant}", self.beats[variant], BEATS)
        self._check_counters()
        for variant, samples in self._by_variant("samples"):
            if not isinstance(samples, Samples):
                raise InputError(f"{self}: samples: {variant} must be Samples, not {samples!r}")

    def _check_counters(self):
        for variant, counters in self._by_variant("counters"):
            if not isinstance(counters, dict):
                raise InputError(f"{self}: counters: {variant} must be a table, not {counters!r}")
            for name, value in counters.items():
                values = value if name == "occupancy" else [value]
                if name == "occupancy" and not (isinstance(value, (list, tuple))
                                                and len(value) == len(OCCUPANCY_BUCKETS)):
                    raise InputError(f"{self}: counters: {variant}: occupancy must be "
                                     f"{len(OCCUPANCY_BUCKETS)} numbers, not {value!r}")
                for number in values:
                    _number(f"{self}: counters: {variant}: {name}", number)

    def _by_variant(self, field):
        given = getattr(self, field)
        if not isinstance(given, dict):
            raise InputError(f"{self}: {field} must be a table, not {given!r}")
        for variant in given:
            if variant not in VARIANTS:
                raise InputError(f"{self}: {field}: no variant {variant!r}; variants are "
                                 f"{', '.join(VARIANTS)}")
        return given.items()

    def __str__(self):
        return f"{self.model} {self.sublayer} TP {self.tp}"

    def as_dict(self):
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, given):
        """From plain data, checked.

        Raises
        ------
        InputError
            If it is not what `as_dict` gives.
        """
        if not isinstance(given, dict):
            raise InputError(f"a case must be a table, not {given!r}")
        values = _fields_of(cls, given, "case")
        samples = values.get("samples", {})
        if isinstance(samples, dict):
            values["samples"] = {
                variant: Samples(**_fields_of(Samples, entry, f"samples: {variant}"))
                for variant, entry in samples.items()}
        return cls(**values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """Speed-ups of some sublayers at one value of what is swept.

    Parameters
    ----------
    value : number or None
        What is swept; None stands for no limit.
    t3_speedup, t3_mca_speedup, ideal_speedup : float
        Of the sublayer, geometric mean of those that ran.
    t3_gemm_factor, t3_mca_gemm_factor : float
        By which communication makes the GEMM longer, likewise.
    """

    value: float | None
    t3_speedup: float
    t3_mca_speedup: float
    ideal_speedup: float
    t3_gemm_factor: float = 1.0
    t3_mca_gemm_factor: float = 1.0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None or field.name != "value":
                _number(f"sweep: {field.name}", value)


def _fields_of(kind, given, where):
    """A copy of a table that has just the fields of a dataclass."""
    if not isinstance(given, dict):
        raise InputError(f"{where} must be a table, not {given!r}")
    known = {field.name: field for field in dataclasses.fields(kind)}
    for name in given:
        if name not in known:
            raise InputError(f"{where}: no field {name!r}; fields are {', '.join(known)}")
    for name, field in known.items():
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and name not in given:
            raise InputError(f"{where}: {name} is missing")
    return dict(given)


def load_records(path):
    """Records of a file, or of all ``.json`` files of a folder, in the order of their names.

    Raises
    ------
    InputError
        If a file cannot be read, or is no file of records.
    """
    path = Path(path)
    records = []
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise InputError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
        if not isinstance(content, dict) or content.get("schema") != SCHEMA \
                or not isinstance(content.get("cases"), list):
            raise InputError(f"{file} is no file of records of schema {SCHEMA}")
        try:
            records += [CaseRecord.from_dict(case) for case in content["cases"]]
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
    return records


def save_records(path, records):
    """Write records to a file, so that a reader never sees half of it."""
    path = Path(path)
    partial = path.with_name(path.name + ".part")
    content = {"schema": SCHEMA, "cases": [record.as_dict() for record in records]}
    try:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
