"""Random runs of rings: a seed decides everything, from the shape to the stalls.

`draw_case` makes a case from its seed, `run_case` carries it out and names all that is wrong.
"""

import dataclasses
import random
import tempfile
from pathlib import Path

import numpy as np

from ..config import DTYPE_BYTES, NodeConfig
from ..dram import DramTiming
from ..runtime.plan import Plan, PlanError, ring_reduce_scatter
from ..workloads import random_operands
from ..workloads.gemm import Gemm, producer_writes
from .ring_run import Settings, player_bursts, run_plan
from .script import write_script

__all__ = ["DRAM_RINGS", "QUICK_EVERY", "RINGS", "Case", "Outcome", "draw_case", "run_case"]

_AXI = NodeConfig(
    name="axi-small", data_width=64, memory="axi", memory_bytes=1 << 17, memory_outstanding=16,
    tracker_sets=2, tracker_ways=2, tiles=256, commands=256, touch_bytes=1 << 15,
    compute_queue=4, communication_queue=4, outstanding_reads=4, burst_beats=8,
    link_credits=16, link_max_latency=64)
_WIDE = NodeConfig(
    name="wide-256", data_width=256, memory_bytes=1 << 16, memory_max_latency=64,
    tracker_sets=4, tracker_ways=1, tiles=256, commands=256, touch_bytes=1 << 16,
    outstanding_reads=8, outstanding_writes=16, burst_beats=32,
    link_credits=40, link_max_latency=64)

#: Rings that cases run on, as (node, devices): few, since each is a build.
RINGS = (
    (NodeConfig.preset("tiny"), 3), (NodeConfig.preset("small"), 4), (_AXI, 2), (_WIDE, 6),
    (NodeConfig.preset("tiny"), 8), (_AXI, 5), (NodeConfig.preset("small"), 7))

_HBM2 = DramTiming.preset("hbm2")
#: Small pages and frequent refreshes, so that small outputs see conflicts and refreshes, too.
_BUSY = {"page_bytes": 64, "t_refi": "0.7 us"}

#: Rings with the time and the order of a DRAM, for the rings that a seed would else run on.
DRAM_RINGS = {
    RINGS[number]: RINGS[number][0].replace(
        name=f"{RINGS[number][0].name}-{dram.name}-{dram.window}", memory="dram", dram=dram)
    for number, dram in (
        (0, _HBM2.replace(window=2, **_BUSY)),
        (1, _HBM2.replace(window=5, **_BUSY)),
        (2, DramTiming.preset("ddr3").replace(window=16, page_bytes=256)),
        (3, DramTiming.preset("ddr4").replace(window=16, page_bytes=128)),
        (4, _HBM2.replace(window=5, mapping="bank row column group", bank_hash=False, **_BUSY)),
        (5, _HBM2))}

#: Cases whose seed is a multiple of this are small enough for an interpreting simulator.
QUICK_EVERY = 6

#: Bytes around the output that must stay as they are.
_GUARD = 64

