"""AXI turns: one burst at a time, only when it may begin, and nothing of the next burst in it."""

import random

import pytest

from axi_slave_agent import AxiSlaveAgent
from host_agents import late_taker
from memory_agents import monitor, sender, taker, wait_until
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.axi_turns import AxiTurns

CONFIG = NodeConfig.preset("tiny")
CHANNELS = ("aw", "w", "b", "ar", "r")


class Turns:
    """What a cycle must look like, from what passed in the cycles before it."""

    def __init__(self):
        self.turn, self.addressed, self.left = None, False, 0

    def opened(self):
        """Channels that are connected."""
        return {"aw": self.turn == "write" and not self.addressed,
                "w": self.turn == "write" and self.left > 0,
                "b": self.turn == "write",
                "ar": self.turn == "read" and not self.addressed,
                "r": self.turn == "read"}

    def step(self, free, asks, passed, beats, last):
        """After a cycle: who asks at AW and AR, the channels on which something passed, the beats
        of the burst at AW, and whether R was a burst's last."""
        if self.turn is None:
            if free and (asks["aw"] or asks["ar"]):
                self.turn = "write" if asks["aw"] else "read"
                self.addressed, self.left = False, beats
            return
        self.addressed |= passed["aw"] or passed["ar"]
        self.left -= passed["w"]
        if passed["b"] or passed["r"] and last:
            self.turn = None


def watch(dut, turns):
    """A background bench that compares each cycle with ``turns``, which notes the turns' kinds."""
    async def bench(ctx):
        model = Turns()
        cycle = 0
        signals = [signal for name in CHANNELS for port in (f"i_{name}", name)
                   for signal in (getattr(dut, port).valid, getattr(dut, port).ready,
                                  getattr(dut, port).payload.as_value())]
        async for _, _, turn, free, length, last, *bits in ctx.tick().sample(
                dut.turn, dut.free, dut.i_aw.payload.len, dut.r.payload.last, *signals):
            where = f"cycle {cycle}, turn {model.turn}"
            assert turn == (model.turn is not None), where
            asks, passed = {}, {}
            for number, (name, opened) in enumerate(model.opened().items()):
                master, slave = bits[6 * number:][:3], bits[6 * number + 3:][:3]
                source, sink = (slave, master) if name in ("b", "r") else (master, slave)
                assert sink[0] == (source[0] and opened), f"{where}: valid of {name}"
                assert source[1] == (sink[1] and opened), f"{where}: ready of {name}"
                assert not sink[0] or sink[2] == source[2], f"{where}: payload of {name}"
                asks[name] = source[0]
                passed[name] = sink[0] and sink[1]
            before = model.turn
            model.step(free, asks, passed, length + 1, last)
            if before is None and model.turn:
                turns.append((cycle + 1, model.turn))
            cycle += 1
    return bench


def random_bursts(rng, count):
    """(address payload, W payloads) of bursts of whole beats."""
    bursts = []
    for _ in range(count):
        beats = rng.choice([1, 1, 2, rng.randrange(1, 9)])
        address = {"id": rng.randrange(1 << CONFIG.id_width), "addr": 64 * rng.randrange(1 << 12),
                   "len": beats - 1, "size": CONFIG.beat_shift, "burst": 1,
                   "user": rng.randrange(1 << CONFIG.user_width)}
        words = [{"data": rng.randrange(1 << CONFIG.data_width),
                  "strb": rng.randrange(1 << CONFIG.beat_bytes), "last": int(at == beats - 1)}
                 for at in range(beats)]
        bursts.append((address, words))
    return bursts


def toggle(signal, rng, share):
    """A background bench: high now and then."""
    async def bench(ctx):
        async for _ in ctx.tick():
            ctx.set(signal, rng.random() < share)
    return bench


@pytest.mark.parametrize("pace, share", [(1.0, 1.0), (0.5, 0.3), (0.2, 1.0), (0.9, 0.6)])
@pytest.mark.parametrize("seed", range(2))
def test_random_bursts_take_turns(seed, pace, share):
    """The master sends addresses, and data before their addresses, as fast as they are taken."""
    rng = random.Random(seed)
    dut = AxiTurns(config=CONFIG)
    writes, reads = random_bursts(rng, 30), random_bursts(rng, 30)
    bad = {address["addr"] for address, _ in rng.sample(writes + reads, 10)}
    slave = AxiSlaveAgent(
        CONFIG, dut, rng, pace=pace, bad=bad, read=lambda address: address * 0x9E3779B1 % (1 << 32),
        read_latency=lambda: rng.randrange(1, 6), write_latency=lambda: rng.randrange(1, 6))
    turns, answers, beats = [], [], []

    def finished():
        return len(answers) == len(writes) and sum(beat.last for _, beat in beats) == len(reads)

    async def wait(ctx):
        await wait_until(ctx, finished, cycles=10000, what=lambda: (
            f"seed {seed}: {len(answers)} writes, {len(beats)} beats read"))

    # What has been written is not read: which of them comes first is up to the paces.
    simulate(dut, wait, background=[
        watch(dut, turns), toggle(dut.free, rng, share),
        sender(dut.i_aw, [address for address, _ in writes], rng=rng, pace=pace),
        sender(dut.i_w, [word for _, words in writes for word in words], rng=rng, pace=pace),
        sender(dut.i_ar, [address | {"addr": address["addr"] | 1 << 20} for address, _ in reads],
               rng=rng, pace=pace),
        taker(dut.i_b, rng=rng, pace=pace), taker(dut.i_r, rng=rng, pace=pace),
        monitor(dut.i_b, answers), monitor(dut.i_r, beats), *slave.benches()])
    assert [(at, beats, user) for _, at, beats, user in slave.writes] == [
        (address["addr"], address["len"] + 1, address["user"]) for address, _ in writes]
    assert [data for _, data in slave.beats] == [
        word["data"] for _, words in writes for word in words]
    assert [(answer.id, answer.resp) for _, answer in answers] == [
        (address["id"], 2 * (address["addr"] in bad)) for address, _ in writes]
    assert [(beat.id, beat.data, beat.last) for _, beat in beats] == [
        (address["id"], slave.read((address["addr"] | 1 << 20) + CONFIG.beat_bytes * at),
         int(at == address["len"]))
        for address, _ in reads for at in range(address["len"] + 1)]
    assert len(turns) == len(writes) + len(reads)


