"""A board behind a link: what it is refused for, its nodes' registers and memories, its time."""

import types

import pytest

from board_model import ONES, BoardModel, PtyBoard, design
from rings import random_gemm, same_bits
from t3hw.config import PRESETS
from t3hw.registers import entry_address
from t3hw.registers import register_address as node_register
from t3hw.registers.board import (MAGIC, encode_register, memory_address, node_address,
                                  register_address)
from t3hw.runtime.board import BoardError, BoardLink
from t3hw.runtime.device import Device, DeviceError
from t3hw.runtime.plan import ring_reduce_scatter
from t3hw.runtime.serial_link import LinkError, SerialLink
from t3hw.runtime.traffic import TrafficEngines
from t3hw.runtime.transport import BusError

SILENCE = 0.03


@pytest.fixture
def model():
    return BoardModel()


@pytest.fixture
def link(model):
    with PtyBoard(model, silence=SILENCE) as board, SerialLink(
            board.port, baud=1_000_000, timeout=1, silence=SILENCE) as link:
        yield link


def answer(address, word):
    """A flaw: what is read at an address."""
    return lambda kind, at, found: word if kind == "read" and at == address else found


def refuse(low, high):
    """A flaw: nothing in a range answers."""
    def flaw(kind, at, word):
        if low <= at < high:
            raise BusError(kind, at)
        return word
    return flaw


# Identity.

def test_a_board_says_what_it_is(link, model):
    board = BoardLink(link, design=model.design)
    identity = board.identity
    assert identity.devices == len(board.devices) == len(board.memories) == 2
    assert identity.board_hash == model.design.hash
    assert identity.config_hash == PRESETS["tiny"].hash
    assert (identity.memory, identity.memory_bytes) == ("block-ram", 1 << 15)
    assert not identity.traffic
    assert board.clock_hz == 1_000_000
    assert Device(board.devices[1]).config is PRESETS["tiny"]


@pytest.mark.parametrize("word", [0, ONES, 0x12345678])
def test_no_t3hw_board(link, model, word):
    # The link found one; then it is programmed with something else.
    model.flaws.append(answer(register_address("MAGIC"), word))
    with pytest.raises(BoardError, match=f"no t3hw board.*{word:#010x}, not {MAGIC:#010x}"
                       if word != ONES else "registers do not answer|no t3hw board"):
        BoardLink(link)


def test_another_version(link, model):
    model.flaws.append(answer(register_address("MAP_HASH"), 0xABCD))
    with pytest.raises(BoardError, match="another version.*0x0000abcd.*build it anew"):
        BoardLink(link)


def test_the_wrong_bitstream_names_both_hashes_and_what_to_do(link, model):
    wanted = design(hash=0x0BADCAFE, name="ulx3s-85f")
    with pytest.raises(BoardError, match="hash is 0x12345678, that of ulx3s-85f is 0x0badcafe; "
                                         "program it .t3hw fpga program ulx3s-85f"):
        BoardLink(link, design=wanted)
    # Without a design any board will do, and the link is as good as before.
    assert BoardLink(link).identity.board_hash == 0x12345678


@pytest.mark.parametrize("devices", [0])
def test_a_board_without_nodes(link, model, devices):
    model.flaws.append(answer(register_address("DEVICES"),
                              encode_register("DEVICES", devices=devices)))
    with pytest.raises(BoardError, match="it has 0 nodes"):
        BoardLink(link)


@pytest.mark.parametrize("flaw, found", [
    (answer(node_address(1, node_register("PRODUCT_ID")), 0), "PRODUCT_ID is 0x00000000"),
    (refuse(node_address(1), node_address(2)), "PRODUCT_ID is no answer"),
    (answer(node_address(1, node_register("CONFIG_HASH")), 7), "CONFIG_HASH is 0x00000007")])
