"""What runs inside the simulator for the tests of the traffic node."""

import numpy as np

from t3hw.registers import traffic
from t3hw.runtime.device import Device
from t3hw.runtime.traffic import TrafficEngines
from t3hw.runtime.transport import BusError

#: Of a small GEMM that stores 12 workgroups from 0x1000 on, of 2 tiles of 4 beats of 4 bytes.
GEMM = {
    "units": 4, "workgroups": 12, "chunk_workgroups": 12, "steps": 3, "step_cycles": 60 * 256,
    "burst_beats": 2, "streams": 2, "stream_bytes": 256, "read_base": 0, "base": 0x1000,
    "workgroup_bytes": 32, "wavefronts": 2, "tile_beats": 4, "seed": 9, "stage_reads": [0]}


def run(engines, engine, cycles):
    """Start an engine; it is done, and its interrupt comes and goes."""
    engines.start(engine)
    assert engines.transport.wait_interrupt(cycles), f"{engine} is not done"
    engines.wait(engine, timeout=1)
    assert not engines.transport.wait_interrupt(3)


def refused(engines, name, **fields):
    """Whether a write is answered with an error."""
    try:
        engines.write(name, **fields)
    except BusError:
        return True
    return False


def words(engines, address, count):
    """Words of memory."""
    return np.frombuffer(engines.read_memory(address, 4 * count), np.uint32)


def gemm_alone(session):
    """A GEMM whose stores no region matches; what it measured, and what is in memory."""
    engines = TrafficEngines(session.transports[0])
    engines.set_gemm(**GEMM | {"stage_reads": [3 * 256 + 64]})
    run(engines, "gemm", 5000)
    return engines.gemm_results(), words(engines, 0x1000, 96), words(engines, 0x1000 + 4 * 96, 4)


def one_at_a_time(session):
    """Starts, settings and reads of memory while an engine runs."""
    engines = TrafficEngines(session.transports[0])
    engines.set_gemm(**GEMM | {"steps": 20})
    engines.write("GEMM_CONTROL", start=1)
    session.wait_until(lambda: session.is_busy(0), 10)
    assert session.is_busy(0)
    assert refused(engines, "GEMM_CONTROL", start=1)
    assert refused(engines, "COLLECTIVE_CONTROL", start=1)
    assert refused(engines, "GEMM_STEPS", steps=1)
    engines.write("COLLECTIVE_STEPS", steps=0)
    try:
        engines.read("READ_DATA")
    except BusError:
        pass
    else:
        raise AssertionError("memory was read while an engine runs")
    assert session.wait_players(cycles=20_000)
    # A collective of no steps is done at once, and the GEMM's bit is not touched.
    engines.write("COLLECTIVE_CONTROL", start=1)
    session.wait(10)
    assert engines.read("IRQ_STATUS") == {"gemm_done": 1, "collective_done": 1}
    assert engines.read("COLLECTIVE_STATUS") == {"busy": 0, "error": 0}


def copied(session):
    """The GEMM's output, and its copy that a collective engine made and added to."""
    engines = TrafficEngines(session.transports[0])
    engines.set_gemm(**GEMM)
    run(engines, "gemm", 5000)
    for number, step in enumerate((
            {"source_a": 0x1000, "destination": 0x2000, "beats": 48},
            {"source_a": 0x1000, "source_b": 0x10C0, "destination": 0x20C0, "beats": 48,
             "add": 1})):
        engines.transport.write_block(traffic.entry_address("COLLECTIVE_STEP", number),
                                      traffic.encode_entry("COLLECTIVE_STEP", **step))
    engines.write("COLLECTIVE_STEPS", steps=2)
    engines.write("COLLECTIVE_BURST", beats=8, dtype="INT32")
    run(engines, "collective", 5000)
    return words(engines, 0x1000, 96), words(engines, 0x2000, 96), engines.collective_results()


def overlapped(session, plan, count):
    """A GEMM whose output a T3 plan reduces around the loop; twice, and the memory that is left."""
    device = Device(session.transports[0], config=session.config)
    engines = TrafficEngines(session.transports[0])
    device.program(plan)
    engines.set_gemm(**GEMM | {"chunk_workgroups": 3})
    for _run in range(2):
        device.clear_counters()
        device.arm()
        run(engines, "gemm", 20_000)
        device.wait(timeout=20_000)
    assert not device.errors()
    return words(engines, plan.regions[1].base, count), device.counters()
