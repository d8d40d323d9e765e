"""The mapped transport, on files."""

import mmap
import multiprocessing
import os
import threading
import time

import pytest

from t3hw.config import PRESETS
from t3hw.registers import capabilities, register_address
from t3hw.registers.traffic import register_address as traffic_address
from t3hw.runtime import mapped
from t3hw.runtime.device import Device, DeviceError
from t3hw.runtime.mapped import MappedTransport

CONFIG = PRESETS["small"]
PAGE = mmap.ALLOCATIONGRANULARITY
STATUS, ENABLE = register_address("IRQ_STATUS"), register_address("IRQ_ENABLE")


class FileNode:
    """A file that reads as a node's registers do, mapped on its own account."""

    def __init__(self, path, *, offset=0, size=mapped.NODE_BYTES):
        path.write_bytes(bytes(offset + size))
        self.path = path
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), size, offset=offset)
        for name, word in capabilities(CONFIG).items():
            self.put(register_address(name), word)

    def put(self, address, word):
        self.bytes[address:address + 4] = word.to_bytes(4, "little")

    def get(self, address):
        return int.from_bytes(self.bytes[address:address + 4], "little")


@pytest.fixture
def node(tmp_path):
    return FileNode(tmp_path / "resource0")


def test_a_driver_finds_the_node_behind_a_file(node):
    with MappedTransport(node.path) as transport:
        device = Device(transport)
        assert device.config is CONFIG
        device.set_hold_timeout(0x12345)
        assert node.get(register_address("HOLD_TIMEOUT")) == 0x12345
        node.put(register_address("HOLD_TIMEOUT"), 77)
        assert device.read("HOLD_TIMEOUT") == {"cycles": 77}


def test_words_go_where_they_belong_and_nowhere_else(node):
    with MappedTransport(node.path) as transport:
        before = bytearray(node.bytes)
        transport.write_block(0x41000, [0x11223344, 0xFFFFFFFF, 0])
        before[0x41000:0x4100C] = bytes.fromhex("44332211ffffffff00000000")
        assert node.bytes[:] == before
        assert transport.read_block(0x41000, 3) == [0x11223344, 0xFFFFFFFF, 0]
        transport.write32(0xFFFFC, 9)
        assert node.get(0xFFFFC) == transport.read32(0xFFFFC) == 9


def test_a_node_may_begin_within_the_file(tmp_path):
    node = FileNode(tmp_path / "bar", offset=3 * PAGE)
    with MappedTransport(node.path, offset=3 * PAGE) as transport:
        assert Device(transport).config is CONFIG


def flip(path, stop):
    """Another process that writes all bits of a word at once."""
    with MappedTransport(path, size=PAGE) as transport:
        while not stop.is_set():
            for _ in range(1000):
                transport.write32(64, 0)
                transport.write32(64, 0xFFFFFFFF)


def test_no_access_is_torn(tmp_path):
    path = tmp_path / "words"
    path.write_bytes(bytes(PAGE))
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writer = context.Process(target=flip, args=(path, stop))
    writer.start()
    try:
        with MappedTransport(path, size=PAGE) as transport:
            seen = set()
            deadline = time.monotonic() + 30
            while len(seen) < 2 and time.monotonic() < deadline:
                seen.add(transport.read32(64))
            seen |= {transport.read32(64) for _ in range(200_000)}
    finally:
        stop.set()
        writer.join(30)
    assert seen == {0, 0xFFFFFFFF}
    assert writer.exitcode == 0


@pytest.mark.parametrize("traffic", [False, True])
def test_an_interrupt_is_seen_in_the_registers(node, traffic):
    address = traffic_address if traffic else register_address
    with MappedTransport(node.path, clock_hz=1000, traffic=True) as transport:
        node.put(address("IRQ_STATUS"), 2)
        # Raised and not enabled.
        assert not transport.wait_interrupt(5)
        timer = threading.Timer(0.05, node.put, (address("IRQ_ENABLE"), 2))
        timer.start()
        assert transport.wait_interrupt(20_000)
        timer.join()


