"""The serial link against a board in Python at a pseudo-terminal, in good and in bad weather."""

import errno
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from board_model import BoardModel, Bridge, PtyBoard, design
from t3hw.registers import register_address as node_register
from t3hw.registers.board import (MAGIC, MEMORY_BASE, encode_register, node_address,
                                  register_address)
from t3hw.runtime import serial_link
from t3hw.runtime.serial_link import LinkError, SerialLink
from t3hw.runtime.transport import BusError

#: The bridge's time-out, and the one for answers, in seconds.
SILENCE, TIMEOUT = 0.03, 0.4
SCRATCH = register_address("SCRATCH")
UNMAPPED = register_address("LEDS") + 0x100


@pytest.fixture
def pty_board():
    with PtyBoard(silence=SILENCE) as board:
        yield board


@pytest.fixture
def link(pty_board):
    with connect(pty_board) as link:
        yield link


def connect(board, **options):
    return SerialLink(board.port, **{"baud": 1_000_000, "timeout": TIMEOUT, "silence": SILENCE}
                      | options)


def works(link):
    """Whether words go there and back."""
    for word in (0x01020304, 0xFFFFFFFF, 0):
        link.write32(SCRATCH, word)
        if link.read32(SCRATCH) != word:
            return False
    return link.read32(register_address("MAGIC")) == MAGIC


class Spoiler:
    """Flips a bit of the byte at a place in a stream, counted from when it was made."""

    def __init__(self, place, before=0, times=1):
        self.places = {before + place + 7 * time for time in range(times)}

    def __call__(self, data, before):
        return bytes(byte ^ (0x10 if before + index in self.places else 0)
                     for index, byte in enumerate(data))


# Good weather.

def test_words_go_there_and_back(link):
    assert works(link)
    assert not link.read32(register_address("LINE_ERRORS"))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 254, 255, 256, 511, 5000])
def test_blocks_of_any_length(link, pty_board, count):
    words = [random.Random(count).getrandbits(32) for _ in range(count)]
    link.write_block(MEMORY_BASE, words)
    assert link.read_block(MEMORY_BASE, count) == words
    memory = pty_board.board.ring.devices[0].read_memory(0, 4 * count + 4)
    # Little-endian in memory, and nothing behind.
    assert memory == b"".join(word.to_bytes(4, "little") for word in words) + bytes(4)


def test_words_anywhere_are_written_in_order(link, pty_board):
    log = []
    pty_board.board.flaws.append(
        lambda kind, address, word: log.append((kind, address, word)) or word)
    rng = random.Random(1)
    writes = []
    for _ in range(40):
        address = MEMORY_BASE + 4 * rng.randrange(2000)
        writes += [(address + 4 * index, rng.getrandbits(32)) for index in range(rng.randint(1, 5))]
    link.write_words(iter(writes))
    assert [(address, word) for kind, address, word in log if kind == "write"] == writes


def test_two_hundred_reads_without_waiting_come_in_order(link):
    rng = random.Random(2)
    words = [rng.getrandbits(32) for _ in range(200)]
    link.write_block(MEMORY_BASE, words)
    addresses = [MEMORY_BASE + 4 * index for index in range(200)]
    assert link.read_many(addresses) == [[word] for word in words]
    assert link.read_many(addresses[:50], 3) == [words[index:index + 3] for index in range(50)]


def test_what_waits_in_the_bridge_is_bounded(monkeypatch):
    """Commands that the host has sent before an answer came never need more room than there is."""
    sent, most = 0, 0
    with PtyBoard(silence=SILENCE) as board, connect(board) as link:
        receive, send = link._receive, link._send

        def count_sent(data):
            nonlocal sent, most
            sent += len(data)
            most = max(most, sent)
            send(data)

        def count_received(count):
            nonlocal sent
            data = receive(count)
            sent = max(0, sent - 6)
            return data

        monkeypatch.setattr(link, "_send", count_sent)
        monkeypatch.setattr(link, "_receive", count_received)
        link.read_many([SCRATCH] * 1000)
        assert 256 <= most <= 512


