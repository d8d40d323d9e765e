"""Plain types of the register map; `t3hw.registers.map`, which is derived, is made of them."""

from typing import NamedTuple

__all__ = ["Field", "Register", "TableField", "Table", "Counter"]


class Field(NamedTuple):
    """Bits ``low`` to ``low + width - 1`` of a register.

    ``access`` is ro, rw, wo, w1c (write 1 to clear) or wclr (any write clears). ``reset`` is None
    if the field shows state or depends on the node's configuration. ``enum`` names an entry of
    ``ENUMS``.
    """

    low: int
    width: int
    access: str
    reset: int | None
    enum: str | None = None


class Register(NamedTuple):
    """A 32-bit register at a byte offset; an array of ``count``, ``stride`` bytes apart, if that is
    not 0."""

    offset: int
    access: str
    reset: int | None
    fields: dict
    count: int = 1
    stride: int = 0


class TableField(NamedTuple):
    """Bits of a table's entry from bit ``low`` of word ``word`` on, and of the words after it."""

    word: int
    low: int
    width: int
    enum: str | None = None


class Table(NamedTuple):
    """A window of ``entries`` entries of ``words`` 32-bit words, ``stride`` bytes apart.

    ``entries`` is what the window holds; a node may have fewer.
    """

    base: int
    stride: int
    words: int
    entries: int
    fields: dict


class Counter(NamedTuple):
    """A counter that is read from the shadow at byte offset ``offset``: ``width`` is 32 or 64."""

    name: str
    offset: int
    width: int
