"""Link delay: a wire whose latency can be set at run time, for experiments without a real one."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .seams import link_word
from .stream_queue import StreamQueue

__all__ = ["LinkDelay", "PulseDelay"]


class PulseDelay(wiring.Component):
    """Repeat each pulse of ``i`` at ``o``, some cycles later.

    A pulse comes out 1 + ``latency`` cycles after it went in; throughput one a cycle. After a
    change of ``latency`` the pulses under way come out as if it had always been so, those that are
    overdue one a cycle; none is lost.

    Parameters
    ----------
    depth : int
        Pulses under way at most, at least 1. A pulse beyond that is lost.
    max_latency : int
        Largest value of ``latency``, at least 0.

    Members
    -------
    i : In(1)
        Pulses.
    o : Out(1)
        The same pulses later; combinational from registers.
    latency : In(range(max_latency + 1))
        Cycles more than 1.

    Raises
    ------
    ValueError
        If ``max_latency`` is below 0, or ``depth`` below 1.
    """

    def __init__(self, *, depth, max_latency):
        if not isinstance(max_latency, int) or max_latency < 0:
            raise ValueError(f"max_latency must be an integer of at least 0, not {max_latency!r}")
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be an integer of at least 1, not {depth!r}")
        self._depth = depth
        self._max_latency = max_latency
        super().__init__({
            "i": In(1),
            "o": Out(1),
            "latency": In(range(max_latency + 1)),
        })

    def elaborate(self, platform):
        m = Module()

        # Times are modulo 2 ** width. No time to wait and no time overdue reaches half of that, so
        # that the sign of a difference tells which time is earlier.
        width = bits_for(self._max_latency) + 2
        m.submodules.stamps = stamps = StreamQueue(shape=width, depth=self._depth)
        now = Signal(width)
        due = Signal(width)
        overdue = Signal(width)
        m.d.sync += [
            now.eq(now + 1),
            # What came then is due in the next cycle.
            due.eq(now - self.latency),
        ]
        m.d.comb += [
            stamps.i.valid.eq(self.i),
            stamps.i.payload.eq(now),
            overdue.eq(due - stamps.o.payload),
            self.o.eq(stamps.o.valid & ~overdue[-1]),
            stamps.o.ready.eq(self.o),
        ]

        return m


class LinkDelay(wiring.Component):
    """Delay the words of a link and the credits that come back for them by a time set at run time.

    Words: latency 2 + ``latency`` cycles from ``i`` to ``o``, throughput one a cycle, order and
    distances kept as long as ``o`` is ready. Credits: 1 + ``latency`` cycles. What is stored is a
    link's worth of credits, words with their due times, whatever the latency.

    With ``config.link_max_latency == 0`` there is no delay line: words take 1 cycle (a register),
    credits none, and ``latency`` is not looked at.

    Parameters
    ----------
    config : NodeConfig
        ``link_credits``, ``link_max_latency`` and the link's width.

    Members
    -------
    i, o : stream of `link_word`
        In and out. At most ``link_credits`` words may be anywhere between ``i`` and their credit's
        coming out at ``credit_o``; with a delay line ``i.ready`` is then always high.
    credit_i, credit_o : In(1), Out(1)
        Credits, a pulse each. At most ``link_credits`` may be under way.
    latency : In(16)
        Cycles to add, at most ``link_max_latency``; higher bits are ignored.
    """

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(link_word(config))),
            "o": Out(stream.Signature(link_word(config))),
            "credit_i": In(1),
            "credit_o": Out(1),
            "latency": In(16),
        })

    def elaborate(self, platform):
        m = Module()

        depth = self._config.link_credits
        max_latency = self._config.link_max_latency
        if max_latency == 0:
            m.d.comb += [
                self.i.ready.eq(~self.o.valid | self.o.ready),
                self.credit_o.eq(self.credit_i),
            ]
            with m.If(self.i.ready):
                m.d.sync += [
                    self.o.valid.eq(self.i.valid),
                    self.o.payload.eq(self.i.payload),
                ]
            return m

        m.submodules.words = words = StreamQueue(shape=link_word(self._config), depth=depth)
        m.submodules.word_times = word_times = PulseDelay(depth=depth, max_latency=max_latency)
        m.submodules.credit_times = credit_times = PulseDelay(depth=depth, max_latency=max_latency)
        # Words fall due on time even while ``o`` is not ready, so no age ever grows beyond its
        # width.
        due = Signal(range(depth + 1))
        m.d.comb += [
            words.i.valid.eq(self.i.valid),
            words.i.payload.eq(self.i.payload),
            self.i.ready.eq(words.i.ready),
            word_times.i.eq(self.i.valid & self.i.ready),
            word_times.latency.eq(self.latency),
            words.o.ready.eq(self.o.valid & self.o.ready),
            self.o.valid.eq(due != 0),
            self.o.payload.eq(words.o.payload),
            credit_times.i.eq(self.credit_i),
            credit_times.latency.eq(self.latency),
            self.credit_o.eq(credit_times.o),
        ]
        m.d.sync += due.eq(due + word_times.o - words.o.ready)

        return m
