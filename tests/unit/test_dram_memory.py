"""The DRAM model does what a byte array does, in each source's order, and by the rules of DRAM."""

import collections
import random
import re

import pytest
from dram_rules import (ACTIVATE, PRECHARGE, READ, UPDATE, WRITE, beat_at, beats_of, check_rules,
                        command_monitor)
from memory_agents import (
    BFLOAT16, DMA, FLOAT16, FLOAT32, INT32, LINK, MEMORY_ERROR, NO_TILE, PRODUCER, Access,
    ReferenceMemory, beat, expected_responses, monitor, plain_commit, plain_read, random_access,
    sender, wait_until,
)
from simulation import simulate

from t3hw.config import NodeConfig
from t3hw.dram import DramError, DramTiming
from t3hw.hdl.dram_memory import DramMemory
from t3hw.hdl.dram_scheduler import AGE_LIMIT, TURN_LIMIT
from t3hw.hdl.memory_controller import MemoryController
from t3hw.hdl.node import trace_members

HBM2 = DramTiming.preset("hbm2")
#: All that HBM2 has, on few banks, and with refreshes that a short run meets.
SMALL = HBM2.replace(bank_groups=2, banks=2, rows=64, page_bytes=128, window=6, t_refi="800 ns",
                     t_rfc="60 ns")
PLAIN = NodeConfig(name="plain", data_width=32, dtypes=("int32",), memory="dram", dram=SMALL,
                   memory_bytes=4096)
ALL = (1 << PLAIN.beat_bytes) - 1
#: Beats of all banks that lie one over the other: as far apart as two rows of a bank.
ROW = SMALL.bank_groups * SMALL.banks * SMALL.page_columns


def run(config, accesses, *, rng=None, pace=1.0, cycles=20000, extra=()):
    """Carry out all accesses; reads, commits, errors and commands with their cycles,
    and the DUT."""
    dut = DramMemory(config=config)
    reads, commits, errors, commands = [], [], [], []

    async def wait(ctx):
        wanted = sum(access is not None for access in accesses)
        await wait_until(ctx, lambda: len(reads) + len(commits) == wanted, cycles=cycles,
                         what=lambda: f"{len(reads) + len(commits)} of {wanted} answers")
        await ctx.tick().repeat(3)

    simulate(dut, wait, background=[
        sender(dut.access, [access and access.payload for access in accesses], rng=rng, pace=pace),
        monitor(dut.read, reads), monitor(dut.commit, commits), monitor(dut.error, errors),
        command_monitor(dut, commands), *(bench(dut) for bench in extra)])
    check_rules(config.dram, commands)
    return reads, commits, errors, commands, dut


def check(config, accesses, reads, commits, errors, *, where=""):
    """Compare with the byte-level memory: reads in the order of each source, commits in any."""
    expected_reads, expected_commits, failed = expected_responses(
        ReferenceMemory(config), accesses, size=config.memory_bytes)
    for source in (PRODUCER, LINK, DMA):
        assert ([plain_read(read) for _, read in reads if read.source.value == source]
                == [read for read in expected_reads if read[0] == source]), f"{where} {source}"
    assert (collections.Counter(repr(plain_commit(commit)) for _, commit in commits)
            == collections.Counter(map(repr, expected_commits))), where
    assert sorted(error.address for _, error in errors) == sorted(
        address for address, _ in failed), where
    assert {error.cause.value for _, error in errors} <= {MEMORY_ERROR}


@pytest.mark.parametrize("timing, dtypes, types", [
    (SMALL, ("int32",), [INT32]),
    (SMALL, NodeConfig().dtypes, [INT32, FLOAT32, BFLOAT16, FLOAT16]),
    (SMALL.replace(window=2, update_factor=1, mapping="row column bank group"), ("int32",),
     [INT32]),
    (HBM2, NodeConfig().dtypes, [FLOAT32, BFLOAT16]),
    (DramTiming.preset("ddr3").replace(window=5, bank_hash=False), ("float16",), [FLOAT16]),
    (DramTiming.preset("ddr4").replace(window=12, mapping="row group bank column"), ("int32",),
     [INT32]),
], ids=["int32", "all", "narrow", "hbm2", "ddr3", "ddr4"])
def test_random_accesses_to_few_beats(timing, dtypes, types):
    rng = random.Random(timing.window)
    config = PLAIN.replace(dram=timing, dtypes=dtypes, memory_bytes=1 << 17 if timing.rows > 64
                           else 4096)
    # Neighbours, other rows, and the last one.
    last = config.memory_bytes // config.beat_bytes - 1
    numbers = [0, 1, 4, ROW, ROW + 1, 2 * ROW, 17 * ROW, last]
    beats = [beat(config, number) for number in numbers]
    outside = [1 << 20, 1 << 30, (1 << config.addr_width) - config.beat_bytes]
    accesses = [random_access(rng, config, beats * 5 + outside, types) for _ in range(240)]
    # All that was touched is read at the end.
    accesses += [Access(write=0, address=address) for address in beats]
    reads, commits, errors, *_ = run(config, accesses, rng=rng, pace=rng.choice([1.0, 0.7]))
    check(config, accesses, reads, commits, errors, where=f"seed {timing.window}")


