"""Faults that a synthesized netlist can have although the design is right."""

import math

__all__ = ["block_ram_words", "check_netlist", "live_resets"]

#: Inputs of a DP16KD that reset its outputs.
_RESETS = ("RSTA", "RSTB")
#: How many flip-flops more than the design declares a netlist may have: copies that the tools make.
_GROWTH = 1.05


def live_resets(netlist):
    """Block RAMs of a netlist whose reset is driven by logic, as ``cell.pin``.

    A memory's read port with a register behind it can become a block RAM with an output register and
    such a reset, which on silicon makes it read 0.
    """
    return [f"{name}.{pin}" for module in netlist["modules"].values()
            for name, cell in module["cells"].items() if cell["type"] == "DP16KD"
            for pin in _RESETS
            if any(bit not in ("0", "1", "x") for bit in cell["connections"].get(pin, ()))]


def block_ram_words(netlist):
    """Number of block RAMs, by memory that they come from."""
    found = {}
    for module in netlist["modules"].values():
        for name, cell in module["cells"].items():
            if cell["type"] in ("DP16KD", "SB_RAM40_4K", "SDPB", "SDPX9B", "DPB", "DPX9B"):
                memory = name.rstrip("0123456789.") or name
                found[memory] = found.get(memory, 0) + 1
    return found


def check_netlist(netlist, *, declared_ff, used_ff, memory_bits, block_rams, bits_of_one):
    """Problems of a netlist, as texts for people; none: an empty list.

    Parameters
    ----------
    netlist : dict
        Yosys's JSON.
    declared_ff, used_ff : int
        Flip-flops of the design before its memories were mapped, and of the netlist.
    memory_bits : int
        Bits of all memories that belong into block RAM.
    block_rams, bits_of_one : int
        Block RAMs of the netlist, and bits that one holds.
    """
    problems = [f"{place} is driven by logic: on silicon this block RAM can read 0"
                for place in live_resets(netlist)]
    if used_ff > declared_ff * _GROWTH:
        problems.append(f"{used_ff} flip-flops where the design declares {declared_ff}: a memory has "
                        "become flip-flops, or grown a bypass")
    if block_rams < math.ceil(memory_bits / bits_of_one):
        problems.append(f"{block_rams} block RAMs hold less than the {memory_bits} bits of the "
                        "memories that belong there")
    return problems
