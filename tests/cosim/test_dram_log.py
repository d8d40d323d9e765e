"""The log of a DRAM's commands: one line each, on both simulators."""

import json
from pathlib import Path

import pytest

from t3hw.cosim import simulators
from t3hw.hdl.seams import ColumnCommand, RowCommand

SOURCE = Path(simulators.__file__).parent / "verilog" / "dram_log.sv"


def row(op, bank=0, number=0):
    return {"row_valid": 1, "row_op": RowCommand[op].value, "row_bank": bank, "row": number}


def column(op, bank, number):
    return {"column_valid": 1, "column_op": ColumnCommand[op].value, "column_bank": bank,
            "column": number}


#: Inputs of each cycle; banks have the group, of 4, in their low bits.
STIMULUS = [
    row("ACTIVATE", 6, 9000),
    row("ACTIVATE", 15, 77),
    {},
    column("READ", 6, 31),
    # The row command's line comes first, and column commands have the row of their bank.
    row("PRECHARGE", 15) | column("WRITE", 6, 0),
    row("ACTIVATE", 15, 16383) | column("UPDATE", 15, 5),
    row("PRECHARGE_ALL"),
    row("REFRESH"),
]
LINES = """\
# memory odd-name.2, clock 1250 ps
0 ACT 2 1 9000 -
1 ACT 3 3 77 -
3 RD 2 1 9000 31
4 PRE 3 3 - -
4 WR 2 1 9000 0
5 ACT 3 3 16383 -
5 UPD 3 3 16383 5
6 PREA - - - -
7 REF - - - -
"""


@pytest.fixture(scope="module", params=simulators.SIMULATORS)
def program(request):
    # The name of a memory is text, which only an instance can set.
    text = SOURCE.read_text().replace('MEMORY = "dram"', 'MEMORY = "odd-name.2"')
    return simulators.build(simulator=request.param, sources={"dram_log.sv": text},
                            top="t3_dram_log", parameters={"CLOCK_PS": 1250, "INDEX": 3})


def drive(program, directory, *plusargs):
    simulators.run(program, test_module="dram_log_checks", directory=directory, plusargs=plusargs,
                   environment={"STIMULUS": json.dumps(STIMULUS)})


def test_lines(program, tmp_path):
    drive(program, tmp_path, "+t3_dram_trace=commands")
    assert (tmp_path / "commands3.txt").read_text() == LINES


def test_nothing_is_written_unless_asked_for(program, tmp_path):
    drive(program, tmp_path)
    assert not list(tmp_path.glob("*.txt"))
