"""Commands become the right blocks, end in order, and ring only when their data have gone."""

import collections
import dataclasses
import random

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.dma_engine import DmaEngine
from t3hw.hdl.dma_front_end import DmaFrontEnd
from t3hw.hdl.seams import Dtype, MemoryOp, Source, Table

CONFIG = NodeConfig(tiles=64, commands=64, routes=5, outstanding_reads=4)


@dataclasses.dataclass
class Route:
    dma: int = 1
    doorbell: int = 0
    interrupt: int = 0
    remote: int = 0
    op: MemoryOp = MemoryOp.UPDATE
    dtype: Dtype = Dtype.BFLOAT16
    tracked: int = 1
    source: int = 0x1000
    destination: int = 0x8000
    source_pitch: int = 64
    destination_pitch: int = 128
    doorbell_address: int = 0
    doorbell_data: int = 0

    def words(self):
        control = (self.dma | self.doorbell << 1 | self.interrupt << 2 | self.remote << 3
                   | self.op.value << 4 | self.dtype.value << 6 | self.tracked << 8)
        return [control, *split(self.source), *split(self.destination), self.source_pitch,
                self.destination_pitch, *split(self.doorbell_address), self.doorbell_data]


@dataclasses.dataclass
class Tile:
    rows: int = 1
    row_bytes: int = 64
    offset: int = 0
    wg: int = 0
    wf: int = 0

    def words(self):
        # Expected bytes and command are the tracker's business.
        return [self.wf << 24 | 0x123456, self.rows << 16 | 0xFFFF, self.wg << 16 | self.row_bytes,
                self.offset]


@dataclasses.dataclass
class Fire:
    first: int = 0
    count: int = 1
    route: int = 0
    plan: int = 0
    stamp: int = 0


def split(address):
    return address & 0xFFFF_FFFF, address >> 32


