"""Register map. Derived from t3.rdl by `python -m t3hw.registers.derive`; do not edit."""

from t3hw.registers.description import Counter, Field, Register, Table, TableField

__all__ = ["MAP_HASH", "ENUMS", "REGISTERS", "COUNTERS", "TABLES"]

#: 32-bit hash of this map, readable in the register MAP_HASH.
MAP_HASH = 0x91e185e2

#: Encodings of fields: name, value by name.
ENUMS = {
    "policy": {
        "ROUND_ROBIN": 0,
        "COMPUTE_FIRST": 1,
        "MCA": 2,
    },
    "error_cause": {
        "UNMAPPED_PACKET": 0,
        "REFUSED_PACKET": 1,
        "STALE_PACKET": 2,
        "UNKNOWN_TILE": 3,
        "DUPLICATE_UPDATE": 4,
        "OVER_COUNT": 5,
        "PARTIAL_ELEMENT": 6,
        "REFUSED_STORE": 7,
        "MEMORY_ERROR": 8,
        "PLAN_TIMEOUT": 9,
        "LINK_FORMAT": 10,
        "LINK_OVERFLOW": 11,
        "HOLD_TIMEOUT": 12,
        "MISSING_DTYPE": 13,
    },
    "region_action": {
        "LOCAL_STORE": 0,
        "LOCAL_UPDATE": 1,
        "REMOTE_STORE": 2,
        "REMOTE_UPDATE": 3,
    },
    "tile_id_mode": {
        "USER": 0,
        "ADDRESS": 1,
    },
    "dtype": {
        "INT32": 0,
        "FLOAT32": 1,
        "BFLOAT16": 2,
        "FLOAT16": 3,
    },
    "memory_op": {
        "READ": 0,
        "STORE": 1,
        "UPDATE": 2,
    },
}

