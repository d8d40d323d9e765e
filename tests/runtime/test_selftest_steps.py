"""The self-test on a board in Python: it passes, and each flaw fails the step
that it belongs to."""

import re

import numpy as np
import pytest

from board_model import ONES, BoardModel, PtyBoard, design
from t3hw.config import DTYPE_NAMES, PRESETS
from t3hw.reference import NUMPY_DTYPES, add
from t3hw.registers import register_address as node_register
from t3hw.registers.board import MEMORY_BASE, memory_address, register_address
from t3hw.runtime.device import DeviceError
from t3hw.runtime.selftest import IDENTITY, STEPS, run_selftest, selftest
from t3hw.runtime.selftest_bench import Bench, StepFailed, compare, pattern
from t3hw.runtime.selftest_vectors import vector_pairs
from t3hw.runtime.serial_link import SerialLink

SILENCE = 0.03
NAMES = [IDENTITY, *(step.name for step in STEPS)]


class Bringup:
    """A self-test of a model: lines, and outcomes by step."""

    def __init__(self, board):
        self.board = board
        self.lines = []

    def run(self, **options):
        with SerialLink(self.board.port, baud=1_000_000, timeout=2, silence=SILENCE) as link:
            return run_selftest(link, show=self.lines.append, **{"quick": True} | options)

    @property
    def outcomes(self):
        return {name: line[18:27].strip() for line in self.lines[1:-1] for name in NAMES
                if line[:18].rstrip() == name}

    def detail(self, name):
        line, = (line for line in self.lines if line[:18].rstrip() == name)
        return line[37:]


@pytest.fixture
def bring_up():
    """Makes one; ends it."""
    boards = []

    def make(of=None, **options):
        boards.append(PtyBoard(BoardModel(of or design(**options)), silence=SILENCE).__enter__())
        return Bringup(boards[-1])

    yield make
    for board in boards:
        board.__exit__(None, None, None)


@pytest.mark.parametrize("devices, preset, traffic", [
    (1, "tiny", False), (1, "small", True), (2, "tiny", True), (3, "tiny", False),
    (4, "small", True)])
def test_a_good_board_passes_and_is_left_clean(bring_up, devices, preset, traffic):
    of = design(devices=devices, node=PRESETS[preset], traffic=traffic)
    test = bring_up(of)
    for _run in range(2):
        test.lines.clear()
        assert test.run(design=of), "\n".join(test.lines)
        assert list(test.outcomes) == NAMES
        skipped = [name for name, outcome in test.outcomes.items() if outcome != "ok"]
        assert skipped == ([] if traffic else ["overlap"]), "\n".join(test.lines)
        for node in test.board.board.ring.devices:
            assert not node.plans.busy() and not len(node.regions)
            assert not node.registers.values["IRQ_ENABLE"]
            assert not node.registers.values["ERROR_STATUS"]
            assert not node.registers.field("CONTROL", "hold")
        for engine in test.board.board.ring.engines:
            assert not engine.busy and not engine.interrupt


def test_thorough_with_every_type_on_the_host(bring_up):
    test = bring_up(devices=2, node=PRESETS["tiny"].replace(memory_bytes=2048, touch_bytes=2048))
    assert test.run(quick=False, seed=7), "\n".join(test.lines)
    assert "by the host int32, float32, bfloat16, float16" in test.detail("reduce-scatter")
    assert "all 2 KiB" in test.detail("memory")
    assert "seed 7" in test.lines[-1]


def test_nodes_of_another_shape(bring_up):
    """One type, wide beats, hardly any room."""
    node = PRESETS["tiny"].replace(data_width=128, dtypes=["bfloat16"], tiles=4, commands=4,
                                   regions=2, routes=1, plans=1, memory_bytes=1024, touch_bytes=512,
                                   burst_beats=4, link_credits=16)
    test = bring_up(devices=1, node=node)
    assert test.run(), "\n".join(test.lines)
    assert test.detail("sums").endswith("bfloat16 96")