def test_reads_and_writes_mixed_keep_their_order(link):
    read = (SCRATCH, None)
    assert link.mixed([read, (SCRATCH, 5), (SCRATCH, 6), read, (SCRATCH, 7), read]) == [0, 6, 7]


# Refusals.

def test_a_refused_read_is_an_error_with_its_address(link):
    with pytest.raises(BusError, match=f"read at {UNMAPPED:#07x}") as caught:
        link.read32(UNMAPPED)
    assert caught.value.address == UNMAPPED and caught.value.kind == "read"
    assert works(link)


def test_a_refused_write_is_an_error_with_its_address(link):
    with pytest.raises(BusError, match="write at") as caught:
        link.write32(register_address("MAGIC"), 1)
    assert caught.value.address == register_address("MAGIC")
    assert works(link)


def test_of_several_refused_accesses_the_first_is_named_and_the_rest_takes_effect(link):
    base = register_address("LEDS")
    with pytest.raises(BusError) as caught:
        link.write_words([(SCRATCH, 1), (base + 0x20, 2), (base + 0x10, 3), (SCRATCH, 4)])
    assert caught.value.address == base + 0x20
    assert link.read32(SCRATCH) == 4
    with pytest.raises(BusError) as caught:
        link.read_block(base, 40)
    assert caught.value.address == base + 4
    with pytest.raises(BusError) as caught:
        link.read_many([SCRATCH, base + 12, SCRATCH])
    assert caught.value.address == base + 12
    assert works(link)


def test_a_word_of_ones_is_no_refusal(link):
    link.write_block(MEMORY_BASE, [0xFFFFFFFF] * 6)
    assert link.read_block(MEMORY_BASE, 2) == [0xFFFFFFFF] * 2
    assert link.read_block(MEMORY_BASE, 6) == [0xFFFFFFFF] * 6


def test_refusals_of_another_program_are_not_ours(pty_board):
    with connect(pty_board) as link:
        link._exchange([serial_link._read_command(UNMAPPED, 1)])
    with connect(pty_board) as link:
        link.write32(SCRATCH, 3)
        link.write_block(MEMORY_BASE, range(20))


# Bad weather.

@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("retry", [False, True])
def test_a_block_that_was_damaged_is_sent_again_where_that_does_no_harm(direction, retry):
    words = [random.Random(3).getrandbits(32) for _ in range(600)]
    with PtyBoard(silence=SILENCE) as board, connect(board) as link:
        link.write_block(MEMORY_BASE, words)
        # A byte within the data.
        if direction == "in":
            board.spoil_in = Spoiler(20 + 6 + 1000, board.came)
        else:
            board.spoil_out = Spoiler(1000, board.went)
        write = direction == "in"

        def transfer():
            if write:
                link.write_block(MEMORY_BASE, words, retry=retry)
            return link.read_block(MEMORY_BASE, 600, retry=retry)

        if retry:
            assert transfer() == words
        else:
            with pytest.raises(LinkError, match="600 words .* damaged: checksum 0x.*, .*0x"):
                transfer()
        assert works(link)


def test_a_line_that_damages_every_block_is_an_error():
    with PtyBoard(silence=SILENCE) as board, connect(board) as link:
        board.spoil_out = lambda data, before: data[:40] + bytes(
            byte ^ 1 for byte in data[40:44]) + data[44:]
        with pytest.raises(LinkError, match="600 words from 0x80000000 came damaged"):
            link.read_block(MEMORY_BASE, 600, retry=True)
        board.spoil_out = lambda data, before: data
        assert works(link)


@pytest.mark.parametrize("place", range(16))
def test_a_damaged_byte_anywhere_in_a_command_ends_in_an_error_and_then_all_is_well(place):
    """Of a write and its check: whatever the byte was, the link is in step again
    after the error."""
    with PtyBoard(silence=SILENCE) as board, connect(board) as link:
        link.write32(SCRATCH, 1)
        board.spoil_in = Spoiler(place, board.came)
        try:
            link.write32(SCRATCH, 2)
            # An answer that is too long may be seen only when something is asked again.
            link.read32(SCRATCH)
        except (LinkError, BusError):
            pass
        else:
            # In a word or an address: one word has no checksum of its own.
            assert 2 <= place < 10
        board.spoil_in = lambda data, before: data
        assert works(link)


