"""From the pins to the host bus and back: what a board's serial link does, without its nodes."""

import random
import zlib

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from serial_line import LineReader, read_command, send_bytes, write_command
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.fpga.boards import BoardDesign
from t3hw.hdl.host_bus import host_bus
from t3hw.hdl.serial_link import SerialLink
from t3hw.registers.board import (
    MAGIC, REFUSED, REGISTERS, decode_register, identity, register_address)

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


def run(*steps, slave=None, silence=2000, **options):
    """Run a link; each step is bytes to send, a number of cycles to wait, or a function that gets
    the bytes that have come. Returns (all bytes that came, slave)."""
    dut = SerialLink(design=DESIGN, bit_cycles=BIT, silence=silence, timeout=256,
                     windows=[(MEMORY, 1 << 26)], **options)
    words = Words(dut.slaves[0], **slave or {})
    reader = LineReader(dut.tx, bit_cycles=BIT)

    async def bench(ctx):
        await ctx.tick().repeat(3)
        for step in steps:
            if isinstance(step, bytes):
                await send_bytes(ctx, dut.rx, step, bit_cycles=BIT)
            elif callable(step):
                step(bytes(reader.data))
            else:
                # Until so many bytes have come, but not for ever.
                for _ in range(200_000):
                    if len(reader.data) >= step:
                        break
                    await ctx.tick()
                else:
                    pytest.fail(f"{len(reader.data)} of {step} bytes in 200000 cycles")
    simulate(dut, bench, background=[words.bench, reader.bench])
    return bytes(reader.data), words


def word(data, index=-1):
    """A word of what came."""
    words = [data[first:first + 4] for first in range(0, len(data), 4)]
    return int.from_bytes(words[index], "big")


def test_try():
    data, _ = run(read_command(register_address("MAGIC"), 1), 4)
    assert word(data) == MAGIC
