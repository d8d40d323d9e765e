"""Figures of the experiment: speed-ups, traffic by class and over time, DRAM queue, and sweeps."""

import itertools
from pathlib import Path

import numpy as np

from t3hw.workloads.errors import InputError

from .records import BEATS, OCCUPANCY_BUCKETS, OVERLAPPED, SERIES
from .report import load_published, results, summaries

__all__ = ["SWEEPS", "draw_all", "draw_occupancy", "draw_speedups", "draw_sweep", "draw_traffic",
           "draw_traffic_over_time"]

#: Label and colour of each variant (Okabe and Ito's palette, made for colour-blind readers too).
_VARIANTS = {
    "t3": ("T3", "#56B4E9"),
    "t3_mca": ("T3-MCA", "#0072B2"),
    "ideal": ("ideal overlap of GEMM and RS", "#C4C8CE"),
}
#: Label and colour of each class of traffic, from the bottom of a bar to its top.
_CLASSES = {
    "gemm_reads": ("GEMM reads", "#0072B2"),
    "gemm_writes": ("GEMM writes", "#56B4E9"),
    "rs_reads": ("RS reads", "#D55E00"),
    "rs_writes": ("RS writes and updates", "#E69F00"),
    "ag_reads": ("AG reads", "#AEB4BC"),
    "ag_writes": ("AG writes", "#D9DCE0"),
}
_SERIES = {
    "gemm_reads": ("GEMM reads", "#0072B2"),
    "gemm_writes": ("GEMM writes", "#56B4E9"),
    "incoming_updates": ("incoming updates", "#E69F00"),
    "dma_reads": ("DMA reads", "#D55E00"),
}
#: Label of the axis, and whether it is logarithmic.
SWEEPS = {
    "granularity": ("tiles of one DMA command", True),
    "threshold": ("occupancy threshold of T3-MCA, accesses", False),
    "link": ("link, GB/s a direction", True),
    "compute": ("GEMM's rate, TFLOP/s", True),
    "efficiency": ("GEMM's share of the compute units' peak", False),
}
_INK, _FAINT = "#30343B", "#8A9099"
#: Bins of a picture's time axis at most.
_MOST_BINS = 600


