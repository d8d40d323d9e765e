"""What the blocks of a node say to each other: every enum and struct that crosses a block's border.

Each function takes a `t3hw.config.NodeConfig` and returns the layout; both sides of a seam call it,
so widths and field order cannot differ.
"""

import functools

from amaranth import Mux
from amaranth.lib import data, enum
from amaranth.utils import bits_for

__all__ = [
    "Dtype", "MemoryOp", "Source", "Writer", "RegionAction", "TileIdMode", "Table", "Policy",
    "RowCommand", "ColumnCommand", "ErrorCause", "tile_tag", "touch_tag", "memory_request",
    "memory_access", "read_beat", "commit", "tile_full", "fire", "block", "block_done",
    "command_done", "read_burst", "remote_beat", "link_word", "table_write", "plan_view",
    "plan_views", "plan_status", "clear_range", "error_event", "dram_events", "dram_command",
    "occupancy_buckets", "counter_events", "counter_levels", "intensity_status", "gemm_settings",
    "gemm_stage", "gemm_results", "collective_settings", "collective_step", "collective_write",
    "axi_address", "axi_write_data", "axi_write_response", "axi_read_data", "axil_address",
    "axil_write_data", "axil_write_response", "axil_read_data", "next_epoch", "slot_width",
    "plan_width", "byte_count_width", "small_memory", "EPOCH_WIDTH", "STAMP_WIDTH",
    "EXPECTED_WIDTH", "PAGE_SHIFT", "INTENSITY_ONE", "INTENSITY_WIDTH", "INTENSITY_LEVELS",
    "NO_COMMAND",
]

EPOCH_WIDTH = 4
STAMP_WIDTH = 24
EXPECTED_WIDTH = 24
#: A read burst stays within a page of this many address bits, as AXI demands.
PAGE_SHIFT = 12
#: Memory intensity of one access in every cycle, and the bits of an intensity.
INTENSITY_ONE = 256
INTENSITY_WIDTH = bits_for(INTENSITY_ONE)
INTENSITY_LEVELS = 4
#: In a tile table entry: no command waits for this tile.
NO_COMMAND = 0xFFFF


class Dtype(enum.Enum, shape=2):
    """Element type; the order is that of `t3hw.config.DTYPE_NAMES`."""

    INT32 = 0
    FLOAT32 = 1
    BFLOAT16 = 2
    FLOAT16 = 3


class MemoryOp(enum.Enum, shape=2):
    """What a request does to memory."""

    READ = 0
    STORE = 1
    UPDATE = 2


class Source(enum.Enum, shape=2):
    """Who made a request; responses go back by it."""

    PRODUCER = 0
    LINK = 1
    DMA = 2


class Writer(enum.Enum, shape=1):
    """Whose update it is, in the first-touch map's terms."""

    LOCAL = 0
    INCOMING = 1


class RegionAction(enum.Enum, shape=2):
    """What a producer's store to a region becomes."""

    LOCAL_STORE = 0
    LOCAL_UPDATE = 1
    REMOTE_STORE = 2
    REMOTE_UPDATE = 3


class TileIdMode(enum.Enum, shape=1):
    """Where a producer's store gets its tile id from."""

    USER = 0
    ADDRESS = 1


class Table(enum.Enum, shape=3):
    """Tables that software writes through the register block's window."""

    PLAN = 0
    REGION = 1
    ROUTE = 2
    COMMAND = 3
    TILE = 4


class Policy(enum.Enum, shape=2):
    """Arbitration between the compute and the communication queue."""

    ROUND_ROBIN = 0
    COMPUTE_FIRST = 1
    MCA = 2


class RowCommand(enum.Enum, shape=2):
    """What a DRAM's row command does."""

    ACTIVATE = 0
    PRECHARGE = 1
    PRECHARGE_ALL = 2
    REFRESH = 3


class ColumnCommand(enum.Enum, shape=2):
    """What a DRAM's column command does. An UPDATE adds in the bank: an op-and-store."""

    READ = 0
    WRITE = 1
    UPDATE = 2


