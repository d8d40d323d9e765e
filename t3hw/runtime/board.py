"""A board behind a link: what it is, its nodes' registers, their memories, its clock."""

import dataclasses
import time

import numpy as np

from t3hw.registers import REGISTERS as NODE_REGISTERS
from t3hw.registers.board import (MAGIC, MAP_HASH, MAX_DEVICES, MEMORY_KINDS, MEMORY_WINDOW,
                                  decode_register, memory_address, node_address, register_address)
from t3hw.registers import register_address as node_register

from .device import DeviceError
from .serial_link import LinkError
from .transport import BusError, Memory, Transport

__all__ = ["BoardError", "BoardIdentity", "BoardLink", "NodeMemory", "NodeTransport", "Sample"]

#: Words from CYCLES_LO to IRQ: time and interrupts in one answer.
_SAMPLE_WORDS = (register_address("IRQ") - register_address("CYCLES_LO")) // 4 + 1
#: Samples that are asked for at a time while events are waited for.
_SAMPLES = 8


class BoardError(DeviceError):
    """A board that this software cannot use; the message says why, and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardIdentity:
    """What a board says of itself.

    Parameters
    ----------
    board_hash, config_hash : int
        Of the whole design, and of its nodes' configuration.
    devices : int
        Nodes of its ring.
    traffic : bool
        Whether they have traffic engines.
    memory : str
        Kind of their memories.
    memory_bytes : int
        Size of each.
    clock_hz : int
        Cycles a second.
    """

    board_hash: int
    config_hash: int
    devices: int
    traffic: bool
    memory: str
    memory_bytes: int
    clock_hz: int


@dataclasses.dataclass(frozen=True)
class Sample:
    """The board's time, and a bit a node whose interrupt is high, at one moment."""

    cycles: int
    interrupts: int


class BoardLink:
    """All of a board, for `Device`, `TrafficEngines` and whoever wants its memories.

    Parameters
    ----------
    link : SerialLink
        Or anything else with its methods for words, on the board's address map.
    design : BoardDesign, optional
        What the board must be. If not given, it may be any t3hw board.
    guard : float
        Seconds after which a wait is given up if the board's clock does not move.

    Attributes
    ----------
    identity : BoardIdentity
        What the board says of itself.
    devices : list of NodeTransport
        Registers of each node.
    memories : list of NodeMemory
        Memory of each node.

    Raises
    ------
    BoardError
        If it is no board of t3hw, another one than ``design``, or only a part of it answers.
    """

    def __init__(self, link, *, design=None, guard=5.0):
        self.link = link
        self.guard = guard
        self.identity = self._identify(design)
        indexes = range(self.identity.devices)
        self.devices = [NodeTransport(self, index) for index in indexes]
        # A node without a limit of its own has as much as the host can reach.
        size = self.identity.memory_bytes or MEMORY_WINDOW
        self.memories = [NodeMemory(link, index, size) for index in indexes]
        self._check_nodes()

    @property
    def clock_hz(self):
        """Cycles a second."""
        return self.identity.clock_hz

    def read(self, name):
        """Fields of one of the board's registers."""
        return decode_register(name, self.link.read_block(register_address(name), 1)[0])

    def write(self, name, value=0):
        """Write one of the board's registers."""
        self.link.write_words([(register_address(name), value)])

    def cycles(self):
        """Cycles since the board's reset, 64 bits."""
        return self.sample().cycles

    def sample(self):
        """Time and interrupts of one moment."""
        return _sample(self.link.read_block(register_address("CYCLES_LO"), _SAMPLE_WORDS))

    def samples(self, count=_SAMPLES):
        """Some samples, as close to each other as the link allows."""
        return [_sample(words) for words in self.link.read_many(
            [register_address("CYCLES_LO")] * count, _SAMPLE_WORDS)]

    def write_between(self, writes):
        """Write registers of nodes, and say when: samples from just before and just after.

        Parameters
        ----------
        writes : iterable of (int, int, int)
            Node, address, word.
        """
        look = [(register_address("CYCLES_LO") + 4 * word, None) for word in range(_SAMPLE_WORDS)]
        writes = [(node_address(node, address), word) for node, address, word in writes]
        words = self.link.mixed([*look, *writes, *look])
        return _sample(words[:_SAMPLE_WORDS]), _sample(words[_SAMPLE_WORDS:])

    def wait_interrupts(self, mask, cycles):
        """Wait until nodes have raised their interrupts, each at least once.

        Parameters
        ----------
        mask : int
            A bit a node.
        cycles : int
            Of the board's clock, to wait at most.

        Returns
        -------
        Sample or None
            The first in which the last of them had been seen high, by the board's own time; None if
            it took longer.
        """
        watch = _Watch(self)
        seen = 0
        while True:
            for sample in self.samples():
                seen |= sample.interrupts
                if seen & mask == mask:
                    return sample
                if watch.passed(sample) >= cycles:
                    return None

    # Identity.

    def _identify(self, design):
        try:
            return self._read_identity(design)
        except BusError as error:
            raise BoardError(f"the board's registers do not answer ({error}): it is no t3hw board, "
                             "or only half programmed; program it again") from None

    def _read_identity(self, design):
        found = self.read("MAGIC")["magic"]
        if found != MAGIC:
            raise BoardError(f"this is no t3hw board: its first word is {found:#010x}, not "
                             f"{MAGIC:#010x}; program it with a bitstream of `t3hw fpga build`")
        found = self.read("MAP_HASH")["hash"]
        if found != MAP_HASH:
            raise BoardError(f"the bitstream is of another version of t3hw: the board's registers "
                             f"have the map {found:#010x}, this software {MAP_HASH:#010x}; build "
                             "it anew, or use the software that built it")
        fields = self.read("DEVICES")
        kinds = {number: name for name, number in MEMORY_KINDS.items()}
        identity = BoardIdentity(
            board_hash=self.read("BOARD_HASH")["hash"],
            config_hash=self.read("CONFIG_HASH")["hash"], devices=fields["devices"],
            traffic=bool(fields["traffic"]),
            memory=kinds.get(fields["memory_kind"], f"kind {fields['memory_kind']}"),
            memory_bytes=self.read("MEMORY_BYTES")["bytes"],
            clock_hz=self.read("CLOCK_HZ")["hertz"])
        if design is not None and identity.board_hash != design.hash:
            raise BoardError(
                "the board has another bitstream: its design's hash is "
                f"{identity.board_hash:#010x}, that of {design.name} is {design.hash:#010x}; "
                f"program it (t3hw fpga program {design.name}), or name the design that it has")
        if not 1 <= identity.devices <= MAX_DEVICES:
            raise BoardError(f"the board says that it has {identity.devices} nodes, and can have 1 "
                             f"to {MAX_DEVICES}; program it again")
        return identity

    def _check_nodes(self):
        for index, transport in enumerate(self.devices):
            wanted = {"PRODUCT_ID": NODE_REGISTERS["PRODUCT_ID"].reset,
                      "CONFIG_HASH": self.identity.config_hash}
            for name, word in wanted.items():
                try:
                    found = transport.read32(node_register(name))
                except BusError:
                    found = None
                if found != word:
                    answer = "no answer" if found is None else f"{found:#010x}"
                    raise BoardError(f"node {index} of {self.identity.devices} is not what the "
                                     f"board says: {name} is {answer}, not {word:#010x}; the "
                                     "bitstream was loaded in part, or is damaged: program the "
                                     "board again")


