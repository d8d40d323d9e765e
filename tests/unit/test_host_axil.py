"""Host bus to AXI4-Lite: each access is one of the right kind, once, and its answer comes back."""

import random
from collections import deque

import pytest

from host_agents import host_master, late_taker, random_accesses
from memory_agents import monitor
from simulation import simulate
from t3hw.hdl.host_axil import HostAxil

CHANNELS = ("aw", "w", "ar")


class Registers:
    """A slave that keeps words. Answers come when all has been taken, as late as ``pace`` makes
    them, with any of the four responses; what a channel that answers nothing carries is anything.

    Attributes
    ----------
    log : list of tuple
        (address, word or None for a read) of each access.
    responses : list of tuple
        (cycle, response, word or None) of each answer.
    """

    def __init__(self, dut, rng, pace):
        self.dut, self.rng, self.pace = dut, rng, pace
        self.words, self.log, self.responses = {}, [], []

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
                    self.responses.append((cycle, *offered[name]))
                    offered[name] = None
            for number, name in enumerate(CHANNELS):
                valid, ready, payload = seen[3 * number:][:3]
                if valid and ready:
                    taken[name].append(payload)
            if taken["aw"] and taken["w"]:
                address, word = taken["aw"].popleft().addr, taken["w"].popleft()
                assert word.strb == 0xF
                self.words[address] = word.data
                self.log.append((address, word.data))
                answers["b"].append((rng.randrange(4), None))
            if taken["ar"]:
                address = taken["ar"].popleft().addr
                self.log.append((address, None))
                answers["r"].append((rng.randrange(4), self.words.get(address, address)))
            for name, channel in (("b", dut.b), ("r", dut.r)):
                if not offered[name] and answers[name] and rng.random() < self.pace:
                    offered[name] = answers[name].popleft()
                resp, data = offered[name] or (rng.randrange(4), None)
                data = rng.randrange(1 << 32) if data is None else data
                ctx.set(channel.payload, {"resp": resp} | ({"data": data} if name == "r" else {}))
                ctx.set(channel.valid, offered[name] is not None)
            cycle += 1


def run(accesses, *, rng, pace=1.0, host_pace=1.0, late=False):
    """(answers, slave, transfers by channel, first cycles of valid by channel)."""
    dut = HostAxil()
    slave = Registers(dut, rng, pace)
    answers, transfers = [], {name: [] for name in CHANNELS}
    begun = {name: [] for name in CHANNELS}

    def ready(channel):
        async def bench(ctx):
            ctx.set(channel.ready, rng.random() < pace)
            async for _ in ctx.tick():
                ctx.set(channel.ready, rng.random() < pace)
        return late_taker(channel, rng=rng, pace=pace) if late else bench

    async def starts(ctx):
        cycle, before = 0, [0] * 3
        async for _, _, *valid in ctx.tick().sample(
                *(getattr(dut, name).valid for name in CHANNELS)):
            for name, now, then in zip(CHANNELS, valid, before):
                if now and not then:
                    begun[name].append(cycle)
            before = valid
            cycle += 1

    simulate(dut, host_master(dut.host, accesses, answers, rng=rng, pace=host_pace,
                              gives_up=True), background=[
        slave.bench, starts, *(ready(getattr(dut, name)) for name in CHANNELS),
        *(monitor(getattr(dut, name), transfers[name]) for name in CHANNELS)])
    return answers, slave, transfers, begun


@pytest.mark.parametrize("late", [False, True], ids=["any", "late"])
@pytest.mark.parametrize("pace, host_pace", [(1.0, 1.0), (0.5, 1.0), (0.2, 0.3)])
@pytest.mark.parametrize("seed", range(2))
def test_random_accesses(seed, pace, host_pace, late):
    """Whatever order and time the slave takes address and word in, also after it has seen them."""
    print("seed", seed)
    rng = random.Random(seed)
    accesses = random_accesses(rng, 80, lambda: rng.choice([
        rng.randrange(8), rng.randrange(1 << 32), 0x3FFFF, 0x40000]))
    answers, slave, transfers, begun = run(accesses, rng=rng, pace=pace, host_pace=host_pace,
                                           late=late)
    # Of an address 18 bits count.
    assert slave.log == [((access["address"] << 2) % (1 << 20),
                          access["data"] if access["write"] else None) for access in accesses]
    # OKAY and EXOKAY are no errors.
    assert [answer.error for answer in answers] == [resp >> 1 for _, resp, _ in slave.responses]
    assert [answer.data for answer, access in zip(answers, accesses) if not access["write"]] == [
        data for _, _, data in slave.responses if data is not None]
    writes = [answer.asked + 1 for answer, access in zip(answers, accesses) if access["write"]]
    reads = [answer.asked + 1 for answer, access in zip(answers, accesses) if not access["write"]]
    assert begun == {"aw": writes, "w": writes, "ar": reads}
    assert [answer.cycle for answer in answers] == [cycle for cycle, _, _ in slave.responses]
    assert {name: len(log) for name, log in transfers.items()} == {
        "aw": len(writes), "w": len(writes), "ar": len(reads)}


@pytest.mark.parametrize("write", [0, 1])
def test_an_access_takes_two_cycles_of_which_the_slave_has_one(write):
    rng = random.Random(write)
    accesses = [access | {"write": write} for access in random_accesses(
        rng, 20, lambda: rng.randrange(1 << 18))]
    answers = run(accesses, rng=rng)[0]
    assert [answer.cycle - answer.asked for answer in answers] == [2] * 20
    # The next one begins in the cycle after an answer.
    assert [answer.asked for answer in answers] == [3 * number for number in range(20)]


def test_a_slave_that_never_answers_leaves_the_host_waiting():
    """The host's own time-out is elsewhere; nothing is made up here."""
    dut = HostAxil()

    async def bench(ctx):
        ctx.set(dut.host.access.payload, {"write": 1, "address": 5, "data": 6})
        ctx.set(dut.host.access.valid, 1)
        await ctx.tick()
        ctx.set(dut.host.access.valid, 0)
        for _ in range(300):
            _, _, *seen = await ctx.tick().sample(
                dut.host.answer.valid, dut.aw.valid, dut.w.valid, dut.ar.valid, dut.aw.payload.addr,
                dut.w.payload.data)
            assert seen == [0, 1, 1, 0, 20, 6]

    simulate(dut, bench)
