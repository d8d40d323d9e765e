"""Remote packets: a producer's remote beats, grouped so that the link carries few headers."""

import functools

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .seams import remote_beat

__all__ = ["RemotePackets", "remote_write"]

#: What is the same for all beats of a packet, besides their addresses' following each other.
_CONSTANT = ("op", "dtype", "tracked", "plan", "epoch", "wg", "wf")


@functools.cache
def remote_write(config):
    """A remote beat that belongs to no packet yet.

    ``last`` of ``beat``: no beat follows that could join it. ``alone``: it joins no other beat.
    ``tag`` is given back when the link has accepted the beat.
    """
    return data.StructLayout({
        "beat": remote_beat(config),
        "alone": 1,
        "tag": bits_for(config.outstanding_writes - 1),
    })


class RemotePackets(wiring.Component):
    """Set ``last`` of remote beats so that each packet is as long as it may be.

    A beat joins the one before it if all constants of a packet are the same, its address follows,
    and the packet has less than ``burst_beats`` beats. To know, a beat that is not ``last`` waits
    for the one after it, or for ``flush``; a beat that is ``last`` does not wait.

    Latency 1 cycle; throughput one beat a cycle.

    Parameters
    ----------
    config : NodeConfig
        ``burst_beats`` and widths.

    Members
    -------
    i : stream of `remote_write`
        Beats, in order.
    flush : In(1)
        What follows the last beat at ``i`` does not join it. ``i`` is not valid in such a cycle.
    o : stream of `remote_beat`
        The same beats in packets; all but ``valid`` and ``last`` from registers.
    accepted : Out, stream of tags
        The tag of each beat in the cycle in which it leaves ``o``.
    """

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "i": In(stream.Signature(remote_write(config))),
            "flush": In(1),
            "o": Out(stream.Signature(remote_beat(config))),
            "accepted": Out(stream.Signature(bits_for(config.outstanding_writes - 1),
                                             always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        held = Signal(remote_write(config))
        held_valid = Signal()
        ends = Signal()
        number = Signal(range(config.burst_beats))
        next_beat = Signal(config.addr_width - config.beat_shift)
        joins = Signal()
        moves = Signal()
        come = self.i.payload
        m.d.comb += [
            joins.eq(held_valid & ~ends & ~come.alone
                     & (come.beat.address[config.beat_shift:] == next_beat)),
            self.o.valid.eq(held_valid & (ends | self.i.valid)),
            moves.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(~held_valid | moves),
        ]
        for name in _CONSTANT:
            with m.If(come.beat[name] != held.beat[name]):
                m.d.comb += joins.eq(0)

        with m.If(self.flush):
            m.d.sync += ends.eq(1)
        with m.If(self.i.ready):
            position = Signal.like(number)
            with m.If(joins):
                m.d.comb += position.eq(number + 1)
            m.d.sync += [
                held.eq(come),
                held_valid.eq(self.i.valid),
                ends.eq(come.beat.last | come.alone | (position == config.burst_beats - 1)),
                number.eq(position),
                next_beat.eq(come.beat.address[config.beat_shift:] + 1),
            ]

        m.d.comb += [
            self.o.payload.eq(held.beat),
            self.o.payload.last.eq(~joins),
            self.accepted.valid.eq(moves),
            self.accepted.payload.eq(held.tag),
        ]

        return m
