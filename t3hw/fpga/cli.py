"""`t3hw fpga`: boards, their bitstreams, and what runs on them."""

import argparse
import contextlib
from pathlib import Path

from ..config import PRESETS, ConfigError, NodeConfig
from .boards import BoardDesign, board_names

__all__ = ["add_bench_parser", "add_parser"]

#: Exit codes of `t3hw.cli`.
_OK, _WRONG = 0, 1


def add_parser(commands):
    """Add the command to the command line's."""
    parser = commands.add_parser("fpga", help="build for FPGA boards, program and test them",
                                 description="Boards: bitstreams with open tools, and bring-up.")
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)

    list_ = kinds.add_parser("list", help="the boards", description="List the boards.")
    list_.set_defaults(run=_list)

    build = kinds.add_parser(
        "build", help="make a board's bitstream",
        description="Make a bitstream with a report of cells and timing by block, and a sidecar "
                    "that says what it is.")
    _add_board(build)
    build.add_argument("--seed", type=int, default=1, help="of the placer (default: %(default)s)")
    _add_folder(build, "where the files go")
    build.set_defaults(run=_build)

    program = kinds.add_parser("program", help="write a bitstream to a board",
                               description="Write what `build` made to the board, "
                                           "with openFPGALoader.")
    _add_board(program)
    _add_folder(program, "where `build` put the files")
    program.add_argument("--flash", action="store_true",
                         help="into the flash, so that it is there after power comes back")
    program.set_defaults(run=_program)

    export = kinds.add_parser(
        "export", help="write a project for a vendor's tools",
        description="For a board: Verilog, constraints and a Tcl script that makes the Vivado "
                    "project and its bitstream. With --ip: the node as an IP package with its AXI "
                    "interfaces.")
    _add_board(export)
    export.add_argument("--ip", action="store_true",
                        help="the board's node as an IP package instead")
    _add_folder(export, "where the files go")
    export.set_defaults(run=_export)

    selftest = kinds.add_parser(
        "selftest", help="bring a board up, step by step",
        description="Run the bring-up on a board that is plugged in, or on a virtual one: the same "
                    "hardware in a simulator, its serial pins on a pseudo-terminal.")
    where = selftest.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", metavar="DEVICE",
                       help="serial port of the board, like /dev/ttyUSB0")
    where.add_argument("--virtual", nargs="?", const="virtual", metavar="BOARD",
                       help="simulate a board: one of `t3hw fpga list`, or a file NAME.toml "
                            "(default: a small ring of two)")
    selftest.add_argument("--board", metavar="BOARD",
                          help="the board that must be there, at --port: a name, a file NAME.toml, "
                               "or a bitstream's sidecar NAME.json (default: any)")
    selftest.add_argument("--baud", type=int, metavar="RATE",
                          help="bits a second (default: the board's, or 1000000)")
    selftest.add_argument("--only", metavar="STEP", action="append",
                          help="run this step; may be repeated")
    selftest.set_defaults(run=_selftest)
    return parser


def add_bench_parser(kinds):
    """Add `t3hw bench fpga`."""
    parser = kinds.add_parser(
        "fpga", help="cells and clock of the blocks on an ECP5",
        description="What each block costs between registers on an ECP5-85 of the slowest grade, "
                    "and the clock that it reaches: the median of several placements.")
    parser.add_argument("--blocks", nargs="+", metavar="BLOCK",
                        help="these blocks (default: those of --compare, or all, which takes "
                             "hours)")
    parser.add_argument("--seeds", type=_seeds, default=5, metavar="N",
                        help="placements of each block (default: %(default)s)")
    parser.add_argument("--targets", nargs="*", metavar="TARGET", default=[],
                        help="synthesize for xilinx or gowin, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--compare", type=Path, metavar="FILE",
                        help="report what became more than 5 %% worse than in these results")
    parser.set_defaults(run=_bench)


def _seeds(text):
    if not text.isdigit() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be from 1 to 100, not {text}")
    return int(text)


