"""From the first clock edge on every output of a node is 0 or 1, and in reset no channel is valid;
after it everything within is 0 or 1 too."""

import json
import re
import subprocess

import pytest

from t3hw.config import NodeConfig
from t3hw.generate import generate

#: Icarus has X, which Verilator does not. All inputs are 0 from the start.
_BENCH = """
module bench;
    reg clk = 0, rst = 1;
{declarations}
    t3_node node (.clk(clk), .rst(rst){connections});
    integer edges;
    initial begin
        for (edges = 0; edges < 200; edges = edges + 1) begin
            #1 clk = 1;
            #1 clk = 0;
            if (edges == 7) rst = 0;
{checks}
            #1 if (rst) begin
{quiet}
            end
        end
        $dumpfile("{dump}");
        $dumpvars(0, node);
        #1 $finish;
    end
endmodule
"""
CONFIGS = {
    "tiny": NodeConfig.preset("tiny"),
    "tiny axi": NodeConfig.preset("tiny").replace(memory="axi", memory_bytes=0),
    "least": NodeConfig.preset("tiny").replace(
        data_width=128, addr_width=16, wg_width=4, wf_width=0, plans=1, routes=1, regions=2,
        tiles=4, commands=2, dtypes=("bfloat16",), tracker_ways=1, link_max_latency=0,
        memory_max_latency=0, touch_bytes=64),
}


def bench(ports, dump):
    ports = [port for port in ports if port["name"] not in ("clk", "rst")]
    outputs = [port["name"] for port in ports if port["direction"] == "output"]
    return _BENCH.format(
        declarations="\n".join(
            f"    {'reg' if port['direction'] == 'input' else 'wire'} [{port['width'] - 1}:0] "
            f"{port['name']}{' = 0' if port['direction'] == 'input' else ''};" for port in ports),
        connections="".join(f", .{port['name']}({port['name']})" for port in ports),
        checks="\n".join(
            f"            if (^{name} === 1'bx) $display(\"%0d: {name} is %b\", edges, {name});"
            for name in outputs),
        quiet="\n".join(
            f"                if ({name}) $display(\"%0d: {name} in reset\", edges);"
            for name in outputs
            if name.endswith(("valid", "irq", "credit")) or re.match(r"s_axil_\w+ready", name)),
        dump=dump)


def unknown(dump):
    """Full names of the signals in a VCD whose last value has an X."""
    names, scope, values = {}, [], {}
    for line in dump.read_text().splitlines():
        words = line.split()
        if line.startswith("$scope"):
            scope.append(words[2])
        elif line.startswith("$upscope"):
            scope.pop()
        elif line.startswith("$var"):
            names.setdefault(words[3], ".".join([*scope, words[4]]))
        elif re.match(r"b\S+ \S+$", line):
            values[words[1]] = words[0]
        elif re.match(r"[01xz]\S+$", line):
            values[line[1:]] = line[0]
    assert len(values) > 1000
    return [names[code] for code, value in values.items() if set(value) & set("xz")]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_nothing_is_unknown_after_reset(config, tmp_path):
    verilog, sidecar = generate(config, tmp_path)
    dump = tmp_path / "end.vcd"
    (tmp_path / "bench.v").write_text(bench(json.loads(sidecar.read_text())["ports"], dump))
    program = tmp_path / "bench"
    subprocess.run(["iverilog", "-g2005-sv", "-s", "bench", "-o", program, tmp_path / "bench.v",
                    verilog], check=True)
    run = subprocess.run(["vvp", "-n", program], check=True, text=True, stdout=subprocess.PIPE)
    assert [line for line in run.stdout.splitlines() if not line.startswith("VCD")] == []
    assert unknown(dump) == []
