"""What tests of whole rings do: plans, stores, and functions that run in the simulation."""

import dataclasses
import functools

import pytest

from t3hw.cosim.random_case import RINGS
from t3hw.cosim.ring_run import player_bursts
from t3hw.cosim.session import RingSimulation
from t3hw.runtime.device import Device, PlanTimeout, clear_all
from t3hw.runtime.plan import ring_reduce_scatter
from t3hw.workloads import random_operands
from t3hw.workloads.gemm import producer_writes

#: Three of the smallest nodes: one set of two ways, four credits, one read at a time.
TINY, DEVICES = RINGS[0]
#: Two nodes with their memory behind m_axi.
AXI, AXI_DEVICES = RINGS[2]

#: Cycles in which every run here is done.
LIMIT = 100_000


@functools.cache
def simulation(config=TINY, devices=DEVICES, **options):
    return RingSimulation(config, devices, **options)


def make(*, config=TINY, devices=DEVICES, seed=1, dtype="bfloat16", m=7, n=10, k=6, **options):
    """A plan, and a GEMM for it."""
    plan = ring_reduce_scatter(m=m, n=n, dtype=dtype, devices=devices, config=config,
                               **{"tile": (4, 4)} | options)
    return plan, random_operands(m=m, n=n, k=k, dtype=dtype, seed=seed).gemm(devices)


def stores(plan, gemm, device, *, config=TINY, pace=1, **options):
    """What a device's producer does."""
    return list(player_bursts(
        producer_writes(plan, device, gemm.partials[device], config, **options), pace))


def all_stores(plan, gemm, **options):
    return {device: stores(plan, gemm, device, **options) for device in range(plan.devices)}


def tile_at(plan, burst):
    """The tile that a store belongs to."""
    return next(tile for chunk in plan.chunks for tile in chunk.tiles
                if (tile.wg, tile.wf) == (burst.wg, burst.wf)
                and chunk.address <= burst.address <= chunk.limit)


def role_of(plan, device, burst):
    """What becomes of a store: the role of its chunk."""
    chunk = tile_at(plan, burst).chunk
    return next(stage.role for stage in plan.device_plans[device].stages if stage.chunk == chunk)


def program(session, *plans):
    nodes = [Device(transport, config=session.config) for transport in session.transports]
    for plan in plans:
        for node, device_plan in zip(nodes, plan.device_plans, strict=True):
            node.program(device_plan)
    return nodes


def finish(nodes, *plans):
    for plan in plans:
        for node in nodes:
            node.wait(plan.index, timeout=LIMIT)


def check_chunk(session, plan, gemm, device):
    got = plan.read_chunk(device, functools.partial(session.read, device))
    want = gemm.reduced(plan)[device]
    assert want.tobytes().strip(b"\0"), "the reference itself is zero"
    assert got.tobytes() == want.tobytes(), f"device {device}:\n{got}\ninstead of\n{want}"


def check_chunks(session, plan, gemm):
    for device in range(plan.devices):
        if plan.chunks[device].tiles:
            check_chunk(session, plan, gemm, device)


def check_idle(nodes):
    """No errors, and nothing left in the trackers."""
    for number, node in enumerate(nodes):
        assert not node.errors(), f"device {number}: {node.errors()}"
        counters = node.counters()
        left = counters["tracker_occupancy"], counters["overflow_occupancy"]
        assert left == (0, 0), f"device {number}: {left} tiles are still counted"


def run_again(session, nodes, plan, gemm):
    """Show that a plan runs as if nothing had happened before."""
    clear_all(nodes, plan.index)
    for node in nodes:
        node.clear_errors()
    for node in nodes:
        node.arm(plan.index)
    session.play(all_stores(plan, gemm, config=session.config))
    finish(nodes, plan)
    assert session.wait_players(cycles=LIMIT)
    check_chunks(session, plan, gemm)
    check_idle(nodes)


