"""Addresses of a board's registers and memories, as LiteX's host tools read them."""

from ..registers import traffic as traffic_registers
from ..registers import board as board_registers
from ..registers.board import (
    BOARD_BASE, memory_address, node_address, register_address)
from ..registers.map import REGISTERS

__all__ = ["csr_csv"]


def csr_csv(design):
    """Text of the file ``csr.csv`` that ``RemoteClient(csr_csv=...)`` of LiteX loads.

    Parameters
    ----------
    design : BoardDesign
        The board.
    """
    lines = []

    def base(name, address):
        lines.append(f"csr_base,{name},{address:#010x},,")

    def registers(prefix, origin, table):
        for name, register in table.items():
            access = "ro" if register.access == "ro" else "rw"
            for index in range(register.count):
                each = f"{name.lower()}{index}" if register.count > 1 else name.lower()
                address = origin + register.offset + index * register.stride
                lines.append(f"csr_register,{prefix}_{each},{address:#010x},1,{access}")

    base("board", BOARD_BASE)
    for device in range(design.devices):
        base(f"node{device}", node_address(device))
    registers("board", register_address("MAGIC"), board_registers.REGISTERS)
    for device in range(design.devices):
        registers(f"node{device}", node_address(device), REGISTERS)
        if design.traffic:
            registers(f"node{device}_traffic", node_address(device), traffic_registers.REGISTERS)
    lines += [f"constant,config_clock_frequency,{design.clock_hz},,",
              f"constant,t3_devices,{design.devices},,",
              f"constant,t3_board_hash,{design.hash},,"]
    lines += [f"memory_region,node{device}_memory,{memory_address(device):#010x},"
              f"{design.node.memory_bytes},io" for device in range(design.devices)]
    return "\n".join(lines) + "\n"
