"""The DRAM model does what a byte array does, in each source's order, by the rules of DRAM."""

import collections
import random

import pytest
from memory_agents import (BFLOAT16, DMA, FLOAT16, FLOAT32, INT32, MEMORY_ERROR, NO_TILE, PRODUCER,
                           Access, ReferenceMemory, beat, expected_responses, monitor, plain_commit,
                           plain_read, random_access, sender, simulate, wait_until)

from t3hw.config import NodeConfig
from t3hw.dram import DramTiming
from t3hw.hdl.dram_memory import DramMemory

PLAIN = NodeConfig(name="plain", data_width=32, dtypes=("int32",), memory="dram", dram="hbm2",
                   memory_bytes=1 << 20)
ALL = (1 << PLAIN.beat_bytes) - 1


def run(config, accesses, *, rng=None, pace=1.0, cycles=20000):
    """Carry out all accesses; (reads, commits, errors, commands), each with its cycle, and the DUT."""
    dut = DramMemory(config=config)
    reads, commits, errors, commands = [], [], [], []

    async def wait(ctx):
        await wait_until(ctx, lambda: len(reads) + len(commits) == len(accesses), cycles=cycles,
                         what=lambda: f"{len(reads) + len(commits)} of {len(accesses)} answers")
        await ctx.tick().repeat(3)

    simulate(dut, wait, background=[
        sender(dut.access, [access.payload for access in accesses], rng=rng, pace=pace),
        monitor(dut.read, reads), monitor(dut.commit, commits), monitor(dut.error, errors)])
    return reads, commits, errors, dut


def check(config, accesses, reads, commits, errors, *, where=""):
    """Compare with the byte-level memory: reads in the order of each source, commits in any."""
    expected_reads, expected_commits, failed = expected_responses(
        ReferenceMemory(config), accesses, size=config.memory_bytes)
    for source in range(3):
        assert ([plain_read(read) for _, read in reads if read.source.value == source]
                == [read for read in expected_reads if read[0] == source]), f"{where} {source}"
    count = collections.Counter(map(repr, (plain_commit(commit) for _, commit in commits)))
    assert count == collections.Counter(map(repr, expected_commits)), where
    assert sorted(error.address for _, error in errors) == sorted(
        address for address, _ in failed), where
    assert {error.cause.value for _, error in errors} <= {MEMORY_ERROR}


@pytest.mark.parametrize("dram, window", [("hbm2", 32), ("ddr3", 2), ("ddr4", 9)])
@pytest.mark.parametrize("dtypes, types", [
    (("int32",), [INT32]), (NodeConfig().dtypes, [INT32, FLOAT32, BFLOAT16, FLOAT16])],
    ids=["int32", "all"])
def test_random_accesses_to_few_beats(dtypes, types, dram, window):
    rng = random.Random(window)
    config = PLAIN.replace(dtypes=dtypes, dram=DramTiming.preset(dram).replace(window=window))
    # Beats of one row, of other rows of the bank, and of other banks.
    row = config.dram.bank_groups * config.dram.banks * config.dram.page_columns
    numbers = [0, 1, 4, row, row + 1, 2 * row, 17 * row, config.memory_bytes // 4 - 1]
    beats = [beat(config, number % (config.memory_bytes // 4)) for number in numbers]
    outside = [1 << 20, 1 << 30, (1 << config.addr_width) - config.beat_bytes]
    accesses = [random_access(rng, config, beats * 5 + outside, types) for _ in range(500)]
    # All that was touched is read at the end.
    accesses += [Access(write=0, address=address) for address in beats]
    reads, commits, errors, _ = run(config, accesses, rng=rng, pace=rng.choice([1.0, 0.7]))
    check(config, accesses, reads, commits, errors, where=f"seed {window}")
