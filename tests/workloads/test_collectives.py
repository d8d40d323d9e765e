"""The ring's step tables, interpreted: the reference's sums, and traffic by the formulas."""

import random

import numpy as np
import pytest

from t3hw.reference import NUMPY_DTYPES, add, ring_reduce_scatter
from t3hw.workloads import InputError
from t3hw.workloads.collectives import (
    CollectiveStep, ring_all_gather_steps, ring_reduce_scatter_steps,
)

BEAT = 8
OWN, STAGING, REMOTE_STAGING, REMOTE_OWN = 0x1000, 0x20000, 0x120000, 0x101000
DELTA = 0x100000


class Device:
    """One device: memory by beat, and how far it has got."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.memory = {}
        self.arrived = 0
        self.reads = self.sends = self.stores = 0

    def run(self, table, neighbour):
        """Execute a table, one beat at a time; yields after each beat, and while it waits."""
        for step in table.steps:
            for offset in range(0, step.beats * BEAT, BEAT):
                while step.wait and not self.arrived:
                    yield
                self.arrived -= step.wait
                self.reads += 1 + step.add
                value = self.memory[step.source_a + offset]
                if step.add:
                    value = add(value, self.memory[step.source_b + offset], self.dtype)
                place = step.destination + offset
                if place >= DELTA:
                    self.sends += 1
                    assert place - DELTA not in neighbour.fresh, "written twice in a run"
                    neighbour.fresh.add(place - DELTA)
                    neighbour.memory[place - DELTA] = value
                    neighbour.arrived += 1
                else:
                    self.stores += 1
                    self.memory[place] = value
                yield
        rest = table.expected - sum(step.beats for step in table.steps if step.wait)
        while self.arrived < rest:
            yield
        self.arrived -= rest


def run_ring(rng, devices, table):
    """All devices at random paces, each sending to the one before it."""
    for device in devices:
        device.fresh = set()
    running = [device.run(table, devices[number - 1]) for number, device in enumerate(devices)]
    for _turn in range(200 * len(devices) * table.read_beats):
        if not running:
            return
        program = rng.choice(running)
        if next(program, "end") == "end":
            running.remove(program)
    pytest.fail("a device waits for what never comes")


def chunk(device, base, position, beats):
    """What a device holds at a position."""
    start = base + (position - 1) * beats * BEAT
    return np.concatenate([device.memory[start + number * BEAT] for number in range(beats)])


@pytest.mark.parametrize("devices", range(2, 9))
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_ring_gives_the_reference_and_the_formulas(devices, dtype):
    rng = random.Random(devices)
    kind = NUMPY_DTYPES[dtype]
    beats, burst = rng.choice([(4, 4), (6, 2), (3, 1)])
    elements = BEAT // kind.itemsize
    total = devices * beats * elements
    numbers = np.random.default_rng(devices)
    partials = [(numbers.integers(-2**31, 2**31, total) if dtype == "int32"
                 else numbers.normal(size=total) * 2.0 ** numbers.integers(-4, 4, total)
                 ).astype(kind) for _ in range(devices)]
    ring = [Device(dtype) for _ in range(devices)]
    for number, device in enumerate(ring):
        for position in range(1, devices + 1):
            which = (number + position) % devices
            for index in range(beats):
                at = (which * beats + index) * elements
                place = OWN + ((position - 1) * beats + index) * BEAT
                device.memory[place] = partials[number][at:at + elements]

    table = ring_reduce_scatter_steps(
        devices=devices, chunk_beats=beats, beat_bytes=BEAT, own=OWN, staging=STAGING,
        remote_staging=REMOTE_STAGING, burst=burst)
    run_ring(rng, ring, table)
    reduced = ring_reduce_scatter(partials, dtype)
    assert any(chunk_.any() for chunk_ in reduced)
    for number, device in enumerate(ring):
        assert chunk(device, OWN, devices, beats).tobytes() == reduced[number].tobytes()
        assert (device.reads, device.sends, device.stores, device.arrived) == (
            (2 * devices - 1) * beats, (devices - 1) * beats, beats, 0)
        assert len(device.fresh) == (devices - 1) * beats
        device.reads = device.sends = device.stores = 0
    assert (table.read_beats, table.write_beats) == ((2 * devices - 1) * beats, devices * beats)

    table = ring_all_gather_steps(
        devices=devices, chunk_beats=beats, beat_bytes=BEAT, output=OWN, remote_output=REMOTE_OWN,
        burst=burst)
    run_ring(rng, ring, table)
    for number, device in enumerate(ring):
        for position in range(1, devices + 1):
            which = (number + position) % devices
            assert chunk(device, OWN, position, beats).tobytes() == reduced[which].tobytes()
        assert (device.reads, device.sends, device.stores, device.arrived) == (
            (devices - 1) * beats, (devices - 1) * beats, 0, 0)
    assert table.read_beats == table.write_beats == table.expected == (devices - 1) * beats


def test_words_are_those_of_the_entry():
    step = CollectiveStep(source_a=0x1_2345_6780, source_b=0x40, destination=0x9_8765_4320,
                          beats=0xABCDEF, wait=True)
    assert step.words() == (0x3ABCDEF, 0x23456780, 1, 0x40, 0, 0x87654320, 9)
    assert CollectiveStep(source_a=8, destination=16, beats=1).words() == (1, 8, 0, 0, 0, 16, 0)


GOOD = {"devices": 4, "chunk_beats": 16, "beat_bytes": 8, "burst": 16}
AREAS = {"own": 0, "staging": 0x1000, "remote_staging": 0x2000}


@pytest.mark.parametrize("name, value", [
    ("devices", 1), ("devices", 2.0), ("chunk_beats", 0), ("chunk_beats", 24), ("burst", 3),
    ("burst", 128), ("burst", 0), ("beat_bytes", 0), ("chunk_beats", 1 << 24)])
def test_bad_numbers_are_refused_with_name_and_value(name, value):
    for make, areas in ((ring_reduce_scatter_steps, AREAS),
                        (ring_all_gather_steps, {"output": 0, "remote_output": 0x1000})):
        with pytest.raises(InputError, match=rf"{name} .*not {value!r}"):
            make(**GOOD | {name: value}, **areas)


@pytest.mark.parametrize("name, value, message", [
    ("own", 0x40, "own must be a multiple of a burst's 128 bytes, not 0x40"),
    ("staging", -128, "staging must be an integer from 0"),
    ("staging", 0x180, "staging at 0x180 overlaps own, which ends at 0x200"),
    ("remote_staging", 0x1100, "remote_staging at 0x1100 overlaps staging, which ends at 0x1180")])
def test_bad_areas_are_refused(name, value, message):
    with pytest.raises(InputError, match=message):
        ring_reduce_scatter_steps(**GOOD, **AREAS | {name: value})


def test_areas_that_touch_are_accepted():
    ring_reduce_scatter_steps(**GOOD, **AREAS | {"staging": 0x200, "remote_staging": 0x380})
    with pytest.raises(InputError, match="remote_output at 0x180 overlaps output"):
        ring_all_gather_steps(**GOOD, output=0, remote_output=0x180)
