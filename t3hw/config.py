"""Configuration of a node: one frozen, checked dataclass, and the presets by name."""

import dataclasses
import hashlib
import json
import math
import tomllib
from pathlib import Path

from .dram import DramError, DramTiming

__all__ = ["ConfigError", "NodeConfig", "DTYPE_NAMES", "PRESETS", "checked_config"]

DTYPE_NAMES = ("int32", "float32", "bfloat16", "float16")
DTYPE_BYTES = {"int32": 4, "float32": 4, "bfloat16": 2, "float16": 2}


class ConfigError(ValueError):
    """A configuration that the generator does not accept;
    the message quotes the value and the limit."""


def _power_of_two(value):
    return value > 0 and value & (value - 1) == 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """All that decides what hardware a node is.

    Parameters
    ----------
    name : str
        For people; not part of the hash.
    data_width : int
        Bits of every data path: 32, 64, 128, 256 or 512.
    addr_width : int
        Bits of a byte address, 12 to 64.
    id_width : int
        Bits of AxID on ``s_axi``, 1 to 16.
    wg_width, wf_width : int
        Bits of a workgroup's and of a wavefront's number, 4 to 16 and 0 to 4. AxUSER is
        ``{wf, wg}``, workgroup lowest.
    dtypes : tuple of str
        What near-memory compute can add, of `DTYPE_NAMES`; nothing without ``collective``.
    tracker_sets, tracker_ways : int
        Shape of the tracker: powers of two; 1 to 1024 sets, 1 to 16 ways, or 0 ways: all tiles are
        counted in the overflow table.
    expected_width : int
        Bits of the number of bytes that a tile expects, 8 to 24.
    tiles : int
        Entries of the tile table, and of the tracker's overflow table: a power of two, 4 to 32768.
    commands : int
        Entries of the command table: a power of two, 2 to 16384.
    regions, routes, plans : int
        Entries of the region, route and plan tables: 2 to 32, 1 to 16, 1 to 8.
    touch_bytes : int
        Bytes of update regions that the first-touch map covers, all plans together: a power of two,
        64 bytes to 64 MiB; as few as that without ``collective``, which has no map.
    compute_queue, communication_queue : int
        Depth in requests of the memory controller's two queues, 1 to 1024. Where that is 1 and
        ``pipelined`` is false, the register that requests come from is the queue.
    outstanding_reads : int
        Read bursts that the DMA engine has under way at most, 1 to 64.
    outstanding_writes : int
        Write bursts that ``s_axi`` has under way at most: a power of two, 1 to 64.
    burst_beats : int
        Beats of a DMA read burst and of a link packet at most: a power of two, 2 to 256.
    producer_reads : int
        Beats of loads that ``s_axi`` has under way at most, 1 to 1024.
    memory : str
        ``"builtin"`` (block RAM behind a settable delay), ``"axi"`` (``m_axi`` with
        read-modify-write) or ``"dram"`` (block RAM with the timing of a DRAM).
    dram : DramTiming, str, dict or None
        The DRAM's timing, the name of its preset, or its fields; needed with ``"dram"``, and only
        there.
    memory_bytes : int
        Size of the built-in memory, a power of two; with ``"axi"`` the size of the window at
        address 0 that may be reached (0: all of the address space).
    memory_max_latency : int
        Longest delay, in cycles, that the built-in memory can be set to, 0 to 1024.
    memory_outstanding : int
        Beats that the ``m_axi`` back end has under way at most: a power of two, 2 to 256.
    link_credits : int
        Depth of the link receiver's buffer in words, 4 to 4096.
    link_max_latency : int
        Longest delay, in cycles, that the link can be set to, 0 to 4096.
        0 leaves the delay line out.
    address_tiles : bool
        Whether a region's tile numbers may come from the address, for producers without ids.
    pipelined : bool
        Whether look-ups of addresses are cut into short stages, for a fast clock. Without it they
        take few registers and 2 cycles, for FPGAs that are small and slow.
    monitoring : bool
        Whether the node counts what happens and measures memory intensity for T3-MCA. A node
        without is much smaller: its counters and MCA registers read as 0.
    collective : bool
        Whether the node works with others: link, near-memory compute, first-touch map. One without
        is for the smallest chips: it counts the stores to tiles, and its commands copy blocks from
        its memory to its memory. Needs ``memory`` ``"builtin"`` with ``memory_max_latency`` 0,
        ``link_max_latency`` 0, no ``dtypes``, ``touch_bytes`` 64, and no ``monitoring``.
        ``link_credits`` then means nothing.

    Raises
    ------
    ConfigError
        For every value outside its range.
    """

    name: str = "custom"
    data_width: int = 64
    addr_width: int = 32
    id_width: int = 4
    wg_width: int = 16
    wf_width: int = 3
    dtypes: tuple = DTYPE_NAMES
    tracker_sets: int = 32
    tracker_ways: int = 8
    expected_width: int = 24
    tiles: int = 1024
    commands: int = 1024
    regions: int = 16
    routes: int = 8
    plans: int = 4
    touch_bytes: int = 1 << 19
    compute_queue: int = 16
    communication_queue: int = 16
    outstanding_reads: int = 16
    outstanding_writes: int = 8
    burst_beats: int = 16
    producer_reads: int = 32
    memory: str = "builtin"
    dram: DramTiming | None = None
    memory_bytes: int = 1 << 19
    memory_max_latency: int = 512
    memory_outstanding: int = 64
    link_credits: int = 256
    link_max_latency: int = 1024
    address_tiles: bool = True
    pipelined: bool = True
    monitoring: bool = True
    collective: bool = True

    def __post_init__(self):
        if not isinstance(self.name, str):
            raise ConfigError(f"name must be text, not {self.name!r}")
        for name, low, high, power in _RANGES:
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high or (
                    power and value and not _power_of_two(value)):
                kind = "a power of two" if power else "an integer"
                raise ConfigError(f"{name} must be {kind} from {low} to {high}, not {value!r}")
        if self.memory not in ("builtin", "axi", "dram"):
            raise ConfigError(f"memory must be 'builtin', 'axi' or 'dram', not {self.memory!r}")
        for name in ("address_tiles", "pipelined", "monitoring", "collective"):
            if type(getattr(self, name)) is not bool:
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}")
        self._check_dram()
        dtypes = self.dtypes
        if not (isinstance(dtypes, (list, tuple)) and (dtypes or not self.collective)
                and all(name in DTYPE_NAMES and dtypes.count(name) == 1 for name in dtypes)):
            raise ConfigError(f"dtypes must be one or more of {', '.join(DTYPE_NAMES)}, each once, "
                              f"not {list(dtypes) if isinstance(dtypes, tuple) else dtypes!r}")
        object.__setattr__(self, "dtypes", tuple(dtypes))
        if not self.collective:
            for name, value in _ALONE.items():
                if getattr(self, name) != value:
                    wanted = list(value) if isinstance(value, tuple) else value
                    raise ConfigError(f"{name} must be {wanted!r} where collective is false, "
                                      f"not {getattr(self, name)!r}")
        if self.memory != "axi" and not (
                _power_of_two(self.memory_bytes) and self.memory_bytes >= 1024):
            raise ConfigError("memory_bytes must be a power of two of at least 1024 for a memory "
                              f"of the node's own, not {self.memory_bytes!r}")
        if self.memory_bytes > 1 << self.addr_width:
            raise ConfigError("memory_bytes must be at most 2**addr_width = "
                              f"{1 << self.addr_width}, not {self.memory_bytes!r}")
        if self.burst_beats * self.beat_bytes > 4096:
            raise ConfigError(f"burst_beats must be at most {4096 // self.beat_bytes} at "
                              f"data_width {self.data_width} (a burst stays within 4 KiB), "
                              f"not {self.burst_beats!r}")

    def _check_dram(self):
        if self.memory != "dram":
            if self.dram is not None:
                raise ConfigError(f"dram must be None where memory is {self.memory!r}, "
                                  f"not {self.dram!r}")
            return
        try:
            if isinstance(self.dram, str):
                object.__setattr__(self, "dram", DramTiming.preset(self.dram))
            elif isinstance(self.dram, dict):
                object.__setattr__(self, "dram", DramTiming(**self.dram))
        except (DramError, TypeError) as error:
            raise ConfigError(f"dram: {error}") from None
        if not isinstance(self.dram, DramTiming):
            raise ConfigError("dram must be a DRAM's timing or the name of one where memory is "
                              f"'dram', not {self.dram!r}")
        if self.memory_bytes > self.dram.columns * self.beat_bytes:
            raise ConfigError(
                f"memory_bytes must be at most {self.dram.columns * self.beat_bytes}: the "
                f"{self.dram.columns} columns of dram {self.dram.name!r}, of {self.beat_bytes} "
                f"bytes each, not {self.memory_bytes!r}")

    @property
    def beat_bytes(self):
        """Bytes of one beat."""
        return self.data_width // 8

    @property
    def beat_shift(self):
        """Address bits within one beat."""
        return int(math.log2(self.beat_bytes))

    @property
    def lanes(self):
        """16-bit lanes of one beat; the first-touch map and the adders work by lane."""
        return self.data_width // 16

    @property
    def touch_beats(self):
        """Entries of the first-touch map."""
        return max(self.touch_bytes // self.beat_bytes, 2)

    @property
    def user_width(self):
        """Bits of AxUSER on ``s_axi``."""
        return self.wg_width + self.wf_width

    def as_dict(self):
        """All fields, as plain data."""
        return dataclasses.asdict(self) | {
            "dtypes": list(self.dtypes), "dram": self.dram and self.dram.as_dict()}

    @property
    def hash(self):
        """32-bit hash of all that decides the hardware; readable in the register CONFIG_HASH."""
        fields = {key: value for key, value in self.as_dict().items() if key != "name"}
        if fields["dram"] is not None:
            fields["dram"] = {key: value for key, value in fields["dram"].items() if key != "name"}
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:4], "big")

    def replace(self, **changes):
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_toml(cls, path):
        """Read a configuration from a TOML file: any fields, and ``preset`` to start from.

        Raises
        ------
        ConfigError
            If the file cannot be read, is no TOML, or names a field or preset that does not exist.
        """
        try:
            fields = tomllib.loads(Path(path).read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{path}: {reason}") from None
        base = cls.preset(fields.pop("preset")) if "preset" in fields else cls()
        known = {field.name for field in dataclasses.fields(cls)}
        for key in fields:
            if key not in known:
                raise ConfigError(f"{path}: no field {key!r}; fields are "
                                  f"{', '.join(sorted(known))}")
        fields.setdefault("name", Path(path).stem)
        return base.replace(**fields)

    @classmethod
    def preset(cls, name):
        """The configuration of that name in `PRESETS`."""
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(f"no preset {name!r}; presets are {', '.join(sorted(PRESETS))}")
        return PRESETS[name]


def checked_config(config):
    """``config``, if it is a `NodeConfig`; anything else is a TypeError."""
    if not isinstance(config, NodeConfig):
        raise TypeError(f"config must be a NodeConfig, not {config!r}")
    return config


#: name, least, most, power of two. Tables are no larger than their windows in the register map.
_RANGES = (
    ("data_width", 32, 512, True),
    ("addr_width", 12, 64, False),
    ("id_width", 1, 16, False),
    ("wg_width", 4, 16, False),
    ("wf_width", 0, 4, False),
    ("tracker_sets", 1, 1024, True),
    ("tracker_ways", 0, 16, True),
    ("expected_width", 8, 24, False),
    ("tiles", 4, 32768, True),
    ("commands", 2, 16384, True),
    ("regions", 2, 32, False),
    ("routes", 1, 16, False),
    ("plans", 1, 8, False),
    ("touch_bytes", 64, 1 << 26, True),
    ("compute_queue", 1, 1024, False),
    ("communication_queue", 1, 1024, False),
    ("outstanding_reads", 1, 64, False),
    ("outstanding_writes", 1, 64, True),
    ("burst_beats", 2, 256, True),
    ("producer_reads", 1, 1024, False),
    ("memory_bytes", 0, 1 << 40, False),
    ("memory_max_latency", 0, 1024, False),
    ("memory_outstanding", 2, 256, True),
    ("link_credits", 4, 4096, False),
    ("link_max_latency", 0, 4096, False),
)

#: What fields must be in a node that does not work with others.
_ALONE = {"memory": "builtin", "memory_max_latency": 0, "link_max_latency": 0, "dtypes": (),
          "touch_bytes": 64, "monitoring": False}

#: Stock configurations: ``nano`` is for the smallest FPGAs, ``tiny`` breaks first, ``small`` fits
#: an FPGA, ``wide`` is for experiments.
PRESETS = {
    config.name: config for config in (
        NodeConfig(name="nano", data_width=32, addr_width=16, id_width=1, wg_width=4, wf_width=0,
                   dtypes=("int32",), tracker_sets=1, tracker_ways=2, tiles=16, commands=8,
                   regions=2, routes=1, plans=1, touch_bytes=1 << 10, compute_queue=2,
                   communication_queue=2, outstanding_reads=1, outstanding_writes=2, burst_beats=4,
                   producer_reads=2, memory_bytes=1 << 12, memory_max_latency=0,
                   memory_outstanding=2, link_credits=8, link_max_latency=0, address_tiles=False,
                   pipelined=False, monitoring=False),
        NodeConfig(name="tiny", data_width=32, tracker_sets=1, tracker_ways=2, tiles=64,
                   commands=64, regions=8, routes=2, plans=2, touch_bytes=1 << 14,
                   compute_queue=2, communication_queue=2, outstanding_reads=1,
                   outstanding_writes=2, burst_beats=4, memory_bytes=1 << 15,
                   memory_max_latency=64, link_credits=4, link_max_latency=64),
        NodeConfig(name="small", data_width=64, tiles=1024, commands=1024,
                   touch_bytes=1 << 16, memory_bytes=1 << 16,
                   outstanding_reads=4, memory_max_latency=128, link_max_latency=256),
        NodeConfig(name="default"),
        NodeConfig(name="axi", memory="axi", memory_bytes=0),
        NodeConfig(name="wide", data_width=512, burst_beats=16, tiles=4096, commands=4096,
                   touch_bytes=1 << 22, memory_bytes=1 << 22, compute_queue=64,
                   communication_queue=64, link_credits=256),
    )
}
