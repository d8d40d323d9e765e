"""Traffic node: a node and, at its producer port, engines that behave as a GPU's compute units."""

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..config import ConfigError, checked_config
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
        Entries of the collective engine's table, 1 to 256; 0: no collective engine is built.
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
    ConfigError
        If the configuration is not ``collective``.
    """

    def __init__(self, *, config, units=128, stages=128, steps=64, host=False):
        # The map's window has so many entries.
        if type(steps) is not int or not 0 <= steps <= 256:
            raise ValueError(f"steps must be an integer from 0 to 256, not {steps!r}")
        if not checked_config(config).collective:
            raise ConfigError("collective must be true in a node with traffic engines, not False")
        self._config = config
        self._node = Node(config=config)
        self._gemm = GemmEngine(config=config, units=units, stages=stages)
        self._collective = CollectiveEngine(config=config, steps=steps) if steps else None
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
        m.submodules.registers = registers = self._registers
        m.submodules.split = split = AxilSplit(window=WINDOW)
        engines = [gemm]
        if self._collective is not None:
            m.submodules.collective = self._collective
            engines.append(self._collective)
        turns = self._turns
        m.submodules.select = select = AxiSelect(
            config=config, masters=1 + len(engines) + (turns is not None))

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
            registers.gemm_status.legal.eq(gemm.legal),
            registers.gemm_results.eq(gemm.results),
            gemm.stage.valid.eq(registers.stage.valid),
            gemm.stage.payload.eq(registers.stage.payload),
            self.irq.eq(node.irq | registers.irq),
        ]
        _report(m, gemm, registers.gemm_status)
        if self._collective is not None:
            self._connect_collective(m, self._collective, registers)

        # The producer port: software's reads of memory, or an engine.
        wiring.connect(m, registers.memory_ar, select.i_ar[0])
        wiring.connect(m, select.i_r[0], registers.memory_r)
        for number, engine in enumerate(engines, 1):
            with m.If(engine.busy):
                m.d.comb += select.select.eq(number)
            for name in names:
                wiring.connect(m, getattr(engine, name), getattr(select, f"i_{name}")[number])
        if turns is not None:
            m.submodules.turns = turns
            number = 1 + len(engines)
            busy = Cat(engine.busy for engine in engines).any()
            m.d.comb += turns.free.eq(~(busy | registers.reading))
            with m.If(turns.turn):
                m.d.comb += select.select.eq(number)
            self._axi.connect(m, self, {name: getattr(turns, f"i_{name}") for name in names})
            for name in names:
                wiring.connect(m, getattr(turns, name), getattr(select, f"i_{name}")[number])
        self._axi.connect(m, node, {name: getattr(select, name) for name in names},
                          from_outside=True)

        m.d.sync += self.trace_busy.eq(Cat(engine.busy for engine in engines).any())
        return m

    def _connect_collective(self, m, collective, registers):
        m.d.comb += [
            collective.settings.eq(registers.collective),
            collective.start.eq(registers.collective_start),
            collective.clear.eq(registers.collective_clear),
            collective.arrived.eq(self._node.trace_commit_incoming),
            collective.table.valid.eq(registers.step.valid),
            collective.table.payload.eq(registers.step.payload),
            *(registers.collective_results[key].eq(getattr(collective, key))
              for key in ("cycles", "read_beats", "write_beats", "unused")),
        ]
        _report(m, collective, registers.collective_status)


def _report(m, engine, status):
    """What an engine says of itself, to the registers."""
    m.d.comb += [status[key].eq(getattr(engine, key)) for key in ("busy", "done", "error")]
