"""The memory behind AXI4 keeps every order that matters, whatever the bus does."""

import collections
import random

import pytest
from memory_agents import (
    BFLOAT16, FLOAT16, INT32, MEMORY_ERROR, NO_TILE, Access, AxiModel, ReferenceMemory, beat,
    expected_responses, monitor, plain_commit, plain_read, random_access, random_data, sender,
    wait_until,
)
from simulation import simulate

from t3hw.config import NodeConfig
from t3hw.hdl.axi_memory import AxiMemory

CONFIG = NodeConfig.preset("axi").replace(tiles=64, memory_outstanding=16, dtypes=("int32",))
#: Enough places for adds with a memory of latency 20.
FULL = CONFIG.replace(memory_outstanding=64)
ALL = (1 << CONFIG.beat_bytes) - 1
EVERY_LANE = (1 << CONFIG.lanes) - 1


class Run:
    """All accesses carried out on a memory model, and what came back, with its cycle."""

    def __init__(self, accesses, *, config=CONFIG, seed=0, read_latency=lambda: 1,
                 write_latency=lambda: 1, send_pace=1.0, cycles=20000, **model):
        rng = random.Random(seed)
        self.config = config
        self.accesses = accesses
        self.dut = dut = AxiMemory(config=config)
        self.model = AxiModel(config, dut, rng, read_latency=read_latency,
                              write_latency=write_latency, **model)
        self.reads, self.commits, self.errors, self.aw, self.ar = [], [], [], [], []
        self.model.memory.bytes.update(self.initial())

        async def wait(ctx):
            await wait_until(
                ctx, lambda: len(self.reads) + len(self.commits) == len(accesses), cycles=cycles,
                what=lambda: f"seed {seed}: {len(self.reads)} reads and {len(self.commits)} "
                f"commits of {len(accesses)}")
            # More than enough for errors that wait for their turn.
            await ctx.tick().repeat(12)
            assert ctx.get(dut.occupancy) == 0

        simulate(dut, wait, background=[
            sender(dut.access, [access.payload for access in accesses], rng=rng, pace=send_pace),
            monitor(dut.read, self.reads), monitor(dut.commit, self.commits),
            monitor(dut.error, self.errors), monitor(dut.aw, self.aw), monitor(dut.ar, self.ar),
            *self.model.benches()])

    def initial(self):
        """Poison: what must never be returned or added to, unless it is asked for."""
        return {access.address + byte: 0xFF for access in self.accesses
                for byte in range(self.config.beat_bytes)}

    def check(self, where=""):
        """Compare responses and memory with the byte-level memory; returns it."""
        memory = ReferenceMemory(self.config)
        memory.bytes.update(self.initial())
        reads, commits, failed = expected_responses(
            memory, self.accesses, size=self.config.memory_bytes, bad_reads=self.model.bad_reads,
            bad_writes=self.model.bad_writes)
        assert [plain_read(read) for _, read in self.reads] == reads, where
        assert [plain_commit(commit) for _, commit in self.commits] == commits, where
        assert self.model.memory.bytes == memory.bytes, where
        assert {error.cause.value for _, error in self.errors} <= {MEMORY_ERROR}
        self.failed = collections.Counter(address for address, _ in failed)
        self.reported = collections.Counter(error.address for _, error in self.errors)
        return memory


@pytest.mark.parametrize("outstanding, width, dtypes", [
    (16, 64, ("int32",)), (2, 64, ("int32",)), (8, 32, NodeConfig().dtypes),
    (16, 128, ("float32", "bfloat16"))])
@pytest.mark.parametrize("seed", range(2))
def test_random_accesses_to_few_beats(seed, outstanding, width, dtypes):
    rng = random.Random(seed)
    config = CONFIG.replace(memory_outstanding=outstanding, data_width=width, dtypes=dtypes)
    types = [NodeConfig().dtypes.index(name) for name in dtypes]
    beats = [beat(config, number) for number in (0, 1, 2, 7, 8, 64, 65, 4096)]
    accesses = [random_access(rng, config, beats, types) for _ in range(120)]

    def latency():
        return rng.choice([1, 1, 2, 3, 10, rng.randrange(1, 60)])

    run = Run(accesses, config=config, seed=seed, read_latency=latency, write_latency=latency,
              send_pace=0.9, pace=rng.choice([1.0, 0.5]), early_writes=seed % 2 * 0.5)
    run.check(f"seed {seed}")
    assert run.model.most_under_way <= outstanding
    assert run.model.refused == {"read": 0, "write": 0}
    assert run.errors == []


def test_latencies_to_300():
    rng = random.Random(1)
    accesses = [random_access(rng, CONFIG, [beat(CONFIG, number) for number in range(40)], [INT32])
                for _ in range(100)]
    Run(accesses, read_latency=lambda: rng.randrange(1, 301),
        write_latency=lambda: rng.randrange(1, 301)).check()


