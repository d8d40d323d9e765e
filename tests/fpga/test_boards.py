"""Board designs: the stock ones are sound, and every part of a design is in its hash."""

import importlib
import tomllib
from pathlib import Path

import pytest

from t3hw.config import ConfigError, NodeConfig
from t3hw.fpga.boards import BOARD_FOLDER, BoardDesign, board_names
from t3hw.fpga.clocks import ecp5_pll, gowin_pll, ice40_pll
from t3hw.fpga.devices import chip, ecp5_options, gowin_family, ice40_options, resources
from t3hw.fpga.top import open_platform

DESIGN = BoardDesign.stock("ulx3s-85f-overlap")


def test_the_boards_are_there():
    wanted = {"ulx3s-85f": 4, "versa-ecp5": 4, "orangecrab": 2, "ulx3s-12f": 2, "ulx3s-25f": 2,
              "icebreaker": 1, "tang-nano-9k": 1}
    found = {name: BoardDesign.stock(name).devices for name in board_names()}
    assert wanted.items() <= found.items()
    assert {"arty-a7", "kcu105", "ulx3s-85f-sdram"} <= set(found)


@pytest.mark.parametrize("name", board_names())
def test_a_stock_design_is_what_its_board_is(name):
    design = BoardDesign.stock(name)
    assert design.name == name
    platform = open_platform(design)
    if design.family == "gowin":
        assert platform.part == design.part
        assert gowin_family(design.part) == platform._chipdb_device
    elif design.family == "ice40":
        assert design.part == f"{platform.device}-{platform.package}"
        assert ice40_options(design.part)[0] == platform._nextpnr_device_options[platform.device]
    elif design.family == "ecp5":
        assert design.part == f"{platform.device}-{platform.speed}{platform.package}C"
        assert ecp5_options(design.part) == [
            platform._nextpnr_device_options[platform.device], "--package",
            platform._nextpnr_package_options[platform.package].upper(), "--speed", platform.speed]
    else:
        # Vivado's name has the temperature range in the middle.
        assert design.part.startswith(platform.device) and platform.package in design.part
    make = {"ecp5": ecp5_pll, "ice40": ice40_pll, "gowin": gowin_pll}.get(design.family)
    if platform.default_clk_frequency != design.clock_hz:
        make(platform.default_clk_frequency, design.clock_hz)


@pytest.mark.parametrize("name", board_names())
def test_a_stock_file_says_what_it_is_and_repeats_nothing(name):
    text = (BOARD_FOLDER / f"{name}.toml").read_text()
    assert text.startswith("# ")
    fields = tomllib.loads(text)
    assert "name" not in fields
    preset = NodeConfig.preset(fields["node"].pop("preset"))
    for key, value in fields["node"].items():
        assert getattr(preset, key) != value, f"{key} is as in the preset"


def test_plain_data_and_back():
    for name in board_names():
        design = BoardDesign.stock(name)
        again = BoardDesign.from_dict(design.as_dict())
        assert again == design and again.hash == design.hash


def test_the_hash_is_of_all_that_decides_the_bitstream():
    changes = {
        "family": "xilinx", "part": "LFE5U-45F-6BG381C", "platform": "a:b", "clock_hz": 60_000_000,
        "devices": 2, "traffic": False, "node": DESIGN.node.replace(tiles=512), "gemm_units": 8,
        "gemm_stages": 4, "collective_steps": 8, "baud": 500_000,
        "uart": {"rx": "A1", "tx": "A2"}}
    others = {key: DESIGN.replace(**{key: value}).hash for key, value in changes.items()}
    others["memory"] = BoardDesign.stock("ulx3s-85f-sdram").hash
    assert len({DESIGN.hash, *others.values()}) == len(others) + 1
    neutral = DESIGN.replace(name="other", title="Other", loader="dfu",
                             node=DESIGN.node.replace(name="other"))
    assert neutral.hash == DESIGN.hash
    known = {"name", "title", "loader", "memory", "sdram", *changes}
    assert known == set(DESIGN.as_dict()), "a new field needs a line here"


