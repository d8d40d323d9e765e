"""A node on the parts of cocotbext-axi, which find their bus by the prefix of its ports."""

import itertools
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import (
    AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster, AxiRam, AxiResp, AxiStreamBus,
    AxiStreamFrame, AxiStreamSink, AxiStreamSource,
)

from t3hw.config import NodeConfig
from t3hw.registers import REGISTERS, encode_entry, entry_address, register_address

CONFIG = NodeConfig.from_toml(os.environ["CONFIG"])
BYTES = CONFIG.beat_bytes
GUARD = bytes(range(1, 17))


def pauses(rng, share):
    return (rng.random() < share for _ in itertools.repeat(None))


class Bench:
    """The node's buses, with the parts that drive them."""

    def __init__(self, dut, seed, stall=0.0):
        self.dut = dut
        self.rng = rng = random.Random(seed)
        self.axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.axi = AxiMaster(AxiBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        self.tx = AxiStreamSink(AxiStreamBus.from_prefix(dut, "link_tx"), dut.clk, dut.rst)
        self.rx = AxiStreamSource(AxiStreamBus.from_prefix(dut, "link_rx"), dut.clk, dut.rst)
        self.ram = None
        channels = [
            self.axi.write_if.aw_channel, self.axi.write_if.w_channel, self.axi.write_if.b_channel,
            self.axi.read_if.ar_channel, self.axi.read_if.r_channel, self.tx, self.rx,
        ]
        if CONFIG.memory == "axi":
            self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=1 << 16)
            channels += [
                self.ram.write_if.aw_channel, self.ram.write_if.w_channel,
                self.ram.write_if.b_channel, self.ram.read_if.ar_channel,
                self.ram.read_if.r_channel,
            ]
        if stall:
            for channel in channels:
                channel.set_pause_generator(pauses(random.Random(rng.random()), stall))

    async def start(self):
        self.dut.link_tx_credit.value = 0
        self.dut.rst.value = 1
        Clock(self.dut.clk, 10, "ns").start()
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)

    async def within(self, cycles, awaitable):
        return await with_timeout(awaitable, 10 * cycles, "ns")

    async def read_register(self, name):
        answer = await self.within(200, self.axil.read(register_address(name), 4))
        assert answer.resp == AxiResp.OKAY, name
        return int.from_bytes(answer.data, "little")

    async def write_word(self, address, value):
        return (await self.within(200, self.axil.write(address, value.to_bytes(4, "little")))).resp

    async def write_entry(self, table, entry, **fields):
        words = encode_entry(table, config=CONFIG, **fields)
        for word, value in reversed(list(enumerate(words))):
            assert await self.write_word(entry_address(table, entry, word), value) == AxiResp.OKAY

    async def write(self, address, data, **options):
        answer = await self.within(20000, self.axi.write(address, data, **options))
        assert answer.resp == AxiResp.OKAY

    async def read(self, address, length, **options):
        answer = await self.within(20000, self.axi.read(address, length, **options))
        assert answer.resp == AxiResp.OKAY
        return bytes(answer.data)


@cocotb.test()
async def registers(dut):
    """Identity, what is not there, and what may not be done."""
    bench = Bench(dut, seed=1)
    await bench.start()
    assert await bench.read_register("PRODUCT_ID") == REGISTERS["PRODUCT_ID"].reset
    assert await bench.read_register("CONFIG_HASH") == CONFIG.hash
    assert await bench.write_word(register_address("SCRATCH"), 0xDEADBEEF) == AxiResp.OKAY
    assert await bench.read_register("SCRATCH") == 0xDEADBEEF
    # Not mapped; beyond a table; a table's word; what can only be read.
    for address in (0x3FC, 0x3FFFC, entry_address("PLAN", CONFIG.plans), entry_address("PLAN", 0)):
        answer = await bench.within(200, bench.axil.read(address, 4))
        assert answer.resp == AxiResp.SLVERR, hex(address)
    for address in (0x3FC, entry_address("PLAN", CONFIG.plans), register_address("PRODUCT_ID")):
        assert await bench.write_word(address, 1) == AxiResp.SLVERR, hex(address)
    # Less than a word: strobes.
    answer = await bench.within(200, bench.axil.write(register_address("SCRATCH"), b"\x12"))
    assert answer.resp == AxiResp.SLVERR
    assert await bench.read_register("SCRATCH") == 0xDEADBEEF


