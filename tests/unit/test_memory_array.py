"""Memory array: what a byte array does, at one access a cycle, as soon as the interlock allows."""

import random

import pytest
from amaranth import unsigned

from memory_agents import (
    BFLOAT16, FLOAT16, FLOAT32, INT32, Access, ReferenceMemory, beat, expected_responses,
    monitor, plain_commit, random_access, random_data, sender)
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.memory_array import MemoryArray

TINY = NodeConfig.preset("tiny").replace(memory_bytes=1024)
CONFIGS = {
    "int32": TINY.replace(dtypes=("int32",)),
    "all": TINY,
    "halves": TINY.replace(dtypes=("bfloat16", "float16"), data_width=64),
    "wide": TINY.replace(data_width=512, dtypes=("int32",)),
    # No address is beyond the memory.
    "full": TINY.replace(addr_width=16, memory_bytes=1 << 16, dtypes=("int32",)),
}
TYPES = {"int32": INT32, "float32": FLOAT32, "bfloat16": BFLOAT16, "float16": FLOAT16}
ALL = (1 << TINY.beat_bytes) - 1


def spaced(accesses, interlock, config):
    """The accesses with pauses (None) where they must wait for the last write to their beat."""
    schedule, written = [], {}
    for access in accesses:
        if access is None:
            schedule.append(None)
            continue
        if not access.write or access.add:
            allowed = written.get(access.address, -interlock) + interlock
            schedule += [None] * (allowed - len(schedule))
        if access.write and access.address < config.memory_bytes:
            written[access.address] = len(schedule)
        schedule.append(access)
    return schedule


def run(config, schedule, *, metas=None):
    """(cycle, result) of each result, and the component; an access a cycle, or None."""
    dut = MemoryArray(config=config, meta=None if metas is None else unsigned(9))
    numbers = iter(metas or ())
    results = []

    async def bench(ctx):
        await ctx.tick().repeat(len(schedule) + dut.latency + 5)

    simulate(dut, bench, background=[
        sender(dut.i, [access and {"access": access.payload} | (
            {} if metas is None else {"meta": next(numbers)}) for access in schedule]),
        monitor(dut.o, results)])
    return results, dut


def check(config, schedule, results, latency, *, where=""):
    """Compare with the byte-level memory; each comes in its time."""
    accesses = [(cycle, access) for cycle, access in enumerate(schedule) if access]
    assert [cycle for cycle, _ in results] == [cycle + latency for cycle, _ in accesses], where
    reads, commits, _ = expected_responses(
        ReferenceMemory(config), [access for _, access in accesses], size=config.memory_bytes)
    found = [result for _, result in results]
    assert [result.write for result in found] == [access.write for _, access in accesses], where
    assert [plain_commit(result.commit) for result in found if result.write] == commits, where
    assert [(result.commit.source.value, result.commit.last, result.commit.error, result.data)
            for result in found if not result.write] == reads, where
    # A read has the other fields of a commit, too.
    assert [(result.commit.tag, result.commit.address, result.commit.tile.slot)
            for result in found] == [
        (access.tag, access.address, access.tile["slot"]) for _, access in accesses], where


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(2))
def test_random_accesses_to_few_beats(name, seed):
    """Each as early as it may come, and now and then later; reads with strobes, data and ``add``
    that mean nothing."""
    print("seed", seed)
    rng = random.Random(seed)
    config = CONFIGS[name]
    last = config.memory_bytes // config.beat_bytes - 1
    beats = [beat(config, number) for number in (0, 1, 2, 5, last)]
    outside = [address for address in (config.memory_bytes, 1 << config.addr_width - 1,
                                       (1 << config.addr_width) - config.beat_bytes)
               if config.memory_bytes <= address < 1 << config.addr_width]
    types = [TYPES[dtype] for dtype in config.dtypes]
    accesses = [Access(write=1, address=address, data=random_data(rng, config),
                       strobe=(1 << config.beat_bytes) - 1) for address in beats]
    for _ in range(250):
        access = random_access(rng, config, beats * 5 + outside, types)
        if not access.write:
            access.add, access.dtype = rng.randrange(1 << config.lanes), rng.choice(types)
        accesses += [access] if rng.random() < 0.9 else [None, access]
    accesses += [Access(write=0, address=address) for address in beats]
    schedule = spaced(accesses, MemoryArray(config=config).interlock, config)
    metas = [rng.randrange(1 << 9) for access in schedule if access]
    results, dut = run(config, schedule, metas=metas)
    check(config, schedule, results, dut.latency, where=f"seed {seed}")
    assert [result.meta for _, result in results] == metas


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("first_adds, then_adds", [(0, None), (1, None), (0, 1), (1, 1)])
def test_a_write_is_seen_after_the_interlock_by_reads_and_adds(name, first_adds, then_adds):
    """Many pairs to beats of their own, one pair after the other."""
    rng = random.Random(len(name))
    config = CONFIGS[name]
    dtype = TYPES[config.dtypes[0]]
    strobe = (1 << config.beat_bytes) - 1
    add = (1 << config.lanes) - 1
    interlock = MemoryArray(config=config).interlock
    schedule, addresses = [], [beat(config, number) for number in range(12)]
    for address in addresses:
        schedule += [
            Access(write=1, address=address, data=random_data(rng, config), strobe=strobe,
                   dtype=dtype, add=add * first_adds),
            *[None] * (interlock - 1),
            Access(write=0, address=address) if then_adds is None else
            Access(write=1, address=address, data=random_data(rng, config), strobe=strobe,
                   dtype=dtype, add=add)]
    schedule += [None] * interlock + [Access(write=0, address=address) for address in addresses]
    results, dut = run(config, schedule)
    check(config, schedule, results, dut.latency)


