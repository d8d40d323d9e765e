"""Read one tensor from a safetensors file: a JSON header behind its length, then raw data."""

import json
import math
import struct
from pathlib import Path

import ml_dtypes
import numpy as np

from .errors import InputError

__all__ = ["read_tensor"]

_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
           "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8}
_LONGEST_HEADER = 100_000_000
_NAMES = 8


def read_tensor(path, name):
    """The tensor of that name, as an array.

    Raises
    ------
    InputError
        If the file cannot be read or is no safetensors file, or the tensor is not in it or has a
        type that numpy cannot hold.
    """
    try:
        with Path(path).open("rb") as file:
            header, start, size = _header(path, file)
            entry = _entry(path, header, name)
            low, high = entry["data_offsets"]
            if not 0 <= low <= high or start + high > size:
                raise InputError(f"{path}: tensor {name!r} ends at byte {start + high}, "
                                 f"the file at {size}")
            file.seek(start + low)
            data = file.read(high - low)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    kind = np.dtype(_DTYPES[entry["dtype"]]).newbyteorder("<")
    if len(data) != math.prod(entry["shape"]) * kind.itemsize:
        raise InputError(f"{path}: tensor {name!r} of shape {entry['shape']} and type "
                         f"{entry['dtype']} does not have {len(data)} bytes")
    return np.frombuffer(data, kind).reshape(entry["shape"])


def _header(path, file):
    size = file.seek(0, 2)
    file.seek(0)
    length = struct.unpack("<Q", file.read(8))[0] if size >= 8 else 0
    if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
        raise InputError(f"{path} is no safetensors file: header of {length} bytes, file of {size}")
    try:
        header = json.loads(file.read(length))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is no safetensors file: {error}") from None
    if not isinstance(header, dict):
        raise InputError(f"{path} is no safetensors file: its header is no object")
    return header, 8 + length, size


def _entry(path, header, name):
    names = sorted(key for key in header if key != "__metadata__")
    if name not in names:
        some = ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")
        raise InputError(f"{path} has no tensor {name!r}; it has {some}")
    entry = header[name]
    try:
        low, high = entry["data_offsets"]
        good = all(type(number) is int for number in (low, high, *entry["shape"])) and \
            all(number >= 0 for number in entry["shape"]) and isinstance(entry["dtype"], str)
    except (TypeError, KeyError, ValueError):
        good = False
    if not good:
        raise InputError(f"{path}: the header's entry of {name!r} makes no sense: {entry!r}")
    if entry["dtype"] not in _DTYPES:
        raise InputError(f"{path}: tensor {name!r} has type {entry['dtype']}, "
                         f"which is none of {', '.join(_DTYPES)}")
    return entry
