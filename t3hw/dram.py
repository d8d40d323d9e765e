"""Timing and geometry of a DRAM channel: a checked dataclass, read from a file."""

import dataclasses

__all__ = ["DramTiming"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DramTiming:
    """Timing and geometry of a DRAM channel."""
