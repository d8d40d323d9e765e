"""The ring's collectives: which device adds which chunk, and in which order.

A sum in a narrow format depends on its order, and a ring rounds at every hop. In bfloat16 the four
values 3, 256, 255, 256 give 772 in a ring (a float32 sum rounded once gives 768), and 256 followed
by seven ones gives 256, 260 or 264 by position. That is a property of every ring with 16-bit
transport, not an error.
"""

import numpy as np

from .arithmetic import NUMPY_DTYPES, add, round_once
from .partials import split

__all__ = ["chunk_bounds", "ring_all_gather", "ring_all_reduce", "ring_order",
           "ring_reduce_scatter", "ring_running_sums"]


def chunk_bounds(total, devices, unit=1):
    """Where ``total`` rows are cut into one chunk a device: ``devices`` + 1 numbers.

    Chunks hold whole units of ``unit`` rows where there are enough units for all devices, so that
    tiles are cut at the output's edge only; else rows are dealt out one by one, and chunks may be
    empty.
    """
    units = -(-total // unit)
    if units < devices:
        return split(total, devices)
    return tuple(min(bound * unit, total) for bound in split(units, devices))


def ring_order(chunk, devices):
    """Devices in the order in which they add to a chunk: the first gives its value as it is."""
    return tuple((chunk - hop) % devices for hop in range(1, devices + 1))


def ring_running_sums(partials, dtype, *, bounds=None, axis=0):
    """Every value that a chunk has on its way: ``{(device, chunk): array}``.

    ``(device, chunk)`` is what that device has after its own addition, and thus what its memory
    holds in the end for each chunk that it does not pass on untouched.

    Parameters
    ----------
    partials : sequence of array
        One partial sum of the whole output a device.
    dtype : str
        Element type; partials of another type are rounded to it once.
    bounds : sequence of int, optional
        Chunk borders along ``axis``; balanced if not given.
    axis : int
        Dimension that is scattered.
    """
    devices = len(partials)
    kind = NUMPY_DTYPES[dtype]
    # An array that has the type already keeps all its bits, NaN payloads too: it is only stored.
    partials = [np.asarray(part) for part in partials]
    partials = [part if part.dtype == kind else round_once(part, dtype) for part in partials]
    if bounds is None:
        bounds = chunk_bounds(partials[0].shape[axis], devices)
    sums = {}
    for chunk in range(devices):
        where = [slice(None)] * partials[0].ndim
        where[axis] = slice(bounds[chunk], bounds[chunk + 1])
        first, *others = ring_order(chunk, devices)
        value = sums[first, chunk] = partials[first][tuple(where)].copy()
        for device in others:
            value = sums[device, chunk] = add(value, partials[device][tuple(where)], dtype)
    return sums


def ring_reduce_scatter(partials, dtype, *, bounds=None, axis=0):
    """Reduced chunks, one a device: chunk ``c`` as device ``c`` has it. See `ring_running_sums`."""
    sums = ring_running_sums(partials, dtype, bounds=bounds, axis=axis)
    return [sums[device, device] for device in range(len(partials))]


def ring_all_gather(chunks, *, axis=0):
    """The whole output, as every device has it after the chunks have gone round."""
    return np.concatenate(chunks, axis=axis)


def ring_all_reduce(partials, dtype, *, bounds=None, axis=0):
    """The whole reduced output: reduce-scatter, then all-gather."""
    chunks = ring_reduce_scatter(partials, dtype, bounds=bounds, axis=axis)
    return ring_all_gather(chunks, axis=axis)
