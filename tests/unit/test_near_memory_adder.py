"""Near-memory compute adds by element, keeps order under back-pressure, takes a beat a cycle."""

import random

import pytest
from amaranth.back import rtlil
from amaranth.lib import data
from amaranth.sim import Simulator

from t3hw.config import DTYPE_NAMES, ConfigError, NodeConfig
from t3hw.hdl.near_memory_adder import NearMemoryAdder
from t3hw.hdl.seams import Dtype

from test_float_adder import FORMATS, add, operand, operands

META = data.StructLayout({"tag": 5, "address": 20})
SUBSETS = [("int32",), ("float32",), ("bfloat16",), ("float16",), ("bfloat16", "float16"),
           ("int32", "bfloat16"), ("float16", "int32", "float32"), DTYPE_NAMES]


def lanes_of(name):
    """16-bit lanes of one element."""
    return 1 if name in ("bfloat16", "float16") else 2


def model(config, beat):
    """What must come out for (dtype name, add, old, new)."""
    name, lanes, old, new = beat
    width = 16 * lanes_of(name)
    result = 0
    for position in range(0, config.data_width, width):
        a, b = (value >> position & ((1 << width) - 1) for value in (old, new))
        if lanes >> (position // 16) & 1:
            b = (a + b) % (1 << 32) if name == "int32" else add(a, b, *FORMATS[name])
        result |= b << position
    return result


def random_beat(rng, config, names=None, adding=0.7):
    name = rng.choice(names or config.dtypes)
    count = lanes_of(name)
    lanes = old = new = 0
    for lane in range(0, config.lanes, count):
        if name == "int32":
            a, b = (rng.choice([rng.getrandbits(32), 1 << 31, (1 << 32) - 1, 1, 0])
                    for _ in range(2))
        else:
            a, b = operands(rng, *FORMATS[name])
        old |= a << 16 * lane
        new |= b << 16 * lane
        if rng.random() < adding:
            lanes |= ((1 << count) - 1) << lane
    return name, lanes, old, new


def send(dut, ctx, beat, meta):
    name, lanes, old, new = beat
    ctx.set(dut.i.payload, {"dtype": Dtype(DTYPE_NAMES.index(name)), "add": lanes, "old": old,
                            "new": new, "meta": meta})
    ctx.set(dut.i.valid, 1)


def simulate(dut, *benches):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    for bench in benches:
        sim.add_testbench(bench)
    sim.run()


def exchange(dut, beats, rng=None, idle=0.0, ready=1.0, limit=20000):
    """Results of ``beats``; checks their order, and that a payload is stable while it waits."""
    received = []

    async def put(ctx):
        for number, beat in enumerate(beats):
            while rng and rng.random() < idle:
                await ctx.tick()
            send(dut, ctx, beat, {"tag": number % 32, "address": number})
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def get(ctx):
        waiting = None
        for _cycle in range(limit):
            ctx.set(dut.o.ready, rng.random() < ready if rng else 1)
            _, _, valid, taken, payload = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload.as_value())
            assert waiting is None or (valid and payload == waiting), "not stable while it waits"
            waiting = payload if valid and not taken else None
            if valid and taken:
                received.append(dut.o.payload.shape().from_bits(payload))
            if len(received) == len(beats):
                return
        pytest.fail(f"{len(received)} of {len(beats)} beats after {limit} cycles")

    simulate(dut, put, get)
    for number, result in enumerate(received):
        assert (result.meta.tag, result.meta.address) == (number % 32, number)
    return [result.data for result in received]


def check(config, beats, results, context):
    for beat, result in zip(beats, results, strict=True):
        name, lanes, old, new = beat
        expected = model(config, beat)
        assert result == expected, (
            f"{context}: {name}, add {lanes:b}: {old:#x} + {new:#x} gave {result:#x}, "
            f"not {expected:#x}")


@pytest.mark.parametrize("dtypes", SUBSETS, ids="-".join)
@pytest.mark.parametrize("seed", range(2))
def test_mixed_dtypes_with_back_pressure(dtypes, seed):
    rng = random.Random(seed)
    config = NodeConfig(data_width=32 if seed else 64, dtypes=dtypes)
    beats = [random_beat(rng, config) for _ in range(500)]
    results = exchange(NearMemoryAdder(config=config, meta=META), beats, rng, idle=0.2, ready=0.7)
    check(config, beats, results, f"seed {seed}")


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_many_operands_back_to_back(name):
    rng = random.Random(5)
    config = NodeConfig(data_width=64)
    beats = [random_beat(rng, config, [name], adding=0.9) for _ in range(1500)]
    check(config, beats, exchange(NearMemoryAdder(config=config, meta=META), beats), "seed 5")


def test_wide_beat():
    rng = random.Random(6)
    config = NodeConfig(data_width=256)
    beats = [random_beat(rng, config) for _ in range(150)]
    results = exchange(NearMemoryAdder(config=config, meta=META), beats, rng, idle=0.1, ready=0.8)
    check(config, beats, results, "seed 6")


