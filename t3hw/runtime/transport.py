"""The one interface between the runtime and a node: registers, an interrupt, and memory."""

import abc

__all__ = ["BusError", "Memory", "Transport"]


class BusError(OSError):
    """The node answered an access with an error, and did nothing."""

    def __init__(self, kind, address):
        super().__init__(f"{kind} at {address:#07x} was answered with an error")
        self.kind = kind
        self.address = address


class Transport(abc.ABC):
    """Registers of one node, in 32-bit words at byte addresses."""

    @abc.abstractmethod
    def read32(self, address):
        """Read a word; raises `BusError` if the node refuses."""

    @abc.abstractmethod
    def write32(self, address, value):
        """Write a word; raises `BusError` if the node refuses."""

    @abc.abstractmethod
    def wait_interrupt(self, cycles):
        """Wait until the interrupt is high, for about ``cycles`` cycles at most; whether it is."""

    def read_block(self, address, count):
        """Read ``count`` words that follow each other."""
        return [self.read32(address + 4 * index) for index in range(count)]

    def write_words(self, writes):
        """Write words anywhere, in order: pairs of address and value."""
        for address, value in writes:
            self.write32(address, value)

    def write_block(self, address, words):
        """Write words that follow each other, the first one first."""
        self.write_words((address + 4 * index, word) for index, word in enumerate(words))


class Memory(abc.ABC):
    """The memory of one node, past the node: to load operands and to see results."""

    @abc.abstractmethod
    def read_memory(self, address, length):
        """Bytes from ``address`` on."""

    @abc.abstractmethod
    def write_memory(self, address, data):
        """Replace bytes from ``address`` on."""
