"""A board whose memory is a simulated SDRAM chip, with the registers of its I/O cells."""

import random

import pytest

from t3hw.cosim.simulators import SimulatorError
from t3hw.cosim.virtual_board import virtual_board
from t3hw.fpga.boards import BoardDesign
from t3hw.hdl.sdram_chip import CHIPS
from t3hw.runtime.board import BoardLink
from t3hw.runtime.selftest import STEPS, run_selftest
from t3hw.runtime.serial_link import SerialLink

#: Seconds for an answer: a simulation is slower than a board, on a busy machine by far.
TIMEOUT = 120


@pytest.fixture(scope="module")
def design():
    return BoardDesign.stock("ulx3s-85f-sdram")


def test_it_passes_all_steps(design):
    lines = []
    with virtual_board(design) as board, SerialLink(board.port, baud=design.baud,
                                                    timeout=TIMEOUT) as link:
        assert run_selftest(link, show=lines.append, design=design, quick=True), "\n".join(lines)
    assert lines[-1].startswith(f"{len(STEPS) + 1} passed, 0 failed, 0 skipped")


def test_words_of_all_rows_and_banks_are_apart(design):
    chip = CHIPS[design.sdram]
    rng = random.Random(1)
    # Both ends, and every address bit alone.
    places = [0, chip.bytes - 64, *(1 << bit for bit in range(6, 25))]
    assert chip.bytes == 1 << 25 == design.node.memory_bytes
    data = {place: rng.randbytes(64) for place in places}
    with virtual_board(design) as board, SerialLink(board.port, baud=design.baud,
                                                    timeout=TIMEOUT) as link:
        memory = BoardLink(link, design=design).memories[0]
        for place in places:
            memory.write_memory(place, data[place])
        for place in places:
            assert memory.read_memory(place, 64) == data[place], hex(place)


def test_a_broken_rule_of_the_chip_ends_the_simulation(design, monkeypatch):
    """So that a controller that breaks one is noticed, whatever the data."""
    fast = design.replace(clock_hz=120_000_000)
    slow = CHIPS[design.sdram]
    # The chip in the simulation needs twice the time that the controller gives it.
    hasty = type(slow)(**{**vars(slow), "t_rcd": 2 * slow.t_rcd})
    monkeypatch.setattr("t3hw.cosim.virtual_board.CHIPS", {slow.name: hasty})
    with pytest.raises(SimulatorError, match="the model of the memory ended"):
        with virtual_board(fast) as board, SerialLink(board.port, baud=design.baud,
                                                      timeout=5) as link:
            for _ in range(2):
                try:
                    link.write32(0x8000_0000, 1)
                except OSError:
                    break
