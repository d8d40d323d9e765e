"""A clear of a whole node waits for what is under way, and for nothing that will never come."""

import pytest
from amaranth.sim import Simulator

from link_packets import STORE, UPDATE, Packet, packet_words
from node_bench import CONFIG, PATIENCE, NodeBench
from t3hw.hdl.node import Node

CLEARING = 1 << 3
MEMORY_ERROR = 1 << 8


def simulate(dut, scenario):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(scenario)
    sim.run()


async def cleared(bench):
    """Clear plan 0, and wait until it is."""
    await bench.control(clear=1)
    for _try in range(PATIENCE // 4):
        if not await bench.read("PLAN_STATUS_STATE") & CLEARING:
            return
    raise AssertionError("the plan is still clearing")


def test_a_plan_whose_dma_read_failed_can_be_cleared():
    dut = Node(config=CONFIG)

    async def scenario(ctx):
        bench = NodeBench(ctx, dut, CONFIG)
        ctx.set(dut.link_tx_tready, 1)
        await bench.program([
            ("TILE", 0, {"expected": 4, "command": 0, "rows": 1, "row_bytes": 4}),
            ("COMMAND", 0, {"need": 1}),
            ("ROUTE", 0, {"dma": 1, "op": "UPDATE", "source": 2 * CONFIG.memory_bytes}),
            ("PLAN", 0, {"tiles": 1, "commands": 1}),
            ("REGION", 0, {"enable": 1, "action": "LOCAL_STORE", "tracked": 1, "base": 0,
                           "limit": 3}),
        ])
        await bench.control(arm=1)
        await bench.store(0, [1])
        for _cycle in range(100):
            await bench.tick()
        assert await bench.read("ERROR_STATUS") == MEMORY_ERROR
        assert not bench.seen["trace_done"], "a plan is done that could not send all"
        await cleared(bench)
        assert await bench.read("PLAN_STATUS_STATE") == 0

    simulate(dut, scenario)


class SlowMemory(NodeBench):
    """A node bench with a memory at ``m_axi`` that can be slow."""

    slow = False
    writes = reads = 0

    async def tick(self):
        dut, ctx = self.dut, self.ctx
        ready = not (self.slow and self.cycle % 60)
        for name in ("aw", "w", "ar"):
            ctx.set(getattr(dut, f"m_axi_{name}ready"), ready)
        ctx.set(dut.m_axi_bvalid, self.writes > 0)
        ctx.set(dut.m_axi_rvalid, self.reads > 0)
        written = ready and ctx.get(dut.m_axi_wvalid)
        asked = ready and ctx.get(dut.m_axi_arvalid)
        answered = self.writes and ctx.get(dut.m_axi_bready)
        given = self.reads and ctx.get(dut.m_axi_rready)
        self.writes += bool(written) - bool(answered)
        self.reads += bool(asked) - bool(given)
        await super().tick()


@pytest.mark.parametrize("ahead", [6, 9, 10])
def test_a_beat_on_its_way_from_the_link_to_memory_is_waited_for(ahead):
    """The memory is slow, and ``ahead`` other stores stand before the update."""
    config = CONFIG.replace(memory="axi", memory_outstanding=2)
    dut = Node(config=config)

    async def scenario(ctx):
        bench = SlowMemory(ctx, dut, config)
        await bench.program([
            ("TILE", 0, {"expected": 8, "command": 0xFFFF, "rows": 1, "row_bytes": 4}),
            ("PLAN", 0, {"tiles": 1, "touch_beats": 1}),
            ("REGION", 0, {"enable": 1, "action": "LOCAL_UPDATE", "tracked": 1, "first_touch": 1,
                           "accept_update": 1, "base": 0, "limit": 3}),
            ("REGION", 1, {"enable": 1, "accept_store": 1, "base": 256, "limit": 1023}),
        ])
        await bench.control(arm=1)
        bench.slow = True
        update = Packet(address=0, op=UPDATE, beats=[(1, 0xF)], tracked=1, plan=0, epoch=1)
        others = [Packet(address=256 + 4 * index, op=STORE, beats=[(index, 0xF)])
                  for index in range(ahead)]
        for packet in [*others, update]:
            for word in packet_words(config, packet):
                await bench.send("link_rx_t", **word)
        for _cycle in range(12):
            await bench.tick()
        await cleared(bench)
        await bench.control(arm=1)
        for _cycle in range(900):
            await bench.tick()
        assert await bench.read("TILE_STATE") == 0, "a beat of the stopped run counts in the next"
        assert await bench.read("ERROR_STATUS") == 0

    simulate(dut, scenario)
