"""Plans: any shape can be cut, exactly full is accepted, one more refused with value and limit."""

import dataclasses
import json

import pytest

from t3hw.config import PRESETS, NodeConfig
from t3hw.runtime.plan import PlanError, check_together, ring_reduce_scatter

CONFIG = NodeConfig()


def plan_of(config=CONFIG, **changes):
    arguments = dict(m=16, n=16, dtype="float16", devices=4, tile=(4, 4)) | changes
    return ring_reduce_scatter(config=config, **arguments)


# Shapes.

@pytest.mark.parametrize("scatter_dim", [0, 1])
@pytest.mark.parametrize("devices", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("m, n", [
    (1, 1), (73, 4), (4, 73), (127, 1), (129, 3), (1, 127), (8, 8), (7, 9)])
def test_chunks_and_tiles_cover_the_output_once(m, n, devices, scatter_dim):
    plan = plan_of(m=m, n=n, devices=devices, scatter_dim=scatter_dim, tile=(16, 16),
                   dtype="float32")
    elements = set()
    places = set()
    for chunk in plan.chunks:
        numbers = []
        for tile in chunk.tiles:
            assert chunk.row <= tile.row and tile.row + tile.rows <= chunk.row + chunk.rows
            assert chunk.column <= tile.column
            assert tile.column + tile.columns <= chunk.column + chunk.columns
            for row in range(tile.rows):
                for column in range(tile.columns):
                    elements.add((tile.row + row, tile.column + column))
                    places.add(tile.address + row * plan.pitch + 4 * column)
            numbers.append(tile.wg)
        assert numbers == list(range(len(numbers)))
        assert sum(tile.bytes for tile in chunk.tiles) == chunk.bytes
    assert len(elements) == len(places) == m * n
    assert sum(chunk.bytes for chunk in plan.chunks) == plan.output_bytes == 4 * m * n


@pytest.mark.parametrize("devices", range(2, 9))
@pytest.mark.parametrize("m", [1, 2, 5, 8, 33])
def test_what_one_device_sends_is_what_the_next_expects(m, devices):
    plan = plan_of(m=m, devices=devices)
    for index, one in enumerate(plan.device_plans):
        receiver = plan.device_plans[index - 1]
        sent = one.traffic.remote_write_bytes + one.traffic.dma_read_bytes
        assert sent == receiver.traffic.incoming_update_bytes
        expected = sum(entry.expected for entry in one.tiles)
        assert expected == one.traffic.memory_write_bytes
        assert one.tiles, "a plan without tiles would be done before its producer begins"
    total = sum(one.traffic.memory_write_bytes for one in plan.device_plans)
    if m >= devices:
        assert total == (2 * devices - 2) * plan.output_bytes


def test_one_thousand_rows_in_tiles_of_128_over_eight_devices():
    plan = plan_of(m=1000, n=64, devices=8, tile=(128, 64))
    assert plan.bounds == (0, 128, 256, 384, 512, 640, 768, 896, 1000)
    assert [len(chunk.tiles) for chunk in plan.chunks] == [1] * 8
    plan = plan_of(m=1000, n=64, devices=8, tile=(512, 64))
    assert plan.bounds == (0, 125, 250, 375, 500, 625, 750, 875, 1000)


def test_wavefronts_are_bands_of_rows_with_ids_without_holes():
    plan = plan_of(m=14, n=4, devices=2, tile=(8, 4), wavefronts=4)
    assert [(tile.wg, tile.wf, tile.row, tile.rows) for tile in plan.chunks[1].tiles] == [
        (0, 0, 8, 2), (0, 1, 10, 2), (0, 2, 12, 2)]
    assert [(tile.wg, tile.wf) for tile in plan.chunks[0].tiles] == [
        (0, 0), (0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize("granularity, commands", [("tile", 8), ("chunk", 2), (3, 4), (100, 2)])
def test_granularity(granularity, commands):
    plan = plan_of(granularity=granularity)
    for one in plan.device_plans:
        assert len(one.commands) == commands
        assert sum(command.count for command in one.commands) == 8
        assert {command.need for command in one.commands} <= {1, 2, 3, 4}


def test_products_beyond_32_bits():
    huge = NodeConfig(memory="axi", memory_bytes=0, addr_width=40, tiles=32768, commands=16384)
    for rows in (65536, 65537):
        plan = plan_of(huge, m=rows, n=32768, dtype="bfloat16", devices=8, tile=(128, 16384),
                       check=False)
        assert plan.output_bytes == plan.end == rows * 32768 * 2
        last = plan.chunks[7].tiles[-1]
        assert last.address + (last.rows - 1) * plan.pitch + last.row_bytes == plan.end
        for one in plan.device_plans:
            sources = {route.index: route.source for route in one.routes}
            routes = {command.index: command.route for command in one.commands}
            for entry in one.tiles:
                assert 0 <= entry.offset < 1 << 32
                if entry.command is not None:
                    assert sources[routes[entry.command]] + entry.offset == entry.tile.address
        with pytest.raises(PlanError, match="first-touch map up to beat"):
            plan.check(huge)


def test_a_second_route_where_offsets_need_more_than_32_bits():
    huge = NodeConfig(memory="axi", memory_bytes=0, addr_width=40, tiles=32768, commands=16384)
    plan = plan_of(huge, m=3 << 16, n=32768, dtype="bfloat16", devices=3, tile=(128, 16384),
                   check=False)
    assert [len(one.routes) for one in plan.device_plans] == [2, 2, 2]
    assert all(entry.offset < 1 << 32 for one in plan.device_plans for entry in one.tiles)


# Limits of the tables.

@pytest.mark.parametrize("limit, exact, more, message", [
    # 4 devices, 16 x 16 in tiles of 4 x 4: 12 tiles, 8 commands, 4 regions, 1 route a device.
    ({"tiles": 16}, {"first_tile": 4}, {"first_tile": 5},
     "tiles up to slot 16 exceeds the limit of 15"),
    ({"commands": 8}, {}, {"first_command": 1}, "commands up to number 8 exceeds the limit of 7"),
    ({"regions": 4}, {}, {"first_region": 1}, "regions up to number 4 exceeds the limit of 3"),
    ({"routes": 1}, {}, {"first_route": 1}, "routes up to number 1 exceeds the limit of 0"),
    ({"plans": 2}, {"plan": 1}, {"plan": 2}, "plan number 2 exceeds the limit of 1"),
    ({"touch_bytes": 512}, {"first_touch": 16}, {"first_touch": 17},
     "first-touch map up to beat 64 exceeds the limit of 63"),
    ({"memory_bytes": 1024}, {"base": 512}, {"base": 514},
     "last byte of region 3 1025 exceeds the limit of 1023"),
    ({"memory": "axi", "memory_bytes": 0, "addr_width": 16}, {"base": 65024}, {"base": 65026},
     "exceeds the limit of 65535"),
    ({"wg_width": 4}, {"tile": (1, 4)}, {"tile": (1, 3)},
     "workgroup .* 16 exceeds the limit of 15"),
    ({"wf_width": 1}, {"wavefronts": 2}, {"wavefronts": 4},
     "wavefront bits of region 0 2 exceeds the limit of 1"),
    ({"dtypes": ["float16"]}, {}, {"dtype": "bfloat16"},
     "dtype bfloat16 is not built into the node, which has float16"),
])
def test_exactly_full_is_accepted_and_one_more_is_refused(limit, exact, more, message):
    config = CONFIG.replace(**limit)
    plan_of(config, **exact)
    with pytest.raises(PlanError, match=message):
        plan_of(config, **exact | more)


def test_the_tile_tables_last_slot_counts_tiles_of_the_largest_chunks():
    config = CONFIG.replace(tiles=64, commands=64)
    plan_of(config, m=64, n=4, devices=2, tile=(1, 2))
    with pytest.raises(PlanError, match="tiles up to slot 65 exceeds the limit of 63"):
        plan_of(config, m=63, n=4, devices=2, tile=(1, 2), first_tile=4)
    # What no table of the ring can hold is refused before it is cut.
    with pytest.raises(PlanError, match="130 tiles .* are more than 2 tile tables of 64"):
        plan_of(config, m=65, n=4, devices=2, tile=(1, 2))
    with pytest.raises(PlanError, match="1000000000000 tiles"):
        plan_of(config, m=1_000_000, n=1_000_000, devices=2, tile=(1, 1))


@pytest.mark.parametrize("exact, more, message", [
    ({"m": 131070, "n": 1, "tile": (65535, 1)}, {"m": 131072, "n": 1, "tile": (65536, 1)},
     "rows of tile slot 0 65536 exceeds the limit of 65535"),
    ({"m": 2, "n": 32767, "tile": (1, 32767)}, {"m": 2, "n": 32768, "tile": (1, 32768)},
     "row bytes of tile slot 0 65536 exceeds the limit of 65535"),
    ({"m": 510, "n": 16384, "tile": (255, 16384)}, {"m": 512, "n": 16384, "tile": (256, 16384)},
     "expected bytes of tile slot 0 16777216 exceeds the limit of 16777215"),
])
def test_fields_of_the_tile_table(exact, more, message):
    large = NodeConfig(memory="axi", memory_bytes=0, touch_bytes=1 << 26)
    plan_of(large, devices=2, **exact)
    with pytest.raises(PlanError, match=message):
        plan_of(large, devices=2, **more)


# Arguments.

@pytest.mark.parametrize("argument, message", [
    ({"m": 0}, "m must be at least 1, not 0"),
    ({"n": -3}, "n must be at least 1, not -3"),
    ({"m": 2.5}, "m must be an integer, not 2.5"),
    ({"devices": 1}, "devices must be at least 2, not 1"),
    ({"dtype": "float64"}, "not 'float64'"),
    ({"tile": (0, 4)}, "tile rows must be at least 1, not 0"),
    ({"tile": 4}, r"tile must be \(rows, columns\), not 4"),
    ({"wavefronts": 3}, "wavefronts must be a power of two, not 3"),
    ({"granularity": "row"}, "not 'row'"),
    ({"granularity": 0}, "at least 1, not 0"),
    ({"base": 3}, "base must be a multiple of the element, 2 bytes, not 3"),
    ({"pitch": 33}, "pitch must be a multiple of the element, 2 bytes, not 33"),
    ({"pitch": 30}, "pitch must be at least a row's 32 bytes, not 30"),
    ({"scatter_dim": 2}, "scatter_dim must be 0 or 1, not 2"),
    ({"tile_ids": "none"}, "not 'none'"),
    ({"first_tile": -1}, "first_tile must be at least 0, not -1"),
    ({"timeout": 1 << 32}, "timeout 4294967296 exceeds the limit of 4294967295"),
    ({"plan": True, "first_tile": None}, "first_tile must be an integer, not None"),
])
def test_arguments_that_cannot_be_are_refused(argument, message):
    with pytest.raises(PlanError, match=message):
        plan_of(**argument)


@pytest.mark.parametrize("change, message", [
    ({"n": 12, "pitch": 24}, "pitch must be a power of two .* not 24"),
    ({"tile": (3, 4)}, "tile rows must be a power of two .* not 3"),
    ({"tile": (4, 6)}, "tile row bytes must be a power of two .* not 12"),
    ({"base": 4}, "base must be a multiple of the beat, 8 bytes, .* not 4"),
    ({"tile": (4, 2)}, "tile row bytes must be at least a beat, 8, .* not 4"),
    ({"wavefronts": 2}, "wavefronts must be 1 .* not 2"),
    ({"pitch": 64}, "pitch must be 32, the 4 tiles of a row, .* not 64"),
])
def test_what_address_bits_cannot_describe_is_refused(change, message):
    plan_of(tile_ids="address")
    with pytest.raises(PlanError, match=message):
        plan_of(tile_ids="address", **change)


# Plans made by hand.

def altered(plan, **changes):
    return dataclasses.replace(plan, device_plans=(
        dataclasses.replace(plan.device_plans[0], **changes), *plan.device_plans[1:]))


def test_plans_that_contradict_themselves_are_refused():
    plan = plan_of(granularity="chunk")
    one = plan.device_plans[0]
    first, second = one.commands
    with pytest.raises(PlanError, match="slot 5 is claimed by commands 0 and 1"):
        altered(plan, commands=(dataclasses.replace(first, count=6), dataclasses.replace(
            second, first=5))).check(CONFIG)
    with pytest.raises(PlanError, match="command 0 needs 5 tiles, and 4 are for it"):
        altered(plan, commands=(dataclasses.replace(first, need=5), second)).check(CONFIG)
    with pytest.raises(PlanError, match="command 0 has route 3"):
        altered(plan, commands=(dataclasses.replace(first, route=3), second)).check(CONFIG)
    with pytest.raises(PlanError, match="sends slot 12, which is not in the plan"):
        altered(plan, commands=(first, dataclasses.replace(second, first=9))).check(CONFIG)
    with pytest.raises(PlanError, match="for command 9, which is not in the plan"):
        altered(plan, tiles=(*one.tiles[:-1], dataclasses.replace(
            one.tiles[-1], command=9))).check(CONFIG)
    with pytest.raises(PlanError, match="slots must be 0 to 11, each once"):
        altered(plan, tiles=(*one.tiles[:-1], one.tiles[0])).check(CONFIG)
    with pytest.raises(PlanError, match="regions 0 and 1 overlap at 0x80, limit 0x80"):
        altered(plan, regions=(dataclasses.replace(one.regions[0], limit=128),
                               *one.regions[1:])).check(CONFIG)


# Plans beside each other.

def test_plans_beside_each_other():
    first = plan_of()
    second = plan_of(devices=4, n=10, **first.next_free())
    third = plan_of(devices=4, n=7, **second.next_free())
    check_together([first, second, third])


@pytest.mark.parametrize("clash, message", [
    ({"plan": 0}, "two plans have the number 0"),
    ({"first_tile": 11}, "both claim tile slots from 11 on"),
    ({"first_command": 7}, "both claim commands from 7 on"),
    ({"first_touch": 47}, "both claim first-touch map from 47 on"),
    ({"first_region": 3}, r"both claim regions \[3\]"),
    ({"first_route": 0}, r"both claim routes \[0\]"),
    ({"base": 510}, "regions 3 and 4 overlap at 0x1fe"),
])
def test_plans_that_claim_the_same_are_refused(clash, message):
    first = plan_of()
    with pytest.raises(PlanError, match=message):
        check_together([first, plan_of(**first.next_free() | clash)])


# Printing.

def test_printing():
    plan = plan_of(m=10, n=6, devices=3, wavefronts=2, pitch=16)
    text = plan.describe()
    assert "ring reduce-scatter of 10 x 6 float16 over 3 devices, rows scattered" in text
    assert "device 2: chunks 0 remote, 1 forward, 2 keep" in text
    again = json.loads(json.dumps(plan.as_dict()))
    assert again["device_plans"][2]["stages"][0] == {"chunk": 0, "role": "remote"}
    assert again["output_bytes"] == 120


def test_presets_take_a_plan_each():
    for name, config in PRESETS.items():
        # The smallest has two regions and one type.
        plan_of(config, **({"devices": 2, "dtype": "int32"} if name == "nano" else {}))
