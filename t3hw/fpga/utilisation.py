"""Where a netlist's cells are: by kind, by block, against what the chip holds."""

import collections
import re

from .tools import FlowError

__all__ = ["COSTS", "PARAMETERS", "Overfull", "block_of", "by_block", "check_fit", "count", "each",
           "scopes_of"]

#: What a cell of a synthesized netlist takes, by family and type.
COSTS = {
    "ecp5": {
        "LUT4": {"LUT4": 1}, "CCU2C": {"LUT4": 2}, "TRELLIS_FF": {"FF": 1},
        "TRELLIS_DPR16X4": {"LUT4": 6, "LUT RAM": 1}, "DP16KD": {"block RAM": 1},
        "MULT18X18D": {"multiplier": 1},
    },
    "ice40": {
        "SB_LUT4": {"LUT4": 1}, "SB_RAM40_4K": {"block RAM": 1}, "SB_SPRAM256KA": {"large RAM": 1},
        "SB_MAC16": {"multiplier": 1},
    },
    "gowin": {
        **{f"LUT{inputs}": {"LUT4": 1} for inputs in (1, 2, 3, 4)}, "ALU": {"LUT4": 1},
        "RAM16SDP4": {"LUT RAM": 1}, "MULT9X9": {"multiplier": 1}, "MULT18X18": {"multiplier": 1},
        **{name: {"block RAM": 1} for name in ("SDPB", "SDPX9B", "DPB", "DPX9B", "SPX9", "SP")},
    },
}
#: Types of flip-flops that have many names.
_FLIP_FLOPS = {"ice40": re.compile(r"SB_DFF\w*"), "gowin": re.compile(r"DFF\w*")}

#: Families where a flip-flop takes its value from the LUT beside it: what that must be, whether
#: nobody else may read it, and cells that a LUT RAM takes. A flip-flop with another source takes
#: the LUT's place.
_PAIRS = {"ice40": (re.compile("SB_LUT4"), True, 0), "gowin": (re.compile(r"LUT\d|ALU"), False, 8)}

#: What shrinks a block: fields of the configuration, most useful first.
PARAMETERS = {
    "registers": "plans, regions",
    "producer": "regions, producer_reads, outstanding_writes",
    "ingress": "regions, link_credits",
    "controller": "memory_bytes, touch_bytes, dtypes, compute_queue, communication_queue",
    "tracker": "tracker_ways, tracker_sets, tiles",
    "trigger": "tiles, commands",
    "plan_state": "plans",
    "front_end": "commands",
    "engine": "outstanding_reads, burst_beats",
    "egress": "link_max_latency, routes",
    "gemm": "gemm_units, gemm_stages (or traffic = false)",
    "collective": "collective_steps, dtypes (or traffic = false)",
}

#: Instances of a board that hold blocks of a node or of several.
_CONTAINER = re.compile(r"(?:traffic_|reduced_)?node\d*|ring|core|board")
#: Instances that are there for the build.
_TRANSPARENT = ("core", "shared")
#: Cells whose names do not say where they come from.
OTHER = "(other)"


class Overfull(FlowError):
    """A design that does not fit; the message says what is too large, and what makes it smaller."""


def block_of(name, scopes):
    """Block of a cell: ``node<d>.tracker`` is ``node*.tracker``, whatever lies within it.

    Parameters
    ----------
    name : str
        The cell's, with dots.
    scopes : set of str
        Names of the instances in the netlist.
    """
    parts = name.split(".")
    depth = len(parts) - 1
    while depth and ".".join(parts[:depth]) not in scopes:
        depth -= 1
    block = []
    for part in parts[:depth]:
        if part in _TRANSPARENT:
            continue
        # A number behind $ tells an instance from a signal of the same name.
        block.append(re.sub(r"\d+$", "*", re.sub(r"\$\d+$", "", part)))
        if not _CONTAINER.fullmatch(part):
            break
    return ".".join(block) or OTHER


