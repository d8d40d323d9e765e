"""The SDRAM controller in front of a model of the chip that checks the data sheet's rules."""

import dataclasses
import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sdram_top import CONFIG, SdramTop

import t3hw.cosim
from t3hw.generate import to_verilog
from t3hw.hdl.sdram_chip import CHIPS, SdramChip, SdramError
from t3hw.hdl.sdram_controller import SdramController

HERE = Path(__file__).parent
MODEL = Path(t3hw.cosim.__file__).parent / "verilog" / "sdram_model.v"
CLOCK = 100e6
#: Chips for the tests: no long start.
QUICK = {name: dataclasses.replace(chip, t_init=1000.0) for name, chip in CHIPS.items()}
MICRON = QUICK["MT48LC16M16A2-75"]


@functools.cache
def controller_verilog(config, chip, clock):
    top = SdramTop(config, chip=chip, clock_hz=clock)
    return to_verilog(top, "sdram_controller"), top.controller.burst


def rules(chip, clock):
    """The model's parameters, from the data sheet alone."""
    times = {"T_RCD": chip.t_rcd, "T_RP": chip.t_rp, "T_RAS": chip.t_ras, "T_RC": chip.t_rc,
             "T_RRD": chip.t_rrd, "T_WR": chip.t_wr, "T_RFC": chip.t_rfc, "T_INIT": chip.t_init}
    period = 1e9 / clock
    parameters = {name: -int(-(time - 1e-3) // period) for name, time in times.items()}
    return parameters | {"REFRESH_CYCLES": int(chip.t_refi / period), "ROW_BITS": chip.row_bits,
                         "COLUMN_BITS": chip.column_bits}


def run(tmp_path, *, config=CONFIG, chip=MICRON, clock=CLOCK, model=None, **parameters):
    """What the bench prints."""
    text, _ = controller_verilog(config, chip, clock)
    (tmp_path / "controller.v").write_text(text)
    parameters = rules(model or chip, clock) | {"BEAT_BITS": config.data_width} | parameters
    program = tmp_path / "bench"
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", program,
                    *(f"-Pbench.{name}={value}" for name, value in parameters.items()),
                    HERE / "sdram_bench.v", MODEL, tmp_path / "controller.v"], check=True)
    return subprocess.run(["vvp", "-n", program], check=True, text=True, timeout=120,
                          stdout=subprocess.PIPE).stdout


def figures(output):
    assert output.endswith("ok\n"), output
    return [int(number) for number in re.findall(r"\d+", output.splitlines()[-2])]


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("width, clock", [(64, 100e6), (32, 100e6), (64, 133e6), (32, 25e6)])
def test_random_accesses(tmp_path, name, width, clock):
    seed = 7
    print("seed", seed)
    output = run(tmp_path, config=CONFIG.replace(data_width=width), chip=QUICK[name], clock=clock,
                 SEED=seed, ACCESSES=1500)
    accesses, _cycles, refreshes, compared = figures(output)
    assert accesses == 1500 and compared > 300 and refreshes > 5


def test_throughput_and_latency_as_stated(tmp_path):
    _, burst = controller_verilog(CONFIG, MICRON, CLOCK)
    for mode in (1, 2):
        accesses, cycles, refreshes, _ = figures(run(tmp_path, MODE=mode, ACCESSES=1000))
        # 512 beats, in four banks of a row each: four rows are opened after each refresh.
        assert cycles <= accesses * burst + 60 * (refreshes + 1)
        assert cycles >= (accesses - 1) * burst


def test_reads_and_writes_in_turn(tmp_path):
    accesses, cycles, _, _ = figures(run(tmp_path, MODE=3, ACCESSES=1000))
    assert cycles < 14 * accesses


@pytest.mark.parametrize("rule, field, value", [
    ("tRCD", "t_rcd", 40), ("tRP", "t_rp", 40), ("tRAS", "t_ras", 400), ("tRC", "t_rc", 400),
    ("tWR", "t_wr", 90), ("tRFC", "t_rfc", 100), ("tREFI", "t_refi", 3000),
    ("before the chip is ready", "t_init", 5000)])
def test_the_model_sees_each_rule_broken(tmp_path, rule, field, value):
    slower = dataclasses.replace(MICRON, **{field: float(value)})
    output = run(tmp_path, model=slower, ACCESSES=1500)
    assert "FAILED" in output and rule in output and not output.endswith("ok\n")


def test_what_is_refused():
    with pytest.raises(SdramError, match="data_width must be 32 or 64, not 128"):
        SdramController(config=CONFIG.replace(data_width=128), chip=MICRON, clock_hz=CLOCK)
    with pytest.raises(SdramError, match="clock_hz must be at most 133000000.*not 200000000"):
        SdramController(config=CONFIG, chip=MICRON, clock_hz=200e6)
    with pytest.raises(TypeError, match="SdramChip"):
        SdramController(config=CONFIG, chip="MT48LC16M16A2-75", clock_hz=CLOCK)


def test_chips_are_as_large_as_they_should_be():
    assert {name: chip.bytes >> 20 for name, chip in CHIPS.items()} == {
        "MT48LC16M16A2-75": 32, "AS4C32M16SB-7": 64, "ULX3S": 32}
    assert all(isinstance(chip, SdramChip) for chip in CHIPS.values())
    assert shutil.which("iverilog")
