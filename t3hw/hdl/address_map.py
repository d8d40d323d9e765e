"""Address map: which region a beat falls into, and all that follows from it."""

import functools

from amaranth import Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .by_parts import any_by_parts
from .seams import (
    EPOCH_WIDTH, Dtype, RegionAction, Table, TileIdMode, plan_views, plan_width, slot_width,
    small_memory, table_write,
)
from .spare_place import spare_place
from .stream_queue import StreamQueue

__all__ = ["AddressMap", "lookup", "looked_up"]

#: Bits that one level of logic can look at.
_PART = 4

# Words of an entry of the region table.
_CONTROL, _BASE, _LIMIT, _FIRST_TILE, _DELTA, _GEOMETRY, _TOUCH_OFFSET = 0, 1, 3, 5, 6, 8, 9

#: As many of them, the first ones, are kept for each region in registers.
_BOUNDS = _FIRST_TILE

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

    Latency `latency` cycles; throughput one beat a cycle. If ``config.pipelined``, ``i.ready`` is a
    register: a beat that does not go on at ``o`` stops the stages behind it one cycle later, and
    one beat has a place aside meanwhile; if not, a beat is in one stage, and ``o`` follows from its
    registers, from the memories of the regions, and from the plan as it is now. A beat is compared
    with the regions when it enters, and its plan is looked at when it comes to ``o``: if
    ``config.pipelined``, a beat that stands there keeps its answer, and a plan that changes
    meanwhile is seen by the beats behind it.

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
        The same beats in the same order, and what is known of them; registered if
        ``config.pipelined``.
    table : In, stream of `table_write`
        Table writes; those of the region table are taken. An entry that changes while beats are
        under way gives each of them any mixture of the old and the new entry.
    plans : In(plan_views)
        State of the plans.
    """

    #: Cycles from ``i`` to ``o``: three stages, a place, five stages, and the answer; 1 in one
    #: whose configuration is not pipelined.
    latency = 10

    def __init__(self, *, config, meta):
        self._config = config
        self._meta = meta
        if not config.pipelined:
            self.latency = 1
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
        beat_bits = config.addr_width - shift

        # A cycle later than it comes, for speed.
        pipelined = config.pipelined
        self._domain = "sync" if pipelined else "comb"
        self._written = Signal(table_write(config))
        self._ours = Signal()
        m.d[self._domain] += [
            self._written.eq(self.table.payload),
            self._ours.eq(self.table.valid & (self.table.payload.table == Table.REGION)
                          & (self.table.payload.entry < config.regions)),
        ]
        # Yet another one for what goes to each region's registers, which are many.
        self._bound_word = Signal(_BOUNDS)
        self._bound_data = Signal.like(self._written.data)
        m.d[self._domain] += [
            self._bound_word.eq(Cat(self._writes(word) for word in range(_BOUNDS))),
            self._bound_data.eq(self._written.data),
        ]

        # The stages before the head move while the spare place behind it is free, which a register
        # says; those after it while the answer goes on. A name ends in the number of the stage that
        # its register belongs to; the head is stage 4. Not pipelined, there is stage 5 only, and
        # the answer is what follows from it.
        move = Signal()
        go = Signal()
        full = Signal(5 if pipelined else 1)
        head_full = Signal()
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(go),
        ]
        with m.If(move):
            m.d.sync += full.eq(Cat(head_full, full))
            if pipelined:
                m.d.sync += self.o.valid.eq(full[-1])
        if not pipelined:
            m.d.comb += self.o.valid.eq(full[-1])

        def after(value, *, when, stages=1):
            """The value, that many stages later."""
            for _stage in range(stages):
                register = Signal.like(value)
                with m.If(when):
                    m.d.sync += register.eq(value)
                value = register
            return value

        def at_once(value, *, stages=1):
            # A signal each: as nested expressions they would be written out again and again.
            named = Signal.like(value)
            m.d.comb += named.eq(value)
            return named

        front = functools.partial(after, when=go) if pipelined else at_once
        fifth = functools.partial(after, when=move)
        back = functools.partial(after, when=move) if pipelined else at_once

        # What does not decide waits in a queue: a place for each stage, and one for the beat that
        # enters meanwhile.
        beside = data.StructLayout({
            "beat": beat_bits,
            "wg": config.wg_width,
            "wf": max(config.wf_width, 1),
            "meta": self._meta,
        })
        beat = self.i.payload
        waits = Signal(beside)
        came_with = Signal(beside)
        m.d.comb += [
            waits.beat.eq(beat.address[shift:]),
            *(waits[name].eq(beat[name]) for name in ("wg", "wf", "meta")),
        ]
        if pipelined:
            m.submodules.waiting = waiting = StreamQueue(shape=beside, depth=3 + 2 + len(full) + 1)
            m.d.comb += [
                waiting.i.valid.eq(self.i.valid & go),
                waiting.i.payload.eq(waits),
                waiting.o.ready.eq(move & full[-1]),
                came_with.eq(waiting.o.payload),
            ]
        else:
            with m.If(move):
                m.d.sync += came_with.eq(waits)

        # Stage 1: the first and the last strobed byte.
        first = Signal(shift)
        last = Signal(shift)
        for index in range(config.beat_bytes):
            with m.If(beat.strobe[index]):
                m.d.comb += last.eq(index)
        for index in reversed(range(config.beat_bytes)):
            with m.If(beat.strobe[index]):
                m.d.comb += first.eq(index)
        beat_1 = front(beat.address[shift:])
        first_1 = front(first)
        last_1 = front(last)
        any_1 = front(beat.strobe.any())
        wg_1 = front(beat.wg)
        wf_1 = front(beat.wf)

        # Stages 2 and 3: every region at once. The first byte less the base, and the limit less the
        # last byte: neither is negative where the beat is inside. A beat is across an edge where
        # its bytes are, and the difference of what is above them, less what they borrow, is -1.
        inside_3 = Signal(config.regions)
        touches_3 = Signal(config.regions)
        for number in range(config.regions):
            enable, base, limit = self._bounds(m, number)
            above = Signal(config.addr_width + 1, name=f"above_{number}")
            below = Signal(config.addr_width + 1, name=f"below_{number}")
            m.d.comb += [
                above.eq(Cat(first_1, beat_1) - base),
                below.eq(limit - Cat(last_1, beat_1)),
            ]
            outside_2 = front(Cat(above[-1], below[-1]))
            not_at_base_2 = front(any_by_parts(~above[shift:-1], _PART))
            not_at_limit_2 = front(any_by_parts(~below[shift:-1], _PART))
            across_base_2 = front((first_1 < base[:shift]) & (last_1 >= base[:shift]))
            across_limit_2 = front((first_1 <= limit[:shift]) & (last_1 > limit[:shift]))
            m.d.comb += [
                inside_3[number].eq(front(enable & (outside_2 == 0))),
                touches_3[number].eq(front(
                    enable
                    & (~outside_2[0] | ~not_at_base_2.any() & across_base_2)
                    & (~outside_2[1] | ~not_at_limit_2.any() & across_limit_2))),
            ]
        any_3 = front(any_1, stages=2)

        # Stage 4, the head: the lowest region. Where the head stands still, the beat behind it
        # goes aside.
        found = data.StructLayout({
            "region": range(config.regions),
            "any": 1,
            "match": 1,
            "straddle": 1,
            "beat": beat_bits,
            "first": shift,
            "wg": config.wg_width,
            "wf": max(config.wf_width, 1),
        })
        entering = Signal(found)
        head = Signal(found)
        for number in reversed(range(config.regions)):
            with m.If(inside_3[number]):
                m.d.comb += entering.region.eq(number)
        m.d.comb += [
            entering.any.eq(any_3),
            entering.match.eq(any_3 & inside_3.any()),
            entering.straddle.eq(any_3 & touches_3.any() & ~inside_3.any()),
            entering.beat.eq(front(beat_1, stages=2)),
            entering.first.eq(front(first_1, stages=2)),
            entering.wg.eq(front(wg_1, stages=2)),
            entering.wf.eq(front(wf_1, stages=2)),
        ]
        if pipelined:
            came = Signal(3)
            _aside, aside_full = spare_place(m, value=entering, valid=came[-1], out=head,
                                             out_valid=head_full, free=~head_full | move)
            m.d.comb += go.eq(~aside_full)
            with m.If(go):
                m.d.sync += came.eq(Cat(self.i.valid, came))
        else:
            m.d.comb += [go.eq(move), head.eq(entering), head_full.eq(self.i.valid)]

        # Stage 5: what the tile needs of the region's entry comes out of the memories.
        region_5 = fifth(head.region) if pipelined else head.region
        beat_5 = fifth(head.beat)
        first_5 = fifth(head.first)
        wg_5 = fifth(head.wg)
        wf_5 = fifth(head.wf)
        field = functools.partial(self._field, m, move=move)
        wf_shift_5 = field("wf_shift", _CONTROL, _control["wf_shift"], region=head.region)

        # Stage 6: sums. Stage 7: half of a number from the address. Stage 8: the tile's number.
        region_6 = back(region_5)
        region_7 = back(region_6)
        region_8 = back(region_7)
        shifted_wg_6 = back(wg_5 << wf_shift_5)
        wf_6 = back(wf_5)
        wf_fits_6 = back(~(wf_5 >> wf_shift_5).any())
        user_number_7 = back(shifted_wg_6 + wf_6)
        by_address_7, address_number_7 = self._by_address(
            field, back, Cat(first_5, beat_5), region=head.region)
        by_address_8 = back(by_address_7)
        number_8 = back(Mux(by_address_7, address_number_7, user_number_7))
        wf_fits_8 = back(wf_fits_6, stages=2)
        first_tile_8 = field("first_tile", _FIRST_TILE, data.Field(tile_bits, 0), region=region_7)

        # Stage 9: the slot, and the other fields. A number that is too large must not come back as
        # another tile's.
        by_address_9 = back(by_address_8)
        wg_9 = back(number_8[:config.wg_width])
        wg_fits_9 = back(~(by_address_8 & number_8[config.wg_width:].any()))
        slot_9 = back(first_tile_8 + number_8[:tile_bits])
        number_fits_9 = back(~number_8[tile_bits:].any() & (by_address_8 | wf_fits_8))
        # All of the control word but its first bit, which `_bounds` keeps.
        control_9 = data.View(_control, Cat(Const(0, 1), field(
            "control", _CONTROL, data.Field(_control.size - 1, 1), region=region_8)))
        delta_9 = field("delta", _DELTA, data.Field(beat_bits, shift), region=region_8)
        touch_offset_9 = field("touch_offset", _TOUCH_OFFSET, data.Field(touch_bits, 0),
                               region=region_8)

        # The answer. The plan is looked at now, and not before.
        view = self.plans[control_9.plan[:plan_width(config)]]
        exists = Signal()
        answer = self.o.payload
        m.d.comb += exists.eq(control_9.plan < config.plans)
        with m.If(move if pipelined else 1):
            m.d[self._domain] += [
                answer.any.eq(back(fifth(head.any), stages=4)),
                answer.match.eq(back(fifth(head.match), stages=4)),
                answer.straddle.eq(back(fifth(head.straddle), stages=4)),
                *(answer[name].eq(control_9[name])
                  for name in ("action", "dtype", "tracked", "first_touch", "accept_store",
                               "accept_update", "plan")),
                answer.armed.eq(view.armed & exists),
                answer.epoch.eq(view.epoch),
                answer.slot.eq(slot_9[:tile_bits]),
                answer.wg.eq(Mux(by_address_9, wg_9, came_with.wg)),
                answer.wf.eq(Mux(by_address_9, 0, came_with.wf)),
                answer.wg_fits.eq(wg_fits_9),
                answer.tile_known.eq(number_fits_9 & ~slot_9[tile_bits] & wg_fits_9 & exists
                                     & (slot_9[:tile_bits] >= view.first_tile)
                                     & (slot_9[:tile_bits] <= view.last_tile)),
                answer.touch_index.eq(came_with.beat + touch_offset_9),
                answer.address[shift:].eq(came_with.beat),
                answer.destination[shift:].eq(came_with.beat + delta_9),
                answer.meta.eq(came_with.meta),
            ]

        return m

    def _by_address(self, field, back, address, *, region):
        """Whether a tile's number comes from the address, and which it is, between stages 7 and 8.

        The column is the low pitch - row_bytes bits of offset >> row_bytes, the row is all above
        them of that >> rows.
        """
        config = self._config
        if not config.address_tiles:
            return Const(0, 1), Const(0, 1)
        mode_5 = field("mode", _CONTROL, _control["mode"], region=region)
        pitch_5 = field("pitch", _GEOMETRY, _geometry["pitch"], region=region)
        rows_5 = field("rows", _GEOMETRY, _geometry["rows"], region=region)
        row_bytes_5 = field("row_bytes", _GEOMETRY, _geometry["row_bytes"], region=region)
        base_5 = field("base", _BASE, data.Field(config.addr_width, 0), region=region)
        by_address_6 = back(mode_5 == TileIdMode.ADDRESS.value)
        rows_6 = back(rows_5)
        row_bytes_6 = back(row_bytes_5)
        columns_6 = back(Mux(pitch_5 > row_bytes_5, (pitch_5 - row_bytes_5)[:6], 0))
        offset_6 = back((address - base_5)[:config.addr_width])
        by_address_7 = back(by_address_6)
        rows_7 = back(rows_6)
        mask_7 = back(_ones(columns_6, config.addr_width))
        shifted_7 = back(offset_6 >> row_bytes_6)
        return by_address_7, (shifted_7 >> rows_7) & ~mask_7 | shifted_7 & mask_7

    def _writes(self, word):
        return self._ours & (self._written.word == word)

    def _bounds(self, m, number):
        """The registers that all regions are compared with at once: enable, base, limit."""
        width = self._config.addr_width
        enable = Signal(name=f"enable_{number}")
        base = Signal(width, name=f"base_{number}")
        limit = Signal(width, name=f"limit_{number}")
        ours = Signal(name=f"ours_{number}")
        m.d[self._domain] += ours.eq(self._written.entry == number)
        with m.If(self._bound_word[_CONTROL] & ours):
            m.d.sync += enable.eq(self._bound_data[0])
        for word, register in ((_BASE, base), (_LIMIT, limit)):
            for part in range(0, width, 32):
                with m.If(self._bound_word[word + part // 32] & ours):
                    m.d.sync += register[part:part + 32].eq(self._bound_data)
        return enable, base, limit

    def _field(self, m, name, word, part, *, region, move):
        """A field of a region, a stage after ``region``: ``part`` (width and offset) of what begins
        in ``word``; a memory a word of the entry."""
        values = []
        attrs = small_memory(self._config)
        if attrs:
            attrs = attrs | {"no_rw_check": 1}
        low, left = part.offset, Shape.cast(part.shape).width
        while left:
            width = min(left, 32 - low)
            memory = Memory(shape=width, depth=self._config.regions, init=[], attrs=attrs)
            m.submodules[f"{name}_{len(values)}"] = memory
            write = memory.write_port()
            read = memory.read_port()
            m.d.comb += [
                write.en.eq(self._writes(word + len(values))),
                write.addr.eq(self._written.entry),
                write.data.eq(self._written.data[low:]),
                read.en.eq(move),
                read.addr.eq(region),
            ]
            values.append(read.data)
            low, left = 0, left - width
        return Cat(*values)


def _ones(count, width):
    """As many ones as ``count``, of 6 bits, says, in ``width`` bits;
    without a carry chain a bit."""
    low, high = count[:3], count[3:]
    more = Cat(Cat(low == value for value in range(bit + 1, 8)).any() for bit in range(7))
    further = Cat(Cat(high == value for value in range(bit + 1, 8)).any() for bit in range(7))
    return Cat((further[bit // 8] if bit < 56 else 0)
               | (high == bit // 8) & (more[bit % 8] if bit % 8 < 7 else 0)
               for bit in range(width))