class _Watch:
    """How much of the board's time has passed; an error if it stands still."""

    def __init__(self, board):
        self._board = board
        self._start = None
        self._last = None
        self._moved = time.monotonic()

    def passed(self, sample):
        """Cycles from the first sample to this one."""
        if self._start is None:
            self._start = sample.cycles
        if sample.cycles != self._last:
            self._last = sample.cycles
            self._moved = time.monotonic()
        elif time.monotonic() - self._moved > self._board.guard:
            raise LinkError(f"the board's clock stands still: CYCLES stays at {sample.cycles}; "
                            "reset the board", getattr(self._board.link, "port", "board"))
        return sample.cycles - self._start


class NodeTransport(Transport):
    """Registers of one of a board's nodes.

    Writes of a block are under way together: one that is refused raises `BusError` with its
    address, and those behind it have taken effect.

    Parameters
    ----------
    board : BoardLink
        The board.
    index : int
        Number of the node.
    """

    def __init__(self, board, index):
        self._board = board
        self.index = index
        self._base = node_address(index)

    def _call(self, method, *arguments):
        """Addresses in errors are the node's own."""
        try:
            return method(*arguments)
        except BusError as error:
            raise BusError(error.kind, error.address - self._base) from None

    def read32(self, address):
        return self.read_block(address, 1)[0]

    def write32(self, address, value):
        self.write_words([(address, value)])

    def read_block(self, address, count):
        return self._call(self._board.link.read_block, node_address(self.index, address), count)

    def write_words(self, writes):
        self._call(self._board.link.write_words, [
            (node_address(self.index, address), value) for address, value in writes])

    def wait_interrupt(self, cycles):
        watch = _Watch(self._board)
        while True:
            sample = self._board.sample()
            if sample.interrupts >> self.index & 1:
                return True
            if watch.passed(sample) >= cycles:
                return False


class NodeMemory(Memory):
    """Memory of one of a board's nodes, by loads and stores at the node's producer port.

    A store goes through the node's regions as any producer's does: where no region is, it is plain
    memory. Words only go over the link, so what begins or ends within one is read first.

    Parameters
    ----------
    link : SerialLink
        To the board.
    index : int
        Number of the node.
    size : int
        Bytes of the memory.
    """

    def __init__(self, link, index, size):
        self._link = link
        self.index = index
        #: Bytes that can be reached.
        self.size = min(size, MEMORY_WINDOW)

    def _check(self, kind, address, length):
        if not 0 <= address <= address + length <= self.size:
            raise BusError(f"memory {kind}", address)

    def _call(self, kind, method, address, *arguments, **options):
        """Addresses in errors are the memory's own."""
        base = memory_address(self.index)
        try:
            return method(base + address, *arguments, **options)
        except BusError as error:
            raise BusError(f"memory {kind}", error.address - base) from None

    def read_memory(self, address, length):
        self._check("read", address, length)
        first = address - address % 4
        words = -(-(address + length - first) // 4)
        if not length:
            return b""
        data = self._call("read", self._link.read_array, first, words, retry=True)
        return data.astype("<u4").tobytes()[address - first:address - first + length]

    def write_memory(self, address, data):
        data = bytes(data)
        self._check("write", address, len(data))
        end = address + len(data)
        before, behind = address % 4, -end % 4
        if data and before:
            data = self.read_memory(address - before, before) + data
        if data and behind:
            data += self.read_memory(end, behind)
        if data:
            self._write(address - before, data, retry=True)

    def store(self, address, data):
        """Stores of a producer, whole words: each takes effect once, so nothing is sent again."""
        self._check("write", address, len(data))
        if address % 4 or len(data) % 4:
            raise ValueError(f"stores are whole words, not {len(data)} bytes at {address:#x}")
        self._write(address, bytes(data), retry=False)

    def _write(self, address, data, *, retry):
        self._call("write", self._link.write_block, address, np.frombuffer(data, "<u4"),
                   retry=retry)


def _sample(words):
    return Sample(words[1] << 32 | words[0], words[-1])
