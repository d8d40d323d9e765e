"""Packets of the functional device: what goes over a link, and how a command's tiles become it."""

import dataclasses

import numpy as np

from .functional_registers import enum_name

__all__ = ["Packet", "command_packets"]


@dataclasses.dataclass(frozen=True)
class Packet:
    """A header, and whole beats from ``address`` on."""

    op: str
    dtype: str
    tracked: bool
    plan: int
    epoch: int
    wg: int
    wf: int
    address: int
    data: np.ndarray
    strobe: np.ndarray


def command_packets(registers, config, memory, command, epoch):
    """Packets of a command's tiles, one by one; each is read from memory as it is asked for."""
    route = registers.entry("ROUTE", command["route"])
    if not route["dma"]:
        return
    first = command["first"]
    for slot in range(first, first + command["count_minus_1"] + 1):
        tile = registers.entry("TILE", slot)
        for row in range(tile["rows"]):
            source = route["source"] + tile["offset"] + row * route["source_pitch"]
            target = route["destination"] + tile["offset"] + row * route["destination_pitch"]
            for low, strobe in _pieces(source, tile["row_bytes"], config):
                yield Packet(
                    enum_name("memory_op", route["op"]), enum_name("dtype", route["dtype"]),
                    bool(route["tracked"]), command["plan"], epoch, tile["wg"], tile["wf"],
                    low - source + target, memory[low:low + len(strobe)].copy(), strobe)


def _pieces(address, length, config):
    """Runs of at most ``burst_beats`` whole beats: first address, and which bytes are meant."""
    beat = config.beat_bytes
    end = address + length
    while address < end:
        low = address - address % beat
        high = min(low + config.burst_beats * beat, end + -end % beat)
        stop = min(high, end)
        strobe = np.zeros(high - low, bool)
        strobe[address - low:stop - low] = True
        yield low, strobe
        address = stop
