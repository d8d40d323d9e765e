"""Checks a trace of DRAM commands against the rules of DRAM, and nothing else.

``python -m t3hw.cosim.dram_checker TRACE --memory hbm2`` prints every violation as a line. The exit
code is 0 when there is none, 1 when there is one, and 2 when the input cannot be used.

The checker knows no controller and shares no code with the hardware: from the numbers of the
standard that a memory's file states, in ns and clocks, it works out the distances in controller
cycles itself.

Format of a trace
-----------------
Text. The first line is a comment that names the memory and the controller's clock::

    # memory hbm2, clock 2000 ps

Other lines that begin with ``#`` say nothing. Every other line is a command, in order of time::

    cycle command bank_group bank row column

with blanks between; numbers are decimal, and a field that does not apply is ``-``:

========  ==========================================  =====================
command   what it does                                fields
========  ==========================================  =====================
``ACT``   opens a row                                 group bank row ``-``
``PRE``   closes a bank                               group bank ``-`` ``-``
``PREA``  closes all banks                            ``- - - -``
``REF``   refreshes all banks                         ``- - - -``
``RD``    reads a column of the open row              group bank row column
``WR``    writes a column of the open row             group bank row column
``UPD``   writes a column by adding to it in the bank  group bank row column
========  ==========================================  =====================

``bank`` counts within its group. A cycle has at most one of the first four (row commands) and one
of the last three (column commands); the row command's line comes first. ``RD``, ``WR`` and ``UPD``
may have ``-`` as row, and then mean the one that is open.

Rules
-----
Distances are from command to command, in controller cycles; what the standard states in ns or
clocks is summed exactly and rounded once: up, and for tREFI down. All commands are taken to be on
the bus at the same time in their cycles. Where one bus carries both kinds, as in DDR3 and DDR4,
column commands may have a cycle's first clock and row commands the second: then ACT to RD, WR or
UPD is a clock less, which the rounding of tRCD leaves in the stock memories.

====================  =====================================================================
bank state            ACT finds its bank closed, RD, WR, UPD find it open, REF finds all closed
open row              RD, WR, UPD name the row that is open
command bus           one row command and one column command a cycle
data bus              bursts, which begin CL (WR and UPD: CWL) after the command, do not overlap
tRCD                  ACT to RD, WR, UPD
tRP                   PRE or PREA to ACT and to REF, also where nothing was open
tRAS                  ACT to PRE or PREA
tRC                   ACT to ACT of the same bank, and to REF
tCCD_S, tCCD_L        column command to column command of another, of the same group
tCCD_L update         UPD to column command of the same group
tRRD_S, tRRD_L        ACT to ACT of another, of the same group
tFAW                  ACT to the fourth one after it
tWTR_S, tWTR_L        end of a WR's or UPD's data to RD of another, of the same group
tRTW                  RD to WR or UPD
tWR                   end of a WR's or UPD's data to PRE or PREA
tRTP                  RD to PRE or PREA
tRFC                  REF to any row command
tREFI                 REF to REF: at most (1 + postponed) × tREFI
refresh rate          the n-th REF comes by (n + postponed) × tREFI; those that come before
                      their time count as such for at most as many
====================  =====================================================================

``postponed`` is 8 as in DDR3 and DDR4, unless told otherwise.
"""

import argparse
import collections
import dataclasses
import itertools
import math
import re
import sys
from fractions import Fraction

from t3hw.dram import DramError, DramTiming

__all__ = ["DramRules", "Report", "TraceError", "Violation", "check", "check_file"]

#: Exit codes: all is well; a rule was violated; bad input.
OK, VIOLATED, BAD_INPUT = 0, 1, 2

#: Refreshes that may be due and not done.
POSTPONED = 8

#: Violations that a report keeps; the others are only counted.
KEEP = 1000

#: A time before every trace.
_NEVER = -(10 ** 15)


