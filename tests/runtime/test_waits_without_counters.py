"""A node without counters has no time of its own: waits for it end all the same."""

import pytest

from t3hw.config import PRESETS
from t3hw.runtime.device import Device, DeviceError, PlanTimeout
from t3hw.runtime.functional import FunctionalDevice
from t3hw.runtime.plan import ring_reduce_scatter


@pytest.fixture
def device():
    device = Device(FunctionalDevice(PRESETS["nano"]))
    plan = ring_reduce_scatter(m=2, n=8, dtype="int32", devices=2, tile=(1, 8),
                               config=device.config)
    device.program(plan.device_plans[0])
    device.arm()
    return device


@pytest.mark.parametrize("poll", [False, True])
def test_a_plan_that_nobody_feeds(device, poll):
    assert device.cycles() == 0
    with pytest.raises(PlanTimeout, match="not done after [0-9]+ cycles: 0 tiles full of 1"):
        device.wait(timeout=3000, poll=poll)


def test_a_plan_that_cannot_be_cleared(device):
    node = device.transport
    node._is_under_way = lambda plan: True
    with pytest.raises(DeviceError, match="still being cleared after 3[0-9]{3} cycles"):
        device.clear(timeout=3000)
