"""Rows of a benchmark: what was measured, beside its goal, as JSON and as lines of a table."""

import dataclasses

__all__ = ["HEADER", "Row", "line", "report"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One measured value.

    Parameters
    ----------
    name : str
        What was measured, and how.
    value : int or float
        What came of it.
    unit : str
        Of value and goal.
    goal : int or float
        What is to be reached.
    better : str
        ``"higher"`` or ``"lower"``.

    Raises
    ------
    ValueError
        If ``better`` is something else.
    """

    name: str
    value: int | float
    unit: str
    goal: int | float
    better: str

    def __post_init__(self):
        if self.better not in ("higher", "lower"):
            raise ValueError(f"better must be 'higher' or 'lower', not {self.better!r}")

    @property
    def met(self):
        """Whether the goal is reached."""
        return self.value >= self.goal if self.better == "higher" else self.value <= self.goal

    def as_dict(self):
        """As it stands in the report."""
        return dataclasses.asdict(self) | {"met": self.met}


def report(rows, **more):
    """Rows as plain data, with whatever else there is to say."""
    return {"schema": 1, "rows": [row.as_dict() for row in rows]} | more


_LINE = "{:<72} {:>10} {:>4}{:>9} {:<14} {}"

#: Heads the lines of a table.
HEADER = _LINE.format("measured", "value", "", "goal", "unit", "met")


def line(row):
    """A row of the table that a person reads."""
    bound = ">=" if row.better == "higher" else "<="
    return _LINE.format(row.name, _number(row.value), bound, _number(row.goal), row.unit,
                        "yes" if row.met else "NO")


def _number(value):
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:.0f}"
