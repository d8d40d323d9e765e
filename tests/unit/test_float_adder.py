"""The adder gives the exact sum, rounded once: all pairs of small formats, samples of large."""

import random

import ml_dtypes
import numpy
import pytest
from amaranth.back import verilog
from amaranth.sim import Simulator

from t3hw.hdl.float_adder import FloatAdder

#: Bits of exponent and mantissa.
FORMATS = {"float32": (8, 23), "bfloat16": (8, 7), "float16": (5, 10)}


def fields(number, exponent, mantissa):
    """Sign, exponent and mantissa of a number given as bits."""
    return (number >> (exponent + mantissa), (number >> mantissa) & ((1 << exponent) - 1),
            number & ((1 << mantissa) - 1))


def add(a, b, exponent, mantissa):
    """``a + b``, as bits: exact integers, in units of the smallest subnormal, then rounded once."""
    infinity = ((1 << exponent) - 1) << mantissa
    sign = 1 << (exponent + mantissa)
    canonical_nan = infinity | 1 << (mantissa - 1)
    if a & ~sign > infinity or b & ~sign > infinity:
        return canonical_nan
    if a & ~sign == infinity or b & ~sign == infinity:
        if a ^ b == sign:
            return canonical_nan
        return a if a & ~sign == infinity else b
    total = 0
    for number in (a, b):
        negative, power, fraction = fields(number, exponent, mantissa)
        magnitude = (fraction | 1 << mantissa) << (power - 1) if power else fraction
        total += -magnitude if negative else magnitude
    if total == 0:
        return a & b & sign
    magnitude, result_sign = abs(total), sign if total < 0 else 0
    power = max(magnitude.bit_length() - mantissa - 1, 0)
    whole, rest = divmod(magnitude, 1 << power)
    if 2 * rest > 1 << power or (2 * rest == 1 << power and whole & 1):
        whole += 1
    # A subnormal has the exponent 0 and no hidden bit; where there is one it counts up the
    # exponent.
    return result_sign | min((power << mantissa) + whole, infinity)


def operand(rng, exponent, mantissa, other=None):
    """Random bits of a number, all kinds often; often near ``other`` in exponent or value."""
    highest = (1 << exponent) - 1
    ones = (1 << mantissa) - 1
    power = rng.choice([0, 0, 1, highest, highest - 1, highest - 2, None, None, None, None])
    fraction = rng.choice([0, 1, ones, ones - 1, 1 << rng.randrange(mantissa),
                           ones ^ 1 << rng.randrange(mantissa), None, None, None, None])
    if power is None:
        power = rng.randrange(highest + 1)
    if fraction is None:
        fraction = rng.randrange(ones + 1)
    if other is not None and rng.random() < 0.6:
        _, other_power, other_fraction = fields(other, exponent, mantissa)
        power = min(max(other_power + rng.randint(-mantissa - 4, mantissa + 4), 0), highest)
        if rng.random() < 0.5:
            power = min(max(other_power + rng.randint(-1, 1), 0), highest)
            fraction = min(max(other_fraction + rng.randint(-2, 2), 0), ones)
    return rng.randrange(2) << (exponent + mantissa) | power << mantissa | fraction


def operands(rng, exponent, mantissa):
    """A random pair."""
    a = operand(rng, exponent, mantissa)
    pair = [a, operand(rng, exponent, mantissa, other=a)]
    rng.shuffle(pair)
    return pair


def widen(number, narrow, wide, below=0):
    """A number in a wider format's fields; ``below`` fills the unused mantissa bits."""
    sign, power, fraction = fields(number, *narrow)
    spare = wide[1] - narrow[1]
    return sign << sum(wide) | power << wide[1] | fraction << spare | below & ((1 << spare) - 1)


def narrow(number, small, wide):
    """The way back of `widen`."""
    sign, power, fraction = fields(number, *wide)
    return sign << sum(small) | power << small[1] | fraction >> (wide[1] - small[1])


def run(dut, vectors, stall=lambda: False):
    """Results of (a, b, keep, format); each is due as many enabled cycles later as stated."""
    results = []

    async def bench(ctx):
        position = 0
        a, b, o = dut.a.as_value(), dut.b.as_value(), dut.o.as_value()
        ports = [a, b, dut.keep, *([dut.format] if "format" in dut.signature.members else [])]
        while position < len(vectors) + dut.latency:
            if stall():
                ctx.set(dut.enable, 0)
                ctx.set(a, ~ctx.get(a))
                await ctx.tick()
                continue
            if position >= dut.latency:
                results.append(ctx.get(o))
            if position < len(vectors):
                for port, value in zip(ports, vectors[position]):
                    ctx.set(port, value)
            ctx.set(dut.enable, 1)
            await ctx.tick()
            position += 1

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
    return results


def check(vectors, results, formats, wide, context):
    assert len(results) == len(vectors)
    for (a, b, keep, index), result in zip(vectors, results):
        small = formats[index]
        a, b, result = (narrow(number, small, wide) for number in (a, b, result))
        expected = b if keep else add(a, b, *small)
        assert result == expected, (
            f"{context}: format {small}, keep {keep}: {a:#x} + {b:#x} gave {result:#x}, "
            f"not {expected:#x}")


