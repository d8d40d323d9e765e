"""Memory of the functional device: stores, additions, and first touch, beat by beat."""

import dataclasses

import numpy as np

from t3hw.config import DTYPE_BYTES
from t3hw.reference import NUMPY_DTYPES, add

__all__ = ["LOCAL", "INCOMING", "Request", "UpdateMemory"]

LOCAL, INCOMING = 0, 1


@dataclasses.dataclass
class Request:
    """A write of whole beats from ``address`` on; bytes without strobe are left alone.

    ``touch`` is None or (offset of the map, parity, writer); ``tile`` None or (plan, slot, wg, wf).
    """

    op: str
    dtype: str
    source: str
    address: int
    data: np.ndarray
    strobe: np.ndarray
    touch: tuple | None = None
    tile: tuple | None = None


class UpdateMemory:
    """Bytes that can be added to.

    Parameters
    ----------
    config : NodeConfig
        What the node is.
    size : int
        Bytes from address 0 on.
    report : callable
        ``report(cause, address, tile)`` is called for each beat that is not obeyed.
    """

    def __init__(self, config, size, report):
        self._config = config
        self._report = report
        self.data = np.zeros(size, np.uint8)
        self.touched = np.zeros((2, config.touch_beats, config.beat_bytes), bool)

    def clear_touched(self, first, count):
        """Forget who has touched these entries of the map."""
        self.touched[:, (first + np.arange(count)) % self._config.touch_beats] = False

    def write(self, request):
        """Carry a request out. Returns the number of bytes that took effect."""
        where = slice(request.address, request.address + len(request.data))
        if where.stop > len(self.data):
            self._report("MEMORY_ERROR", request.address, request.tile)
            return 0
        old = self.data[where]
        if request.op == "STORE":
            old[request.strobe] = request.data[request.strobe]
            return int(request.strobe.sum())
        if request.dtype not in self._config.dtypes:
            self._report_beats("MISSING_DTYPE", request, request.strobe)
            return 0

        size = DTYPE_BYTES[request.dtype]
        strobes = request.strobe.reshape(-1, size)
        whole = strobes.all(1)
        self._report_beats("PARTIAL_ELEMENT", request, strobes.any(1) & ~whole)
        adds = np.ones_like(whole)
        if request.touch is not None:
            offset, parity, writer = request.touch
            first = (request.address >> self._config.beat_shift) + offset
            beats = len(request.data) // self._config.beat_bytes
            index = (first + np.arange(beats)) % self._config.touch_beats
            is_set = self.touched[:, index].reshape(2, -1, size) == bool(parity)
            repeated = whole & is_set[writer].any(1)
            self._report_beats("DUPLICATE_UPDATE", request, repeated)
            whole = whole & ~repeated
            adds = is_set[1 - writer].all(1)
            marks = self.touched[writer, index].reshape(-1, size)
            marks[whole] = bool(parity)
            self.touched[writer, index] = marks.reshape(beats, -1)
        kind = NUMPY_DTYPES[request.dtype]
        old_values = old.view(kind)
        new_values = request.data.view(kind)
        sums = add(old_values, new_values, request.dtype)
        old_values[whole & adds] = sums[whole & adds]
        old_values[whole & ~adds] = new_values[whole & ~adds]
        return int(whole.sum()) * size

    def _report_beats(self, cause, request, elements):
        """One report for each beat in which one of ``elements`` is set."""
        if elements.any():
            beats = elements.reshape(len(request.data) // self._config.beat_bytes, -1).any(1)
            for beat in np.flatnonzero(beats):
                self._report(cause, request.address + int(beat) * self._config.beat_bytes,
                             request.tile)
