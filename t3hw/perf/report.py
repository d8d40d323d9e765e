"""What came of the experiment, beside what was published: as data, and as tables for the terminal.

A sublayer is a GEMM, its reduce-scatter (RS) and its all-gather (AG). Sequential, it takes as long
as the three one after the other. T3 overlaps GEMM and RS, the AG follows. The ideal overlap takes
the longer of GEMM and RS, each alone, and the AG.
"""

import dataclasses

from t3hw.bench import HEADER, Row, line
from t3hw.data_files import DATA, check_fields, read_toml
from t3hw.workloads.errors import InputError
from t3hw.workloads.sublayers import load_models, sublayers

from .records import BEATS, OVERLAPPED, VARIANTS
from .sublayer_slice import geomean

__all__ = ["METRICS", "CaseResult", "Figure", "Metric", "goals", "load_published", "report",
           "results", "summaries", "text"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure that is taken over a group of sublayers.

    Parameters
    ----------
    label : str
        For people.
    unit : str
        ``"x"``: a factor. ``"share"``: a fraction. ``"less"``: a fraction by which something is
        less; its mean is taken of what is left. ``"more"``: likewise of what is more.
    best : str
        ``"max"`` or ``"min"``: the extreme that is reported beside the mean.
    """

    label: str
    unit: str
    best: str = "max"


#: Metrics by name, in the order of the report. Each is a property of `CaseResult`.
METRICS = {
    "t3_mca_speedup": Metric(label="T3-MCA over sequential", unit="x"),
    "t3_speedup": Metric(label="T3 without MCA over sequential", unit="x"),
    "ideal_speedup": Metric(label="ideal overlap over sequential", unit="x"),
    "t3_mca_share_of_ideal": Metric(label="T3-MCA as a share of the ideal overlap", unit="share",
                                    best="min"),
    "t3_mca_over_t3": Metric(label="T3-MCA over T3", unit="x"),
    "t3_gemm_slowdown": Metric(label="GEMM slowed by communication, T3", unit="more"),
    "t3_mca_gemm_slowdown": Metric(label="GEMM slowed by communication, T3-MCA", unit="more"),
    "t3_mca_memory_wait": Metric(label="GEMM's units wait for memory longer than alone, T3-MCA",
                                 unit="more"),
    "data_movement": Metric(label="data movement, all of it", unit="less"),
    "data_movement_without_ag": Metric(label="data movement of GEMM and RS", unit="less"),
    "rs_reads_factor": Metric(label="RS reads, fewer by", unit="x"),
    "gemm_reads_factor": Metric(label="GEMM reads, fewer by", unit="x"),
    "writes_factor": Metric(label="GEMM and RS writes, fewer by", unit="x"),
}


class CaseResult:
    """What follows from a record.

    Parameters
    ----------
    record : CaseRecord
        What was measured.
    """

    def __init__(self, record):
        self.record = record

    @property
    def sublayer_cycles(self):
        """Cycles of the sublayer in each variant, and in the ideal overlap."""
        cycles = self.record.cycles
        gemm, scatter, gather = (cycles[name] for name in ("gemm", "reduce_scatter", "all_gather"))
        return {"sequential": gemm + scatter + gather} | {
            variant: cycles[variant] + gather for variant in OVERLAPPED
        } | {"ideal": max(gemm, scatter) + gather}

    def speedup(self, variant):
        """Of a variant over the sequential one."""
        cycles = self.sublayer_cycles
        return cycles["sequential"] / cycles[variant]

    @property
    def t3_speedup(self):
        """Of T3 with round-robin arbitration."""
        return self.speedup("t3")

    @property
    def t3_mca_speedup(self):
        """Of T3-MCA."""
        return self.speedup("t3_mca")

    @property
    def ideal_speedup(self):
        """Of the ideal overlap."""
        return self.speedup("ideal")

    @property
    def t3_mca_share_of_ideal(self):
        """T3-MCA's speed-up over the ideal one's."""
        return self.t3_mca_speedup / self.ideal_speedup

    @property
    def t3_mca_over_t3(self):
        """How much faster the policy makes T3."""
        return self.t3_mca_speedup / self.t3_speedup

    def _gemm_slowdown(self, variant):
        cycles = self.record.cycles
        return self.record.gemm_cycles[variant] / cycles.get("gemm_bypass", cycles["gemm"]) - 1

    @property
    def t3_gemm_slowdown(self):
        """How much longer the GEMM takes with T3's communication than alone."""
        return self._gemm_slowdown("t3")

    @property
    def t3_mca_gemm_slowdown(self):
        """How much longer the GEMM takes with T3-MCA's communication than alone."""
        return self._gemm_slowdown("t3_mca")

    @property
    def t3_mca_memory_wait(self):
        """Share of the compute units' time that goes to later loads, if known: what of the slowdown
        is the memory's; the rest is the link's, which stores to the neighbour wait for."""
        counters = self.record.counters.get("t3_mca", {})
        if not {"gemm_read_wait", "gemm_read_wait_alone"} <= set(counters):
            return None
        return counters["gemm_read_wait"] - counters["gemm_read_wait_alone"]

    def _beats(self, variant, *classes):
        return sum(self.record.beats[variant][name] for name in classes)

    @property
    def data_movement(self):
        """Fraction by which T3-MCA moves less to and from memory than the sequential variant."""
        return 1 - self._beats("t3_mca", *BEATS) / self._beats("sequential", *BEATS)

    @property
    def data_movement_without_ag(self):
        """The same without the all-gather, which is alike in both."""
        return 1 - self._beats("t3_mca", *BEATS[:4]) / self._beats("sequential", *BEATS[:4])

    def _factor(self, *classes):
        now = self._beats("t3_mca", *classes)
        return self._beats("sequential", *classes) / now if now else None

    @property
    def rs_reads_factor(self):
        """Factor by which the RS reads less; None if T3 reads nothing (a ring of 2)."""
        return self._factor("rs_reads")

    @property
    def gemm_reads_factor(self):
        """Factor by which the GEMM reads less."""
        return self._factor("gemm_reads")

    @property
    def writes_factor(self):
        """Factor by which GEMM and RS write less."""
        return self._factor("gemm_writes", "rs_writes")

    @property
    def departures(self):
        """Where traffic is not that of the formulas: variant, what, beats, beats by the formula."""
        count, output = self.record.tp, self.record.output_beats
        formulas = {"sequential": (2 * count - 1, 2 * count), "t3": (count - 2, 2 * count - 2)}
        formulas["t3_mca"] = formulas["t3"]
        found = []
        for variant in VARIANTS:
            for what, classes, chunks in (
                    ("RS reads", ("rs_reads",), formulas[variant][0]),
                    ("GEMM and RS writes", ("gemm_writes", "rs_writes"), formulas[variant][1])):
                beats = self._beats(variant, *classes)
                if beats * count != chunks * output:
                    found.append((variant, what, beats, chunks * output / count))
        return found

    def as_dict(self):
        """All that follows, as plain data."""
        record = self.record
        return {"model": record.model, "sublayer": record.sublayer, "tp": record.tp,
                "group": record.group, "sublayer_cycles": self.sublayer_cycles} | {
            name: getattr(self, name) for name in METRICS
        } | {"by_the_formulas": not self.departures}


def results(records):
    """Results of records, in the order of the models' file, those of other models last.

    Raises
    ------
    InputError
        If there are two records of a case, or none at all.
    """
    made = {}
    for record in records:
        if str(record) in made:
            raise InputError(f"there are two records of {record}")
        made[str(record)] = CaseResult(record)
    if not made:
        raise InputError("there are no records")
    rank = {str(sublayer): index for index, sublayer in enumerate(sublayers())}
    return [made[name] for name in sorted(made, key=lambda name: rank.get(name, len(rank)))]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """A published figure: of a metric, over a group of sublayers."""

    metric: str
    label: str
    group: str
    unit: str
    source: str
    max: float | None = None
    geomean: float | None = None

    def __post_init__(self):
        for name in ("max", "geomean"):
            value = getattr(self, name)
            if value is not None and (type(value) not in (int, float) or not 0 < value < 1000):
                raise InputError(f"published figure {self.metric!r}: {name} must be a number from "
                                 f"0 to 1000, not {value!r}")


def load_published(path=DATA / "published.toml"):
    """The published figures.

    Raises
    ------
    InputError
        If the file cannot be read, or holds something else.
    """
    entries = read_toml(path).get("figure", [])
    fields = [field.name for field in dataclasses.fields(Figure)]
    for entry in entries:
        check_fields(f"{path}: figure", entry, fields, optional=("max", "geomean"))
    return [Figure(**entry) for entry in entries]


def _geomean(unit, values):
    """Geometric mean of factors, or of what is left or comes to it."""
    sign = {"less": -1, "more": 1}.get(unit)
    factors = values if sign is None else [1 + sign * value for value in values]
    if min(factors) <= 0:
        return None
    mean = geomean(factors)
    return mean if sign is None else sign * (mean - 1)


def summaries(made, published=None):
    """Mean and extreme of each metric over each group, beside what was published.

    Parameters
    ----------
    made : list of CaseResult
        From `results`.
    published : list of Figure or None
        From `load_published`, which is what None stands for.

    Returns
    -------
    list of dict
        ``group``, ``metric``, ``label``, ``unit``, ``cases``, ``of``: how many of the group's cases
        there are, or None if the group is not of the models' file; ``geomean``, ``extreme``,
        ``best`` (``"max"`` or ``"min"``); ``published_geomean``, ``published_extreme`` and
        ``source``, or None.
    """
    figures = {(figure.group, figure.metric): figure
               for figure in (load_published() if published is None else published)}
    groups, whole = {}, {}
    for result in made:
        groups.setdefault(result.record.group, []).append(result)
    for sublayer in sublayers(models=load_models()):
        whole[sublayer.model.group] = whole.get(sublayer.model.group, 0) + 1
    rows = []
    for group, members in groups.items():
        for name, metric in METRICS.items():
            values = [value for value in (getattr(result, name) for result in members)
                      if value is not None]
            figure = figures.get((group, name))
            rows.append({
                "group": group, "metric": name, "label": metric.label, "unit": metric.unit,
                "cases": len(members), "of": whole.get(group),
                "geomean": _geomean(metric.unit, values) if values else None,
                "extreme": (max if metric.best == "max" else min)(values, default=None),
                "best": metric.best,
                "published_geomean": figure and figure.geomean,
                "published_extreme": figure and figure.max,
                "source": figure and figure.source,
            })
    return rows


#: group, metric, which, goal, better.
_GOALS = (
    ("Mega-GPT-2 and T-NLG", "t3_mca_speedup", "geomean", 1.30, "higher"),
    ("Mega-GPT-2 and T-NLG", "t3_mca_speedup", "extreme", 1.47, "higher"),
    ("Mega-GPT-2 and T-NLG", "t3_mca_share_of_ideal", "geomean", 0.98, "higher"),
    ("Mega-GPT-2 and T-NLG", "data_movement", "geomean", 0.22, "higher"),
    ("Mega-GPT-2 and T-NLG", "t3_mca_gemm_slowdown", "geomean", 0.02, "lower"),
    ("GPT-3, PALM, MT-NLG", "t3_mca_speedup", "geomean", 1.29, "higher"),
    ("GPT-3, PALM, MT-NLG", "t3_mca_gemm_slowdown", "geomean", 0.02, "lower"),
)


def goals(rows):
    """The goals as rows of a benchmark, for the groups that are whole."""
    found = {(row["group"], row["metric"]): row for row in rows}
    made = []
    for group, metric, which, goal, better in _GOALS:
        row = found.get((group, metric))
        if row is None or row["cases"] != row["of"] or row[which] is None:
            continue
        kind = "geomean" if which == "geomean" else row["best"]
        made.append(Row(name=f"{row['label']}, {kind}, {group}", value=row[which], goal=goal,
                        unit={"x": "x"}.get(row["unit"], "fraction"), better=better))
    return made


def report(records, *, machine=None, published=None):
    """All that there is to say, as plain data.

    Parameters
    ----------
    records : list of CaseRecord
        What was measured.
    machine : Machine or None
        What it was measured on, if what was assumed of it is to be listed.
    published : list of Figure or None
        From `load_published`, which is what None stands for.
    """
    made = results(records)
    rows = summaries(made, published)
    return {
        "schema": 1,
        "machine": machine and machine.name,
        "assumed": _assumed(made, machine),
        "cases": [result.as_dict() for result in made],
        "groups": rows,
        "rows": [row.as_dict() for row in goals(rows)],
        "departures": [
            {"case": str(result.record), "variant": variant, "what": what, "beats": beats,
             "by_the_formula": expected}
            for result in made for variant, what, beats, expected in result.departures],
    }


def _assumed(made, machine):
    """Texts of what was assumed of the machine and of the models that ran."""
    texts = list(machine.assumed.values()) if machine else []
    names = {result.record.model for result in made}
    by_text = {}
    for model in load_models().values():
        if model.name in names:
            for text_ in model.assumed.values():
                by_text.setdefault(text_, []).append(model.name)
    return texts + [f"{', '.join(models)}: {text_}" for text_, models in by_text.items()]


def text(records, *, machine=None, published=None):
    """All that there is to say, as text for people."""
    made = results(records)
    content = report(records, machine=machine, published=published)
    parts = [_cases_table(made), *([_bytes_table(made, machine)] if machine else []),
             _groups_table(content["groups"])]
    rows = goals(content["groups"])
    if rows:
        parts.append("\n".join([HEADER, *map(line, rows)]))
    if content["departures"]:
        parts.append("\n".join(
            ["TRAFFIC THAT IS NOT WHAT THE FORMULAS HAVE"] +
            [f"  {entry['case']}, {entry['variant']}: {entry['what']} {entry['beats']:,} beats, "
             f"formula {entry['by_the_formula']:,.0f}" for entry in content["departures"]]))
    else:
        parts.append("RS reads, and GEMM and RS writes, are what the formulas have, in every case "
                     "and variant.")
    if content["assumed"]:
        parts.append("\n".join(["assumed, as there is no source:",
                                *(f"  {entry}" for entry in content["assumed"])]))
    return "\n\n".join(parts)


def _cases_table(made):
    head = (f"{'':<22}{'kcycles, each alone':^21}{'kcycles of the sublayer':^32}{'speed-up':^21}"
            f"{'of the':>7}{'GEMM':>7}{'data':>7}")
    names = (f"{'sublayer':<22}{'GEMM':>7}{'RS':>7}{'AG':>7}{'sequential':>11}{'T3':>7}"
             f"{'T3-MCA':>7}{'ideal':>7}{'T3':>7}{'T3-MCA':>7}{'ideal':>7}{'ideal':>7}{'slower':>7}"
             f"{'less':>7}")
    lines, group = [head, names], None
    for result in made:
        record, cycles = result.record, result.sublayer_cycles
        if record.group != group:
            group = record.group
            lines.append(f"-- {group}")
        alone = [record.cycles[name] / 1e3 for name in ("gemm", "reduce_scatter", "all_gather")]
        whole = [cycles[name] / 1e3 for name in ("sequential", *OVERLAPPED, "ideal")]
        gains = [result.speedup(name) for name in (*OVERLAPPED, "ideal")]
        lines.append(
            f"{record!s:<22}" + "".join(f"{value:>7.1f}" for value in alone)
            + f"{whole[0]:>11.1f}" + "".join(f"{value:>7.1f}" for value in whole[1:])
            + "".join(f"{value:>7.3f}" for value in gains)
            + f"{result.t3_mca_share_of_ideal:>7.1%}{result.t3_mca_gemm_slowdown:>7.1%}"
              f"{result.data_movement:>7.1%}")
    return "\n".join(lines)


def _bytes_table(made, machine):
    """Megabytes that one device moves to and from memory, by class, before and after."""
    scale = machine.channels * machine.column_bytes / 1e6
    shown = {"GEMM": BEATS[:2], "RS": BEATS[2:4], "AG": BEATS[4:]}
    head = f"{'MB of one device':<22}" + "".join(
        f"{variant:^42}" for variant in ("sequential", "T3-MCA")) + f"{'less':>7}"
    names = f"{'':<22}" + 2 * "".join(f"{f'{name} r':>7}{f'{name} w':>7}" for name in shown)
    lines = [head, names]
    for result in made:
        beats = result.record.beats
        lines.append(f"{result.record!s:<22}" + "".join(
            f"{beats[variant][name] * scale:>7.1f}" for variant in ("sequential", "t3_mca")
            for names in shown.values() for name in names) + f"{result.data_movement:>7.1%}")
    return "\n".join(lines)


def _shown(unit, value):
    if value is None:
        return "–"
    if unit == "x":
        return f"{value:.3f}x"
    shown = f"{value:.1%}"
    return "0.0%" if shown == "-0.0%" else shown


def _groups_table(rows):
    lines, group = [], None
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            count = f"{row['cases']} cases" if row["of"] is None else \
                f"{row['cases']} of {row['of']} cases"
            lines += [*([""] if lines else []),
                      f"{f'{group}, {count}':<58}{'geomean':>9}{'published':>11}{'extreme':>14}"
                      f"{'published':>11}  source"]
        unit = row["unit"]
        extreme = f"{row['best']} {_shown(unit, row['extreme'])}"
        lines.append(f"  {row['label']:<56}{_shown(unit, row['geomean']):>9}"
                     f"{_shown(unit, row['published_geomean']):>11}{extreme:>14}"
                     f"{_shown(unit, row['published_extreme']):>11}  {row['source'] or ''}"
                     .rstrip())
    return "\n".join(lines)
