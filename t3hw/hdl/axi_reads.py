"""AXI reads: bursts of reads become requests of one beat, and their data comes back as bursts."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .axi_burst import burst_is_legal, next_address
from .seams import (
    MemoryOp, Source, axi_address, axi_read_data, byte_count_width, memory_request, read_beat,
)
from .stream_queue import StreamQueue
from .stream_spare import StreamSpare

__all__ = ["AxiReads"]


class AxiReads(wiring.Component):
    """Serve the read channels of an AXI4 slave from memory.

    INCR, FIXED and WRAP bursts of 1 to 256 beats, of any size up to the width of the bus, with a
    first address that need not be aligned; every beat reads the whole bus word that it lies in. A
    burst that is wider than the bus, or of the reserved type, and a beat that memory could not
    read, answer SLVERR.

    A beat is asked for when there is a place for it in the queue before ``r``, so read data never
    waits in the memory's way. Bursts are answered in order, whatever their ids.

    Latency 1 cycle from ``ar`` to ``request`` and from ``read`` to ``r``; throughput one beat a
    cycle, as far as ``beats`` covers the memory's latency.

    Parameters
    ----------
    config : NodeConfig
        Widths.
    beats : int
        Places of the queue before ``r``: beats under way at most, and bursts, at least 1.

    Members
    -------
    ar, r : AXI4's read channels
        As AXI4 has them.
    request : stream of `memory_request`
        READs of one beat.
    read : In, stream of `read_beat`
        What memory read, for all sources; those of the producer are taken.
    bytes : Out
        Bytes of the bus that were asked for in the last cycle, by size and first address.
    stall : Out(1)
        In the last cycle a beat waited, for a place or for ``request``.

    Raises
    ------
    ValueError
        If ``beats`` is not at least 1.
    """

    def __init__(self, *, config, beats):
        if not isinstance(beats, int) or beats < 1:
            raise ValueError(f"beats must be an integer of at least 1, not {beats!r}")
        self._config = config
        self._beats = beats
        super().__init__({
            "ar": In(stream.Signature(axi_address(config, config.id_width))),
            "r": Out(stream.Signature(axi_read_data(config, config.id_width))),
            "request": Out(stream.Signature(memory_request(config))),
            "read": In(stream.Signature(read_beat(config), always_ready=True)),
            "bytes": Out(byte_count_width(config)),
            "stall": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        # What is needed to ask goes one way, what is needed to answer another.
        m.submodules.bursts = bursts = StreamQueue(
            shape=axi_address(config, config.id_width), depth=2, cut=config.pipelined)
        m.submodules.answers = answers = StreamQueue(
            shape=data.StructLayout({"id": config.id_width, "refused": 1}), depth=self._beats)
        m.submodules.beats = beats = StreamQueue(
            shape=data.StructLayout({"data": config.data_width, "error": 1, "last": 1}),
            depth=self._beats)

        m.d.comb += [
            self.ar.ready.eq(bursts.i.ready & answers.i.ready),
            bursts.i.valid.eq(self.ar.valid & answers.i.ready),
            bursts.i.payload.eq(self.ar.payload),
            answers.i.valid.eq(self.ar.valid & bursts.i.ready),
            answers.i.payload.id.eq(self.ar.payload.id),
            answers.i.payload.refused.eq(~burst_is_legal(config, self.ar.payload)),
        ]

        # Ask.
        burst = bursts.o.payload
        is_first = Signal(init=1)
        left = Signal(8)
        is_last = Signal()
        later = Signal(config.addr_width)
        address = Signal(config.addr_width)
        places = Signal(range(self._beats + 1), init=self._beats)
        place = Signal(init=1)  # there is one
        asked = Signal()
        given = Signal()
        last = Signal()
        request = self.request.payload
        # So that no burst waits for the choice between loads and stores.
        m.submodules.asking = asking = StreamSpare(shape=data.StructLayout({
            "beat": config.addr_width - config.beat_shift, "last": 1}))
        m.d.comb += [
            address.eq(Mux(is_first, burst.addr, later)),
            asking.i.valid.eq(bursts.o.valid & place),
            asking.i.payload.beat.eq(address[config.beat_shift:]),
            asking.i.payload.last.eq(last),
            last.eq(Mux(is_first, burst.len == 0, is_last)),
            asked.eq(asking.i.valid & asking.i.ready),
            bursts.o.ready.eq(asked & last),
            self.request.valid.eq(asking.o.valid),
            asking.o.ready.eq(self.request.ready),
            request.op.eq(MemoryOp.READ),
            request.source.eq(Source.PRODUCER),
            request.address[config.beat_shift:].eq(asking.o.payload.beat),
            request.last.eq(asking.o.payload.last),
        ]
        following = next_address(m, burst, address)
        with m.If(asked):
            m.d.sync += [
                later.eq(following),
                is_first.eq(last),
                left.eq(Mux(is_first, burst.len, left) - 1),
                is_last.eq(Mux(is_first, burst.len == 1, left == 1)),
            ]
        # Bytes of a beat: those of its size from its address on.
        size = Signal(byte_count_width(config))
        offset = Signal(config.beat_shift)
        counted = Signal()
        m.d.sync += [
            size.eq(Mux(burst.size <= config.beat_shift, 1 << burst.size, config.beat_bytes)),
            offset.eq(address),
            counted.eq(asked),
        ]
        m.d.comb += self.bytes.eq(Mux(counted, size - (offset & (size - 1)), 0))
        m.d.sync += [
            places.eq(places - asked + given),
            place.eq(given | (places > 1) | (place & ~asked)),
            self.stall.eq(bursts.o.valid & ~place | self.request.valid & ~self.request.ready),
        ]

        # Answer.
        m.d.comb += [
            beats.i.valid.eq(self.read.valid & (self.read.payload.source == Source.PRODUCER)),
            beats.i.payload.data.eq(self.read.payload.data),
            beats.i.payload.error.eq(self.read.payload.error),
            beats.i.payload.last.eq(self.read.payload.last),
            self.r.valid.eq(beats.o.valid),
            self.r.payload.id.eq(answers.o.payload.id),
            self.r.payload.data.eq(beats.o.payload.data),
            self.r.payload.resp[1].eq(beats.o.payload.error | answers.o.payload.refused),
            self.r.payload.last.eq(beats.o.payload.last),
            given.eq(self.r.valid & self.r.ready),
            beats.o.ready.eq(given),
            answers.o.ready.eq(given & self.r.payload.last),
        ]

        return m
