"""Random rings by the hundred, each compared with the reference bit for bit.

``python -m t3hw.cosim.campaign --runs 300 --simulator both``: 300 seeds on Verilator, and those
that are multiples of `QUICK_EVERY` on Icarus as well, where they must take the same number of
cycles. The exit code is 1 if anything was wrong. ``--seed S --runs 1`` repeats one case.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import sys
import threading
import time
from pathlib import Path

from .random_case import QUICK_EVERY, draw_case, run_case
from .session import RingSimulation
from .simulators import SIMULATORS

__all__ = ["main"]


def main(arguments=None):
    """Run the campaign; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m t3hw.cosim.campaign", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="seeds (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first one (default: %(default)s)")
    parser.add_argument("--simulator", choices=(*SIMULATORS, "both"), default="verilator")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="simulations at a time (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the simulations' files")
    parser.add_argument("--dram", action="store_true",
                        help="rings whose memory is a DRAM, where a seed's ring has one")
    options = parser.parse_args(arguments)
    simulators = SIMULATORS if options.simulator == "both" else (options.simulator,)
    campaign = _Campaign(simulators, options.keep, options.dram)
    start = time.monotonic()
    seeds = range(options.seed, options.seed + options.runs)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        records = list(pool.map(campaign.run, seeds))
    failures = [record for record in records if record["problems"]]
    compared = sum(len(record["simulators"]) > 1 for record in records)
    summary = {
        "schema": 1,
        "runs": len(records),
        "failures": len(failures),
        "simulators": dict(campaign.count),
        "equal_cycles": compared - sum(record.get("cycles_differ", False) for record in records),
        "compared": compared,
        "cycles": dict(campaign.cycles),
        "seconds": round(time.monotonic() - start),
        "seeds": [seeds.start, seeds.stop - 1],
        "failed_seeds": [record["seed"] for record in failures],
        "cases": records,
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(_as_json(summary))
    runs = ", ".join(f"{count} on {simulator}" for simulator, count in campaign.count.items())
    failed = "".join(f" {seed}" for seed in summary["failed_seeds"])
    print(f"{len(records)} cases ({runs}); {summary['equal_cycles']} of {compared} in as many "
          f"cycles on both; {len(failures)} failed{failed}")
    return 1 if failures else 0


class _Campaign:
    """Builds each ring once, and runs cases on them from several threads."""

    def __init__(self, simulators, keep, dram):
        self._simulators = simulators
        self._dram = dram
        self._keep = keep
        self._builds = {}
        self._building = collections.defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self.count = collections.Counter()
        self.cycles = collections.Counter()

    def _simulation(self, case, simulator):
        key = case.config.name, case.devices, simulator
        with self._lock:
            building = self._building[key]
        with building:
            if key not in self._builds:
                self._builds[key] = RingSimulation(case.config, case.devices, simulator=simulator)
            return self._builds[key]

    def run(self, seed):
        """One case, on all simulators that it is for."""
        case = draw_case(seed, dram=self._dram)
        simulators = self._simulators
        if len(simulators) > 1 and seed % QUICK_EVERY:
            simulators = simulators[:1]
        outcomes = {}
        for simulator in simulators:
            outcomes[simulator] = run_case(
                case, self._simulation(case, simulator),
                directory=self._keep and self._keep / f"{seed}-{simulator}")
        problems = [f"{simulator}: {problem}" for simulator, outcome in outcomes.items()
                    for problem in outcome.problems]
        differ = len({outcome.timing for outcome in outcomes.values()}) > 1
        if differ:
            problems.append("cycles or counters differ: " + "; ".join(
                f"{simulator} {outcome.timing}" for simulator, outcome in outcomes.items()))
        with self._lock:
            for simulator, outcome in outcomes.items():
                self.count[simulator] += 1
                self.cycles[simulator] += outcome.cycles
            print(f"{'FAILED' if problems else 'ok'} on {', '.join(simulators)}, "
                  f"{outcomes[simulators[0]].cycles} cycles: {case}",
                  *(f"\n    {problem}" for problem in problems), flush=True)
        record = case.as_dict() | {"simulators": list(simulators), "problems": problems,
                                   "cycles": outcomes[simulators[0]].cycles}
        return record | ({"cycles_differ": True} if differ else {})


def _as_json(summary):
    """JSON with a line for each case."""
    cases = ",\n    ".join(json.dumps(record) for record in summary["cases"])
    head = json.dumps(summary | {"cases": []}, indent=2)
    return head.replace('"cases": []', f'"cases": [\n    {cases}\n  ]') + "\n"


if __name__ == "__main__":
    sys.exit(main())
