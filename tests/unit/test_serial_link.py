"""From the pins to the host bus and back: what a board's serial link does, without its nodes."""

import random
import zlib

import pytest

from serial_line import LineReader, read_command, send_bytes, write_command
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.fpga.boards import BoardDesign
from t3hw.hdl.host_bus import HostDecoder
from t3hw.hdl.serial_link import SerialLink
from t3hw.registers.board import (
    MAGIC, REFUSED, decode_register, identity, register_address)

BIT = 4
DESIGN = BoardDesign(name="test", title="test", family="ecp5", part="none", platform="a:B",
                     clock_hz=50_000_000, devices=1, node=NodeConfig.preset("tiny"))
MEMORY = 0x8000_0000


class Words:
    """A slave: words by address, some of which are refused or never answered."""

    def __init__(self, bus, *, refused=(), silent=(), delay=0):
        self.bus, self.refused, self.silent, self.delay = bus, refused, silent, delay
        self.words, self.log = {}, []

    async def bench(self, ctx):
        """The bench."""
        access, answer = self.bus.access, self.bus.answer
        left = None
        async for _, _, valid, asked in ctx.tick().sample(access.valid, access.payload):
            ctx.set(answer.valid, 0)
            if valid:
                address = asked.address << 2
                self.log.append((address, asked.data if asked.write else None))
                if asked.write and address not in self.refused:
                    self.words[address] = asked.data
                left = None if address in self.silent else self.delay
            if left is not None:
                if left == 0:
                    ctx.set(answer.payload, {"error": address in self.refused,
                                             "data": self.words.get(address, 0x12345678)})
                    ctx.set(answer.valid, 1)
                    left = None
                else:
                    left -= 1


class Damaged(int):
    """A byte that is sent without its stop bit."""


class Cycles(int):
    """Cycles to wait."""

    def __rmul__(self, count):
        return Cycles(count)


IDLE = Cycles(1)
SILENCE = 2000
SILENT = (SILENCE + 200) * IDLE


def run(*steps, slave=None, on_leds=None, on_reader=None):
    """Run a link; each step is bytes to send, `Cycles` to wait, a number of bytes that must have
    come, or a function that gets the bytes that have come.

    Returns
    -------
    tuple of (bytes, Words)
        All bytes that came, and the slave.
    """
    dut = SerialLink(design=DESIGN, bit_cycles=BIT, silence=SILENCE, timeout=256,
                     windows=[(MEMORY, 1 << 26)])
    words = Words(dut.slaves[0], **slave or {})
    reader = LineReader(dut.tx, bit_cycles=BIT)

    async def bench(ctx):
        await ctx.tick().repeat(3)
        for step in steps:
            if isinstance(step, bytes):
                await send_bytes(ctx, dut.rx, step, bit_cycles=BIT)
            elif isinstance(step, Damaged):
                await send_bytes(ctx, dut.rx, [step], bit_cycles=BIT, level=0)
                await ctx.tick().repeat(2 * BIT)
            elif isinstance(step, Cycles):
                await ctx.tick().repeat(step)
            elif callable(step):
                step(bytes(reader.data))
            else:
                for _ in range(200_000):
                    if len(reader.data) >= step:
                        break
                    await ctx.tick()
                else:
                    pytest.fail(f"{len(reader.data)} of {step} bytes in 200000 cycles")
        # Nothing more may come.
        await ctx.tick().repeat(30 * BIT)
        if on_leds is not None:
            on_leds(ctx.get(dut.leds))
    simulate(dut, bench, background=[words.bench, reader.bench])
    if on_reader is not None:
        on_reader(reader)
    return bytes(reader.data), words


def word(data, index=-1):
    """A word of what came."""
    words = [data[first:first + 4] for first in range(0, len(data), 4)]
    return int.from_bytes(words[index], "big")


def address(name):
    return register_address(name)


def read_register(name, words=1):
    return read_command(register_address(name), words)


@pytest.mark.parametrize("name, value", identity(DESIGN).items())
def test_identity(name, value):
    data, _ = run(read_register(name), 4)
    assert word(data) == value


