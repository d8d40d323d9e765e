"""The DRAM model reaches what its timing implies, and refreshes at its rate."""

import random

import pytest
from dram_rules import READ, REFRESH, UPDATE, WRITE, check_rules, command_monitor
from memory_agents import Access, monitor, sender
from simulation import simulate

from t3hw.config import NodeConfig
from t3hw.dram import DramTiming
from t3hw.hdl.dram_memory import DramMemory

HBM2 = DramTiming.preset("hbm2")
PLAIN = NodeConfig(name="plain", data_width=32, dtypes=("int32",), memory="dram", dram=HBM2,
                   memory_bytes=1 << 25)
BEATS = PLAIN.memory_bytes // PLAIN.beat_bytes
ALL = (1 << PLAIN.beat_bytes) - 1


def run(config, accesses, *, cycles):
    """Offer accesses in each cycle; the commands, by the rules of DRAM."""
    dut = DramMemory(config=config)
    reads, commands = [], []

    async def wait(ctx):
        await ctx.tick().repeat(cycles)

    simulate(dut, wait, background=[
        sender(dut.access, (access.payload for access in accesses)),
        monitor(dut.read, reads), command_monitor(dut, commands)])
    return reads, check_rules(config.dram, commands)


def columns(commands):
    return [command.cycle for command in commands if command.name in (READ, WRITE, UPDATE)]


def endless(make):
    number = 0
    while True:
        yield make(number)
        number += 1


def test_streaming_reads_reach_nine_tenths_of_the_peak():
    """Over a whole refresh interval, and close to what the timing implies."""
    start = 200
    reads, commands = run(PLAIN, endless(lambda number: Access(write=0, address=4 * number)),
                          cycles=start + HBM2.tREFI)
    rate = sum(cycle >= start for cycle, _ in reads) / HBM2.tREFI
    assert sum(command.name == REFRESH for command in commands) == 1
    assert rate >= 0.90
    assert 0.99 * HBM2.streaming_bandwidth <= rate <= 1.005 * HBM2.streaming_bandwidth


@pytest.mark.parametrize("add", [0, 0b11], ids=["stores", "updates"])
def test_streaming_writes_without_a_refresh_reach_the_peak(add):
    """Updates too, since each of four groups may take one in four cycles."""
    commands = run(PLAIN, endless(lambda number: Access(write=1, address=4 * number, strobe=ALL,
                                                        add=add)), cycles=400)[1]
    times = columns(commands)
    assert len(times) / (400 - times[0]) >= 0.97


def test_column_commands_of_different_groups_follow_each_other_in_every_cycle():
    commands = run(PLAIN, [Access(write=0, address=4 * number) for number in range(64)],
                   cycles=120)[1]
    times = columns(commands)
    # As soon as the rows of all groups are open.
    assert times[-40:] == list(range(times[-40], times[-40] + 40))


@pytest.mark.parametrize("add, cycles", [(0, HBM2.tCCD_L), (0b11, HBM2.tCCD_L_update)])
def test_one_group_takes_a_column_command_in_each_long_delay(add, cycles):
    commands = run(PLAIN, [Access(write=1, address=16 * number, strobe=ALL, add=add)
                           for number in range(24)], cycles=200)[1]
    times = columns(commands)
    assert {later - earlier for earlier, later in zip(times, times[1:])} == {cycles}


def test_other_rows_of_one_bank_take_a_row_cycle_each():
    timing = HBM2.replace(bank_hash=False)
    row = timing.bank_groups * timing.banks * timing.page_columns
    commands = run(PLAIN.replace(dram=timing), [Access(write=0, address=4 * row * number)
                                                for number in range(20)], cycles=550)[1]
    times = columns(commands)
    assert {later - earlier for earlier, later in zip(times, times[1:])} == {timing.tRC}


@pytest.mark.parametrize("write", [0, 1])
def test_random_accesses_reach_what_activates_allow(write):
    """Without a refresh: the bound of tRRD and tFAW, nearly."""
    rng = random.Random(7)
    cycles, start = 800, 150
    commands = run(PLAIN, endless(lambda number: Access(
        write=write, address=4 * rng.randrange(BEATS), strobe=ALL)), cycles=cycles)[1]
    rate = sum(cycle >= start for cycle in columns(commands)) / (cycles - start)
    bound = HBM2.random_bandwidth() / HBM2.streaming_bandwidth
    assert bound == 0.5
    assert 0.9 * bound <= rate <= 1.01 * bound


def test_refreshes_come_at_their_rate_under_load_and_without():
    timing = HBM2.replace(window=4, bank_groups=2, banks=2, t_refi="700 ns", t_rfc="60 ns")
    rng = random.Random(8)
    for accesses in ([], endless(lambda number: Access(
            write=rng.randrange(2), address=4 * rng.randrange(BEATS // 16), strobe=ALL))):
        commands = run(PLAIN.replace(dram=timing, memory_bytes=1 << 23), accesses, cycles=1800)[1]
        times = [command.cycle for command in commands if command.name == REFRESH]
        assert len(times) == 5
        # Each becomes due at its time, however late the one before it was.
        late = [time - timing.tREFI * number for number, time in enumerate(times, 1)]
        assert 0 <= min(late) <= max(late) <= (
            timing.tRAS + timing.write_to_precharge + timing.tRC), late
