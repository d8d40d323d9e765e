"""Arbiter: several streams into one, by a policy that can change at run time."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import Policy
from .spare_place import spare_place

__all__ = ["Arbiter"]


class Arbiter(wiring.Component):
    """Merge ``requesters`` streams into one, choosing anew for each transfer.

    Latency 1 cycle from ``i`` to ``o``; throughput one transfer a cycle. Requester 0 is the one
    that ``COMPUTE_FIRST`` and ``MCA`` prefer; the others take turns.

    ``ROUND_ROBIN`` is exactly fair for any number of requesters: of those that ask, the one whose
    last turn is longest ago is next, and a requester that does not ask costs nothing.
    ``COMPUTE_FIRST`` lets the others through when requester 0 does not ask. ``MCA`` lets them
    through when requester 0 does not ask and it is not ``closed``: so they never fill the memory
    that requester 0 needs next. With both, one of them issues in any case when they have waited for
    ``starvation_limit`` cycles.

    Parameters
    ----------
    shape : shape-like
        Payload of all streams.
    requesters : int
        Number of streams to merge, at least 2.
    spare : bool
        With a place aside, so that ``ready`` does not depend on ``o.ready``: for requesters who
        make much of it.

    Members
    -------
    i : In, ``requesters`` streams of ``shape``
        Requests.
    o : stream of ``shape``
        The chosen ones, registered.
    policy : In(Policy)
        How to choose. A change holds from the next cycle on.
    starvation_limit : In(16)
        Cycles that the others wait at most, for requester 0 or while it is closed; 0: for ever.
        A change holds from the next cycle on.
    closed : In(1)
        Only requester 0 issues in this cycle; without effect on ``ROUND_ROBIN``.
    forced : Out(1)
        The transfer that enters in this cycle does so because of the starvation limit: it passes
        requester 0, or though it is closed, or both.
    held : Out(1)
        In this cycle another than requester 0 asks, there is a place for its transfer, and
        ``COMPUTE_FIRST`` or ``MCA`` holds it back. A turn of ``ROUND_ROBIN`` holds nobody.

    Raises
    ------
    ValueError
        If ``requesters`` is not at least 2.
    """

    def __init__(self, *, shape, requesters, spare=False):
        if not isinstance(requesters, int) or requesters < 2:
            raise ValueError(f"requesters must be an integer of at least 2, not {requesters!r}")
        self._requesters = requesters
        self._spare = spare
        super().__init__({
            "i": In(stream.Signature(shape)).array(requesters),
            "o": Out(stream.Signature(shape)),
            "policy": In(Policy),
            "starvation_limit": In(16),
            "closed": In(1),
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
        # How long they will have waited, this cycle included; and whether that was long enough
        # before it, which a register says so that no comparison stands before the choice.
        waits = Signal(16, init=1)
        starved = Signal()
        last = Signal(range(requesters), init=requesters - 1)

        m.d.comb += [
            asks.eq(Cat(requester.valid for requester in self.i)),
            preferred.eq(ranked & asks[0] & ~starved),
            self.forced.eq(ranked & (asks[0] | self.closed) & starved & open_),
            self.held.eq(ranked & asks[1:].any() & ~chosen[1:].any() & open_),
        ]
        m.d.sync += ranked.eq(self.policy != Policy.ROUND_ROBIN)
        with m.If(preferred):
            m.d.comb += eligible.eq(1)
        with m.Elif(ranked & self.closed & ~starved):
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

        payload = self.i[0].payload
        for number, requester in list(enumerate(self.i))[1:]:
            payload = Mux(chosen[number], requester.payload, payload)
        free = ~self.o.valid | self.o.ready
        if self._spare:
            _aside, aside_full = spare_place(m, value=payload, valid=chosen.any(),
                                             out=self.o.payload, out_valid=self.o.valid, free=free)
            m.d.comb += open_.eq(~aside_full)
        else:
            m.d.comb += open_.eq(free)
            with m.If(open_):
                m.d.sync += [
                    self.o.valid.eq(chosen.any()),
                    self.o.payload.eq(payload),
                ]
        for number, requester in enumerate(self.i):
            m.d.comb += requester.ready.eq(open_ & chosen[number])
            # A preferred turn of requester 0 is none in the round of the others, or else number 1
            # would follow each of them.
            with m.If(open_ & chosen[number] & ~preferred):
                m.d.sync += last.eq(number)

        with m.If(~asks[1:].any() | (open_ & chosen[1:].any())):
            m.d.sync += [waits.eq(1), starved.eq(0)]
        with m.Else():
            m.d.sync += starved.eq((self.starvation_limit != 0)
                                   & (waits >= self.starvation_limit))
            with m.If(waits != 0xFFFF):
                m.d.sync += waits.eq(waits + 1)

        return m
