"""Registers of a board: each as its description says, in each cycle, whatever happens meanwhile."""

import random

import pytest
from amaranth.hdl import Fragment

from host_agents import host_master
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.fpga.boards import BoardDesign
from t3hw.hdl.board_registers import BoardRegisters
from t3hw.registers.board_map import MAP_HASH

(MAGIC, MAP, BOARD, CONFIG, DEVICES, CLOCK_HZ, CYCLES_LO, CYCLES_HI, SCRATCH, IRQ, ACCESS_ERRORS,
 ACCESS_ERROR_ADDRESS, LINE_ERRORS, RX_CRC, TX_CRC, MEMORY_BYTES, LEDS) = range(17)
WRITABLE = (SCRATCH, ACCESS_ERRORS, LINE_ERRORS, RX_CRC, TX_CRC, LEDS)
LINE = ("damaged", "abandoned", "lost")
WORDS = 1 << 32


def make_design(**fields):
    fields = {"devices": 2, "node": NodeConfig.preset("tiny"), "clock_hz": 50_000_000} | fields
    return BoardDesign(name="test", title="test", family="ecp5", part="none", platform="a:B",
                       **fields)


class Model:
    """The registers, a cycle at a time."""

    def __init__(self, design):
        self.identity = {
            MAGIC: 0x54334257, MAP: MAP_HASH, BOARD: design.hash, CONFIG: design.node.hash,
            DEVICES: design.devices | design.traffic << 8 | (design.memory == "sdram") << 16,
            CLOCK_HZ: design.clock_hz, MEMORY_BYTES: design.node.memory_bytes}
        self.time = self.captured = 0
        self.scratch = self.leds = 0
        self.refusals, self.first, self.line = 0, 0, [0, 0, 0]
        self.written = None

    def read(self, number, inputs):
        """A word now, or None where there is none."""
        return self.identity[number] if number in self.identity else {
            CYCLES_LO: self.time % WORDS, CYCLES_HI: self.captured, SCRATCH: self.scratch,
            IRQ: inputs["irq"], ACCESS_ERRORS: self.refusals, ACCESS_ERROR_ADDRESS: self.first,
            LINE_ERRORS: sum(count << 8 * at for at, count in enumerate(self.line)),
            RX_CRC: inputs["came"], TX_CRC: inputs["sent"], LEDS: self.leds}.get(number)

    def step(self, access, inputs):
        """End a cycle in which there may be an access; a write acts in the cycle after it."""
        number, word = self.written or (None, None)
        if number == SCRATCH:
            self.scratch = word
        if number == LEDS:
            self.leds = word % 256
        if number == ACCESS_ERRORS:
            self.refusals = self.first = 0
        if number == LINE_ERRORS:
            self.line = [0, 0, 0]
        if inputs["refused"] is not None:
            self.first = self.first if self.refusals else inputs["refused"]
            self.refusals = min(self.refusals + 1, 0xFFFF)
        self.line = [min(count + inputs[name], 0xFF) for name, count in zip(LINE, self.line)]
        self.written = None
        if access is not None:
            number = access.address % 32
            if access.write:
                self.written = (number, access.data)
            elif number == CYCLES_LO:
                self.captured = self.time // WORDS
        self.time += 1


def watch(dut, model, rng, *, rate, expected):
    """A background bench: random inputs, and all outputs in each cycle; ``expected`` gets error and
    word of each access."""
    async def bench(ctx):
        pulses = [getattr(dut, name) for name in LINE]

        def drive():
            inputs = {name: int(rng.random() < rate) for name in LINE}
            inputs |= {"irq": rng.randrange(1 << len(dut.irq)), "came": rng.randrange(WORDS),
                       "sent": rng.randrange(WORDS),
                       "refused": rng.randrange(1, WORDS) if rng.random() < rate else None}
            for name in (*LINE, "irq", "came", "sent"):
                ctx.set(getattr(dut, name), inputs[name])
            ctx.set(dut.refused.valid, inputs["refused"] is not None)
            ctx.set(dut.refused.payload, inputs["refused"] or rng.randrange(WORDS))
            return inputs

        inputs = drive()
        due = [None, None]
        async for _, _, valid, access, answered, leds, came, sent in ctx.tick().sample(
                dut.host.access.valid, dut.host.access.payload, dut.host.answer.valid, dut.leds,
                dut.clear_came, dut.clear_sent):
            where = f"cycle {model.time}"
            due.append(valid or None)
            assert answered == (due.pop(0) is not None), where
            number = model.written and model.written[0]
            assert (leds, came, sent) == (model.leds, number == RX_CRC, number == TX_CRC), where
            if valid:
                word = model.read(access.address % 32, inputs)
                refused = word is None or access.write and access.address % 32 not in WRITABLE
                expected.append((int(refused), None if refused or access.write else word))
            model.step(access if valid else None, inputs)
            inputs = drive()
    return bench


def check(answers, expected, *, where=""):
    assert len(answers) == len(expected)
    for number, (answer, (error, word)) in enumerate(zip(answers, expected)):
        assert answer.error == error, f"{where}: access {number}"
        assert word is None or answer.data == word, f"{where}: access {number}"
        assert answer.cycle == answer.asked + 2, f"{where}: access {number}"


