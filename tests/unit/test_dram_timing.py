"""Presets, what is derived of them, and every contradiction: refused by name and value."""

import dataclasses
import math

import pytest

from t3hw.dram import DramError, DramTiming

HBM2 = DramTiming.preset("hbm2")

#: Cycles by hand: ns and clocks of the file, over the controller's cycle, rounded up.
DERIVED = {
    "hbm2": {"tRCD": 7, "tRP": 7, "tRAS": 17, "tRC": 24, "tCCD_S": 1, "tCCD_L": 2,
             "tCCD_L_update": 4, "tRRD_S": 2, "tRRD_L": 3, "tFAW": 8, "tWTR_S": 3, "tWTR_L": 4,
             "tRTW": 7, "tWR": 8, "tRTP": 3, "tREFI": 1950, "tRFC": 130, "CL": 7, "CWL": 2,
             "burst_cycles": 1, "read_data": 8, "write_data": 3, "write_to_read_s": 6,
             "write_to_read_l": 7, "write_to_precharge": 11},
    "ddr4": {"tRCD": 6, "tRP": 6, "tRAS": 13, "tRC": 19, "tCCD_S": 1, "tCCD_L": 2,
             "tCCD_L_update": 4, "tRRD_S": 1, "tRRD_L": 2, "tFAW": 9, "tWTR_S": 1, "tWTR_L": 3,
             "tRTW": 3, "tWR": 6, "tRTP": 3, "tREFI": 3120, "tRFC": 140, "CL": 6, "CWL": 4,
             "burst_cycles": 1, "read_data": 7, "write_data": 5, "write_to_read_s": 6,
             "write_to_read_l": 8, "write_to_precharge": 11},
    "ddr3": {"tRCD": 3, "tRP": 3, "tRAS": 7, "tRC": 10, "tCCD_S": 1, "tCCD_L": 1,
             "tCCD_L_update": 2, "tRRD_S": 2, "tRRD_L": 2, "tFAW": 6, "tWTR_S": 2, "tWTR_L": 2,
             "tRTW": 3, "tWR": 3, "tRTP": 2, "tREFI": 1560, "tRFC": 52, "CL": 3, "CWL": 2,
             "burst_cycles": 1, "read_data": 4, "write_data": 3, "write_to_read_s": 5,
             "write_to_read_l": 5, "write_to_precharge": 6},
}


def test_presets_are_those_of_the_folder():
    assert DramTiming.presets() == sorted(DERIVED)


@pytest.mark.parametrize("name", DERIVED)
def test_derived_cycles(name):
    timing = DramTiming.preset(name)
    assert timing.name == name
    assert {key: getattr(timing, key) for key in DERIVED[name]} == DERIVED[name]
    assert DramTiming(**timing.as_dict()) == timing


@pytest.mark.parametrize("name, gigabytes, size", [
    ("hbm2", 16, 256 << 20), ("ddr4", 25.6, 8 << 30), ("ddr3", 12.8, 4 << 30)])
def test_bandwidth_and_size(name, gigabytes, size):
    timing = DramTiming.preset(name)
    assert timing.peak_bytes_per_second == gigabytes * 1e9
    assert timing.columns * timing.column_bytes == size


def test_bandwidths_of_hbm2_by_hand():
    lost = 3 + 7 + 130 + 7
    assert HBM2.streaming_bandwidth == pytest.approx(1 - lost / 1950)
    assert HBM2.random_bandwidth() == pytest.approx(0.5 * (1 - lost / 1950))  # 1 / tRRD_S, 4 / tFAW
    assert HBM2.random_bandwidth(window=4) == pytest.approx(4 / 24 * (1 - lost / 1950))
    assert HBM2.replace(t_faw="32 ns").random_bandwidth() == pytest.approx(
        4 / 16 * (1 - lost / 1950))
    assert HBM2.replace(banks=1).random_bandwidth() == pytest.approx(4 / 24 * (1 - lost / 1950))
    assert HBM2.replace(t_ccd_s="8 tCK", t_ccd_l="8 tCK").random_bandwidth() == pytest.approx(
        1 / 4 * (1 - lost / 1950))


