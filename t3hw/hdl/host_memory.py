"""Host bus to AXI4: a node's memory, by its producer port."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .host_bus import host_access, host_bus
from .seams import axi_address, axi_read_data, axi_write_data, axi_write_response

__all__ = ["HostMemory"]


class HostMemory(wiring.Component):
    """Make each access of the host bus a load or store of 4 bytes, alone in its burst.

    AWUSER is 0, so regions that are to find the tile must do so from the address. Refused, without
    going anywhere, is an address beyond the node's, and every access while ``blocked``.

    Latency 2 cycles from an access to AW and W, or to AR; 1 from B, 2 from R to its answer; 2 from
    an access to its refusal. All but the first 0, 0 and 1 where the configuration is not pipelined.
    Throughput one access after the other, of 4 cycles at least for a store, and 5 for a load; 3 and
    3 where it is not pipelined.

    Parameters
    ----------
    config : NodeConfig
        Widths.
    window : int
        Bytes that the host bus has for the memory, a power of two; of the address so much counts.

    Members
    -------
    host : In(host_bus)
        Who asks.
    blocked : In(1)
        The memory is in use by somebody who must not be disturbed. What counts is the cycle in
        which an access begins.
    aw, w, b, ar, r : AXI4 master
        To the producer port.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    ValueError
        If ``window`` is no such power of two.
    """

    def __init__(self, *, config, window):
        self._config = checked_config(config)
        if type(window) is not int or window < 4 or window & window - 1:
            raise ValueError(f"window must be a power of two of at least 4, not {window!r}")
        self._window = window
        super().__init__({
            "host": In(host_bus),
            "blocked": In(1),
            "aw": Out(stream.Signature(axi_address(config, config.id_width))),
            "w": Out(stream.Signature(axi_write_data(config))),
            "b": In(stream.Signature(axi_write_response(config, config.id_width))),
            "ar": Out(stream.Signature(axi_address(config, config.id_width))),
            "r": In(stream.Signature(axi_read_data(config, config.id_width))),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        answer = self.host.answer
        # Who asks may give up and ask another while this is still under way.
        access = Signal(host_access)
        with m.If(self.host.access.valid):
            m.d.sync += access.eq(self.host.access.payload)
        lanes = config.data_width // 32
        # One cycle for the window of the address to be found out, so that no path is long.
        coming = Signal(range(self._window))
        address = Signal(range(self._window))
        beyond = Signal()
        asked = Signal()
        m.d.comb += [
            coming.eq(Cat(0, 0, self.host.access.payload.address)),
            address.eq(Cat(0, 0, access.address)),
        ]
        lane = address[2:config.beat_shift]
        m.d.sync += [
            asked.eq(self.host.access.valid),
            beyond.eq(coming[config.addr_width:].any() | self.blocked),
        ]
        for channel in (self.aw, self.ar):
            m.d.comb += [
                channel.payload.addr.eq(address),
                channel.payload.size.eq(2),
                channel.payload.burst.eq(1),
            ]
        m.d.comb += [
            self.w.payload.data.eq(Cat(*[access.data] * lanes)),
            self.w.payload.strb.eq(0xF << Cat(0, 0, lane)),
            self.w.payload.last.eq(1),
        ]
        for channel, wanted in ((self.aw, access.write), (self.w, access.write),
                                (self.ar, ~access.write)):
            with m.If(asked & ~beyond):
                m.d.sync += channel.valid.eq(wanted)
            with m.Elif(channel.ready):
                m.d.sync += channel.valid.eq(0)

        # A beat may come right from block RAM, so for a fast clock it goes to a register first.
        waiting = Signal()
        beat = Signal(config.data_width)
        came = Signal()
        error = Signal()
        m.d.comb += [
            self.b.ready.eq(waiting),
            self.r.ready.eq(waiting),
        ]
        m.d["sync" if config.pipelined else "comb"] += [
            beat.eq(self.r.payload.data),
            came.eq(self.r.valid & self.r.ready),
            error.eq(self.r.payload.resp[1]),
            answer.valid.eq(came | self.b.valid & self.b.ready | asked & beyond),
            answer.payload.data.eq(beat.word_select(lane, 32)),
            answer.payload.error.eq(Mux(came, error, ~waiting | self.b.payload.resp[1])),
        ]
        with m.If(asked & ~beyond):
            m.d.sync += waiting.eq(1)
        with m.Elif(self.b.valid | self.r.valid):
            m.d.sync += waiting.eq(0)

        return m
