"""AXI writes: bursts become beats with addresses; their answers come when all are settled."""

import functools

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .axi_burst import burst_is_legal, next_address
from .seams import Source, axi_address, axi_write_data, axi_write_response, commit
from .stream_queue import StreamQueue

__all__ = ["AxiWrites", "routed", "write_beat"]


def _tag_width(config):
    return bits_for(config.outstanding_writes - 1)


@functools.cache
def write_beat(config):
    """One beat of a write burst.

    ``tag`` names the burst, ``last`` is its last beat. ``narrow``: the burst's size is less than
    the bus. ``illegal``: AXI does not allow the burst, or WLAST was not where it belongs; the beat
    must be refused.
    """
    return data.StructLayout({
        "address": config.addr_width,
        "data": config.data_width,
        "strobe": config.beat_bytes,
        "wg": config.wg_width,
        "wf": max(config.wf_width, 1),
        "tag": _tag_width(config),
        "last": 1,
        "narrow": 1,
        "illegal": 1,
    })


@functools.cache
def routed(config):
    """What has become of a beat: ``pending``, it will be settled later; ``refused``; or neither."""
    return data.StructLayout({
        "tag": _tag_width(config),
        "last": 1,
        "pending": 1,
        "refused": 1,
    })


class AxiWrites(wiring.Component):
    """Serve the write channels of an AXI4 slave, up to what becomes of each beat.

    INCR, FIXED and WRAP bursts of 1 to 256 beats, of any size up to the width of the bus, with a
    first address that need not be aligned; strobes are taken as they come. Bursts are answered in
    order, each when all its beats are settled: refused, dropped, committed to memory, or accepted
    by the link. Up to ``outstanding_writes`` are under way.

    Latency 0 cycles from ``w`` to ``beat``, 1 from ``aw``, 4 from the last settlement to ``b``;
    throughput one beat a cycle, without a pause between bursts, and one burst a cycle.

    Parameters
    ----------
    config : NodeConfig
        ``outstanding_writes`` and widths.

    Members
    -------
    aw, w, b : AXI4's write channels
        As AXI4 has them. Data may come before its address, and then waits.
    beat : stream of `write_beat`
        Beats, in order.
    routed : In, stream of `routed`
        For each beat, in order: what becomes of it.
    commit : In, stream of `commit`
        Commits, for all sources; those of the producer settle a beat of their tag.
    accepted : In, stream of tags
        Settles a beat that did not go to memory.
    """

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "aw": In(stream.Signature(axi_address(config, config.id_width))),
            "w": In(stream.Signature(axi_write_data(config))),
            "b": Out(stream.Signature(axi_write_response(config, config.id_width))),
            "beat": Out(stream.Signature(write_beat(config))),
            "routed": In(stream.Signature(routed(config), always_ready=True)),
            "commit": In(stream.Signature(commit(config), always_ready=True)),
            "accepted": In(stream.Signature(_tag_width(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        outstanding = config.outstanding_writes
        m.submodules.bursts = bursts = StreamQueue(
            shape=data.StructLayout({
                "address": axi_address(config, config.id_width),
                "tag": _tag_width(config),
            }), depth=outstanding, cut=config.pipelined)

        # Tags are given in order and come back in order; there are as many as places in the queue.
        newest = Signal(_tag_width(config))
        oldest = Signal(_tag_width(config))
        under_way = Signal(range(outstanding + 1))
        begun = Signal()
        ended = Signal()
        m.d.comb += [
            self.aw.ready.eq((under_way != outstanding)
                             & (1 if config.pipelined else bursts.i.ready)),
            begun.eq(self.aw.valid & self.aw.ready),
            bursts.i.valid.eq(begun),
            bursts.i.payload.address.eq(self.aw.payload),
            bursts.i.payload.tag.eq(newest),
        ]
        m.d.sync += under_way.eq(under_way + begun - ended)
        if outstanding > 1:
            m.d.sync += [newest.eq(newest + begun), oldest.eq(oldest + ended)]

        # Beats.
        burst = bursts.o.payload.address
        is_first = Signal(init=1)
        left = Signal(8)
        is_last = Signal()
        later = Signal(config.addr_width)
        address = Signal(config.addr_width)
        last = Signal()
        taken = Signal()
        beat = self.beat.payload
        m.d.comb += [
            address.eq(Mux(is_first, burst.addr, later)),
            last.eq(Mux(is_first, burst.len == 0, is_last)),
            self.beat.valid.eq(bursts.o.valid & self.w.valid),
            self.w.ready.eq(bursts.o.valid & self.beat.ready),
            taken.eq(self.beat.valid & self.beat.ready),
            bursts.o.ready.eq(taken & last),
            beat.address.eq(address),
            beat.data.eq(self.w.payload.data),
            beat.strobe.eq(self.w.payload.strb),
            beat.wg.eq(burst.user),
            beat.wf.eq(burst.user[config.wg_width:]),
            beat.tag.eq(bursts.o.payload.tag),
            beat.last.eq(last),
            beat.narrow.eq(burst.size < config.beat_shift),
            beat.illegal.eq(~burst_is_legal(config, burst) | (self.w.payload.last != last)),
        ]
        following = next_address(m, burst, address)
        with m.If(taken):
            m.d.sync += [
                later.eq(following),
                is_first.eq(last),
                left.eq(Mux(is_first, burst.len, left) - 1),
                is_last.eq(Mux(is_first, burst.len == 1, left == 1)),
            ]

        # The books: for each tag the beats that are not settled, whether all have been routed,
        # errors; a cycle after all that is told, for a fast clock.
        committed = Signal()
        commit_tag = Signal(_tag_width(config))
        commit_error = Signal()
        routed_valid = Signal()
        told = Signal(routed(config))
        accepted_valid = Signal()
        accepted_tag = Signal(_tag_width(config))
        m.d["sync" if config.pipelined else "comb"] += [
            committed.eq(self.commit.valid & (self.commit.payload.source == Source.PRODUCER)),
            commit_tag.eq(self.commit.payload.tag),
            commit_error.eq(self.commit.payload.error),
            routed_valid.eq(self.routed.valid),
            told.eq(self.routed.payload),
            accepted_valid.eq(self.accepted.valid),
            accepted_tag.eq(self.accepted.payload),
        ]
        ids, errors, settled = [], [], []
        for tag in range(outstanding):
            pending = Signal(range(257), name=f"pending_{tag}")
            complete = Signal(name=f"complete_{tag}")
            error = Signal(name=f"error_{tag}")
            id_ = Signal(config.id_width, name=f"id_{tag}")
            is_settled = Signal(name=f"settled_{tag}")
            comes = routed_valid & (told.tag == tag)
            commits = committed & (commit_tag == tag)
            accepts = accepted_valid & (accepted_tag == tag)
            m.d.sync += [
                pending.eq(pending + ((comes & told.pending) - (commits + accepts))),
                is_settled.eq(complete & (pending == 0)),
            ]
            with m.If(comes & told.last):
                m.d.sync += complete.eq(1)
            with m.If(comes & told.refused | commits & commit_error):
                m.d.sync += error.eq(1)
            with m.If(ended & (oldest == tag)):
                m.d.sync += [complete.eq(0), is_settled.eq(0), error.eq(0)]
            with m.If(begun & (newest == tag)):
                m.d.sync += id_.eq(self.aw.payload.id)
            ids.append(id_)
            errors.append(error)
            settled.append(is_settled)

        # The answer.
        m.d.comb += ended.eq(Array(settled)[oldest] & (~self.b.valid | self.b.ready))
        with m.If(~self.b.valid | self.b.ready):
            m.d.sync += [
                self.b.valid.eq(ended),
                self.b.payload.id.eq(Array(ids)[oldest]),
                self.b.payload.resp.eq(Mux(Array(errors)[oldest], 2, 0)),
            ]

        return m
