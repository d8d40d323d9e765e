"""Node: one device, all blocks wired, with AMBA ports."""

from amaranth import Cat, Module, Shape, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .amba import AxiLitePorts, AxiPorts, AxiStreamPorts
from .arbiter import Arbiter
from .copy_writer import CopyWriter
from .dma_engine import DmaEngine
from .dma_front_end import DmaFrontEnd
from .in_flight import InFlight
from .intensity_monitor import IntensityMonitor
from .link_egress import LinkEgress
from .link_ingress import LinkIngress
from .memory_controller import MemoryController
from .packet_merge import PacketMerge
from .plan_state import PlanState
from .producer_port import ProducerPort
from .read_splitter import ReadSplitter
from .register_block import RegisterBlock
from .seams import (MemoryOp, Source, dram_command, memory_request, occupancy_buckets,
                    read_burst, remote_beat)
from .stream_queue import StreamQueue
from .stream_spare import StreamSpare
from .tracker import Tracker
from .trigger import Trigger

__all__ = ["Node", "trace_members"]


def trace_members(config):
    """What a node shows of its inner life, for timelines and logic analysers.

    One-cycle pulses, and what comes with them; and the memory's occupancy in each cycle. Where the
    memory is a DRAM, its command bus, too.
    """
    members = {
        "trace_producer_beat": Out(1),
        "trace_remote_beat": Out(1),
        "trace_commit_local": Out(1),
        "trace_commit_incoming": Out(1),
        "trace_memory": Out(1),
        "trace_full": Out(1),
        "trace_full_slot": Out(16),
        "trace_fire": Out(1),
        "trace_fire_first": Out(16),
        "trace_block": Out(1),
        "trace_block_wg": Out(16),
        "trace_first_read": Out(1),
        "trace_dma_beat": Out(1),
        "trace_command_done": Out(1),
        "trace_tx": Out(1),
        "trace_rx": Out(1),
        "trace_done": Out(config.plans),
        "trace_occupancy": Out(16),
    }
    if config.memory == "dram":
        members |= {f"trace_dram_{name}": Out(Shape.cast(field.shape).width)
                    for name, field in dram_command(config)}
    return members