@pytest.mark.parametrize("name", FORMATS)
def test_reference_agrees_with_numpy_where_the_result_is_finite(name):
    rng = random.Random(1)
    exponent, mantissa = FORMATS[name]
    pairs = [operands(rng, exponent, mantissa) for _ in range(20000)]
    integer = numpy.uint32 if name == "float32" else numpy.uint16
    dtype = {"float32": numpy.float32, "bfloat16": ml_dtypes.bfloat16,
             "float16": numpy.float16}[name]
    a, b = (numpy.array(column, dtype=integer).view(dtype) for column in zip(*pairs))
    with numpy.errstate(all="ignore"):
        if name == "float16":
            total = (a.astype(numpy.float64) + b.astype(numpy.float64)).astype(numpy.float16)
        else:
            total = a + b
    finite = numpy.isfinite(total.astype(numpy.float64))
    assert finite.sum() > 5000
    for pair, is_finite, result in zip(pairs, finite, total.view(integer)):
        ours = add(*pair, exponent, mantissa)
        infinity = ((1 << exponent) - 1) << mantissa
        assert bool(is_finite) == (ours & infinity != infinity)
        if is_finite:
            assert ours == result, f"{pair[0]:#x} + {pair[1]:#x}: {ours:#x}, numpy {result:#x}"


@pytest.mark.parametrize("a, b, total", [
    (0x80000000, 0x80000000, 0x80000000),  # -0 + -0 = -0
    (0x00000000, 0x80000000, 0x00000000),  # 0 + -0 = +0
    (0x3F800000, 0xBF800000, 0x00000000),  # 1 - 1 = +0
    (0x7F800000, 0xFF800000, 0x7FC00000),  # inf - inf: the canonical NaN
    (0xFFC12345, 0x3F800000, 0x7FC00000),  # no payload, no sign
    (0x7F800000, 0x7F800000, 0x7F800000),
    (0x7F7FFFFF, 0x73000000, 0x7F800000),  # largest + half its last place: to even, infinity
    (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF),  # and a little less
    (0x00000001, 0x007FFFFF, 0x00800000),  # subnormals sum up to a normal number
    (0x00800000, 0x80000001, 0x007FFFFF),  # and back
    (0x3F800000, 0x33800000, 0x3F800000),  # 1 + half: a tie, even
    (0x3F800001, 0x33800000, 0x3F800002),  # a tie, odd
    (0x3F800000, 0x33800001, 0x3F800001),
])
def test_known_sums(a, b, total):
    assert add(a, b, 8, 23) == total
    dut = FloatAdder(exponent=8, mantissa=23)
    assert run(dut, [(a, b, 0, 0), (b, a, 0, 0)]) == [total, total]


@pytest.mark.parametrize("exponent, mantissa", [(2, 1), (3, 2), (2, 3), (4, 1)])
def test_all_pairs_of_small_formats(exponent, mantissa):
    numbers = range(1 << (1 + exponent + mantissa))
    vectors = [(a, b, 0, 0) for a in numbers for b in numbers] + [
        (a, b, 1, 0) for b in numbers for a in (0, numbers[-1], b ^ numbers[-1])]
    size = (exponent, mantissa)
    dut = FloatAdder(exponent=exponent, mantissa=mantissa)
    check(vectors, run(dut, vectors), [size], size, "all pairs")


def test_all_pairs_of_8_bits():
    vectors = [(a, b, 0, 0) for a in range(256) for b in range(256)]
    dut = FloatAdder(exponent=4, mantissa=3)
    check(vectors, run(dut, vectors), [(4, 3)], (4, 3), "all pairs")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(2))
def test_random_operands_with_stalls(name, seed):
    rng = random.Random(seed)
    size = FORMATS[name]
    vectors = [(*operands(rng, *size), int(rng.random() < 0.1), 0) for _ in range(4000)]
    dut = FloatAdder(exponent=size[0], mantissa=size[1])
    results = run(dut, vectors, stall=lambda: rng.random() < 0.2)
    check(vectors, results, [size], size, f"seed {seed}")


@pytest.mark.parametrize("wide, formats", [
    ((8, 23), [(8, 23), (8, 7), (5, 10)]),
    ((8, 10), [(8, 7), (5, 10)]),
    ((4, 3), [(3, 3), (4, 2)]),
    ((5, 6), [(2, 1), (5, 6), (3, 4), (5, 2)]),
])
@pytest.mark.parametrize("seed", range(2))
def test_formats_that_share_an_adder(wide, formats, seed):
    rng = random.Random(seed)
    vectors = []
    for _ in range(3000):
        index = rng.randrange(len(formats))
        a, b = (widen(number, formats[index], wide, below=rng.getrandbits(wide[1]))
                for number in operands(rng, *formats[index]))
        vectors.append((a, b, int(rng.random() < 0.1), index))
    dut = FloatAdder(exponent=wide[0], mantissa=wide[1], formats=formats)
    results = run(dut, vectors, stall=lambda: rng.random() < 0.2)
    check(vectors, results, formats, wide, f"seed {seed}")


@pytest.mark.parametrize("formats", [None, [(5, 10)], [(3, 4)]])
def test_one_format_needs_no_port_to_choose_it(formats):
    dut = FloatAdder(exponent=5, mantissa=10, formats=formats)
    assert "format" not in dut.signature.members
    text = verilog.convert(dut, emit_src=False)
    assert "[-1:0]" not in text


@pytest.mark.parametrize("values, name", [
    ({"exponent": 1, "mantissa": 3}, "1"),
    ({"exponent": 8, "mantissa": 0}, "0"),
    ({"exponent": None, "mantissa": 3}, "None"),
    ({"exponent": 5, "mantissa": 10, "formats": []}, r"\[\]"),
    ({"exponent": 5, "mantissa": 10, "formats": [(5, 10), (8, 7)]}, r"\(8, 7\)"),
    ({"exponent": 8, "mantissa": 7, "formats": [(5, 10)]}, r"\(5, 10\)"),
])
def test_bad_widths_are_refused_with_their_value(values, name):
    with pytest.raises(ValueError, match=f"not {name}"):
        FloatAdder(**values)
