"""The first half of an AXI4-Lite write: address and word are collected,
and the register is found."""

import dataclasses

from amaranth import Signal, Value
from amaranth.utils import bits_for

__all__ = ["CollectedWrite", "collect_write"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CollectedWrite:
    """What has come of a write.

    Parameters
    ----------
    address, word : Signal
        Of the write.
    have_address, have_word : Signal
        Which of them have come; whoever answers the write clears both.
    whole : Signal
        All bytes of an aligned word; one cycle later, as ``hits``.
    hits : dict of str to Signal
        By the name of each register that can be written: the write goes there.
    """

    address: Value
    word: Value
    have_address: Value
    have_word: Value
    whole: Value
    hits: dict


def collect_write(m, bus, running, registers):
    """Take AW and W in any order, one of each, and find their register.

    Parameters
    ----------
    m : Module
        Gets the logic.
    bus : component with the streams ``aw`` and ``w``
        The slave.
    running : Signal
        Whether anything is taken.
    registers : dict of str to Register
        The map.
    """
    address = Signal(len(bus.aw.p.addr))
    word = Signal(len(bus.w.p.data))
    strobe = Signal(len(bus.w.p.strb))
    have_address = Signal()
    have_word = Signal()
    whole = Signal()
    hits = {name: Signal(name=f"at_{name.lower()}") for name, register in registers.items()
            if register.access != "ro"}
    m.d.comb += [
        bus.aw.ready.eq(running & ~have_address),
        bus.w.ready.eq(running & ~have_word),
    ]
    with m.If(bus.aw.valid & bus.aw.ready):
        m.d.sync += [address.eq(bus.aw.p.addr), have_address.eq(1)]
    with m.If(bus.w.valid & bus.w.ready):
        m.d.sync += [word.eq(bus.w.p.data), strobe.eq(bus.w.p.strb), have_word.eq(1)]
    m.d.sync += whole.eq(strobe.all() & (address[:2] == 0))
    # What the addresses of all registers share is compared once.
    low_bits = bits_for(max(register.offset for register in registers.values()))
    below = Signal()
    m.d.comb += below.eq(address[low_bits:] == 0)
    for name, hit in hits.items():
        m.d.sync += hit.eq(below & (address[:low_bits] == registers[name].offset))
    return CollectedWrite(address=address, word=word, have_address=have_address,
                          have_word=have_word, whole=whole, hits=hits)
