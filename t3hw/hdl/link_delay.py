"""Link delay: a wire whose latency can be set at run time, for experiments without a real one."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .counting import count_late, waits_next
from .prefetch_queue import PrefetchQueue
from .seams import link_word

__all__ = ["LinkDelay", "PulseDelay"]


class PulseDelay(wiring.Component):
    """Repeat each pulse of ``i`` at ``o``, some cycles later.

    A pulse comes out `shortest` + ``latency`` cycles after it went in; throughput one a cycle.
    After a change of ``latency`` the pulses under way come out as if it had always been so, those
    that are overdue one a cycle; none is lost.

    Parameters
    ----------
    depth : int
        Pulses under way at most, at least 1. With more of them the number that comes out is wrong.
    max_latency : int
        Largest value of ``latency``, at least 0.

    Members
    -------
    i : In(1)
        Pulses.
    o : Out(1)
        The same pulses later; combinational from registers.
    latency : In(range(max_latency + 1))
        Cycles more than `shortest`.

    Raises
    ------
    ValueError
        If ``max_latency`` is below 0, or ``depth`` below 1.
    """

    #: Cycles from ``i`` to ``o`` where ``latency`` is 0.
    shortest = 3

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

        # Each cycle's number of all pulses so far is kept. As many have come out by now as had gone
        # in some cycles ago, or else the next one is due. Numbers are modulo 2 ** width; a
        # difference never reaches half of that, so that its sign tells which is ahead.
        width = bits_for(self._depth) + 1
        time_width = bits_for(self._max_latency + 1)
        # The oldest place is never read in the cycle in which it is written.
        m.submodules.history = history = Memory(shape=width, depth=1 << time_width, init=[],
                                                attrs={"no_rw_check": 1})
        write = history.write_port()
        read = history.read_port()
        now = Signal(time_width)
        latency = Signal(time_width)
        old = Signal()  # all of the history has been written since reset
        known = Signal()  # so has the place that is read
        shown = Signal()
        went = Signal(width)
        gone = Signal(width)
        wanted = Signal(width)
        wanted_known = Signal()
        came = Signal(width)
        ahead = Signal(width)
        m.d.comb += [
            latency.eq(self.latency),
            # A pulse comes late in its cycle, and chooses.
            gone.eq(Mux(self.i, went + 1, went)),
            write.addr.eq(now),
            write.data.eq(gone),
            write.en.eq(1),
            # now - latency - 1, and whether that has been since reset.
            Cat(read.addr, known).eq(now + ~latency),
            read.en.eq(1),
            # wanted - came - 1
            ahead.eq(wanted + ~came),
            self.o.eq(wanted_known & ~ahead[-1]),
        ]
        m.d.sync += [
            now.eq(now + 1),
            old.eq(old | now.all()),
            went.eq(gone),
            shown.eq(known | old),
            wanted.eq(read.data),
            wanted_known.eq(shown),
            came.eq(came + self.o),
        ]

        return m


class LinkDelay(wiring.Component):
    """Delay the words of a link and the credits that come back for them by a time set at run time.

    Words and credits: latency `shortest` + ``latency`` cycles from ``i`` to ``o``, throughput one a
    cycle, order and distances kept as long as ``o`` is ready. What is stored is a link's worth of
    words, and for each cycle back to the longest latency how many there had been of either.

    With ``config.link_max_latency == 0`` there is no delay line: words take 1 cycle (a register),
    credits none, and ``latency`` is not looked at.

    Parameters
    ----------
    config : NodeConfig
        ``link_credits``, ``link_max_latency`` and the link's width.

    Members
    -------
    i, o : stream of `link_word`
        In and out, ``o`` from registers. At most ``link_credits`` words may be anywhere between
        ``i`` and their credit's coming out at ``credit_o``; with a delay line ``i.ready`` is always
        high.
    credit_i, credit_o : In(1), Out(1)
        Credits, a pulse each. At most ``link_credits`` may be under way.
    latency : In(16)
        Cycles to add, at most ``link_max_latency``; higher bits are ignored.
    """

    #: Cycles from ``i`` to ``o``, and of a credit, with a delay line whose ``latency`` is 0.
    shortest = PulseDelay.shortest + 1

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

        m.submodules.words = words = PrefetchQueue(
            shape=link_word(self._config), depth=depth, reserved=True)
        m.submodules.word_times = word_times = PulseDelay(depth=depth, max_latency=max_latency)
        m.submodules.credit_times = credit_times = PulseDelay(depth=depth, max_latency=max_latency)
        # Words fall due on time even while ``o`` is not ready.
        due = Signal(range(depth + 1))
        taken = Signal()
        m.d.comb += [
            self.i.ready.eq(1),
            words.i.valid.eq(self.i.valid),
            words.i.payload.eq(self.i.payload),
            word_times.i.eq(self.i.valid),
            word_times.latency.eq(self.latency),
            taken.eq(self.o.valid & self.o.ready),
            words.o.ready.eq(taken),
            self.o.payload.eq(words.o.payload),
            credit_times.i.eq(self.credit_i),
            credit_times.latency.eq(self.latency),
        ]
        m.d.sync += [
            self.o.valid.eq(waits_next(self.o.valid, due, word_times.o, taken)),
            self.credit_o.eq(credit_times.o),
        ]
        count_late(m, due, up=word_times.o, down=taken)

        return m
