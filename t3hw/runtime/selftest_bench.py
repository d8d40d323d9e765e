"""What the steps of a self-test share: the board's parts, data, comparisons, waiting."""

import itertools

import numpy as np

from t3hw.registers import entry_address

from .device import Device
from .traffic import TrafficEngines

__all__ = ["Bench", "StepFailed", "StepSkipped", "compare", "pattern"]

#: Cycles in which whatever a step has sent over a link has arrived.
_ENOUGH = 20_000


class StepFailed(Exception):
    """The board does not do what it should;
    the message says what was expected, found, and where."""


class StepSkipped(Exception):
    """The board has not what the step needs; the message says what."""


class Bench:
    """A board with drivers for all of its parts.

    Parameters
    ----------
    board : BoardLink
        The board.
    design : BoardDesign or None
        What it is known to be.
    quick : bool
        Whether steps take less data.
    seed : int
        Of random data.

    Attributes
    ----------
    nodes : list of Device
    engines : list of TrafficEngines
        Empty where the board has none.
    memories : list of NodeMemory
    config : NodeConfig
        Of every node.
    traffic : list
        What the last reduce-scatter was counted as, for the step that looks at it.
    patience : int
        Cycles within which a board does whatever a step asks for.
    """

    patience = 1_000_000

    def __init__(self, board, *, design=None, quick=False, seed=1):
        self.board = board
        self.quick = quick
        self.seed = seed
        config = None if design is None else design.node
        self.nodes = [Device(transport, config=config) for transport in board.devices]
        self.config = self.nodes[0].config
        self.engines = [TrafficEngines(transport) for transport in board.devices
                        ] if board.identity.traffic else []
        self.memories = board.memories
        self.traffic = []
        # A plan's packets may wait for a neighbour that is not cleared yet: hold none of them back.
        for node in self.nodes:
            if node.config.collective:
                node.set_link()
        self.clean()
        for engine in self.engines:
            engine.forget_arrivals()

    @property
    def count(self):
        """Nodes of the board."""
        return len(self.nodes)

    def neighbour(self, node):
        """The node that ``node`` sends to."""
        return (node - 1) % self.count

    @property
    def memory_bytes(self):
        """Bytes of each memory that can be reached."""
        return self.memories[0].size

    def sample_cycles(self):
        """Cycles from one sample of the board's time to the next one."""
        cycles = [sample.cycles for sample in self.board.samples()]
        return max(1, min(after - before for before, after in itertools.pairwise(cycles)))

    def rng(self, *key):
        """Random numbers that depend on the seed and on ``key``, and on nothing else."""
        return np.random.default_rng([self.seed, *key])

    def describe(self):
        """The board in a line; it is refused if its clock does not run."""
        identity = self.board.identity
        first, last = self.board.cycles(), self.board.cycles()
        if last <= first:
            raise StepFailed(f"the board's clock does not run: CYCLES {first}, then {last}")
        size = (f"{identity.memory_bytes // 1024} KiB" if identity.memory_bytes
                else "unlimited") + f" {identity.memory}"
        return (f"{identity.devices} node(s), "
                f"{'with' if identity.traffic else 'no'} traffic engines, {size} each, "
                f"{identity.clock_hz / 1e6:g} MHz; design {identity.board_hash:#010x}, "
                f"node {identity.config_hash:#010x}")

    def clean(self):
        """All nodes as after reset, and nothing left of what the steps set."""
        for node in self.nodes:
            node.reset(timeout=self.patience)
        for engine in self.engines:
            engine.write("IRQ_ENABLE")

    def forget_regions(self):
        """Switch all regions off: those of a plan that is done take no stores."""
        for node in self.nodes:
            node.transport.write_words((entry_address("REGION", region), 0)
                                       for region in range(self.config.regions))

    def until(self, condition, what):
        """Wait until ``condition()``; a step that waits too long has failed."""
        start = self.board.cycles()
        while not condition():
            passed = self.board.cycles() - start
            if passed > self.patience:
                raise StepFailed(f"{what} has not happened after {passed} cycles")

    def until_counted(self, name, least):
        """Wait until a counter of every node has come to ``least``.

        Nodes without counters get the time that they need in any case.
        """
        if self.config.monitoring:
            for index, node in enumerate(self.nodes):
                self.until(lambda: node.counters()[name] >= least,
                           f"node {index}: {name.upper()} of {least}")
            return
        start = self.board.cycles()
        while self.board.cycles() - start < _ENOUGH:
            pass

    def expect_counters(self, where, node, **wanted):
        """Counters of a node, where it has any."""
        if self.config.monitoring:
            counters = node.counters()
            for name, value in wanted.items():
                self.expect(f"{where}, {name.upper()}", counters[name], value)

    def expect_no_errors(self):
        """No node has anything to report."""
        for index, node in enumerate(self.nodes):
            errors = node.errors()
            if errors:
                raise StepFailed(f"node {index} reports {', '.join(errors.causes)}, {errors.count} "
                                 f"in all, first {errors.first}")

    def expect(self, what, found, wanted):
        """``found`` is ``wanted``."""
        if found != wanted:
            raise StepFailed(f"{what}: expected {_text(wanted)}, found {_text(found)}")


def _text(value):
    return f"{value:#x}" if type(value) is int and value > 9 else f"{value}"


def compare(where, address, found, wanted, unit=4):
    """Two pieces of memory are the same; if not, say where they first differ.

    Parameters
    ----------
    where : str
        Whose memory.
    address : int
        Of the first byte.
    found, wanted : bytes
        Contents.
    unit : int
        Bytes of an element.
    """
    kind = f"<u{unit}"
    found, wanted = np.frombuffer(found, kind), np.frombuffer(wanted, kind)
    wrong = np.flatnonzero(found != wanted)
    if wrong.size:
        first = int(wrong[0])
        digits = 2 * unit
        raise StepFailed(
            f"{where}, address {address + first * unit:#x}: expected 0x{wanted[first]:0{digits}x}, "
            f"found 0x{found[first]:0{digits}x}; {wrong.size} of {wanted.size} differ")


def pattern(address, length, key=0):
    """Bytes that say where they are: every address has its own word, and every bit is used."""
    words = (np.arange(address // 4, (address + length) // 4, dtype=np.uint64) + key * 0x51ED) \
        * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF)
    words ^= words >> np.uint64(15)
    return words.astype("<u4").tobytes()
