"""The four element types: rounding once, adding with one rounding, the one NaN of an addition."""

import ml_dtypes
import numpy as np

__all__ = ["NUMPY_DTYPES", "add", "canonical", "round_once"]

#: Element types of t3hw by name, as numpy knows them.
NUMPY_DTYPES = {
    "int32": np.dtype(np.int32),
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}

_BITS = {"float32": np.uint32, "bfloat16": np.uint16, "float16": np.uint16}
_CANONICAL_NAN = {"float32": 0x7FC00000, "bfloat16": 0x7FC0, "float16": 0x7E00}


def _numpy_dtype(dtype):
    if dtype not in NUMPY_DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(NUMPY_DTYPES)}, not {dtype!r}")
    return NUMPY_DTYPES[dtype]


def canonical(values, dtype):
    """A copy with each NaN replaced by the canonical one: quiet, positive, empty payload."""
    values = np.array(values, dtype=_numpy_dtype(dtype))
    if dtype != "int32":
        with np.errstate(invalid="ignore"):         # a signalling NaN is no reason to warn
            is_nan = np.isnan(values)
        values.view(_BITS[dtype])[is_nan] = _CANONICAL_NAN[dtype]
    return values


def add(a, b, dtype):
    """Element-wise sum, rounded once to nearest even; int32 wraps. What near-memory compute does.

    bfloat16 and float16 are added in float32 and rounded again. That is the same as one rounding:
    rounding a sum of two p-bit numbers first to q bits and then to p bits is innocuous where q is
    at least 2p + 2 (Figueroa, 1995), and here p is 8 or 11 and q is 24. Sums below the normal range
    are exact in all formats.
    """
    kind = _numpy_dtype(dtype)
    a = np.asarray(a, kind)
    b = np.asarray(b, kind)
    if dtype == "int32":
        return (a.view(np.uint32) + b.view(np.uint32)).view(np.int32)
    with np.errstate(all="ignore"):
        total = (a.astype(np.float32) + b.astype(np.float32)).astype(kind)
    return canonical(total, dtype)


def round_once(values, dtype):
    """Values in float32, float64 or an integer type as elements of ``dtype``, rounded once.

    NaN becomes the canonical one; integers are taken modulo 2**32.

    ml_dtypes takes float64 to bfloat16 by way of float32, which rounds twice. Here float64 goes to
    float32 rounded to *odd*, so that the second rounding still sees that something was cut off.
    """
    kind = _numpy_dtype(dtype)
    values = np.asarray(values)
    if values.dtype == kind:
        return canonical(values, dtype)
    if dtype == "int32":
        if values.dtype.kind not in "iu":
            raise ValueError(f"int32 needs integers, not {values.dtype}")
        return values.astype(np.int64).astype(np.uint32).view(np.int32)
    with np.errstate(all="ignore"):
        if values.dtype.kind in "iu":
            if values.size and max(abs(int(values.min())), abs(int(values.max()))) > 1 << 53:
                raise ValueError("integers beyond 2**53 cannot be rounded once")
            values = values.astype(np.float64)
        if dtype == "bfloat16" and values.dtype == np.float64:
            values = _to_float32_odd(values)
        return canonical(values.astype(kind), dtype)


def _to_float32_odd(values):
    """float64 to float32; what does not fit becomes the neighbour with an odd last bit."""
    nearest = values.astype(np.float32)
    bits = nearest.view(np.uint32)
    too_far = np.abs(nearest.astype(np.float64)) > np.abs(values)
    inexact = (nearest.astype(np.float64) != values) & ~np.isnan(values)
    # One step toward zero truncates (infinity becomes the largest number); then the bit is set.
    truncated = np.where(inexact & too_far, bits - np.uint32(1), bits)
    return np.where(inexact, truncated | np.uint32(1), truncated).view(np.float32)
