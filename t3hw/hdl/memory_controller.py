"""Memory controller: two queues, arbitration, first touch, and a memory."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .arbiter import Arbiter
from .axi_memory import AxiMemory
from .builtin_memory import BuiltinMemory
from .dram_memory import DramMemory
from .first_touch import FirstTouch
from .plain_memory import PlainMemory
from .seams import (MemoryOp, Policy, clear_range, commit, dram_command, dram_events, error_event,
                    memory_request, read_beat)
from .stream_queue import StreamQueue

__all__ = ["MemoryController", "memory_events"]

#: Requests that fit between the arbiter and the memory: its output and the place aside, and what
#: first touch holds.
_ON_THE_WAY = 2 + FirstTouch.places

#: Errors of the memory that wait for errors of first touch to be reported.
_WAITING_ERRORS = 4

#: What the performance counters count, a bit each, high for one cycle for each event or cycle.
memory_events = data.StructLayout({
    "compute_issue": 1,  # a request left the compute queue
    "communication_issue": 1,  # a request left the communication queue
    "compute_stall": 1,  # a request waits for the compute queue, which is full
    "communication_stall": 1,  # a request waits for the communication queue, which is full
    "forced": 1,  # the issue of this cycle is due to the starvation limit
    "communication_hold": 1,  # the policy keeps a communication request from issuing
    "access": 1,  # the memory accepted an access
})


class MemoryController(wiring.Component):
    """Order all requests to the memory, and carry them out.

    The producer's requests go through the compute queue; those of the link and of the DMA engine
    are merged, one beat each in turn, into the communication queue. The arbiter chooses between the
    two queues for each beat, by a policy that can change at any time. Requests of one port reach
    the memory in order; those to one beat take effect in the order in which the arbiter issues
    them, and with ``"builtin"`` all do.

    Latency from ``compute`` to the memory `queue_latency` cycles, from ``ingress`` and ``dma`` one
    more, plus the memory's own. Throughput one beat a cycle, as far as first touch and the memory
    keep it.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration. ``config.memory`` chooses the memory.

    Attributes
    ----------
    memory : BuiltinMemory, AxiMemory, DramMemory or PlainMemory
        The memory, with its own latencies.
    queue_latency : int
        Cycles from ``compute`` to the memory, if nothing waits.

    Members
    -------
    compute, ingress, dma : In, streams of `memory_request`
        Beats of the producer, of the link, and of the DMA engine. Without ``config.collective``
        nothing is taken from ``ingress``, and there is no first touch.
    policy : In(Policy)
        How the arbiter chooses.
    starvation_limit : In(16)
        Cycles that the communication queue waits at most when ``policy`` prefers compute; 0: for
        ever.
    threshold : In(16)
        With ``MCA``, the ``occupancy`` from which on no communication issues; 0: none. A change of
        it, or to or from ``MCA``, holds 2 cycles later, and what the memory has begun gives way one
        cycle later.
    latency : In(16)
        Cycles that the built-in memory adds; without effect on the others.
    clear : In, stream of `clear_range`
        First-touch entries to forget.
    read : Out, stream of `read_beat`, always ready
        Answers to reads, in the order of each source.
    commit : Out, stream of `commit`, always ready
        Answers to stores and updates, when they are visible; in the order of each source, except
        with ``"dram"``.
    error : Out, stream of `error_event`, always ready
        What first touch found, and ``MEMORY_ERROR``. If both find errors in every cycle for long,
        some of the latter are left out.
    events : Out(memory_events)
        What the performance counters count.
    occupancy : Out(16)
        Requests on their way from the arbiter to the memory, and the memory's own ``occupancy``. As
        a request counts from the cycle after its issue on, a threshold is never overshot.
    dram_events : Out(dram_events)
        What a DRAM did; all 0 for a memory that is none.
    dram_command : Out(dram_command)
        The DRAM's command bus, if ``config.memory`` is ``"dram"``.
    aw, w, b, ar, r : streams of the AXI4 channels' structs
        ``m_axi``, if ``config.memory`` is ``"axi"``.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    #: Compute queue, arbiter, first touch.
    queue_latency = 2 + FirstTouch.latency

    def __init__(self, *, config):
        self._config = checked_config(config)
        members = {
            "compute": In(stream.Signature(memory_request(config))),
            "ingress": In(stream.Signature(memory_request(config))),
            "dma": In(stream.Signature(memory_request(config))),
            "policy": In(Policy),
            "starvation_limit": In(16),
            "threshold": In(16),
            "latency": In(16),
            "clear": In(stream.Signature(clear_range(config))),
            "read": Out(stream.Signature(read_beat(config), always_ready=True)),
            "commit": Out(stream.Signature(commit(config), always_ready=True)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "events": Out(memory_events),
            "occupancy": Out(16),
            "dram_events": Out(dram_events),
        }
        if config.memory == "axi":
            self.memory = AxiMemory(config=config)
            members |= {channel: self.memory.signature.members[channel] for channel in _CHANNELS}
        elif config.memory == "dram":
            self.memory = DramMemory(config=config)
            members["dram_command"] = Out(dram_command(config))
        elif not config.collective:
            self.memory = PlainMemory(config=config)
        else:
            self.memory = BuiltinMemory(config=config)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()

        config = self._config
        request = memory_request(config)
        # Who asks for the queue of communication; nobody but the DMA engine where there is no link.
        merged = wiring.flipped(self.dma)
        if config.collective:
            m.submodules.merge = merge = Arbiter(shape=request, requesters=2)
            wiring.connect(m, wiring.flipped(self.ingress), merge.i[0])
            wiring.connect(m, merged, merge.i[1])
            merged = merge.o
        m.submodules.arbiter = arbiter = Arbiter(shape=request, requesters=2,
                                                 spare=config.pipelined)
        m.submodules.memory = memory = self.memory
        for number, (name, source, depth) in enumerate((
                ("compute_queue", wiring.flipped(self.compute), config.compute_queue),
                ("communication_queue", merged, config.communication_queue))):
            if depth > 1 or config.pipelined:
                m.submodules[name] = queue = StreamQueue(shape=request, depth=depth)
                wiring.connect(m, source, queue.i)
                source = queue.o
            # Else the register that requests come from is the queue.
            wiring.connect(m, source, arbiter.i[number])

        wiring.connect(m, memory.read, wiring.flipped(self.read))
        wiring.connect(m, memory.commit, wiring.flipped(self.commit))
        m.d.comb += [
            arbiter.policy.eq(self.policy),
            arbiter.starvation_limit.eq(self.starvation_limit),
            self.events.compute_issue.eq(arbiter.i[0].valid & arbiter.i[0].ready),
            self.events.communication_issue.eq(arbiter.i[1].valid & arbiter.i[1].ready),
            self.events.compute_stall.eq(self.compute.valid & ~self.compute.ready),
            self.events.communication_stall.eq(merged.valid & ~merged.ready),
            self.events.forced.eq(arbiter.forced),
            self.events.communication_hold.eq(arbiter.held),
            self.events.access.eq(memory.access.valid & memory.access.ready),
        ]
        if not config.collective:
            # Nothing adds and no entry is kept: a request is an access as it is.
            access = memory.access.payload
            m.d.comb += [
                memory.access.valid.eq(arbiter.o.valid),
                access.write.eq(arbiter.o.payload.op != MemoryOp.READ),
                *(access[name].eq(arbiter.o.payload[name])
                  for name in ("dtype", "source", "tag", "last", "address", "data", "strobe",
                               "tile")),
                arbiter.o.ready.eq(memory.access.ready),
                self.clear.ready.eq(1),
                self.error.valid.eq(memory.error.valid),
                self.error.payload.eq(memory.error.payload),
            ]
            return m

        m.submodules.first_touch = first_touch = FirstTouch(config=config)
        wiring.connect(m, arbiter.o, first_touch.request)
        wiring.connect(m, wiring.flipped(self.clear), first_touch.clear)
        wiring.connect(m, first_touch.access, memory.access)
        if config.memory == "axi":
            for channel in _CHANNELS:
                wiring.connect(m, getattr(memory, channel), wiring.flipped(getattr(self, channel)))
        elif config.memory == "dram":
            m.d.comb += [
                self.dram_events.eq(memory.events),
                self.dram_command.eq(memory.command),
            ]
        else:
            m.d.comb += memory.latency.eq(self.latency)

        issued = Signal()
        entered = Signal()
        on_the_way = Signal(range(_ON_THE_WAY + 1))
        m.d.comb += [
            issued.eq(self.events.compute_issue | self.events.communication_issue),
            entered.eq(first_touch.access.valid & first_touch.access.ready),
            self.occupancy.eq(memory.occupancy + on_the_way),
        ]
        # What is issued is known late, so both sums are there before it.
        m.d.sync += on_the_way.eq(Mux(issued, on_the_way + 1 - entered, on_the_way - entered))

        # The threshold is compared ahead of time, and with all that the count may become, so that
        # no sum stands before a comparison. What has left counts one cycle longer there.
        counted = Signal(16)
        left = Signal(range(3))
        limited = Signal()
        reaches = Signal(4)
        m.d.sync += [
            left.eq(memory.leaves),
            limited.eq((self.policy == Policy.MCA) & (self.threshold != 0)),
            counted.eq(Mux(issued, counted + 1 - left, counted - left)),
            arbiter.closed.eq(limited & Mux(
                issued, reaches.bit_select(left, 1), reaches[1:].bit_select(left, 1))),
        ]
        for change, reach in enumerate(reaches):
            bound = Signal(17, name=f"bound_{change}")
            m.d.sync += bound.eq(self.threshold + change - 1)
            m.d.comb += reach.eq(counted >= bound)

        # Reports of first touch pass at once. Those of the memory have all the same cause, so one
        # that finds no place is no loss.
        m.submodules.reports = reports = Arbiter(shape=error_event(config), requesters=2)
        m.submodules.memory_errors = memory_errors = StreamQueue(shape=error_event(config),
                                                                 depth=_WAITING_ERRORS)
        m.d.comb += [
            reports.policy.eq(Policy.COMPUTE_FIRST),
            reports.i[0].valid.eq(first_touch.error.valid),
            reports.i[0].payload.eq(first_touch.error.payload),
            memory_errors.i.valid.eq(memory.error.valid),
            memory_errors.i.payload.eq(memory.error.payload),
            reports.o.ready.eq(1),
            self.error.valid.eq(reports.o.valid),
            self.error.payload.eq(reports.o.payload),
        ]
        wiring.connect(m, memory_errors.o, reports.i[1])

        return m


_CHANNELS = ("aw", "w", "b", "ar", "r")
