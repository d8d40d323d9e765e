"""Counters: 64 bits each, counted in narrow parts and kept in a memory."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import checked_config
from ..registers import COUNTERS
from .seams import STAMP_WIDTH, counter_events, counter_levels

__all__ = ["Counters", "counter_control"]

COUNTER_WIDTH = 64

#: What to do with all counters. With both, what is cleared is in the snapshot.
counter_control = data.StructLayout({"snapshot": 1, "clear": 1})


class Counters(wiring.Component):
    """Count events, and show a coherent snapshot of all counters.

    Wide counters in flip-flops would outweigh the blocks that they watch. So each counter adds up
    the events of one *round* in a part just wide enough, all parts are set aside in the same cycle,
    and during the next round they are added one a cycle to full counters in a memory. A round has
    as many cycles as there are counters. As all parts are set aside at once, a snapshot shows all
    counters as of one cycle, and a clear loses nothing and counts nothing twice: what is not in the
    snapshot before is in the count after.

    Latency: an event is in a snapshot that is asked for in the next cycle or later (the time of a
    first read: one cycle more). ``control`` takes 1 to 2 rounds and 2 cycles, at most `latency`.
    Throughput: every event in every cycle.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.
    error_sources : int
        Number of errors that one cycle may bring, at least 1.

    Members
    -------
    events : In(counter_events)
        What this cycle adds.
    levels : In(counter_levels)
        Shown as they are in the snapshot's cycle.
    errors : In(range(error_sources + 1))
        Errors of this cycle.
    first_read : In, stream of ``{stamp}``, always ready
        The first read of a command was issued; the stamp is when its last tile was full.
    cycle : Out(STAMP_WIDTH)
        Cycles since reset, for stamps; no clear touches it.
    control : In, stream of `counter_control`
        Ready for one cycle when it is done.
    clear_marks : Out(1)
        The cycle in which counters restart from 0, for what else restarts with them.
    index : In(range(len(names)))
        Which counter to show.
    value : Out(64)
        Its snapshot, one cycle after ``index``.
    ready : Out(1)
        ``value`` can be trusted; low for about a round after reset, while the memory is zeroed.

    Attributes
    ----------
    names : tuple of str
        Counters by index: those that are counted, in the order of their addresses, and then those
        that are only shown.

    Raises
    ------
    ValueError
        If ``error_sources`` is not at least 1.
    """

    def __init__(self, *, config, error_sources):
        checked_config(config)
        if not isinstance(error_sources, int) or error_sources < 1:
            raise ValueError("error_sources must be an integer of at least 1, "
                             f"not {error_sources!r}")
        events = counter_events(config)
        levels = counter_levels(config)
        added = {"CYCLES": 1, "ERRORS": error_sources, "TRIGGER_LATENCY_COUNT": 1,
                 "TRIGGER_LATENCY_SUM": 2 ** STAMP_WIDTH - 1}
        for name, field in events:
            added[name.upper()] = 1 if field.width == 1 else config.beat_bytes
        #: Largest that a cycle adds, by counter, in the order of their addresses.
        self._added = {counter.name: added[counter.name] for counter in COUNTERS
                       if counter.name in added}
        self._shown = [name.upper() for name, _field in levels]
        self._shown += ["TRIGGER_LATENCY_MIN", "TRIGGER_LATENCY_MAX"]
        self.names = (*self._added, *self._shown)
        super().__init__({
            "events": In(events),
            "levels": In(levels),
            "errors": In(range(error_sources + 1)),
            "first_read": In(stream.Signature(data.StructLayout({"stamp": STAMP_WIDTH}),
                                              always_ready=True)),
            "cycle": Out(STAMP_WIDTH),
            "control": In(stream.Signature(counter_control)),
            "clear_marks": Out(1),
            "index": In(range(len(self.names))),
            "value": Out(COUNTER_WIDTH),
            "ready": Out(1),
        })

    @property
    def latency(self):
        """Cycles from ``control.valid`` to ``control.ready`` at most."""
        return 2 * len(self.names) + 1

    def elaborate(self, platform):
        m = Module()
        count = len(self.names)

        m.d.sync += self.cycle.eq(self.cycle + 1)

        # Time from the commit that filled a command's last tile to its first read.
        measured = Signal()
        latency = Signal(STAMP_WIDTH)
        least = Signal(STAMP_WIDTH)
        most = Signal(STAMP_WIDTH)
        any_measured = Signal()
        m.d.sync += [
            measured.eq(self.first_read.valid),
            latency.eq(self.cycle - self.first_read.p.stamp),
        ]

        # A round: ``step`` is the counter whose part is taken from the set-aside ones.
        step = Signal(range(count))
        last = Signal()
        start = Signal()
        busy = Signal()
        done = Signal()
        # What the round that runs is for. The one after reset zeroes both memories.
        purpose = data.StructLayout({"zeroing": 1, "asked": 1, "snapshot": 1, "clear": 1})
        current = Signal(purpose, init={"zeroing": 1})
        m.d.comb += [
            last.eq(step == count - 1),
            start.eq(last & self.control.valid & ~busy),
            self.clear_marks.eq(start & self.control.p.clear),
            self.control.ready.eq(done),
        ]
        m.d.sync += step.eq(step + 1)
        with m.If(done):
            m.d.sync += busy.eq(0)
        with m.If(last):
            m.d.sync += [
                step.eq(0),
                current.zeroing.eq(0),
                current.asked.eq(start),
                current.snapshot.eq(start & self.control.p.snapshot),
                current.clear.eq(start & self.control.p.clear),
            ]
        with m.If(start):
            m.d.sync += busy.eq(1)

        with m.If(self.clear_marks):
            m.d.sync += any_measured.eq(measured)
        with m.Elif(measured):
            m.d.sync += any_measured.eq(1)
        with m.If(measured):
            with m.If(self.clear_marks | ~any_measured):
                m.d.sync += [least.eq(latency), most.eq(latency)]
            with m.Else():
                with m.If(latency < least):
                    m.d.sync += least.eq(latency)
                with m.If(latency > most):
                    m.d.sync += most.eq(latency)

        added = {"CYCLES": 1, "ERRORS": self.errors, "TRIGGER_LATENCY_COUNT": measured,
                 "TRIGGER_LATENCY_SUM": Mux(measured, latency, 0)}
        added |= {name.upper(): self.events[name] for name, _field in self.events.shape()}
        shown = {name.upper(): self.levels[name] for name, _field in self.levels.shape()}
        shown |= {"TRIGGER_LATENCY_MIN": Mux(any_measured, least, 0),
                  "TRIGGER_LATENCY_MAX": Mux(any_measured, most, 0)}

        aside = {}
        for name in self.names:
            if name in added:
                width = bits_for(self._added[name] * count)
                running = Signal(width, name=f"running_{name.lower()}")
                aside[name] = Signal(width, name=f"aside_{name.lower()}")
                m.d.sync += running.eq(running + added[name])
                with m.If(last):
                    m.d.sync += [running.eq(added[name]), aside[name].eq(running)]
            else:
                aside[name] = Signal(len(shown[name]), name=f"aside_{name.lower()}")
                with m.If(last):
                    m.d.sync += aside[name].eq(shown[name])

        part = Signal(max(len(signal) for signal in aside.values()))
        with m.Switch(step):
            for index, name in enumerate(self.names):
                with m.Case(index):
                    m.d.sync += part.eq(aside[name])

        m.submodules.totals = totals = Memory(shape=COUNTER_WIDTH, depth=count, init=[])
        m.submodules.shadow = shadow = Memory(shape=COUNTER_WIDTH, depth=count, init=[])
        totals_write = totals.write_port()
        totals_read = totals.read_port()
        shadow_write = shadow.write_port()
        shadow_read = shadow.read_port()

        # Second stage: the memory's word and the part meet. Third stage: the sum is written.
        stage = data.StructLayout({"valid": 1, "index": range(count), "keep": 1, "round": purpose})
        adding = Signal(stage)
        writing = Signal(stage)
        total = Signal(COUNTER_WIDTH)
        finished = Signal()
        zeroed = Signal()
        m.d.comb += totals_read.addr.eq(step)
        m.d.sync += [
            adding.valid.eq(1),
            adding.index.eq(step),
            # What is only shown has no sum, and what is in the memory after reset is no number.
            adding.keep.eq((step < len(self._added)) & ~current.zeroing),
            adding.round.eq(current),
            writing.eq(adding),
            total.eq(Mux(adding.keep, totals_read.data, 0) + part),
        ]
        m.d.comb += [
            totals_write.addr.eq(writing.index),
            totals_write.data.eq(Mux(writing.round.clear, 0, total)),
            totals_write.en.eq(writing.valid),
            shadow_write.addr.eq(writing.index),
            shadow_write.data.eq(total),
            shadow_write.en.eq(writing.valid & (writing.round.snapshot | writing.round.zeroing)),
            finished.eq(writing.valid & (writing.index == count - 1)),
            done.eq(finished & writing.round.asked),
            shadow_read.addr.eq(self.index),
            self.value.eq(shadow_read.data),
        ]
        # One cycle more, so that the last word written has been read again.
        with m.If(finished):
            m.d.sync += zeroed.eq(1)
        m.d.sync += self.ready.eq(zeroed)

        return m
