"""The virtual board, from the bytes at its serial port: identity, memory, errors, bad lines."""

import os
import random
import select
import subprocess
import sys
import termios
import time
import zlib

import pytest

from designs import TWO_TINY
from t3hw.cosim.virtual_board import virtual_board
from t3hw.registers import traffic
from t3hw.registers import REGISTERS as NODE_REGISTERS
from t3hw.registers import capabilities
from t3hw.registers.board import (
    REFUSED, decode_register, identity, memory_address, node_address, register_address)

#: Seconds for an answer; the machine may be busy.
PATIENCE = 60
MEMORY_WORDS = TWO_TINY.node.memory_bytes // 4
#: Cycles of silence after which a command is forgotten.
SILENCE = 100 * TWO_TINY.baud * 8 // 1000


class Line:
    """The host's end of the line, byte by byte."""

    def __init__(self, port):
        self.file = os.open(port, os.O_RDWR | os.O_NOCTTY)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.file)

    def send(self, data):
        """Send all bytes."""
        while data:
            data = data[os.write(self.file, data):]

    def receive(self, count, seconds=PATIENCE):
        """So many bytes, or fewer if there are no more in time."""
        data = b""
        end = time.monotonic() + seconds
        while len(data) < count and time.monotonic() < end:
            if select.select([self.file], [], [], 0.05)[0]:
                data += os.read(self.file, count - len(data))
        return data

    def read(self, address, count=1):
        """Words from an address on."""
        self.send(command(2, address, count))
        data = self.receive(4 * count)
        assert len(data) == 4 * count, f"{len(data)} of {4 * count} bytes in {PATIENCE} s"
        return [int.from_bytes(data[first:first + 4], "big") for first in range(0, len(data), 4)]

    def write(self, address, *words):
        """Words to an address and those behind it."""
        self.send(command(1, address, len(words)) + in_bytes(words))

    def get(self, name):
        """A register of the board, as a word."""
        return self.read(register_address(name))[0]


def command(code, address, count):
    """First bytes of a command."""
    return bytes([code, count]) + (address >> 2).to_bytes(4, "big")


def in_bytes(words):
    """Words as they are on the line."""
    return b"".join(word.to_bytes(4, "big") for word in words)


@pytest.fixture(scope="module")
def board():
    with virtual_board(TWO_TINY) as board:
        yield board
    assert board.cycles > 0


@pytest.fixture
def line(board):
    with Line(board.port) as line:
        for name in ("ACCESS_ERRORS", "LINE_ERRORS", "TX_CRC", "RX_CRC"):
            line.write(register_address(name), 0)
        yield line


def silence(line):
    """Seconds in which the board forgets a half command, with a reserve."""
    start, time_ = line.get("CYCLES_LO"), time.monotonic()
    time.sleep(0.3)
    speed = (line.get("CYCLES_LO") - start & 0xFFFFFFFF) / (time.monotonic() - time_)
    return 2 * SILENCE / speed + 0.2


def test_identity_of_the_board_and_of_its_nodes(line):
    for name, value in identity(TWO_TINY).items():
        assert line.get(name) == value, name
    for node in range(2):
        for name, value in capabilities(TWO_TINY.node).items():
            assert line.read(node_address(node, NODE_REGISTERS[name].offset)) == [value], name
        assert line.read(node_address(node, traffic.register_address("MAP_HASH"))) == [
            traffic.MAP_HASH]


def test_registers_of_nodes_are_their_own(line):
    scratch = NODE_REGISTERS["SCRATCH"].offset
    for node in range(2):
        line.write(node_address(node, scratch), 0x1000 + node)
    line.write(register_address("SCRATCH"), 0x2000)
    assert [line.read(node_address(node, scratch))[0] for node in range(2)] == [0x1000, 0x1001]
    assert line.get("SCRATCH") == 0x2000


