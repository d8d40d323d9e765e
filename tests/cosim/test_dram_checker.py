"""The checker of DRAM traces: every rule at its limit, and random traces with one command moved."""

import dataclasses
import random
from fractions import Fraction

import pytest

from t3hw.cosim.dram_checker import (BAD_INPUT, OK, VIOLATED, DramRules, TraceError, check,
                                     check_file, main)
from t3hw.dram import DramTiming

#: No two rules have the same distance, and none follows from the others.
RULES = DramRules(
    name="test", clock_ps=2000, bank_groups=2, banks=4, rows=16, columns=8, clocks=2,
    read_latency=10, write_latency=6, burst=2, rcd=5, rp=4, ras=9, rc=15, ccd_s=2, ccd_l=5,
    ccd_l_update=7, rrd_s=2, rrd_l=3, faw=12, rtw=6, rtp=3, rfc=20, wtr_s=6, wtr_l=8,
    write_recovery=11, refresh_interval=Fraction(2001, 10))
HEADER = "# memory test, clock 2000 ps"

#: Rule, the cycle at which the last command is legal, what comes before it, the command.
LIMITS = [
    ("tRCD", 5, "0 ACT 0 0 1 -", "RD 0 0 1 0"),
    ("tRCD", 5, "0 ACT 0 0 1 -", "WR 0 0 1 0"),
    ("tRCD", 5, "0 ACT 0 0 1 -", "UPD 0 0 1 0"),
    ("tRP", 24, "0 ACT 0 0 1 -; 20 PRE 0 0 - -", "ACT 0 0 2 -"),
    ("tRP", 24, "0 ACT 0 0 1 -; 20 PREA - - - -", "ACT 0 0 2 -"),
    ("tRP", 24, "0 ACT 0 0 1 -; 20 PRE 0 0 - -", "REF - - - -"),
    ("tRP", 24, "0 ACT 0 0 1 -; 9 PRE 0 0 - -; 20 PRE 0 0 - -", "ACT 0 0 2 -"),
    ("tRAS", 9, "0 ACT 0 0 1 -", "PRE 0 0 - -"),
    ("tRAS", 14, "0 ACT 0 0 1 -; 5 ACT 1 0 1 -", "PREA - - - -"),
    ("tRC", 15, "0 ACT 0 0 1 -; 9 PRE 0 0 - -", "ACT 0 0 2 -"),
    ("tRC", 15, "0 ACT 0 0 1 -; 9 PRE 0 0 - -", "REF - - - -"),
    ("tCCD_S", 22, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 20 RD 0 0 1 0", "RD 1 0 1 0"),
    ("tCCD_S", 22, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 20 UPD 0 0 1 0", "WR 1 0 1 0"),
    ("tCCD_L", 25, "0 ACT 0 0 1 -; 20 RD 0 0 1 0", "RD 0 0 1 0"),
    ("tCCD_L", 25, "0 ACT 0 0 1 -; 3 ACT 0 1 1 -; 20 WR 0 0 1 0", "UPD 0 1 1 0"),
    ("tCCD_L", 25, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 20 RD 0 0 1 0; 22 RD 1 0 1 0", "RD 0 0 1 0"),
    ("tCCD_L update", 27, "0 ACT 0 0 1 -; 3 ACT 0 1 1 -; 20 UPD 0 0 1 0", "WR 0 1 1 0"),
    ("tCCD_L update", 27, "0 ACT 0 0 1 -; 20 UPD 0 0 1 0", "UPD 0 0 1 0"),
    ("tCCD_L update", 27, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 20 UPD 0 0 1 0; 24 WR 1 0 1 0",
     "WR 0 0 1 0"),
    ("tRRD_S", 2, "0 ACT 0 0 1 -", "ACT 1 0 1 -"),
    ("tRRD_L", 3, "0 ACT 0 0 1 -", "ACT 0 1 1 -"),
    ("tFAW", 12, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 4 ACT 0 1 1 -; 6 ACT 1 1 1 -", "ACT 0 2 1 -"),
    ("tFAW", 15, "0 ACT 0 0 1 -; 3 ACT 1 0 1 -; 6 ACT 0 1 1 -; 8 ACT 1 1 1 -; 12 ACT 0 2 1 -",
     "ACT 1 2 1 -"),
    ("tWTR_S", 26, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 20 WR 0 0 1 0", "RD 1 0 1 0"),
    ("tWTR_S", 26, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 20 UPD 0 0 1 0", "RD 1 0 1 0"),
    ("tWTR_L", 28, "0 ACT 0 0 1 -; 3 ACT 0 1 1 -; 20 WR 0 0 1 0", "RD 0 1 1 0"),
    ("tWTR_L", 28, "0 ACT 0 0 1 -; 20 UPD 0 0 1 0", "RD 0 0 1 0"),
    ("tRTW", 26, "0 ACT 0 0 1 -; 20 RD 0 0 1 0", "WR 0 0 1 0"),
    ("tRTW", 26, "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 20 RD 0 0 1 0", "UPD 1 0 1 0"),
    ("tWR", 16, "0 ACT 0 0 1 -; 5 WR 0 0 1 0", "PRE 0 0 - -"),
    ("tWR", 16, "0 ACT 0 0 1 -; 5 UPD 0 0 1 0", "PREA - - - -"),
    ("tRTP", 13, "0 ACT 0 0 1 -; 10 RD 0 0 1 0", "PRE 0 0 - -"),
    ("tRTP", 13, "0 ACT 0 0 1 -; 10 RD 0 0 1 0", "PREA - - - -"),
    ("tRFC", 20, "0 REF - - - -", "ACT 0 0 1 -"),
    ("tRFC", 20, "0 REF - - - -", "REF - - - -"),
    ("tRFC", 20, "0 REF - - - -", "PREA - - - -"),
    ("tRFC", 20, "0 REF - - - -", "PRE 0 0 - -"),
]


def reported(text, rules=RULES, **options):
    """Rules that a trace breaks; commands are separated by semicolons."""
    lines = [HEADER, *(command.strip() for command in text.split(";"))]
    result = check(lines, rules, **options)
    assert result.count == len(result.violations)
    assert result.total == len(lines) - 1
    return [violation.rule for violation in result.violations]


@pytest.mark.parametrize("rule, cycle, before, command", LIMITS)
def test_a_distance_at_its_limit_and_one_cycle_less(rule, cycle, before, command):
    assert reported(f"{before}; {cycle} {command}") == []
    assert reported(f"{before}; {cycle - 1} {command}") == [rule]


@pytest.mark.parametrize("rule", ["rcd", "rp", "ras", "rc", "ccd_s", "ccd_l", "ccd_l_update",
                                  "rrd_s", "rrd_l", "faw", "rtw", "rtp", "rfc", "wtr_s", "wtr_l",
                                  "write_recovery"])
def test_a_distance_is_that_of_the_memory(rule):
    """With the rule one cycle longer, the same traces break it, and only those."""
    longer = dataclasses.replace(RULES, **{rule: getattr(RULES, rule) + 1})
    name = {"write_recovery": "tWR", "ccd_l_update": "tCCD_L update"}.get(
        rule, f"t{rule.upper()}")
    for limit, cycle, before, command in LIMITS:
        found = reported(f"{before}; {cycle} {command}", longer)
        assert set(found) <= {name}
        if limit == name:
            assert found


@pytest.mark.parametrize("rule, legal, broken", [
    ("bank state", "0 ACT 0 0 1 -; 30 PRE 0 0 - -; 60 ACT 0 0 2 -",
     "0 ACT 0 0 1 -; 60 ACT 0 0 2 -"),
    ("bank state", "0 ACT 1 0 1 -; 30 RD 1 0 1 0", "0 ACT 1 0 1 -; 30 RD 0 0 1 0"),
    ("bank state", "0 ACT 1 3 1 -; 30 WR 1 3 1 0", "0 ACT 1 3 1 -; 30 WR 1 2 1 0"),
    ("bank state", "0 ACT 0 0 1 -; 30 UPD 0 0 - 0",
     "0 ACT 0 0 1 -; 20 PRE 0 0 - -; 30 UPD 0 0 - 0"),
    ("bank state", "0 ACT 0 0 1 -; 30 PREA - - - -; 60 REF - - - -",
     "0 ACT 0 0 1 -; 30 PRE 1 0 - -; 60 REF - - - -"),
    ("open row", "0 ACT 0 0 1 -; 30 RD 0 0 1 0", "0 ACT 0 0 1 -; 30 RD 0 0 2 0"),
    ("open row", "0 ACT 0 0 1 -; 30 PRE 0 0 - -; 60 ACT 0 0 2 -; 90 WR 0 0 2 0",
     "0 ACT 0 0 1 -; 30 PRE 0 0 - -; 60 ACT 0 0 2 -; 90 WR 0 0 1 0"),
    ("command bus", "0 PRE 0 0 - -; 1 PRE 1 0 - -", "0 PRE 0 0 - -; 0 PRE 1 0 - -"),
])
def test_states(rule, legal, broken):
    assert reported(legal) == []
    assert reported(broken) == [rule]


def test_one_row_and_one_column_command_share_a_cycle():
    before = "0 ACT 0 0 1 -; 2 ACT 1 0 1 -; 4 ACT 0 1 1 -"
    assert reported(f"{before}; 20 PRE 0 0 - -; 20 RD 1 0 1 0") == []
    assert "command bus" in reported(f"{before}; 20 WR 1 0 1 0; 20 WR 0 0 1 0")


def test_bursts_do_not_overlap():
    """Read data come 10 clocks after the command, write data 6; a cycle has 2, a burst 2."""
    free = dataclasses.replace(RULES, rtw=1, ccd_s=1, ccd_l=1)
    before = "0 ACT 0 0 1 -; 2 ACT 1 0 1 -"
    assert reported(f"{before}; 20 RD 0 0 1 0; 23 WR 1 0 1 0", free) == []
    assert reported(f"{before}; 20 RD 0 0 1 0; 22 WR 1 0 1 0", free) == ["data bus"]
    # In between two reads there is no room, in front of the first there is.
    assert reported(f"{before}; 20 RD 0 0 1 0; 21 WR 1 0 1 0", free) == []
    assert reported(f"{before}; 20 RD 0 0 1 0; 23 RD 0 0 1 0; 24 WR 1 0 1 0", free) == []
    assert reported(f"{before}; 20 RD 0 0 1 0; 23 RD 0 0 1 0; 25 WR 1 0 1 0", free) == ["data bus"]
    # A burst of 3 clocks overlaps the next one of its own kind by one.
    wide = dataclasses.replace(free, burst=3)
    assert reported(f"{before}; 20 RD 0 0 1 0; 22 RD 1 0 1 0", wide) == []
    assert reported(f"{before}; 20 RD 0 0 1 0; 21 RD 1 0 1 0", wide) == ["data bus"]


@pytest.mark.parametrize("postponed", [0, 1, 8])
def test_refreshes_are_at_most_so_far_apart(postponed):
    # The first one counts as one before its time.
    longest = int((1 + postponed) * RULES.refresh_interval)
    after = f"{longest} REF - - - -"
    assert reported(f"0 REF - - - -; {after}", postponed=postponed) == []
    late = reported(f"0 REF - - - -; {longest + 1} REF - - - -", postponed=postponed)
    assert late[0] == "tREFI"
    if postponed:
        assert late == ["tREFI"]


def test_refreshes_keep_their_rate():
    """Each comes 2 cycles late: after 100 of them one interval is missing."""
    def trace(interval, refreshes):
        return "; ".join(f"{int(number * interval)} REF - - - -"
                         for number in range(1, refreshes + 1))
    trace_start = "0 PREA - - - -; "
    exact = RULES.refresh_interval
    assert reported(trace_start + trace(exact, 1000), postponed=1) == []
    assert reported(trace_start + trace(exact + 2, 95), postponed=1) == []
    assert reported(trace_start + trace(exact + 2, 105), postponed=1).count("refresh rate") == 1
    # Those before their time are not saved up for ever.
    early = trace(20, 100)
    assert reported(f"{trace_start}{early}; {2000 + 400} REF - - - -", postponed=1) == []
    assert reported(f"{trace_start}{early}; {2000 + 400} REF - - - -; 2800 REF - - - -; "
                    "3200 REF - - - -; 3600 REF - - - -", postponed=1) == ["refresh rate"]


@pytest.mark.parametrize("end, rules", [
    (1800, []), (1801, ["tREFI", "refresh rate"])])
def test_a_trace_that_ends_without_refresh(end, rules):
    assert reported(f"0 ACT 0 0 1 -; {end} RD 0 0 1 0") == rules


def test_a_report_says_all():
    lines = [HEADER, "", "# a remark", "3 ACT 0 2 7 -", "6 RD 0 2 7 5", "6 WR 0 2 7 5"]
    result = check(lines, RULES, keep=1)
    assert result.commands == {"ACT": 1, "PRE": 0, "PREA": 0, "REF": 0, "RD": 1, "WR": 1, "UPD": 0}
    assert (result.total, result.cycles, len(result.violations)) == (3, 4, 1)
    assert result.count > 1
    assert str(result.violations[0]) == ("cycle 6: tRCD: RD group 0 bank 2 row 7 column 5 after "
                                         "ACT in cycle 3: needed 5, found 3")


@pytest.mark.parametrize("line", [
    "x", "1 ACT", "1 ACT 0 0 1", "1 ACT 0 0 1 - -", "one ACT 0 0 1 -", "1 act 0 0 1 -",
    "1 ACT 2 0 1 -", "1 ACT 0 4 1 -", "1 ACT 0 0 16 -", "1 ACT 0 0 -1 -", "1 ACT 0 0 - -",
    "1 ACT 0 0 1 0", "1 ACT - 0 1 -", "1 RD 0 0 1 8", "1 RD 0 0 16 0", "1 RD 0 0 0 -",
    "1 RD 0 0 -2 0", "1 RD 0 0 0 -1", "1 UPD 0 - 0 0", "1 PRE 0 0 1 -", "1 PRE 0 0 - 1",
    "1 PRE - - - -", "1 PREA 0 - - -", "1 REF - - - 0", "1 NOP - - - -", "1.5 REF - - - -",
])
def test_a_line_that_is_no_command_is_quoted(line):
    with pytest.raises(TraceError, match="line 2 is no command of this memory") as caught:
        check([HEADER, line], RULES)
    assert repr(line) in str(caught.value)


def test_time_does_not_go_back():
    with pytest.raises(TraceError, match="line 3: cycle 4 comes after cycle 5"):
        check([HEADER, "5 PREA - - - -", "4 REF - - - -"], RULES)


def test_a_trace_without_commands_is_not_a_good_one():
    with pytest.raises(TraceError, match="no commands"):
        check([HEADER, ""], RULES)


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("header, message", [
    ("0 PREA - - - -", "must be like '# memory hbm2, clock 2000 ps', not '0 PREA"),
    ("# memory other, clock 2000 ps", "of memory 'other', not of 'test'"),
    ("# memory test, clock 1000 ps", "clock of 1000 ps, not of 2000 ps"),
    ("", "must be like"),
])
def test_a_file_must_be_of_the_same_memory(tmp_path, header, message):
    path = write(tmp_path / "trace", header, "0 PREA - - - -")
    with pytest.raises(TraceError, match=message) as caught:
        check_file(path, RULES)
    assert str(path) in str(caught.value)
    assert check_file(write(path, HEADER, "0 PREA - - - -"), RULES).count == 0


class Generator:
    """Random legal traces, by looking back at every earlier command for every new one.

    Shares no code with the checker: distances are between kinds of commands, in one table.
    """

    def __init__(self, rng, rules):
        self.rng = rng
        self.rules = rules
        self.history = []  # (cycle, command, group, bank, row)
        self.open = {}

    def needed(self, earlier, later):
        """Cycles from one command to another."""
        rules = self.rules
        _, first, group, bank, _ = earlier
        second, group_2, bank_2 = later
        same_group = group == group_2
        same_bank = (group, bank) == (group_2, bank_2) or first == "REF" or second == "REF"
        column, write = ("RD", "WR", "UPD"), ("WR", "UPD")
        needs = [0]
        if (first in column) == (second in column):
            needs.append(1)
        if first == "ACT" and second == "ACT":
            needs.append(rules.rrd_l if same_group else rules.rrd_s)
        if same_bank:
            needs.append({("ACT", "ACT"): rules.rc, ("ACT", "REF"): rules.rc,
                          ("ACT", "PRE"): rules.ras, ("PRE", "ACT"): rules.rp,
                          ("PRE", "REF"): rules.rp, ("RD", "PRE"): rules.rtp,
                          ("WR", "PRE"): rules.write_recovery,
                          ("UPD", "PRE"): rules.write_recovery}.get((first, second), 0))
            if first == "ACT" and second in column:
                needs.append(rules.rcd)
        if first == "REF" and second not in column:
            needs.append(rules.rfc)
        if first in column and second in column:
            needs.append(rules.ccd_l if same_group else rules.ccd_s)
            if first == "UPD" and same_group:
                needs.append(rules.ccd_l_update)
            if first in write and second == "RD":
                needs.append(rules.wtr_l if same_group else rules.wtr_s)
            if first == "RD" and second in write:
                needs.append(rules.rtw)
        return max(needs)

    def issue(self, command, group=None, bank=None):
        """Issue at the first cycle that is legal, or a little later; whether a rule held it."""
        # Two commands a cycle at most: older ones are further away than any rule reaches.
        needs = ((entry[0], self.needed(entry, (command, group, bank)))
                 for entry in self.history[-100:])
        earliest = max((cycle + need for cycle, need in needs if need), default=0)
        activates = [entry[0] for entry in self.history[-100:] if entry[1] == "ACT"]
        if command == "ACT" and len(activates) >= 4:
            earliest = max(earliest, activates[-4] + self.rules.faw)
        last = self.history[-1][0] if self.history else 0
        tight = earliest >= last and self.rng.random() < 0.7
        cycle = max(earliest, last) + (0 if tight else self.rng.randrange(4))
        row = self.open.get((group, bank))
        if command == "ACT":
            row = self.open[group, bank] = self.rng.randrange(self.rules.rows)
        elif command == "PRE":
            del self.open[group, bank]
        self.history.append((cycle, command, group, bank, row))
        return tight and earliest > 0

    def trace(self, commands):
        """Lines, and for each whether a rule held the command."""
        rng, rules, held = self.rng, self.rules, []
        while len(held) < commands:
            group, bank = rng.randrange(rules.bank_groups), rng.randrange(rules.banks)
            if rng.random() < 0.02:
                for place in list(self.open):
                    held.append(self.issue("PRE", *place))
                held.append(self.issue("REF"))
            elif (group, bank) not in self.open:
                held.append(self.issue("ACT", group, bank))
            elif rng.random() < 0.25:
                held.append(self.issue("PRE", group, bank))
            else:
                held.append(self.issue(rng.choice(("RD", "RD", "WR", "UPD")), group, bank))
        return held

    def lines(self):
        for cycle, command, group, bank, row in self.history:
            fields = ["-"] * 4
            if group is not None:
                fields[:2] = group, bank
            if row is not None and command != "PRE":
                fields[2] = row
            if command in ("RD", "WR", "UPD"):
                fields[3] = self.rng.randrange(self.rules.columns)
            yield " ".join(map(str, [cycle, command, *fields]))


def test_random_legal_traces_pass_and_one_command_moved_is_seen():
    seen = set()
    for seed in range(12):
        rng = random.Random(seed)
        rules = dataclasses.replace(
            RULES, bank_groups=rng.choice((1, 2, 4)), refresh_interval=Fraction(10 ** 6),
            rc=rng.choice((13, 16, 20)), faw=rng.choice((6, 12, 20)), rtw=rng.choice((6, 9)),
            ccd_l_update=rng.choice((5, 9)), ccd_s=rng.choice((2, 3)), rrd_s=rng.choice((2, 3)),
            rfc=rng.choice((5, 30)))
        generator = Generator(rng, rules)
        held = generator.trace(1200)
        lines = list(generator.lines())
        result = check(lines, rules)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"
        for index in rng.sample([index for index, tight in enumerate(held) if tight], 150):
            cycle, rest = lines[index].split(" ", 1)
            # It comes in front of those of the cycle in which it was, if any.
            moved = sorted([*lines[:index], f"{int(cycle) - 1} {rest}", *lines[index + 1:]],
                           key=lambda line: int(line.split(" ", 1)[0]))
            result = check(moved, rules)
            assert result.count, f"seed {seed}: {lines[index]} moved by a cycle"
            seen |= {violation.rule for violation in result.violations}
    assert seen >= {limit[0] for limit in LIMITS}


def trace_of(tmp_path, timing, *commands):
    clock = round(timing.cycle_ps)
    return str(write(tmp_path / "trace", f"# memory {timing.name}, clock {clock} ps", *commands))


#: From the standards' numbers, by hand: HBM2 has 2 ns a cycle, DDR3 5 ns, DDR4 2.5 ns.
BY_HAND = {
    "hbm2": {"rcd": 7, "rp": 7, "ras": 17, "rc": 24, "ccd_s": 1, "ccd_l": 2, "ccd_l_update": 4,
             "rrd_s": 2, "rrd_l": 3, "faw": 8, "rtw": 7, "rtp": 3, "rfc": 130, "wtr_s": 6,
             "wtr_l": 7, "write_recovery": 11, "refresh_interval": 1950, "columns": 32},
    "ddr3": {"rcd": 3, "rp": 3, "ras": 7, "rc": 10, "ccd_s": 1, "ccd_l": 1, "ccd_l_update": 2,
             "rrd_s": 2, "rrd_l": 2, "faw": 6, "rtw": 3, "rtp": 2, "rfc": 52, "wtr_s": 5,
             "wtr_l": 5, "write_recovery": 6, "refresh_interval": 1560, "columns": 128},
    "ddr4": {"rcd": 6, "rp": 6, "ras": 13, "rc": 19, "ccd_s": 1, "ccd_l": 2, "ccd_l_update": 4,
             "rrd_s": 1, "rrd_l": 2, "faw": 9, "rtw": 3, "rtp": 3, "rfc": 140, "wtr_s": 6,
             "wtr_l": 8, "write_recovery": 11, "refresh_interval": 3120, "columns": 128},
}


@pytest.mark.parametrize("memory", BY_HAND)
def test_rules_of_the_stock_memories(memory):
    rules = DramRules.derive(DramTiming.preset(memory))
    assert {name: getattr(rules, name) for name in BY_HAND[memory]} == BY_HAND[memory]


@pytest.mark.parametrize("memory, clocks", [("ddr3", 11), ("ddr4", 22)])
def test_one_bus_has_a_clock_for_each_kind_of_command(memory, clocks):
    """tRCD in clocks leaves one in the cycles that the controller waits."""
    rules = DramRules.derive(DramTiming.preset(memory))
    assert rules.rcd * rules.clocks - 1 >= clocks


def test_times_are_summed_exactly_and_rounded_once():
    """Write data end at 2.5 cycles, tWR is 2.5 more, tWTR_S 2.6 more, at 2.5 ns a cycle."""
    timing = DramTiming.preset("ddr4").replace(write_latency=6, t_wr="6.25 ns", t_wtr_s="6.5 ns",
                                               t_refi="1001 ns", t_ccd_l="5 tCK, 2 ns")
    rules = DramRules.derive(timing)
    assert (rules.write_recovery, rules.wtr_s) == (5, 6)
    assert rules.refresh_interval == Fraction(10010, 25)
    # 5 clocks are 1.25 cycles, 10 are 2.5.
    assert (rules.ccd_l, rules.ccd_l_update) == (2, 3)


def test_the_command_line_says_what_it_found(tmp_path, capsys):
    timing = DramTiming.preset("hbm2")
    good = trace_of(tmp_path, timing, "0 ACT 0 0 1 -", "7 RD 0 0 1 0", "7 ACT 1 0 1 -")
    assert main([good, "--memory", "hbm2"]) == OK
    assert capsys.readouterr().out == (
        f"{good}: 3 commands in 8 cycles (2 ACT, 1 RD): no violation\n")
    bad = trace_of(tmp_path, timing, "0 ACT 0 0 1 -", "6 RD 0 0 1 0", "7 WR 0 0 1 0")
    assert main([bad, "--memory", "hbm2", "--show", "1"]) == VIOLATED
    assert capsys.readouterr().out.splitlines() == [
        "cycle 6: tRCD: RD group 0 bank 0 row 1 column 0 after ACT in cycle 0: needed 7, found 6",
        "and 2 more",
        f"{bad}: 3 commands in 8 cycles (1 ACT, 1 RD, 1 WR): 3 violations"]
    # One refresh more or less late.
    late = trace_of(tmp_path, timing, "0 PREA - - - -", "3900 REF - - - -")
    assert main([late, "--memory", "hbm2", "--postponed", "1"]) == OK
    assert main([late, "--memory", "hbm2", "--postponed", "0"]) == VIOLATED


@pytest.mark.parametrize("arguments, message", [
    (["{trace}", "--memory", "hbm9"], "hbm9"),
    (["{trace}", "--memory", "missing.toml"], "missing.toml"),
    (["{trace}", "--memory", "ddr4"], "trace is of memory 'hbm2', not of 'ddr4'"),
    (["missing", "--memory", "hbm2"], "missing: No such file"),
    (["{trace}", "--memory", "hbm2", "--postponed", "-1"], "--postponed must be at least 0, not"),
    (["{trace}", "--memory", "hbm2", "--show", "-2"], "--show must be at least 0, not -2"),
    (["{folder}", "--memory", "hbm2"], "Is a directory"),
    (["{bytes}", "--memory", "hbm2"], "bytes: 'utf-8' codec"),
    (["{trace}", "--memory", "hbm2"], "line 2 is no command of this memory: 'x'"),
])
def test_bad_input_is_refused(tmp_path, capsys, arguments, message):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    places = {"trace": trace_of(tmp_path, DramTiming.preset("hbm2"), "x"), "folder": tmp_path,
              "bytes": tmp_path / "bytes"}
    assert main([text.format(**places) for text in arguments]) == BAD_INPUT
    assert message in capsys.readouterr().err
