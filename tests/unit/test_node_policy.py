"""A whole node measures a kernel, holds communication by it, and its counters say what it did."""

import math

from amaranth.sim import Simulator

from link_packets import UPDATE, Packet, header_length, packet_words
from node_bench import CONFIG as FEW
from node_bench import NodeBench
from t3hw.hdl.first_touch import FirstTouch
from t3hw.hdl.node import Node
from t3hw.hdl.seams import occupancy_buckets
from t3hw.registers import decode_register, encode_register, register_address

CONFIG = FEW.replace(memory_max_latency=64, communication_queue=8, outstanding_reads=4,
                     producer_reads=32)
TILE, INCOMING = 0, 256
LOADS = 16
TILE_BYTES = 16
PACKETS = 10
PACKET_BEATS = 4


def entries(action):
    """A plan with one tile of the producer's in region 0; region 1 takes what comes in."""
    return [
        ("TILE", 0, {"expected": TILE_BYTES, "command": 0xFFFF}),
        ("PLAN", 0, {"tiles": 1, "commands": 0}),
        ("REGION", 0, {"enable": 1, "action": action, "tracked": 1, "base": TILE,
                       "limit": TILE + TILE_BYTES - 1}),
        ("REGION", 1, {"enable": 1, "action": "LOCAL_UPDATE", "accept_update": 1,
                       "base": INCOMING, "limit": INCOMING + 255}),
    ]


