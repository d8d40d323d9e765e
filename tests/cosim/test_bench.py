"""The bench around a stand-in node: player, mailbox, links, logs; the same on both simulators."""

import random
from pathlib import Path

import pytest
from standin import standin

from t3hw.cosim import simulators
from t3hw.cosim.script import Burst, read_bursts, write_bursts
from t3hw.cosim.session import CycleLimit, RingSimulation
from t3hw.runtime.transport import BusError

MEMORY = 1 << 15
SIMULATIONS = {}


def simulation(simulator, data_width=64):
    if (simulator, data_width) not in SIMULATIONS:
        config, node = standin(data_width)
        SIMULATIONS[simulator, data_width] = RingSimulation(config, 2, simulator=simulator,
                                                            node=node)
    return SIMULATIONS[simulator, data_width]


@pytest.fixture(params=simulators.SIMULATORS)
def ring(request):
    return simulation(request.param)


def use_registers(session):
    port = session.transports[1]
    for index in range(8):
        port.write32(4 * index, 0x01010101 * index)
    assert [port.read32(4 * index) for index in range(8)] == [0x01010101 * n for n in range(8)]
    port.write_block(0, range(100, 116))
    assert port.read_block(0, 11) == list(range(100, 111))
    # The other node saw nothing of it.
    assert session.transports[0].read_block(0, 8) == [0] * 8


def test_registers_of_each_node(ring):
    ring.run(use_registers)


def provoke_bus_errors(session):
    port = session.transports[0]
    with pytest.raises(BusError, match="read at 0x00040 "):
        port.read32(0x40)
    with pytest.raises(BusError, match="write at 0xffffc "):
        port.write32(0xFFFFC, 1)
    with pytest.raises(BusError, match="write at 0x00040 "):
        port.write_block(0x38, [1, 2, 3, 4])
    port.write_block(0x0, [])
    assert port.read_block(0x38, 1) == [1]


def test_bus_errors_name_the_access(ring):
    ring.run(provoke_bus_errors)


def count_mailbox_cycles(session):
    port = session.transports[0]
    cycles = []
    for words in (1, 101, 1101):
        before = session.cycle
        port.write_words([(0, word) for word in range(words)])
        cycles.append(session.cycle - before)
    return cycles


def test_a_block_takes_one_cycle_a_word(ring):
    one, hundred, thousand = ring.run(count_mailbox_cycles)
    assert one < 10
    assert (hundred - one, thousand - hundred) == (100, 1000)


def start_together(session):
    """Writes to all nodes; returns the cycles in which they began and ended."""
    one, other = session.transports
    # Whatever one of them has done before.
    other.write32(0, 1)
    cycles = []
    for value in (42, 43):
        before = session.cycle
        session.write_all(0x8, value)
        cycles += [before, session.cycle]
        assert [port.read32(0x8) for port in session.transports] == [value] * 2
    session.write_all(0x3C, 1)
    assert one.interrupt and other.interrupt
    # A node that refuses is named by the access, and none is left in the middle of one.
    with pytest.raises(BusError, match="write at 0x00040 "):
        session.write_all(0x40, 1)
    session.write_all(0xC, 5)
    assert [port.read32(0xC) for port in session.transports] == [5, 5]
    one.write32(0x8, 50)
    other.write32(0x8, 50)
    return cycles


def test_all_nodes_see_a_write_in_one_cycle(ring, tmp_path):
    cycles = ring.run(start_together, trace_bin=16, directory=tmp_path)
    first, second = ({int(line.split()[2]): int(line.split()[1])
                      for line in (tmp_path / f"trace{device}.txt").read_text().splitlines()
                      if line.startswith("F")} for device in range(2))
    for index, value in enumerate((42, 43)):
        assert cycles[2 * index] <= first[value] == second[value] <= cycles[2 * index + 1]
    # One after the other takes longer, and the log shows it.
    assert first[50] < second[50]


def begin_and_go_on(session):
    one, other = session.transports
    before = session.cycle
    one.begin_write(0x8, 7)
    assert session.cycle == before
    # What another node does meanwhile is not disturbed.
    assert other.read32(0x8) == 0
    one.end_write(0x8)
    assert one.read32(0x8) == 7
    one.begin_write(0x40, 7)
    with pytest.raises(BusError, match="write at 0x00040 "):
        one.end_write(0x40)


def test_a_write_can_be_begun_and_ended_later(ring):
    ring.run(begin_and_go_on)


def wait_for_interrupt(session):
    port = session.transports[1]
    before = session.cycle
    assert not port.wait_interrupt(100)
    assert 100 <= session.cycle - before <= 104
    port.write32(0x3C, 1)
    before = session.cycle
    assert port.wait_interrupt(10000)
    assert session.cycle - before < 5
    assert not session.transports[0].wait_interrupt(0)


