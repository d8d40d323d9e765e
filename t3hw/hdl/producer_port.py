"""Producer port: an ordinary AXI4 slave whose address space decides what a store becomes."""

import functools

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import AddressMap
from .arbiter import Arbiter
from .axi_reads import AxiReads
from .axi_writes import AxiWrites, write_beat
from .popcount import popcount
from .remote_packets import RemotePackets
from .seams import (
    ErrorCause, MemoryOp, Policy, RegionAction, Source, Writer, axi_address, axi_read_data,
    axi_write_data, axi_write_response, byte_count_width, commit, error_event, memory_request,
    plan_views, read_beat, remote_beat, table_write, tile_tag,
)
from .spare_place import spare_place
from .stream_spare import StreamSpare

__all__ = ["ProducerPort", "producer_events"]


@functools.cache
def producer_events(config):
    """What the producer did in the last cycle, for the counters.

    ``write_bytes``: strobes of the beat that goes to memory here. ``read_bytes``: bytes asked for.
    ``remote_bytes``: strobes of the beat that the link accepted. ``write_stall``: data waited at
    ``w``. ``read_stall``: a read beat waited for memory, or for a place in the queue before ``r``.
    """
    return data.StructLayout({
        "write_bytes": byte_count_width(config),
        "read_bytes": byte_count_width(config),
        "remote_bytes": byte_count_width(config),
        "write_stall": 1,
        "read_stall": 1,
    })


