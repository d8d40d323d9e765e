"""A core that is quick to build, in the place of a ring of nodes."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class SmallCore(wiring.Component):
    """A counter and a memory in instances whose names are those of a board's."""

    rx: In(1, init=1)
    tx: Out(1, init=1)
    leds: Out(8)

    #: Bits of the sum between two registers: more make it slower.
    width = 24

    def __init__(self, design):
        self._design = design
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.node0 = node = Module()
        node.submodules.tracker = tracker = Module()
        tracker.submodules.store = store = Memory(
            shape=8, depth=self._design.node.memory_bytes, init=[])
        write, read = store.write_port(), store.read_port()
        count = Signal(self.width)
        level = Signal()
        tracker.d.sync += [
            level.eq(self.rx),
            count.eq(count + (count >> 1) + level),
            self.tx.eq(read.data.xor()),
            self.leds.eq(count[-8:]),
        ]
        tracker.d.comb += [write.addr.eq(count), write.data.eq(count), write.en.eq(level),
                           read.addr.eq(count), read.en.eq(1)]
        return m


class SlowCore(SmallCore):
    """Too slow for any clock of interest."""

    width = 400


class Adder(wiring.Component):
    """A node that is one, with a block in it and an output that nobody uses."""

    value: In(8)
    sum: Out(8)
    unused: Out(16)

    def elaborate(self, platform):
        m = Module()
        m.submodules.tracker = tracker = Module()
        tracker.d.sync += [self.sum.eq(self.value + 3), self.unused.eq(self.unused + 1)]
        return m


class PairCore(SmallCore):
    """Two equal nodes in a chain."""

    def __init__(self, design):
        self.nodes = [Adder(), Adder()]
        super().__init__(design)

    def elaborate(self, platform):
        m = Module()
        first, second = self.nodes
        m.submodules.node0 = first
        m.submodules.node1 = second
        level = Signal(8)
        m.d.sync += [level.eq(self.rx.replicate(8) ^ level), self.tx.eq(second.sum.xor())]
        m.d.comb += [first.value.eq(level), second.value.eq(first.sum), self.leds.eq(second.sum)]
        return m
