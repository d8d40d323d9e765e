"""Board designs: everything that decides what a board's bitstream is,
read from fpga/boards/*.toml."""

import dataclasses
import hashlib
import json
import tomllib
from pathlib import Path

from ..config import ConfigError, NodeConfig
from ..hdl.sdram_chip import CHIPS, SdramError
from ..registers.board import MAX_DEVICES, MEMORY_WINDOW

__all__ = ["BOARD_FOLDER", "FAMILIES", "BoardDesign", "board_names"]

#: Where the stock board designs lie, a file each.
BOARD_FOLDER = Path(__file__).parents[1] / "boards"

#: Families of chips, and whether the open tools make bitstreams for them.
FAMILIES = {"ecp5": True, "ice40": True, "gowin": True, "xilinx": False}

#: Cycles of a bit on the serial line below which the receiver cannot find the bit's middle.
_LEAST_BIT_CYCLES = 4

#: Fields that say how a board is reached or called, and not what is in its bitstream.
_NOT_HASHED = ("name", "title", "loader")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardDesign:
    """All that decides a board's bitstream.

    Parameters
    ----------
    name, title : str
        Short name, as the command line takes it, and what the board is called;
        not part of the hash.
    family : str
        Of `FAMILIES`.
    part : str
        The chip, as its maker orders it.
    platform : str
        ``"module:class"`` of the board's pins in amaranth-boards.
    clock_hz : int
        Clock of the design. Where it is not that of the board's oscillator, a PLL makes it.
    devices : int
        Nodes: 1, or a ring of 2 to 16.
    traffic : bool
        Nodes have a GEMM engine and a collective engine,
        so that the board runs the experiment alone.
    node : NodeConfig
        Each node.
    gemm_units, gemm_stages : int
        Compute units and entries of the stage table of the GEMM engine, with ``traffic``.
    collective_steps : int
        Entries of the collective engine's table, with ``traffic``; 0: no such engine.
    baud : int
        Bits a second of the serial line.
    memory : str
        ``"block-ram"``, or ``"sdram"``: the board's SDRAM behind the node's ``m_axi``.
    sdram : str
        With ``"sdram"``: the chip, of `t3hw.hdl.sdram_chip.CHIPS`.
        It is the memory of a single node.
    loader : str
        What openFPGALoader calls the board; ``"dfu"`` if it is programmed over its own USB port.
        Empty: not programmed from here. Not part of the hash.
    uart : dict
        Pins of the serial line, ``rx`` and ``tx``, and their attributes,
        where the platform has none.

    Raises
    ------
    ConfigError
        For every value that is not allowed, and for values that do not go together.
    """

    name: str
    title: str
    family: str
    part: str
    platform: str
    clock_hz: int
    devices: int = 1
    traffic: bool = False
    node: NodeConfig
    gemm_units: int = 16
    gemm_stages: int = 16
    collective_steps: int = 0
    baud: int = 1_000_000
    memory: str = "block-ram"
    sdram: str = ""
    loader: str = ""
    uart: dict = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self):
        for name in ("name", "title", "part", "platform", "loader"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"{name} must be text, not {getattr(self, name)!r}")
        if self.family not in FAMILIES:
            raise ConfigError(f"family must be one of {', '.join(FAMILIES)}, not {self.family!r}")
        module, colon, thing = self.platform.partition(":")
        if not (colon and thing.isidentifier() and module.replace(".", "_").isidentifier()):
            raise ConfigError("platform must be like amaranth_boards.ulx3s:ULX3S_85F_Platform, not "
                              f"{self.platform!r}")
        if not isinstance(self.node, NodeConfig):
            raise ConfigError(f"node must be a node's configuration, not {self.node!r}")
        if type(self.traffic) is not bool:
            raise ConfigError(f"traffic must be true or false, not {self.traffic!r}")
        for name, low, high in (("clock_hz", 1_000_000, 1_000_000_000),
                                ("devices", 1, MAX_DEVICES),
                                ("gemm_units", 1, 1024), ("gemm_stages", 1, 1024),
                                ("collective_steps", 0, 256), ("baud", 1200, 12_000_000)):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"{name} must be an integer from {low} to {high}, not {value!r}")
        if self.baud * _LEAST_BIT_CYCLES > self.clock_hz:
            raise ConfigError(f"baud must be at most {self.clock_hz // _LEAST_BIT_CYCLES}: a bit "
                              f"takes at least {_LEAST_BIT_CYCLES} cycles of the clock of "
                              f"{self.clock_hz} Hz, not {self.baud}")
        if not self.node.collective and (self.devices != 1 or self.traffic):
            raise ConfigError("a node with collective = false is alone on its board and has no "
                              f"traffic engines: devices must be 1, not {self.devices}, and "
                              f"traffic false, not {self.traffic}")
        self._check_memory()
        if not isinstance(self.uart, dict) or (self.uart and not {"rx", "tx"} <= set(self.uart)):
            raise ConfigError(f"uart must be a table with rx and tx, not {self.uart!r}")

    def _check_memory(self):
        if self.memory not in ("block-ram", "sdram"):
            raise ConfigError(f"memory must be 'block-ram' or 'sdram', not {self.memory!r}")
        inside = self.node.memory != "axi"
        if inside != (self.memory == "block-ram"):
            need = "'builtin' or 'dram'" if self.memory == "block-ram" else "'axi'"
            raise ConfigError(f"the node's memory must be {need} with memory = {self.memory!r}, "
                              f"not {self.node.memory!r}")
        if not 1 <= self.node.memory_bytes <= MEMORY_WINDOW:
            raise ConfigError(f"the node's memory_bytes must be from 1 to {MEMORY_WINDOW} (the "
                              f"window that a board has for it), not {self.node.memory_bytes}")
        if self.memory == "sdram":
            self._check_sdram()
        elif self.sdram != "":
            raise ConfigError(f"sdram must be left out with memory = {self.memory!r}, not "
                              f"{self.sdram!r}")

    def _check_sdram(self):
        if self.sdram not in CHIPS:
            raise ConfigError(f"sdram must be one of {', '.join(CHIPS)} with memory = 'sdram', not "
                              f"{self.sdram!r}")
        chip = CHIPS[self.sdram]
        if self.devices != 1:
            raise ConfigError("devices must be 1 with memory = 'sdram' (the chip serves one node), "
                              f"not {self.devices}")
        if self.node.data_width not in (32, 64):
            raise ConfigError("the node's data_width must be 32 or 64 with memory = 'sdram', not "
                              f"{self.node.data_width}")
        if self.node.memory_bytes > chip.bytes:
            raise ConfigError(f"the node's memory_bytes must be at most {chip.bytes}, the size of "
                              f"{chip.name}, not {self.node.memory_bytes}")
        try:
            chip.cas_latency(self.clock_hz)
        except SdramError as error:
            raise ConfigError(str(error)) from None

    @property
    def bit_cycles(self):
        """Cycles of one bit on the serial line, rounded."""
        return (self.clock_hz + self.baud // 2) // self.baud

    @property
    def has_bitstream(self):
        """Whether the open tools make a bitstream of it."""
        return FAMILIES[self.family]

    def as_dict(self):
        """All fields, as plain data; `from_dict` takes it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"node": self.node.as_dict(), "uart": dict(self.uart)}

    @classmethod
    def from_dict(cls, fields):
        """The design that `as_dict` gave."""
        if not isinstance(fields, dict):
            raise ConfigError(f"a board design must be a table, not {fields!r}")
        known = {field.name for field in dataclasses.fields(cls)}
        for name in fields:
            if name not in known:
                raise ConfigError(f"no field {name!r}; fields are {', '.join(sorted(known))}")
        optional = {field.name for field in dataclasses.fields(cls)
                    if field.default is not dataclasses.MISSING
                    or field.default_factory is not dataclasses.MISSING}
        missing = sorted(known - optional - set(fields))
        if missing:
            raise ConfigError(f"{', '.join(missing)} missing")
        node = fields["node"]
        if isinstance(node, dict):
            node = _node(node)
        return cls(**fields | {"node": node})

    @property
    def hash(self):
        """32-bit hash of all that decides the hardware; readable in the register BOARD_HASH."""
        fields = {key: value for key, value in self.as_dict().items() if key not in _NOT_HASHED}
        # The node's own hash leaves out what does not decide hardware.
        fields["node"] = self.node.hash
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:4], "big")

    def replace(self, **changes):
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_toml(cls, path):
        """Read a design from a TOML file: the fields, and a table ``node``
        that may name a ``preset``.

        Raises
        ------
        ConfigError
            If the file cannot be read or is no TOML, or a field is unknown, missing or wrong.
        """
        try:
            fields = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{path}: {reason}") from None
        fields.setdefault("name", Path(path).stem)
        try:
            return cls.from_dict(fields)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def stock(cls, name):
        """The stock design of that name.

        Raises
        ------
        ConfigError
            If there is none; the message has the names.
        """
        if name not in board_names():
            raise ConfigError(f"no board {name!r}; boards are {', '.join(board_names())}")
        return cls.from_toml(BOARD_FOLDER / f"{name}.toml")


def board_names():
    """Names of the stock designs, sorted."""
    return sorted(path.stem for path in BOARD_FOLDER.glob("*.toml"))


def _node(fields):
    """A node's configuration from a table: fields, and perhaps a preset to start from."""
    fields = dict(fields)
    base = NodeConfig.preset(fields.pop("preset")) if "preset" in fields else NodeConfig()
    known = {field.name for field in dataclasses.fields(NodeConfig)}
    for name in fields:
        if name not in known:
            raise ConfigError(f"node: no field {name!r}; fields are {', '.join(sorted(known))}")
    try:
        return base.replace(**{"name": "custom"} | fields)
    except ConfigError as error:
        raise ConfigError(f"node: {error}") from None
