"""Bring-up of a board, step by step: does what is on the desk do what the design says?

Each step proves one thing by what earlier ones have proved. One that fails says what was expected
and what was found, and where; what depends on it is skipped. All leave the board as they found it,
apart from the contents of memories.
"""

import dataclasses
import time

from t3hw.registers import RegisterError

from .board import BoardLink
from .device import DeviceError
from .selftest_bench import Bench, StepFailed, StepSkipped
from .selftest_blocks import check_dma, check_memory, check_registers, check_sums, check_tracker
from .selftest_ring import check_counters, check_overlap, check_reduce_scatter
from .serial_link import LinkError

__all__ = ["STEPS", "StepResult", "run_selftest", "selftest"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    Parameters
    ----------
    name : str
        For people, and for ``only``.
    check : callable
        ``check(bench)`` returns what it saw, as text, or raises.
    needs : tuple of str
        Steps without which it means nothing.
    leaves_traces : bool
        Whether it leaves something that must be cleaned up.
    """

    name: str
    check: object
    needs: tuple = ()
    leaves_traces: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepResult:
    """What came of a step: ``outcome`` is ``"ok"``, ``"failed"`` or ``"skipped"``."""

    name: str
    outcome: str
    detail: str
    seconds: float


#: The first step makes the bench that all others work on.
IDENTITY = "identity"

STEPS = (
    Step(name="registers", check=check_registers, needs=(IDENTITY,), leaves_traces=False),
    Step(name="memory", check=check_memory, needs=("registers",), leaves_traces=False),
    Step(name="tracker", check=check_tracker, needs=("memory",)),
    Step(name="trigger and DMA", check=check_dma, needs=("tracker",)),
    Step(name="sums", check=check_sums, needs=("memory",)),
    Step(name="reduce-scatter", check=check_reduce_scatter, needs=("trigger and DMA", "sums")),
    Step(name="counters", check=check_counters, needs=("reduce-scatter",), leaves_traces=False),
    Step(name="overlap", check=check_overlap, needs=("reduce-scatter",)),
)

#: What a step may raise that is a fault of the board, not of this software.
_FAULTS = (StepFailed, DeviceError, RegisterError, OSError)


def run_selftest(link, *, show=print, design=None, only=None, quick=False, seed=1):
    """Bring a board up, and print a table.

    Parameters
    ----------
    link : SerialLink
        To the board.
    show : callable
        Takes each line.
    design : BoardDesign, optional
        What the board must be.
    only : iterable of str, optional
        Names of steps; others are left out. The board is identified in any case.
    quick : bool
        Less data, as a simulation wants it.
    seed : int
        Of random data.

    Returns
    -------
    bool
        Whether no step failed.

    Raises
    ------
    DeviceError
        If ``only`` names a step that does not exist.
    """
    show(f"{'step':<18}{'result':<9}{'seconds':>8}  what was seen")
    results = []
    for result in selftest(link, design=design, only=only, quick=quick, seed=seed):
        results.append(result)
        show(f"{result.name:<18}{result.outcome:<9}{result.seconds:>8.2f}  {result.detail}")
    failed = [result.name for result in results if result.outcome == "failed"]
    skipped = sum(result.outcome == "skipped" for result in results)
    passed = len(results) - len(failed) - skipped
    verdict = f"FAILED: {', '.join(failed)}" if failed else "the board does what it should"
    show(f"{passed} passed, {len(failed)} failed, {skipped} skipped, seed {seed}: {verdict}")
    return not failed


def selftest(link, *, design=None, only=None, quick=False, seed=1):
    """The steps of `run_selftest` one by one: yields a `StepResult` as each is over."""
    chosen = _choose(only)
    bench, first = _identify(link, design, quick, seed)
    yield first
    outcomes = {IDENTITY: first.outcome}
    # Why nothing more can be tried, if so.
    dead = None
    for step in STEPS:
        if step.name not in chosen:
            continue
        missing = [name for name in step.needs if outcomes.get(name, "ok") != "ok"]
        reason = dead or (f"needs {missing[0]}" if missing else None)
        if reason is not None:
            result = StepResult(name=step.name, outcome="skipped", detail=reason, seconds=0.0)
        else:
            result = _run(step.name, lambda: step.check(bench))
            dead = _clean(bench) if step.leaves_traces or result.outcome == "failed" else None
        outcomes[step.name] = result.outcome
        yield result


def _choose(only):
    names = [step.name for step in STEPS]
    if only is None:
        return set(names)
    only = set(only)
    unknown = sorted(only - {IDENTITY, *names})
    if unknown:
        raise DeviceError(f"no step {unknown[0]!r}; steps are {', '.join([IDENTITY, *names])}")
    return only


def _identify(link, design, quick, seed):
    made = []

    def check():
        made.append(Bench(BoardLink(link, design=design), design=design, quick=quick, seed=seed))
        return made[0].describe()

    result = _run(IDENTITY, check)
    return (made[0] if made else None), result


def _run(name, check):
    start = time.monotonic()
    try:
        outcome, detail = "ok", check()
    except StepSkipped as reason:
        outcome, detail = "skipped", str(reason)
    except _FAULTS as error:
        outcome, detail = "failed", str(error)
    return StepResult(name=name, outcome=outcome, detail=detail, seconds=time.monotonic() - start)


def _clean(bench):
    """Put the board back into order; why that was not possible, or None."""
    try:
        bench.clean()
    except LinkError as error:
        return f"the link has failed ({error})"
    except _FAULTS as error:
        return f"the step before left the board in disorder ({error}); reset it"
    return None
