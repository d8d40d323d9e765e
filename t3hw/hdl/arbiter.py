"""Arbiter: several streams into one, by a policy that can change at run time."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import Policy

__all__ = ["Arbiter"]


class Arbiter(wiring.Component):
    """Merge ``requesters`` streams into one, choosing anew for each transfer.

    Latency 1 cycle from ``i`` to ``o``; throughput one transfer a cycle. Requester 0 is the one
    that ``COMPUTE_FIRST`` prefers; the others take turns.

    ``ROUND_ROBIN`` is exactly fair for any number of requesters: of those that ask, the one whose
    last turn is longest ago is next, and a requester that does not ask costs nothing.
    ``COMPUTE_FIRST`` lets the others through when requester 0 does not ask, or when one of them has
    waited for ``starvation_limit`` cycles. ``MCA`` does the same as ``COMPUTE_FIRST``.

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
        Cycles that the others wait for requester 0 at most; 0: for ever.
    occupancy : In(16)
        Accesses that the memory behind ``o`` has under way. This is where a threshold of ``MCA``
        would be compared; no policy looks at it yet.
    forced : Out(1)
        The transfer that enters in this cycle passes requester 0 because of the starvation limit.

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
            "forced": Out(1),
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
            self.forced.eq(ranked & asks[0] & starved & open_),
        ]
        with m.If(preferred):
            m.d.comb += eligible.eq(1)
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
            m.d.sync += self.o.valid.eq(asks.any())
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
