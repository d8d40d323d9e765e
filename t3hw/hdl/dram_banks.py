"""DRAM banks: what each bank may be told in this cycle, and the refresh."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["DramBanks", "bank_commands"]


def bank_commands(timing):
    """What the scheduler tells the banks in a cycle; every field has a bit a bank, at most one set.

    ``update`` comes with ``write``.
    """
    banks = timing.bank_groups * timing.banks
    return data.StructLayout({
        "activate": banks,
        "precharge": banks,
        "read": banks,
        "write": banks,
        "update": banks,
    })


class DramBanks(wiring.Component):
    """Timers of a DRAM's banks, groups and channel; refreshes by itself.

    When a refresh is due all banks are closed and refreshed as soon as the timers allow it, and
    until then nothing else is allowed. Refreshes become due every tREFI, however late the former
    one was.

    Latency 1 cycle from a command to what it allows and forbids, so no command comes too late for
    the next one. Throughput one row and one column command a cycle, if ``timing`` allows it.

    Parameters
    ----------
    timing : DramTiming
        The timing.

    Members
    -------
    command : In(bank_commands)
        What the banks are told in this cycle. It must be allowed.
    open : Out(banks)
        A row is open.
    activate, precharge, read, write : Out(banks)
        What is allowed in this cycle, a bit a bank. ``write`` holds for updates, too.
    precharge_all, refresh : Out(1)
        All banks are told this in this cycle.
    """

    def __init__(self, *, timing):
        self._timing = timing
        banks = timing.bank_groups * timing.banks
        super().__init__({
            "command": In(bank_commands(timing)),
            "open": Out(banks),
            "activate": Out(banks),
            "precharge": Out(banks),
            "read": Out(banks),
            "write": Out(banks),
            "precharge_all": Out(1),
            "refresh": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        timing = self._timing
        groups = timing.bank_groups
        banks = groups * timing.banks
        command = self.command
        column = Signal(banks)
        m.d.comb += column.eq(command.read | command.write)

        def of_group(group, mask):
            return Cat(mask[bank] for bank in range(group, banks, groups)).any()

        # Bank by bank.
        column_ok, precharge_ok, activate_ok = Signal(banks), Signal(banks), Signal(banks)
        for bank in range(banks):
            m.d.comb += [
                column_ok[bank].eq(_timer(m, f"column_{bank}",
                                          (command.activate[bank], timing.tRCD))),
                precharge_ok[bank].eq(_timer(m, f"precharge_{bank}",
                                             (command.activate[bank], timing.tRAS),
                                             (command.read[bank], timing.tRTP),
                                             (command.write[bank], timing.write_to_precharge))),
                activate_ok[bank].eq(_timer(m, f"activate_{bank}",
                                            (command.activate[bank], timing.tRC),
                                            (command.precharge[bank] | self.precharge_all,
                                             timing.tRP))),
            ]

        # By group; bank numbers have the group in their low bits.
        group_column, group_read, group_activate = Signal(groups), Signal(groups), Signal(groups)
        for group in range(groups):
            m.d.comb += [
                group_column[group].eq(_timer(
                    m, f"group_column_{group}",
                    (of_group(group, column), timing.tCCD_L),
                    (of_group(group, command.update), timing.tCCD_L_update))),
                group_read[group].eq(_timer(
                    m, f"group_read_{group}",
                    (of_group(group, command.write), timing.write_to_read_l))),
                group_activate[group].eq(_timer(
                    m, f"group_activate_{group}",
                    (of_group(group, command.activate), timing.tRRD_L))),
            ]

        # All banks.
        any_column, any_read = Signal(), Signal()
        any_write, any_activate = Signal(), Signal()
        m.d.comb += [
            any_column.eq(_timer(m, "any_column", (column.any(), timing.tCCD_S))),
            any_read.eq(_timer(m, "any_read", (command.write.any(), timing.write_to_read_s))),
            any_write.eq(_timer(m, "any_write", (command.read.any(), timing.tRTW))),
            any_activate.eq(_timer(m, "any_activate", (command.activate.any(), timing.tRRD_S),
                                   (self.refresh, timing.tRFC))),
        ]

        # Four ACTs in the tFAW - 1 cycles before are the most that allow another one.
        recent = Signal(range(5))
        four = Signal()
        if timing.tFAW > 1:
            history = Signal(timing.tFAW - 1)
            m.d.sync += [
                history.eq(Cat(command.activate.any(), history)),
                recent.eq(recent + command.activate.any() - history[-1]),
            ]
            m.d.comb += four.eq(recent == 4)

        # Refresh.
        left = Signal(range(timing.tREFI), init=timing.tREFI - 1)
        due = Signal()
        m.d.sync += left.eq(Mux(left == 0, timing.tREFI - 1, left - 1))
        with m.If(left == 0):
            m.d.sync += due.eq(1)
        with m.Elif(self.refresh):
            m.d.sync += due.eq(0)
        m.d.comb += [
            self.precharge_all.eq(due & self.open.any() & precharge_ok.all()),
            self.refresh.eq(due & ~self.open.any() & activate_ok.all()),
        ]

        m.d.sync += self.open.eq((self.open | command.activate) & ~command.precharge
                                 & ~self.precharge_all.replicate(banks))
        go = Signal(banks)
        m.d.comb += [
            go.eq((~due).replicate(banks)),
            self.activate.eq(go & ~self.open & activate_ok & (any_activate & ~four).replicate(banks)
                             & group_activate.replicate(timing.banks)),
            self.precharge.eq(go & self.open & precharge_ok),
            self.read.eq(go & self.open & column_ok & (any_column & any_read).replicate(banks)
                         & (group_column & group_read).replicate(timing.banks)),
            self.write.eq(go & self.open & column_ok & (any_column & any_write).replicate(banks)
                          & group_column.replicate(timing.banks)),
        ]

        return m


def _timer(m, name, *events):
    """1 when for each (event, cycles) so many cycles have passed since the event."""
    longest = max(cycles for _, cycles in events)
    if longest <= 1:
        return C(1, 1)
    left = Signal(range(longest), name=f"{name}_left")
    lower = Mux(left == 0, 0, left - 1)
    following = lower
    for event, cycles in events:
        if cycles > 1:
            following = Mux(event & (following < cycles - 1), cycles - 1, following)
    m.d.sync += left.eq(following)
    return left == 0
