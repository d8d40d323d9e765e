"""Reports of synthetic records: worked out by hand, round trips, refusals, pictures that exist."""

import dataclasses
import json
import math
import re
import struct

import pytest

from t3hw.perf.figures import (SWEEPS, draw_all, draw_occupancy, draw_speedups, draw_sweep,
                               draw_traffic_over_time, _binned)
from t3hw.perf.machine import Machine
from t3hw.perf.records import (BEATS, SERIES, CaseRecord, Samples, SweepPoint, load_records,
                               save_records)
from t3hw.perf.report import (METRICS, CaseResult, goals, load_published, report, results,
                              summaries, text)
from t3hw.workloads import InputError
from t3hw.workloads.sublayers import sublayers

SMALL = "Mega-GPT-2 and T-NLG"


def beats(*values):
    return dict(zip(BEATS, values, strict=True))


def record(**fields):
    """TP 8, an output of 800 beats: chunks of 100. T3 loses a tenth, T3-MCA nothing."""
    return CaseRecord(**{
        "model": "T-NLG", "sublayer": "OP", "group": SMALL, "tp": 8, "output_beats": 800,
        "cycles": {"gemm": 1000, "reduce_scatter": 800, "all_gather": 700, "t3": 1100,
                   "t3_mca": 1000},
        "gemm_cycles": {"t3": 1080, "t3_mca": 1000},
        "beats": {"sequential": beats(600, 800, 1500, 800, 700, 700),
                  "t3": beats(300, 700, 600, 700, 700, 700),
                  "t3_mca": beats(300, 700, 600, 700, 700, 700)},
        "counters": {"t3": {"occupancy": [10, 20, 30, 20, 10, 5, 5, 0], "communication_issues": 5},
                     "t3_mca": {"occupancy": [40, 30, 20, 10, 0, 0, 0, 0], "holds": 3}},
    } | fields)


def samples(bins=50, **fields):
    return Samples(**{"bin_cycles": 20, "gemm_reads": [4] * bins, "gemm_writes": [3] * bins,
                      "incoming_updates": [2] * bins, "dma_reads": [1] * bins,
                      "occupancy": [index % 30 for index in range(bins)], "gemm_end": 800} | fields)


def complete():
    """A record of each case that the report covers."""
    return [record(model=sublayer.model.name, sublayer=sublayer.name, group=sublayer.model.group,
                   tp=sublayer.tp, output_beats=100 * sublayer.tp)
            for sublayer in sublayers()]


def test_a_case_by_hand():
    result = CaseResult(record())
    assert result.sublayer_cycles == {"sequential": 2500, "t3": 1800, "t3_mca": 1700, "ideal": 1700}
    assert result.t3_speedup == pytest.approx(2500 / 1800)
    assert result.t3_mca_speedup == result.ideal_speedup == pytest.approx(2500 / 1700)
    assert result.t3_mca_share_of_ideal == pytest.approx(1)
    assert result.t3_mca_over_t3 == pytest.approx(1800 / 1700)
    assert result.t3_gemm_slowdown == pytest.approx(0.08)
    assert result.t3_mca_gemm_slowdown == 0
    assert result.data_movement == pytest.approx(1 - 3700 / 5100)
    assert result.data_movement_without_ag == pytest.approx(1 - 2300 / 3700)
    assert (result.rs_reads_factor, result.gemm_reads_factor) == (2.5, 2)
    assert result.writes_factor == pytest.approx(16 / 14)
    assert result.departures == []


def test_slowdown_is_that_of_a_gemm_whose_output_bypasses_the_cache_if_it_is_known():
    cycles = record().cycles | {"gemm_bypass": 960}
    assert CaseResult(record(cycles=cycles)).t3_mca_gemm_slowdown == pytest.approx(1000 / 960 - 1)


def test_ideal_is_bound_by_the_longer_of_the_two():
    cycles = record().cycles | {"gemm": 500}
    assert CaseResult(record(cycles=cycles)).sublayer_cycles["ideal"] == 1500


