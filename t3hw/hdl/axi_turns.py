"""AXI turns: a master that waits for its turn at a slave that others use, too."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import axi_address, axi_read_data, axi_write_data, axi_write_response

__all__ = ["AxiTurns"]


class AxiTurns(wiring.Component):
    """Let one burst of a master through at a time, when nobody else is using the slave.

    Latency 1 cycle from AW or AR to the slave's, 0 else; throughput one burst after the other, the
    next address 2 cycles after the last answer. Writes go before reads. Data that come before their
    address, or behind a burst's last, wait for their turn.

    Parameters
    ----------
    config : NodeConfig
        Widths.

    Members
    -------
    free : In(1)
        A turn may begin.
    turn : Out(1)
        A burst is under way, from the cycle after ``free`` to its last answer; registered.
    i_aw, i_w, i_b, i_ar, i_r : AXI4 slave
        From the master.
    aw, w, b, ar, r : AXI4 master
        To the slave, which takes and gives nothing while ``turn`` is low.
    """

    def __init__(self, *, config):
        channels = {
            "aw": stream.Signature(axi_address(config, config.id_width)),
            "w": stream.Signature(axi_write_data(config)),
            "b": stream.Signature(axi_write_response(config, config.id_width)),
            "ar": stream.Signature(axi_address(config, config.id_width)),
            "r": stream.Signature(axi_read_data(config, config.id_width)),
        }
        directions = {name: (In, Out) if name in ("b", "r") else (Out, In) for name in channels}
        super().__init__({
            "free": In(1),
            "turn": Out(1),
            **{name: directions[name][0](channel) for name, channel in channels.items()},
            **{f"i_{name}": directions[name][1](channel) for name, channel in channels.items()},
        })

    def elaborate(self, platform):
        m = Module()

        writes = Signal()
        reads = Signal()
        sent = Signal()
        # Beats to come but one, and below 0 when all have come: those behind them are the next
        # burst's. WLAST would not do, since a burst with a wrong one is the slave's to refuse.
        left = Signal(9)
        m.d.comb += self.turn.eq(writes | reads)
        for name, opened in (("aw", writes & ~sent), ("w", writes & ~left[8]),
                             ("ar", reads & ~sent)):
            master, slave = getattr(self, f"i_{name}"), getattr(self, name)
            m.d.comb += [
                slave.payload.eq(master.payload),
                slave.valid.eq(master.valid & opened),
                master.ready.eq(slave.ready & opened),
            ]
        for name, opened in (("b", writes), ("r", reads)):
            master, slave = getattr(self, f"i_{name}"), getattr(self, name)
            m.d.comb += [
                master.payload.eq(slave.payload),
                master.valid.eq(slave.valid & opened),
                slave.ready.eq(master.ready & opened),
            ]
        with m.If((self.aw.valid & self.aw.ready) | (self.ar.valid & self.ar.ready)):
            m.d.sync += sent.eq(1)
        with m.If(self.w.valid & self.w.ready):
            m.d.sync += left.eq(left - 1)
        with m.If(~self.turn):
            m.d.sync += [
                sent.eq(0),
                left.eq(self.i_aw.payload.len),
                writes.eq(self.free & self.i_aw.valid),
                reads.eq(self.free & self.i_ar.valid & ~self.i_aw.valid),
            ]
        with m.If(self.i_b.valid & self.i_b.ready):
            m.d.sync += writes.eq(0)
        with m.If(self.i_r.valid & self.i_r.ready & self.i_r.payload.last):
            m.d.sync += reads.eq(0)

        return m