def random_access(rng):
    number = rng.choice([*WRITABLE, rng.randrange(17), rng.randrange(32)])
    # Of the address 5 bits count; the decoder has seen to the others.
    return {"write": int(rng.random() < 0.3), "address": rng.randrange(1 << 27) << 5 | number,
            "data": rng.choice([0, WORDS - 1, rng.randrange(WORDS)])}


@pytest.mark.parametrize("fields", [
    {"devices": 1, "memory": "sdram", "sdram": "ULX3S",
     "node": NodeConfig.preset("axi").replace(memory_bytes=1 << 25)},
    {"devices": 16, "traffic": True, "clock_hz": 27_000_000},
    {"devices": 3, "node": NodeConfig.preset("small")}], ids=["sdram", "sixteen", "three"])
@pytest.mark.parametrize("rate, pace", [(0.02, 1.0), (0.6, 0.3)])
def test_random_accesses_and_events(fields, rate, pace):
    """Rare events, so that the first after a clear is seen, and many, so that counts end."""
    seed = fields["devices"] + round(100 * rate)
    print("seed", seed)
    rng = random.Random(seed)
    design = make_design(**fields)
    dut, answers, expected = BoardRegisters(design=design), [], []
    accesses = [random_access(rng) for _ in range(400)]
    simulate(dut, host_master(dut.host, accesses, answers, rng=rng, pace=pace),
             background=[watch(dut, Model(design), rng, rate=rate, expected=expected)])
    check(answers, expected, where=f"seed {seed}")


@pytest.mark.parametrize("number", range(32))
def test_each_word_after_reset(number):
    """Read, written, and read again; nothing else happens."""
    design = make_design()
    dut, answers, expected = BoardRegisters(design=design), [], []
    model, rng = Model(design), random.Random(number)
    accesses = [{"write": write, "address": number, "data": 0xFEDCBA98} for write in (0, 1, 0)]
    simulate(dut, host_master(dut.host, accesses, answers, rng=rng),
             background=[watch(dut, model, rng, rate=0.0, expected=expected)])
    check(answers, expected)
    assert answers[1].error == (number not in WRITABLE)
    assert answers[0].error == answers[2].error == (number > LEDS)


@pytest.mark.parametrize("number, pulse, low, largest", [
    (LINE_ERRORS, "damaged", 0, 255), (LINE_ERRORS, "abandoned", 8, 255),
    (LINE_ERRORS, "lost", 16, 255), (ACCESS_ERRORS, "refused", 0, 65535)])
def test_counts_stay_at_their_largest_value(number, pulse, low, largest):
    """One less than that, that, and the same after many more; then one, in the cycle of a clear."""
    dut = BoardRegisters(design=make_design())
    access, answer = dut.host.access, dut.host.answer
    event = dut.refused.valid if pulse == "refused" else getattr(dut, pulse)

    async def ask(ctx, write, *, at=None):
        """The answer's word; the event is in the given cycle of the access."""
        ctx.set(access.payload, {"write": write, "address": number})
        for cycle in range(3):
            ctx.set(access.valid, cycle == 0)
            ctx.set(event, cycle == at)
            _, _, valid, payload = await ctx.tick().sample(answer.valid, answer.payload)
            assert valid == (cycle == 2)
        ctx.set(event, 0)
        return payload.data

    async def bench(ctx):
        for events, count in ((largest - 1, largest - 1), (1, largest), (300, largest)):
            ctx.set(event, 1)
            await ctx.tick().repeat(events)
            ctx.set(event, 0)
            assert await ask(ctx, 0) == count << low
        # An access acts in the cycle after it began.
        for at, left in ((0, 0), (1, 1), (2, 1), (None, 0)):
            await ask(ctx, 1, at=at)
            assert await ask(ctx, 0) == left << low, f"event in cycle {at} of the clear"

    simulate(dut, bench)


@pytest.mark.parametrize("start", [WORDS - 9, 5 * WORDS - 6, (1 << 64) - 7])
def test_time_across_its_halves(start):
    """Both halves of one cycle, however near to a carry; the high half waits for its read."""
    fragment = Fragment.get(dut := BoardRegisters(design=make_design()), None)
    signals = {signal.name: signal for statement in fragment.statements["sync"]
               for signal in statement._lhs_signals()}
    access, answer = dut.host.access, dut.host.answer
    seen = []

    async def ask(ctx, number):
        ctx.set(access.payload, {"write": 0, "address": number})
        ctx.set(access.valid, 1)
        await ctx.tick()
        ctx.set(access.valid, 0)
        await ctx.tick()
        _, _, valid, payload = await ctx.tick().sample(answer.valid, answer.payload)
        assert valid
        return payload.data

    async def bench(ctx):
        for shift in range(1, 17):
            # The simulator may set what only time reaches.
            ctx.set(signals["low"], start % WORDS)
            ctx.set(signals["high"], start // WORDS)
            ctx.set(signals["carry"], 0)
            await ctx.tick().repeat(shift)
            low = await ask(ctx, CYCLES_LO)
            await ctx.tick().repeat(shift)
            high = await ask(ctx, CYCLES_HI)
            seen.append(high * WORDS + low)
            # Reads of the low half alone capture.
            assert await ask(ctx, CYCLES_HI) == high

    simulate(fragment, bench)
    assert seen == [(start + shift) % (1 << 64) for shift in range(1, 17)]
