"""The top of a board: reset comes at once and ends late, and the clock's cells are there."""

import re

import pytest
from amaranth import ClockDomain, Module, Signal
from amaranth.sim import Simulator
from stand_in import SmallCore

from t3hw.config import ConfigError
from t3hw.fpga import top
from t3hw.fpga.boards import BoardDesign
from t3hw.fpga.flow import write_sources
from t3hw.fpga.top import RESET_SECONDS, ResetHold

CYCLES = 50
PERIOD = 1e-6


def run_reset(script):
    """Simulate `ResetHold`; ``script(ctx, bad, reset)`` drives it."""
    m = Module()
    m.domains.early = ClockDomain()
    m.domains.sync = sync = ClockDomain()
    bad = Signal()
    m.submodules.hold = ResetHold(bad, CYCLES)
    kept = Signal()
    m.d.sync += kept.eq(1)
    sim = Simulator(m)
    sim.add_clock(PERIOD, domain="early")
    sim.add_clock(PERIOD, domain="sync")

    async def bench(ctx):
        await script(ctx, bad, sync.rst)

    sim.add_testbench(bench)
    sim.run_until(2e-3)


async def cycles_until_free(ctx, reset):
    for cycle in range(4 * CYCLES):
        if not ctx.get(reset):
            return cycle
        await ctx.delay(PERIOD)
    raise AssertionError("reset does not end")


def test_reset_holds_from_configuration_on():
    async def script(ctx, bad, reset):
        assert CYCLES <= await cycles_until_free(ctx, reset) <= CYCLES + 6
        await ctx.delay(CYCLES * PERIOD)
        assert not ctx.get(reset)

    run_reset(script)


def test_reset_waits_for_the_lock_and_comes_at_once_when_it_is_lost():
    async def script(ctx, bad, reset):
        ctx.set(bad, 1)
        # No ticks: these end with the reset of their domain.
        await ctx.delay(3 * CYCLES * PERIOD)
        assert ctx.get(reset)
        ctx.set(bad, 0)
        assert CYCLES <= await cycles_until_free(ctx, reset) <= CYCLES + 6
        # Between two edges, and gone before the next one.
        await ctx.delay(0.3 * PERIOD)
        ctx.set(bad, 1)
        await ctx.delay(0.1 * PERIOD)
        assert ctx.get(reset)
        ctx.set(bad, 0)
        assert CYCLES <= await cycles_until_free(ctx, reset) <= CYCLES + 6

    run_reset(script)


def test_reset_lasts_longer_than_block_ram_needs():
    assert RESET_SECONDS >= 15e-6


def sources(monkeypatch, folder, design):
    monkeypatch.setattr(top, "Board", SmallCore)
    flow = write_sources(design, folder)
    return (folder / "top.il").read_text(), (folder / f"top{flow.constraints}").read_text()


@pytest.mark.parametrize("name, clock_hz, cell", [
    ("ulx3s-85f", 80_000_000, "EHXPLLL"), ("orangecrab", 96_000_000, "EHXPLLL"),
    ("icebreaker", 18_000_000, "SB_PLL40_PAD"), ("tang-nano-9k", 54_000_000, "rPLL"),
    ("ulx3s-25f", 25_000_000, None), ("versa-ecp5", 100_000_000, None),
    ("icebreaker", 12_000_000, None), ("tang-nano-9k", 27_000_000, None),
])
def test_a_pll_is_there_where_the_clock_is_another_one(monkeypatch, tmp_path, name, clock_hz, cell):
    design = BoardDesign.stock(name).replace(clock_hz=clock_hz)
    text, constraints = sources(monkeypatch, tmp_path, design)
    found = re.findall(r"cell \\(EHXPLLL|SB_PLL40_\w+|rPLL) ", text)
    assert found == ([cell] if cell else [])
    if cell and design.family != "gowin":  # its constraints have no clocks: nextpnr is told
        assert str(clock_hz) in constraints.replace(".0", "") or "18" in constraints


@pytest.mark.parametrize("name, pins", [
    ("ulx3s-85f", {"M1", "L4"}), ("orangecrab", {"N17", "M18"}), ("icebreaker", {"6", "9"}),
    ("tang-nano-9k", {"18", "17"}), ("versa-ecp5", {"C11", "A11"})])
def test_the_serial_line_is_on_its_pins(monkeypatch, tmp_path, name, pins):
    _text, constraints = sources(monkeypatch, tmp_path, BoardDesign.stock(name))
    lines = [line for line in constraints.splitlines() if "uart" in line]
    assert pins <= {word.strip('";') for line in lines for word in line.split()}
    assert not [line for line in lines if "rts" in line or "dtr" in line], "unused pins"


def test_a_board_without_a_serial_port_is_refused(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="has no serial port; a table uart"):
        sources(monkeypatch, tmp_path, BoardDesign.stock("orangecrab").replace(uart={}))


def test_a_board_for_export_is_not_built(tmp_path):
    with pytest.raises(ConfigError, match="t3hw fpga export arty-a7"):
        write_sources(BoardDesign.stock("arty-a7"), tmp_path)


def test_the_sdram_is_on_its_pins(tmp_path):
    flow = write_sources(BoardDesign.stock("ulx3s-85f-sdram"), tmp_path)
    text = (tmp_path / "top.il").read_text()
    constraints = (tmp_path / f"top{flow.constraints}").read_text()
    places = dict(re.findall(r'LOCATE COMP "sdram_0__(\S+?)" SITE "(\w+)"', constraints))
    assert len(places) == 39, "every pin once"
    assert places["clk__io"] == "F19" and places["dq__io[15]"] == "J17"
    # The clock's cell, and a register in the I/O cell of each data bit.
    cells = re.findall(r"cell \\(ODDRX1F|IFS1P3DX) ", text)
    assert sorted(cells) == ["IFS1P3DX"] * 16 + ["ODDRX1F"]


def test_a_board_without_sdram_is_refused(tmp_path):
    design = BoardDesign.stock("ulx3s-85f-sdram").replace(
        platform="amaranth_boards.versa_ecp5:VersaECP5Platform")
    with pytest.raises(ConfigError, match="has no SDRAM; memory must be 'block-ram'"):
        write_sources(design, tmp_path)


@pytest.mark.parametrize("fields, message", [
    ({"devices": 2}, "devices must be 1 with memory = 'sdram' .*, not 2"),
    ({"sdram": ""}, "sdram must be one of MT48LC16M16A2-75, .*, not ''"),
    ({"clock_hz": 150_000_000}, "clock_hz must be at most 133000000, the limit of ULX3S"),
])
def test_what_does_not_go_with_an_sdram(fields, message):
    with pytest.raises(ConfigError, match=message):
        BoardDesign.stock("ulx3s-85f-sdram").replace(**fields)


def test_what_does_not_go_with_the_size_or_width_of_an_sdram():
    design = BoardDesign.stock("ulx3s-85f-sdram")
    for fields, message in (({"data_width": 128}, "data_width must be 32 or 64"),
                            ({"memory_bytes": 1 << 26}, "memory_bytes must be at most 33554432")):
        with pytest.raises(ConfigError, match=message):
            design.replace(node=design.node.replace(**fields))
    with pytest.raises(ConfigError, match="sdram must be left out with memory = 'block-ram'"):
        BoardDesign.stock("ulx3s-85f").replace(sdram="ULX3S")
