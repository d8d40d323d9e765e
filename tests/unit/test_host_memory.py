"""Host bus to AXI4: words of a node's memory, each alone in its burst, and what is refused."""

import random
from collections import deque

import pytest

from host_agents import host_master, late_taker, random_accesses
from memory_agents import monitor
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.host_memory import HostMemory

CHANNELS = ("aw", "w", "ar")
TINY = NodeConfig.preset("tiny")


class Bytes:
    """A memory of bytes behind the port, in which an address reads as itself until it is written.

    Attributes
    ----------
    responses : list of (int, int)
        Cycle and response of each answer.
    """

    def __init__(self, config, dut, rng, pace):
        self.config, self.dut, self.rng, self.pace = config, dut, rng, pace
        self.bytes, self.responses, self.transactions = {}, [], 0

    def beat(self, address):
        """The beat in which an address lies."""
        first = address - address % self.config.beat_bytes
        return sum(self.bytes.get(at, unwritten(at)) << 8 * (at - first)
                   for at in range(first, first + self.config.beat_bytes))

    def _address(self, payload):
        assert (payload.id, payload.len, payload.size, payload.burst, payload.user) == (
            0, 0, 2, 1, 0)
        assert payload.addr % 4 == 0
        self.transactions += 1
        return payload.addr

    def _write(self, address, word):
        assert word.last == 1
        offset = address % self.config.beat_bytes
        assert word.strb == 0xF << offset
        for at in range(4):
            self.bytes[address + at] = word.data >> 8 * (offset + at) & 0xFF

    async def bench(self, ctx):
        """The bench."""
        dut, rng = self.dut, self.rng
        taken = {name: deque() for name in CHANNELS}
        answers = {"b": deque(), "r": deque()}
        offered = {"b": None, "r": None}
        cycle = 0
        async for _, _, b_ready, r_ready, *seen in ctx.tick().sample(
                dut.b.ready, dut.r.ready,
                *(signal for name in CHANNELS
                  for signal in (getattr(dut, name).valid, getattr(dut, name).ready,
                                 getattr(dut, name).payload))):
            for name, ready in (("b", b_ready), ("r", r_ready)):
                if offered[name] and ready:
                    self.responses.append((cycle, offered[name]["resp"]))
                    offered[name] = None
            for number, name in enumerate(CHANNELS):
                valid, ready, payload = seen[3 * number:][:3]
                if valid and ready:
                    taken[name].append(payload)
            if taken["aw"] and taken["w"]:
                self._write(self._address(taken["aw"].popleft()), taken["w"].popleft())
                answers["b"].append({"resp": rng.randrange(4)})
            if taken["ar"]:
                address = self._address(taken["ar"].popleft())
                answers["r"].append({"resp": rng.randrange(4), "last": 1,
                                     "data": self.beat(address)})
            for name, channel in (("b", dut.b), ("r", dut.r)):
                if not offered[name] and answers[name] and rng.random() < self.pace:
                    offered[name] = answers[name].popleft()
                # What a channel that answers nothing carries is anything.
                ctx.set(channel.payload, offered[name] or {"resp": rng.randrange(4)} | (
                    {"data": rng.randrange(1 << self.config.data_width)} if name == "r" else {}))
                ctx.set(channel.valid, offered[name] is not None)
            cycle += 1


def unwritten(address):
    """What a byte is before it is written."""
    return (address * 0x9E3779B1 >> 8) & 0xFF


def run(config, window, accesses, *, rng, pace=1.0, host_pace=1.0, late=False, blocked=0.0):
    """(answers, memory, cycles in which it was blocked, first cycles of valid by channel)."""
    dut = HostMemory(config=config, window=window)
    memory = Bytes(config, dut, rng, pace)
    answers, blocks = [], []
    begun = {name: [] for name in CHANNELS}

    def ready(channel):
        async def bench(ctx):
            ctx.set(channel.ready, rng.random() < pace)
            async for _ in ctx.tick():
                ctx.set(channel.ready, rng.random() < pace)
        return late_taker(channel, rng=rng, pace=pace) if late else bench

    async def watch(ctx):
        cycle, before = 0, [0] * 3
        ctx.set(dut.blocked, rng.random() < blocked)
        async for _, _, now_blocked, *valid in ctx.tick().sample(
                dut.blocked, *(getattr(dut, name).valid for name in CHANNELS)):
            if now_blocked:
                blocks.append(cycle)
            for name, now, then in zip(CHANNELS, valid, before):
                if now and not then:
                    begun[name].append(cycle)
            before = valid
            cycle += 1
            ctx.set(dut.blocked, rng.random() < blocked)

    simulate(dut, host_master(dut.host, accesses, answers, rng=rng, pace=host_pace,
                              gives_up=True), background=[
        memory.bench, watch, *(ready(getattr(dut, name)) for name in CHANNELS),
        *(monitor(getattr(dut, name), []) for name in CHANNELS)])
    return answers, memory, set(blocks), begun


