"""Matrices from the user's files."""

from pathlib import Path

import numpy as np

from t3hw.reference import NUMPY_DTYPES

from .errors import InputError
from .safetensors import read_tensor

__all__ = ["check_matrix", "load_matrix", "save_matrix"]


def load_matrix(path, *, tensor=None):
    """A matrix from a .npy file, or a tensor from a safetensors file. NaN and infinity are allowed.

    Raises
    ------
    InputError
        If the file cannot be read, or does not hold a matrix of numbers.
    """
    if tensor is not None:
        return check_matrix(read_tensor(path, tensor), f"{path}, tensor {tensor!r}")
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
    return check_matrix(array, path)


def check_matrix(array, name):
    """The array, if it is a matrix of a type that can be rounded once."""
    array = np.asarray(array)
    is_number = array.dtype.kind in "iu" or array.dtype in (
        np.float16, np.float32, np.float64, NUMPY_DTYPES["bfloat16"])
    if not is_number:
        raise InputError(f"{name} must hold integers, float16, bfloat16, float32 or float64, "
                         f"not {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be a matrix of at least 1 x 1, not of shape {array.shape}")
    return array


def save_matrix(path, array):
    """Write a .npy file, bfloat16 as uint16, so that a reader never sees half of it."""
    if array.dtype == NUMPY_DTYPES["bfloat16"]:
        array = array.view(np.uint16)
    path = Path(path)
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as file:
            np.save(file, array, allow_pickle=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
