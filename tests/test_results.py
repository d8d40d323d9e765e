"""The pages of results show what the stored reports say,
and the stored experiment is a whole one."""

import json
import math
import re
from pathlib import Path

import pytest

from t3hw.bench import update_page
from t3hw.data_files import DATA, read_toml
from t3hw.perf.records import CaseRecord, SweepPoint
from t3hw.perf.report import goals, results, summaries
from t3hw.workloads.sublayers import sublayers

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PLACES = [(page, name) for page in sorted(RESULTS.glob("*.md"))
          for name in re.findall(r"<!-- begin (\S+) -->", page.read_text())]


@pytest.mark.parametrize("page, name", PLACES, ids=[name for _, name in PLACES])
def test_page_and_report_agree(page, name):
    text = page.read_text()
    assert update_page(text, RESULTS / name) == text, (
        f"run python -m t3hw.bench {page.name} {name} in {RESULTS}")


def test_pictures_that_pages_show_are_there():
    shown = [page.parent / picture for page in RESULTS.glob("*.md")
             for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())]
    assert len(shown) >= 8
    assert [path.name for path in shown if not path.is_file()] == []
    assert {path.name for path in (RESULTS / "overlap").iterdir()} == {
        path.name for path in shown if path.parent.name == "overlap"}


@pytest.mark.parametrize("path", sorted(RESULTS.glob("sweep-*.json")), ids=lambda path: path.stem)
def test_sweeps_have_the_values_of_the_file_and_the_stock_one_is_as_in_the_experiment(path):
    content = json.loads(path.read_text())
    points = [SweepPoint(**point) for point in content["points"]]
    values = read_toml(DATA / "sweeps.toml")[content["sweep"]]["values"]
    assert len(points) == len(values)
    stored = json.loads((RESULTS / "overlap.json").read_text())["cases"]
    chosen = [case for case in stored
              if f"{case['model']} {case['sublayer']} TP {case['tp']}" in content["cases"]]
    assert len(chosen) == len(content["cases"])
    mean = math.exp(sum(math.log(case["t3_mca_speedup"]) for case in chosen) / len(chosen))
    assert min(abs(point.t3_mca_speedup - mean) for point in points) < 1e-3
    assert content["text"].count("\n") == len(points) + 1


def test_the_stored_experiment_is_whole_and_its_figures_follow_from_its_records():
    content = json.loads((RESULTS / "overlap.json").read_text())
    made = results(CaseRecord.from_dict(record) for record in content["records"])
    assert [str(result.record) for result in made] == [str(sublayer) for sublayer in sublayers()]
    assert content["departures"] == [] and all(not result.departures for result in made)
    assert content["groups"] == json.loads(json.dumps(summaries(made)))
    rows = [row.as_dict() for row in goals(content["groups"])]
    assert rows == content["rows"][:len(rows)] and len(rows) == 7
