"""A node without link, adders and first-touch map counts, triggers, copies, and says what it is."""

import pytest
from amaranth.sim import Simulator

from node_bench import PATIENCE, NodeBench
from t3hw.config import ConfigError
from t3hw.fpga.boards import BoardDesign
from t3hw.hdl.node import Node
from t3hw.hdl.ring import Ring
from t3hw.hdl.traffic_node import TrafficNode
from t3hw.registers import decode_register, encode_entry, entry_address, register_address
from t3hw.runtime.functional import FunctionalDevice

#: The smallest there is, and one with more of everything.
LEAST = BoardDesign.stock("icebreaker").node
MORE = LEAST.replace(pipelined=True, tracker_ways=2, outstanding_writes=4, producer_reads=4,
                     compute_queue=4, communication_queue=4, outstanding_reads=4, addr_width=20,
                     expected_width=24, data_width=64, commands=8)
DONE = 2
OVER_COUNT, MEMORY_ERROR = 1 << 5, 1 << 8


@pytest.fixture(params=[LEAST, MORE], ids=["least", "more"])
def node(request):
    """Runs a scenario with a `NodeBench`."""
    config = request.param
    dut = Node(config=config)

    def run(scenario):
        async def testbench(ctx):
            await scenario(NodeBench(ctx, dut, config))

        sim = Simulator(dut)
        sim.add_clock(10e-9)
        sim.add_testbench(testbench)
        sim.run()

    return run


def copy_plan(tile, *, source=0, destination=256, doorbell=0):
    """A tile of so many bytes; full, it is copied."""
    return [
        ("REGION", 0, {"enable": 1, "action": "LOCAL_STORE", "tracked": 1, "base": 0,
                       "limit": tile - 1}),
        ("TILE", 0, {"expected": tile, "command": 0, "rows": 2, "row_bytes": tile // 2}),
        ("COMMAND", 0, {"need": 1, "first": 0, "count_minus_1": 0}),
        ("ROUTE", 0, {"dma": 1, "op": "STORE", "source": source, "destination": destination,
                      "source_pitch": tile // 2, "destination_pitch": tile,
                      "doorbell": bool(doorbell), "doorbell_address": doorbell,
                      "doorbell_data": 0xB311}),
        # Last, when the clear is over.
        ("PLAN", 0, {"tiles": 1, "commands": 1}),
    ]


async def finished(bench):
    for _try in range(PATIENCE):
        if await bench.read("PLAN_STATUS_STATE") & DONE:
            return
    raise AssertionError("the plan is not done")


async def store_words(bench, values):
    """Words, one after the other."""
    for number, value in enumerate(values):
        lanes = bench.config.beat_bytes // 4
        bench.ctx.set(bench.dut.s_axi_bready, 1)
        await bench.send("s_axi_aw", addr=4 * number, len=0, size=2, burst=1)
        await bench.send("s_axi_w", data=value << 32 * (number % lanes),
                         strb=0xF << 4 * (number % lanes), last=1)


async def word_at(bench, address):
    lanes = bench.config.beat_bytes // 4
    return await bench.load(address) >> 32 * (address // 4 % lanes) & 0xFFFFFFFF


def test_a_full_tile_is_copied_row_by_row(node):
    values = [0x1000 + number for number in range(16)]

    async def scenario(bench):
        await bench.program(copy_plan(64, doorbell=512))
        for _run in range(2):
            await bench.control(arm=1)
            await store_words(bench, values)
            await finished(bench)
            for number, value in enumerate(values):
                row, column = divmod(number, 8)
                assert await word_at(bench, 256 + 64 * row + 4 * column) == value
            assert await word_at(bench, 512) == 0xB311
            assert await bench.read("ERROR_STATUS") == 0
            values[0] += 1

    node(scenario)


def test_a_store_too_many_is_reported_and_changes_no_count(node):
    async def scenario(bench):
        await bench.program(copy_plan(64))
        await bench.control(arm=1)
        await store_words(bench, range(16))
        await store_words(bench, range(1))
        for _cycle in range(20):
            await bench.tick()
        assert await bench.read("ERROR_STATUS") == OVER_COUNT
        assert await bench.read("PLAN_STATUS_TILES_DONE") == 1

    node(scenario)


def test_a_copy_from_nowhere_is_an_error_and_can_be_cleared(node):
    async def scenario(bench):
        beyond = bench.config.memory_bytes
        if beyond >> bench.config.addr_width:
            return
        await bench.program(copy_plan(64, source=beyond))
        await bench.control(arm=1)
        await store_words(bench, range(16))
        for _cycle in range(200):
            await bench.tick()
        assert await bench.read("ERROR_STATUS") == MEMORY_ERROR
        await bench.control(clear=1)
        for _try in range(PATIENCE):
            if not await bench.read("PLAN_STATUS_STATE") & 0xF:
                return
        raise AssertionError("the plan is still clearing")

    node(scenario)


@pytest.mark.parametrize("table, fields", [
    ("REGION", {"enable": 1, "action": "LOCAL_UPDATE"}),
    ("REGION", {"enable": 1, "action": "REMOTE_STORE"}),
    ("REGION", {"enable": 1, "first_touch": 1}),
    ("ROUTE", {"dma": 1, "op": "UPDATE"}),
    ("ROUTE", {"dma": 1, "op": "STORE", "tracked": 1}),
    ("ROUTE", {"doorbell": 1, "doorbell_remote": 1}),
])
def test_what_needs_a_neighbour_is_refused(node, table, fields):
    async def scenario(bench):
        with pytest.raises(AssertionError, match="refused"):
            await bench.write(entry_address(table, 0), encode_entry(table, **fields)[0])

    node(scenario)


def test_it_says_what_it_is(node):
    async def scenario(bench):
        assert decode_register("CAP_WIDTHS", await bench.read("CAP_WIDTHS"))["collective"] == 0
        assert await bench.read("CAP_TOUCH") == 0
        for name in ("LINK_INTERVAL", "HOLD_TIMEOUT", "STARVATION_LIMIT"):
            assert await bench.read(name) == 0
            with pytest.raises(AssertionError, match="refused"):
                await bench.write(register_address(name), 0)

    node(scenario)


@pytest.mark.parametrize("make, where", [
    (lambda: Ring(config=LEAST, devices=2), "ring"),
    (lambda: TrafficNode(config=LEAST), "node with traffic engines"),
    (lambda: FunctionalDevice(LEAST), "functional device"),
    (lambda: BoardDesign.stock("icebreaker").replace(devices=2), "alone on its board"),
])
def test_where_it_makes_no_sense_it_is_refused(make, where):
    with pytest.raises(ConfigError, match=where):
        make()
