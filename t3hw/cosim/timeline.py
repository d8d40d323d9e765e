"""What each device of a ring did, and when: a page to explore, and a picture, from the trace logs.

Runs stand one above the other on one scale, such as the overlapped and the sequential one.
"""

import dataclasses
import html
import json
import math
import os
import re
from pathlib import Path

import numpy as np

__all__ = ["ACTIVITY", "DeviceLog", "Run", "parse_trace", "read_run", "write_timeline"]

#: Columns of an activity line of a trace log; see verilog/trace_log.sv.
ACTIVITY = ("producer", "remote", "local", "incoming", "memory", "dma", "tx", "rx")

#: Colour of a chunk, on light and on dark ground.
CHUNK_COLOURS = (
    ("#2563c9", "#6ea8ff"), ("#d9730d", "#ffab5c"), ("#12886a", "#4fd1ac"), ("#b83280", "#f387c4"),
    ("#6d4bc3", "#b49bff"), ("#8c7a00", "#e3cf4d"), ("#0e8aa0", "#5fd4e8"), ("#a8402f", "#f08c78"),
)

_TEMPLATE = Path(__file__).with_name("timeline.html")
#: Bins of a lane that a page holds at most: more than a screen has pixels, to zoom into. A picture
#: has no more than it can show.
_PAGE_BINS, _PICTURE_BINS = 4000, 1500


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceLog:
    """One device's log. Cycles count from the run's start.

    Parameters
    ----------
    bin : int
        Cycles of one entry of ``activity``.
    activity : dict of str to array
        Beats in each bin, for each of `ACTIVITY`.
    fulls : list of (int, int)
        Cycle and slot of each tile that became full.
    commands : list of (int, int or None, int)
        Cycle in which each DMA command fired, in which it was done, and its first slot.
    produced : tuple of (int, int) or None
        Cycles in which the producer started and ended.
    first_reads : list of int
        Cycles in which the first read of each command was asked for.
    done : int or None
        Cycle in which the plan was done.
    """

    bin: int
    activity: dict
    fulls: list
    commands: list
    produced: tuple | None
    first_reads: list
    done: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a ring: a label, its length in cycles, the log of each device, and its plan.

    The plan may be None; it gives everything the colour of its chunk.
    """

    label: str
    cycles: int
    devices: list
    plan: object = None


def read_run(label, directory, devices, *, start=0, end=None, plan=None):
    """Read the trace logs of a run.

    Parameters
    ----------
    label : str
        Heading of the run.
    directory : path-like
        Where the simulation ran, with ``trace_bin`` set.
    devices : int
        Devices of the ring.
    start, end : int
        Cycles of the simulation between which the run lies; ``end`` None: to the last event.
    plan : Plan or None
        What the devices ran.

    Activity is placed to the bin, events to the cycle.

    Raises
    ------
    ValueError
        If a log is not one.
    """
    logs = [parse_trace(Path(directory) / f"trace{device}.txt") for device in range(devices)]
    if end is None:
        end = 1 + max((line[0] for _, lines in logs
                       for letter, line in lines if letter not in "AO"), default=start)
    return Run(label=label, cycles=end - start, plan=plan,
               devices=[_device_log(bin_, lines, start, end) for bin_, lines in logs])


def parse_trace(path):
    """A trace log's bin, and its lines as pairs of a letter and integers."""
    lines = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        letter, *values = line.split()
        try:
            lines.append((letter, [int(value) for value in values]))
        except ValueError:
            raise ValueError(f"{path}, line {number}: no trace log: {line!r}") from None
    if not lines or lines[0][0] != "T":
        raise ValueError(f"{path} does not begin like a trace log")
    return lines[0][1][0], lines[1:]