@pytest.mark.parametrize("count", range(1, 21))
def test_garbage_before_the_host_comes(pty_board, count):
    """1 to 20 bytes of anything have come to the bridge; then all is well."""
    rng = random.Random(count)
    pty_board.bridge.feed(rng.randbytes(count))
    with connect(pty_board) as link:
        assert works(link)


@pytest.mark.parametrize("sent", [b"\x02", b"\x01\xff", b"\x01\x04\x20\x00\x00\x00\x11\x22",
                                  b"\x02\x00", b"\x02\x00\x03\xc0\x00\x00",
                                  b"\x01\x00\x03\xc0\x00\x00"])
def test_half_commands_and_empty_ones_of_a_program_that_died(pty_board, sent):
    file = os.open(pty_board.port, os.O_RDWR | os.O_NOCTTY)
    os.write(file, sent)
    os.close(file)
    with connect(pty_board) as link:
        assert works(link)


def test_answers_that_nobody_waits_for_any_more(pty_board):
    file = os.open(pty_board.port, os.O_RDWR | os.O_NOCTTY)
    os.write(file, b"\x02\xff\x20\x00\x00\x00" * 3)
    os.close(file)
    with connect(pty_board) as link:
        assert works(link)


def test_bytes_that_nobody_asked_for_are_reported_once(pty_board, link):
    os.write(pty_board._master, b"\x99\x98")
    deadline = time.monotonic() + 5
    while not link._serial.in_waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(LinkError, match="nobody asked for: 99 98; what was read last may be wrong"):
        link.read32(SCRATCH)
    assert works(link)


