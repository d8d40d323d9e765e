"""The register map of a node, for software and for the hardware alike.

`t3hw.registers.map` is derived from ``t3.rdl`` by `t3hw.registers.derive`. What is here turns named
fields into words and back, and says what a node of a given configuration answers and accepts.
"""

import t3hw
from t3hw.config import DTYPE_NAMES
from t3hw.registers.access import RegisterError, RegisterMap
from t3hw.registers.map import COUNTERS, ENUMS, MAP_HASH, REGISTERS, TABLES

__all__ = [
    "COUNTERS", "ENUMS", "MAP_HASH", "REGISTERS", "TABLES", "NO_COMMAND", "RegisterError",
    "register_address", "entry_address", "encode_register", "decode_register", "encode_entry",
    "decode_entry", "capabilities", "table_sizes", "field_limits", "register_limits",
    "reset_values", "absent_registers",
]

#: In the field ``command`` of a tile's entry: no command waits for the tile.
NO_COMMAND = 0xFFFF


#: Names and words of this map.
_MAP = RegisterMap(registers=REGISTERS, tables=TABLES, enums=ENUMS)
register_address = _MAP.register_address
entry_address = _MAP.entry_address
encode_register = _MAP.encode_register
decode_register = _MAP.decode_register
decode_entry = _MAP.decode_entry


def encode_entry(table, *, config=None, **fields):
    """Words of a table's entry from its fields; those that are not given are 0.

    Parameters
    ----------
    table : str
        PLAN, REGION, ROUTE, COMMAND or TILE.
    config : NodeConfig
        If given, values are also checked against what a node of this configuration accepts.
    **fields : int, str or enum member
        Values by field; a string names a member of the field's enum.

    Returns
    -------
    list of int
        All words of the entry.

    Raises
    ------
    RegisterError
        If the table or a field does not exist, or a value does not fit.
    """
    limits = field_limits(config) if config is not None else {}
    if table == "TILE" and fields.get("command") == NO_COMMAND:
        limits.pop(("TILE", "command"), None)
    return _MAP.encode_entry(table, limits, **fields)


def capabilities(config):
    """What the registers that describe a node of this configuration read as, by name."""
    major, minor, patch = (int(part) for part in t3hw.__version__.split("."))
    fields = {
        "PRODUCT_ID": {"id": REGISTERS["PRODUCT_ID"].reset},
        "VERSION": {"major": major, "minor": minor, "patch": patch},
        "CONFIG_HASH": {"hash": config.hash},
        "CAP_WIDTHS": {
            "beat_bytes": config.beat_bytes, "addr_width": config.addr_width,
            "dtypes": sum(1 << DTYPE_NAMES.index(dtype) for dtype in config.dtypes),
            "memory_builtin": int(config.memory != "axi"), "monitoring": int(config.monitoring),
            "address_tiles": int(config.address_tiles), "collective": int(config.collective),
            "wg_width": config.wg_width},
        "CAP_TABLES0": {"tiles_minus_1": config.tiles - 1, "commands_minus_1": config.commands - 1},
        "CAP_TABLES1": {"regions": config.regions, "routes": config.routes, "plans": config.plans,
                        "wf_width": config.wf_width},
        "CAP_TRACKER": {"sets": config.tracker_sets, "ways": config.tracker_ways,
                        "expected_width": config.expected_width},
        "CAP_TOUCH": {"touch_beats": config.touch_beats if config.collective else 0},
        "CAP_DMA": {"outstanding_reads": config.outstanding_reads,
                    "burst_beats_minus_1": config.burst_beats - 1},
        "CAP_MEMORY": {"memory_bytes": min(config.memory_bytes, 0xFFFFFFFF)},
        "CAP_LATENCY": {"memory_max_latency": config.memory_max_latency,
                        "link_max_latency": config.link_max_latency},
        "CAP_QUEUES": {"memory_queue": config.dram.window if config.memory == "dram" else 0,
                       "compute_queue_minus_1": config.compute_queue - 1,
                       "communication_queue_minus_1": config.communication_queue - 1},
        "MAP_HASH": {"hash": MAP_HASH},
    }
    return {name: encode_register(name, **values) for name, values in fields.items()}


