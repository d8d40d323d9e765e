"""How well the DMA engine uses its buses: blocks from an ideal memory to an ideal link."""

import collections
import dataclasses

from amaranth.sim import Simulator

from t3hw.hdl.dma_engine import DmaEngine
from t3hw.hdl.seams import MemoryOp

__all__ = ["BusUse", "measure_bus_use"]

#: Beats that a measurement moves unless told otherwise: enough for its start not to count.
_BEATS = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class BusUse:
    """What one measurement saw. Cycles are counted from the one in which the first block is taken.

    Parameters
    ----------
    blocks, bursts, beats : int
        What was moved.
    first_read : int
        Cycle of the first read request.
    first_beat, last_beat : int
        Cycles of the first and of the last packet beat.
    """

    blocks: int
    bursts: int
    beats: int
    first_read: int
    first_beat: int
    last_beat: int

    @property
    def share(self):
        """Share of the cycles from the first packet beat to the last in which a beat was sent."""
        return self.beats / (self.last_beat - self.first_beat + 1)

    @property
    def share_with_start(self):
        """The same from the first read request on: the first read's latency counts too."""
        return self.beats / (self.last_beat - self.first_read + 1)


def measure_bus_use(config, block_bytes, latency, *, rows=1, pitch=None, offset=0, blocks=None):
    """Move blocks that follow each other in memory, and count cycles.

    The memory is ideal: it takes a burst in every cycle, gives a beat in every cycle, in order, and
    a burst's first beat at the earliest ``latency`` cycles after its request. The packets' consumer
    is always ready. A block is always waiting.

    Parameters
    ----------
    config : NodeConfig
        What to measure.
    block_bytes : int
        Bytes of a block, over all its rows.
    latency : int
        Cycles from a read request to its first beat, at least 1.
    rows : int
        Rows of a block.
    pitch : int or None
        From one row to the next; by default rows follow each other.
    offset : int
        Where the first block starts, within a beat.
    blocks : int or None
        Blocks to move; by default some thousand beats' worth.

    Returns
    -------
    BusUse

    Raises
    ------
    ValueError
        If rows do not divide a block, or a number is too small.
    RuntimeError
        If the engine stops before it is done.
    """
    if latency < 1 or rows < 1 or block_bytes < 1 or block_bytes % rows:
        raise ValueError(f"latency {latency!r} and rows {rows!r} must be at least 1, and rows must "
                         f"divide the block's {block_bytes!r} bytes")
    row_bytes = block_bytes // rows
    pitch = row_bytes if pitch is None else pitch
    if blocks is None:
        blocks = max(2, _BEATS // (rows * -(-row_bytes // config.beat_bytes)))

    dut = DmaEngine(config=config)
    done = 0
    bursts = 0
    packet_cycles = []
    taken_cycle = None
    read_cycle = None

    async def bench(ctx):
        nonlocal done, bursts, taken_cycle, read_cycle
        due = collections.deque()  # earliest cycle of each beat that was asked for
        taken = 0
        limit = 1000 + blocks * rows * (latency + 8 + 2 * -(-row_bytes // config.beat_bytes))

        def offer():
            start = taken * rows * pitch + offset
            ctx.set(dut.block.payload, {
                "source": start, "destination": start, "rows": rows, "row_bytes": row_bytes,
                "source_pitch": pitch, "destination_pitch": pitch, "op": MemoryOp.UPDATE,
            })
            ctx.set(dut.block.valid, taken < blocks)

        offer()
        ctx.set(dut.read.ready, 1)
        ctx.set(dut.packet.ready, 1)
        for cycle in range(limit):
            giving = bool(due) and due[0] <= cycle
            if giving:
                due.popleft()
            ctx.set(dut.data.valid, giving)
            (_, _, block_ready, read_valid, beats, packet_valid,
             done_valid) = await ctx.tick().sample(
                dut.block.ready, dut.read.valid, dut.read.p.beats, dut.packet.valid, dut.done.valid)
            if taken < blocks and block_ready:
                taken_cycle = cycle if taken == 0 else taken_cycle
                taken += 1
                offer()
            if read_valid:
                read_cycle = cycle if bursts == 0 else read_cycle
                bursts += 1
                due.extend([cycle + latency] * (beats + 1))
            if packet_valid:
                packet_cycles.append(cycle)
            done += done_valid
            if done == blocks:
                return

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
    if done != blocks:
        raise RuntimeError(f"{done} of {blocks} blocks were done in the time that all should take")
    return BusUse(blocks=blocks, bursts=bursts, beats=len(packet_cycles),
                  first_read=read_cycle - taken_cycle, first_beat=packet_cycles[0] - taken_cycle,
                  last_beat=packet_cycles[-1] - taken_cycle)
