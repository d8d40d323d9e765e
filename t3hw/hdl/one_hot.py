"""One-hot masks: the number of the bit that is set, and words chosen by bits."""

import functools
import operator

from amaranth import Cat, Mux
from amaranth.utils import ceil_log2

__all__ = ["any_of", "chosen_of", "index_of"]


def any_of(words):
    """The words, ORed bit by bit; combinational, depth logarithmic in their number."""
    words = list(words)
    while len(words) > 1:
        words = [functools.reduce(operator.or_, words[at:at + 2])
                 for at in range(0, len(words), 2)]
    return words[0]


def chosen_of(mask, words):
    """Those words whose bit of ``mask`` is set, ORed bit by bit."""
    return any_of(Mux(bit, word, 0) for bit, word in zip(mask, words, strict=True))


def index_of(mask):
    """The number of the one bit that is set; 0 for none."""
    return Cat(Cat(mask[at] for at in range(len(mask)) if at >> bit & 1).any()
               for bit in range(ceil_log2(len(mask))))
