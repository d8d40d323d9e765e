"""Checks of single parts of the bench, run by cocotb, between the clock's rising edges.

The environment's CHECK names the one to run, since each has a top module of its own.
"""

import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

PROBABILITY = float(os.environ.get("PROBABILITY", 0))
LATENCY = int(os.environ.get("LATENCY", 0))
JITTER = int(os.environ.get("JITTER", 0))
TRACE = []


def check(function):
    return cocotb.test(skip=os.environ["CHECK"] != function.__name__)(function)


async def reset(dut, **inputs):
    for name, value in inputs.items():
        getattr(dut, name).value = value
    dut.rst.value = 1
    Clock(dut.clk, 10, "step").start()
    for _ in range(4):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


@check
async def stall_injector(dut):
    """Transfers arrive once and in order; a valid is held; stalls are as frequent as asked for."""
    rng = random.Random(1)
    await reset(dut, seed=5, probability=int(PROBABILITY * 256), in_valid=0, in_payload=0,
                out_ready=0)
    sent, received, held, free, moved = 0, [], None, 0, 0
    for _ in range(4000):
        # `random` stalls of source and sink; a source that is valid stays so.
        if not dut.in_valid.value or taken:
            dut.in_valid.value = rng.random() < 0.8
            dut.in_payload.value = sent % 256
        dut.out_ready.value = rng.random() < 0.8
        await cocotb.triggers.Timer(1, "step")
        taken = bool(dut.in_valid.value and dut.in_ready.value)
        given = bool(dut.out_valid.value and dut.out_ready.value)
        assert taken == given
        if held is not None:
            assert dut.out_valid.value, "valid was withdrawn"
            assert int(dut.out_payload.value) == held, "payload changed under valid"
        held = int(dut.out_payload.value) if dut.out_valid.value and not given else None
        if dut.in_valid.value and dut.out_ready.value:
            free += 1
            moved += given
        if taken:
            sent += 1
            received.append(int(dut.out_payload.value))
        TRACE.append(given)
        await FallingEdge(dut.clk)
    assert received == [number % 256 for number in range(sent)]
    # Waiting transfers are let through for sure, so a little more than 1 - probability moves.
    assert 1 - PROBABILITY - 0.03 <= moved / free <= 1 - 0.7 * PROBABILITY
    if not PROBABILITY:
        assert moved == free


class MemoryMaster:
    """Raw channels of the memory model, one handshake at a time."""

    def __init__(self, dut):
        self.dut = dut
        self.cycle = 0

    async def tick(self):
        await FallingEdge(self.dut.clk)
        self.cycle += 1

    async def offer(self, channel, **fields):
        """Offer until accepted; the cycle of the acceptance."""
        for name, value in fields.items():
            getattr(self.dut, f"s_axi_{channel}{name}").value = value
        valid, ready = (getattr(self.dut, f"s_axi_{channel}{name}") for name in ("valid", "ready"))
        valid.value = 1
        await cocotb.triggers.Timer(1, "step")
        while not ready.value:
            await self.tick()
        at = self.cycle
        await self.tick()
        valid.value = 0
        return at

    async def until_valid(self, channel):
        """Wait for a valid; the cycle of it."""
        valid = getattr(self.dut, f"s_axi_{channel}valid")
        await cocotb.triggers.Timer(1, "step")
        for _ in range(LATENCY + JITTER + 300):
            if valid.value:
                return self.cycle
            await self.tick()
        raise AssertionError(f"no {channel} response")

    async def take(self, channel):
        ready = getattr(self.dut, f"s_axi_{channel}ready")
        ready.value = 1
        await self.tick()
        ready.value = 0

    async def read(self, address, beats=1):
        """Data and responses of a read, and the cycles from its address to its first beat."""
        asked = await self.offer("ar", id=1, addr=address, len=beats - 1)
        first, data = None, []
        for beat in range(beats):
            at = await self.until_valid("r")
            first = at if first is None else first
            assert int(self.dut.s_axi_rid.value) == 1
            assert bool(self.dut.s_axi_rlast.value) == (beat == beats - 1)
            data.append((int(self.dut.s_axi_rdata.value), int(self.dut.s_axi_rresp.value)))
            await self.take("r")
        return data, first - asked

    async def write(self, address, beats, strobe=0xFF):
        """Everything but the response; the cycle of the last beat."""
        await self.offer("aw", id=0, addr=address, len=len(beats) - 1)
        for index, data in enumerate(beats):
            at = await self.offer("w", data=data, strb=strobe, last=index == len(beats) - 1)
        return at


