"""Plan of a reduce-scatter in relative layout: every device is programmed alike.

A device keeps its chunks in the order in which it produces them. What stands at position ``p`` of
one device stands at ``p + 1`` of its neighbour, so a tile goes one chunk further on, and all
devices have the same tables. Tiles are runs of bytes that follow each other.
"""

from .records import Command, DevicePlan, PlanError, Region, Route, Stage, Tile, TileEntry, Traffic

__all__ = ["relative_reduce_scatter"]


def relative_reduce_scatter(*, devices, chunk_tiles, tile_bytes, dtype, config, granularity=1,
                            base=0, plan=0):
    """Plan a reduce-scatter of ``devices`` chunks of ``chunk_tiles`` tiles each.

    Position 1 is sent to the neighbour by the producer's own stores; its place in memory stays
    empty. Positions 2 to ``devices`` - 1 are sent when they are complete; the last one stays.

    Parameters
    ----------
    devices : int
        Devices in the ring, at least 2.
    chunk_tiles : int
        Tiles of one chunk, at least 1.
    tile_bytes : int
        Bytes of a tile: a power of two, at least a beat.
    dtype : str
        Element type.
    config : NodeConfig
        What each node is.
    granularity : int
        Tiles that one command waits for and sends; the last command of a chunk may have fewer.
    base : int
        Address of position 1, a multiple of the beat.
    plan : int
        The plan's number. It takes regions and routes from 0 on.

    Returns
    -------
    DevicePlan
        For every device.

    Raises
    ------
    PlanError
        For arguments that cannot be.
    """
    for name, value, least in (("devices", devices, 2), ("chunk_tiles", chunk_tiles, 1),
                               ("granularity", granularity, 1), ("base", base, 0)):
        if type(value) is not int or value < least:
            raise PlanError(f"{name} must be an integer of at least {least}, not {value!r}")
    if tile_bytes < config.beat_bytes or tile_bytes & tile_bytes - 1:
        raise PlanError(f"tile_bytes must be a power of two of at least a beat, "
                        f"{config.beat_bytes}, not {tile_bytes!r}")
    if base % config.beat_bytes:
        raise PlanError(f"base must be a multiple of the beat, {config.beat_bytes}, not {base}")
    chunk_bytes = chunk_tiles * tile_bytes
    first = base + chunk_bytes
    commands, tiles = [], []
    for position in range(2, devices + 1):
        for tile in range(chunk_tiles):
            slot = len(tiles)
            command = None
            if position < devices:
                if tile % granularity == 0:
                    count = min(granularity, chunk_tiles - tile)
                    commands.append(Command(index=len(commands), plan=plan, route=0, need=count,
                                            count=count, first=slot))
                command = commands[-1].index
            address = first + slot * tile_bytes
            tiles.append(TileEntry(
                slot=slot, expected=2 * tile_bytes, command=command, offset=address - first,
                tile=Tile(chunk=position - 1, wg=slot, wf=0, row=slot, column=0, rows=1,
                          columns=tile_bytes, address=address, row_bytes=tile_bytes)))
    common = {
        "plan": plan, "dtype": dtype, "tracked": True, "tile_id_mode": "ADDRESS",
        "pitch_log2": tile_bytes.bit_length() - 1, "row_bytes_log2": tile_bytes.bit_length() - 1}
    held = (devices - 1) * chunk_bytes
    touch_beats = held // config.beat_bytes
    return DevicePlan(
        device=0, plan=plan, first_tile=0, first_command=0, first_touch=0, touch_beats=touch_beats,
        timeout=0, commands=tuple(commands), tiles=tuple(tiles),
        regions=(
            Region(index=0, action="REMOTE_UPDATE", base=base, limit=first - 1,
                   remote_delta=chunk_bytes, **common),
            Region(index=1, action="LOCAL_UPDATE", base=first, limit=first + held - 1,
                   first_touch=True, accept_update=True,
                   touch_offset=-(first // config.beat_bytes) % config.touch_beats, **common)),
        routes=(Route(index=0, plan=plan, op="UPDATE", dtype=dtype, source=first,
                      destination=first + chunk_bytes, source_pitch=tile_bytes,
                      destination_pitch=tile_bytes),),
        stages=tuple(Stage(chunk=position, role=role) for position, role in enumerate(
            ["remote"] + ["forward"] * (devices - 2) + ["keep"])),
        traffic=Traffic(
            producer_write_bytes=held, remote_write_bytes=chunk_bytes, incoming_update_bytes=held,
            dma_read_bytes=(devices - 2) * chunk_bytes))
