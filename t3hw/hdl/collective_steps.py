"""Collective steps: a table of steps becomes bursts, in order."""

import functools

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .seams import collective_step, collective_write

__all__ = ["CollectiveSteps", "LONGEST_BURST", "collective_burst"]

#: Beats of the longest burst: with the widest bus, 4 KiB.
LONGEST_BURST = 64
# Words of an entry of the table; an address takes two.
_CONTROL, _SOURCE_A, _SOURCE_B, _DESTINATION = 0, 1, 3, 5


@functools.cache
def collective_burst(config):
    """``beats`` beats of a step; the rest as in `t3hw.hdl.seams.collective_step`."""
    return data.StructLayout(
        collective_step(config).members | {"beats": range(LONGEST_BURST + 1)})


class CollectiveSteps(wiring.Component):
    """Walk through a table of steps, a burst at a time.

    Every burst of a step has ``longest`` beats, but the last one, which has what is left. A step of
    no beats gives no burst. A step whose addresses are not multiples of a longest burst is refused:
    it gives no burst.

    Latency 3 cycles from ``start`` to the first burst; throughput one burst a cycle, also from step
    to step.

    Parameters
    ----------
    config : NodeConfig
        Widths.
    steps : int
        Entries of the table.

    Members
    -------
    table : In, stream of `collective_write`
        Writes to the table; beyond it nothing is written.
    count : In(16)
        Steps to walk through, at most as many as the table has; stable from ``start`` on.
    longest : In(7)
        Beats of a burst, a power of two; stable from ``start`` on.
    start : In(1)
        Pulse: go through the table, from its beginning.
    stop : In(1)
        From the next cycle on there is nothing left to give.
    burst : Out, stream of `collective_burst`
        Bursts.
    active : Out(1)
        Since the cycle after ``start`` bursts have been left to give.
    refused : Out(1)
        Pulse: a step is refused.
    """

    def __init__(self, *, config, steps):
        self._config = config
        self._steps = steps
        super().__init__({
            "table": In(stream.Signature(collective_write(config), always_ready=True)),
            "count": In(16),
            "longest": In(7),
            "start": In(1),
            "stop": In(1),
            "burst": Out(stream.Signature(collective_burst(config))),
            "active": Out(1),
            "refused": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        # The next step stays at the table's output until it is taken.
        index = Signal(16, init=0)
        fetch = Signal()
        fetched = Signal()
        taken = Signal()
        walking = Signal()
        fetched_step = self._table(m, index, fetch)

        step = Signal(collective_step(config))
        given = Signal()
        rest = Signal.like(step.beats)
        burst = self.burst.payload
        unaligned = Signal()
        m.d.comb += [
            fetch.eq(walking & (index != self.count) & (~fetched | taken)),
            taken.eq(fetched & ((step.beats == 0) | given & (rest == 0))),

            *(burst[name].eq(step[name])
              for name in ("source_a", "source_b", "destination", "add", "wait")),
            burst.beats.eq(Mux(step.beats < self.longest, step.beats, self.longest)),
            rest.eq(step.beats - burst.beats),
            self.burst.valid.eq(step.beats != 0),
            given.eq(self.burst.valid & self.burst.ready),

            unaligned.eq((
                (fetched_step.source_a | fetched_step.destination
                 | Mux(fetched_step.add, fetched_step.source_b, 0))
                & (((self.longest - 1)[:7] << config.beat_shift) | (config.beat_bytes - 1))).any()),
            self.refused.eq(taken & unaligned & ~self.stop),
            self.active.eq(walking & (index != self.count) | fetched | (step.beats != 0)),
        ]
        with m.If(fetch):
            m.d.sync += index.eq(index + 1)
        m.d.sync += fetched.eq(fetch | fetched & ~taken)
        with m.If(taken):
            m.d.sync += step.eq(fetched_step)
            with m.If(unaligned):
                m.d.sync += step.beats.eq(0)
        with m.Elif(given):
            m.d.sync += [
                step.beats.eq(rest),
                *(step[name].eq(step[name] + (burst.beats << config.beat_shift))
                  for name in ("source_a", "source_b", "destination")),
            ]

        with m.If(self.stop):
            m.d.sync += [walking.eq(0), fetched.eq(0), step.beats.eq(0)]
        with m.Elif(self.start):
            m.d.sync += [walking.eq(1), index.eq(0)]

        return m

    def _table(self, m, index, fetch):
        """The step that ``index`` gave when ``fetch`` was set; a memory a word of an entry."""
        step = Signal(collective_step(self._config), name="fetched_step")
        width = self._config.addr_width
        control = self._word(m, _CONTROL, 26, index, fetch)
        m.d.comb += Cat(step.beats, step.add, step.wait).eq(control)
        for field, first in (("source_a", _SOURCE_A), ("source_b", _SOURCE_B),
                             ("destination", _DESTINATION)):
            m.d.comb += step[field].eq(Cat(
                self._word(m, first + part, min(width - 32 * part, 32), index, fetch)
                for part in range(-(-width // 32))))
        return step

    def _word(self, m, number, width, index, fetch):
        memory = Memory(shape=width, depth=self._steps, init=[])
        m.submodules[f"word_{number}"] = memory
        write = memory.write_port()
        read = memory.read_port()
        come = self.table.payload
        m.d.comb += [
            write.en.eq(self.table.valid & (come.word == number) & (come.entry < self._steps)),
            write.addr.eq(come.entry),
            write.data.eq(come.data),
            read.en.eq(fetch),
            read.addr.eq(index),
        ]
        return read.data