def test_a_half_programmed_board(link, model, flaw, found):
    model.flaws.append(flaw)
    with pytest.raises(
            BoardError, match=f"node 1 of 2 is not what.*{found}.*program the board again"):
        BoardLink(link)
    model.flaws.clear()
    BoardLink(link)


# Registers of nodes.

def test_registers_of_a_node_are_in_its_window(link, model):
    board = BoardLink(link)
    devices = [Device(transport) for transport in board.devices]
    devices[1].set_hold_timeout(99)
    assert model.ring.devices[1].registers.field("HOLD_TIMEOUT", "cycles") == 99
    assert model.ring.devices[0].registers.field("HOLD_TIMEOUT", "cycles") == 0
    assert devices[1].read("HOLD_TIMEOUT") == {"cycles": 99}
    assert devices[1].counters()["cycles"] > 0


def test_refused_registers_have_the_nodes_own_address(link):
    board = BoardLink(link)
    for node, transport in enumerate(board.devices):
        with pytest.raises(BusError) as caught:
            transport.read32(0xFFFFC)
        assert caught.value.address == 0xFFFFC, node
        with pytest.raises(BusError) as caught:
            transport.write_words([(entry_address("TILE", 0), 1),
                                   (entry_address("TILE", 5000), 1)])
        assert caught.value.address == entry_address("TILE", 5000)
        assert caught.value.kind == "write"


def test_an_address_beyond_a_node_does_not_reach_the_next_one(link):
    board = BoardLink(link)
    with pytest.raises(ValueError, match="0x100040"):
        board.devices[0].write32(0x100040, 1)


def test_a_node_without_engines_is_told_from_a_link_that_failed(link, monkeypatch):
    board = BoardLink(link)
    with pytest.raises(DeviceError, match="no traffic engines"):
        TrafficEngines(board.devices[0])
    link.close()
    with pytest.raises(LinkError, match="is closed"):
        TrafficEngines(board.devices[0])


# Memories.

def test_memory_at_any_address_and_of_any_length(link, model):
    memory = BoardLink(link).memories[1]
    for node in model.ring.devices:
        node.write_memory(0, bytes(range(256)) * 4)
    expected = bytearray(range(256)) * 4
    for address, length in ((0, 4), (1, 1), (2, 3), (3, 6), (5, 0), (7, 250), (1, 1020), (8, 4)):
        assert memory.read_memory(address, length) == expected[address:address + length]
        data = bytes((address + 7 * index) & 0xFF for index in range(length))
        memory.write_memory(address, data)
        expected[address:address + length] = data
        assert model.ring.devices[1].read_memory(0, 1024) == expected
    assert model.ring.devices[0].read_memory(0, 1024) == bytes(range(256)) * 4


@pytest.mark.parametrize("address, length", [(-4, 4), (1 << 15, 4), ((1 << 15) - 4, 8)])
def test_memory_beyond_its_ends_is_refused(link, address, length):
    memory = BoardLink(link).memories[0]
    for access in (lambda: memory.read_memory(address, length),
                   lambda: memory.write_memory(address, bytes(length)),
                   lambda: memory.store(address, bytes(length))):
        with pytest.raises(BusError, match="memory"):
            access()


def test_a_store_that_the_node_refuses_has_the_memorys_own_address(link, model):
    memory = BoardLink(link).memories[1]
    model.flaws.append(refuse(memory_address(1, 0x40), memory_address(1, 0x80)))
    with pytest.raises(BusError, match="memory write") as caught:
        memory.store(0x20, bytes(64))
    assert caught.value.address == 0x40


def test_stores_are_whole_words(link):
    memory = BoardLink(link).memories[0]
    for address, length in ((2, 4), (0, 3)):
        with pytest.raises(ValueError, match="whole words"):
            memory.store(address, bytes(length))