#: Registers by name.
REGISTERS = {
    "PRODUCT_ID": Register(0x000, "ro", 0x54334857, {
        "id": Field(0, 32, "ro", 0x54334857),
    }),
    "VERSION": Register(0x004, "ro", None, {
        "patch": Field(0, 8, "ro", None),
        "minor": Field(8, 8, "ro", None),
        "major": Field(16, 16, "ro", None),
    }),
    "CONFIG_HASH": Register(0x008, "ro", None, {
        "hash": Field(0, 32, "ro", None),
    }),
    "CAP_WIDTHS": Register(0x00c, "ro", None, {
        "beat_bytes": Field(0, 8, "ro", None),
        "addr_width": Field(8, 8, "ro", None),
        "dtypes": Field(16, 4, "ro", None),
        "memory_builtin": Field(20, 1, "ro", None),
        "monitoring": Field(21, 1, "ro", None),
        "address_tiles": Field(22, 1, "ro", None),
        "collective": Field(23, 1, "ro", None),
        "wg_width": Field(24, 8, "ro", None),
    }),
    "CAP_TABLES0": Register(0x010, "ro", None, {
        "tiles_minus_1": Field(0, 16, "ro", None),
        "commands_minus_1": Field(16, 16, "ro", None),
    }),
    "CAP_TABLES1": Register(0x014, "ro", None, {
        "regions": Field(0, 8, "ro", None),
        "routes": Field(8, 8, "ro", None),
        "plans": Field(16, 8, "ro", None),
        "wf_width": Field(24, 8, "ro", None),
    }),
    "CAP_TRACKER": Register(0x018, "ro", None, {
        "sets": Field(0, 16, "ro", None),
        "ways": Field(16, 8, "ro", None),
        "expected_width": Field(24, 5, "ro", None),
    }),
    "CAP_TOUCH": Register(0x01c, "ro", None, {
        "touch_beats": Field(0, 32, "ro", None),
    }),
    "CAP_DMA": Register(0x020, "ro", None, {
        "outstanding_reads": Field(0, 8, "ro", None),
        "burst_beats_minus_1": Field(8, 8, "ro", None),
    }),
    "CAP_MEMORY": Register(0x024, "ro", None, {
        "memory_bytes": Field(0, 32, "ro", None),
    }),
    "CAP_LATENCY": Register(0x028, "ro", None, {
        "memory_max_latency": Field(0, 16, "ro", None),
        "link_max_latency": Field(16, 16, "ro", None),
    }),
    "SCRATCH": Register(0x02c, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "MAP_HASH": Register(0x030, "ro", None, {
        "hash": Field(0, 32, "ro", None),
    }),
    "CAP_QUEUES": Register(0x034, "ro", None, {
        "memory_queue": Field(0, 12, "ro", None),
        "compute_queue_minus_1": Field(12, 10, "ro", None),
        "communication_queue_minus_1": Field(22, 10, "ro", None),
    }),
    "CONTROL": Register(0x040, "rw", 0, {
        "policy": Field(0, 2, "rw", 0, "policy"),
        "hold": Field(8, 1, "rw", 0),
    }),
    "STARVATION_LIMIT": Register(0x044, "rw", 0, {
        "cycles": Field(0, 16, "rw", 0),
    }),
    "MEMORY_LATENCY": Register(0x048, "rw", 0, {
        "cycles": Field(0, 16, "rw", 0),
    }),
    "LINK_LATENCY": Register(0x04c, "rw", 0, {
        "cycles": Field(0, 16, "rw", 0),
    }),
    "LINK_INTERVAL": Register(0x050, "rw", 0, {
        "cycles": Field(0, 16, "rw", 0),
        "fraction": Field(16, 16, "rw", 0),
    }),
    "HOLD_TIMEOUT": Register(0x054, "rw", 0, {
        "cycles": Field(0, 32, "rw", 0),
    }),
    "LINK_HEADER_INTERVAL": Register(0x058, "rw", 0, {
        "cycles": Field(0, 16, "rw", 0),
        "fraction": Field(16, 16, "rw", 0),
    }),
    "IRQ_STATUS": Register(0x060, "w1c", 0, {
        "plan_done": Field(0, 8, "w1c", 0),
        "error": Field(8, 1, "w1c", 0),
        "command": Field(9, 1, "w1c", 0),
    }),
    "IRQ_ENABLE": Register(0x064, "rw", 0, {
        "plan_done": Field(0, 8, "rw", 0),
        "error": Field(8, 1, "rw", 0),
        "command": Field(9, 1, "rw", 0),
    }),
    "ERROR_STATUS": Register(0x070, "w1c", 0, {
        "unmapped_packet": Field(0, 1, "w1c", 0),
        "refused_packet": Field(1, 1, "w1c", 0),
        "stale_packet": Field(2, 1, "w1c", 0),
        "unknown_tile": Field(3, 1, "w1c", 0),
        "duplicate_update": Field(4, 1, "w1c", 0),
        "over_count": Field(5, 1, "w1c", 0),
        "partial_element": Field(6, 1, "w1c", 0),
        "refused_store": Field(7, 1, "w1c", 0),
        "memory_error": Field(8, 1, "w1c", 0),
        "plan_timeout": Field(9, 1, "w1c", 0),
        "link_format": Field(10, 1, "w1c", 0),
        "link_overflow": Field(11, 1, "w1c", 0),
        "hold_timeout": Field(12, 1, "w1c", 0),
        "missing_dtype": Field(13, 1, "w1c", 0),
    }),
    "ERROR_COUNT": Register(0x074, "ro", 0, {
        "count": Field(0, 32, "ro", 0),
    }),
    "FIRST_ERROR_CAUSE": Register(0x078, "ro", 0, {
        "cause": Field(0, 4, "ro", 0, "error_cause"),
        "valid": Field(31, 1, "ro", 0),
    }),
    "FIRST_ERROR_ADDRESS_LO": Register(0x07c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "FIRST_ERROR_ADDRESS_HI": Register(0x080, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "FIRST_ERROR_TILE": Register(0x084, "ro", 0, {
        "slot": Field(0, 16, "ro", 0),
        "plan": Field(16, 3, "ro", 0),
        "tracked": Field(31, 1, "ro", 0),
    }),
    "FIRST_ERROR_IDS": Register(0x088, "ro", 0, {
        "wg": Field(0, 16, "ro", 0),
        "wf": Field(16, 8, "ro", 0),
    }),
    "LINK_STATUS": Register(0x090, "ro", 0, {
        "holding": Field(0, 1, "ro", 0),
        "plan": Field(8, 3, "ro", 0),
    }),
    "TILE_STATE_INDEX": Register(0x0a0, "rw", 0, {
        "slot": Field(0, 16, "rw", 0),
    }),
    "TILE_STATE": Register(0x0a4, "ro", None, {
        "bytes": Field(0, 24, "ro", None),
        "epoch": Field(24, 4, "ro", None),
        "open": Field(31, 1, "ro", None),
    }),
    "MCA_CONTROL": Register(0x0b0, "rw", 0, {
        "threshold": Field(0, 16, "rw", 0),
        "fixed": Field(16, 1, "rw", 0),
    }),
    "MCA_STATUS": Register(0x0b4, "ro", None, {
        "intensity": Field(0, 9, "ro", 0),
        "level": Field(12, 2, "ro", 0),
        "measuring": Field(14, 1, "ro", 0),
        "complete": Field(15, 1, "ro", 0),
        "threshold": Field(16, 16, "ro", None),
    }),
    "MCA_BOUNDARY_0": Register(0x0b8, "rw", 0x80, {
        "intensity": Field(0, 9, "rw", 0x80),
    }),
    "MCA_BOUNDARY_1": Register(0x0bc, "rw", 0x40, {
        "intensity": Field(0, 9, "rw", 0x40),
    }),
    "MCA_BOUNDARY_2": Register(0x0c0, "rw", 0x20, {
        "intensity": Field(0, 9, "rw", 0x20),
    }),
    "MCA_THRESHOLD_0": Register(0x0c4, "rw", 5, {
        "accesses": Field(0, 16, "rw", 5),
    }),
    "MCA_THRESHOLD_1": Register(0x0c8, "rw", 0xa, {
        "accesses": Field(0, 16, "rw", 0xa),
    }),
    "MCA_THRESHOLD_2": Register(0x0cc, "rw", 0x1e, {
        "accesses": Field(0, 16, "rw", 0x1e),
    }),
    "MCA_THRESHOLD_3": Register(0x0d0, "rw", 0, {
        "accesses": Field(0, 16, "rw", 0),
    }),
    "PLAN_STATUS_STATE": Register(0x100, "ro", 0, {
        "armed": Field(0, 1, "ro", 0),
        "done": Field(1, 1, "ro", 0),
        "timed_out": Field(2, 1, "ro", 0),
        "clearing": Field(3, 1, "ro", 0),
        "epoch": Field(4, 4, "ro", 0),
    }, 8, 16),
    "PLAN_STATUS_TILES_DONE": Register(0x104, "ro", 0, {
        "tiles": Field(0, 17, "ro", 0),
    }, 8, 16),
    "PLAN_STATUS_COMMANDS_DONE": Register(0x108, "ro", 0, {
        "commands": Field(0, 17, "ro", 0),
    }, 8, 16),
    "COUNTER_CONTROL": Register(0x200, "wo", 0, {
        "snapshot": Field(0, 1, "wo", 0),
        "clear": Field(1, 1, "wo", 0),
    }),
    "CYCLES_LO": Register(0x210, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "CYCLES_HI": Register(0x214, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_READ_BYTES_LO": Register(0x218, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_READ_BYTES_HI": Register(0x21c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_WRITE_BYTES_LO": Register(0x220, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_WRITE_BYTES_HI": Register(0x224, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "REMOTE_WRITE_BYTES_LO": Register(0x228, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "REMOTE_WRITE_BYTES_HI": Register(0x22c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "INCOMING_UPDATE_BYTES_LO": Register(0x230, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "INCOMING_UPDATE_BYTES_HI": Register(0x234, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "INCOMING_STORE_BYTES_LO": Register(0x238, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "INCOMING_STORE_BYTES_HI": Register(0x23c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DMA_READ_BYTES_LO": Register(0x240, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DMA_READ_BYTES_HI": Register(0x244, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DMA_PACKETS_LO": Register(0x248, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DMA_PACKETS_HI": Register(0x24c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMITS_LO": Register(0x250, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMITS_HI": Register(0x254, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_WRITE_STALL_LO": Register(0x258, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_WRITE_STALL_HI": Register(0x25c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_READ_STALL_LO": Register(0x260, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "PRODUCER_READ_STALL_HI": Register(0x264, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMPUTE_QUEUE_STALL_LO": Register(0x268, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMPUTE_QUEUE_STALL_HI": Register(0x26c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMUNICATION_QUEUE_STALL_LO": Register(0x270, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMUNICATION_QUEUE_STALL_HI": Register(0x274, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "LINK_STALL_LO": Register(0x278, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "LINK_STALL_HI": Register(0x27c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DMA_STALL_LO": Register(0x280, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DMA_STALL_HI": Register(0x284, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TX_WORDS_LO": Register(0x288, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TX_WORDS_HI": Register(0x28c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "RX_WORDS_LO": Register(0x290, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "RX_WORDS_HI": Register(0x294, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "MEMORY_BUSY_LO": Register(0x298, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "MEMORY_BUSY_HI": Register(0x29c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "FORCED_ACCESSES_LO": Register(0x2a0, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "FORCED_ACCESSES_HI": Register(0x2a4, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TILES_FULL_LO": Register(0x2a8, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TILES_FULL_HI": Register(0x2ac, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMANDS_FIRED_LO": Register(0x2b0, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMANDS_FIRED_HI": Register(0x2b4, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "ERRORS_LO": Register(0x2b8, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "ERRORS_HI": Register(0x2bc, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMPUTE_ISSUES_LO": Register(0x2c0, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMPUTE_ISSUES_HI": Register(0x2c4, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMUNICATION_ISSUES_LO": Register(0x2c8, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMUNICATION_ISSUES_HI": Register(0x2cc, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMUNICATION_HOLDS_LO": Register(0x2d0, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COMMUNICATION_HOLDS_HI": Register(0x2d4, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_0_LO": Register(0x2d8, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_0_HI": Register(0x2dc, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_1_4_LO": Register(0x2e0, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_1_4_HI": Register(0x2e4, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_5_9_LO": Register(0x2e8, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_5_9_HI": Register(0x2ec, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_10_14_LO": Register(0x2f0, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_10_14_HI": Register(0x2f4, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_15_19_LO": Register(0x2f8, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_15_19_HI": Register(0x2fc, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_20_29_LO": Register(0x300, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_20_29_HI": Register(0x304, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_30_39_LO": Register(0x308, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_30_39_HI": Register(0x30c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_40_LO": Register(0x310, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OCCUPANCY_40_HI": Register(0x314, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_ACTIVATES_LO": Register(0x318, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_ACTIVATES_HI": Register(0x31c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_PRECHARGES_LO": Register(0x320, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_PRECHARGES_HI": Register(0x324, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_REFRESHES_LO": Register(0x328, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_REFRESHES_HI": Register(0x32c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_READS_LO": Register(0x330, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_READS_HI": Register(0x334, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_WRITES_LO": Register(0x338, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_WRITES_HI": Register(0x33c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_UPDATES_LO": Register(0x340, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "DRAM_UPDATES_HI": Register(0x344, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TRACKER_OCCUPANCY": Register(0x348, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TRACKER_HIGH_WATER": Register(0x34c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OVERFLOW_OCCUPANCY": Register(0x350, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "OVERFLOW_HIGH_WATER": Register(0x354, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TRIGGER_LATENCY_MIN": Register(0x358, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TRIGGER_LATENCY_MAX": Register(0x35c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TRIGGER_LATENCY_SUM_LO": Register(0x360, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TRIGGER_LATENCY_SUM_HI": Register(0x364, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "TRIGGER_LATENCY_COUNT": Register(0x368, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
}

#: Counters in the order of their addresses.
COUNTERS = [
    Counter("CYCLES", 0x210, 64),
    Counter("PRODUCER_READ_BYTES", 0x218, 64),
    Counter("PRODUCER_WRITE_BYTES", 0x220, 64),
    Counter("REMOTE_WRITE_BYTES", 0x228, 64),
    Counter("INCOMING_UPDATE_BYTES", 0x230, 64),
    Counter("INCOMING_STORE_BYTES", 0x238, 64),
    Counter("DMA_READ_BYTES", 0x240, 64),
    Counter("DMA_PACKETS", 0x248, 64),
    Counter("COMMITS", 0x250, 64),
    Counter("PRODUCER_WRITE_STALL", 0x258, 64),
    Counter("PRODUCER_READ_STALL", 0x260, 64),
    Counter("COMPUTE_QUEUE_STALL", 0x268, 64),
    Counter("COMMUNICATION_QUEUE_STALL", 0x270, 64),
    Counter("LINK_STALL", 0x278, 64),
    Counter("DMA_STALL", 0x280, 64),
    Counter("TX_WORDS", 0x288, 64),
    Counter("RX_WORDS", 0x290, 64),
    Counter("MEMORY_BUSY", 0x298, 64),
    Counter("FORCED_ACCESSES", 0x2a0, 64),
    Counter("TILES_FULL", 0x2a8, 64),
    Counter("COMMANDS_FIRED", 0x2b0, 64),
    Counter("ERRORS", 0x2b8, 64),
    Counter("COMPUTE_ISSUES", 0x2c0, 64),
    Counter("COMMUNICATION_ISSUES", 0x2c8, 64),
    Counter("COMMUNICATION_HOLDS", 0x2d0, 64),
    Counter("OCCUPANCY_0", 0x2d8, 64),
    Counter("OCCUPANCY_1_4", 0x2e0, 64),
    Counter("OCCUPANCY_5_9", 0x2e8, 64),
    Counter("OCCUPANCY_10_14", 0x2f0, 64),
    Counter("OCCUPANCY_15_19", 0x2f8, 64),
    Counter("OCCUPANCY_20_29", 0x300, 64),
    Counter("OCCUPANCY_30_39", 0x308, 64),
    Counter("OCCUPANCY_40", 0x310, 64),
    Counter("DRAM_ACTIVATES", 0x318, 64),
    Counter("DRAM_PRECHARGES", 0x320, 64),
    Counter("DRAM_REFRESHES", 0x328, 64),
    Counter("DRAM_READS", 0x330, 64),
    Counter("DRAM_WRITES", 0x338, 64),
    Counter("DRAM_UPDATES", 0x340, 64),
    Counter("TRACKER_OCCUPANCY", 0x348, 32),
    Counter("TRACKER_HIGH_WATER", 0x34c, 32),
    Counter("OVERFLOW_OCCUPANCY", 0x350, 32),
    Counter("OVERFLOW_HIGH_WATER", 0x354, 32),
    Counter("TRIGGER_LATENCY_MIN", 0x358, 32),
    Counter("TRIGGER_LATENCY_MAX", 0x35c, 32),
    Counter("TRIGGER_LATENCY_SUM", 0x360, 64),
    Counter("TRIGGER_LATENCY_COUNT", 0x368, 32),
]

#: Tables by name.
TABLES = {
    "PLAN": Table(0x40000, 32, 8, 8, {
        "arm": TableField(0, 0, 1),
        "clear": TableField(0, 1, 1),
        "epoch_half": TableField(0, 4, 3),
        "first_tile": TableField(1, 0, 16),
        "tiles": TableField(2, 0, 17),
        "first_command": TableField(3, 0, 16),
        "commands": TableField(4, 0, 17),
        "timeout": TableField(5, 0, 32),
        "first_touch": TableField(6, 0, 32),
        "touch_beats": TableField(7, 0, 32),
    }),
    "REGION": Table(0x41000, 64, 10, 32, {
        "enable": TableField(0, 0, 1),
        "action": TableField(0, 1, 2, "region_action"),
        "tile_id_mode": TableField(0, 3, 1, "tile_id_mode"),
        "dtype": TableField(0, 4, 2, "dtype"),
        "tracked": TableField(0, 6, 1),
        "first_touch": TableField(0, 7, 1),
        "accept_store": TableField(0, 8, 1),
        "accept_update": TableField(0, 9, 1),
        "wf_shift": TableField(0, 10, 3),
        "plan": TableField(0, 14, 3),
        "base": TableField(1, 0, 64),
        "limit": TableField(3, 0, 64),
        "first_tile": TableField(5, 0, 16),
        "remote_delta": TableField(6, 0, 64),
        "pitch_log2": TableField(8, 0, 6),
        "rows_log2": TableField(8, 8, 6),
        "row_bytes_log2": TableField(8, 16, 6),
        "touch_offset": TableField(9, 0, 32),
    }),
    "ROUTE": Table(0x42000, 64, 10, 16, {
        "dma": TableField(0, 0, 1),
        "doorbell": TableField(0, 1, 1),
        "interrupt": TableField(0, 2, 1),
        "doorbell_remote": TableField(0, 3, 1),
        "op": TableField(0, 4, 2, "memory_op"),
        "dtype": TableField(0, 6, 2, "dtype"),
        "tracked": TableField(0, 8, 1),
        "plan": TableField(0, 12, 3),
        "source": TableField(1, 0, 64),
        "destination": TableField(3, 0, 64),
        "source_pitch": TableField(5, 0, 32),
        "destination_pitch": TableField(6, 0, 32),
        "doorbell_address": TableField(7, 0, 64),
        "doorbell_data": TableField(9, 0, 32),
    }),
    "COMMAND": Table(0x60000, 8, 2, 16384, {
        "need": TableField(0, 0, 16),
        "route": TableField(0, 16, 4),
        "plan": TableField(0, 20, 3),
        "first": TableField(1, 0, 16),
        "count_minus_1": TableField(1, 16, 16),
    }),
    "TILE": Table(0x80000, 16, 4, 32768, {
        "expected": TableField(0, 0, 24),
        "wf": TableField(0, 24, 8),
        "command": TableField(1, 0, 16),
        "rows": TableField(1, 16, 16),
        "row_bytes": TableField(2, 0, 16),
        "wg": TableField(2, 16, 16),
        "offset": TableField(3, 0, 32),
    }),
}
