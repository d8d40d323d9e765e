"""Timing and shape of SDR SDRAM chips, as their data sheets give them."""

import dataclasses
import math

__all__ = ["CHIPS", "SdramChip", "SdramError"]


class SdramError(ValueError):
    """A chip or a clock that the SDRAM controller cannot serve; the message quotes the value."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SdramChip:
    """A chip with four banks and 16 data bits. Times are in ns.

    Parameters
    ----------
    name : str
        The part.
    row_bits, column_bits : int
        Of an address within a bank.
    t_rcd, t_rp, t_ras, t_rc, t_rrd, t_wr, t_rfc : float
        From activate to a column, of a precharge, from activate to precharge, from activate to the
        next one of the same bank and of another one, from the last word written to precharge, of a
        refresh.
    t_refi : float
        From one refresh to the next, on the average.
    t_init : float
        From power-up to the first command.
    cas_2_clock_hz : float
        Fastest clock with a CAS latency of 2; 3 beyond it.
    clock_hz : float
        Fastest clock.
    """

    name: str
    row_bits: int
    column_bits: int
    t_rcd: float
    t_rp: float
    t_ras: float
    t_rc: float
    t_rrd: float
    t_wr: float
    t_rfc: float
    t_refi: float
    t_init: float
    cas_2_clock_hz: float
    clock_hz: float

    @property
    def bytes(self):
        """Size."""
        return 2 << 2 + self.row_bits + self.column_bits

    def cycles(self, time, clock_hz):
        """Cycles that take at least ``time`` ns."""
        # A data sheet's 20 ns at 100 MHz are 2 cycles, whatever floating point says.
        return max(math.ceil(time * clock_hz / 1e9 - 1e-6), 1)

    def cas_latency(self, clock_hz):
        """CAS latency at a clock.

        Raises
        ------
        SdramError
            If the clock is too fast for the chip.
        """
        if not 0 < clock_hz <= self.clock_hz:
            raise SdramError(f"clock_hz must be at most {self.clock_hz:.0f}, the limit of "
                             f"{self.name}, not {clock_hz!r}")
        return 2 if clock_hz <= self.cas_2_clock_hz else 3


#: Chips of known boards, in their slowest grade that boards carry.
CHIPS = {chip.name: chip for chip in (
    SdramChip(name="MT48LC16M16A2-75", row_bits=13, column_bits=9, t_rcd=20, t_rp=20, t_ras=44,
              t_rc=66, t_rrd=15, t_wr=15, t_rfc=66, t_refi=64e6 / 8192, t_init=100e3,
              cas_2_clock_hz=100e6, clock_hz=133e6),
    SdramChip(name="AS4C32M16SB-7", row_bits=13, column_bits=10, t_rcd=21, t_rp=21, t_ras=42,
              t_rc=63, t_rrd=14, t_wr=14, t_rfc=63, t_refi=64e6 / 8192, t_init=200e3,
              cas_2_clock_hz=100e6, clock_hz=143e6),
    # The slowest and the smallest of those that ULX3S boards of all revisions carry. A larger one
    # is used in part.
    SdramChip(name="ULX3S", row_bits=13, column_bits=9, t_rcd=21, t_rp=21, t_ras=44,
              t_rc=66, t_rrd=15, t_wr=15, t_rfc=66, t_refi=64e6 / 8192, t_init=200e3,
              cas_2_clock_hz=100e6, clock_hz=133e6),
)}
