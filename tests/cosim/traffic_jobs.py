"""What runs inside the simulator for the tests of the traffic node."""

import numpy as np

from t3hw.registers import traffic
from t3hw.runtime.device import Device
from t3hw.runtime.transport import BusError


class Engines:
    """The traffic registers of one node, by name."""

    def __init__(self, session, device=0):
        self.session = session
        self.transport = session.transports[device]

    def write(self, name, **fields):
        """Write a register."""
        self.transport.write32(traffic.register_address(name),
                               traffic.encode_register(name, **fields))

    def read(self, name):
        """Fields of a register."""
        return traffic.decode_register(
            name, self.transport.read32(traffic.register_address(name)))

    def refused(self, name, **fields):
        """Whether a write is answered with an error."""
        try:
            self.write(name, **fields)
        except BusError:
            return True
        return False

    def entry(self, table, number, **fields):
        """Write an entry of a table."""
        for word, value in enumerate(traffic.encode_entry(table, **fields)):
            self.transport.write32(traffic.entry_address(table, number, word), value)

    def program(self, registers):
        """Write registers, fields by name."""
        self.transport.write_words(
            (traffic.register_address(name), traffic.encode_register(name, **fields))
            for name, fields in registers.items())

    def run(self, engine, cycles):
        """Start an engine and wait for its interrupt."""
        bit = {f"{engine.lower()}_done": 1}
        self.write("IRQ_ENABLE", **bit)
        self.write(f"{engine}_CONTROL", start=1)
        assert self.transport.wait_interrupt(cycles), f"{engine} is not done"
        assert self.read("IRQ_STATUS")[f"{engine.lower()}_done"]
        self.write("IRQ_STATUS", **bit)
        self.session.wait(3)
        assert not self.transport.wait_interrupt(1)

    def memory(self, address, words):
        """32-bit words of memory."""
        self.program({"READ_ADDRESS_LO": {"value": address & 0xFFFFFFFF},
                      "READ_ADDRESS_HI": {"value": address >> 32}})
        data = traffic.register_address("READ_DATA")
        return np.array([self.transport.read32(data) for _ in range(words)], np.uint32)


def gemm_registers(**settings):
    """Registers of a small GEMM that stores 12 workgroups from 0x1000 on, of 2 tiles of 4 beats of
    4 bytes."""
    values = {
        "units": 4, "workgroups": 12, "first_workgroup": 0, "chunk_workgroups": 12, "steps": 3,
        "step_cycles": 60 * 256, "burst_log2": 1, "streams_log2": 1, "stream_bytes_log2": 8,
        "read_base": 0, "base": 0x1000, "workgroup_bytes": 32, "wavefronts": 2,
        "tile_beats_log2": 2, "seed": 9, "and_mask": 0xFFFFFFFF, "or_mask": 0} | settings
    registers = {f"GEMM_{name.upper()}": {name: values[name]} for name in (
        "units", "workgroups", "first_workgroup", "chunk_workgroups", "steps", "step_cycles",
        "workgroup_bytes", "seed")}
    registers["GEMM_READS"] = {name: values[name] for name in (
        "burst_log2", "streams_log2", "stream_bytes_log2")}
    registers["GEMM_TILES"] = {name: values[name] for name in ("wavefronts", "tile_beats_log2")}
    for name in ("read_base", "base"):
        registers[f"GEMM_{name.upper()}_LO"] = {"value": values[name] & 0xFFFFFFFF}
        registers[f"GEMM_{name.upper()}_HI"] = {"value": values[name] >> 32}
    for name in ("and_mask", "or_mask"):
        registers[f"GEMM_{name.upper()}"] = {"mask": values[name]}
    return registers


def gemm_alone(session):
    """A GEMM whose stores no region matches; what it measured, and what is in memory."""
    engines = Engines(session)
    engines.program(gemm_registers())
    for stage in range(3):
        engines.entry("GEMM_STAGE", stage, reads=3 * 256 + 64)
    assert engines.read("GEMM_STATUS") == {"busy": 0, "error": 0, "legal": 1}
    engines.run("GEMM", 5000)
    assert engines.read("GEMM_STATUS") == {"busy": 0, "error": 0, "legal": 1}
    results = {name: engines.read(f"GEMM_{name}")["value"] for name in (
        "CYCLES", "FIRST_STORE", "LAST_STORE", "READ_WAIT_LO", "READ_BEATS", "WRITE_BEATS")}
    return results, engines.memory(0x1000, 96), engines.memory(0x1000 + 4 * 96, 4)


def one_at_a_time(session):
    """Starts, settings and reads of memory while an engine runs; an interrupt of the node."""
    engines = Engines(session)
    engines.program(gemm_registers(steps=20))
    assert engines.refused("COLLECTIVE_CONTROL", start=1, clear=1)
    engines.write("GEMM_CONTROL", start=1)
    session.wait_until(lambda: session.is_busy(0), 10)
    assert session.is_busy(0)
    assert engines.refused("GEMM_CONTROL", start=1)
    assert engines.refused("COLLECTIVE_CONTROL", start=1)
    assert engines.refused("GEMM_STEPS", steps=1)
    engines.write("COLLECTIVE_STEPS", steps=0)
    try:
        engines.read("READ_DATA")
    except BusError:
        pass
    else:
        raise AssertionError("memory was read while an engine runs")
    session.wait_until(lambda: not session.is_busy(0), 20000)
    # A collective of no steps is done at once.
    engines.run("COLLECTIVE", 100)
    assert engines.read("COLLECTIVE_STATUS") == {"busy": 0, "error": 0}
    assert engines.read("IRQ_STATUS") == {"gemm_done": 1, "collective_done": 0}
    assert engines.read("COLLECTIVE_CYCLES")["value"] < 10
    return session.cycle


def copied(session):
    """The GEMM's output, and its copy that a collective engine made and added to."""
    engines = Engines(session)
    engines.program(gemm_registers())
    engines.run("GEMM", 5000)
    engines.entry("COLLECTIVE_STEP", 0, source_a=0x1000, destination=0x2000, beats=48)
    engines.entry("COLLECTIVE_STEP", 1, source_a=0x1000, source_b=0x10C0, destination=0x20C0,
                  beats=48, add=1)
    engines.program({"COLLECTIVE_STEPS": {"steps": 2},
                     "COLLECTIVE_BURST": {"beats": 8, "dtype": "INT32"}})
    engines.run("COLLECTIVE", 5000)
    assert engines.read("COLLECTIVE_STATUS") == {"busy": 0, "error": 0}
    counts = [engines.read(f"COLLECTIVE_{name}_BEATS")["value"] for name in ("READ", "WRITE")]
    return engines.memory(0x1000, 96), engines.memory(0x2000, 96), counts


def overlapped(session, plan, gemm, words):
    """A GEMM whose output a T3 plan reduces around the loop; twice, and the memory that is left."""
    device = Device(session.transports[0], config=session.config)
    engines = Engines(session)
    device.program(plan)
    engines.program(gemm)
    for _run in range(2):
        device.clear_counters()
        device.arm()
        engines.run("GEMM", 20_000)
        device.wait(timeout=20_000)
    first = plan.regions[1].base
    assert not device.errors()
    return engines.memory(first, words), device.counters()
