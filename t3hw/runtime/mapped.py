"""Registers of a node in mapped memory: a UIO device, a PCIe BAR, or any file."""

import mmap
import os
import select
import stat
import sys
import time
from pathlib import Path

from t3hw.registers import register_address
from t3hw.registers.traffic import register_address as traffic_address

from .device import DeviceError
from .transport import Transport

__all__ = ["MappedTransport"]

#: Bytes of a node's registers.
NODE_BYTES = 1 << 20
#: Seconds between two looks at an interrupt that does not tell of itself.
_LOOK = 0.0005


class MappedTransport(Transport):
    """Registers of a node that the system maps into memory.

    Each access is one load or store of 32 bits, in the processor's own byte order. Nothing tells of
    an access that the node refuses: on most buses a read gives ones, on some the program ends
    (SIGBUS).

    An interrupt is waited for at the device file where that is one of UIO (``/dev/uio0``); else its
    registers are looked at again and again.

    Parameters
    ----------
    path : str or path-like
        ``/dev/uioN``, ``/sys/bus/pci/devices/…/resourceN``, or a file.
    offset : int
        Where in the file the node's registers begin: a multiple of a page. For map M of a UIO
        device M times the size of a page.
    size : int
        Bytes to map.
    clock_hz : int
        Cycles a second, to turn cycles into time.
    traffic : bool
        Whether the node has traffic engines, whose interrupt is part of its own.

    Raises
    ------
    DeviceError
        If there is no such file, it cannot be mapped, or is too small.
    """

    def __init__(self, path, *, offset=0, size=NODE_BYTES, clock_hz=100_000_000, traffic=False):
        self.path = os.fspath(path)
        self.clock_hz = clock_hz
        self.size = size
        if offset % mmap.ALLOCATIONGRANULARITY or offset < 0:
            raise DeviceError(f"{self.path}: offset must be a multiple of a page, "
                              f"{mmap.ALLOCATIONGRANULARITY} bytes, not {offset:#x}")
        if size < 4 or size % 4:
            raise DeviceError(f"{self.path}: size must be a multiple of 4, not {size}")
        self._interrupts = [(register_address("IRQ_STATUS"), register_address("IRQ_ENABLE"))]
        if traffic:
            self._interrupts.append((traffic_address("IRQ_STATUS"), traffic_address("IRQ_ENABLE")))
        self._file = None
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_SYNC | os.O_CLOEXEC)
            self._check_size(offset, size)
            self._map = mmap.mmap(self._file, size, mmap.MAP_SHARED,
                                  mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
        except (OSError, ValueError) as error:
            self._close_file()
            reason = getattr(error, "strerror", None) or error
            hint = {PermissionError: "; only root may, or who the device's rules allow",
                    FileNotFoundError: "; is the driver loaded?"}.get(type(error), "")
            raise DeviceError(f"{self.path}: cannot map {size:#x} bytes at {offset:#x}: "
                              f"{reason}{hint}") from None
        # An element of such a view is moved by one access of its size.
        self._words = memoryview(self._map).cast("I")
        self._is_uio = Path(self.path).name.startswith("uio") and \
            stat.S_ISCHR(os.fstat(self._file).st_mode)

    def _check_size(self, offset, size):
        """What lies behind a file's end would end the program at the first access."""
        found = os.fstat(self._file)
        if stat.S_ISREG(found.st_mode) and found.st_size < offset + size:
            raise ValueError(f"the file has {found.st_size:#x} bytes")

    def close(self):
        """Give the mapping back."""
        if self._file is not None:
            self._words.release()
            self._map.close()
            self._close_file()

    def _close_file(self):
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _index(self, address):
        if address % 4 or not 0 <= address < self.size:
            raise DeviceError(f"{self.path}: address must be a multiple of 4 below "
                              f"{self.size:#x}, not {address:#x}")
        if self._file is None:
            raise DeviceError(f"{self.path}: is closed")
        return address // 4

    def read32(self, address):
        return self._words[self._index(address)]

    def write32(self, address, value):
        self._words[self._index(address)] = value

    # Interrupt.

    @property
    def interrupt(self):
        """Level of the node's interrupt, from its registers."""
        return any(self.read32(status) & self.read32(enable) for status, enable in self._interrupts)

    def wait_interrupt(self, cycles):
        end = time.monotonic() + cycles / self.clock_hz
        while not self.interrupt:
            left = end - time.monotonic()
            if left <= 0:
                return False
            if self._is_uio:
                self._wait_uio(left)
            else:
                time.sleep(min(left, _LOOK))
        return True

    def _wait_uio(self, seconds):
        """Let the driver pass the interrupt on, and wait for it; it masks it when it comes."""
        os.write(self._file, (1).to_bytes(4, sys.byteorder))
        if select.select([self._file], [], [], seconds)[0]:
            os.read(self._file, 4)
