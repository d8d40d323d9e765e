"""The paper's machine is what was published; one that cannot be is refused by name and value."""

import math
import re

import pytest

from t3hw.data_files import DATA
from t3hw.perf.machine import Machine
from t3hw.workloads import InputError

PAPER = DATA / "machines" / "paper.toml"


def machine(**changes):
    return Machine.preset("paper").replace(**changes)


def test_the_paper_s_machine():
    paper = Machine.preset("paper")
    assert paper.name == "paper"
    assert (paper.units, paper.clock_hz, paper.flops_per_clock) == (80, 1.4e9, 1024)
    assert (paper.cache_bytes, paper.link_bytes_per_second) == (16 << 20, 75e9)
    assert paper.link_latency_seconds == 500e-9
    assert paper.unit_flops_per_second * paper.units == pytest.approx(114.7e12 * 0.55, rel=1e-3)
    # 64 pseudo channels of 16 GB/s.
    assert (paper.channels, paper.column_bytes, paper.controller_hz) == (64, 32, 5e8)
    assert paper.workgroup_bytes == 32768


def test_what_was_assumed_is_said():
    assumed = machine().assumed
    assert {"gemm_efficiency", "tile_rows", "band_rows", "link_header_bytes"} <= assumed.keys()
    # What is marked in the file is listed for the report; a line may stand for others of its kind.
    marked = [line.split("=")[0].strip() for line in PAPER.read_text().splitlines()
              if "assumed" in line.partition("#")[2] and "=" in line.partition("#")[0]]
    said = " ".join(assumed) + " " + " ".join(assumed.values()).lower()
    covered = {"k_step": "k in steps", "header_bytes": "link_header_bytes",
               "communication_queue": "queues", "intensity_boundaries": "intensities"}
    for field in marked:
        assert covered.get(field, field) in said, field


@pytest.mark.parametrize("wanted, channels", [
    (1.0e12, 64), (64 * 16e9, 64), (128 * 16e9, 128), (16e9, 1), (33e9, 2), (15e9, 1)])
def test_channels_are_the_nearest_power_of_two(wanted, channels):
    assert machine(memory_bytes_per_second=wanted).channels == channels


@pytest.mark.parametrize("wanted", [0.75e12, 1.3e12, 8e9, 24e9])
def test_bandwidth_that_no_power_of_two_of_channels_gives_is_refused(wanted):
    with pytest.raises(InputError, match="memory_bytes_per_second must be within 10 % of a power "
                                         "of two of channels of 1.6e.10 bytes a second, "
                                         f"not {wanted!r}"):
        machine(memory_bytes_per_second=wanted)


@pytest.mark.parametrize("field, values", [
    ("units", [0, -1, 1.5, "80", None, True, 1 << 20]),
    ("gemm_efficiency", [0, -0.5, 1.01, "0.6", None, True, math.nan, math.inf]),
    ("link_bytes_per_second", [0, -75e9, math.inf, math.nan, None]),
    ("link_latency_seconds", [-1e-9, 2.0, None]),
    ("cache_bytes", [-1, 16e6, None]),
    ("tile_rows", [0, 128.0]),
    ("clock_hz", [0, 1.4]),
    ("band_rows", [0, None]),
    ("compute_queue", [1, 4096]),
    ("memory_bytes_per_second", [0, -1e12]),
])
def test_nonsense_is_refused(field, values):
    for value in values:
        with pytest.raises(InputError, match=f"paper: {field} must be an? .* from .* to .*, "
                                             f"not {re.escape(repr(value))}$"):
            machine(**{field: value})


@pytest.mark.parametrize("changes, message", [
    ({"wavefronts": 3}, "wavefronts must divide the 32768 bytes of a workgroup's tile, not 3"),
    ({"occupancy_thresholds": (5, 10, 30)}, "occupancy_thresholds must be 4 numbers, not"),
    ({"occupancy_thresholds": (5, 10, -1, 0)},
     "occupancy_thresholds must be integers of at least 0, not -1"),
    ({"intensity_boundaries": (0.1, 0.2, 0.3)},
     r"intensity_boundaries must fall, .*, not \[0.1, 0.2, 0.3\]"),
    ({"intensity_boundaries": 3}, "intensity_boundaries must be 3 numbers, not 3"),
    ({"memory_timing": "hbm9"}, "memory_timing: .*'hbm9'"),
    ({"memory_timing": 7}, "memory_timing must be a DramTiming or the name of a preset, not 7"),
    ({"name": ""}, "name of a machine must be text, not ''"),
    ({"assumed": {"colour": ""}}, "assumed names 'colour', which is no field"),
])
def test_contradictions_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        machine(**changes)


@pytest.mark.parametrize("old, new, message", [
    ("units = 80 ", "", "compute: units is missing"),
    ("units = 80 ", "unit = 80 ", "compute: no field 'unit'; fields are units, clock_hz"),
    ("[cache]", "[cash]", "no field 'cash'; fields are compute, cache"),
    ("[cache] ", "= ", "mine.toml: "),
    ('gemm_efficiency = "', 'efficiency = "', "assumed names 'efficiency', which is no field"),
])
def test_bad_files_are_refused(tmp_path, old, new, message):
    text = PAPER.read_text()
    assert old in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        Machine.from_toml(file)


def test_a_machine_of_one_s_own_is_named_after_its_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(PAPER.read_text().replace("75.0e9", "150.0e9"))
    assert Machine.from_toml(file).link_bytes_per_second == 150e9
    assert Machine.from_toml(file).name == "mine"


def test_unknown_machine_shows_the_list():
    with pytest.raises(InputError, match="no machine 'h100'; machines are paper"):
        Machine.preset("h100")