class FrontEndBench:
    """Programs the tables, fires the commands, plays the engine and the doorbells' receivers.

    ``busy`` are the chances that a command is offered, a block is taken, a block under way is done,
    and a doorbell is taken. ``failing`` are numbers of blocks that end with an error.
    """

    def __init__(self, config, routes, tiles, fires, *, epochs=(3, 7, 15, 1), seed=0,
                 busy=(1, 1, 1, 1), failing=(), delay=0, cycles=4000, rest=40):
        self.config = config
        self.routes = routes
        self.tiles = tiles
        self.fires = fires
        self.epochs = epochs[:config.plans]
        self.rng = random.Random(seed)
        self.name = f"seed {seed}"
        self.busy = busy
        self.failing = failing
        self.delay = delay
        self.cycles = cycles
        self.rest = rest
        self.dut = DmaFrontEnd(config=config)
        self.blocks = []
        self.block_cycles = []
        self.taken_cycles = []
        self.done_cycles = []
        #: (cycle, what, plan or None, payload or None) in the order seen.
        self.events = []

    def run(self):
        sim = Simulator(self.dut)
        sim.add_clock(10e-9)
        sim.add_testbench(self.bench)
        sim.run()
        return self

    async def program(self, ctx):
        table = self.dut.table
        writes = [(Table.ROUTE, entry, word, data) for entry, route in self.routes.items()
                  for word, data in enumerate(route.words())]
        writes += [(Table.TILE, entry, word, data) for entry, tile in self.tiles.items()
                   for word, data in enumerate(tile.words())]
        self.rng.shuffle(writes)
        ctx.set(table.valid, 1)
        writes += [(other, 0, word, 0xFFFF_FFFF)  # none of these may matter
                   for other in (Table.PLAN, Table.REGION, Table.COMMAND) for word in range(10)]
        for kind, entry, word, data in writes:
            ctx.set(table.payload, {"table": kind, "entry": entry, "word": word, "data": data})
            await ctx.tick()
        ctx.set(table.valid, 0)

    async def bench(self, ctx):
        dut, rng = self.dut, self.rng
        for plan, epoch in enumerate(self.epochs):
            ctx.set(dut.plans[plan], {"armed": 1, "epoch": epoch})
        await self.program(ctx)
        fires = collections.deque(self.fires)
        offered = False
        under_way = collections.deque()
        stuck = {}
        idle = 0
        streams = {"block": dut.block, "local": dut.doorbell_local, "remote": dut.doorbell_remote}
        for cycle in range(self.cycles):
            if not offered and fires and rng.random() < self.busy[0]:
                ctx.set(dut.fire.payload, dataclasses.asdict(fires[0]))
                offered = True
            ctx.set(dut.fire.valid, offered)
            ready = {"block": rng.random() < self.busy[1], "local": rng.random() < self.busy[3],
                     "remote": rng.random() < self.busy[3]}
            for name, stream in streams.items():
                ctx.set(stream.ready, ready[name])
            finishing = bool(under_way) and under_way[0][0] <= cycle and rng.random() < self.busy[2]
            ctx.set(dut.block_done.valid, finishing)
            if finishing:
                _, number, block = under_way.popleft()
                ctx.set(dut.block_done.payload, {
                    "plan": block.plan, "last": block.last, "error": number in self.failing})
                self.done_cycles.append(cycle)
            values = await ctx.tick().sample(
                dut.fire.ready, dut.interrupt, dut.command_done.valid, dut.command_done.p.plan,
                dut.busy, *(stream.valid for stream in streams.values()),
                *(stream.payload for stream in streams.values()))
            fire_ready, interrupt, done_valid, done_plan, busy = values[2:7]
            if offered and fire_ready:
                fires.popleft()
                offered = False
                self.taken_cycles.append(cycle)
            for name, valid, payload in zip(streams, values[7:10], values[10:], strict=True):
                assert name not in stuck or (valid and payload == stuck[name]), \
                    f"{self.name}: {name} changed"
                if valid and not ready[name]:
                    stuck[name] = payload
                else:
                    stuck.pop(name, None)
                if not (valid and ready[name]):
                    continue
                if name == "block":
                    under_way.append((cycle + 1 + self.delay, len(self.blocks), payload))
                    self.blocks.append(payload)
                    self.block_cycles.append(cycle)
                else:
                    self.events.append((cycle, name, None, payload))
            if interrupt:
                self.events.append((cycle, "interrupt", None, None))
            if done_valid:
                self.events.append((cycle, "done", done_plan, None))
            idle = 0 if busy or fires or offered or under_way else idle + 1
            if idle == self.rest:
                return
        pytest.fail(f"{self.name}: busy after {self.cycles} cycles, {len(fires)} commands left")

    def check(self):
        """Compare blocks and ends with what the tables say.

        The ends of one command come in order, as do all of one kind; a doorbell may come before the
        earlier command is reported as done.
        """
        wrap = (1 << self.config.addr_width) - 1
        size = self.config.beat_bytes
        blocks = iter(zip(self.blocks, range(len(self.blocks)), strict=True))
        doorbells, interrupts, dones = (
            iter([event for event in self.events if event[1] in kinds])
            for kinds in (("local", "remote"), ("interrupt",), ("done",)))
        for fire in self.fires:
            route = self.routes.get(fire.route, Route(dma=0))
            ids = {"plan": fire.plan, "epoch": self.epochs[fire.plan]}
            not_before = 0
            failed = False
            for index in range(fire.count if route.dma else 0):
                slot = (fire.first + index) % self.config.tiles
                tile = self.tiles.get(slot, Tile(rows=0, row_bytes=0))
                seen, number = next(blocks)
                wanted = {
                    "source": (route.source + tile.offset) & wrap,
                    "destination": (route.destination + tile.offset) & wrap,
                    "rows": tile.rows, "row_bytes": tile.row_bytes,
                    "source_pitch": route.source_pitch,
                    "destination_pitch": route.destination_pitch,
                    "op": route.op, "dtype": route.dtype, "tracked": route.tracked,
                    "wg": tile.wg, "wf": tile.wf, "first": index == 0,
                    "last": index == fire.count - 1, "stamp": fire.stamp, **ids}
                assert {name: seen[name] for name in wanted} == wanted, \
                    f"{self.name}: block {number}"
                not_before = self.done_cycles[number]
                failed |= number in self.failing
            if failed:
                continue
            if route.doorbell:
                cycle, what, _, payload = next(doorbells)
                assert cycle > not_before, self.name
                not_before = cycle
                assert what == ("remote" if route.remote else "local"), self.name
                at = route.doorbell_address & wrap & ~3
                assert payload.address == at // size * size, self.name
                assert payload.strobe == 0xF << at % size, self.name
                data = payload.data.to_bytes(size, "little")[at % size:][:4]
                assert int.from_bytes(data, "little") == route.doorbell_data, self.name
                assert payload.op == MemoryOp.STORE
                assert payload.last == 1
                if route.remote:
                    assert payload.tracked == 0
                    assert {name: payload[name] for name in ids} == ids, self.name
                else:
                    assert (payload.tile.tracked, payload.touch.enable) == (0, 0)
                    assert payload.source == Source.DMA
            if route.interrupt:
                cycle, *_ = next(interrupts)
                assert cycle > not_before, self.name
                not_before = cycle
            cycle, _, plan, _ = next(dones)
            assert plan == fire.plan, self.name
            assert cycle > not_before, self.name
        assert not list(blocks), f"{self.name}: more blocks than tiles"
        assert not [*doorbells, *interrupts, *dones], f"{self.name}: more ends than commands"


