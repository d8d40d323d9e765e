"""Traffic node: a node and, at its producer port, engines that behave as a GPU's compute units."""

from amaranth import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from .amba import AxiLitePorts, AxiPorts
from .axi_select import AxiSelect
from .axi_turns import AxiTurns
from .axil_split import AxilSplit
from .collective_engine import CollectiveEngine
from .gemm_engine import GemmEngine
from .node import Node
from .traffic_registers import TrafficRegisters

__all__ = ["TrafficNode"]

#: Bits 19 to 16 of the traffic registers' addresses.
WINDOW = 1


class TrafficNode(wiring.Component):
    """A node whose producer is built in: a GEMM engine and a collective engine, at ``s_axi``.

    One engine runs at a time. A simulation of it needs software only to program it and to wait for
    interrupts.

    Registers of the engines are at 0x10000 to 0x1FFFF (`t3hw.registers.traffic`), those of the node
    everywhere else, one cycle later than in a node. Other latencies are those of `Node` and of the
    engines; what arrives from the neighbour counts for the collective engine one cycle after its
    commit.

    Parameters
    ----------
    config : NodeConfig
        The node.
    units, stages : int
        Compute units and entries of the stage table of the GEMM engine.
    steps : int
        Entries of the collective engine's table.
    host : bool
        Whether there is a port for somebody else's loads and stores.

    Members
    -------
    s_axil_*, link_tx_*, link_rx_*, link_tx_credit, link_rx_credit, m_axi_*, trace_*
        As of `Node`.
    s_axi_* : AXI4 slave, with ``host``
        As of `Node`, a burst at a time; it waits while an engine runs.
    irq : Out(1)
        Interrupt of the node or of an engine, level.
    trace_busy : Out(1)
        An engine runs; registered.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    ValueError
        If ``units``, ``stages`` or ``steps`` is out of its range.
    """

    def __init__(self, *, config, units=128, stages=128, steps=64, host=False):
        # The map's window has so many entries.
        if type(steps) is not int or not 1 <= steps <= 256:
            raise ValueError(f"steps must be an integer from 1 to 256, not {steps!r}")
        self._config = config
        self._node = Node(config=config)
        self._gemm = GemmEngine(config=config, units=units, stages=stages)
        self._collective = CollectiveEngine(config=config, steps=steps)
        self._registers = TrafficRegisters(config=config, units=units, stages=stages, steps=steps)
        self._axil = AxiLitePorts(prefix="s_axil", master=False)
        self._axi = AxiPorts(prefix="s_axi", master=False, config=config, id_width=config.id_width)
        # All that is the node's goes through, but what is wired in here.
        inner = set(self._axi.members()) | set(self._axil.members()) | {"irq"}
        self._passed = {name: member for name, member in self._node.signature.members.items()
                        if name not in inner}
        self._turns = AxiTurns(config=config) if host else None
        host_members = self._axi.members() if host else {}
        super().__init__(self._axil.members() | self._passed | host_members | {
            "irq": Out(1),
            "trace_busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        m.submodules.node = node = self._node
        m.submodules.gemm = gemm = self._gemm
        m.submodules.collective = collective = self._collective
        m.submodules.registers = registers = self._registers
        m.submodules.split = split = AxilSplit(window=WINDOW)
        m.submodules.select = select = AxiSelect(
            config=config, masters=3 if self._turns is None else 4)

        for name, member in self._passed.items():
            own, inner = getattr(self, name), getattr(node, name)
            m.d.comb += own.eq(inner) if member.flow is Out else inner.eq(own)

        # Registers.
        names = ("aw", "w", "b", "ar", "r")
        self._axil.connect(m, self, {name: getattr(split, name) for name in names})
        self._axil.connect(m, node, {name: getattr(split.outside, name) for name in names},
                           from_outside=True)
        for name in names:
            wiring.connect(m, getattr(split.inside, name), getattr(registers, name))
        m.d.comb += [
            gemm.settings.eq(registers.gemm),
            gemm.start.eq(registers.gemm_start),
            collective.settings.eq(registers.collective),
            collective.start.eq(registers.collective_start),
            collective.clear.eq(registers.collective_clear),
            collective.arrived.eq(node.trace_commit_incoming),
            registers.gemm_status.legal.eq(gemm.legal),
            registers.gemm_results.eq(gemm.results),
            *(registers.collective_results[key].eq(getattr(collective, key))
              for key in ("cycles", "read_beats", "write_beats", "unused")),
            self.irq.eq(node.irq | registers.irq),
        ]
        for status, engine in ((registers.gemm_status, gemm),
                               (registers.collective_status, collective)):
            m.d.comb += [status[key].eq(getattr(engine, key)) for key in ("busy", "done", "error")]
        for writes, table in ((registers.stage, gemm.stage), (registers.step, collective.table)):
            m.d.comb += [table.valid.eq(writes.valid), table.payload.eq(writes.payload)]

        # The producer port: software's reads of memory, or an engine.
        chosen = Mux(gemm.busy, 1, Mux(collective.busy, 2, 0))
        if self._turns is not None:
            m.submodules.turns = turns = self._turns
            chosen = Mux(turns.turn, 3, chosen)
            m.d.comb += turns.free.eq(~(gemm.busy | collective.busy | registers.reading))
            self._axi.connect(m, self, {name: getattr(turns, f"i_{name}") for name in names})
            for name in names:
                wiring.connect(m, getattr(turns, name), getattr(select, f"i_{name}")[3])
        m.d.comb += select.select.eq(chosen)
        wiring.connect(m, registers.memory_ar, select.i_ar[0])
        wiring.connect(m, select.i_r[0], registers.memory_r)
        for number, engine in ((1, gemm), (2, collective)):
            for name in names:
                wiring.connect(m, getattr(engine, name), getattr(select, f"i_{name}")[number])
        self._axi.connect(m, node, {name: getattr(select, name) for name in names},
                          from_outside=True)

        m.d.sync += self.trace_busy.eq(gemm.busy | collective.busy)
        return m
