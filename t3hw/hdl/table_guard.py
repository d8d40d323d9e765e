"""Table guard: decides which writes of software to the tables happen."""

from typing import NamedTuple

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import checked_config
from ..registers import NO_COMMAND, TABLES, field_limits, table_sizes
from .seams import Table, plan_status, table_write

__all__ = ["SETTLE_CYCLES", "TableGuard"]

WORD_WIDTH = 32

#: Cycles from a command to a plan to its answer, in which the plan's status takes effect.
SETTLE_CYCLES = 4


class _Range(NamedTuple):
    """A part of a table of ``size`` entries that a plan owns, and the plan's fields that say so."""

    first_key: str
    count_key: str
    size: int


class TableGuard(wiring.Component):
    """Check writes to tables, and pass on what is allowed.

    Refused are

    * an entry or word that does not exist, and a value beyond its limit;
    * words of a plan that is *busy*, which is armed or clearing;
    * regions that are enabled and tracked, and routes, of a busy plan, and what would move one into
      a busy plan;
    * tiles and commands in the range of a busy plan;
    * to arm a busy plan, to clear one that is clearing, and both at once;
    * to arm or clear a plan whose tiles, commands or touch beats do not exist, or are also those of
      another busy plan.

    The guard keeps its own copy of the words that say what belongs to a plan. Its copies are empty
    after reset, when no plan is busy. They are in memories, and looked at one a cycle (a *walk*).

    Latency 2 cycles from ``i.valid`` to ``i.ready``, and 1 more to ``table``. A tile or a command
    takes `walk_cycles` (1) more while a plan is busy, and a command to a plan `walk_cycles` (3) and
    `SETTLE_CYCLES` more. Throughput one write in 3 cycles, or as many more.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Members
    -------
    i : In, stream of `table_write`
        What software asks for. Ready for one cycle when it is decided.
    refused : Out(1)
        The decision, while ``i.ready`` is high.
    table : Out, stream of `table_write`, always ready
        What happens.
    status : In(plan_status)
        ``armed`` and ``clearing`` of the plans.
    """

    def __init__(self, *, config):
        self._config = checked_config(config)
        self._ranges = {
            "tiles": _Range("first_tile", "tiles", config.tiles),
            "commands": _Range("first_command", "commands", config.commands),
        }
        if config.collective:
            self._ranges["touch"] = _Range("first_touch", "touch_beats", config.touch_beats)
        super().__init__({
            "i": In(stream.Signature(table_write(config))),
            "refused": Out(1),
            "table": Out(stream.Signature(table_write(config), always_ready=True)),
            "status": In(plan_status(config)),
        })

    def walk_cycles(self, kinds):
        """Cycles to look at all plans' ranges of so many kinds: one for each and for their own, and
        three until the last is judged."""
        return kinds * (self._config.plans + 1) + 3

    def _is(self, table):
        return self.i.p.table == Table[table]

    def _at(self, table, key):
        """The write goes to the first word of this field."""
        return self._is(table) & (self.i.p.word == TABLES[table].fields[key].word)

    def _field(self, table, key):
        """Value of a field of one word that is written."""
        field = TABLES[table].fields[key]
        return self.i.p.data[field.low:field.low + field.width]

    def _unknown(self):
        """Conditions under which the entry or the word does not exist."""
        for name, size in table_sizes(self._config).items():
            yield self._is(name) & ((self.i.p.entry >= size)
                                    | (self.i.p.word >= TABLES[name].words))

    def _beyond(self):
        """Conditions under which a value is beyond its limit."""
        for (name, key), limit in field_limits(self._config).items():
            field = TABLES[name].fields[key]
            if limit >= (1 << field.width) - 1:
                continue
            if field.width <= WORD_WIDTH:
                value = self._field(name, key)
                excess = value > limit
                if (name, key) == ("TILE", "command"):
                    excess &= value != NO_COMMAND
                yield self._at(name, key) & excess
            else:
                # Such a field has words of its own, and its limit is a mask over them.
                assert limit & limit + 1 == 0 and field.low == 0 and not field.width % WORD_WIDTH
                for part in range(field.width // WORD_WIDTH):
                    mask = ~limit >> WORD_WIDTH * part & 2 ** WORD_WIDTH - 1
                    yield (self._is(name) & (self.i.p.word == field.word + part)
                           & (self.i.p.data & mask).any())
        yield self._at("COMMAND", "first") & (
            self._field("COMMAND", "first") + self._field("COMMAND", "count_minus_1")
            >= self._config.tiles)

    def elaborate(self, platform):
        m = Module()
        plans = self._config.plans
        entry = self.i.p.entry

        # A place for each number that a plan field can hold; those of no plan are never busy.
        numbers = 1 << TABLES["REGION"].fields["plan"].width
        busy = Signal(numbers)
        clearing = Signal(numbers)
        m.d.sync += [
            busy.eq(Cat(status.armed | status.clearing for status in self.status)),
            clearing.eq(Cat(status.clearing for status in self.status)),
        ]

        def is_busy(plan):
            return busy.bit_select(plan, 1)

        command = Signal()
        arm = self._field("PLAN", "arm")
        clear = self._field("PLAN", "clear")
        walk = Signal()
        act = Signal()
        m.d.comb += command.eq(self._at("PLAN", "arm"))
        clash = self._walk(m, is_busy, command=command, walk=walk, act=act)

        # Entries that name their plan. A region that counts for no tile does not belong to one.
        in_use = {
            "REGION": self._field("REGION", "enable") & self._field("REGION", "tracked"),
            "ROUTE": 1,
        }
        refusals = [*self._unknown(), *self._beyond()]
        refusals += [
            command & arm & clear,
            command & arm & is_busy(entry[:3]),
            command & clear & clearing.bit_select(entry[:3], 1),
            self._is("PLAN") & ~command & is_busy(entry[:3]),
        ]
        owner_is_busy = 0
        for name, used in in_use.items():
            depth = max(table_sizes(self._config)[name], 2)
            is_used = Signal(depth, name=f"used_{name.lower()}")
            was_used = Signal(name=f"was_used_{name.lower()}")
            m.submodules[f"owners_{name.lower()}"] = owners = Memory(
                shape=range(numbers), depth=depth, init=[])
            read = owners.read_port()
            write = owners.write_port()
            m.d.comb += [
                read.addr.eq(entry),
                write.addr.eq(entry),
                write.data.eq(self._field(name, "plan")),
                write.en.eq(act & self._at(name, "plan")),
            ]
            m.d.sync += was_used.eq(self._is(name) & is_used.bit_select(entry[:bits_for(depth - 1)],
                                                                        1))
            with m.If(write.en):
                m.d.sync += is_used.bit_select(entry[:bits_for(depth - 1)], 1).eq(used)
            owner_is_busy |= was_used & is_busy(read.data)
            refusals.append(self._at(name, "plan") & used & is_busy(self._field(name, "plan")))

        # What is known of the write, in the cycle after it has come; as one bit if what makes it
        # may take long.
        refusal = Signal(len(refusals) if self._config.pipelined else 1)
        acts = Signal()  # it arms or clears
        is_idle = Signal()  # it is a command, and does neither
        walks = Signal()
        m.d.sync += [
            refusal.eq(Cat(refusals) if self._config.pipelined else Cat(refusals).any()),
            acts.eq(command & (arm | clear)),
            is_idle.eq(command & ~arm & ~clear),
            walks.eq(command & (arm | clear)
                     | (self._is("TILE") | self._is("COMMAND")) & busy.any()),
        ]

        settle = Signal(range(SETTLE_CYCLES + 1))
        left = Signal(range(self.walk_cycles(len(self._ranges)) + 1))
        with m.FSM():
            with m.State("LOOK"):
                with m.If(self.i.valid):
                    m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += [
                    self.refused.eq(refusal.any() | owner_is_busy),
                    left.eq(Mux(command, self.walk_cycles(len(self._ranges)),
                                self.walk_cycles(1)) - 1),
                ]
                m.next = "ACT"
                with m.If(walks):
                    m.d.comb += walk.eq(1)
                    m.next = "WALK"
            with m.State("WALK"):
                m.d.sync += left.eq(left - 1)
                with m.If(clash):
                    m.d.sync += self.refused.eq(1)
                with m.If(left == 0):
                    m.next = "ACT"
            with m.State("ACT"):
                m.d.comb += act.eq(~self.refused)
                m.d.sync += settle.eq(SETTLE_CYCLES)
                with m.If(act & acts):
                    m.next = "SETTLE"
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    m.next = "LOOK"
            with m.State("SETTLE"):
                m.d.sync += settle.eq(settle - 1)
                with m.If(settle == 1):
                    m.d.comb += self.i.ready.eq(1)
                    m.next = "LOOK"

        m.d["sync" if self._config.pipelined else "comb"] += [
            self.table.valid.eq(act & ~is_idle),
            self.table.payload.eq(self.i.payload),
        ]
        return m

    def _walk(self, m, is_busy, *, command, walk, act):
        """Look at what plans own, one range a cycle, from the cycle after ``walk`` on. Returns
        whether one that is busy owns what is written, or what the plan of a command would.

        A command: for each kind first the plan's own range, which must fit into its table, and then
        all others. A tile or command of a table is a range of one entry, and of its kind.
        """
        plans = self._config.plans
        entry = self.i.p.entry
        kinds = list(self._ranges.values())
        width = max(bits_for(kind.size) for kind in kinds)
        plan_bits = bits_for(plans - 1)
        parts = {}
        place = Signal(plan_bits + 2)
        for part, keys in (("first", [kind.first_key for kind in kinds]),
                           ("count", [kind.count_key for kind in kinds])):
            m.submodules[f"{part}s"] = memory = Memory(shape=width, depth=4 << plan_bits, init=[])
            read = memory.read_port()
            write = memory.write_port()
            known = Signal(4 << plan_bits, name=f"known_{part}s")
            is_known = Signal(name=f"is_known_{part}")
            for number, key in enumerate(keys):
                with m.If(self._at("PLAN", key)):
                    m.d.comb += [
                        write.en.eq(act),
                        write.addr.eq(Cat(C(number, 2), entry[:plan_bits])),
                        write.data.eq(self._field("PLAN", key)),
                    ]
            with m.If(write.en):
                m.d.sync += known.bit_select(write.addr, 1).eq(1)
            m.d.comb += read.addr.eq(place)
            m.d.sync += is_known.eq(known.bit_select(place, 1))
            parts[part] = Mux(is_known, read.data, 0)

        # Where the walk is: ``own`` before the first plan of a kind.
        stage = data.StructLayout({"valid": 1, "own": 1, "plan": range(plans + 1), "kind": 2})
        now = Signal(stage)
        with m.If(walk):
            m.d.sync += [
                now.valid.eq(1),
                now.own.eq(1),
                now.plan.eq(0),
                now.kind.eq(Mux(self._is("COMMAND"), 1, 0)),
            ]
        with m.Elif(now.own):
            m.d.sync += now.own.eq(0)
        with m.Elif(now.plan == plans - 1):
            m.d.sync += [
                now.own.eq(1),
                now.plan.eq(0),
                now.kind.eq(now.kind + 1),
                now.valid.eq(now.valid & command & (now.kind != len(kinds) - 1)),
            ]
        with m.Else():
            m.d.sync += now.plan.eq(now.plan + 1)
        m.d.comb += place.eq(Cat(now.kind, Mux(now.own, entry[:plan_bits],
                                               now.plan[:plan_bits])))

        # The words come; they become a range; it is compared.
        came = Signal(stage)
        ranged = Signal(stage)
        counts = Signal()
        m.d.sync += [
            came.eq(now),
            ranged.eq(came),
            counts.eq(came.valid & ~came.own & is_busy(came.plan[:3])
                      & ~(command & (came.plan == entry[:8]))),
        ]
        layout = data.StructLayout({"any": 1, "first": width + 1, "end": width + 1})
        range_ = Signal(layout)
        own = Signal(layout)
        single = came.own & ~command
        m.d.sync += [
            range_.any.eq(single | (parts["count"] != 0)),
            range_.first.eq(Mux(single, entry, parts["first"])),
            range_.end.eq(Mux(single, entry + 1, parts["first"] + parts["count"])),
        ]
        with m.If(ranged.own):
            m.d.sync += own.eq(range_)
        beyond = Signal()
        clash = Signal()
        size = Signal(width + 1)
        with m.Switch(came.kind):
            for number, kind in enumerate(kinds):
                with m.Case(number):
                    m.d.sync += size.eq(kind.size)
        m.d.comb += beyond.eq(ranged.valid & ranged.own & command & (range_.end > size))
        m.d.sync += clash.eq(
            beyond | counts & range_.any & own.any & (range_.first < own.end)
            & (own.first < range_.end))
        return clash
