"""Regions of the functional device: where bytes belong, and to which tile."""

import numpy as np

__all__ = ["STRADDLES", "RegionMap", "first_byte"]

#: What `RegionMap.look_up` says of bytes that lie in part inside regions, and wholly inside none.
STRADDLES = "straddles"


def first_byte(address, strobe):
    """Address of the first strobed byte of a beat."""
    return address + int(np.argmax(strobe))


class RegionMap:
    """The region table of a node: entries that are enabled. ``registers`` holds all tables."""

    def __init__(self, registers, plans):
        self._registers = registers
        self._plans = plans
        self._regions = []

    def __len__(self):
        return len(self._regions)

    def refresh(self):
        """Take the table as it is now."""
        entries = [self._registers.entry("REGION", index)
                   for index in range(self._registers.size("REGION"))]
        self._regions = [entry for entry in entries if entry["enable"]]

    def look_up(self, address, strobe):
        """The first region that holds all strobed bytes of a beat, `STRADDLES`, or None."""
        first = first_byte(address, strobe)
        last = address + int(np.flatnonzero(strobe)[-1])
        for region in self._regions:
            if region["base"] <= first and last <= region["limit"]:
                return region
        if any(region["base"] <= last and first <= region["limit"] for region in self._regions):
            return STRADDLES
        return None

    @staticmethod
    def ids(region, address, wg, wf):
        """Number within the region, workgroup and wavefront of the tile at an address."""
        if region["tile_id_mode"] == 0:
            return (wg << region["wf_shift"]) + wf, wg, wf
        row, column = divmod(address - region["base"], 1 << region["pitch_log2"])
        columns = region["pitch_log2"] - region["row_bytes_log2"]
        number = (row >> region["rows_log2"] << columns) + (column >> region["row_bytes_log2"])
        return number, number, 0

    def tile(self, region, address, wg, wf):
        """(plan, slot, wg, wf) of a write, or None if that is none of the plan's tiles."""
        number, wg, wf = self.ids(region, address, wg, wf)
        slot = region["first_tile"] + number
        if region["plan"] >= self._plans:
            return None
        owned = self._registers.entry("PLAN", region["plan"])
        is_known = owned["first_tile"] <= slot < owned["first_tile"] + owned["tiles"]
        return (region["plan"], slot, wg, wf) if is_known else None