@pytest.mark.parametrize("mapping, bank_hash", [
    ("row bank column group", True), ("row bank column group", False),
    ("row column bank group", True), ("bank group row column", True),
    ("column group bank row", False)])
def test_each_beat_goes_where_the_mapping_says(mapping, bank_hash):
    timing = SMALL.replace(mapping=mapping, bank_hash=bank_hash, t_refi="7.8 us")
    rng = random.Random(mapping)
    numbers = [rng.randrange(1024) for _ in range(30)] + [0, 1023]
    # One at a time and without a refresh, so that they keep their order.
    accesses = [access for number in numbers
                for access in (Access(write=0, address=4 * number), *[None] * 40)]
    *_, commands, _ = run(PLAIN.replace(dram=timing), accesses)
    assert beats_of(timing, commands, beat_at) == numbers


def column_times(commands):
    return [command.cycle for command in commands if command.name in (READ, WRITE, UPDATE)]


@pytest.mark.parametrize("dtypes", [("int32",), NodeConfig().dtypes], ids=["int32", "all"])
@pytest.mark.parametrize("write", [0, 1])
def test_latency(write, dtypes):
    """Of a closed bank, an open row, and of another row of the bank."""
    # HBM2's own write latency is shorter than the way through the array.
    timing = HBM2.replace(window=4, bank_hash=False, write_latency=6)
    pause = [None] * 60
    addresses = [0, 0, 4 * 4 * 16 * timing.page_columns]
    accesses = [access for address in addresses
                for access in (Access(write=write, address=address, strobe=ALL), *pause)]
    config = PLAIN.replace(dram=timing, dtypes=dtypes, memory_bytes=1 << 16)
    reads, commits, _, commands, dut = run(config, accesses)
    starts = [number for number, access in enumerate(accesses) if access]
    columns = column_times(commands)
    assert [column - start for column, start in zip(columns, starts)] == [
        3 + timing.tRCD, 3, 3 + timing.tRP + timing.tRCD]
    latency = dut.write_latency if write else dut.read_latency
    assert [cycle for cycle, _ in (commits if write else reads)] == [
        column + latency for column in columns]
    if dtypes == ("int32",):
        assert latency == (timing.CWL + 1 if write else timing.CL + 1)


def test_back_to_back_adds_to_one_beat_give_exact_sums():
    """Each waits for the result of the one before it."""
    accesses = [Access(write=1, address=12, data=number, strobe=ALL, add=0b11)
                for number in range(60)]
    accesses.append(Access(write=0, address=12))
    config = PLAIN.replace(dtypes=NodeConfig().dtypes, dram=SMALL.replace(t_refi="3.9 us"))
    reads, _, _, commands, dut = run(config, accesses)
    assert [read.data for _, read in reads] == [sum(range(60))]
    times = column_times(commands)[:60]
    assert {later - earlier for earlier, later in zip(times, times[1:])} == {dut.interlock}
    assert dut.interlock > SMALL.tCCD_L_update


def test_a_read_right_after_a_store_finds_it_and_a_store_does_not_pass_a_read():
    accesses = []
    for number in range(40):
        accesses += [Access(write=1, address=16, data=number, strobe=ALL),
                     Access(write=0, address=16, source=number % 3)]
    reads, commits, errors, *_ = run(PLAIN, accesses)
    assert [read.data for _, read in reads] == list(range(40))
    check(PLAIN, accesses, reads, commits, errors)


def test_last_byte_is_inside_and_the_next_is_outside():
    accesses = [Access(write=1, address=4092, data=5, strobe=ALL), Access(write=0, address=4092),
                Access(write=1, address=4096, data=6, strobe=ALL, add=0b11,
                       tile=NO_TILE | {"slot": 3}),
                Access(write=0, address=4096),
                # Where addresses would wrap to.
                Access(write=0, address=0)]
    reads, commits, errors, commands, _ = run(PLAIN, accesses)
    assert [(read.data, read.error) for _, read in reads] == [(5, 0), (0, 1), (0, 0)]
    assert sorted((commit.bytes, commit.error) for _, commit in commits) == [(0, 1), (4, 0)]
    assert sorted((error.address, error.tile.slot) for _, error in errors) == [(4096, 0), (4096, 3)]
    assert len(column_times(commands)) == 3
    check(PLAIN, accesses, reads, commits, errors)


def test_occupancy_is_what_was_accepted_and_not_issued():
    rng = random.Random(6)
    accesses = [random_access(rng, PLAIN, range(0, 4096, 4), [INT32]) for _ in range(150)]
    levels, accepted = [], []

    def watch(dut):
        async def bench(ctx):
            async for _, _, taken, level in ctx.tick().sample(
                    dut.access.valid & dut.access.ready, dut.occupancy):
                accepted.append(taken)
                levels.append(level)
        return bench

    *_, commands, _ = run(PLAIN, accesses, rng=rng, pace=0.6, extra=[watch])
    columns = column_times(commands)
    for cycle, level in enumerate(levels):
        assert level == sum(accepted[:cycle]) - sum(column <= cycle for column in columns)
    # The window, and the access before it.
    assert max(levels) == SMALL.window + 1


