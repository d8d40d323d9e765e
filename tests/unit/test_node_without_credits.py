"""A whole node whose neighbour gives no credits: what comes in is still added, and nothing is lost."""

from amaranth.sim import Simulator

from link_packets import UPDATE, Packet, packet_words
from t3hw.config import NodeConfig
from t3hw.hdl.node import Node
from t3hw.registers import encode_entry, entry_address

CONFIG = NodeConfig(name="few", data_width=32, addr_width=16, dtypes=("int32",), tracker_sets=1,
                    tracker_ways=2, tiles=4, commands=2, regions=2, routes=1, plans=1,
                    touch_bytes=64, compute_queue=2, communication_queue=2, outstanding_reads=16,
                    outstanding_writes=2, burst_beats=4, memory_bytes=1024, memory_max_latency=0,
                    link_credits=8, link_max_latency=0)
BEATS = 128
TILE_BYTES = 4 * BEATS
PATIENCE = 2000
STALLED_CYCLES = 2500


class NodeBench:
    """Drives a node's ports by name, and counts what its trace ports show."""

    def __init__(self, ctx, dut):
        self.ctx, self.dut = ctx, dut
        self.cycle = 0
        self.seen = {name: [] for name in ("trace_commit_local", "trace_commit_incoming",
                                           "trace_first_read", "trace_tx", "trace_done")}
        self.sent = []

    async def tick(self):
        dut = self.dut
        _, _, word, *pulses = await self.ctx.tick().sample(
            dut.link_tx_tdata, *(getattr(dut, name) for name in self.seen))
        for cycles, pulse in zip(self.seen.values(), pulses):
            cycles.extend([self.cycle] * bool(pulse))
        self.cycle += 1

    async def send(self, prefix, **fields):
        """One transfer on a channel that goes into the node."""
        for name, value in fields.items():
            self.ctx.set(getattr(self.dut, prefix + name), value)
        self.ctx.set(getattr(self.dut, prefix + "valid"), 1)
        for _cycle in range(PATIENCE):
            taken = self.ctx.get(getattr(self.dut, prefix + "ready"))
            await self.tick()
            if taken:
                self.ctx.set(getattr(self.dut, prefix + "valid"), 0)
                return
        raise AssertionError(f"{prefix} is not ready for {PATIENCE} cycles")

    async def write(self, address, value):
        self.ctx.set(self.dut.s_axil_bready, 1)
        self.ctx.set(self.dut.s_axil_wvalid, 1)
        self.ctx.set(self.dut.s_axil_wdata, value)
        self.ctx.set(self.dut.s_axil_wstrb, 0xF)
        await self.send("s_axil_aw", addr=address)
        for _cycle in range(PATIENCE):
            if self.ctx.get(self.dut.s_axil_wready):
                await self.tick()
                self.ctx.set(self.dut.s_axil_wvalid, 0)
            if self.ctx.get(self.dut.s_axil_bvalid):
                assert self.ctx.get(self.dut.s_axil_bresp) == 0, f"{address:#x} refused"
                await self.tick()
                return
            await self.tick()
        raise AssertionError(f"a write to {address:#x} is not answered")

    async def program(self):
        await self.write(entry_address("PLAN", 0), encode_entry("PLAN", clear=1)[0])
        entries = [
            ("TILE", 0, {"expected": TILE_BYTES, "command": 0, "rows": 1, "row_bytes": TILE_BYTES}),
            ("COMMAND", 0, {"need": 1, "first": 0, "count_minus_1": 0}),
            ("ROUTE", 0, {"dma": 1, "op": "UPDATE", "tracked": 0}),
            ("PLAN", 0, {"tiles": 1, "commands": 1}),
            ("REGION", 0, {"enable": 1, "action": "LOCAL_STORE", "tracked": 1, "base": 0,
                           "limit": TILE_BYTES - 1}),
            ("REGION", 1, {"enable": 1, "action": "LOCAL_UPDATE", "accept_update": 1,
                           "base": TILE_BYTES, "limit": TILE_BYTES + 3}),
        ]
        for table, entry, fields in entries:
            words = encode_entry(table, config=CONFIG, **fields)
            for word in [*range(1, len(words)), *([0] if table != "PLAN" else [])]:
                await self.write(entry_address(table, entry, word), words[word])
        await self.write(entry_address("PLAN", 0), encode_entry("PLAN", arm=1)[0])

    async def store_tile(self):
        self.ctx.set(self.dut.s_axi_bready, 1)
        await self.send("s_axi_aw", addr=0, len=BEATS - 1, size=2, burst=1)
        for beat in range(BEATS):
            await self.send("s_axi_w", data=beat, strb=0xF, last=beat == BEATS - 1)

    async def load(self, address):
        await self.send("s_axi_ar", addr=address, len=0, size=2, burst=1)
        self.ctx.set(self.dut.s_axi_rready, 1)
        for _cycle in range(PATIENCE):
            if self.ctx.get(self.dut.s_axi_rvalid):
                value = self.ctx.get(self.dut.s_axi_rdata)
                await self.tick()
                return value
            await self.tick()
        raise AssertionError(f"a load of {address:#x} is not answered")


def test_incoming_updates_commit_while_the_dma_engine_has_no_credit():
    dut = Node(config=CONFIG)
    packet = Packet(address=TILE_BYTES, op=UPDATE, beats=[(1, 0xF)])

    async def scenario(ctx):
        bench = NodeBench(ctx, dut)
        await bench.program()
        ctx.set(dut.link_tx_tready, 1)
        await bench.store_tile()
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
