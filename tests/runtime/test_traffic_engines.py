"""The traffic engines' driver: what lands in which register, and what it refuses."""

import pytest

from t3hw.config import DTYPE_NAMES
from t3hw.registers import RegisterError
from t3hw.registers.traffic import (MAP_HASH, decode_register, entry_address, register_address)
from t3hw.runtime.device import DeviceError
from t3hw.runtime.traffic import TrafficEngines
from t3hw.runtime.transport import BusError, Transport
from t3hw.workloads.collectives import CollectiveStep, StepTable, ring_reduce_scatter_steps

UNITS, STAGES, STEPS = 100, 6, 9

GEMM = {
    "units": 80, "workgroups": 1280, "first_workgroup": 5, "chunk_workgroups": 160, "steps": 33,
    "step_cycles": 0xABCDEF, "burst_beats": 8, "streams": 16, "stream_bytes": 1 << 20,
    "read_base": 0x12_3456_7800, "base": 0x98_7654_3200, "workgroup_bytes": 0x400, "wavefronts": 4,
    "tile_beats": 4, "seed": 0xDEADBEEF, "and_mask": 0x8FFF8FFF, "or_mask": 0x30003000,
    "stage_reads": [700, 600]}


class Engines(Transport):
    """Registers that keep what is written; ``waits`` says how many times nothing happens."""

    def __init__(self, **answers):
        self.words = {}
        self.log = []
        self.refused = set()
        self.waits = 0
        self.limits = []
        for name, fields in (
                ("MAP_HASH", MAP_HASH), ("CAP_GEMM", UNITS | STAGES << 16),
                ("CAP_COLLECTIVE", STEPS), ("GEMM_STATUS", 4)):
            self.words[register_address(name)] = answers.get(name, fields)

    def read32(self, address):
        if address in self.refused:
            raise BusError("read", address)
        return self.words.get(address, 0)

    def write32(self, address, value):
        if address in self.refused:
            raise BusError("write", address)
        self.log.append((address, value))
        if address != register_address("IRQ_STATUS"):
            self.words[address] = value

    def wait_interrupt(self, cycles):
        self.limits.append(cycles)
        return not self.waits

    def fields(self, name):
        return decode_register(name, self.words[register_address(name)])


@pytest.fixture
def bus():
    return Engines()


def test_a_node_without_engines_is_refused(bus):
    bus.refused.add(register_address("MAP_HASH"))
    with pytest.raises(DeviceError, match="no traffic engines.*--traffic"):
        TrafficEngines(bus)


def test_another_register_map_is_refused():
    with pytest.raises(DeviceError, match=f"0x0000002a, software {MAP_HASH:#010x}"):
        TrafficEngines(Engines(MAP_HASH=42))


def test_settings_of_a_gemm_land_in_their_registers(bus):
    TrafficEngines(bus).set_gemm(**GEMM)
    for register, fields in {
            "GEMM_UNITS": {"units": 80}, "GEMM_WORKGROUPS": {"workgroups": 1280},
            "GEMM_FIRST_WORKGROUP": {"first_workgroup": 5},
            "GEMM_CHUNK_WORKGROUPS": {"chunk_workgroups": 160}, "GEMM_STEPS": {"steps": 33},
            "GEMM_STEP_CYCLES": {"step_cycles": 0xABCDEF},
            "GEMM_READS": {"burst_log2": 3, "streams_log2": 4, "stream_bytes_log2": 20},
            "GEMM_READ_BASE_LO": {"value": 0x3456_7800}, "GEMM_READ_BASE_HI": {"value": 0x12},
            "GEMM_BASE_LO": {"value": 0x7654_3200}, "GEMM_BASE_HI": {"value": 0x98},
            "GEMM_WORKGROUP_BYTES": {"workgroup_bytes": 0x400},
            "GEMM_TILES": {"wavefronts": 4, "tile_beats_log2": 2},
            "GEMM_SEED": {"seed": 0xDEADBEEF}, "GEMM_AND_MASK": {"mask": 0x8FFF8FFF},
            "GEMM_OR_MASK": {"mask": 0x30003000}}.items():
        assert bus.fields(register) == fields, register
    # Stages behind those that are given are like the last of them.
    assert [bus.words[entry_address("GEMM_STAGE", index)] for index in range(STAGES)] == [
        700, 600, 600, 600, 600, 600]
    assert entry_address("GEMM_STAGE", STAGES) not in bus.words
    assert not [address for address, _ in bus.log if address == register_address("GEMM_CONTROL")]


@pytest.mark.parametrize("name", ["burst_beats", "streams", "stream_bytes", "tile_beats"])
@pytest.mark.parametrize("value", [0, 3, 12])
def test_what_must_be_a_power_of_two_is_refused_by_name(bus, name, value):
    with pytest.raises(DeviceError, match=f"{name} must be a power of two, not {value}$"):
        TrafficEngines(bus).set_gemm(**GEMM | {name: value})


@pytest.mark.parametrize("name, value", [
    ("units", 512), ("workgroups", 1 << 16), ("step_cycles", 1 << 24), ("steps", -1),
    ("seed", 1 << 32), ("stage_reads", [1 << 16])])
def test_values_that_do_not_fit_are_refused(bus, name, value):
    with pytest.raises(RegisterError, match=f"not {value[0] if name == 'stage_reads' else value}"):
        TrafficEngines(bus).set_gemm(**GEMM | {name: value})


@pytest.mark.parametrize("reads", [[], [1] * (STAGES + 1)])
def test_a_table_of_stages_of_another_size_is_refused(bus, reads):
    with pytest.raises(DeviceError, match=f"1 to {STAGES} entries, not {len(reads)}$"):
        TrafficEngines(bus).set_gemm(**GEMM | {"stage_reads": reads})


