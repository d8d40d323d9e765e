"""A DRAM model alone, with a source of traffic in Verilog: its bandwidth, and its command trace."""

import dataclasses
import functools
import json
import os
import platform
import tempfile
from pathlib import Path

from amaranth.lib.wiring import In

from t3hw.bench import HEADER, Row, line, report
from t3hw.config import NodeConfig
from t3hw.generate import to_verilog
from t3hw.hdl.seams import dram_command, memory_access
from t3hw.progress import progress

from . import simulators
from .dram_checker import POSTPONED, DramRules, check_file
from .dram_test import COUNTS, RESULT
from .simulators import SimulatorError

__all__ = ["MEMORIES", "Traffic", "bandwidth", "bench_memory", "memory_config", "random_commands",
           "simulate"]

#: Stock memories.
MEMORIES = ("ddr3", "ddr4", "hbm2")

#: What the traffic source does, by its number.
KINDS = ("streaming reads", "streaming writes", "streaming updates", "random reads",
         "random writes", "random updates", "random mix")

TOP = "t3_dram_bench"

#: Beats of the simulated memory, 8 bytes each.
BEATS_LOG2 = 17

#: Accesses of a measurement, and those at its begin that are left out.
ACCESSES, WARM_UP = 60_000, 2_000

#: Commands of the check, unless told otherwise.
COMMANDS = 10_000_000

#: No access takes as long on average; a bench that takes longer is stuck.
_CYCLES_AN_ACCESS = 100

_VERILOG = Path(__file__).parent / "verilog"
_SOURCES = ("t3_random.sv", "dram_traffic.sv", "dram_log.sv")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a run counted.

    Parameters
    ----------
    cycles : int
        Of the whole run.
    accepted, reads, commits, errors : int
        Accesses that the memory took, and its responses by kind.
    commands : int
        Commands on the bus.
    window_cycles, window_responses : int
        Cycles from the end of the warm-up until the traffic stopped, and the responses in them.
    """

    cycles: int
    accepted: int
    reads: int
    commits: int
    errors: int
    commands: int
    window_cycles: int
    window_responses: int

    @property
    def rate(self):
        """Beats a cycle."""
        return self.window_responses / self.window_cycles


def memory_config(memory):
    """The configuration of a node with that memory.

    Parameters
    ----------
    memory : str or DramTiming
        Name of a stock memory, or a timing.
    """
    # A beat of 8 bytes stands for a whole column: cycles do not depend on it.
    return NodeConfig(name="memory", memory="dram", dram=memory, data_width=64,
                      memory_bytes=8 << BEATS_LOG2)


@functools.cache
def _build(config):
    # Only here, for the checker and its command line do without the hardware.
    from t3hw.hdl.dram_memory import DramMemory

    component = DramMemory(config=config)
    text = to_verilog(component, "t3_dram_memory")
    sources = {name: (_VERILOG / name).read_text() for name in _SOURCES}
    sources |= {"t3_dram_memory.v": text, f"{TOP}.sv": _bench(config, component, text)}
    return simulators.build(simulator="verilator", sources=sources, top=TOP)


def _bench(config, component, text):
    inputs, outputs = simulators.top_ports(text, "t3_dram_memory")
    wires, connections = [], {"clk": "clk", "rst": "rst"}
    for path, member, value in component.signature.flatten(component):
        name = "__".join(path)
        if name not in inputs + outputs:
            continue
        wires.append(f"    wire [{len(value) - 1}:0] {name};")
        connections[name] = name
        if member.flow is In and name in inputs and name not in (
                "access__payload", "access__valid"):
            wires.append(f"    assign {name} = 0;")
    access = memory_access(config)
    driven = {
        "write": "op != 2'd0", "add": f"{{{config.lanes}{{op == 2'd2}}}}", "source": "source",
        "last": "1'b1", "address": "{beat, {BEAT_SHIFT{1'b0}}}", "data": "data", "strobe": "~0",
        "dtype": "0", "tag": "0", "tile": "0",
    }
    fields = []
    for name, field in access:
        fields.append(f"    wire [{field.width - 1}:0] access_{name} = {driven[name]};")
        fields.append(f"    assign access__payload[{field.offset} +: {field.width}] = "
                      f"access_{name};")
    command = dram_command(config)
    rules = DramRules.derive(config.dram)
    log = {"clk": "clk", "rst": "rst", "cycle": "cycle"} | {
        name: f"command[{field.offset} +: {field.width}]" for name, field in command}
    widths = {name: field.width for name, field in command}
    return _TEMPLATE.format(
        top=TOP, beats_log2=BEATS_LOG2, beat_shift=config.beat_shift,
        cycles_an_access=_CYCLES_AN_ACCESS,
        counts="".join(f",\n    output reg [63:0] {name}" for name in COUNTS),
        wires="\n".join(wires), fields="\n".join(fields),
        connections=_connections(connections), command_row=command["row_valid"].offset,
        command_column=command["column_valid"].offset,
        memory=rules.name, clock=rules.clock_ps, groups=rules.bank_groups,
        bank_width=widths["row_bank"], row_width=widths["row"], column_width=widths["column"],
        log=_connections(log))


def _connections(ports):
    return ",\n".join(f"        .{port}({value})" for port, value in ports.items())


_TEMPLATE = """\
// A DRAM model with a source of traffic. Written by t3hw/cosim/dram_bench.py.
module {top} (
    input wire clk,
    input wire rst,
    output reg done{counts}
);
    localparam BEAT_SHIFT = {beat_shift};
    reg [31:0] seed;
    reg [2:0] kind;
    reg [63:0] accesses;  // responses, and commands, after which the traffic stops
    reg [63:0] last_command;
    reg [63:0] warm_up;   // responses before the measurement
    initial begin
        if (!$value$plusargs("t3_seed=%d", seed)) seed = 1;
        if (!$value$plusargs("t3_kind=%d", kind)) kind = 0;
        if (!$value$plusargs("t3_accesses=%d", accesses)) accesses = 0;
        if (!$value$plusargs("t3_commands=%d", last_command)) last_command = 0;
        if (!$value$plusargs("t3_warm_up=%d", warm_up)) warm_up = 0;
    end

