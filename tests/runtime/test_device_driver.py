"""The driver: what it refuses, what it says of a late plan, what the functional device answers."""

import dataclasses

import numpy as np
import pytest

from rings import DrivenRing, check_result, random_gemm
from t3hw.config import PRESETS, NodeConfig
from t3hw.registers import (MAP_HASH, NO_COMMAND, REGISTERS, RegisterError, encode_entry,
                            encode_register, entry_address, register_address)
from t3hw.runtime.device import Device, DeviceError, McaStatus, PlanTimeout, clear_all
from t3hw.runtime.functional import FunctionalDevice
from t3hw.runtime.functional_packets import Packet
from t3hw.runtime.plan import PlanError, ring_reduce_scatter
from t3hw.runtime.transport import BusError, Transport

CONFIG = PRESETS["small"]


class Altered(Transport):
    """A transport that answers some registers differently."""

    def __init__(self, transport, **answers):
        self.transport = transport
        self.answers = {register_address(name): value for name, value in answers.items()}

    def read32(self, address):
        return self.answers.get(address, None) or self.transport.read32(address)

    def write32(self, address, value):
        self.transport.write32(address, value)

    def wait_interrupt(self, cycles):
        return self.transport.wait_interrupt(cycles)


def small_ring(devices=3, *, config=CONFIG, **changes):
    plan = ring_reduce_scatter(**dict(m=6, n=4, dtype="float32", devices=devices, tile=(2, 4),
                                      config=config) | changes)
    gemm = random_gemm(m=plan.layout.m, n=plan.layout.n, k=6, dtype=plan.dtype, devices=devices,
                       seed=1)
    ring = DrivenRing(devices, config)
    ring.program(plan)
    return ring, plan, gemm


# Who is there.

@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_are_recognised(name):
    device = FunctionalDevice(PRESETS[name], memory_bytes=1024)
    assert Device(device).config is PRESETS[name]
    assert Device(device, config=PRESETS[name]).config is PRESETS[name]


def test_a_configuration_without_a_name_is_made_from_its_capabilities():
    config = NodeConfig(data_width=128, addr_width=40, wg_width=9, wf_width=2, tiles=64,
                        commands=32, regions=7, routes=3, plans=5, dtypes=["float16", "int32"],
                        touch_bytes=4096, memory="axi", memory_bytes=1 << 20, burst_beats=8,
                        outstanding_reads=3, memory_max_latency=77, link_max_latency=99,
                        tracker_sets=4, tracker_ways=2, compute_queue=5, communication_queue=1024)
    found = Device(FunctionalDevice(config)).config
    for field in dataclasses.fields(config):
        if field.name not in ("name", "id_width", "outstanding_writes", "memory_outstanding",
                              "link_credits", "dtypes", "pipelined"):
            assert getattr(found, field.name) == getattr(config, field.name), field.name
    assert set(found.dtypes) == set(config.dtypes)


@pytest.mark.parametrize("answers, message", [
    ({"PRODUCT_ID": 0xFFFFFFFF}, "product id 0xffffffff is not 0x54334857"),
    ({"VERSION": 0x7F000000}, "node has version 32512.0.0, software"),
    ({"MAP_HASH": 0x12345678}, f"register map 0x12345678, software {MAP_HASH:#010x}"),
    ({"CONFIG_HASH": 0x12345678}, r"configuration 0x12345678, not .* \(small\)"),
])
def test_what_does_not_fit_is_refused(answers, message):
    transport = Altered(FunctionalDevice(CONFIG), **answers)
    with pytest.raises(DeviceError, match=message):
        Device(transport, config=CONFIG)


# Refusals.

