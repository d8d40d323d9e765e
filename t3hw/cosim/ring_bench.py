"""Traffic and speed of simulated rings."""

import dataclasses
import tempfile
import time
from pathlib import Path

from t3hw.runtime.device import Device
from t3hw.runtime.functional_ring import FunctionalRing
from t3hw.runtime.plan import ring_reduce_scatter
from t3hw.workloads import random_operands
from t3hw.workloads.gemm import producer_writes

from .ring_run import Settings, player_bursts, run_plan
from .script import write_script
from .session import RingSimulation

__all__ = ["RingSpeed", "formulas", "measure_functional_traffic", "measure_speed",
           "measure_traffic", "traffic_difference"]

_DTYPE = "bfloat16"
_TILE = 4, 16


def formulas(devices, output_bytes):
    """Bytes that each device of a ring moves, where chunks are equal, by counter."""
    chunk, rest = divmod(output_bytes, devices)
    if rest:
        raise ValueError(f"{output_bytes} bytes are not {devices} equal chunks")
    return {
        "producer_write_bytes": (devices - 1) * chunk,
        "incoming_update_bytes": (devices - 1) * chunk,
        "dma_read_bytes": (devices - 2) * chunk,
        "remote_write_bytes": chunk,
        "incoming_store_bytes": 0,
    }


def traffic_difference(counters, expected):
    """Bytes, over all devices and classes, by which counters differ from what is expected."""
    return sum(abs(device[name] - count) for device in counters for name, count in expected.items())


def _equal_chunks(devices, config):
    """A plan and a GEMM of which each device has one chunk of two tiles."""
    plan = ring_reduce_scatter(m=_TILE[0] * devices, n=2 * _TILE[1], dtype=_DTYPE, devices=devices,
                               config=config, tile=_TILE)
    gemm = random_operands(m=plan.layout.m, n=plan.layout.n, k=8 * devices, dtype=_DTYPE,
                           seed=devices).gemm(devices)
    return plan, gemm


def _write_scripts(directory, plan, gemm, config, pace=1):
    """Files with what each device's producer does."""
    scripts = {}
    for device in range(plan.devices):
        scripts[device] = Path(directory, f"producer{device}.bin").absolute()
        stores = producer_writes(plan, device, gemm.partials[device], config)
        write_script(scripts[device], player_bursts(stores, pace), beat_bytes=config.beat_bytes)
    return scripts


def measure_functional_traffic(devices, config):
    """Bytes by which a ring of functional devices misses `formulas`."""
    plan, gemm = _equal_chunks(devices, config)
    ring = FunctionalRing(devices, config, seed=devices)
    drivers = [Device(node, config=config) for node in ring.devices]
    for driver, device_plan in zip(drivers, plan.device_plans):
        driver.program(device_plan)
    for driver in drivers:
        driver.clear_counters()
        driver.arm(plan.index)
    for device, partial in enumerate(gemm.partials):
        stores = producer_writes(plan, device, partial, config)
        ring.produce(device, (store for burst in stores for store in burst.stores()))
    for driver in drivers:
        driver.wait(plan.index)
    return traffic_difference([driver.counters() for driver in drivers],
                              formulas(devices, plan.output_bytes))


def measure_traffic(devices, config, simulator):
    """Bytes by which a ring of real nodes misses `formulas`,
    and least trigger latency in cycles."""
    plan, gemm = _equal_chunks(devices, config)
    ring = RingSimulation(config, devices, simulator=simulator)
    with tempfile.TemporaryDirectory(prefix="t3hw-") as directory:
        result = ring.run(run_plan, plan, _write_scripts(directory, plan, gemm, config), Settings())
    latencies = [device["trigger_latency_min"] for device in result.counters
                 if device["trigger_latency_count"]]
    return (traffic_difference(result.counters, formulas(devices, plan.output_bytes)),
            min(latencies, default=None))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RingSpeed:
    """How fast a ring was simulated.

    Parameters
    ----------
    cycles : int
        From the producers' first store until the first of them had no more.
    seconds : float
        What they took.
    processor_seconds : float
        What they took of the simulator's processor.
    trigger_latency : int
        Least of all devices, in cycles.
    difference : int
        Bytes by which the ring missed `formulas`.
    """

    cycles: int
    seconds: float
    processor_seconds: float
    trigger_latency: int
    difference: int

    @property
    def rate(self):
        """Cycles a second."""
        return self.cycles / self.seconds

    @property
    def processor_rate(self):
        """Cycles a second of processor time, which other work on the machine hardly changes."""
        return self.cycles / self.processor_seconds


def measure_speed(config, *, devices=4, simulator="verilator", m=256, n=512, runs=3):
    """Simulate a ring in which all producers store a beat every other cycle;
    the fastest run counts.

    Returns
    -------
    RingSpeed
    """
    plan = ring_reduce_scatter(m=m, n=n, dtype=_DTYPE, devices=devices, config=config,
                               tile=(16, 64))
    gemm = random_operands(m=m, n=n, k=32, dtype=_DTYPE, seed=1).gemm(devices)
    ring = RingSimulation(config, devices, simulator=simulator)
    with tempfile.TemporaryDirectory(prefix="t3hw-") as directory:
        scripts = _write_scripts(directory, plan, gemm, config, pace=2)
        timed = [ring.run(_timed_run, plan, scripts) for _run in range(runs)]
    cycles, seconds, processor, counters = min(timed, key=lambda run: run[1] / run[0])
    return RingSpeed(
        cycles=cycles, seconds=seconds, processor_seconds=processor,
        trigger_latency=min(device["trigger_latency_min"] for device in counters),
        difference=traffic_difference(counters, formulas(devices, plan.output_bytes)))


def _timed_run(session, plan, scripts):
    """In the simulation: cycles, seconds and processor seconds while all producers are busy, and
    all counters."""
    nodes = [Device(transport, config=session.config) for transport in session.transports]
    for node, device_plan in zip(nodes, plan.device_plans):
        node.set_link(latency=20)
        node.program(device_plan)
    for node in nodes:
        node.clear_counters()
        node.arm(plan.index)
    cycle, start, processor = session.cycle, time.perf_counter(), time.process_time()
    session.play(scripts)
    session.wait_until(
        lambda: not all(session.is_busy(device) for device in range(session.devices)))
    cycles = session.cycle - cycle
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    session.wait_players()
    for node in nodes:
        node.wait(plan.index)
    return cycles, seconds, processor, [node.counters() for node in nodes]
