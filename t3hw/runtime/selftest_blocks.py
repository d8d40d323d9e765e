"""Self-test of a board's parts: registers, memories, tracker, trigger and DMA, sums."""

import numpy as np

from t3hw.config import DTYPE_BYTES, DTYPE_NAMES
from t3hw.reference import NUMPY_DTYPES, add
from t3hw.registers import encode_entry, entry_address
from t3hw.registers.board import MAGIC, register_address

from .records import Command, DevicePlan, Region, Route, Tile, TileEntry, Traffic
from .selftest_bench import StepFailed, StepSkipped, compare, pattern
from .selftest_vectors import vector_pairs
from .transport import BusError

__all__ = ["check_dma", "check_memory", "check_registers", "check_sums", "check_tracker"]

_ONES = 0xFFFFFFFF
#: Reads that are asked for without waiting for answers.
_PIPELINED = 200
#: Memory that the march goes over, in blocks that count as its cells, and memory up to which all of
#: it is written with addresses: (thorough, quick).
_MARCH_BYTES, _CELL, _WHOLE_BYTES = (4096, 128), (256, 64), (1 << 18, 1024)
#: Of larger memories: what is written at each power of two.
_PROBE = 64, 16
#: Bytes of a tile; what stands around a block that is moved.
_TILE = 64
_GUARD = 64
#: An address that no node has: the end of the window of registers.
_UNMAPPED = 0xFFFFC


