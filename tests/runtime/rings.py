"""What the runtime's tests share: a ring of functional devices with drivers, and a run on it."""

import numpy as np

from t3hw.runtime.device import Device
from t3hw.runtime.functional_ring import FunctionalRing
from t3hw.workloads import random_operands
from t3hw.workloads.gemm import producer_writes


class DrivenRing:
    """A functional ring and a driver for each of its devices."""

    def __init__(self, devices, config, *, seed=0, memory_bytes=None):
        self.config = config
        self.seed = seed
        self.model = FunctionalRing(devices, config, seed=seed, memory_bytes=memory_bytes)
        self.drivers = [Device(device, config=config) for device in self.model.devices]

    def program(self, plan):
        for driver, device_plan in zip(self.drivers, plan.device_plans):
            driver.program(device_plan)

    def produce(self, plan, partials, device=None, **options):
        for index in range(plan.devices) if device is None else [device]:
            bursts = producer_writes(plan, index, partials[index], self.config, **options)
            self.model.produce(index, (store for burst in bursts for store in burst.stores()))

    def run(self, plan, partials, *, timeout=200_000, poll=False, **options):
        """Arm, produce, wait: one run on all devices."""
        for driver in self.drivers:
            driver.arm(plan.index)
        self.produce(plan, partials, **options)
        for driver in self.drivers:
            driver.wait(plan.index, timeout=timeout, poll=poll)

    def errors(self):
        return [driver.errors().causes for driver in self.drivers]


def random_gemm(*, devices, **shape):
    """A GEMM of random operands."""
    return random_operands(**shape).gemm(devices)


def same_bits(a, b):
    """Whether two arrays are equal to the last bit, NaN and the sign of zero included."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def check_result(ring, plan, sums, where=""):
    """Every chunk in every memory has the bits that the reference gives."""
    for index, device in enumerate(ring.model.devices):
        for stage in plan.device_plans[index].stages:
            if stage.role == "remote":
                continue
            got = plan.read_chunk(stage.chunk, device.read_memory)
            want = sums[index, stage.chunk]
            wrong = np.argwhere(np.asarray(got, np.float64) != np.asarray(want, np.float64))
            assert same_bits(got, want), (
                f"{where}: device {index}, chunk {stage.chunk}: {len(wrong)} elements differ, "
                f"first {wrong[:1]}")


def check_traffic(ring, plan, runs=1):
    """Counters equal the formulas, in bytes."""
    for index, driver in enumerate(ring.drivers):
        counters = driver.counters()
        traffic = plan.device_plans[index].traffic
        for name in ("producer_write_bytes", "remote_write_bytes", "incoming_update_bytes",
                     "dma_read_bytes"):
            assert counters[name] == runs * getattr(traffic, name), (index, name)
        assert counters["tiles_full"] == runs * len(plan.device_plans[index].tiles)
        assert counters["commands_fired"] == runs * len(plan.device_plans[index].commands)
        assert counters["incoming_store_bytes"] == counters["errors"] == 0
