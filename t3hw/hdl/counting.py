"""Counting what comes and goes, where the events are known late in their cycle."""

from amaranth import Mux

__all__ = ["count_late", "next_place", "room_next", "waits_next"]


def count_late(m, counter, *, up, down):
    """Count with events that come late in their cycle: they choose, and are in no carry chain."""
    with m.If(up & ~down):
        m.d.sync += counter.eq(counter + 1)
    with m.If(down & ~up):
        m.d.sync += counter.eq(counter - 1)


def next_place(pointer, places):
    """The next place of a ring."""
    return Mux(pointer == places - 1, 0, pointer + 1)


def room_next(room, level, depth, put, get):
    """Whether fewer than ``depth`` are there in the next cycle, ``room`` saying so of this one."""
    return (level < depth - 1) | get | (room & ~put)


def waits_next(waits, level, put, get):
    """Whether anything is there in the next cycle, ``waits`` saying so of this one."""
    return put | (level > 1) | (waits & ~get)
