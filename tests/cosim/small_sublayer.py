"""A sublayer small enough for tests, and the machine that it runs on: one channel, few units."""

import functools

from t3hw.config import DTYPE_NAMES
from t3hw.cosim.bench import node_verilog
from t3hw.cosim.session import RingSimulation
from t3hw.cosim.sublayer_run import SublayerRun, slice_config
from t3hw.dram import DramTiming
from t3hw.perf.machine import Machine
from t3hw.perf.sublayer_slice import SublayerSlice
from t3hw.workloads.sublayers import Model

#: Refreshes are a power of two apart: all that the hardware repeats by itself has this period.
ALIGN = 2048

MACHINE = Machine.preset().replace(
    name="small", units=8, flops_per_clock=128, tile_rows=16, tile_columns=16, cache_bytes=72 << 10,
    memory_timing=DramTiming.preset("hbm2").replace(window=16, t_refi="4.096 us"),
    memory_bytes_per_second=16e9, link_bytes_per_second=3e9, link_latency_seconds=100e-9,
    compute_queue=16, communication_queue=16, occupancy_thresholds=(5, 10, 15, 0))

#: The node, with adders of all types, so that one build serves all tests.
CONFIG = slice_config(MACHINE, data_width=32, memory_bytes=1 << 15, tiles=256).replace(
    dtypes=DTYPE_NAMES, link_max_latency=64)


def small_run(devices, *, size=128, name="FC-2", machine=MACHINE, **options):
    """A run of a sublayer whose output is ``size x size``, checked bit for bit."""
    model = Model(name="small", hidden=size, layers=1, sequence=size, batch=1, heads=8,
                  tp=(devices,))
    baseline, t3 = (SublayerSlice(sublayer=model.sublayer(name, devices), machine=machine,
                                  mode=mode)
                    for mode in ("baseline", "t3"))
    return SublayerRun(baseline=baseline, t3=t3, **{"check": True, "align": ALIGN} | options)


@functools.cache
def simulation(devices=1, simulator="verilator"):
    """The loop-back node, or a ring."""
    return RingSimulation(CONFIG, devices, simulator=simulator,
                          node=node_verilog(CONFIG, traffic=True))