def random_case(rng, config):
    routes = {
        entry: Route(
            dma=rng.random() < 0.8, doorbell=rng.random() < 0.4, interrupt=rng.random() < 0.4,
            remote=rng.getrandbits(1), op=rng.choice([MemoryOp.STORE, MemoryOp.UPDATE]),
            dtype=rng.choice(list(Dtype)), tracked=rng.getrandbits(1),
            source=rng.getrandbits(config.addr_width),
            destination=rng.getrandbits(config.addr_width),
            source_pitch=rng.getrandbits(min(config.addr_width, 32)),
            destination_pitch=rng.getrandbits(min(config.addr_width, 32)),
            doorbell_address=rng.getrandbits(config.addr_width), doorbell_data=rng.getrandbits(32))
        for entry in range(config.routes)}
    tiles = {
        slot: Tile(rows=rng.getrandbits(16), row_bytes=rng.getrandbits(16),
                   offset=rng.getrandbits(32), wg=rng.getrandbits(config.wg_width),
                   wf=rng.getrandbits(config.wf_width))
        for slot in range(config.tiles)}
    fires = [
        Fire(first=rng.randrange(config.tiles),
             count=rng.choice([1, 1, 2, rng.randint(0, min(9, config.tiles))]),
             route=rng.randrange(config.routes), plan=rng.randrange(config.plans),
             stamp=rng.getrandbits(24))
        for _ in range(30)]
    return routes, tiles, fires


@pytest.mark.parametrize("seed", range(8))
def test_random_commands_under_random_back_pressure(seed):
    rng = random.Random(seed)
    config = CONFIG.replace(addr_width=rng.choice([20, 32, 33, 64]),
                            data_width=rng.choice([32, 64, 512]),
                            outstanding_reads=rng.choice([1, 4]), plans=rng.choice([1, 4]),
                            routes=rng.choice([1, 2, 5]), wf_width=rng.choice([0, 3]),
                            tiles=rng.choice([4, 16]))
    busy = [rng.choice([0.1, 0.5, 1]) for _ in range(4)]
    case = random_case(rng, config)
    delay = rng.choice([0, 5, 40])
    FrontEndBench(config, *case, seed=seed, busy=busy, delay=delay).run().check()


def test_every_tile_of_the_table_in_one_command():
    tiles = {slot: Tile(offset=slot * 64) for slot in range(64)}
    fires = [Fire(count=64), Fire(first=60, count=8)]
    FrontEndBench(CONFIG, {0: Route()}, tiles, fires).run().check()


def test_latency_from_fire_to_block_and_from_block_done_to_the_ends():
    routes = {0: Route(), 1: Route(interrupt=1), 2: Route(doorbell=1, interrupt=1)}
    latencies = {}
    for route in routes:
        bench = FrontEndBench(CONFIG, routes, {0: Tile()}, [Fire(route=route)], delay=3).run()
        assert bench.block_cycles[0] == bench.taken_cycles[0] + DmaFrontEnd.latency
        latencies[route] = [
            (what, cycle - bench.done_cycles[0]) for cycle, what, *_ in bench.events]
    assert latencies == {
        0: [("done", 3)],
        1: [("interrupt", 2), ("done", 3)],
        2: [("local", 2), ("interrupt", 3), ("done", 4)],
    }