def _add_board(parser):
    parser.add_argument("board", metavar="BOARD",
                        help="one of `t3hw fpga list`, or a file NAME.toml like those")
    node = parser.add_mutually_exclusive_group()
    node.add_argument("--preset", choices=sorted(PRESETS),
                      help="a stock configuration for the nodes, instead of the board's own")
    node.add_argument("--config", type=Path, metavar="FILE.toml",
                      help="fields of the nodes' configuration, and `preset` to start from")


def _add_folder(parser, what):
    parser.add_argument("-o", "--output", type=Path, metavar="DIR",
                        help=f"{what} (default: build/BOARD)")


def _design(options):
    """The design that the options name."""
    design = _named(options.board)
    if options.preset:
        return design.replace(node=NodeConfig.preset(options.preset))
    if options.config:
        return design.replace(node=NodeConfig.from_toml(options.config))
    return design


def _named(board):
    """A design by name, by file, or by its sidecar."""
    if board.endswith(".toml"):
        return BoardDesign.from_toml(board)
    if board.endswith(".json"):
        from .program import read_sidecar

        try:
            return BoardDesign.from_dict(read_sidecar(board)["design"])
        except ConfigError as error:
            raise ConfigError(f"{board}: {error}") from None
    return BoardDesign.stock(board)


def _folder(options, design):
    return options.output or Path("build") / design.name


def _list(_options):
    form = "{:<17} {:<20} {:>5}  {:>4} {:>6}  {:<9}  {}"
    print(form.format("board", "part", "nodes", "bits", "MHz", "memory", "what it is"))
    for name in board_names():
        design = BoardDesign.stock(name)
        more = "" if design.has_bitstream else "; for export"
        print(form.format(name, design.part, design.devices, design.node.data_width,
                          f"{design.clock_hz / 1e6:g}", design.memory, design.title + more))
    return _OK


def _build(options):
    from .build import build_board

    design = _design(options)
    folder = _folder(options, design)
    build_board(design, folder, seed=options.seed)
    print(f"\nwritten to {folder}, hash {design.hash:08x}")
    return _OK


def _program(options):
    from .program import program_board

    design = _design(options)
    program_board(design, _folder(options, design), flash=options.flash)
    return _OK


def _export(options):
    from .ip_package import export_ip
    from .vivado import export_vivado

    design = _design(options)
    folder = _folder(options, design)
    export = export_ip if options.ip else export_vivado
    print(*export(design, folder), sep="\n")
    return _OK


def _selftest(options):
    design = _named(options.virtual or options.board) if options.virtual or options.board else None
    from ..runtime.selftest import run_selftest
    from ..runtime.serial_link import SerialLink

    with contextlib.ExitStack() as stack:
        port, baud = options.port, options.baud or (design.baud if design else 1_000_000)
        if options.virtual:
            from ..cosim.virtual_board import virtual_board

            port = stack.enter_context(virtual_board(design)).port
        # A simulation takes its time, all the more on a busy machine.
        timeout = 120.0 if options.virtual else 2.0
        link = stack.enter_context(contextlib.closing(SerialLink(port, baud=baud, timeout=timeout)))
        passed = run_selftest(link, show=print, design=design, only=options.only,
                              quick=bool(options.virtual))
    return _OK if passed else _WRONG


def _bench(options):
    from ..cli import check_folders, write_json
    from .bench import BLOCKS, bench_fpga, read_report, regressions

    check_folders(options.json)
    # Before it takes hours; also because both may be one file.
    before = read_report(options.compare) if options.compare else None
    blocks = options.blocks or list(before["blocks"] if before else BLOCKS)
    report = bench_fpga(blocks, seeds=options.seeds, targets=options.targets)
    worse = regressions(before, report) if before else []
    if before:
        print(f"\nagainst {options.compare}: "
              + ("\n".join(["worse by more than 5 %:", *worse]) if worse else "nothing is worse"))
    if options.json:
        write_json(options.json, report)
    return _WRONG if worse or not all(row["met"] for row in report["rows"]) else _OK
