"""Drives a whole node by its ports, in Amaranth's simulator."""

from t3hw.config import NodeConfig
from t3hw.registers import encode_entry, entry_address, register_address

__all__ = ["CONFIG", "NodeBench", "PATIENCE"]

#: A node with as little as there can be, for quick simulation.
CONFIG = NodeConfig(name="few", data_width=32, addr_width=16, dtypes=("int32",), tracker_sets=1,
                    tracker_ways=2, tiles=4, commands=2, regions=2, routes=1, plans=1,
                    touch_bytes=64, compute_queue=2, communication_queue=2, outstanding_reads=16,
                    outstanding_writes=2, burst_beats=4, memory_bytes=1024, memory_max_latency=0,
                    link_credits=8, link_max_latency=0)

PATIENCE = 2000


class NodeBench:
    """Drives a node's ports by name, and counts what its trace ports show."""

    def __init__(self, ctx, dut, config):
        self.ctx, self.dut, self.config = ctx, dut, config
        self.cycle = 0
        self.seen = {name: [] for name in ("trace_commit_local", "trace_commit_incoming",
                                           "trace_first_read", "trace_tx", "trace_done")}
        self.sent = []

    async def tick(self):
        dut = self.dut
        _, _, *pulses = await self.ctx.tick().sample(
            *(getattr(dut, name) for name in self.seen))
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
        await self.send("s_axil_aw", addr=address)
        await self.send("s_axil_w", data=value, strb=0xF)
        for _cycle in range(PATIENCE):
            if self.ctx.get(self.dut.s_axil_bvalid):
                assert self.ctx.get(self.dut.s_axil_bresp) == 0, f"{address:#x} refused"
                await self.tick()
                return
            await self.tick()
        raise AssertionError(f"a write to {address:#x} is not answered")

    async def read(self, name):
        """A register's word."""
        self.ctx.set(self.dut.s_axil_rready, 1)
        await self.send("s_axil_ar", addr=register_address(name))
        for _cycle in range(PATIENCE):
            if self.ctx.get(self.dut.s_axil_rvalid):
                value = self.ctx.get(self.dut.s_axil_rdata)
                await self.tick()
                return value
            await self.tick()
        raise AssertionError(f"a read of {name} is not answered")

    async def control(self, **bits):
        """Arm or clear plan 0."""
        await self.write(entry_address("PLAN", 0), encode_entry("PLAN", **bits)[0])

    async def program(self, entries):
        """Clear plan 0 and write table entries: (table, entry, fields)."""
        await self.control(clear=1)
        for table, entry, fields in entries:
            words = encode_entry(table, config=self.config, **fields)
            for word in [*range(1, len(words)), *([0] if table != "PLAN" else [])]:
                await self.write(entry_address(table, entry, word), words[word])

    async def store(self, address, values):
        """A burst of words at ``s_axi``."""
        self.ctx.set(self.dut.s_axi_bready, 1)
        await self.send("s_axi_aw", addr=address, len=len(values) - 1, size=2, burst=1)
        for index, value in enumerate(values):
            await self.send("s_axi_w", data=value, strb=0xF, last=index == len(values) - 1)

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
