"""Intensity monitor: how much a kernel asks of memory, and the threshold that follows from it."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .seams import INTENSITY_LEVELS, INTENSITY_WIDTH, intensity_status

__all__ = ["IntensityMonitor"]

#: Bits of the counts of cycles and of accesses.
_COUNT_WIDTH = 24


class IntensityMonitor(wiring.Component):
    """Measure a kernel's memory intensity in its first stage, and choose a threshold by it.

    In its first stage a kernel has stored nothing of its output yet, so that nothing of it is
    communicated, and what it asks of memory is undisturbed. A measurement runs from the first
    access that issues after a plan was armed to the first store of an output tile, that cycle
    excluded. The intensity is accesses / cycles, in 1/256, rounded down; 0 if the store comes
    first. Cycles beyond 2**24 - 1 are left out, with their accesses.

    The level is the number of the first boundary that the intensity reaches, and the number of
    boundaries if it reaches none. From the arming to the end of the measurement, and before the
    first one, it is 0, the level of the highest intensity: the most careful one where thresholds
    rise with the level. A plan that is armed while one is measured starts a new measurement.

    Latency: from ``armed`` to level 0 in ``status`` 1 cycle, from ``store`` to the measured level
    `latency`; from a level, and from what software sets, to the threshold 1. Throughput: an access
    in every cycle, one measurement after the other.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Attributes
    ----------
    latency : int
        Cycles from ``store`` to ``status.complete``.

    Members
    -------
    armed : In(plans)
        A bit a plan: it is armed. A rising bit starts a measurement.
    access : In(1)
        An access of the compute queue issues.
    store : In(1)
        The producer stores something of an output tile, here or at the neighbour.
    boundaries : In, array of `INTENSITY_WIDTH` bits
        Least intensity of each level but the last, from the highest intensity on.
    thresholds : In, array of 16 bits
        Threshold of each level; 0: none.
    fixed : In(1), fixed_threshold : In(16)
        The threshold is this one, whatever was measured.
    status : Out(intensity_status)
        What was measured, and the threshold in force; registered.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    #: Start, a step for each bit of the quotient, and the table.
    latency = INTENSITY_WIDTH + 2

    def __init__(self, *, config):
        checked_config(config)
        super().__init__({
            "armed": In(config.plans),
            "access": In(1),
            "store": In(1),
            "boundaries": In(INTENSITY_WIDTH).array(INTENSITY_LEVELS - 1),
            "thresholds": In(16).array(INTENSITY_LEVELS),
            "fixed": In(1),
            "fixed_threshold": In(16),
            "status": Out(intensity_status),
        })

    def elaborate(self, platform):
        m = Module()

        status = self.status
        before = Signal.like(self.armed)
        begin = Signal()
        m.d.sync += before.eq(self.armed)
        m.d.comb += begin.eq((self.armed & ~before).any())

        # Between arming and the first access no cycle counts.
        cycles = Signal(_COUNT_WIDTH)
        accesses = Signal(_COUNT_WIDTH)
        started = Signal()
        full = Signal()
        counts = Signal()
        m.d.comb += counts.eq((self.access | started) & ~full)

        # What is left of the accesses, doubled at each step. They are never more than the cycles,
        # so the quotient has one bit before its point.
        steps = Signal(range(INTENSITY_WIDTH + 2))
        left = Signal(_COUNT_WIDTH + 1)
        quotient = Signal(INTENSITY_WIDTH)
        fits = Signal()
        m.d.comb += fits.eq((left >= cycles) & started)

        level = Signal(range(INTENSITY_LEVELS))
        m.d.comb += level.eq(INTENSITY_LEVELS - 1)
        # The later assignment wins, so go from the lowest boundary to the highest.
        for number, boundary in reversed([*enumerate(self.boundaries)]):
            with m.If(quotient >= boundary):
                m.d.comb += level.eq(number)

        with m.If(begin):
            m.d.sync += [
                cycles.eq(0),
                accesses.eq(0),
                started.eq(0),
                full.eq(0),
                steps.eq(0),
                status.measuring.eq(1),
                status.complete.eq(0),
                status.level.eq(0),
            ]
        with m.Elif(steps > 1):
            m.d.sync += [
                quotient.eq(quotient << 1 | fits),
                left.eq(Mux(fits, left - cycles, left) << 1),
                steps.eq(steps - 1),
            ]
        with m.Elif(steps == 1):
            m.d.sync += [
                steps.eq(0),
                status.intensity.eq(quotient),
                status.level.eq(level),
                status.measuring.eq(0),
                status.complete.eq(1),
            ]
        with m.Elif(status.measuring & self.store):
            m.d.sync += [
                left.eq(accesses),
                quotient.eq(0),
                steps.eq(INTENSITY_WIDTH + 1),
            ]
        with m.Elif(status.measuring & counts):
            m.d.sync += [
                cycles.eq(cycles + 1),
                started.eq(1),
                # The last cycle that fits is counted now.
                full.eq(cycles == (1 << _COUNT_WIDTH) - 2),
                accesses.eq(accesses + self.access),
            ]

        m.d.sync += status.threshold.eq(Mux(self.fixed, self.fixed_threshold,
                                            Array(self.thresholds)[status.level]))

        return m
