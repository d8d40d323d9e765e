"""The benchmark's report: its form, and the goals that are counted in cycles."""

import json
from pathlib import Path

import pytest

from t3hw.bench import HEADER, Row, line, report, update_page
from t3hw.config import NodeConfig
from t3hw.cosim.block_bench import bench_blocks, cycle_rows
from t3hw.cosim.chain_bench import measure_chain, measure_tracker
from t3hw.cosim.ring_bench import (formulas, measure_functional_traffic, traffic_difference)
from t3hw.hdl.node import Node

RESULTS = Path(__file__).parents[2] / "docs" / "results"

ROW = {"name": str, "value": (int, float), "unit": str, "goal": (int, float), "better": str,
       "met": bool}


def test_rows_in_cycles_meet_their_goals():
    rows = list(cycle_rows(bus_bytes=1 << 12))
    # The first read's latency weighs more in so short a measurement.
    counted = [row for row in rows if "first read to last beat" not in row.name]
    assert len(rows) - len(counted) == 9
    assert len({row.name for row in rows}) == len(rows)
    # Stages for a fast clock made this longer than its goal; the page of results says so.
    longer = [row for row in counted if row.name.startswith("commit of a tile's last update")]
    assert [row.value for row in longer] == [Node.trigger_latency]
    assert not [line(row) for row in counted if not row.met and row not in longer]
    check_report(report(rows))


def test_the_whole_report(monkeypatch):
    row = Row(name="n", value=1.5, unit="u", goal=1, better="lower")
    for source in ("cycle_rows", "ring_rows", "generation_rows"):
        monkeypatch.setattr(f"t3hw.cosim.block_bench.{source}", lambda: iter([row]))
    lines = []
    content = bench_blocks(show=lines.append)
    check_report(content)
    assert len(content["rows"]) == 3 and content["machine"]["cores"] >= 1
    assert lines == [HEADER] + [line(row)] * 3
    assert json.loads(json.dumps(content)) == content


def check_report(content):
    assert content["schema"] == 1
    for row in content["rows"]:
        assert row.keys() == ROW.keys()
        for key, kind in ROW.items():
            assert isinstance(row[key], kind), row
        bound = row["value"] >= row["goal"] if row["better"] == "higher" else \
            row["value"] <= row["goal"]
        assert row["met"] == bound, row


@pytest.mark.parametrize("value,better,met", [
    (10, "higher", True), (9.9, "higher", False), (10, "lower", True), (10.1, "lower", False)])
def test_a_goal_is_met_when_it_is_reached(value, better, met):
    row = Row(name="n", value=value, unit="u", goal=10, better=better)
    assert row.met == met
    assert line(row).endswith("yes" if met else "NO")


def test_a_direction_is_higher_or_lower():
    with pytest.raises(ValueError, match="'more'"):
        Row(name="n", value=1, unit="u", goal=1, better="more")


def test_the_overflow_case_is_one():
    assert measure_tracker(1, 2, 20, 3) == (1.0, 0, 18)


@pytest.mark.parametrize("preset", ["tiny", "default", "wide"])
def test_cycles_from_commit_to_read_in_every_preset(preset):
    chain = measure_chain(NodeConfig.preset(preset))
    assert chain["first read"] == Node.trigger_latency, chain
    assert chain["first read"] - chain["block"] <= 1, chain


@pytest.mark.parametrize("devices", range(2, 9))
def test_traffic_equals_the_formulas(devices):
    assert measure_functional_traffic(devices, NodeConfig.preset("tiny")) == 0


def test_formulas_add_up():
    """What all send is what all receive, and one chunk of each device's output
    stays out of memory."""
    for devices in range(2, 9):
        moved = formulas(devices, 64 * devices)
        assert moved["dma_read_bytes"] + moved["remote_write_bytes"] == \
            moved["incoming_update_bytes"]
        assert moved["producer_write_bytes"] + moved["incoming_update_bytes"] == \
            (2 * devices - 2) * 64
    counters = [moved | {"dma_read_bytes": moved["dma_read_bytes"] - 3}, moved]
    assert traffic_difference(counters, moved) == 3
    with pytest.raises(ValueError, match="100 bytes are not 3 equal chunks"):
        formulas(3, 100)


def test_the_page_shows_the_stored_report():
    """The page is updated by
    `python -m t3hw.bench docs/results/README.md docs/results/blocks.json`."""
    stored = RESULTS / "blocks.json"
    check_report(json.loads(stored.read_text()))
    page = (RESULTS / "README.md").read_text()
    assert update_page(page, stored) == page
    # The line beside the other engines.
    shares = [f"{row['value']:.2f}" for row in json.loads(stored.read_text())["rows"]
              if "first read to last beat" in row["name"]]
    cells = [" / ".join(shares[start:start + 3]) for start in (0, 3, 6)]
    assert f"| {' | '.join(cells)} | 1 cycle |" in page


def test_a_page_without_a_place_is_refused(tmp_path):
    (tmp_path / "other.json").write_text(json.dumps(report([])))
    with pytest.raises(ValueError, match="no place for other.json"):
        update_page("<!-- begin blocks.json -->", tmp_path / "other.json")
