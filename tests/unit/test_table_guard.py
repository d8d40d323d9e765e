"""Only writes that can hurt no plan get through, each once; the rules are told here again."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.seams import Table
from t3hw.hdl.table_guard import SETTLE_CYCLES, TableGuard
from t3hw.registers import TABLES, encode_entry

CONFIG = NodeConfig(name="guard", data_width=32, addr_width=40, tiles=64, commands=32, regions=5,
                    routes=3, plans=3, touch_bytes=1 << 10, wg_width=6, wf_width=2)
WORDS = {"PLAN": 8, "REGION": 10, "ROUTE": 10, "COMMAND": 2, "TILE": 4}
SIZES = {"PLAN": 3, "REGION": 5, "ROUTE": 3, "COMMAND": 32, "TILE": 64}
TOUCH_BEATS = 256


def bits(word, low, width):
    return word >> low & (1 << width) - 1


class Model:
    """The rules, by word and bit as the register manual tells them; the test drives the plans."""

    def __init__(self):
        self.busy = set()
        self.clearing = set()
        self.words = {}
        self.happened = []

    def word(self, table, entry, word):
        return self.words.get((table, entry, word), 0)

    def owned(self, plan):
        """The plan's (tiles, commands, touch beats), as sets."""
        return [set(range(self.word("PLAN", plan, first),
                          self.word("PLAN", plan, first) + self.word("PLAN", plan, count)))
                for first, count in ((1, 2), (3, 4), (6, 7))]

    def value_fits(self, table, word, value):
        if table == "PLAN":
            width, limit = {1: (16, 63), 2: (17, 64), 3: (16, 31), 4: (17, 32),
                            6: (32, TOUCH_BEATS - 1), 7: (32, TOUCH_BEATS)}.get(word, (0, 0))
            return bits(value, 0, width) <= limit
        if table == "REGION":
            if word == 0:
                return bits(value, 14, 3) < 3
            if word in (2, 4):
                return value < 1 << 8
            return word != 5 or bits(value, 0, 16) < 64
        if table == "ROUTE":
            if word == 0:
                return bits(value, 12, 3) < 3
            return word not in (2, 4, 8) or value < 1 << 8
        if table == "COMMAND":
            if word == 0:
                return bits(value, 16, 4) < 3 and bits(value, 20, 3) < 3
            return bits(value, 0, 16) + bits(value, 16, 16) < 64
        if word == 0:
            return bits(value, 24, 8) < 4
        if word == 1:
            return bits(value, 0, 16) < 32 or bits(value, 0, 16) == 0xFFFF
        return word != 2 or bits(value, 16, 16) < 64

    def may_command(self, plan, value):
        arm, clear = bits(value, 0, 1), bits(value, 1, 1)
        if arm and clear or arm and plan in self.busy or clear and plan in self.clearing:
            return False
        if not arm and not clear:
            return True
        own = self.owned(plan)
        if any(part - set(range(size)) for part, size in zip(own, (64, 32, TOUCH_BEATS))):
            return False
        # An empty range that starts at the end of its table is as good as one that starts at 0.
        return not any(mine & theirs for other in self.busy - {plan}
                       for mine, theirs in zip(own, self.owned(other)))

    def allowed(self, table, entry, word, value):
        if entry >= SIZES[table] or word >= WORDS[table]:
            return False
        if not self.value_fits(table, word, value):
            return False
        if table == "PLAN":
            return self.may_command(entry, value) if word == 0 else entry not in self.busy
        if table in ("REGION", "ROUTE"):
            plan_at = 14 if table == "REGION" else 12

            def tied(control):
                return table == "ROUTE" or bits(control, 0, 1) and bits(control, 6, 1)
            control = self.words.get((table, entry, 0))
            if control is not None and tied(control) and bits(control, plan_at, 3) in self.busy:
                return False
            return not (word == 0 and tied(value) and bits(value, plan_at, 3) in self.busy)
        part = 0 if table == "TILE" else 1
        return not any(entry in self.owned(plan)[part] for plan in self.busy)

    def write(self, table, entry, word, value):
        """Returns whether the write is allowed, and does it."""
        if not self.allowed(table, entry, word, value):
            return False
        self.words[table, entry, word] = value
        if not (table == "PLAN" and word == 0 and value & 3 == 0):
            self.happened.append((table, entry, word, value))
        return True


def status(model):
    return [{"armed": plan in model.busy - model.clearing, "clearing": plan in model.clearing}
            for plan in range(CONFIG.plans)]