class ErrorCause(enum.Enum, shape=4):
    """Bit positions of the register ERROR_STATUS."""

    UNMAPPED_PACKET = 0
    REFUSED_PACKET = 1
    STALE_PACKET = 2
    UNKNOWN_TILE = 3
    DUPLICATE_UPDATE = 4
    OVER_COUNT = 5
    PARTIAL_ELEMENT = 6
    REFUSED_STORE = 7
    MEMORY_ERROR = 8
    PLAN_TIMEOUT = 9
    LINK_FORMAT = 10
    LINK_OVERFLOW = 11
    HOLD_TIMEOUT = 12
    MISSING_DTYPE = 13


def next_epoch(epoch):
    """The epoch after ``epoch`` as a value of the hardware: 0, 1, 2, …, 15, 2, 3, ….

    0 is a plan that was never armed; wrapping to 2 keeps parities alternating
    for the first-touch map.
    """
    return Mux(epoch == 2 ** EPOCH_WIDTH - 1, 2, epoch + 1)[:EPOCH_WIDTH]


def slot_width(config):
    """Bits of an index into the tile table."""
    return bits_for(config.tiles - 1)


def plan_width(config):
    """Bits of a plan's number, at least 1."""
    return bits_for(max(config.plans - 1, 1))


def byte_count_width(config):
    """Bits of the number of bytes of one beat, all of them included."""
    return bits_for(config.beat_bytes)


def small_memory(config):
    """Attributes of a memory that may be made of block RAM though it is small: small chips have few
    flip-flops, and block RAM is left. Builds for these heed it."""
    return {} if config.pipelined else {"small_memory": 1}


@functools.cache
def tile_tag(config):
    """The tile that a write belongs to; meaningless where ``tracked`` is 0.

    ``slot`` is the tile's entry in this node's tile table, unique over all plans; ``wg`` and ``wf``
    are the producer's ids, which travel on the link.
    """
    return data.StructLayout({
        "tracked": 1,
        "plan": plan_width(config),
        "slot": slot_width(config),
        "wg": config.wg_width,
        "wf": max(config.wf_width, 1),
    })


@functools.cache
def touch_tag(config):
    """How the first-touch map treats an update: ``index`` is the map's entry of the beat."""
    return data.StructLayout({
        "enable": 1,
        "parity": 1,
        "writer": Writer,
        "index": bits_for(config.touch_beats - 1),
    })


@functools.cache
def memory_request(config):
    """One beat to the memory controller. ``address`` is in bytes, a multiple of the beat's size.

    ``tag`` and ``last`` come back with the response. A read's ``strobe`` and ``data`` mean nothing.
    """
    return data.StructLayout({
        "op": MemoryOp,
        "dtype": Dtype,
        "source": Source,
        "tag": bits_for(config.outstanding_writes - 1),
        "last": 1,
        "address": config.addr_width,
        "data": config.data_width,
        "strobe": config.beat_bytes,
        "touch": touch_tag(config),
        "tile": tile_tag(config),
    })


@functools.cache
def memory_access(config):
    """One beat to a memory, after the first-touch map: a read, or a write that adds in some lanes.

    ``add`` has a bit per 16-bit lane: the new value there is old + data (both bits of a 32-bit
    element are equal). Where ``add`` is 0 and the strobe is 1 data is stored; where the strobe is 0
    nothing changes. A write with no strobe at all commits with 0 bytes.
    """
    return data.StructLayout({
        "write": 1,
        "add": config.lanes,
        "dtype": Dtype,
        "source": Source,
        "tag": bits_for(config.outstanding_writes - 1),
        "last": 1,
        "address": config.addr_width,
        "data": config.data_width,
        "strobe": config.beat_bytes,
        "tile": tile_tag(config),
    })


@functools.cache
def read_beat(config):
    """One beat read, in the order in which its source asked."""
    return data.StructLayout({
        "source": Source,
        "last": 1,
        "error": 1,
        "data": config.data_width,
    })


@functools.cache
def commit(config):
    """One write that a later read will see.
    ``bytes`` counts its strobes; 0 where ``error`` is set."""
    return data.StructLayout({
        "source": Source,
        "tag": bits_for(config.outstanding_writes - 1),
        "last": 1,
        "error": 1,
        "bytes": byte_count_width(config),
        "address": config.addr_width,
        "tile": tile_tag(config),
    })