def test_stores_are_not_sent_again(model):
    """A damaged block of plain memory is; a producer's stores would count twice."""
    with PtyBoard(model, silence=SILENCE) as board, SerialLink(
            board.port, baud=1_000_000, timeout=1, silence=SILENCE) as link:
        memory = BoardLink(link).memories[0]
        stores = []
        model.flaws.append(lambda kind, at, word: stores.append(at) or word
                           if kind == "write" and at >= memory_address(0) else word)
        for call, times in ((memory.write_memory, 2), (memory.store, 1)):
            place = board.came + 200
            board.spoil_in = lambda data, before, place=place: bytes(
                byte ^ (before + index == place) for index, byte in enumerate(data))
            stores.clear()
            if times == 1:
                with pytest.raises(LinkError, match="100 words .* damaged"):
                    call(0, bytes(400))
            else:
                call(0, bytes(400))
            assert stores == [memory_address(0, 4 * index) for index in range(100)] * times


# Time.

def test_time_has_64_bits(link, model):
    board = BoardLink(link)
    model.ring.cycles = (5 << 32) + 0xFFFFFFFF - 20
    first, second = board.cycles(), board.cycles()
    assert 5 << 32 < first < second < (6 << 32) + 1000
    assert second > 6 << 32


def test_an_interrupt_is_waited_for_in_the_boards_time(link, model):
    board = BoardLink(link)
    device = Device(board.devices[1])
    start = board.cycles()
    assert not board.devices[1].wait_interrupt(500)
    assert 500 <= board.cycles() - start < 5000
    device.write("IRQ_ENABLE", error=1)
    model.ring.devices[1].status.error("HOLD_TIMEOUT", 0, None)
    assert board.devices[1].wait_interrupt(500)
    assert not board.devices[0].wait_interrupt(10)
    sample = board.wait_interrupts(0b10, 500)
    assert sample.interrupts == 0b10
    assert board.wait_interrupts(0b11, 500) is None


def test_a_clock_that_stands_still_does_not_hang_the_host(link, model):
    board = BoardLink(link, guard=0.2)
    model.clock_runs = False
    for wait in (lambda: board.devices[0].wait_interrupt(10**9),
                 lambda: board.wait_interrupts(1, 10**9)):
        with pytest.raises(LinkError, match="the board's clock stands still: CYCLES stays at"):
            wait()


def test_writes_and_the_time_they_took_effect(link, model):
    board = BoardLink(link)
    before, after = board.write_between((node, node_register("HOLD_TIMEOUT"), 5 + node)
                                        for node in range(2))
    assert before.cycles < after.cycles <= model.ring.cycles
    assert [node.registers.field("HOLD_TIMEOUT", "cycles") for node in model.ring.devices] == [5, 6]


# All of it.

def test_a_reduce_scatter_by_the_same_driver_as_everywhere(link, model):
    board = BoardLink(link)
    config = model.design.node
    plan = ring_reduce_scatter(m=8, n=8, dtype="float32", devices=2, tile=(2, 8),
                               tile_ids="address", config=config)
    gemm = random_gemm(m=8, n=8, k=5, dtype="float32", devices=2, seed=4)
    devices = [Device(transport, config=config) for transport in board.devices]
    for device, device_plan in zip(devices, plan.device_plans):
        device.reset()
        device.program(device_plan)
    for device in devices:
        device.arm()
    for index, memory in enumerate(board.memories):
        memory.store(0, gemm.partials[index].tobytes())
    for device in devices:
        device.wait()
        assert not device.errors()
    for index, wanted in enumerate(gemm.reduced(plan)):
        assert same_bits(plan.read_chunk(index, board.memories[index].read_memory), wanted)


def test_any_link_with_these_methods_will_do(model):
    """A board's bus that is mapped, for example."""
    class Direct:
        def read_block(self, address, count, **_):
            return [model.read(address + 4 * index) for index in range(count)]

        def write_words(self, writes):
            for address, word in writes:
                model.write(address, word)

    board = BoardLink(Direct(), design=types.SimpleNamespace(**vars(model.design)))
    assert Device(board.devices[0]).config is PRESETS["tiny"]
