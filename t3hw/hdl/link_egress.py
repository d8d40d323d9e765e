"""Link egress: remote beats of the producer and of the DMA engine become words on the link."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .counting import count_late, waits_next
from .link_delay import LinkDelay
from .link_header import LINK_MAGIC, header_words, link_header
from .packet_merge import PacketMerge
from .packet_queue import PacketQueue
from .seams import ErrorCause, error_event, link_word, remote_beat
from .stream_queue import StreamQueue

__all__ = ["LinkEgress"]

#: How long a word takes: cycles, the same less one, whether that is 0 or 1, and 1/65536 of a cycle.
_rate = data.StructLayout({
    "none": 1,
    "one": 1,
    "interval": 16,
    "less_one": 16,
    "fraction": 16,
})


class LinkEgress(wiring.Component):
    """Send packets of two sources over a link with credits.

    The sources take turns, a packet each. A packet is `header_words` words of `link_header`, and a
    word a beat. A word costs one credit, which the receiver gives back when it takes the word out
    of its buffer. Up to two beats are accepted before their words go, one if the configuration is
    not ``pipelined``. The producer's packets are collected first: a producer that stops in the
    middle of a burst does not keep the DMA engine from the link.

    Throughput one word a cycle. A word may take longer: after a beat the link is free again
    ``interval`` + ``fraction`` / 65536 cycles later, after a header word ``header_interval`` +
    ``header_fraction`` / 65536; with 0 whole cycles a header word takes none of the link's time,
    and does not wait for it. What is left of a cycle is carried from word to word as long as the
    link has something to send: so the average is exact, and the n-th word after a pause leaves in
    the first cycle that is not too early, never before.

    Latency to a packet's first word: 1 cycle from ``dma``, `PacketQueue.latency` more from the last
    beat at ``producer``, and in both cases `LinkDelay.shortest` + ``latency`` cycles, or 1 where
    ``config.link_max_latency`` is 0. A credit counts 1 cycle after its pulse, and as many later as
    the delay line takes. Rates and ``latency`` count from the next cycle on.

    Parameters
    ----------
    config : NodeConfig
        ``link_credits``, ``link_max_latency``, ``burst_beats``, ``pipelined`` and widths.

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
        # The sources see whether there is room here, and nothing of credits and rates.
        m.submodules.merged = merged = StreamQueue(shape=remote_beat(config), depth=2,
                                                   cut=config.pipelined)
        wiring.connect(m, merge.o, merged.i)
        beat = merged.o.payload
        beat_valid = merged.o.valid

        # Header words, then payload.
        words = header_words(config)
        index = Signal(range(words + 1))
        in_payload = Signal()  # index == words
        header = Signal(link_header(config))
        header_bits = Signal(words * config.data_width)
        word = Signal(link_word(config))
        open_ = Signal()
        gone = Signal()
        m.d.comb += [
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
        m.d.comb += merged.o.ready.eq(in_payload & open_ & delay.i.ready)
        with m.If(gone):
            with m.If(~in_payload):
                m.d.sync += [
                    index.eq(index + 1),
                    in_payload.eq(index == words - 1),
                ]
            with m.Elif(beat.last):
                m.d.sync += [
                    index.eq(0),
                    in_payload.eq(0),
                ]

        # The gate: a credit and the word's time. ``owed`` is compared where the credits arrive,
        # before they are delayed, so that one too many never enters the delay line. What decides
        # is kept beside the counts.
        left = Signal(range(config.link_credits + 1), init=config.link_credits)
        any_left = Signal(init=1)
        owed = Signal(range(config.link_credits + 1))
        any_owed = Signal()
        surplus = Signal()
        free = Signal()
        idle = Signal()
        beat_rate = self._rate(m, "beat", self.interval, self.fraction)
        header_rate = self._rate(m, "header", self.header_interval, self.header_fraction)
        m.d.comb += [
            free.eq(~in_payload & header_rate.none),
            open_.eq(any_left & (idle | free)),
            delay.i.valid.eq(beat_valid & open_),
            delay.i.payload.eq(word),
            gone.eq(delay.i.valid & delay.i.ready),
            delay.latency.eq(self.latency),
            surplus.eq(self.credit & ~any_owed),
            delay.credit_i.eq(self.credit & any_owed),
            self.error.payload.cause.eq(ErrorCause.LINK_OVERFLOW),
        ]
        m.d.sync += [
            any_left.eq(waits_next(any_left, left, delay.credit_o, gone)),
            any_owed.eq(waits_next(any_owed, owed, gone, delay.credit_i)),
            self.stall.eq(beat_valid & ~gone),
            self.error.valid.eq(surplus),
        ]
        count_late(m, left, up=delay.credit_o, down=gone)
        count_late(m, owed, up=gone, down=delay.credit_i)
        rate = Signal(_rate)
        m.d.comb += rate.eq(Mux(in_payload, beat_rate, header_rate))
        self._pace(m, rate, gone=gone, free=free, idle=idle)

        return m

    @staticmethod
    def _rate(m, name, interval, fraction):
        """What `_pace` must know of a word's time, in registers."""
        rate = Signal(_rate, name=f"{name}_rate")
        m.d.sync += [
            rate.none.eq(interval == 0),
            rate.one.eq(interval == 1),
            rate.interval.eq(interval),
            rate.less_one.eq(interval - 1),
            rate.fraction.eq(fraction),
        ]
        return rate

    @staticmethod
    def _pace(m, rate, *, gone, free, idle):
        """Say by ``idle`` when the word that has ``gone`` has had its time.

        A fraction that overflows is a cycle more. From a pause on, the first fraction does, since
        nothing leaves in the middle of a cycle.
        """
        pause = Signal(16)
        waits = Signal()  # pause != 0
        carried = Signal(16, init=0xFFFF)
        total = Signal(17)
        m.d.comb += [
            total.eq(carried + rate.fraction),
            idle.eq(~waits),
        ]
        with m.If(gone & ~free):
            with m.If(~rate.none):
                m.d.sync += [
                    pause.eq(Mux(total[16], rate.interval, rate.less_one)),
                    waits.eq(total[16] | ~rate.one),
                    carried.eq(total),
                ]
        with m.Elif(waits):
            m.d.sync += [
                pause.eq(pause - 1),
                waits.eq(pause != 1),
            ]
        with m.Elif(~gone):
            m.d.sync += carried.eq(0xFFFF)