def _device_log(bin_, lines, start, end):
    first = start // bin_
    activity = np.zeros((len(ACTIVITY), -(-end // bin_) - first), np.int64)
    events = {letter: [] for letter in "FXBRCPSE"}
    for letter, (cycle, *values) in lines:
        if letter == "A":
            if 0 <= cycle // bin_ - first < activity.shape[1]:
                activity[:, cycle // bin_ - first] = values
        elif letter == "O":
            continue
        elif start <= cycle < end:
            events[letter].append((cycle - start, *values))
    fired, done = events["X"], [cycle for cycle, in events["C"]]
    done += [None] * (len(fired) - len(done))
    starts, ends = events["S"], events["E"]
    return DeviceLog(
        bin=bin_, activity=dict(zip(ACTIVITY, activity)), fulls=events["F"],
        # One command is at work at a time, so they are done in the order in which they fired.
        commands=[(cycle, last, slot) for (cycle, slot), last in zip(fired, done)],
        produced=(starts[0][0], ends[-1][0]) if starts and ends else None,
        first_reads=[cycle for cycle, in events["R"]],
        done=events["P"][0][0] if events["P"] else None)


class _Chunks:
    """What a plan says of slots: chunk and tile of each, and the order of a producer's chunks."""

    def __init__(self, plan):
        self._plan = plan
        tiles = [tile for chunk in plan.chunks for tile in chunk.tiles] if plan else []
        number = {(tile.chunk, tile.wg, tile.wf): index for index, tile in enumerate(tiles)}
        self._slots = [
            {entry.slot: (entry.tile.chunk, number[entry.tile.chunk, entry.tile.wg, entry.tile.wf])
             for entry in device_plan.tiles} for device_plan in (plan.device_plans if plan else ())]

    def of_slot(self, device, slot):
        """Chunk and tile number of a slot; -1 where they are not known."""
        return self._slots[device].get(slot, (-1, -1)) if self._slots else (-1, -1)

    def tiles_of_command(self, device, first):
        """Tile numbers that a command moves."""
        if not self._slots:
            return []
        count = next((command.count for command in self._plan.device_plans[device].commands
                      if command.first == first), 1)
        return [self.of_slot(device, slot)[1] for slot in range(first, first + count)]

    def produced(self, device, beats):
        """Chunk that the producer was at in each bin, from the beats that it wrote."""
        if not self._slots:
            return np.full(len(beats), -1)
        stages = self._plan.device_plans[device].stages
        sizes = np.cumsum([self._plan.chunks[stage.chunk].bytes for stage in stages])
        reached = np.cumsum(beats) / max(beats.sum(), 1) * sizes[-1]
        order = np.searchsorted(sizes, reached - 1e-6)
        return np.array([stage.chunk for stage in stages])[np.minimum(order, len(stages) - 1)]


def write_timeline(path, runs, *, title, facts=()):
    """Write the page to ``path`` and the picture beside it, with the ending ``.png``.

    Parameters
    ----------
    path : path-like
        The page; an HTML file that needs nothing else.
    runs : sequence of Run
        From top to bottom. They share the scale.
    title : str
        Heading.
    facts : iterable of (str, str)
        Names and values to show below it.

    Returns
    -------
    tuple of Path
        The page and the picture.
    """
    path = Path(path)
    content = {
        "title": title,
        "facts": [list(fact) for fact in facts],
        "colours": CHUNK_COLOURS,
        "chunks": _chunk_count(runs),
        "runs": [_page_run(run) for run in runs],
    }
    # A closing tag in a text must not close the script.
    parts = {"TITLE": html.escape(title),
             "DATA": json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")}
    text = re.sub("%(TITLE|DATA)%", lambda match: parts[match[1]], _TEMPLATE.read_text())
    _write(path, lambda partial: partial.write_text(text))
    picture = path.with_suffix(".png")
    _write(picture, lambda partial: _draw(partial, runs, title, facts))
    return path, picture


def _write(path, write):
    """Write a file so that nobody sees half of it."""
    partial = path.with_name(f"{path.name}.part")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _chunk_count(runs):
    return max((len(run.plan.chunks) for run in runs if run.plan), default=0)


def _summed(log, most):
    """Activity in fewer, longer bins, at most ``most``: their length, and the beats in each."""
    bins = len(log.activity["producer"])
    group = max(math.ceil(bins / most), 1)
    return log.bin * group, {name: np.add.reduceat(beats, range(0, bins, group)) if bins else beats
                             for name, beats in log.activity.items()}


def _page_run(run):
    chunks = _Chunks(run.plan)
    devices = []
    for index, log in enumerate(run.devices):
        bin_, activity = _summed(log, _PAGE_BINS)
        devices.append({
            "bin": bin_,
            "activity": {name: beats.tolist() for name, beats in activity.items()},
            "stage": chunks.produced(index, activity["producer"]).tolist(),
            "fulls": [[cycle, slot, *chunks.of_slot(index, slot)] for cycle, slot in log.fulls],
            "commands": [[start, end, slot, chunks.of_slot(index, slot)[0],
                          chunks.tiles_of_command(index, slot)]
                         for start, end, slot in log.commands],
            "produced": log.produced,
            "done": log.done,
        })
    return {"label": run.label, "cycles": run.cycles, "devices": devices}


def _colour(chunk):
    return CHUNK_COLOURS[chunk % len(CHUNK_COLOURS)][0] if chunk >= 0 else "#6b7280"


def _draw(path, runs, title, facts):
    # Not pyplot: no state that outlives this call, and no window system.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    heights = [len(run.devices) for run in runs]
    figure = Figure(figsize=(14, 1.5 + sum(1.35 * height + 0.75 for height in heights)), dpi=120,
                    layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(runs), squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for run, axis in zip(runs, axes):
        _draw_run(axis, run)
    axes[-1].set_xlabel("cycles")
    axes[-1].set_xlim(0, max(run.cycles for run in runs))
    axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    legend = [(f"chunk {chunk}", _colour(chunk)) for chunk in range(_chunk_count(runs))]
    legend += [*_MEMORY, ("waiting for communication", _EXPOSED)]
    figure.legend(handles=[Patch(color=colour, label=label) for label, colour in legend],
                  loc="outside lower center", ncols=min(len(legend), 8), fontsize=8, frameon=False)
    figure.suptitle("\n".join(filter(None, [
        title, "    ".join(f"{name}: {value}" for name, value in facts)])), fontsize=11)
    figure.savefig(path, format="png")


_EXPOSED = "#f3e3c7"

#: What a memory does, from the bottom of its lane to the top, and the colours.
_MEMORY = (("own stores", "#475569"), ("incoming updates", "#38a3a5"), ("reads", "#cbd5e1"))

#: Lanes of a device, from top to bottom.
_LANES = ("producer", "memory", "tracker", "DMA", "link")


def _draw_run(axis, run):
    chunks = _Chunks(run.plan)
    ends = [log.produced[1] for log in run.devices if log.produced]
    if ends:
        axis.axvspan(max(ends), run.cycles, color=_EXPOSED, lw=0, zorder=0)
    ticks, names = [], []
    for index, log in enumerate(run.devices):
        base = -index * (len(_LANES) + 0.6)
        bin_, activity = _summed(log, _PICTURE_BINS)
        edges = np.arange(len(activity["producer"]) + 1) * bin_
        rate = {name: np.minimum(beats / bin_, 1) for name, beats in activity.items()}

        def area(lane, low, high, colour):
            bottom = base - lane - 0.9
            axis.stairs(bottom + 0.8 * high, edges, baseline=bottom + 0.8 * low, fill=True,
                        color=colour, lw=0)

        stage = chunks.produced(index, activity["producer"])
        at_work = np.zeros(len(stage), bool)
        if log.produced:
            at_work[log.produced[0] // bin_:log.produced[1] // bin_ + 1] = True
        for chunk in np.unique(stage):
            # A tint for the stage, whatever its pace.
            area(0, 0, np.where((stage == chunk) & at_work, 1, 0), _colour(chunk) + "38")
            area(0, 0, np.where(stage == chunk, rate["producer"], 0), _colour(chunk))
        own = rate["local"]
        written = np.minimum(own + rate["incoming"], 1)
        for (_, colour), low, high in zip(_MEMORY, (0, own, written),
                                          (own, written, np.maximum(rate["memory"], written))):
            area(1, low, high, colour)
        for chunk in sorted({chunks.of_slot(index, slot)[0] for _, slot in log.fulls}):
            cycles = [cycle for cycle, slot in log.fulls if chunks.of_slot(index, slot)[0] == chunk]
            axis.vlines(cycles, base - 2.9, base - 2.1, color=_colour(chunk), lw=0.9)
        axis.broken_barh(
            [(start, max((run.cycles if end is None else end) - start, 1))
             for start, end, _ in log.commands], (base - 3.9, 0.8), lw=0.2, edgecolors="white",
            facecolors=[_colour(chunks.of_slot(index, slot)[0]) for _, _, slot in log.commands])
        area(4, 0, rate["tx"], "#64748b")
        if log.done is not None:
            axis.plot(log.done, base - len(_LANES) / 2, marker=9, color="black", ms=6,
                      clip_on=False)
        ticks += [base - lane - 0.5 for lane in range(len(_LANES))]
        names += [f"device {index}   {name}" if lane == 0 else name
                  for lane, name in enumerate(_LANES)]
    axis.set_yticks(ticks, names, fontsize=7)
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(-len(run.devices) * (len(_LANES) + 0.6) + 0.4, 0.1)
    axis.set_title(f"{run.label}: {run.cycles:,} cycles", fontsize=10, loc="left")
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
