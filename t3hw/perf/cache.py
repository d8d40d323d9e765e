"""What a GEMM reads from memory through a last-level cache, stage by stage.

The model
---------
* The output is cut into tiles, one a workgroup. Workgroups are dispatched in bands of ``band_rows``
  tile rows: down the rows of a band, then to the next tile column, then to the next band. A *stage*
  is as many workgroups as there are compute units, in that order; the last one may be smaller. A
  device's chunk is a run of consecutive workgroups, so it is compact: whole bands, or part of one.
* In a stage all workgroups run in lock-step over K, ``k_step`` elements at a time. For each step a
  workgroup needs a *segment* of its row panel of A and one of its column panel of B (panel x
  k_step). Workgroups that share a panel share the load: in a stage each segment is asked for once.
* The cache is fully associative, with least-recently-used replacement, and its unit is the segment.
  It is empty at first. A segment that is not in it is read from memory, whole.
* At a stage's end each workgroup writes its tile. In the baseline the tile is allocated in the
  cache (write-back; whole lines, so that nothing is fetched) and pushes inputs out. With T3 it
  bypasses the cache. The tile reaches memory once in both cases.
* Segments at an edge have the size that they have: nothing is read beyond the matrices.

What it leaves out: conflicts of a real cache's sets, slices and line size; stages that drift apart
(a real GPU has no barrier between them); loads of one stage that reach memory twice because sharers
are too far apart; caches in front of the last-level one; the traffic of other kernels, and what the
kernel before left in the cache. The order is that of the device that starts with the first chunk;
one that starts in the middle of a band reads up to 4 % more in GPT-3, PALM and MT-NLG at TP 32.
"""

import collections
import dataclasses


__all__ = ["GemmTiling", "SegmentCache", "stage_reads"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmTiling:
    """A GEMM of ``rows x k`` times ``k x columns``, cut into workgroups.

    Parameters
    ----------
    rows, columns, k : int
        Of the GEMM.
    element_bytes : int
        Of an operand.
    tile_rows, tile_columns : int
        Elements of a workgroup's output.
    k_step : int
        Elements of K that are loaded at a time.
    units : int
        Workgroups of a stage.
    band_rows : int
        Tile rows of a band.

    Raises
    ------
    ValueError
        If one of them is no integer of at least 1.
    """

    rows: int
    columns: int
    k: int
    element_bytes: int
    tile_rows: int
    tile_columns: int
    k_step: int
    units: int
    band_rows: int

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{field.name} must be an integer of at least 1, not {value!r}")

    @property
    def row_tiles(self):
        """Tiles in a column of them; the last one may stick out."""
        return -(-self.rows // self.tile_rows)

    @property
    def column_tiles(self):
        """Tiles in a row of them; the last one may stick out."""
        return -(-self.columns // self.tile_columns)

    @property
    def workgroups(self):
        """Tiles of the output."""
        return self.row_tiles * self.column_tiles

    @property
    def steps(self):
        """Of K; the last one may be shorter."""
        return -(-self.k // self.k_step)

    @property
    def stages(self):
        """How often the compute units are filled."""
        return -(-self.workgroups // self.units)

    def order(self):
        """Tile row and tile column of each workgroup, in the order of dispatch."""
        for first in range(0, self.row_tiles, self.band_rows):
            band = range(first, min(first + self.band_rows, self.row_tiles))
            for column in range(self.column_tiles):
                for row in band:
                    yield row, column


class SegmentCache:
    """Fully associative, least recently used goes first, entries of any size.

    Parameters
    ----------
    size : int
        Bytes that it holds.
    """

    def __init__(self, size):
        self._size = size
        self._used = 0
        self._entries = collections.OrderedDict()

    def touch(self, key, size):
        """Use an entry; returns whether it was there. If not, it is now, unless it is too large."""
        entries = self._entries
        if key in entries:
            entries.move_to_end(key)
            return True
        if size <= self._size:
            self._used += size
            while self._used > self._size:
                self._used -= entries.popitem(last=False)[1]
            entries[key] = size
        return False


def stage_reads(tiling, *, cache_bytes, output_in_cache):
    """Bytes that each stage of a GEMM reads from memory.

    Parameters
    ----------
    tiling : GemmTiling
        The GEMM.
    cache_bytes : int
        Size of the last-level cache.
    output_in_cache : bool
        Whether output tiles are allocated in the cache (baseline), or bypass it (T3).

    Returns
    -------
    tuple of int
        Bytes, a stage each.
    """
    cache = SegmentCache(cache_bytes)
    touch = cache.touch
    order = list(tiling.order())
    rows = _sizes(tiling.rows, tiling.tile_rows)
    columns = _sizes(tiling.columns, tiling.tile_columns)
    depths = [depth * tiling.element_bytes for depth in _sizes(tiling.k, tiling.k_step)]
    reads = []
    for start in range(0, len(order), tiling.units):
        stage = order[start:start + tiling.units]
        panels = [(("A", row), rows[row]) for row in sorted({row for row, _ in stage})]
        panels += [(("B", column), columns[column])
                   for column in sorted({column for _, column in stage})]
        missed = 0
        for step, depth in enumerate(depths):
            for panel, width in panels:
                if not touch((panel, step), width * depth):
                    missed += width * depth
        if output_in_cache:
            for row, column in stage:
                touch(("C", row, column), rows[row] * columns[column] * tiling.element_bytes)
        reads.append(missed)
    return tuple(reads)


def _sizes(whole, part):
    """Sizes of the parts of a whole."""
    return [min(part, whole - index * part) for index in range(-(-whole // part))]
