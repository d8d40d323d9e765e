"""The derived register files are what the description says, and agree with the hardware's enums and
with every configuration; names and values that do not fit are refused with both quoted."""

import os
import random
import subprocess
import sys

import pytest

from shallow_dram import shallow
from t3hw import registers
from t3hw.config import DTYPE_NAMES, PRESETS, NodeConfig
from t3hw.hdl import seams
from t3hw.registers import map as node_map
from t3hw.registers import board_map, traffic, traffic_map
from t3hw.registers import (
    COUNTERS, ENUMS, MAP_HASH, NO_COMMAND, REGISTERS, TABLES, RegisterError, absent_registers,
    capabilities, decode_entry, decode_register, derive, encode_entry, encode_register,
    entry_address, field_limits, register_address, register_limits, reset_values, table_sizes)


def test_derived_files_are_up_to_date():
    assert derive.check() == [], "run python -m t3hw.registers.derive"


def test_check_names_what_drifted(tmp_path):
    derive.derive(tmp_path)
    assert derive.check(tmp_path) == []
    map_file = tmp_path / derive.NODE.map
    map_file.write_text(map_file.read_text().replace("0x210", "0x214"))
    (tmp_path / derive.NODE.header).unlink()
    (tmp_path / derive.MANUAL / "stray.html").write_text("left over")
    assert derive.check(tmp_path) == [
        str(derive.MANUAL / "stray.html"), str(derive.NODE.header), str(derive.NODE.map)]


def test_map_holds_what_was_loaded_and_its_hash():
    for description, map_ in (
            (derive.NODE, node_map), (derive.TRAFFIC, traffic_map), (derive.BOARD, board_map)):
        assert derive.load(description) == {
            name: getattr(map_, name) for name in ("REGISTERS", "COUNTERS", "TABLES", "ENUMS")}
        assert derive.map_hash(derive.load(description)) == map_.MAP_HASH
    content = derive.load()
    moved = content | {"REGISTERS": REGISTERS | {
        "SCRATCH": REGISTERS["SCRATCH"]._replace(offset=0x38)}}
    assert derive.map_hash(moved) != MAP_HASH


def test_map_needs_no_tool():
    """Who only uses a node has neither the compiler nor the hardware's language."""
    code = ("import sys\n"
            "for name in ('systemrdl', 'peakrdl_html', 'peakrdl_cheader', 'amaranth'):\n"
            "    sys.modules[name] = None\n"
            "import t3hw.registers, t3hw.registers.derive\n")
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)


@pytest.mark.parametrize("map_, first, end", [
    (node_map, 0, 0x1000), (traffic_map, 0x10000, 0x11000)], ids=["node", "traffic"])
def test_addresses_are_unique_and_fields_do_not_overlap(map_, first, end):
    taken = {}
    for name, register in map_.REGISTERS.items():
        used = 0
        for key, field in register.fields.items():
            mask = (1 << field.width) - 1 << field.low
            assert mask < 1 << 32 and not used & mask, f"{name}.{key}"
            used |= mask
        for index in range(register.count):
            address = register.offset + index * register.stride
            assert address % 4 == 0 and first <= address < end
            assert address not in taken, f"{name} and {taken.get(address)} at {address:#x}"
            taken[address] = name
    for name, table in map_.TABLES.items():
        used = 0
        for key, field in table.fields.items():
            mask = (1 << field.width) - 1 << 32 * field.word + field.low
            assert mask < 1 << 32 * table.words and not used & mask, f"{name}.{key}"
            used |= mask
        assert 4 * table.words <= table.stride and table.stride & table.stride - 1 == 0
        assert table.base % table.stride == 0
    windows = sorted((table.base, table.base + table.stride * table.entries)
                     for table in map_.TABLES.values())
    assert windows[0][0] >= end
    assert all(behind <= start for (_, behind), (start, _) in zip(windows, windows[1:]))
    assert windows[-1][1] <= 1 << 20


def test_the_traffic_engines_have_their_own_window():
    """Nothing of the node lies in it, and all of the engines does."""
    def places(map_):
        for register in map_.REGISTERS.values():
            yield from range(register.offset, register.offset + max(register.stride, 4)
                             * register.count, 4)
        for table in map_.TABLES.values():
            yield from (table.base, table.base + table.stride * table.entries - 4)

    assert {place >> 16 for place in places(traffic_map)} == {1}
    assert 1 not in {place >> 16 for place in places(node_map)}


def test_enums_that_both_maps_have_are_the_same():
    shared = set(ENUMS) & set(traffic_map.ENUMS)
    assert shared == {"dtype"}
    assert all(ENUMS[name] == traffic_map.ENUMS[name] for name in shared)


def test_places_that_other_documents_quote():
    assert (REGISTERS["PRODUCT_ID"].offset, REGISTERS["PRODUCT_ID"].reset) == (0, 0x54334857)
    assert REGISTERS["ERROR_STATUS"].offset == 0x70
    assert register_address("PLAN_STATUS_TILES_DONE", 2) == 0x124
    assert COUNTERS[0][:2] == ("CYCLES", 0x210)
    assert {name: (table.base, table.stride) for name, table in TABLES.items()} == {
        "PLAN": (0x40000, 32), "REGION": (0x41000, 64), "ROUTE": (0x42000, 64),
        "COMMAND": (0x60000, 8), "TILE": (0x80000, 16)}
    assert entry_address("REGION", 3, 6) == 0x41000 + 3 * 64 + 24


