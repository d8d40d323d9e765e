"""Rows of a benchmark: what was measured, beside its goal, as JSON and as lines of a table."""

import argparse
import dataclasses
import json
from pathlib import Path

__all__ = ["HEADER", "Row", "line", "markdown", "report", "update_page"]


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


def markdown(content):
    """A report's rows as a table of a Markdown page, and its text, where it has them."""
    parts = []
    if "rows" in content:
        parts.append(_table(content["rows"]))
    if "text" in content:
        parts.append(f"```\n{content['text']}\n```")
    return "\n\n".join(parts)


def _table(rows):
    lines = ["| measured | value | goal | unit | met |", "|---|---|---|---|---|"]
    for row in rows:
        bound = "≥" if row["better"] == "higher" else "≤"
        lines.append(f"| {row['name']} | {_number(row['value'])} | {bound} {_number(row['goal'])} "
                     f"| {row['unit']} | {'yes' if row['met'] else '**no**'} |")
    return "\n".join(lines)


_BEGIN, _END = "<!-- begin {} -->\n", "<!-- end {} -->"


def update_page(page, report_file):
    """A page's text, with the table of a report between the comments that name its file."""
    before, begin, rest = page.partition(_BEGIN.format(report_file.name))
    _, end, after = rest.partition(_END.format(report_file.name))
    if not begin or not end:
        raise ValueError(f"the page has no place for {report_file.name}")
    table = markdown(json.loads(report_file.read_text()))
    return f"{before}{begin}{table}\n{end}{after}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Put a report's table into a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("report", type=Path)
    options = parser.parse_args()
    options.page.write_text(update_page(options.page.read_text(), options.report))
