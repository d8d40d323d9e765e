"""AXI4's address rules, for both directions."""

from amaranth import Cat, Mux, Signal

__all__ = ["FIXED", "WRAP", "burst_is_legal", "next_address"]

#: Values of AxBURST besides INCR (1); 3 is reserved.
FIXED, WRAP = 0, 2


def burst_is_legal(config, burst):
    """Whether a burst (an `axi_address`) is no wider than the bus, and of a type that exists."""
    return (burst.size <= config.beat_shift) & (burst.burst != 3)


def next_address(m, burst, address):
    """Address of the beat that follows the one at ``address`` in a burst (an `axi_address`).

    The first beat of an INCR burst may be unaligned, the others are aligned to the size. A WRAP
    burst stays within its block of 2, 4, 8 or 16 beats; with a length or a first address that AXI
    does not allow it goes round some addresses of such a block, no more.
    """
    within = Signal(7)
    increased = Signal.like(address)
    block = Signal.like(address)
    m.d.comb += [
        # All bits below the size, so that an increment carries over them.
        within.eq(Cat(burst.size > bit for bit in range(len(within)))),
        increased.eq((address | within) + 1),
        block.eq(burst.len << burst.size),
    ]
    return Mux(burst.burst == FIXED, address,
               Mux(burst.burst == WRAP, address & ~block | increased & block, increased))