class Harness:
    """Writes to the guard, and plays the plan state: commands that get through take effect."""

    def __init__(self, ctx, dut, model, note=""):
        self.ctx, self.dut, self.model, self.note = ctx, dut, model, note
        self.passed = []
        self.outcomes = set()

    async def tick(self):
        ctx, dut = self.ctx, self.dut
        await ctx.tick()
        if ctx.get(dut.table.valid):
            p = dut.table.p
            write = (ctx.get(p.table).name, ctx.get(p.entry), ctx.get(p.word), ctx.get(p.data))
            self.passed.append(write)
            if write[0] == "PLAN" and write[2] == 0:
                if write[3] & 1:
                    self.model.busy.add(write[1])
                if write[3] & 2:
                    self.model.busy.add(write[1])
                    self.model.clearing.add(write[1])
                self.ctx.set(dut.status, status(self.model))

    async def settle_status(self):
        self.ctx.set(self.dut.status, status(self.model))
        await self.tick()

    async def write(self, table, entry, word, value):
        """Returns (allowed, cycles until the answer)."""
        ctx, dut = self.ctx, self.dut
        ctx.set(dut.i.p, {"table": Table[table], "entry": entry, "word": word, "data": value})
        ctx.set(dut.i.valid, 1)
        for waited in range(40):
            if ctx.get(dut.i.ready):
                allowed = not ctx.get(dut.refused)
                await self.tick()
                ctx.set(dut.i.valid, 0)
                return allowed, waited
            await self.tick()
        pytest.fail(f"{self.note}: no answer to {table}[{entry}].{word} = {value:#x} in 40 cycles")

    async def check(self, table, entry, word, value):
        wanted = self.model.write(table, entry, word, value)
        allowed, _waited = await self.write(table, entry, word, value)
        self.outcomes.add((table, allowed))
        assert allowed == wanted, (f"{self.note}: {table}[{entry}].{word} = {value:#x} "
                                   f"busy {self.model.busy}, clearing {self.model.clearing}")


def simulate(bench, note=""):
    dut = TableGuard(config=CONFIG)
    model = Model()

    async def testbench(ctx):
        harness = Harness(ctx, dut, model, note)
        await bench(harness)
        await harness.tick()
        await harness.tick()
        assert harness.passed == model.happened

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(testbench)
    sim.run()


@pytest.mark.parametrize("seed", range(4))
def test_random_writes_while_plans_come_and_go(seed):
    rng = random.Random(seed)

    def value_for(table, word):
        """Mostly values that make sense, small enough that plans meet; sometimes anything."""
        if rng.random() < 0.1:
            return rng.getrandbits(32)
        if table == "PLAN":
            return {0: rng.choice([0, 1, 1, 1, 2, 2, 3]), 1: rng.randrange(66),
                    2: rng.choice([0, 1, 20, 64]), 3: rng.randrange(34),
                    4: rng.choice([0, 1, 9, 32]), 5: rng.getrandbits(32), 6: rng.randrange(260),
                    7: rng.choice([0, 1, 70, 256])}.get(word, 0)
        if table == "REGION" and word == 0:
            return rng.getrandbits(14) | rng.randrange(4) << 14
        if table == "ROUTE" and word == 0:
            return rng.getrandbits(12) | rng.randrange(4) << 12
        if table == "COMMAND":
            return (rng.randrange(66) | rng.randrange(3) << 20 | rng.randrange(4) << 16 if word == 0
                    else rng.randrange(64) | rng.randrange(4) << 16)
        if table == "TILE" and word == 1:
            return rng.choice([0xFFFF, 31, 32, rng.randrange(32)])
        return rng.getrandbits(rng.choice([6, 8, 9, 32]))

    async def bench(harness):
        model = harness.model
        for _write in range(500):
            if rng.random() < 0.15:
                # A plan is done, or its clear is.
                for plan in rng.sample(range(3), rng.randrange(1, 3)):
                    model.busy.discard(plan)
                    model.clearing.discard(plan)
                await harness.settle_status()
            table = rng.choice(["PLAN", "PLAN", "PLAN", "REGION", "ROUTE", "COMMAND", "TILE"])
            word = rng.randrange(WORDS[table] + (rng.random() < 0.05))
            if table == "PLAN" and rng.random() < 0.4:
                word = 0
            entry = rng.randrange(SIZES[table] + (rng.random() < 0.1))
            await harness.check(table, entry, word, value_for(table, word))
            for _pause in range(rng.choice([0, 0, 1, 3])):
                await harness.tick()
        assert len(harness.outcomes) == 2 * len(WORDS), f"seed {seed} tries too little"

    simulate(bench, f"seed {seed}")


async def program(harness, plan, **fields):
    """All words of a plan but its control word."""
    for word, value in enumerate(encode_entry("PLAN", **fields)):
        if word:
            await harness.check("PLAN", plan, word, value)


def test_ranges_are_locked_to_their_last_entry():
    async def bench(harness):
        await program(harness, 1, first_tile=8, tiles=5, first_command=3, commands=2)
        await harness.check("PLAN", 1, 0, 1)
        assert harness.model.busy == {1}
        for table, first, last in (("TILE", 8, 12), ("COMMAND", 3, 4)):
            for entry in (first - 1, first, last, last + 1):
                allowed, _waited = await harness.write(table, entry, 0, 1)
                assert allowed == (not first <= entry <= last), (table, entry)
        harness.model.happened = harness.passed

    simulate(bench)


