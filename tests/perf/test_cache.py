"""The cache model against cases that were worked out by hand, and against a slow reference."""

import random

import pytest

from t3hw.perf.cache import GemmTiling, SegmentCache, stage_reads


def tiling(**fields):
    """4 x 4 tiles of 2 x 2, K in 3 steps of 2, bands of 2 tile rows, 4 workgroups a stage."""
    return GemmTiling(**{"rows": 8, "columns": 8, "k": 6, "element_bytes": 1, "tile_rows": 2,
                         "tile_columns": 2, "k_step": 2, "units": 4, "band_rows": 2} | fields)


#: Bytes of a panel over all of K, and of a tile, in `tiling`.
PANEL, TILE = 2 * 6, 4


def test_order_goes_down_a_band_then_to_the_next_column():
    assert list(tiling(columns=6).order()) == [
        (0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2),
        (2, 0), (3, 0), (2, 1), (3, 1), (2, 2), (3, 2)]
    assert list(tiling(rows=6, columns=4).order()) == [
        (0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_everything_fits():
    """A 0, 1 and B 0, 1; then B 2, 3; then A 2, 3, while B is there; then nothing."""
    for output_in_cache, size in ((False, 8 * PANEL), (True, 8 * PANEL + 16 * TILE)):
        assert stage_reads(tiling(), cache_bytes=size, output_in_cache=output_in_cache) == (
            4 * PANEL, 2 * PANEL, 2 * PANEL, 0)


def test_nothing_fits():
    for output_in_cache in (False, True):
        assert stage_reads(tiling(), cache_bytes=0, output_in_cache=output_in_cache) == (
            4 * PANEL,) * 4


def test_bypass_keeps_what_the_output_would_push_out():
    """The cache holds what a stage uses; a stage writes as much as a step's segments have."""
    # Stage 2 touches A 0 and A 1 of a step before it loads B 2 and B 3, which push out B 0 and B 1
    # of that step.
    bypass = stage_reads(tiling(), cache_bytes=4 * PANEL, output_in_cache=False)
    assert bypass == (4 * PANEL, 2 * PANEL, 4 * PANEL, 2 * PANEL)
    # The tiles push out all segments of the first step. Loading A 0 and A 1 again pushes out those
    # of the second step, and so on.
    cached = stage_reads(tiling(), cache_bytes=4 * PANEL, output_in_cache=True)
    assert cached == (4 * PANEL,) * 4


def test_edges_have_the_size_that_they_have():
    """7 x 5 with K = 5: every element of A and B is read once, and no more."""
    small = tiling(rows=7, columns=5, k=5)
    assert (small.row_tiles, small.column_tiles, small.workgroups, small.steps, small.stages) == (
        4, 3, 12, 3, 3)
    assert sum(stage_reads(small, cache_bytes=1 << 20, output_in_cache=False)) == (7 + 5) * 5


def test_an_entry_larger_than_the_cache_is_not_kept_and_pushes_nothing_out():
    cache = SegmentCache(10)
    assert [cache.touch(key, size) for key, size in (("a", 6), ("b", 11), ("a", 6), ("b", 11))] == [
        False, False, True, False]


def test_least_recently_used_goes_first():
    cache = SegmentCache(3)
    for key in "abc":
        assert not cache.touch(key, 1)
    assert cache.touch("a", 1)
    assert not cache.touch("d", 2)
    assert [cache.touch(key, 1) for key in "ab"] == [True, False]


@pytest.mark.parametrize("seed", range(8))
def test_against_reuse_distances(seed):
    """An entry is there if the bytes of all else that was used since fit beside it."""
    rng = random.Random(seed)
    size = rng.randrange(10, 60)
    cache, history, sizes = SegmentCache(size), [], [rng.randrange(1, 9) for _ in range(20)]
    for _ in range(600):
        key = rng.randrange(20)
        since = history[len(history) - history[::-1].index(key):] if key in history else None
        there = since is not None and sum(sizes[other] for other in {*since, key}) <= size
        assert cache.touch(key, sizes[key]) == there, f"seed {seed}"
        history.append(key)


@pytest.mark.parametrize("seed", range(6))
def test_totals_are_within_what_can_be(seed):
    """All is read at least once, and at most once in each stage that needs it."""
    rng = random.Random(seed)
    case = tiling(rows=rng.randrange(1, 40), columns=rng.randrange(1, 40), k=rng.randrange(1, 20),
                  units=rng.randrange(1, 9), band_rows=rng.randrange(1, 9))
    once = (case.rows + case.columns) * case.k
    never = sum(stage_reads(case, cache_bytes=0, output_in_cache=True))
    always = stage_reads(case, cache_bytes=1 << 30, output_in_cache=True)
    assert sum(always) == once
    assert len(always) == case.stages
    for size in (50, 200, 800):
        for output_in_cache in (False, True):
            reads = stage_reads(case, cache_bytes=size, output_in_cache=output_in_cache)
            assert once <= sum(reads) <= never


@pytest.mark.parametrize("value", [0, -1, 1.5, "4", None, True])
def test_nonsense_is_refused(value):
    for field in ("rows", "columns", "k", "units", "band_rows", "k_step"):
        with pytest.raises(ValueError, match=f"{field} must be an integer of at least 1, "
                                             f"not {value!r}"):
            tiling(**{field: value})