def test_blocks_go_to_addresses_in_order_or_to_one():
    rng = random.Random(1)
    block = [rng.randrange(1 << 32) for _ in range(60)]
    data, slave = run(write_command(MEMORY, block), read_command(MEMORY, 60), 240,
                      write_command(MEMORY + 8, [1, 2, 3], fixed=True),
                      read_command(MEMORY + 8, 2, fixed=True), 248)
    assert data == b"".join(value.to_bytes(4, "big") for value in block) + bytes([0, 0, 0, 3] * 2)
    writes = [(MEMORY + 4 * index, value) for index, value in enumerate(block)]
    reads = [(MEMORY + 4 * index, None) for index in range(60)]
    assert slave.log == [*writes, *reads, (MEMORY + 8, 1), (MEMORY + 8, 2), (MEMORY + 8, 3),
                         (MEMORY + 8, None), (MEMORY + 8, None)]


def test_commands_without_words_do_nothing():
    data, slave = run(write_command(MEMORY, []), read_command(MEMORY, 0), read_register("MAGIC"), 4)
    assert word(data) == MAGIC and len(data) == 4 and not slave.log


@pytest.mark.parametrize("delay, count", [(0, 50), (30, 200)])
def test_requests_during_replies_are_kept(delay, count):
    """As many reads without waiting give as many replies in order. That is the throughput, too: the
    line back is never at rest for long."""
    rng = random.Random(2)
    values = [rng.randrange(1 << 32) for _ in range(40)]
    order = [rng.randrange(40) for _ in range(count)]
    data, _ = run(write_command(MEMORY, values),
                  b"".join(read_command(MEMORY + 4 * index, 1) for index in order), 4 * count,
                  slave={"delay": delay})
    assert [word(data, index) for index in range(count)] == [values[index] for index in order]


def test_a_long_reply_and_requests_as_many_as_the_queue_holds():
    """The queue holds 512 bytes and a little; all of them wait while 255 words go out."""
    data, _ = run(read_command(MEMORY, 255) + read_register("MAGIC") * 85, 1020 + 85 * 4)
    assert {word(data, 255 + index) for index in range(85)} == {MAGIC}


def test_bytes_lost_in_a_full_queue_are_counted_and_nothing_behind_them_is_obeyed():
    many = read_command(MEMORY, 255) * 2 + write_command(MEMORY, [7]) * 60
    answer = 255 * 2 * 4
    data, slave = run(many, answer, write_command(MEMORY, [9]), SILENT,
                      read_register("LINE_ERRORS"), answer + 4)
    fields = decode_register("LINE_ERRORS", word(data))
    assert fields["lost"] >= 1 and fields["framing"] == 0
    # Only whole commands from before the loss were obeyed, and the one behind the silence.
    writes = [entry for entry in slave.log if entry[1] is not None]
    assert 45 < len(writes) < 60 and set(writes[:-1]) == {(MEMORY, 7)}
    assert writes[-1] == (MEMORY, 9) and fields["abandoned"] == 1


@pytest.mark.parametrize("seed", range(6))
def test_after_garbage_and_silence_a_good_read_works(seed):
    print("seed", seed)
    rng = random.Random(seed)
    garbage = rng.randbytes(rng.randint(1, 20))
    if seed < 3:
        # The beginnings of commands.
        garbage = (read_command(MEMORY, 1), write_command(MEMORY, [1, 2]),
                   write_command(MEMORY, [5] * 200))[seed][:rng.randint(1, 5 + 4 * seed)]
    # What garbage asks for may be read first; the last word is ours.
    replies = []
    run(garbage, SILENT, replies.append, slave={})
    data, _ = run(garbage, SILENT, write_command(address("SCRATCH"), [0xCAFE0000 + seed]),
                  read_register("SCRATCH"), len(replies[0]) + 4)
    assert word(data[-4:]) == 0xCAFE0000 + seed