@pytest.mark.parametrize("kind, first, count, size", [
    ("tiles", 1, 2, 64), ("commands", 3, 4, 32), ("touch beats", 6, 7, TOUCH_BEATS)])
def test_a_plan_that_just_fits_is_armed_and_one_more_is_refused(kind, first, count, size):
    async def bench(harness):
        for start, length in ((0, size), (size - 1, 1), (size - 1, 2), (1, size), (size - 1, 0)):
            await harness.check("PLAN", 0, first, start)
            await harness.check("PLAN", 0, count, length)
            assert (await harness.write("PLAN", 0, 0, 1))[0] == (start + length <= size), \
                (kind, start, length)
            harness.model.busy.clear()
            await harness.settle_status()
        harness.model.happened = harness.passed

    simulate(bench)


@pytest.mark.parametrize("command", [1, 2])
@pytest.mark.parametrize("first, count", [(1, 2), (3, 4), (6, 7)])
def test_a_plan_that_meets_a_busy_one_is_refused(first, count, command):
    """Neither armed nor cleared: both would reach what the other plan uses."""
    async def bench(harness):
        await harness.check("PLAN", 2, first, 10)
        await harness.check("PLAN", 2, count, 4)
        await harness.check("PLAN", 2, 0, 1)
        for start, length in ((8, 2), (8, 3), (13, 1), (14, 1), (9, 6), (11, 0), (11, 1)):
            await harness.check("PLAN", 0, first, start)
            await harness.check("PLAN", 0, count, length)
            meets = start < 14 and start + length > 10 and length > 0
            assert (await harness.write("PLAN", 0, 0, command))[0] != meets, (start, length)
            harness.model.busy.discard(0)
            harness.model.clearing.discard(0)
            await harness.settle_status()
        harness.model.happened = harness.passed

    simulate(bench)


def test_operands_and_go_in_one_train():
    """The last operand is written in the write before the command, and the command judges by it."""
    async def bench(harness):
        await program(harness, 0, first_tile=0, tiles=8)
        await harness.check("PLAN", 0, 0, 1)
        await program(harness, 1, first_tile=7, tiles=8)
        await harness.check("PLAN", 1, 0, 1)
        assert harness.model.busy == {0}
        await harness.check("PLAN", 1, 1, 8)
        await harness.check("PLAN", 1, 0, 1)
        assert harness.model.busy == {0, 1}
        await harness.check("PLAN", 1, 0, 1)
        await harness.check("PLAN", 1, 1, 9)

    simulate(bench)


def test_regions_are_locked_only_while_they_count_for_a_busy_plan():
    enabled = encode_entry("REGION", enable=1, tracked=1, plan=1)[0]
    untracked = encode_entry("REGION", enable=1, plan=1)[0]
    disabled = encode_entry("REGION", tracked=1, plan=1)[0]

    async def bench(harness):
        await harness.check("REGION", 0, 0, enabled)
        await harness.check("REGION", 1, 0, untracked)
        await harness.check("REGION", 2, 0, disabled)
        await harness.check("PLAN", 1, 0, 1)
        for entry in range(4):
            for word in range(1, 10):
                allowed, _waited = await harness.write("REGION", entry, word, 0)
                assert allowed == (entry != 0)
            for value in (enabled, untracked, disabled):
                allowed, _waited = await harness.write("REGION", entry, 0, value)
                assert allowed == (entry != 0 and value != enabled)
        harness.model.busy.clear()
        await harness.settle_status()
        assert (await harness.write("REGION", 0, 0, disabled))[0]
        harness.model.happened = harness.passed

    simulate(bench)


def test_latencies_are_as_stated():
    async def bench(harness):
        assert await harness.write("TILE", 3, 0, 5) == (True, 2)
        assert await harness.write("TILE", 3, 7, 5) == (False, 2)
        assert not harness.passed[1:]
        three_kinds = harness.dut.walk_cycles(3)
        assert await harness.write("PLAN", 0, 0, 1) == (True, 2 + three_kinds + SETTLE_CYCLES)
        # What is refused has nothing to settle.
        assert await harness.write("PLAN", 0, 0, 3) == (False, 2 + three_kinds)
        assert await harness.write("PLAN", 0, 0, 0) == (True, 2)
        # Plan 0 is busy, and owns nothing.
        for table in ("TILE", "COMMAND"):
            assert await harness.write(table, 3, 0, 1) == (True, 2 + harness.dut.walk_cycles(1))
        assert await harness.write("REGION", 0, 0, 0) == (True, 2)
        assert harness.passed[:2] == [("TILE", 3, 0, 5), ("PLAN", 0, 0, 1)]
        harness.model.happened = harness.passed

    simulate(bench)


def test_the_layout_told_here_is_that_of_the_map():
    assert {name: table.words for name, table in TABLES.items()} == WORDS


def test_bad_config_is_refused_with_its_value():
    with pytest.raises(TypeError, match="not 3"):
        TableGuard(config=3)
