"""Timing and geometry of a DRAM channel: a checked dataclass, read from a file."""

import dataclasses
import math
import re
import tomllib
from fractions import Fraction
from pathlib import Path

__all__ = ["DramError", "DramTiming", "PRESET_FOLDER"]

#: Where the presets lie, a file each.
PRESET_FOLDER = Path(__file__).parent / "sim" / "memory"

#: The parts of an address.
_PARTS = ("row", "bank", "column", "group")

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?) *(tCK|ps|ns|us|ms)")
_PICOSECONDS = {"ps": 1, "ns": 10 ** 3, "us": 10 ** 6, "ms": 10 ** 9}


class DramError(ValueError):
    """A timing that is not accepted; the message quotes the value and the limit."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DramTiming:
    """Timing and geometry of a DRAM channel, as its standard states them, and a scheduler's window.

    Times are texts: ``"14 ns"``, ``"4 tCK"`` (DRAM clocks), or ``"4 tCK, 7.5 ns"``, which is the
    longest of them. What is derived is in controller cycles, rounded up; sums are rounded once.

    Parameters
    ----------
    name : str
        For people, and for traces.
    clock : str
        The DRAM's clock period, tCK; an amount of time.
    clock_ratio : int
        DRAM clocks in a controller cycle, 1 to 16.
    column_bytes, page_bytes : int
        Bytes of a column access and of a bank's row: powers of two.
    bank_groups, banks, rows : int
        Bank groups, banks in each, rows in each bank: powers of two; 1 to 8, 1 to 32, 2 to 2**20.
    burst, read_latency, write_latency, turnaround : int
        In DRAM clocks: data of a column access, from command to data (CL and CWL), and the pause of
        the data bus between a read's and a write's data.
    t_rcd, t_rp, t_ras, t_rc : str
        ACT to column command, PRE to ACT, ACT to PRE, ACT to ACT of one bank.
    t_ccd_s, t_ccd_l : str
        Column command to column command of other groups and of the same one.
    t_rrd_s, t_rrd_l, t_faw : str
        ACT to ACT of other groups and of the same one; any five ACTs take at least ``t_faw``.
    t_wtr_s, t_wtr_l : str
        End of a write's data to a read of other groups and of the same one.
    t_wr, t_rtp : str
        End of a write's data to PRE, read command to PRE.
    t_refi, t_rfc : str
        From refresh to refresh on average, and from a refresh to the next row command.
    update_factor : int
        An op-and-store in the bank keeps its group busy for this many times ``t_ccd_l``; 1 to 16.
    mapping : str
        Where in the number of a beat row, bank, column and group are, least significant last.
    bank_hash : bool
        The bank's number (group in its low bits) is XORed with the row's low bits.
    window : int
        Accesses among which the scheduler chooses, 2 to 64.

    Raises
    ------
    DramError
        For a value outside its range, and for values that contradict each other.
    """

    name: str = "custom"
    clock: str
    clock_ratio: int
    column_bytes: int
    page_bytes: int
    bank_groups: int
    banks: int
    rows: int
    burst: int
    read_latency: int
    write_latency: int
    turnaround: int
    t_rcd: str
    t_rp: str
    t_ras: str
    t_rc: str
    t_ccd_s: str
    t_ccd_l: str
    t_rrd_s: str
    t_rrd_l: str
    t_faw: str
    t_wtr_s: str
    t_wtr_l: str
    t_wr: str
    t_rtp: str
    t_refi: str
    t_rfc: str
    update_factor: int = 2
    mapping: str = "row bank column group"
    bank_hash: bool = False
    window: int = 32

    def __post_init__(self):
        if not isinstance(self.name, str):
            raise DramError(f"name must be text, not {self.name!r}")
        for name, low, high, power in _RANGES:
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high or (
                    power and value & (value - 1)):
                kind = "a power of two" if power else "an integer"
                raise DramError(f"{name} must be {kind} from {low} to {high}, not {value!r}")
        if type(self.bank_hash) is not bool:
            raise DramError(f"bank_hash must be true or false, not {self.bank_hash!r}")
        if not (isinstance(self.mapping, str) and sorted(self.mapping.split()) == sorted(_PARTS)):
            raise DramError(f"mapping must be the words {', '.join(_PARTS)} in some order, "
                            f"not {self.mapping!r}")
        clock = _quantities("clock", self.clock)
        if clock[1] == 0 or clock[0] != 0:
            raise DramError(f"clock must be an amount of time above 0 such as '1 ns', "
                            f"not {self.clock!r}")
        for name in _TIMES:
            if self.clocks(name) <= 0:
                raise DramError(f"{name} must be more than 0, not {getattr(self, name)!r}")
        self._check_contradictions()

    def _check_contradictions(self):
        at_least = [
            ("page_bytes", ("column_bytes",)),
            ("t_ras", ("t_rcd", "t_rtp")),
            ("t_rc", ("t_ras", "t_rp")),
            ("t_ccd_s", ("burst",)),
            ("t_ccd_l", ("t_ccd_s",)),
            ("t_rrd_l", ("t_rrd_s",)),
            ("t_faw", ("t_rrd_s",)),
            ("t_wtr_l", ("t_wtr_s",)),
        ]
        if self.bank_hash:
            at_least.append(("rows", ("bank_groups", "banks")))
        for name, parts in at_least:
            limit = [self._amount(part) for part in parts]
            product = name == "rows"
            if self._amount(name) < (math.prod(limit) if product else sum(limit)):
                values = ", ".join(f"{part} = {getattr(self, part)!r}" for part in parts)
                sign = " * " if product else " + "
                raise DramError(f"{name} must be at least {sign.join(parts)} ({values}), "
                                f"not {getattr(self, name)!r}")

        # An access must go between any two refreshes. The second is due at its time however late
        # the first was, which waited for a row that had just been opened or written. One cycle is
        # the access's own, and one is for a change of direction.
        close = max(self.tRC, max(self.tRAS, self.write_to_precharge) + self.tRP)
        least = close + self.tRFC + self.tRCD + 2
        if self.tREFI < least:
            raise DramError(
                f"t_refi must be at least {least} controller cycles, {close} to close a row, "
                f"t_rfc, t_rcd and 2 (t_rfc = {self.t_rfc!r}, t_rcd = {self.t_rcd!r}), "
                f"not {self.t_refi!r}")

    def _amount(self, name):
        return self.clocks(name) if name in _TIMES else getattr(self, name)

    def clocks(self, name):
        """The time in the field ``name`` as a fraction of DRAM clocks."""
        clocks, time = _quantities(name, getattr(self, name))
        return max(clocks, time / _quantities("clock", self.clock)[1])

    def _cycles(self, *amounts):
        """Controller cycles of a sum of DRAM clocks and of times, which are named."""
        total = sum(self.clocks(amount) if isinstance(amount, str) else amount
                    for amount in amounts)
        return math.ceil(total / self.clock_ratio)

    # The names of the standards. Each is in controller cycles, from command to command, except
    # where it says otherwise.

    @property
    def tRCD(self):
        """ACT to column command."""
        return self._cycles("t_rcd")

    @property
    def tRP(self):
        """PRE to ACT."""
        return self._cycles("t_rp")

    @property
    def tRAS(self):
        """ACT to PRE."""
        return self._cycles("t_ras")

    @property
    def tRC(self):
        """ACT to ACT of the same bank."""
        return self._cycles("t_rc")

    @property
    def tCCD_S(self):
        """Column command to column command of another group."""
        return self._cycles("t_ccd_s")

    @property
    def tCCD_L(self):
        """Column command to column command of the same group."""
        return self._cycles("t_ccd_l")

    @property
    def tCCD_L_update(self):
        """Op-and-store to column command of the same group."""
        return self._cycles(self.update_factor * self.clocks("t_ccd_l"))

    @property
    def tRRD_S(self):
        """ACT to ACT of another group."""
        return self._cycles("t_rrd_s")

    @property
    def tRRD_L(self):
        """ACT to ACT of the same group."""
        return self._cycles("t_rrd_l")

    @property
    def tFAW(self):
        """ACT to the fourth ACT after it."""
        return self._cycles("t_faw")

    @property
    def tWTR_S(self):
        """End of a write's data to a read of another group."""
        return self._cycles("t_wtr_s")

    @property
    def tWTR_L(self):
        """End of a write's data to a read of the same group."""
        return self._cycles("t_wtr_l")

    @property
    def tRTW(self):
        """Read to write, so that their data do not meet."""
        return self._cycles(max(self.read_latency + self.burst + self.turnaround
                                - self.write_latency, 1))

    @property
    def tWR(self):
        """End of a write's data to PRE."""
        return self._cycles("t_wr")

    @property
    def tRTP(self):
        """Read to PRE."""
        return self._cycles("t_rtp")

    @property
    def tREFI(self):
        """Refresh to refresh on average, rounded down."""
        return math.floor(self.clocks("t_refi") / self.clock_ratio)

    @property
    def tRFC(self):
        """Refresh to row command."""
        return self._cycles("t_rfc")

    @property
    def CL(self):
        """Read to its data."""
        return self._cycles(self.read_latency)

    @property
    def CWL(self):
        """Write to its data."""
        return self._cycles(self.write_latency)

    @property
    def burst_cycles(self):
        """Length of the data of a column access."""
        return self._cycles(self.burst)

    @property
    def read_data(self):
        """Read to the end of its data: CL + burst."""
        return self._cycles(self.read_latency, self.burst)

    @property
    def write_data(self):
        """Write to the end of its data: CWL + burst."""
        return self._cycles(self.write_latency, self.burst)

    @property
    def write_to_read_s(self):
        """Write to read of another group: CWL + burst + tWTR_S."""
        return self._cycles(self.write_latency, self.burst, "t_wtr_s")

    @property
    def write_to_read_l(self):
        """Write to read of the same group: CWL + burst + tWTR_L."""
        return self._cycles(self.write_latency, self.burst, "t_wtr_l")

    @property
    def write_to_precharge(self):
        """Write to PRE: CWL + burst + tWR."""
        return self._cycles(self.write_latency, self.burst, "t_wr")

    @property
    def page_columns(self):
        """Columns of a row."""
        return self.page_bytes // self.column_bytes

    @property
    def columns(self):
        """Columns of the channel: the beats that it holds."""
        return self.bank_groups * self.banks * self.rows * self.page_columns

    @property
    def cycle_ps(self):
        """Length of a controller cycle in ps, a fraction."""
        return self.clock_ratio * _quantities("clock", self.clock)[1]

    @property
    def column_time(self):
        """Cycles that a column access takes at least, when all go to different groups."""
        return max(self.tCCD_S, 1)

    @property
    def peak_bytes_per_second(self):
        """``column_bytes`` in each `column_time`."""
        return float(self.column_bytes / self.column_time / self.cycle_ps * 10 ** 12)

    @property
    def streaming_bandwidth(self):
        """Column accesses a cycle at most, when all find their row open but after a refresh.

        In tRTP + tRP + tRFC + tRCD of each tREFI there is none: from the last one before a refresh
        to the first one after it.
        """
        lost = self.tRTP + self.tRP + self.tRFC + self.tRCD
        return (1 - lost / self.tREFI) / self.column_time

    def random_bandwidth(self, *, window=None):
        """Column accesses a cycle at most, when each is a read of a random row of a random bank.

        Each needs an ACT, so the rate is the least of 1 / `column_time`, 1 / tRRD_S, 4 / tFAW, and
        busy / cycle: an access occupies its bank for max(tRC, tRCD + tRTP + tRP) cycles, and no
        more banks are busy than there are, or than accesses in the window. Time is lost to
        refreshes as in `streaming_bandwidth`; but for the four ACTs that may follow one at once,
        the rate is a bound.

        Parameters
        ----------
        window : int, optional
            Accesses among which the scheduler chooses; `window` if not given.
        """
        busy = min(self.bank_groups * self.banks, self.window if window is None else window)
        occupied = max(self.tRC, self.tRCD + self.tRTP + self.tRP)
        rate = min(1 / self.column_time, 1 / self.tRRD_S, 4 / self.tFAW, busy / occupied)
        return rate * self.column_time * self.streaming_bandwidth

    def as_dict(self):
        """All fields, as plain data."""
        return dataclasses.asdict(self)

    def replace(self, **changes):
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_toml(cls, path):
        """Read a timing from a TOML file of the fields.

        Raises
        ------
        DramError
            If the file cannot be read, is no TOML, or its fields are not those of a timing.
        """
        path = Path(path)
        try:
            fields = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DramError(f"{path}: {reason}") from None
        known = {field.name: field for field in dataclasses.fields(cls)}
        for key in fields:
            if key not in known:
                raise DramError(f"{path}: no field {key!r}; fields are {', '.join(sorted(known))}")
        for key, field in known.items():
            if key not in fields and field.default is dataclasses.MISSING:
                raise DramError(f"{path}: {key} is missing")
        fields.setdefault("name", path.stem)
        try:
            return cls(**fields)
        except DramError as error:
            raise DramError(f"{path}: {error}") from None

    @classmethod
    def preset(cls, name):
        """The timing in the file of that name in `PRESET_FOLDER`, or in the file ``NAME.toml``."""
        if str(name).endswith(".toml"):
            return cls.from_toml(name)
        presets = cls.presets()
        if name not in presets:
            raise DramError(f"no DRAM {name!r}; there are {', '.join(presets)}")
        return cls.from_toml(PRESET_FOLDER / f"{name}.toml")

    @staticmethod
    def presets():
        """Names of the presets, sorted."""
        return sorted(path.stem for path in PRESET_FOLDER.glob("*.toml"))