def test_back_to_back_adds_to_one_beat_with_a_late_response():
    """Read latency 1, response 60 cycles late, data applied with the response."""
    accesses = [Access(write=1, address=64, data=0, strobe=ALL)]
    accesses += [Access(write=1, address=64, data=number << 32 | 1, strobe=ALL, add=EVERY_LANE,
                        source=number % 2) for number in range(30)]
    accesses.append(Access(write=0, address=64))
    run = Run(accesses, write_latency=lambda: 60)
    run.check()
    assert run.reads[0][1].data == sum(range(30)) << 32 | 30


@pytest.mark.parametrize("late", [1, 60, 300])
def test_a_read_right_after_a_store_finds_it(late):
    accesses = []
    for number in range(6):
        accesses += [Access(write=1, address=beat(CONFIG, number % 3), data=number, strobe=ALL),
                     Access(write=0, address=beat(CONFIG, number % 3))]
    run = Run(accesses, write_latency=lambda: late)
    assert [read.data for _, read in run.reads] == list(range(6))


@pytest.mark.parametrize("add", [0, EVERY_LANE])
def test_a_write_does_not_overtake_an_earlier_read(add):
    accesses = [Access(write=1, address=8, data=7, strobe=ALL)]
    for number in range(10):
        accesses += [Access(write=0, address=8),
                     Access(write=1, address=8, data=number, strobe=ALL, add=add)]
    Run(accesses, read_latency=lambda: 20, early_writes=1.0).check()


@pytest.mark.parametrize("strobe", [0b11110000, 0b00111100, 0b00000000, 0b10101010])
def test_unstrobed_bytes_keep_their_bits(strobe):
    rng = random.Random(strobe)
    config = CONFIG.replace(dtypes=("float16",))
    old = 0x8000_7D01_FFFF_8000  # -0.0, a signalling NaN, a NaN with a payload
    kept = sum(0xFF << 8 * byte for byte in range(8) if not strobe >> byte & 1)
    for add in (0, sum(1 << lane for lane in range(4) if strobe >> 2 * lane & 3 == 3)):
        run = Run([Access(write=1, address=8, data=old, strobe=ALL),
                   Access(write=1, address=8, data=random_data(rng, config), strobe=strobe, add=add,
                          dtype=FLOAT16),
                   Access(write=0, address=8)], config=config)
        run.check()
        assert run.reads[0][1].data & kept == old & kept
        assert [commit.bytes for _, commit in run.commits] == [8, strobe.bit_count()]


@pytest.mark.parametrize("seed", range(2))
def test_errors_of_the_bus_are_answered_and_write_nothing(seed):
    rng = random.Random(seed)
    config = CONFIG.replace(memory_bytes=4096 + 512)
    beats = [beat(config, number) for number in range(16)] + [4096 + 504, 4096 + 512, 1 << 30]
    accesses = [random_access(rng, config, beats, [INT32]) for _ in range(150)]
    run = Run(accesses, config=config, seed=seed, send_pace=0.2, pace=0.7,
              read_latency=lambda: rng.randrange(1, 9), write_latency=lambda: rng.randrange(1, 9),
              bad_reads={beat(config, 2), beat(config, 3)},
              bad_writes={beat(config, 3), beat(config, 4)})
    run.check(f"seed {seed}")
    # Reports of reads may be dropped when they come too fast; at this pace none is.
    assert run.reported == run.failed, f"seed {seed}"
    assert {4096 + 512, 1 << 30} < set(run.reported)
    assert 4096 + 504 not in run.reported


def test_nothing_is_asked_of_the_bus_beyond_the_window():
    config = CONFIG.replace(memory_bytes=1024)
    accesses = [Access(write=write, address=1024 + 8 * number, strobe=ALL, add=add, data=number,
                       tile=NO_TILE | {"tracked": 1, "slot": number})
                for number, (write, add) in enumerate([(0, 0), (1, 0), (1, EVERY_LANE)] * 3)]
    run = Run(accesses, config=config)
    run.check()
    assert run.model.transactions == {"read": 0, "write": 0}
    assert [(read.error, read.data) for _, read in run.reads] == [(1, 0)] * 3
    assert [(commit.error, commit.bytes) for _, commit in run.commits] == [(1, 0)] * 6
    assert run.reported == run.failed
    tiles = {error.address: error.tile.slot for _, error in run.errors if error.tile.tracked}
    assert tiles == {1024 + 8 * number: number for number in range(9) if number % 3}


