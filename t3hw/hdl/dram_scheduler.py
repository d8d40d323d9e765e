"""DRAM scheduler: a window of accesses, and which command is next."""

import math

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .dram_banks import bank_commands
from .one_hot import any_of, chosen_of, index_of
from .popcount import popcount
from .writes_under_way import WritesUnderWay

__all__ = ["DramScheduler", "waiting_access"]

#: An access is old when this many to twice as many cycles have passed since it came.
AGE_LIMIT = 256
#: Cycles that work in one direction waits for work in the other at most.
TURN_LIMIT = 64
#: Accesses of the other direction, as a share of the window, that are worth a change.
TURN_SHARE = 1 / 4


def waiting_access(timing, beat_width):
    """What the scheduler knows of an access. ``bank`` has a bit a bank, none where ``outside``."""
    return data.StructLayout({
        "write": 1,
        "adds": 1,
        "outside": 1,
        "bank": timing.bank_groups * timing.banks,
        "row": ceil_log2(timing.rows),
        "beat": beat_width,
    })


class DramScheduler(wiring.Component):
    """First ready, first come: of the accesses that may go now the oldest goes.

    Accesses stay where they enter the window; a matrix of bits says which is older. In each cycle
    one column command is chosen and one row command:

    * *Column*: the oldest access of the current direction (reads, or writes) whose row is open,
      whose bank may, and whose beat no older access waits for.
    * *Row*: an ACT for the oldest access whose bank is closed, or else a PRE for the oldest whose
      bank has another row open that no access in the window wants any more.
    * *Direction*: it changes to one in which there is work, when there is no access of the current
      one at all; when there is none whose row is open, and the others fill `TURN_SHARE` of the
      window, or it has been so for as long as it takes to open a row; when there has been work for
      `TURN_LIMIT` cycles, and the current one has been served since it changed; and for an old
      access.
    * *Age*: an access that has waited for `AGE_LIMIT` cycles is old. Its bank serves no access of
      another row that is not old itself, so it waits for a bounded time.

    Accesses to one beat keep their order, but for two reads of it. One that needs the result of a
    write (a read, or a write that adds) is issued ``interlock`` cycles after it, or later.

    Latency from ``access`` to ``issue`` at least 1 cycle; throughput one access a cycle.

    Parameters
    ----------
    timing : DramTiming
        ``window`` and geometry.
    beat_width : int
        Bits of a beat's number.
    interlock : int
        See above.

    Members
    -------
    access : In, stream of `waiting_access`
        An access enters the window, at ``slot``.
    slot : Out(range(window))
        Where the next access enters.
    open, activate, precharge, read, write : In(banks)
        From `DramBanks`.
    close : In(1)
        All banks are closed in this cycle.
    command : Out(bank_commands)
        What the banks are told in this cycle.
    row : Out
        The row of ``command.activate``.
    issue : Out, {valid, slot}
        This access goes in this cycle, with ``command``'s column command or, if it is outside,
        without one.
    """

    def __init__(self, *, timing, beat_width, interlock):
        self._timing = timing
        self._beat_width = beat_width
        self._interlock = interlock
        banks = timing.bank_groups * timing.banks
        super().__init__({
            "access": In(stream.Signature(waiting_access(timing, beat_width))),
            "slot": Out(range(timing.window)),
            "open": In(banks),
            "activate": In(banks),
            "precharge": In(banks),
            "read": In(banks),
            "write": In(banks),
            "close": In(1),
            "command": Out(bank_commands(timing)),
            "row": Out(ceil_log2(timing.rows)),
            "issue": Out(data.StructLayout({"valid": 1, "slot": range(timing.window)})),
        })

    def elaborate(self, platform):
        m = Module()

        timing = self._timing
        window = timing.window
        banks = timing.bank_groups * timing.banks
        enters = self.access.payload

        # What is known of each access; a bit of a word, or a word each.
        valid, write, adds, outside = (Signal(window) for _ in range(4))
        hit, seen, old = (Signal(window) for _ in range(3))
        row = [Signal(len(self.row), name=f"row_{slot}") for slot in range(window)]
        beat = [Signal(self._beat_width, name=f"beat_{slot}") for slot in range(window)]
        older = [Signal(window, name=f"older_{slot}") for slot in range(window)]
        after = [Signal(window, name=f"after_{slot}") for slot in range(window)]
        # Which accesses go to each bank; some have left, so a mask must have valid ones only.
        members = [Signal(window, name=f"members_{bank}") for bank in range(banks)]

        def to_banks(mask, name):
            """The banks of the accesses in ``mask``."""
            result = Signal(banks, name=name)
            m.d.comb += result.eq(Cat((its & mask).any() for its in members))
            return result

        def to_accesses(mask, name):
            """The accesses whose banks are in ``mask``."""
            result = Signal(window, name=name)
            m.d.comb += result.eq(chosen_of(mask, members))
            return result

        def oldest(mask, name):
            """The oldest access in ``mask``, as a mask."""
            result = Signal(window, name=name)
            m.d.comb += result.eq(Cat(bit & ~(those & mask).any()
                                      for bit, those in zip(mask, older)))
            return result

        # Which accesses wait for a write that is in the adder, by the time since it was issued.
        places = self._interlock - 1
        held = [Signal(window, name=f"held_{place}") for place in range(places)]
        independent = Signal(window)
        m.d.comb += independent.eq(valid & ~any_of(held) & ~Cat(those.any() for those in after))

        # Banks with an old access that waits for another row.
        stale = to_banks(valid & old & ~hit, "stale")
        allowed = Signal(window)
        m.d.comb += allowed.eq(hit & (old | ~to_accesses(stale, "in_stale")))

        # Column command.
        writing = Signal()
        direction = Signal(window)
        work = Signal(window)
        can_go = to_accesses(Mux(writing, self.write, self.read), "can_go")
        eligible = Signal(window)
        m.d.comb += [
            direction.eq(write ^ (~writing).replicate(window)),
            work.eq(independent & allowed),
            eligible.eq(independent & outside
                        | work & direction & can_go),
        ]
        issued = oldest(eligible, "issued")
        issued_bank = to_banks(issued, "issued_bank")
        issued_write = Signal()
        issued_adds = Signal()
        m.d.comb += [
            issued_write.eq((issued & write).any()),
            issued_adds.eq((issued & adds).any()),
            self.command.read.eq(Mux(issued_write, 0, issued_bank)),
            self.command.write.eq(Mux(issued_write, issued_bank, 0)),
            self.command.update.eq(Mux(issued_adds, issued_bank, 0)),
            self.issue.valid.eq(issued.any()),
            self.issue.slot.eq(index_of(issued)),
        ]

        # Row command. A bank whose row is wanted stays open; a stale one only for the old.
        misses = Signal(window)
        wanted = to_banks(valid & hit, "wanted")
        wanted_by_old = to_banks(valid & hit & old, "wanted_by_old")
        m.d.comb += misses.eq(valid & ~outside & ~hit)
        activates = Signal(window)
        closes = Signal(window)
        any_activate = Signal()
        m.d.comb += [
            activates.eq(misses & to_accesses(self.activate, "can_activate")),
            any_activate.eq(activates.any()),
            closes.eq(misses & to_accesses(
                self.precharge & ~(wanted & ~stale) & ~wanted_by_old, "can_close")),
        ]
        row_choice = Signal(window)
        m.d.comb += row_choice.eq(Mux(any_activate, activates, closes))
        chosen = oldest(row_choice, "chosen")
        chosen_bank = to_banks(chosen, "chosen_bank")
        m.d.comb += [
            self.row.eq(chosen_of(chosen, row)),
            self.command.activate.eq(Mux(any_activate, chosen_bank, 0)),
            self.command.precharge.eq(Mux(any_activate, 0, chosen_bank)),
        ]

        self._turn(m, writing=writing, direction=direction, valid=valid & ~outside, work=work,
                   old=old, served=issued_bank.any())

        # A free slot, the lowest.
        free = Signal(window)
        put = Signal(window)
        m.d.comb += [
            free.eq(~valid & -(~valid)),
            self.slot.eq(index_of(free)),
            self.access.ready.eq(free.any()),
            put.eq(Mux(self.access.valid, free, 0)),
        ]

        # What an access that enters has to do with the others.
        after_those = Signal(window)
        needs_old = Signal()
        m.d.comb += [
            after_those.eq(Cat((its == enters.beat) & (bit | enters.write)
                               for its, bit in zip(beat, write))
                           & valid & ~outside & (~enters.outside).replicate(window)),
            needs_old.eq((~enters.write | enters.adds) & ~enters.outside),
        ]
        m.submodules.under_way = under_way = WritesUnderWay(
            width=self._beat_width, cycles=places - 1)
        m.d.comb += [
            under_way.issue.valid.eq((issued & write & ~outside).any()),
            under_way.issue.beat.eq(chosen_of(issued, beat)),
            under_way.beat.eq(enters.beat),
        ]

        # Of a write that is issued now, and of those before, by what has passed.
        waits = Signal(window)
        m.d.comb += waits.eq(Cat((those & issued).any() for those in after)
                             & (~write | adds) & issued_write.replicate(window))
        now = (after_those & issued & write).any()
        m.d.sync += held[0].eq(waits | Mux(needs_old & now, put, 0))
        for place in range(1, places):
            m.d.sync += held[place].eq(held[place - 1] | Mux(
                needs_old & under_way.match[place - 1], put, 0))

        # Which row is open, after this cycle's row command.
        rows = [Signal(len(self.row), name=f"open_row_{number}") for number in range(banks)]
        for number in range(banks):
            with m.If(self.command.activate[number]):
                m.d.sync += rows[number].eq(self.row)
        its_row = Signal(len(self.row))
        enters_hit = Signal()
        still_open = self.open & ~self.command.precharge & ~self.close.replicate(banks)
        m.d.comb += [
            its_row.eq(chosen_of(enters.bank, rows)),
            enters_hit.eq((enters.bank & still_open).any() & (its_row == enters.row)
                          | (enters.bank & self.command.activate).any() & (self.row == enters.row)),
        ]
        hits = Signal(window)
        changed = to_accesses(chosen_bank, "changed")
        opened = Signal(window)
        m.d.comb += [
            opened.eq(Mux(any_activate, Cat(its == self.row for its in row), 0)),
            hits.eq((hit & ~changed | opened & changed) & ~self.close.replicate(window)),
        ]

        tick = Signal(range(AGE_LIMIT))
        m.d.sync += tick.eq(tick + 1)
        aging = (tick == AGE_LIMIT - 1).replicate(window)
        m.d.sync += [
            valid.eq((valid & ~issued) | put),
            write.eq((write & ~put) | Mux(enters.write, put, 0)),
            adds.eq((adds & ~put) | Mux(enters.write & enters.adds, put, 0)),
            outside.eq((outside & ~put) | Mux(enters.outside, put, 0)),
            hit.eq((hits & ~put) | Mux(enters_hit, put, 0)),
            seen.eq((seen | aging) & valid & ~put),
            old.eq((old | aging & seen) & valid & ~put),
        ]
        for bit, its in zip(enters.bank, members):
            m.d.sync += its.eq((its & ~put) | Mux(bit, put, 0))
        for slot in range(window):
            with m.If(put[slot]):
                m.d.sync += [
                    row[slot].eq(enters.row),
                    beat[slot].eq(enters.beat),
                    older[slot].eq(valid & ~issued),
                    after[slot].eq(after_those & ~issued),
                ]
            with m.Else():
                m.d.sync += [
                    older[slot].eq(older[slot] & ~issued),
                    after[slot].eq(after[slot] & ~issued),
                ]

        return m

    def _turn(self, m, *, writing, direction, valid, work, old, served):
        """When the direction changes."""
        window = self._timing.window
        here = Signal(window)
        there = Signal(window)
        due = Signal(range(TURN_LIMIT + 1))
        useful = Signal()
        many = Signal()
        turn = Signal()
        others = Signal(range(window + 1))
        # The others may keep the very bank open that all accesses of this direction need.
        patience = self._timing.tRP + self._timing.tRCD
        waited = Signal(range(patience + 1))
        m.d.comb += [
            here.eq(work & direction),
            there.eq(work & ~direction),
            others.eq(popcount(valid & ~direction)),
            many.eq(others >= math.ceil(TURN_SHARE * window)),
            turn.eq(there.any() & (
                ~(valid & direction).any()
                | ~here.any() & (many | (waited == patience))
                # A change that serves nobody would start the time from write to read again.
                | (due == TURN_LIMIT) & useful
                | (there & old).any() & ~(here & old).any())),
        ]
        with m.If(here.any() | turn):
            m.d.sync += waited.eq(0)
        with m.Elif(there.any() & (waited != patience)):
            m.d.sync += waited.eq(waited + 1)
        with m.If(turn):
            m.d.sync += [
                writing.eq(~writing),
                due.eq(0),
                useful.eq(0),
            ]
        with m.Else():
            m.d.sync += [
                due.eq(due + (there.any() & (due != TURN_LIMIT))),
                useful.eq(useful | served),
            ]
