"""Operands of real GEMMs: the bundled one, and the user's own from .npy and safetensors files."""

from importlib import resources
from pathlib import Path

import numpy as np

from t3hw.reference import NUMPY_DTYPES, round_once

from .errors import InputError
from .gemm import Gemm
from .safetensors import read_tensor

__all__ = ["InputError", "bundled_gemm", "load_gemm", "load_matrix", "make_gemm"]

_BUNDLE = "minilm_fc2.npz"


def bundled_gemm(dtype, devices, *, rows=None, columns=None):
    """The second matrix of a MiniLM encoder layer's feed-forward on a real text's activations.

    See ``minilm_fc2.md`` for where it comes from. ``rows`` (tokens) and ``columns`` (outputs) take a part
    from the beginning. int32 takes the numbers as fixed point with 8 bits behind the point.
    """
    with resources.files(__package__).joinpath(_BUNDLE).open("rb") as file:
        arrays = np.load(file, allow_pickle=False)
        a, b = arrays["a"], arrays["b"]
    for name, count, most in (("rows", rows, a.shape[0]), ("columns", columns, b.shape[1])):
        if count is not None and not 1 <= count <= most:
            raise InputError(f"{name} must be from 1 to {most}, not {count}")
    a, b = a[:rows], b[:, :columns]
    if dtype == "int32":
        a, b = (np.rint(operand.astype(np.float64) * 256).astype(np.int32) for operand in (a, b))
    return make_gemm(a, b, dtype, devices)


def load_gemm(dtype, devices, *, a, b, tensor=None):
    """The user's own GEMM.

    Parameters
    ----------
    dtype : str
        Element type of partial sums and result.
    devices : int
        Devices over which K is sliced.
    a : path
        M x K, in a .npy file.
    b : path
        K x N in a .npy file, or a safetensors file.
    tensor : str, optional
        Tensor in the safetensors file: N x K, as frameworks store the weight of a linear layer.
    """
    left = load_matrix(a)
    right = load_matrix(b, tensor=tensor)
    return make_gemm(left, right if tensor is None else right.T, dtype, devices)


def load_matrix(path, *, tensor=None):
    """A matrix from a .npy file, or a tensor from a safetensors file. NaN and infinity are allowed."""
    if tensor is not None:
        return _matrix(read_tensor(path, tensor), f"{path}, tensor {tensor!r}")
    if Path(path).suffix == ".safetensors":
        raise InputError(f"{path}: which tensor? A safetensors file needs a tensor's name")
    try:
        with Path(path).open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise InputError(f"{path} is no .npy file")
            file.seek(0)
            array = np.load(file, allow_pickle=False)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, MemoryError, SyntaxError, OverflowError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    return _matrix(array, path)


def make_gemm(a, b, dtype, devices):
    """A `Gemm` of two matrices, checked."""
    if dtype not in NUMPY_DTYPES:
        raise InputError(f"dtype must be one of {', '.join(NUMPY_DTYPES)}, not {dtype!r}")
    a, b = _matrix(a, "a"), _matrix(b, "b")
    if a.shape[1] != b.shape[0]:
        raise InputError(f"a is {a.shape[0]} x {a.shape[1]} and b is {b.shape[0]} x {b.shape[1]}: "
                         "columns of a and rows of b must be equal")
    try:
        return Gemm(round_once(a, dtype), round_once(b, dtype), dtype, devices)
    except ValueError as error:
        raise InputError(str(error)) from None


def _matrix(array, name):
    array = np.asarray(array)
    is_number = array.dtype.kind in "iu" or array.dtype in (
        np.float16, np.float32, np.float64, NUMPY_DTYPES["bfloat16"])
    if not is_number:
        raise InputError(f"{name} must hold integers, float16, bfloat16, float32 or float64, "
                         f"not {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be a matrix of at least 1 x 1, not of shape {array.shape}")
    return array
