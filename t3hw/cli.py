"""The command `t3hw`."""

import argparse
import dataclasses
import errno
import json
import os
import sys
from pathlib import Path

from . import __version__
from .config import DTYPE_NAMES, PRESETS, ConfigError, NodeConfig
from .fpga.cli import add_bench_parser as add_fpga_bench
from .fpga.cli import add_parser as add_fpga

__all__ = ["check_folders", "main", "write_json"]

#: Exit codes: all is well; the result is wrong; bad input; interrupted.
OK, WRONG, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments=None):
    """Run the command line; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        return BAD_INPUT
    # What every module may raise about its input; imported late, so that --help is quick.
    from .cosim.simulators import SimulatorError
    from .dram import DramError
    from .fpga.tools import FlowError
    from .registers import RegisterError
    from .runtime.device import DeviceError
    from .runtime.plan import PlanError
    from .workloads import InputError

    try:
        result = options.run(options)
        # What cannot be written must show here, and not when Python ends.
        sys.stdout.flush()
        return result
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (ConfigError, DeviceError, DramError, FlowError, InputError, PlanError, RegisterError,
            SimulatorError) as error:
        print(f"t3hw: {error}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        # An access that a node refused has no file.
        where = f"{error.filename}: " if error.filename else ""
        print(f"t3hw: {where}{error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("t3hw: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser():
    parser = argparse.ArgumentParser(
        prog="t3hw", description="Hardware that hides a GEMM's reduce-scatter behind the GEMM.")
    parser.add_argument("--version", action="version", version=f"t3hw {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    generate = commands.add_parser("generate", help="write Verilog of a node or a ring",
                                   description="Write Verilog and a JSON sidecar.")
    _add_config(generate)
    kind = generate.add_mutually_exclusive_group()
    kind.add_argument("--devices", type=_devices, metavar="N",
                      help="a ring of N nodes (t3_ring) instead of one node (t3_node)")
    kind.add_argument("--traffic", action="store_true",
                      help="a node with traffic engines instead of a producer port "
                           "(t3_traffic_node), for simulation")
    generate.add_argument("--name", metavar="NAME",
                          help="name of the files, of the top module, and at the start of all "
                               "others' names (default: t3_node, t3_ring or t3_traffic_node)")
    generate.add_argument("-o", "--output", type=Path, default=Path("."), metavar="DIR",
                          help="folder, made if it is not there (default: this one)")
    generate.set_defaults(run=_generate)

    simulate = commands.add_parser(
        "sim", help="simulate a ring that overlaps a GEMM with its reduce-scatter",
        description="Simulate a ring of nodes that runs one tensor-parallel GEMM, compare the "
                    "result bit for bit with the reference, and show what the overlap saved.")
    _add_simulation(simulate)
    simulate.set_defaults(run=_simulate)

    demo = commands.add_parser(
        "demo", help="the main job on real input, explained",
        description="Four devices run the FC-2 layer of a MiniLM encoder on a real sentence.")
    demo.add_argument("--timeline", type=Path, default=Path("t3hw-demo.html"), metavar="FILE",
                      help="where the timeline goes, as a page and as a picture "
                           "(default: %(default)s)")
    demo.add_argument("--simulator", choices=("verilator", "icarus"), default="verilator")
    demo.add_argument("--json", type=Path, metavar="FILE", help="write the summary as JSON")
    demo.set_defaults(run=_demo)

    add_fpga(commands)

    registers = commands.add_parser("registers", help="print the register map",
                                    description="Print all registers and tables.")
    registers.set_defaults(run=_registers)

    bench = commands.add_parser("bench", help="measure", description="Measure, against the goals.")
    kinds = bench.add_subparsers(title="what", metavar="WHAT", required=True)
    blocks = kinds.add_parser("blocks", help="cycles and speed of the blocks and of a ring")
    blocks.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    blocks.set_defaults(run=_bench_blocks)
    memory = kinds.add_parser(
        "memory", help="bandwidth of a DRAM model, and the rules that its commands keep",
        description="Streaming and random bandwidth of a DRAM model against what its parameters "
                    "imply; an independent checker reads the commands of random traffic.")
    memory.add_argument("--memory", default="hbm2", metavar="NAME",
                        help="a stock memory, or a file NAME.toml with its timing "
                             "(default: %(default)s)")
    memory.add_argument("--commands", type=_positive, default=10_000_000, metavar="N",
                        help="random commands to check (default: %(default)s)")
    memory.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    memory.set_defaults(run=_bench_memory)
    loop_back = kinds.add_parser(
        "loop-back", help="whether one node stands for a ring",
        description="Run a sublayer in every variant on rings of 2 to 8 nodes, and on the one node "
                    "that stands for a ring in `bench overlap`; compare cycles, counters and "
                    "results.")
    loop_back.add_argument("--devices", type=_devices, nargs="+", default=[2, 4, 8], metavar="N",
                           help="sizes of the rings (default: 2 4 8, which takes some minutes)")
    loop_back.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    loop_back.set_defaults(run=_bench_loop_back)
    add_fpga_bench(kinds)
    _add_overlap(kinds.add_parser(
        "overlap", help="sublayers of real models: sequential, T3, T3-MCA and the ideal",
        description="Run sublayers of transformers in every variant on the hardware: GEMM, "
                    "reduce-scatter and all-gather as kernels, one after the other; T3 with "
                    "round-robin arbitration; T3-MCA. What has been measured before is taken over, "
                    "so a run that was broken off goes on where it was."))
    return parser


def _add_overlap(parser):
    cases = parser.add_argument_group("cases, of sim/models.toml")
    cases.add_argument("--all", action="store_true", help="all of them")
    cases.add_argument("--model", metavar="NAME", help="those of a model")
    cases.add_argument("--sublayer", metavar="NAME", help="OP, FC-2, FC-1 or IP")
    cases.add_argument("--tp", type=int, metavar="N",
                       help="TP degree, whether or not the file has it")
    setup = parser.add_argument_group("set-up")
    setup.add_argument("--machine", default="paper", metavar="NAME",
                       help="of sim/machines, or a file NAME.toml (default: %(default)s)")
    setup.add_argument("--granularity", type=_positive, default=1, metavar="TILES",
                       help="tiles that a DMA command waits for (default: %(default)s)")
    setup.add_argument("--threshold", type=_not_negative, metavar="N",
                       help="occupancy from which T3-MCA holds communication, 0: none (default: by "
                            "the intensity that the hardware measures)")
    setup.add_argument("--sweep", metavar="NAME",
                       help="run at each value of granularity, threshold, link, compute or "
                            "efficiency that sim/sweeps.toml has")
    setup.add_argument("--check", action="store_true",
                       help="compare all results with the reference, bit for bit")
    setup.add_argument("--jobs", type=_positive, default=os.cpu_count(), metavar="N",
                       help="simulations at a time (default: the processors, %(default)s)")
    setup.add_argument("--fresh", action="store_true", help="take over nothing")
    output = parser.add_argument_group("results")
    output.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    output.add_argument("--figures", type=Path, metavar="DIR", help="draw them into a folder")
    output.add_argument("--over-time", metavar="CASE",
                        help="case whose run over time is kept and drawn, such as "
                             "'T-NLG FC-2 TP 8' (default: the first one)")
    parser.set_defaults(run=_bench_overlap)


def _add_config(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--preset", choices=sorted(PRESETS), default="default",
                       help="a stock configuration (default: %(default)s)")
    group.add_argument("--config", type=Path, metavar="FILE.toml",
                       help="fields of the configuration, and `preset` to start from")


def _add_simulation(parser):
    _add_config(parser)
    job = parser.add_argument_group("the GEMM")
    job.add_argument("--devices", type=_devices, default=4, help="2 to 8 (default: %(default)s)")
    job.add_argument("--m", type=_positive, help="rows of the output (default: 64)")
    job.add_argument("--n", type=_positive, help="columns of the output (default: 256)")
    job.add_argument("--k", type=_positive,
                     help="length of the sums, sliced over the devices (default: 256)")
    job.add_argument("--dtype", choices=DTYPE_NAMES, help="(default: bfloat16, or that of --a)")
    job.add_argument("--seed", type=int, default=1,
                     help="of operands, schedule and stalls (default: %(default)s)")
    job.add_argument("--a", type=Path, metavar="A.npy", help="the M x K operand")
    job.add_argument("--b", type=Path, metavar="B.npy", help="the K x N operand")
    job.add_argument("--weights", type=Path, metavar="FILE.safetensors",
                     help="take B from a weight, N x K as frameworks store it")
    job.add_argument("--tensor", metavar="NAME", help="its name in the file")
    job.add_argument("--activations", type=Path, metavar="X.npy", help="the M x K operand")
    ring = parser.add_argument_group("the ring")
    ring.add_argument("--tile", type=_tile, default=(16, 64), metavar="ROWSxCOLUMNS",
                      help="output of a workgroup (default: 16x64)")
    ring.add_argument("--granularity", type=_granularity, default="tile",
                      help="tile, chunk, or tiles that a DMA command waits for "
                           "(default: %(default)s)")
    ring.add_argument("--policy", choices=("round-robin", "compute-first", "mca"),
                      default="round-robin",
                      help="arbitration at the memory (default: %(default)s)")
    ring.add_argument("--pace", type=_positive, default=3,
                      help="cycles from beat to beat of a producer (default: %(default)s)")
    ring.add_argument("--memory-latency", type=_not_negative, default=16, metavar="CYCLES")
    ring.add_argument("--link-latency", type=_not_negative, default=50, metavar="CYCLES")
    ring.add_argument("--link-interval", type=_positive, default=1, metavar="CYCLES",
                      help="cycles from word to word (default: %(default)s)")
    ring.add_argument("--link-stall", type=float, default=0.0, metavar="CHANCE",
                      help="chance that a link does not move in a cycle (default: %(default)s)")
    ring.add_argument("--simulator", choices=("verilator", "icarus"), default="verilator")
    ring.add_argument("--max-cycles", type=_positive, default=50_000_000, metavar="CYCLES",
                      help="limit of the simulation (default: %(default)s)")
    results = parser.add_argument_group("results")
    results.add_argument("--out", type=Path, metavar="C.npy",
                         help="the gathered M x N result (bfloat16 as uint16)")
    results.add_argument("--wave", type=Path, metavar="FILE.fst", help="waveforms")
    results.add_argument("--timeline", type=Path, metavar="FILE.html",
                         help="what each device did when, as a page, and as FILE.png")
    results.add_argument("--json", type=Path, metavar="FILE", help="the summary as JSON")


def _positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def _not_negative(text):
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {text}")
    return number


def _devices(text):
    number = int(text)
    if not 2 <= number <= 8:
        raise argparse.ArgumentTypeError(f"a ring has 2 to 8 devices, not {text}")
    return number


def _tile(text):
    rows, _, columns = text.partition("x")
    if not (rows.isdigit() and columns.isdigit() and int(rows) and int(columns)):
        raise argparse.ArgumentTypeError(f"must be like 16x64, not {text}")
    return int(rows), int(columns)


def _granularity(text):
    if text in ("tile", "chunk"):
        return text
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"must be tile, chunk or a number of tiles, not {text}")
    return int(text)


def _config(options):
    if options.config:
        return NodeConfig.from_toml(options.config)
    return NodeConfig.preset(options.preset)


def _generate(options):
    from .generate import generate

    for path in generate(_config(options), options.output, devices=options.devices,
                         name=options.name, traffic=options.traffic):
        print(path)
    return OK


def _registers(_options):
    from .registers.listing import listing

    print(listing())
    return OK


def _simulate(options):
    from .workloads import load_operands

    operands = load_operands(
        m=options.m, n=options.n, k=options.k, dtype=options.dtype, seed=options.seed,
        a=options.a, b=options.b, weights=options.weights, tensor=options.tensor,
        activations=options.activations)
    return _run(operands, _config(options), options)


def _demo(options):
    from .workloads import real

    print(real.EXPLANATION, end="\n\n")
    defaults = _parser().parse_args(["sim"])
    for name in ("timeline", "simulator", "json"):
        setattr(defaults, name, getattr(options, name))
    return _run(real.load(), NodeConfig.preset("default"), defaults)


def check_folders(*paths):
    """Refuse files that could not be written in the end, before anything takes long."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.absolute().parent))
        if path is not None and path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder, and must be a file", str(path))


