"""DMA engine: 2-D blocks of memory become packets for the neighbour."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .prefetch_queue import PrefetchQueue
from .seams import (
    PAGE_SHIFT, STAMP_WIDTH, block, block_done, byte_count_width, read_beat, read_burst,
    remote_beat, small_memory,
)

__all__ = ["DmaEngine", "dma_busy", "first_read"]

#: What a block hands on, unchanged, to each of its packets.
_IDS = ("op", "dtype", "tracked", "plan", "epoch", "wg", "wf")

#: Which part of the engine has work: ``address`` a block whose reads are not all asked for,
#: ``reads`` bursts that are asked for and not yet wholly in packets, ``data`` beats in the buffer,
#: ``packet`` a beat at the engine's output.
dma_busy = data.StructLayout({"address": 1, "reads": 1, "data": 1, "packet": 1})

#: The first read of a command was issued; ``stamp`` is that of the command's `t3hw.hdl.seams.fire`.
first_read = data.StructLayout({"stamp": STAMP_WIDTH})


def _description(config):
    """What the packet side must know of a burst, written when the read is issued.

    ``destination`` counts in beats and is given where ``row`` is set: a row's later bursts follow
    on. ``skip`` and ``end`` are the first byte of the first beat and the last byte of the last.
    """
    fields = block(config).members
    return data.StructLayout({
        "empty": 1,
        "row": 1,
        "destination": config.addr_width - config.beat_shift,
        "beats": bits_for(config.burst_beats - 1),
        "skip": config.beat_shift,
        "end": config.beat_shift,
        "block_end": 1,
        "last": 1,
        **{name: fields[name] for name in _IDS},
    })


class DmaEngine(wiring.Component):
    """Read 2-D blocks, and send each read burst as a packet.

    A row becomes as few bursts as the 4 KiB rule and ``burst_beats`` allow. Strobes cut a row's
    first and last beat to the row's bytes. A packet's addresses follow each other, and may cross
    4 KiB where the source does not.

    A burst is asked for only if its description finds room in a queue of ``outstanding_reads``. The
    description stays there until the burst's last beat moves to the output, and the data buffer
    holds ``outstanding_reads`` whole bursts: read data always has room, and a consumer that is not
    ready stops the reads.

    A beat that was read with an error is sent with no strobe. A block of no rows or no bytes takes
    a place in the queue, and is done in its turn.

    Latency 1 cycle from a block to its first read request, `data_latency` cycles from a data beat
    to its packet beat, 1 cycle from the block's last packet beat to ``done``. Throughput one burst
    and one beat a cycle, across rows and blocks, while ``outstanding_reads`` bursts last for the
    memory's latency and `data_latency` cycles.

    Parameters
    ----------
    config : NodeConfig
        Widths, ``burst_beats`` and ``outstanding_reads``.

    Members
    -------
    block : In(stream of block)
        What to move. ``ready`` depends on ``read.ready`` in the same cycle. If source and
        destination differ in their offset within a beat, the destination's is not used.
    read : Out(stream of read_burst)
        Read requests.
    data : In(always-ready stream of read_beat)
        The beats asked for, in order. ``last`` and ``source`` are not used.
    packet : Out(stream of remote_beat)
        One packet per burst, in order, from registers.
    done : Out(always-ready stream of block_done)
        A block's last beat was taken by the consumer of ``packet``.
    first_read : Out(always-ready stream of first_read)
        The first read of a block that has ``first`` set is taken in this cycle.
    busy : Out(dma_busy)
        Which part has work; all 0 when the engine is idle.
    bytes : Out(byte_count_width)
        Bytes that are handed over on ``packet`` in this cycle, by strobe.
    stall : Out(1)
        ``packet`` waits for its consumer in this cycle.
    """

    #: Cycles from a data beat to its packet beat: through the buffer and the output register.
    data_latency = PrefetchQueue.latency + 1

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "block": In(stream.Signature(block(config))),
            "read": Out(stream.Signature(read_burst(config))),
            "data": In(stream.Signature(read_beat(config), always_ready=True)),
            "packet": Out(stream.Signature(remote_beat(config))),
            "done": Out(stream.Signature(block_done(config), always_ready=True)),
            "first_read": Out(stream.Signature(first_read, always_ready=True)),
            "busy": Out(dma_busy),
            "bytes": Out(byte_count_width(config)),
            "stall": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        m.submodules.descriptions = descriptions = PrefetchQueue(
            shape=_description(config), depth=config.outstanding_reads, attrs=small_memory(config))
        # A description stands for a whole burst's room.
        m.submodules.buffer = buffer = PrefetchQueue(
            shape=data.StructLayout({"error": 1, "data": config.data_width}),
            depth=config.outstanding_reads * config.burst_beats, attrs=small_memory(config),
            reserved=True)

        active = self._read_side(m, descriptions.i)
        m.d.comb += [
            buffer.i.valid.eq(self.data.valid),
            buffer.i.p.error.eq(self.data.p.error),
            buffer.i.p.data.eq(self.data.p.data),
        ]
        self._packet_side(m, descriptions.o, buffer.o)
        m.d.comb += [
            self.busy.address.eq(active),
            self.busy.reads.eq(descriptions.o.valid),
            self.busy.data.eq(buffer.o.valid),
            self.busy.packet.eq(self.packet.valid),
            self.stall.eq(self.packet.valid & ~self.packet.ready),
        ]

        return m

    def _read_side(self, m, description):
        """Walk through a block's rows, one burst a cycle. Returns whether there is a block."""
        config = self._config
        shift = config.beat_shift
        active = Signal()
        # ``source``, ``destination`` and ``rows`` become those of the current row.
        current = Signal(block(config))
        empty = Signal()
        last_row = Signal()
        announces = Signal()  # the next burst is the first of a command
        fresh = Signal()  # no burst of the row is issued yet
        beat = Signal(config.addr_width - shift)  # first of the burst
        after = Signal.like(beat)  # first after the burst before

        # A row has row_span // B + 1 beats, and one more if the rest of row_span reaches beyond a
        # beat from where the row starts. Lengths are one less than the beats that they count.
        row_span = Signal.like(current.row_bytes)  # bytes of a row, less one
        left = Signal(len(row_span) - shift)  # from the next burst on, without that one more
        carry = Signal()
        row_end = Signal(shift)
        # The longest burst that is allowed from ``beat`` on. Behind a burst that ends a page there
        # is always room for a whole one. Else it depends on how many of them, ``above``, there are
        # to the page's end, and on what remains then, ``below``.
        # ``spare`` is kept, which is ``limit`` inverted, since it goes into the carry chain so.
        limit = Signal.like(self.read.p.beats)
        spare = Signal.like(limit)
        above = Signal(max(PAGE_SHIFT - shift - len(limit), 1))
        below = Signal.like(limit)
        difference = Signal(len(left) + 2)
        row_done = Signal()
        finished = Signal()
        beats = Signal.like(self.read.p.beats)
        issue = Signal()

        m.d.comb += [
            beat.eq(Mux(fresh, current.source[shift:], after)),
            limit.eq(~spare),
            # left + carry - limit - 1 in one carry chain, which both counts down and compares.
            difference.eq(Cat(1, left) + Cat(carry, spare, Const(~0, len(left) - len(limit)))),
            row_done.eq(~difference[-1]),
            beats.eq(Mux(row_done, left + carry, limit)),
            finished.eq(empty | (row_done & last_row)),

            self.read.valid.eq(active & ~empty & description.ready),
            self.read.p.address.eq(beat << shift),
            self.read.p.beats.eq(beats),
            description.valid.eq(active & (empty | self.read.ready)),
            description.p.empty.eq(empty),
            description.p.row.eq(fresh),
            description.p.destination.eq(current.destination[shift:]),
            description.p.beats.eq(beats),
            description.p.skip.eq(Mux(fresh, current.source[:shift], 0)),
            description.p.end.eq(Mux(row_done, row_end, ~0)),
            description.p.block_end.eq(finished),
            description.p.last.eq(current.last),
            *(description.p[name].eq(current[name]) for name in _IDS),
            issue.eq(description.valid & description.ready),
            self.block.ready.eq(~active | (issue & finished)),

            self.first_read.valid.eq(issue & announces & ~empty),
            self.first_read.p.stamp.eq(current.stamp),
        ]

        def row_starts(source, span):
            """What follows from where a row begins."""
            room = ~source[shift:PAGE_SHIFT]
            whole = room[len(limit):]
            return [
                Cat(row_end, carry).eq(source[:shift] + span[:shift]),
                spare.eq(~(room[:len(limit)] | Cat(whole, 0).any().replicate(len(limit)))),
                above.eq(whole),
                below.eq(room),
            ]

        next_source = Signal.like(current.source)
        next_span = Signal.like(row_span)
        m.d.comb += [
            next_source.eq(current.source + current.source_pitch),
            next_span.eq(self.block.p.row_bytes - 1),
        ]
        # The same as ``block.ready`` and else ``issue``, but what is chosen does not wait for
        # whether anything is.
        moves = ~active | issue
        with m.If(moves & (~active | finished)):
            m.d.sync += [
                active.eq(self.block.valid),
                current.eq(self.block.payload),
                empty.eq((self.block.p.rows == 0) | (self.block.p.row_bytes == 0)),
                last_row.eq(self.block.p.rows == 1),
                announces.eq(self.block.p.first),
                fresh.eq(1),
                row_span.eq(next_span),
                left.eq(next_span[shift:]),
                *row_starts(self.block.p.source, next_span),
            ]
        with m.Elif(moves):
            m.d.sync += [
                announces.eq(0),
                fresh.eq(row_done),
                after.eq(beat + limit + 1),
            ]
            with m.If(row_done):
                m.d.sync += [
                    current.source.eq(next_source),
                    current.destination.eq(current.destination + current.destination_pitch),
                    current.rows.eq(current.rows - 1),
                    last_row.eq(current.rows == 2),
                    left.eq(row_span[shift:]),
                    *row_starts(next_source, row_span),
                ]
            with m.Else():
                m.d.sync += [
                    left.eq(difference[1:-1]),
                    carry.eq(0),
                    spare.eq(~(below | (above != 1).replicate(len(limit)))),
                    above.eq(above - 1),
                ]
                with m.If(above == 0):
                    m.d.sync += below.eq(~0)

        return active

    def _packet_side(self, m, description, beat):
        """Join each beat of data with the description of its burst, in the output register."""
        config = self._config
        shift = config.beat_shift
        packet = self.packet.p
        # Of what is in the output register:
        ghost = Signal()  # no beat, but an empty block
        block_end = Signal()  # the block's last beat
        failed = Signal()  # the block had an error up to here
        last = Signal()  # the command's last block
        strobed = Signal.like(self.bytes)
        advance = Signal()
        take = Signal()

        position = Signal.like(description.p.beats)
        first_beat = Signal()
        last_beat = Signal()
        error = Signal()
        skip = Signal(shift)
        end = Signal(shift)
        m.d.comb += [
            advance.eq(~self.packet.valid | self.packet.ready),
            take.eq(advance & description.valid & (description.p.empty | beat.valid)),
            beat.ready.eq(advance & description.valid & ~description.p.empty),
            first_beat.eq(position == 0),
            last_beat.eq(description.p.empty | (position == description.p.beats)),
            description.ready.eq(take & last_beat),
            error.eq(beat.p.error & ~description.p.empty),
            skip.eq(Mux(first_beat, description.p.skip, 0)),
            end.eq(Mux(last_beat, description.p.end, ~0)),
            self.bytes.eq(Mux(self.packet.valid & self.packet.ready, strobed, 0)),
        ]
        with m.If(take):
            m.d.sync += position.eq(Mux(last_beat, 0, position + 1))

        # The output register. Its payload changes only when it is free or taken.
        address = Signal(config.addr_width - shift)
        m.d.comb += packet.address.eq(address << shift)
        with m.If(advance):
            m.d.sync += [
                self.packet.valid.eq(take & ~description.p.empty),
                ghost.eq(take & description.p.empty),
            ]
        with m.If(take):
            m.d.sync += [
                address.eq(
                    Mux(description.p.row & first_beat, description.p.destination, address + 1)),
                packet.data.eq(beat.p.data),
                packet.strobe.eq(Cat(
                    ~error & (skip <= byte) & (byte <= end)
                    for byte in range(config.beat_bytes))),
                packet.last.eq(last_beat),
                *(packet[name].eq(description.p[name]) for name in _IDS),
                strobed.eq(Mux(error, 0, end - skip + 1)),
                block_end.eq(last_beat & description.p.block_end),
                # What is in the register now is the beat before, perhaps the last one of its block.
                failed.eq((failed & ~block_end) | error),
                last.eq(description.p.last),
            ]

        m.d.sync += [
            self.done.valid.eq(block_end & (ghost | (self.packet.valid & self.packet.ready))),
            self.done.p.plan.eq(packet.plan),
            self.done.p.last.eq(last),
            self.done.p.error.eq(failed),
        ]