def test_one_access_a_cycle():
    """Reads, stores and adds in turn, to beats of their own, without a pause."""
    rng = random.Random(1)
    schedule = [Access(write=number % 3 > 0, address=beat(TINY, number), strobe=ALL,
                       data=random_data(rng, TINY), add=0b11 * (number % 3 == 2))
                for number in range(200)]
    results, dut = run(TINY, schedule)
    check(TINY, schedule, results, dut.latency)
    assert [cycle for cycle, _ in results] == list(range(dut.latency, dut.latency + 200))


def test_stores_to_one_beat_need_no_interlock():
    """Whole ones and parts, in every cycle: the last writer of each byte stays."""
    rng = random.Random(2)
    schedule = [Access(write=1, address=4, data=random_data(rng, TINY),
                       strobe=rng.randrange(1 << TINY.beat_bytes)) for _ in range(100)]
    schedule += [None] * MemoryArray(config=TINY).interlock + [Access(write=0, address=4)]
    results, dut = run(TINY, schedule)
    check(TINY, schedule, results, dut.latency)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_last_beat_is_inside_and_nothing_beyond_it(name):
    """What is beyond would land on the beats of the same low address bits."""
    config = CONFIGS[name]
    strobe = (1 << config.beat_bytes) - 1
    inside = [0, config.memory_bytes - config.beat_bytes]
    beyond = [address | 1 << bit for address in inside for bit in range(config.addr_width)
              if 1 << bit >= config.memory_bytes]
    accesses = [Access(write=1, address=address, data=0x1234 + address, strobe=strobe)
                for address in inside]
    accesses += [Access(write=write, address=address, data=0x5678, strobe=strobe,
                        add=write & number % 2, dtype=TYPES[config.dtypes[0]])
                 for number, address in enumerate(beyond) for write in (0, 1)]
    accesses += [Access(write=0, address=address) for address in inside]
    schedule = spaced(accesses, MemoryArray(config=config).interlock, config)
    results, dut = run(config, schedule)
    check(config, schedule, results, dut.latency)
    assert len(dut.beats) == config.memory_bytes // config.beat_bytes
    assert [result.commit.error for _, result in results] == [0, 0, *[1] * 2 * len(beyond), 0, 0]