def _run(operands, config, options):
    """Run the main experiment, show what came of it, and write what was asked for."""
    from .cosim.overlap import Experiment, run_experiment
    from .cosim.overlap_report import draw, report, summary
    from .cosim.ring_run import Settings
    from .workloads.files import save_matrix

    check_folders(options.out, options.wave, options.timeline, options.json)
    experiment = Experiment(
        operands=operands, config=config, devices=options.devices, tile=options.tile,
        granularity=options.granularity, pace=options.pace, seed=options.seed,
        link_stall=options.link_stall, simulator=options.simulator, max_cycles=options.max_cycles,
        settings=Settings(policy=options.policy.replace("-", "_").upper(),
                          memory_latency=options.memory_latency, link_latency=options.link_latency,
                          link_interval=options.link_interval))
    outcome = run_experiment(experiment, wave=options.wave)
    facts = summary(experiment, outcome)
    if options.out:
        save_matrix(options.out, outcome.result)
    if options.json:
        write_json(options.json, facts)
    print(report(experiment, outcome))
    if options.timeline:
        print("\ntimeline", *draw(options.timeline, experiment, outcome))
    return OK if facts["bit_exact"] and not facts["errors"] else WRONG


def _bench_blocks(options):
    from .cosim.block_bench import bench_blocks

    check_folders(options.json)
    report = bench_blocks()
    if options.json:
        write_json(options.json, report)
    return OK if all(row["met"] for row in report["rows"]) else WRONG


