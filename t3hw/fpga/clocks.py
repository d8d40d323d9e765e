"""Settings of the families' PLLs for a wanted clock."""

from ..config import ConfigError

__all__ = ["ecp5_pll", "gowin_pll", "ice40_pll"]

#: How far a PLL's clock may be from the wanted one, in parts of it.
_TOLERANCE = 1e-3


def _best(family, reference, wanted, candidates):
    """The candidate ``(clock, settings)`` that is nearest to the wanted clock, or an error."""
    found = min(candidates, key=lambda candidate: abs(candidate[0] - wanted), default=None)
    if found is None or abs(found[0] - wanted) > _TOLERANCE * wanted:
        near = f"; the nearest is {found[0]:.0f} Hz" if found else ""
        raise ConfigError(f"clock_hz = {wanted} cannot be made from the board's clock of "
                          f"{reference:.0f} Hz by a PLL of {family}{near}")
    return found[1] | {"clock_hz": found[0]}


def ecp5_pll(reference, wanted):
    """Dividers of an EHXPLLL whose feedback is its first output.

    Parameters
    ----------
    reference, wanted : float
        Clocks in Hz.

    Returns
    -------
    dict
        ``input``, ``feedback``, ``output`` dividers, and ``clock_hz``, which is within 0.1 % of
        ``wanted``.

    Raises
    ------
    ConfigError
        If there are none.
    """
    def candidates():
        for into in range(1, 129):
            # The phase detector's range.
            if not 3.125e6 <= reference / into <= 400e6:
                continue
            feedback = max(1, round(wanted * into / reference))
            clock = reference / into * feedback
            # The output divider puts the oscillator into the middle of its range.
            output = min(128, max(1, round(600e6 / clock)))
            if feedback <= 80 and 400e6 <= clock * output <= 800e6:
                yield clock, {"input": into, "feedback": feedback, "output": output}

    return _best("ECP5", reference, wanted, candidates())


def ice40_pll(reference, wanted):
    """Settings of an iCE40 PLL with simple feedback:
    ``divr``, ``divf``, ``divq``, ``filter_range``.

    Parameters, other results and errors as of `ecp5_pll`.
    """
    def candidates():
        for divr in range(16):
            phase = reference / (divr + 1)
            if not 10e6 <= phase <= 133e6:
                continue
            filter_range = 1 + sum(phase >= edge for edge in (17e6, 26e6, 44e6, 66e6, 101e6))
            for divf in range(128):
                oscillator = phase * (divf + 1)
                if not 533e6 <= oscillator <= 1066e6:
                    continue
                for divq in range(1, 7):
                    yield oscillator / 2 ** divq, {"divr": divr, "divf": divf, "divq": divq,
                                                   "filter_range": filter_range}

    return _best("iCE40", reference, wanted, candidates())


def gowin_pll(reference, wanted):
    """Settings of a GW1N rPLL: ``input`` and ``feedback`` less one, and the ``output`` divider.

    Parameters, other results and errors as of `ecp5_pll`.
    """
    def candidates():
        for into in range(64):
            phase = reference / (into + 1)
            if not 3e6 <= phase <= 400e6:
                continue
            for feedback in range(64):
                clock = phase * (feedback + 1)
                for output in (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128):
                    if 400e6 <= clock * output <= 1200e6:
                        yield clock, {"input": into, "feedback": feedback, "output": output}

    return _best("GW1N", reference, wanted, candidates())
