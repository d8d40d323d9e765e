"""Plain memory: block RAM that stores and is read, of a node that adds nothing."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..config import checked_config
from .popcount import popcount
from .seams import ErrorCause, commit, error_event, memory_access, read_beat

__all__ = ["PlainMemory"]


class PlainMemory(wiring.Component):
    """Memory of ``config.memory_bytes`` bytes that adds nothing: `BuiltinMemory` for a small chip.

    Accesses take effect in the order in which they come. Reads and writes share one address, so a
    memory with a single port is enough.

    Latency from ``access`` to ``read`` or ``commit`` `latency` cycle; throughput one access a
    cycle.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Members
    -------
    access : In, stream of `memory_access`, always taken
        What to do; ``add`` is ignored. Beyond the memory's size nothing is written, and the
        response has ``error`` set; what such a read gives means nothing.
    read : Out, stream of `read_beat`, always ready
        What reads found, in order.
    commit : Out, stream of `commit`, always ready
        What was written, in order.
    error : Out, stream of `error_event`, always ready
        ``MEMORY_ERROR``, with each response that has ``error`` set.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    latency = 1

    def __init__(self, *, config):
        self._config = checked_config(config)
        super().__init__({
            "access": In(stream.Signature(memory_access(config))),
            "read": Out(stream.Signature(read_beat(config), always_ready=True)),
            "commit": Out(stream.Signature(commit(config), always_ready=True)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        size_shift = ceil_log2(config.memory_bytes)
        # Nobody reads what is written in the same cycle.
        m.submodules.storage = storage = Memory(
            shape=config.data_width, depth=config.memory_bytes // config.beat_bytes, init=[],
            attrs={"no_rw_check": 1})
        read = storage.read_port()
        write = storage.write_port(granularity=8)
        access = self.access.payload
        outside = Signal()
        stores = Signal()
        m.d.comb += [
            self.access.ready.eq(1),
            outside.eq(access.address[size_shift:].any()),
            stores.eq(self.access.valid & access.write),
            read.addr.eq(access.address[config.beat_shift:size_shift]),
            read.en.eq(~stores),
            write.addr.eq(read.addr),
            write.data.eq(access.data),
            write.en.eq(Mux(stores & ~outside, access.strobe, 0)),
        ]

        result = Signal(commit(config), reset_less=True)
        failed = Signal()
        m.d.sync += [
            self.commit.valid.eq(stores),
            self.read.valid.eq(self.access.valid & ~access.write),
            failed.eq(self.access.valid & outside),
            result.error.eq(outside),
            result.bytes.eq(Mux(outside, 0, popcount(access.strobe))),
            *(result[name].eq(access[name])
              for name in ("source", "tag", "last", "address", "tile")),
        ]
        m.d.comb += [
            self.commit.payload.eq(result),
            self.read.payload.data.eq(read.data),
            *(self.read.payload[name].eq(result[name]) for name in ("source", "last", "error")),
            self.error.valid.eq(failed),
            self.error.payload.cause.eq(ErrorCause.MEMORY_ERROR),
            self.error.payload.address.eq(result.address),
            self.error.payload.tile.eq(result.tile),
        ]

        return m