#: Cycles in which a device must be done, and those of a whole simulation.
_WAIT_CYCLES = 1_000_000
_LIMIT_CYCLES = 10_000_000


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A run that `draw_case` made up.

    Parameters
    ----------
    seed : int
        It decides all else.
    config, devices : NodeConfig, int
        The ring, one of `RINGS`.
    arguments : dict
        For `ring_reduce_scatter`, beside the ring.
    k, specials : int, float
        Length of the sums; share of the partial sums that are replaced by any bits: NaNs,
        infinities, subnormal numbers.
    settings : Settings
        What software sets.
    bench : dict
        For `RingSimulation.run`: link stalls and the memories behind ``m_axi``.
    stores : dict
        For `producer_writes`: the order of the stores.
    player : dict
        For `write_script`: stalls and limits of the producers.
    paces : tuple of int
        Cycles a beat, of each producer.
    overlap : bool
        Whether communication runs while the producers do.
    runs : int
        Runs one after the other, without a reset.
    """

    seed: int
    config: NodeConfig
    devices: int
    arguments: dict
    k: int
    specials: float
    settings: Settings
    bench: dict
    stores: dict
    player: dict
    paces: tuple
    overlap: bool
    runs: int

    def plan(self):
        """What the devices are programmed with."""
        return ring_reduce_scatter(config=self.config, devices=self.devices, overlap=self.overlap,
                                   **self.arguments)

    def gemm(self):
        """The GEMM, with what is special put into its partial sums."""
        shape = {name: self.arguments[name] for name in ("m", "n", "dtype")}
        gemm = random_operands(**shape, k=self.k, seed=self.seed).gemm(self.devices)
        rng = np.random.default_rng(self.seed)
        for partial in gemm.partials:
            bits = partial.view({2: np.uint16, 4: np.uint32}[partial.itemsize])
            chosen = rng.random(partial.shape) < self.specials
            # Exponents of all ones or all zeros are what makes a number special.
            exponent = int.from_bytes(
                np.array(np.inf, partial.dtype).tobytes() if self.arguments["dtype"] != "int32"
                else b"\xFF\xFF\xFF\x7F", "little")
            values = rng.integers(0, 1 << 8 * partial.itemsize, partial.shape, np.uint64)
            kind = rng.integers(0, 4, partial.shape)
            values = np.where(kind == 0, values | exponent, values)             # NaN
            values = np.where(kind == 1, values & ~np.uint64(exponent), values)  # subnormal
            sign = values & np.uint64(1 << 8 * partial.itemsize - 1)
            values = np.where(kind == 2, sign | exponent, values)               # infinity
            bits[chosen] = values[chosen].astype(bits.dtype)
        return gemm

    def as_dict(self):
        """All of it as plain data."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"config": self.config.name, "settings": dataclasses.asdict(self.settings)}

    def __str__(self):
        fields = self.as_dict()
        ring = f"{fields.pop('config')} x {fields.pop('devices')}"
        parts = [f"seed {fields.pop('seed')}", ring]
        for name, value in fields.items():
            parts.append(f"{name} " + (" ".join(f"{key}={one}" for key, one in value.items())
                                       if isinstance(value, dict) else str(value)))
        return "; ".join(parts)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Parameters
    ----------
    problems : tuple of str
        All that is wrong.
    cycles : int
        When the simulation had done everything.
    timing : tuple
        All that must be the same on each simulator: cycles, and the devices' counters.
    """

    problems: tuple
    cycles: int = 0
    timing: tuple = ()


def draw_case(seed, *, dram=False):
    """The case of a seed; with ``dram`` on a ring of `DRAM_RINGS` where there is one, and with
    links that take fractions of a cycle."""
    rng = random.Random(seed)
    quick = seed % QUICK_EVERY == 0
    # An interpreter needs a second for a thousand cycles of these.
    config, devices = rng.choice([ring for ring in RINGS if ring[1] < 4] if quick else RINGS)
    overlap = rng.random() < 0.85
    while True:
        arguments = _arguments(rng, config, devices, quick)
        try:
            ring_reduce_scatter(config=config, devices=devices, overlap=overlap, **arguments)
            break
        except PlanError:
            # It does not fit the node, or is no shape for tile ids by address.
            continue
    slow = 1 if quick else 4
    policy = rng.choice(("ROUND_ROBIN", "COMPUTE_FIRST", "MCA"))
    # From generators of their own, so that all else of a seed stays as it was.
    threshold = random.Random(f"threshold {seed}").choice((None, 1, 5, 20))
    link = {}
    if dram:
        config = DRAM_RINGS.get((config, devices), config)
        # Fractions of a cycle, and a time of its own for headers.
        later = random.Random(f"link {seed}")
        link = {"link_fraction": later.choice((0, 1, 0x8000, 0xFFFF, later.randrange(1 << 16))),
                "link_header_interval": later.choice((None, 0, 1, 1.5, 3))}
    depth = config.dram.window if config.dram else 1 << 16
    return Case(
        seed=seed, config=config, devices=devices, arguments=arguments, overlap=overlap,
        k=rng.randint(1, 3 * devices),
        specials=rng.choice((0, 0, 0, 0.05, 0.5)) if arguments["dtype"] != "int32" else 0,
        settings=Settings(
            policy=policy, **link,
            threshold=min(threshold, depth) if policy == "MCA" and threshold else None,
            starvation_limit=rng.choice((0, 1, 20, 300)),
            memory_latency=rng.choice((0, 3, rng.randint(0, 16 * slow))),
            link_latency=rng.choice((0, 5, rng.randint(0, 16 * slow))),
            link_interval=rng.choice((0, 1, 1, 2, 4 * slow))),
        bench={"seed": seed, "link_stall": rng.choice((0, 0, 0.1, 0.5, 0.8)),
               "memory_latency": rng.choice((1, 5, rng.randint(1, 75 * slow))),
               "memory_jitter": rng.choice((0, 5, rng.randint(0, 75 * slow)))},
        stores={"seed": seed, "split": rng.choice((0, 0, 0.3, 1)), "shuffle": rng.random() < 0.5},
        player={"seed": seed, "stall": rng.choice((0, 0, 0.2, 0.6)),
                "response_stall": rng.choice((0, 0, 0.5)),
                "outstanding_writes": rng.choice((1, 2, 8))},
        paces=tuple(rng.choice((1, 1, 2, 4 * slow)) for _ in range(devices)),
        runs=rng.choice((1, 1, 1, 2) if quick else (1, 1, 2, 3)))


def _arguments(rng, config, devices, quick):
    """For `ring_reduce_scatter`; they may be refused."""
    longest = 14 if quick else 100
    dtype = rng.choice(config.dtypes)
    size = DTYPE_BYTES[dtype]
    lengths = 1, rng.randint(1, 8), rng.randint(1, longest), rng.randint(1, longest)
    scatter_dim = rng.randint(0, 1)
    arguments = {
        "m": rng.choice(lengths), "n": rng.choice(lengths), "dtype": dtype,
        "granularity": rng.choice(("tile", "tile", "chunk", 2, 3, 7)), "scatter_dim": scatter_dim,
        "plan": rng.randrange(config.plans), "first_tile": rng.choice((0, 0, 5)),
        "first_command": rng.choice((0, 0, 3)), "first_touch": rng.choice((0, 0, 9)),
        "first_region": rng.choice((0, 0, 1)), "first_route": rng.choice((0, 0, 1))}
    near_page = 4096 - size * rng.randrange(8)
    if rng.random() < 0.3:
        # Tiles of a row fill its pitch, and all are powers of two.
        columns = rng.choice((1, 2, 4) if quick else (1, 2, 4, 8, 16, 32))
        across = rng.choice((1, 1, 2, 4))
        n = across * columns * (devices if scatter_dim else 1) - rng.randrange(columns)
        return arguments | {
            "tile_ids": "address", "tile": (rng.choice((1, 2, 4, 16)), columns), "n": n,
            "pitch": across * columns * size,
            "base": rng.choice((0, config.beat_bytes * rng.randrange(64), 4096))}
    arguments |= {
        "tile_ids": "user", "tile": (rng.choice((1, 2, 3, 5, 8, 16, 33, 64)),
                                     rng.choice((1, 3, 4, 7, 8, 16, 32, 64))),
        "wavefronts": rng.choice([1, 1, *(1 << bit for bit in range(config.wf_width + 1))]),
        "base": rng.choice((0, size * rng.randrange(256), near_page))}
    if rng.random() < 0.3:
        arguments["pitch"] = size * (arguments["n"] + rng.randrange(16))
    return arguments


def run_case(case, simulation, *, directory=None):
    """Carry a case out and check it; returns an `Outcome`.

    Before the run, memory is filled with random bytes. After it each byte must be what the
    reference says, around the output and in its gaps too.

    Parameters
    ----------
    case : Case
        What to do.
    simulation : RingSimulation
        Of the case's ring.
    directory : path-like, optional
        Where the simulation's files are kept.
    """
    plan, gemm = case.plan(), case.gemm()
    memory = case.config.memory_bytes or 1 << case.config.addr_width
    start = max(plan.base - plan.base % _GUARD - _GUARD, 0)
    end = min(plan.end + _GUARD, memory)
    poison = random.Random(case.seed).randbytes(end - start)
    with tempfile.TemporaryDirectory(prefix="t3hw-case-") as temporary:
        directory = Path(directory or temporary).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        scripts = {}
        for device, pace in enumerate(case.paces):
            scripts[device] = directory / f"script{device}.bin"
            bursts = producer_writes(plan, device, gemm.partials[device], case.config,
                                     **case.stores)
            write_script(scripts[device], player_bursts(bursts, pace),
                         beat_bytes=case.config.beat_bytes, **case.player)
        try:
            result, images, cycles = simulation.run(
                _poison_and_run, plan, scripts, case.settings, case.overlap, case.runs, start,
                poison, cycles=_LIMIT_CYCLES, directory=directory, **case.bench)
        except Exception as error:
            # Whatever went wrong is a finding, and other cases are yet to come.
            return Outcome((f"{type(error).__name__}: {error}",))
    problems = [*_check_values(plan, gemm, result), *_check_counts(plan, result)]
    for device, image in enumerate(images):
        wanted = _expected_image(plan, gemm, device, start, poison)
        wrong = [start + at for at in range(len(wanted)) if wanted[at] != image[at]]
        if wrong:
            problems.append(f"device {device}: {len(wrong)} bytes of memory are wrong, "
                            f"the first at {wrong[0]:#x}")
    return Outcome(tuple(problems), cycles, (
        result.start, result.producers_done, result.done, cycles,
        *(tuple(counters.items()) for counters in result.counters)))


def _poison_and_run(session, plan, scripts, settings, overlap, runs, start, poison):
    for device in range(session.devices):
        session.write(device, start, poison)
    result = run_plan(session, plan, scripts, settings, overlap=overlap, runs=runs,
                      timeout=_WAIT_CYCLES)
    images = [session.read(device, start, len(poison)) for device in range(session.devices)]
    return result, images, session.cycle


def _check_values(plan, gemm: Gemm, result):
    wanted = gemm.reduced(plan)
    for device, (want, got) in enumerate(zip(wanted, result.chunks, strict=True)):
        bits = {2: np.uint16, 4: np.uint32}[want.itemsize]
        wrong = np.argwhere(np.ascontiguousarray(want).view(bits) != np.asarray(got).view(bits))
        if len(wrong):
            place = tuple(int(index) for index in wrong[0])
            yield (f"device {device}: {len(wrong)} of {want.size} elements are wrong, the first at "
                   f"{place}: {got[place]!r} instead of {want[place]!r}")
    if not any(np.ascontiguousarray(want).view(np.uint8).any() for want in wanted):
        yield "the whole result is zero"


def _check_counts(plan: Plan, result):
    for device, one in enumerate(plan.device_plans):
        counters = result.counters[device]
        expected = dataclasses.asdict(one.traffic) | {
            "incoming_store_bytes": 0, "tiles_full": len(one.tiles),
            "commands_fired": len(one.commands), "errors": 0, "tracker_occupancy": 0,
            "overflow_occupancy": 0}
        for name, value in expected.items():
            if counters[name] != value:
                yield f"device {device}: {name} is {counters[name]}, not {value}"
        if result.errors[device]:
            yield f"device {device}: errors {result.errors[device]}"
        if result.player_errors[device]:
            yield f"device {device}: {result.player_errors[device]} stores were refused"


def _expected_image(plan, gemm, device, start, poison):
    """Memory of a device after a run."""
    image = bytearray(poison)
    sums = gemm.running_sums(plan)
    for stage in plan.device_plans[device].stages:
        if stage.role == "remote":
            continue
        chunk = plan.chunks[stage.chunk]
        for row, values in enumerate(sums[device, stage.chunk]):
            at = chunk.address + row * plan.pitch - start
            image[at:at + values.nbytes] = values.tobytes()
    return bytes(image)
