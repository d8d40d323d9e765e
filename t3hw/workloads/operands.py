"""Operands of a GEMM: random ones, or those of the user."""

import dataclasses

import numpy as np

from t3hw.reference import NUMPY_DTYPES, round_once

from .errors import InputError
from .files import check_matrix, load_matrix
from .gemm import Gemm

__all__ = ["Operands", "load_operands", "make_operands", "random_operands"]

_SHAPE = {"m": 64, "n": 256, "k": 256}
_DTYPE = "bfloat16"


@dataclasses.dataclass(frozen=True, eq=False)
class Operands:
    """``a`` (M x K) and ``b`` (K x N) of type ``dtype``; ``source`` says where they are from."""

    a: np.ndarray
    b: np.ndarray
    dtype: str
    source: str

    @property
    def m(self):
        """Rows of the output."""
        return self.a.shape[0]

    @property
    def n(self):
        """Columns of the output."""
        return self.b.shape[1]

    @property
    def k(self):
        """Length of the sums."""
        return self.a.shape[1]

    def gemm(self, devices):
        """The GEMM with K sliced over ``devices`` devices."""
        return Gemm(self.a, self.b, self.dtype, devices)


def make_operands(a, b, dtype, source="arrays"):
    """Operands of two matrices, checked, and rounded once to ``dtype``.

    Raises
    ------
    InputError
        If they do not fit each other or the type.
    """
    if dtype not in NUMPY_DTYPES:
        raise InputError(f"dtype must be one of {', '.join(NUMPY_DTYPES)}, not {dtype!r}")
    a, b = check_matrix(a, "a"), check_matrix(b, "b")
    if a.shape[1] != b.shape[0]:
        raise InputError(f"a is {a.shape[0]} x {a.shape[1]} and b is {b.shape[0]} x {b.shape[1]}: "
                         "columns of a and rows of b must be equal")
    try:
        return Operands(round_once(a, dtype), round_once(b, dtype), dtype, source)
    except ValueError as error:
        raise InputError(str(error)) from None


def random_operands(*, m, n, k, dtype, seed):
    """Random operands: normal numbers, or all 32 bits for int32."""
    rng = np.random.default_rng(seed)
    shapes = (m, k), (k, n)
    if dtype == "int32":
        a, b = (rng.integers(-2 ** 31, 2 ** 31, shape).astype(np.int32) for shape in shapes)
    else:
        a, b = (rng.standard_normal(shape) for shape in shapes)
    return make_operands(a, b, dtype, f"random, seed {seed}")


def load_operands(*, m=None, n=None, k=None, dtype=None, seed=1, a=None, b=None, weights=None,
                  tensor=None, activations=None):
    """Operands as a user asks for them: two files, or random ones.

    Parameters
    ----------
    m, n, k : int, optional
        Shape. Of files they say what is expected.
    dtype : str, optional
        Element type; that of ``a`` if not given, and bfloat16 for random operands.
    seed : int
        Of random operands.
    a, b : path, optional
        M x K and K x N, in .npy files.
    activations, weights : path, optional
        Instead of these: M x K in a .npy file, and a safetensors file.
    tensor : str, optional
        Tensor in the safetensors file, N x K, as frameworks store the weight of a linear layer.

    Raises
    ------
    InputError
        For every combination that cannot be, and every file that does not fit.
    """
    shape = {"m": m, "n": n, "k": k}
    given = {name for name, value in (("a", a), ("b", b), ("weights", weights), ("tensor", tensor),
                                      ("activations", activations)) if value is not None}
    if not given:
        shape = {name: _SHAPE[name] if size is None else size for name, size in shape.items()}
        return random_operands(**shape, dtype=dtype or _DTYPE, seed=seed)
    for wanted in ({"a", "b"}, {"activations", "weights", "tensor"}):
        if given & wanted and given != wanted:
            missing, extra = sorted(wanted - given), sorted(given - wanted)
            raise InputError(f"{', '.join(sorted(wanted))} go together: "
                             + "; ".join(f"{', '.join(names)} {what}" for names, what in (
                                 (missing, "missing"), (extra, "not wanted")) if names))
    if a is not None:
        left, right, source = load_matrix(a), load_matrix(b), f"{a} and {b}"
    else:
        left, right = load_matrix(activations), load_matrix(weights, tensor=tensor).T
        source = f"{activations} and {tensor} of {weights}"
    operands = make_operands(left, right, dtype or _nearest(left.dtype), source)
    for name, size in shape.items():
        if size is not None and size != getattr(operands, name):
            raise InputError(f"{name} of {source} is {getattr(operands, name)}, not {size}")
    return operands


def _nearest(kind):
    """The element type of a file's numbers, or the one that is most like it."""
    if kind.kind in "iu":
        return "int32"
    return {str(known): name for name, known in NUMPY_DTYPES.items()}.get(str(kind), "float32")
