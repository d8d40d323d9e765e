"""Every field's limits, the presets, TOML files; what is refused is quoted with its limit."""

import dataclasses

import pytest

from t3hw.config import DTYPE_NAMES, PRESETS, ConfigError, NodeConfig
from t3hw.dram import DramTiming
from t3hw.registers import TABLES, table_sizes

#: Field: least, most, whether only powers of two. Written down again, as the limits are a promise.
LIMITS = {
    "data_width": (32, 512, True),
    "addr_width": (12, 64, False),
    "id_width": (1, 16, False),
    "wg_width": (4, 16, False),
    "wf_width": (0, 4, False),
    "tracker_sets": (1, 1024, True),
    "tracker_ways": (0, 16, True),
    "expected_width": (8, 24, False),
    "tiles": (4, 32768, True),
    "commands": (2, 16384, True),
    "regions": (2, 32, False),
    "routes": (1, 16, False),
    "plans": (1, 8, False),
    "touch_bytes": (64, 1 << 26, True),
    "compute_queue": (1, 1024, False),
    "communication_queue": (1, 1024, False),
    "outstanding_reads": (1, 64, False),
    "outstanding_writes": (1, 64, True),
    "burst_beats": (2, 256, True),
    "producer_reads": (1, 1024, False),
    "memory_bytes": (0, 1 << 40, False),
    "memory_max_latency": (0, 1024, False),
    "memory_outstanding": (2, 256, True),
    "link_credits": (4, 4096, False),
    "link_max_latency": (0, 4096, False),
}

FLAGS = {"address_tiles", "pipelined", "monitoring", "collective"}

#: What a node that does not work with others must be.
ALONE = {"memory": "builtin", "memory_bytes": 1024, "memory_max_latency": 0, "link_max_latency": 0,
         "dtypes": (), "touch_bytes": 64, "monitoring": False}


def free(**fields):
    """A configuration whose other fields restrict none of ``fields``."""
    return NodeConfig(**{"data_width": 32, "addr_width": 64, "burst_beats": 2, "memory": "axi",
                         "memory_bytes": 0} | fields)


def test_every_field_has_limits():
    assert LIMITS.keys() | {"name", "dtypes", "memory", "dram"} | FLAGS == {
        field.name for field in dataclasses.fields(NodeConfig)}


@pytest.mark.parametrize("field", LIMITS)
def test_limits(field):
    least, most, power = LIMITS[field]
    kind = "a power of two" if power else "an integer"
    for value in (least, most, (least * 2 or 1) if power else least + 1):
        assert getattr(free(**{field: value}), field) == value
    wrong = [least - 1, most + 1, -least - 1, most * 2, str(least), float(most), None, True]
    for value in wrong + ([most - 1] if power else []):
        with pytest.raises(ConfigError) as refused:
            free(**{field: value})
        assert str(refused.value) == f"{field} must be {kind} from {least} to {most}, not {value!r}"


