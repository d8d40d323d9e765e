"""The bench of the DRAM model: its traffic, its log, its rows; and the model's own commands."""

import dataclasses
import functools
import heapq
import json
import random

import pytest
from slow_dram import SlowDram

from t3hw.bench import HEADER, Row, line
from t3hw.cli import BAD_INPUT, OK, WRONG, main
from t3hw.cosim.dram_bench import (GOAL, KINDS, bandwidth, bench_memory, implied, random_commands,
                                   simulate)
from t3hw.cosim.dram_checker import DramRules, check, check_file
from t3hw.cosim.simulators import SimulatorError
from t3hw.dram import DramTiming

#: One component a rule, so that each is built once.
HASTY = {rule: functools.partial(SlowDram, hasty=rule) for rule in ("rcd", "rfc")}


def commands_of(path):
    """Cycle and fields of each line."""
    header, *lines = path.read_text().splitlines()
    assert header == "# memory hbm2, clock 2000 ps"
    return [(int(line.split()[0]), line.split()[1:]) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_traffic_and_its_log(kind, tmp_path):
    """The slow memory shows each access as one ACT, one column command and one PREA, in order."""
    counts = simulate("hbm2", kind, accesses=1000, directory=tmp_path, trace=True, make=SlowDram)
    assert 1000 <= counts.accepted == counts.reads + counts.commits <= 1002
    rules = DramRules.derive(DramTiming.preset("hbm2"))
    assert check_file(tmp_path / "dram0.txt", rules).violations == []
    commands = commands_of(tmp_path / "dram0.txt")
    assert len(commands) == counts.commands
    columns = [fields for _, fields in commands if fields[0] in ("RD", "WR", "UPD")]
    activates = [fields for _, fields in commands if fields[0] == "ACT"]
    assert len(columns) == counts.accepted == len(activates)
    assert [fields[1:4] for fields in activates] == [fields[1:4] for fields in columns]
    places = [tuple(map(int, fields[1:])) for fields in columns]
    beats = [group + 4 * (column + 32 * (bank + 4 * row)) for group, bank, row, column in places]
    names = [fields[0] for fields in columns]
    if kind.startswith("streaming"):
        assert beats == list(range(len(beats)))
    else:
        assert len({place[:2] for place in places}) == 16
        assert len({place[2] for place in places}) > 100
    if kind != "random mix":
        assert set(names) == {{"reads": "RD", "writes": "WR", "updates": "UPD"}[kind.split()[1]]}
    else:
        assert {name: names.count(name) > 60 for name in ("RD", "WR", "UPD")} == {
            "RD": True, "WR": True, "UPD": True}
        # Both are frequent: a beat next to the one before, and one that is not.
        steps = [after - before == 1 for before, after in zip(beats, beats[1:])]
        assert 100 < sum(steps) < 900


def test_a_seed_fixes_a_run(tmp_path):
    texts = []
    for run, seed in enumerate((3, 3, 4)):
        simulate("hbm2", "random mix", accesses=50, seed=seed, directory=tmp_path / str(run),
                 trace=True, make=SlowDram)
        texts.append((tmp_path / str(run) / "dram0.txt").read_text())
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("rule, name", [("rcd", "tRCD"), ("rfc", "tRFC")])
def test_a_memory_that_is_a_cycle_too_hasty_is_seen(rule, name):
    result = random_commands("hbm2", 4000, make=HASTY[rule])
    assert result.total >= 4000
    assert {violation.rule for violation in result.violations} == {name}
    assert random_commands("hbm2", 4000, make=SlowDram).count == 0


def test_a_memory_that_answers_with_errors_is_refused():
    with pytest.raises(SimulatorError, match="hbm2, random reads, seed 1: .* 5[0-9] errors"):
        simulate("hbm2", "random reads", accesses=50,
                 make=functools.partial(SlowDram, refuses=True))


def closed_network(banks, window, rng, accesses=20_000):
    """How many banks are busy on average, by simulation."""
    waiting = [0] * banks
    ends = []

    def arrive(now):
        bank = rng.randrange(banks)
        waiting[bank] += 1
        if waiting[bank] == 1:
            heapq.heappush(ends, (now + 1, bank))

    for _ in range(window):
        arrive(0)
    for _ in range(accesses):
        now, bank = heapq.heappop(ends)
        waiting[bank] -= 1
        if waiting[bank]:
            heapq.heappush(ends, (now + 1, bank))
        arrive(now)
    return accesses / now


@pytest.mark.parametrize("banks, window", [(16, 32), (16, 64), (8, 32), (16, 8)])
def test_banks_that_are_busy_as_implied(banks, window):
    """With nothing but the banks as a limit, what is implied is what such banks give."""
    rules = dataclasses.replace(
        DramRules.derive(DramTiming.preset("hbm2")), bank_groups=1, banks=banks, rc=1000, faw=1,
        rrd_s=1, rrd_l=1, rfc=0)
    assert implied(rules, "random reads", window) * 1000 == pytest.approx(
        closed_network(banks, window, random.Random(1)), rel=0.05)


def test_what_is_implied_by_hand():
    rules = DramRules.derive(DramTiming.preset("hbm2"))
    left = 1 - 130 / 1950
    assert implied(rules, "streaming reads", 32) == pytest.approx(left)
    assert implied(rules, "streaming updates", 32) == pytest.approx(left)
    assert implied(dataclasses.replace(rules, ccd_l_update=6), "streaming updates", 32) == \
        pytest.approx(left * 4 / 6)
    assert implied(rules, "random reads", 32) == pytest.approx(left / 2)
    assert implied(dataclasses.replace(rules, faw=10), "random reads", 32) == \
        pytest.approx(left * 0.4)


DISTANCES = ("rcd", "rp", "ras", "rc", "ccd_s", "ccd_l", "ccd_l_update", "rrd_s", "rrd_l", "faw",
             "rtw", "rtp", "rfc", "wtr_s", "wtr_l", "write_recovery")


@pytest.mark.parametrize("memory", ["hbm2", "ddr4"])
def test_the_model_keeps_every_rule_and_wastes_no_cycle_of_any(memory, tmp_path):
    """Random commands break no rule; with any rule a cycle longer they would."""
    seed = 11
    counts = simulate(memory, "random mix", commands=200_000, seed=seed, directory=tmp_path,
                      trace=True)
    rules = DramRules.derive(DramTiming.preset(memory))
    result = check_file(tmp_path / "dram0.txt", rules, postponed=1)
    assert not result.violations, f"seed {seed}: {result.violations[0]}"
    assert result.total == counts.commands >= 200_000
    assert min(count for name, count in result.commands.items() if name != "PREA") > 50
    lines = (tmp_path / "dram0.txt").read_text().splitlines()[:40_000]
    for rule in DISTANCES:
        longer = dataclasses.replace(rules, **{rule: getattr(rules, rule) + 1})
        found = {violation.rule for violation in check(lines, longer).violations}
        assert len(found) == 1, f"seed {seed}: {rule} is never what a command waits for"


@pytest.mark.parametrize("memory", ["hbm2", "ddr4"])
def test_bandwidth_is_what_the_parameters_imply(memory):
    rows = list(bandwidth(memory, accesses=20_000))
    assert [row.name.split(" (")[0] for row in rows] == [f"{memory}, {kind}" for kind in KINDS[:-1]]
    assert not [line(row) for row in rows if not row.met]
    # Nothing is faster than the memory allows, but for the few random accesses that share a row.
    assert not [line(row) for row in rows if row.value > 1.01 * row.goal / GOAL]


def test_the_whole_report(monkeypatch):
    row = Row(name="n", value=1.5, unit="u", goal=1, better="higher")
    monkeypatch.setattr("t3hw.cosim.dram_bench.bandwidth", lambda memory: iter([row]))
    lines = []
    content = bench_memory("hbm2", commands=5000, show=lines.append)
    assert json.loads(json.dumps(content)) == content
    assert [row["met"] for row in content["rows"]] == [True, True]
    assert sum(content["commands"].values()) >= 5000 and content["violations"] == []
    assert lines[:2] == [HEADER, line(row)] and "violations in 5000 random" in lines[2]


def test_a_report_with_violations_shows_them(monkeypatch):
    monkeypatch.setattr("t3hw.cosim.dram_bench.bandwidth", lambda memory: iter([]))
    monkeypatch.setattr("t3hw.cosim.dram_bench.random_commands",
                        functools.partial(random_commands, make=HASTY["rcd"]))
    lines = []
    content = bench_memory("hbm2", commands=500, show=lines.append)
    assert not content["rows"][-1]["met"]
    assert len(content["violations"]) == content["rows"][-1]["value"] > 100
    assert lines[2:] == content["violations"][:20] and "tRCD" in lines[2]


def test_the_command_line_writes_the_report(monkeypatch, tmp_path, capsys):
    row = Row(name="n", value=1.5, unit="u", goal=1, better="higher")
    monkeypatch.setattr("t3hw.cosim.dram_bench.bandwidth", lambda memory: iter([row]))
    path = tmp_path / "report.json"
    assert main(["bench", "memory", "--commands", "3000", "--json", str(path)]) == OK
    assert len(json.loads(path.read_text())["rows"]) == 2
    assert capsys.readouterr().out.splitlines()[:2] == [HEADER, line(row)]
    slow = dataclasses.replace(row, value=0.5)
    monkeypatch.setattr("t3hw.cosim.dram_bench.bandwidth", lambda memory: iter([slow]))
    assert main(["bench", "memory", "--commands", "3000"]) == WRONG


@pytest.mark.parametrize("arguments, message", [
    (["--memory", "hbm9"], "'hbm9'; there are ddr3, ddr4, hbm2"),
    (["--memory", "missing.toml"], "missing.toml"),
    (["--commands", "0"], "at least 1, not 0"),
    (["--commands", "many"], "many"),
])
def test_bad_input_is_refused_by_name(capsys, arguments, message):
    try:
        code = main(["bench", "memory", *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == BAD_INPUT
    assert message in capsys.readouterr().err