def _bench_memory(options):
    from .cosim.dram_bench import bench_memory
    from .dram import DramTiming

    check_folders(options.json)
    report = bench_memory(DramTiming.preset(options.memory), commands=options.commands)
    if options.json:
        write_json(options.json, report)
    return OK if all(row["met"] for row in report["rows"]) else WRONG


def _bench_loop_back(options):
    from .bench import HEADER, line, report
    from .cosim.loop_back_bench import bench_loop_back

    check_folders(options.json)
    rows = bench_loop_back(options.devices)
    print(HEADER, *map(line, rows), sep="\n")
    if options.json:
        write_json(options.json, report(rows))
    return OK if all(row.met for row in rows) else WRONG


def _bench_overlap(options):
    from .cosim.sublayer_bench import bench_overlap, read_machine, sweep_overlap, sweep_text
    from .perf.figures import draw_all, draw_sweep
    from .perf.records import CaseRecord
    from .workloads.errors import InputError
    from .workloads.sublayers import load_models, sublayers

    selected = {options.model, options.sublayer, options.tp} != {None}
    if not options.all and not selected:
        raise InputError("choose cases by --model, --sublayer and --tp, or --all; models are "
                         f"{', '.join(load_models())}")
    if options.all and selected:
        raise InputError("--all leaves nothing to choose by --model, --sublayer or --tp")
    chosen = sublayers(model=options.model, sublayer=options.sublayer, tp=options.tp)
    if options.sweep and options.over_time:
        raise InputError("--over-time keeps a case's run over time, which --sweep does not")
    if (options.sweep == "threshold" and options.threshold is not None
            or options.sweep == "granularity" and options.granularity != 1):
        raise InputError(f"--sweep {options.sweep} goes through the values of --{options.sweep}, "
                         "which can't be given, too")
    machine = read_machine(options.machine)
    check_folders(options.json)
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
    status = OK
    common = {"granularity": options.granularity, "threshold": options.threshold,
              "check": options.check, "jobs": options.jobs, "fresh": options.fresh}
    if options.sweep:
        points = sweep_overlap(options.sweep, chosen, machine, **common)
        content = {"schema": 1, "sweep": options.sweep, "machine": machine.name,
                   "cases": [str(sublayer) for sublayer in chosen],
                   "points": [dataclasses.asdict(point) for point in points],
                   "text": sweep_text(options.sweep, chosen, points)}
        print(content["text"])
        if options.figures:
            print(draw_sweep(options.figures / f"sweep-{options.sweep}.png", options.sweep, points))
    else:
        content = bench_overlap(chosen, machine, sampled=options.over_time, **common)
        print(content["text"])
        if content["departures"]:
            status = WRONG
        if options.figures:
            records = [CaseRecord.from_dict(record) for record in content["records"]]
            print(*draw_all(options.figures, records, controller_hz=machine.controller_hz),
                  sep="\n")
    if options.json:
        write_json(options.json, content)
    return status


def write_json(path, content):
    """Write JSON so that a reader never sees half of it."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
