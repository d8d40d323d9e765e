"""The register map of a traffic node's engines; the node's own is in `t3hw.registers`."""

from t3hw.registers.access import RegisterError, RegisterMap
from t3hw.registers.traffic_map import ENUMS, MAP_HASH, REGISTERS, TABLES

__all__ = [
    "ENUMS", "MAP_HASH", "REGISTERS", "TABLES", "RegisterError", "register_address",
    "entry_address", "encode_register", "decode_register", "encode_entry", "decode_entry",
    "capabilities", "register_limits", "field_limits", "table_sizes",
]

_MAP = RegisterMap(registers=REGISTERS, tables=TABLES, enums=ENUMS)
register_address = _MAP.register_address
entry_address = _MAP.entry_address
encode_register = _MAP.encode_register
decode_register = _MAP.decode_register
encode_entry = _MAP.encode_entry
decode_entry = _MAP.decode_entry


def capabilities(*, units, stages, steps):
    """What the registers that describe the engines read as, by name."""
    return {"MAP_HASH": encode_register("MAP_HASH", hash=MAP_HASH),
            "CAP_GEMM": encode_register("CAP_GEMM", units=units, stages=stages),
            "CAP_COLLECTIVE": encode_register("CAP_COLLECTIVE", steps=steps)}


def table_sizes(*, stages, steps):
    """Entries of each table."""
    return {"GEMM_STAGE": stages, "COLLECTIVE_STEP": steps}


def register_limits(config, *, units, steps):
    """Largest value of the register fields that a node limits further than by their width, by
    (register, field)."""
    address = (1 << config.addr_width) - 1
    limits = {("GEMM_UNITS", "units"): units, ("COLLECTIVE_STEPS", "steps"): steps}
    for name in ("GEMM_READ_BASE", "GEMM_BASE", "READ_ADDRESS"):
        limits[f"{name}_LO", "value"] = address & 0xFFFFFFFF
        limits[f"{name}_HI", "value"] = address >> 32
    return limits


def field_limits(config):
    """Largest value of the table fields that a node limits further than by their width, by (table,
    field)."""
    return {("COLLECTIVE_STEP", key): (1 << config.addr_width) - 1
            for key in ("source_a", "source_b", "destination")}