@pytest.mark.parametrize("fields, message", [
    ({"memory": "sram"}, "memory must be 'builtin', 'axi' or 'dram', not 'sram'"),
    *(({name: 1}, f"{name} must be true or false, not 1") for name in sorted(FLAGS)),
    ({"monitoring": "yes"}, "monitoring must be true or false, not 'yes'"),
    ({"memory": None}, "memory must be 'builtin', 'axi' or 'dram', not None"),
    ({"memory": "dram"}, "dram must be a DRAM's timing or the name of one .* not None"),
    ({"memory": "dram", "dram": 5}, "dram must be a DRAM's timing or the name of one .* not 5"),
    ({"memory": "dram", "dram": "hbm9"}, "dram: no DRAM 'hbm9'; there are ddr3, ddr4, hbm2"),
    ({"memory": "dram", "dram": {"rows": 5}}, "dram: .* missing .* keyword-only arguments"),
    ({"memory": "dram", "dram": DramTiming.preset("hbm2").as_dict() | {"t_rc": "3 ns"}},
     "dram: t_rc must be at least t_ras \\+ t_rp .* not '3 ns'"),
    ({"memory": "axi", "dram": "hbm2"}, "dram must be None where memory is 'axi', not 'hbm2'"),
    ({"memory": "builtin", "memory_bytes": 1024, "dram": "hbm2"},
     "dram must be None where memory is 'builtin', not 'hbm2'"),
    ({"memory": "dram", "dram": "hbm2", "memory_bytes": 3000}, "power of two .* not 3000"),
    ({"memory": "dram", "dram": "hbm2", "memory_bytes": 1 << 26},
     "memory_bytes must be at most 33554432: the 8388608 columns of dram 'hbm2', of 4 bytes each, "
     "not 67108864"),
    ({"dtypes": ()}, "dtypes must be one or more of .*, each once, not \\[\\]"),
    ({"dtypes": ("int32", "float64")}, "of int32, float32, .* not \\['int32', 'float64'\\]"),
    ({"dtypes": ("int32", "int32")}, "each once, not \\['int32', 'int32'\\]"),
    ({"dtypes": 5}, "dtypes must be .* not 5"),
    ({"dtypes": "int32"}, "dtypes must be .* not 'int32'"),
    ({"dtypes": (["int32"],)}, "dtypes must be .* not \\[\\['int32'\\]\\]"),
    *(({"collective": False} | ALONE | {name: value},
       f"{name} must be .* where collective is false, not {wrong}") for name, value, wrong in (
           ("memory", "axi", "'axi'"), ("memory_max_latency", 1, "1"), ("link_max_latency", 5, "5"),
           ("dtypes", ["int32"], r"\('int32',\)"), ("touch_bytes", 128, "128"),
           ("monitoring", True, "True"))),
    ({"name": 5}, "name must be text, not 5"),
    ({"memory": "builtin", "memory_bytes": 3000}, "power of two of at least 1024 .* not 3000"),
    ({"memory": "builtin", "memory_bytes": 512}, "power of two of at least 1024 .* not 512"),
    ({"memory": "builtin", "memory_bytes": 0}, "power of two of at least 1024 .* not 0"),
    ({"addr_width": 16, "memory_bytes": 65537}, "at most 2\\*\\*addr_width = 65536, not 65537"),
    ({"data_width": 512, "burst_beats": 128}, "at most 64 at data_width 512 .* not 128"),
])
def test_what_does_not_go_together_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        free(**fields)


def test_a_node_that_is_alone():
    config = free(collective=False, **ALONE)
    assert not config.collective and config.dtypes == ()
    assert NodeConfig(**config.as_dict()) == config


def test_the_largest_of_each_that_goes_together():
    assert free(data_width=512, burst_beats=64).burst_beats == 64
    assert free(addr_width=16, memory_bytes=65536).memory_bytes == 65536
    assert free(memory="builtin", memory_bytes=1024).memory_bytes == 1024
    assert free(memory="dram", dram="hbm2", memory_bytes=1 << 25).memory_bytes == 1 << 25
    assert free(dtypes=list(DTYPE_NAMES)).dtypes == DTYPE_NAMES


def test_a_dram_by_name_by_its_fields_and_as_it_is():
    timing = DramTiming.preset("ddr4")
    dram = {"memory": "dram", "memory_bytes": 1024}
    config = free(dram=timing, **dram)
    assert free(dram="ddr4", **dram) == free(dram=timing.as_dict(), **dram) == config
    assert NodeConfig(**config.as_dict()) == config
    assert config.as_dict()["dram"] == timing.as_dict()
    assert config.hash != free(dram=timing.replace(window=8), **dram).hash
    assert free().as_dict()["dram"] is None


