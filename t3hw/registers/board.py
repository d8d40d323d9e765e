"""The register map of a board's design; a node's own is in `t3hw.registers`.

Addresses on the host's bus, which a board's serial link reaches, are here too.
"""

from t3hw.registers.access import RegisterError, RegisterMap
from t3hw.registers.board_map import ENUMS, MAP_HASH, REGISTERS, TABLES

__all__ = [
    "ENUMS", "MAP_HASH", "REGISTERS", "TABLES", "RegisterError", "BOARD_BASE", "MAGIC",
    "MAX_DEVICES", "MEMORY_BASE", "MEMORY_KINDS", "MEMORY_WINDOW", "NODE_WINDOW", "REFUSED",
    "register_address", "register_offset", "encode_register", "decode_register", "node_address",
    "memory_address", "identity",
]

#: Where the board's registers begin.
BOARD_BASE = 0x0F00_0000
#: Bytes from a node's registers to the next node's; node 0's are at 0.
NODE_WINDOW = 1 << 20
#: Where node 0's memory begins, and bytes from there to the next node's.
MEMORY_BASE = 0x8000_0000
MEMORY_WINDOW = 64 << 20
#: Most nodes that a board can have.
MAX_DEVICES = 16
#: What a refused read answers.
REFUSED = 0xFFFF_FFFF
#: Values of ``DEVICES.memory_kind`` by the name in a board's design.
MEMORY_KINDS = {"block-ram": 0, "sdram": 1}

_MAP = RegisterMap(registers=REGISTERS, tables=TABLES, enums=ENUMS)
#: Byte address of a register within the board's registers.
register_offset = _MAP.register_address
encode_register = _MAP.encode_register
decode_register = _MAP.decode_register
MAGIC = REGISTERS["MAGIC"].reset


def register_address(name):
    """Byte address of a board's register on the host's bus."""
    return BOARD_BASE + register_offset(name)


def node_address(node, offset=0):
    """Address on the host's bus of what is at ``offset`` in a node's registers."""
    return _windowed("node's registers", 0, NODE_WINDOW, node, offset)


def memory_address(node, offset=0):
    """Address on the host's bus of what is at ``offset`` in a node's memory."""
    return _windowed("node's memory", MEMORY_BASE, MEMORY_WINDOW, node, offset)


def _windowed(what, base, size, node, offset):
    if not 0 <= node < MAX_DEVICES:
        raise RegisterError(f"node must be from 0 to {MAX_DEVICES - 1}, not {node}")
    if not 0 <= offset < size:
        raise RegisterError(f"offset in a {what} must be from 0 to {size - 1:#x}, not {offset:#x}")
    return base + node * size + offset


def identity(design):
    """What the registers that describe a board read as, by name.

    Parameters
    ----------
    design : BoardDesign
        The board's design.
    """
    return {
        "MAGIC": MAGIC,
        "MAP_HASH": encode_register("MAP_HASH", hash=MAP_HASH),
        "BOARD_HASH": encode_register("BOARD_HASH", hash=design.hash),
        "CONFIG_HASH": encode_register("CONFIG_HASH", hash=design.node.hash),
        "DEVICES": encode_register("DEVICES", devices=design.devices, traffic=int(design.traffic),
                                   memory_kind=MEMORY_KINDS[design.memory]),
        "CLOCK_HZ": encode_register("CLOCK_HZ", hertz=design.clock_hz),
        "MEMORY_BYTES": encode_register("MEMORY_BYTES",
                                        bytes=min(design.node.memory_bytes, 0xFFFF_FFFF)),
    }