def test_a_ring_of_two_has_no_factor_of_reads():
    two = record(tp=2, output_beats=200, beats={
        "sequential": beats(1, 200, 300, 200, 100, 100), "t3": beats(1, 100, 0, 100, 100, 100),
        "t3_mca": beats(1, 100, 0, 100, 100, 100)})
    assert CaseResult(two).rs_reads_factor is None
    assert CaseResult(two).departures == []
    assert re.search(r"RS reads, fewer by +–", text([two]))


@pytest.mark.parametrize("variant, name", [("sequential", "rs_reads"), ("t3", "gemm_writes"),
                                           ("t3_mca", "rs_writes"), ("t3_mca", "rs_reads")])
def test_one_beat_off_the_formula_is_reported(variant, name):
    changed = record().beats
    changed[variant] = changed[variant] | {name: changed[variant][name] + 1}
    wrong = record(beats=changed)
    what = "RS reads" if name == "rs_reads" else "GEMM and RS writes"
    assert [entry[:2] for entry in CaseResult(wrong).departures] == [(variant, what)]
    assert report([wrong])["cases"][0]["by_the_formulas"] is False
    shown = text([wrong])
    assert "TRAFFIC THAT IS NOT WHAT THE FORMULAS HAVE" in shown
    assert f"T-NLG OP TP 8, {variant}: {what}" in shown
    assert "in every case and variant" not in shown


def test_means_and_extremes():
    slow = record(sublayer="IP", cycles=record().cycles | {"t3_mca": 1800, "t3": 1800},
                  gemm_cycles={"t3": 1080, "t3_mca": 1210})
    rows = {row["metric"]: row for row in summaries(results([record(), slow]))}
    speedup = rows["t3_mca_speedup"]
    assert speedup["geomean"] == pytest.approx(math.sqrt(2500 / 1700 * 1))
    assert speedup["extreme"] == pytest.approx(2500 / 1700)
    assert (speedup["cases"], speedup["of"]) == (2, 16)
    assert (speedup["published_geomean"], speedup["published_extreme"]) == (1.30, 1.47)
    share = rows["t3_mca_share_of_ideal"]
    assert (share["best"], share["extreme"]) == ("min", pytest.approx(1700 / 2500))
    # 0 % and 21 % slower: 10 % on average.
    assert rows["t3_mca_gemm_slowdown"]["geomean"] == pytest.approx(0.1)
    assert rows["data_movement"]["geomean"] == pytest.approx(1 - 3700 / 5100)


def test_published_figures_are_those_of_the_publications():
    figures = {(figure.group, figure.metric): (figure.max, figure.geomean)
               for figure in load_published()}
    assert figures[SMALL, "t3_mca_speedup"] == (1.47, 1.30)
    assert figures[SMALL, "t3_speedup"] == (1.39, 1.20)
    assert figures[SMALL, "ideal_speedup"] == (1.50, 1.35)
    assert figures[SMALL, "t3_mca_over_t3"] == (1.29, 1.13)
    assert figures[SMALL, "data_movement"] == (0.36, 0.22)
    assert figures["GPT-3, PALM, MT-NLG", "t3_mca_speedup"] == (1.35, 1.29)
    assert len(figures) == len(load_published()) == 19


def test_order_is_that_of_the_models_file_with_others_last():
    made = results([record(model="mine", group="other"), *reversed(complete())])
    assert [str(result.record) for result in made] == [*map(str, sublayers()), "mine OP TP 8"]


def test_goals_are_for_whole_groups():
    assert goals(summaries(results([record()]))) == []
    rows = goals(summaries(results(complete())))
    assert [(row.name, row.goal, row.met) for row in rows] == [
        (f"T3-MCA over sequential, geomean, {SMALL}", 1.30, True),
        (f"T3-MCA over sequential, max, {SMALL}", 1.47, True),
        (f"T3-MCA as a share of the ideal overlap, geomean, {SMALL}", 0.98, True),
        (f"data movement, all of it, geomean, {SMALL}", 0.22, True),
        (f"GEMM slowed by communication, T3-MCA, geomean, {SMALL}", 0.02, True),
        ("T3-MCA over sequential, geomean, GPT-3, PALM, MT-NLG", 1.29, True),
        ("GEMM slowed by communication, T3-MCA, geomean, GPT-3, PALM, MT-NLG", 0.02, True),
    ]