def test_a_node_without_engines_is_not_asked_for_them(node):
    node.put(traffic_address("IRQ_STATUS"), 0xFFFFFFFF)
    node.put(traffic_address("IRQ_ENABLE"), 0xFFFFFFFF)
    with MappedTransport(node.path, clock_hz=1000) as transport:
        assert not transport.wait_interrupt(2)


def test_a_wait_takes_as_long_as_the_cycles(node):
    with MappedTransport(node.path, clock_hz=10_000) as transport:
        start = time.monotonic()
        assert not transport.wait_interrupt(1000)
        assert 0.1 <= time.monotonic() - start < 5


def test_a_uio_device_is_waited_for_at_its_file(node, monkeypatch):
    """The driver masks the interrupt when it comes: it is let through before each wait."""
    with MappedTransport(node.path, clock_hz=1000) as transport:
        # A pair of sockets in place of the device's file: what is written, and what comes.
        import socket
        ours, theirs = socket.socketpair()
        transport._is_uio, file = True, transport._file
        transport._file = ours.fileno()
        node.put(ENABLE, 1)

        def driver():
            assert theirs.recv(4) == (1).to_bytes(4, "little")
            # An interrupt that was another's: nothing is high, so the wait goes on.
            theirs.send((1).to_bytes(4, "little"))
            assert theirs.recv(4) == (1).to_bytes(4, "little")
            node.put(STATUS, 1)
            theirs.send((2).to_bytes(4, "little"))

        thread = threading.Thread(target=driver)
        thread.start()
        assert transport.wait_interrupt(30_000)
        thread.join(10)
        node.put(STATUS, 0)
        assert not transport.wait_interrupt(20)
        transport._file = file
        ours.close()
        theirs.close()


@pytest.mark.parametrize("make, options, message", [
    (lambda path: None, {},
     "cannot map 0x100000 bytes at 0x0: No such file or directory; is the driver"),
    (lambda path: path.mkdir(), {}, "Is a directory"),
    (lambda path: path.write_bytes(bytes(PAGE)), {}, f"the file has {PAGE:#x} bytes"),
    (lambda path: path.write_bytes(bytes(PAGE)), {"size": 2 * PAGE},
     f"the file has {PAGE:#x} bytes"),
    (lambda path: path.write_bytes(bytes(PAGE)), {"offset": 4},
     "offset must be a multiple of a page"),
    (lambda path: path.write_bytes(bytes(PAGE)), {"size": 6},
     "size must be a multiple of 4, not 6")])
def test_what_cannot_be_mapped_is_refused_by_name(tmp_path, make, options, message):
    path = tmp_path / "device"
    make(path)
    with pytest.raises(DeviceError, match=f"{path}: .*{message}"):
        MappedTransport(path, **options)


@pytest.mark.parametrize("address", [-4, 2, 0x100000])
def test_addresses_outside_are_refused(node, address):
    with MappedTransport(node.path) as transport:
        for access in (lambda: transport.read32(address), lambda: transport.write32(address, 0)):
            with pytest.raises(DeviceError, match=f"below 0x100000, not {address:#x}"):
                access()


def open_files(path):
    """How many of this process's files are this one."""
    return sum(os.path.realpath(f"/proc/self/fd/{name}") == str(path)
               for name in os.listdir("/proc/self/fd"))


def test_after_close_there_are_no_accesses(node):
    before = open_files(node.path)
    transport = MappedTransport(node.path)
    assert open_files(node.path) > before
    transport.close()
    transport.close()
    with pytest.raises(DeviceError, match="is closed"):
        transport.read32(0)
    assert open_files(node.path) == before


def test_a_file_that_cannot_be_mapped_is_not_left_open(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"1234")
    with pytest.raises(DeviceError):
        MappedTransport(path)
    assert open_files(path) == 0