def test_interrupt(ring):
    ring.run(wait_for_interrupt)


def write_and_read(session, seed, options):
    """Random writes with random strobes, from both players at once, against a bytearray."""
    rng = random.Random(seed)
    size = session.config.beat_bytes
    scripts, expected = {}, {}
    for device in range(session.devices):
        memory = expected[device] = bytearray(b"\xFF" * MEMORY)
        bursts = scripts[device] = []
        for _ in range(60):
            beats = rng.choice([1, 1, 2, 7, 16, 64])
            address = size * rng.randrange(MEMORY // size)
            address -= max(address % 4096 + size * beats - 4096, 0)
            data = rng.randbytes(size * beats)
            strobes = bytes(rng.choices((0, 1), k=size * beats))
            bursts.append(Burst(address=address, data=data, strobes=strobes,
                                gap=rng.choice([0, 0, 9]), beat_gap=rng.choice([0, 0, 2]),
                                fence=rng.random() < 0.2, id=rng.randrange(16),
                                wg=rng.randrange(99)))
            for index, byte in enumerate(data):
                if strobes[index]:
                    memory[address + index] = byte
            # A read whose data nobody wants disturbs nothing.
            bursts.append(Burst(address=size * rng.randrange(20), beats=3))
    session.play(scripts, seed=seed, **options)
    assert session.wait_players(cycles=100_000), f"seed {seed}"
    for device, memory in expected.items():
        assert session.errors(device) == 0, f"seed {seed}"
        assert session.read(device, 0, MEMORY) == memory, f"seed {seed}"
        assert session.memories[device].read_memory(13, 1001) == memory[13:1014], f"seed {seed}"
        session.memories[device].write_memory(77, b"unaligned")
        assert session.read(device, 76, 11) == memory[76:77] + b"unaligned" + memory[86:87]


OPTIONS = [{}, {"stall": 0.5}, {"response_stall": 0.8},
           {"outstanding_writes": 1, "outstanding_reads": 1},
           {"stall": 0.9, "response_stall": 0.9, "outstanding_writes": 2}]


@pytest.mark.parametrize("seed, data_width", [*((seed, 64) for seed in range(len(OPTIONS))),
                                              (1, 32), (2, 512)])
def test_random_bursts_do_the_same_as_a_bytearray_on_both_simulators(tmp_path, seed, data_width):
    for simulator in simulators.SIMULATORS:
        simulation(simulator, data_width).run(
            write_and_read, seed, OPTIONS[seed], seed=seed, trace_bin=32,
            directory=tmp_path / simulator)
    for device in range(2):
        name = f"trace{device}.txt"
        logs = [(tmp_path / simulator / name).read_text() for simulator in simulators.SIMULATORS]
        assert logs[0] == logs[1], f"seed {seed}"
        assert logs[0].count("A ") > 10


def pace(session):
    """Cycles from start to end of some scripts of 512 beats; the bench's own are subtracted."""
    def cycles(bursts):
        before = session.cycle
        session.play({0: bursts}, outstanding_writes=64)
        assert session.wait_players(0)
        return session.cycle - before

    nothing = cycles([])
    data = bytes(4096)
    return [cycles(bursts) - nothing for bursts in (
        write_bursts(0, data, beat_bytes=8, burst_beats=16),
        write_bursts(0, data, beat_bytes=8, burst_beats=1),
        write_bursts(0, data, beat_bytes=8, burst_beats=16, gap=10),
        write_bursts(0, data, beat_bytes=8, burst_beats=16, beat_gap=3),
        read_bursts(0, 4096, beat_bytes=8, burst_beats=16))]


def test_pace(ring):
    """No idle cycle without a gap, whatever the length of bursts; gaps are what they say."""
    # The last response of the RAM comes up to 25 cycles and a handshake later.
    full, single, gap, beat_gap, read = ring.run(pace)
    assert 512 <= full <= 512 + 30
    assert 512 <= single <= 512 + 30
    assert full - 30 <= gap - 32 * 10 <= full + 30
    # Within a burst only.
    assert full - 30 <= beat_gap - 32 * 15 * 3 <= full + 30
    # The stand-in's RAM waits anew for each read burst.
    assert 512 <= read <= 512 + 32 * 27


def count_faults(session):
    session.play({0: [Burst(address=MEMORY - 8, data=bytes(8)),
                      Burst(address=MEMORY, data=bytes(8)),
                      Burst(address=MEMORY - 8, beats=1), Burst(address=1 << 31, beats=3)],
                  1: [Burst(address=0, beats=1)]})
    session.wait_players()
    assert (session.errors(0), session.errors(1)) == (4, 0)
    session.play({0: []})
    session.wait_players()
    assert session.errors(0) == 0
    with pytest.raises(RuntimeError, match="device 1: 1 of the accesses from 0x8000"):
        session.read(1, MEMORY, 8)


def test_error_responses_are_counted(ring):
    ring.run(count_faults)


def send_words(session):
    session.transports[0].write32(0x38, 500)
    session.transports[1].write32(0x38, 300)
    session.wait(4000)
    return [port.read_block(0x30, 2) for port in session.transports]


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.8])
def test_links_deliver_each_word_once_whatever_their_stalls(ring, stall):
    assert ring.run(send_words, link_stall=stall, seed=3) == [[0, 300], [0, 500]]


