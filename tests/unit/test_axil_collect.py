"""The first half of a write: address and word in any order, one of each, and the right register."""

import random

import pytest
from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from memory_agents import monitor, sender
from simulation import simulate
from t3hw.hdl.axil_collect import collect_write
from t3hw.hdl.seams import axil_address, axil_write_data
from t3hw.registers import map as node_map, traffic_map
from t3hw.registers.description import Register

#: Offsets that differ in one bit; one register that nobody can write.
FEW = {
    "ZERO": Register(0x00, "rw", 0, {}), "FOUR": Register(0x04, "wo", 0, {}),
    "EIGHT": Register(0x08, "ro", 0, {}), "TWELVE": Register(0x0C, "w1c", 0, {}),
    "FAR": Register(0x4C, "wclr", 0, {}),
}
MAPS = {"few": FEW, "one": {"ONLY": Register(0x00, "rw", 0, {})}, "node": node_map.REGISTERS,
        "traffic": traffic_map.REGISTERS}


class Collector(wiring.Component):
    """A slave of nothing but the first half; who answers is the test, with ``done``."""

    def __init__(self, registers):
        self._registers = registers
        self.writable = [name for name, register in registers.items() if register.access != "ro"]
        super().__init__({
            "aw": In(stream.Signature(axil_address)),
            "w": In(stream.Signature(axil_write_data)),
            "running": In(1),
            "done": In(1),
            "address": Out(20),
            "word": Out(32),
            "have_address": Out(1),
            "have_word": Out(1),
            "whole": Out(1),
            "hits": Out(len(self.writable)),
        })

    def elaborate(self, platform):
        m = Module()

        write = collect_write(m, self, self.running, self._registers)
        assert list(write.hits) == self.writable
        m.d.comb += [getattr(self, name).eq(getattr(write, name)) for name in (
            "address", "word", "have_address", "have_word", "whole")]
        m.d.comb += [self.hits[at].eq(hit) for at, hit in enumerate(write.hits.values())]
        with m.If(self.done):
            m.d.sync += [write.have_address.eq(0), write.have_word.eq(0)]

        return m


def random_address(rng, registers):
    """A register's address, mostly; or one that differs from it in a bit, or any."""
    address = rng.choice(list(registers.values())).offset
    kind = rng.random()
    if kind < 0.4:
        address ^= 1 << rng.randrange(20)
    return rng.randrange(1 << 20) if kind > 0.9 else address


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("pace", [1.0, 0.3])
def test_random_writes(name, pace):
    """What is shown in each cycle; after both have come the answer is as late as it likes."""
    seed = len(name) + round(10 * pace)
    print("seed", seed)
    rng = random.Random(seed)
    registers = MAPS[name]
    dut = Collector(registers)
    count = 150
    addresses = [random_address(rng, registers) for _ in range(count)]
    words = [(rng.randrange(1 << 32), rng.choice([0xF, 0xF, 0xF, rng.randrange(16)]))
             for _ in range(count)]
    writes = []

    def expected(address, strobe):
        """``whole`` and ``hits`` of a write."""
        hits = sum(1 << at for at, known in enumerate(dut.writable)
                   if registers[known].offset == address)
        return int(strobe == 0xF and address % 4 == 0), hits

    async def bench(ctx):
        # Address, and word with strobe, since the last answer; and what they were a cycle ago.
        address = word = None
        before = (None, None)
        for cycle in range(6000):
            where = f"seed {seed}, cycle {cycle}"
            running = rng.random() < 0.8
            both = address is not None and word is not None
            done = both and before == (address, word) and rng.random() < 0.5
            ctx.set(dut.running, running)
            ctx.set(dut.done, done)
            _, _, *seen = await ctx.tick().sample(
                dut.aw.valid, dut.aw.ready, dut.aw.payload.addr, dut.w.valid, dut.w.ready,
                dut.w.payload, dut.have_address, dut.have_word, dut.address, dut.word, dut.whole,
                dut.hits)
            (aw_valid, aw_ready, aw, w_valid, w_ready, w, have_address, have_word, its_address,
             its_word, whole, hits) = seen
            assert have_address == (address is not None) and have_word == (word is not None), where
            assert aw_ready == (running and not have_address), where
            assert w_ready == (running and not have_word), where
            if have_address:
                assert its_address == address, where
            if have_word:
                assert its_word == word[0], where
            if both and before == (address, word):
                assert (whole, hits) == expected(address, word[1]), where
            before = (address, word)
            if aw_valid and aw_ready:
                address = aw
            if w_valid and w_ready:
                word = (w.data, w.strb)
            if done:
                writes.append((address, word))
                address, word, before = None, None, (None, None)
                if len(writes) == count:
                    return
        pytest.fail(f"seed {seed}: {len(writes)} of {count} writes after {cycle} cycles")

    simulate(dut, bench, background=[
        sender(dut.aw, [{"addr": address} for address in addresses], rng=rng, pace=pace),
        sender(dut.w, [{"data": word, "strb": strobe} for word, strobe in words], rng=rng,
               pace=pace),
        monitor(dut.aw, []), monitor(dut.w, [])])
    assert writes == list(zip(addresses, words))


