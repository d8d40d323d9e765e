"""Every address of the traffic registers answers as their map says, whatever the bus does."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from memory_agents import monitor
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.seams import Dtype
from t3hw.hdl.traffic_registers import TrafficRegisters, collective_results
from t3hw.registers.traffic import (
    MAP_HASH, REGISTERS, TABLES, decode_register, encode_entry, encode_register, entry_address,
    register_address)

CONFIG = NodeConfig.preset("tiny").replace(data_width=64, addr_width=40)
OKAY, SLVERR = 0, 2
ALL = 0xFFFFFFFF
SIZES = {"units": 100, "stages": 20, "steps": 10}


class Bus:
    """AXI4-Lite master with random delays, or none, and time-outs in cycles."""

    def __init__(self, ctx, dut, rng, eager):
        self.ctx, self.dut, self.rng, self.eager = ctx, dut, rng, eager

    def delay(self):
        return 0 if self.eager else self.rng.choice([0, 0, 1, 4])

    async def _access(self, channels, answer):
        """Hand over (channel, payload) pairs, each after a delay; returns the answer and when it
        came behind the last of them."""
        ctx = self.ctx
        waits = [[channel, payload, self.delay()] for channel, payload in channels]
        behind = 0
        take = self.delay()
        for _cycle in range(300):
            for channel, payload, delay in waits:
                ctx.set(channel.payload, payload)
                ctx.set(channel.valid, delay <= 0)
            taken = [wait for wait in waits if wait[2] <= 0 and ctx.get(wait[0].ready)]
            valid = ctx.get(answer.valid)
            assert not (valid and waits), "answered before it was asked"
            ctx.set(answer.ready, valid and take <= 0)
            done = valid and take <= 0
            result = ctx.get(answer.payload)
            await ctx.tick()
            for wait in waits:
                wait[2] -= 1
            for wait in taken:
                ctx.set(wait[0].valid, 0)
                waits.remove(wait)
            if done:
                ctx.set(answer.ready, 0)
                return result, behind
            take -= valid
            behind += not waits
        pytest.fail("no answer in 300 cycles")

    async def write(self, address, word, strobe=0xF):
        """Returns the response."""
        dut = self.dut
        answer, self.latency = await self._access(
            [(dut.aw, {"addr": address}), (dut.w, {"data": word, "strb": strobe})], dut.b)
        return answer.resp

    async def read(self, address):
        """Returns (response, word)."""
        answer, self.latency = await self._access([(self.dut.ar, {"addr": address})], self.dut.r)
        return answer.resp, answer.data

    async def set(self, name, **fields):
        assert await self.write(
            register_address(name), encode_register(name, **fields)) == OKAY, name

    async def get(self, name):
        response, word = await self.read(register_address(name))
        assert response == OKAY, name
        return decode_register(name, word)


def run(function, seed=1, eager=False, background=(), reset=None, sizes=SIZES):
    """Run ``function(ctx, bus, dut)``; ``background`` benches are made from the component."""
    print("seed", seed)
    dut = TrafficRegisters(config=CONFIG, **sizes)

    async def bench(ctx):
        await ctx.tick()
        await function(ctx, Bus(ctx, dut, random.Random(seed), eager), dut)
    simulate(dut if reset is None else ResetInserter(reset)(dut), bench,
             background=[make(dut) for make in background])


def initial(name):
    """What a register reads as after reset, if nothing is shown at the inputs."""
    constant = {"MAP_HASH": MAP_HASH, "CAP_GEMM": SIZES["units"] | SIZES["stages"] << 16,
                "CAP_COLLECTIVE": SIZES["steps"]}
    return constant.get(name, REGISTERS[name].reset or 0)


def test_registers_of_a_collective_engine_that_is_not_there():
    """Each address of it answers as one without a register, and all others as ever."""
    there = {name for name in REGISTERS if not name.startswith("COLLECTIVE_")}

    async def bench(ctx, bus, dut):
        for name, register in REGISTERS.items():
            if register.access == "wo" or name == "READ_DATA":
                continue
            expected = {"CAP_COLLECTIVE": 0}.get(name, initial(name))
            assert await bus.read(register.offset) == (
                (OKAY, expected) if name in there else (SLVERR, 0)), name
        for name, register in REGISTERS.items():
            if register.access in ("rw", "wo") and name not in there:
                assert await bus.write(register.offset, 1) == SLVERR, name
            assert not ctx.get(dut.collective_start)
        assert await bus.write(entry_address("COLLECTIVE_STEP", 0, 0), 0) == SLVERR
        await bus.set("GEMM_SEED", seed=5)
        assert (await bus.get("GEMM_SEED"))["seed"] == 5

    run(bench, eager=True, sizes=SIZES | {"steps": 0})


def test_every_address_after_reset():
    places = {register.offset: name for name, register in REGISTERS.items()}

    async def bench(ctx, bus, dut):
        for address in range(0x10000, 0x10400, 4):
            name = places.get(address)
            # There is no memory here.
            if name == "READ_DATA":
                continue
            response, word = await bus.read(address)
            if name is None or REGISTERS[name].access == "wo":
                assert (response, word) == (SLVERR, 0), hex(address)
            else:
                assert (response, word) == (OKAY, initial(name)), name
        for address in (0x10001, 0x10106, 0x11000, 0x12000, 0x1FFFC, 0x0, 0x20100):
            assert (await bus.read(address))[0] == SLVERR, hex(address)

    run(bench, eager=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_registers_that_can_be_written(seed):
    """Whole, within limits, while nothing is busy; and they reach their ports."""
    rng = random.Random(seed)
    values = {}

    async def bench(ctx, bus, dut):
        writable = [name for name, register in REGISTERS.items() if register.access == "rw"]
        for name in rng.sample(writable, len(writable)):
            fields = {key: rng.getrandbits(field.width)
                      for key, field in REGISTERS[name].fields.items()}
            if name == "GEMM_UNITS":
                fields["units"] %= SIZES["units"] + 1
            if name == "COLLECTIVE_STEPS":
                fields["steps"] %= SIZES["steps"] + 1
            if name.endswith("_HI"):
                fields["value"] &= 0xFF
            address, word = register_address(name), encode_register(name, **fields)
            before = (await bus.read(address))[1]
            for strobe in (0x7, 0xE, 0x0):
                assert await bus.write(address, word, strobe) == SLVERR
            assert await bus.write(address + 1, word) == SLVERR
            assert (await bus.read(address))[1] == before
            assert await bus.write(address, word) == OKAY
            assert await bus.get(name) == fields
            values[name] = fields
        gemm = ctx.get(dut.gemm)
        for key in ("units", "workgroups", "first_workgroup", "chunk_workgroups", "steps",
                    "step_cycles", "workgroup_bytes", "seed"):
            assert gemm[key] == values[f"GEMM_{key.upper()}"][key]
        for register in ("GEMM_READS", "GEMM_TILES"):
            assert all(gemm[key] == value for key, value in values[register].items())
        assert gemm.and_mask == values["GEMM_AND_MASK"]["mask"]
        assert gemm.or_mask == values["GEMM_OR_MASK"]["mask"]
        for key in ("base", "read_base"):
            assert gemm[key] == (values[f"GEMM_{key.upper()}_HI"]["value"] << 32
                                 | values[f"GEMM_{key.upper()}_LO"]["value"])
        collective = ctx.get(dut.collective)
        assert collective.steps == values["COLLECTIVE_STEPS"]["steps"]
        assert collective.burst == values["COLLECTIVE_BURST"]["beats"]
        assert collective.dtype == Dtype(values["COLLECTIVE_BURST"]["dtype"])
        assert collective.expected == values["COLLECTIVE_EXPECTED"]["beats"]
    run(bench, seed=seed)


def test_writes_to_what_cannot_be_written_and_beyond_limits_are_refused():
    async def bench(ctx, bus, dut):
        for name, register in REGISTERS.items():
            if register.access == "ro":
                assert await bus.write(register.offset, ALL) == SLVERR, name
        for name, word in (("GEMM_UNITS", SIZES["units"] + 1), ("GEMM_BASE_HI", 0x100),
                           ("GEMM_READ_BASE_HI", 0x100), ("READ_ADDRESS_HI", 0x100),
                           ("COLLECTIVE_STEPS", SIZES["steps"] + 1)):
            assert await bus.write(register_address(name), word) == SLVERR, name
            assert (await bus.read(register_address(name)))[1] == 0
            assert await bus.write(register_address(name), word - 1) == OKAY, name
        for address in (0x10018, 0x10148, 0x1030C, 0x1FFFC, 0x20108):
            assert await bus.write(address, 0) == SLVERR, hex(address)
    run(bench, eager=True)


def test_tables():
    """Entries of this node pass, others do not, nor addresses beyond its width."""
    stages, steps = [], []

    async def bench(ctx, bus, dut):
        wanted_stages, wanted_steps = [], []
        for entry in (0, 7, SIZES["stages"] - 1):
            reads = bus.rng.getrandbits(16)
            assert await bus.write(entry_address("GEMM_STAGE", entry), reads) == OKAY
            wanted_stages.append({"index": entry, "reads": reads})
        for entry in (0, 3, SIZES["steps"] - 1):
            fields = {"source_a": bus.rng.getrandbits(40), "source_b": (1 << 40) - 1,
                      "destination": bus.rng.getrandbits(40), "beats": bus.rng.getrandbits(24),
                      "add": bus.rng.getrandbits(1), "wait": bus.rng.getrandbits(1)}
            for word, value in enumerate(encode_entry("COLLECTIVE_STEP", **fields)):
                assert await bus.write(entry_address("COLLECTIVE_STEP", entry, word), value) == OKAY
                wanted_steps.append({"entry": entry, "word": word, "data": value})
        for address in (entry_address("GEMM_STAGE", SIZES["stages"]),
                        entry_address("COLLECTIVE_STEP", SIZES["steps"]),
                        TABLES["COLLECTIVE_STEP"].base + 7 * 4, TABLES["GEMM_STAGE"].base + 2,
                        TABLES["GEMM_STAGE"].base + 256 * 4):
            assert await bus.write(address, 0) == SLVERR, hex(address)
        for word in (2, 4, 6):
            assert await bus.write(entry_address("COLLECTIVE_STEP", 1, word), 0x100) == SLVERR
        assert await bus.write(entry_address("COLLECTIVE_STEP", 1), 0, 0x7) == SLVERR
        # A word too large for one table is none for another, nor for a register.
        assert await bus.write(entry_address("GEMM_STAGE", 4), 0x100) == OKAY
        wanted_stages.append({"index": 4, "reads": 0x100})
        for log, wanted in ((stages, wanted_stages), (steps, wanted_steps)):
            assert [{key: payload[key] for key in wanted[0]} for _, payload in log] == wanted
    run(bench, background=[lambda dut: monitor(dut.stage, stages),
                           lambda dut: monitor(dut.step, steps)])


def pulses(log):
    """A background bench that logs (gemm_start, collective_start, collective_clear) of a cycle."""
    def make(dut):
        async def bench(ctx):
            async for _, _, *seen in ctx.tick().sample(dut.gemm_start, dut.collective_start,
                                                       dut.collective_clear):
                if any(seen):
                    log.append(tuple(seen))
        return bench
    return make


def test_starts_and_locks():
    log = []
    gemm, collective = (register_address(f"{name}_CONTROL") for name in ("GEMM", "COLLECTIVE"))

    async def bench(ctx, bus, dut):
        assert await bus.write(gemm, 1) == SLVERR           # not legal
        assert await bus.write(gemm, 0) == OKAY
        ctx.set(dut.gemm_status.legal, 1)
        assert await bus.write(gemm, 1) == OKAY
        assert await bus.write(collective, 3) == SLVERR
        assert await bus.write(collective, 2) == OKAY
        assert await bus.write(collective, 1) == OKAY
        assert log == [(1, 0, 0), (0, 0, 1), (0, 1, 0)]
        log.clear()
        for busy in ("gemm", "collective"):
            ctx.set(getattr(dut, f"{busy}_status").busy, 1)
            assert await bus.write(gemm, 1) == SLVERR
            assert await bus.write(collective, 1) == SLVERR
            assert (await bus.read(register_address("READ_DATA")))[0] == SLVERR
            for name in REGISTERS:
                if REGISTERS[name].access == "rw":
                    locked = name.startswith(busy.upper())
                    response = await bus.write(register_address(name), 0)
                    assert response == (SLVERR if locked else OKAY), (busy, name)
            for table, owner in (("GEMM_STAGE", "gemm"), ("COLLECTIVE_STEP", "collective")):
                response = await bus.write(entry_address(table, 0), 0)
                assert response == (SLVERR if owner == busy else OKAY)
            assert await bus.write(collective, 2) == OKAY
            ctx.set(getattr(dut, f"{busy}_status").busy, 0)
        assert log == [(0, 0, 1)] * 2
    run(bench, background=[pulses(log)])


def test_status_and_measurements():
    async def bench(ctx, bus, dut):
        for engine in ("gemm", "collective"):
            for bit in ("busy", "error") + (("legal",) if engine == "gemm" else ()):
                ctx.set(getattr(dut, f"{engine}_status")[bit], 1)
                status = await bus.get(f"{engine.upper()}_STATUS")
                assert {key for key, value in status.items() if value} == {bit}
                ctx.set(getattr(dut, f"{engine}_status")[bit], 0)
        values = {key: bus.rng.getrandbits(width) for key, width in (
            ("cycles", 32), ("first_store", 32), ("last_store", 32), ("read_wait", 48),
            ("read_beats", 32), ("write_beats", 32), ("store_stall", 32))}
        ctx.set(dut.gemm_results, values)
        wait = values.pop("read_wait")
        for key, value in values.items():
            assert await bus.get(f"GEMM_{key.upper()}") == {"value": value}
        assert await bus.get("GEMM_READ_WAIT_LO") == {"value": wait & ALL}
        assert await bus.get("GEMM_READ_WAIT_HI") == {"value": wait >> 32}
        values = {key: bus.rng.getrandbits(32) for key in collective_results.members}
        ctx.set(dut.collective_results, values)
        for key, value in values.items():
            assert await bus.get(f"COLLECTIVE_{key.upper()}") == {"value": value}
    run(bench)


@pytest.mark.parametrize("engine", ["gemm", "collective"])
@pytest.mark.parametrize("at", range(8))
def test_no_event_is_lost_to_a_clear_near_it(engine, at):
    """The event in any cycle of a write that clears it: it is pending afterwards or was cleared
    after it had been seen."""
    bit = f"{engine}_done"

    async def bench(ctx, bus, dut):
        await bus.set("IRQ_ENABLE", **{bit: 1})
        status = getattr(dut, f"{engine}_status")
        seen = []
        writes = ctx.get(dut.b.valid)
        assert not writes
        ctx.set(dut.aw.payload.addr, register_address("IRQ_STATUS"))
        ctx.set(dut.w.payload, {"data": encode_register("IRQ_STATUS", **{bit: 1}), "strb": 0xF})
        ctx.set(dut.aw.valid, 1)
        ctx.set(dut.w.valid, 1)
        ctx.set(dut.b.ready, 1)
        for cycle in range(12):
            ctx.set(status.done, cycle == at)
            await ctx.tick()
            ctx.set(dut.aw.valid, 0)
            ctx.set(dut.w.valid, 0)
            seen.append(ctx.get(dut.irq))
        ctx.set(dut.b.ready, 0)
        # The write takes effect in its third cycle; what comes in that cycle or later stays.
        assert seen[-1] == (at >= 3), at
        assert any(seen) or at in (2, 3)
        assert await bus.get("IRQ_STATUS") == {
            "gemm_done": 0, "collective_done": 0} | {bit: seen[-1]}
        await bus.set("IRQ_STATUS", gemm_done=1, collective_done=1)
        await ctx.tick()
        assert not ctx.get(dut.irq)
    run(bench, eager=True)


def test_only_what_is_enabled_interrupts():
    async def bench(ctx, bus, dut):
        for engine in ("gemm", "collective"):
            ctx.set(getattr(dut, f"{engine}_status").done, 1)
        await ctx.tick()
        for engine in ("gemm", "collective"):
            ctx.set(getattr(dut, f"{engine}_status").done, 0)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.irq)
        await bus.set("IRQ_ENABLE", collective_done=1)
        await bus.set("IRQ_STATUS", gemm_done=1)
        assert await bus.get("IRQ_STATUS") == {"gemm_done": 0, "collective_done": 1}
        assert ctx.get(dut.irq)
        await bus.set("IRQ_ENABLE", gemm_done=1)
        await ctx.tick()
        assert not ctx.get(dut.irq)
    run(bench)


class MemoryAgent:
    """Answers a read at a time: data by address, an error for the last beats of memory."""

    def __init__(self, rng, limit):
        self.rng, self.limit, self.asked = rng, limit, []

    def make(self, dut):
        async def bench(ctx):
            answer_in = None
            async for _, _, valid, ready, burst, taken, reading in ctx.tick().sample(
                    dut.memory_ar.valid, dut.memory_ar.ready, dut.memory_ar.payload,
                    dut.memory_r.ready, dut.reading):
                if valid and ready:
                    assert reading and answer_in is None
                    assert (burst.len, 1 << burst.size, burst.burst) == (0, CONFIG.beat_bytes, 1)
                    self.asked.append(burst.addr)
                    answer_in = self.rng.randrange(5)
                elif answer_in is not None:
                    answer_in -= 1
                    if answer_in < -1 and taken:
                        answer_in = None
                ctx.set(dut.memory_ar.ready, answer_in is None and self.rng.random() < 0.5)
                if answer_in == -1:
                    ctx.set(dut.memory_r.payload, {
                        "data": self.beat(self.asked[-1]), "last": 1,
                        "resp": SLVERR if self.asked[-1] >= self.limit else OKAY})
                ctx.set(dut.memory_r.valid, answer_in is not None and answer_in < 0)
        return bench

    @staticmethod
    def beat(address):
        return (address + 4) * 0x9E37 % (1 << 32) << 32 | address * 0x9E37 % (1 << 32)


def test_memory_is_read_word_after_word():
    memory = MemoryAgent(random.Random(5), limit=0x2_0000_0010)

    async def bench(ctx, bus, dut):
        start = 0x1_FFFF_FFF4
        await bus.set("READ_ADDRESS_LO", value=(start & ALL) | 2)
        await bus.set("READ_ADDRESS_HI", value=start >> 32)
        place = register_address("READ_DATA")
        for address in range(start, 0x2_0000_0010, 4):
            assert await bus.read(place) == (OKAY, address * 0x9E37 % (1 << 32)), hex(address)
            assert memory.asked[-1] == address & ~7
        for _again in range(2):
            assert (await bus.read(place))[0] == SLVERR
        assert await bus.get("READ_ADDRESS_HI") == {"value": 2}
        assert await bus.get("READ_ADDRESS_LO") == {"value": 0x12}
        assert len(memory.asked) == 7 + 2
    run(bench, background=[memory.make])


def test_a_read_that_waits_for_its_answer_acts_once():
    memory = MemoryAgent(random.Random(6), limit=1 << 40)

    async def bench(ctx, bus, dut):
        ctx.set(dut.ar.payload.addr, register_address("READ_DATA"))
        ctx.set(dut.ar.valid, 1)
        await ctx.tick().until(dut.ar.ready)
        ctx.set(dut.ar.valid, 0)
        await ctx.tick().repeat(60)
        assert ctx.get(dut.r.valid)
        ctx.set(dut.r.ready, 1)
        await ctx.tick()
        ctx.set(dut.r.ready, 0)
        assert await bus.get("READ_ADDRESS_LO") == {"value": 4}
        assert memory.asked == [0]
    run(bench, background=[memory.make])


@pytest.mark.parametrize("offset", range(-4, 5))
def test_an_engine_never_starts_while_memory_is_read(offset):
    """A start and a read of memory at any distance: the start waits, or the read is refused."""
    memory = MemoryAgent(random.Random(offset), limit=1 << 40)
    log = []

    def watch(dut):
        """The engine is busy from the cycle after its start on, as engines are."""
        async def bench(ctx):
            async for _, _, start, reading, busy in ctx.tick().sample(
                    dut.gemm_start, dut.reading, dut.gemm_status.busy):
                assert not (reading and (busy or start))
                if start:
                    ctx.set(dut.gemm_status.busy, 1)
        return bench

    async def bench(ctx, bus, dut):
        ctx.set(dut.gemm_status.legal, 1)
        ctx.set(dut.b.ready, 1)
        ctx.set(dut.r.ready, 1)
        answers = {}
        for cycle in range(-5, 80):
            for name, channels, at in (("b", (dut.aw, dut.w), 0), ("r", (dut.ar,), offset)):
                for channel in channels:
                    ctx.set(channel.valid, cycle == at)
            ctx.set(dut.aw.payload.addr, register_address("GEMM_CONTROL"))
            ctx.set(dut.w.payload, {"data": 1, "strb": 0xF})
            ctx.set(dut.ar.payload.addr, register_address("READ_DATA"))
            for name, channel in (("b", dut.b), ("r", dut.r)):
                if ctx.get(channel.valid):
                    answers[name] = ctx.get(channel.payload.resp)
            await ctx.tick()
        assert answers["b"] == OKAY and log == [(1, 0, 0)]
        assert (answers["r"] == OKAY) == (len(memory.asked) == 1)
    run(bench, background=[memory.make, watch, pulses(log)])


@pytest.mark.parametrize("offset", range(-6, 30, 2))
def test_an_address_that_is_written_while_memory_is_read_is_kept(offset):
    """The write waits for the read, or the read takes the new address;
    AR never changes its mind."""
    memory = MemoryAgent(random.Random(7), limit=1 << 40)

    def watch(dut):
        async def bench(ctx):
            before = None
            async for _, _, valid, ready, address in ctx.tick().sample(
                    dut.memory_ar.valid, dut.memory_ar.ready, dut.memory_ar.payload.addr):
                assert before is None or (valid and address == before)
                before = address if valid and not ready else None
        return bench

    async def bench(ctx, bus, dut):
        ctx.set(dut.b.ready, 1)
        ctx.set(dut.r.ready, 1)
        ctx.set(dut.aw.payload.addr, register_address("READ_ADDRESS_LO"))
        ctx.set(dut.w.payload, {"data": 0x104, "strb": 0xF})
        ctx.set(dut.ar.payload.addr, register_address("READ_DATA"))
        answers = {}
        for cycle in range(-6, 90):
            for channels, at in (((dut.aw, dut.w), offset), ((dut.ar,), 0)):
                for channel in channels:
                    ctx.set(channel.valid, cycle == at)
            for name, channel in (("b", dut.b), ("r", dut.r)):
                if ctx.get(channel.valid):
                    answers[name] = ctx.get(channel.payload)
            await ctx.tick()
        assert answers["b"].resp == answers["r"].resp == OKAY
        place, = memory.asked
        word = place + 4 if place else 0
        assert (place, answers["r"].data) in ((0, 0), (0x100, word * 0x9E37 % (1 << 32)))
        left = await bus.get("READ_ADDRESS_LO")
        assert left == {"value": 0x108 if place else 0x104}
    run(bench, background=[memory.make, watch])


def test_latency_and_throughput_are_as_stated():
    async def bench(ctx, bus, dut):
        await bus.set("GEMM_SEED", seed=5)
        assert bus.latency == 4
        await bus.get("GEMM_SEED")
        assert bus.latency == 3
        for channels, answer, cycles in (((dut.aw, dut.w), dut.b, 5), ((dut.ar,), dut.r, 4)):
            ctx.set(dut.aw.payload.addr, register_address("GEMM_SEED"))
            ctx.set(dut.w.payload, {"data": 1, "strb": 0xF})
            ctx.set(dut.ar.payload.addr, register_address("GEMM_SEED"))
            for channel in channels:
                ctx.set(channel.valid, 1)
            ctx.set(answer.ready, 1)
            answers = []
            for cycle in range(40):
                if ctx.get(answer.valid):
                    answers.append(cycle)
                await ctx.tick()
            for channel in channels:
                ctx.set(channel.valid, 0)
            await ctx.tick().repeat(6)
            ctx.set(answer.ready, 0)
            assert {later - earlier for earlier, later in zip(answers, answers[1:])} == {cycles}
    run(bench, eager=True)


@pytest.mark.parametrize("is_write", [True, False])
def test_an_access_that_waits_in_reset_is_answered_after_it(is_write):
    reset = Signal()

    async def bench(ctx, bus, dut):
        channels, answer = ((dut.aw, dut.w), dut.b) if is_write else ((dut.ar,), dut.r)
        ctx.set(reset, 1)
        ctx.set(dut.aw.payload.addr, register_address("GEMM_SEED"))
        ctx.set(dut.w.payload, {"data": 7, "strb": 0xF})
        ctx.set(dut.ar.payload.addr, register_address("CAP_GEMM"))
        await ctx.tick()
        for channel in channels:
            ctx.set(channel.valid, 1)
            assert not ctx.get(channel.ready)
        await ctx.tick().repeat(3)
        ctx.set(reset, 0)
        for channel in channels:
            assert not ctx.get(channel.ready)
        await ctx.tick()
        for channel in channels:
            assert ctx.get(channel.ready)
        await ctx.tick()
        for channel in channels:
            ctx.set(channel.valid, 0)
        ctx.set(answer.ready, 1)
        await ctx.tick().until(answer.valid)
        ctx.set(answer.ready, 0)
        if is_write:
            assert await bus.get("GEMM_SEED") == {"seed": 7}
    run(bench, reset=reset)
