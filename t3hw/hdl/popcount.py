"""Population count, as a balanced tree of adders."""

from amaranth import Value

__all__ = ["popcount"]


def popcount(value):
    """The number of bits of ``value`` that are 1; combinational, depth logarithmic in its width."""
    value = Value.cast(value)
    if len(value) < 2:
        # A signed bit would count as -1.
        return value[:]
    half = len(value) // 2
    return popcount(value[:half]) + popcount(value[half:])
