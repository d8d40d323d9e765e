"""Memory array: block RAM with the near-memory adder between its read and its write port."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .near_memory_adder import NearMemoryAdder
from .popcount import popcount
from .seams import byte_count_width, commit, memory_access

__all__ = ["MemoryArray"]


class MemoryArray(wiring.Component):
    """Carry out accesses in the order in which they come: read, add, write.

    An access that needs the old value of a beat (a read, or a write that adds somewhere) must not
    come before `interlock` cycles have passed since the last write to it: whoever issues sees to
    that.

    Latency `latency` cycles from ``i`` to ``o``; throughput one access a cycle.

    Parameters
    ----------
    config : NodeConfig
        ``memory_bytes``, ``pipelined``, widths and dtypes.
    meta : shape-like, optional
        Whatever shall travel with an access; without it there is no such field.

    Attributes
    ----------
    latency : int
        Cycles from ``i`` to ``o``.
    interlock : int
        Cycles from a write on ``i`` to the next access on ``i`` which needs its result.
    beats : range
        Numbers of the beats that there are.

    Members
    -------
    i : In, stream of {access, meta}, always ready
        What to do, a `memory_access`. Beyond ``config.memory_bytes`` nothing is written, reads give
        0, and the result has ``error`` set.
    o : Out, stream of {write, data, commit, meta}, always ready
        Results, in order. What ``commit`` says of a write holds for a read, too, as far as that
        has such fields. The read port returns what was written from the next cycle on.
    """

    def __init__(self, *, config, meta=None):
        self._config = config
        self._has_meta = meta is not None
        beside = {"meta": meta} if self._has_meta else {}
        self._meta = data.StructLayout({
            "write": 1,
            "strobe": config.beat_bytes,
            "commit": commit(config),
            **beside,
        })
        self._adder = NearMemoryAdder(config=config, meta=self._meta)
        self.beats = range(config.memory_bytes // config.beat_bytes)
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({
                "access": memory_access(config),
                **beside,
            }), always_ready=True)),
            "o": Out(stream.Signature(data.StructLayout({
                "write": 1,
                "data": config.data_width,
                "commit": commit(config),
                **beside,
            }), always_ready=True)),
        })

    @property
    def latency(self):
        """Cycles from an access to its result."""
        # Array, its register where there is one, and adder.
        return 1 + self._config.pipelined + self._adder.latency

    @property
    def interlock(self):
        """Cycles from a write to the first access that sees its result."""
        # The write itself, too, which the read port does not see in the same cycle.
        return self.latency + 1

    def elaborate(self, platform):
        m = Module()

        config = self._config
        size_shift = ceil_log2(config.memory_bytes)
        m.submodules.adder = adder = self._adder
        # Who reads what is written in the same cycle does not need it. Saying so spares the logic
        # that would make a block RAM return what was there before, and all reading without being
        # asked spares the way to its enables.
        m.submodules.storage = storage = Memory(shape=config.data_width, init=[],
                                                depth=len(self.beats), attrs={"no_rw_check": 1})
        read = storage.read_port()
        write = storage.write_port(granularity=8)

        domain = "sync" if config.pipelined else "comb"
        access = self.i.payload.access
        m.d.comb += read.addr.eq(access.address[config.beat_shift:size_shift])

        # What comes with the array's output, and after the register which is all that follows that
        # for a fast clock. The adder never stalls, since its output is always taken.
        asked_valid = Signal()
        asked = Signal(self.i.payload.shape())
        asked_outside = Signal()
        found_valid = Signal()
        found = Signal(self.i.payload.shape())
        outside = Signal()
        old = Signal(config.data_width)
        bytes_ = Signal(byte_count_width(config))
        m.d.sync += [
            asked_valid.eq(self.i.valid),
            asked.eq(self.i.payload),
            asked_outside.eq(access.address[size_shift:].any()),
        ]
        m.d[domain] += [
            found_valid.eq(asked_valid),
            found.eq(asked),
            outside.eq(asked_outside),
            old.eq(read.data),
            bytes_.eq(Mux(asked_outside, 0, popcount(asked.access.strobe))),
        ]
        meta = adder.i.payload.meta
        m.d.comb += [
            adder.i.valid.eq(found_valid),
            adder.i.payload.dtype.eq(found.access.dtype),
            adder.i.payload.add.eq(Mux(found.access.write, found.access.add, 0)),
            adder.i.payload.old.eq(old),
            # What is read passes the adder as a new value that is not added to.
            adder.i.payload.new.eq(Mux(found.access.write, found.access.data,
                                       Mux(outside, 0, old))),
            meta.write.eq(found.access.write),
            meta.strobe.eq(Mux(found.access.write & ~outside, found.access.strobe, 0)),
            meta.commit.error.eq(outside),
            meta.commit.bytes.eq(bytes_),
            adder.o.ready.eq(1),
        ]
        for field in ("source", "tag", "last", "address", "tile"):
            m.d.comb += meta.commit[field].eq(found.access[field])

        result = adder.o.payload
        m.d.comb += [
            write.addr.eq(result.meta.commit.address[config.beat_shift:size_shift]),
            write.data.eq(result.data),
            write.en.eq(Mux(adder.o.valid, result.meta.strobe, 0)),
            self.o.valid.eq(adder.o.valid),
            self.o.payload.write.eq(result.meta.write),
            self.o.payload.data.eq(result.data),
            self.o.payload.commit.eq(result.meta.commit),
        ]
        if self._has_meta:
            m.d.comb += [
                meta.meta.eq(found.meta),
                self.o.payload.meta.eq(result.meta.meta),
            ]

        return m
