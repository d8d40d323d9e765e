"""Link egress: remote beats of the producer and of the DMA engine become words on the link."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .link_delay import LinkDelay
from .link_header import LINK_MAGIC, header_words, link_header
from .packet_merge import PacketMerge
from .packet_queue import PacketQueue
from .seams import ErrorCause, error_event, link_word, remote_beat

__all__ = ["LinkEgress"]


class LinkEgress(wiring.Component):
    """Send packets of two sources over a link with credits.

    The sources take turns, a packet each. A packet is `header_words` words of `link_header`, and a
    word a beat. A word costs one credit, which the receiver gives back when it takes the word out
    of its buffer; a beat is accepted when its word has gone. The producer's packets are collected
    first: a producer that stops in the middle of a burst does not keep the DMA engine from the
    link.

    Throughput one word a cycle. A word may take longer: after a beat the link is free again
    ``interval`` + ``fraction`` / 65536 cycles later, after a header word ``header_interval`` +
    ``header_fraction`` / 65536; with 0 whole cycles a header word takes none of the link's time, and
    does not wait for it. What is left of a cycle is carried from word to word as long as the
    link has something to send: so the average is exact, and the n-th word after a pause leaves in
    the first cycle that is not too early, never before.

    Latency to a packet's first word: 2 + ``latency`` cycles from ``dma``, 3 + ``latency`` from the
    last beat at ``producer``; one less where ``config.link_max_latency`` is 0. A credit counts 2 + ``latency``
    cycles after its pulse (1 cycle where that is 0).

    Parameters
    ----------
    config : NodeConfig
        ``link_credits``, ``link_max_latency``, ``burst_beats`` and widths.

    Members
    -------
    producer, dma : In, stream of `remote_beat`
        Packets to send.
    tx : stream of `link_word`
        The link.
    credit : In(1)
        High for one cycle for each credit that comes back.
    latency : In(16)
        Cycles that words and credits take longer, at most ``link_max_latency``.
    interval, fraction : In(16)
        Cycles a beat, whole ones and 1/65536. Less than one: one.
    header_interval, header_fraction : In(16)
        The same for a header word; 0 whole cycles: it goes in any cycle.
    stall : Out(1)
        A word waits for a credit, for its time, or for ``tx``; registered.
    error : Out, stream of `error_event`
        LINK_OVERFLOW for each credit that comes back beyond those that were out. It is not counted.
    """

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "producer": In(stream.Signature(remote_beat(config))),
            "dma": In(stream.Signature(remote_beat(config))),
            "tx": Out(stream.Signature(link_word(config))),
            "credit": In(1),
            "latency": In(16),
            "interval": In(16),
            "fraction": In(16),
            "header_interval": In(16),
            "header_fraction": In(16),
            "stall": Out(1),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        m.submodules.delay = delay = LinkDelay(config=config)
        wiring.connect(m, wiring.flipped(self.tx), delay.o)
        m.submodules.collected = collected = PacketQueue(
            shape=remote_beat(config), depth=2 * config.burst_beats)
        wiring.connect(m, wiring.flipped(self.producer), collected.i)

        m.submodules.merge = merge = PacketMerge(shape=remote_beat(config))
        wiring.connect(m, collected.o, merge.a)
        wiring.connect(m, wiring.flipped(self.dma), merge.b)
        beat = merge.o.payload
        beat_valid = merge.o.valid

        # Header words, then payload.
        words = header_words(config)
        index = Signal(range(words + 1))
        in_payload = Signal()
        header = Signal(link_header(config))
        header_bits = Signal(words * config.data_width)
        word = Signal(link_word(config))
        open_ = Signal()
        gone = Signal()
        m.d.comb += [
            in_payload.eq(index == words),
            header.magic.eq(LINK_MAGIC),
            *(header[name].eq(beat[name])
              for name in ("op", "dtype", "tracked", "plan", "epoch", "wg", "wf")),
            header.beat.eq(beat.address[config.beat_shift:]),
            header_bits.eq(header),
        ]
        with m.If(in_payload):
            m.d.comb += [
                word.data.eq(beat.data),
                word.keep.eq(beat.strobe),
                word.last.eq(beat.last),
            ]
        with m.Else():
            m.d.comb += [
                word.data.eq(Array(header_bits.word_select(number, config.data_width)
                                   for number in range(words))[index]),
                word.keep.eq(~0),
            ]
        m.d.comb += merge.o.ready.eq(in_payload & open_ & delay.i.ready)
        with m.If(gone):
            m.d.sync += index.eq(index + 1)
            with m.If(in_payload):
                m.d.sync += index.eq(index)
                with m.If(beat.last):
                    m.d.sync += index.eq(0)

        # The gate: a credit and the word's time. ``owed`` is compared where the credits arrive,
        # before they are delayed, so that one too many never enters the delay line.
        left = Signal(range(config.link_credits + 1), init=config.link_credits)
        owed = Signal(range(config.link_credits + 1))
        surplus = Signal()
        pause = Signal(16)
        free = Signal()
        m.d.comb += [
            free.eq(~in_payload & (self.header_interval == 0)),
            open_.eq((left != 0) & ((pause == 0) | free)),
            delay.i.valid.eq(beat_valid & open_),
            delay.i.payload.eq(word),
            gone.eq(delay.i.valid & delay.i.ready),
            delay.latency.eq(self.latency),
            surplus.eq(self.credit & (owed == 0)),
            delay.credit_i.eq(self.credit & ~surplus),
            self.error.payload.cause.eq(ErrorCause.LINK_OVERFLOW),
        ]
        m.d.sync += [
            left.eq(left - gone + delay.credit_o),
            owed.eq(owed + gone - delay.credit_i),
            self.stall.eq(beat_valid & ~gone),
            self.error.valid.eq(surplus),
        ]
        # A fraction that overflows is a cycle more. From a pause on, the first fraction does, since
        # nothing leaves in the middle of a cycle.
        interval = Signal(16)
        fraction = Signal(16)
        carried = Signal(16, init=0xFFFF)
        total = Signal(17)
        m.d.comb += [
            interval.eq(Mux(in_payload, self.interval, self.header_interval)),
            fraction.eq(Mux(in_payload, self.fraction, self.header_fraction)),
            total.eq(carried + fraction),
        ]
        with m.If(gone & ~free):
            with m.If(interval != 0):
                m.d.sync += [
                    pause.eq(interval - 1 + total[16]),
                    carried.eq(total),
                ]
        with m.Elif(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.Elif(~gone):
            m.d.sync += carried.eq(0xFFFF)

        return m