POISON = 0xA5A5A5A5A5A5A5A5


@check
async def memory_model(dut):
    """A write shows with its response, not before; latency, ends, strobes, holds are right."""
    await reset(dut, seed=3, latency=LATENCY, jitter=JITTER, s_axi_awvalid=0, s_axi_wvalid=0,
                s_axi_arvalid=0, s_axi_bready=0, s_axi_rready=0)
    master = MemoryMaster(dut)
    delays = []

    # Read while the response is offered and not taken: still the old data.
    last = await master.write(0x40, [1, 2, 3])
    at = await master.until_valid("b")
    delays.append(at - last)
    data, delay = await master.read(0x38, 5)
    delays.append(delay)
    assert data == [(POISON, 0)] * 5, "a write was visible before its response"
    await master.take("b")
    data, delay = await master.read(0x38, 5)
    delays.append(delay)
    assert [value for value, _ in data] == [POISON, 1, 2, 3, POISON]

    # A read beat that waits for RREADY does not change.
    await master.offer("ar", id=1, addr=0x40, len=0)
    await master.until_valid("r")
    await master.tick()
    await master.write(0x40, [77], strobe=0x0F)
    await master.until_valid("b")
    await master.take("b")
    assert int(dut.s_axi_rdata.value) == 1
    await master.take("r")
    # Strobes: only the lower half was written.
    assert (await master.read(0x40))[0] == [(77, 0)]
    await master.write(0x40, [0x1111111122222222], strobe=0xF0)
    await master.until_valid("b")
    await master.take("b")
    assert (await master.read(0x40))[0] == [(0x111111110000004D, 0)]

    # The last beat is there; the one behind it answers DECERR, and nothing wraps around.
    end = 8 << 6
    await master.write(end - 8, [5])
    await master.until_valid("b")
    assert int(dut.s_axi_bresp.value) == 0
    await master.take("b")
    for address, beats in ((end, [6]), (end - 8, [5, 6]), (1 << 31, [6])):
        await master.write(address, beats)
        await master.until_valid("b")
        assert int(dut.s_axi_bresp.value) == 3
        await master.take("b")
    assert [response for _, response in (await master.read(end - 8, 2))[0]] == [0, 3]
    assert (await master.read(0))[0] == [(POISON, 0)]
    assert (await master.read(end - 8))[0] == [(5, 0)]

    for _ in range(20):
        delays.append((await master.read(0))[1])
    assert min(delays) >= max(LATENCY, 1)
    assert max(delays) <= LATENCY + JITTER + 2
    if JITTER >= 10:
        assert len(set(delays)) > 5
    TRACE.extend(delays)


@check
async def memory_model_queues(dut):
    """As many bursts as it holds are taken before any is answered, then all are, in order."""
    await reset(dut, seed=3, latency=0, jitter=0, s_axi_awvalid=0, s_axi_wvalid=0, s_axi_arvalid=0,
                s_axi_bready=0, s_axi_rready=0)
    master = MemoryMaster(dut)
    for index in range(64):
        await master.write(8 * index, [index])
    for channel in ("aw", "w"):
        await cocotb.triggers.Timer(1, "step")
        assert not getattr(dut, f"s_axi_{channel}ready").value
    for _ in range(64):
        await master.until_valid("b")
        await master.take("b")
    for index in range(64):
        await master.offer("ar", id=1, addr=8 * index, len=0)
    await cocotb.triggers.Timer(1, "step")
    assert not dut.s_axi_arready.value
    for index in range(64):
        await master.until_valid("r")
        assert int(dut.s_axi_rdata.value) == index
        await master.take("r")


@cocotb.test()
async def save_trace(dut):
    """What was seen, for the comparison of simulators."""
    Path("seen.txt").write_text(repr(TRACE))