@pytest.mark.parametrize("devices, quick", [(1, False), (2, True)])
def test_nodes_that_are_reduced_as_far_as_it_goes(bring_up, devices, quick):
    """No counters, no tiles by address."""
    node = PRESETS["nano"].replace(regions=2 * devices)
    test = bring_up(devices=devices, node=node)
    for _run in range(2):
        test.lines.clear()
        assert test.run(quick=quick), "\n".join(test.lines)
        assert [name for name, outcome in test.outcomes.items() if outcome == "skipped"] == [
            "counters", "overlap"]


# Flaws.

def stuck_bit(address, bit):
    def flaw(kind, at, word):
        return word | 1 << bit if kind == "read" and at == address and word is not None else word
    return flaw


def zero_bit(address):
    """A bit that the first node's pattern has as 0 at an address."""
    word = int.from_bytes(pattern(address, 4), "little")
    return next(bit for bit in range(32) if not word >> bit & 1)


def alias(line):
    """An address line of a memory that is stuck at 0."""
    return lambda board: _aliased(board, line)


def _aliased(board, line):
    read, write = board._read, board._write

    def fold(address):
        return address & ~line if address >= MEMORY_BASE else address

    board._read = lambda address: read(fold(address))
    board._write = lambda address, word: write(fold(address), word)


def no_dma(board):
    for node in board.ring.devices:
        node._dma_step = lambda rng: False


def wrong_row(board):
    """A DMA engine whose last byte of each packet is the background's neighbour."""
    node = board.ring.devices[1]
    send = node._send

    def spoiled(packet):
        if packet.op == "STORE":
            packet.strobe[-1] = False
        return send(packet)

    node._send = spoiled


def overrun(board):
    """A DMA engine that writes beyond its block."""
    node = board.ring.devices[0]
    take = node._take_beat

    def spoiled(packet, address, data, strobe):
        take(packet, address, data, strobe)
        if packet.op == "STORE":
            node.memory.data[address + len(data)] ^= 1

    node._take_beat = spoiled


def fires_twice(board):
    node = board.ring.devices[0]
    plans = node.plans
    trigger = plans._trigger

    def spoiled(number, index):
        trigger(number, index)
        if plans.fires and len(plans.fires) == 1:
            node.status.counts["commands_fired"] += 1
            plans.fires.append(plans.fires[0])

    plans._trigger = spoiled


def counts_strobes_wrong(board):
    plans = board.ring.devices[1].plans
    count = plans.count
    plans.count = lambda tile, address, length: count(tile, address, length + 1)


def forgives_over_count(board):
    status = board.ring.devices[0].status
    error = status.error
    status.error = lambda cause, address, tile: None if cause == "OVER_COUNT" else error(
        cause, address, tile)
    board.ring.devices[0].plans._status = status


def flushes_subnormals(board):
    memory = board.ring.devices[1].memory
    write = memory.write

    def spoiled(request):
        done = write(request)
        if request.op == "UPDATE" and request.dtype == "float16":
            values = memory.data[
                request.address:request.address + len(request.data)].view(np.uint16)
            values[(values & 0x7C00) == 0] &= 0x8000
        return done

    memory.write = spoiled


def miscounts_traffic(board):
    board.ring.devices[0].status.counts = _Miscount()
    board.ring.devices[0].counts = board.ring.devices[0].status.counts


class _Miscount(dict):
    """One byte of updates that come in is not counted, in large runs only."""

    def __missing__(self, key):
        return 0

    def copy(self):
        copied = _Miscount(self)
        if copied["tiles_full"] > 2:
            copied["dma_read_bytes"] += 1
        return copied


@pytest.mark.parametrize("flaw, step, message", [
    (lambda board: board.flaws.append(stuck_bit(register_address("SCRATCH"), 9)), "registers",
     "SCRATCH: expected 1, found 0x201"),
    (lambda board: board.flaws.append(stuck_bit(memory_address(1, (1 << 15) - 128 + 68), 3)),
     "memory", "node 1, march .*, address 0x7fc4: expected 0x.*, found 0x.*; 1 of 16 differ"),
    (lambda board: board.flaws.append(stuck_bit(memory_address(0, 0x404), zero_bit(0x404))),
     "memory", "node 0, address 0x404: expected"),
    (alias(1 << 12), "memory", "node 0, address 0x0: expected"),
    (alias(1 << 26), "memory", "node 0, .*address 0x0: expected"),
    (counts_strobes_wrong, "tracker", "node 1, .*tile 0.*: expected .*, found "),
    (forgives_over_count, "tracker",
     r"node 0, errors after a store too many: expected \('OVER_COUNT',\), found \(\)"),
    (no_dma, "trigger and DMA", "node 0: its command has not happened after 5... cycles"),
    (wrong_row, "trigger and DMA", "node 0: INCOMING_STORE_BYTES of 64 has not happened"),
    (overrun, "trigger and DMA", "node 0, block from node 1 and its surroundings, address 0xd0"),
    (fires_twice, "trigger and DMA", "2 commands done of 1|commands done: expected 1, found 2"),
    (flushes_subnormals, "sums",
     r"node 1, float16 by stores, 0x.... \+ 0x...., address .*: expected 0x.*, found 0x[08]000"),
    (miscounts_traffic, "counters",
     "node 0, bfloat16, produced by the host, DMA_READ_BYTES: expected 0x.*, found 0x.*")])