def test_half_commands_are_forgotten_and_counted_but_slow_ones_are_not():
    half = write_command(MEMORY, [1, 2])[:11]
    data, slave = run(half, SILENT, read_register("LINE_ERRORS"), 4)
    assert decode_register("LINE_ERRORS", word(data)) == {"framing": 0, "abandoned": 1, "lost": 0}
    assert slave.log == [(MEMORY, 1)]
    steps = [step for byte in write_command(MEMORY, [0x1234])
             for step in (bytes([byte]), 1800 * IDLE)]
    data, slave = run(*steps, read_register("LINE_ERRORS"), 4)
    assert decode_register("LINE_ERRORS", word(data))["abandoned"] == 0
    assert slave.log == [(MEMORY, 0x1234)]


def test_silence_ends_a_half_command_that_waits_in_the_queue():
    """The line was silent while a reply went out; what comes then is another command."""
    half = write_command(MEMORY, [1])[:7]
    data, slave = run(read_command(MEMORY, 100), half, SILENT, write_command(MEMORY, [2])[:8],
                      SILENT, write_command(MEMORY, [3]), read_register("LINE_ERRORS"), 404)
    assert slave.log[100:] == [(MEMORY, 3)]
    assert decode_register("LINE_ERRORS", word(data))["abandoned"] == 2


def test_after_a_damaged_byte_nothing_is_obeyed_before_silence():
    """The rest of the command, and commands right behind it, might be anything."""
    command = write_command(MEMORY, [1])
    data, slave = run(command[:4], Damaged(command[4]), command[5:], write_command(MEMORY, [2]),
                      SILENT, write_command(MEMORY, [3]), read_register("LINE_ERRORS"), 4)
    assert slave.log == [(MEMORY, 3)]
    assert decode_register("LINE_ERRORS", word(data)) == {"framing": 1, "abandoned": 1, "lost": 0}
    data, _ = run(Damaged(0), SILENT, read_register("LINE_ERRORS"), 4,
                  write_command(address("LINE_ERRORS"), [1]), read_register("LINE_ERRORS"), 8)
    assert [word(data, 0), word(data, 1)] == [1, 0]


def test_refused_accesses_are_counted_and_the_first_is_kept():
    nowhere = 0x7FFF_FFF4
    data, slave = run(read_command(nowhere, 1), read_command(MEMORY + 4, 1),
                      write_command(MEMORY + 4, [5]), write_command(address("MAGIC"), [1]),
                      read_command(address("LEDS") + 4, 1), read_register("ACCESS_ERRORS", 2), 20,
                      write_command(address("ACCESS_ERRORS"), [0]), read_command(MEMORY + 4, 1),
                      read_register("ACCESS_ERRORS", 2), 32,
                      slave={"refused": {MEMORY + 4}})
    assert [word(data, index) for index in range(8)] == [
        REFUSED, REFUSED, REFUSED, 5, nowhere, REFUSED, 1, MEMORY + 4]
    # A word address beyond the bus is nowhere, too, and not wrapped.
    far = bytes([1, 1]) + (MEMORY >> 2 | 1 << 31).to_bytes(4, "big") + bytes(4)
    data, slave = run(far, read_register("ACCESS_ERRORS", 2), 8)
    assert [word(data, 0), word(data, 1)] == [1, MEMORY] and not slave.log


def test_a_slave_that_does_not_answer_is_refused_and_the_next_access_works():
    """It owes an answer, so it is not asked again; others are."""
    data, slave = run(read_command(MEMORY, 1), 4, read_command(MEMORY + 4, 1),
                      read_register("ACCESS_ERRORS", 2), 16, slave={"silent": {MEMORY}})
    assert [word(data, index) for index in range(4)] == [REFUSED, REFUSED, 2, MEMORY]
    assert slave.log == [(MEMORY, None)]


