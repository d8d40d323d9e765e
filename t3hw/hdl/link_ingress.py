"""Link ingress: packets from the neighbour become memory requests, or are refused."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import AddressMap
from .link_header import LINK_MAGIC, header_words, link_header
from .popcount import popcount
from .seams import (
    EPOCH_WIDTH, Dtype, ErrorCause, MemoryOp, Source, Writer, byte_count_width, error_event,
    link_word, memory_request, next_epoch, plan_views, plan_width, table_write, tile_tag,
)
from .stream_queue import StreamQueue

__all__ = ["LinkIngress"]


class LinkIngress(wiring.Component):
    """Take packets off the link, check each against plans and regions, and ask memory for the good
    beats.

    Once for each packet, when its header is in:

    * A wrong magic or operation, an end within the header, more than ``burst_beats`` beats:
      LINK_FORMAT.
    * Tracked, of a plan that does not exist: REFUSED_PACKET.
    * Tracked, of the armed plan's epoch: goes on. Of the epoch with which the plan will be armed
      next: all of the link waits for that, for ``hold_timeout`` cycles at most, then HOLD_TIMEOUT.
      Of any other epoch: STALE_PACKET.

    Then for each beat:

    * In no region: UNMAPPED_PACKET. Across a region's edge: REFUSED_PACKET.
    * The region does not accept the operation, is tracked where the packet is not or the other way
      round, is of another plan, or, for an update, of another dtype: REFUSED_PACKET.
    * Tracked, and the plan has been stopped since the packet's first beat: STALE_PACKET.
    * Tracked, and the tile is none of the plan's: UNKNOWN_TILE.

    What is refused changes nothing and harms nothing behind it: of the first kind the rest of the
    packet is dropped and reported once, of the second kind the beat. A beat without strobes asks
    for nothing.

    Latency 9 cycles from a word at ``rx`` to its request; throughput one word a cycle, header words
    included.

    Parameters
    ----------
    config : NodeConfig
        ``link_credits`` is the depth of the buffer.

    Members
    -------
    rx : stream of `link_word`
        The link. Not ready when the buffer is full, which a sender that heeds credits never sees.
    credit : Out(1)
        High for one cycle for each word taken out of the buffer; registered.
    request : stream of `memory_request`
        STOREs and UPDATEs, registered.
    table : In, stream of `table_write`
        Table writes; the region table is taken from them.
    plans : In(plan_views)
        State of the plans.
    error : Out, stream of `error_event`
        Reports, registered. The tile is known where packet and region are tracked; the
        address of a LINK_FORMAT is 0.
    hold_timeout : In(32)
        Cycles that a packet may wait for its plan; 0: for ever.
    holding : Out(1)
        A packet waits for its plan; registered.
    holding_plan : Out
        Which plan that is.
    busy : Out(plans)
        A bit a plan: a beat in here has been found to belong to its run, and is not yet handed over
        to ``request``. Combinational from registers.
    events : Out
        ``update_bytes``, ``store_bytes``: bytes that entered the request register, one cycle later.
    """

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "rx": In(stream.Signature(link_word(config))),
            "credit": Out(1),
            "request": Out(stream.Signature(memory_request(config))),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "plans": In(plan_views(config)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "hold_timeout": In(32),
            "holding": Out(1),
            "holding_plan": Out(plan_width(config)),
            "busy": Out(config.plans),
            "events": Out(data.StructLayout({
                "update_bytes": byte_count_width(config),
                "store_bytes": byte_count_width(config),
            })),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        # One token a beat, and one for each packet that is refused as a whole: errors keep their
        # order.
        token = data.StructLayout({
            "fault": 1,
            "cause": ErrorCause,
            "op": MemoryOp,
            "dtype": Dtype,
            "tracked": 1,
            "plan": plan_width(config),
            "epoch": EPOCH_WIDTH,
            "data": config.data_width,
            "strobe": config.beat_bytes,
            "last": 1,
        })
        m.submodules.address_map = address_map = AddressMap(config=config, meta=token)
        wiring.connect(m, wiring.flipped(self.table), address_map.table)
        m.d.comb += address_map.plans.eq(self.plans)
        self._parse(m, address_map.i)
        self._decide(m, address_map.o)

        return m

    def _parse(self, m, tokens):
        """Cut the link's words into packets; decide what concerns a packet as a whole."""
        config = self._config
        m.submodules.buffer = buffer = StreamQueue(
            shape=link_word(config), depth=config.link_credits)
        wiring.connect(m, wiring.flipped(self.rx), buffer.i)
        word = buffer.o

        words = header_words(config)
        index = Signal(range(max(words, 2)))
        header_bits = Signal(words * config.data_width)
        header = data.View(link_header(config), header_bits[:link_header(config).size])
        left = Signal(range(config.burst_beats + 1))
        send = Signal()
        fault = Signal()
        cause = Signal(ErrorCause)
        m.d.comb += [
            tokens.payload.address.eq(header.beat << config.beat_shift),
            tokens.payload.strobe.eq(word.payload.keep),
            tokens.payload.wg.eq(header.wg),
            tokens.payload.wf.eq(header.wf),
            tokens.payload.meta.fault.eq(fault),
            tokens.payload.meta.cause.eq(cause),
            *(tokens.payload.meta[name].eq(header[name])
              for name in ("op", "dtype", "tracked", "plan", "epoch")),
            tokens.payload.meta.data.eq(word.payload.data),
            tokens.payload.meta.strobe.eq(word.payload.keep),
            tokens.payload.meta.last.eq(word.payload.last),
            tokens.valid.eq(word.valid & send),
        ]
        taken = Signal()
        m.d.comb += taken.eq(word.valid & word.ready)
        m.d.sync += self.credit.eq(taken)

        # The plan's view of the packet.
        view = self.plans[header.plan]
        exists = Signal()
        current = Signal()
        early = Signal()
        m.d.comb += [
            exists.eq(header.plan < config.plans),
            current.eq(view.armed & (view.epoch == header.epoch)),
            early.eq(header.epoch == next_epoch(view.epoch)),
        ]
        holds = Signal()
        expired = Signal()
        waited = Signal(32)
        m.d.sync += [
            waited.eq(Mux(holds, waited + 1, 0)),
            expired.eq(holds & (self.hold_timeout != 0) & (waited + 1 >= self.hold_timeout)),
            self.holding.eq(holds),
            self.holding_plan.eq(header.plan),
        ]

        def next_beat():
            with m.If(taken):
                m.d.sync += [
                    header.beat.eq(header.beat + 1),
                    left.eq(left - 1),
                ]
                with m.If(word.payload.last):
                    m.next = "HEADER"
                with m.Elif(fault):
                    m.next = "DROP"
                with m.Else():
                    m.next = "REST"

        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += [
                    # A packet that ends here. Only then is there a token, but ready must not wait
                    # for what comes out of a memory.
                    send.eq(word.payload.last),
                    fault.eq(1),
                    cause.eq(ErrorCause.LINK_FORMAT),
                    word.ready.eq(tokens.ready),
                ]
                with m.If(taken):
                    m.d.sync += [
                        header_bits.word_select(index, config.data_width).eq(word.payload.data),
                        index.eq(index + 1),
                        left.eq(config.burst_beats),
                    ]
                    with m.If(word.payload.last):
                        m.d.sync += index.eq(0)
                    with m.Elif(index == words - 1):
                        m.d.sync += index.eq(0)
                        m.next = "FIRST"

            with m.State("FIRST"):
                m.d.comb += [
                    send.eq(1),
                    word.ready.eq(send & tokens.ready),
                ]
                with m.If((header.magic != LINK_MAGIC)
                          | ((header.op != MemoryOp.STORE) & (header.op != MemoryOp.UPDATE))):
                    m.d.comb += [fault.eq(1), cause.eq(ErrorCause.LINK_FORMAT)]
                with m.Elif(header.tracked & ~exists):
                    m.d.comb += [fault.eq(1), cause.eq(ErrorCause.REFUSED_PACKET)]
                with m.Elif(header.tracked & ~current):
                    m.d.comb += fault.eq(1)
                    with m.If(early):
                        m.d.comb += [
                            holds.eq(word.valid),
                            send.eq(expired),
                            cause.eq(ErrorCause.HOLD_TIMEOUT),
                        ]
                    with m.Else():
                        m.d.comb += cause.eq(ErrorCause.STALE_PACKET)
                next_beat()

            with m.State("REST"):
                m.d.comb += [
                    send.eq(1),
                    word.ready.eq(tokens.ready),
                    fault.eq(left == 0),
                    cause.eq(ErrorCause.LINK_FORMAT),
                ]
                next_beat()

            with m.State("DROP"):
                m.d.comb += word.ready.eq(1)
                with m.If(taken & word.payload.last):
                    m.next = "HEADER"

    def _decide(self, m, beats):
        """Decide what concerns a beat; ask memory for the good ones."""
        config = self._config
        beat = beats.payload
        token = beat.meta
        bad = Signal()
        cause = Signal(ErrorCause)
        with m.If(token.fault):
            m.d.comb += [bad.eq(1), cause.eq(token.cause)]
        with m.Elif(beat.any):
            m.d.comb += bad.eq(1)
            with m.If(~beat.match & ~beat.straddle):
                m.d.comb += cause.eq(ErrorCause.UNMAPPED_PACKET)
            with m.Elif(beat.straddle
                        | ~Mux(token.op == MemoryOp.UPDATE, beat.accept_update, beat.accept_store)
                        | (token.tracked != beat.tracked)
                        | (token.tracked & (token.plan != beat.plan))
                        | ((token.op == MemoryOp.UPDATE) & (token.dtype != beat.dtype))):
                m.d.comb += cause.eq(ErrorCause.REFUSED_PACKET)
            with m.Elif(token.tracked & ~(beat.armed & (beat.epoch == token.epoch))):
                m.d.comb += cause.eq(ErrorCause.STALE_PACKET)
            with m.Elif(token.tracked & ~beat.tile_known):
                m.d.comb += cause.eq(ErrorCause.UNKNOWN_TILE)
            with m.Else():
                m.d.comb += bad.eq(0)

        good = Signal()
        tile = Signal(tile_tag(config))
        request = self.request.payload
        update = token.op == MemoryOp.UPDATE
        m.d.comb += [
            beats.ready.eq(~self.request.valid | self.request.ready),
            good.eq(beats.valid & beat.any & ~bad),
            tile.tracked.eq(token.tracked & beat.match & beat.tracked),
            tile.plan.eq(token.plan),
            *(tile[name].eq(beat[name]) for name in ("slot", "wg", "wf")),
        ]
        with m.If(beats.ready):
            m.d.sync += [
                self.request.valid.eq(good),
                request.op.eq(token.op),
                request.dtype.eq(token.dtype),
                request.source.eq(Source.LINK),
                request.last.eq(token.last),
                request.address.eq(beat.address),
                request.data.eq(token.data),
                request.strobe.eq(token.strobe),
                request.touch.enable.eq(update & token.tracked & beat.first_touch),
                request.touch.parity.eq(token.epoch[0]),
                request.touch.writer.eq(Writer.INCOMING),
                request.touch.index.eq(beat.touch_index),
                request.tile.eq(tile),
            ]
        bytes_ = popcount(token.strobe)
        counted = good & beats.ready
        m.d.sync += [
            self.events.update_bytes.eq(Mux(counted & update, bytes_, 0)),
            self.events.store_bytes.eq(Mux(counted & ~update, bytes_, 0)),
            self.error.valid.eq(beats.valid & beats.ready & bad),
            self.error.payload.cause.eq(cause),
            self.error.payload.address.eq(beat.address),
            self.error.payload.tile.eq(tile),
        ]
        # What the header of a malformed packet says is not passed on.
        with m.If(cause == ErrorCause.LINK_FORMAT):
            m.d.sync += [
                self.error.payload.address.eq(0),
                self.error.payload.tile.tracked.eq(0),
            ]
        for plan in range(config.plans):
            m.d.comb += self.busy[plan].eq(
                good & tile.tracked & (tile.plan == plan)
                | self.request.valid & request.tile.tracked & (request.tile.plan == plan))