def table_sizes(config):
    """Entries of each table in a node of this configuration."""
    return {"PLAN": config.plans, "REGION": config.regions, "ROUTE": config.routes,
            "COMMAND": config.commands, "TILE": config.tiles}


def register_limits(config):
    """Largest value of the register fields that a node of this configuration limits further than by
    their width, by (register, field)."""
    limits = {
        ("CONTROL", "policy"): max(ENUMS["policy"].values()) if config.collective else 0,
        ("MEMORY_LATENCY", "cycles"): config.memory_max_latency,
        ("LINK_LATENCY", "cycles"): config.link_max_latency,
        ("TILE_STATE_INDEX", "slot"): config.tiles - 1,
    }
    if config.memory == "dram" and config.monitoring:
        limits |= {(name, key): config.dram.window for name, key in _THRESHOLDS}
    absent = absent_registers(config)
    return {(name, key): limit for (name, key), limit in limits.items() if name not in absent}


#: Fields that hold a threshold for the memory's occupancy.
_THRESHOLDS = [("MCA_CONTROL", "threshold"),
               *(("MCA_THRESHOLD_" + level, "accesses") for level in "0123")]


def absent_registers(config):
    """Registers that a node of this configuration does not have: they read as 0, and a write is
    refused."""
    absent = set()
    if not config.monitoring:
        absent |= {counter.name + half for counter in COUNTERS for half in ("", "_LO", "_HI")}
        absent |= {name for name in REGISTERS if name.startswith("MCA_")}
    if not config.collective:
        absent |= {name for name in REGISTERS if name.startswith("LINK_")}
        absent |= {"HOLD_TIMEOUT", "STARVATION_LIMIT"}
    return frozenset(absent & set(REGISTERS))


def reset_values(config):
    """What the register fields that software can write are after a reset of a node of this
    configuration, by (register, field): what the map says, but nothing beyond a limit."""
    limits = register_limits(config)
    return {(name, key): min(field.reset, limits.get((name, key), field.reset))
            for name, register in REGISTERS.items()
            if register.access in ("rw", "w1c") and name not in absent_registers(config)
            for key, field in register.fields.items()}


def field_limits(config):
    """Largest value of the table fields that a node of this configuration limits further than by
    their width, by (table, field); it answers SLVERR to a larger one.

    ``TILE.command`` may be `NO_COMMAND` too.
    """
    address = (1 << config.addr_width) - 1
    return {
        ("PLAN", "first_tile"): config.tiles - 1,
        ("PLAN", "tiles"): config.tiles,
        ("PLAN", "first_command"): config.commands - 1,
        ("PLAN", "commands"): config.commands,
        ("PLAN", "first_touch"): config.touch_beats - 1,
        ("PLAN", "touch_beats"): config.touch_beats,
        ("REGION", "base"): address,
        ("REGION", "limit"): address,
        ("REGION", "tile_id_mode"): int(config.address_tiles),
        ("REGION", "first_tile"): config.tiles - 1,
        ("REGION", "plan"): config.plans - 1,
        ("ROUTE", "source"): address,
        ("ROUTE", "destination"): address,
        ("ROUTE", "doorbell_address"): address,
        ("ROUTE", "plan"): config.plans - 1,
        ("COMMAND", "route"): config.routes - 1,
        ("COMMAND", "plan"): config.plans - 1,
        ("COMMAND", "first"): config.tiles - 1,
        ("COMMAND", "count_minus_1"): config.tiles - 1,
        ("TILE", "expected"): (1 << config.expected_width) - 1,
        ("TILE", "command"): config.commands - 1,
        ("TILE", "wg"): (1 << config.wg_width) - 1,
        ("TILE", "wf"): (1 << config.wf_width) - 1,
    } | ({} if config.collective else _ALONE)


#: The same of a node that does not work with others: nothing goes to a neighbour, or is added.
_ALONE = {("PLAN", "first_touch"): 0, ("PLAN", "touch_beats"): 0, ("REGION", "action"): 0,
          ("REGION", "first_touch"): 0, ("ROUTE", "doorbell_remote"): 0, ("ROUTE", "op"): 1,
          ("ROUTE", "tracked"): 0}