def test_an_interrupted_transfer_does_not_spoil_the_next_one(pty_board, link, monkeypatch):
    receive = link._receive

    def interrupted(count):
        monkeypatch.setattr(link, "_receive", receive)
        raise KeyboardInterrupt

    monkeypatch.setattr(link, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        link.read_block(MEMORY_BASE, 300)
    assert works(link)


def test_an_answer_that_does_not_come(pty_board, link):
    pty_board.spoil_out = lambda data, before: data[:1]
    start = time.monotonic()
    with pytest.raises(LinkError):
        link.read32(SCRATCH)
    assert time.monotonic() - start < 20 * TIMEOUT
    pty_board.spoil_out = lambda data, before: data
    # It is the board that was silent, so the same link goes on.
    link.resynchronise()
    assert works(link)


def test_half_an_answer_is_quoted(pty_board, link, monkeypatch):
    pty_board.spoil_out = lambda data, before: data[:3]
    monkeypatch.setattr(link, "resynchronise", lambda: None)
    link.write32 = None
    with pytest.raises(LinkError, match="does not answer: 3 of 4 bytes came within .* s, 54 33 42"):
        link.read32(register_address("MAGIC"))


def test_nobody_answers(pty_board):
    pty_board.spoil_in = lambda data, before: b""
    with pytest.raises(LinkError, match="nobody answers, 3 times .*is its speed 1000000 baud"):
        connect(pty_board, timeout=0.1)
    pty_board.spoil_in = lambda data, before: data
    with connect(pty_board) as link:
        assert works(link)


def test_somebody_else_answers(pty_board):
    pty_board.spoil_in = lambda data, before: b""
    pty_board.spoil_out = lambda data, before: b"login: please"
    with pytest.raises(LinkError, match=f"no t3hw board.*{MAGIC:#010x}, it says 6c 6f 67 69"):
        connect(pty_board)


def test_somebody_who_does_not_stop(pty_board):
    stop = threading.Event()

    def chatter():
        while not stop.is_set():
            os.write(pty_board._master, b"?" * 50)
            time.sleep(0.002)

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        with pytest.raises(LinkError, match="does not stop sending; last came 3f 3f"):
            connect(pty_board)
    finally:
        stop.set()
        thread.join()
    with connect(pty_board) as link:
        assert works(link)


@pytest.mark.parametrize("after", [1, 7, 100, 1500, 9000])
def test_the_cable_is_pulled_in_the_middle(after):
    with PtyBoard(silence=SILENCE) as board, connect(board) as link:
        board.drop_after = board.came + after
        with pytest.raises(LinkError, match="the port failed, as if it was unplugged") as caught:
            for _ in range(50):
                link.write_block(MEMORY_BASE, range(700))
                link.read_block(MEMORY_BASE, 700)
        assert caught.value.filename == board.port
        with pytest.raises(LinkError, match="the link is closed: open the port again"):
            link.read32(SCRATCH)
    # The next run is on another terminal, as a board that is plugged in again may be.
    with PtyBoard(board.board, silence=SILENCE) as board, connect(board) as link:
        assert works(link)


def test_a_closed_link_can_be_closed_and_says_so(link):
    link.close()
    link.close()
    with pytest.raises(LinkError, match="is closed"):
        link.write32(SCRATCH, 1)


# Ports.

def test_a_port_that_is_not_there(tmp_path):
    with pytest.raises(LinkError, match="no such port.*plugged in") as caught:
        SerialLink(tmp_path / "ttyUSB0", baud=115200)
    assert str(caught.value).startswith(str(tmp_path / "ttyUSB0") + ": ")
    # What the command line shows of any OSError.
    assert caught.value.filename == str(tmp_path / "ttyUSB0")
    assert caught.value.strerror.startswith("there is no such port")


def test_a_port_that_is_busy(pty_board, link):
    with pytest.raises(LinkError, match="the port is busy: another program"):
        connect(pty_board)
    # Who has it is not disturbed.
    assert works(link)
    link.close()
    with connect(pty_board) as next_link:
        assert works(next_link)


def test_a_port_that_another_process_has(pty_board):
    code = ("import sys; from t3hw.runtime.serial_link import SerialLink\n"
            f"link = SerialLink({pty_board.port!r}, baud=1000000, silence={SILENCE})\n"
            "print('open', flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(LinkError, match="busy"):
            connect(pty_board)
        # It dies: the port is free, and the board answers.
        process.kill()
        process.wait(10)
    with connect(pty_board) as link:
        assert works(link)


@pytest.mark.parametrize("kind", ["file", "folder", "null"])
def test_what_is_no_port(tmp_path, kind):
    path = tmp_path / "thing"
    if kind == "file":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    else:
        path = "/dev/null"
    with pytest.raises(LinkError, match="this is no serial port"):
        SerialLink(path, baud=115200)


def test_no_permission_names_the_group(tmp_path):
    error = PermissionError(errno.EACCES, "could not open port")
    path = tmp_path / "port"
    path.write_bytes(b"")
    text = serial_link._why_not(str(path), 115200, error)
    assert "no permission: the port is for the group " in text and "usermod -aG" in text


def test_without_pyserial_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(LinkError, match=r"needs pyserial: pip install 't3hw\[fpga\]'"):
        SerialLink("/dev/ttyUSB0", baud=115200)


@pytest.mark.parametrize("address", [2, -4, 1 << 32])
def test_addresses_that_are_none(link, address):
    with pytest.raises(ValueError, match="multiple of 4 of 32 bits"):
        link.read32(address)
    assert works(link)


def test_a_node_behind_the_link_is_found_at_its_window(pty_board, link):
    for node in range(2):
        found = link.read32(node_address(node, node_register("CONFIG_HASH")))
        assert found == encode_register("CONFIG_HASH", hash=design().node.hash)


# The model, which the tests above rest on.

def test_the_model_bridge_by_bytes():
    """The protocol as LiteX's uartbone speaks it, byte for byte."""
    bridge = Bridge(BoardModel())
    word_address = (SCRATCH // 4).to_bytes(4, "big")
    assert bridge.feed(b"\x01\x01" + word_address + b"\x12\x34\x56\x78") == b""
    assert bridge.feed(b"\x02\x01" + word_address) == b"\x12\x34\x56\x78"
    assert bridge.feed(b"\x04\x03" + word_address) == b"\x12\x34\x56\x78" * 3
    assert bridge.feed(b"\x03\x02" + word_address + b"\x00\x00\x00\x01\x00\x00\x00\x02") == b""
    assert bridge.feed(
        b"\x02\x00" + word_address + b"\x02\x01" + word_address) == b"\x00\x00\x00\x02"