def test_report_and_text_say_it_all():
    records = complete()
    machine = Machine.preset("paper")
    content = json.loads(json.dumps(report(records, machine=machine)))
    assert len(content["cases"]) == 28 and content["machine"] == "paper"
    assert len(content["groups"]) == 2 * len(METRICS)
    shown = text(records, machine=machine)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 120
    for sublayer in sublayers():
        assert any(line.startswith(f"{sublayer} ") for line in lines)
    for entry in content["assumed"]:
        assert entry in shown
    assert ("T-NLG: 32 heads, the next number that 8 and 16 divide; 28 are published"
            in content["assumed"])
    assert f"{SMALL}, 16 of 16 cases" in shown


def test_partial_results_are_said_to_be_partial():
    assert f"{SMALL}, 1 of 16 cases" in text([record()])
    assert "other, 1 cases" in text([record(model="mine", group="other")])


def test_what_cannot_be_reported_is_refused():
    with pytest.raises(InputError, match="there are two records of T-NLG OP TP 8"):
        results([record(), record()])
    with pytest.raises(InputError, match="there are no records"):
        results([])


def test_records_come_back_from_files(tmp_path):
    first, second = record(samples={"t3": samples()}), record(sublayer="IP")
    save_records(tmp_path / "b.json", [second])
    save_records(tmp_path / "a.json", [first])
    assert load_records(tmp_path / "a.json") == [first]
    assert load_records(tmp_path) == [first, second]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.json", "b.json"]


@pytest.mark.parametrize("change, message", [
    ({"tp": 1}, "tp must be an integer of at least 2, not 1"),
    ({"model": ""}, "model must be text, not ''"),
    ({"colour": 1}, "no field 'colour'; fields are model, sublayer"),
    ({"cycles": {"gemm": 1}}, "cycles: reduce_scatter is missing"),
    ({"cycles": record().cycles | {"gemm": -5}}, "gemm must be a number of at least 0, not -5"),
    ({"cycles": record().cycles | {"gemm": 0}}, "cycles: gemm must be more than 0, not 0"),
    ({"cycles": record().cycles | {"gem": 5}}, "cycles: no 'gem'; there are gemm, reduce_scatter"),
    ({"gemm_cycles": {"t3": 1}}, "gemm_cycles: t3_mca is missing"),
    ({"beats": {"t3": {}}}, r"beats must have sequential, t3, t3_mca, not \['t3'\]"),
    ({"beats": record().beats | {"t3": {}}}, "beats: t3: gemm_reads is missing"),
    ({"counters": {"t4": {}}}, "counters: no variant 't4'; variants are sequential, t3, t3_mca"),
    ({"counters": {"t3": {"occupancy": [1, 2]}}}, r"occupancy must be 8 numbers, not \[1, 2\]"),
    ({"counters": {"t3": {"holds": "many"}}}, "holds must be a number of at least 0, not 'many'"),
    ({"samples": {"t3": {"bin_cycles": 5}}}, "samples: t3: gemm_reads is missing"),
    ({"samples": {"t3": dataclasses.asdict(samples()) | {"dma_reads": [1]}}},
     "samples: dma_reads must have as many bins as gemm_reads, 50, not 1"),
    ({"samples": {"t3": dataclasses.asdict(samples()) | {"bin_cycles": 0}}},
     "samples: bin_cycles must be an integer of at least 1, not 0"),
])
def test_bad_records_are_refused(tmp_path, change, message):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps({"schema": 1, "cases": [record().as_dict() | change]}))
    with pytest.raises(InputError, match=message):
        load_records(file)


@pytest.mark.parametrize("content, message", [
    ("{", "Expecting property name"),
    ("[]", "is no file of records of schema 1"),
    ('{"schema": 2, "cases": []}', "is no file of records of schema 1"),
    ('{"schema": 1, "cases": [3]}', "a case must be a table, not 3"),
])
def test_bad_files_are_refused(tmp_path, content, message):
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        load_records(file)
    with pytest.raises(InputError, match="nothing.json: No such file"):
        load_records(tmp_path / "nothing.json")


