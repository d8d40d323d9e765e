"""Pairs of values to add: those that an adder could get wrong, and random ones."""

import numpy as np

__all__ = ["vector_pairs"]

#: Bits of the exponent and of the mantissa.
_FORMATS = {"float32": (8, 23), "bfloat16": (8, 7), "float16": (5, 10)}
#: Random pairs: thorough, quick.
_RANDOM = 512, 12
#: Pairs of special values, apart from the most important ones, and ties, in a quick test.
_SPECIAL, _TIES = 42, 24
#: Elements of the smallest type in the widest beat.
_WHOLE = 32


def vector_pairs(dtype, rng, *, quick=False):
    """Two arrays of bits, as unsigned integers of the type's width,
    that fill whole beats of any node.

    All pairs of special values (zeros, subnormals, the least and the largest number, one,
    infinities, NaN, of both signs), sums that lie halfway between two numbers and beside that,
    numbers that cancel, and random bits; in any order.

    Parameters
    ----------
    dtype : str
        Element type.
    rng : numpy.random.Generator
        For random bits, and the order.
    quick : bool
        Fewer of them.
    """
    bits = 16 if dtype in ("bfloat16", "float16") else 32
    kind = np.dtype(f"u{bits // 8}")
    specials = _integers() if dtype == "int32" else _specials(*_FORMATS[dtype])
    pairs = [(a, b) for a in specials for b in specials]
    if quick:
        pairs = [pairs[index] for index in rng.permutation(len(pairs))[:_SPECIAL]]
        pairs += [] if dtype == "int32" else _corners(*_FORMATS[dtype])
    if dtype != "int32":
        ties = _ties(*_FORMATS[dtype])
        pairs += [ties[index] for index in rng.permutation(len(ties))[:_TIES]] if quick else ties
    values = np.array(pairs, kind)
    count = _RANDOM[quick]
    values = np.concatenate([values, rng.integers(0, 1 << bits, (count, 2), kind)])
    if dtype != "int32":
        # Random bits are far apart; where exponents are close, all of the adder works.
        near = rng.integers(0, 1 << bits, (count, 2), kind)
        exponents = kind.type(((1 << _FORMATS[dtype][0]) - 4) << _FORMATS[dtype][1])
        near[:, 1] = near[:, 0] & exponents | near[:, 1] & kind.type(~exponents)
        values = np.concatenate([values, near])
    values = np.concatenate([values, values[:-len(values) % _WHOLE]])
    values = values[rng.permutation(len(values))]
    return np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])


def _integers():
    return [0, 1, 2, 0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0x55555555,
            0xAAAAAAAA, 0xFFFF, 0x10000]


def _specials(exponent, mantissa):
    """Values of both signs; a NaN that is quiet with a payload, and one that signals."""
    top = (1 << exponent) - 1
    bias = top >> 1
    positive = [
        0, 1, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1,
        bias << mantissa, (bias << mantissa) + 1, (bias + 1) << mantissa,
        (top << mantissa) - 1, ((top - 1) << mantissa), top << mantissa,
        (top << mantissa) + 1, (top << mantissa) + (1 << mantissa - 1) + 3]
    sign = 1 << exponent + mantissa
    return positive + [sign | value for value in positive]


def _corners(exponent, mantissa):
    """Infinities that cancel, minus zero, overflow, subnormals,
    a NaN with a payload, cancellation."""
    infinity = ((1 << exponent) - 1) << mantissa
    one = ((1 << exponent) - 1 >> 1) << mantissa
    sign = 1 << exponent + mantissa
    return [(infinity, infinity | sign), (sign, sign), (infinity - 1, infinity - 1), (1, 1),
            (infinity + 5, one), (one, one | sign)]


def _ties(exponent, mantissa):
    """1 + k units and half a unit, a little less, a little more; of all signs."""
    bias = (1 << exponent) - 1 >> 1
    one = bias << mantissa
    half = bias - mantissa - 1 << mantissa
    sign = 1 << exponent + mantissa
    pairs = [(one + k, half + around) for k in range(4) for around in (-1, 0, 1)]
    # Halfway to what is beyond the largest number, and cancellation.
    largest = ((1 << exponent) - 1 << mantissa) - 1
    pairs += [(largest, largest - (mantissa + 1 << mantissa)), (one + 1, one | sign),
              (one, half | sign)]
    return pairs + [(b, a) for a, b in pairs] + [(a ^ sign, b ^ sign) for a, b in pairs]
