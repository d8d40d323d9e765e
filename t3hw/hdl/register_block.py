"""Register block: what software sees of a node, on AXI4-Lite."""

from amaranth import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import checked_config
from ..registers import (COUNTERS, REGISTERS, TABLES, absent_registers, capabilities,
                         register_limits, reset_values)
from .axil_collect import collect_write
from .counters import Counters, NoCounters
from .error_collector import ErrorCollector
from .seams import (INTENSITY_LEVELS, INTENSITY_WIDTH, STAMP_WIDTH, Policy, Table, axil_address,
                    axil_read_data, axil_write_data, axil_write_response, counter_events,
                    counter_levels, error_event, intensity_status, plan_status, plan_width,
                    slot_width, table_write)
from .table_guard import TableGuard

__all__ = ["RegisterBlock", "Response"]

WORD_WIDTH = 32


class Response(enum.Enum, shape=2):
    """What an access is answered with."""

    OKAY = 0
    SLVERR = 2


def _field(name, key, word):
    """Value of a register's field in a word."""
    field = REGISTERS[name].fields[key]
    return word[field.low:field.low + field.width]


class RegisterBlock(wiring.Component):
    """AXI4-Lite slave: registers, the window to the tables, counters, errors, interrupt.

    Addresses, fields, access and reset values are those of `t3hw.registers.map`, limits those of
    `t3hw.registers`. What is not allowed is answered with SLVERR and changes nothing: an address
    that is not mapped or not a multiple of 4, a partial strobe, a write to what can only be read
    and a read of what can only be written, a value beyond a limit, and what `TableGuard` refuses.

    One write and one read are under way at a time. AW and W come in any order. Nothing is accepted
    during reset, so that an access that waits there is answered after it.

    Latency from the later of AW and W to B 4 cycles; to a table 5, and a command to a plan
    ``plans`` + 4 more; a snapshot or clear of the counters 4 and what `Counters` needs. From AR to
    R 4 cycles, of a counter 5; a tile's state 1 more and what the tracker needs. From an event to
    ``irq`` 2 cycles, from an error 3. A register holds what was written from the cycle after B's
    first on. Throughput: one write in 5 cycles, to a table in 6, one read in 5.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.
    error_sources : int
        Number of blocks that report errors, at least 1.

    Members
    -------
    aw, w, b, ar, r : In and Out, streams of the ``axil_`` structs
        The bus.
    table : Out, stream of `table_write`, always ready
        Writes to the tables, checked.
    policy : Out(Policy), starvation_limit : Out(16), memory_latency : Out(16)
        For the memory controller.
    boundaries, thresholds, fixed, fixed_threshold : Out
        For the `IntensityMonitor`.
    intensity : In(intensity_status)
        What it has measured.
    hold : Out(1)
        Commands that fire shall wait.
    link_latency : Out(16), hold_timeout : Out(32)
        For the link.
    link_interval, link_fraction, link_header_interval, link_header_fraction : Out(16)
        Time a word, for the link.
    status : In(plan_status)
        Shown to software, and what locks tables.
    plan_done : In(plans)
        A plan is done; one cycle.
    interrupt : In(1)
        A command asks for an interrupt; one cycle.
    irq : Out(1)
        Some interrupt is pending and enabled; registered.
    error : In, ``error_sources`` streams of `error_event`, always ready
        Reports; of several in a cycle the lowest is the first.
    holding : In(1), holding_plan : In(plan_width)
        The link's receiver holds a packet for a plan that is not armed.
    state_index : Out(slot_width), state_start : Out(1), state : In(32), state_done : In(1)
        A look-up of a tile slot in the tracker: once for each read, ``state`` is taken with
        ``state_done``.
    events, levels, first_read, cycle, clear_marks
        As in `Counters`.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    ValueError
        If ``error_sources`` is not at least 1.
    """

    def __init__(self, *, config, error_sources):
        checked_config(config)
        if not isinstance(error_sources, int) or error_sources < 1:
            raise ValueError("error_sources must be an integer of at least 1, "
                             f"not {error_sources!r}")
        self._config = config
        self._error_sources = error_sources
        errors = stream.Signature(error_event(config), always_ready=True)
        stamps = stream.Signature(data.StructLayout({"stamp": STAMP_WIDTH}), always_ready=True)
        super().__init__({
            "aw": In(stream.Signature(axil_address)),
            "w": In(stream.Signature(axil_write_data)),
            "b": Out(stream.Signature(axil_write_response)),
            "ar": In(stream.Signature(axil_address)),
            "r": Out(stream.Signature(axil_read_data)),
            "table": Out(stream.Signature(table_write(config), always_ready=True)),
            "policy": Out(Policy),
            "hold": Out(1),
            "starvation_limit": Out(16),
            "memory_latency": Out(16),
            "boundaries": Out(INTENSITY_WIDTH).array(INTENSITY_LEVELS - 1),
            "thresholds": Out(16).array(INTENSITY_LEVELS),
            "fixed": Out(1),
            "fixed_threshold": Out(16),
            "intensity": In(intensity_status),
            "link_latency": Out(16),
            "link_interval": Out(16),
            "link_fraction": Out(16),
            "link_header_interval": Out(16),
            "link_header_fraction": Out(16),
            "hold_timeout": Out(32),
            "status": In(plan_status(config)),
            "plan_done": In(config.plans),
            "interrupt": In(1),
            "irq": Out(1),
            "error": In(errors).array(error_sources),
            "holding": In(1),
            "holding_plan": In(plan_width(config)),
            "state_index": Out(slot_width(config)),
            "state_start": Out(1),
            "state": In(WORD_WIDTH),
            "state_done": In(1),
            "events": In(counter_events(config)),
            "levels": In(counter_levels(config)),
            "first_read": In(stamps),
            "cycle": Out(STAMP_WIDTH),
            "clear_marks": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.guard = guard = TableGuard(config=self._config)
        kind = Counters if self._config.monitoring else NoCounters
        m.submodules.counters = counters = kind(config=self._config,
                                                error_sources=self._error_sources)
        m.submodules.collector = errors = ErrorCollector(config=self._config,
                                                         sources=self._error_sources)
        for source, sink in zip(self.error, errors.error):
            m.d.comb += [sink.payload.eq(source.payload), sink.valid.eq(source.valid)]
        m.d.comb += [
            guard.status.eq(self.status),
            self.table.payload.eq(guard.table.payload),
            self.table.valid.eq(guard.table.valid),
            counters.events.eq(self.events),
            counters.levels.eq(self.levels),
            counters.errors.eq(errors.reported),
            counters.first_read.payload.eq(self.first_read.payload),
            counters.first_read.valid.eq(self.first_read.valid),
            errors.clear_count.eq(counters.clear_marks),
            self.clear_marks.eq(counters.clear_marks),
            self.cycle.eq(counters.cycle),
        ]

        # Low during reset, so that nobody takes for accepted what the reset forgets.
        running = Signal()
        m.d.sync += running.eq(1)

        # What the registers that software can write hold, in as few bits as their limits need;
        # ERROR_STATUS is in the collector.
        most = register_limits(self._config) | {
            ("IRQ_STATUS", "plan_done"): (1 << self._config.plans) - 1}
        held = {}
        for (name, key), value in reset_values(self._config).items():
            if name != "ERROR_STATUS":
                width = REGISTERS[name].fields[key].width
                width = min(width, most.get((name, key), (1 << width) - 1).bit_length())
                # What may only be 0 is no signal: Verilog has none without bits.
                held[name, key] = Signal(
                    width, init=value, name=f"{name}_{key}".lower()) if width else C(0, 1)
        m.d.comb += [
            self.policy.eq(held["CONTROL", "policy"]),
            self.hold.eq(held["CONTROL", "hold"]),
            self.memory_latency.eq(held["MEMORY_LATENCY", "cycles"]),
        ]
        if self._config.collective:
            m.d.comb += [
                self.starvation_limit.eq(held["STARVATION_LIMIT", "cycles"]),
                self.link_latency.eq(held["LINK_LATENCY", "cycles"]),
                self.link_interval.eq(held["LINK_INTERVAL", "cycles"]),
                self.link_fraction.eq(held["LINK_INTERVAL", "fraction"]),
                self.link_header_interval.eq(held["LINK_HEADER_INTERVAL", "cycles"]),
                self.link_header_fraction.eq(held["LINK_HEADER_INTERVAL", "fraction"]),
                self.hold_timeout.eq(held["HOLD_TIMEOUT", "cycles"]),
            ]
        if self._config.monitoring:
            m.d.comb += [
                self.fixed.eq(held["MCA_CONTROL", "fixed"]),
                self.fixed_threshold.eq(held["MCA_CONTROL", "threshold"]),
                *(boundary.eq(held[f"MCA_BOUNDARY_{level}", "intensity"])
                  for level, boundary in enumerate(self.boundaries)),
                *(threshold.eq(held[f"MCA_THRESHOLD_{level}", "accesses"])
                  for level, threshold in enumerate(self.thresholds)),
            ]

        written, word = self._write(m, running, guard, counters)
        for name, now in written.items():
            if REGISTERS[name].access == "rw":
                with m.If(now):
                    for key in REGISTERS[name].fields:
                        if isinstance(held[name, key], Signal):
                            m.d.sync += held[name, key].eq(_field(name, key, word))

        # Bits are cleared and set in one expression, and setting comes last: no event is lost.
        with m.If(written["ERROR_STATUS"]):
            for key, field in REGISTERS["ERROR_STATUS"].fields.items():
                m.d.comb += errors.clear[field.low].eq(_field("ERROR_STATUS", key, word))
        happened = {"plan_done": self.plan_done, "error": errors.reported != 0,
                    "command": self.interrupt}
        for key, event in happened.items():
            pending = held["IRQ_STATUS", key]
            cleared = Mux(written["IRQ_STATUS"], _field("IRQ_STATUS", key, word), 0)
            m.d.sync += pending.eq(pending & ~cleared | event)
        m.d.sync += self.irq.eq(Cat(held["IRQ_STATUS", key] & held["IRQ_ENABLE", key]
                                    for key in happened).any())

        self._read(m, running, self._shown(held, errors), counters,
                   held["TILE_STATE_INDEX", "slot"])
        return m

    def _write(self, m, running, guard, counters):
        """AW and W to B. Returns a pulse by writable register, in the first cycle of B, and the
        word that is written."""
        absent = absent_registers(self._config)
        write = collect_write(m, self, running, {
            name: register for name, register in REGISTERS.items() if name not in absent})
        address, word, hits, whole = write.address, write.word, write.hits, write.whole
        in_table = Signal()
        m.d.sync += in_table.eq(0)
        for name, table in TABLES.items():
            stride_bits = bits_for(table.stride - 1)
            window_bits = bits_for(table.entries * table.stride - 1)
            assert table.base % (1 << window_bits) == 0, f"the window of {name} is not aligned"
            with m.If(address[window_bits:] == table.base >> window_bits):
                m.d.sync += [
                    in_table.eq(1),
                    guard.i.p.table.eq(Table[name]),
                    guard.i.p.entry.eq(address[stride_bits:window_bits]),
                    guard.i.p.word.eq(address[2:stride_bits]),
                ]

        # As late as ``hits``, since comparisons take their time.
        limits = register_limits(self._config)
        beyond = Signal(len(limits))
        m.d.sync += beyond.eq(Cat(_field(name, key, word) > limit
                                  for (name, key), limit in limits.items()))
        control = counters.control
        refused = Signal()
        act = Signal()
        m.d.comb += [
            guard.i.p.data.eq(word),
            control.p.snapshot.eq(_field("COUNTER_CONTROL", "snapshot", word)),
            control.p.clear.eq(_field("COUNTER_CONTROL", "clear", word)),
            self.b.p.resp.eq(Mux(refused, Response.SLVERR, Response.OKAY)),
        ]
        with m.FSM(name="write"):
            with m.State("COLLECT"):
                with m.If(write.have_address & write.have_word):
                    m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(in_table & whole):
                    m.d.comb += guard.i.valid.eq(1)
                    m.next = "TABLE"
                with m.Else():
                    m.d.sync += refused.eq(
                        ~whole | ~Cat(hits.values()).any()
                        | (beyond & Cat(hits[name] for name, _key in limits)).any())
                    m.next = "ACT"
            with m.State("ACT"):
                m.d.comb += act.eq(~refused)
                m.next = "RESPOND"
                with m.If(act & hits["COUNTER_CONTROL"] & control.p.as_value().any()):
                    m.next = "COUNTERS"
            with m.State("TABLE"):
                m.d.comb += guard.i.valid.eq(1)
                with m.If(guard.i.ready):
                    m.d.sync += refused.eq(guard.refused)
                    m.next = "RESPOND"
            with m.State("COUNTERS"):
                m.d.comb += control.valid.eq(1)
                with m.If(control.ready):
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += self.b.valid.eq(1)
                with m.If(self.b.ready):
                    m.d.sync += [write.have_address.eq(0), write.have_word.eq(0)]
                    m.next = "COLLECT"
        # A register a pulse, since it goes to all that is written: that happens while the write is
        # answered, when ``word`` is still there.
        written = {name: Signal(name=f"written_{name.lower()}") for name in hits}
        for name, now in written.items():
            m.d.sync += now.eq(act & hits[name])
        return written, word

    def _shown(self, held, errors):
        """Value by (register, field, index) of all that can be read at once."""
        shown = {(name, key, 0): value for (name, key), value in held.items()}
        for name, word in capabilities(self._config).items():
            for key in REGISTERS[name].fields:
                shown[name, key, 0] = _field(name, key, C(word, WORD_WIDTH))
        for key, field in REGISTERS["ERROR_STATUS"].fields.items():
            shown["ERROR_STATUS", key, 0] = errors.status[field.low]
        address = Value.cast(errors.first.address)
        tile = errors.first.tile
        shown |= {
            ("ERROR_COUNT", "count", 0): errors.count,
            ("FIRST_ERROR_CAUSE", "cause", 0): errors.first.cause.as_value(),
            ("FIRST_ERROR_CAUSE", "valid", 0): errors.first_valid,
            ("FIRST_ERROR_ADDRESS_LO", "value", 0): address[:WORD_WIDTH],
            ("FIRST_ERROR_ADDRESS_HI", "value", 0): address[WORD_WIDTH:],
            ("FIRST_ERROR_TILE", "slot", 0): tile.slot,
            ("FIRST_ERROR_TILE", "plan", 0): tile.plan,
            ("FIRST_ERROR_TILE", "tracked", 0): tile.tracked,
            ("FIRST_ERROR_IDS", "wg", 0): tile.wg,
            ("FIRST_ERROR_IDS", "wf", 0): tile.wf,
            **{("MCA_STATUS", key, 0): self.intensity[key]
               for key in REGISTERS["MCA_STATUS"].fields},
            ("LINK_STATUS", "holding", 0): self.holding,
            ("LINK_STATUS", "plan", 0): self.holding_plan,
        }
        for name in absent_registers(self._config):
            for key in REGISTERS[name].fields:
                shown[name, key, 0] = C(0, 1)
        for plan, status in enumerate(self.status):
            for key in REGISTERS["PLAN_STATUS_STATE"].fields:
                shown["PLAN_STATUS_STATE", key, plan] = status[key]
            shown["PLAN_STATUS_TILES_DONE", "tiles", plan] = status.tiles_done
            shown["PLAN_STATUS_COMMANDS_DONE", "commands", plan] = status.commands_done
        return shown

    def _read(self, m, running, shown, counters, slot):
        """AR to R."""
        address = Signal(len(self.ar.p.addr))
        word = Signal(WORD_WIDTH)
        high_half = Signal()
        is_plain = Signal()
        is_counter = Signal()
        is_state = Signal()
        counted = Signal.like(counters.value)
        m.d.sync += counted.eq(counters.value)

        # Words by address; the assertions say that each readable field of the map has a source.
        counter_words = {}
        for counter in COUNTERS:
            for half in range(counter.width // WORD_WIDTH):
                index = counters.names.index(counter.name)
                counter_words[counter.offset + 4 * half] = (index, half)
        # Most counters stand one behind the other, two words each, and need no table.
        first = COUNTERS[0].offset
        assert first % 8 == 0, "the first counter is not aligned"
        end = first
        while counter_words.get(end) == divmod((end - first) // 4, 2):
            counter_words.pop(end)
            end += 4
        low_bits = bits_for(max(register.offset + register.stride * register.count
                                for register in REGISTERS.values()))
        # First cycle: which word it is, as one of many bits. Second: the word, which may take a
        # cycle if the clock is slow.
        below = Signal()
        m.d.comb += below.eq((address[low_bits:] == 0) & (address[:2] == 0))
        in_row = Signal()
        half = Signal()
        m.d.sync += [
            in_row.eq(below & (address[:low_bits] >= first) & (address[:low_bits] < end)),
            half.eq(address[2]),
            counters.index.eq(address[3:low_bits] - first // 8),
        ]
        words = []
        at_state = 0
        for name, register in REGISTERS.items():
            counts = self._config.plans if register.stride else register.count
            for number in range(counts):
                offset = register.offset + number * register.stride
                if first <= offset < end or offset in counter_words or register.access == "wo":
                    continue
                at = Signal(name=f"reads_{name.lower()}_{number}")
                m.d.sync += at.eq(below & (address[2:low_bits] == offset >> 2))
                if name == "TILE_STATE":
                    at_state = at
                    continue
                parts = [Value.cast(0)] * WORD_WIDTH
                for key, field in register.fields.items():
                    bits = Value.cast(shown[name, key, number])
                    parts[field.low:field.low + field.width] = [
                        *bits[:field.width], *[0] * (field.width - len(bits))]
                words.append((at, parts))
        for offset, (index, upper) in counter_words.items():
            with m.If(address[2:low_bits] == offset >> 2):
                m.d.sync += [in_row.eq(below), half.eq(upper), counters.index.eq(index)]
        m.d["sync" if self._config.pipelined else "comb"] += [
            is_plain.eq(Cat(at for at, _parts in words).any()),
            is_state.eq(at_state),
            is_counter.eq(in_row),
            high_half.eq(half),
            word.eq(Cat(Cat(at & parts[bit] for at, parts in words).any()
                        for bit in range(WORD_WIDTH))),
        ]

        with m.FSM(name="read"):
            with m.State("IDLE"):
                m.d.comb += self.ar.ready.eq(running)
                with m.If(self.ar.valid & self.ar.ready):
                    m.d.sync += address.eq(self.ar.p.addr)
                    m.next = "DECODE"
            with m.State("DECODE"):
                m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += self.state_index.eq(slot)
                m.next = "FIND"
            with m.State("FIND"):
                m.d.sync += [
                    self.r.p.data.eq(word),
                    self.r.p.resp.eq(Mux(is_plain, Response.OKAY, Response.SLVERR)),
                ]
                m.next = "RESPOND"
                with m.If(is_counter):
                    m.next = "COUNTER"
                with m.If(is_state):
                    m.d.comb += self.state_start.eq(1)
                    m.next = "STATE"
            with m.State("COUNTER"):
                m.d.sync += [
                    self.r.p.data.eq(counted.word_select(high_half, WORD_WIDTH)),
                    self.r.p.resp.eq(Response.OKAY),
                ]
                with m.If(counters.ready):
                    m.next = "RESPOND"
            with m.State("STATE"):
                m.d.sync += [self.r.p.data.eq(self.state), self.r.p.resp.eq(Response.OKAY)]
                with m.If(self.state_done):
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += self.r.valid.eq(1)
                with m.If(self.r.ready):
                    m.next = "IDLE"