def test_plans_are_not_touched_while_they_run():
    ring, plan, _ = small_ring()
    driver = ring.drivers[0]
    driver.arm()
    with pytest.raises(DeviceError, match="plan 0 is armed: wait until it is done, or clear it"):
        driver.program(plan.device_plans[0])
    with pytest.raises(DeviceError, match="plan 0 is armed already"):
        driver.arm()
    for table, index in (("TILE", 0), ("COMMAND", 0), ("REGION", 1), ("ROUTE", 0), ("PLAN", 0)):
        address = entry_address(table, index, 1)
        with pytest.raises(BusError, match=f"write at {address:#07x} was answered with an error"):
            driver.transport.write32(address, 0)
    driver.transport.write32(entry_address("TILE", 60, 1), 0)      # nobody's
    driver.clear()
    driver.program(plan.device_plans[0])


def test_waiting_for_what_does_not_run_is_refused():
    ring, _, _ = small_ring()
    with pytest.raises(DeviceError, match="plan 1 is not armed: there is nothing to wait for"):
        ring.drivers[0].wait(1)


def test_a_plan_for_a_larger_node_is_refused_before_anything_is_written():
    large = PRESETS["default"].replace(memory_bytes=1 << 22)
    plan = ring_reduce_scatter(m=6, n=4, dtype="float32", devices=2, tile=(2, 4), base=1 << 20,
                               config=large)
    device = FunctionalDevice(CONFIG)
    with pytest.raises(PlanError, match="exceeds the limit of 65535"):
        Device(device).program(plan.device_plans[0])
    assert not device.registers._written


@pytest.mark.parametrize("address", [
    0x001, 0x036, 0x038, 0x0FC, 0x3FC, register_address("COUNTER_CONTROL"), 0x40000, 0x80000,
    0xFFFFC])
def test_reads_of_nothing_are_refused(address):
    with pytest.raises(BusError, match=f"read at {address:#07x}"):
        FunctionalDevice(CONFIG).read32(address)


@pytest.mark.parametrize("address, value", [
    (register_address("PRODUCT_ID"), 1), (register_address("ERROR_COUNT"), 0), (0x02E, 1),
    (0x034, 1), (register_address("MCA_STATUS"), 0),
    (register_address("CONTROL"), 3),
    (register_address("MEMORY_LATENCY"), CONFIG.memory_max_latency + 1),
    (entry_address("PLAN", CONFIG.plans), 1), (entry_address("REGION", CONFIG.regions), 1),
    (entry_address("REGION", 0) + 40, 1), (entry_address("REGION", 0) + 2, 1),
    (entry_address("TILE", CONFIG.tiles), 1), (entry_address("COMMAND", CONFIG.commands), 1),
    (entry_address("TILE", 0, 1), CONFIG.commands), (entry_address("REGION", 0, 5), CONFIG.tiles),
    (entry_address("COMMAND", 0, 1), 1 << 16 | CONFIG.tiles - 1), (entry_address("PLAN", 0), 3),
])
def test_writes_of_nothing_are_refused(address, value):
    with pytest.raises(BusError, match=f"write at {address:#07x}"):
        FunctionalDevice(CONFIG).write32(address, value)


def test_arming_what_would_harm_another_plan_is_refused():
    ring, plan, _ = small_ring()
    driver = ring.drivers[0]
    clash = ring_reduce_scatter(m=6, n=4, dtype="float32", devices=3, tile=(2, 4), config=CONFIG,
                                **plan.next_free() | {"first_tile": 1})
    # Another driver knows nothing of plan 0.
    other = Device(driver.transport)
    other.program(clash.device_plans[0])
    driver.arm(0)
    with pytest.raises(BusError):
        other.arm(1)
    driver.clear(0)
    other.arm(1)


@pytest.mark.parametrize("shared", ["first_tile", "first_command", "first_touch", "first_region",
                                    "first_route"])
