"""Read splitter: bursts of reads become requests of one beat."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import PAGE_SHIFT, MemoryOp, Source, memory_request, read_burst

__all__ = ["ReadSplitter"]


class ReadSplitter(wiring.Component):
    """Ask for each beat of a burst, in order; ``last`` marks the burst's last beat.

    Latency 1 cycle from ``burst`` to ``request``, which comes from registers; throughput one
    request a cycle, without a gap between bursts.

    Parameters
    ----------
    config : NodeConfig
        Widths, and the longest burst.
    source : Source
        Who asks: the responses come back by it.

    Members
    -------
    burst : In(stream of read_burst)
        What to read. No burst crosses a page of 2 ** `PAGE_SHIFT` bytes.
    request : Out(stream of memory_request)
        READs of one beat, with tag 0 and of no tile.

    Raises
    ------
    ValueError
        If ``source`` is no `Source`.
    """

    def __init__(self, *, config, source):
        if not isinstance(source, Source):
            raise ValueError(f"source must be a Source, not {source!r}")
        self._config = config
        self._source = source
        super().__init__({
            "burst": In(stream.Signature(read_burst(config))),
            "request": Out(stream.Signature(memory_request(config))),
        })

    def elaborate(self, platform):
        m = Module()

        shift = self._config.beat_shift
        valid = Signal()
        beat = Signal(self._config.addr_width - shift)
        in_page = beat[:PAGE_SHIFT - shift]
        left = Signal.like(self.burst.p.beats)
        last = Signal()  # left == 0
        m.d.comb += [
            self.request.valid.eq(valid),
            self.request.p.op.eq(MemoryOp.READ),
            self.request.p.source.eq(self._source),
            self.request.p.address.eq(beat << shift),
            self.request.p.last.eq(last),
            self.burst.ready.eq(~valid | (self.request.ready & last)),
        ]
        with m.If(self.burst.ready):
            m.d.sync += [
                valid.eq(self.burst.valid),
                beat.eq(self.burst.p.address[shift:]),
                left.eq(self.burst.p.beats),
                last.eq(self.burst.p.beats == 0),
            ]
        with m.Elif(self.request.ready):
            m.d.sync += [
                in_page.eq(in_page + 1),
                left.eq(left - 1),
                last.eq(left == 1),
            ]

        return m
