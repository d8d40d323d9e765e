"""Golden model in numpy: what a ring must produce, bit for bit, in the order in which it adds."""

from .arithmetic import NUMPY_DTYPES, add, canonical, round_once
from .partials import partial_products, split
from .ring import (chunk_bounds, ring_all_gather, ring_all_reduce, ring_order,
                   ring_reduce_scatter, ring_running_sums)

__all__ = [
    "NUMPY_DTYPES", "add", "canonical", "round_once", "partial_products", "split", "chunk_bounds",
    "ring_all_gather", "ring_all_reduce", "ring_order", "ring_reduce_scatter", "ring_running_sums",
]