def test_an_access_to_another_row_does_not_starve():
    """Hits come for ever; the one access that misses, a read, waits for a bounded time."""
    timing = SMALL.replace(bank_hash=False, mapping="row bank group column", t_refi="3.9 us")
    hits = [Access(write=0, address=4 * (number % 4)) for number in range(20)]
    late = Access(write=0, address=4 * ROW, source=DMA)
    accesses = hits + [late] + hits * 17
    reads, *_ = run(PLAIN.replace(dram=timing), accesses)
    came, = (cycle for cycle, read in reads if read.source.value == DMA)
    assert 256 < came < 20 * timing.tCCD_L + 2 * AGE_LIMIT + 2 * timing.tRC


@pytest.mark.parametrize("write", [0, 1])
def test_an_access_of_the_other_direction_does_not_starve(write):
    others = [Access(write=1 - write, address=4 * number, strobe=ALL) for number in range(200)]
    late = Access(write=write, address=4092, source=LINK, strobe=ALL)
    accesses = others[:20] + [late] + others[20:]
    timing = SMALL.replace(t_refi="3.9 us")
    reads, commits, *_ = run(PLAIN.replace(dram=timing), accesses)
    came, = (cycle for cycle, answer in reads + commits if answer.source.value == LINK)
    assert came < 20 + 2 * TURN_LIMIT


@pytest.mark.parametrize("write, slow", [
    (0, {"t_wtr_s": "200 tCK", "t_wtr_l": "200 tCK"}),
    (1, {"read_latency": 128, "turnaround": 32})], ids=["read", "write"])
def test_nor_where_a_change_of_direction_takes_longer_than_its_limit(write, slow):
    """All go to one row, and the change back must not come before the change has served anyone."""
    timing = SMALL.replace(t_refi="30 us", clock_ratio=1, **slow)
    change = timing.tRTW if write else timing.write_to_read_l
    assert change > 2 * TURN_LIMIT
    others = [Access(write=1 - write, address=4 * (number % 15), strobe=ALL)
              for number in range(300)]
    late = Access(write=write, address=4 * 15, source=LINK, strobe=ALL)
    reads, commits, *_ = run(PLAIN.replace(dram=timing), others[:20] + [late] + others[20:])
    came, = (cycle for cycle, answer in reads + commits if answer.source.value == LINK)
    assert came < 20 * timing.tCCD_L + 2 * TURN_LIMIT + change


@pytest.mark.parametrize("changes", [
    # Cycles are clocks; a change of direction takes longer than from refresh to refresh; everything
    # is rounded up.
    {"clock_ratio": 1, "t_rfc": "20 ns"},
    {"clock_ratio": 1, "t_rfc": "20 ns", "t_wtr_s": "60 ns", "t_wtr_l": "190 ns"},
    {"clock_ratio": 16, "t_rcd": "1 ns", "t_rp": "1 ns", "t_ras": "2 ns", "t_rc": "3 ns",
     "t_rfc": "1 ns", "t_rtp": "1 ns"}])
def test_accesses_go_on_with_refreshes_as_often_as_they_may_come(changes):
    timing = SMALL.replace(t_refi="50 us", **changes)
    least = int(re.search("least ([0-9]+) controller cycles", str(pytest.raises(
        DramError, timing.replace, t_refi="1 tCK").value))[1])
    timing = timing.replace(t_refi=f"{least * timing.clock_ratio} tCK")
    config = PLAIN.replace(dram=timing)
    rng = random.Random(least)
    beats = [beat(config, number) for number in range(0, 64, 3)]
    accesses = [random_access(rng, config, beats, [INT32]) for _ in range(80)]
    reads, commits, errors, *_ = run(config, accesses)
    check(config, accesses, reads, commits, errors)


def test_updates_are_column_commands_of_their_own():
    accesses = [Access(write=1, address=4 * number, strobe=ALL, add=0b11 * (number % 2))
                for number in range(8)]
    *_, commands, _ = run(PLAIN, accesses)
    assert collections.Counter(command.name for command in commands) == {
        ACTIVATE: 2, WRITE: 4, UPDATE: 4}
    assert PRECHARGE not in [command.name for command in commands]


def test_config_must_be_a_config_with_a_dram():
    with pytest.raises(TypeError, match="not 'tiny'"):
        DramMemory(config="tiny")
    with pytest.raises(ValueError, match="not memory 'builtin'"):
        DramMemory(config=NodeConfig.preset("tiny"))


def test_the_command_bus_is_seen_only_with_a_dram():
    names = {"row_valid", "row_op", "row_bank", "row", "column_valid", "column_op", "column_bank",
             "column"}
    for config, wanted in ((PLAIN, {f"trace_dram_{name}" for name in names}),
                           (NodeConfig.preset("tiny"), set())):
        assert {name for name in trace_members(config) if "dram" in name} == wanted
        controller = MemoryController(config=config)
        assert ("dram_command" in controller.signature.members) == bool(wanted)
        assert "dram_events" in controller.signature.members