def test_known_sums():
    config = NodeConfig(data_width=32)
    known = [
        ("int32", 3, 0xFFFFFFFF, 0x00000002, 0x00000001),
        ("int32", 3, 0x7FFFFFFF, 0x00000001, 0x80000000),
        ("int32", 3, 0x0001FFFF, 0x00000001, 0x00020000),  # the carry crosses the lanes
        ("float32", 3, 0x3F800000, 0x40000000, 0x40400000),
        ("float32", 3, 0x7F800000, 0xFF800000, 0x7FC00000),
        ("bfloat16", 3, 0x3F80_7F80, 0x4000_FF80, 0x4040_7FC0),
        ("float16", 3, 0x3C00_7C00, 0x4000_FC00, 0x4200_7E00),
        ("bfloat16", 1, 0x3F80_3F80, 0x4000_4000, 0x4000_4040),
        ("bfloat16", 2, 0x3F80_3F80, 0x4000_4000, 0x4040_4000),
        ("bfloat16", 3, 0x8000_8000, 0x8000_0000, 0x8000_0000),  # -0 + -0 and -0 + 0
    ]
    beats = [entry[:4] for entry in known]
    assert exchange(NearMemoryAdder(config=config, meta=META), beats) == [e[4] for e in known]


@pytest.mark.parametrize("dtypes", SUBSETS, ids="-".join)
def test_what_does_not_add_passes_bit_for_bit_whatever_the_dtype(dtypes):
    """Signalling NaNs, payloads, -0, dtypes that are not built: a plain store comes this way."""
    rng = random.Random(7)
    config = NodeConfig(data_width=64, dtypes=dtypes)
    beats = []
    for _ in range(200):
        name, _, old, new = random_beat(rng, config, DTYPE_NAMES)
        if rng.random() < 0.4:
            new = sum(operand(rng, *FORMATS[name]) << position
                      for name in [rng.choice(["bfloat16", "float16"])]
                      for position in range(0, 64, 16))
        beats.append((rng.choice(DTYPE_NAMES), 0, old, new))
    beats += [("float32", 0, 0x7F800001_FFFFFFFF, 0xFF800001_80000000),
              ("bfloat16", 0, 0, 0xFF81_7FFF_8000_7F81), ("float16", 0, 0, 0xFC01_7FFF_8000_7C01)]
    results = exchange(NearMemoryAdder(config=config, meta=META), beats)
    assert results == [new for _, _, _, new in beats]


@pytest.mark.parametrize("dtypes", SUBSETS, ids="-".join)
def test_latency_is_that_stated_and_throughput_is_one_a_cycle(dtypes):
    rng = random.Random(8)
    config = NodeConfig(data_width=32, dtypes=dtypes)
    dut = NearMemoryAdder(config=config, meta=META)
    assert dut.latency == (1 if dtypes == ("int32",) else 7)
    beats = [random_beat(rng, config) for _ in range(30)]
    seen = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(len(beats) + dut.latency):
            if cycle < len(beats):
                send(dut, ctx, beats[cycle], {"tag": 0, "address": cycle})
            else:
                ctx.set(dut.i.valid, 0)
            _, _, ready, valid, address = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.payload.meta.address)
            assert ready
            if valid:
                seen.append((cycle, address))

    simulate(dut, bench)
    assert seen == [(number + dut.latency, number) for number in range(len(beats))]


def test_stalls_only_while_a_result_waits():
    config = NodeConfig(data_width=32)
    dut = NearMemoryAdder(config=config, meta=META)

    async def bench(ctx):
        ctx.set(dut.o.ready, 0)
        send(dut, ctx, ("int32", 3, 1, 2), {"tag": 1, "address": 2})
        for _cycle in range(dut.latency):
            assert ctx.get(dut.i.ready), "nothing waits at the output yet"
            await ctx.tick()
            ctx.set(dut.i.valid, 0)
        for _cycle in range(5):
            assert ctx.get(dut.o.valid) and not ctx.get(dut.i.ready)
            assert ctx.get(dut.o.payload.data) == 3
            await ctx.tick()
        ctx.set(dut.o.ready, 1)
        assert ctx.get(dut.i.ready)
        await ctx.tick()
        assert not ctx.get(dut.o.valid) and ctx.get(dut.i.ready)

    simulate(dut, bench)


@pytest.mark.parametrize("dtypes, adders", [
    (("int32",), 0), (("float32",), 2), (("int32", "float32"), 2), (("bfloat16",), 4),
    (("bfloat16", "float16"), 4), (DTYPE_NAMES, 4)])
def test_only_the_adders_that_are_needed_are_built(dtypes, adders):
    dut = NearMemoryAdder(config=NodeConfig(data_width=64, dtypes=dtypes), meta=META)
    text = rtlil.convert(dut)
    assert sum(line.startswith("module ") and "adder_" in line
               for line in text.splitlines()) == adders


def test_unknown_dtype_is_refused_with_its_name():
    with pytest.raises(ConfigError, match="float8"):
        NodeConfig(dtypes=("float32", "float8"))
