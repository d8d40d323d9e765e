"""A whole node whose neighbour gives no credits: what comes in is still added,
and nothing is lost."""

from amaranth.sim import Simulator

from link_packets import UPDATE, Packet, packet_words
from node_bench import CONFIG, PATIENCE, NodeBench
from t3hw.hdl.node import Node

BEATS = 128
TILE_BYTES = 4 * BEATS
STALLED_CYCLES = 2500
ENTRIES = [
    ("TILE", 0, {"expected": TILE_BYTES, "command": 0, "rows": 1, "row_bytes": TILE_BYTES}),
    ("COMMAND", 0, {"need": 1, "first": 0, "count_minus_1": 0}),
    ("ROUTE", 0, {"dma": 1, "op": "UPDATE", "tracked": 0}),
    ("PLAN", 0, {"tiles": 1, "commands": 1}),
    ("REGION", 0, {"enable": 1, "action": "LOCAL_STORE", "tracked": 1, "base": 0,
                   "limit": TILE_BYTES - 1}),
    ("REGION", 1, {"enable": 1, "action": "LOCAL_UPDATE", "accept_update": 1,
                   "base": TILE_BYTES, "limit": TILE_BYTES + 3}),
]


def test_incoming_updates_commit_while_the_dma_engine_has_no_credit():
    dut = Node(config=CONFIG)
    packet = Packet(address=TILE_BYTES, op=UPDATE, beats=[(1, 0xF)])

    async def scenario(ctx):
        bench = NodeBench(ctx, dut, CONFIG)
        await bench.program(ENTRIES)
        await bench.control(arm=1)
        ctx.set(dut.link_tx_tready, 1)
        await bench.store(0, range(BEATS))
        for _cycle in range(200):
            await bench.tick()
        seen = bench.seen
        assert len(seen["trace_commit_local"]) == BEATS
        assert seen["trace_first_read"] == [seen["trace_commit_local"][-1] + Node.trigger_latency]
        # The link has all that it has credits for, and the engine's buffer is full.
        assert len(seen["trace_tx"]) == CONFIG.link_credits

        updates = 0
        until = bench.cycle + STALLED_CYCLES
        while bench.cycle < until:
            for word in packet_words(CONFIG, packet):
                await bench.send("link_rx_t", **word)
            updates += 1
            for _cycle in range(20):
                await bench.tick()
        # The last one may still be on its way.
        for _cycle in range(30):
            await bench.tick()
        assert len(seen["trace_tx"]) == CONFIG.link_credits
        assert not seen["trace_done"]
        assert len(seen["trace_commit_incoming"]) == updates >= 100
        assert await bench.load(TILE_BYTES) == updates

        given = 0
        for _cycle in range(PATIENCE):
            give = given < len(seen["trace_tx"])
            given += give
            ctx.set(dut.link_tx_credit, give)
            await bench.tick()
            if seen["trace_done"]:
                break
        assert seen["trace_done"], "the plan is not done, with all credits given back"

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(scenario)
    sim.run()