def test_memory_march(line):
    """Words of both memories hold every bit, and are no other word: both ends, and every address
    bit."""
    ends = [(0, 60), (MEMORY_WORDS - 60, 60)]
    bits = [(1 << bit, 1) for bit in range(6, MEMORY_WORDS.bit_length() - 1)]
    blocks = [(memory_address(node, 4 * first), count) for node in range(2)
              for first, count in (*ends, *bits)]
    for pattern in (0, REFUSED):
        for start, count in blocks:
            line.write(start, *(start + 4 * index ^ pattern for index in range(count)))
        for start, count in blocks:
            assert line.read(start, count) == [
                start + 4 * index ^ pattern for index in range(count)]
    assert line.get("ACCESS_ERRORS") == 0


def test_checksums_cover_the_words_of_blocks(line):
    rng = random.Random(1)
    words = [rng.randrange(1 << 32) for _ in range(200)]
    line.write(memory_address(1), *words)
    assert line.read(memory_address(1), 200) == words
    assert line.read(register_address("RX_CRC"), 2) == [zlib.crc32(in_bytes(words))] * 2


def test_200_reads_without_waiting_give_200_replies_in_order(line):
    rng = random.Random(2)
    words = [rng.randrange(1 << 32) for _ in range(100)]
    line.write(memory_address(0), *words)
    order = [rng.randrange(100) for _ in range(200)]
    line.send(b"".join(command(2, memory_address(0, 4 * index), 1) for index in order))
    assert line.receive(800) == in_bytes(words[index] for index in order)


def test_refused_accesses_answer_ones_and_are_counted(line):
    beyond = memory_address(1, TWO_TINY.node.memory_bytes)
    for address in (0x0800_0000, node_address(2), memory_address(2), beyond,
                    node_address(0, 0x00FFC)):
        assert line.read(address) == [REFUSED], hex(address)
    line.write(node_address(0, NODE_REGISTERS["PRODUCT_ID"].offset), 1)
    assert line.read(register_address("ACCESS_ERRORS"), 2) == [6, 0x0800_0000]
    line.write(register_address("ACCESS_ERRORS"), 0)
    assert line.read(beyond) == [REFUSED]
    assert line.read(register_address("ACCESS_ERRORS"), 2) == [1, beyond]


def test_memory_is_refused_while_an_engine_runs_and_then_not(line):
    """The registers answer meanwhile, so that the host sees the end."""
    settings = {
        "GEMM_UNITS": {"units": 1}, "GEMM_WORKGROUPS": {"workgroups": 1},
        "GEMM_CHUNK_WORKGROUPS": {"chunk_workgroups": 1}, "GEMM_STEPS": {"steps": 1},
        "GEMM_STEP_CYCLES": {"step_cycles": 0xFFFFFF}, "GEMM_READS": {"stream_bytes_log2": 6},
        "GEMM_WORKGROUP_BYTES": {"workgroup_bytes": 4}, "GEMM_TILES": {"wavefronts": 1},
        "GEMM_AND_MASK": {"mask": 0}, "GEMM_OR_MASK": {"mask": 0x600DF00D}}
    for name, fields in settings.items():
        line.write(node_address(0, traffic.register_address(name)),
                   traffic.encode_register(name, **fields))
    line.write(node_address(0, traffic.entry_address("GEMM_STAGE", 0)), 0)
    line.write(memory_address(0), 1)
    line.write(memory_address(1), 2)
    status = node_address(0, traffic.register_address("GEMM_STATUS"))
    line.write(node_address(0, traffic.register_address("GEMM_CONTROL")), 1)
    assert traffic.decode_register("GEMM_STATUS", line.read(status)[0])["busy"]
    assert line.read(memory_address(0)) == [REFUSED]
    assert line.read(memory_address(1)) == [2]
    line.write(memory_address(0), 3)
    assert line.read(register_address("ACCESS_ERRORS"), 2) == [2, memory_address(0)]
    for _ in range(2000):
        if not traffic.decode_register("GEMM_STATUS", line.read(status)[0])["busy"]:
            break
    else:
        pytest.fail("still busy after 2000 reads")
    assert line.read(memory_address(0)) == [0x600DF00D]