@pytest.mark.parametrize("late", [False, True], ids=["any", "late"])
@pytest.mark.parametrize("config, window", [
    (TINY, 1 << 26), (TINY.replace(addr_width=16), 1 << 26),
    (TINY.replace(data_width=64, addr_width=20), 1 << 21),
    (TINY.replace(data_width=512, addr_width=16), 1 << 16),
    (TINY.replace(data_width=64), 4), (TINY.replace(data_width=512), 32)],
    ids=["32", "32-beyond", "64-beyond", "512", "64-part", "512-part"])
@pytest.mark.parametrize("pace, blocked", [(1.0, 0.0), (0.4, 0.3)])
def test_random_accesses(config, window, pace, blocked, late):
    seed = config.data_width + window + round(10 * pace)
    print("seed", seed)
    rng = random.Random(seed)
    size = 1 << config.addr_width
    accesses = random_accesses(rng, 60, lambda: rng.choice([
        rng.randrange(16), rng.randrange(16), window // 4 - 1, rng.randrange(1 << 32),
        min(size, window) // 4 - 1, size // 4 % (1 << 32), rng.randrange(window // 4)]))
    answers, memory, blocks, begun = run(config, window, accesses, rng=rng, pace=pace,
                                         host_pace=0.8, late=late, blocked=blocked)
    model, responses = {}, iter(memory.responses)
    starts = {name: [] for name in CHANNELS}
    served = 0
    for number, (access, answer) in enumerate(zip(accesses, answers, strict=True)):
        where = f"seed {seed}, access {number}"
        # Of the address so much counts as the window has.
        address = 4 * access["address"] % window
        if address >= size or answer.asked in blocks:
            assert (answer.error, answer.cycle - answer.asked) == (1, 2), where
            continue
        served += 1
        cycle, resp = next(responses)
        assert answer.error == (resp >= 2), where
        if access["write"]:
            model |= {address + at: access["data"] >> 8 * at & 0xFF for at in range(4)}
            assert answer.cycle == cycle + 1, where
            starts["aw"].append(answer.asked + 2)
            starts["w"].append(answer.asked + 2)
        else:
            assert answer.data == sum(model.get(address + at, unwritten(address + at)) << 8 * at
                                      for at in range(4)), where
            assert answer.cycle == cycle + 2, where
            starts["ar"].append(answer.asked + 2)
    assert begun == starts, f"seed {seed}"
    assert memory.bytes == model and memory.transactions == served, f"seed {seed}"
    assert served > 10


@pytest.mark.parametrize("write", [0, 1])
def test_throughput(write):
    """One access after the other: 4 cycles for a store, 5 for a load, with the memory's own."""
    rng = random.Random(write)
    accesses = [access | {"write": write} for access in random_accesses(
        rng, 20, lambda: rng.randrange(1 << 10))]
    answers = run(TINY, 1 << 26, accesses, rng=rng)[0]
    cycles = 4 if write else 5
    assert [answer.cycle - answer.asked for answer in answers] == [cycles] * 20
    assert [answer.asked for answer in answers] == [(cycles + 1) * number for number in range(20)]


def test_what_is_blocked_later_goes_on():
    """Only the cycle of the access counts, as `Board` has it: an engine begins between accesses."""
    dut = HostMemory(config=TINY, window=1 << 26)

    async def bench(ctx):
        ctx.set(dut.host.access.payload, {"write": 0, "address": 3})
        ctx.set(dut.host.access.valid, 1)
        await ctx.tick()
        ctx.set(dut.host.access.valid, 0)
        ctx.set(dut.blocked, 1)
        await ctx.tick()
        assert ctx.get(dut.ar.valid) and not ctx.get(dut.host.answer.valid)

    simulate(dut, bench)


@pytest.mark.parametrize("window", [0, 2, 3, 48, -4, 4.0, True, None])
def test_a_bad_window_is_refused_with_its_value(window):
    with pytest.raises(ValueError, match=rf"not {window!r}"):
        HostMemory(config=TINY, window=window)


def test_config_must_be_a_config():
    with pytest.raises(TypeError, match="not 'tiny'"):
        HostMemory(config="tiny", window=1 << 26)
