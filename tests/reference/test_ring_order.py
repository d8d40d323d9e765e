"""The ring adds in its own order, in every dtype, over any split."""

import numpy as np
import pytest

from t3hw.reference import (NUMPY_DTYPES, chunk_bounds, partial_products, ring_all_reduce,
                            ring_order, ring_reduce_scatter, ring_running_sums, round_once)


def test_order_of_additions():
    assert ring_order(0, 4) == (3, 2, 1, 0)
    assert ring_order(2, 4) == (1, 0, 3, 2)


@pytest.mark.parametrize("values, reduced", [
    ((3, 256, 255, 256), 772),           # a float32 sum rounded once gives 768
    ((256, 3, 255, 256), None),
])
def test_bfloat16_rounds_at_every_hop(values, reduced):
    # Chunk 0 goes through devices 3, 2, 1, 0, chunk 3 through 2, 1, 0, 3.
    order = ring_order(3, 4)
    partials = [None] * 4
    for device, value in zip(order, values):
        partials[device] = np.full((4, 1), value, NUMPY_DTYPES["bfloat16"])
    chunks = ring_reduce_scatter(partials, "bfloat16")
    total = NUMPY_DTYPES["bfloat16"].type(values[0])
    for value in values[1:]:
        total = round_once(np.float32(total) + np.float32(value), "bfloat16")
    assert float(chunks[3][0, 0]) == float(total)
    if reduced is not None:
        assert float(total) == reduced
        assert float(round_once(np.float32(sum(values)), "bfloat16")) == 768


def test_bfloat16_sum_depends_on_the_position_of_the_large_value():
    seen = set()
    for position in range(8):
        partials = [np.full((8, 1), 256 if device == position else 1, NUMPY_DTYPES["bfloat16"])
                    for device in range(8)]
        seen |= {float(chunk[0, 0]) for chunk in ring_reduce_scatter(partials, "bfloat16")}
    assert {256.0, 260.0, 264.0} <= seen


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("devices", [2, 3, 5, 8])
def test_chunks_are_where_they_belong(axis, devices):
    """Data is a function of rank, row and column, so that a permuted chunk shows."""
    shape = (13, 7)
    index = np.arange(13 * 7, dtype=np.int32).reshape(shape)
    partials = [index * 1000 + rank for rank in range(devices)]
    want = sum(partials)
    chunks = ring_reduce_scatter(partials, "int32", axis=axis)
    bounds = chunk_bounds(shape[axis], devices)
    for chunk, low, high in zip(chunks, bounds, bounds[1:]):
        assert np.array_equal(chunk, want[low:high] if axis == 0 else want[:, low:high])
    assert np.array_equal(ring_all_reduce(partials, "int32", axis=axis), want)


def test_a_chunk_starts_as_it_is_nan_payload_included():
    payload = np.full((2, 1), 0xFFC1, np.uint16).view(NUMPY_DTYPES["bfloat16"])
    sums = ring_running_sums([payload, payload], "bfloat16")
    assert sums[0, 1].view(np.uint16)[0, 0] == 0xFFC1
    assert sums[1, 1].view(np.uint16)[0, 0] == 0x7FC0


@pytest.mark.parametrize("total, devices, unit, bounds", [
    (1000, 8, 128, (0, 128, 256, 384, 512, 640, 768, 896, 1000)),
    (73, 4, 1, (0, 18, 36, 54, 73)),
    (127, 2, 64, (0, 64, 127)),
    (129, 2, 64, (0, 64, 129)),
    (100, 8, 128, (0, 12, 25, 37, 50, 62, 75, 87, 100)),
    (1, 3, 1, (0, 0, 0, 1)),
])
def test_chunk_bounds(total, devices, unit, bounds):
    assert chunk_bounds(total, devices, unit) == bounds


@pytest.mark.parametrize("devices", [1, 3, 8])
def test_int32_partials_are_exact(devices):
    rng = np.random.default_rng(1)
    a = rng.integers(-2 ** 31, 2 ** 31, (5, 6))
    b = rng.integers(-2 ** 31, 2 ** 31, (6, 4))
    want = (a.astype(object) @ b.astype(object)) % 2 ** 32
    partials = partial_products(a, b, "int32", devices)
    total = ring_all_reduce(partials, "int32") if devices > 1 else partials[0]
    assert np.array_equal(total.astype(np.int64) % 2 ** 32, want.astype(np.int64))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_partials_are_products_and_empty_slices_give_zeros(dtype):
    rng = np.random.default_rng(2)
    a = rng.standard_normal((6, 2))
    b = rng.standard_normal((2, 5))
    partials = partial_products(a, b, dtype, 3)
    assert [part.dtype for part in partials] == [NUMPY_DTYPES[dtype]] * 3
    assert not partials[0].any()         # K = 2 over 3 devices leaves one without work
    exact = (np.asarray(round_once(a, dtype), np.float64)
             @ np.asarray(round_once(b, dtype), np.float64))
    got = sum(np.asarray(part, np.float64) for part in partials)
    assert np.allclose(got, exact, rtol=0.02, atol=0.02)
    assert got.any()


def test_operands_that_do_not_fit_are_refused_with_their_shapes():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(4, 2\)"):
        partial_products(np.zeros((2, 3)), np.zeros((4, 2)), "float32", 2)
