"""The built-in memory does what a byte array does, in order, at any delay, in its stated time."""

import random

import pytest
from memory_agents import (
    BFLOAT16, FLOAT16, FLOAT32, INT32, MEMORY_ERROR, NO_TILE, Access, ReferenceMemory, beat,
    expected_responses, monitor, plain_commit, plain_read, random_access, random_data, sender,
    wait_until,
)
from simulation import simulate

from t3hw.config import NodeConfig
from t3hw.hdl.builtin_memory import BuiltinMemory

TINY = NodeConfig.preset("tiny").replace(memory_bytes=1024, memory_max_latency=40)
ALL = (1 << TINY.beat_bytes) - 1


def run(config, accesses, *, rng=None, pace=1.0, latency=0, extra=(), cycles=20000):
    """Carry out all accesses; (reads, commits, errors, dut), each with its cycle."""
    dut = BuiltinMemory(config=config)
    reads, commits, errors = [], [], []

    async def wait(ctx):
        ctx.set(dut.latency, latency)
        await wait_until(ctx, lambda: len(reads) + len(commits) == len(accesses), cycles=cycles,
                         what=lambda: f"{len(reads) + len(commits)} of {len(accesses)} answers")
        await ctx.tick().repeat(3)

    simulate(dut, wait, background=[
        sender(dut.access, [access.payload for access in accesses], rng=rng, pace=pace),
        monitor(dut.read, reads), monitor(dut.commit, commits), monitor(dut.error, errors),
        *(bench(dut) for bench in extra)])
    return reads, commits, errors, dut


def check(config, accesses, reads, commits, errors, *, where=""):
    """Compare with the byte-level memory."""
    expected_reads, expected_commits, failed = expected_responses(
        ReferenceMemory(config), accesses, size=config.memory_bytes)
    assert [plain_read(read) for _, read in reads] == expected_reads, where
    assert [plain_commit(commit) for _, commit in commits] == expected_commits, where
    assert [error.address for _, error in errors] == [address for address, _ in failed], where
    assert {error.cause.value for _, error in errors} <= {MEMORY_ERROR}


@pytest.mark.parametrize("dtypes, types", [
    (("int32",), [INT32]), (NodeConfig().dtypes, [INT32, FLOAT32, BFLOAT16, FLOAT16])],
    ids=["int32", "all"])