def png_size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def test_all_figures(tmp_path):
    cases = complete()
    cases[1] = dataclasses.replace(cases[1], samples={
        "t3": samples(bins=3000), "t3_mca": samples(bins=2500, gemm_end=None)})
    cases = [case if index == 1 else dataclasses.replace(case, counters={})
             for index, case in enumerate(cases)]
    points = [SweepPoint(value=value, t3_speedup=1.2, t3_mca_speedup=1.3, ideal_speedup=1.34)
              for value in (5, 10, None)]
    files = draw_all(tmp_path / "figures", cases, controller_hz=5e8,
                     sweeps={name: points for name in SWEEPS})
    assert [file.name for file in files] == [
        "speedups.png", "traffic.png", "traffic-over-time-mega-gpt-2-fc-2-tp-8.png",
        "occupancy-mega-gpt-2-fc-2-tp-8.png", "sweep-granularity.png", "sweep-threshold.png",
        "sweep-link.png", "sweep-compute.png", "sweep-efficiency.png"]
    for file in files:
        assert file.stat().st_size < 300_000, file.name
        width, height = png_size(file)
        assert 900 <= width <= 1600 and 400 <= height <= 1600, file.name


def test_figures_of_little(tmp_path):
    """One case, slower than sequential; one variant sampled; sweeps of one point."""
    slow = record(cycles=record().cycles | {"t3": 5000},
                  samples={"t3_mca": samples(occupancy=None)},
                  counters={"t3_mca": {"occupancy": [0] * 8}})
    files = draw_all(tmp_path, [slow], controller_hz=5e8, kind="svg", sweeps={
        "granularity": [SweepPoint(value=None, t3_speedup=1, t3_mca_speedup=1, ideal_speedup=1)],
        "link": [SweepPoint(value=75, t3_speedup=1, t3_mca_speedup=1, ideal_speedup=1)]})
    assert len(files) == 6
    for file in files:
        assert "<svg" in file.read_text(), file.name


def test_figures_of_much_are_small_and_show_a_window(tmp_path):
    """10,000 bins whose values jump, all of them and a part."""
    values = [index * 7919 % 13 for index in range(10_000)]
    much = record(samples={"t3": samples(**{name: values for name in SERIES}, occupancy=values)})
    for name, window in (("a.png", None), ("a.svg", None), ("b.png", (60_000, 60_001)),
                         ("c.png", (10 ** 9, 2 * 10 ** 9))):
        for draw in (draw_traffic_over_time, draw_occupancy):
            path = draw(tmp_path / name, much, controller_hz=5e8, window=window)
            assert path.stat().st_size < 300_000


def test_bins_are_means_of_the_window():
    means, edges = _binned(samples(bins=4, dma_reads=[1, 2, 3, 4]), [1, 2, 3, 4], (20, 59))
    assert (list(means), list(edges)) == ([2, 3], [20, 40, 60])
    means, edges = _binned(samples(), [1] * 1199 + [4], None)
    assert len(means) == 600 and edges[-1] == 1200 * 20
    assert (means[0], means[-1]) == (1, 2.5)


def test_the_same_data_make_the_same_picture(tmp_path):
    first, second = (draw_speedups(tmp_path / name, [record()]).read_bytes()
                     for name in ("a.png", "b.png"))
    assert first == second


def test_figures_that_cannot_be_are_refused(tmp_path):
    bare = record(counters={})
    with pytest.raises(InputError, match="T-NLG OP TP 8 has no samples over time"):
        draw_traffic_over_time(tmp_path / "a.png", bare, controller_hz=5e8)
    with pytest.raises(InputError, match="T-NLG OP TP 8 has no counters of the queue's occupancy"):
        draw_occupancy(tmp_path / "a.png", bare, controller_hz=5e8)
    with pytest.raises(InputError, match="no sweep 'colour'; sweeps are granularity, threshold"):
        draw_sweep(tmp_path / "a.png", "colour", [])
    with pytest.raises(InputError, match="sweep 'link' has no points"):
        draw_sweep(tmp_path / "a.png", "link", [])
    with pytest.raises(InputError, match="a figure's name must end in .png or .svg, not 'a.gif'"):
        draw_speedups(tmp_path / "a.gif", [bare])
    with pytest.raises(InputError, match="t3_speedup must be a number of at least 0, not None"):
        SweepPoint(value=1, t3_speedup=None, t3_mca_speedup=1, ideal_speedup=1)