def test_a_plan_whose_place_another_one_took_must_be_programmed_again(shared):
    ring, plan, gemm = small_ring()
    places = plan.next_free()
    assert not [place for place in places if place != "plan" and places[place] == 0]
    other = ring_reduce_scatter(m=6, n=4, dtype="float32", devices=3, tile=(2, 4), config=CONFIG,
                                **places | {shared: 0})
    ring.program(other)
    for driver in ring.drivers:
        with pytest.raises(DeviceError, match="plan 0 must be programmed again: plan 1 took its "
                                              "place in the tables"):
            driver.arm(0)
    ring.run(other, gemm.partials)
    check_result(ring, other, gemm.running_sums(other))
    ring.drivers[0].arm(1)
    with pytest.raises(DeviceError, match="plan 1 is armed"):
        ring.drivers[0].program(plan.device_plans[0])
    ring.drivers[0].clear(1)
    ring.program(plan)
    with pytest.raises(DeviceError, match="plan 1 must be programmed again"):
        ring.drivers[0].arm(1)
    clear_all(ring.drivers)
    ring.run(plan, gemm.partials)
    check_result(ring, plan, gemm.running_sums(plan))
    assert not any(ring.errors())


# Time-outs.

@pytest.mark.parametrize("poll", [False, True])
def test_a_late_plan_names_its_missing_tiles(poll):
    ring, plan, gemm = small_ring()
    for driver in ring.drivers:
        driver.arm()
    # Device 1 produces nothing: device 0 gets nothing from it, and it has nothing of its own.
    for device in (0, 2):
        ring.produce(plan, gemm.partials, device=device)
    ring.model.run(2000)
    with pytest.raises(PlanTimeout, match="plan 0 is not done after .* cycles") as caught:
        ring.drivers[0].wait(timeout=300, poll=poll)
    text = str(caught.value)
    assert "0 tiles full of 2" in text or "1 tiles full of 2" in text
    assert "slot 1 (wg 0, wf 0, chunk 2, row 4, column 0): 32 of 64 bytes" in text
    assert [entry.slot for entry in caught.value.missing] == [0, 1]
    with pytest.raises(PlanTimeout, match="0 tiles full of 2, 0 commands done of 1"):
        ring.drivers[1].wait(timeout=300, poll=poll)
    # It can go on, and the same plan works afterwards.
    ring.produce(plan, gemm.partials, device=1)
    for driver in ring.drivers:
        driver.wait(poll=poll)
    check_result(ring, plan, gemm.running_sums(plan))


