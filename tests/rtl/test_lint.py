"""Generated Verilog gives no tool cause for complaint; and the tools do see what is wrong."""

import re
from pathlib import Path

import pytest

from t3hw.config import NodeConfig
from t3hw.cosim import lint
from t3hw.generate import generate

WAIVERS = Path(__file__).parents[2] / "rtl" / "lint.vlt"
DESIGNS = {
    "tiny": {},
    "small": {},
    "axi": {},
    "default": {},
    "wide": {},
    "tiny ring": {"devices": 2},
    "tiny dram": {"memory": "dram", "dram": "hbm2"},
    # A header in one word, one plan, no delay line, adders of one type.
    "least": {"preset": "tiny", "data_width": 128, "addr_width": 16, "wg_width": 4, "wf_width": 0,
              "plans": 1, "routes": 1, "regions": 2, "tiles": 4, "commands": 2,
              "dtypes": ("int32",), "tracker_ways": 1, "id_width": 1, "link_max_latency": 0,
              "memory_max_latency": 0, "touch_bytes": 64},
}
# Nothing that works with others, in as little as there can be, and in more.
DESIGNS["alone"] = {"preset": "nano", "collective": False, "dtypes": (), "touch_bytes": 64,
                    "addr_width": 12, "tracker_ways": 0, "expected_width": 12, "commands": 2,
                    "outstanding_writes": 1, "producer_reads": 1, "compute_queue": 1,
                    "communication_queue": 1}
DESIGNS["alone and wide"] = {"preset": "nano", "collective": False, "dtypes": (), "touch_bytes": 64,
                             "data_width": 128, "addr_width": 40, "pipelined": True, "regions": 5,
                             "plans": 2, "wf_width": 2, "address_tiles": True}
DESIGNS["least traffic"] = DESIGNS["least"] | {"traffic": True}
# One floating-point type: its adders have no format to choose, those of 32 bits no lower lane.
DESIGNS["least half"] = DESIGNS["least"] | {"dtypes": ("float16",)}
DESIGNS["least single"] = DESIGNS["least"] | {"dtypes": ("float32",)}


@pytest.fixture(scope="module", params=DESIGNS)
def design(request, tmp_path_factory):
    """A generated file and its top module."""
    fields = dict(DESIGNS[request.param])
    kind = {name: fields.pop(name) for name in ("devices", "traffic") if name in fields}
    config = NodeConfig.preset(fields.pop("preset", request.param.split()[0])).replace(**fields)
    path, _sidecar = generate(config, tmp_path_factory.mktemp("rtl"), **kind)
    return path, path.stem


def test_verilator(design):
    path, top = design
    assert lint.verilator(path, top=top, waivers=WAIVERS) == []


def test_icarus(design):
    path, top = design
    assert lint.icarus(path, top=top) == []


def test_yosys(design):
    path, top = design
    # The memories of a tracker of one entry are registers, and Yosys says that it makes them so.
    assert [message for message in lint.yosys(path, top=top)
            if not re.match(r"Warning: Replacing memory \\(way|counts)", message)] == []


def test_no_waiver_is_left_over(tmp_path):
    path, _sidecar = generate(NodeConfig.preset("tiny"), tmp_path)
    seen = {message.split(":")[0] for message in lint.verilator(path, top="t3_node")}
    waived = re.findall(r"^lint_off -rule (\w+)$", WAIVERS.read_text(), re.M)
    assert {f"%Warning-{rule}" for rule in waived} == seen - {"%Error"}


FAULTS = {
    "undriven": ("output [1:0] o", "assign o[0] = i;"),
    "constant process": ("output reg o", "always @* o = 1'b0;"),
    "no bits": ("output o", "wire [-1:0] index; assign o = i & index[0];"),
    "two drivers": ("output o", "assign o = ~i; assign o = !i;"),
    "loop": ("output o", "wire a = ~o; assign o = a;"),
    "no such module": ("output o", "nothing n(.i(i), .o(o));"),
}


@pytest.mark.parametrize("tool, seen", [
    (lambda path: lint.verilator(path, top="faulty", waivers=WAIVERS),
     {"undriven", "constant process", "no bits", "loop", "no such module"}),
    (lambda path: lint.icarus(path, top="faulty"), {"constant process", "no such module"}),
    (lambda path: lint.yosys(path, top="faulty"), {"two drivers", "loop", "no such module"}),
], ids=["verilator", "icarus", "yosys"])
def test_faults_are_seen(tool, seen, tmp_path):
    complaints = {}
    for name, (port, body) in FAULTS.items():
        path = tmp_path / "faulty.v"
        path.write_text(f"module faulty(input i, {port});\n  {body}\nendmodule\n")
        complaints[name] = tool(path)
    assert seen <= {name for name, messages in complaints.items() if messages}, complaints
    path.write_text("module faulty(input i, output o);\n  assign o = ~i;\nendmodule\n")
    assert tool(path) == []