class ProducerPort(wiring.Component):
    """Serve a producer's loads and stores; look every store up in the region table.

    What becomes of a beat of a store:

    * No strobes: nothing.
    * Across a region's edge, in a burst that AXI does not allow, or WLAST in the wrong place:
      refused, REFUSED_STORE.
    * In no region: a plain STORE.
    * In a region that is tracked, whose plan is not armed: refused, REFUSED_STORE; whose tile is
      none of the plan's, or, for a beat to the neighbour, has a number that does not fit in ``wg``:
      refused, UNKNOWN_TILE.
    * In any other: what the region says, a STORE or an UPDATE in memory here, or a beat to the
      neighbour.

    A burst is answered with SLVERR if one of its beats was refused or could not be written, and not
    before all others have been committed or accepted by the link. A refused beat is reported once.
    Loads are not looked up; they share ``compute`` with the stores, turn by turn, and do not wait
    for the link. Bursts as in `AxiWrites` and `AxiReads`.

    Latency from ``w`` to ``compute`` or ``remote`` `latency` cycles, if nothing waits (a beat that
    is not its burst's last waits for the next: see `RemotePackets`); from ``ar`` to ``compute`` 2.
    Throughput one beat a cycle, on ``compute`` for loads and stores together.

    Parameters
    ----------
    config : NodeConfig
        Configuration of the node.

    Members
    -------
    aw, w, b, ar, r : AXI4 slave
        AWUSER is ``{wf, wg}``.
    compute : stream of `memory_request`
        Requests to memory, registered.
    remote : stream of `remote_beat`
        Packets to the neighbour, as `RemotePackets` makes them; none without ``config.collective``.
    commit : In, stream of `commit`
        Commits; those of the producer are taken.
    read : In, stream of `read_beat`
        What memory read; that for the producer is taken.
    table : In, stream of `table_write`
        Table writes; the region table is taken from them.
    plans : In(plan_views)
        State of the plans.
    error : Out, stream of `error_event`
        Reports, registered if ``config.pipelined``.
    busy : Out(plans)
        A bit a plan: a beat in here has been found to belong to its run, and is not yet handed over
        to ``compute``. Combinational from registers.
    events : Out(producer_events)
        For the counters; registered.
    """

    def __init__(self, *, config):
        self._config = config
        self._reads = AxiReads(config=config, beats=config.producer_reads)
        self._address_map = AddressMap(config=config, meta=data.StructLayout({
            "data": config.data_width,
            "strobe": config.beat_bytes,
            **{name: write_beat(config)[name].shape
               for name in ("tag", "last", "narrow", "illegal")},
        }))
        #: Cycles from ``w`` to ``compute``.
        self.latency = self._address_map.latency + (2 if config.pipelined else 1)
        super().__init__({
            "aw": In(stream.Signature(axi_address(config, config.id_width))),
            "w": In(stream.Signature(axi_write_data(config))),
            "b": Out(stream.Signature(axi_write_response(config, config.id_width))),
            "ar": In(stream.Signature(axi_address(config, config.id_width))),
            "r": Out(stream.Signature(axi_read_data(config, config.id_width))),
            "compute": Out(stream.Signature(memory_request(config))),
            "remote": Out(stream.Signature(remote_beat(config))),
            "commit": In(stream.Signature(commit(config), always_ready=True)),
            "read": In(stream.Signature(read_beat(config), always_ready=True)),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "plans": In(plan_views(config)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "busy": Out(config.plans),
            "events": Out(producer_events(config)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        m.submodules.writes = writes = AxiWrites(config=config)
        m.submodules.reads = reads = self._reads
        m.submodules.address_map = address_map = self._address_map
        packets = None
        if config.collective:
            m.submodules.packets = packets = RemotePackets(config=config)
            wiring.connect(m, wiring.flipped(self.remote), packets.o)
            wiring.connect(m, packets.accepted, writes.accepted)
        m.submodules.arbiter = arbiter = Arbiter(shape=memory_request(config), requesters=2)
        for port, channel in ((self.aw, writes.aw), (self.w, writes.w), (self.b, writes.b),
                              (self.ar, reads.ar), (self.r, reads.r), (self.commit, writes.commit),
                              (self.read, reads.read), (self.table, address_map.table),
                              (self.compute, arbiter.o)):
            wiring.connect(m, wiring.flipped(port), channel)
        wiring.connect(m, reads.request, arbiter.i[1])

        # Look up.
        written = writes.beat.payload
        m.d.comb += [
            address_map.plans.eq(self.plans),
            address_map.i.valid.eq(writes.beat.valid),
            writes.beat.ready.eq(address_map.i.ready),
            *(address_map.i.payload[name].eq(written[name])
              for name in ("address", "strobe", "wg", "wf")),
            *(address_map.i.payload.meta[name].eq(written[name])
              for name in ("data", "strobe", "tag", "last", "narrow", "illegal")),
        ]

        # Decide.
        beat = address_map.o.payload
        verdict = data.StructLayout({
            "refused": 1, "remote": 1, "local": 1, "tracked": 1, "update": 1, "cause": ErrorCause})
        now = Signal(verdict)
        m.d.comb += [
            now.cause.eq(ErrorCause.REFUSED_STORE),
            now.tracked.eq(beat.match & beat.tracked),
        ]
        goes_away = Const(0)
        if config.collective:
            m.d.comb += now.update.eq(beat.match & ((beat.action == RegionAction.LOCAL_UPDATE)
                                                    | (beat.action == RegionAction.REMOTE_UPDATE)))
            goes_away = beat.match & ((beat.action == RegionAction.REMOTE_STORE)
                                      | (beat.action == RegionAction.REMOTE_UPDATE))
        with m.If(beat.meta.illegal):
            m.d.comb += now.refused.eq(1)
        with m.Elif(beat.any):
            with m.If(beat.straddle | beat.match & beat.tracked & ~beat.armed):
                m.d.comb += now.refused.eq(1)
            # A tile that goes away has a slot at the receiver only, who checks it.
            with m.Elif(beat.match & beat.tracked & ~Mux(goes_away, beat.wg_fits, beat.tile_known)):
                m.d.comb += [now.refused.eq(1), now.cause.eq(ErrorCause.UNKNOWN_TILE)]
            with m.Elif(goes_away):
                m.d.comb += now.remote.eq(1)
            with m.Else():
                m.d.comb += now.local.eq(1)

        # What was decided, in a register if the clock is to be fast, and in a place aside, so that
        # the address map, which is wide, does not wait for what becomes of it.
        decision = data.StructLayout({"beat": beat.shape(), "verdict": verdict})
        after = Signal(decision)
        decided, was = after.beat, after.verdict
        valid = Signal()
        taken = Signal()
        inside = [(address_map.o.valid, beat, now), (valid, decided, was)]
        if config.pipelined:
            before = Signal(decision)
            aside, full = spare_place(m, value=before, valid=address_map.o.valid, out=after,
                                      out_valid=valid, free=~valid | taken)
            m.d.comb += [before.beat.eq(beat), before.verdict.eq(now),
                         address_map.o.ready.eq(~full)]
            inside.append((full, aside.beat, aside.verdict))
        else:
            m.d.comb += [
                address_map.o.ready.eq(taken),
                valid.eq(address_map.o.valid),
                decided.eq(beat),
                was.eq(now),
            ]

        # Pass on. For a fast clock another place aside, since much waits for whether a store
        # is taken.
        local = arbiter.i[0]
        if config.pipelined:
            m.submodules.spare = spare = StreamSpare(shape=memory_request(config))
            wiring.connect(m, spare.o, local)
            local = spare.i
        store = decided.meta
        op = Signal(MemoryOp)
        tile = Signal(tile_tag(config))
        request = local.payload
        remote_ready = Const(0)
        if packets is not None:
            remote_ready = packets.i.ready
            out = packets.i.payload
            m.d.comb += [
                packets.i.valid.eq(valid & was.remote),
                packets.flush.eq(valid & ~was.remote),
                out.beat.op.eq(op),
                out.beat.tracked.eq(was.tracked),
                *(out.beat[name].eq(decided[name])
                  for name in ("dtype", "plan", "epoch", "wg", "wf")),
                out.beat.address.eq(decided.destination),
                out.beat.data.eq(store.data),
                out.beat.strobe.eq(store.strobe),
                out.beat.last.eq(store.last),
                out.alone.eq(store.narrow),
                out.tag.eq(store.tag),
            ]
            m.d.sync += self.events.remote_bytes.eq(
                Mux(packets.accepted.valid, popcount(self.remote.payload.strobe), 0))
        m.d.comb += [
            tile.tracked.eq(was.tracked),
            *(tile[name].eq(decided[name]) for name in ("plan", "slot", "wg", "wf")),
            op.eq(Mux(was.update, MemoryOp.UPDATE, MemoryOp.STORE)),
            arbiter.policy.eq(Policy.ROUND_ROBIN),
            local.valid.eq(valid & was.local),
            request.op.eq(op),
            request.dtype.eq(decided.dtype),
            request.source.eq(Source.PRODUCER),
            request.tag.eq(store.tag),
            request.last.eq(store.last),
            request.address.eq(decided.address),
            request.data.eq(store.data),
            request.strobe.eq(store.strobe),
            request.touch.enable.eq(was.tracked & decided.first_touch & was.update),
            request.touch.parity.eq(decided.epoch[0]),
            request.touch.writer.eq(Writer.LOCAL),
            request.touch.index.eq(decided.touch_index),
            request.tile.eq(tile),
            taken.eq(valid & Mux(was.remote, remote_ready,
                                 ~was.local | local.ready)),
            writes.routed.valid.eq(taken),
            writes.routed.payload.tag.eq(store.tag),
            writes.routed.payload.last.eq(store.last),
            writes.routed.payload.pending.eq(was.local | was.remote),
            writes.routed.payload.refused.eq(was.refused),
        ]

        # Tell.
        m.d["sync" if config.pipelined else "comb"] += [
            self.error.valid.eq(taken & was.refused),
            self.error.payload.cause.eq(was.cause),
            self.error.payload.address.eq(decided.address),
            self.error.payload.tile.eq(tile),
        ]
        m.d.sync += [
            self.events.write_bytes.eq(
                Mux(taken & was.local, popcount(store.strobe), 0)),
            self.events.write_stall.eq(self.w.valid & ~self.w.ready),
        ]
        m.d.comb += [
            self.events.read_bytes.eq(reads.bytes),
            self.events.read_stall.eq(reads.stall),
        ]
        for plan in range(config.plans):
            m.d.comb += self.busy[plan].eq(
                Cat(there & its.local & its.tracked & (one.plan == plan)
                    for there, one, its in inside).any()
                | Cat(waiting.valid & waiting.payload.tile.tracked
                      & (waiting.payload.tile.plan == plan)
                      for waiting in (arbiter.i[0], self.compute)).any())

        return m
