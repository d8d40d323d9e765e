"""Scripts for the producer player: AXI4 bursts, at a pace, in a binary file.

The player (``verilog/producer_player.sv``) reads the file as it plays it, so that no Python stands
in the simulation's inner loop. All numbers are big-endian, since Verilog's ``$fread`` fills a
vector from its most significant byte.

======  =====  ================================================================================
header  bytes
======  =====  ================================================================================
0       4      ``T3S1``
4       2      bytes of a beat
6       1      write bursts under way at most
7       1      read bursts under way at most
8       4      seed of the random stalls
12      1      chance of an idle cycle before each address and each write beat, in 1/256
13      1      chance that BREADY or RREADY is low in a cycle, in 1/256
14      2      0
======  =====  ================================================================================

======  =====  ================================================================================
burst   bytes
======  =====  ================================================================================
0       1      0 end of script, 1 write, 2 read; + 0x80 fence: wait for all earlier responses;
               + 0x40 keep the data read (it goes to ``.out``, and the transfer has an odd RID)
1       1      beats - 1
2       1      wavefront
3       1      0
4       2      workgroup
6       2      AxID (of a read, bit 0 is the keep flag)
8       4      idle cycles after the burst before has been accepted (after the fence, if any)
12      2      idle cycles between beats
14      2      0
16      8      address
======  =====  ================================================================================

A write is followed by its beats: data, then strobes (at least one byte), highest byte first.
"""

import dataclasses
import os
import struct
from pathlib import Path

import numpy as np

__all__ = ["Burst", "read_bursts", "read_script", "write_bursts", "write_script"]

_MAGIC = b"T3S1"
_HEADER = struct.Struct(">4sHBBIBBH")
_BURST = struct.Struct(">BBBBHHIHHQ")
_END, _WRITE, _READ = range(3)
_FENCE, _KEEP = 0x80, 0x40


@dataclasses.dataclass(frozen=True, kw_only=True)
class Burst:
    """One AXI4 INCR burst of full-width beats.

    Parameters
    ----------
    address : int
        Byte address.
    data : bytes or None
        Data of a write, a whole number of beats, byte 0 in the lowest lane; None for a read.
    beats : int or None
        Length of a read; a write's follows from its data.
    strobes : bytes or None
        One byte, 0 or 1, for each byte of ``data``; None writes all.
    wg, wf : int
        Workgroup and wavefront, for AWUSER.
    gap : int
        Idle cycles before the burst; after the fence, if there is one.
    beat_gap : int
        Idle cycles between beats.
    fence : bool
        Whether the burst waits until all earlier ones have been answered.
    keep : bool
        Whether a read's data is kept for `Session.read`; the rest is thrown away.
    id : int
        AxID; of a read, the lowest bit is replaced by ``keep``.
    """

    address: int
    data: bytes | None = None
    beats: int | None = None
    strobes: bytes | None = None
    wg: int = 0
    wf: int = 0
    gap: int = 0
    beat_gap: int = 0
    fence: bool = False
    keep: bool = False
    id: int = 0