def check_registers(bench):
    """Bits of a register, 200 answers in order, refusals that come back with their address."""
    board = bench.board
    address = register_address("SCRATCH")
    former = board.read("SCRATCH")["value"]
    words = [word for bit in range(32) for word in (1 << bit, _ONES ^ 1 << bit)]
    words += [0, _ONES, 0xAAAAAAAA, 0x55555555]
    found = board.link.mixed(operation for word in words
                             for operation in ((address, word), (address, None)))
    board.write("SCRATCH", former)
    for word, read in zip(words, found):
        bench.expect("SCRATCH", read, word)

    places = [register_address("MAGIC"), address] * (_PIPELINED // 2)
    for number, found in enumerate(board.link.mixed((place, None) for place in places)):
        bench.expect(f"answer {number} of {_PIPELINED} reads without waiting", found,
                     former if number % 2 else MAGIC)
    for index, transport in enumerate(board.devices):
        try:
            found = transport.read32(_UNMAPPED)
        except BusError as error:
            bench.expect(f"node {index}, address of a refused read", error.address, _UNMAPPED)
        else:
            raise StepFailed(f"node {index}, address {_UNMAPPED:#x}: expected a refusal, found the "
                             f"word {found:#010x}")
    errors = board.read("LINE_ERRORS")
    bench.expect("errors of the line", errors, dict.fromkeys(errors, 0))
    return f"{len(words)} words in SCRATCH, {_PIPELINED} reads without waiting, refusals"


def check_memory(bench):
    """March C- over a part of each memory;
    all of it, or its address lines, by addresses as data."""
    march = min(_MARCH_BYTES[bench.quick], bench.memory_bytes)
    size = bench.memory_bytes
    whole = size <= _WHOLE_BYTES[bench.quick]
    probe = _PROBE[bench.quick]
    for index, memory in enumerate(bench.memories):
        _march(memory, f"node {index}", size - march, march, _CELL[bench.quick])
    places = [(0, size)] if whole else sorted(
        {(0, probe), (size - probe, probe)}
        | {(1 << bit, probe) for bit in range(probe.bit_length() - 1, (size - 1).bit_length())})
    # All is written before anything is read: memories that are one in truth show it.
    for index, memory in enumerate(bench.memories):
        for address, length in places:
            memory.write_memory(address, pattern(address, length, index))
    for index, memory in enumerate(bench.memories):
        for address, length in places:
            compare(f"node {index}", address, memory.read_memory(address, length),
                    pattern(address, length, index))
    seen = f"all {size // 1024} KiB" if whole else f"{len(places)} places of {size // 1024} KiB"
    return f"march C- over {march} bytes, addresses as data in {seen}, of each node"


def _march(memory, where, base, size, length):
    """March C-; its cells are blocks, which differ from each other and from their inverse."""
    ascending = range(base, base + size, length)
    straight = {cell: pattern(cell, length) for cell in ascending}
    inverse = {cell: bytes(byte ^ 0xFF for byte in data) for cell, data in straight.items()}

    def element(name, cells, wanted, new=None):
        for cell in cells:
            compare(f"{where}, march {name}", cell, memory.read_memory(cell, length), wanted[cell])
            if new is not None:
                memory.write_memory(cell, new[cell])

    memory.write_memory(base, b"".join(straight.values()))
    element("up 1", ascending, straight, inverse)
    element("up 2", ascending, inverse, straight)
    element("down 1", ascending[::-1], straight, inverse)
    element("down 2", ascending[::-1], inverse, straight)
    element("end", ascending, straight)


def check_tracker(bench):
    """Stores are counted byte by byte; a tile is full at its last one; one more is reported."""
    beat = bench.config.beat_bytes
    tile = max(_TILE, beat)
    plan = _tile_plan(bench.config, tile)
    for index, (node, memory) in enumerate(zip(bench.nodes, bench.memories)):
        where = f"node {index}"
        data = pattern(0, 2 * tile, bench.seed + index)
        node.program(plan)
        node.clear_counters()
        node.arm()
        memory.store(0, data[:tile - 4])
        state = node.tile_state(0)
        bench.expect(f"{where}, bytes counted for tile 0", state["bytes"], tile - 4)
        bench.expect(f"{where}, tile 0 open", state["open"], 1)
        bench.expect(f"{where}, tiles full", node.status().tiles_done, 0)
        memory.store(tile - 4, data[tile - 4:tile])
        state = node.tile_state(0)
        bench.expect(f"{where}, run in which tile 0 was full", state["epoch"], node.status().epoch)
        bench.expect(f"{where}, tiles full", node.status().tiles_done, 1)
        bench.expect(f"{where}, errors", node.errors().causes, ())

        memory.store(tile - 4, data[tile - 4:tile])
        errors = node.errors()
        bench.expect(f"{where}, errors after a store too many", errors.causes, ("OVER_COUNT",))
        bench.expect(f"{where}, address of the store too many", errors.first.address,
                     tile - 4 - (tile - 4) % beat)
        bench.expect(f"{where}, slot of the store too many", errors.first.tile[1], 0)
        node.clear_errors()

        memory.store(tile, data[tile:])
        node.wait(timeout=bench.patience)
        bench.expect_counters(where, node, tiles_full=2, producer_write_bytes=2 * tile + 4)
        compare(where, 0, memory.read_memory(0, 2 * tile), data)
    return f"2 tiles of {tile} bytes counted, one store too many reported with its address"


def _tile_plan(config, tile):
    """Two tiles of stores that stay, one behind the other, and no command.

    The host's stores come without ids: the address says which tile, or each tile is a region.
    """
    common = {"action": "LOCAL_STORE", "plan": 0, "dtype": _dtype(config), "tracked": True}
    if config.address_tiles:
        log2 = tile.bit_length() - 1
        regions = (Region(index=0, base=0, limit=2 * tile - 1, tile_id_mode="ADDRESS",
                          pitch_log2=log2, row_bytes_log2=log2, **common),)
    else:
        regions = tuple(Region(index=slot, base=slot * tile, limit=(slot + 1) * tile - 1,
                               first_tile=slot, **common) for slot in range(2))
    return _device_plan(config, regions=regions, tiles=tuple(
        TileEntry(slot=slot, expected=tile, command=None, offset=0, tile=Tile(
            chunk=0, wg=slot, wf=0, row=slot, column=0, rows=1, columns=tile, address=slot * tile,
            row_bytes=tile)) for slot in range(2)))


def _device_plan(config, **fields):
    return DevicePlan(**{
        "device": 0, "plan": 0, "first_tile": 0, "first_command": 0, "first_touch": 0,
        "touch_beats": 0, "timeout": 0, "routes": (_route(config),), "commands": (), "stages": (),
        "traffic": _no_traffic()} | fields)


def _dtype(config):
    """A type for what only stores: any, where none is built in."""
    return (config.dtypes or DTYPE_NAMES)[0]


def _route(config, **fields):
    return Route(**{"index": 0, "plan": 0, "op": "STORE", "dtype": _dtype(config), "source": 0,
                    "destination": 0, "source_pitch": 0, "destination_pitch": 0, "dma": False,
                    "tracked": False} | fields)


def _no_traffic():
    return Traffic(producer_write_bytes=0, remote_write_bytes=0, incoming_update_bytes=0,
                   dma_read_bytes=0)


def check_dma(bench):
    """A full tile fires its command once; it moves a 2-D block to the neighbour, and no byte else.

    Where there is no link it moves it within the memory.
    """
    row = max(16, bench.config.beat_bytes)
    rows = 4
    source_pitch, pitch = 2 * row, 4 * row
    base = rows * source_pitch
    block = base + _GUARD
    end = block + rows * pitch + _GUARD
    plan = _block_plan(bench.config, row, rows, block, base, end)
    background = bytes([0xA5]) * (end - base)
    for memory, node in zip(bench.memories, bench.nodes):
        memory.write_memory(base, background)
        node.program(plan)
        node.clear_counters()
    for node in bench.nodes:
        node.arm()

    matrix = [pattern(0, base, bench.seed + index) for index in range(bench.count)]
    columns = {"left": 0, "right": row}

    def store_half(half):
        for memory, data in zip(bench.memories, matrix):
            for start in range(columns[half], base, source_pitch):
                memory.store(start, data[start:start + row])

    store_half("left")
    for index, node in enumerate(bench.nodes):
        bench.until(lambda: node.status().commands_done >= 1, f"node {index}: its command")
    bench.until_counted("incoming_store_bytes", rows * row)
    for index in range(bench.count):
        moved = bytearray(background)
        for number in range(rows):
            at = _GUARD + number * pitch
            moved[at:at + row] = matrix[index][number * source_pitch:number * source_pitch + row]
        target = bench.neighbour(index)
        compare(f"node {target}, block from node {index} and its surroundings", base,
                bench.memories[target].read_memory(base, end - base), moved)
        bench.memories[target].write_memory(base, background)

    if bench.config.address_tiles:
        store_half("right")
    for node in bench.nodes:
        node.wait(timeout=bench.patience)
    for index, (node, memory) in enumerate(zip(bench.nodes, bench.memories)):
        bench.expect(f"node {index}, commands done", node.status().commands_done, 1)
        bench.expect_counters(f"node {index}", node, commands_fired=1, dma_read_bytes=rows * row,
                              incoming_store_bytes=rows * row)
        compare(f"node {index}, after the run", base, memory.read_memory(base, end - base),
                background)
    bench.expect_no_errors()
    where = "to each neighbour" if bench.config.collective else "within the memory"
    seen = f"{rows} x {row} bytes {where}, bytes around them intact, fired once"
    if bench.config.monitoring:
        latency = max(node.counters()["trigger_latency_max"] for node in bench.nodes)
        seen += f", {latency} cycles from full to fired at most"
    return seen


def _block_plan(config, row, rows, block, base, end):
    """A matrix of two tiles side by side; the left one is sent, to another pitch."""
    def log2(value):
        return value.bit_length() - 1

    common = {"plan": 0, "dtype": _dtype(config)}
    geometry = {"tile_id_mode": "ADDRESS", "pitch_log2": log2(2 * row), "rows_log2": log2(rows),
                "row_bytes_log2": log2(row)} if config.address_tiles else {}
    # Without tiles by address all that is stored there is one tile's.
    tiles = ((0, 0), (1, None)) if config.address_tiles else ((0, 0),)
    return _device_plan(
        config,
        regions=(
            Region(index=0, action="LOCAL_STORE", base=0, limit=2 * row * rows - 1, tracked=True,
                   **geometry, **common),
            # Wider than the block: what misses it would be stored, and seen.
            Region(index=1, action="LOCAL_STORE", base=base, limit=end - 1, tracked=False,
                   accept_store=True, **common)),
        routes=(_route(config, source=0, destination=block, source_pitch=2 * row,
                       destination_pitch=4 * row, dma=True),),
        commands=(Command(index=0, plan=0, route=0, need=1, first=0, count=1),),
        tiles=tuple(TileEntry(slot=slot, expected=rows * row, command=command, offset=slot * row,
                              tile=Tile(chunk=0, wg=slot, wf=0, row=0, column=slot * row, rows=rows,
                                        columns=row, address=slot * row, row_bytes=row))
                    for slot, command in tiles))


def check_sums(bench):
    """Memory that adds: special values, ties and random ones of each type,
    by stores and by link."""
    if not bench.config.collective:
        raise StepSkipped("the node was built to store only (collective = false)")
    counts = []
    for number, dtype in enumerate(bench.config.dtypes):
        a, b = vector_pairs(dtype, bench.rng(number), quick=bench.quick)
        counts.append(f"{dtype} {a.size}")
        size = DTYPE_BYTES[dtype]
        # Both halves of the memory are needed: one to add to, one that leads to the neighbour.
        most = min(bench.memory_bytes // 2, 1 << 14) // size
        for start in range(0, a.size, most):
            part = slice(start, start + most)
            # All types take the same way over the link.
            _check_sums_part(bench, dtype, a[part], b[part], link=not bench.quick or number == 0)
    bench.expect_no_errors()
    return f"pairs of each type by store and over the link: {', '.join(counts)}"


def _check_sums_part(bench, dtype, a, b, *, link):
    kind = NUMPY_DTYPES[dtype]
    size = kind.itemsize
    length = a.nbytes
    wanted = add(a.view(kind), b.view(kind), dtype).tobytes()
    common = {"enable": 1, "dtype": dtype.upper(), "tracked": 0}
    here = common | {"action": "LOCAL_UPDATE", "base": 0, "limit": length - 1, "accept_update": 1}
    there = common | {
        "action": "REMOTE_UPDATE", "base": length, "limit": 2 * length - 1,
        "remote_delta": -length % (1 << bench.config.addr_width)}

    def check(how):
        for index, memory in enumerate(bench.memories):
            found = memory.read_memory(0, length)
            wrong = np.flatnonzero(np.frombuffer(found, f"<u{size}")
                                   != np.frombuffer(wanted, f"<u{size}"))
            note = ""
            if wrong.size:
                left, right = (int(values.view(f"u{size}")[wrong[0]]) for values in (a, b))
                note = f", {left:#0{2 + 2 * size}x} + {right:#0{2 + 2 * size}x}"
            compare(f"node {index}, {dtype} {how}{note}", 0, found, wanted, size)

    def load():
        for memory in bench.memories:
            memory.write_memory(0, a.tobytes())

    load()
    for node in bench.nodes:
        _set_regions(node, here)
    for memory in bench.memories:
        memory.store(0, b.tobytes())
    check("by stores")
    for node in bench.nodes:
        _set_regions(node)
    if not link:
        return
    load()
    for node in bench.nodes:
        _set_regions(node, here, there)
        node.clear_counters()
    for memory in bench.memories:
        memory.store(length, b.tobytes())
    bench.until_counted("incoming_update_bytes", length)
    check("over the link")
    for node in bench.nodes:
        _set_regions(node)


def _set_regions(node, *regions):
    """The first two regions of a node, and only them; those that are not given are off."""
    for index in range(2):
        node.transport.write32(entry_address("REGION", index), 0)
        if index < len(regions):
            words = list(enumerate(encode_entry("REGION", config=node.config, **regions[index])))
            # The first word switches it on.
            node.transport.write_words((entry_address("REGION", index, word), value)
                                       for word, value in words[1:] + words[:1])
