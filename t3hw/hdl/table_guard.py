"""Table guard: decides which writes of software to the tables happen."""

from typing import NamedTuple

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import checked_config
from ..registers import NO_COMMAND, TABLES, field_limits, table_sizes
from .seams import Table, plan_status, table_write

__all__ = ["TableGuard"]

WORD_WIDTH = 32

#: Cycles from a command to a plan to its answer, in which the plan's status takes effect.
SETTLE_CYCLES = 4


class _Range(NamedTuple):
    """A part of a table of ``size`` entries that a plan owns, and the plan's fields that say so."""

    first_key: str
    count_key: str
    size: int

    def layout(self):
        return data.StructLayout({"first": bits_for(self.size - 1), "count": bits_for(self.size)})

    def fits(self, own):
        return own.first + own.count <= self.size

    def overlap(self, own, other):
        return ((own.count != 0) & (other.count != 0)
                & (own.first < other.first + other.count)
                & (other.first < own.first + own.count))


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
    after reset, when no plan is busy.

    Latency 2 cycles from ``i.valid`` to ``i.ready``, and 1 more to ``table``; a command to a plan
    takes ``plans`` + 4 cycles more. Throughput one write in 3 cycles.

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
            "touch": _Range("first_touch", "touch_beats", config.touch_beats),
        }
        super().__init__({
            "i": In(stream.Signature(table_write(config))),
            "refused": Out(1),
            "table": Out(stream.Signature(table_write(config), always_ready=True)),
            "status": In(plan_status(config)),
        })

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

        # What plans own.
        owned = [Signal(data.StructLayout({name: kind.layout()
                                           for name, kind in self._ranges.items()}),
                        name=f"owned_{plan}") for plan in range(plans)]
        own = Signal.like(owned[0])
        other = Signal.like(owned[0])
        other_number = Signal(range(plans + 1))
        other_counts = Signal()
        m.d.sync += [
            own.eq(Array(owned)[entry]),
            other.eq(Array(owned)[other_number]),
            other_counts.eq(is_busy(other_number) & (other_number != entry)),
        ]
        clash = Signal()
        m.d.comb += clash.eq(Cat(
            ~kind.fits(own[name]) | other_counts & kind.overlap(own[name], other[name])
            for name, kind in self._ranges.items()).any())

        # Entries in the ranges of busy plans. The distance is known in the second cycle.
        inside = Signal(plans)
        for plan, ranges in enumerate(owned):
            distance = Signal(range(-2 ** 16, 2 ** 16), name=f"distance_{plan}")
            count = Signal(max(len(ranges.tiles.count), len(ranges.commands.count)),
                           name=f"count_{plan}")
            m.d.sync += [
                distance.eq(entry - Mux(self._is("TILE"), ranges.tiles.first,
                                        ranges.commands.first)),
                count.eq(Mux(self._is("TILE"), ranges.tiles.count, ranges.commands.count)),
            ]
            m.d.comb += inside[plan].eq((distance >= 0) & (distance < count))

        # Entries that name their plan. A region that counts for no tile does not belong to one.
        in_use = {
            "REGION": self._field("REGION", "enable") & self._field("REGION", "tracked"),
            "ROUTE": 1,
        }
        owner_layout = data.StructLayout({"used": 1, "plan": range(numbers)})
        owners = {name: Array(Signal(owner_layout, name=f"owner_of_{name.lower()}_{index}")
                              for index in range(table_sizes(self._config)[name]))
                  for name in in_use}

        command = Signal()
        arm = self._field("PLAN", "arm")
        clear = self._field("PLAN", "clear")
        m.d.comb += command.eq(self._at("PLAN", "arm"))

        refusals = [*self._unknown(), *self._beyond()]
        refusals += [
            command & arm & clear,
            command & arm & is_busy(entry[:3]),
            command & clear & clearing.bit_select(entry[:3], 1),
            self._is("PLAN") & ~command & is_busy(entry[:3]),
            (self._is("TILE") | self._is("COMMAND")) & (inside & busy[:plans]).any(),
        ]
        for name, used in in_use.items():
            now = Signal(owner_layout, name=f"owner_of_{name.lower()}")
            m.d.sync += now.eq(owners[name][entry])
            refusals += [
                self._is(name) & now.used & is_busy(now.plan),
                self._at(name, "plan") & used & is_busy(self._field(name, "plan")),
            ]

        settle = Signal(range(SETTLE_CYCLES + 1))
        act = Signal()
        with m.FSM():
            with m.State("LOOK"):
                m.d.sync += other_number.eq(0)
                with m.If(self.i.valid):
                    m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += self.refused.eq(Cat(refusals).any())
                m.next = "ACT"
                with m.If(command & (arm | clear)):
                    m.d.sync += other_number.eq(1)
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                # One plan a cycle, each looked at in the cycle before.
                m.d.sync += other_number.eq(other_number + 1)
                with m.If(clash):
                    m.d.sync += self.refused.eq(1)
                with m.If(other_number == plans):
                    m.d.sync += other_number.eq(0)
                    m.next = "ACT"
            with m.State("ACT"):
                m.d.comb += act.eq(~self.refused)
                m.d.sync += settle.eq(SETTLE_CYCLES)
                with m.If(act & command & (arm | clear)):
                    m.next = "SETTLE"
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    m.next = "LOOK"
            with m.State("SETTLE"):
                m.d.sync += settle.eq(settle - 1)
                with m.If(settle == 1):
                    m.d.comb += self.i.ready.eq(1)
                    m.next = "LOOK"

        m.d.sync += [
            self.table.valid.eq(act & ~(command & ~arm & ~clear)),
            self.table.payload.eq(self.i.payload),
        ]
        with m.If(act):
            for name, used in in_use.items():
                with m.If(self._at(name, "plan")):
                    m.d.sync += [owners[name][entry].used.eq(used),
                                 owners[name][entry].plan.eq(self._field(name, "plan"))]
            for plan, ranges in enumerate(owned):
                for name, kind in self._ranges.items():
                    with m.If(self._at("PLAN", kind.first_key) & (entry == plan)):
                        m.d.sync += ranges[name].first.eq(self._field("PLAN", kind.first_key))
                    with m.If(self._at("PLAN", kind.count_key) & (entry == plan)):
                        m.d.sync += ranges[name].count.eq(self._field("PLAN", kind.count_key))

        return m
