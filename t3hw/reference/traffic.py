"""What the traffic engines write: pseudo-random words that follow from their addresses."""

import numpy as np

__all__ = ["gemm_words"]

#: Distance of the sequences of two seeds: 2**32 divided by the golden ratio.
SEED_STRIDE = 0x9E3779B9


def gemm_words(first_word, count, seed, and_mask=0xFFFFFFFF, or_mask=0):
    """Words that a GEMM engine stores at word addresses ``first_word`` and on.

    Word ``n`` is ``mix(n + seed * SEED_STRIDE) & and_mask | or_mask``, where mix is Bob Jenkins's
    hash of a 32-bit integer: six rounds of additions, shifts and exclusive ors that need no
    multiplier and reach every bit.

    Returns
    -------
    numpy.ndarray
        ``count`` of uint32.
    """
    for name, value in (("first_word", first_word), ("count", count), ("seed", seed)):
        if value < 0:
            raise ValueError(f"{name} must not be negative, not {value!r}")
    offset = (first_word + seed * SEED_STRIDE) % (1 << 32)
    x = (np.arange(count, dtype=np.uint64) + np.uint64(offset)).astype(np.uint32)
    x = x + (x << 12) + np.uint32(0x7ED55D16)
    x = x ^ (x >> 19) ^ np.uint32(0xC761C23C)
    x = x + (x << 5) + np.uint32(0x165667B1)
    x = (x + np.uint32(0xD3A2646C)) ^ (x << 9)
    x = x + (x << 3) + np.uint32(0xFD7046C5)
    x = x ^ (x >> 16) ^ np.uint32(0xB55A4F09)
    return x & np.uint32(and_mask) | np.uint32(or_mask)
