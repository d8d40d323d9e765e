"""A memory with plain pins in place of structs, for a bench in Verilog."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from t3hw.hdl.seams import MemoryOp, Source, dram_command

__all__ = ["DramPins"]


class DramPins(wiring.Component):
    """A DRAM model with plain pins.

    Latency 0 cycles; throughput that of the memory.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.
    memory : Component
        The DRAM model.

    Members
    -------
    valid, ready, op, source, beat, data : In(1), Out(1), In, In, In, In
        An access: a read, or a store or an update of a whole beat by its number in the memory.
    read, commit, error : Out(1)
        There is such a response.
    row_valid, row_op, row_bank, row, column_valid, column_op, column_bank, column : Out
        The fields of `dram_command`.
    """

    def __init__(self, *, config, memory):
        self._config = config
        self._memory = memory
        super().__init__({
            "valid": In(1),
            "ready": Out(1),
            "op": In(MemoryOp),
            "source": In(Source),
            "beat": In(range(config.memory_bytes // config.beat_bytes)),
            "data": In(config.data_width),
            "read": Out(1),
            "commit": Out(1),
            "error": Out(1),
            **{name: Out(field.shape) for name, field in dram_command(config)},
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.memory = memory = self._memory
        access = memory.access.payload
        m.d.comb += [
            memory.access.valid.eq(self.valid),
            self.ready.eq(memory.access.ready),
            access.write.eq(self.op != MemoryOp.READ),
            access.add.eq((self.op == MemoryOp.UPDATE).replicate(self._config.lanes)),
            access.source.eq(self.source),
            access.last.eq(1),
            access.address.eq(self.beat << self._config.beat_shift),
            access.data.eq(self.data),
            access.strobe.eq(~0),
            self.read.eq(memory.read.valid),
            self.commit.eq(memory.commit.valid),
            self.error.eq(memory.error.valid),
        ]
        for name, _field in dram_command(self._config):
            m.d.comb += getattr(self, name).eq(memory.command[name])

        return m