@pytest.mark.parametrize("name, members", [
    ("policy", seams.Policy), ("region_action", seams.RegionAction),
    ("tile_id_mode", seams.TileIdMode), ("dtype", seams.Dtype), ("memory_op", seams.MemoryOp),
    ("error_cause", seams.ErrorCause)])
def test_enums_are_those_of_the_hardware(name, members):
    assert ENUMS[name] == {member.name: member.value for member in members}


def test_error_bits_and_dtypes_follow_the_enums():
    assert {key.upper(): field.low for key, field in REGISTERS["ERROR_STATUS"].fields.items()} == \
        ENUMS["error_cause"]
    assert all(field.width == 1 for field in REGISTERS["ERROR_STATUS"].fields.values())
    assert [name.lower() for name in ENUMS["dtype"]] == list(DTYPE_NAMES)
    assert NO_COMMAND == seams.NO_COMMAND


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS.keys())
def test_capabilities_say_what_the_configuration_is(config):
    words = capabilities(config)
    assert {name for name in words if name.startswith("CAP_")} == \
        {name for name in REGISTERS if name.startswith("CAP_")}
    widths = decode_register("CAP_WIDTHS", words["CAP_WIDTHS"])
    assert widths["beat_bytes"] * 8 == config.data_width
    assert widths["addr_width"] == config.addr_width
    assert widths["wg_width"] == config.wg_width
    assert widths["memory_builtin"] == (config.memory != "axi")
    queues = decode_register("CAP_QUEUES", words["CAP_QUEUES"])
    assert queues["memory_queue"] == (config.dram.window if config.memory == "dram" else 0)
    assert queues["compute_queue_minus_1"] + 1 == config.compute_queue
    assert queues["communication_queue_minus_1"] + 1 == config.communication_queue
    assert [name for index, name in enumerate(DTYPE_NAMES) if widths["dtypes"] >> index & 1] == \
        [name for name in DTYPE_NAMES if name in config.dtypes]
    large = decode_register("CAP_TABLES0", words["CAP_TABLES0"])
    assert (large["tiles_minus_1"] + 1, large["commands_minus_1"] + 1) == \
        (config.tiles, config.commands)
    assert words["CONFIG_HASH"] == config.hash
    assert words["MAP_HASH"] == MAP_HASH


def test_capabilities_fit_at_the_largest_configuration():
    words = capabilities(NodeConfig(
        data_width=128, addr_width=64, tracker_sets=1024, tracker_ways=16, tiles=32768,
        commands=16384, regions=32, routes=16, plans=8, touch_bytes=1 << 26, outstanding_reads=64,
        burst_beats=256, memory_bytes=1 << 40, memory_max_latency=1024, link_max_latency=4096,
        compute_queue=1024, communication_queue=1024))
    assert words["CAP_QUEUES"] == 1023 << 12 | 1023 << 22
    assert words["CAP_MEMORY"] == 0xFFFFFFFF
    assert decode_register("CAP_DMA", words["CAP_DMA"])["burst_beats_minus_1"] == 255


@pytest.mark.parametrize("table", TABLES)
def test_entries_come_back(table):
    rng = random.Random(table)
    for _round in range(50):
        fields = {key: rng.getrandbits(field.width) for key, field in TABLES[table].fields.items()}
        words = encode_entry(table, **fields)
        assert len(words) == TABLES[table].words and all(word < 1 << 32 for word in words)
        assert decode_entry(table, words) == fields


def test_an_entry_by_hand():
    assert encode_entry("REGION", enable=1, action="LOCAL_UPDATE", dtype=seams.Dtype.BFLOAT16,
                        tracked=True, plan=3, base=0x1_2345_6780, first_tile=7) == [
        1 | 1 << 1 | 2 << 4 | 1 << 6 | 3 << 14, 0x23456780, 1, 0, 0, 7, 0, 0, 0, 0]
    assert encode_register("CONTROL", policy="MCA") == 2