@pytest.mark.parametrize("count", [1, 2, 5])
def test_throughput_is_one_block_a_cycle_across_commands(count):
    tiles = {slot: Tile() for slot in range(64)}
    fires = [Fire(first=3 * index, count=count) for index in range(20)]
    bench = FrontEndBench(CONFIG, {0: Route()}, tiles, fires).run()
    bench.check()
    first = DmaFrontEnd.latency
    assert bench.block_cycles == list(range(first, first + 20 * count))


def test_a_command_without_dma_walks_through_no_tiles():
    routes = {0: Route(dma=0, doorbell=1, remote=1, interrupt=1, doorbell_address=0x104),
              1: Route(dma=0)}
    fires = [Fire(route=index & 1, count=64, plan=index) for index in range(4)]
    bench = FrontEndBench(CONFIG, routes, {}, fires).run()
    bench.check()
    assert bench.events[-1][0] < 20


def test_many_commands_under_way_wait_for_their_places_and_lose_nothing():
    """The engine takes all blocks, and finishes none for long: the front end stops, and goes on."""
    fires = [Fire(first=index % 8, plan=index % 4) for index in range(40)]
    tiles = {slot: Tile() for slot in range(8)}
    bench = FrontEndBench(CONFIG, {0: Route(interrupt=1)}, tiles, fires, delay=300)
    bench.run().check()
    stopped = [cycle for cycle in bench.block_cycles if cycle < 300]
    assert len(stopped) == CONFIG.outstanding_reads + 4
    assert max(stopped) < 20


def test_a_doorbell_that_nobody_takes_stops_ends_only():
    """The tiles of the next commands go on while a doorbell waits."""
    routes = {0: Route(doorbell=1, doorbell_address=0x20C, doorbell_data=0xCAFE_F00D), 1: Route()}
    fires = [Fire(route=0), *(Fire(route=1) for _ in range(6))]
    bench = FrontEndBench(CONFIG, routes, {0: Tile()}, fires, busy=(1, 1, 1, 0.01), seed=1)
    bench.run().check()
    rung = next(cycle for cycle, what, *_ in bench.events if what == "local")
    assert rung > 30
    assert bench.block_cycles[-1] < 12


def test_unprogrammed_tiles_and_routes_and_empty_commands_end():
    fires = [Fire(first=9), Fire(count=0, plan=1), Fire(route=7, plan=2), Fire(count=3, plan=3)]
    tiles = {0: Tile(), 2: Tile(rows=0)}
    FrontEndBench(CONFIG, {0: Route(interrupt=1)}, tiles, fires).run().check()


@pytest.mark.parametrize("failing", [(0,), (1,), (2,), (1, 3), (5,)])
def test_a_command_whose_data_could_not_be_read_claims_nothing(failing):
    routes = {0: Route(doorbell=1, interrupt=1, remote=1)}
    fires = [Fire(count=count, plan=count) for count in (1, 3, 2)]
    tiles = {slot: Tile() for slot in range(4)}
    bench = FrontEndBench(CONFIG, routes, tiles, fires, failing=failing).run()
    bench.check()
    assert len(bench.events) < 9


def test_a_failure_is_blamed_on_its_own_command_only():
    """Commands without data end well while the failure of one behind them is known already."""
    routes = {0: Route(dma=0, doorbell=1, interrupt=1), 1: Route(interrupt=1)}
    fires = [Fire(route=0), Fire(route=0), Fire(route=1), Fire(route=1)]
    bench = FrontEndBench(CONFIG, routes, {0: Tile()}, fires, failing=(0,), busy=(1, 1, 1, 0.02))
    bench.run().check()
    assert [what for _, what, *_ in bench.events] == 2 * ["local", "interrupt", "done"] + [
        "interrupt", "done"]


