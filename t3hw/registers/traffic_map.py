"""Register map. Derived from traffic.rdl by `python -m t3hw.registers.derive`; do not edit."""

from t3hw.registers.description import Field, Register, Table, TableField

__all__ = ["MAP_HASH", "ENUMS", "REGISTERS", "COUNTERS", "TABLES"]

#: 32-bit hash of this map, readable in the register MAP_HASH.
MAP_HASH = 0xe346c97b

#: Encodings of fields: name, value by name.
ENUMS = {
    "dtype": {
        "INT32": 0,
        "FLOAT32": 1,
        "BFLOAT16": 2,
        "FLOAT16": 3,
    },
}

#: Registers by name.
REGISTERS = {
    "MAP_HASH": Register(0x10000, "ro", None, {
        "hash": Field(0, 32, "ro", None),
    }),
    "CAP_GEMM": Register(0x10004, "ro", None, {
        "units": Field(0, 9, "ro", None),
        "stages": Field(16, 9, "ro", None),
    }),
    "CAP_COLLECTIVE": Register(0x10008, "ro", None, {
        "steps": Field(0, 16, "ro", None),
    }),
    "IRQ_STATUS": Register(0x10010, "w1c", 0, {
        "gemm_done": Field(0, 1, "w1c", 0),
        "collective_done": Field(1, 1, "w1c", 0),
    }),
    "IRQ_ENABLE": Register(0x10014, "rw", 0, {
        "gemm_done": Field(0, 1, "rw", 0),
        "collective_done": Field(1, 1, "rw", 0),
    }),
    "GEMM_CONTROL": Register(0x10100, "wo", None, {
        "start": Field(0, 1, "wo", None),
    }),
    "GEMM_STATUS": Register(0x10104, "ro", None, {
        "busy": Field(0, 1, "ro", 0),
        "error": Field(1, 1, "ro", 0),
        "legal": Field(2, 1, "ro", None),
    }),
    "GEMM_UNITS": Register(0x10108, "rw", 0, {
        "units": Field(0, 9, "rw", 0),
    }),
    "GEMM_WORKGROUPS": Register(0x1010c, "rw", 0, {
        "workgroups": Field(0, 16, "rw", 0),
    }),
    "GEMM_FIRST_WORKGROUP": Register(0x10110, "rw", 0, {
        "first_workgroup": Field(0, 16, "rw", 0),
    }),
    "GEMM_CHUNK_WORKGROUPS": Register(0x10114, "rw", 0, {
        "chunk_workgroups": Field(0, 16, "rw", 0),
    }),
    "GEMM_STEPS": Register(0x10118, "rw", 0, {
        "steps": Field(0, 16, "rw", 0),
    }),
    "GEMM_STEP_CYCLES": Register(0x1011c, "rw", 0, {
        "step_cycles": Field(0, 24, "rw", 0),
    }),
    "GEMM_READS": Register(0x10120, "rw", 0, {
        "burst_log2": Field(0, 3, "rw", 0),
        "streams_log2": Field(4, 3, "rw", 0),
        "stream_bytes_log2": Field(8, 6, "rw", 0),
    }),
    "GEMM_READ_BASE_LO": Register(0x10124, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "GEMM_READ_BASE_HI": Register(0x10128, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "GEMM_BASE_LO": Register(0x1012c, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "GEMM_BASE_HI": Register(0x10130, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "GEMM_WORKGROUP_BYTES": Register(0x10134, "rw", 0, {
        "workgroup_bytes": Field(0, 32, "rw", 0),
    }),
    "GEMM_TILES": Register(0x10138, "rw", 0, {
        "wavefronts": Field(0, 5, "rw", 0),
        "tile_beats_log2": Field(8, 4, "rw", 0),
    }),
    "GEMM_SEED": Register(0x1013c, "rw", 0, {
        "seed": Field(0, 32, "rw", 0),
    }),
    "GEMM_AND_MASK": Register(0x10140, "rw", 0xffffffff, {
        "mask": Field(0, 32, "rw", 0xffffffff),
    }),
    "GEMM_OR_MASK": Register(0x10144, "rw", 0, {
        "mask": Field(0, 32, "rw", 0),
    }),
    "GEMM_CYCLES": Register(0x10180, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "GEMM_FIRST_STORE": Register(0x10184, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "GEMM_LAST_STORE": Register(0x10188, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "GEMM_READ_WAIT_LO": Register(0x1018c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "GEMM_READ_WAIT_HI": Register(0x10190, "ro", 0, {
        "value": Field(0, 16, "ro", 0),
    }),
    "GEMM_READ_BEATS": Register(0x10194, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "GEMM_WRITE_BEATS": Register(0x10198, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "GEMM_STORE_STALL": Register(0x1019c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COLLECTIVE_CONTROL": Register(0x10200, "wo", None, {
        "start": Field(0, 1, "wo", None),
        "clear": Field(1, 1, "wo", None),
    }),
    "COLLECTIVE_STATUS": Register(0x10204, "ro", 0, {
        "busy": Field(0, 1, "ro", 0),
        "error": Field(1, 1, "ro", 0),
    }),
    "COLLECTIVE_STEPS": Register(0x10208, "rw", 0, {
        "steps": Field(0, 16, "rw", 0),
    }),
    "COLLECTIVE_BURST": Register(0x1020c, "rw", 1, {
        "beats": Field(0, 7, "rw", 1),
        "dtype": Field(8, 2, "rw", 0, "dtype"),
    }),
    "COLLECTIVE_EXPECTED": Register(0x10210, "rw", 0, {
        "beats": Field(0, 32, "rw", 0),
    }),
    "COLLECTIVE_CYCLES": Register(0x10280, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COLLECTIVE_READ_BEATS": Register(0x10284, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COLLECTIVE_WRITE_BEATS": Register(0x10288, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "COLLECTIVE_UNUSED": Register(0x1028c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "READ_ADDRESS_LO": Register(0x10300, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "READ_ADDRESS_HI": Register(0x10304, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "READ_DATA": Register(0x10308, "ro", None, {
        "value": Field(0, 32, "ro", None),
    }),
}

#: Counters in the order of their addresses.
COUNTERS = [
]

#: Tables by name.
TABLES = {
    "GEMM_STAGE": Table(0x11000, 4, 1, 256, {
        "reads": TableField(0, 0, 16),
    }),
    "COLLECTIVE_STEP": Table(0x12000, 32, 7, 256, {
        "beats": TableField(0, 0, 24),
        "add": TableField(0, 24, 1),
        "wait": TableField(0, 25, 1),
        "source_a": TableField(1, 0, 64),
        "source_b": TableField(3, 0, 64),
        "destination": TableField(5, 0, 64),
    }),
}