def _cost(family, kind):
    costs = COSTS[family].get(kind)
    if costs is None and family in _FLIP_FLOPS and _FLIP_FLOPS[family].fullmatch(kind):
        return {"FF": 1}
    return costs or {}


def by_block(netlist, family):
    """Cells of a flat netlist, by block and kind.

    Parameters
    ----------
    netlist : dict
        Yosys's JSON, with its cells that tell the instances.
    family : str
        Of the chip.

    Returns
    -------
    dict
        Counts by kind, by block, the largest first.
    """
    cells = _cells(netlist)
    scopes = scopes_of(netlist)
    blocks = collections.defaultdict(collections.Counter)
    for name, number in _logic_cells(cells, family):
        blocks[block_of(name, scopes)]["logic cell"] += number
    for name, cell in cells.items():
        cost = _cost(family, cell["type"])
        if cost:
            blocks[block_of(name, scopes)].update(cost)
    return {name: dict(counts) for name, counts in sorted(
        blocks.items(), key=lambda item: (-item[1]["LUT4"], item[0]))}


def _logic_cells(cells, family):
    """What each cell takes of the places for a LUT and the flip-flop behind it,
    where they are one."""
    if family not in _PAIRS:
        return
    source, alone, of_memory = _PAIRS[family]
    drivers, readers = {}, collections.Counter()
    for name, cell in cells.items():
        for port, bits in cell.get("connections", {}).items():
            if cell["port_directions"][port] == "output":
                drivers |= dict.fromkeys(bits, name)
            else:
                readers.update(bits)
    paired = set()
    for name, cell in cells.items():
        cost = _cost(family, cell["type"])
        if "LUT4" in cost:
            yield name, cost["LUT4"]
        if "LUT RAM" in cost and of_memory:
            yield name, of_memory
        if "FF" in cost:
            (bit,) = cell.get("connections", {}).get("D", [None])
            driver = drivers.get(bit)
            if (driver is None or driver in paired or (alone and readers[bit] > 1)
                    or not source.fullmatch(cells[driver]["type"])):
                yield name, 1
            else:
                paired.add(driver)


def scopes_of(netlist):
    """Names of the instances that a flat netlist was made of."""
    return {name for name, cell in _cells(netlist).items() if cell["type"] == "$scopeinfo"}


def _cells(netlist):
    (top,) = [module for module in netlist["modules"].values()
              if int(module["attributes"].get("top", "0"), 2)]
    return top["cells"]


def count(blocks):
    """Sum of all blocks, by kind."""
    return dict(sum((collections.Counter(counts) for counts in blocks.values()),
                    collections.Counter()))


def each(block, devices):
    """How many times a block is there."""
    return devices if "*" in block else 1


def check_fit(blocks, available, *, chip, devices):
    """Refuse what does not fit, before it is placed.

    Parameters
    ----------
    blocks : dict
        Of `by_block`.
    available : dict
        What the chip holds, by kind.
    chip : str
        Its name.
    devices : int
        Nodes.

    Raises
    ------
    Overfull
        With each kind that there is too much of, its largest blocks, and the parameters that shrink
        these.
    """
    used = count(blocks)
    lines = []
    for kind, room in available.items():
        need = used.get(kind, 0)
        if need <= room:
            continue
        lines.append(f"{kind}: {need} of {room}, {need - room} too many "
                     f"({100 * (need - room) / room:.0f} %)")
        largest = sorted((name for name in blocks if blocks[name].get(kind)),
                         key=lambda name: -blocks[name][kind])[:3]
        for name in largest:
            times = each(name, devices)
            # Only a node's own blocks have parameters here.
            shrinks = PARAMETERS.get(name.rpartition(".")[2])
            lines.append(f"  {name} has {blocks[name][kind]}"
                         + (f" ({blocks[name][kind] // times} in each of {times})"
                            if times > 1 else "")
                         + (f"; smaller by {shrinks}" if shrinks else ""))
    if lines:
        if devices > 1:
            lines.append(f"or fewer devices than {devices}")
        raise Overfull(f"the design does not fit {chip}:\n" + "\n".join(lines))