def _quantities(name, text):
    """Clocks and picoseconds that a text such as ``"4 tCK, 7.5 ns"`` states, 0 for none."""
    found = {"tCK": Fraction(0), "ps": Fraction(0)}
    parts = text.split(",") if isinstance(text, str) else [None]
    for part in parts:
        quantity = part and _QUANTITY.fullmatch(part.strip())
        if not quantity:
            raise DramError(f"{name} must be a time such as '14 ns', '4 tCK' or '4 tCK, 7.5 ns', "
                            f"not {text!r}")
        number, unit = Fraction(quantity[1]), quantity[2]
        if unit == "tCK":
            found["tCK"] = max(found["tCK"], number)
        else:
            found["ps"] = max(found["ps"], number * _PICOSECONDS[unit])
    return found["tCK"], found["ps"]


#: Fields that are times.
_TIMES = tuple(field.name for field in dataclasses.fields(DramTiming)
               if field.name.startswith("t_"))

#: name, least, most, power of two.
_RANGES = (
    ("clock_ratio", 1, 16, False),
    ("column_bytes", 4, 256, True),
    ("page_bytes", 4, 1 << 16, True),
    ("bank_groups", 1, 8, True),
    ("banks", 1, 32, True),
    ("rows", 2, 1 << 20, True),
    ("burst", 1, 32, False),
    ("read_latency", 1, 128, False),
    ("write_latency", 1, 128, False),
    ("turnaround", 0, 32, False),
    ("update_factor", 1, 16, False),
    ("window", 2, 64, False),
)
