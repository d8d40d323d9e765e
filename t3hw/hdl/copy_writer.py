"""Copy writer: what the DMA engine sends goes to the node's own memory, where there is no link."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import MemoryOp, Source, commit, memory_request, remote_beat

__all__ = ["CopyWriter"]


class CopyWriter(wiring.Component):
    """Store packets in local memory, each beat at its address.

    A packet's last beat is taken from ``packet`` when all of the packet is visible in memory: so a
    command is done when a load finds what it has copied.

    Latency 0 cycles from ``packet`` to ``request``; throughput one beat a cycle within a packet.

    Parameters
    ----------
    config : NodeConfig
        Widths, and the longest packet.

    Members
    -------
    packet : In, stream of `remote_beat`
        Packets of the DMA engine; only address, data, strobe and last matter.
    request : Out, stream of `memory_request`
        Untracked STOREs. Their source is ``LINK``, for which a node without a link has no other
        use.
    commit : In, stream of `commit`, always ready
        Commits of all sources.
    """

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "packet": In(stream.Signature(remote_beat(config))),
            "request": Out(stream.Signature(memory_request(config))),
            "commit": In(stream.Signature(commit(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        beat = self.packet.payload
        request = self.request.payload
        under_way = Signal(range(self._config.burst_beats + 1))
        sent = Signal()  # the packet's last beat has been asked for
        accepted = Signal()
        commits = Signal()
        m.d.comb += [
            self.request.valid.eq(self.packet.valid & ~sent),
            request.op.eq(MemoryOp.STORE),
            request.source.eq(Source.LINK),
            *(request[name].eq(beat[name]) for name in ("address", "data", "strobe", "last")),
            accepted.eq(self.request.valid & self.request.ready),
            commits.eq(self.commit.valid & (self.commit.payload.source == Source.LINK)),
            self.packet.ready.eq(Mux(beat.last, sent & (under_way == 0), self.request.ready)),
        ]
        m.d.sync += under_way.eq(under_way + accepted - commits)
        with m.If(accepted):
            m.d.sync += sent.eq(beat.last)
        with m.Elif(self.packet.ready):
            m.d.sync += sent.eq(0)

        return m
