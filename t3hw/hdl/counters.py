"""Counters: 64 bits each, counted in narrow parts and kept in a memory."""

import functools
import operator

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import checked_config
from ..registers import COUNTERS
from .seams import STAMP_WIDTH, counter_events, counter_levels

__all__ = ["Counters", "NoCounters", "counter_control"]

COUNTER_WIDTH = 64

#: What to do with all counters. With both, what is cleared is in the snapshot.
counter_control = data.StructLayout({"snapshot": 1, "clear": 1})


class Counters(wiring.Component):
    """Count events, and show a coherent snapshot of all counters.

    Wide counters in flip-flops would outweigh the blocks that they watch. So the full counters are
    in a memory, and the events of one *round* are counted in a part just wide enough. All parts are
    set aside in the same cycle, and during the next round they are added one a cycle to the full
    counters. A round has as many cycles as there are counters. As all parts are set aside at once,
    a snapshot shows all counters as of one cycle, and a clear loses nothing and counts nothing
    twice: what is not in the snapshot before is in the count after.

    Where a cycle adds at most 1, the part is a shift register with one gate, which never stops and
    is never cleared (`ShiftCount`): its place in the sequence less that of the round before, which
    the memory has, is what the round adds.

    Latency: an event is in a snapshot that is asked for in the next cycle or later (the time of a
    first read: one cycle more). ``control`` takes 1 to 2 rounds and 4 cycles, at most `latency`.
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
        return 2 * len(self.names) + 3

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

        # A round: ``turn`` has a bit for each counter, of which one is set: that whose part is
        # taken from those that are set aside; ``step`` is its number.
        turn = Signal(count, init=1)
        step = Signal(range(count))
        last = turn[-1]
        start = Signal()
        busy = Signal()
        done = Signal()
        # What the round that runs is for. The one after reset zeroes the memory: what is in it is
        # no number. One that begins ``anew`` starts from 0, since the one before was for a clear.
        purpose = data.StructLayout(
            {"zeroing": 1, "anew": 1, "asked": 1, "snapshot": 1, "clear": 1})
        current = Signal(purpose, init={"zeroing": 1, "anew": 1})
        m.d.comb += [
            start.eq(last & self.control.valid & ~busy),
            self.clear_marks.eq(start & self.control.p.clear),
            self.control.ready.eq(done),
        ]
        m.d.sync += [
            turn.eq(turn.rotate_left(1)),
            step.eq(step + 1),
        ]
        with m.If(done):
            m.d.sync += busy.eq(0)
        with m.If(last):
            m.d.sync += [
                step.eq(0),
                current.zeroing.eq(0),
                current.anew.eq(current.clear),
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

        # The parts; ``singles`` are those of events that a cycle brings one of at most.
        single = ShiftCount(most=count)
        singles = []
        numbers = []
        for index, name in enumerate(self.names):
            if name in added and self._added[name] == 1:
                running = Signal(single.width, name=f"running_{name.lower()}", init=1)
                with m.If(added[name]):
                    m.d.sync += running.eq(single.after(running))
                kind = singles
            elif name in added:
                running = Signal(bits_for(self._added[name] * count),
                                 name=f"running_{name.lower()}")
                m.d.sync += running.eq(Mux(last, 0, running) + added[name])
                kind = numbers
            else:
                running = shown[name]
                kind = numbers
            aside = Signal(len(running), name=f"aside_{name.lower()}")
            with m.If(last):
                m.d.sync += aside.eq(running)
            kind.append(Mux(turn[index], aside, 0))
        place = Signal(single.width)
        number = Signal(max(len(value) for value in numbers))
        m.d.sync += [
            place.eq(_either(singles)),
            number.eq(_either(numbers)),
        ]

        word = data.StructLayout({"place": single.width, "total": COUNTER_WIDTH})
        # In block RAM: it is small in logic, and its word goes to a register before all else.
        m.submodules.totals = totals = Memory(shape=word, depth=count, init=[],
                                              attrs={"ram_style": "block"})
        # As deep as ``index`` counts, so that it is known whatever that is.
        m.submodules.shadow = shadow = Memory(shape=COUNTER_WIDTH, depth=1 << len(self.index),
                                              init=[], attrs={"ram_style": "block"})
        totals_write = totals.write_port()
        totals_read = totals.read_port()
        shadow_write = shadow.write_port()
        shadow_read = shadow.read_port()

        # A stage for each step: the memory is asked; its word goes to a register, and the part is
        # decoded; what the round adds; the sum; it is written.
        stage = data.StructLayout({"valid": 1, "index": range(count), "keep": 1, "single": 1,
                                   "round": purpose})
        stages = [Signal(stage, name=f"stage_{number}") for number in range(5)]
        m.d.comb += [
            stages[0].valid.eq(1),
            stages[0].index.eq(step),
            # What is only shown has no sum.
            stages[0].keep.eq(~turn[len(self._added):].any() & ~current.anew),
            stages[0].single.eq(Cat(turn[index] for index, name in enumerate(self.names)
                                    if self._added.get(name) == 1).any()),
            stages[0].round.eq(current),
        ]
        for earlier, later in zip(stages, stages[1:]):
            m.d.sync += later.eq(earlier)
        decoded, writing = stages[2], stages[4]
        before = Signal(single.width)
        place_2 = Signal(single.width)
        place_3 = Signal(single.width)
        place_4 = Signal(single.width)
        total_2 = Signal(COUNTER_WIDTH)
        total_3 = Signal(COUNTER_WIDTH)
        total = Signal(COUNTER_WIDTH)
        number_2 = Signal.like(number)
        increment = Signal.like(number)
        finished = Signal()
        zeroed = Signal()
        m.d.comb += totals_read.addr.eq(step)
        m.d.sync += [
            total_2.eq(totals_read.data.total),
            before.eq(totals_read.data.place),
            place_2.eq(single.number(place)),
            number_2.eq(number),
            total_3.eq(Mux(decoded.keep, total_2, 0)),
            place_3.eq(place_2),
            increment.eq(Mux(decoded.single, single.distance(
                Mux(decoded.round.zeroing, 0, before), place_2), number_2)),
            total.eq(total_3 + increment),
            place_4.eq(place_3),
        ]
        m.d.comb += [
            totals_write.addr.eq(writing.index),
            totals_write.data.total.eq(total),
            totals_write.data.place.eq(place_4),
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


class NoCounters(Counters):
    """What a node without monitoring has in the place of `Counters`: nothing is counted.

    Latency: ``control`` is answered at once, and clears what others count. Throughput: one control
    a cycle.
    """

    @property
    def latency(self):
        """Cycles from ``control.valid`` to ``control.ready``."""
        return 0

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.control.ready.eq(1),
            self.clear_marks.eq(self.control.valid & self.control.p.clear),
            self.ready.eq(1),
        ]
        return m


class ShiftCount:
    """Counting by a shift register with one gate: it goes through all values but 0, from 1 on.

    Parameters
    ----------
    most : int
        Largest distance that must be told, 2 to 126.
    """

    #: By width: the bits whose exclusive or makes the sequence the longest.
    _TAPS = {3: (2, 1), 4: (3, 2), 5: (4, 2), 6: (5, 4), 7: (6, 5)}

    def __init__(self, *, most):
        self.width = next(width for width in self._TAPS if most <= (1 << width) - 2)
        one, other = self._TAPS[self.width]
        self._values = [1]
        for _step in range((1 << self.width) - 2):
            value = self._values[-1]
            gate = (value >> one ^ value >> other) & 1
            self._values.append((value << 1 | gate) & (1 << self.width) - 1)
        assert len(set(self._values)) == len(self._values) and 0 not in self._values

    def after(self, value):
        """What follows ``value``."""
        one, other = self._TAPS[self.width]
        return Cat(value[one] ^ value[other], value[:-1])

    def number(self, value):
        """Place of ``value`` in the sequence, from 0 on."""
        return Cat(Cat(value == candidate for place, candidate in enumerate(self._values)
                       if place >> bit & 1).any() for bit in range(self.width))

    def distance(self, start, end):
        """Steps from one place to another."""
        steps = end - start
        return (steps - steps[-1])[:self.width]


def _either(values):
    """The one value of several that is not 0, or 0."""
    return functools.reduce(operator.or_, values)