class PolicyBench(NodeBench):
    """Notes the memory's accesses and occupancy, too."""

    def __init__(self, ctx, dut):
        super().__init__(ctx, dut, CONFIG)
        self.seen |= {"trace_memory": [], "trace_remote_beat": []}
        self.occupancies = []

    async def tick(self):
        self.occupancies.append(self.ctx.get(self.dut.trace_occupancy))
        await super().tick()

    async def control(self, **bits):
        await super().control(**bits)
        # Tables are locked while a plan is being cleared.
        await self.idle(50)

    async def set(self, name, **fields):
        await self.write(register_address(name), encode_register(name, **fields))

    async def status(self):
        return decode_register("MCA_STATUS", await self.read("MCA_STATUS"))

    async def idle(self, cycles):
        for _cycle in range(cycles):
            await self.tick()

    async def receive(self):
        """Packets from the link, one behind the other, until all are in memory."""
        for number in range(PACKETS):
            packet = Packet(address=INCOMING + 4 * PACKET_BEATS * (number), op=UPDATE,
                            beats=[(1, 0xF)] * PACKET_BEATS)
            for word in packet_words(CONFIG, packet):
                await self.send("link_rx_t", **word)
        await self.idle(50)

    async def loads(self, pause):
        """Loads of the kernel's first stage, in bursts, and what else it does in that time."""
        self.ctx.set(self.dut.s_axi_rready, 1)
        for _burst in range(LOADS // 4):
            await self.send("s_axi_ar", addr=INCOMING, len=3, size=2, burst=1)
        await self.idle(pause)

    async def counters(self):
        await self.set("COUNTER_CONTROL", snapshot=1)
        names = ["CYCLES", "COMPUTE_ISSUES", "COMMUNICATION_ISSUES", "COMMUNICATION_HOLDS",
                 "FORCED_ACCESSES", "DRAM_ACTIVATES",
                 *(name.upper() for name, _least, _most in occupancy_buckets)]
        return {name: await self.read(name + "_LO") for name in names}


def simulate(scenario):
    dut = Node(config=CONFIG)

    async def testbench(ctx):
        ctx.set(dut.link_tx_tready, 1)
        await scenario(PolicyBench(ctx, dut))

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(testbench)
    sim.run()


def test_a_kernel_is_measured_from_its_first_load_to_its_first_store():
    """Whether the store goes to memory or to the neighbour."""
    async def scenario(bench):
        await bench.set("CONTROL", policy="MCA")
        assert await bench.status() == {"intensity": 0, "level": 0, "measuring": 0, "complete": 0,
                                        "threshold": 5}
        for action, pause, level, threshold in (
                ("REMOTE_UPDATE", 10, 0, 5), ("LOCAL_UPDATE", 60, 2, 30),
                ("REMOTE_UPDATE", 260, 3, 0), ("LOCAL_UPDATE", 10, 0, 5)):
            await bench.program(entries(action))
            await bench.control(arm=1)
            status = await bench.status()
            assert (status["measuring"], status["complete"], status["threshold"]) == (1, 0, 5)
            for cycles in bench.seen.values():
                cycles.clear()
            await bench.loads(pause)
            await bench.store(TILE, [1] * 4)
            await bench.idle(40)
            status = await bench.status()
            where = f"{action}, pause {pause}: {status}"
            assert (status["measuring"], status["complete"]) == (0, 1), where
            assert (status["level"], status["threshold"]) == (level, threshold), where
            # From an access's issue to its trace it passes the arbiter's register and first touch;
            # from a store to its issue it is 1 cycle, from a beat for the neighbour to its trace 1.
            first = bench.seen["trace_memory"][0]
            if action == "REMOTE_UPDATE":
                cycles = bench.seen["trace_remote_beat"][0] - 1 - (first - 2 - FirstTouch.latency)
            else:
                cycles = bench.seen["trace_memory"][LOADS] - 1 - first
            assert status["intensity"] == LOADS * 256 // cycles, where
            await bench.control(clear=1)

    simulate(scenario)


def test_communication_fills_the_memory_up_to_the_threshold():
    """All of it comes through, whatever the threshold. The counters agree with the trace."""
    async def scenario(bench):
        await bench.set("MEMORY_LATENCY", cycles=20)
        await bench.program(entries("LOCAL_UPDATE"))
        for policy, fixed, limit, most in (
                ("MCA", None, 0, 5), ("MCA", 9, 0, 9), ("MCA", 1, 0, 1), ("MCA", 0, 0, None),
                ("MCA", 1, 3, None), ("ROUND_ROBIN", 5, 0, None)):
            await bench.set("STARVATION_LIMIT", cycles=limit)
            await bench.set("MCA_CONTROL", threshold=fixed or 0, fixed=fixed is not None)
            await bench.set("CONTROL", policy=policy)
            await bench.set("COUNTER_CONTROL", clear=1)
            bench.occupancies.clear()
            bench.seen["trace_commit_incoming"].clear()
            start = bench.cycle
            await bench.receive()
            while len(bench.seen["trace_commit_incoming"]) < PACKETS * PACKET_BEATS:
                await bench.tick()
                assert bench.cycle < start + 4000
            await bench.idle(10)
            counters = await bench.counters()
            where = f"{policy}, threshold {fixed}, limit {limit}: {counters}"
            if most is not None:
                assert max(bench.occupancies) == most, where
            else:
                assert max(bench.occupancies) > 5, where
            assert counters["COMMUNICATION_ISSUES"] == PACKETS * PACKET_BEATS, where
            assert counters["COMPUTE_ISSUES"] == counters["DRAM_ACTIVATES"] == 0, where
            assert bool(counters["COMMUNICATION_HOLDS"]) == (most is not None or limit > 0), where
            assert bool(counters["FORCED_ACCESSES"]) == (limit > 0), where
            # The memory is empty at clear and snapshot, so all buckets but the first agree.
            names = [name.upper() for name, _least, _most in occupancy_buckets]
            assert sum(counters[name] for name in names) == counters["CYCLES"], where
            for name, least, largest in occupancy_buckets[1:]:
                assert counters[name.upper()] == sum(
                    least <= occupancy <= (largest or math.inf)
                    for occupancy in bench.occupancies), where

    simulate(scenario)


def test_link_intervals_reach_the_link():
    async def scenario(bench):
        await bench.set("LINK_INTERVAL", cycles=2, fraction=1 << 15)
        await bench.set("LINK_HEADER_INTERVAL", cycles=5)
        await bench.program(entries("REMOTE_UPDATE"))
        await bench.control(arm=1)
        await bench.store(TILE, range(4))
        await bench.idle(40)
        headers = header_length(CONFIG)
        times = [cycle - bench.seen["trace_tx"][0] for cycle in bench.seen["trace_tx"]]
        assert times == [*range(0, 5 * headers, 5),
                         *(5 * headers + math.ceil(2.5 * number) for number in range(4))]

    simulate(scenario)