@pytest.mark.parametrize("call, message", [
    (lambda: encode_entry("REGION", bass=1), "no field in REGION: 'bass'"),
    (lambda: encode_entry("REGIONS"), "no table 'REGIONS'; there are PLAN, REGION"),
    (lambda: encode_entry("REGION", plan=8), "REGION.plan must be from 0 to 7, not 8"),
    (lambda: encode_entry("REGION", plan=-1), "REGION.plan must be from 0 to 7, not -1"),
    (lambda: encode_entry("REGION", action="ADD"), "no value of REGION.action 'ADD'"),
    (lambda: encode_entry("REGION", plan="one"), "REGION.plan takes a number, not 'one'"),
    (lambda: encode_entry("REGION", plan=1.5), "REGION.plan takes an integer, not 1.5"),
    (lambda: encode_register("SCRATCHES", value=0), "no register 'SCRATCHES'"),
    (lambda: encode_register("SCRATCH", value=1 << 32), "0 to 4294967295, not 4294967296"),
    (lambda: register_address("PLAN_STATUS_STATE", 8), "from 0 to 7, not 8"),
    (lambda: entry_address("COMMAND", 16384), "from 0 to 16383, not 16384"),
    (lambda: entry_address("COMMAND", 0, 2), "from 0 to 1, not 2"),
    (lambda: decode_entry("TILE", [0]), "has 4 words, not 1"),
    (lambda: decode_entry("TILES", [0]), "no table 'TILES'"),
])
def test_what_does_not_fit_is_refused_with_its_value(call, message):
    with pytest.raises(RegisterError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS.keys())
def test_limits_of_a_configuration(config):
    for (table, field), limit in field_limits(config).items():
        layout = TABLES[table].fields[field]
        largest = min(limit, (1 << layout.width) - 1)
        assert decode_entry(table, encode_entry(table, config=config, **{field: largest}))[field] \
            == largest
        with pytest.raises(RegisterError, match=f"from 0 to {largest}, not {largest + 1}"):
            encode_entry(table, config=config, **{field: largest + 1})
    assert encode_entry("TILE", config=config, command=NO_COMMAND)[1] == NO_COMMAND
    assert all(field in REGISTERS[name].fields for name, field in register_limits(config))
    assert all(size <= TABLES[name].entries for name, size in table_sizes(config).items())


@pytest.mark.parametrize("window, resets", [(64, [5, 10, 30, 0]), (30, [5, 10, 30, 0]),
                                            (16, [5, 10, 16, 0]), (2, [2, 2, 2, 0])])
def test_thresholds_are_at_most_the_depth_of_a_drams_queue(window, resets):
    config = shallow(window)
    names = [f"MCA_THRESHOLD_{level}" for level in range(4)]
    limits = register_limits(config)
    assert limits["MCA_CONTROL", "threshold"] == window
    assert [limits[name, "accesses"] for name in names] == [window] * 4
    assert [reset_values(config)[name, "accesses"] for name in names] == resets
    assert decode_register(
        "CAP_QUEUES", capabilities(config)["CAP_QUEUES"])["memory_queue"] == window
    assert decode_register("CAP_WIDTHS", capabilities(config)["CAP_WIDTHS"])["memory_builtin"] == 1


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS.keys())
def test_reset_values_are_those_of_the_map_and_within_the_limits(config):
    values = reset_values(config)
    for (name, key), value in values.items():
        reset = REGISTERS[name].fields[key].reset
        limit = register_limits(config).get((name, key), reset)
        assert value == min(reset, limit), name
    assert {name for name, _ in values} == {
        name for name, register in REGISTERS.items() if register.access in ("rw", "w1c")
        and (config.monitoring or not name.startswith("MCA_"))}
    if config.monitoring:
        assert [values[f"MCA_BOUNDARY_{level}", "intensity"]
                for level in range(3)] == [128, 64, 32]


def test_what_a_node_without_monitoring_does_not_have():
    config = PRESETS["tiny"]
    assert not absent_registers(config)
    absent = absent_registers(config.replace(monitoring=False))
    assert {"MCA_CONTROL", "MCA_STATUS", "CYCLES_LO", "CYCLES_HI", "TRACKER_OCCUPANCY"} <= absent
    assert not absent & {"COUNTER_CONTROL", "ERROR_COUNT", "CONTROL", "STARVATION_LIMIT"}
    for built in (True, False):
        words = capabilities(config.replace(monitoring=built))
        assert decode_register("CAP_WIDTHS", words["CAP_WIDTHS"])["monitoring"] == built


def test_limits_of_the_traffic_engines():
    config = PRESETS["tiny"].replace(addr_width=40)
    for (table, field), limit in traffic.field_limits(config).items():
        entry = traffic.encode_entry(table, traffic.field_limits(config), **{field: limit})
        assert traffic.decode_entry(table, entry)[field] == limit
        with pytest.raises(RegisterError, match=f"from 0 to {limit}, not {limit + 1}"):
            traffic.encode_entry(table, traffic.field_limits(config), **{field: limit + 1})
    limits = traffic.register_limits(config, units=100, steps=50)
    assert all(field in traffic.REGISTERS[name].fields for name, field in limits)
    assert limits["GEMM_UNITS", "units"] == 100
    assert (limits["GEMM_BASE_LO", "value"], limits["GEMM_BASE_HI", "value"]) == (0xFFFFFFFF, 0xFF)
    words = traffic.capabilities(units=256, stages=256, steps=256)
    assert traffic.decode_register("CAP_GEMM", words["CAP_GEMM"]) == {"units": 256, "stages": 256}
    assert all(size <= traffic.TABLES[name].entries
               for name, size in traffic.table_sizes(stages=256, steps=256).items())


@pytest.mark.parametrize("module", [registers, traffic])
def test_public_names_exist(module):
    assert all(hasattr(module, name) for name in module.__all__)
