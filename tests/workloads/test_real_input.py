"""The bundled input is what it says; the user's own is read, or refused with a helpful message."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from t3hw.config import DTYPE_NAMES
from t3hw.reference import NUMPY_DTYPES
from t3hw.workloads.make_minilm_bundle import tokenize
from t3hw.workloads import InputError, load_operands, real
from t3hw.workloads.files import load_matrix
from t3hw.workloads.operands import make_operands
from t3hw.workloads.safetensors import read_tensor


def write_safetensors(path, tensors, *, header=None, extra=b""):
    entries, data = {"__metadata__": {"format": "pt"}}, b""
    names = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int32": "I32"}
    for name, array in tensors.items():
        raw = array.tobytes()
        entries[name] = {"dtype": names[str(array.dtype)], "shape": list(array.shape),
                         "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(entries).encode() if header is None else header
    path.write_bytes(struct.pack("<Q", len(text)) + text + data + extra)
    return path


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_bundled_gemm(dtype):
    gemm = real.load(dtype, rows=16, columns=24).gemm(4)
    assert gemm.a.shape == (16, 1536) and gemm.b.shape == (1536, 24)
    assert gemm.a.dtype == gemm.b.dtype == NUMPY_DTYPES[dtype]
    partials = gemm.partials
    assert all(part.any() for part in partials)
    total = sum(np.asarray(part, np.float64) for part in partials)
    exact = np.asarray(gemm.a, np.float64) @ np.asarray(gemm.b, np.float64)
    assert np.allclose(total, exact, rtol=0.03, atol=0.03)


def test_bundle_is_whole_and_its_size_is_refused_beyond_its_end():
    operands = real.load()
    assert (operands.m, operands.k, operands.n) == (73, 1536, 384)
    assert operands.dtype == "float16"
    # GELU is never below -0.17, and most of its values are small.
    assert -0.18 < operands.a.min() < 0 < operands.a.max()
    with pytest.raises(InputError, match="rows must be from 1 to 73, not 74"):
        real.load(rows=74)


def test_word_pieces_are_the_longest_that_the_vocabulary_has():
    words = ["[CLS]", "[SEP]", "[UNK]", "multi", "##pl", "##ies", "##plies", "cafe", ".", "a"]
    ids = tokenize("Multiplies café. Xyz A", {word: index for index, word in enumerate(words)})
    assert [words[index] for index in ids] == [
        "[CLS]", "multi", "##plies", "cafe", ".", "[UNK]", "a", "[SEP]"]


def test_own_arrays_nan_included(tmp_path):
    a = np.array([[1, np.nan], [np.inf, 2]], np.float64)
    b = np.eye(2, dtype=np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    operands = load_operands(a=tmp_path / "a.npy", b=tmp_path / "b.npy", dtype="bfloat16", m=2)
    assert np.isnan(operands.gemm(2).partials[1][0]).all()
    assert load_operands(a=tmp_path / "b.npy", b=tmp_path / "a.npy").dtype == "float32"
    with pytest.raises(InputError, match="n of .* is 2, not 3"):
        load_operands(a=tmp_path / "a.npy", b=tmp_path / "b.npy", n=3)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
def test_own_safetensors(tmp_path, kind):
    weight = np.arange(12).reshape(4, 3).astype(kind)
    path = write_safetensors(tmp_path / "w.safetensors", {"x": weight[:1], "linear.weight": weight})
    assert np.array_equal(read_tensor(path, "linear.weight"), weight)
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    operands = load_operands(activations=tmp_path / "x.npy", weights=path, tensor="linear.weight")
    assert operands.dtype == "float32"
    assert np.array_equal(operands.b, weight.T.astype(np.float32))


@pytest.mark.parametrize("content, message", [
    (None, "No such file"),
    (b"", "is no .npy file"),
    (b"1,2\n3,4\n", "is no .npy file"),
    (b"\x93NUMPY", "cannot be read"),
    (b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'}", "cannot be read"),
])
def test_files_that_are_no_arrays_are_refused(tmp_path, content, message):
    path = tmp_path / "a.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_matrix(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("array, message", [
    (np.zeros(3), r"not of shape \(3,\)"),
    (np.zeros((2, 0)), r"not of shape \(2, 0\)"),
    (np.zeros((2, 2), complex), "not complex128"),
    (np.zeros((2, 2), bool), "not bool"),
    (np.array([["a"]]), "not <U1"),
    (np.zeros((2, 2), object), "cannot be read"),
])
def test_arrays_that_are_no_matrices_of_numbers_are_refused(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=message):
        load_matrix(tmp_path / "a.npy")


def test_a_truncated_array_is_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((4, 4)))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="cannot be read"):
        load_matrix(path)


@pytest.mark.parametrize("header, message", [
    (b"[]", "header is no object"),
    (b"{", "is no safetensors file"),
    (b'{"w": 3}', "makes no sense"),
    (b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}', "makes no sense"),
    (b'{"w": {"dtype": "F32", "shape": [-1, 1], "data_offsets": [0, 4]}}', "makes no sense"),
    (b'{"w": {"dtype": "F8", "shape": [1, 1], "data_offsets": [0, 1]}}', "type F8"),
    (b'{"w": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 400]}}', "ends at byte"),
    (b'{"w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 4]}}', "does not have 4 bytes"),
    (b'{"v": {}}', "no tensor 'w'; it has v"),
])
def test_bad_safetensors_are_refused(tmp_path, header, message):
    path = write_safetensors(tmp_path / "w.safetensors", {}, header=header, extra=bytes(16))
    with pytest.raises(InputError, match=message):
        read_tensor(path, "w")


def test_other_mistakes_are_refused(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", 1 << 60))
    with pytest.raises(InputError, match="header of 1152921504606846976 bytes"):
        read_tensor(tmp_path / "w.safetensors", "w")
    with pytest.raises(InputError, match="is no .npy file"):
        load_matrix(tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="directory"):
        load_matrix(tmp_path)
    with pytest.raises(InputError, match="a is 2 x 3 and b is 4 x 2"):
        make_operands(np.zeros((2, 3)), np.zeros((4, 2)), "float32")
    with pytest.raises(InputError, match="int32 needs integers, not float64"):
        make_operands(np.zeros((2, 3)), np.zeros((3, 2)), "int32")
    with pytest.raises(InputError, match="not 'fp32'"):
        make_operands(np.zeros((2, 3)), np.zeros((3, 2)), "fp32")


@pytest.mark.parametrize("given, message", [
    ({"a": "A.npy"}, "a, b go together: b missing"),
    ({"a": "A.npy", "weights": "w"}, "a, b go together: b missing; weights not wanted"),
    ({"weights": "w", "tensor": "t"},
     "activations, tensor, weights go together: activations missing"),
    ({"a": "A.npy", "b": "B.npy", "tensor": "t"}, "a, b go together: tensor not wanted"),
])
def test_files_that_do_not_go_together_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        load_operands(**given)


def test_random_operands_need_no_arguments_and_depend_on_the_seed():
    one, same, other = load_operands(), load_operands(seed=1), load_operands(seed=2)
    assert (one.m, one.n, one.k, one.dtype) == (64, 256, 256, "bfloat16")
    assert one.a.tobytes() == same.a.tobytes() != other.a.tobytes()
    assert load_operands(dtype="int32", m=3).a.shape == (3, 256)


@pytest.mark.parametrize("kind, dtype", [
    (np.float16, "float16"), (np.float64, "float32"), (np.int64, "int32"), (np.uint8, "int32")])
def test_the_type_is_that_of_the_file_or_the_one_most_like_it(tmp_path, kind, dtype):
    np.save(tmp_path / "a.npy", np.ones((2, 2), kind))
    assert load_operands(a=tmp_path / "a.npy", b=tmp_path / "a.npy").dtype == dtype
