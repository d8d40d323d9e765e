"""How an output is cut: one chunk a device, tiles within a chunk, and where it lies in memory."""

import dataclasses
import itertools

import numpy as np

from t3hw.reference import NUMPY_DTYPES, chunk_bounds

from .records import Chunk, PlanError, Tile

__all__ = ["Layout", "cut", "read_chunk"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """An output of ``m`` x ``n`` elements in memory, and how it is tiled.

    The output is row-major with ``pitch`` bytes from row to row. Where columns are scattered
    (``scatter_dim`` 1) it is chunk-major: each chunk is such a matrix, one after the other.
    """

    m: int
    n: int
    element_bytes: int
    devices: int
    tile_rows: int
    tile_columns: int
    wavefronts: int
    base: int
    pitch: int
    scatter_dim: int
    by_address: bool

    @property
    def bounds(self):
        """Borders of the chunks along the scattered dimension."""
        return layout_bounds(self.m, self.n, self.devices, self.tile_rows, self.tile_columns,
                             self.scatter_dim)

    @property
    def wf_shift(self):
        """Bits of the tile's number that are the wavefront's."""
        return self.wavefronts.bit_length() - 1


def layout_bounds(m, n, devices, tile_rows, tile_columns, scatter_dim):
    """Borders of the chunks along the scattered dimension."""
    if scatter_dim:
        return chunk_bounds(n, devices, tile_columns)
    return chunk_bounds(m, devices, tile_rows)


def cut(layout):
    """All chunks with their tiles.

    Tiles are cut at the edges of their chunk, so none lies across two. A tile's number,
    ``wg << wf_shift | wf``, counts from 0 in each chunk: a workgroup's id is its place in a stage.
    Numbers have no holes, since a plan is done when each of a range of slots is full. So where a
    workgroup at a ragged edge has fewer rows than wavefronts, the next workgroup's numbers close
    up.
    """
    chunks = []
    bounds = layout.bounds
    used = 0
    for index, (low, high) in enumerate(itertools.pairwise(bounds)):
        if layout.scatter_dim:
            row, rows, column, columns = 0, layout.m, low, high - low
            address = layout.base + used * layout.m * layout.pitch
        else:
            row, rows, column, columns = low, high - low, 0, layout.n
            address = layout.base + low * layout.pitch
        used += high > low
        size = rows * columns * layout.element_bytes
        span = (rows - 1) * layout.pitch + columns * layout.element_bytes if size else 0
        tiles = tuple(
            Tile(chunk=index, wg=number >> layout.wf_shift, wf=number & layout.wavefronts - 1,
                 row=row + tile_row, column=column + tile_column, rows=tile_rows,
                 columns=tile_columns, row_bytes=tile_columns * layout.element_bytes,
                 address=address + tile_row * layout.pitch + tile_column * layout.element_bytes)
            for (tile_row, tile_rows, tile_column, tile_columns), number
            in zip(_tiles(layout, rows, columns), itertools.count()))
        chunks.append(Chunk(index=index, row=row, column=column, rows=rows, columns=columns,
                            address=address, limit=address + span - 1, bytes=size, tiles=tiles))
    return tuple(chunks)


def _tiles(layout, rows, columns):
    """Row, rows, column, columns of each tile of a chunk: workgroups by rows, wavefronts within."""
    height = -(-layout.tile_rows // layout.wavefronts)
    for top in range(0, rows, layout.tile_rows):
        bottom = min(top + layout.tile_rows, rows)
        for left in range(0, columns, layout.tile_columns):
            width = min(layout.tile_columns, columns - left)
            for row in range(top, bottom, height):
                yield row, min(height, bottom - row), left, width


def count_tiles(layout):
    """Tiles of the whole output, without making them."""
    height = -(-layout.tile_rows // layout.wavefronts)
    total = 0
    for low, high in itertools.pairwise(layout.bounds):
        rows, columns = (layout.m, high - low) if layout.scatter_dim else (high - low, layout.n)
        whole, rest = divmod(rows, layout.tile_rows)
        waves = whole * -(-layout.tile_rows // height) + -(-rest // height)
        total += waves * -(-columns // layout.tile_columns)
    return total


def check_address_mode(layout, beat_bytes):
    """Refuse what a tile number made of address bits cannot describe."""
    row_bytes = layout.tile_columns * layout.element_bytes
    for name, value in (("pitch", layout.pitch), ("tile rows", layout.tile_rows),
                        ("tile row bytes", row_bytes)):
        if value & value - 1:
            raise PlanError(f"{name} must be a power of two where tile_ids is 'address', "
                            f"not {value}")
    if layout.base % beat_bytes:
        raise PlanError(f"base must be a multiple of the beat, {beat_bytes} bytes, where tile_ids "
                        f"is 'address', not {layout.base}")
    if row_bytes < beat_bytes:
        raise PlanError(f"tile row bytes must be at least a beat, {beat_bytes}, where tile_ids is "
                        f"'address', not {row_bytes}")
    if layout.wavefronts != 1:
        raise PlanError("wavefronts must be 1 where tile_ids is 'address', "
                        f"not {layout.wavefronts}")
    for low, high in itertools.pairwise(layout.bounds):
        columns = high - low if layout.scatter_dim else layout.n
        tiles = -(-columns // layout.tile_columns)
        if high > low and tiles * row_bytes != max(layout.pitch, row_bytes):
            raise PlanError(f"pitch must be {tiles * row_bytes}, the {tiles} tiles of a row, where "
                            f"tile_ids is 'address', not {layout.pitch}")


def read_chunk(plan, chunk, read_memory):
    """A chunk's elements as a ``rows`` x ``columns`` array, by ``read_memory(address, length)``."""
    chunk = plan.chunks[chunk]
    kind = NUMPY_DTYPES[plan.dtype]
    if not chunk.tiles:
        return np.empty((chunk.rows, chunk.columns), kind)
    row_bytes = chunk.columns * kind.itemsize
    data = read_memory(chunk.address, chunk.limit - chunk.address + 1)
    data = np.frombuffer(bytes(data).ljust(chunk.rows * plan.pitch, b"\0"), np.uint8)
    return data.reshape(chunk.rows, plan.pitch)[:, :row_bytes].copy().view(kind)
