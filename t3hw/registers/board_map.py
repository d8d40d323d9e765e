"""Register map. Derived from board.rdl by `python -m t3hw.registers.derive`; do not edit."""

from t3hw.registers.description import Field, Register

__all__ = ["MAP_HASH", "ENUMS", "REGISTERS", "COUNTERS", "TABLES"]

#: 32-bit hash of this map, readable in the register MAP_HASH.
MAP_HASH = 0x03db61d2

#: Encodings of fields: name, value by name.
ENUMS = {
}

#: Registers by name.
REGISTERS = {
    "MAGIC": Register(0x000, "ro", 0x54334257, {
        "magic": Field(0, 32, "ro", 0x54334257),
    }),
    "MAP_HASH": Register(0x004, "ro", None, {
        "hash": Field(0, 32, "ro", None),
    }),
    "BOARD_HASH": Register(0x008, "ro", None, {
        "hash": Field(0, 32, "ro", None),
    }),
    "CONFIG_HASH": Register(0x00c, "ro", None, {
        "hash": Field(0, 32, "ro", None),
    }),
    "DEVICES": Register(0x010, "ro", None, {
        "devices": Field(0, 5, "ro", None),
        "traffic": Field(8, 1, "ro", None),
        "memory_kind": Field(16, 2, "ro", None),
    }),
    "CLOCK_HZ": Register(0x014, "ro", None, {
        "hertz": Field(0, 32, "ro", None),
    }),
    "CYCLES_LO": Register(0x018, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "CYCLES_HI": Register(0x01c, "ro", 0, {
        "value": Field(0, 32, "ro", 0),
    }),
    "SCRATCH": Register(0x020, "rw", 0, {
        "value": Field(0, 32, "rw", 0),
    }),
    "IRQ": Register(0x024, "ro", 0, {
        "nodes": Field(0, 16, "ro", 0),
    }),
    "ACCESS_ERRORS": Register(0x028, "wclr", 0, {
        "count": Field(0, 16, "wclr", 0),
    }),
    "ACCESS_ERROR_ADDRESS": Register(0x02c, "ro", 0, {
        "address": Field(0, 32, "ro", 0),
    }),
    "LINE_ERRORS": Register(0x030, "wclr", 0, {
        "framing": Field(0, 8, "wclr", 0),
        "abandoned": Field(8, 8, "wclr", 0),
        "lost": Field(16, 8, "wclr", 0),
    }),
    "RX_CRC": Register(0x034, "wclr", 0, {
        "crc": Field(0, 32, "wclr", 0),
    }),
    "TX_CRC": Register(0x038, "wclr", 0, {
        "crc": Field(0, 32, "wclr", 0),
    }),
    "MEMORY_BYTES": Register(0x03c, "ro", None, {
        "bytes": Field(0, 32, "ro", None),
    }),
    "LEDS": Register(0x040, "rw", 0, {
        "on": Field(0, 8, "rw", 0),
    }),
}

#: Counters in the order of their addresses.
COUNTERS = [
]

#: Tables by name.
TABLES = {
}
