"""A GEMM whose K is sliced over devices: partial sums, and the stores that each producer makes."""

import dataclasses
import functools
import random

import numpy as np

from t3hw.reference import (NUMPY_DTYPES, partial_products, ring_reduce_scatter,
                            ring_running_sums)

__all__ = ["Burst", "Gemm", "producer_stages", "producer_writes"]

_PAGE = 4096
_LONGEST = 256


@dataclasses.dataclass(frozen=True, eq=False)
class Gemm:
    """``a @ b`` on ``devices`` devices; partial sums and result have the type ``dtype``."""

    a: np.ndarray
    b: np.ndarray
    dtype: str
    devices: int

    @property
    def m(self):
        """Rows of the output."""
        return self.a.shape[0]

    @property
    def n(self):
        """Columns of the output."""
        return self.b.shape[1]

    @functools.cached_property
    def partials(self):
        """Each device's partial sum of the whole output, computed once."""
        return partial_products(self.a, self.b, self.dtype, self.devices)

    def reduced(self, plan):
        """Chunks of the result, one a device, as the ring must give them."""
        return ring_reduce_scatter(self.partials, self.dtype, bounds=plan.bounds,
                                   axis=plan.scatter_dim)

    def running_sums(self, plan):
        """What each device's memory holds in the end: `t3hw.reference.ring_running_sums`."""
        return ring_running_sums(self.partials, self.dtype, bounds=plan.bounds,
                                 axis=plan.scatter_dim)


@dataclasses.dataclass(frozen=True, eq=False)
class Burst:
    """An AXI4 write of whole beats, incrementing. ``address`` is that of its first byte, and need
    not be a multiple of the beat; ``data`` and ``strobes`` are those of all beats from the multiple
    below it on."""

    address: int
    data: bytes
    strobes: tuple
    wg: int
    wf: int

    @property
    def beat_bytes(self):
        """Bytes of one beat."""
        return len(self.data) // len(self.strobes)

    def user(self, config):
        """Value of AWUSER."""
        return self.wf << config.wg_width | self.wg

    def beats(self):
        """(address, data, strobe) of each beat: a multiple of the beat, bytes, and an integer."""
        size = self.beat_bytes
        base = self.address - self.address % size
        for index, strobe in enumerate(self.strobes):
            yield base + index * size, self.data[index * size:(index + 1) * size], strobe

    def stores(self):
        """The beats as `t3hw.runtime.functional_ring.FunctionalRing.produce` takes them."""
        for address, data, strobe in self.beats():
            bits = [bool(strobe >> index & 1) for index in range(len(data))]
            yield address, data, bits, self.wg, self.wf


def producer_stages(plan, device, partial, config, *, seed=None, split=0.0, shuffle=False):
    """The stores of one device's producer: a list of `Burst` for each stage, in staggered order.

    Parameters
    ----------
    plan : Plan
        What the devices are programmed with.
    device : int
        Whose producer it is.
    partial : array
        The device's partial sum of the whole output, in the plan's dtype.
    config : NodeConfig
        Gives the width of a beat.
    seed : int, optional
        Of ``split`` and ``shuffle``.
    split : float
        Share of the bursts that are made twice, each with a part of the elements strobed.
    shuffle : bool
        Whether bursts come in any order within their stage.
    """
    rng = random.Random(seed)
    kind = NUMPY_DTYPES[plan.dtype]
    if partial.dtype != kind or partial.shape != (plan.layout.m, plan.layout.n):
        raise ValueError(f"partial must be {plan.layout.m} x {plan.layout.n} {kind}, "
                         f"not {partial.shape} {partial.dtype}")
    stages = []
    for stage in plan.device_plans[device].stages:
        bursts = []
        for tile in plan.chunks[stage.chunk].tiles:
            values = partial[tile.row:tile.row + tile.rows, tile.column:tile.column + tile.columns]
            for address, data in _runs(tile, np.ascontiguousarray(values), plan.pitch):
                for burst in _bursts(address, data, config.beat_bytes, tile):
                    if rng.random() < split:
                        bursts += _halves(burst, kind.itemsize, rng)
                    else:
                        bursts.append(burst)
        if shuffle:
            rng.shuffle(bursts)
        stages.append(bursts)
    return stages


def producer_writes(plan, device, partial, config, **options):
    """All stores of one device's producer, in order. See `producer_stages`."""
    return [burst for stage in producer_stages(plan, device, partial, config, **options)
            for burst in stage]


def _runs(tile, values, pitch):
    """Address and bytes of each stretch of memory that a tile fills: its rows, or all at once."""
    data = values.tobytes()
    if tile.row_bytes == pitch:
        yield tile.address, data
        return
    for row in range(tile.rows):
        yield tile.address + row * pitch, data[row * tile.row_bytes:(row + 1) * tile.row_bytes]


def _bursts(address, data, beat_bytes, tile):
    """Bursts for some bytes; none crosses a page, or is longer than the longest."""
    end = address + len(data)
    start = address
    while start < end:
        base = start - start % beat_bytes
        stop = min(end, start - start % _PAGE + _PAGE, base + _LONGEST * beat_bytes)
        top = stop + -stop % beat_bytes
        padded = bytes(start - base) + data[start - address:stop - address] + bytes(top - stop)
        strobes = tuple(
            _mask(max(start - beat, 0), min(stop - beat, beat_bytes))
            for beat in range(base, top, beat_bytes))
        yield Burst(start, padded, strobes, tile.wg, tile.wf)
        start = stop


def _mask(low, high):
    """Bits ``low`` to ``high`` - 1."""
    return (1 << high) - (1 << low)


def _halves(burst, element_bytes, rng):
    """A burst as two, each of which writes some of the elements of each beat."""
    element = _mask(0, element_bytes)
    taken = []
    for strobe in burst.strobes:
        places = range(0, burst.beat_bytes, element_bytes)
        taken.append(strobe & sum(element << place for place in places if rng.random() < 0.5))
    base = burst.address - burst.address % burst.beat_bytes
    for strobes in (taken, [strobe & ~mine for strobe, mine in zip(burst.strobes, taken)]):
        if any(strobes):
            # The address is that of the first byte written, where the first beat writes one.
            first = (strobes[0] & -strobes[0]).bit_length() - 1 if strobes[0] else 0
            yield Burst(base + first, burst.data, tuple(strobes), burst.wg, burst.wf)
