"""AXI4-Lite split: every access goes to one slave and its answer comes back,
whatever the bus does."""

import collections
import random

import pytest

from memory_agents import monitor, sender, taker, wait_until
from simulation import simulate
from t3hw.hdl.axil_split import AxilSplit

ACCESSES = 120


class Slave:
    """Takes addresses and data in any order, answers late with what tells the access."""

    def __init__(self, port, rng, pace, mark):
        self.port, self.rng, self.pace, self.mark = port, rng, pace, mark
        self.writes, self.reads = [], []

    def benches(self):
        return [self._bench, *(monitor(channel, []) for channel in
                               (self.port.aw, self.port.w, self.port.ar))]

    async def _bench(self, ctx):
        port = self.port
        addresses, words, asked = (collections.deque() for _ in range(3))
        answers = {"b": collections.deque(), "r": collections.deque()}
        offered = {"b": False, "r": False}
        async for _, _, *seen in ctx.tick().sample(
                *(signal for channel in (port.aw, port.w, port.ar)
                  for signal in (channel.valid, channel.ready, channel.payload)),
                port.b.ready, port.r.ready):
            for queue, (valid, ready, payload) in zip((addresses, words, asked),
                                                      (seen[:3], seen[3:6], seen[6:9])):
                if valid and ready:
                    queue.append(payload)
            for name, ready in zip("br", seen[9:]):
                if offered[name] and ready:
                    offered[name] = False
            if addresses and words:
                address, word = addresses.popleft(), words.popleft()
                self.writes.append((address.addr, word.data, word.strb))
                answers["b"].append({"resp": 2 * (address.addr & 1)})
            while asked:
                address = asked.popleft().addr
                self.reads.append(address)
                answers["r"].append({"data": address ^ self.mark, "resp": 2 * (address & 1)})
            for channel in (port.aw, port.w, port.ar):
                ctx.set(channel.ready, self.rng.random() < self.pace)
            for name, channel in (("b", port.b), ("r", port.r)):
                if not offered[name] and answers[name] and self.rng.random() < self.pace:
                    ctx.set(channel.payload, answers[name].popleft())
                    offered[name] = True
                ctx.set(channel.valid, offered[name])


@pytest.mark.parametrize("window, seed, pace", [(1, 1, 0.4), (1, 2, 1.0), (9, 3, 0.8)])
def test_accesses_go_where_their_address_says(window, seed, pace):
    print("seed", seed)
    rng = random.Random(seed)
    dut = AxilSplit(window=window)
    slaves = {True: Slave(dut.inside, rng, pace, 0x1111),
              False: Slave(dut.outside, rng, pace, 0x2222)}

    def addresses():
        high = [rng.choice([window, window, rng.randrange(16)]) for _ in range(ACCESSES)]
        return [top << 16 | rng.choice([0, 0xFFFF, rng.randrange(1 << 16)]) for top in high]

    write_addresses, read_addresses = addresses(), addresses()
    words = [(rng.randrange(1 << 32), rng.randrange(16)) for _ in range(ACCESSES)]
    answers, data = [], []

    async def wait(ctx):
        await wait_until(ctx, lambda: len(answers) == len(data) == ACCESSES, cycles=8000,
                         what=lambda: f"seed {seed}: {len(answers)} writes, {len(data)} reads")

    simulate(dut, wait, background=[
        sender(dut.aw, [{"addr": address} for address in write_addresses],
               rng=rng, pace=pace),
        sender(dut.w, [{"data": word, "strb": strobe} for word, strobe in words],
               rng=rng, pace=pace),
        sender(dut.ar, [{"addr": address} for address in read_addresses],
               rng=rng, pace=pace),
        taker(dut.b, rng=rng, pace=pace), taker(dut.r, rng=rng, pace=pace),
        monitor(dut.b, answers), monitor(dut.r, data),
        *(bench for slave in slaves.values() for bench in slave.benches())])
    for inside, slave in slaves.items():
        assert slave.reads == [a for a in read_addresses if (a >> 16 == window) == inside]
        assert slave.writes == [(address, *word) for address, word in zip(write_addresses, words)
                                if (address >> 16 == window) == inside]
    assert [payload.resp for _, payload in answers] == [2 * (a & 1) for a in write_addresses]
    assert [(payload.data, payload.resp) for _, payload in data] == [
        (address ^ slaves[address >> 16 == window].mark, 2 * (address & 1))
        for address in read_addresses]


def test_latency_is_as_stated():
    """One cycle for an address, none for data behind it and for answers."""
    dut = AxilSplit(window=1)

    async def bench(ctx):
        await ctx.tick()
        ctx.set(dut.aw.payload.addr, 0x10008)
        ctx.set(dut.aw.valid, 1)
        ctx.set(dut.w.valid, 1)
        ctx.set(dut.ar.valid, 1)
        assert ctx.get(dut.aw.ready) and ctx.get(dut.ar.ready)
        assert not ctx.get(dut.w.ready)
        await ctx.tick()
        ctx.set(dut.inside.w.ready, 1)
        assert not ctx.get(dut.aw.ready) and not ctx.get(dut.ar.ready)
        assert ctx.get(dut.inside.aw.valid) and ctx.get(dut.inside.w.valid) and ctx.get(dut.w.ready)
        assert ctx.get(dut.outside.ar.valid) and not ctx.get(dut.outside.aw.valid)
        ctx.set(dut.inside.b.valid, 1)
        ctx.set(dut.outside.r.valid, 1)
        ctx.set(dut.inside.r.valid, 0)
        ctx.set(dut.b.ready, 1)
        assert ctx.get(dut.b.valid) and ctx.get(dut.r.valid)
        assert ctx.get(dut.inside.b.ready) and not ctx.get(dut.outside.b.ready)
        await ctx.tick()
        assert ctx.get(dut.aw.ready) and not ctx.get(dut.ar.ready)
    simulate(dut, bench)


@pytest.mark.parametrize("window", [-1, 16, None])
def test_bad_windows_are_refused_with_their_value(window):
    with pytest.raises(ValueError, match=f"not {window!r}"):
        AxilSplit(window=window)