def log_events(session):
    session.transports[0].write32(0x8, 42)
    session.play({0: write_bursts(0, bytes(512), beat_bytes=8)})
    session.wait_players()
    session.transports[0].write32(0x3C, 1)
    session.transports[0].write32(0x3C, 0)


def test_trace_log(ring, tmp_path):
    ring.run(log_events, trace_bin=16, directory=tmp_path)
    lines = [line.split() for line in (tmp_path / "trace0.txt").read_text().splitlines()]
    events = [(line[0], *line[2:]) for line in lines if line[0] in "FSE"]
    assert events == [("F", "42"), ("S",), ("E",), ("F", "1"), ("F", "0")]
    assert sum(int(line[2]) for line in lines if line[0] == "A") == 64
    assert sum(int(line[4]) for line in lines if line[0] == "A") == 4
    assert all(int(line[1]) % 16 == 0 for line in lines if line[0] == "A")
    assert sum(line[0] == "P" for line in lines) > 0
    assert (tmp_path / "trace1.txt").read_text() == "T 16\n"


def test_no_trace_log_without_being_asked(ring, tmp_path):
    ring.run(log_events, directory=tmp_path)
    assert not (tmp_path / "trace0.txt").exists()


def sleep_for_ever(session):
    session.wait_until(lambda: False)


def raise_something(session):
    raise ZeroDivisionError("on purpose")


class Stubborn(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one}{two}")


def raise_what_cannot_travel(session):
    raise Stubborn("a", "b")


def return_what_cannot_travel(session):
    return lambda: None


def stop_simulator(session):
    Path("player0_1.bin").write_bytes(b"no script")
    session._start[0].value = 1
    session.wait(100)


def test_a_simulation_is_limited_by_cycles(ring):
    with pytest.raises(CycleLimit, match="after 1000 cycles"):
        ring.run(sleep_for_ever, cycles=1000)


def test_what_the_function_raises_arrives_with_its_traceback(ring):
    with pytest.raises(ZeroDivisionError, match="on purpose") as info:
        ring.run(raise_something)
    assert "in raise_something" in info.value.__notes__[0]
    with pytest.raises(simulators.SimulatorError, match="Stubborn: ab"):
        ring.run(raise_what_cannot_travel)
    with pytest.raises((AttributeError, simulators.SimulatorError), match="pickle"):
        ring.run(return_what_cannot_travel)


def test_a_simulator_that_stops_is_an_error_with_its_log(ring):
    with pytest.raises(simulators.SimulatorError, match="no script for beats of 8 bytes"):
        ring.run(stop_simulator)


def test_waveforms_on_request_only(ring, tmp_path):
    with pytest.raises(simulators.SimulatorError, match="waves=True"):
        ring.run(use_registers, waves=True, directory=tmp_path)
    assert not (tmp_path / "waves.fst").exists()


@pytest.mark.parametrize("simulator", simulators.SIMULATORS)
def test_waveforms(simulator, tmp_path):
    config, node = standin()
    ring = RingSimulation(config, 2, simulator=simulator, node=node, waves=True)
    ring.run(use_registers, directory=tmp_path / "none")
    ring.run(use_registers, waves=True, directory=tmp_path / "waves")
    assert not (tmp_path / "none" / "waves.fst").exists()
    assert (tmp_path / "waves" / "waves.fst").stat().st_size > 1000


def test_a_function_of_a_script_is_refused(ring, monkeypatch):
    monkeypatch.setattr(use_registers, "__module__", "__main__")
    with pytest.raises(ValueError, match="use_registers must be in a module"):
        ring.run(use_registers)


@pytest.mark.parametrize("stall", [-0.1, 1])
def test_bad_stall_is_refused(ring, stall):
    with pytest.raises(ValueError, match=f"link_stall .* not {stall}"):
        ring.run(use_registers, link_stall=stall)
