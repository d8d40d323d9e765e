"""The bundled real input; ``minilm_fc2.md`` beside this file says where it comes from."""

from importlib import resources

import numpy as np

from .errors import InputError
from .operands import make_operands

__all__ = ["EXPLANATION", "load"]

_BUNDLE = "minilm_fc2.npz"

EXPLANATION = """\
The input is real: the second matrix (FC-2) of the last encoder layer of all-MiniLM-L6-v2, 1536
inputs by 384 outputs, and the activations that reach it for a text of 73 tokens. As in
tensor-parallel training, each device holds its slice of the 1536 inputs, and computes a partial sum
of the whole 73 x 384 output."""


def load(dtype="float16", *, rows=None, columns=None):
    """The bundled operands.

    Parameters
    ----------
    dtype : str
        Element type. The bundle holds float16; int32 takes the numbers as fixed point with 8 bits
        behind the point.
    rows, columns : int, optional
        Take that many tokens and outputs from the beginning; all if not given.

    Returns
    -------
    Operands
        73 x 1536 and 1536 x 384.
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
    return make_operands(a, b, dtype, "FC-2 of MiniLM's last layer on a text of 73 tokens")
