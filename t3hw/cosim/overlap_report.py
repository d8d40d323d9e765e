"""What came of the main experiment: as data, as text, and as a timeline."""

import statistics

from .timeline import write_timeline

__all__ = ["draw", "report", "summary"]


def summary(experiment, outcome):
    """The outcome as the plain data of ``t3hw sim --json``."""
    latencies = outcome.trigger_latencies
    operands = experiment.operands
    return {
        "schema": 1,
        "collective": "reduce-scatter",
        "devices": experiment.devices,
        "m": operands.m,
        "n": operands.n,
        "k": operands.k,
        "dtype": operands.dtype,
        "seed": experiment.seed,
        "simulator": experiment.simulator,
        "bit_exact": outcome.mismatches == 0,
        "mismatches": outcome.mismatches,
        "cycles": outcome.cycles,
        "trigger_latency_cycles": {
            "min": min(latencies, default=None),
            "median": statistics.median(latencies) if latencies else None,
            "max": max(latencies, default=None),
        },
        "bytes_per_device": [
            {
                "output": outcome.plan.output_bytes,
                "producer_write": counters["producer_write_bytes"],
                "remote_write": counters["remote_write_bytes"],
                "incoming_update": counters["incoming_update_bytes"],
                "dma_read": counters["dma_read_bytes"],
            } for counters in outcome.overlapped.counters],
        "errors": [
            {"run": name, "device": device, "causes": list(errors.causes), "count": errors.count}
            for name, result in (("overlapped", outcome.overlapped),
                                 ("sequential", outcome.sequential))
            for device, errors in enumerate(result.errors) if errors
        ] + [
            {"run": name, "device": device, "causes": ["PRODUCER_RESPONSE"], "count": count}
            for name, result in (("overlapped", outcome.overlapped),
                                 ("sequential", outcome.sequential))
            for device, count in enumerate(result.player_errors) if count
        ],
    }


def report(experiment, outcome):
    """The outcome as text for people."""
    facts = summary(experiment, outcome)
    cycles = facts["cycles"]
    operands = experiment.operands
    latency = facts["trigger_latency_cycles"]
    hidden = _hidden(cycles)
    lines = [
        f"{operands.m} x {operands.n} x {operands.k} {operands.dtype} ({operands.source}) on "
        f"{experiment.devices} devices, {experiment.config.data_width}-bit, {experiment.simulator}",
        "",
        "bit-exact: yes, every element of every chunk, in both runs" if facts["bit_exact"] else
        f"bit-exact: NO, {facts['mismatches']} elements differ from the reference",
        "",
        f"cycles  GEMM alone                {cycles['producer']:>10,}",
        f"        reduce-scatter after it   {cycles['sequential']:>10,}",
        f"        reduce-scatter overlapped {cycles['overlapped']:>10,}   "
        f"{cycles['sequential'] / cycles['overlapped']:.2f} x as fast"
        + ("" if hidden is None else f", {hidden:.0%} of the reduce-scatter hidden"),
        "",
        "bytes per device     written to memory       formula   read by DMA       formula",
    ]
    for device, (counters, device_plan) in enumerate(zip(outcome.overlapped.counters,
                                                         outcome.plan.device_plans, strict=True)):
        written = counters["producer_write_bytes"] + counters["incoming_update_bytes"]
        lines.append(
            f"        device {device}     {written:>17,}  "
            f"{device_plan.traffic.memory_write_bytes:>12,}   "
            f"{counters['dma_read_bytes']:>11,}  {device_plan.traffic.dma_read_bytes:>12,}")
    count = experiment.devices
    lines += [
        "        mean of output     "
        f"{_mean(outcome, 'producer_write_bytes', 'incoming_update_bytes'):>11.4f}"
        f"  (2N-2)/N = {(2 * count - 2) / count:.2f}   {_mean(outcome, 'dma_read_bytes'):>11.4f}"
        f"  (N-2)/N = {(count - 2) / count:.2f}",
        "",
        "trigger latency      no DMA commands in a ring of two" if latency["median"] is None else
        f"trigger latency      {latency['min']} to {latency['max']} cycles, "
        f"median {latency['median']:g}: "
        "from the commit of a command's last update to its first read",
    ]
    if facts["errors"]:
        lines.append("")
        lines += [f"ERRORS  {error['run']}, device {error['device']}: {', '.join(error['causes'])} "
                  f"({error['count']})" for error in facts["errors"]]
    return "\n".join(lines)


def _hidden(cycles):
    """Share of the reduce-scatter's time that the overlap hides."""
    exposed = cycles["sequential"] - cycles["producer"]
    if exposed <= 0:
        return None
    return (cycles["sequential"] - cycles["overlapped"]) / exposed


def _mean(outcome, *names):
    """Bytes of some classes over the output, mean of all devices."""
    total = sum(counters[name] for counters in outcome.overlapped.counters for name in names)
    return total / len(outcome.overlapped.counters) / outcome.plan.output_bytes


def draw(path, experiment, outcome):
    """Write the timeline, as a page and a picture."""
    cycles = outcome.cycles
    operands = experiment.operands
    return write_timeline(
        path, outcome.runs, title=f"Reduce-scatter of {operands.m} x {operands.n} {operands.dtype} "
                                  f"in a ring of {experiment.devices}",
        facts=[("input", operands.source),
               ("bit-exact",
                "yes" if outcome.mismatches == 0 else f"NO: {outcome.mismatches} differ"),
               ("overlapped", f"{cycles['overlapped']:,} cycles"),
               ("sequential", f"{cycles['sequential']:,} cycles"),
               ("speed-up", f"{cycles['sequential'] / cycles['overlapped']:.2f} x")])