async def stores_and_loads(dut, seed, stall, rounds):
    bench = Bench(dut, seed, stall)
    rng = bench.rng
    await bench.start()
    size = 2048
    model = bytearray(rng.randbytes(size))
    await bench.write(0, bytes(model))
    largest = BYTES.bit_length() - 1
    for _round in range(rounds):
        length = rng.choice([1, 2, 3, BYTES - 1, BYTES, BYTES + 1, 40 * BYTES,
                             rng.randrange(1, 300)])
        address = rng.randrange(size - length)
        data = rng.randbytes(length)
        options = {"size": rng.choice([None, rng.randrange(largest + 1)])}
        model[address:address + length] = data
        await bench.write(address, data, **options)
        start = max(address - 9, 0)
        end = min(address + length + 9, size)
        options = {"size": rng.choice([None, rng.randrange(largest + 1)])}
        got = await bench.read(start, end - start, **options)
        assert got == model[start:end], f"seed {seed}: {length} bytes at {address:#x}"
    # Several at once, of several IDs, on places that do not overlap.
    writes = []
    for block in rng.sample(range(size // 64), 12):
        data = rng.randbytes(rng.randrange(1, 64))
        model[64 * block:64 * block + len(data)] = data
        writes.append(cocotb.start_soon(bench.axi.write(64 * block, data)))
    for write in writes:
        assert (await bench.within(20000, write)).resp == AxiResp.OKAY
    reads = [cocotb.start_soon(bench.axi.read(start, 256)) for start in range(0, size, 256)]
    for start, read in zip(range(0, size, 256), reads):
        got = (await bench.within(20000, read)).data
        assert bytes(got) == model[start:start + 256], f"seed {seed}"
    if bench.ram:
        bench.ram.write(0x800, GUARD)
        assert await bench.read(0x800, len(GUARD)) == GUARD
        assert bench.ram.read(size - 64, 64) == model[-64:]


@cocotb.test()
async def memory(dut):
    """Bursts, narrow and unaligned ones too, come back as they went in."""
    await stores_and_loads(dut, seed=2, stall=0.0, rounds=20)


@cocotb.test()
async def memory_with_stalls(dut):
    """The same while all parts pause at random."""
    await stores_and_loads(dut, seed=3, stall=0.4, rounds=12)


@cocotb.test()
async def beyond_memory(dut):
    """Loads and stores beyond the memory answer with an error, and change nothing."""
    bench = Bench(dut, seed=4)
    await bench.start()
    if not CONFIG.memory_bytes:
        return
    await bench.write(CONFIG.memory_bytes - len(GUARD), GUARD)
    await bench.write(0, GUARD)
    answer = await bench.within(2000, bench.axi.write(CONFIG.memory_bytes, bytes(8)))
    assert answer.resp == AxiResp.SLVERR
    answer = await bench.within(2000, bench.axi.read(CONFIG.memory_bytes, 8))
    assert answer.resp == AxiResp.SLVERR
    assert await bench.read(CONFIG.memory_bytes - len(GUARD), len(GUARD)) == GUARD
    assert await bench.read(0, len(GUARD)) == GUARD
    assert await bench.read_register("ERROR_STATUS") & 1 << 8


@cocotb.test()
async def link(dut):
    """Stores to a remote region leave as packets; the same packets, sent back, are stores here."""
    seed = 5
    bench = Bench(dut, seed, stall=0.3)
    rng = bench.rng
    await bench.start()
    source, destination, length = 0x2000, 0x1000, 64 * BYTES
    await bench.write_entry(
        "REGION", 0, enable=1, action="REMOTE_STORE", base=source, limit=source + length - 1,
        remote_delta=(destination - source) % (1 << CONFIG.addr_width))
    await bench.write_entry("REGION", 1, enable=1, action="LOCAL_STORE", base=destination,
                            limit=destination + length - 1, accept_store=1)
    await bench.write(destination, bytes(length))
    words = 0
    credits_back = 0

    async def count_credits():
        nonlocal credits_back
        while True:
            await RisingEdge(dut.clk)
            credits_back += int(dut.link_rx_credit.value)

    async def carry():
        """A wire, and the receiver's credits."""
        nonlocal words
        while True:
            # With TKEEP: the bytes without strobes too.
            frame = await bench.tx.recv(compact=False)
            words += len(frame.tdata) // BYTES
            await bench.rx.send(AxiStreamFrame(frame.tdata, tkeep=list(frame.tkeep)))
            for _word in range(len(frame.tdata) // BYTES):
                await RisingEdge(dut.clk)
                dut.link_tx_credit.value = 1
            await RisingEdge(dut.clk)
            dut.link_tx_credit.value = 0

    tasks = [cocotb.start_soon(count_credits()), cocotb.start_soon(carry())]
    model = bytearray(length)
    for _round in range(8):
        size = rng.randrange(1, 12 * BYTES)
        offset = rng.randrange(length - size)
        data = rng.randbytes(size)
        model[offset:offset + size] = data
        # More words than there are credits: the answer comes when all have gone.
        await bench.write(source + offset, data)
    for _wait in range(50):
        await ClockCycles(dut.clk, 40)
        if credits_back == words and bench.rx.idle():
            break
    assert await bench.read(destination, length) == model, f"seed {seed}"
    assert await bench.read_register("ERROR_STATUS") == 0
    assert credits_back == words > 16
    for task in tasks:
        task.cancel()
