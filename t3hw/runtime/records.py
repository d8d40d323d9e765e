"""What a plan consists of: frozen records, with the register map's names of fields."""

import dataclasses

__all__ = ["Chunk", "Command", "DevicePlan", "PlanError", "Region", "Route", "Stage", "Tile",
           "TileEntry", "Traffic"]


class PlanError(ValueError):
    """A plan that cannot be; the message names the value and the limit."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tile:
    """A wavefront's part of the output, as every device sees it. ``row`` and ``column`` are its
    first element in the output; ``wg`` and ``wf`` are what the producer sends with it."""

    chunk: int
    wg: int
    wf: int
    row: int
    column: int
    rows: int
    columns: int
    address: int
    row_bytes: int

    @property
    def bytes(self):
        """Bytes of its elements."""
        return self.rows * self.row_bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chunk:
    """One device's share of the output. An empty one has no tiles, and no byte up to ``limit``."""

    index: int
    row: int
    column: int
    rows: int
    columns: int
    address: int
    limit: int
    bytes: int
    tiles: tuple


@dataclasses.dataclass(frozen=True, kw_only=True)
class TileEntry:
    """A tile in one device's tile table. ``command`` is None where no command waits for it."""

    slot: int
    tile: Tile
    expected: int
    command: int | None
    offset: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Region:
    """An address range of the producer and of the neighbour, first and last byte inclusive."""

    index: int
    action: str
    base: int
    limit: int
    plan: int
    dtype: str
    tracked: bool
    first_touch: bool = False
    accept_store: bool = False
    accept_update: bool = False
    tile_id_mode: str = "USER"
    wf_shift: int = 0
    first_tile: int = 0
    remote_delta: int = 0
    pitch_log2: int = 0
    rows_log2: int = 0
    row_bytes_log2: int = 0
    touch_offset: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Route:
    """Where a command's tiles go. A tile's offset counts from ``source`` and ``destination``."""

    index: int
    plan: int
    op: str
    dtype: str
    source: int
    destination: int
    source_pitch: int
    destination_pitch: int
    dma: bool = True
    tracked: bool = True
    interrupt: bool = False
    doorbell: bool = False
    doorbell_remote: bool = False
    doorbell_address: int = 0
    doorbell_data: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """Waits for ``need`` full tiles, then moves ``count`` tiles from slot ``first`` on."""

    index: int
    plan: int
    route: int
    need: int
    first: int
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One chunk of the producer's work, in the order in which it must be done.

    ``role``: ``"remote"``: its stores go to the neighbour; ``"forward"``: it is stored here, and
    sent on when complete; ``"keep"``: it is stored here, and stays.
    """

    chunk: int
    role: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes that one run moves on one device; the counters of the same names must equal them."""

    producer_write_bytes: int
    remote_write_bytes: int
    incoming_update_bytes: int
    dma_read_bytes: int

    @property
    def memory_write_bytes(self):
        """Bytes written to this device's memory: (2N-2)/N of the output where chunks are equal."""
        return self.producer_write_bytes + self.incoming_update_bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class DevicePlan:
    """All that one device is programmed with. ``touch_beats``: entries of the first-touch map."""

    device: int
    plan: int
    first_tile: int
    first_command: int
    first_touch: int
    touch_beats: int
    timeout: int
    regions: tuple
    routes: tuple
    commands: tuple
    tiles: tuple
    stages: tuple
    traffic: Traffic
