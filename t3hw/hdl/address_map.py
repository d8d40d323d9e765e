"""Address map: which region a beat falls into, and all that follows from it."""

import functools

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .seams import (
    EPOCH_WIDTH, Dtype, RegionAction, Table, TileIdMode, plan_views, plan_width, slot_width,
    table_write,
)
from .stream_queue import StreamQueue

__all__ = ["AddressMap", "lookup", "looked_up"]

# Words of an entry of the region table.
_CONTROL, _BASE, _LIMIT, _FIRST_TILE, _DELTA, _GEOMETRY, _TOUCH_OFFSET = 0, 1, 3, 5, 6, 8, 9

_control = data.StructLayout({
    "enable": 1,
    "action": RegionAction,
    "mode": TileIdMode,
    "dtype": Dtype,
    "tracked": 1,
    "first_touch": 1,
    "accept_store": 1,
    "accept_update": 1,
    "wf_shift": 3,
    "unused": 1,
    "plan": 3,
})

_geometry = data.StructLayout({
    "pitch": 6,
    "unused_0": 2,
    "rows": 6,
    "unused_1": 2,
    "row_bytes": 6,
})


def lookup(config, meta):
    """A beat to look up. ``address`` may point anywhere within the beat; ``strobe`` says which
    bytes.

    ``wg`` and ``wf`` are the ids that came with the beat; ``meta`` comes out as it went in.
    """
    return data.StructLayout({
        "address": config.addr_width,
        "strobe": config.beat_bytes,
        "wg": config.wg_width,
        "wf": max(config.wf_width, 1),
        "meta": meta,
    })


def looked_up(config, meta):
    """A beat and what the region table says of it.

    ``any``: the beat has a strobe at all; with none nothing below means anything.
    ``match``: the beat lies wholly inside a region. All that follows is meaningful only then.
    ``straddle``: the beat lies in part inside regions, and wholly inside none.
    ``action`` to ``accept_update``: the region's own fields.
    ``armed``, ``epoch``: the state of the region's plan; a plan that does not exist is never armed.
    ``slot``, ``wg``, ``wf``: the tile. ``wg_fits``: its number, where that comes from the address,
    fits in ``wg``. ``tile_known``: that, and the slot is one of the plan's tiles.
    ``touch_index``: the beat's entry in the first-touch map.
    ``address``: of the beat, a multiple of its size, whether or not there is a match.
    ``destination``: where a remote region sends it.
    """
    return data.StructLayout({
        "any": 1,
        "match": 1,
        "straddle": 1,
        "action": RegionAction,
        "dtype": Dtype,
        "tracked": 1,
        "first_touch": 1,
        "accept_store": 1,
        "accept_update": 1,
        "plan": plan_width(config),
        "armed": 1,
        "epoch": EPOCH_WIDTH,
        "slot": slot_width(config),
        "wg": config.wg_width,
        "wf": max(config.wf_width, 1),
        "wg_fits": 1,
        "tile_known": 1,
        "touch_index": bits_for(config.touch_beats - 1),
        "address": config.addr_width,
        "destination": config.addr_width,
        "meta": meta,
    })