def test_settings_that_the_node_refuses_are_refused():
    with pytest.raises(DeviceError, match=f"of {UNITS} units, refuses these settings: 80 units, "
                                          "1280 workgroups in chunks of 160, 4 tiles of 4 beats"):
        TrafficEngines(Engines(GEMM_STATUS=0)).set_gemm(**GEMM)


def test_results_of_a_gemm_come_from_their_registers(bus):
    engines = TrafficEngines(bus)
    for value, name in enumerate(("CYCLES", "FIRST_STORE", "LAST_STORE", "READ_BEATS",
                                  "WRITE_BEATS", "STORE_STALL"), 100):
        bus.words[register_address(f"GEMM_{name}")] = value
    bus.words[register_address("GEMM_READ_WAIT_LO")] = 0x89ABCDEF
    bus.words[register_address("GEMM_READ_WAIT_HI")] = 0x1234567
    assert engines.gemm_results() == {
        "cycles": 100, "first_store": 101, "last_store": 102, "read_beats": 103, "write_beats": 104,
        "store_stall": 105, "read_wait": 0x4567_89ABCDEF}


def test_a_collective_lands_in_its_table_and_registers(bus):
    table = ring_reduce_scatter_steps(devices=3, chunk_beats=32, beat_bytes=4, own=0,
                                      staging=0x1000, remote_staging=0x1_0000_0000)
    TrafficEngines(bus).set_collective(table, burst=16, dtype="bfloat16")
    for index, step in enumerate(table.steps):
        assert [bus.words[entry_address("COLLECTIVE_STEP", index, word)] for word in range(7)] == [
            step.beats | step.add << 24 | step.wait << 25, step.source_a & 0xFFFFFFFF,
            step.source_a >> 32, (step.source_b or 0) & 0xFFFFFFFF, (step.source_b or 0) >> 32,
            step.destination & 0xFFFFFFFF, step.destination >> 32], index
    assert bus.fields("COLLECTIVE_STEPS") == {"steps": 3}
    assert bus.fields("COLLECTIVE_BURST") == {"beats": 16, "dtype": DTYPE_NAMES.index("bfloat16")}
    assert bus.fields("COLLECTIVE_EXPECTED") == {"beats": 64}
    for value, name in enumerate(("CYCLES", "READ_BEATS", "WRITE_BEATS"), 7):
        bus.words[register_address(f"COLLECTIVE_{name}")] = value
    assert TrafficEngines(bus).collective_results() == {
        "cycles": 7, "read_beats": 8, "write_beats": 9}


def test_a_table_of_steps_that_is_too_large_is_refused(bus):
    step = CollectiveStep(source_a=0, destination=64, beats=4)
    engines = TrafficEngines(bus)
    engines.set_collective(StepTable(steps=(step,) * STEPS, expected=0), burst=4, dtype="int32")
    with pytest.raises(DeviceError, match=f"steps has {STEPS} entries, not {STEPS + 1}$"):
        engines.set_collective(StepTable(steps=(step,) * (STEPS + 1), expected=0), burst=4,
                               dtype="int32")
    with pytest.raises(RegisterError, match="FLOAT64"):
        engines.set_collective(StepTable(steps=(step,), expected=0), burst=4, dtype="float64")


@pytest.mark.parametrize("engine, bit", [("gemm", 1), ("collective", 2)])
def test_a_run_enables_its_interrupt_alone_and_then_starts(bus, engine, bit):
    engines = TrafficEngines(bus)
    engines.start(engine)
    assert bus.log == [(register_address("IRQ_STATUS"), 3), (register_address("IRQ_ENABLE"), bit),
                       (register_address(f"{engine.upper()}_CONTROL"), 1)]
    bus.log.clear()
    bus.words[register_address("IRQ_STATUS")] = 3
    engines.wait(engine, timeout=50)
    # The other engine's bit is left alone.
    assert bus.log == [(register_address("IRQ_STATUS"), bit), (register_address("IRQ_ENABLE"), 0)]
    assert not bus.limits


def test_arrivals_are_forgotten_and_nothing_is_started(bus):
    TrafficEngines(bus).forget_arrivals()
    assert bus.log == [(register_address("COLLECTIVE_CONTROL"), 2)]


@pytest.mark.parametrize("engine", ["gemm", "collective"])
def test_an_engine_that_is_never_done_is_a_timeout(bus, engine):
    bus.waits = 1
    with pytest.raises(TimeoutError, match=f"the {engine} engine is not done after 77 cycles"):
        TrafficEngines(bus).wait(engine, timeout=77)
    assert bus.limits == [77]


@pytest.mark.parametrize("engine", ["gemm", "collective"])
def test_an_access_that_failed_is_an_error(bus, engine):
    bus.words[register_address("IRQ_STATUS")] = 3
    bus.words[register_address(f"{engine.upper()}_STATUS")] = 2
    with pytest.raises(DeviceError, match=f"an access of the {engine} engine"):
        TrafficEngines(bus).wait(engine, timeout=5)


def test_memory_is_read_word_by_word_from_an_address(bus):
    bus.words[register_address("READ_DATA")] = 0x44332211
    assert TrafficEngines(bus).read_memory(0x12_0000_0010, 8) == bytes.fromhex("1122334411223344")
    assert bus.log == [(register_address("READ_ADDRESS_LO"), 0x10),
                       (register_address("READ_ADDRESS_HI"), 0x12)]


@pytest.mark.parametrize("address, length", [(2, 4), (4, 3)])
def test_memory_is_read_in_words_only(bus, address, length):
    with pytest.raises(DeviceError, match=f"multiples of 4, not {address} and {length}$"):
        TrafficEngines(bus).read_memory(address, length)