class TraceError(ValueError):
    """A trace or a memory that cannot be used; the message quotes line and content."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DramRules:
    """What the checker knows of a memory. Times are controller cycles from command to command.

    Parameters
    ----------
    name : str
        Of the memory.
    clock_ps : int
        Length of a controller cycle.
    bank_groups, banks, rows, columns : int
        How many: groups, banks in each, rows in each, columns in each.
    clocks : int
        DRAM clocks in a controller cycle.
    read_latency, write_latency, burst : int
        CL, CWL and the length of a burst, in DRAM clocks.
    rcd, rp, ras, rc, ccd_s, ccd_l, ccd_l_update, rrd_s, rrd_l, faw, rtw, rtp, rfc : int
        The rules of these names.
    wtr_s, wtr_l, write_recovery : int
        tWTR_S, tWTR_L and tWR, from the write command on.
    refresh_interval : Fraction
        tREFI.
    """

    name: str
    clock_ps: int
    bank_groups: int
    banks: int
    rows: int
    columns: int
    clocks: int
    read_latency: int
    write_latency: int
    burst: int
    rcd: int
    rp: int
    ras: int
    rc: int
    ccd_s: int
    ccd_l: int
    ccd_l_update: int
    rrd_s: int
    rrd_l: int
    faw: int
    rtw: int
    rtp: int
    rfc: int
    wtr_s: int
    wtr_l: int
    write_recovery: int
    refresh_interval: Fraction

    @classmethod
    def derive(cls, timing):
        """The rules of a `DramTiming`, from what it states and not from what it derives."""
        clock = _picoseconds(timing.clock, 0)
        cycle = clock * timing.clock_ratio

        def time(field):
            return _picoseconds(getattr(timing, field), clock)

        def cycles(*amounts):
            """Of a sum of named times and of DRAM clocks; rounded up, once."""
            total = sum(time(amount) if isinstance(amount, str) else amount * clock
                        for amount in amounts)
            return math.ceil(total / cycle)

        written = timing.write_latency + timing.burst
        return cls(
            name=timing.name, clock_ps=round(cycle), bank_groups=timing.bank_groups,
            banks=timing.banks, rows=timing.rows, columns=timing.page_bytes // timing.column_bytes,
            clocks=timing.clock_ratio, read_latency=timing.read_latency,
            write_latency=timing.write_latency, burst=timing.burst,
            rcd=cycles("t_rcd"), rp=cycles("t_rp"), ras=cycles("t_ras"), rc=cycles("t_rc"),
            ccd_s=cycles("t_ccd_s"), ccd_l=cycles("t_ccd_l"),
            ccd_l_update=cycles(*["t_ccd_l"] * timing.update_factor),
            rrd_s=cycles("t_rrd_s"), rrd_l=cycles("t_rrd_l"), faw=cycles("t_faw"),
            # Write data follow read data after a pause of the bus.
            rtw=cycles(timing.read_latency + timing.burst + timing.turnaround
                       - timing.write_latency),
            rtp=cycles("t_rtp"), rfc=cycles("t_rfc"),
            wtr_s=cycles(written, "t_wtr_s"), wtr_l=cycles(written, "t_wtr_l"),
            write_recovery=cycles(written, "t_wr"), refresh_interval=time("t_refi") / cycle)


_PICOSECONDS = {"ps": 1, "ns": 10 ** 3, "us": 10 ** 6, "ms": 10 ** 9}


def _picoseconds(text, clock):
    """The longest of the times of a text such as ``"4 tCK, 7.5 ns"``."""
    longest = Fraction(0)
    for part in text.split(","):
        number, unit = part.split()
        longest = max(longest, Fraction(number) * (clock if unit == "tCK" else _PICOSECONDS[unit]))
    return longest


@dataclasses.dataclass(frozen=True, kw_only=True)
class Violation:
    """A rule that a command breaks.

    Parameters
    ----------
    cycle : int
        Of the command.
    rule : str
        Its name in the module's text.
    command : str
        The command.
    earlier : str
        What it comes too soon, or too late, after.
    needed, found : int or str
        Distance in cycles, or state.
    """

    cycle: int
    rule: str
    command: str
    earlier: str
    needed: int | str
    found: int | str

    def __str__(self):
        return (f"cycle {self.cycle}: {self.rule}: {self.command} after {self.earlier}: "
                f"needed {self.needed}, found {self.found}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What came of a check.

    Parameters
    ----------
    commands : mapping of str to int
        How many there were of each.
    cycles : int
        From the first command to the last, both included.
    violations : list of Violation
        The first ones.
    count : int
        Of all violations.
    """

    commands: dict
    cycles: int
    violations: list
    count: int

    @property
    def total(self):
        """Commands of all kinds."""
        return sum(self.commands.values())


#: The first line of a trace.
_HEADER = re.compile(r"# memory (\S+), clock (\d+) ps")


