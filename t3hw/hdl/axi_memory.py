"""AXI memory: a memory behind an AXI4 master, with adds as read-modify-write."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..config import checked_config
from .arbiter import Arbiter
from .by_parts import any_by_parts, same_by_parts
from .near_memory_adder import NearMemoryAdder
from .popcount import popcount
from .seams import (ErrorCause, Policy, axi_address, axi_read_data, axi_write_data,
                    axi_write_response, byte_count_width, commit, error_event, memory_access,
                    read_beat)
from .stream_queue import StreamQueue
from .stream_spare import StreamSpare

__all__ = ["AxiMemory", "M_AXI_ID_WIDTH"]

#: All transactions have the ID 0: a memory must answer them in order.
M_AXI_ID_WIDTH = 1

_BURST_INCR = 1
#: Places of the window that decide together.
_GROUP = 8
#: Bits of addresses that are compared in one.
_PART = 10
#: Accesses that wait for the window to say what they have in common with it.
_COMING = 2
#: Errors of reads that wait for errors of writes to be reported.
_WAITING_ERRORS = 4


class AxiMemory(wiring.Component):
    """Each access is a single-beat transaction, or a read and a write where it adds somewhere.

    Up to ``config.memory_outstanding`` accesses are under way, from their issue to the response
    that ends them (R of a read, B of a write). Accesses to one beat take effect in the order in
    which they come: one waits, and those behind it, while there is a write to its beat under way,
    or, if it is a write itself, a read. So it finds what an earlier write left, even if the memory
    applies that with the response, and a write does not overtake an earlier read.

    Reads pass earlier writes to other beats, stores do not pass earlier writes. R and B are always
    taken, for space is reserved before an access is issued: whatever AW and W wait for, reads end.

    Latency: from ``access`` to AR 4 cycles, to AW and W ``write_latency`` cycles where nothing is
    added; from R to ``read`` 1 cycle, to AW and W ``add_latency`` cycles; from B to ``commit`` 1
    cycle. Throughput one access a cycle of any kind, an add counting as one, while
    ``memory_outstanding`` covers the time they are under way: for an add ``add_overhead`` + the
    memory's latencies from AR to R and from W to B.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Attributes
    ----------
    write_latency, add_latency : int
        Cycles from ``access`` to AW and W of a store; from R to AW and W of an add.
    add_overhead : int
        Cycles that an add is under way beyond the memory's own latencies.

    Members
    -------
    access : In, stream of `memory_access`
        What to do. Beyond ``config.memory_bytes``, if that is not 0, no transaction is made, reads
        give 0, and the response has ``error`` set.
    read : Out, stream of `read_beat`, always ready
        What reads found, in order.
    commit : Out, stream of `commit`, always ready
        What was written, in order, after the memory's response. ``error`` is set where the memory
        answered with an error, or answered the read of an add with one: then nothing is written.
    error : Out, stream of `error_event`, always ready
        ``MEMORY_ERROR`` for each response that has ``error`` set. Of reads and writes that fail at
        the same time for long, some of the reads are not reported.
    occupancy : Out(16)
        Accesses that were accepted and are not answered: what the far side has begun is not known.
    leaves : Out(2)
        So many of them are answered: they do not count from the next cycle on.
    aw, w, b, ar, r : streams of the AXI4 channels' structs
        The master, with ID 0 of `M_AXI_ID_WIDTH` bits.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    def __init__(self, *, config):
        self._config = checked_config(config)
        self._meta = data.StructLayout({
            "transaction": 1,
            "strobe": config.beat_bytes,
            "slot": ceil_log2(config.memory_outstanding),
            "commit": commit(config),
        })
        self._adder = NearMemoryAdder(config=config, meta=self._meta)
        address = axi_address(config, M_AXI_ID_WIDTH)
        super().__init__({
            "access": In(stream.Signature(memory_access(config))),
            "read": Out(stream.Signature(read_beat(config), always_ready=True)),
            "commit": Out(stream.Signature(commit(config), always_ready=True)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "occupancy": Out(16),
            "leaves": Out(2),
            "aw": Out(stream.Signature(address)),
            "w": Out(stream.Signature(axi_write_data(config))),
            "b": In(stream.Signature(axi_write_response(config, M_AXI_ID_WIDTH))),
            "ar": Out(stream.Signature(address)),
            "r": In(stream.Signature(axi_read_data(config, M_AXI_ID_WIDTH))),
        })

    @property
    def write_latency(self):
        # Those that come, the next one, head, order of writes, adder, AW and W queues.
        return 5 + self._adder.latency

    @property
    def add_latency(self):
        # Old values, adder, AW and W queues.
        return 2 + self._adder.latency

    @property
    def add_overhead(self):
        # AR queue, from R to AW and W, and the place that a B frees is counted two cycles later.
        return 3 + self.add_latency

    def elaborate(self, platform):
        m = Module()

        config = self._config
        places = config.memory_outstanding
        meta_layout = self._meta
        slot_shape = meta_layout["slot"].shape

        m.submodules.adder = adder = self._adder

        # Head: the next access, and all that can be said of it before it is issued. Behind it is
        # the one that follows, and behind that the queue of those that come.
        head_layout = data.StructLayout({
            "access": memory_access(config),
            "outside": 1,
            "adds": 1,
            "bytes": byte_count_width(config),
        })
        head_valid = Signal()
        head = Signal(head_layout)
        issue = Signal()
        moves = Signal()
        next_valid = Signal()
        next_ = Signal(memory_access(config))
        takes = Signal()
        m.submodules.coming = coming = StreamQueue(shape=memory_access(config), depth=_COMING)
        wiring.connect(m, wiring.flipped(self.access), coming.i)
        entering = coming.o.payload
        if config.memory_bytes:
            outside = next_.address >= config.memory_bytes
        else:
            outside = 0
        m.d.comb += [
            moves.eq(~head_valid | issue),
            takes.eq(~next_valid | moves),
            coming.o.ready.eq(takes),
        ]
        with m.If(takes):
            m.d.sync += [next_valid.eq(coming.o.valid), next_.eq(entering)]
        with m.If(moves):
            m.d.sync += [
                head_valid.eq(next_valid),
                head.access.eq(next_),
                head.outside.eq(outside),
                head.adds.eq(next_.write & next_.add.any() & ~outside),
                head.bytes.eq(Mux(outside, 0, popcount(next_.strobe))),
            ]

        # The window of accesses under way: places that are taken in turn, and freed in any order.
        # Which beats an access has in common with them is found out when it enters; which of them
        # it waits for, of the two one being a write, when it moves to the head. That goes to
        # registers, some places in each that decides. A comparison of whole addresses takes too
        # long, so it is one of their parts.
        busy = Signal(places)
        ends = Signal(places)
        reading = Signal(places)
        parts = -(-(config.addr_width - config.beat_shift) // _PART)
        same = [Signal(parts, name=f"same_{place}") for place in range(places)]
        same_as_head = Signal(parts)
        blocks = Signal(places)
        finds = Signal(places)
        blocked = Signal(-(-places // _GROUP))
        slot = Signal(slot_shape)
        turn = Signal(places, init=1)  # the same, a bit a place
        free = Signal(init=1)  # so is that place
        entering_beat, next_beat, head_beat = (
            access.address[config.beat_shift:] for access in (entering, next_, head.access))
        enters_as_head = Signal(parts)
        m.d.comb += enters_as_head.eq(same_by_parts(entering_beat, head_beat, _PART))
        with m.If(takes):
            m.d.sync += same_as_head.eq(
                Mux(next_valid, same_by_parts(entering_beat, next_beat, _PART), enters_as_head))
        for place in range(places):
            beat = Signal(head_beat.shape(), name=f"beat_{place}")
            with m.If(issue & turn[place]):
                m.d.sync += [
                    beat.eq(head_beat),
                    reading[place].eq(~head.access.write),
                ]
            with m.If(takes):
                m.d.sync += same[place].eq(
                    Mux(head_valid & turn[place], enters_as_head,
                        same_by_parts(entering_beat, beat, _PART)))
            # The head takes the place whose turn it is, in the cycle in which the next one moves.
            m.d.comb += finds[place].eq(Mux(
                head_valid & turn[place],
                same_as_head.all() & (next_.write | head.access.write),
                same[place].all() & busy[place] & ~ends[place]
                & (next_.write | ~reading[place])))
        waits = blocks & ~ends
        m.d.sync += [
            blocks.eq(Mux(moves, finds, waits)),
            blocked.eq(Mux(moves, any_by_parts(finds, _GROUP), any_by_parts(waits, _GROUP))),
        ]

        # Each access under way has a place in its order queue, in that of the commits, and for its
        # old value, so these queues are never full where they are written.
        read_layout = data.StructLayout({
            "adds": 1,
            "outside": 1,
            "source": head.access.source.shape(),
            "last": 1,
            "address": config.addr_width,
            "slot": slot_shape,
        })
        write_layout = data.StructLayout({
            "adds": 1,
            "dtype": head.access.dtype.shape(),
            "add": config.lanes,
            "data": config.data_width,
            "meta": meta_layout,
        })
        old_layout = data.StructLayout({"data": config.data_width, "error": 1})
        m.submodules.reads = reads = StreamQueue(shape=read_layout, depth=places)
        m.submodules.writes = writes = StreamQueue(shape=write_layout, depth=places)
        m.submodules.olds = olds = StreamQueue(shape=old_layout, depth=places)
        m.submodules.commits = commits = StreamQueue(shape=meta_layout, depth=places)
        m.submodules.aw_queue = aw_queue = StreamQueue(shape=self.aw.payload.shape(), depth=2)
        m.submodules.w_queue = w_queue = StreamQueue(shape=self.w.payload.shape(), depth=2)
        m.submodules.ar_queue = ar_queue = StreamQueue(shape=self.ar.payload.shape(), depth=2)
        wiring.connect(m, aw_queue.o, wiring.flipped(self.aw))
        wiring.connect(m, w_queue.o, wiring.flipped(self.w))
        wiring.connect(m, ar_queue.o, wiring.flipped(self.ar))

        # Issue.
        read_ends = Signal()
        write_ends = Signal()
        fetches = Signal()
        m.d.comb += [
            issue.eq(head_valid & ~blocked.any() & free & ar_queue.i.ready),
            fetches.eq(head.adds | (~head.access.write & ~head.outside)),

            ar_queue.i.valid.eq(issue & fetches),
            self._transaction(ar_queue.i.payload, head.access.address),

            reads.i.valid.eq(issue & (head.adds | ~head.access.write)),
            reads.i.payload.adds.eq(head.adds),
            reads.i.payload.outside.eq(head.outside),
            reads.i.payload.source.eq(head.access.source),
            reads.i.payload.last.eq(head.access.last),
            reads.i.payload.address.eq(head.access.address),
            reads.i.payload.slot.eq(slot),

            writes.i.valid.eq(issue & head.access.write),
            writes.i.payload.adds.eq(head.adds),
            writes.i.payload.dtype.eq(head.access.dtype),
            writes.i.payload.add.eq(Mux(head.adds, head.access.add, 0)),
            writes.i.payload.data.eq(head.access.data),
            writes.i.payload.meta.transaction.eq(~head.outside),
            writes.i.payload.meta.strobe.eq(head.access.strobe),
            writes.i.payload.meta.slot.eq(slot),
            writes.i.payload.meta.commit.error.eq(head.outside),
            writes.i.payload.meta.commit.bytes.eq(head.bytes),
        ]
        for field in ("source", "tag", "last", "address", "tile"):
            m.d.comb += writes.i.payload.meta.commit[field].eq(head.access[field])
        with m.If(issue):
            m.d.sync += [slot.eq(slot + 1), turn.eq(turn.rotate_left(1))]

        # Reads end with R. What an add reads goes to the adder.
        asked = reads.o.payload
        read_error = Signal()
        m.d.comb += [
            self.r.ready.eq(reads.o.valid & ~asked.outside),
            reads.o.ready.eq(asked.outside | self.r.valid),
            olds.i.valid.eq(self.r.valid & self.r.ready & asked.adds),
            olds.i.payload.data.eq(self.r.payload.data),
            olds.i.payload.error.eq(self.r.payload.resp[1]),
            read_ends.eq(reads.o.valid & reads.o.ready & ~asked.adds),
            read_error.eq(asked.outside | self.r.payload.resp[1]),
        ]
        m.d.sync += [
            self.read.valid.eq(read_ends),
            self.read.payload.source.eq(asked.source),
            self.read.payload.last.eq(asked.last),
            self.read.payload.error.eq(read_error),
            self.read.payload.data.eq(Mux(read_error, 0, self.r.payload.data)),
        ]

        # Writes pass the adder in order; one that adds waits for its old value. If that could not
        # be read, nothing is written.
        ahead = writes.o.payload
        complete = Signal()
        unread = Signal()
        m.d.comb += [
            complete.eq(~ahead.adds | olds.o.valid),
            unread.eq(ahead.adds & olds.o.payload.error),
            writes.o.ready.eq(adder.i.ready & complete),
            olds.o.ready.eq(adder.i.ready & writes.o.valid & ahead.adds),
            adder.i.valid.eq(writes.o.valid & complete),
            adder.i.payload.dtype.eq(ahead.dtype),
            adder.i.payload.add.eq(ahead.add),
            adder.i.payload.old.eq(olds.o.payload.data),
            adder.i.payload.new.eq(ahead.data),
            adder.i.payload.meta.eq(ahead.meta),
        ]
        with m.If(unread):
            m.d.comb += [
                adder.i.payload.meta.transaction.eq(0),
                adder.i.payload.meta.commit.error.eq(1),
                adder.i.payload.meta.commit.bytes.eq(0),
            ]

        # AW, W and the order of commits take a write in the same cycle. With a place aside the
        # adder, and what it takes from, do not wait for their readies.
        m.submodules.added = added = StreamSpare(shape=adder.o.payload.shape())
        wiring.connect(m, adder.o, added.i)
        result = added.o.payload
        sends = Signal()
        m.d.comb += [
            sends.eq(added.o.valid & result.meta.transaction),
            aw_queue.i.valid.eq(sends & w_queue.i.ready),
            self._transaction(aw_queue.i.payload, result.meta.commit.address),
            w_queue.i.valid.eq(sends & aw_queue.i.ready),
            w_queue.i.payload.data.eq(result.data),
            w_queue.i.payload.strb.eq(result.meta.strobe),
            w_queue.i.payload.last.eq(1),
            added.o.ready.eq(~result.meta.transaction | (aw_queue.i.ready & w_queue.i.ready)),
            commits.i.valid.eq(added.o.valid & added.o.ready),
            commits.i.payload.eq(result.meta),
        ]

        # Writes end with B, in order.
        written = commits.o.payload
        write_error = Signal()
        m.d.comb += [
            self.b.ready.eq(commits.o.valid & written.transaction),
            commits.o.ready.eq(~written.transaction | self.b.valid),
            write_ends.eq(commits.o.valid & commits.o.ready),
            write_error.eq(written.commit.error | (written.transaction & self.b.payload.resp[1])),
        ]
        m.d.sync += [
            self.commit.valid.eq(write_ends),
            self.commit.payload.eq(written.commit),
            self.commit.payload.error.eq(write_error),
        ]
        with m.If(write_error):
            m.d.sync += self.commit.payload.bytes.eq(0)

        def bit(enable, slot):
            return Mux(enable, 1 << slot, 0)

        # The place of the next head is another. Both are looked at before it is known whether there
        # is one.
        still_busy = busy & ~ends
        # In the window, the head, the one behind it, and those that come.
        under_way = Signal(range(places + 2 + _COMING + 1))
        m.d.sync += [
            ends.eq(bit(read_ends, asked.slot) | bit(write_ends, written.slot)),
            busy.eq(still_busy | turn & issue.replicate(places)),
            free.eq(Mux(issue, ~(still_busy & turn.rotate_left(1)).any(),
                        ~(still_busy & turn).any())),
            under_way.eq(under_way + (self.access.valid & self.access.ready) - self.leaves),
        ]
        m.d.comb += [self.leaves.eq(read_ends + write_ends), self.occupancy.eq(under_way)]

        # A write and a read may fail in the same cycle; there is one report a cycle, writes first.
        m.submodules.reports = reports = Arbiter(shape=error_event(config), requesters=2)
        m.submodules.failed_reads = failed_reads = StreamQueue(shape=config.addr_width,
                                                               depth=_WAITING_ERRORS)
        of_write, of_read = reports.i
        m.d.comb += [
            reports.policy.eq(Policy.COMPUTE_FIRST),
            of_write.valid.eq(self.commit.valid & self.commit.payload.error),
            of_write.payload.cause.eq(ErrorCause.MEMORY_ERROR),
            of_write.payload.address.eq(self.commit.payload.address),
            of_write.payload.tile.eq(self.commit.payload.tile),
            failed_reads.i.valid.eq(read_ends & read_error),
            failed_reads.i.payload.eq(asked.address),
            failed_reads.o.ready.eq(of_read.ready),
            of_read.valid.eq(failed_reads.o.valid),
            of_read.payload.cause.eq(ErrorCause.MEMORY_ERROR),
            of_read.payload.address.eq(failed_reads.o.payload),
            reports.o.ready.eq(1),
            self.error.valid.eq(reports.o.valid),
            self.error.payload.eq(reports.o.payload),
        ]

        return m

    def _transaction(self, channel, address):
        """Statements that make ``channel`` a single beat at ``address``."""
        return [
            channel.addr.eq(address),
            channel.size.eq(self._config.beat_shift),
            channel.burst.eq(_BURST_INCR),
        ]
