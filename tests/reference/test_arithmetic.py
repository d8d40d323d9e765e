"""Additions and conversions round exactly once: compared with exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from t3hw.reference import NUMPY_DTYPES, add, canonical, round_once

#: Bits of the significand, least exponent of the last bit, and the unsigned type of the same size.
FORMATS = {"float32": (24, -149, np.uint32), "bfloat16": (8, -133, np.uint16),
           "float16": (11, -24, np.uint16)}
LARGEST = {"float32": 2 ** 128, "bfloat16": 2 ** 128, "float16": 2 ** 16}
NAN = {"float32": 0x7FC00000, "bfloat16": 0x7FC0, "float16": 0x7E00}


def nearest_even(value, dtype):
    """An exact rational rounded to ``dtype``, as a float, which holds every value of it."""
    precision, least, _ = FORMATS[dtype]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    rounded = round(size / unit) * unit
    rounded = float("inf") if rounded >= LARGEST[dtype] else float(rounded)
    return rounded if value > 0 else -rounded


def patterns(dtype, rng, count):
    """Random bit patterns, half of them with exponents close to each other."""
    unsigned = FORMATS[dtype][2]
    bits = rng.integers(0, 1 << 8 * np.dtype(unsigned).itemsize, (2, count), dtype=np.uint64)
    mantissa = FORMATS[dtype][0] - 1
    near = bits[0] ^ (bits[1] & np.uint64((8 << mantissa) - 1))
    bits[1] = np.where(rng.random(count) < 0.5, near, bits[1])
    return bits.astype(unsigned).view(NUMPY_DTYPES[dtype])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("seed", range(2))
def test_add_is_one_rounding_of_the_exact_sum(dtype, seed):
    a, b = patterns(dtype, np.random.default_rng(seed), 3000)
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    got = add(a, b, dtype).astype(np.float64)
    want = [nearest_even(Fraction(float(x)) + Fraction(float(y)), dtype) for x, y in zip(a, b)]
    wrong = np.flatnonzero(got != want)
    assert wrong.size == 0, f"seed {seed}: {a[wrong[:3]]} + {b[wrong[:3]]} gives {got[wrong[:3]]}"


@pytest.mark.parametrize("dtype", FORMATS)
def test_add_commutes_and_every_nan_is_canonical(dtype):
    rng = np.random.default_rng(5)
    a, b = patterns(dtype, rng, 20000)
    a[:100] = np.inf
    b[:50] = -np.inf
    b[50:100] = np.nan
    unsigned = FORMATS[dtype][2]
    total = add(a, b, dtype)
    assert np.array_equal(total.view(unsigned), add(b, a, dtype).view(unsigned))
    is_nan = np.isnan(total)
    assert is_nan[:100].all()
    assert (total.view(unsigned)[is_nan] == NAN[dtype]).all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_zeros_keep_the_sign_that_ieee_754_gives(dtype):
    zeros = np.array([-0.0, -0.0, 0.0], NUMPY_DTYPES[dtype])
    others = np.array([-0.0, 0.0, 0.0], NUMPY_DTYPES[dtype])
    assert list(np.signbit(add(zeros, others, dtype))) == [True, False, False]


def test_int32_wraps():
    a = np.array([0x7FFFFFFF, -0x80000000, -1], np.int32)
    b = np.array([1, -1, 1], np.int32)
    assert list(add(a, b, "int32")) == [-0x80000000, 0x7FFFFFFF, 0]
    assert list(round_once(np.array([1 << 31, -(1 << 31) - 1, 3 << 32]), "int32")) == [
        -0x80000000, 0x7FFFFFFF, 0]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_round_once_is_one_rounding(dtype, wide):
    rng = np.random.default_rng(7)
    precision, least, _ = FORMATS[dtype]
    exponents = rng.integers(least - 4, 20, 4000)
    values = rng.integers(1 << precision, 1 << precision + 1, 4000) + rng.choice(
        [0, 0.25, 0.5, 0.5 + 2.0 ** -20, 0.5 - 2.0 ** -20], 4000)
    values = (values * 2.0 ** exponents * rng.choice([-1, 1], 4000)).astype(wide)
    got = round_once(values, dtype).astype(np.float64)
    want = [nearest_even(Fraction(float(value)), dtype) for value in values]
    wrong = np.flatnonzero(got != want)
    assert wrong.size == 0, f"{values[wrong[:3]]} gives {got[wrong[:3]]}"


def test_float64_to_bfloat16_rounds_once():
    # By way of float32 the last bit is lost, and what is left is a tie that goes to 1.0.
    assert float(round_once(np.float64(1 + 2 ** -8 + 2 ** -40), "bfloat16")) == 1.0078125
    assert float(round_once(np.float64(1e39), "bfloat16")) == float("inf")
    just_below = np.float64((2 - 2.0 ** -8) * 2.0 ** 127 * (1 - 2.0 ** -50))
    assert np.isfinite(float(round_once(just_below, "bfloat16")))


def test_integers_are_rounded_once_and_refused_where_that_is_impossible():
    assert float(round_once(np.array(2 ** 24 + 1), "float32")) == 2.0 ** 24
    with pytest.raises(ValueError, match="beyond 2"):
        round_once(np.array([(1 << 53) + 1]), "float32")
    with pytest.raises(ValueError, match="int32 needs integers, not float64"):
        round_once(np.array([1.5]), "int32")


def test_canonical_leaves_the_argument_alone():
    value = np.array([0x7FC1], np.uint16).view(NUMPY_DTYPES["bfloat16"])
    assert canonical(value, "bfloat16").view(np.uint16)[0] == 0x7FC0
    assert value.view(np.uint16)[0] == 0x7FC1


def test_unknown_dtype_is_refused_with_its_name():
    with pytest.raises(ValueError, match="not 'float8'"):
        add([1], [2], "float8")
