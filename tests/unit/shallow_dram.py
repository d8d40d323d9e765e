"""A node whose DRAM has a queue of any depth, for tests of what depends on it."""

from t3hw.config import NodeConfig
from t3hw.dram import DramTiming

__all__ = ["shallow"]


def shallow(window):
    """The smallest preset, with a DRAM that chooses from ``window`` accesses."""
    return NodeConfig.preset("tiny").replace(
        memory="dram", dram=DramTiming.preset("hbm2").replace(window=window))