def test_sums_are_rounded_once():
    timing = HBM2.replace(clock="0.9 ns", clock_ratio=4)
    # 4 + 2 clocks and 6 ns are 12.67 clocks; rounded one by one they would be 5 cycles.
    assert (timing.CWL, timing.burst_cycles, timing.tWTR_S) == (1, 1, 2)
    assert timing.write_to_read_s == math.ceil((6 + 6 / 0.9) / 4) == 4


def test_the_longest_of_several_times_counts():
    assert HBM2.replace(t_rcd="4 tCK, 5 ns").tRCD == 3
    assert HBM2.replace(t_rcd="8 tCK, 5 ns, 6 ns").tRCD == 4
    assert HBM2.replace(t_rcd="13001 ps").tRCD == 7
    assert HBM2.replace(t_refi="0.0039 ms").tREFI == 1950


def test_the_updates_delay_follows_its_factor():
    assert [HBM2.replace(update_factor=factor).tCCD_L_update for factor in (1, 2, 3)] == [2, 4, 6]


@pytest.mark.parametrize("changes, message", [
    ({"t_ras": "19 ns"}, "t_ras must be at least t_rcd + t_rtp (t_rcd = '14 ns', t_rtp = '6 ns'), "
                         "not '19 ns'"),
    ({"t_rc": "46 ns"}, "t_rc must be at least t_ras + t_rp (t_ras = '33 ns', t_rp = '14 ns'), "
                        "not '46 ns'"),
    ({"t_ccd_s": "1 tCK"}, "t_ccd_s must be at least burst (burst = 2), not '1 tCK'"),
    ({"t_ccd_l": "1 ns"}, "t_ccd_l must be at least t_ccd_s (t_ccd_s = '2 tCK'), not '1 ns'"),
    ({"t_rrd_l": "3 ns"}, "t_rrd_l must be at least t_rrd_s (t_rrd_s = '4 ns'), not '3 ns'"),
    ({"t_faw": "3.9 ns"}, "t_faw must be at least t_rrd_s (t_rrd_s = '4 ns'), not '3.9 ns'"),
    ({"t_wtr_l": "5 tCK"}, "t_wtr_l must be at least t_wtr_s (t_wtr_s = '6 ns'), not '5 tCK'"),
    # 17 + 7 cycles to close a row, 130, 7 and 2.
    ({"t_refi": "325 ns"},
     "t_refi must be at least 163 controller cycles, 24 to close a row, t_rfc, t_rcd and 2 "
     "(t_rfc = '260 ns', t_rcd = '14 ns'), not '325 ns'"),
    # Rounded down it is 0.
    ({"t_refi": "1 ns"},
     "t_refi must be at least 163 controller cycles, 24 to close a row, t_rfc, t_rcd and 2 "
     "(t_rfc = '260 ns', t_rcd = '14 ns'), not '1 ns'"),
    ({"t_rc": "60 ns", "t_refi": "337 ns"},
     "t_refi must be at least 169 controller cycles, 30 to close a row, t_rfc, t_rcd and 2 "
     "(t_rfc = '260 ns', t_rcd = '14 ns'), not '337 ns'"),
    ({"page_bytes": 16}, "page_bytes must be at least column_bytes (column_bytes = 32), not 16"),
    ({"rows": 8, "bank_hash": True}, "rows must be at least bank_groups * banks (bank_groups = 4, "
                                     "banks = 4), not 8"),
])
def test_contradictions(changes, message):
    with pytest.raises(DramError) as refused:
        HBM2.replace(**changes)
    assert str(refused.value) == message


@pytest.mark.parametrize("changes", [
    {"t_ras": "20 ns"}, {"t_rc": "47.0 ns"}, {"t_ccd_l": "2 ns"}, {"t_rrd_l": "4 tCK"},
    {"t_faw": "4 ns"}, {"t_wtr_l": "6 tCK"}, {"t_refi": "326 ns"}, {"page_bytes": 32},
    {"rows": 16}, {"rows": 8, "bank_hash": False}])
def test_the_limits_themselves_are_accepted(changes):
    HBM2.replace(**changes)


#: Field: least, most, whether only powers of two. Written down again, as the limits are a promise.
LIMITS = {
    "clock_ratio": (1, 16, False),
    "column_bytes": (4, 256, True),
    "page_bytes": (4, 1 << 16, True),
    "bank_groups": (1, 8, True),
    "banks": (1, 32, True),
    "rows": (2, 1 << 20, True),
    "burst": (1, 32, False),
    "read_latency": (1, 128, False),
    "write_latency": (1, 128, False),
    "turnaround": (0, 32, False),
    "update_factor": (1, 16, False),
    "window": (2, 64, False),
}


