"""DRAM location: where in a DRAM a beat is."""

from amaranth import C, Cat, Value
from amaranth.lib import data
from amaranth.utils import ceil_log2

__all__ = ["dram_location", "location"]


def location(timing):
    """Bank (the group's number in its low bits), row and column of a beat."""
    return data.StructLayout({
        "bank": ceil_log2(timing.bank_groups * timing.banks),
        "row": ceil_log2(timing.rows),
        "column": ceil_log2(timing.page_columns),
    })


def dram_location(timing, beat):
    """The `location` of the beat with that number, combinational.

    The words of ``timing.mapping`` say which bits are what. With ``timing.bank_hash`` the bank's
    number is XORed with the row's low bits, so that rows that lie one over the other go to
    different banks.
    """
    widths = {
        "group": ceil_log2(timing.bank_groups),
        "bank": ceil_log2(timing.banks),
        "row": ceil_log2(timing.rows),
        "column": ceil_log2(timing.page_columns),
    }
    beat = Cat(Value.cast(beat), C(0, sum(widths.values())))
    parts = {}
    for name in reversed(timing.mapping.split()):
        parts[name], beat = beat[:widths[name]], beat[widths[name]:]
    bank = Cat(parts["group"], parts["bank"])
    if timing.bank_hash:
        bank = bank ^ parts["row"][:len(bank)]
    return data.View(location(timing), Cat(bank, parts["row"], parts["column"]))
