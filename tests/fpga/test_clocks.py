"""PLL settings: the clock comes out of the formula, and every frequency in between
is in its range."""

import random

import pytest

from t3hw.config import ConfigError
from t3hw.fpga.clocks import ecp5_pll, gowin_pll, ice40_pll

SEED = 4


def wanted_clocks():
    print(f"seed {SEED}")
    choose = random.Random(SEED)
    fixed = [(25e6, 100e6), (48e6, 96e6), (12e6, 18e6), (27e6, 54e6), (100e6, 75e6), (25e6, 40e6)]
    return fixed + [(choose.choice((12e6, 25e6, 27e6, 48e6, 100e6)), choose.randint(13, 160) * 1e6)
                    for _ in range(40)]


def settings(make):
    """Reference, wanted clock, and settings, of all clocks that the family can make."""
    found = []
    for reference, wanted in wanted_clocks():
        try:
            found.append((reference, wanted, make(reference, wanted)))
        except ConfigError as error:
            assert f"{wanted:.0f}" in str(error).replace(".0", "")
    assert len(found) >= 10
    return found


def test_ecp5():
    for reference, wanted, pll in settings(ecp5_pll):
        clock = reference / pll["input"] * pll["feedback"]
        assert clock == pytest.approx(pll["clock_hz"]) == pytest.approx(wanted, rel=1e-3)
        assert 3.125e6 <= reference / pll["input"] <= 400e6
        assert 400e6 <= clock * pll["output"] <= 800e6
        assert 1 <= pll["input"] <= 128 and 1 <= pll["feedback"] <= 80 and 1 <= pll["output"] <= 128


def test_ice40():
    for reference, wanted, pll in settings(ice40_pll):
        phase = reference / (pll["divr"] + 1)
        oscillator = phase * (pll["divf"] + 1)
        assert oscillator / 2 ** pll["divq"] == pytest.approx(wanted, rel=1e-3)
        assert 10e6 <= phase <= 133e6 and 533e6 <= oscillator <= 1066e6
        assert pll["divr"] < 16 and pll["divf"] < 128 and 1 <= pll["divq"] <= 6
        low, high = [(0, 17e6), (17e6, 26e6), (26e6, 44e6), (44e6, 66e6), (66e6, 101e6),
                     (101e6, 134e6)][pll["filter_range"] - 1]
        assert low <= phase < high


def test_gowin():
    for reference, wanted, pll in settings(gowin_pll):
        clock = reference / (pll["input"] + 1) * (pll["feedback"] + 1)
        assert clock == pytest.approx(wanted, rel=1e-3)
        assert 3e6 <= reference / (pll["input"] + 1) <= 400e6
        assert 400e6 <= clock * pll["output"] <= 1200e6
        assert pll["input"] < 64 and pll["feedback"] < 64


@pytest.mark.parametrize("make", [ecp5_pll, ice40_pll, gowin_pll])
def test_a_clock_that_cannot_be_made_is_refused_with_the_nearest(make):
    with pytest.raises(ConfigError, match="clock_hz = 1900000 .* by a PLL of .* nearest is"):
        make(25e6, 1_900_000)
