"""Faults that a synthesized netlist can have although the design is right."""

__all__ = ["check_netlist", "live_resets"]

#: Inputs of a DP16KD that reset its outputs.
_RESETS = ("RSTA", "RSTB")
_WITH_LUT_RAM = ("ecp5", "gowin")
#: How many flip-flops more than the design declares a netlist may have. Memories whose reads must
#: see what is being written take some (5 % in a ring of four); the smallest table of a node in
#: flip-flops would be a third more.
_GROWTH = 1.1


def live_resets(netlist):
    """Block RAMs of a netlist whose reset is driven by logic, as ``cell.pin``.

    A memory's read port with a register behind it can become a block RAM with an output register
    and such a reset, which on silicon makes it read 0.
    """
    return [f"{name}.{pin}" for module in netlist["modules"].values()
            for name, cell in module["cells"].items() if cell["type"] == "DP16KD"
            for pin in _RESETS
            if any(bit not in ("0", "1", "x") for bit in cell["connections"].get(pin, ()))]


def check_netlist(netlist, *, family, declared_ff, used_ff, memory_bits, block_ram_bits):
    """Problems of a netlist, as texts for people; none: an empty list.

    Parameters
    ----------
    netlist : dict
        Yosys's JSON.
    family : str
        Of the chip.
    declared_ff, used_ff : int
        Bits of flip-flops of the design before its memories were mapped, and of the netlist.
    memory_bits : int
        Bits of the nodes' own memories, which belong into block RAM.
    block_ram_bits : int
        What the netlist's block RAMs hold.
    """
    problems = [f"{place} is driven by logic: on silicon this block RAM can read 0"
                for place in live_resets(netlist)]
    # A chip without LUT RAM makes its small memories of flip-flops, and rightly so.
    if family in _WITH_LUT_RAM and used_ff > declared_ff * _GROWTH:
        problems.append(f"{used_ff} flip-flops where the design declares {declared_ff}: a memory "
                        "has become flip-flops, or grown a bypass")
    if block_ram_bits < memory_bits:
        problems.append(f"block RAMs hold {block_ram_bits} bits, less than the {memory_bits} of "
                        "the nodes' memories: these have become something else")
    return problems