def check_file(path, rules, **options):
    """Check the trace in a file, whose first line must name the memory and its clock.

    Parameters
    ----------
    path : path-like
        The file.
    rules : DramRules
        The memory.
    options
        For `check`.

    Returns
    -------
    Report

    Raises
    ------
    TraceError
        As `check`, and if the file is of another memory, or cannot be read.
    """
    try:
        with open(path) as lines:
            first = lines.readline().rstrip("\n")
            found = _HEADER.fullmatch(first)
            if not found:
                raise TraceError("line 1 must be like '# memory hbm2, clock 2000 ps', "
                                 f"not {first[:80]!r}")
            if found[1] != rules.name:
                raise TraceError(f"the trace is of memory {found[1]!r}, not of {rules.name!r}")
            if int(found[2]) != rules.clock_ps:
                raise TraceError(f"the trace has a clock of {found[2]} ps, "
                                 f"not of {rules.clock_ps} ps")
            return check(itertools.chain([_HEAD], lines), rules, **options)
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


#: In place of the first line, so that lines keep their numbers.
_HEAD = "#"


def check(lines, rules, *, postponed=POSTPONED, keep=KEEP):
    """Check a trace.

    Parameters
    ----------
    lines : iterable of str
        The trace; comments are passed over.
    rules : DramRules
        The memory.
    postponed : int
        Refreshes that may be due and not done.
    keep : int
        Violations to keep.

    Returns
    -------
    Report

    Raises
    ------
    TraceError
        For a line that is no command, or an address that the memory does not have.
    """
    # A loop over many millions of lines: everything is a local name.
    groups = rules.bank_groups
    number_of_banks = groups * rules.banks
    bank_of = {(str(group), str(bank)): group + groups * bank
               for group in range(groups) for bank in range(rules.banks)}
    group_of = [bank % groups for bank in range(number_of_banks)]
    rows, columns, clocks = rules.rows, rules.columns, rules.clocks
    rcd, rp, ras, rc = rules.rcd, rules.rp, rules.ras, rules.rc
    ccd_s, ccd_l, ccd_u = rules.ccd_s, rules.ccd_l, rules.ccd_l_update
    rrd_s, rrd_l, faw, rfc = rules.rrd_s, rules.rrd_l, rules.faw, rules.rfc
    wtr_s, wtr_l, recovery, rtw, rtp = (rules.wtr_s, rules.wtr_l, rules.write_recovery, rules.rtw,
                                        rules.rtp)
    read_latency, write_latency, burst = rules.read_latency, rules.write_latency, rules.burst
    interval = rules.refresh_interval

    # The row that is open in each bank, or -1; cycles of the last commands by bank, group, at all.
    open_row = [-1] * number_of_banks
    activated = [_NEVER] * number_of_banks
    precharged = [_NEVER] * number_of_banks
    read = [_NEVER] * number_of_banks
    written = [_NEVER] * number_of_banks
    group_activated = [_NEVER] * groups
    group_column = [_NEVER] * groups
    group_updated = [_NEVER] * groups
    group_written = [_NEVER] * groups
    last_activated = last_column = last_written = last_read = refreshed = _NEVER
    act_1 = act_2 = act_3 = act_4 = _NEVER
    row_cycle = column_cycle = last = _NEVER
    # Where the data bus is free, in DRAM clocks, and the latest bursts on it.
    bus_end = _NEVER
    bursts = collections.deque(maxlen=2 * (max(read_latency, write_latency) // burst + 1))
    first = due = None
    counts = dict.fromkeys(("ACT", "PRE", "PREA", "REF", "RD", "WR", "UPD"), 0)
    activates = precharges = reads = writes = updates = 0
    violations = []
    count = 0

    def report(rule, earlier, needed, found):
        nonlocal count
        count += 1
        if len(violations) < keep:
            violations.append(Violation(cycle=cycle, rule=rule, command=_text(fields),
                                        earlier=earlier, needed=needed, found=found))

    def distance(rule, name, before, needed):
        report(rule, f"{name} in cycle {before}", needed, cycle - before)

    def others(rule, name, times, needed):
        """Too close to a command of another group, by the times of each group's last one."""
        before = max((time for group_, time in enumerate(times) if group_ != group), default=_NEVER)
        if cycle - before < needed:
            distance(rule, name, before, needed)

    def too_late(rule, limit, needed):
        """Refreshes that are missing."""
        report(rule, f"REF in cycle {refreshed}" if refreshed >= first else
               f"the first command in cycle {first}", needed, limit)

    def check_precharge(bank):
        if cycle - activated[bank] < ras:
            distance("tRAS", "ACT", activated[bank], ras)
        if cycle - read[bank] < rtp:
            distance("tRTP", "RD", read[bank], rtp)
        if cycle - written[bank] < recovery:
            distance("tWR", "WR or UPD", written[bank], recovery)

    for number, line in enumerate(lines, 1):
        fields = line.split()
        try:
            cycle_text, command, group_text, bank_text, row_text, column_text = fields
            cycle = int(cycle_text)
        except ValueError:
            if not fields or fields[0][0] == "#":
                continue
            raise _malformed(number, line) from None
        if cycle < last:
            raise TraceError(f"line {number}: cycle {cycle} comes after cycle {last}")
        last = cycle
        if first is None:
            first = cycle
            due = first + interval

        if command == "RD" or command == "WR" or command == "UPD":
            try:
                bank = bank_of[group_text, bank_text]
                column = int(column_text)
                row = open_row[bank] if row_text == "-" else int(row_text)
            except (KeyError, ValueError):
                raise _malformed(number, line) from None
            if not 0 <= column < columns or row >= rows or row_text != "-" and row < 0:
                raise _malformed(number, line)
            group = group_of[bank]
            if cycle == column_cycle:
                report("command bus", "another column command", "one", "two")
            if open_row[bank] < 0:
                report("bank state", "no ACT", "open", "closed")
            elif open_row[bank] != row:
                report("open row", "ACT", open_row[bank], row)
            if cycle - activated[bank] < rcd:
                distance("tRCD", "ACT", activated[bank], rcd)
            if cycle - group_column[group] < ccd_l:
                distance("tCCD_L", "column command", group_column[group], ccd_l)
            if cycle - group_updated[group] < ccd_u:
                distance("tCCD_L update", "UPD", group_updated[group], ccd_u)
            if cycle - last_column < ccd_s:
                others("tCCD_S", "column command", group_column, ccd_s)
            column_cycle = last_column = group_column[group] = cycle
            if command == "RD":
                reads += 1
                if cycle - group_written[group] < wtr_l:
                    distance("tWTR_L", "WR or UPD", group_written[group], wtr_l)
                if cycle - last_written < wtr_s:
                    others("tWTR_S", "WR or UPD", group_written, wtr_s)
                start = cycle * clocks + read_latency
                last_read = read[bank] = cycle
            else:
                if cycle - last_read < rtw:
                    distance("tRTW", "RD", last_read, rtw)
                start = cycle * clocks + write_latency
                last_written = written[bank] = group_written[group] = cycle
                if command == "WR":
                    writes += 1
                else:
                    updates += 1
                    group_updated[group] = cycle
            if start < bus_end:
                for other in bursts:
                    if -burst < start - other < burst:
                        report("data bus", f"data at clock {other}", f"{burst} clocks",
                               f"{abs(start - other)} clocks")
            bursts.append(start)
            if start + burst > bus_end:
                bus_end = start + burst
            continue

        if cycle == row_cycle:
            report("command bus", "another row command", "one", "two")
        row_cycle = cycle
        if cycle - refreshed < rfc:
            distance("tRFC", "REF", refreshed, rfc)
        if command == "ACT":
            try:
                bank = bank_of[group_text, bank_text]
                row = int(row_text)
            except (KeyError, ValueError):
                raise _malformed(number, line) from None
            if not 0 <= row < rows or column_text != "-":
                raise _malformed(number, line)
            activates += 1
            group = group_of[bank]
            if open_row[bank] >= 0:
                report("bank state", f"ACT in cycle {activated[bank]}", "closed", "open")
            if cycle - activated[bank] < rc:
                distance("tRC", "ACT", activated[bank], rc)
            if cycle - precharged[bank] < rp:
                distance("tRP", "PRE or PREA", precharged[bank], rp)
            if cycle - group_activated[group] < rrd_l:
                distance("tRRD_L", "ACT", group_activated[group], rrd_l)
            if cycle - last_activated < rrd_s:
                others("tRRD_S", "ACT", group_activated, rrd_s)
            if cycle - act_4 < faw:
                distance("tFAW", "four ACT, the first", act_4, faw)
            act_4, act_3, act_2, act_1 = act_3, act_2, act_1, cycle
            last_activated = activated[bank] = group_activated[group] = cycle
            open_row[bank] = row
        elif command == "PRE":
            try:
                bank = bank_of[group_text, bank_text]
            except KeyError:
                raise _malformed(number, line) from None
            if row_text != "-" or column_text != "-":
                raise _malformed(number, line)
            precharges += 1
            if open_row[bank] >= 0:
                check_precharge(bank)
                open_row[bank] = -1
            precharged[bank] = cycle
        elif fields[2:] != ["-"] * 4 or command not in ("PREA", "REF"):
            raise _malformed(number, line)
        elif command == "PREA":
            counts["PREA"] += 1
            for bank in range(number_of_banks):
                if open_row[bank] >= 0:
                    check_precharge(bank)
                    open_row[bank] = -1
                precharged[bank] = cycle
        else:
            counts["REF"] += 1
            for bank in range(number_of_banks):
                if open_row[bank] >= 0:
                    report("bank state", f"ACT in cycle {activated[bank]}, group {group_of[bank]} "
                           f"bank {bank // groups}", "closed", "open")
            if cycle - max(precharged) < rp:
                distance("tRP", "PRE or PREA", max(precharged), rp)
            if cycle - last_activated < rc:
                distance("tRC", "ACT", last_activated, rc)
            longest = math.floor((1 + postponed) * interval)
            if cycle - max(refreshed, first) > longest:
                too_late("tREFI", cycle - max(refreshed, first), longest)
            deadline = math.floor(due + postponed * interval)
            if cycle > deadline:
                too_late("refresh rate", f"cycle {cycle}", f"by cycle {deadline}")
                # One that is lost is reported once.
                due = Fraction(cycle)
            due = min(due, cycle + postponed * interval) + interval
            refreshed = cycle

    if first is None:
        raise TraceError("the trace has no commands")
    fields = ("", "the trace's end")
    longest = math.floor((1 + postponed) * interval)
    if cycle - max(refreshed, first) > longest:
        too_late("tREFI", cycle - max(refreshed, first), longest)
    deadline = math.floor(due + postponed * interval)
    if cycle > deadline:
        too_late("refresh rate", f"cycle {cycle}", f"by cycle {deadline}")
    counts |= {"ACT": activates, "PRE": precharges, "RD": reads, "WR": writes, "UPD": updates}
    return Report(commands=counts, cycles=last - first + 1, violations=violations, count=count)


def _text(fields):
    """A command as a message shows it."""
    names = ("group", "bank", "row", "column")
    parts = [f"{name} {value}" for name, value in zip(names, fields[2:]) if value != "-"]
    return " ".join([fields[1], *parts])


def _malformed(number, line):
    return TraceError(f"line {number} is no command of this memory: {line.strip()[:80]!r}")


def main(arguments=None):
    """Check a file; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m t3hw.cosim.dram_checker",
        description="Check a trace of DRAM commands against the rules of the memory.")
    parser.add_argument("trace", metavar="TRACE",
                        help="the trace; its form is in the module's text")
    parser.add_argument("--memory", required=True, metavar="NAME",
                        help="a stock memory, or a file NAME.toml with a memory's timing")
    parser.add_argument("--postponed", type=int, default=POSTPONED, metavar="N",
                        help="refreshes that may be due and not done (default: %(default)s)")
    parser.add_argument("--show", type=int, default=20, metavar="N",
                        help="violations to print (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        for name in ("postponed", "show"):
            if getattr(options, name) < 0:
                raise TraceError(f"--{name} must be at least 0, not {getattr(options, name)}")
        rules = DramRules.derive(DramTiming.preset(options.memory))
        result = check_file(options.trace, rules, postponed=options.postponed, keep=options.show)
    except (DramError, TraceError) as error:
        print(f"dram_checker: {error}", file=sys.stderr)
        return BAD_INPUT
    for violation in result.violations:
        print(violation)
    if result.count > len(result.violations):
        print(f"and {result.count - len(result.violations)} more")
    kinds = ", ".join(f"{count} {name}" for name, count in result.commands.items() if count)
    print(f"{options.trace}: {result.total} commands in {result.cycles} cycles ({kinds}): "
          f"{result.count or 'no'} violation{'s' if result.count > 1 else ''}")
    return VIOLATED if result.count else OK


if __name__ == "__main__":
    sys.exit(main())
