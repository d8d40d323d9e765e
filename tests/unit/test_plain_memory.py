"""The plain memory stores and gives back, in order, a cycle later."""

import random

import pytest
from memory_agents import (
    LINK, MEMORY_ERROR, PRODUCER, Access, ReferenceMemory, beat, expected_responses, monitor,
    plain_commit, plain_read, random_data, sender, wait_until,
)
from simulation import simulate

from t3hw.config import NodeConfig
from t3hw.hdl.plain_memory import PlainMemory

TINY = NodeConfig.preset("nano").replace(memory_bytes=1024, collective=False, dtypes=(),
                                         touch_bytes=64)


def run(config, accesses, *, rng=None, pace=1.0):
    dut = PlainMemory(config=config)
    reads, commits, errors = [], [], []

    async def wait(ctx):
        await wait_until(ctx, lambda: len(reads) + len(commits) == len(accesses), cycles=5000,
                         what=lambda: f"{len(reads) + len(commits)} of {len(accesses)} answers")
        await ctx.tick().repeat(3)

    simulate(dut, wait, background=[
        sender(dut.access, [access.payload for access in accesses], rng=rng, pace=pace),
        monitor(dut.read, reads), monitor(dut.commit, commits), monitor(dut.error, errors)])
    return reads, commits, errors


@pytest.mark.parametrize("width", [32, 128])
@pytest.mark.parametrize("seed", range(2))
def test_random_stores_and_loads(seed, width):
    rng = random.Random(seed)
    config = TINY.replace(data_width=width)
    places = [beat(config, number) for number in (0, 1, 2, 1024 // config.beat_bytes - 1)]
    accesses = []
    for number in range(400):
        # What lies outside is written only, since what it reads means nothing.
        write = rng.random() < 0.6
        address = rng.choice(places * 4 + ([1024, 1 << 12] if write else []))
        accesses.append(Access(
            write=int(write), address=address, data=random_data(rng, config),
            strobe=rng.randrange(1 << config.beat_bytes), source=rng.choice([PRODUCER, LINK]),
            last=number & 1))
    reads, commits, errors = run(config, accesses, rng=rng, pace=rng.choice([1.0, 0.5]))
    expected_reads, expected_commits, failed = expected_responses(
        ReferenceMemory(config), accesses, size=config.memory_bytes)
    assert [plain_read(read) for _, read in reads] == expected_reads
    assert [plain_commit(commit) for _, commit in commits] == expected_commits
    assert [error.address for _, error in errors] == [address for address, _ in failed]
    assert {error.cause.value for _, error in errors} <= {MEMORY_ERROR}


def test_latency_and_throughput():
    config = TINY
    accesses = [Access(write=1, address=beat(config, number), data=number, strobe=15)
                for number in range(10)]
    accesses += [Access(write=0, address=beat(config, number)) for number in range(10)]
    reads, commits, _errors = run(config, accesses)
    first = commits[0][0]
    assert [cycle for cycle, _ in commits + reads] == list(range(first, first + 20))
    assert first == PlainMemory.latency


def test_a_load_beyond_the_memory_is_an_error():
    reads, _commits, errors = run(TINY, [Access(write=0, address=1024)])
    assert reads[0][1].error == 1 and errors[0][1].address == 1024
