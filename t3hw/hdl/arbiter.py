"""Arbiter: several streams into one, by a policy that can change at run time."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import Policy

__all__ = ["Arbiter"]


class Arbiter(wiring.Component):
    """Merge ``requesters`` streams into one, choosing anew for each transfer.

    Latency 1 cycle from ``i`` to ``o``; throughput one transfer a cycle. Requester 0 is the one
    that ``COMPUTE_FIRST`` and ``MCA`` prefer; the others take turns.

    ``ROUND_ROBIN`` is exactly fair for any number of requesters: of those that ask, the one whose
    last turn is longest ago is next, and a requester that does not ask costs nothing.
    ``COMPUTE_FIRST`` lets the others through when requester 0 does not ask. ``MCA`` lets them
    through when requester 0 does not ask and ``occupancy`` is below ``threshold``: so they never
    fill the memory that requester 0 needs next. With both, one of them issues in any case when they
    have waited for ``starvation_limit`` cycles.

    Parameters
    ----------
    shape : shape-like
        Payload of all streams.
    requesters : int
        Number of streams to merge, at least 2.

    Members
    -------
    i : In, ``requesters`` streams of ``shape``
        Requests.
    o : stream of ``shape``
        The chosen ones, registered.
    policy : In(Policy)
        How to choose. May change in any cycle.
    starvation_limit : In(16)
        Cycles that the others wait at most, for requester 0 or for the threshold; 0: for ever.
    occupancy : In(16)
        Accesses that wait behind this arbiter. If it counts a transfer from the cycle after the one
        in which it entered, then ``MCA`` never lets one of the others make it exceed the threshold.
    threshold : In(16)
        With ``MCA``, occupancy from which on only requester 0 issues; 0: none.
    forced : Out(1)
        The transfer that enters in this cycle does so because of the starvation limit: it passes
        requester 0, or the threshold, or both.
    held : Out(1)
        In this cycle another than requester 0 asks, ``o`` could take its transfer, and
        ``COMPUTE_FIRST`` or ``MCA`` holds it back. A turn of ``ROUND_ROBIN`` holds nobody.

    Raises
    ------
    ValueError
        If ``requesters`` is not at least 2.
    """

    def __init__(self, *, shape, requesters):
        if not isinstance(requesters, int) or requesters < 2:
            raise ValueError(f"requesters must be an integer of at least 2, not {requesters!r}")
        self._requesters = requesters
        super().__init__({
            "i": In(stream.Signature(shape)).array(requesters),
            "o": Out(stream.Signature(shape)),
            "policy": In(Policy),
            "starvation_limit": In(16),
            "occupancy": In(16),
            "threshold": In(16),
            "forced": Out(1),
            "held": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        requesters = self._requesters
        asks = Signal(requesters)
        eligible = Signal(requesters)
        chosen = Signal(requesters)
        open_ = Signal()
        ranked = Signal()
        preferred = Signal()
        full = Signal()
        starved = Signal()
        waited = Signal(16)
        last = Signal(range(requesters), init=requesters - 1)

        m.d.comb += [
            asks.eq(Cat(requester.valid for requester in self.i)),
            open_.eq(~self.o.valid | self.o.ready),
            ranked.eq(self.policy != Policy.ROUND_ROBIN),
            starved.eq((self.starvation_limit != 0) & (waited >= self.starvation_limit)
                       & asks[1:].any()),
            preferred.eq(ranked & asks[0] & ~starved),
            full.eq((self.policy == Policy.MCA) & (self.threshold != 0)
                    & (self.occupancy >= self.threshold)),
            self.forced.eq((ranked & asks[0] | full) & starved & open_),
            self.held.eq(ranked & asks[1:].any() & ~chosen[1:].any() & open_),
        ]
        with m.If(preferred):
            m.d.comb += eligible.eq(1)
        with m.Elif(ranked & full & ~starved):
            m.d.comb += eligible.eq(0)
        with m.Elif(ranked):
            m.d.comb += eligible.eq(asks & ~1)
        with m.Else():
            m.d.comb += eligible.eq(asks)

        # The later assignment wins, so go from the one who had the last turn back to its successor.
        with m.Switch(last):
            for had_last in range(requesters):
                with m.Case(had_last):
                    for distance in reversed(range(1, requesters + 1)):
                        candidate = (had_last + distance) % requesters
                        with m.If(eligible[candidate]):
                            m.d.comb += chosen.eq(1 << candidate)

        with m.If(open_):
            m.d.sync += self.o.valid.eq(chosen.any())
        for number, requester in enumerate(self.i):
            m.d.comb += requester.ready.eq(open_ & chosen[number])
            with m.If(open_ & chosen[number]):
                m.d.sync += self.o.payload.eq(requester.payload)
                # A preferred turn of requester 0 is none in the round of the others, or else
                # number 1 would follow each of them.
                with m.If(~preferred):
                    m.d.sync += last.eq(number)

        with m.If(~asks[1:].any() | (open_ & chosen[1:].any())):
            m.d.sync += waited.eq(0)
        with m.Elif(waited != 0xFFFF):
            m.d.sync += waited.eq(waited + 1)

        return m
