"""Checksums of what came and went on a serial link."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .serial_bridge import checked_byte

__all__ = ["LinkChecksum"]

#: CRC-32 of IEEE 802.3, lowest bit first.
POLYNOMIAL = 0xEDB88320


class LinkChecksum(wiring.Component):
    """CRC-32 over bytes that came, and another over bytes that were sent; bit by bit.

    Latency 9 cycles from a byte to its checksum; throughput one byte in 9 cycles.

    Members
    -------
    i : stream of `checked_byte`
        Bytes.
    clear_came, clear_sent : In(1)
        Begin anew. Wins over a byte that is under way, which is forgotten; one that is taken in
        this cycle counts.
    came, sent : Out(32)
        Checksums.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(checked_byte)),
            "clear_came": In(1),
            "clear_sent": In(1),
            "came": Out(32),
            "sent": Out(32),
        })

    def elaborate(self, platform):
        m = Module()

        bits = Signal(8)
        left = Signal(4)
        is_sent = Signal()
        m.d.comb += self.i.ready.eq(~left[3])
        with m.If(left[3]):
            m.d.sync += [bits.eq(bits[1:]), left.eq(left + 1)]
        with m.Else():
            m.d.sync += [bits.eq(self.i.payload.byte), is_sent.eq(self.i.payload.sent)]
            with m.If(self.i.valid):
                m.d.sync += left.eq(8)
        for mine, clear, shown in ((~is_sent, self.clear_came, self.came),
                                   (is_sent, self.clear_sent, self.sent)):
            crc = Signal(32, init=0xFFFFFFFF)
            out = crc[0] ^ bits[0]
            m.d.comb += shown.eq(~crc)
            with m.If(clear):
                m.d.sync += crc.eq(0xFFFFFFFF)
                # What is left of a byte would count as the new checksum's.
                with m.If(left[3] & mine):
                    m.d.sync += left.eq(0)
            with m.Elif(left[3] & mine):
                m.d.sync += crc.eq(Cat(crc[1:], 0) ^ (Const(POLYNOMIAL, 32) & out.replicate(32)))

        return m