@pytest.mark.parametrize("field", LIMITS)
def test_limits(field):
    least, most, power = LIMITS[field]
    kind = "a power of two" if power else "an integer"
    for value in (least - 1, most + 1, most * 2, str(least), float(most), None, True,
                  *([most - 1] if power else [])):
        with pytest.raises(DramError) as refused:
            HBM2.replace(**{field: value})
        assert str(refused.value) == f"{field} must be {kind} from {least} to {most}, not {value!r}"


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(DramTiming)
                                   if field.name.startswith("t_")])
@pytest.mark.parametrize("value", ["14", "14ns ns", "-1 ns", "14 NS", "", "4 tCK,", 14, 14.0, None,
                                   ["14 ns"], "1e9 ns"])
def test_what_is_no_time_is_refused(field, value):
    with pytest.raises(DramError) as refused:
        HBM2.replace(**{field: value})
    assert str(refused.value) == (f"{field} must be a time such as '14 ns', '4 tCK' or "
                                  f"'4 tCK, 7.5 ns', not {value!r}")


@pytest.mark.parametrize("changes, message", [
    ({"t_rtp": "0 ns"}, "t_rtp must be more than 0, not '0 ns'"),
    ({"clock": "2 tCK"}, "clock must be an amount of time above 0 such as '1 ns', not '2 tCK'"),
    ({"clock": "0 ns"}, "clock must be an amount of time above 0 such as '1 ns', not '0 ns'"),
    ({"clock": 5}, "clock must be a time such as .* not 5"),
    ({"name": 5}, "name must be text, not 5"),
    ({"bank_hash": 1}, "bank_hash must be true or false, not 1"),
    ({"mapping": "row bank column"},
     "mapping must be the words row, bank, column, group in some order, not 'row bank column'"),
    ({"mapping": "row bank column column"}, "not 'row bank column column'"),
    ({"mapping": "row bank column group rank"}, "not 'row bank column group rank'"),
    ({"mapping": None}, "not None"),
])
def test_other_bad_values(changes, message):
    with pytest.raises(DramError, match=message):
        HBM2.replace(**changes)


def test_a_timing_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        HBM2.window = 8
    with pytest.raises(TypeError):
        DramTiming("hbm2")


@pytest.mark.parametrize("name", ["hbm3", "", "../memory/hbm2", None, 5])
def test_unknown_preset(name):
    with pytest.raises(DramError) as refused:
        DramTiming.preset(name)
    assert str(refused.value) == f"no DRAM {name!r}; there are ddr3, ddr4, hbm2"


def fields_as_toml(**changes):
    values = {key: str(value).lower() if isinstance(value, bool) else repr(value)
              for key, value in HBM2.as_dict().items() if key != "name"}
    values |= changes
    return "\n".join(f"{key} = {value}" for key, value in values.items() if value is not None)


def read(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return DramTiming.from_toml(path)


def test_toml(tmp_path):
    assert read(tmp_path, fields_as_toml()) == HBM2.replace(name="mine")
    assert read(tmp_path, fields_as_toml(name="'other'")) == HBM2.replace(name="other")
    assert read(tmp_path, fields_as_toml(update_factor=None)) == HBM2.replace(name="mine")


@pytest.mark.parametrize("changes, message", [
    ({"t_ras": "'19 ns'"}, "mine.toml: t_ras must be at least t_rcd .* not '19 ns'"),
    ({"t_rcd": None}, "mine.toml: t_rcd is missing"),
    ({"t_rdc": "'14 ns'"}, "mine.toml: no field 't_rdc'; fields are bank_groups, .*write_latency"),
    ({"t_rcd": ""}, "mine.toml: Invalid value"),
    ({"rows": "1.0"}, "mine.toml: rows must be a power of two .* not 1.0"),
])
def test_bad_toml(tmp_path, changes, message):
    with pytest.raises(DramError, match=message):
        read(tmp_path, fields_as_toml(**changes))


def test_unreadable_toml(tmp_path):
    with pytest.raises(DramError, match="none.toml.*No such file"):
        DramTiming.from_toml(tmp_path / "none.toml")
    with pytest.raises(DramError, match="Is a directory"):
        DramTiming.from_toml(tmp_path)
