"""Host bus to AXI4-Lite: a node's registers."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .host_bus import host_bus
from .seams import axil_address, axil_read_data, axil_write_data, axil_write_response

__all__ = ["HostAxil"]


class HostAxil(wiring.Component):
    """Make each access of the host bus one of AXI4-Lite, with all strobes.

    Latency 1 cycle from an access to AW and W, or to AR; 0 from B or R to its answer.
    Throughput one access after the other, of 2 cycles at least.

    Members
    -------
    host : In(host_bus)
        Who asks; of the address the 18 lowest bits count.
    aw, w, b, ar, r : AXI4-Lite master
        To the registers.
    """

    def __init__(self):
        super().__init__({
            "host": In(host_bus),
            "aw": Out(stream.Signature(axil_address)),
            "w": Out(stream.Signature(axil_write_data)),
            "b": In(stream.Signature(axil_write_response)),
            "ar": Out(stream.Signature(axil_address)),
            "r": In(stream.Signature(axil_read_data)),
        })

    def elaborate(self, platform):
        m = Module()

        access, answer = self.host.access, self.host.answer
        # Who asks may give up and ask another while this is still under way.
        address = Signal(20)
        word = Signal(32)
        waiting = Signal()
        with m.If(access.valid):
            m.d.sync += [
                address.eq(Cat(0, 0, access.payload.address)),
                word.eq(access.payload.data),
            ]
        m.d.comb += [
            self.aw.payload.addr.eq(address),
            self.ar.payload.addr.eq(address),
            self.w.payload.data.eq(word),
            self.w.payload.strb.eq(~0),
            self.b.ready.eq(waiting),
            self.r.ready.eq(waiting),
        ]
        for channel, wanted in ((self.aw, access.payload.write), (self.w, access.payload.write),
                                (self.ar, ~access.payload.write)):
            with m.If(access.valid):
                m.d.sync += channel.valid.eq(wanted)
            with m.Elif(channel.ready):
                m.d.sync += channel.valid.eq(0)
        with m.If(access.valid):
            m.d.sync += waiting.eq(1)
        with m.Elif(waiting & (self.b.valid | self.r.valid)):
            m.d.sync += waiting.eq(0)
        m.d.comb += [
            answer.valid.eq(waiting & (self.b.valid | self.r.valid)),
            answer.payload.data.eq(self.r.payload.data),
            answer.payload.error.eq((self.b.valid & self.b.payload.resp[1])
                                    | (self.r.valid & self.r.payload.resp[1])),
        ]

        return m
