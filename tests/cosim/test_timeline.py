"""The timeline shows what logs and plan say, in files that need nothing else."""

import json
import re
import struct

import numpy as np
import pytest
from synthetic_ring import BIN, PACE, write_logs

from t3hw.config import NodeConfig
from t3hw.cosim.timeline import read_run, write_timeline
from t3hw.runtime.plan import ring_reduce_scatter

CONFIG = NodeConfig()
DEVICES = 4


@pytest.fixture(scope="module")
def plan():
    return ring_reduce_scatter(m=73, n=256, dtype="bfloat16", devices=DEVICES, config=CONFIG,
                               tile=(16, 64))


def logs(path, plan, **options):
    path.mkdir(exist_ok=True)
    return path, write_logs(path, plan, CONFIG.beat_bytes, **options)


@pytest.fixture
def runs(tmp_path, plan):
    made = []
    for overlap in (True, False):
        directory, end = logs(tmp_path / str(overlap), plan, overlap=overlap)
        made.append(read_run("overlapped" if overlap else "sequential", directory, DEVICES,
                             plan=plan))
        assert made[-1].cycles == end
    return made


def content(page):
    return json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])


def test_a_run_has_what_the_plan_made_it_do(runs, plan):
    for run in runs:
        for log, device_plan in zip(run.devices, plan.device_plans, strict=True):
            traffic = device_plan.traffic
            assert log.bin == BIN
            beats = {name: int(counts.sum()) * CONFIG.beat_bytes
                     for name, counts in log.activity.items()}
            assert beats["producer"] == plan.output_bytes
            assert beats["remote"] == traffic.remote_write_bytes
            assert beats["local"] == traffic.producer_write_bytes
            assert beats["incoming"] == traffic.incoming_update_bytes
            assert beats["dma"] == traffic.dma_read_bytes
            assert len(log.fulls) == len(device_plan.tiles)
            assert [slot for _, _, slot in log.commands] != []
            assert {slot for _, _, slot in log.commands} == {c.first for c in device_plan.commands}
            assert len(log.first_reads) == len(log.commands)
            assert all(end > start for start, end, _ in log.commands)
            assert log.done is not None and log.produced[0] < 200


def test_a_run_can_be_cut_out(tmp_path, plan):
    directory, _ = logs(tmp_path, plan)
    whole = read_run("all", directory, DEVICES)
    part = read_run("part", directory, DEVICES, start=10 * BIN, end=30 * BIN)
    assert part.cycles == 20 * BIN
    for log, all_of_it in zip(part.devices, whole.devices, strict=True):
        for name, beats in log.activity.items():
            assert beats.tolist() == all_of_it.activity[name][10:30].tolist()
        assert log.fulls == [(cycle - 10 * BIN, slot) for cycle, slot in all_of_it.fulls
                             if 10 * BIN <= cycle < 30 * BIN]
        assert log.produced is None and log.done is None


def test_a_command_that_is_not_done_stays_open(tmp_path):
    (tmp_path / "trace0.txt").write_text("T 8\nX 5 1\nC 9\nX 12 3\n")
    run = read_run("cut off", tmp_path, 1)
    assert run.devices[0].commands == [(5, 9, 1), (12, None, 3)]
    assert run.cycles == 13
    write_timeline(tmp_path / "page.html", [run], title="cut off")


def test_a_run_in_which_nothing_happened(tmp_path):
    (tmp_path / "trace0.txt").write_text("T 8\n")
    run = read_run("quiet", tmp_path, 1)
    page, _ = write_timeline(tmp_path / "page.html", [run], title="quiet")
    assert content(page.read_text())["runs"][0]["cycles"] == 1


@pytest.mark.parametrize("text", ["", "A 0 1 1 1 1 1 1 1 1\n", "T 32\nF one two\n", "rubbish"])
def test_what_is_no_log_is_refused_with_its_name(tmp_path, text):
    (tmp_path / "trace0.txt").write_text(text)
    with pytest.raises(ValueError, match="trace0.txt"):
        read_run("bad", tmp_path, 1)


def test_the_page_knows_chunk_and_tile_of_everything(runs, plan, tmp_path):
    page, _ = write_timeline(tmp_path / "page.html", runs, title="a title")
    data = content(page.read_text())
    assert data["chunks"] == DEVICES
    for run in data["runs"]:
        for device, (log, device_plan) in enumerate(zip(run["devices"], plan.device_plans)):
            chunk_of = {entry.slot: entry.tile.chunk for entry in device_plan.tiles}
            assert all(chunk_of[slot] == chunk for _, slot, chunk, _ in log["fulls"])
            order = [chunk for index, chunk in enumerate(log["stage"])
                     if index == 0 or log["stage"][index - 1] != chunk]
            assert order == [stage.chunk for stage in device_plan.stages]
            # What a command moves is full on this device before, and on the next one later.
            full = {tile: cycle for cycle, _, _, tile in log["fulls"]}
            later = {tile: cycle for cycle, _, _, tile in run["devices"][device - 1]["fulls"]}
            for start, end, _, chunk, tiles in log["commands"]:
                assert tiles and all(full[tile] <= start and later[tile] > end for tile in tiles)


def test_stages_change_where_the_producer_changes_its_chunk(runs, plan):
    data_bins = runs[0].devices[0].activity["producer"]
    first = plan.chunks[plan.device_plans[0].stages[0].chunk].bytes // CONFIG.beat_bytes * PACE
    assert abs(np.cumsum(data_bins)[(100 + first) // BIN] * PACE - first) < 2 * BIN


def test_the_page_needs_nothing_else(runs, tmp_path):
    page, picture = write_timeline(tmp_path / "page.html", runs, title="page", facts=[("a", "b")])
    text = page.read_text()
    assert not re.search(r"https?:|//[a-z]+\.|\bsrc=|\bhref=|url\(|@import|\bfetch\(", text)
    assert content(text)["facts"] == [["a", "b"]]
    assert picture == tmp_path / "page.png"
    header = picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", header[16:20])[0] >= 1400
    assert not list(tmp_path.glob("*.part"))


def test_text_cannot_break_the_page(runs, tmp_path):
    title = "</script><b>%DATA% & %TITLE%"
    page, _ = write_timeline(tmp_path / "page.html", runs, title=title)
    text = page.read_text()
    assert text.count("</script>") == 2
    assert "<title>&lt;/script&gt;&lt;b&gt;%DATA% &amp; %TITLE%</title>" in text
    assert content(text)["title"] == title


def test_long_runs_are_summed_up_for_the_page(tmp_path):
    lines = [f"A {8 * index} 8 0 0 0 {index % 8} 0 0 0" for index in range(20001)]
    (tmp_path / "trace0.txt").write_text("\n".join(["T 8", *lines, "P 160000 1"]) + "\n")
    page, _ = write_timeline(tmp_path / "page.html", [read_run("long", tmp_path, 1)], title="long")
    device = content(page.read_text())["runs"][0]["devices"][0]
    assert device["bin"] == 48
    assert len(device["activity"]["producer"]) == len(device["stage"]) == 3334
    assert sum(device["activity"]["producer"]) == 8 * 20001
    assert sum(device["activity"]["memory"]) == sum(index % 8 for index in range(20001))
    assert len(page.read_text()) < 300_000


def test_a_failed_write_leaves_the_old_files(runs, tmp_path):
    (tmp_path / "page.html").write_text("old")
    with pytest.raises(TypeError):
        write_timeline(tmp_path / "page.html", runs, title="page", facts=[("a", object())])
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"
