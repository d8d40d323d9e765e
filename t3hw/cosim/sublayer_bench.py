"""The paper's experiment on the hardware: sequential, T3, T3-MCA and the ideal, a sublayer each."""

import sys
import time

from t3hw.bench import HEADER, Row, line
from t3hw.data_files import DATA, read_toml
from t3hw.perf.figures import SWEEPS
from t3hw.perf.machine import Machine
from t3hw.perf.records import OVERLAPPED, SweepPoint
from t3hw.perf.report import report, results, text
from t3hw.perf.sublayer_slice import geomean
from t3hw.workloads.errors import InputError

from .sublayer_cases import Case, run_cases

__all__ = ["bench_overlap", "read_machine", "sweep_overlap", "sweep_text"]


def read_machine(name):
    """A stock machine, or a file ``NAME.toml``."""
    return Machine.from_toml(name) if str(name).endswith(".toml") else Machine.preset(str(name))


def _show(start):
    """A line for each case that is ready."""
    def on_done(case, outcome, ran):
        rate = outcome.simulated_cycles / outcome.seconds
        how = (f"{outcome.simulated_cycles:,} cycles in {outcome.seconds:.0f} s, "
               f"{rate:,.0f} a second" if ran else "as measured before")
        print(f"{time.monotonic() - start:6.0f} s  {case.sublayer}: {how}", file=sys.stderr,
              flush=True)
    return on_done


def bench_overlap(chosen, machine, *, granularity=1, threshold=None, check=False, jobs=2,
                  fresh=False, sampled=None):
    """Run sublayers in every variant.

    Parameters
    ----------
    chosen : list of Sublayer
        What to run.
    machine : Machine
        On what.
    granularity, threshold, check
        As of `Case`.
    jobs, fresh
        As of `run_cases`.
    sampled : str or None
        Name of the case, such as ``"T-NLG FC-2 TP 8"``, whose run over time the report keeps; None:
        the first one's.

    Returns
    -------
    dict
        The report, as plain data, with ``records``, ``simulation`` and ``text``.
    """
    names = [str(sublayer) for sublayer in chosen]
    sampled = names[0] if sampled is None else sampled
    if sampled not in names:
        raise InputError(f"no case {sampled!r} is run; cases are {', '.join(names)}")
    start = time.monotonic()
    ran = []
    show = _show(start)

    def on_done(case, outcome, new):
        ran.append(new)
        show(case, outcome, new)

    cases = [Case(sublayer=sublayer, machine=machine, granularity=granularity, threshold=threshold,
                  check=check) for sublayer in chosen]
    outcomes = run_cases(cases, jobs=jobs, fresh=fresh, on_done=on_done)
    elapsed = time.monotonic() - start
    records = [outcome.record for outcome in outcomes]
    content = report(records, machine=machine)
    speed = _speed(outcomes, elapsed if all(ran) else None)
    content["rows"] += [row.as_dict() for row in speed]
    return content | {
        "granularity": granularity, "threshold": threshold, "checked": check,
        "text": "\n\n".join([text(records, machine=machine),
                             "\n".join([HEADER, *map(line, speed)])]),
        "simulation": {
            "jobs": jobs, "seconds": elapsed if all(ran) else None},
        "records": [record.as_dict() | ({} if name == sampled else {"samples": {}})
                    for name, record in zip(names, records, strict=True)],
    }


def _speed(outcomes, elapsed):
    rows = [
        Row(name="loop-back node in Verilator, slowest case",
            value=min(outcome.simulated_cycles / outcome.seconds for outcome in outcomes),
            unit="cycles/s", goal=100_000, better="higher"),
        Row(name="one case, all variants, longest",
            value=max(outcome.seconds for outcome in outcomes), unit="seconds", goal=60,
            better="lower"),
        Row(name="memory of the largest process, compilers included",
            value=max(outcome.peak_bytes for outcome in outcomes) / 2 ** 20, unit="MiB", goal=4096,
            better="lower")]
    if elapsed is not None:
        rows.append(Row(name=f"all {len(outcomes)} cases", value=elapsed, unit="seconds",
                        goal=1200, better="lower"))
    return rows


def sweep_overlap(name, chosen, machine, **options):
    """Run sublayers at each value of a sweep of ``sim/sweeps.toml``.

    Parameters
    ----------
    name : str
        Of the sweep.
    chosen : list of Sublayer
        What to run.
    machine : Machine
        On what, but for what is swept.
    options
        ``granularity``, ``threshold``, ``check``, ``jobs`` and ``fresh``, as of `bench_overlap`.

    Returns
    -------
    list of SweepPoint
        Geometric means over the sublayers.
    """
    sweeps = read_toml(DATA / "sweeps.toml")
    if name not in SWEEPS or name not in sweeps:
        raise InputError(f"no sweep {name!r}; sweeps are {', '.join(SWEEPS)}")
    options = {"granularity": 1, "threshold": None, "check": False} | options
    jobs, fresh = options.pop("jobs", 2), options.pop("fresh", False)
    points, cases = [], []
    for value in sweeps[name]["values"]:
        machine_there, settings, shown = machine, dict(options), value
        if name == "link":
            machine_there = machine.replace(link_bytes_per_second=value * 1e9)
        elif name == "efficiency":
            machine_there = machine.replace(gemm_efficiency=value)
        elif name == "compute":
            machine_there = machine.replace(flops_per_clock=value)
            shown = value * machine.units * machine.clock_hz * machine.gemm_efficiency / 1e12
        else:
            settings[name] = value
        points.append(shown if value or name != "threshold" else None)
        cases += [Case(sublayer=sublayer, machine=machine_there, **settings) for sublayer in chosen]
    outcomes = run_cases(cases, jobs=jobs, fresh=fresh, on_done=_show(time.monotonic()))
    size = len(chosen)
    made = []
    for index, value in enumerate(points):
        there = results([outcome.record for outcome in outcomes[index * size:(index + 1) * size]])
        made.append(SweepPoint(value=value, **{
            metric: geomean(getattr(result, metric) for result in there)
            for metric in ("t3_speedup", "t3_mca_speedup", "ideal_speedup")
        }, **{
            f"{variant}_gemm_factor": geomean(1 + getattr(result, f"{variant}_gemm_slowdown")
                                              for result in there)
            for variant in OVERLAPPED}))
    return made


def sweep_text(name, chosen, points):
    """A sweep as text for people."""
    label, _ = SWEEPS[name]
    lines = [f"geomean of {len(chosen)} sublayers{'':<24}{'speed-up over sequential':^24}"
             f"{'GEMM slowed':>18}",
             f"{label:<44}{'T3':>8}{'T3-MCA':>8}{'ideal':>8}{'T3':>10}{'T3-MCA':>8}"]
    for point in points:
        value = "none" if point.value is None else f"{point.value:g}"
        lines.append(f"{value:>44}{point.t3_speedup:>8.3f}{point.t3_mca_speedup:>8.3f}"
                     f"{point.ideal_speedup:>8.3f}{point.t3_gemm_factor - 1:>10.1%}"
                     f"{point.t3_mca_gemm_factor - 1:>8.1%}")
    return "\n".join(lines)