def write_bursts(address, data, *, beat_bytes, burst_beats=16, **fields):
    """Bursts that write ``data``: aligned beats, strobes at the edges, within 4 KiB pages."""
    data = bytes(data)
    if not data:
        return []
    before = address % beat_bytes
    after = -(address + len(data)) % beat_bytes
    padded = bytes(before) + data + bytes(after)
    strobes = bytes(before) + b"\1" * len(data) + bytes(after)
    bursts = []
    start = address - before
    for at, beats in _pieces(start, len(padded) // beat_bytes, beat_bytes, burst_beats):
        piece = slice(at - start, at - start + beats * beat_bytes)
        full = all(strobes[piece])
        bursts.append(Burst(address=at, data=padded[piece],
                            strobes=None if full else strobes[piece], **fields))
    return bursts


def read_bursts(address, length, *, beat_bytes, burst_beats=16, **fields):
    """Bursts that read all beats that hold ``length`` bytes from ``address`` on."""
    start = address - address % beat_bytes
    beats = -(-(address + length - start) // beat_bytes) if length else 0
    return [Burst(address=at, beats=count, **fields)
            for at, count in _pieces(start, beats, beat_bytes, burst_beats)]


def _pieces(address, beats, beat_bytes, burst_beats):
    """Cut a run of beats at burst length and at 4 KiB pages."""
    while beats:
        count = min(beats, burst_beats, (4096 - address % 4096) // beat_bytes)
        yield address, count
        address += count * beat_bytes
        beats -= count


def _encode(burst, beat_bytes):
    flags = _FENCE * burst.fence | _KEEP * burst.keep
    if burst.data is None:
        operation, beats, body = _READ, burst.beats, b""
    else:
        operation = _WRITE
        beats, rest = divmod(len(burst.data), beat_bytes)
        if rest:
            raise ValueError(f"a burst's data must be whole beats of {beat_bytes} bytes, "
                             f"not {len(burst.data)} bytes")
        data = np.frombuffer(burst.data, np.uint8).reshape(beats, beat_bytes)
        if burst.strobes is None:
            strobes = np.ones_like(data)
        else:
            strobes = np.frombuffer(burst.strobes, np.uint8).reshape(beats, beat_bytes)
        # packbits wants the highest lane first, and pads at the end.
        bits = np.zeros((beats, max(beat_bytes, 8)), np.uint8)
        bits[:, -beat_bytes:] = strobes[:, ::-1]
        body = np.hstack([data[:, ::-1], np.packbits(bits, axis=1)]).tobytes()
    if not 1 <= beats <= 256:
        raise ValueError(f"a burst must have 1 to 256 beats, not {beats!r}")
    if burst.address // 4096 != (burst.address // beat_bytes * beat_bytes
                                 + beats * beat_bytes - 1) // 4096:
        raise ValueError(f"a burst of {beats} beats from {burst.address:#x} crosses a 4 KiB border")
    return _BURST.pack(operation | flags, beats - 1, burst.wf, 0, burst.wg, burst.id, burst.gap,
                       burst.beat_gap, 0, burst.address) + body


def write_script(path, bursts, *, beat_bytes, seed=1, stall=0, response_stall=0,
                 outstanding_writes=8, outstanding_reads=8):
    """Write the script of a run.

    Parameters
    ----------
    path : path-like
        File; it appears when it is complete.
    bursts : iterable of Burst
        In the order in which they start.
    beat_bytes : int
        Bytes of a beat of the player's bus.
    seed : int
        Of the random stalls.
    stall, response_stall : float
        Chance, 0 to 0.99, of an idle cycle before an address or write beat; that a response must
        wait.
    outstanding_writes, outstanding_reads : int
        Bursts without a response at most, 1 to 255.

    Raises
    ------
    ValueError
        For a burst that AXI4 does not allow, or a value out of range.
    """
    for name, value in (("stall", stall), ("response_stall", response_stall)):
        if not 0 <= value <= 0.99:
            raise ValueError(f"{name} must be from 0 to 0.99, not {value!r}")
    for name, value in (("outstanding_writes", outstanding_writes),
                        ("outstanding_reads", outstanding_reads)):
        if not 1 <= value <= 255:
            raise ValueError(f"{name} must be from 1 to 255, not {value!r}")
    partial = Path(f"{path}.part")
    try:
        with open(partial, "wb") as file:
            file.write(_HEADER.pack(_MAGIC, beat_bytes, outstanding_writes, outstanding_reads,
                                    seed & 0xFFFFFFFF, int(stall * 256),
                                    int(response_stall * 256), 0))
            for burst in bursts:
                file.write(_encode(burst, beat_bytes))
            file.write(bytes(_BURST.size))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_script(path):
    """The bursts of a script file, for printing and tests: `write_script` reversed."""
    content = memoryview(Path(path).read_bytes())
    magic, beat_bytes, *_ = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError(f"{path} is no script of the producer player")
    strobe_bytes = max(beat_bytes // 8, 1)
    at = _HEADER.size
    bursts = []
    while content[at] & 0xF != _END:
        kind, last, wf, _, wg, id_, gap, beat_gap, _, address = _BURST.unpack_from(content, at)
        at += _BURST.size
        fields = dict(address=address, wg=wg, wf=wf, gap=gap, beat_gap=beat_gap, id=id_,
                      fence=bool(kind & _FENCE), keep=bool(kind & _KEEP))
        if kind & 0xF == _READ:
            bursts.append(Burst(beats=last + 1, **fields))
            continue
        size = (last + 1) * (beat_bytes + strobe_bytes)
        beats = np.frombuffer(content[at:at + size], np.uint8).reshape(last + 1, -1)
        at += size
        data = beats[:, :beat_bytes][:, ::-1].tobytes()
        bits = np.unpackbits(beats[:, beat_bytes:], axis=1)[:, -beat_bytes:][:, ::-1]
        bursts.append(Burst(data=data, strobes=None if bits.all() else bits.tobytes(), **fields))
    return bursts
