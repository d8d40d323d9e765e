"""Timing by block, from the report of place and route."""

from .utilisation import block_of

__all__ = ["limiting_path", "slowest_by_block"]


def _ends(path):
    return path["from"], path["to"]


def limiting_path(report):
    """The slowest path from the clock to the clock: steps of ``delay`` in ns,
    ``what`` and ``where``."""
    paths = [path for path in report["critical_paths"]
             if all("posedge" in end for end in _ends(path))]
    if not paths:
        return []
    steps = max(paths, key=lambda path: sum(step["delay"] for step in path["path"]))["path"]
    return [{"delay": step["delay"], "what": step["type"],
             "where": step.get("net") or step["to"]["cell"]} for step in steps]


def slowest_by_block(report, scopes):
    """Longest time in ns from the clock to a register's input,
    by the block that the register is in.

    Parameters
    ----------
    report : dict
        nextpnr's, with detailed timing.
    scopes : set of str
        Names of the instances.
    """
    slowest = {}
    for net in report.get("detailed_net_timings", ()):
        for end in net["endpoints"]:
            block = block_of(end["cell"], scopes)
            _shortest, longest = end["delay"]
            slowest[block] = max(slowest.get(block, 0.0), longest)
    return dict(sorted(slowest.items(), key=lambda item: -item[1]))
