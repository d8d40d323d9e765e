"""Whether one node whose link comes back to it behaves as each node of a real ring does."""

from t3hw.bench import Row
from t3hw.perf.machine import Machine
from t3hw.perf.sublayer_slice import SublayerSlice
from t3hw.workloads.sublayers import Model

from .bench import node_verilog
from .session import RingSimulation
from .sublayer_run import SublayerRun, run_sublayer, slice_config

__all__ = ["bench_loop_back", "compare"]

#: Of the sublayer that is run: 256 workgroups, in stages of 80.
TOKENS = HIDDEN = 2048

#: Of the memory's refresh, times this, is a multiple of all that the hardware repeats by itself.
#: Without the same phase, a ring and a loop-back node would be as alike as two runs of one of them.
_PERIOD = 128

#: Counters that go on when a run is over, until software reads them.
_GO_ON = ("cycles", "occupancy_0", "dram_refreshes", "dram_precharges")


def compare(alone, ring):
    """Largest relative difference of cycles, and of counters, over all phases and devices.

    Counters are the node's, but for `_GO_ON`, and the engines'.

    Parameters
    ----------
    alone, ring : dict of str to Phase
        From `run_sublayer`, on a loop-back node and on a ring.

    Returns
    -------
    tuple of (float, float)
        Fractions.
    """
    cycles = counts = 0.0
    for name, phase in alone.items():
        expected, length = _all_counters(phase, 0), phase.cycles[0]
        for device, took in enumerate(ring[name].cycles):
            cycles = max(cycles, abs(took - length) / length)
            for counter, value in _all_counters(ring[name], device).items():
                if counter not in _GO_ON:
                    counts = max(counts, abs(value - expected[counter]) / max(expected[counter], 1))
    return cycles, counts


def _all_counters(phase, device):
    """The node's and its engine's."""
    return phase.counters[device] | {
        f"engine_{name}": value for name, value in phase.engine[device].items()}


def bench_loop_back(sizes=(2, 4, 8), *, seed=1):
    """Run a sublayer in all variants on rings and on loop-back nodes, checked bit for bit.

    Returns
    -------
    list of Row
        Differences in per cent.
    """
    machine = Machine.preset()
    config = slice_config(machine, memory_bytes=1 << 18, tiles=2048)
    node = node_verilog(config, traffic=True)
    rows = []
    for devices in sizes:
        model = Model(name="ring", hidden=HIDDEN, layers=1, sequence=TOKENS, batch=1, heads=32,
                      tp=(devices,))
        sublayer = model.sublayer("FC-2", devices)
        baseline, t3 = (SublayerSlice(sublayer=sublayer, machine=machine, mode=mode)
                        for mode in ("baseline", "t3"))
        run = SublayerRun(baseline=baseline, t3=t3, check=True, seed=seed,
                          align=_PERIOD * config.dram.tREFI)
        alone, ring = (RingSimulation(config, count, node=node).run(
            run_sublayer, run, cycles=1 << 40) for count in (1, devices))
        cycles, counts = compare(alone, ring)
        rows += [
            Row(name=f"ring of {devices} against the loop-back node, cycles, largest difference",
                value=100 * cycles, unit="%", goal=0.5, better="lower"),
            Row(name=f"ring of {devices} against the loop-back node, counters, largest difference",
                value=100 * counts, unit="%", goal=0.5, better="lower")]
    return rows