@pytest.mark.parametrize("changes, message", [
    ({"devices": 0}, "devices must be an integer from 1 to 16, not 0"),
    ({"devices": True}, "devices .* not True"),
    ({"clock_hz": 1e8}, "clock_hz .* not 100000000.0"),
    ({"baud": 50_000_000}, "baud"),
    ({"clock_hz": 3_000_000}, "baud must be at most 750000"),
    ({"family": "ecp6"}, "family must be one of ecp5, ice40, gowin, xilinx, not 'ecp6'"),
    ({"platform": "ulx3s"}, "platform must be like"),
    ({"memory": "ddr"}, "'block-ram' or 'sdram', not 'ddr'"),
    ({"memory": "sdram"}, "memory must be 'axi'"),
    ({"node": DESIGN.node.replace(memory="axi", memory_bytes=1 << 16)}, "'builtin' or 'dram'"),
    ({"node": "small"}, "node must be"),
    ({"node": DESIGN.node.replace(memory_bytes=1 << 27, addr_width=32)},
     "memory_bytes must be from 1 to 67108864"),
    ({"traffic": 1}, "traffic must be true or false, not 1"),
    ({"uart": {"rx": "A1"}}, "uart must be a table with rx and tx"),
    ({"title": 3}, "title must be text, not 3"),
])
def test_what_is_not_allowed_is_refused_by_name(changes, message):
    with pytest.raises(ConfigError, match=message):
        DESIGN.replace(**changes)


@pytest.mark.parametrize("text, message", [
    ("title = ", "board.toml"),
    ('colour = "red"\n', "no field 'colour'; fields are"),
    ('title = "x"\n', "family, node, part, platform missing|missing"),
    ("node = 3\n", "missing"),
])
def test_a_bad_file_is_refused_by_its_name(tmp_path, text, message):
    path = tmp_path / "board.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        BoardDesign.from_toml(path)
    assert str(path) in str(caught.value)


def test_a_bad_node_is_refused_by_field(tmp_path):
    text = (BOARD_FOLDER / "arty-a7.toml").read_text()
    for line, message in (("tile = 4", "no field 'tile'"), ("wf_width = 5", "wf_width must be")):
        path = tmp_path / "board.toml"
        path.write_text(text + line + "\n")
        with pytest.raises(ConfigError, match=message):
            BoardDesign.from_toml(path)


def test_names_that_are_not_there():
    with pytest.raises(ConfigError, match="no board 'de10'; boards are arty-a7, icebreaker"):
        BoardDesign.stock("de10")
    with pytest.raises(ConfigError, match="no module"):
        open_platform(DESIGN.replace(platform="amaranth_boards.nothing:Platform"))
    with pytest.raises(ConfigError, match="no NoPlatform in amaranth_boards.ulx3s"):
        open_platform(DESIGN.replace(platform="amaranth_boards.ulx3s:NoPlatform"))


@pytest.mark.parametrize("name", [name for name in board_names()
                                  if BoardDesign.stock(name).has_bitstream])
def test_what_a_chip_holds_is_known(name):
    design = BoardDesign.stock(name)
    available = resources(design)
    assert available.get("LUT4", available.get("logic cell")) > 1000 and chip(design)


@pytest.mark.parametrize("family, part, message", [
    ("ecp5", "LFE5U-85F", "part must be like LFE5U-85F-6BG381C"),
    ("ecp5", "LFE5U-44F-6BG381C", "12F, 25F, 45F or 85F"),
    ("ice40", "iCE40LP1K-SG48", "iCE40UP5K"),
])
def test_a_part_that_is_not_known_is_refused(family, part, message):
    with pytest.raises(ConfigError, match=message):
        resources(DESIGN.replace(family=family, part=part))


def test_the_files_are_in_the_package():
    package = importlib.import_module("t3hw")
    assert BOARD_FOLDER.parent == Path(package.__file__).parent
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "**/*.toml" in project["tool"]["setuptools"]["package-data"]["t3hw"]
