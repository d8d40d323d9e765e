"""AXI select: several masters at one slave, one of them at a time."""

from amaranth import Array, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import axi_address, axi_read_data, axi_write_data, axi_write_response

__all__ = ["AxiSelect"]


class AxiSelect(wiring.Component):
    """Connect one of several AXI4 masters to a slave.

    ``select`` may change only when the master that was selected has no transaction under way.

    Latency 0 cycles; throughput that of the slave.

    Parameters
    ----------
    config : NodeConfig
        Widths.
    masters : int
        How many, at least 2.

    Members
    -------
    select : In(range(masters))
        Which master is connected. Nothing is taken from or given to the others.
    i_aw, i_w, i_b, i_ar, i_r : arrays of AXI4's channels
        From the masters.
    aw, w, b, ar, r : AXI4 master
        To the slave.
    """

    def __init__(self, *, config, masters):
        channels = {
            "aw": stream.Signature(axi_address(config, config.id_width)),
            "w": stream.Signature(axi_write_data(config)),
            "b": stream.Signature(axi_write_response(config, config.id_width)),
            "ar": stream.Signature(axi_address(config, config.id_width)),
            "r": stream.Signature(axi_read_data(config, config.id_width)),
        }
        directions = {name: (In, Out) if name in ("b", "r") else (Out, In) for name in channels}
        super().__init__({
            "select": In(range(masters)),
            **{name: directions[name][0](channel) for name, channel in channels.items()},
            **{f"i_{name}": directions[name][1](channel).array(masters)
               for name, channel in channels.items()},
        })

    def elaborate(self, platform):
        m = Module()

        for name in ("aw", "w", "ar"):
            streams = getattr(self, f"i_{name}")
            slave = getattr(self, name)
            m.d.comb += [
                slave.valid.eq(Array(stream_.valid for stream_ in streams)[self.select]),
                slave.payload.eq(Array(stream_.payload.as_value()
                                       for stream_ in streams)[self.select]),
            ]
            for number, stream_ in enumerate(streams):
                m.d.comb += stream_.ready.eq(slave.ready & (self.select == number))
        for name in ("b", "r"):
            streams = getattr(self, f"i_{name}")
            slave = getattr(self, name)
            m.d.comb += slave.ready.eq(Array(stream_.ready for stream_ in streams)[self.select])
            for number, stream_ in enumerate(streams):
                m.d.comb += [
                    stream_.payload.eq(slave.payload),
                    stream_.valid.eq(slave.valid & (self.select == number)),
                ]

        return m