@pytest.mark.parametrize("seed", range(3))
def test_after_garbage_and_silence_a_read_works(line, seed):
    print("seed", seed)
    rng = random.Random(seed)
    wait = silence(line)
    # A write of many words at first, so that what comes next would be taken for data.
    line.send(bytes([1, 200]) + rng.randbytes(rng.randint(0, 18)))
    time.sleep(wait)
    termios.tcflush(line.file, termios.TCIFLUSH)
    assert line.get("MAGIC") == identity(TWO_TINY)["MAGIC"]
    assert decode_register("LINE_ERRORS", line.get("LINE_ERRORS"))["abandoned"] == 1


def test_commands_without_words_and_of_most_words(line):
    line.send(command(2, memory_address(0), 0) + command(1, memory_address(0), 0))
    words = [index * 0x01010101 for index in range(255)]
    line.write(memory_address(0), *words)
    assert line.read(memory_address(0), 255) == words


def test_an_unplugged_cable_is_seen_and_the_next_run_works():
    with virtual_board(TWO_TINY, drop_after=9) as board, Line(board.port) as line:
        line.send(command(2, register_address("MAGIC"), 1) * 2)
        with pytest.raises(OSError):
            # The terminal is gone: an error at once, or the end of the file and then one.
            for _ in range(100):
                line.receive(8, seconds=0.1)
                line.send(b"\0")
        assert board.runs
    with virtual_board(TWO_TINY) as board, Line(board.port) as line:
        assert line.get("MAGIC") == identity(TWO_TINY)["MAGIC"]


def test_faults_of_the_line_show():
    magic = in_bytes([identity(TWO_TINY)["MAGIC"]])
    with virtual_board(TWO_TINY, garbage=5, flip_to_host=2) as board, Line(board.port) as line:
        line.send(command(2, register_address("MAGIC"), 1))
        data = line.receive(9)
        assert len(data) == 9 and data[5:] == bytes(
            byte ^ (0x10 if index == 2 else 0) for index, byte in enumerate(magic))
    with virtual_board(TWO_TINY, mute=True) as board, Line(board.port) as line:
        line.send(command(2, register_address("MAGIC"), 1))
        assert line.receive(4, seconds=2) == b""
    # The flipped bit is in the address's lowest byte.
    with virtual_board(TWO_TINY, flip_to_board=5) as board, Line(board.port) as line:
        line.send(command(2, register_address("MAGIC"), 1))
        assert line.receive(4) == bytes(4)
        assert line.get("MAGIC") == identity(TWO_TINY)["MAGIC"]


_LITEX = """
import os
import socket
import sys
from litex.tools.litex_client import RemoteClient
from litex.tools.litex_server import RemoteServer
from litex.tools.remote.comm_uart import CommUART
port, magic, scratch, memory = sys.argv[1], *map(int, sys.argv[2:])
comm = CommUART(port, 115200)
assert comm.read(magic) == 0x54334257
comm.write(scratch, 0x12345678)
assert comm.read(scratch) == 0x12345678
words = [index * 0x10001 + 7 for index in range(100)]
comm.write(memory, words)
assert comm.read(memory, 100) == words
comm.write(memory, [1, 2, 3], burst="fixed")
assert comm.read(memory, 2, burst="fixed") == [3, 3]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    number = free.getsockname()[1]
server = RemoteServer(comm, "127.0.0.1", number)
server.open()
server.start(4)
client = RemoteClient(host="127.0.0.1", port=number, csr_csv=None)
client.open()
assert client.read(magic) == 0x54334257
client.write(scratch, 0xCAFEF00D)
assert client.read(scratch) == 0xCAFEF00D
assert client.read(memory + 4, 50) == words[1:51]
client.close()
# In one piece, since the server's threads print too, as clients come and go.
sys.stdout.flush()
os.write(1, b"done\\n")
os._exit(0)
"""


def test_tools_of_litex_work(board):
    """Its client of the serial protocol, and its server with a client behind it."""
    pytest.importorskip("litex.tools.remote.comm_uart")
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LITEX, board.port, str(register_address("MAGIC")),
         str(register_address("SCRATCH")), str(memory_address(1))],
        capture_output=True, text=True, timeout=120)
    assert found.returncode == 0 and "done\n" in found.stdout, found.stdout + found.stderr
