"""Built-in memory: block RAM that adds, behind a delay that can be set."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..config import checked_config
from .memory_array import MemoryArray
from .seams import ErrorCause, commit, error_event, memory_access, read_beat
from .stream_queue import StreamQueue
from .writes_under_way import WritesUnderWay

__all__ = ["BuiltinMemory"]

#: Places of the delay queue beyond its longest delay: what enters and leaves in the same cycle.
_DELAY_MARGIN = 4


class BuiltinMemory(wiring.Component):
    """Memory of ``config.memory_bytes`` bytes; each access is delayed, then reads, adds and writes.

    Accesses take effect in the order in which they come. One that needs the old value of a beat (a
    read, or a write that adds somewhere) waits while a write to the same beat is on its way from
    the array's read port to its write port; the accesses behind it wait too.

    Latency from ``access`` to ``read`` or ``commit``: ``minimum_latency`` + `latency` cycles.
    Throughput one access a cycle at any delay while none waits as above; adds to one beat, one in
    ``interlock`` cycles.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Attributes
    ----------
    minimum_latency : int
        Cycles from ``access`` to ``read`` or ``commit`` when ``latency`` is 0.
    interlock : int
        Cycles from the issue of a write to that of the next access which needs its result.

    Members
    -------
    access : In, stream of `memory_access`
        What to do. Beyond the memory's size: nothing is written, reads give 0, and the response has
        ``error`` set.
    latency : In(16)
        Cycles to add, at most ``config.memory_max_latency``; more than that is as long a wait, but
        no longer one access a cycle. Without effect where that is 0: then there is no queue for the
        wait, and ``occupancy`` is 0. A change holds for accesses that are under way too.
    read : Out, stream of `read_beat`, always ready
        What reads found, in order.
    commit : Out, stream of `commit`, always ready
        What was written, in order, in the cycle from which the array's read port returns it.
    error : Out, stream of `error_event`, always ready
        ``MEMORY_ERROR``, with each response that has ``error`` set.
    occupancy : Out(16)
        Accesses that wait for their delay to pass, and one that has ended its wait in the last
        cycle.
    leaves : Out(1)
        One of them has waited long enough: it does not count from the next cycle on.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    def __init__(self, *, config):
        self._config = checked_config(config)
        self._array = MemoryArray(config=config)
        super().__init__({
            "access": In(stream.Signature(memory_access(config))),
            "latency": In(16),
            "read": Out(stream.Signature(read_beat(config), always_ready=True)),
            "commit": Out(stream.Signature(commit(config), always_ready=True)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "occupancy": Out(16),
            "leaves": Out(1),
        })

    @property
    def minimum_latency(self):
        """Cycles from ``access`` to ``read`` or ``commit`` when ``latency`` is 0."""
        # Delay queue, if there is one, head, response.
        return 2 + (self._config.memory_max_latency > 0) + self._array.latency

    @property
    def interlock(self):
        """Cycles from the issue of a write to that of the next access which needs its result."""
        return self._array.interlock

    def elaborate(self, platform):
        m = Module()

        config = self._config
        access_layout = memory_access(config)
        size_shift = ceil_log2(config.memory_bytes)

        m.submodules.array = array = self._array

        # Head: the next access, which waits for its time here. Whether that has come, and whether
        # it must wait for a write, is found out in the cycle before.
        head_valid = Signal()
        head = Signal(access_layout)
        head_beat = head.address[config.beat_shift:size_shift]
        head_outside = Signal()
        head_needs = Signal()
        head_due = Signal()
        head_waits = Signal()
        following = Signal(access_layout)
        following_valid = Signal()
        following_needs = Signal()
        take = Signal()
        issue = Signal()
        m.d.comb += [
            following_needs.eq(~following.write | following.add.any()),
            issue.eq(head_valid & head_due & ~head_waits),
            take.eq(~head_valid | issue),
        ]
        with m.If(take):
            m.d.sync += [
                head_valid.eq(following_valid),
                head.eq(following),
                head_outside.eq(following.address[size_shift:].any()),
                head_needs.eq(following_needs),
            ]
        if config.memory_max_latency:
            self._delay(m, following, following_valid, take=take, head_due=head_due)
        else:
            m.d.comb += [
                following.eq(self.access.payload),
                following_valid.eq(self.access.valid),
                self.access.ready.eq(take),
                head_due.eq(1),
            ]

        # Writes between the two ports of the array. Nothing is issued while the head waits, so
        # those that it waits for get on by one place in each cycle.
        writes = Signal()
        behind = Signal(self.interlock - 1)
        following_behind = Signal.like(behind)
        m.submodules.under_way = under_way = WritesUnderWay(
            width=len(head_beat), cycles=len(behind))
        m.d.comb += [
            writes.eq(issue & head.write & ~head_outside),
            under_way.beat.eq(following.address[config.beat_shift:size_shift]),
            under_way.issue.valid.eq(writes),
            under_way.issue.beat.eq(head_beat),
            following_behind.eq(Cat(writes & (under_way.beat == head_beat), under_way.match)),
            array.i.valid.eq(issue),
            array.i.payload.access.eq(head),
        ]
        with m.If(take):
            m.d.sync += [
                behind.eq(following_behind),
                head_waits.eq(following_needs & following_behind.any()),
            ]
        with m.Else():
            m.d.sync += [
                behind.eq(behind << 1),
                head_waits.eq(head_needs & behind[:-1].any()),
            ]

        result = array.o.payload
        m.d.sync += [
            self.commit.valid.eq(array.o.valid & result.write),
            self.commit.payload.eq(result.commit),
            self.read.valid.eq(array.o.valid & ~result.write),
            self.read.payload.data.eq(result.data),
            self.error.valid.eq(array.o.valid & result.commit.error),
            self.error.payload.cause.eq(ErrorCause.MEMORY_ERROR),
            self.error.payload.address.eq(result.commit.address),
            self.error.payload.tile.eq(result.commit.tile),
        ]
        for field in ("source", "last", "error"):
            m.d.sync += self.read.payload[field].eq(result.commit[field])

        return m

    def _delay(self, m, following, following_valid, *, take, head_due):
        """Let accesses wait for their time: in a queue that shows them to the head, and in that."""
        config = self._config
        # An access waits in the delay queue from its entry to its time. A whole queue of accesses
        # that wait for each other at the array bounds its age.
        depth = config.memory_max_latency + _DELAY_MARGIN
        oldest = 0xFFFF + (depth + 1) * self.interlock
        # A bit more, the sign of differences.
        now = Signal(range(2 * oldest + 2))
        delayed = data.StructLayout({"access": following.shape(), "entered": now.shape()})
        m.submodules.delay = delay = StreamQueue(shape=delayed, depth=depth)
        # What entered up to here is due: the queue itself takes 1 cycle, so an access of age 1 has
        # not been delayed.
        horizon = Signal.like(now)
        head_entered = Signal.like(now)
        following_due = Signal()
        becomes_due = Signal()
        m.d.sync += [now.eq(now + 1), horizon.eq(now - self.latency)]
        m.d.comb += [
            delay.i.valid.eq(self.access.valid),
            delay.i.payload.access.eq(self.access.payload),
            delay.i.payload.entered.eq(now),
            self.access.ready.eq(delay.i.ready),
            following.eq(delay.o.payload.access),
            following_valid.eq(delay.o.valid),
            delay.o.ready.eq(take),
            following_due.eq(~(horizon - delay.o.payload.entered)[len(now) - 1]),
            becomes_due.eq(~(horizon - head_entered)[len(now) - 1]),
        ]
        with m.If(take):
            m.d.sync += [
                head_due.eq(following_due),
                head_entered.eq(delay.o.payload.entered),
            ]
        with m.Else():
            m.d.sync += head_due.eq(head_due | becomes_due)

        # The occupancy counts accesses whose time has not come.
        m.d.sync += [
            self.leaves.eq(Mux(take, delay.o.valid & following_due, ~head_due & becomes_due)),
            self.occupancy.eq(
                self.occupancy + (self.access.valid & self.access.ready) - self.leaves),
        ]
