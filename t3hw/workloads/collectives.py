"""A ring's collectives as tables of steps for `t3hw.hdl.collective_engine`: plain data.

Addresses are by *position*: a device's chunks lie in the order in which it produces them, position
1 first. What it has at position p is at position p + 1 of the neighbour that it sends to, and what
it has at position N (its own chunk of the result) at the neighbour's position 1. Tables by position
are the same for all devices of a ring.
"""

import dataclasses

from .errors import InputError

__all__ = ["CollectiveStep", "StepTable", "ring_all_gather_steps", "ring_reduce_scatter_steps"]

_BEATS_BITS = 24
_LONGEST_BURST = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class CollectiveStep:
    """Read ``beats`` beats at ``source_a``, add those at ``source_b``, if any, write the result.

    ``wait``: what is at ``source_a`` comes from the neighbour. Addresses are in bytes.
    """

    source_a: int
    source_b: int | None = None
    destination: int
    beats: int
    wait: bool = False

    @property
    def add(self):
        """Whether there is something to add."""
        return self.source_b is not None

    def words(self):
        """The 32-bit words of its entry in the engine's table, from word 0 on."""
        words = [self.wait << _BEATS_BITS + 1 | self.add << _BEATS_BITS | self.beats]
        for address in (self.source_a, self.source_b or 0, self.destination):
            words += [address & 0xFFFFFFFF, address >> 32]
        return tuple(words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepTable:
    """The steps of a run, and the beats that the neighbour sends in it."""

    steps: tuple
    expected: int

    @property
    def read_beats(self):
        """Beats that the run reads."""
        return sum(step.beats * (1 + step.add) for step in self.steps)

    @property
    def write_beats(self):
        """Beats that the run writes, to the neighbour or here."""
        return sum(step.beats for step in self.steps)


def ring_reduce_scatter_steps(*, devices, chunk_beats, beat_bytes, own, staging, remote_staging,
                              burst=16):
    """Reduce-scatter: in the end position N holds the sum over all devices.

    A device sends its chunk at position 1; then it adds its own at position 2, 3, … to what
    comes, and sends the sums; the last one, at position N, it stores. It reads 2N - 1 chunks,
    sends N - 1, and stores 1.

    Parameters
    ----------
    devices : int
        N, the devices of the ring, at least 2.
    chunk_beats : int
        Beats of a chunk.
    beat_bytes : int
        Bytes of a beat.
    own : int
        Address of position 1; the others follow.
    staging : int
        Where the neighbour's N - 1 chunks come to, one behind the other.
    remote_staging : int
        Address here that the node makes the neighbour's ``staging``.
    burst : int
        Beats of a burst of the engine, a power of two, 1 to 64.

    Raises
    ------
    InputError
        If a number is out of range, an address or a chunk is no multiple of a burst, or two of the
        areas overlap.
    """
    size = _chunk_bytes(devices, chunk_beats, beat_bytes, burst)
    _check_areas(size, burst * beat_bytes, own=(own, devices), staging=(staging, devices - 1),
                 remote_staging=(remote_staging, devices - 1))
    steps = [CollectiveStep(source_a=own, destination=remote_staging, beats=chunk_beats)]
    for number in range(1, devices):
        mine = own + number * size
        steps.append(CollectiveStep(
            source_a=staging + (number - 1) * size, source_b=mine, beats=chunk_beats, wait=True,
            destination=mine if number == devices - 1 else remote_staging + number * size))
    return StepTable(steps=tuple(steps), expected=(devices - 1) * chunk_beats)


def ring_all_gather_steps(*, devices, chunk_beats, beat_bytes, output, remote_output, burst=16):
    """All-gather: in the end every position holds what it holds at the device that reduced it.

    A device sends its chunk at position N, and then what comes to positions 1 to N - 2; the last
    one, at N - 1, only has to come. It reads and sends N - 1 chunks.

    Parameters
    ----------
    devices, chunk_beats, beat_bytes, burst : int
        As for `ring_reduce_scatter_steps`.
    output : int
        Address of position 1; the others follow.
    remote_output : int
        Address here that the node makes the neighbour's ``output``.

    Raises
    ------
    InputError
        As `ring_reduce_scatter_steps`.
    """
    size = _chunk_bytes(devices, chunk_beats, beat_bytes, burst)
    _check_areas(size, burst * beat_bytes, output=(output, devices),
                 remote_output=(remote_output, devices))
    steps = [CollectiveStep(source_a=output + (devices - 1) * size, destination=remote_output,
                            beats=chunk_beats)]
    for number in range(1, devices - 1):
        steps.append(CollectiveStep(
            source_a=output + (number - 1) * size, destination=remote_output + number * size,
            beats=chunk_beats, wait=True))
    return StepTable(steps=tuple(steps), expected=(devices - 1) * chunk_beats)


def _chunk_bytes(devices, chunk_beats, beat_bytes, burst):
    _check("devices", devices, 2)
    _check("beat_bytes", beat_bytes, 4)
    _check("burst", burst, 1, _LONGEST_BURST)
    if burst & (burst - 1):
        raise InputError(f"burst must be a power of two, not {burst!r}")
    _check("chunk_beats", chunk_beats, 1, 2 ** _BEATS_BITS - 1)
    if chunk_beats % burst:
        raise InputError(f"chunk_beats must be a multiple of burst = {burst}, not {chunk_beats!r}")
    return chunk_beats * beat_bytes


def _check(name, value, least, most=None):
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"
    if type(value) is not int or value < least or most is not None and value > most:
        raise InputError(f"{name} must be an integer {limits}, not {value!r}")


def _check_areas(chunk, alignment, **areas):
    """Each area is an address and a number of chunks."""
    ends = []
    for name, (start, chunks) in areas.items():
        _check(name, start, 0, 2 ** 64 - chunks * chunk)
        if start % alignment:
            raise InputError(
                f"{name} must be a multiple of a burst's {alignment} bytes, not {start:#x}")
        ends.append((start, start + chunks * chunk, name))
    ends.sort()
    for (_, end, name), (start, _, other) in zip(ends, ends[1:]):
        if start < end:
            raise InputError(f"{other} at {start:#x} overlaps {name}, which ends at {end:#x}")
