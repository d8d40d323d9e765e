"""The engine moves exactly the bytes of its blocks, in the fewest bursts, and has room for them."""

import collections
import dataclasses
import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.cosim.bus_use import measure_bus_use
from t3hw.hdl.dma_engine import DmaEngine
from t3hw.hdl.seams import Dtype, MemoryOp

SOURCE_BYTES = 1 << 16
GUARD = 0xA5


@dataclasses.dataclass
class Block:
    """A block, by the names of the hardware's struct."""

    source: int
    destination: int
    rows: int
    row_bytes: int
    source_pitch: int = 0
    destination_pitch: int = 0
    op: MemoryOp = MemoryOp.UPDATE
    dtype: Dtype = Dtype.FLOAT16
    tracked: int = 1
    plan: int = 0
    epoch: int = 0
    wg: int = 0
    wf: int = 0
    first: int = 0
    last: int = 0
    stamp: int = 0

    @property
    def empty(self):
        return self.rows == 0 or self.row_bytes == 0

    def ids(self):
        return {name: getattr(self, name)
                for name in ("op", "dtype", "tracked", "plan", "epoch", "wg", "wf")}


def fewest_bursts(block, config):
    """First byte, past-the-end byte, destination and row of each burst, by the rules alone."""
    size = config.beat_bytes
    for row in range(block.rows):
        start = block.source + row * block.source_pitch
        end = start + block.row_bytes
        shift = block.destination + row * block.destination_pitch - start
        while start < end:
            page_end = (start // 4096 + 1) * 4096
            stop = min(end, page_end, (start // size + config.burst_beats) * size)
            yield start, stop, start + shift
            start = stop


def random_block(rng, config, *, big=False):
    """A block in the source's 64 KiB whose rows do not overlap at the destination."""
    size = config.beat_bytes
    kind = rng.randrange(4)
    rows = [rng.randint(1, 12), 1, rng.randint(1, 5), rng.randint(5, 20)][kind]
    row_bytes = [rng.randint(1, 3 * size), rng.randint(1, 4096 if big else 12 * size),
                 rng.choice([size, 2 * size, config.burst_beats * size]), rng.randint(1, 9)][kind]
    row_bytes = min(row_bytes, 2048)
    pitch = row_bytes + rng.choice([0, rng.randrange(100), size])
    source = rng.randrange(SOURCE_BYTES - rows * pitch)
    if rng.random() < 0.4:  # near a page's end
        source = min(max(rng.randint(1, 15) * 4096 + rng.randint(-2 * size, 2), 0),
                     SOURCE_BYTES - rows * pitch)
    # Equal offset in the beat in every row: the pitches differ by whole beats.
    destination = (1 << 20) + rng.randrange(4096 // size) * size + source % size
    return Block(
        source=source, destination=destination, rows=rows, row_bytes=row_bytes, source_pitch=pitch,
        destination_pitch=pitch + rng.randrange(4) * size, op=rng.choice(list(MemoryOp)),
        dtype=rng.choice(list(Dtype)), tracked=rng.getrandbits(1), plan=rng.randrange(config.plans),
        epoch=rng.randrange(16), wg=rng.getrandbits(config.wg_width),
        wf=rng.getrandbits(config.wf_width), first=rng.getrandbits(1), last=rng.getrandbits(1),
        stamp=rng.getrandbits(24))


class EngineBench:
    """Feeds blocks, answers reads, takes packets, and checks the rules that hold in every cycle.

    ``busy`` are the chances that the memory takes a burst, has a beat, that the link takes a beat,
    and that a block is offered. ``errors`` are numbers of beats, as read, that come with an error.
    """

    def __init__(self, config, blocks, *, seed=0, busy=(1, 1, 1, 1), latency=1, errors=(),
                 cycles=20_000):
        self.config = config
        self.blocks = blocks
        self.name = f"seed {seed}"
        self.rng = random.Random(seed)
        self.busy = busy
        self.latency = latency
        self.errors = set(errors)
        self.cycles = cycles
        self.memory = random.Random(~seed).randbytes(SOURCE_BYTES)
        self.dut = DmaEngine(config=config)
        self.bursts = []
        self.packets = [[]]
        self.packet_cycles = []
        self.done = []
        self.first_reads = []
        self.taken_cycles = []
        self.read_cycles = []

    def run(self):
        sim = Simulator(self.dut)
        sim.add_clock(10e-9)
        sim.add_testbench(self.bench)
        sim.run()
        return self

    async def bench(self, ctx):
        dut, rng, size = self.dut, self.rng, self.config.beat_bytes
        due = collections.deque()
        blocks = collections.deque(self.blocks)
        offered = False
        beats_read = 0
        beats_asked = 0
        stuck_read = stuck_packet = None
        for cycle in range(self.cycles):
            if not offered and blocks and rng.random() < self.busy[3]:
                ctx.set(dut.block.payload, dataclasses.asdict(blocks[0]))
                offered = True
            ctx.set(dut.block.valid, offered)
            read_ready = rng.random() < self.busy[0]
            ctx.set(dut.read.ready, read_ready)
            giving = bool(due) and due[0][0] <= cycle and rng.random() < self.busy[1]
            ctx.set(dut.data.valid, giving)
            if giving:
                _, address, last = due.popleft()
                ctx.set(dut.data.payload, {
                    "source": 2, "last": last, "error": beats_read in self.errors,
                    "data": int.from_bytes(self.memory[address:address + size], "little")})
                beats_read += 1
            else:
                ctx.set(dut.data.p.data, rng.getrandbits(32))
            packet_ready = rng.random() < self.busy[2]
            ctx.set(dut.packet.ready, packet_ready)
            (_, _, block_ready, read_valid, read, packet_valid, packet, done_valid, done,
             first_valid, stamp, count, stall, busy) = await ctx.tick().sample(
                dut.block.ready, dut.read.valid, dut.read.payload, dut.packet.valid,
                dut.packet.payload, dut.done.valid, dut.done.payload, dut.first_read.valid,
                dut.first_read.p.stamp, dut.bytes, dut.stall, dut.busy)

            if offered and block_ready:
                blocks.popleft()
                offered = False
                self.taken_cycles.append(cycle)
            assert stuck_read is None or (read_valid and read == stuck_read), \
                f"{self.name}: read changed"
            stuck_read = read if read_valid and not read_ready else None
            if read_valid and read_ready:
                self.bursts.append((read.address, read.beats + 1))
                self.read_cycles.append(cycle)
                assert read.address % size == 0
                for beat in range(read.beats + 1):
                    due.append(
                        (cycle + self.latency, read.address + beat * size, beat == read.beats))
                beats_asked += read.beats + 1
            assert stuck_packet is None or (packet_valid and packet == stuck_packet), \
                f"{self.name}: packet changed"
            stuck_packet = packet if packet_valid and not packet_ready else None
            assert stall == (packet_valid and not packet_ready)
            assert busy.packet == packet_valid
            beats_sent = len(self.packet_cycles)
            if packet_valid and packet_ready:
                assert count == packet.strobe.bit_count()
                self.packets[-1].append(packet)
                self.packet_cycles.append(cycle)
                if packet.last:
                    self.packets.append([])
            else:
                assert count == 0
            # Space for all that is asked for: at most one beat more, in the output register.
            limit = self.config.outstanding_reads
            beats_inside = beats_asked - len(self.packet_cycles)
            assert beats_inside <= limit * self.config.burst_beats + 1, self.name
            assert len(self.bursts) - (len(self.packets) - 1) <= limit + 1, self.name
            if first_valid:
                assert read_valid and read_ready
                self.first_reads.append((len(self.bursts) - 1, stamp))
            if done_valid:
                self.done.append((cycle, beats_sent, done.plan, done.last, done.error))
            if len(self.done) == len(self.blocks):
                assert not any(
                    (busy.address, busy.reads, busy.data, packet_valid, read_valid)), self.name
                return
        pytest.fail(f"{self.name}: {len(self.done)} of {len(self.blocks)} blocks after "
                    f"{self.cycles} cycles")

    def check(self):
        """Compare all that was seen with the blocks, byte for byte."""
        config, size = self.config, self.config.beat_bytes
        assert self.packets.pop() == [], f"{self.name}: the last packet has no end"
        bursts = []
        first_reads = []
        ends = []
        for block in self.blocks:
            if block.first and not block.empty:
                first_reads.append((len(bursts), block.stamp))
            failed = False
            for start, stop, destination in (() if block.empty else fewest_bursts(block, config)):
                first = start // size * size
                beats = -(-(stop - first) // size)
                packet = self.packets[len(bursts)]
                assert len(packet) == beats, self.name
                for index, beat in enumerate(packet):
                    number = sum(beats for _, beats in bursts) + index if self.errors else -1
                    failed |= number in self.errors
                    at = destination // size * size + index * size
                    assert beat.address == at, self.name
                    assert beat.last == (index == beats - 1), self.name
                    assert {name: beat[name] for name in block.ids()} == block.ids(), self.name
                    data = beat.data.to_bytes(size, "little")
                    for byte in range(size):
                        position = first + index * size + byte
                        wanted = start <= position < stop and number not in self.errors
                        assert beat.strobe >> byte & 1 == wanted, \
                            f"{self.name}: burst {len(bursts)}"
                        if wanted:
                            assert data[byte] == self.memory[position], self.name
                bursts.append((first, beats))
            ends.append((sum(beats for _, beats in bursts), block.plan, block.last, int(failed)))
        assert self.bursts == bursts, self.name
        assert self.first_reads == first_reads, self.name
        # Done exactly one cycle after the block's last beat, or later if the block is empty.
        assert [end[1:] for end in self.done] == ends, self.name
        for block, (cycle, sent, *_) in zip(self.blocks, self.done, strict=True):
            if not block.empty:
                assert cycle == self.packet_cycles[sent - 1] + 1, self.name


def small(data_width, outstanding, burst_beats=4):
    return NodeConfig(data_width=data_width, outstanding_reads=outstanding, burst_beats=burst_beats)


@pytest.mark.parametrize("outstanding", [1, 4, 16])
@pytest.mark.parametrize("data_width", [32, 64, 128, 256, 512])
def test_random_blocks_under_random_back_pressure(data_width, outstanding):
    seed = data_width + outstanding
    rng = random.Random(seed)
    config = small(data_width, outstanding, rng.choice([2, 4, 16]))
    blocks = [random_block(rng, config) for _ in range(12)]
    busy = [rng.choice([0.3, 0.7, 1]) for _ in range(4)]
    latency = rng.choice([1, 2, 9, 60])
    EngineBench(config, blocks, seed=seed, busy=busy, latency=latency).run().check()


@pytest.mark.parametrize("seed", range(3))
def test_random_blocks_at_full_speed(seed):
    rng = random.Random(seed)
    config = small(64, 4, 16)
    blocks = [random_block(rng, config, big=True) for _ in range(12)]
    EngineBench(config, blocks, seed=seed).run().check()


def test_every_byte_lands_once_and_guard_bytes_stay():
    """A pitched tile's destination, as bytes: the rows change, all between them does not."""
    config = small(64, 4)
    rows, row_bytes = 9, 37
    block = Block(source=0x1FC3, destination=0x2003, rows=rows, row_bytes=row_bytes,
                  source_pitch=41, destination_pitch=73)
    bench = EngineBench(config, [block]).run()
    image = bytearray([GUARD]) * 0x4000
    touched = collections.Counter()
    for beat in (beat for packet in bench.packets for beat in packet):
        for byte, value in enumerate(beat.data.to_bytes(8, "little")):
            if beat.strobe >> byte & 1:
                image[beat.address + byte] = value
                touched[beat.address + byte] += 1
    expected = bytearray([GUARD]) * 0x4000
    for row in range(rows):
        start = 0x1FC3 + row * 41
        to = 0x2003 + row * 73
        expected[to:to + row_bytes] = bench.memory[start:start + row_bytes]
    assert image == expected
    assert set(touched.values()) == {1}
    assert len(touched) == rows * row_bytes


@pytest.mark.parametrize("data_width,burst_beats,starts,lengths", [
    (512, 16, range(0xFF0, 0x1011), (4095, 4096)),
    (512, 16, range(0xFF0, 0x1011, 4), (8192, 16384)),
    (512, 64, (0xFF0, 0xFFF, 0x1000, 0x1001), (4095, 4096, 8192, 16384)),
    (64, 16, (0xFF7, 0xFF8, 0x1000, 0x1001), (4095, 4096)),
    (64, 16, (0xFFF,), (8192, 16384)),
    (32, 2, (0xFFD,), (4095,)),
])
def test_page_and_burst_limits_give_the_exact_bursts(data_width, burst_beats, starts, lengths):
    """Read requests and the sum of the strobes; byte for byte is for the tests above."""
    config = small(data_width, 16, burst_beats)
    size = config.beat_bytes
    blocks = [Block(source=start, destination=start + 0x10_0FC0, rows=1, row_bytes=length)
              for length in lengths for start in starts]
    expected = []
    for block in blocks:
        for start, stop, _ in fewest_bursts(block, config):
            first = start // size * size
            assert first // 4096 == (stop - 1) // 4096
            expected.append((first, -(-(stop - first) // size)))
    dut = DmaEngine(config=config)
    bursts = []
    done = sent = 0

    async def offer(ctx):
        for block in blocks:
            ctx.set(dut.block.payload, dataclasses.asdict(block))
            ctx.set(dut.block.valid, 1)
            await ctx.tick().until(dut.block.ready)
        ctx.set(dut.block.valid, 0)

    async def answer(ctx):
        nonlocal done, sent
        due = 0
        ctx.set(dut.read.ready, 1)
        ctx.set(dut.packet.ready, 1)
        for _cycle in range(sum(beats for _, beats in expected) + 100):
            ctx.set(dut.data.valid, due > 0)
            due -= due > 0
            _, _, valid, address, beats, count, done_valid = await ctx.tick().sample(
                dut.read.valid, dut.read.p.address, dut.read.p.beats, dut.bytes, dut.done.valid)
            if valid:
                bursts.append((address, beats + 1))
                due += beats + 1
            sent += count
            done += done_valid

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(offer, background=True)
    sim.add_testbench(answer)
    sim.run()
    assert bursts == expected
    assert done == len(blocks)
    assert sent == sum(block.row_bytes for block in blocks)


@pytest.mark.parametrize("length,bursts", [
    (8 * 16, 1), (8 * 16 + 1, 2), (8 * 16 - 1, 1), (8 * 32, 2), (1, 1)])
def test_exact_fill_of_a_burst_makes_no_stray_one(length, bursts):
    config = small(64, 4, 16)
    for start in (0x800, 0x818, 0x1000 - length):
        block = Block(source=start, destination=start, rows=1, row_bytes=length)
        bench = EngineBench(config, [block]).run()
        bench.check()
        assert len(bench.bursts) == bursts


def test_read_errors_are_not_sent_and_are_reported_once():
    config = small(64, 4)
    blocks = [Block(source=0x100 * index, destination=0x100 * index, rows=2, row_bytes=40,
                    source_pitch=48, destination_pitch=48, plan=index % 4, last=index & 1)
              for index in range(6)]
    # Ten beats a block: the first beat of block 1, a middle one of 3, the last of 4.
    bench = EngineBench(config, blocks, errors=(10, 33, 49)).run()
    bench.check()
    assert [end[4] for end in bench.done] == [0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize("busy", [(1, 1, 1, 1), (0.5, 0.5, 0.3, 0.7)])
def test_empty_blocks_are_done_in_their_turn(busy):
    config = small(64, 1)
    full = Block(source=0x40, destination=0x40, rows=1, row_bytes=24)
    empties = [Block(source=8, destination=8, rows=0, row_bytes=5, first=1, last=1),
               Block(source=8, destination=8, rows=3, row_bytes=0, plan=1),
               Block(source=8, destination=8, rows=0, row_bytes=0, plan=2)]
    blocks = [empties[0], full, *empties, full, full, empties[1]]
    EngineBench(config, blocks, seed=3, busy=busy).run().check()


def test_an_empty_block_has_no_part_in_the_errors_around_it():
    config = small(64, 1, 2)
    failing = Block(source=0x40, destination=0x40, rows=1, row_bytes=64)
    empty = Block(source=8, destination=8, rows=0, row_bytes=0)
    bench = EngineBench(config, [failing, empty, empty, failing, empty], errors=range(16)).run()
    bench.check()
    assert [end[4] for end in bench.done] == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("outstanding", [1, 4, 16])
def test_without_a_consumer_reads_stop_at_the_buffer(outstanding):
    config = small(64, outstanding)
    dut = DmaEngine(config=config)
    asked = []
    total = 2048
    sent = 0

    async def bench(ctx):
        nonlocal sent
        ctx.set(dut.block.payload, {"source": 0x1008, "rows": 1, "row_bytes": total})
        ctx.set(dut.block.valid, 1)
        ctx.set(dut.read.ready, 1)
        due = 0
        for cycle in range(4000):
            ctx.set(dut.packet.ready, cycle >= 2000)
            ctx.set(dut.data.valid, due > 0)
            due -= due > 0
            _, _, taken, valid, beats, count, done = await ctx.tick().sample(
                dut.block.ready, dut.read.valid, dut.read.p.beats, dut.bytes, dut.done.valid)
            if taken:
                ctx.set(dut.block.valid, 0)
            if valid:
                asked.append(cycle)
                due += beats + 1
            sent += count
            if cycle == 1999:
                assert len(asked) <= outstanding + 1
                assert asked[-1] < 100
                assert sent == 0
            if done:
                return
        pytest.fail("the engine does not move on when its consumer does")

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
    assert sent == total


def test_latency_from_block_to_read_and_from_data_to_packet():
    """One cycle to the read request; data through the buffer and the output register as stated."""
    config = small(64, 4)
    block = Block(source=0x100, destination=0, rows=1, row_bytes=64)
    bench = EngineBench(config, [block], latency=1).run()
    assert bench.read_cycles[0] == bench.taken_cycles[0] + 1
    assert bench.packet_cycles[0] == bench.read_cycles[0] + 1 + DmaEngine.data_latency


def test_no_valid_waits_for_its_ready():
    dut = DmaEngine(config=small(64, 1))

    async def bench(ctx):
        ctx.set(dut.block.payload, {"rows": 1, "row_bytes": 8})
        ctx.set(dut.block.valid, 1)
        await ctx.tick()
        ctx.set(dut.block.valid, 0)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.read.valid)
        ctx.set(dut.read.ready, 1)
        await ctx.tick()
        assert not ctx.get(dut.read.valid)
        ctx.set(dut.data.valid, 1)
        await ctx.tick()
        ctx.set(dut.data.valid, 0)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.packet.valid)

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


def test_blocks_of_narrow_unaligned_rows_ask_for_a_burst_a_cycle():
    config = small(64, 64, 16)
    rng = random.Random(5)
    blocks = []
    for index in range(4):
        row_bytes = rng.randint(8, 64)
        blocks.append(Block(source=0x1000 * index + 3, destination=0x1000 * index + 3, rows=12,
                            row_bytes=row_bytes, source_pitch=129, destination_pitch=129 + 8))
    bench = EngineBench(config, blocks)
    bench.run().check()
    assert len(bench.read_cycles) >= 48
    assert bench.read_cycles == list(range(bench.read_cycles[0],
                                           bench.read_cycles[0] + len(bench.read_cycles)))


@pytest.mark.parametrize("latency,goals", [
    (2, {1 << 16: 0.995, 256: 0.99, 64: 0.97}),
    (32, {1 << 16: 0.99, 256: 0.98, 64: 0.95}),
    (100, {1 << 16: 0.98, 256: 0.97, 64: 0.70}),
])
def test_share_of_the_bus_in_use(latency, goals):
    config = NodeConfig(data_width=64, outstanding_reads=16, burst_beats=16)
    for block_bytes, goal in goals.items():
        use = measure_bus_use(config, block_bytes, latency, blocks=max(1, 8192 // block_bytes))
        assert use.first_read == 1
        assert use.share >= goal, f"{block_bytes} bytes: {use}"
        if block_bytes == 1 << 16:  # then even the first read's latency is within the goal
            assert use.share_with_start >= goal, use


@pytest.mark.parametrize("row_bytes,offset", [(8, 0), (5, 2), (8, 3), (24, 5)])
def test_single_beat_rows_keep_the_bus_busy(row_bytes, offset):
    use = measure_bus_use(NodeConfig(), 64 * row_bytes, 2, rows=64, pitch=192 + (offset > 2),
                          offset=offset, blocks=4)
    assert use.share_with_start >= 0.97, use


@pytest.mark.parametrize("arguments", [(64, 0), (0, 2)])
def test_bench_refuses_what_it_cannot_measure(arguments):
    with pytest.raises(ValueError, match="at least 1"):
        measure_bus_use(NodeConfig(), *arguments)