def test_each_flaw_fails_its_step_and_what_needs_it_is_skipped(bring_up, monkeypatch, flaw, step,
                                                               message):
    # Long enough here, where nothing takes long.
    monkeypatch.setattr(Bench, "patience", 5_000)
    node = PRESETS["tiny"].replace(dtypes=["bfloat16", "float16"])
    test = bring_up(devices=2 if step != "counters" else 3, node=node, traffic=True)
    flaw(test.board.board)
    assert not test.run(), "\n".join(test.lines)
    outcomes = test.outcomes
    assert [name for name in NAMES if outcomes[name] == "failed"] == [step], "\n".join(test.lines)
    assert re.search(message, test.detail(step)), test.detail(step)
    needs = {one.name: one.needs for one in STEPS}
    for name in NAMES[1:]:
        bad = [need for need in needs[name] if outcomes[need] != "ok"]
        if test.detail(name).startswith("the step before left the board in disorder"):
            # A DMA engine that takes no command keeps the plan from being cleared.
            assert flaw is no_dma and NAMES.index(name) > NAMES.index(step)
            continue
        assert (outcomes[name] == "skipped") == bool(bad), name
        if bad:
            assert test.detail(name) == f"needs {bad[0]}"
    assert test.lines[-1].endswith(f"FAILED: {step}")


def test_a_reduce_scatter_with_one_wrong_bit_is_found(bring_up):
    test = bring_up(devices=2)
    node = test.board.board.ring.devices[1]
    write = node.memory.write

    def spoiled(request):
        done = write(request)
        if request.touch is not None and request.source == "LINK":
            node.memory.data[request.address] ^= 1
        return done

    node.memory.write = spoiled
    assert not test.run()
    assert test.outcomes["reduce-scatter"] == "failed"
    assert "node 1, reduce-scatter of int32, produced by the host, address 0x" in \
        test.detail("reduce-scatter")


def test_overlap_saves_what_the_link_takes_and_is_a_failure_where_it_saves_nothing(bring_up):
    test = bring_up(devices=3, traffic=True)
    assert test.run(only=["overlap"]), "\n".join(test.lines)
    assert 15 <= int(test.detail("overlap").split()[-1].rstrip("%")) <= 35
    test.board.board.ring.link_takes_time = False
    test.lines.clear()
    assert not test.run(only=["overlap"]), "\n".join(test.lines)
    assert test.outcomes == {IDENTITY: "ok", "overlap": "failed"}
    assert "overlap saves nothing" in test.detail("overlap")


def test_the_wrong_board_is_not_touched(bring_up):
    test = bring_up(devices=2)
    writes = []
    test.board.board.flaws.append(
        lambda kind, at, word: writes.append(at) or word if kind == "write" else word)
    assert not test.run(design=design(hash=1))
    assert test.outcomes[IDENTITY] == "failed"
    assert set(test.outcomes.values()) == {"failed", "skipped"}
    assert "another bitstream" in test.detail(IDENTITY)
    assert not writes


def test_a_cable_that_is_pulled_ends_the_test_with_a_reason(bring_up):
    test = bring_up(devices=2)
    test.board.drop_after = 20_000
    assert not test.run()
    outcomes = list(test.outcomes.values())
    failed = outcomes.index("failed")
    assert outcomes == ["ok"] * failed + ["failed"] + ["skipped"] * (len(outcomes) - failed - 1)
    assert 0 < failed
    assert "unplugged" in test.detail(NAMES[failed])
    assert "the link has failed" in test.detail(NAMES[-1])
    # Plugged in again.
    with PtyBoard(test.board.board, silence=SILENCE) as board:
        again = Bringup(board)
        assert again.run(), "\n".join(again.lines)