@pytest.mark.parametrize("name", MAPS)
def test_each_register_alone_is_hit_and_only_at_its_own_address(name):
    registers = MAPS[name]
    dut = Collector(registers)

    async def bench(ctx):
        ctx.set(dut.running, 1)
        for register in registers.values():
            for address in (register.offset, *(register.offset ^ 1 << bit for bit in range(20))):
                ctx.set(dut.aw.payload.addr, address)
                ctx.set(dut.aw.valid, 1)
                ctx.set(dut.done, 1)
                await ctx.tick()
                await ctx.tick()
                ctx.set(dut.aw.valid, 0)
                hits = ctx.get(dut.hits)
                assert [known for at, known in enumerate(dut.writable) if hits >> at & 1] == [
                    known for known in dut.writable if registers[known].offset == address]

    simulate(dut, bench)


@pytest.mark.parametrize("first", ["aw", "w", "both"])
def test_latency(first):
    """Each is there in the cycle after it came, ``whole`` and ``hits`` in the one after both."""
    dut = Collector(FEW)

    async def bench(ctx):
        ctx.set(dut.running, 1)
        ctx.set(dut.aw.payload.addr, 0x4C)
        ctx.set(dut.w.payload, {"data": 0x12345678, "strb": 0xF})
        for channels in {"aw": ("aw", "w"), "w": ("w", "aw"), "both": (("aw", "w"),)}[first]:
            for channel in [channels] if isinstance(channels, str) else channels:
                ctx.set(getattr(dut, channel).valid, 1)
            await ctx.tick()
            ctx.set(dut.aw.valid, 0)
            ctx.set(dut.w.valid, 0)
            assert ctx.get(dut.have_address) or channels == "w"
            assert ctx.get(dut.have_word) or channels == "aw"
        assert (ctx.get(dut.address), ctx.get(dut.word)) == (0x4C, 0x12345678)
        # The comparison has a cycle of its own, behind what came last.
        assert not ctx.get(dut.hits) >> dut.writable.index("FAR") & 1 or first == "aw"
        assert not ctx.get(dut.whole) or first == "w"
        await ctx.tick()
        assert (ctx.get(dut.whole), ctx.get(dut.hits)) == (1, 1 << dut.writable.index("FAR"))

    simulate(dut, bench)


def test_nothing_is_taken_before_running():
    dut = Collector(FEW)

    async def bench(ctx):
        ctx.set(dut.aw.valid, 1)
        ctx.set(dut.w.valid, 1)
        for _ in range(5):
            assert not ctx.get(dut.aw.ready) and not ctx.get(dut.w.ready)
            await ctx.tick()
            assert not ctx.get(dut.have_address) and not ctx.get(dut.have_word)

    simulate(dut, bench)