#: What a DRAM did in the last cycle, for the counters.
dram_events = data.StructLayout({
    "activate": 1,
    "precharge": 1,
    "refresh": 1,
    "read": 1,
    "write": 1,
    "update": 1,
})


@functools.cache
def dram_command(config):
    """What is on a DRAM's command bus in a cycle: a row command, a column command, both or neither.

    Banks have the group's number in their low bits. The row is in the command ``ACTIVATE`` only.
    """
    timing = config.dram
    bank = bits_for(max(timing.bank_groups * timing.banks - 1, 1))
    return data.StructLayout({
        "row_valid": 1,
        "row_op": RowCommand,
        "row_bank": bank,
        "row": bits_for(timing.rows - 1),
        "column_valid": 1,
        "column_op": ColumnCommand,
        "column_bank": bank,
        "column": bits_for(timing.page_columns - 1),
    })


@functools.cache
def tile_full(config):
    """A tile has all its updates.
    ``stamp`` is the cycle of the last update's commit, modulo 2**24."""
    return data.StructLayout({
        "plan": plan_width(config),
        "slot": slot_width(config),
        "command": 16,
        "stamp": STAMP_WIDTH,
    })


@functools.cache
def fire(config):
    """A command's tiles are all full:
    move tiles ``first`` to ``first + count - 1`` by ``route``."""
    return data.StructLayout({
        "plan": plan_width(config),
        "route": bits_for(max(config.routes - 1, 1)),
        "first": slot_width(config),
        "count": bits_for(config.tiles),
        "stamp": STAMP_WIDTH,
    })


@functools.cache
def block(config):
    """A 2-D block for the DMA engine: ``rows`` rows of ``row_bytes`` bytes.

    Source and destination have the same offset within a beat, in every row. A block with no rows or
    no bytes moves nothing, and is done in its turn. ``first`` and ``last`` mark a command's first
    and last block.
    """
    return data.StructLayout({
        "source": config.addr_width,
        "destination": config.addr_width,
        "rows": 16,
        "row_bytes": 24,
        "source_pitch": 32,
        "destination_pitch": 32,
        "op": MemoryOp,
        "dtype": Dtype,
        "tracked": 1,
        "plan": plan_width(config),
        "epoch": EPOCH_WIDTH,
        "wg": config.wg_width,
        "wf": max(config.wf_width, 1),
        "first": 1,
        "last": 1,
        "stamp": STAMP_WIDTH,
    })


@functools.cache
def block_done(config):
    """A block's last beat has been handed to the link. ``last`` is the block's own.

    ``error``: some of the block could not be read, and was not sent.
    """
    return data.StructLayout({
        "plan": plan_width(config),
        "last": 1,
        "error": 1,
    })


@functools.cache
def command_done(config):
    """A command has done all that its route asked for."""
    return data.StructLayout({
        "plan": plan_width(config),
    })


@functools.cache
def read_burst(config):
    """A read of ``beats`` + 1 beats from ``address`` (a multiple of the beat)
    within one 4 KiB page."""
    return data.StructLayout({
        "address": config.addr_width,
        "beats": bits_for(config.burst_beats - 1),
    })


@functools.cache
def remote_beat(config):
    """One beat to or from a neighbour.
    All but data, strobe, address and last is constant in a packet.

    Addresses of a packet's beats follow each other; ``address`` is in the receiver's address space,
    a multiple of the beat. Strobes may have any pattern. A packet has 1 to ``burst_beats`` beats.
    """
    return data.StructLayout({
        "op": MemoryOp,
        "dtype": Dtype,
        "tracked": 1,
        "plan": plan_width(config),
        "epoch": EPOCH_WIDTH,
        "wg": config.wg_width,
        "wf": max(config.wf_width, 1),
        "address": config.addr_width,
        "data": config.data_width,
        "strobe": config.beat_bytes,
        "last": 1,
    })


@functools.cache
def link_word(config):
    """One word on the wire, AXI4-Stream's TDATA, TKEEP (a payload word's strobes) and TLAST."""
    return data.StructLayout({
        "data": config.data_width,
        "keep": config.beat_bytes,
        "last": 1,
    })