class Node(wiring.Component):
    """One device: producer port, memory controller, tracker, trigger, DMA, link and registers.

    From the commit of a tile's last update to the DMA engine's first read request:
    `trigger_latency` cycles, if no earlier command is under way. Latencies and throughputs of the
    blocks are theirs.

    Parameters
    ----------
    config : NodeConfig
        What to build.

    Members
    -------
    s_axil_* : AXI4-Lite slave, 32 bits
        Registers and tables.
    s_axi_* : AXI4 slave
        The producer's loads and stores; AWUSER is ``{wf, wg}``.
    m_axi_* : AXI4 master, if ``config.memory`` is ``"axi"``
        To the memory.
    link_tx_*, link_rx_* : AXI4-Stream, if ``config.collective``
        To and from the neighbours. TKEEP has a payload word's strobes; whatever lies between two
        nodes must pass it on unchanged.
    link_tx_credit : In(1), link_rx_credit : Out(1), if ``config.collective``
        One pulse for each word that the receiver took out of its buffer.
    irq : Out(1)
        Interrupt, level.
    trace_* : Out
        See `trace_members`; registered. Not needed for operation.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    #: Cycles from the commit of a tile's last update to the first read request; one less if the
    #: configuration is not pipelined.
    trigger_latency = 11

    def __init__(self, *, config):
        self._config = checked_config(config)
        self._axil = AxiLitePorts(prefix="s_axil", master=False)
        self._axi = AxiPorts(prefix="s_axi", master=False, config=config, id_width=config.id_width)
        self._link_tx = self._link_rx = None
        self._memory = None
        members = self._axil.members() | self._axi.members()
        if config.collective:
            self._link_tx = AxiStreamPorts(prefix="link_tx", master=True, config=config)
            self._link_rx = AxiStreamPorts(prefix="link_rx", master=False, config=config)
            members |= self._link_tx.members() | self._link_rx.members()
        if config.memory == "axi":
            self._memory = AxiPorts(prefix="m_axi", master=True, config=config, id_width=1)
            members |= self._memory.members()
        if config.collective:
            members |= {"link_tx_credit": In(1), "link_rx_credit": Out(1)}
        super().__init__(members | {"irq": Out(1)} | trace_members(config))

    def elaborate(self, platform):
        m = Module()

        config = self._config
        m.submodules.producer = producer = ProducerPort(config=config)
        m.submodules.controller = controller = MemoryController(config=config)
        m.submodules.tracker = tracker = Tracker(config=config)
        m.submodules.trigger = trigger = Trigger(config=config)
        m.submodules.plan_state = plan_state = PlanState(config=config)
        m.submodules.front_end = front_end = DmaFrontEnd(config=config)
        m.submodules.engine = engine = DmaEngine(config=config)
        m.submodules.splitter = splitter = ReadSplitter(config=config, source=Source.DMA)
        listeners = [producer, tracker, trigger, plan_state, front_end]
        reporters = [producer, controller, tracker, plan_state]
        ingress = egress = None
        if config.collective:
            m.submodules.ingress = ingress = LinkIngress(config=config)
            m.submodules.egress = egress = LinkEgress(config=config)
            listeners.insert(1, ingress)
            reporters.insert(1, ingress)
            reporters.append(egress)
        m.submodules.registers = registers = RegisterBlock(config=config,
                                                           error_sources=len(reporters))

        # Buses.
        def channels(block, names):
            return {name: getattr(block, name) for name in names}

        self._axil.connect(m, self, channels(registers, ("aw", "w", "b", "ar", "r")))
        self._axi.connect(m, self, channels(producer, ("aw", "w", "b", "ar", "r")))
        if self._memory is not None:
            self._memory.connect(m, self, channels(controller, ("aw", "w", "b", "ar", "r")))
        m.d.comb += self.irq.eq(registers.irq)

        # Software's settings, tables, and the state of the plans.
        m.d.comb += [
            controller.policy.eq(registers.policy),
            controller.starvation_limit.eq(registers.starvation_limit),
            controller.latency.eq(registers.memory_latency),
            registers.status.eq(plan_state.status),
            registers.plan_done.eq(plan_state.done),
            registers.interrupt.eq(front_end.interrupt),
        ]
        table = registers.table
        late_table = table.signature.create(path=("late_table",))
        if config.pipelined:
            m.d.sync += [
                late_table.valid.eq(table.valid),
                late_table.payload.eq(table.payload),
            ]
        for block in listeners:
            # The link's entrance keeps what the producer's keeps, and lies elsewhere. With the same
            # writes in the same cycle, synthesis would give both the same registers.
            _broadcast(m, late_table if block is ingress and config.pipelined else table,
                       block.table)
            if block is not plan_state:
                m.d.comb += block.plans.eq(plan_state.plans)
        for reporter, collected in zip(reporters, registers.error, strict=True):
            _broadcast(m, reporter.error, collected)

        # Requests to the memory, and its answers.
        m.submodules.communication = communication = Arbiter(
            shape=memory_request(config), requesters=2 + (not config.collective),
            spare=config.pipelined)
        wiring.connect(m, producer.compute, controller.compute)
        self._connect_reads(m, engine=engine, splitter=splitter, request=communication.i[0])
        wiring.connect(m, front_end.doorbell_local, communication.i[1])
        wiring.connect(m, communication.o, controller.dma)
        for source, monitor in ((Source.PRODUCER, producer.read), (Source.DMA, engine.data)):
            _broadcast(m, controller.read, monitor,
                       only=controller.read.payload.source == source)
        _broadcast(m, controller.commit, producer.commit,
                   only=controller.commit.payload.source == Source.PRODUCER)

        # Counting, triggering, sending.
        m.d.comb += tracker.cycle.eq(registers.cycle)
        _broadcast(m, controller.commit, tracker.commit)
        _broadcast(m, tracker.full, trigger.full)
        _broadcast(m, tracker.full, plan_state.full)
        # Software may hold commands back. One whose plan was stopped meanwhile goes nowhere.
        wanted = Signal()
        m.d.comb += [
            wanted.eq(plan_state.plans[trigger.fire.payload.plan].armed),
            front_end.fire.payload.eq(trigger.fire.payload),
            front_end.fire.valid.eq(trigger.fire.valid & wanted & ~registers.hold),
            trigger.fire.ready.eq(~wanted | front_end.fire.ready & ~registers.hold),
        ]
        if config.pipelined:
            m.submodules.blocks = blocks = StreamSpare(shape=front_end.block.payload.shape())
            wiring.connect(m, front_end.block, blocks.i)
            wiring.connect(m, blocks.o, engine.block)
        else:
            wiring.connect(m, front_end.block, engine.block)
        _broadcast(m, engine.done, front_end.block_done)
        _broadcast(m, front_end.command_done, plan_state.command_done)
        if config.collective:
            self._connect_link(m, registers, ingress=ingress, egress=egress, producer=producer,
                               controller=controller, engine=engine, front_end=front_end)
        else:
            m.submodules.copies = copies = CopyWriter(config=config)
            wiring.connect(m, engine.packet, copies.packet)
            wiring.connect(m, copies.request, communication.i[2])
            _broadcast(m, controller.commit, copies.commit)

        self._clear(m, plan_state.clear, (tracker.clear, trigger.clear, controller.clear))

        # What of a plan is under way, so that a clear can wait for it.
        m.submodules.requests = requests = InFlight(
            config=config, starts=1 + config.collective, ends=1, limit=_requests_under_way(config))
        m.submodules.commands = commands = InFlight(config=config, starts=1, ends=1,
                                                    limit=config.commands)
        # Events are registered, since they come late in their cycle; what is in the registers is
        # under way, too.
        begun = Signal(config.plans)
        committed = controller.commit.payload.tile
        tracked = [producer.compute] + ([ingress.request] if config.collective else [])
        for event, stream in zip(requests.start, tracked, strict=True):
            m.d.sync += [
                event.valid.eq(stream.valid & stream.ready & stream.payload.tile.tracked
                               & (stream.payload.op != MemoryOp.READ)),
                event.plan.eq(stream.payload.tile.plan),
            ]
        m.d.sync += [
            commands.start[0].valid.eq(front_end.fire.valid & front_end.fire.ready),
            commands.start[0].plan.eq(front_end.fire.payload.plan),
            commands.end[0].valid.eq(front_end.ended.valid),
            commands.end[0].plan.eq(front_end.ended.payload.plan),
            requests.end[0].valid.eq(controller.commit.valid & committed.tracked),
            requests.end[0].plan.eq(committed.plan),
        ]
        m.d.comb += [
            begun.eq(Cat(Cat(event.valid & (event.plan == plan)
                             for event in (*requests.start, commands.start[0])).any()
                         for plan in range(config.plans))),
            plan_state.busy.eq(producer.busy | requests.busy | trigger.queued | commands.busy
                               | begun | (ingress.busy if config.collective else 0)),
        ]

        if config.monitoring:
            self._monitor(m, registers, producer=producer, controller=controller,
                          plan_state=plan_state, stored=requests.start[0].valid)

        # Tile lookup by software.
        m.d.comb += [
            tracker.state_index.eq(registers.state_index),
            tracker.state_start.eq(registers.state_start),
            registers.state.eq(tracker.state),
            registers.state_done.eq(tracker.state_done),
            tracker.clear_marks.eq(registers.clear_marks),
        ]
        _broadcast(m, engine.first_read, registers.first_read)
        self._count(m, registers, producer=producer, controller=controller, engine=engine,
                    ingress=ingress, egress=egress, tracker=tracker, front_end=front_end)
        self._trace(m, producer=producer, controller=controller, tracker=tracker,
                    front_end=front_end, engine=engine, plan_state=plan_state)

        return m

    def _connect_reads(self, m, *, engine, splitter, request):
        """The engine's reads become requests to the memory. For a fast clock queues of two
        transfers and spare places are here, as elsewhere, where one block's ready would wait for
        the next one's through too much logic."""
        config = self._config
        if not config.pipelined:
            m.submodules.bursts = bursts = StreamQueue(shape=read_burst(config), depth=1, cut=False)
            wiring.connect(m, engine.read, bursts.i)
            wiring.connect(m, bursts.o, splitter.burst)
            wiring.connect(m, splitter.request, request)
            return
        m.submodules.bursts = bursts = StreamSpare(shape=read_burst(config))
        wiring.connect(m, engine.read, bursts.i)
        wiring.connect(m, bursts.o, splitter.burst)
        # All else of a read is the same for all.
        asked = ("address", "last")
        m.submodules.reads = reads = StreamQueue(shape=data.StructLayout({
            name: memory_request(config)[name].shape for name in asked}), depth=2)
        m.d.comb += [
            reads.i.valid.eq(splitter.request.valid),
            splitter.request.ready.eq(reads.i.ready),
            request.valid.eq(reads.o.valid),
            reads.o.ready.eq(request.ready),
            request.payload.eq(splitter.request.payload),
            *(statement for name in asked for statement in (
                reads.i.payload[name].eq(splitter.request.payload[name]),
                request.payload[name].eq(reads.o.payload[name]))),
        ]

    def _connect_link(self, m, registers, *, ingress, egress, producer, controller, engine,
                      front_end):
        """The neighbours, and what comes from them and goes to them."""
        config = self._config
        self._link_tx.connect(m, self, {"t": egress.tx})
        self._link_rx.connect(m, self, {"t": ingress.rx})
        m.d.comb += [
            egress.credit.eq(self.link_tx_credit),
            self.link_rx_credit.eq(ingress.credit),
            egress.latency.eq(registers.link_latency),
            egress.interval.eq(registers.link_interval),
            egress.fraction.eq(registers.link_fraction),
            egress.header_interval.eq(registers.link_header_interval),
            egress.header_fraction.eq(registers.link_header_fraction),
            ingress.hold_timeout.eq(registers.hold_timeout),
            registers.holding.eq(ingress.holding),
            registers.holding_plan.eq(ingress.holding_plan),
        ]
        wiring.connect(m, ingress.request, controller.ingress)
        m.submodules.sending = sending = StreamQueue(shape=remote_beat(config), depth=2,
                                                     cut=config.pipelined)
        wiring.connect(m, engine.packet, sending.i)
        m.submodules.outgoing = outgoing = PacketMerge(shape=remote_beat(config), ahead=True)
        wiring.connect(m, sending.o, outgoing.a)
        wiring.connect(m, front_end.doorbell_remote, outgoing.b)
        wiring.connect(m, outgoing.o, egress.dma)
        wiring.connect(m, producer.remote, egress.producer)

    @staticmethod
    def _clear(m, clear, targets):
        """One clear for all that keeps something of a plan:
        taken when the last of them is ready."""
        done = Signal(len(targets))
        ready = Signal(len(targets))
        for index, target in enumerate(targets):
            m.d.comb += [
                target.payload.eq(clear.payload),
                target.valid.eq(clear.valid & ~done[index]),
                ready[index].eq(done[index] | target.ready),
            ]
        m.d.comb += clear.ready.eq(ready.all())
        with m.If(clear.valid):
            m.d.sync += done.eq(ready)
            with m.If(clear.ready):
                m.d.sync += done.eq(0)

    def _monitor(self, m, registers, *, producer, controller, plan_state, stored):
        """Memory intensity, and the threshold that follows from it. The first store of an output
        tile may go to memory or to the neighbour. ``stored`` is a cycle late, and so are all."""
        m.submodules.intensity_monitor = intensity = IntensityMonitor(config=self._config)
        remote = producer.remote
        sent = Signal()
        m.d.sync += [
            intensity.armed.eq(Cat(plan.armed for plan in plan_state.plans)),
            intensity.access.eq(controller.events.compute_issue),
            sent.eq(remote.valid & remote.ready & remote.payload.tracked),
        ]
        m.d.comb += [
            intensity.store.eq(stored | sent),
            intensity.fixed.eq(registers.fixed),
            intensity.fixed_threshold.eq(registers.fixed_threshold),
            *(mine.eq(wanted) for mine, wanted in zip(intensity.boundaries, registers.boundaries)),
            *(mine.eq(wanted) for mine, wanted in zip(intensity.thresholds, registers.thresholds)),
            controller.threshold.eq(intensity.status.threshold),
            registers.intensity.eq(intensity.status),
        ]

    def _count(self, m, registers, *, producer, controller, engine, ingress, egress, tracker,
               front_end):
        events = Signal(registers.events.shape())
        levels = registers.levels
        # A register on the way: they come late in their cycle.
        m.d.sync += registers.events.eq(events)
        m.d.comb += [
            events.producer_read_bytes.eq(producer.events.read_bytes),
            events.producer_write_bytes.eq(producer.events.write_bytes),
            events.remote_write_bytes.eq(producer.events.remote_bytes),
            events.dma_read_bytes.eq(engine.bytes),
            events.dma_packets.eq(engine.packet.valid & engine.packet.ready
                                  & engine.packet.payload.last),
            events.commits.eq(controller.commit.valid),
            events.producer_write_stall.eq(producer.events.write_stall),
            events.producer_read_stall.eq(producer.events.read_stall),
            events.compute_queue_stall.eq(controller.events.compute_stall),
            events.communication_queue_stall.eq(controller.events.communication_stall),
            events.dma_stall.eq(engine.stall),
            events.memory_busy.eq(controller.events.access),
            events.forced_accesses.eq(controller.events.forced),
            events.tiles_full.eq(tracker.full.valid),
            events.commands_fired.eq(front_end.fire.valid & front_end.fire.ready),
            events.compute_issues.eq(controller.events.compute_issue),
            events.communication_issues.eq(controller.events.communication_issue),
            events.communication_holds.eq(controller.events.communication_hold),
            # Registered, and so one cycle late; the sum of all is the cycles nevertheless.
            *(events[name].eq((self.trace_occupancy >= least)
                              & (1 if most is None else self.trace_occupancy <= most))
              for name, least, most in occupancy_buckets),
            events.dram_activates.eq(controller.dram_events.activate),
            events.dram_precharges.eq(controller.dram_events.precharge),
            events.dram_refreshes.eq(controller.dram_events.refresh),
            events.dram_reads.eq(controller.dram_events.read),
            events.dram_writes.eq(controller.dram_events.write),
            events.dram_updates.eq(controller.dram_events.update),
            levels.tracker_occupancy.eq(tracker.occupancy),
            levels.tracker_high_water.eq(tracker.high_water),
            levels.overflow_occupancy.eq(tracker.overflow_occupancy),
            levels.overflow_high_water.eq(tracker.overflow_high_water),
        ]
        if self._config.collective:
            m.d.comb += [
                events.incoming_update_bytes.eq(ingress.events.update_bytes),
                events.incoming_store_bytes.eq(ingress.events.store_bytes),
                events.link_stall.eq(egress.stall),
                events.tx_words.eq(self.link_tx_tvalid & self.link_tx_tready),
                events.rx_words.eq(self.link_rx_tvalid & self.link_rx_tready),
            ]

    def _trace(self, m, *, producer, controller, tracker, front_end, engine, plan_state):
        commit = controller.commit
        m.d.sync += [
            self.trace_producer_beat.eq(self.s_axi_wvalid & self.s_axi_wready),
            self.trace_remote_beat.eq(producer.remote.valid & producer.remote.ready),
            self.trace_commit_local.eq(commit.valid & (commit.payload.source == Source.PRODUCER)),
            self.trace_commit_incoming.eq(commit.valid & (commit.payload.source == Source.LINK)),
            self.trace_memory.eq(controller.events.access),
            self.trace_full.eq(tracker.full.valid),
            self.trace_full_slot.eq(tracker.full.payload.slot),
            self.trace_fire.eq(front_end.fire.valid & front_end.fire.ready),
            self.trace_fire_first.eq(front_end.fire.payload.first),
            self.trace_block.eq(front_end.block.valid & front_end.block.ready),
            self.trace_block_wg.eq(front_end.block.payload.wg),
            self.trace_first_read.eq(engine.first_read.valid),
            self.trace_dma_beat.eq(engine.packet.valid & engine.packet.ready),
            self.trace_command_done.eq(front_end.command_done.valid),
            self.trace_done.eq(plan_state.done),
            self.trace_occupancy.eq(controller.occupancy),
        ]
        if self._config.collective:
            m.d.sync += [
                self.trace_tx.eq(self.link_tx_tvalid & self.link_tx_tready),
                self.trace_rx.eq(self.link_rx_tvalid & self.link_rx_tready),
            ]
        if self._config.memory == "dram":
            for name, _ in dram_command(self._config):
                m.d.sync += getattr(self, f"trace_dram_{name}").eq(controller.dram_command[name])


def _broadcast(m, stream, listener, *, only=1):
    """One of several listeners of an always-ready stream."""
    m.d.comb += [
        listener.payload.eq(stream.payload),
        listener.valid.eq(stream.valid & only),
    ]


def _requests_under_way(config):
    """More requests than a plan can have between the ports and their commits."""
    return (config.compute_queue + config.communication_queue + config.memory_max_latency
            + config.memory_outstanding + 256)
