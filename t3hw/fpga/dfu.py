"""The suffix that a file needs for a boot loader of USB's Device Firmware Upgrade class."""

import struct
import zlib

__all__ = ["add_suffix"]

#: Vendor and product of OrangeCrab's boot loader.
_VENDOR, _PRODUCT = 0x1209, 0x5AF0


def add_suffix(content, *, vendor=_VENDOR, product=_PRODUCT):
    """The content with a DFU 1.0 suffix: whom it is for, and a CRC.

    Parameters
    ----------
    content : bytes
        The bitstream.
    vendor, product : int
        USB's numbers of the boot loader.
    """
    # Release of the device: any.
    content += struct.pack("<HHHH3sB", 0xFFFF, product, vendor, 0x0100, b"UFD", 16)
    return content + struct.pack("<I", zlib.crc32(content) ^ 0xFFFF_FFFF)