@pytest.mark.parametrize("first", ["aw", "w"])
def test_address_and_data_do_not_wait_for_each_other(first):
    rng = random.Random(3)
    accesses = [random_access(rng, CONFIG, [beat(CONFIG, number) for number in range(30)], [INT32])
                for _ in range(100)]
    Run(accesses, first=first, pace=0.6).check()


def test_reads_end_while_writes_cannot():
    """No write leaves for 500 cycles: reads before and between them are answered all the same."""
    accesses = [Access(write=number % 2, address=beat(CONFIG, number), strobe=ALL,
                       add=EVERY_LANE if number % 4 == 3 else 0) for number in range(60)]
    run = Run(accesses, config=FULL, write_start=500, read_latency=lambda: 20)
    run.check()
    assert run.reads[-1][0] < 200
    assert run.commits[0][0] > 500


KINDS = {"read": (0, 0), "store": (1, 0), "add": (1, EVERY_LANE)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtypes, dtype", [(("int32",), INT32), (NodeConfig().dtypes, BFLOAT16)],
                         ids=["int32", "all"])
def test_one_access_a_cycle_with_a_memory_of_latency_20(kind, dtypes, dtype):
    config = FULL.replace(dtypes=dtypes)
    write, add = KINDS[kind]
    accesses = [Access(write=write, address=beat(config, number), strobe=ALL, add=add, dtype=dtype)
                for number in range(120)]
    run = Run(accesses, config=config, read_latency=lambda: 20, write_latency=lambda: 20)
    run.check()
    times = [cycle for cycle, _ in (run.commits if write else run.reads)]
    assert times == list(range(times[0], times[0] + 120))


def test_mixed_kinds_together_take_one_cycle_each():
    accesses = [Access(write=write, address=beat(CONFIG, number), strobe=ALL, add=add)
                for number in range(150) for write, add in [list(KINDS.values())[number % 3]]]
    run = Run(accesses, config=FULL, read_latency=lambda: 20, write_latency=lambda: 20)
    run.check()
    last = max(run.reads[-1][0], run.commits[-1][0])
    assert last <= 150 + run.dut.add_overhead + 2 * 20 + 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pitch", [512, 1 << 20])
def test_only_accesses_to_the_same_beat_wait(pitch, kind):
    """Rows at a power of two, as those of a tile, and three streams that run abreast."""
    write, add = KINDS[kind]
    accesses = [Access(write=write, address=row * pitch, strobe=ALL, add=add) for row in range(60)]
    accesses += [Access(write=write, address=stream * pitch * 128 + beat(CONFIG, number), add=add,
                        strobe=ALL) for number in range(20) for stream in (1, 2, 3)]
    run = Run(accesses, config=FULL, read_latency=lambda: 20, write_latency=lambda: 20)
    run.check()
    times = [cycle for cycle, _ in (run.commits if write else run.reads)]
    assert times[-1] - times[0] == len(accesses) - 1


def test_reads_of_one_beat_do_not_wait_for_each_other():
    run = Run([Access(write=0, address=8)] * 50, read_latency=lambda: 10)
    assert run.reads[-1][0] - run.reads[0][0] == 49


@pytest.mark.parametrize("dtypes", [("int32",), NodeConfig().dtypes], ids=["int32", "all"])
def test_latencies(dtypes):
    config = CONFIG.replace(dtypes=dtypes)
    run = Run([Access(write=0, address=0)], config=config, read_latency=lambda: 5)
    assert [run.ar[0][0], run.reads[0][0]] == [4, 4 + 5 + 1]
    run = Run([Access(write=1, address=0, strobe=ALL)], config=config, write_latency=lambda: 7)
    sent = run.dut.write_latency
    assert [run.aw[0][0], run.commits[0][0]] == [sent, sent + 7 + 1]
    run = Run([Access(write=1, address=0, strobe=ALL, add=EVERY_LANE)], config=config,
              read_latency=lambda: 5, write_latency=lambda: 7)
    sent = 4 + 5 + run.dut.add_latency
    assert [run.ar[0][0], run.aw[0][0], run.commits[0][0]] == [4, sent, sent + 7 + 1]


def test_places_are_used_to_the_last_one():
    """An add is under way for its overhead and the two latencies: so many places are no limit."""
    probe = AxiMemory(config=CONFIG)
    latency = (CONFIG.memory_outstanding - probe.add_overhead) // 2
    for more, full_speed in ((0, True), (2, False)):
        accesses = [Access(write=1, address=beat(CONFIG, number), strobe=ALL, add=EVERY_LANE)
                    for number in range(100)]
        run = Run(accesses, read_latency=lambda: latency + more,
                  write_latency=lambda: latency + more)
        times = [cycle for cycle, _ in run.commits]
        assert (times[-1] - times[0] == 99) == full_speed


def test_config_must_be_a_config():
    with pytest.raises(TypeError, match="not 'tiny'"):
        AxiMemory(config="tiny")