def test_a_board_that_was_left_in_the_middle_of_a_run(bring_up):
    """Plans that are armed, regions, a held command: the test takes the board over."""
    test = bring_up(devices=2)
    node = test.board.board.ring.devices[0]
    node.write32(node_register("CONTROL"), 1 << 8)
    node.write32(node_register("IRQ_ENABLE"), ONES)
    node.status.error("HOLD_TIMEOUT", 4, None)
    from t3hw.runtime.device import Device
    from t3hw.runtime.plan import ring_reduce_scatter
    device = Device(node)
    device.program(ring_reduce_scatter(m=4, n=8, dtype="int32", devices=2, tile=(1, 8),
                                       config=device.config).device_plans[0])
    device.arm()
    assert test.run(), "\n".join(test.lines)


def test_only_some_steps(bring_up):
    test = bring_up(devices=2)
    assert test.run(only=["tracker", "sums"])
    assert list(test.outcomes) == [IDENTITY, "tracker", "sums"]
    with pytest.raises(
            DeviceError, match="no step 'trackers'; steps are identity, registers, memory"):
        test.run(only=["trackers"])


def test_steps_come_one_by_one(bring_up):
    test = bring_up(devices=2)
    with SerialLink(test.board.port, baud=1_000_000, silence=SILENCE) as link:
        steps = selftest(link, quick=True)
        assert next(steps).name == IDENTITY
        assert next(steps).name == "registers"
        steps.close()


# Data.

def test_comparisons_name_the_first_difference():
    compare("node 0", 64, bytes(8), bytes(8))
    with pytest.raises(
            StepFailed, match="node 0, address 0x42: expected 0x0201, found 0x0200; 1 of 4"):
        compare("node 0", 64, bytes([0, 0, 0, 2, 0, 0, 0, 0]), bytes([0, 0, 1, 2, 0, 0, 0, 0]), 2)


def test_patterns_differ_by_address_and_key():
    words = np.concatenate([np.frombuffer(pattern(0, 1 << 16, key), np.uint32) for key in range(4)])
    assert len(np.unique(words)) > words.size - 8
    assert pattern(256, 64, 1) == pattern(0, 512, 1)[256:320]
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert 0.48 < ones < 0.52


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("quick", [False, True])
def test_vectors_reach_the_corners_of_an_adder(dtype, quick):
    a, b = vector_pairs(dtype, np.random.default_rng(1), quick=quick)
    assert a.size == b.size and a.size % 32 == 0
    kind = NUMPY_DTYPES[dtype]
    a, b = a.view(kind), b.view(kind)
    assert a.nbytes == a.size * kind.itemsize
    total = add(a, b, dtype)
    if dtype == "int32":
        assert ((a < 0) == (b < 0)).any() and ((total < 0) != (a < 0))[(a < 0) == (b < 0)].any()
        return
    with np.errstate(all="ignore"):
        wide = [values.astype(np.float64) for values in (a, b, total)]
        finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
        exact = wide[0] + wide[1]
        tiny = float(np.finfo(np.float32).tiny) if dtype != "float16" else 2.0**-14
        least = {
            "NaN of infinities": np.isnan(wide[2]) & np.isinf(wide[0]) & np.isinf(wide[1]),
            "NaN operands": np.isnan(wide[0]) ^ np.isnan(wide[1]),
            "overflow": finite & np.isinf(wide[2]),
            "subnormal result": finite & (wide[2] != 0) & (np.abs(wide[2]) < tiny),
            "minus zero": (wide[2] == 0) & np.signbit(wide[2]),
            "cancelled": finite & (wide[0] != 0) & (wide[2] == 0),
            "rounded up": finite & np.isfinite(wide[2]) & (np.abs(wide[2]) > np.abs(exact)),
            "rounded down": finite & (np.abs(wide[2]) < np.abs(exact))}
    for what, cases in least.items():
        assert cases.any(), what