def run_repeatedly(session, pairs, runs):
    """Plans one after the other, programmed once; each has several GEMMs."""
    nodes = program(session, *(plan for plan, _ in pairs))
    overflow = 0
    for run in range(runs):
        plan, gemms = pairs[run % len(pairs)]
        gemm = gemms[run // len(pairs) % len(gemms)]
        for node in nodes:
            node.arm(plan.index)
        session.play(all_stores(plan, gemm), seed=run, stall=(0, 0.5)[run % 2])
        finish(nodes, plan)
        check_chunks(session, plan, gemm)
        check_idle(nodes)
        overflow = max(overflow, *(node.counters()["overflow_high_water"] for node in nodes))
    return overflow


def reprogram_repeatedly(session, pairs):
    """Plans one after the other in the same place of all tables."""
    nodes = [Device(transport, config=session.config) for transport in session.transports]
    for plan, gemm in pairs:
        for node, device_plan in zip(nodes, plan.device_plans, strict=True):
            node.program(device_plan)
        run_again(session, nodes, plan, gemm)


def run_ahead(session, plan, gemms, stalled, pause):
    """Each rank goes on as soon as it can; one waits long before its second run."""
    nodes = program(session, plan)
    started, finished = [0] * plan.devices, [0] * plan.devices
    freed = held = None
    while min(finished) < len(gemms):
        assert session.cycle < LIMIT
        for device, node in enumerate(nodes):
            run = started[device]
            if run > finished[device]:
                if node.status(plan.index).done and session.wait_players(device, cycles=0):
                    check_chunk(session, plan, gemms[run - 1], device)
                    finished[device] += 1
                    if (device, run) == (stalled, 1):
                        freed = session.cycle + pause
            elif run < len(gemms) and ((device, run) != (stalled, 1) or session.cycle >= freed):
                if (device, run) == (stalled, 1):
                    assert sorted(started) == [1] + [2] * (plan.devices - 1)
                    held = node.read("LINK_STATUS")
                    # What the others have sent meanwhile has not come to the buffer.
                    check_chunk(session, plan, gemms[0], device)
                node.arm(plan.index)
                session.play({device: stores(plan, gemms[run], device)})
                started[device] += 1
    check_idle(nodes)
    return held


def arm_late(session, plan, gemm, late):
    """All ranks but one are armed and produce; that one comes much later."""
    nodes = program(session, plan)
    early = [device for device in range(plan.devices) if device != late]
    for device in early:
        nodes[device].arm(plan.index)
    session.play({device: stores(plan, gemm, device) for device in early})
    session.wait(3000)
    held = nodes[late].read("LINK_STATUS")
    nodes[late].arm(plan.index)
    session.play({late: stores(plan, gemm, late)})
    finish(nodes, plan)
    check_chunks(session, plan, gemm)
    check_idle(nodes)
    return held


def run_two_plans(session, first, second):
    """Devices with an odd number do the second plan's stores first."""
    nodes = program(session, first[0], second[0])
    for plan, _ in (first, second):
        for node in nodes:
            node.arm(plan.index)
    scripts = {}
    for device in range(session.devices):
        order = (second, first) if device % 2 else (first, second)
        scripts[device] = [burst for plan, gemm in order for burst in stores(plan, gemm, device)]
    session.play(scripts)
    finish(nodes, first[0], second[0])
    for plan, gemm in (first, second):
        check_chunks(session, plan, gemm)
    check_idle(nodes)


def store_twice(session, plan, gemm, role):
    """Device 0 repeats one store of a chunk of the given role; returns errors and the store."""
    nodes = program(session, plan)
    for node in nodes:
        # So that tiles stay incomplete until the repeated store has come.
        node.hold()
        node.arm(plan.index)
    scripts = all_stores(plan, gemm)
    repeated = next(burst for burst in scripts[0] if role_of(plan, 0, burst) == role)
    # Last of all, unless that would be the end of the plan.
    at = scripts[0].index(next(burst for burst in scripts[0] if role_of(plan, 0, burst) == "keep"))
    scripts[0].insert(at, repeated)
    session.play(scripts)
    assert session.wait_players(cycles=LIMIT)
    for node in nodes:
        node.hold(False)
    finish(nodes, plan)
    check_chunks(session, plan, gemm)
    errors = [node.errors() for node in nodes]
    run_again(session, nodes, plan, gemm)
    return errors, repeated


def store_unarmed(session, plan, gemm):
    """Stores to a plan that is not armed; returns their number, the refusals, and the error."""
    before = bytes(range(256))
    address, length = plan.base, plan.end - plan.base
    session.write(0, address, before[:length])
    nodes = program(session, plan)
    # A store that waits for the link would wait for ever, so only what stays here.
    bursts = [burst for burst in stores(plan, gemm, 0) if role_of(plan, 0, burst) != "remote"]
    session.play({0: bursts})
    assert session.wait_players(cycles=LIMIT)
    refused, errors = session.errors(0), nodes[0].errors()
    assert session.read(0, address, length) == before[:length]
    run_again(session, nodes, plan, gemm)
    return len(bursts), refused, errors


def send_wrong(session, plan, gemm, changes):
    """The receiver of device 0's remote stores has another region for them than it should."""
    remote = next(stage.chunk for stage in plan.device_plans[0].stages if stage.role == "remote")
    receiver = plan.devices - 1
    right = plan.device_plans[receiver]
    region = next(region for region in right.regions if region.base == plan.chunks[remote].address)
    wrong = dataclasses.replace(right, regions=tuple(
        dataclasses.replace(region, **changes) if one is region else one
        for one in right.regions))
    nodes = program(session, dataclasses.replace(
        plan, device_plans=(*plan.device_plans[:receiver], wrong)))
    for node in nodes:
        node.arm(plan.index)
    session.play(all_stores(plan, gemm))
    assert session.wait_players(cycles=LIMIT)
    with pytest.raises(PlanTimeout) as caught:
        nodes[receiver].wait(plan.index, timeout=3000)
    errors = nodes[receiver].errors()
    for node in nodes:
        node.clear(plan.index)
    nodes[receiver].program(right)
    run_again(session, nodes, plan, gemm)
    return errors, [entry.tile for entry in caught.value.missing]


def send_unknown_tile(session, plan, gemm):
    """Device 0 names a tile that does not exist, once at home and once at the neighbour."""
    nodes = program(session, plan)
    for node in nodes:
        node.arm(plan.index)
    scripts = all_stores(plan, gemm)
    wrong = [next(burst for burst in scripts[0] if role_of(plan, 0, burst) == role)
             for role in ("remote", "forward")]
    for burst in wrong:
        scripts[0].insert(scripts[0].index(burst), dataclasses.replace(burst, wg=50))
    session.play(scripts)
    finish(nodes, plan)
    assert session.wait_players(cycles=LIMIT)
    errors, refused = [node.errors() for node in nodes], session.errors(0)
    check_chunks(session, plan, gemm)
    run_again(session, nodes, plan, gemm)
    return errors, refused, wrong


def forget_stores(session, plan, gemm, device):
    """A producer leaves out the stores of one tile that it keeps; returns tile and time-out."""
    nodes = program(session, plan)
    for node in nodes:
        node.arm(plan.index)
    scripts = all_stores(plan, gemm)
    forgotten = tile_at(plan, scripts[device][-1])
    scripts[device] = [burst for burst in scripts[device] if tile_at(plan, burst) != forgotten]
    session.play(scripts)
    with pytest.raises(PlanTimeout) as caught:
        nodes[device].wait(plan.index, timeout=LIMIT)
    assert [entry.tile for entry in caught.value.missing] == [forgotten]
    errors = nodes[device].errors()
    for number, node in enumerate(nodes):
        if number != device:
            node.wait(plan.index, timeout=LIMIT)
    run_again(session, nodes, plan, gemm)
    return forgotten, str(caught.value), errors


def clear_in_the_middle(session, stopped, other, order):
    """One plan is cleared, half produced, while the other one runs; devices in the given order."""
    nodes = program(session, stopped[0], other[0])
    for plan, _ in (stopped, other):
        for node in nodes:
            node.arm(plan.index)
    scripts = {}
    for device in range(session.devices):
        half = stores(*stopped, device)
        # Slow enough for all clears, each of which reads the node's counters.
        scripts[device] = half[:len(half) // 2] + stores(*other, device, pace=60)
    session.play(scripts)
    # Until the last store of the half has been answered, or the rest would be refused.
    session.wait(200)
    for device in order:
        assert nodes[device].status(stopped[0].index).armed
    for device in order:
        nodes[device].clear(stopped[0].index)
    assert not session.wait_players(cycles=0), "the other plan must still be under way"
    finish(nodes, other[0])
    assert [session.errors(device) for device in range(session.devices)] == [0] * session.devices
    check_chunks(session, *other)
    for device, node in enumerate(nodes):
        assert set(node.errors().causes) <= {"STALE_PACKET"}, f"device {device}: {node.errors()}"
        counters = node.counters()
        assert (counters["tracker_occupancy"], counters["overflow_occupancy"]) == (0, 0)
        assert node.status(stopped[0].index).epoch == 0
    run_again(session, nodes, *stopped)
    check_chunks(session, *other)


def clear_with_packets_in_flight(session, stopped, other, order, cycles):
    """One plan is cleared while its packets are on slow links; returns all causes of errors.

    Packets of the stopped run come long after the receiver's clear, and hold no link for ever.
    """
    nodes = program(session, stopped[0], other[0])
    for node in nodes:
        node.set_link(interval=8)
    for plan, _ in (stopped, other):
        for node in nodes:
            node.arm(plan.index)
    session.play({device: stores(*stopped, device) + stores(*other, device, pace=20)
                  for device in range(session.devices)})
    session.wait(cycles)
    clear_all([nodes[device] for device in order], stopped[0].index)
    finish(nodes, other[0])
    assert session.wait_players(cycles=LIMIT)
    check_chunks(session, *other)
    causes = {cause for node in nodes for cause in node.errors().causes}
    run_again(session, nodes, *stopped)
    check_chunks(session, *other)
    return causes


def run_with_a_slow_link(session, plan, gemm, slow, interval):
    nodes = program(session, plan)
    nodes[slow].set_link(interval=interval)
    for node in nodes:
        node.arm(plan.index)
    start = session.cycle
    session.play(all_stores(plan, gemm))
    finish(nodes, plan)
    cycles = session.cycle - start
    check_chunks(session, plan, gemm)
    check_idle(nodes)
    return cycles, nodes[slow].counters()["tx_words"]
