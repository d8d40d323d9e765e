"""What each device's GEMM produces before any reduction: its slice of K, times its slice of K."""

import numpy as np

from .arithmetic import NUMPY_DTYPES, round_once

__all__ = ["partial_products", "split"]


def split(total, parts):
    """Bounds of ``parts`` shares of ``total`` that differ by at most one: ``parts`` + 1 numbers."""
    return tuple(total * part // parts for part in range(parts + 1))


def partial_products(a, b, dtype, devices):
    """Partial sums of ``a @ b``, one array of ``dtype`` a device, for K sliced over ``devices``.

    Operands are rounded to ``dtype`` first. Products are summed in float32 in ascending order of k,
    a multiplication and an addition at a time, so that every machine gives the same bits; the
    result is rounded once to ``dtype``. int32 is exact modulo 2**32. A device whose slice of K is
    empty gives zeros.
    """
    a = round_once(a, dtype)
    b = round_once(b, dtype)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"operands must be M x K and K x N, not {a.shape} and {b.shape}")
    bounds = split(a.shape[1], devices)
    return [_product(a[:, low:high], b[low:high], dtype)
            for low, high in zip(bounds, bounds[1:], strict=False)]


def _product(a, b, dtype):
    if dtype == "int32":
        total = np.matmul(a.astype(np.int64).view(np.uint64), b.astype(np.int64).view(np.uint64))
        return total.astype(np.uint32).view(NUMPY_DTYPES["int32"])
    a = a.astype(np.float32)
    b = b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    term = np.empty_like(total)
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            np.multiply(a[:, k, None], b[None, k], out=term)
            np.add(total, term, out=total)
    return round_once(total, dtype)
