"""The self-test from pins to result: against a board's top level in a simulator."""

import pytest

from t3hw.cosim.virtual_board import virtual_board
from t3hw.fpga.boards import BOARD_FOLDER, BoardDesign
from t3hw.runtime.board import BoardLink
from t3hw.runtime.device import Device
from t3hw.runtime.selftest import IDENTITY, STEPS, run_selftest, selftest
from t3hw.runtime.serial_link import LinkError, SerialLink

#: Seconds: a simulation is slower than a board, on a busy machine by far.
TIMEOUT = 120


@pytest.fixture(scope="module")
def design():
    return BoardDesign.from_toml(BOARD_FOLDER / "virtual.toml")


def connect(board, design):
    return SerialLink(board.port, baud=design.baud, timeout=TIMEOUT)


def test_a_virtual_board_passes_all_steps_and_some_again(design):
    lines = []
    with virtual_board(design) as board, connect(board, design) as link:
        assert run_selftest(link, show=lines.append, design=design, quick=True), "\n".join(lines)
        # What the first run has left must not matter.
        assert run_selftest(link, show=lines.append, design=design, quick=True, seed=2,
                            only=["tracker", "trigger and DMA"]), "\n".join(lines)
    rows = [line.split("  ")[0] for line in lines]
    names = [IDENTITY, *(step.name for step in STEPS)]
    assert rows[1:len(names) + 1] == names
    assert lines[len(names) + 1].startswith("9 passed, 0 failed, 0 skipped")
    print("\n".join(lines), f"\n{board.cycles} cycles")
    saved = next(line for line in lines if line.startswith("overlap"))
    # The share of the time that overlap saves: the link is busy for 0.4 of the GEMM's time.
    assert int(saved.split()[-1].rstrip("%")) >= 10, saved


def test_another_design_is_refused(design):
    other = BoardDesign.from_toml(BOARD_FOLDER / "icebreaker.toml")
    with virtual_board(design) as board, connect(board, design) as link:
        result = next(selftest(link, design=other, quick=True))
        assert result.outcome == "failed"
        assert f"{design.hash:#010x}" in result.detail and f"{other.hash:#010x}" in result.detail


def test_a_cable_that_is_pulled_and_the_next_run(design):
    with virtual_board(design, drop_after=2000) as board, connect(board, design) as link:
        results = list(selftest(link, design=design, quick=True))
        failed = [result for result in results if result.outcome == "failed"]
        assert len(failed) == 1 and "unplugged" in failed[0].detail
        assert results[-1].outcome == "skipped"
        with pytest.raises(LinkError, match="closed"):
            link.read32(0)
    with virtual_board(design) as board, connect(board, design) as link:
        assert next(selftest(link, design=design, quick=True)).outcome == "ok"


def test_a_byte_that_the_line_damages_is_noticed(design):
    with virtual_board(design, flip_to_host=1000) as board, connect(board, design) as link:
        memory = BoardLink(link, design=design).memories[0]
        data = bytes(range(256)) * 4
        memory.write_memory(0, data)
        # Read again where it came damaged.
        assert [memory.read_memory(0, 1024) for _ in range(2)] == [data] * 2


def test_time_goes_on_and_waits_end(design):
    with virtual_board(design) as board, connect(board, design) as link:
        link = BoardLink(link, design=design)
        start = link.cycles()
        assert not link.devices[1].wait_interrupt(5000)
        assert link.cycles() - start >= 5000
        assert Device(link.devices[0], config=design.node).cycles() > 0
