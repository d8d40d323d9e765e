"""Chips: what they hold, what the tools call them."""

import re

from ..config import ConfigError

__all__ = ["ECP5_LARGE", "ECP5_RESOURCES", "ECP5_SMALL", "chip", "ecp5_options", "gowin_family",
           "ice40_options", "resources"]

#: nextpnr's placer and router for ECP5. The default placer leaves half as much wire again.
#: The default router makes clocks a quarter faster, but may not get done with ten thousand cells
#: and more.
ECP5_SMALL = ("--placer", "static")
ECP5_LARGE = (*ECP5_SMALL, "--router", "router2")

#: Cells of the ECP5 by size: LUT4 (also as carry and LUT RAM), flip-flops, block RAMs, multipliers.
ECP5_RESOURCES = {
    # The die of a 12F is that of a 25F, and the open tools use all of it.
    "12F": {"LUT4": 24288, "FF": 24288, "block RAM": 56, "multiplier": 28},
    "25F": {"LUT4": 24288, "FF": 24288, "block RAM": 56, "multiplier": 28},
    "45F": {"LUT4": 43848, "FF": 43848, "block RAM": 108, "multiplier": 72},
    "85F": {"LUT4": 83640, "FF": 83640, "block RAM": 208, "multiplier": 156},
}
_ICE40_RESOURCES = {
    "iCE40UP5K": {"logic cell": 5280, "block RAM": 30, "large RAM": 4, "multiplier": 8},
    "iCE40HX8K": {"logic cell": 7680, "block RAM": 32},
}
_GOWIN_RESOURCES = {
    "GW1NR-9": {"logic cell": 8640, "FF": 6480, "block RAM": 26, "LUT RAM": 270},
}

#: The die, with its revision: parts of an older one are not sold.
_GOWIN_FAMILIES = {"GW1NR-9": "GW1N-9C"}

_ECP5_PART = re.compile(r"(LFE5UM?(?:5G)?)-(\d+F)-(\d)(BG|MG)(\d+)([CI])")
_ECP5_PACKAGES = {"BG": "CABGA", "MG": "CSFBGA"}


def chip(design):
    """The chip's name without package and speed, as messages have it."""
    if design.family == "ecp5":
        family, size, *_rest = _ecp5(design.part)
        return f"{family}-{size}"
    if design.family == "ice40":
        return design.part.partition("-")[0]
    if design.family == "gowin":
        return design.part.partition("-")[0] + "-" + re.search(r"LV(\d+)", design.part).group(1)
    return design.part


def resources(design):
    """What the chip holds, by kind; empty for a chip that the open tools make no bitstreams for."""
    if design.family == "ecp5":
        return ECP5_RESOURCES[_ecp5(design.part)[1]]
    known = {"ice40": _ICE40_RESOURCES, "gowin": _GOWIN_RESOURCES, "xilinx": {}}[design.family]
    if design.has_bitstream and chip(design) not in known:
        raise ConfigError(f"part must be one of {', '.join(known)} of {design.family}, not "
                          f"{design.part!r}")
    return known.get(chip(design), {})


def ecp5_options(part):
    """nextpnr's arguments for an ECP5."""
    family, size, speed, package, balls, _grade = _ecp5(part)
    kind = family.removeprefix("LFE5").lower()
    size = size.removesuffix("F") + "k"
    return [f"--{size}" if kind == "u" else f"--{kind}-{size}",
            "--package", f"{_ECP5_PACKAGES[package]}{balls}", "--speed", speed]


def _ecp5(part):
    found = _ECP5_PART.fullmatch(part)
    if not found or found.group(2) not in ECP5_RESOURCES:
        raise ConfigError("part must be like LFE5U-85F-6BG381C, with 12F, 25F, 45F or 85F, not "
                          f"{part!r}")
    return found.groups()


def ice40_options(part):
    """nextpnr's arguments for an iCE40, which is written like iCE40UP5K-SG48."""
    name, _, package = part.partition("-")
    if name not in _ICE40_RESOURCES or not package:
        raise ConfigError(f"part must be one of {', '.join(_ICE40_RESOURCES)} with its package, "
                          f"such as iCE40UP5K-SG48, not {part!r}")
    return [f"--{name.removeprefix('iCE40').lower()}", "--package", package.lower()]


def gowin_family(part):
    """What the open tools call the die of a Gowin part."""
    for name, family in _GOWIN_FAMILIES.items():
        series, _, size = name.partition("-")
        if re.match(rf"{series}-[A-Z]+{size}[A-Z]", part):
            return family
    raise ConfigError(f"part must be of {', '.join(_GOWIN_FAMILIES)}, not {part!r}")