{wires}

    wire valid;
    wire [1:0] op, source;
    wire [{beats_log2}-1:0] beat;
    wire [63:0] data;
    reg stop;
    t3_dram_traffic #(.BEATS_LOG2({beats_log2})) traffic (
        .clk(clk), .rst(rst), .seed(seed), .kind(kind), .stop(stop), .valid(access__valid),
        .ready(access__ready), .op(op), .source(source), .beat(beat), .data(data));
{fields}

    t3_dram_memory memory (
{connections}
    );

    reg [63:0] cycle;
    t3_dram_log #(
        .MEMORY("{memory}"), .CLOCK_PS({clock}), .BANK_GROUPS({groups}), .BANK_WIDTH({bank_width}),
        .ROW_WIDTH({row_width}), .COLUMN_WIDTH({column_width})
    ) log (
{log}
    );

    wire [63:0] responses = reads + commits;
    wire limit = accesses != 0 && responses >= accesses
        || last_command != 0 && commands >= last_command;
    wire late = cycle >= {cycles_an_access} * (accesses + last_command) + 100000;
    always @(posedge clk)
        if (rst) begin
            {{done, stop}} <= 0;
            {{cycle, cycles, accepted, reads, commits, errors, commands}} <= 0;
            {{window_cycles, window_responses}} <= 0;
        end else if (!done) begin
            cycle <= cycle + 1;
            cycles <= cycle;
            if (access__valid && access__ready) accepted <= accepted + 1;
            if (read__valid) reads <= reads + 1;
            if (commit__valid) commits <= commits + 1;
            if (error__valid) errors <= errors + 1;
            commands <= commands + {{63'd0, command[{command_row}]}}
                + {{63'd0, command[{command_column}]}};
            if (limit) stop <= 1'b1;
            else if (!stop && responses >= warm_up) begin
                window_cycles <= window_cycles + 1;
                window_responses <= window_responses + {{63'd0, read__valid}}
                    + {{63'd0, commit__valid}};
            end
            done <= late || stop && !access__valid && responses == accepted;
        end
endmodule
"""


def simulate(memory, kind, *, accesses=0, commands=0, warm_up=0, seed=1, directory=None,
             trace=False):
    """Run traffic through a memory.

    Parameters
    ----------
    memory : str or DramTiming
        The memory.
    kind : str
        What the traffic is, of `KINDS`.
    accesses, commands : int
        Accesses, and commands on the memory's bus, after which it stops; 0 for no such limit.
    warm_up : int
        Accesses after which the measurement begins.
    seed : int
        Of all that is random.
    directory : path-like or None
        Where the run's files are kept; None keeps none.
    trace : bool
        Whether to write the commands to ``dram0.txt`` in that directory.

    Returns
    -------
    Traffic

    Raises
    ------
    SimulatorError
        If the simulator fails, or the memory does not answer all accesses, each once and without
        an error.
    """
    config = memory_config(memory)
    program = _build(config)
    plusargs = [f"+t3_seed={seed}", f"+t3_kind={KINDS.index(kind)}", f"+t3_accesses={accesses}",
                f"+t3_commands={commands}", f"+t3_warm_up={warm_up}"]
    with tempfile.TemporaryDirectory(prefix="t3hw-") as temporary:
        where = Path(directory or temporary)
        simulators.run(program, test_module=f"{__package__}.dram_test", directory=where,
                       plusargs=plusargs + ["+t3_dram_trace=dram"] * trace)
        counts = Traffic(**json.loads((where / RESULT).read_text()))
    if counts.errors or counts.reads + counts.commits != counts.accepted or not counts.accepted:
        raise SimulatorError(f"{config.dram.name}, {kind}, seed {seed}: {counts.accepted} accesses "
                             f"had {counts.reads} reads, {counts.commits} commits, "
                             f"{counts.errors} errors after {counts.cycles} cycles")
    return counts


def implied(rules, kind, window):
    """Beats a cycle that a memory's parameters allow.

    With R the share of time that refreshes leave, 1 - tRFC / tREFI, streaming gives

        R × min(1 / max(burst, tCCD_S), groups / tCCD)

    where tCCD is tCCD_L, for updates tCCD_L update. Random accesses open a row each, and give

        R × min(1 / max(burst, tCCD_S), 1 / tRRD_S, 4 / tFAW, busy / cycle)

    ``cycle`` is the time from ACT to ACT of one bank with an access between: the longer of tRC and
    tRCD + tRTP + tRP, for writes tRCD + (CWL + burst + tWR) + tRP. ``busy`` is the number of banks
    that have work, if the window's entries fall on B banks at random: B × (1 - (1 - 1/B)^window).
    """
    column = max(rules.burst / rules.clocks, rules.ccd_s)
    left = 1 - rules.rfc / rules.refresh_interval
    if kind.startswith("streaming"):
        same = rules.ccd_l_update if kind.endswith("updates") else rules.ccd_l
        return float(left * min(1 / column, rules.bank_groups / same))
    after = rules.rtp if kind.endswith("reads") else rules.write_recovery
    cycle = max(rules.rc, rules.rcd + after + rules.rp)
    banks = rules.bank_groups * rules.banks
    busy = banks * (1 - (1 - 1 / banks) ** window)
    activate = rules.rrd_s if rules.bank_groups > 1 else rules.rrd_l
    return float(left * min(1 / column, 1 / activate, 4 / rules.faw, busy / cycle))


def bandwidth(memory, *, accesses=ACCESSES):
    """Rows with the bandwidth of a memory, beside what its parameters imply.

    Parameters
    ----------
    memory : str or DramTiming
        The memory.
    accesses : int
        Accesses of each measurement, the warm-up included.

    Yields
    ------
    Row
        Streaming reads against the peak of one beat a burst; the others against `implied`.
    """
    timing = memory_config(memory).dram
    rules = DramRules.derive(timing)
    for kind in KINDS[:-1]:
        with progress(f"{rules.name}, {kind}"):
            rate = simulate(memory, kind, accesses=accesses, warm_up=WARM_UP).rate
        if kind == "streaming reads":
            reference, what = rules.clocks / rules.burst, "the peak"
        else:
            reference, what = implied(rules, kind, timing.window), "what is implied"
        yield Row(name=f"{rules.name}, {kind}: {rate:.3f} beats a cycle of {what}, {reference:.3f}",
                  value=100 * rate / reference, unit="%", goal=90, better="higher")


def random_commands(memory, commands, *, seed=1, postponed=POSTPONED):
    """Run random traffic until so many commands were issued, and check their trace.

    Returns
    -------
    Report
        The checker's.
    """
    config = memory_config(memory)
    rules = DramRules.derive(config.dram)
    with tempfile.TemporaryDirectory(prefix="t3hw-") as directory:
        counts = simulate(memory, "random mix", commands=commands, seed=seed, directory=directory,
                          trace=True)
        result = check_file(Path(directory, "dram0.txt"), rules, postponed=postponed)
    if result.total != counts.commands:
        raise SimulatorError(f"{counts.commands} commands were issued, and {result.total} written")
    return result


def bench_memory(memory, *, commands=COMMANDS, show=print):
    """Measure a memory, and check its commands.

    Parameters
    ----------
    memory : str or DramTiming
        The memory.
    commands : int
        Random commands to check.
    show : callable
        Is given each line of the table when it is there, and the violations.

    Returns
    -------
    dict
        The report: ``schema``, ``rows``, ``commands`` of the check by kind, ``violations``, and
        ``machine``.
    """
    rows = []
    show(HEADER)
    for row in bandwidth(memory):
        rows.append(row)
        show(line(row))
    name = DramRules.derive(memory_config(memory).dram).name
    with progress(f"{name}, {commands} random commands"):
        result = random_commands(memory, commands)
    row = Row(name=f"{name}, violations in {result.total} random commands", value=result.count,
              unit="", goal=0, better="lower")
    show(line(row))
    for violation in result.violations[:20]:
        show(str(violation))
    return report([*rows, row], commands=result.commands,
                  violations=[str(violation) for violation in result.violations],
                  machine={"cores": os.cpu_count(), "architecture": platform.machine(),
                           "python": platform.python_version()})