def _figure(width, height):
    # Not pyplot: no state that outlives this call, and no window system.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _clean(axis, *, grid="y"):
    """Take away what carries no data."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(_FAINT)
    axis.tick_params(colors=_INK, labelsize=8, length=3)
    axis.set_axisbelow(True)
    if grid:
        axis.grid(axis=grid, color="#E4E6EA", lw=0.7)
    for label in (axis.xaxis.label, axis.yaxis.label):
        label.set_size(9)
        label.set_color(_INK)


def _title(axis, title):
    axis.set_title(title, loc="left", fontsize=10, color=_INK)


def _legend(figure, handles):
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), fontsize=8,
                  frameon=False, handlelength=1.2, columnspacing=1.4, labelcolor=_INK)


def _patch(label, colour):
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, label=label)


def _save(figure, path):
    path = Path(path)
    kind = path.suffix.lstrip(".")
    if kind not in ("png", "svg"):
        raise InputError(f"a figure's name must end in .png or .svg, not {path.name!r}")
    # No date, no version: the same data make the same file.
    figure.savefig(path, format=kind, metadata={"Software": None} if kind == "png" else
                   {"Date": None, "Creator": None})
    return path


def _grouped(made):
    """Results by group; in each, by model and TP degree."""
    return [(group, [(key, list(members)) for key, members in itertools.groupby(
        block, key=lambda result: (result.record.model, result.record.tp))])
        for group, block in ((group, list(block)) for group, block in itertools.groupby(
            made, key=lambda result: result.record.group))]


def _places(blocks, extra):
    """Where bars stand: a place a sublayer, a gap between models and TP degrees, and more behind.

    Returns the places, the middle of each block, and the places at the end.
    """
    places, middles, place = [], [], 0.0
    for _, members in blocks:
        own = [place + index for index in range(len(members))]
        places += own
        middles.append((own[0] + own[-1]) / 2)
        place = own[-1] + 1.6
    return places, middles, [place + index for index in range(extra)]


def _name_blocks(axis, blocks, places, middles, ends, names):
    """Sublayers below their bars, and below them their model and TP degree."""
    labels = [result.record.sublayer for _, members in blocks for result in members]
    axis.set_xticks([*places, *ends], [*labels, *names])
    axis.tick_params(axis="x", length=0)
    for (model, tp), middle in zip((key for key, _ in blocks), middles):
        axis.annotate(f"{model}\nTP {tp}", (middle, 0), xycoords=("data", "axes fraction"),
                      xytext=(0, -20), textcoords="offset points", ha="center", va="top",
                      fontsize=8, color=_INK, annotation_clip=False)
    axis.set_xlim(min(places) - 0.75, max([*places, *(end + 0.5 for end in ends)]) + 0.75)


def draw_speedups(path, records, *, published=None):
    """Bars of each sublayer's speed-up over the sequential variant, and their geometric means.

    Parameters
    ----------
    path : str or Path
        Of the figure, .png or .svg.
    records : list of CaseRecord
        What was measured.
    published : list of Figure or None
        Published means to mark; from `load_published` if None.
    """
    from matplotlib.lines import Line2D

    published = load_published() if published is None else published
    made = results(records)
    groups = _grouped(made)
    means = {(row["group"], row["metric"]): row for row in summaries(made, published)}
    figure = _figure(10, 0.7 + 2.5 * len(groups))
    axes = figure.subplots(len(groups), squeeze=False, sharey=True)[:, 0]
    width, wide = 0.27, 0.64
    for axis, (group, blocks) in zip(axes, groups):
        places, middles, ends = _places(blocks, 1)
        # The means are wider, so that there is room for their values.
        end = ends[0] + 0.4
        members = [result for _, block in blocks for result in block]
        for index, (variant, (_, colour)) in enumerate(_VARIANTS.items()):
            row = means[group, f"{variant}_speedup"]
            heights = np.array([result.speedup(variant) for result in members])
            axis.bar(np.array(places) + (index - 1) * width, heights - 1, width * 0.94, bottom=1,
                     color=colour)
            middle = end + (index - 1) * wide
            axis.bar(middle, row["geomean"] - 1, wide * 0.94, bottom=1, color=colour)
            # At the foot of the bar, where no mark of a published mean is.
            axis.annotate(f"{row['geomean']:.2f}", (middle, 1), xytext=(0, 4),
                          textcoords="offset points", ha="center", fontsize=7, zorder=4,
                          color="white" if variant == "t3_mca" else "black")
            if row["published_geomean"]:
                axis.hlines(row["published_geomean"], middle - wide * 0.47, middle + wide * 0.47,
                            color="black", lw=1.8, zorder=5)
        axis.axhline(1, color=_INK, lw=1)
        _clean(axis)
        axis.spines["bottom"].set_visible(False)
        ends = [end]
        _name_blocks(axis, blocks, places, middles, ends, ["geomean"])
        axis.set_ylabel("speed-up over\nsequential")
        _title(axis, group)
    least = min(result.speedup(variant) for result in made for variant in _VARIANTS)
    axes[0].set_ylim(1 if least >= 1 else least - 0.02, None)
    _legend(figure, [Line2D([], [], color=_INK, lw=1, label="sequential"),
                     *(_patch(*entry) for entry in _VARIANTS.values()),
                     Line2D([], [], color="black", lw=1.6, label="published geomean")])
    return _save(figure, path)


def draw_traffic(path, records):
    """Bars of what crosses the memory bus by class, sequential beside T3-MCA."""
    made = results(records)
    groups = _grouped(made)
    figure = _figure(10, 0.7 + 2.5 * len(groups))
    axes = figure.subplots(len(groups), squeeze=False, sharey=True)[:, 0]
    width = 0.4
    for axis, (group, blocks) in zip(axes, groups):
        places, middles, _ = _places(blocks, 0)
        members = [result.record for _, block in blocks for result in block]
        whole = np.array([sum(record.beats["sequential"].values()) for record in members])
        for variant, shift in (("sequential", -width / 2), ("t3_mca", width / 2)):
            bottom = np.zeros(len(members))
            for name in BEATS:
                share = np.array([record.beats[variant][name] for record in members]) / whole
                axis.bar(np.array(places) + shift, share, width * 0.94, bottom=bottom,
                         color=_CLASSES[name][1])
                bottom += share
            if variant == "t3_mca":
                for place, top in zip(places, bottom):
                    axis.annotate(f"−{1 - top:.0%}" if top <= 1 else f"+{top - 1:.0%}",
                                  (place + 0.02, top), xytext=(0, 2), textcoords="offset points",
                                  ha="left", fontsize=6.5, color=_INK)
        _clean(axis)
        _name_blocks(axis, blocks, places, middles, [], [])
        axis.set_ylabel("bytes moved,\nsequential = 1")
        _title(axis, f"{group}: left sequential, right T3-MCA")
    axes[0].set_ylim(0, 1.08)
    _legend(figure, [_patch(*_CLASSES[name]) for name in BEATS])
    return _save(figure, path)


def _binned(samples, values, window):
    """Means over bins of a window, fewer if there are more than a picture shows;
    edges in cycles."""
    first, last = 0, len(values)
    if window is not None:
        first = min(int(window[0] // samples.bin_cycles), last - 1)
        last = max(min(int(-(-window[1] // samples.bin_cycles)), last), first + 1)
    step = -(-(last - first) // _MOST_BINS)
    starts = np.arange(0, last - first, step)
    sums = np.add.reduceat(np.asarray(values[first:last], float), starts)
    edges = np.array([*starts, last - first])
    return sums / np.diff(edges), (first + edges) * samples.bin_cycles


def _microseconds(cycles, controller_hz):
    return np.asarray(cycles) / controller_hz * 1e6


def draw_traffic_over_time(path, record, *, controller_hz, window=None):
    """What crosses the memory bus over time, without and with T3-MCA.

    Parameters
    ----------
    path : str or Path
        Of the figure, .png or .svg.
    record : CaseRecord
        With samples of one variant or both.
    controller_hz : float
        Cycles a second.
    window : tuple of (int, int) or None
        First and last cycle to show; None: all.

    Raises
    ------
    InputError
        If there are no samples.
    """
    shown = _sampled(record)
    figure = _figure(10, 0.9 + 2.1 * len(shown))
    axes = figure.subplots(len(shown), squeeze=False, sharex=True, sharey=True)[:, 0]
    for axis, (variant, samples) in zip(axes, shown):
        low = 0
        for name in SERIES:
            beats, edges = _binned(samples, getattr(samples, name), window)
            high = low + beats / samples.bin_cycles * 100
            axis.stairs(high, _microseconds(edges, controller_hz), baseline=low, fill=True,
                        color=_SERIES[name][1], lw=0, rasterized=True)
            low = high
        end = samples.gemm_end
        if end is not None and (window is None or window[0] <= end <= window[1]):
            _mark(axis, _microseconds(end, controller_hz), "GEMM done")
        _clean(axis)
        axis.set_ylabel("share of the memory's\npeak, %")
        _title(axis, f"{record}, {_VARIANTS[variant][0]}")
    axes[0].set_ylim(0, None)
    axes[0].margins(x=0)
    axes[-1].set_xlabel("time, µs")
    axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    _legend(figure, [_patch(*_SERIES[name]) for name in SERIES])
    return _save(figure, path)


def _mark(axis, time, label):
    axis.axvline(time, color=_INK, lw=0.9, ls=(0, (4, 2)))
    axis.annotate(label, (time, 1), xycoords=("data", "axes fraction"), xytext=(3, -2),
                  textcoords="offset points", va="top", fontsize=7.5, color=_INK)


def _sampled(record):
    shown = [(variant, record.samples[variant]) for variant in OVERLAPPED
             if variant in record.samples]
    if not shown:
        raise InputError(f"{record} has no samples over time")
    return shown


def draw_occupancy(path, record, *, controller_hz, window=None):
    """The DRAM queue's occupancy with and without T3-MCA: how often, and over time if known.

    Parameters
    ----------
    path : str or Path
        Of the figure, .png or .svg.
    record : CaseRecord
        With occupancy counters of one variant or both; perhaps with samples.
    controller_hz : float
        Cycles a second.
    window : tuple of (int, int) or None
        First and last cycle to show over time; None: all.

    Raises
    ------
    InputError
        If there are no counters of the occupancy.
    """
    counted = [(variant, record.counters[variant]["occupancy"]) for variant in OVERLAPPED
               if "occupancy" in record.counters.get(variant, {})]
    if not counted:
        raise InputError(f"{record} has no counters of the queue's occupancy")
    timed = [(variant, record.samples[variant]) for variant in OVERLAPPED
             if variant in record.samples and record.samples[variant].occupancy is not None]
    figure = _figure(10, 3.1 if timed else 3.3)
    *over_time, histogram = figure.subplots(1, 2 if timed else 1, squeeze=False,
                                            width_ratios=[3, 2] if timed else None)[0]
    for axis in over_time:
        for variant, samples in timed:
            label, colour = _VARIANTS[variant]
            means, edges = _binned(samples, samples.occupancy, window)
            axis.stairs(means, _microseconds(edges, controller_hz), color=colour, lw=1,
                        baseline=None)
        _clean(axis)
        axis.margins(x=0)
        axis.set_ylim(0, None)
        axis.set_xlabel("time, µs")
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.set_ylabel("accesses in the DRAM queue")
        _title(axis, f"{record}: mean over time")
    width = 0.8 / len(counted)
    for index, (variant, cycles) in enumerate(counted):
        share = np.array(cycles) / max(sum(cycles), 1) * 100
        histogram.bar(np.arange(len(cycles)) + (index - (len(counted) - 1) / 2) * width, share,
                      width * 0.94, color=_VARIANTS[variant][1])
    _clean(histogram)
    histogram.set_xticks(range(len(OCCUPANCY_BUCKETS)), OCCUPANCY_BUCKETS)
    histogram.tick_params(axis="x", length=0)
    histogram.set_xlabel("accesses in the DRAM queue")
    histogram.set_ylabel("share of the cycles, %")
    _title(histogram, "how often" if timed else f"{record}: how often")
    _legend(figure, [_patch(*_VARIANTS[variant]) for variant, _ in counted])
    return _save(figure, path)


def draw_sweep(path, name, points, *, title=None):
    """Lines of how the speed-ups move with what is swept.

    Parameters
    ----------
    path : str or Path
        Of the figure, .png or .svg.
    name : str
        Of `SWEEPS`.
    points : list of SweepPoint
        In any order. A point without a value (no limit) stands at the right, apart from the others.
    title : str or None
        What was run.

    Raises
    ------
    InputError
        If there is no such sweep, or there are no points.
    """
    if name not in SWEEPS:
        raise InputError(f"no sweep {name!r}; sweeps are {', '.join(SWEEPS)}")
    if not points:
        raise InputError(f"sweep {name!r} has no points")
    label, logarithmic = SWEEPS[name]
    logarithmic = logarithmic and all(point.value is None or point.value > 0 for point in points)
    limited = sorted((point for point in points if point.value is not None),
                     key=lambda point: point.value)
    values = [point.value for point in limited]
    unlimited = [point for point in points if point.value is None]
    if not values:
        beyond = 1.0
    elif logarithmic:
        beyond = values[-1] * max((values[-1] / values[0]) ** 0.12, 1.3)
    else:
        beyond = values[-1] + max((values[-1] - values[0]) * 0.12, 1)
    figure = _figure(6.4, 3.6)
    axis = figure.subplots()
    styles = {"t3": ("o", "-"), "t3_mca": ("s", "-"), "ideal": ("", (0, (4, 2)))}
    for variant, (text, colour) in _VARIANTS.items():
        marker, dashes = styles[variant]
        style = {"marker": marker or None, "color": colour if marker else _FAINT, "ms": 4.5,
                 "lw": 1.6}
        axis.plot(values, [getattr(point, f"{variant}_speedup") for point in limited], ls=dashes,
                  label=text, **style)
        for point in unlimited:
            ends = [*limited[-1:], point]
            axis.plot([*values[-1:], beyond], [getattr(end, f"{variant}_speedup") for end in ends],
                      **style | {"ls": ":", "lw": 1, "markevery": [-1]})
    if logarithmic:
        axis.set_xscale("log")
    axis.set_xticks([*values, *([beyond] if unlimited else [])],
                    [*(f"{value:g}" for value in values), *(["none"] if unlimited else [])])
    axis.minorticks_off()
    _clean(axis)
    axis.set_xlabel(label)
    axis.set_ylabel("speed-up over sequential, geomean")
    if title:
        _title(axis, title)
    axis.legend(fontsize=8, frameon=False, labelcolor=_INK)
    return _save(figure, path)


def draw_all(folder, records, *, controller_hz, kind="png", sweeps=None, published=None):
    """All figures that the data suffice for, in a folder that is made if it is not there.

    Parameters
    ----------
    folder : str or Path
        Where they go.
    records : list of CaseRecord
        What was measured. Each with samples has figures of its own.
    controller_hz : float
        Cycles a second.
    kind : str
        ``"png"`` or ``"svg"``.
    sweeps : dict of str to list of SweepPoint, optional
        Sweeps by name.
    published : list of Figure or None
        As in `draw_speedups`.

    Returns
    -------
    list of Path
        The files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = [draw_speedups(folder / f"speedups.{kind}", records, published=published),
             draw_traffic(folder / f"traffic.{kind}", records)]
    for record in records:
        stem = str(record).lower().replace(" ", "-")
        if record.samples:
            files.append(draw_traffic_over_time(folder / f"traffic-over-time-{stem}.{kind}", record,
                                                controller_hz=controller_hz))
            files.append(draw_occupancy(folder / f"occupancy-{stem}.{kind}", record,
                                        controller_hz=controller_hz))
    for name, points in (sweeps or {}).items():
        files.append(draw_sweep(folder / f"sweep-{name}.{kind}", name, points))
    return files
