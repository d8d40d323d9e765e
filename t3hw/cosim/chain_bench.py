"""Cycles of the blocks between a commit and the DMA's first read, and of the adder, one by one."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.sim import Simulator

from t3hw.config import DTYPE_NAMES, NodeConfig
from t3hw.hdl.dma_engine import DmaEngine
from t3hw.hdl.dma_front_end import DmaFrontEnd
from t3hw.hdl.near_memory_adder import NearMemoryAdder
from t3hw.hdl.seams import Dtype, Table, table_write
from t3hw.hdl.tracker import Tracker
from t3hw.hdl.trigger import Trigger
from t3hw.registers import NO_COMMAND, encode_entry

__all__ = ["measure_adder", "measure_chain", "measure_tracker"]

#: Cycles after which whatever is waited for does not come any more.
_PATIENCE = 100


def measure_tracker(sets, ways, tiles, beats):
    """Offer a commit in every cycle, and see how long the tracker takes to have all of them.

    Parameters
    ----------
    sets, ways : int
        The tracker's shape.
    tiles : int
        Tiles to which the commits go in turn.
    beats : int
        Commits of a whole beat that each tile gets.

    Returns
    -------
    (float, int, int)
        Commits a cycle; cycles that they took beyond one each; tiles that were in the overflow
        table at most.

    Raises
    ------
    RuntimeError
        If a tile is not full in the end.
    """
    config = NodeConfig(tracker_sets=sets, tracker_ways=ways, plans=1, commands=2)
    dut = Tracker(config=config)
    commits = tiles * beats
    full_cycles = []
    overflow = 0

    async def bench(ctx):
        nonlocal overflow
        for slot in range(tiles):
            await _write_table(ctx, dut.table, config, "TILE", slot,
                               expected=beats * config.beat_bytes, command=NO_COMMAND)
        ctx.set(dut.plans[0], {"armed": 1, "epoch": 1})
        for cycle in range(commits + _PATIENCE):
            slot = cycle % tiles
            ctx.set(dut.commit.valid, cycle < commits)
            ctx.set(dut.commit.payload, {
                "bytes": config.beat_bytes, "tile": {"tracked": 1, "slot": slot, "wg": slot}})
            _, _, full = await ctx.tick().sample(dut.full.valid)
            full_cycles.extend([cycle] * full)
        overflow = ctx.get(dut.overflow_high_water)

    _simulate(dut, bench)
    if len(full_cycles) != tiles:
        raise RuntimeError(f"{len(full_cycles)} of {tiles} tiles are full after all their commits")
    cycles = full_cycles[-1] - dut.latency + 1
    return commits / cycles, cycles - commits, overflow


def measure_chain(config):
    """A tile's last commit on its way to the DMA's first read,
    through the blocks as a node has them.

    Returns
    -------
    dict of str to int
        Cycles from the commit until the tile is full, the command fires, its first block is taken,
        and the first read is asked for.
    """
    dut = Module()
    dut.submodules.tracker = tracker = Tracker(config=config)
    dut.submodules.trigger = trigger = Trigger(config=config)
    dut.submodules.front_end = front_end = DmaFrontEnd(config=config)
    dut.submodules.engine = engine = DmaEngine(config=config)
    wiring.connect(dut, trigger.fire, front_end.fire)
    wiring.connect(dut, front_end.block, engine.block)
    table = stream.Signature(table_write(config), always_ready=True).create()
    for source, target in ((tracker.full, trigger.full), (engine.done, front_end.block_done),
                           *((table, block.table) for block in (tracker, trigger, front_end))):
        dut.d.comb += [target.valid.eq(source.valid), target.payload.eq(source.payload)]

    stops = {
        "full": tracker.full.valid,
        "fire": trigger.fire.valid & trigger.fire.ready,
        "block": engine.block.valid & engine.block.ready,
        "first read": engine.read.valid,
    }
    cycles = {}

    async def bench(ctx):
        size = 2 * config.beat_bytes
        for name, fields in (
                ("TILE", {"expected": size, "command": 0, "rows": 1, "row_bytes": size}),
                ("COMMAND", {"need": 1, "first": 0, "count_minus_1": 0}),
                ("ROUTE", {"dma": 1, "op": 2})):
            await _write_table(ctx, table, config, name, 0, **fields)
        for block in (tracker, trigger, front_end):
            ctx.set(block.plans[0], {"armed": 1, "epoch": 1})
        ctx.set(tracker.commit.payload, {
            "bytes": config.beat_bytes, "tile": {"tracked": 1}})
        ctx.set(engine.read.ready, 1)
        for cycle in range(-1, _PATIENCE):
            ctx.set(tracker.commit.valid, cycle <= 0)
            _, _, *seen = await ctx.tick().sample(*stops.values())
            for name, now in zip(stops, seen):
                if now:
                    cycles.setdefault(name, cycle)

    _simulate(dut, bench)
    if len(cycles) != len(stops):
        raise RuntimeError(f"of {', '.join(stops)} only {', '.join(cycles)} came about")
    return cycles


def measure_adder(config, dtype, beats=200):
    """Beats a cycle that near-memory compute gives while it always has operands."""
    dut = NearMemoryAdder(config=config, meta=1)
    first = last = None
    given = 0

    async def bench(ctx):
        nonlocal first, last, given
        ctx.set(dut.i.payload, {"dtype": Dtype(DTYPE_NAMES.index(dtype)),
                                "add": (1 << config.lanes) - 1})
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        for cycle in range(beats + _PATIENCE):
            _, _, valid = await ctx.tick().sample(dut.o.valid)
            if valid and given < beats:
                given += 1
                first = cycle if first is None else first
                last = cycle

    _simulate(dut, bench)
    if given < beats:
        raise RuntimeError(f"{given} of {beats} beats came out")
    return beats / (last - first + 1)


async def _write_table(ctx, table, config, name, entry, **fields):
    for word, value in enumerate(encode_entry(name, config=config, **fields)):
        ctx.set(table.payload, {"table": Table[name], "entry": entry, "word": word, "data": value})
        ctx.set(table.valid, 1)
        await ctx.tick()
    ctx.set(table.valid, 0)


def _simulate(dut, bench):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
