"""One run of a plan on a simulated ring: program, arm, produce, wait, read back."""

import dataclasses

from ..runtime.device import Device
from .script import Burst

__all__ = ["RingResult", "Settings", "player_bursts", "run_plan"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What software sets on every node.

    Parameters
    ----------
    policy : str
        Arbitration, a name of the register field.
    starvation_limit : int
        Cycles that communication waits at most where the policy prefers compute; 0: for ever.
    threshold : int or None
        With MCA, the memory's occupancy from which on communication is held back; None: as
        measured.
    memory_latency, link_latency, link_interval : int
        Cycles; see the registers of these names.
    link_fraction : int
        What is added to ``link_interval``, in 1/65536 cycle.
    link_header_interval : float or None
        Cycles a header word; None: as a beat.
    """

    policy: str = "ROUND_ROBIN"
    starvation_limit: int = 0
    threshold: int | None = None
    memory_latency: int = 0
    link_latency: int = 0
    link_interval: int = 1
    link_fraction: int = 0
    link_header_interval: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RingResult:
    """What came of a run, one entry a device.

    Parameters
    ----------
    chunks : list of array
        Chunk ``d`` as device ``d`` has it.
    counters : list of dict
        All counters at the end.
    errors : list of Errors
        Sticky errors at the end.
    player_errors : list of int
        Answers other than OKAY that the producers got.
    start, producers_done, done : int
        Cycles in which the producers started, in which the last of their stores was answered, and
        in which the last device was seen to be done.
    """

    chunks: list
    counters: list
    errors: list
    player_errors: list
    start: int
    producers_done: int
    done: int


def player_bursts(bursts, pace):
    """A producer's stores as the player takes them, a beat every ``pace`` cycles."""
    for burst in bursts:
        size = burst.beat_bytes
        strobes = None
        full = (1 << size) - 1
        if any(strobe != full for strobe in burst.strobes):
            strobes = bytes(strobe >> index & 1
                            for strobe in burst.strobes for index in range(size))
        yield Burst(address=burst.address - burst.address % size, data=burst.data, strobes=strobes,
                    wg=burst.wg, wf=burst.wf, gap=pace - 1, beat_gap=pace - 1)


def run_plan(session, plan, scripts, settings, overlap=True, *, timeout=1_000_000_000, runs=1):
    """Run a plan, in a simulation.

    Parameters
    ----------
    session : Session
        The simulation.
    plan : Plan
        For all devices.
    scripts : mapping of int to path
        What each device's producer does.
    settings : Settings
        For all nodes.
    overlap : bool
        Whether communication runs while the producers do. If not it is held until they are ready.
    timeout : int
        Cycles to wait for a device at most; the simulation has its own limit.
    runs : int
        How often to run it, one run after the other, without a reset between them.

    Returns
    -------
    RingResult
        Of the last run.
    """
    nodes = [Device(transport, config=session.config) for transport in session.transports]
    for node, device_plan in zip(nodes, plan.device_plans, strict=True):
        node.set_policy(settings.policy, starvation_limit=settings.starvation_limit,
                        threshold=settings.threshold)
        if session.config.memory == "builtin":
            node.set_memory_latency(settings.memory_latency)
        node.set_link(latency=settings.link_latency, header_interval=settings.link_header_interval,
                      interval=settings.link_interval + settings.link_fraction / 65536)
        node.program(device_plan)
    for _run in range(runs):
        for node in nodes:
            node.hold(not overlap)
            node.clear_counters()
        for node in nodes:
            node.arm(plan.index)
        start = session.cycle
        session.play(scripts)
        session.wait_players()
        producers_done = session.cycle
        for node in nodes:
            node.hold(False)
        for node in nodes:
            node.wait(plan.index, timeout=timeout)
        done = session.cycle
        counters = [node.counters() for node in nodes]
    player_errors = [session.errors(device) for device in range(session.devices)]

    def chunk_of(device):
        return plan.read_chunk(
            device, lambda address, length: session.read(device, address, length))

    return RingResult(chunks=[chunk_of(device) for device in range(session.devices)],
                      counters=counters, errors=[node.errors() for node in nodes],
                      player_errors=player_errors, start=start, producers_done=producers_done,
                      done=done)