class AddressMap(wiring.Component):
    """Look beats up in the region table.

    A beat matches a region that is enabled and holds all its bytes from the first strobed one to
    the last; of several the one with the lowest number. The tile is that of the first strobed byte.

    Latency `latency` cycles; throughput one beat a cycle. Beats that stand still keep the answers
    that they got: a region or a plan that changes meanwhile is seen by the beats behind them.

    Parameters
    ----------
    config : NodeConfig
        Configuration of the node.
    meta : shape-like
        What goes with a beat and comes out beside the answer.

    Members
    -------
    i : stream of `lookup`
        Beats.
    o : stream of `looked_up`
        The same beats in the same order, and what is known of them. The fields of ``payload`` are
        registered, but for ``meta``, which comes out of a memory.
    table : In, stream of `table_write`
        Table writes; those of the region table are taken. An entry that changes while beats are
        under way gives each of them any mixture of the old and the new entry.
    plans : In(plan_views)
        State of the plans.
    """

    #: Cycles from ``i`` to ``o``.
    latency = 7

    def __init__(self, *, config, meta):
        self._config = config
        self._meta = meta
        super().__init__({
            "i": In(stream.Signature(lookup(config, meta))),
            "o": Out(stream.Signature(looked_up(config, meta))),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "plans": In(plan_views(config)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        shift = config.beat_shift
        tile_bits = slot_width(config)
        touch_bits = bits_for(config.touch_beats - 1)

        # All stages move at once. Only what decides goes through them; the rest, wide as the data
        # path, waits in a queue that has a place for each stage, and one for the beat that enters
        # meanwhile.
        advance = Signal()
        full = Signal(self.latency)
        m.submodules.waiting = waiting = StreamQueue(shape=self._meta, depth=self.latency + 1)
        m.d.comb += [
            advance.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(advance),
            self.o.valid.eq(full[-1]),
            waiting.i.valid.eq(self.i.valid & advance),
            waiting.i.payload.eq(self.i.payload.meta),
            waiting.o.ready.eq(self.o.valid & self.o.ready),
        ]
        with m.If(advance):
            m.d.sync += full.eq(Cat(self.i.valid, full))

        def after(stages, value):
            """The value, that many stages later."""
            for _stage in range(stages):
                register = Signal.like(value)
                with m.If(advance):
                    m.d.sync += register.eq(value)
                value = register
            return value

        # A name ends in the number of the stage that its register belongs to.
        # Stage 1: the first and the last strobed byte.
        beat_1 = after(1, self.i.payload.address[shift:])
        any_1 = after(1, self.i.payload.strobe.any())
        wg_1 = after(1, self.i.payload.wg)
        wf_1 = after(1, self.i.payload.wf)
        first = Signal(shift)
        last = Signal(shift)
        for index in range(config.beat_bytes):
            with m.If(self.i.payload.strobe[index]):
                m.d.comb += last.eq(index)
        for index in reversed(range(config.beat_bytes)):
            with m.If(self.i.payload.strobe[index]):
                m.d.comb += first.eq(index)
        first_1 = after(1, first)
        last_1 = after(1, last)

        # Stage 2: every region at once.
        inside_2 = Signal(config.regions)
        touches_2 = Signal(config.regions)
        for number in range(config.regions):
            enable, base, limit = self._bounds(m, number)
            above = Signal(name=f"above_{number}")
            below = Signal(name=f"below_{number}")
            at_base = Signal(name=f"at_base_{number}")
            at_limit = Signal(name=f"at_limit_{number}")
            m.d.comb += [
                above.eq(beat_1 > base[shift:]),
                below.eq(beat_1 < limit[shift:]),
                at_base.eq(beat_1 == base[shift:]),
                at_limit.eq(beat_1 == limit[shift:]),
            ]
            with m.If(advance):
                m.d.sync += [
                    inside_2[number].eq(enable & any_1
                                        & (above | at_base & (first_1 >= base[:shift]))
                                        & (below | at_limit & (last_1 <= limit[:shift]))),
                    touches_2[number].eq(enable & any_1
                                         & (above | at_base & (last_1 >= base[:shift]))
                                         & (below | at_limit & (first_1 <= limit[:shift]))),
                ]

        # Stage 3: the lowest region; its entry comes out of the memories.
        chosen = Signal(range(config.regions))
        for number in reversed(range(config.regions)):
            with m.If(inside_2[number]):
                m.d.comb += chosen.eq(number)
        match_3 = after(1, inside_2.any())
        straddle_3 = after(1, touches_2.any() & ~inside_2.any())
        beat_3 = after(2, beat_1)
        first_3 = after(2, first_1)
        wg_3 = after(2, wg_1)
        wf_3 = after(2, wf_1)
        field = functools.partial(self._field, m, chosen=chosen, advance=advance)
        control_3 = Signal(_control)
        geometry_3 = Signal(_geometry)
        m.d.comb += [
            control_3.eq(field("control", _CONTROL, width=_control.size)),
            geometry_3.eq(field("geometry", _GEOMETRY, width=_geometry.size)),
        ]
        base_3 = field("base", _BASE, width=config.addr_width)
        first_tile_3 = field("first_tile", _FIRST_TILE, width=tile_bits)
        delta_3 = field("delta", _DELTA, width=config.addr_width)
        touch_offset_3 = field("touch_offset", _TOUCH_OFFSET, width=touch_bits)

        # Stage 4: sums. In a tile number made from the address, the column is the low
        # pitch - row_bytes bits of offset >> row_bytes, the row is all above them of that >> rows.
        control_4 = after(1, control_3)
        first_tile_4 = after(1, first_tile_3)
        row_bytes_4 = after(1, geometry_3.row_bytes)
        rows_4 = after(1, geometry_3.rows)
        columns_4 = after(1, Mux(geometry_3.pitch > geometry_3.row_bytes,
                                 (geometry_3.pitch - geometry_3.row_bytes)[:6], 0))
        offset_4 = after(1, (Cat(first_3, beat_3) - base_3)[:config.addr_width])
        user_number_4 = after(1, (wg_3 << control_3.wf_shift) + wf_3)
        wf_fits_4 = after(1, ~(wf_3 >> control_3.wf_shift).any())
        destination_4 = after(1, (beat_3 + delta_3[shift:])[:config.addr_width - shift])
        touch_index_4 = after(1, (beat_3 + touch_offset_3)[:touch_bits])

        # Stage 5: first half of the tile number.
        control_5 = after(1, control_4)
        first_tile_5 = after(1, first_tile_4)
        rows_5 = after(1, rows_4)
        column_mask_5 = after(1, Cat(columns_4 > bit for bit in range(config.addr_width)))
        shifted_5 = after(1, offset_4 >> row_bytes_4)
        user_number_5 = after(1, user_number_4)
        wf_fits_5 = after(1, wf_fits_4)
        wg_5 = after(2, wg_3)
        wf_5 = after(2, wf_3)

        # Stage 6: second half, and the slot.
        by_address = Signal()
        number = Signal(max(config.addr_width, len(user_number_5)))
        slot_wide = Signal(tile_bits + 1)
        m.d.comb += [
            by_address.eq(control_5.mode == TileIdMode.ADDRESS),
            number.eq(Mux(by_address,
                          (shifted_5 >> rows_5) & ~column_mask_5 | shifted_5 & column_mask_5,
                          user_number_5)),
            slot_wide.eq(first_tile_5 + number[:tile_bits]),
        ]
        control_6 = after(1, control_5)
        slot_6 = after(1, slot_wide[:tile_bits])
        # A number that is too large must not come back as another tile's.
        in_table_6 = after(1, ~number[tile_bits:].any() & (slot_wide < config.tiles)
                           & (by_address | wf_fits_5))
        wg_fits_6 = after(1, ~(by_address & number[config.wg_width:].any()))
        wg_6 = after(1, Mux(by_address, number[:config.wg_width], wg_5))
        wf_6 = after(1, Mux(by_address, 0, wf_5))
        any_6 = after(5, any_1)
        match_6 = after(3, match_3)
        straddle_6 = after(3, straddle_3)
        beat_6 = after(3, beat_3)
        destination_6 = after(2, destination_4)
        touch_index_6 = after(2, touch_index_4)

        # Stage 7: the plan.
        view = self.plans[control_6.plan[:plan_width(config)]]
        exists = Signal()
        answer = Signal.like(self.o.payload)
        m.d.comb += [
            exists.eq(control_6.plan < config.plans),
            self.o.payload.eq(answer),
            self.o.payload.meta.eq(waiting.o.payload),
        ]
        with m.If(advance):
            m.d.sync += [
                answer.any.eq(any_6),
                answer.match.eq(match_6),
                answer.straddle.eq(straddle_6),
                answer.action.eq(control_6.action),
                answer.dtype.eq(control_6.dtype),
                answer.tracked.eq(control_6.tracked),
                answer.first_touch.eq(control_6.first_touch),
                answer.accept_store.eq(control_6.accept_store),
                answer.accept_update.eq(control_6.accept_update),
                answer.plan.eq(control_6.plan),
                answer.armed.eq(view.armed & exists),
                answer.epoch.eq(view.epoch),
                answer.slot.eq(slot_6),
                answer.wg.eq(wg_6),
                answer.wf.eq(wf_6),
                answer.wg_fits.eq(wg_fits_6),
                answer.tile_known.eq(in_table_6 & wg_fits_6 & exists & (slot_6 >= view.first_tile)
                                     & (slot_6 <= view.last_tile)),
                answer.touch_index.eq(touch_index_6),
                answer.address[shift:].eq(beat_6),
                answer.destination[shift:].eq(destination_6),
            ]

        return m

    def _writes(self, word):
        write = self.table.payload
        return (self.table.valid & (write.table == Table.REGION) & (write.word == word)
                & (write.entry < self._config.regions))

    def _bounds(self, m, number):
        """The registers that all regions are compared with at once: enable, base, limit."""
        width = self._config.addr_width
        enable = Signal(name=f"enable_{number}")
        base = Signal(width, name=f"base_{number}")
        limit = Signal(width, name=f"limit_{number}")
        ours = self.table.payload.entry == number
        with m.If(self._writes(_CONTROL) & ours):
            m.d.sync += enable.eq(self.table.payload.data[0])
        for word, register in ((_BASE, base), (_LIMIT, limit)):
            with m.If(self._writes(word) & ours):
                m.d.sync += register[:32].eq(self.table.payload.data)
            if width > 32:
                with m.If(self._writes(word + 1) & ours):
                    m.d.sync += register[32:].eq(self.table.payload.data)
        return enable, base, limit

    def _field(self, m, name, word, *, width, chosen, advance):
        """A field of the chosen region, a stage after ``chosen``: a memory a word of the entry."""
        parts = []
        for part in range((width + 31) // 32):
            memory = Memory(shape=min(width - 32 * part, 32), depth=self._config.regions, init=[])
            m.submodules[f"{name}_{part}"] = memory
            write = memory.write_port()
            read = memory.read_port()
            m.d.comb += [
                write.en.eq(self._writes(word + part)),
                write.addr.eq(self.table.payload.entry),
                write.data.eq(self.table.payload.data),
                read.en.eq(advance),
                read.addr.eq(chosen),
            ]
            parts.append(read.data)
        return Cat(*parts)
