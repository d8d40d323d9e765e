"""Link ingress: packets from the neighbour become memory requests, or are refused."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import AddressMap
from .link_header import LINK_MAGIC, header_words, link_header
from .popcount import popcount
from .prefetch_queue import PrefetchQueue
from .seams import (
    EPOCH_WIDTH, Dtype, ErrorCause, MemoryOp, Source, Writer, byte_count_width, error_event,
    link_word, memory_request, next_epoch, plan_view, plan_views, plan_width, table_write, tile_tag,
)
from .spare_place import spare_place

__all__ = ["LinkIngress"]


def _beat(config):
    """A word of payload, or the end of a packet that has none.

    ``malformed``: the header says nothing, or the packet has more beats than it may. ``asks``:
    whether the packet goes on depends on its plan. ``homeless``: the header's plan does not exist.
    """
    return data.StructLayout({
        "header": link_header(config),
        "word": link_word(config),
        "malformed": 1,
        "asks": 1,
        "homeless": 1,
    })


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

    Latency `latency` cycles from a word at ``rx`` to its request; throughput one word a cycle,
    header words included.

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
        A packet waits for its plan; registered. A plan that is armed or stopped is seen a cycle
        later here.
    holding_plan : Out
        Which plan that is.
    busy : Out(plans)
        A bit a plan: a beat in here has been found to belong to its run, and is not yet handed over
        to ``request``. Combinational from registers.
    events : Out
        ``update_bytes``, ``store_bytes``: bytes on their way to the request register, one cycle
        later.
    """

    #: Cycles from a word at ``rx`` to its request: the buffer, a stage for the packet, and one for
    #: the beat behind the address map.
    latency = PrefetchQueue.latency + 1 + AddressMap.latency + 1

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
        m.submodules.buffer = buffer = PrefetchQueue(
            shape=link_word(config), depth=config.link_credits)
        wiring.connect(m, wiring.flipped(self.rx), buffer.i)
        word = buffer.o.payload
        header = Signal(link_header(config))  # of the word at the buffer's end
        beat = Signal(_beat(config))  # the one before it, with its own header
        beat_valid = Signal()
        step = Signal()
        taken = Signal()
        m.d.comb += [
            buffer.o.ready.eq(step),
            taken.eq(buffer.o.valid & step),
        ]
        m.d.sync += self.credit.eq(taken)
        payload = self._cut(m, word, header, taken)

        wrong = Signal()
        starts = Signal()  # a packet that counts for a tile
        exists = Signal()
        m.d.comb += [
            # An end within the header; or a header that is none.
            wrong.eq(~payload.valid | (header.magic != LINK_MAGIC)
                     | ((header.op != MemoryOp.STORE) & (header.op != MemoryOp.UPDATE))),
            starts.eq(payload.first & ~wrong & header.tracked),
            exists.eq(header.plan < config.plans),
        ]
        with m.If(step):
            m.d.sync += [
                beat_valid.eq(buffer.o.valid & (payload.valid | word.last)),
                beat.header.eq(header),
                beat.word.eq(word),
                beat.malformed.eq(Mux(payload.first | ~payload.valid, wrong, payload.over)),
                beat.asks.eq(starts & exists),
                beat.homeless.eq(starts & ~exists),
            ]

        # The plan's view of the packet, for the beat that will be here in the next cycle.
        armed = Signal()  # with the packet's epoch
        early = Signal()  # the packet's epoch is the plan's next
        for name, packet, chosen in (("come", header, step), ("stay", beat.header, ~step)):
            view = Signal(plan_view(config), name=f"view_{name}")
            m.d.comb += view.eq(self.plans[packet.plan])
            with m.If(chosen):
                m.d.sync += [
                    armed.eq(view.armed & (view.epoch == packet.epoch)),
                    early.eq(packet.epoch == next_epoch(view.epoch)),
                ]

        dropping = Signal()  # the packet has been refused
        holds = Signal()
        send = Signal()
        fault = Signal()
        cause = Signal(ErrorCause)
        expired = self._hold(m, holds)
        m.d.comb += [
            holds.eq(beat_valid & beat.asks & early),
            send.eq(~(beat.asks & early) | expired),
            step.eq(~beat_valid | (tokens.ready & send)),
            fault.eq(beat.malformed | beat.homeless | beat.asks & ~armed),
        ]
        m.d.sync += self.holding_plan.eq(beat.header.plan)
        with m.If(beat.malformed):
            m.d.comb += cause.eq(ErrorCause.LINK_FORMAT)
        with m.Elif(beat.homeless):
            m.d.comb += cause.eq(ErrorCause.REFUSED_PACKET)
        with m.Else():
            m.d.comb += cause.eq(Mux(early, ErrorCause.HOLD_TIMEOUT, ErrorCause.STALE_PACKET))
        with m.If(beat_valid & step):
            m.d.sync += dropping.eq((dropping | fault) & ~beat.word.last)

        token = tokens.payload
        m.d.comb += [
            tokens.valid.eq(beat_valid & send & ~dropping),
            token.address.eq(beat.header.beat << config.beat_shift),
            token.strobe.eq(beat.word.keep),
            token.wg.eq(beat.header.wg),
            token.wf.eq(beat.header.wf),
            token.meta.fault.eq(fault),
            token.meta.cause.eq(cause),
            *(token.meta[name].eq(beat.header[name])
              for name in ("op", "dtype", "tracked", "plan", "epoch")),
            token.meta.data.eq(beat.word.data),
            token.meta.strobe.eq(beat.word.keep),
            token.meta.last.eq(beat.word.last),
        ]

    def _cut(self, m, word, header, taken):
        """Keep a packet's header, and its address up to date; say what the word is."""
        config = self._config
        words = header_words(config)
        position = Signal(range(words + 1))
        header_bits = Signal(words * config.data_width)
        left = Signal(range(config.burst_beats + 1))
        payload = Signal(data.StructLayout({"valid": 1, "first": 1, "over": 1}))
        m.d.comb += [
            header.eq(header_bits[:header.shape().size]),
            payload.over.eq(left == 0),
        ]
        address = data.View(header.shape(), header_bits[:header.shape().size]).beat
        with m.If(taken):
            with m.If(~payload.valid):
                m.d.sync += [
                    header_bits.word_select(position, config.data_width).eq(word.data),
                    position.eq(position + 1),
                    payload.valid.eq(position == words - 1),
                    payload.first.eq(1),
                    left.eq(config.burst_beats),
                ]
            with m.Else():
                m.d.sync += [
                    address.eq(address + 1),
                    payload.first.eq(0),
                    left.eq(left - 1),
                ]
            with m.If(word.last):
                m.d.sync += [
                    position.eq(0),
                    payload.valid.eq(0),
                ]
        return payload

    def _hold(self, m, holds):
        """Returns whether a packet has waited for its plan as long as it may."""
        waited = Signal(32)  # with this cycle
        limited = Signal()
        expired = Signal()
        m.d.sync += [
            waited.eq(Mux(holds, waited + 1, 1)),
            limited.eq(self.hold_timeout != 0),
            expired.eq(holds & limited & (waited >= self.hold_timeout)),
            self.holding.eq(holds),
        ]
        return expired

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
        request = Signal(memory_request(config))
        update = token.op == MemoryOp.UPDATE
        m.d.comb += [
            good.eq(beats.valid & beat.any & ~bad),
            tile.tracked.eq(token.tracked & beat.match & beat.tracked),
            tile.plan.eq(token.plan),
            *(tile[name].eq(beat[name]) for name in ("slot", "wg", "wf")),
        ]
        m.d.comb += [
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
        # If the clock is to be fast the address map, which is wide, does not wait for whoever takes
        # the requests.
        free = ~self.request.valid | self.request.ready
        inside = [(good, tile), (self.request.valid, self.request.payload.tile)]
        if config.pipelined:
            aside, full = spare_place(m, value=request, valid=good, out=self.request.payload,
                                      out_valid=self.request.valid, free=free)
            m.d.comb += beats.ready.eq(~full)
            inside.append((full, aside.tile))
        else:
            m.d.comb += beats.ready.eq(free)
            with m.If(free):
                m.d.sync += [self.request.valid.eq(good), self.request.payload.eq(request)]
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
        with m.If(token.fault & (token.cause == ErrorCause.LINK_FORMAT)):
            m.d.sync += [
                self.error.payload.address.eq(0),
                self.error.payload.tile.tracked.eq(0),
            ]
        for plan in range(config.plans):
            m.d.comb += self.busy[plan].eq(Cat(
                there & its.tracked & (its.plan == plan) for there, its in inside).any())
