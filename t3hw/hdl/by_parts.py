"""Wide values, looked at in parts: what is found goes to registers,
and is put together a cycle later."""

from amaranth import Cat

__all__ = ["any_by_parts", "same_by_parts"]


def any_by_parts(value, size):
    """A bit for each ``size`` bits of ``value``: whether there is a 1 in them."""
    return Cat(value[low:low + size].any() for low in range(0, len(value), size))


def same_by_parts(one, other, size):
    """A bit for each ``size`` bits of two values of the same length:
    whether both have the same there."""
    return Cat(one[low:low + size] == other[low:low + size] for low in range(0, len(one), size))