@pytest.mark.parametrize("remote", [0, 1])
def test_no_valid_waits_for_its_ready(remote):
    dut = DmaFrontEnd(config=CONFIG)
    doorbell = dut.doorbell_remote if remote else dut.doorbell_local

    async def bench(ctx):
        ctx.set(dut.table.payload, {"table": Table.ROUTE, "data": 3 | remote << 3})
        ctx.set(dut.table.valid, 1)
        await ctx.tick()
        ctx.set(dut.table.valid, 0)
        ctx.set(dut.fire.payload, {"count": 1})
        ctx.set(dut.fire.valid, 1)
        await ctx.tick()
        ctx.set(dut.fire.valid, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.block.valid)
        ctx.set(dut.block.ready, 1)
        await ctx.tick()
        assert not ctx.get(dut.block.valid)
        ctx.set(dut.block_done.payload, {"last": 1})
        ctx.set(dut.block_done.valid, 1)
        await ctx.tick()
        ctx.set(dut.block_done.valid, 0)
        await ctx.tick().repeat(5)
        assert ctx.get(doorbell.valid)

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


def test_a_new_table_entry_counts_from_the_next_cycle_on():
    dut = DmaFrontEnd(config=CONFIG)

    async def bench(ctx):
        ctx.set(dut.block.ready, 1)
        for table, entry, word, data in (
                (Table.ROUTE, 1, 0, 1), (Table.TILE, 5, 1, 7 << 16), (Table.TILE, 5, 3, 0x40)):
            ctx.set(dut.table.payload, {"table": table, "entry": entry, "word": word, "data": data})
            ctx.set(dut.table.valid, 1)
            await ctx.tick()
        ctx.set(dut.table.valid, 0)
        ctx.set(dut.fire.payload, {"first": 5, "count": 1, "route": 1})
        ctx.set(dut.fire.valid, 1)
        await ctx.tick()
        ctx.set(dut.fire.valid, 0)
        await ctx.tick().repeat(dut.latency - 1)
        assert ctx.get(dut.block.valid)
        assert (ctx.get(dut.block.p.rows), ctx.get(dut.block.p.source)) == (7, 0x40)

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


class Chain(wiring.Component):
    """Front end and engine, as a node joins them."""

    def __init__(self, config):
        self.front = DmaFrontEnd(config=config)
        self.engine = DmaEngine(config=config)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.front = self.front
        m.submodules.engine = self.engine
        wiring.connect(m, self.front.block, self.engine.block)
        wiring.connect(m, self.front.block_done, self.engine.done)
        return m


@pytest.mark.parametrize("row_bytes,latency", [(8, 2), (64, 2), (64, 32)])
def test_commands_of_one_small_block_keep_the_bus_busy(row_bytes, latency):
    """The first read comes when it is stated; commands of a single burst follow without a gap."""
    config = CONFIG.replace(outstanding_reads=16, burst_beats=8)
    dut = Chain(config)
    front, engine = dut.front, dut.engine
    commands = 60
    reads, beats, done, stamps = [], [], [], []

    async def bench(ctx):
        for table, word, data in (
                (Table.ROUTE, 0, 1), (Table.TILE, 1, 1 << 16), (Table.TILE, 2, row_bytes)):
            ctx.set(front.table.payload, {"table": table, "word": word, "data": data})
            ctx.set(front.table.valid, 1)
            await ctx.tick()
        ctx.set(front.table.valid, 0)
        ctx.set(engine.read.ready, 1)
        ctx.set(engine.packet.ready, 1)
        fired = 0
        due = collections.deque()
        for cycle in range(2000):
            ctx.set(front.fire.payload, {"count": 1, "stamp": fired})
            ctx.set(front.fire.valid, fired < commands)
            giving = bool(due) and due[0] <= cycle
            if giving:
                due.popleft()
            ctx.set(engine.data.valid, giving)
            (_, _, fire_ready, read_valid, read, packet_valid, done_valid, first_valid,
             stamp) = await ctx.tick().sample(
                front.fire.ready, engine.read.valid, engine.read.p.beats, engine.packet.valid,
                front.command_done.valid, engine.first_read.valid, engine.first_read.p.stamp)
            fired += fire_ready and fired < commands
            if read_valid:
                reads.append(cycle)
                due.extend([cycle + latency] * (read + 1))
            if packet_valid:
                beats.append(cycle)
            if first_valid:
                stamps.append(stamp)
            done.extend([cycle] * done_valid)
            if len(done) == commands:
                return

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
    assert len(done) == commands
    assert reads[0] == front.latency + 1
    assert stamps == list(range(commands))
    assert len(beats) == commands * row_bytes // 8
    assert beats[-1] - beats[0] == len(beats) - 1
    assert done[-1] == beats[-1] + 4
