"""Writes under way: the last writes, and no others, are found by their beat."""

import random
from collections import deque

import pytest

from simulation import simulate
from t3hw.hdl.writes_under_way import WritesUnderWay


@pytest.mark.parametrize("width, cycles", [(1, 1), (2, 3), (2, 8), (5, 2), (16, 12)])
@pytest.mark.parametrize("seed", range(2))
def test_matches_are_those_of_a_list(width, cycles, seed):
    """A write and a comparison in each cycle; in 0 cycles from ``beat``, in 1 from ``issue``."""
    print("seed", seed)
    rng = random.Random(seed)
    dut = WritesUnderWay(width=width, cycles=cycles)
    # Newest first.
    writes = deque(maxlen=cycles)
    found = [0] * cycles

    async def bench(ctx):
        few = [rng.randrange(1 << width) for _ in range(3)]
        for cycle in range(600):
            # Nothing matches after reset, beat 0 neither.
            beat = rng.choice(few) if cycle else 0
            valid, issued = rng.random() < 0.6, rng.choice([beat, *few])
            ctx.set(dut.issue, {"valid": valid, "beat": issued})
            ctx.set(dut.beat, beat)
            expected = [write == beat for write in writes]
            match = ctx.get(dut.match)
            assert match == sum(same << age for age, same in enumerate(expected)), (
                f"seed {seed}, cycle {cycle}")
            for age, same in enumerate(expected):
                found[age] += same
            await ctx.tick()
            writes.appendleft(issued if valid else None)

    simulate(dut, bench)
    assert min(found) > 50


@pytest.mark.parametrize("cycles", [0, -1, 2.0, "2", None])
def test_a_bad_number_of_cycles_is_refused_with_its_value(cycles):
    with pytest.raises(ValueError, match=rf"not {cycles!r}"):
        WritesUnderWay(width=4, cycles=cycles)
