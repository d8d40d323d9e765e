"""A second place before a register, so that who fills it sees a register
and no chain of readies."""

from amaranth import Mux, Signal

__all__ = ["spare_place"]


def spare_place(m, *, value, valid, out, out_valid, free):
    """Put values into a register; one that comes while that is not free waits aside.

    Parameters
    ----------
    m : Module
        Gets the logic.
    value, valid : Value
        What comes, and whether something does. It is taken in each cycle in which the place aside
        is not ``full``.
    out, out_valid : Signal
        The register.
    free : Value
        The register takes something new, or nothing.

    Returns
    -------
    tuple of Signal
        The place aside, and whether it is ``full``, a register.
    """
    spare = Signal.like(out)
    full = Signal(name="spare_full")
    with m.If(~full):
        m.d.sync += spare.eq(value)
    with m.If(free):
        m.d.sync += [
            out.eq(Mux(full, spare, value)),
            out_valid.eq(full | valid),
            full.eq(0),
        ]
    with m.Elif(valid):
        m.d.sync += full.eq(1)
    return spare, full
