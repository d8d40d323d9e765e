"""Plans of collectives: what to program into each device of a ring, as plain data.

A plan is made here, can be printed, and is refused before anything is programmed if it cannot be.
"""

import dataclasses
import itertools
import operator

from t3hw.config import DTYPE_BYTES

from . import layout as layouts
from .limits import check_device, check_together
from .records import (Command, DevicePlan, PlanError, Region, Route, Stage, TileEntry, Traffic)

__all__ = ["Plan", "PlanError", "check_together", "ring_reduce_scatter"]

#: A tile's offset from its route's base has 32 bits.
_ROUTE_SPAN = 1 << 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A collective on a ring: the same buffer at the same addresses on all devices.

    ``chunks`` is the output, ``device_plans`` what each device does with it; device ``d`` sends to
    ``d - 1``, and has chunk ``d`` of the result in the end.
    """

    layout: layouts.Layout
    dtype: str
    granularity: str | int
    index: int
    tile_ids: str
    chunks: tuple
    device_plans: tuple

    @property
    def devices(self):
        """Number of devices."""
        return len(self.device_plans)

    @property
    def bounds(self):
        """Borders of the chunks along the scattered dimension."""
        return self.layout.bounds

    @property
    def scatter_dim(self):
        """0: chunks are rows; 1: chunks are columns."""
        return self.layout.scatter_dim

    @property
    def pitch(self):
        """Bytes from one row of a chunk to the next."""
        return self.layout.pitch

    @property
    def base(self):
        """First byte of the buffer."""
        return self.layout.base

    @property
    def end(self):
        """First byte behind the buffer."""
        return max(chunk.limit for chunk in self.chunks if chunk.tiles) + 1

    @property
    def output_bytes(self):
        """Bytes of the whole output."""
        return sum(chunk.bytes for chunk in self.chunks)

    def check(self, config):
        """Refuse, with `PlanError`, what a node of this configuration cannot hold or do."""
        for device_plan in self.device_plans:
            check_device(device_plan, config)

    def next_free(self, *, alignment=64):
        """Arguments for a further plan: places in tables, and a buffer, behind this one's."""
        def behind(first, count):
            return max(getattr(one, first) + count(one) for one in self.device_plans)

        def behind_entries(name):
            return max(entry.index + 1 for one in self.device_plans for entry in getattr(one, name))

        return {
            "plan": self.index + 1,
            "first_tile": behind("first_tile", lambda one: len(one.tiles)),
            "first_command": behind("first_command", lambda one: len(one.commands)),
            "first_touch": behind("first_touch", lambda one: one.touch_beats),
            "first_region": behind_entries("regions"),
            "first_route": behind_entries("routes"),
            "base": -(-self.end // alignment) * alignment,
        }

    def read_chunk(self, chunk, read_memory):
        """A chunk's elements as an array, by ``read_memory(address, length)``."""
        return layouts.read_chunk(self, chunk, read_memory)

    def as_dict(self):
        """All of the plan as plain data."""
        return dataclasses.asdict(self) | {"bounds": list(self.bounds),
                                           "output_bytes": self.output_bytes}

    def describe(self):
        """The plan as text, a few lines a device."""
        cut = self.layout
        lines = [
            f"plan {self.index}: ring reduce-scatter of {cut.m} x {cut.n} {self.dtype} over "
            f"{self.devices} devices, {('rows', 'columns')[cut.scatter_dim]} scattered",
            f"  buffer {cut.base:#x} to {self.end - 1:#x}, pitch {cut.pitch} bytes; tiles "
            f"{cut.tile_rows} x {cut.tile_columns} in {cut.wavefronts} wavefront(s), ids by "
            f"{self.tile_ids}; a command each {self.granularity}",
        ]
        lines += [f"  chunk {chunk.index}: {chunk.rows} x {chunk.columns} at row {chunk.row}, "
                  f"column {chunk.column}, address {chunk.address:#x}, {len(chunk.tiles)} tiles"
                  for chunk in self.chunks]
        for one in self.device_plans:
            stages = ", ".join(f"{stage.chunk} {stage.role}" for stage in one.stages)
            lines += [
                f"  device {one.device}: chunks {stages}",
                f"    {len(one.tiles)} tiles from slot {one.first_tile}, {len(one.commands)} "
                f"commands from {one.first_command}, {one.touch_beats} beats of first-touch map "
                f"from {one.first_touch}",
            ]
            lines += [f"    region {region.index}: {region.base:#x} to {region.limit:#x} "
                      f"{region.action.lower().replace('_', ' ')}" for region in one.regions]
            lines.append(
                f"    bytes: {one.traffic.producer_write_bytes} stored here, "
                f"{one.traffic.remote_write_bytes} stored at the neighbour, "
                f"{one.traffic.incoming_update_bytes} incoming, "
                f"{one.traffic.dma_read_bytes} sent on")
        return "\n".join(lines)


def ring_reduce_scatter(*, m, n, dtype, devices, config, tile=(64, 64), wavefronts=1,
                        granularity="tile", base=0, pitch=None, scatter_dim=0, tile_ids="user",
                        plan=0, first_tile=0, first_command=0, first_touch=0, first_region=0,
                        first_route=0, timeout=0, overlap=True, check=True):
    """Plan a reduce-scatter of an ``m`` x ``n`` output in a ring.

    Parameters
    ----------
    m, n : int
        Rows and columns of the output.
    dtype : str
        Element type.
    devices : int
        Devices in the ring, at least 2.
    config : NodeConfig
        What each node is.
    tile : (int, int)
        Rows and columns of a workgroup's output.
    wavefronts : int
        Into how many bands of rows a workgroup's tile is cut: a power of two.
    granularity : {"tile", "chunk"} or int
        Tiles that one command waits for and sends.
    base : int
        Address of the output's buffer; a multiple of the element.
    pitch : int, optional
        Bytes from one row to the next; a multiple of the element. If not given, rows have no gaps.
    scatter_dim : {0, 1}
        Dimension that is scattered. Columns lie chunk by chunk: see `t3hw.runtime.layout.Layout`.
    tile_ids : {"user", "address"}
        Whether the producer sends tile ids, or the hardware takes them from the address.
    plan, first_tile, first_command, first_touch, first_region, first_route : int
        Places in the hardware's tables. See `Plan.next_free`.
    timeout : int
        Cycles after which the hardware reports that the plan is late; 0 for never.
    overlap : bool
        Whether the stores of the first stage go to the neighbour at once. If not they stay, and DMA
        commands send them, as all others: with `Device.hold` the whole reduce-scatter can then wait
        for the end of the GEMM. To compare with.
    check : bool
        Whether to refuse what does not fit ``config``.

    Raises
    ------
    PlanError
        For every argument that cannot be, and, by ``check``, for what does not fit.
    """
    places = {"plan": plan, "first_tile": first_tile, "first_command": first_command,
              "first_touch": first_touch, "first_region": first_region, "first_route": first_route,
              "timeout": timeout}
    places = {name: _integer(name, value, 0) for name, value in places.items()}
    if dtype not in DTYPE_BYTES:
        raise PlanError(f"dtype must be one of {', '.join(DTYPE_BYTES)}, not {dtype!r}")
    if tile_ids not in ("user", "address"):
        raise PlanError(f"tile_ids must be 'user' or 'address', not {tile_ids!r}")
    if granularity not in ("tile", "chunk"):
        granularity = _integer("granularity ('tile', 'chunk' or tiles a command)", granularity, 1)
    layout = _layout(m, n, DTYPE_BYTES[dtype], devices, tile, wavefronts, base, pitch, scatter_dim,
                     tile_ids)
    if layout.by_address:
        layouts.check_address_mode(layout, config.beat_bytes)
    if check and layouts.count_tiles(layout) > layout.devices * config.tiles:
        raise PlanError(f"{layouts.count_tiles(layout)} tiles of the output are more than "
                        f"{layout.devices} tile tables of {config.tiles} entries hold")
    chunks = layouts.cut(layout)
    builder = _Builder(layout, chunks, dtype, granularity, config, places, overlap)
    made = Plan(layout=layout, dtype=dtype, granularity=granularity, index=places["plan"],
                tile_ids=tile_ids, chunks=chunks,
                device_plans=tuple(builder.device_plan(device) for device in range(layout.devices)))
    if check:
        made.check(config)
    return made


def _integer(name, value, least):
    try:
        number = operator.index(value)
    except TypeError:
        raise PlanError(f"{name} must be an integer, not {value!r}") from None
    if number < least:
        raise PlanError(f"{name} must be at least {least}, not {number}")
    return number


def _layout(m, n, element_bytes, devices, tile, wavefronts, base, pitch, scatter_dim, tile_ids):
    """The arguments as a checked `Layout`."""
    m = _integer("m", m, 1)
    n = _integer("n", n, 1)
    devices = _integer("devices", devices, 2)
    wavefronts = _integer("wavefronts", wavefronts, 1)
    if wavefronts & wavefronts - 1:
        raise PlanError(f"wavefronts must be a power of two, not {wavefronts}")
    try:
        tile_rows, tile_columns = tile
    except (TypeError, ValueError):
        raise PlanError(f"tile must be (rows, columns), not {tile!r}") from None
    tile_rows = _integer("tile rows", tile_rows, 1)
    tile_columns = _integer("tile columns", tile_columns, 1)
    base = _integer("base", base, 0)
    if scatter_dim not in (0, 1):
        raise PlanError(f"scatter_dim must be 0 or 1, not {scatter_dim!r}")
    scatter_dim = int(scatter_dim)
    columns = n
    if scatter_dim:
        bounds = layouts.layout_bounds(m, n, devices, tile_rows, tile_columns, scatter_dim)
        columns = max(high - low for low, high in itertools.pairwise(bounds))
    pitch = columns * element_bytes if pitch is None else _integer("pitch", pitch, 1)
    for name, value in (("base", base), ("pitch", pitch)):
        if value % element_bytes:
            raise PlanError(f"{name} must be a multiple of the element, {element_bytes} bytes, "
                            f"not {value}")
    if pitch < columns * element_bytes:
        raise PlanError(f"pitch must be at least a row's {columns * element_bytes} bytes, "
                        f"not {pitch}")
    return layouts.Layout(m=m, n=n, element_bytes=element_bytes, devices=devices,
                          tile_rows=tile_rows, tile_columns=tile_columns, wavefronts=wavefronts,
                          base=base, pitch=pitch, scatter_dim=scatter_dim,
                          by_address=tile_ids == "address")


class _Builder:
    """Makes the plan of each device from what is common to all."""

    def __init__(self, layout, chunks, dtype, granularity, config, places, overlap):
        self.layout = layout
        self.chunks = chunks
        self.dtype = dtype
        self.granularity = granularity
        self.config = config
        self.places = places
        self.overlap = overlap

    def device_plan(self, device):
        stages = self._stages(device)
        roles = {stage.chunk: stage.role for stage in stages}
        local = [chunk for chunk in self.chunks if roles.get(chunk.index) in ("forward", "keep")]
        # Only the device's own stores come to a chunk that it is the first to add to.
        writers = {chunk.index: 1 if chunk.index == (device + 1) % self.layout.devices else 2
                   for chunk in local}
        slots = {}
        for number, tile in enumerate(tile for chunk in local for tile in chunk.tiles):
            slots[tile.chunk, tile.wg, tile.wf] = self.places["first_tile"] + number
        commands, routes, entries = self._commands(local, roles, writers, slots)
        regions, touch_beats = self._regions(roles, writers, slots)
        stored = sum(chunk.bytes for chunk in local)
        return DevicePlan(
            device=device, plan=self.places["plan"], first_tile=self.places["first_tile"],
            first_command=self.places["first_command"], first_touch=self.places["first_touch"],
            touch_beats=touch_beats, timeout=self.places["timeout"], regions=tuple(regions),
            routes=tuple(routes), commands=tuple(commands), tiles=tuple(entries), stages=stages,
            traffic=Traffic(
                producer_write_bytes=stored,
                remote_write_bytes=sum(self.chunks[chunk].bytes for chunk, role in roles.items()
                                       if role == "remote"),
                incoming_update_bytes=sum(chunk.bytes for chunk in local
                                          if writers[chunk.index] == 2),
                dma_read_bytes=sum(chunk.bytes for chunk in local
                                   if roles[chunk.index] == "forward")))

    def _stages(self, device):
        """The staggered order: d+1, d+2, …, d. Empty chunks take no part."""
        count = self.layout.devices
        order = [(device + step) % count for step in range(1, count + 1)]
        roles = ["remote" if self.overlap else "forward"] + ["forward"] * (count - 2) + ["keep"]
        stages = [Stage(chunk=chunk, role=role) for chunk, role in zip(order, roles)
                  if self.chunks[chunk].tiles]
        if [stage.role for stage in stages] == ["remote"]:
            # A device that waits for nothing is done as soon as it is armed, and a plan that is
            # done takes no stores. So the only chunk of such an output is stored here first.
            stages = [Stage(chunk=stages[0].chunk, role="forward")]
        return tuple(stages)

    def _commands(self, local, roles, writers, slots):
        commands, routes, entries = [], [], []
        for chunk in local:
            size = {"tile": 1, "chunk": len(chunk.tiles)}.get(self.granularity, self.granularity)
            for start in range(0, len(chunk.tiles), size):
                tiles = chunk.tiles[start:start + size]
                command = None
                if roles[chunk.index] == "forward":
                    command = self.places["first_command"] + len(commands)
                # The command's route is the last one, or a new one where that does not reach.
                first, last = tiles[0].address, tiles[-1].address
                if not routes or last - routes[-1].source >= _ROUTE_SPAN:
                    routes.append(self._route(len(routes), first))
                route = routes[-1]
                entries += [TileEntry(slot=slots[tile.chunk, tile.wg, tile.wf], tile=tile,
                                      expected=tile.bytes * writers[chunk.index], command=command,
                                      offset=tile.address - route.source) for tile in tiles]
                if command is not None:
                    commands.append(Command(
                        index=command, plan=self.places["plan"], route=route.index,
                        need=len(tiles), count=len(tiles), first=entries[-len(tiles)].slot))
        return commands, routes, entries

    def _route(self, number, base):
        return Route(index=self.places["first_route"] + number, plan=self.places["plan"],
                     op="UPDATE", dtype=self.dtype, source=base, destination=base,
                     source_pitch=self.layout.pitch, destination_pitch=self.layout.pitch)

    def _regions(self, roles, writers, slots):
        """A region for each chunk, since tile numbers start anew in each."""
        geometry = {}
        if self.layout.by_address:
            row_bytes = self.layout.tile_columns * self.layout.element_bytes
            geometry = {"tile_id_mode": "ADDRESS", "pitch_log2": _log2(self.layout.pitch),
                        "rows_log2": _log2(self.layout.tile_rows),
                        "row_bytes_log2": _log2(row_bytes)}
        regions = []
        touch = self.places["first_touch"]
        for chunk in self.chunks:
            if chunk.index not in roles:
                continue
            fields = geometry | {
                "index": self.places["first_region"] + len(regions), "plan": self.places["plan"],
                "base": chunk.address, "limit": chunk.limit, "dtype": self.dtype, "tracked": True,
                "wf_shift": self.layout.wf_shift}
            if roles[chunk.index] == "remote":
                # Its tiles are the neighbour's; here they have no slots.
                regions.append(Region(action="REMOTE_UPDATE",
                                      first_tile=self.places["first_tile"], **fields))
                continue
            fields["first_tile"] = slots[chunk.index, 0, 0]
            if writers[chunk.index] == 1:
                regions.append(Region(action="LOCAL_STORE", **fields))
                continue
            first_beat = chunk.address >> self.config.beat_shift
            regions.append(Region(
                action="LOCAL_UPDATE", first_touch=True, accept_update=True,
                touch_offset=(touch - first_beat) % self.config.touch_beats, **fields))
            touch += (chunk.limit >> self.config.beat_shift) - first_beat + 1
        return regions, touch - self.places["first_touch"]


def _log2(value):
    return value.bit_length() - 1