def test_writes_go_before_reads():
    rng = random.Random(1)
    dut = AxiTurns(config=CONFIG)
    writes, reads = random_bursts(rng, 10), random_bursts(rng, 3)
    turns = []
    slave = AxiSlaveAgent(CONFIG, dut, rng)

    async def wait(ctx):
        ctx.set(dut.i_b.ready, 1)
        ctx.set(dut.i_r.ready, 1)
        await ctx.tick().repeat(10)
        assert not turns, "a turn began that was not free"
        ctx.set(dut.free, 1)
        await wait_until(ctx, lambda: len(slave.read_ends) == 3, cycles=1000,
                         what=lambda: f"{turns}")

    simulate(dut, wait, background=[
        watch(dut, turns),
        sender(dut.i_aw, [address for address, _ in writes]),
        sender(dut.i_w, [word for _, words in writes for word in words]),
        sender(dut.i_ar, [address for address, _ in reads]), *slave.benches()])
    assert [kind for _, kind in turns] == ["write"] * 10 + ["read"] * 3


@pytest.mark.parametrize("write", [0, 1])
def test_latency_and_throughput(write):
    """One cycle for an address and two from a burst's last answer to the next address; the slave
    takes one from address and data to the answer."""
    rng = random.Random(2)
    dut = AxiTurns(config=CONFIG)
    bursts = random_bursts(rng, 20)
    slave = AxiSlaveAgent(CONFIG, dut, rng)
    names = ("i_aw", "i_w") if write else ("i_ar",)
    addresses = [address for address, _ in bursts]
    payloads = {"i_aw": addresses, "i_ar": addresses,
                "i_w": [word for _, words in bursts for word in words]}

    async def wait(ctx):
        ctx.set(dut.free, 1)
        ctx.set(dut.i_b.ready, 1)
        ctx.set(dut.i_r.ready, 1)
        ends = slave.answers if write else slave.read_ends
        await wait_until(ctx, lambda: len(ends) == len(bursts), cycles=1000,
                         what=lambda: f"{len(ends)} bursts")

    simulate(dut, wait, background=[
        *(sender(getattr(dut, name), payloads[name]) for name in names), *slave.benches()])
    starts = [start for start, *_ in (slave.writes if write else slave.reads)]
    ends = slave.answers if write else slave.read_ends
    assert starts == [1] + [end + 2 for end in ends[:-1]]
    assert [end - start for start, end in zip(starts, ends)] == [
        address["len"] + 1 for address, _ in bursts]


@pytest.mark.parametrize("lasts", ["100", "000", "010"])
def test_a_wrong_wlast_neither_hangs_the_turn_nor_ends_it(lasts):
    """The slave, which refuses such a burst, has all its beats, and not the next burst's."""
    dut = AxiTurns(config=CONFIG)
    beats = []

    async def bench(ctx):
        ctx.set(dut.free, 1)
        ctx.set(dut.aw.ready, 1)
        ctx.set(dut.w.ready, 1)
        ctx.set(dut.i_b.ready, 1)
        await ctx.tick().repeat(10)
        ctx.set(dut.b.valid, 1)
        await ctx.tick()
        ctx.set(dut.b.valid, 0)
        await ctx.tick().repeat(5)

    simulate(dut, bench, background=[
        sender(dut.i_aw, [{"len": 2}]), monitor(dut.w, beats),
        sender(dut.i_w, [{"data": at, "last": int(last)}
                         for at, last in enumerate(lasts + "111")])])
    assert [beat.data for _, beat in beats] == [0, 1, 2]


def test_no_valid_waits_for_its_ready():
    """A slave, and a master, that are ready only where something is offered."""
    rng = random.Random(3)
    dut = AxiTurns(config=CONFIG)
    (address, words), = random_bursts(rng, 1)
    done = {"aw": [], "w": [], "ar": [], "i_b": [], "i_r": []}

    async def bench(ctx):
        ctx.set(dut.free, 1)
        for name, answer in (("w", dut.b), ("ar", dut.r)):
            await wait_until(ctx, lambda: len(done[name]) == len(words if name == "w" else "a"),
                             cycles=200, what=lambda: f"{done}")
            ctx.set(answer.payload, {"resp": 0} if name == "w" else {"last": 1})
            ctx.set(answer.valid, 1)
            await ctx.tick().until(answer.ready)
            ctx.set(answer.valid, 0)
        await ctx.tick()

    simulate(dut, bench, background=[
        sender(dut.i_aw, [address]), sender(dut.i_w, words), sender(dut.i_ar, [address]),
        *(late_taker(getattr(dut, name), rng=rng, pace=0.5) for name in done),
        *(monitor(getattr(dut, name), log) for name, log in done.items())])
    assert {name: len(log) for name, log in done.items()} == {
        "aw": 1, "w": len(words), "ar": 1, "i_b": 1, "i_r": 1}
