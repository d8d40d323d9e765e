"""Traffic registers: what software sees of a traffic node's engines, on AXI4-Lite."""

from amaranth import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..registers.traffic import (
    REGISTERS, TABLES, capabilities, field_limits, register_limits, table_sizes,
)
from .axil_collect import collect_write
from .register_block import Response
from .seams import (
    axi_address, axi_read_data, axil_address, axil_read_data, axil_write_data, axil_write_response,
    collective_settings, collective_write, gemm_results, gemm_settings, gemm_stage,
)

__all__ = ["TrafficRegisters", "collective_results", "engine_status"]

WORD_WIDTH = 32

#: What an engine says of itself. ``done`` is a pulse; ``legal``: its settings can be run.
engine_status = data.StructLayout({"busy": 1, "done": 1, "error": 1, "legal": 1})

#: What a collective engine has measured.
collective_results = data.StructLayout({
    "cycles": 32,
    "read_beats": 32,
    "write_beats": 32,
    "unused": 32,
})


def _field(name, key, word):
    """Value of a register's field in a word."""
    field = REGISTERS[name].fields[key]
    return word[field.low:field.low + field.width]


class TrafficRegisters(wiring.Component):
    """AXI4-Lite slave: settings, tables, status and measurements of two engines; a look at memory.

    Addresses, fields, access and reset values are those of `t3hw.registers.traffic_map`, limits
    those of `t3hw.registers.traffic`. Refused, with SLVERR and without effect, is what the map
    says. A start, and a new address to read, wait for a read of memory that is under way.

    One write and one read are under way at a time. AW and W come in any order. Nothing is accepted
    during reset.

    Latency from the later of AW and W to B 4 cycles; from AR to R 3 cycles, and 1 and what memory
    needs for a read of memory; from ``done`` to ``irq`` 2. Throughput: one write in 5 cycles, one
    read in 4.

    Parameters
    ----------
    config : NodeConfig
        Widths.
    units, stages : int
        Of the GEMM engine.
    steps : int
        Of the collective engine; 0: there is none. Its registers and its table are not there then:
        they answer as any address without a register, and ``CAP_COLLECTIVE`` reads 0.

    Members
    -------
    aw, w, b, ar, r : In and Out, streams of the ``axil_`` structs
        The bus.
    gemm : Out(gemm_settings), collective : Out(collective_settings)
        Settings; they do not change while their engine is busy.
    stage : Out, stream of `gemm_stage`; step : Out, stream of `collective_write`
        Writes to the engines' tables, checked.
    gemm_start, collective_start, collective_clear : Out(1)
        Pulses. No engine is started while one is busy.
    gemm_status, collective_status : In(engine_status)
        Of the engines. ``legal`` of the collective engine means nothing here.
    gemm_results : In(gemm_results), collective_results : In(collective_results)
        Measurements.
    memory_ar : Out, stream of `axi_address`; memory_r : In, stream of `axi_read_data`
        Reads of memory, a beat each, one at a time.
    reading : Out(1)
        Such a read is under way; never while an engine is busy.
    irq : Out(1)
        Some interrupt is pending and enabled; registered.
    """

    def __init__(self, *, config, units, stages, steps):
        self._config = config
        self._capabilities = capabilities(units=units, stages=stages, steps=steps)
        self._register_limits = register_limits(config, units=units, steps=steps)
        self._table_sizes = table_sizes(stages=stages, steps=steps)
        self._there = {name: register for name, register in REGISTERS.items()
                       if steps or not name.startswith("COLLECTIVE_")}
        id_width = config.id_width
        super().__init__({
            "aw": In(stream.Signature(axil_address)),
            "w": In(stream.Signature(axil_write_data)),
            "b": Out(stream.Signature(axil_write_response)),
            "ar": In(stream.Signature(axil_address)),
            "r": Out(stream.Signature(axil_read_data)),
            "gemm": Out(gemm_settings(config)),
            "collective": Out(collective_settings(config)),
            "stage": Out(stream.Signature(gemm_stage, always_ready=True)),
            "step": Out(stream.Signature(collective_write(config), always_ready=True)),
            "gemm_start": Out(1),
            "collective_start": Out(1),
            "collective_clear": Out(1),
            "gemm_status": In(engine_status),
            "collective_status": In(engine_status),
            "gemm_results": In(gemm_results),
            "collective_results": In(collective_results),
            "memory_ar": Out(stream.Signature(axi_address(config, id_width))),
            "memory_r": In(stream.Signature(axi_read_data(config, id_width))),
            "reading": Out(1),
            "irq": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        # Low during reset, so that nobody takes for accepted what the reset forgets.
        running = Signal()
        m.d.sync += running.eq(1)
        held = {(name, key): Signal(field.width, init=field.reset, name=f"{name}_{key}".lower())
                for name, register in self._there.items() if register.access in ("rw", "w1c")
                for key, field in register.fields.items()}
        self._settings(m, held)

        written, word = self._write(m, running)
        for name, now in written.items():
            if REGISTERS[name].access == "rw":
                with m.If(now):
                    for key in REGISTERS[name].fields:
                        m.d.sync += held[name, key].eq(_field(name, key, word))
        m.d.comb += self.gemm_start.eq(
            written["GEMM_CONTROL"] & _field("GEMM_CONTROL", "start", word))
        if "COLLECTIVE_CONTROL" in written:
            m.d.comb += [getattr(self, f"collective_{key}").eq(
                written["COLLECTIVE_CONTROL"] & _field("COLLECTIVE_CONTROL", key, word))
                for key in ("start", "clear")]

        # Bits are cleared and set in one expression, and setting comes last: no event is lost.
        happened = {"gemm_done": self.gemm_status.done,
                    "collective_done": self.collective_status.done}
        for key, event in happened.items():
            pending = held["IRQ_STATUS", key]
            cleared = Mux(written["IRQ_STATUS"], _field("IRQ_STATUS", key, word), 0)
            m.d.sync += pending.eq(pending & ~cleared | event)
        m.d.sync += self.irq.eq(Cat(held["IRQ_STATUS", key] & held["IRQ_ENABLE", key]
                                    for key in happened).any())

        self._read(m, running, held)
        return m

    def _settings(self, m, held):
        def address(name):
            return Cat(held[f"{name}_LO", "value"], held[f"{name}_HI", "value"])

        m.d.comb += [
            *(self.gemm[key].eq(held[f"GEMM_{key.upper()}", key])
              for key in ("units", "workgroups", "first_workgroup", "chunk_workgroups", "steps",
                          "step_cycles", "workgroup_bytes", "seed")),
            *(self.gemm[key].eq(held["GEMM_READS", key])
              for key in ("burst_log2", "streams_log2", "stream_bytes_log2")),
            *(self.gemm[key].eq(held["GEMM_TILES", key])
              for key in ("wavefronts", "tile_beats_log2")),
            self.gemm.read_base.eq(address("GEMM_READ_BASE")),
            self.gemm.base.eq(address("GEMM_BASE")),
            self.gemm.and_mask.eq(held["GEMM_AND_MASK", "mask"]),
            self.gemm.or_mask.eq(held["GEMM_OR_MASK", "mask"]),
        ]
        if "COLLECTIVE_STEPS" not in self._there:
            return
        m.d.comb += [
            self.collective.steps.eq(held["COLLECTIVE_STEPS", "steps"]),
            self.collective.burst.eq(held["COLLECTIVE_BURST", "beats"]),
            Value.cast(self.collective.dtype).eq(held["COLLECTIVE_BURST", "dtype"]),
            self.collective.expected.eq(held["COLLECTIVE_EXPECTED", "beats"]),
        ]

    def _write(self, m, running):
        """AW and W to B. Returns a pulse by writable register, and the word that is written."""
        write = collect_write(m, self, running, self._there)
        address, word, hits, whole = write.address, write.word, write.hits, write.whole
        tables, too_much = self._tables(m, address, word)

        # What an engine that runs does not let go.
        busy = {"GEMM": self.gemm_status.busy, "COLLECTIVE": self.collective_status.busy}
        locked = [hit & busy[engine] for engine in busy
                  for name, hit in (*hits.items(), *tables.items())
                  if name.startswith(f"{engine}_") and name != "COLLECTIVE_CONTROL"]
        any_busy = Cat(busy.values()).any()
        beyond = [hits[name] & (_field(name, key, word) > limit)
                  for (name, key), limit in self._register_limits.items() if name in hits]
        starts_gemm = hits["GEMM_CONTROL"] & _field("GEMM_CONTROL", "start", word)
        starts_collective = (hits.get("COLLECTIVE_CONTROL", C(0))
                             & _field("COLLECTIVE_CONTROL", "start", word))
        clears = _field("COLLECTIVE_CONTROL", "clear", word)
        waits = (starts_gemm | starts_collective
                 | Cat(hit for name, hit in hits.items() if name.startswith("READ_ADDRESS_")).any())
        refused = Signal()
        act = Signal()
        m.d.comb += [
            self.b.p.resp.eq(Mux(refused, Response.SLVERR, Response.OKAY)),
            self.stage.valid.eq(act & tables["GEMM_STAGE"]),
            self.step.valid.eq(act & tables["COLLECTIVE_STEP"]),
        ]
        with m.FSM(name="write"):
            with m.State("COLLECT"):
                with m.If(write.have_address & write.have_word):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += refused.eq(
                    ~whole | ~Cat(hits.values(), tables.values()).any() | too_much
                    | Cat(locked, beyond).any()
                    | starts_gemm & (any_busy | ~self.gemm_status.legal)
                    | starts_collective & (any_busy | clears))
                m.next = "ACT"
            with m.State("ACT"):
                with m.If(~waits | ~self.reading):
                    m.d.comb += act.eq(~refused)
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += self.b.valid.eq(1)
                with m.If(self.b.ready):
                    m.d.sync += [write.have_address.eq(0), write.have_word.eq(0)]
                    m.next = "COLLECT"
        return {name: act & hit for name, hit in hits.items()}, word

    def _tables(self, m, address, word):
        """Hits by table, and whether the word is too large for its field; one cycle after the
        address."""
        hits = {}
        too_much = Signal()
        m.d.sync += too_much.eq(0)
        for name, stream_, fields in (
                ("GEMM_STAGE", self.stage, {"reads": word}),
                ("COLLECTIVE_STEP", self.step, {"data": word})):
            table = TABLES[name]
            stride_bits = bits_for(table.stride - 1)
            window_bits = bits_for(table.entries * table.stride - 1)
            entry = address[stride_bits:window_bits]
            number = address[2:stride_bits]
            hit = Signal(name=f"at_{name.lower()}")
            m.d.sync += hit.eq((address[window_bits:] == table.base >> window_bits)
                               & (entry < self._table_sizes[name]) & (number < table.words))
            m.d.comb += [stream_.payload[key].eq(value) for key, value in fields.items()]
            hits[name] = hit
            if name == "GEMM_STAGE":
                m.d.sync += stream_.payload.index.eq(entry)
                continue
            m.d.sync += [stream_.payload.entry.eq(entry), stream_.payload.word.eq(number)]
            for (limited, key), limit in field_limits(self._config).items():
                first = TABLES[limited].fields[key].word
                for part in range(2):
                    with m.If((number == first + part)
                              & (word > (limit >> 32 * part & 0xFFFFFFFF))):
                        m.d.sync += too_much.eq(address[window_bits:] == table.base >> window_bits)
        return hits, too_much

    def _shown(self, held):
        """Value by (register, field) of all that can be read at once."""
        shown = dict(held)
        for name, word in self._capabilities.items():
            for key in REGISTERS[name].fields:
                shown[name, key] = _field(name, key, C(word, WORD_WIDTH))
        for name, status in (("GEMM_STATUS", self.gemm_status),
                             ("COLLECTIVE_STATUS", self.collective_status)):
            for key in REGISTERS[name].fields:
                shown[name, key] = status[key]
        for key in gemm_results.members:
            if key != "read_wait":
                shown[f"GEMM_{key.upper()}", "value"] = self.gemm_results[key]
        wait = self.gemm_results.read_wait
        shown["GEMM_READ_WAIT_LO", "value"] = wait[:WORD_WIDTH]
        shown["GEMM_READ_WAIT_HI", "value"] = wait[WORD_WIDTH:]
        for key in collective_results.members:
            shown[f"COLLECTIVE_{key.upper()}", "value"] = self.collective_results[key]
        return shown

    def _read(self, m, running, held):
        """AR to R."""
        config = self._config
        shown = self._shown(held)
        address = Signal(len(self.ar.p.addr))
        word = Signal(WORD_WIDTH)
        is_plain = Signal()
        is_memory = Signal()
        m.d.sync += [word.eq(0), is_plain.eq(0), is_memory.eq(0)]
        with m.Switch(address):
            for name, register in self._there.items():
                if register.access == "wo":
                    continue
                with m.Case(register.offset):
                    if name == "READ_DATA":
                        m.d.sync += is_memory.eq(1)
                        continue
                    m.d.sync += is_plain.eq(1)
                    for key, field in register.fields.items():
                        m.d.sync += word[field.low:field.low + field.width].eq(shown[name, key])

        place = Cat(held["READ_ADDRESS_LO", "value"], held["READ_ADDRESS_HI", "value"])
        next_place = Signal(config.addr_width)
        asked = Signal()
        m.d.comb += [
            next_place.eq(place + WORD_WIDTH // 8),
            self.memory_ar.payload.addr.eq(
                Cat(C(0, config.beat_shift), place[config.beat_shift:])),
            self.memory_ar.payload.size.eq(config.beat_shift),
            self.memory_ar.payload.burst.eq(1),
            self.memory_ar.valid.eq(self.reading & ~asked),
            self.memory_r.ready.eq(self.reading),
        ]
        with m.FSM(name="read"):
            with m.State("IDLE"):
                m.d.comb += self.ar.ready.eq(running)
                with m.If(self.ar.valid & self.ar.ready):
                    m.d.sync += address.eq(self.ar.p.addr)
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.next = "FIND"
            with m.State("FIND"):
                m.d.sync += [
                    self.r.p.data.eq(word),
                    self.r.p.resp.eq(Mux(is_plain, Response.OKAY, Response.SLVERR)),
                ]
                m.next = "RESPOND"
                with m.If(is_memory & ~self.gemm_status.busy & ~self.collective_status.busy
                          & ~self.gemm_start & ~self.collective_start):
                    m.d.sync += self.reading.eq(1)
                    m.next = "MEMORY"
            with m.State("MEMORY"):
                with m.If(self.memory_ar.ready):
                    m.d.sync += asked.eq(1)
                with m.If(self.memory_r.valid):
                    m.d.sync += [
                        self.reading.eq(0),
                        asked.eq(0),
                        self.r.p.data.eq(self.memory_r.payload.data.word_select(
                            place[2:config.beat_shift], WORD_WIDTH)),
                        self.r.p.resp.eq(self.memory_r.payload.resp),
                    ]
                    with m.If(self.memory_r.payload.resp == 0):
                        m.d.sync += place.eq(next_place)
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += self.r.valid.eq(1)
                with m.If(self.r.ready):
                    m.next = "IDLE"