def test_tables_fit_the_windows_of_the_register_map():
    most = free(**{name: LIMITS[name][1]
                   for name in ("tiles", "commands", "regions", "routes", "plans")})
    assert table_sizes(most) == {name: table.entries for name, table in TABLES.items()}


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        NodeConfig().tiles = 8
    with pytest.raises(TypeError):
        NodeConfig("tiny")
    with pytest.raises(ConfigError, match="not 7"):
        NodeConfig().replace(tiles=7)


def test_derived_values():
    config = free(data_width=128, touch_bytes=64, wg_width=9, wf_width=2)
    assert (config.beat_bytes, config.beat_shift, config.lanes) == (16, 4, 8)
    assert (config.touch_beats, config.user_width) == (4, 11)
    assert free(data_width=512, touch_bytes=64).touch_beats == 2


def test_the_hash_is_of_the_hardware_alone():
    config = NodeConfig.preset("small")
    assert config.replace(name="other").hash == config.hash
    assert 0 <= config.hash < 1 << 32
    changes = {"memory": "axi", "dtypes": ("float32",), "data_width": 128, "addr_width": 40}
    changes |= {name: value for name in LIMITS.keys() - changes.keys()
                for value in LIMITS[name][:2] if value != getattr(config, name)
                and not (name == "memory_bytes" and value in (0, 1 << 40))
                and not (name == "burst_beats" and value == 256)}
    assert len({config.hash} | {config.replace(**{name: value}).hash
                                for name, value in changes.items()}) == len(changes) + 1
    assert config.replace(dtypes=list(config.dtypes)).hash == config.hash


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
    config = NodeConfig.preset(name)
    assert config.name == name
    assert NodeConfig(**config.as_dict()) == config
    assert config.as_dict()["dtypes"] == list(config.dtypes)


def test_unknown_preset():
    with pytest.raises(
            ConfigError, match="no preset 'huge'; presets are axi, default, nano, small, .*"):
        NodeConfig.preset("huge")


def read(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return NodeConfig.from_toml(path)


def test_toml(tmp_path):
    assert read(tmp_path, "") == NodeConfig(name="mine")
    assert read(tmp_path, 'preset = "tiny"\ntiles = 128\ndtypes = ["int32"]\n') == \
        NodeConfig.preset("tiny").replace(name="mine", tiles=128, dtypes=("int32",))
    assert read(tmp_path, 'preset = "tiny"\nname = "smaller"\n').name == "smaller"
    assert read(tmp_path, 'memory = "dram"\ndram = "hbm2"\n') == \
        NodeConfig(name="mine", memory="dram", dram=DramTiming.preset("hbm2"))


@pytest.mark.parametrize("text, message", [
    ("tiles = 100", "tiles must be a power of two from 4 to 32768, not 100"),
    ('tiles = "128"', "tiles must be a power of two from 4 to 32768, not '128'"),
    ("tiles = 128.0", "not 128.0"),
    ("tile = 128", "mine.toml: no field 'tile'; fields are addr_width, .*wg_width"),
    ('preset = "huge"', "no preset 'huge'"),
    ("preset = 5", "no preset 5"),
    ("preset = []", "no preset \\[\\]"),
    ("tiles = ", "mine.toml: Invalid value"),
    ("[tiles]\na = 1", "not {'a': 1}"),
    ("dtypes = 5", "dtypes must be .* not 5"),
    ("name = 5", "name must be text, not 5"),
    ('dram = "hbm2"', "dram must be None where memory is 'builtin', not 'hbm2'"),
    ('memory = "dram"\ndram = "hbm"', "dram: no DRAM 'hbm'; there are ddr3, ddr4, hbm2"),
    ('memory = "dram"\ndram = 2', "dram must be a DRAM's timing or the name of one .* not 2"),
])
def test_bad_toml(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_unreadable_toml(tmp_path):
    with pytest.raises(ConfigError, match="none.toml.*No such file"):
        NodeConfig.from_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        NodeConfig.from_toml(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="binary.toml: 'utf-8' codec"):
        NodeConfig.from_toml(tmp_path / "binary.toml")