def test_the_nodes_own_time_out():
    ring, plan, gemm = small_ring(timeout=500)
    driver = ring.drivers[0]
    driver.arm()
    with pytest.raises(PlanTimeout, match="errors: PLAN_TIMEOUT"):
        driver.wait(timeout=10_000_000, poll=True)
    errors = driver.errors()
    assert errors.causes == ("PLAN_TIMEOUT",) and errors.first.tile[:2] == (0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_stopped_plan_leaves_nothing_behind(seed):
    """Half a run, a clear on all devices, then a whole one, while another plan goes on."""
    config = CONFIG
    plan = ring_reduce_scatter(m=9, n=4, dtype="float32", devices=3, tile=(2, 4), config=config)
    other = ring_reduce_scatter(m=9, n=4, dtype="float32", devices=3, tile=(2, 4), config=config,
                                **plan.next_free())
    gemm = random_gemm(m=9, n=4, k=6, dtype="float32", devices=3, seed=seed)
    ring = DrivenRing(3, config, seed=seed)
    ring.program(plan)
    ring.program(other)
    for driver in ring.drivers:
        driver.arm(0)
        driver.arm(1)
    ring.produce(other, gemm.partials)
    ring.produce(plan, gemm.partials, device=seed % 3)
    ring.model.run(1000)
    epoch = clear_all(ring.drivers, 0)
    for driver in ring.drivers:
        assert not driver.status(0).armed and driver.status(0).epoch == epoch
        assert driver.tile_state(0) == {"bytes": 0, "epoch": 0, "open": 0}
    for driver in ring.drivers:
        driver.wait(1)
    check_result(ring, other, gemm.running_sums(other))
    for _ in range(3):
        ring.run(plan, gemm.partials)
        check_result(ring, plan, gemm.running_sums(plan), f"seed {seed}")
    for driver in ring.drivers:
        assert set(driver.errors().causes) <= {"STALE_PACKET", "REFUSED_STORE"}


def test_a_clear_may_need_that_of_the_neighbour():
    """Device 0 is in its second run, and its DMA sends to one that is not: few packets fit on the
    link."""
    config = CONFIG.replace(link_credits=24, burst_beats=2)
    ring, plan, gemm = small_ring(config=config, m=24, n=8, overlap=False)
    ring.run(plan, gemm.partials)
    ring.drivers[0].arm()
    ring.produce(plan, gemm.partials, device=0)
    ring.model.run(5000)
    assert ring.drivers[2].read("LINK_STATUS") == {"holding": 1, "plan": 0}
    with pytest.raises(DeviceError, match="plan 0 is still being cleared after [0-9]+ cycles"):
        ring.drivers[0].clear(timeout=500)
    assert ring.drivers[0].status().clearing
    clear_all(ring.drivers)
    assert [driver.status().clearing for driver in ring.drivers] == [False] * 3
    ring.run(plan, gemm.partials)
    check_result(ring, plan, gemm.running_sums(plan))
    for driver in ring.drivers:
        assert set(driver.errors().causes) <= {"STALE_PACKET"}


def test_a_clear_waits_for_commands_behind_one_that_is_held():
    ring, plan, gemm = small_ring()
    other = ring_reduce_scatter(m=6, n=4, dtype="float32", devices=3, tile=(2, 4), config=CONFIG,
                                **plan.next_free())
    ring.program(other)
    for driver in ring.drivers:
        driver.hold()
        driver.arm(0)
        driver.arm(1)
    for one in plan, other:
        ring.produce(one, gemm.partials)
        ring.model.run(2000)
    driver = ring.drivers[0]
    driver.clear(1, wait=False)
    with pytest.raises(DeviceError, match="plan 1 is still being cleared after .*are held"):
        driver.clear(1, timeout=500)
    driver.hold(False)
    driver.clear(1)
    assert driver.status(1).epoch == 0 and driver.status(0).epoch == 1


# Errors.

def send(device, **changes):
    beat = device.config.beat_bytes
    fields = dict(op="UPDATE", dtype="FLOAT32", tracked=True, plan=0, epoch=1, wg=0, wf=0,
                  address=0, data=np.zeros(beat, np.uint8), strobe=np.ones(beat, bool)) | changes
    device.rx.append(Packet(**fields))
    device.advance(20)


def standing_alone(first_touch=True, expected=16, **changes):
    """A device with one region of 64 bytes, two tiles and no command."""
    device = FunctionalDevice(CONFIG)
    fields = dict(enable=1, action="LOCAL_UPDATE", dtype="FLOAT32", tracked=1,
                  first_touch=first_touch, accept_update=1, plan=0, base=0, limit=63) | changes
    for table, index, entry in (
            ("TILE", 0, {"expected": expected, "command": NO_COMMAND}),
            ("TILE", 1, {"expected": expected, "command": NO_COMMAND}),
            ("PLAN", 0, {"tiles": 2, "touch_beats": 8}), ("REGION", 0, fields)):
        words = encode_entry(table, **entry)
        device.write_block(entry_address(table, index, 1), words[1:])
        if table != "PLAN":
            device.write32(entry_address(table, index), words[0])
    driver = Device(device)
    driver.arm()
    return device, driver


ONE = np.float32(1).tobytes() * 2


def test_a_duplicate_is_dropped_and_reported():
    device, driver = standing_alone()
    assert device.store(0, ONE) == "okay"
    assert device.store(0, ONE) == "okay"
    device.advance(20)
    errors = driver.errors()
    assert errors.causes == ("DUPLICATE_UPDATE",) and errors.count == 1
    assert errors.first.cause == "DUPLICATE_UPDATE" and errors.first.tile == (0, 0, 0, 0)
    assert device.read_memory(0, 8) == ONE
    assert driver.tile_state(0) == {"bytes": 8, "epoch": 0, "open": 1}
    send(device, data=np.frombuffer(ONE, np.uint8))
    assert np.array_equal(np.frombuffer(device.read_memory(0, 8), np.float32), [2, 2])
    assert driver.tile_state(0) == {"bytes": 0, "epoch": 1, "open": 0}
    send(device, data=np.frombuffer(ONE, np.uint8))
    assert driver.errors().count == 2
    driver.clear_errors()
    assert not driver.errors() and driver.errors().first is None


def test_more_bytes_than_expected_are_reported_and_not_counted():
    device, driver = standing_alone(first_touch=False)
    for _ in range(3):
        device.store(8, ONE)
    device.advance(20)
    assert driver.errors().causes == ("OVER_COUNT",)
    assert driver.errors().first.address == 8
    assert driver.status().tiles_done == 1


@pytest.mark.parametrize("packet, cause", [
    ({"address": 64}, "UNMAPPED_PACKET"),
    ({"op": "STORE"}, "REFUSED_PACKET"),
    ({"dtype": "INT32"}, "REFUSED_PACKET"),
    ({"tracked": False}, "REFUSED_PACKET"),
    ({"plan": 1, "epoch": 0}, "STALE_PACKET"),
    ({"plan": CONFIG.plans}, "REFUSED_PACKET"),
    ({"epoch": 15}, "STALE_PACKET"),
    ({"epoch": 0}, "STALE_PACKET"),
    ({"wg": 2}, "UNKNOWN_TILE"),
    ({"strobe": np.array([True] * 5 + [False] * 3)}, "PARTIAL_ELEMENT"),
])
def test_packets_that_cannot_be_are_dropped_and_reported(packet, cause):
    device, driver = standing_alone()
    device.write_memory(0, b"\xaa" * 128)
    send(device, **packet)
    assert driver.errors().causes == (cause,)
    if cause != "PARTIAL_ELEMENT":
        assert device.read_memory(0, 128) == b"\xaa" * 128
        assert driver.tile_state(0)["bytes"] == 0
    else:
        # The element that was whole has been taken.
        assert device.read_memory(0, 8) == bytes(4) + b"\xaa" * 4
        assert driver.tile_state(0)["bytes"] == 4
    driver.clear_errors()
    send(device, address=8, wg=1)
    assert not driver.errors() and driver.tile_state(1)["bytes"] == 8


def test_a_packet_of_the_next_run_waits_and_others_behind_it():
    device, driver = standing_alone()
    send(device, epoch=2)
    assert driver.read("LINK_STATUS") == {"holding": 1, "plan": 0}
    send(device, epoch=1)
    assert driver.tile_state(0)["bytes"] == 0
    driver.set_hold_timeout(50)
    device.advance(60)
    assert driver.errors().causes == ("HOLD_TIMEOUT",)
    assert driver.tile_state(0)["bytes"] == 8


def test_an_update_of_a_type_that_is_not_built_in_is_reported():
    config = CONFIG.replace(dtypes=["float32"])
    device = FunctionalDevice(config)
    words = encode_entry("REGION", enable=1, action="LOCAL_UPDATE", dtype="FLOAT16", limit=63)
    device.write_block(entry_address("REGION", 0), words)
    device.store(0, ONE)
    device.advance(10)
    assert Device(device).errors().causes == ("MISSING_DTYPE",)


def test_stores_that_are_refused_or_pass_through():
    device, driver = standing_alone()
    assert device.store(64, b"\1\2\3") == "okay"                   # in no region: plain memory
    device.advance(10)
    assert device.read_memory(64, 3) == b"\1\2\3"
    assert device.store(8, ONE, wg=2) == "slverr"
    assert driver.errors().causes == ("UNKNOWN_TILE",)
    driver.clear_errors()
    driver.clear()
    assert device.store(0, ONE) == "slverr"
    assert driver.errors().causes == ("REFUSED_STORE",)
    assert device.read_memory(0, 8) == bytes(8)


def test_a_beat_across_the_edge_of_a_region_is_refused():
    device, driver = standing_alone(limit=11)
    assert device.store(8, ONE) == "slverr"
    assert driver.errors().causes == ("REFUSED_STORE",)
    assert device.store(8, ONE[:4]) == "okay"


def test_memory_beyond_the_end_is_refused():
    device = FunctionalDevice(CONFIG)
    with pytest.raises(BusError, match="memory read"):
        device.read_memory(CONFIG.memory_bytes - 4, 8)
    with pytest.raises(BusError, match="memory write"):
        device.write_memory(CONFIG.memory_bytes, b"\0")


# Commands and settings.

def test_doorbell_and_interrupt_at_a_commands_end():
    ring, plan, gemm = small_ring()
    one = plan.device_plans[0]
    one = dataclasses.replace(one, routes=(dataclasses.replace(
        one.routes[0], doorbell=True, interrupt=True, doorbell_address=0x1000,
        doorbell_data=0xC0FFEE),))
    ring.drivers[0].program(one)
    ring.run(plan, gemm.partials)
    assert ring.model.devices[0].read_memory(0x1000, 4) == (0xC0FFEE).to_bytes(4, "little")
    assert ring.drivers[0].read("IRQ_STATUS")["command"] == 1
    check_result(ring, plan, gemm.running_sums(plan))


def test_a_doorbell_at_the_neighbour_needs_a_region_that_accepts_stores():
    ring, plan, gemm = small_ring()
    one = plan.device_plans[0]
    one = dataclasses.replace(one, routes=(dataclasses.replace(
        one.routes[0], doorbell=True, doorbell_remote=True, doorbell_address=0x1004,
        doorbell_data=0xBE11),))
    ring.drivers[0].program(one)
    ring.run(plan, gemm.partials)
    ring.model.run(100)
    assert ring.drivers[2].errors().causes == ("UNMAPPED_PACKET",)
    ring.model.devices[2].write_block(entry_address("REGION", 9), encode_entry(
        "REGION", enable=1, accept_store=1, base=0x1000, limit=0x1007))
    ring.run(plan, gemm.partials)
    ring.model.run(100)
    assert ring.model.devices[2].read_memory(0x1000, 8) == bytes(4) + (0xBE11).to_bytes(4, "little")
    assert ring.drivers[2].counters()["incoming_store_bytes"] == 4


def test_held_commands_wait_and_change_nothing_else():
    ring, plan, gemm = small_ring()
    for driver in ring.drivers:
        driver.set_policy("COMPUTE_FIRST")
        driver.hold()
        driver.arm()
    ring.produce(plan, gemm.partials)
    ring.model.run(1000)
    assert ring.model.idle
    assert [driver.counters()["dma_packets"] for driver in ring.drivers] == [0] * 3
    for driver in ring.drivers:
        driver.hold(False)
        assert driver.read("CONTROL")["policy"] == 1
    for driver in ring.drivers:
        driver.wait()
    check_result(ring, plan, gemm.running_sums(plan))


def test_settings_reach_the_registers_and_reset_takes_over():
    device = FunctionalDevice(CONFIG)
    driver = Device(device)
    driver.set_policy("MCA", starvation_limit=77)
    driver.set_memory_latency(5)
    driver.set_link(latency=6, interval=7)
    assert device.registers.values["LINK_HEADER_INTERVAL"] == 7
    driver.set_hold_timeout(8)
    values = device.registers.values
    assert [values[name] for name in ("CONTROL", "STARVATION_LIMIT", "MEMORY_LATENCY",
                                      "LINK_LATENCY", "LINK_INTERVAL", "HOLD_TIMEOUT")] == [2, 77,
                                      5, 6, 7, 8]
    with pytest.raises(BusError):
        driver.set_memory_latency(CONFIG.memory_max_latency + 1)
    ring, plan, _ = small_ring()
    ring.drivers[0].arm()
    ring.drivers[0].hold()
    newcomer = Device(ring.model.devices[0])
    newcomer.reset()
    assert not newcomer.status().armed
    assert newcomer.read("CONTROL") == {"policy": 0, "hold": 0}
    assert len(ring.model.devices[0].regions) == 0
    assert newcomer.counters()["commits"] == 0


def test_policies_and_thresholds():
    device = FunctionalDevice(CONFIG)
    driver = Device(device)
    assert driver.mca_status() == McaStatus(0.0, 0, False, False, 5)

    def found():
        return [driver.read(name) for name in ("CONTROL", "MCA_CONTROL", "STARVATION_LIMIT")]

    driver.set_policy("MCA", threshold=12, starvation_limit=9)
    assert found() == [{"policy": 2, "hold": 0}, {"threshold": 12, "fixed": 1}, {"cycles": 9}]
    assert driver.mca_status().threshold == 12
    driver.hold()
    driver.set_policy("MCA", threshold=0)
    assert found() == [{"policy": 2, "hold": 1}, {"threshold": 0, "fixed": 1}, {"cycles": 0}]
    assert driver.mca_status().threshold == 0
    driver.set_policy("MCA")
    assert found()[1] == {"threshold": 0, "fixed": 0}
    driver.set_mca_table(boundaries=(1, 0.3, 0), thresholds=(7, 0, 9, 0xFFFF))
    assert [device.registers.values[f"MCA_BOUNDARY_{level}"] for level in range(3)] == [256, 77, 0]
    assert [device.registers.values[f"MCA_THRESHOLD_{level}"] for level in range(4)] == [
        7, 0, 9, 0xFFFF]
    assert driver.mca_status().threshold == 7
    driver.set_mca_table()
    fresh = FunctionalDevice(CONFIG).registers.values
    assert {name: value for name, value in device.registers.values.items() if "MCA_" in name} == \
        {name: value for name, value in fresh.items() if "MCA_" in name}


def test_a_node_without_monitoring_has_no_counts_and_no_thresholds():
    config = CONFIG.replace(name="bare", monitoring=False)
    device = Device(FunctionalDevice(config))
    assert not device.config.monitoring
    device.reset()
    assert not any(device.counters().values()) and device.cycles() == 0
    device.set_policy("COMPUTE_FIRST", starvation_limit=5)
    for call, what in ((lambda: device.set_policy("MCA"), "the policy MCA"),
                       (device.set_mca_table, "an MCA table")):
        with pytest.raises(DeviceError, match=f"{what} needs a node with monitoring = true"):
            call()
    assert device.read("CONTROL")["policy"] == 1
    with pytest.raises(BusError):
        device.write("MCA_CONTROL", threshold=1)


def test_mca_status_of_a_kernel_that_was_measured():
    word = encode_register("MCA_STATUS", intensity=96, level=1, complete=1, threshold=10)
    status = Device(Altered(FunctionalDevice(CONFIG), MCA_STATUS=word)).mca_status()
    assert status == McaStatus(0.375, 1, False, True, 10)


@pytest.mark.parametrize("call, message", [
    (lambda driver: driver.set_policy("MCA", threshold=17),
     "threshold 17 exceeds the limit of 16, the depth of the memory's queue"),
    (lambda driver: driver.set_mca_table(thresholds=(5, 10, 17, 0)),
     "threshold 17 exceeds the limit of 16"),
    (lambda driver: driver.set_policy("COMPUTE_FIRST", threshold=3),
     "a threshold, 3, needs the policy MCA, not COMPUTE_FIRST"),
    (lambda driver: driver.set_mca_table(thresholds=(5, 10)),
     r"3 boundaries and 4 thresholds, not .* and \(5, 10\)"),
    (lambda driver: driver.set_mca_table(boundaries=(0.1, 0.2, 0)),
     r"boundaries must be from 1 to 0 and not rise, not \(0.1, 0.2, 0\)"),
    (lambda driver: driver.set_mca_table(boundaries=(1.1, 0.2, 0)), "not rise, not .1.1, "),
])
def test_thresholds_that_do_not_fit_are_refused_and_nothing_is_written(call, message):
    queues = encode_register("CAP_QUEUES", memory_queue=16)
    device = FunctionalDevice(CONFIG)
    before = dict(device.registers.values)
    with pytest.raises(DeviceError, match=message):
        call(Device(Altered(device, CAP_QUEUES=queues)))
    assert device.registers.values == before


def test_thresholds_that_fit_no_register_are_refused():
    driver = Device(FunctionalDevice(CONFIG))
    for threshold in (-1, 0x10000, 1.5):
        with pytest.raises(RegisterError, match=str(threshold)):
            driver.set_policy("MCA", threshold=threshold)
    queues = encode_register("CAP_QUEUES", memory_queue=16)
    driver = Device(Altered(FunctionalDevice(CONFIG), CAP_QUEUES=queues))
    driver.set_policy("MCA", threshold=16)
    driver.set_mca_table()
    assert driver.read("MCA_THRESHOLD_2") == {"accesses": 16}


@pytest.mark.parametrize("interval, header, words", [
    (13.65, None, (13 | 42599 << 16, 13 | 42599 << 16)), (13.65, 0, (13 | 42599 << 16, 0)),
    (2, 1.5, (2, 1 | 1 << 31)), (0, 3.4, (0, 3 | 26215 << 16)), (65535, 0.25, (65535, 1 << 30))])
def test_link_intervals_are_rounded_up_to_what_the_registers_hold(interval, header, words):
    device = FunctionalDevice(CONFIG)
    Device(device).set_link(interval=interval, header_interval=header)
    values = device.registers.values
    assert (values["LINK_INTERVAL"], values["LINK_HEADER_INTERVAL"]) == words


@pytest.mark.parametrize("interval", [-1, 65536])
def test_link_intervals_that_fit_no_register_are_refused(interval):
    with pytest.raises(RegisterError, match=str(interval)):
        Device(FunctionalDevice(CONFIG)).set_link(interval=interval)


def test_reset_takes_over_from_software_that_left_nonsense():
    """Plan 0 runs, plan 1 is being cleared, plan 2 overlaps both, plan 3 is beyond the tables."""
    ring, plan, gemm = small_ring()
    other = ring_reduce_scatter(m=6, n=4, dtype="float32", devices=3, tile=(2, 4), config=CONFIG,
                                **plan.next_free())
    ring.program(other)
    newcomer = Device(ring.model.devices[0])
    for number, words in ((2, {"tiles": CONFIG.tiles, "commands": CONFIG.commands,
                               "touch_beats": CONFIG.touch_beats}),
                          (3, {"first_tile": CONFIG.tiles - 1, "tiles": 5})):
        for word, value in enumerate(encode_entry("PLAN", **words)[1:], 1):
            newcomer.transport.write32(entry_address("PLAN", number, word), value)
    newcomer.arm(0)
    newcomer.arm(1)
    newcomer.clear(1, wait=False)
    for number in 2, 3:
        with pytest.raises(BusError):
            newcomer.clear(number)
    newcomer.reset()
    for number in range(CONFIG.plans):
        assert newcomer.status(number).epoch == 0
        assert not any(newcomer.transport.registers.entry("PLAN", number).values())
    ring.drivers[0].reset()
    ring.program(plan)
    ring.run(plan, gemm.partials)
    check_result(ring, plan, gemm.running_sums(plan))


def test_byte_counters_count_what_was_sent_to_memory():
    device, driver = standing_alone()
    for _ in range(2):
        device.store(0, ONE)
        device.advance(10)
        send(device, data=np.frombuffer(ONE, np.uint8))
    assert driver.errors().causes == ("DUPLICATE_UPDATE",)
    counters = driver.counters()
    assert counters["producer_write_bytes"] == counters["incoming_update_bytes"] == 16


def test_counters_are_a_snapshot():
    device = FunctionalDevice(CONFIG)
    driver = Device(device)
    device.store(0, b"\1\2\3")
    device.advance(10)
    counters = driver.counters()
    assert counters["producer_write_bytes"] == 3 and counters["commits"] == 1
    low = register_address("PRODUCER_WRITE_BYTES_LO")
    device.store(0, b"\1")
    device.advance(10)
    assert device.read32(low) == 3
    assert driver.counters()["producer_write_bytes"] == 4
    driver.clear_counters()
    assert driver.counters()["producer_write_bytes"] == 0
    assert set(REGISTERS) >= {"CYCLES_LO", "CYCLES_HI"}
