"""Self-test of a board's ring: reduce-scatter bit for bit, its traffic, and what overlap saves."""

import dataclasses

from t3hw.config import DTYPE_BYTES
from t3hw.reference import NUMPY_DTYPES, add, ring_reduce_scatter as reduced_chunks
from t3hw.reference.traffic import gemm_words
from t3hw.registers import encode_register, register_address

from .limits import check_device
from .plan import PlanError, ring_reduce_scatter
from .relative_plan import relative_reduce_scatter
from .selftest_bench import StepFailed, StepSkipped, compare

__all__ = ["RingJob", "check_counters", "check_overlap", "check_reduce_scatter"]

#: Random signs, mantissas and some bits of the exponent: finite values whose sums must be rounded.
_MASKS = {"float16": (0x8FFF8FFF, 0x30003000), "bfloat16": (0x80FF80FF, 0x3E003E00),
          "float32": (0x80FFFFFF, 0x3E000000), "int32": (0xFFFFFFFF, 0)}
#: Positions of a node whose link comes back to itself, which stands for a ring; where the host's
#: stores have no tile but the first of a region, there are regions for two.
_POSITIONS, _FEW_POSITIONS = 3, 2
#: Tiles of a chunk, and beats of a tile, at most: what is tried first.
_TILES, _BEATS = 8, 8
#: A GEMM takes so many samples of the board's time (thorough, quick), and that many cycles at
#: least; the link so much of the GEMM's time.
_GEMM_SAMPLES, _SHORTEST_GEMM, _LINK_SHARE = (400, 100), 6_000, 0.4
#: Less than this share of the time is no more than what the samples leave unsaid.
_LEAST_SAVED = 0.05
#: Of the GEMM engine's settings: parts of a cycle, longest step; and of the link's.
_PARTS, _LONGEST_STEP, _LONGEST_INTERVAL = 256, 30_000, 60_000
#: What the counters call the bytes that a plan says.
_TRAFFIC = ("producer_write_bytes", "remote_write_bytes", "incoming_update_bytes", "dma_read_bytes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RingJob:
    """One reduce-scatter, small enough for the board:
    data of device ``d`` follow from seed + ``d``.

    Parameters
    ----------
    dtype : str
        Element type.
    plans : tuple of DevicePlan
        One a node.
    chunks : int
        Chunks of the output.
    tile_bytes, chunk_bytes : int
        Sizes. The output begins at address 0.
    tiles : int
        Tiles of a chunk.
    orders : tuple of tuple of int
        In which order each node produces its chunks.
    seed : int
        Of the data.
    """

    dtype: str
    plans: tuple
    chunks: int
    tile_bytes: int
    chunk_bytes: int
    tiles: int
    orders: tuple
    seed: int

    def data(self, device):
        """What a device produces: all of the output, as elements."""
        words = gemm_words(0, self.chunks * self.chunk_bytes // 4, self.seed + device,
                           *_MASKS[self.dtype])
        return words.view(NUMPY_DTYPES[self.dtype])

    def result(self, device):
        """Address and bytes of the chunk that a device has in the end."""
        elements = self.chunk_bytes // DTYPE_BYTES[self.dtype]
        if len(self.plans) > 1:
            partials = [self.data(index) for index in range(self.chunks)]
            bounds = tuple(chunk * elements for chunk in range(self.chunks + 1))
            chunk = reduced_chunks(partials, self.dtype, bounds=bounds)[device]
            return device * self.chunk_bytes, chunk.tobytes()
        # Its own positions, one after the other: what is at one goes to the next.
        own = self.data(0).reshape(self.chunks, elements)
        total = own[0]
        for position in range(1, self.chunks):
            total = add(total, own[position], self.dtype)
        return (self.chunks - 1) * self.chunk_bytes, total.tobytes()


def make_job(bench, dtype, seed, *, overlap=True):
    """The largest job that the nodes have room for.

    Raises
    ------
    StepSkipped
        If they have room for none.
    """
    reason = None
    for beats in (_BEATS, 4, 2, 1):
        for tiles in (_TILES, 4, 2, 1) if bench.config.address_tiles else (1,):
            tile_bytes = beats * bench.config.beat_bytes
            try:
                return _job(bench, dtype, tiles, tile_bytes, seed, overlap)
            except PlanError as error:
                reason = error
    raise StepSkipped(f"no reduce-scatter fits the nodes: {reason}")


def _job(bench, dtype, tiles, tile_bytes, seed, overlap):
    count = bench.count
    chunk_bytes = tiles * tile_bytes
    by_address = bench.config.address_tiles
    chunks = count if count > 1 else _POSITIONS if by_address else _FEW_POSITIONS
    if chunks * chunk_bytes > bench.memory_bytes:
        raise PlanError(f"output of {chunks * chunk_bytes} bytes exceeds the limit of "
                        f"{bench.memory_bytes}")
    if count > 1:
        columns = tile_bytes // DTYPE_BYTES[dtype]
        plan = ring_reduce_scatter(
            m=chunks * tiles, n=columns, dtype=dtype, devices=count, config=bench.config,
            tile=(1, columns), tile_ids="address" if by_address else "user",
            overlap=overlap)
        plans = plan.device_plans
        orders = tuple(tuple(stage.chunk for stage in one.stages) for one in plans)
    else:
        plan = relative_reduce_scatter(devices=chunks, chunk_tiles=tiles, tile_bytes=tile_bytes,
                                       dtype=dtype, config=bench.config)
        if not by_address:
            plan = dataclasses.replace(plan, regions=tuple(
                dataclasses.replace(region, tile_id_mode="USER") for region in plan.regions))
        check_device(plan, bench.config)
        plans = (plan,)
        orders = (tuple(range(chunks)),)
    return RingJob(dtype=dtype, plans=plans, chunks=chunks, tile_bytes=tile_bytes,
                   chunk_bytes=chunk_bytes, tiles=tiles, orders=orders, seed=seed)


def check_reduce_scatter(bench):
    """Each node has its chunk of the sum, bit for bit, whoever produces."""
    config = bench.config
    if not config.collective:
        raise StepSkipped("the node was built to be alone (collective = false)")
    jobs = [(make_job(bench, dtype, bench.seed + 100 * number), _store_all, "the host")
            for number, dtype in enumerate(config.dtypes[:1] if bench.quick else config.dtypes)]
    if bench.engines:
        jobs += [(make_job(bench, dtype, bench.seed + 100 * number + 50), _compute_all,
                  "the engines")
                 for number, dtype in enumerate(
                     config.dtypes[-1:] if bench.quick else config.dtypes)]
    bench.traffic.clear()
    for job, produce, who in jobs:
        _fill(bench, job)
        _arm(bench, job)
        produce(bench, job)
        for node in bench.nodes:
            node.wait(timeout=bench.patience)
        bench.expect_no_errors()
        _check_result(bench, job, f"{job.dtype}, produced by {who}")
        bench.traffic.append((job, who, [node.counters() for node in bench.nodes]))
    dtypes = {}
    for job, _, who in jobs:
        dtypes.setdefault(who, []).append(job.dtype)
    job = jobs[0][0]
    kind = f"ring of {bench.count}" if bench.count > 1 else f"loop-back as a ring of {job.chunks}"
    made = "; ".join(f"by {who} {', '.join(names)}" for who, names in dtypes.items())
    return f"bit-exact, {kind}, {job.chunks * job.chunk_bytes} bytes produced {made}"


def check_counters(bench):
    """The counters of these runs are what the plan's formulas say."""
    if not bench.config.monitoring:
        raise StepSkipped("the nodes were built without counters (monitoring = false)")
    total = 0
    for job, who, counters in bench.traffic:
        for index, (plan, counted) in enumerate(zip(job.plans, counters)):
            where = f"node {index}, {job.dtype}, produced by {who}"
            for name in _TRAFFIC:
                bench.expect(f"{where}, {name.upper()}", counted[name], getattr(plan.traffic, name))
                total += counted[name]
            bench.expect(f"{where}, TILES_FULL", counted["tiles_full"], len(plan.tiles))
            bench.expect(f"{where}, COMMANDS_FIRED", counted["commands_fired"], len(plan.commands))
            bench.expect(f"{where}, ERRORS", counted["errors"], 0)
    return f"{len(bench.traffic)} runs: bytes, tiles and commands as planned, {total} bytes in all"


def check_overlap(bench):
    """The same work with the reduce-scatter behind the GEMM and after it,
    in the board's own time."""
    if not bench.engines:
        raise StepSkipped("the board has no traffic engines, so nothing on it produces by itself")
    config = bench.config
    dtype = next(name for name in ("bfloat16", *config.dtypes) if name in config.dtypes)
    cycles = {}
    # Long beside the time between two looks at the board's clock.
    length = max(_SHORTEST_GEMM, _GEMM_SAMPLES[bench.quick] * bench.sample_cycles())
    for name, overlap in (("sequential", False), ("overlapped", True)):
        job = make_job(bench, dtype, bench.seed + 1000 + overlap, overlap=overlap)
        _fill(bench, job)
        _set_pace(bench, job, length)
        cycles[name] = _timed(bench, job, overlap, bench.patience + 20 * length)
        bench.expect_no_errors()
        _check_result(bench, job, name)
    for node in bench.nodes:
        node.set_link()
    sequential, overlapped = cycles["sequential"], cycles["overlapped"]
    saved = sequential - overlapped
    gemm = max(engine.gemm_results()["cycles"] for engine in bench.engines)
    detail = (f"GEMM {gemm} cycles, then reduce-scatter {sequential}, overlapped {overlapped}: "
              f"{saved} saved, {saved / sequential:.0%}")
    if saved < _LEAST_SAVED * sequential:
        raise StepFailed(f"overlap saves nothing: {detail}")
    return detail


# Runs.

def _fill(bench, job):
    """What earlier runs have left must not pass for a result: ones, which are NaN."""
    bench.forget_regions()
    for memory in bench.memories:
        memory.write_memory(0, b"\xff" * (job.chunks * job.chunk_bytes))


def _arm(bench, job):
    """Program all nodes, then arm them."""
    for node, plan in zip(bench.nodes, job.plans):
        node.program(plan)
        node.clear_counters()
    for node in bench.nodes:
        node.arm()


def _check_result(bench, job, what):
    for index, memory in enumerate(bench.memories):
        address, wanted = job.result(index)
        found = memory.read_memory(address, len(wanted))
        compare(f"node {index}, reduce-scatter of {what}", address, found, wanted,
                DTYPE_BYTES[job.dtype])


def _store_all(bench, job):
    """The host stores what the nodes' producers would, chunk by chunk."""
    for stage in range(job.chunks):
        for index, memory in enumerate(bench.memories):
            first = job.orders[index][stage] * job.chunk_bytes
            memory.store(first, job.data(index).tobytes()[first:first + job.chunk_bytes])


def _compute_all(bench, job):
    """The engines store it, as fast as they can."""
    _set_engines(bench, job, step_cycles=_PARTS)
    for engine in bench.engines:
        engine.start("gemm")
    for engine in bench.engines:
        engine.wait("gemm", timeout=bench.patience)


def _set_engines(bench, job, *, step_cycles, steps=1, units=None):
    beat = bench.config.beat_bytes
    and_mask, or_mask = _MASKS[job.dtype]
    for index, engine in enumerate(bench.engines):
        engine.set_gemm(
            units=units or min(job.tiles, _units(engine)), workgroups=job.chunks * job.tiles,
            first_workgroup=job.orders[index][0] * job.tiles, chunk_workgroups=job.tiles,
            steps=steps, step_cycles=step_cycles, burst_beats=1, streams=1, stream_bytes=beat,
            read_base=0, base=0, workgroup_bytes=job.tile_bytes, wavefronts=1,
            tile_beats=job.tile_bytes // beat, seed=job.seed + index, and_mask=and_mask,
            or_mask=or_mask, stage_reads=[0])


def _units(engine):
    return engine.read("CAP_GEMM")["units"]


# Time.

def _set_pace(bench, job, gemm):
    """A GEMM that is long beside the time between two samples,
    and a link that takes a good part of it."""
    units = max(1, min(job.tiles // 2, _units(bench.engines[0])))
    workgroup = gemm * units // (job.chunks * job.tiles)
    steps = -(-workgroup // _LONGEST_STEP)
    _set_engines(bench, job, units=units, steps=steps, step_cycles=_PARTS * workgroup // steps)
    beats = (job.chunks - 1) * job.chunk_bytes // bench.config.beat_bytes
    interval = min(int(_LINK_SHARE * gemm) // beats, _LONGEST_INTERVAL)
    for node in bench.nodes:
        node.set_link(interval=interval, header_interval=0)


def _timed(bench, job, overlap, limit):
    """Cycles of one run, from before the first start on.

    The host is in the way of a sequential run, which waits for it between GEMM and communication.
    This time does not count: communication counts from after the word that lets it go.
    """
    board = bench.board
    everyone = (1 << bench.count) - 1
    _arm(bench, job)
    for node, engine in zip(bench.nodes, bench.engines):
        node.hold(not overlap)
        engine.prepare("gemm")
    if overlap:
        _expect_plan_done(bench)
    before, _ = board.write_between((index, *engine.start_word("gemm"))
                                    for index, engine in enumerate(bench.engines))
    end = _wait(board, everyone, limit, "the plans" if overlap else "the GEMM engines")
    cycles = end - before.cycles
    if not overlap:
        _expect_plan_done(bench)
        let_go = encode_register("CONTROL", hold=0)
        _, after = board.write_between((index, register_address("CONTROL"), let_go)
                                       for index in range(bench.count))
        cycles += _wait(board, everyone, limit, "the plans") - after.cycles
    for node, engine in zip(bench.nodes, bench.engines):
        node.write("IRQ_ENABLE")
        node.wait(timeout=bench.patience)
        engine.wait("gemm", timeout=bench.patience)
    return cycles


def _expect_plan_done(bench):
    """Interrupts tell of plans, and not of engines."""
    for node, engine in zip(bench.nodes, bench.engines):
        engine.write("IRQ_ENABLE")
        node.write("IRQ_STATUS", plan_done=1)
        node.write("IRQ_ENABLE", plan_done=1)


def _wait(board, mask, limit, what):
    sample = board.wait_interrupts(mask, limit)
    if sample is None:
        raise StepFailed(f"{what} are not done after {limit} cycles")
    return sample.cycles
