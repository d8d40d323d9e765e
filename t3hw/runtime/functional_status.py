"""What the functional device reports: counters, errors, interrupts."""

import collections

from t3hw.registers import COUNTERS, ENUMS, REGISTERS, encode_register

__all__ = ["Status"]

_CAUSES = ENUMS["error_cause"]


def _counter_registers():
    """Counter and shift by the name of the register that shows a part of it."""
    places = {}
    for counter in COUNTERS:
        for suffix, shift in (("", 0), ("_LO", 0), ("_HI", 32)):
            if counter.name + suffix in REGISTERS:
                places[counter.name + suffix] = counter.name.lower(), shift
    return places


class Status:
    """Counters and errors, and the registers that show them.

    ``values`` are the words of the registers that are cleared by writing ones. ``counts`` is a
    Counter by name in lower case, live.
    """

    def __init__(self, values):
        self._values = values
        self._places = _counter_registers()
        self._shadow = collections.Counter()
        self._first_error = None
        self.counts = collections.Counter()

    @property
    def interrupt(self):
        """Level of the interrupt output."""
        return bool(self._values["IRQ_STATUS"] & self._values["IRQ_ENABLE"])

    def raise_interrupt(self, **fields):
        """Set bits of IRQ_STATUS."""
        self._values["IRQ_STATUS"] |= encode_register("IRQ_STATUS", **fields)

    def error(self, cause, address, tile):
        """Report an error; ``tile`` is (plan, slot, wg, wf) or None."""
        self.counts["errors"] += 1
        if not self._values["ERROR_STATUS"]:
            self._first_error = cause, address, tile
        self._values["ERROR_STATUS"] |= 1 << _CAUSES[cause]
        self.raise_interrupt(error=1)

    def control_counters(self, snapshot, clear):
        """Copy the counters to the shadow, and clear them after that."""
        if snapshot:
            self._shadow = self.counts.copy()
        if clear:
            self.counts.clear()

    def errors_cleared(self):
        """Bits of ERROR_STATUS have been cleared."""
        if not self._values["ERROR_STATUS"]:
            self._first_error = None

    def live(self, name):
        """Fields of a register that is shown here, or None."""
        if name in self._places:
            counter, shift = self._places[name]
            return {"value": self._shadow[counter] >> shift & 0xFFFFFFFF}
        if name == "ERROR_COUNT":
            return {"count": min(self.counts["errors"], 0xFFFFFFFF)}
        if not name.startswith("FIRST_ERROR"):
            return None
        cause, address, tile = self._first_error or ("UNMAPPED_PACKET", 0, None)
        plan, slot, wg, wf = tile or (0, 0, 0, 0)
        return {
            "FIRST_ERROR_CAUSE": {"cause": _CAUSES[cause], "valid": self._first_error is not None},
            "FIRST_ERROR_ADDRESS_LO": {"value": address & 0xFFFFFFFF},
            "FIRST_ERROR_ADDRESS_HI": {"value": address >> 32},
            "FIRST_ERROR_TILE": {"slot": slot, "plan": plan, "tracked": tile is not None},
            "FIRST_ERROR_IDS": {"wg": wg, "wf": wf},
        }[name]