@functools.cache
def table_write(config):
    """Software writes word ``word`` of entry ``entry`` of a table. The register block has checked
    that the entry exists and is not locked."""
    return data.StructLayout({
        "table": Table,
        "entry": 16,
        "word": 4,
        "data": 32,
    })


@functools.cache
def plan_view(config):
    """What every block may know of a plan. ``first_tile`` to ``last_tile`` are its tile slots."""
    return data.StructLayout({
        "armed": 1,
        "epoch": EPOCH_WIDTH,
        "first_tile": slot_width(config),
        "last_tile": slot_width(config),
    })


@functools.cache
def plan_views(config):
    """One `plan_view` a plan."""
    return data.ArrayLayout(plan_view(config), config.plans)


@functools.cache
def plan_status(config):
    """What software reads of each plan's progress; the register map says what the fields mean."""
    return data.ArrayLayout(data.StructLayout({
        "armed": 1,
        "done": 1,
        "timed_out": 1,
        "clearing": 1,
        "epoch": EPOCH_WIDTH,
        "tiles_done": 17,
        "commands_done": 17,
    }), config.plans)


@functools.cache
def clear_range(config):
    """Forget all that a stopped plan left behind. Ranges are inclusive; ``any_*`` 0 means empty."""
    return data.StructLayout({
        "plan": plan_width(config),
        "any_tiles": 1,
        "first_tile": slot_width(config),
        "last_tile": slot_width(config),
        "any_commands": 1,
        "first_command": 16,
        "last_command": 16,
        "any_touch": 1,
        "first_touch": bits_for(config.touch_beats - 1),
        "last_touch": bits_for(config.touch_beats - 1),
    })


@functools.cache
def error_event(config):
    """Something was wrong: why, where, and for which tile (``tracked`` 0: no tile is known)."""
    return data.StructLayout({
        "cause": ErrorCause,
        "address": config.addr_width,
        "tile": tile_tag(config),
    })


#: Buckets of the memory's occupancy, a counter each: name, least, most; None has no limit.
occupancy_buckets = (
    ("occupancy_0", 0, 0),
    ("occupancy_1_4", 1, 4),
    ("occupancy_5_9", 5, 9),
    ("occupancy_10_14", 10, 14),
    ("occupancy_15_19", 15, 19),
    ("occupancy_20_29", 20, 29),
    ("occupancy_30_39", 30, 39),
    ("occupancy_40", 40, None),
)


#: What the hardware knows of a kernel's memory intensity, and the threshold that follows from it.
intensity_status = data.StructLayout({
    "intensity": INTENSITY_WIDTH,
    "level": range(INTENSITY_LEVELS),
    "measuring": 1,
    "complete": 1,
    "threshold": 16,
})


@functools.cache
def counter_events(config):
    """What a cycle adds to the counters of the same names;
    the register map says what each counts."""
    bytes_ = byte_count_width(config)
    return data.StructLayout({
        "producer_read_bytes": bytes_,
        "producer_write_bytes": bytes_,
        "remote_write_bytes": bytes_,
        "incoming_update_bytes": bytes_,
        "incoming_store_bytes": bytes_,
        "dma_read_bytes": bytes_,
        "dma_packets": 1,
        "commits": 1,
        "producer_write_stall": 1,
        "producer_read_stall": 1,
        "compute_queue_stall": 1,
        "communication_queue_stall": 1,
        "link_stall": 1,
        "dma_stall": 1,
        "tx_words": 1,
        "rx_words": 1,
        "memory_busy": 1,
        "forced_accesses": 1,
        "tiles_full": 1,
        "commands_fired": 1,
        "compute_issues": 1,
        "communication_issues": 1,
        "communication_holds": 1,
        **{name: 1 for name, _least, _most in occupancy_buckets},
        "dram_activates": 1,
        "dram_precharges": 1,
        "dram_refreshes": 1,
        "dram_reads": 1,
        "dram_writes": 1,
        "dram_updates": 1,
    })