@pytest.mark.parametrize("width", [32, 128])
@pytest.mark.parametrize("seed", range(2))
def test_random_accesses_to_few_beats(seed, width, dtypes, types):
    rng = random.Random(seed)
    config = TINY.replace(dtypes=dtypes, data_width=width)
    beats = [beat(config, number) for number in (0, 1, 2, 1024 // config.beat_bytes - 1)]
    outside = [1024, 1 << 20, (1 << config.addr_width) - config.beat_bytes]
    accesses = [random_access(rng, config, beats * 5 + outside, types) for _ in range(400)]
    # All that was touched is read at the end.
    accesses += [Access(write=0, address=address) for address in beats]

    def change_latency(dut):
        async def bench(ctx):
            while True:
                if rng.random() < 0.03:
                    ctx.set(dut.latency, rng.choice([0, 0, 1, 2, 7, 40]))
                await ctx.tick()
        return bench

    reads, commits, errors, _ = run(config, accesses, rng=rng, pace=rng.choice([1.0, 0.5]),
                                    extra=[change_latency])
    check(config, accesses, reads, commits, errors, where=f"seed {seed}")


@pytest.mark.parametrize("strobe", [0b1100, 0b0110, 0b0000, 0b1010])
def test_unstrobed_bytes_keep_their_bits(strobe):
    rng = random.Random(strobe)
    old = 0x80007FC1  # -0.0 and a NaN with a payload, as 16-bit elements
    accesses = [Access(write=1, address=8, data=old, strobe=ALL),
                Access(write=1, address=8, data=random_data(rng, TINY), strobe=strobe),
                Access(write=0, address=8)]
    reads, commits, errors, _ = run(TINY, accesses)
    kept = sum(0xFF << 8 * byte for byte in range(4) if not strobe >> byte & 1)
    assert reads[0][1].data & kept == old & kept
    assert [commit.bytes for _, commit in commits] == [4, strobe.bit_count()]
    check(TINY, accesses, reads, commits, errors)


@pytest.mark.parametrize("lane", [0, 1])
def test_lanes_beside_an_added_one_keep_their_bits(lane):
    """float16 1 + 1 in one lane, beside a signalling NaN or -0 that has no strobe."""
    for beside in (0x7D01, 0x8000):
        old = 0x3C00 << 16 * lane | beside << 16 * (1 - lane)
        accesses = [Access(write=1, address=8, data=old, strobe=ALL),
                    Access(write=1, address=8, data=0x3C003C00, strobe=0b11 << 2 * lane,
                           add=1 << lane, dtype=FLOAT16),
                    Access(write=0, address=8)]
        (_, read), = run(TINY, accesses)[0]
        assert read.data == 0x4000 << 16 * lane | beside << 16 * (1 - lane)


def test_back_to_back_adds_to_one_beat_give_exact_sums():
    accesses = [Access(write=1, address=12, data=number, strobe=ALL, add=0b11)
                for number in range(100)]
    accesses.append(Access(write=0, address=12))
    reads, commits, _, dut = run(TINY, accesses)
    assert [read.data for _, read in reads] == [sum(range(100))]
    times = [cycle for cycle, _ in commits]
    assert {later - earlier for earlier, later in zip(times, times[1:])} == {dut.interlock}


def test_a_read_right_after_a_store_finds_it():
    accesses = []
    for number in range(50):
        accesses += [Access(write=1, address=16, data=number, strobe=ALL),
                     Access(write=0, address=16)]
    reads = run(TINY, accesses)[0]
    assert [read.data for _, read in reads] == list(range(50))


def test_last_byte_is_inside_and_the_next_is_outside():
    accesses = [Access(write=1, address=1020, data=5, strobe=ALL), Access(write=0, address=1020),
                Access(write=1, address=1024, data=6, strobe=ALL, add=0b11,
                       tile=NO_TILE | {"slot": 3}),
                Access(write=0, address=1024),
                # Where addresses would wrap to.
                Access(write=0, address=0)]
    reads, commits, errors, _ = run(TINY, accesses)
    assert [(read.data, read.error) for _, read in reads] == [(5, 0), (0, 1), (0, 0)]
    assert [(commit.bytes, commit.error) for _, commit in commits] == [(4, 0), (0, 1)]
    assert [(error.address, error.tile.slot) for _, error in errors] == [(1024, 3), (1024, 0)]


@pytest.mark.parametrize("latency", [0, 1, 2, 17, 40])
@pytest.mark.parametrize("write", [0, 1])
def test_latency_and_throughput(latency, write):
    accesses = [Access(write=write, address=beat(TINY, number % 64), strobe=ALL, add=0b11 * write)
                for number in range(120)]
    reads, commits, _, dut = run(TINY, accesses, latency=latency)
    times = [cycle for cycle, _ in (commits if write else reads)]
    first = dut.minimum_latency + latency
    assert times == list(range(first, first + 120))


def test_stores_to_one_beat_do_not_wait_and_keep_their_order():
    accesses = [Access(write=1, address=4, data=number, strobe=ALL) for number in range(40)]
    accesses.append(Access(write=0, address=4))
    reads, commits, _, dut = run(TINY, accesses)
    times = [cycle for cycle, _ in commits]
    assert times == list(range(times[0], times[0] + 40))
    assert reads[0][1].data == 39
    assert reads[0][0] - times[-1] == dut.interlock


def test_more_latency_than_there_are_places_is_only_slow():
    accesses = [Access(write=1, address=beat(TINY, number), strobe=ALL) for number in range(60)]
    _, commits, _, dut = run(TINY, accesses, latency=300)
    assert commits[0][0] == dut.minimum_latency + 300
    assert commits[-1][0] < 700


def test_config_must_be_a_config():
    with pytest.raises(TypeError, match="not 'tiny'"):
        BuiltinMemory(config="tiny")
