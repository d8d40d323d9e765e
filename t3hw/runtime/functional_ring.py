"""A ring of functional devices, whose events are interleaved at random."""

import collections
import random

from .functional import FunctionalDevice

__all__ = ["FunctionalRing"]


class FunctionalRing:
    """``devices`` nodes; device ``d`` sends to ``d - 1``.

    A step carries out one thing at one device. Devices and their producers have paces that the seed
    chooses, so that one may be far ahead of its neighbours.

    Parameters
    ----------
    devices : int
        Number of nodes, at least 2.
    config : NodeConfig
        What each of them is.
    seed : int
        Of the order of events.
    memory_bytes : int, optional
        Size of each memory, if not that of the configuration.
    """

    def __init__(self, devices, config, *, seed=0, memory_bytes=None):
        self.random = random.Random(seed)
        self.devices = [FunctionalDevice(config, memory_bytes=memory_bytes) for _ in range(devices)]
        self.responses = [collections.Counter() for _ in range(devices)]
        self.paces = [self.random.choice((0.05, 0.3, 1, 1)) for _ in range(2 * devices)]
        self._work = [collections.deque() for _ in range(devices)]
        for index, device in enumerate(self.devices):
            device.neighbour = self.devices[index - 1]
            device.advance = self.run

    def produce(self, device, beats):
        """Give a device's producer stores of a beat each: (address, data, strobe, wg, wf)."""
        self._work[device].extend(beats)

    @property
    def idle(self):
        """Whether all producers have done their stores."""
        return not any(self._work)

    def run(self, steps):
        """Let time pass: ``steps`` cycles, in each of which every device may do one thing."""
        agents = len(self.paces)
        for _ in range(steps):
            first = self.random.randrange(agents)
            for agent in range(first, first - agents, -1):
                if self.random.random() < self.paces[agent]:
                    self._act(agent % agents)
            for device in self.devices:
                device.tick()

    def _act(self, agent):
        index, is_producer = divmod(agent, 2)
        if not is_producer:
            self.devices[index].step(self.random)
        elif self._work[index]:
            address, data, strobe, wg, wf = self._work[index][0]
            response = self.devices[index].store(address, data, strobe, wg=wg, wf=wf)
            if response is not None:
                self._work[index].popleft()
                self.responses[index][response] += 1