def test_a_late_answer_is_dropped_and_its_slave_asked_again():
    data, slave = run(read_command(MEMORY, 1), 4, 2000 * IDLE, write_command(MEMORY + 4, [6]),
                      2000 * IDLE, read_register("MAGIC"), 8, read_register("ACCESS_ERRORS"), 12,
                      slave={"delay": 400})
    assert [word(data, index) for index in range(3)] == [REFUSED, MAGIC, 2]
    assert slave.log == [(MEMORY, None), (MEMORY + 4, 6)]


@pytest.mark.parametrize("seed", [1, 2])
def test_checksums_are_those_of_the_words_on_the_line(seed):
    print("seed", seed)
    rng = random.Random(seed)
    block = [rng.randrange(1 << 32) for _ in range(rng.randint(1, 60))]
    words = b"".join(value.to_bytes(4, "big") for value in block)
    count = len(words)
    data, _ = run(write_command(MEMORY, block), read_command(MEMORY, len(block)),
                  read_register("RX_CRC", 2), count + 8,
                  # What these tell does not count, and what they are written with neither.
                  read_register("ACCESS_ERRORS", 2), read_register("RX_CRC", 2), count + 24,
                  write_command(address("TX_CRC"), [1]), write_command(address("RX_CRC"), [1]),
                  read_register("RX_CRC", 2), count + 32,
                  write_command(MEMORY, block[:1]), read_command(0x4000_0000, 1),
                  read_register("RX_CRC", 2), count + 44)
    shown = [word(data, len(block) + index) for index in range(11)]
    assert data[:count] == words
    assert shown[:2] == [zlib.crc32(words)] * 2
    assert shown[2:6] == [0, 0, *shown[:2]]
    assert shown[6:8] == [0, 0]
    assert shown[8:] == [REFUSED, zlib.crc32(words[:4]), zlib.crc32(b"\xFF" * 4)]


def test_a_write_of_one_checksum_counts_for_the_other_only():
    data, _ = run(write_command(address("RX_CRC"), [0x01020304, 0x05060708]),
                  read_register("RX_CRC", 2), 8)
    assert [word(data, 0), word(data, 1)] == [zlib.crc32(bytes([5, 6, 7, 8])), 0]


def test_time_is_read_in_one_piece():
    data, _ = run(read_register("CYCLES_LO", 2), 8, read_register("CYCLES_LO", 2), 16)
    first, high, second, high_too = (word(data, index) for index in range(4))
    # A reply of two words and a command lie between.
    assert high == high_too == 0 and 0 < second - first < 20 * 10 * BIT


def test_scratch_and_lights_hold_what_is_written():
    lights = []
    data, _ = run(write_command(address("SCRATCH"), [0x89ABCDEF]),
                  write_command(address("LEDS"), [0x1A5]),
                  read_register("SCRATCH"), read_register("LEDS"), 8,
                  on_leds=lights.append)
    assert lights == [0xA5]
    assert [word(data, 0), word(data, 1)] == [0x89ABCDEF, 0xA5]


def test_latency_of_a_read():
    """From the middle of a read's last stop bit to the reply's start bit."""
    starts = []
    data, _ = run(read_register("MAGIC"), 4, on_reader=lambda reader: starts.extend(reader.starts))
    sent = 3 + round(6 * 10 * BIT - BIT / 2)
    assert starts[0] - sent <= 20
    # Nothing but the line itself limits how fast words go out.
    starts.clear()
    run(read_command(MEMORY, 20), 80, on_reader=lambda reader: starts.extend(reader.starts))
    assert starts[-1] - starts[0] == 79 * 10 * BIT


@pytest.mark.parametrize("silence", [63, None])
def test_bad_silence_is_refused(silence):
    with pytest.raises(ValueError, match=f"not {silence}"):
        SerialLink(design=DESIGN, bit_cycles=4, silence=silence, timeout=256, windows=[])


@pytest.mark.parametrize("windows, message", [
    ([(0, 12)], "0xc bytes"), ([(8, 16)], "at 0x8"), ([(0, 32), (16, 16)], "overlap")])
def test_bad_windows_are_refused(windows, message):
    with pytest.raises(ValueError, match=message):
        HostDecoder(windows=windows, timeout=256)
