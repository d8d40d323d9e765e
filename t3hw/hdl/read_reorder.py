"""Read reorder: beats read in any order leave in the order in which each source asked."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .seams import Source, read_beat

__all__ = ["ReadReorder"]


class ReadReorder(wiring.Component):
    """Give each read a place, and let the beats go by places.

    Sources whose next beat is there take turns. Latency 2 cycles from ``i`` to ``o``, if the beat
    is the next of its source; throughput one beat a cycle.

    Parameters
    ----------
    config : NodeConfig
        Widths.
    places : int
        Places of each source, a power of two, at least 2.

    Members
    -------
    reserve : In, stream of `Source`
        A read of this source; it takes ``place``.
    place : Out(range(places))
        The next place of that source.
    i : In, stream of {place, beat}, always ready
        A `read_beat`, and the place that its read has got.
    o : Out, stream of `read_beat`, always ready
        Beats, in the order of each source.

    Raises
    ------
    ValueError
        If ``places`` is no power of two of at least 2.
    """

    def __init__(self, *, config, places):
        if not isinstance(places, int) or places < 2 or places & (places - 1):
            raise ValueError(f"places must be a power of two of at least 2, not {places!r}")
        self._config = config
        self._places = places
        super().__init__({
            "reserve": In(stream.Signature(Source)),
            "place": Out(range(places)),
            "i": In(stream.Signature(data.StructLayout({
                "place": range(places),
                "beat": read_beat(config),
            }), always_ready=True)),
            "o": Out(stream.Signature(read_beat(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        sources = len(Source)
        word = data.StructLayout({
            "last": 1, "error": 1, "data": self._config.data_width})
        m.submodules.storage = storage = Memory(shape=word, depth=sources * self._places, init=[])
        write = storage.write_port()
        read = storage.read_port()

        beat = self.i.payload.beat
        m.d.comb += [
            write.addr.eq(Cat(self.i.payload.place, beat.source)),
            write.en.eq(self.i.valid),
        ]
        for field in ("last", "error", "data"):
            m.d.comb += [
                write.data[field].eq(beat[field]),
                self.o.payload[field].eq(read.data[field]),
            ]

        newest = [Signal(range(self._places), name=f"newest_{source}") for source in range(sources)]
        oldest = [Signal(range(self._places), name=f"oldest_{source}") for source in range(sources)]
        there = [Signal(self._places, name=f"there_{source}") for source in range(sources)]
        ready = Signal(sources)
        leaves = Signal(sources)
        full = Signal(sources)
        last = Signal(range(sources))

        with m.Switch(self.reserve.payload):
            for source in range(sources):
                with m.Case(Source(source)):
                    m.d.comb += [
                        self.place.eq(newest[source]),
                        self.reserve.ready.eq(~full[source]),
                    ]
        for source in range(sources):
            mine = Signal(name=f"mine_{source}")
            takes = Signal(name=f"takes_{source}")
            under_way = Signal(range(self._places + 1), name=f"under_way_{source}")
            comes = self.i.valid & (beat.source == Source(source))
            arrives = Mux(comes, 1, 0) << self.i.payload.place
            departs = Mux(leaves[source], 1, 0) << oldest[source]
            m.d.comb += [
                mine.eq(self.reserve.payload == Source(source)),
                takes.eq(self.reserve.valid & self.reserve.ready & mine),
                full[source].eq(under_way == self._places),
                ready[source].eq(there[source].bit_select(oldest[source], 1)),
            ]
            m.d.sync += [
                newest[source].eq(newest[source] + takes),
                oldest[source].eq(oldest[source] + leaves[source]),
                under_way.eq(under_way + takes - leaves[source]),
                there[source].eq((there[source] | arrives) & ~departs),
            ]

        # The turn goes round from the source that had it last.
        with m.Switch(last):
            for former in range(sources):
                with m.Case(former):
                    free = 1
                    for step in range(1, sources + 1):
                        source = (former + step) % sources
                        m.d.comb += leaves[source].eq(ready[source] & free)
                        free = free & ~ready[source]
        m.d.sync += self.o.valid.eq(leaves.any())
        for source in range(sources):
            with m.If(leaves[source]):
                m.d.comb += read.addr.eq(Cat(oldest[source], Source(source)))
                m.d.sync += [
                    last.eq(source),
                    self.o.payload.source.eq(source),
                ]

        return m