@functools.cache
def counter_levels(config):
    """How full the tracker is, now and at most; shown by the registers of the same names."""
    ways = bits_for(max(config.tracker_sets * config.tracker_ways, 1))
    slots = bits_for(config.tiles)
    return data.StructLayout({
        "tracker_occupancy": ways,
        "tracker_high_water": ways,
        "overflow_occupancy": slots,
        "overflow_high_water": slots,
    })


@functools.cache
def gemm_settings(config):
    """What a GEMM engine does; the register map says what the fields mean.

    ``step_cycles`` is in 1/256 cycle.
    Sizes that must be powers of two are given by their logarithm.
    """
    return data.StructLayout({
        "units": 9,
        "workgroups": 16,
        "first_workgroup": 16,
        "chunk_workgroups": 16,
        "steps": 16,
        "step_cycles": 24,
        "burst_log2": 3,
        "streams_log2": 3,
        "stream_bytes_log2": 6,
        "read_base": config.addr_width,
        "base": config.addr_width,
        "workgroup_bytes": 32,
        "wavefronts": 5,
        "tile_beats_log2": 4,
        "seed": 32,
        "and_mask": 32,
        "or_mask": 32,
    })


#: An entry of the GEMM engine's stage table: ``reads`` beats a step, in 1/256 beat.
gemm_stage = data.StructLayout({"index": 8, "reads": 16})

#: What a GEMM engine has measured in its last run; the register map says what the fields mean.
gemm_results = data.StructLayout({
    "cycles": 32,
    "first_store": 32,
    "last_store": 32,
    "read_wait": 48,
    "read_beats": 32,
    "write_beats": 32,
    "store_stall": 32,
})


@functools.cache
def axi_address(config, id_width):
    """An AXI4 write or read address (AW, AR)."""
    return data.StructLayout({
        "id": id_width,
        "addr": config.addr_width,
        "len": 8,
        "size": 3,
        "burst": 2,
        "user": config.user_width,
    })


@functools.cache
def axi_write_data(config):
    """An AXI4 write beat (W)."""
    return data.StructLayout({"data": config.data_width, "strb": config.beat_bytes, "last": 1})


@functools.cache
def axi_write_response(config, id_width):
    """An AXI4 write response (B)."""
    return data.StructLayout({"id": id_width, "resp": 2})


@functools.cache
def axi_read_data(config, id_width):
    """An AXI4 read beat (R)."""
    return data.StructLayout({"id": id_width, "data": config.data_width, "resp": 2, "last": 1})


@functools.cache
def collective_settings(config):
    """What holds for a whole run of the collective engine.

    ``steps``: how many of the table it runs, from entry 0 on. ``burst``: beats of a burst, a power
    of two, 1 to 64. ``expected``: beats that the neighbour sends in the run. ``dtype`` is one of
    ``config.dtypes``.
    """
    return data.StructLayout({
        "steps": 16,
        "burst": 7,
        "dtype": Dtype,
        "expected": 32,
    })


@functools.cache
def collective_step(config):
    """One step of the collective engine: ``beats`` beats from ``source_a``, with those from
    ``source_b`` added if ``add`` is set, go to ``destination``.

    ``wait``: what is at ``source_a`` comes from the neighbour, and is read when it has come.
    Addresses are in bytes, and multiples of a burst.
    """
    return data.StructLayout({
        "source_a": config.addr_width,
        "source_b": config.addr_width,
        "destination": config.addr_width,
        "beats": 24,
        "add": 1,
        "wait": 1,
    })


@functools.cache
def collective_write(config):
    """Software writes word ``word`` of entry ``entry`` of the collective engine's table of steps.

    Words: 0 ``{wait, add, beats}``, ``beats`` in bits 23:0, ``add`` bit 24, ``wait`` bit 25;
    1 and 2 ``source_a``, 3 and 4 ``source_b``, 5 and 6 ``destination``, low half first.
    """
    return data.StructLayout({
        "entry": 16,
        "word": 4,
        "data": 32,
    })


#: AXI4-Lite, 32-bit data, 20-bit byte addresses.
axil_address = data.StructLayout({"addr": 20})
axil_write_data = data.StructLayout({"data": 32, "strb": 4})
axil_write_response = data.StructLayout({"resp": 2})
axil_read_data = data.StructLayout({"data": 32, "resp": 2})
