"""SDRAM controller: an SDR SDRAM chip of 16 bits behind the node's AXI4 master."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..config import checked_config
from .axi_memory import M_AXI_ID_WIDTH
from .sdram_chip import SdramChip, SdramError
from .seams import axi_address, axi_read_data, axi_write_data, axi_write_response
from .stream_queue import StreamQueue

__all__ = ["SdramController", "SdramPins"]

#: Bits of a word of the chip, and its banks.
_WORD = 16
_BANKS = 4
#: Answers that wait at R, and at B.
_ANSWERS = 4
#: Accesses in one direction while the other one waits: a turn of the data bus costs some cycles.
_TURN = 8
#: Refreshes after power-up. Some chips want two, some eight.
_FIRST_REFRESHES = 8

_RESP_SLVERR = 2


class SdramPins(wiring.Signature):
    """Pins of the chip, seen from the controller: active high, data as in, out and enable.

    All outputs come from flip-flops, and ``dq_i`` goes to flip-flops: they fit into I/O cells.

    Parameters
    ----------
    row_bits : int
        Width of ``a``.
    """

    def __init__(self, *, row_bits):
        super().__init__({
            "clk_en": Out(1),
            "cs": Out(1),
            "ras": Out(1),
            "cas": Out(1),
            "we": Out(1),
            "ba": Out(2),
            "a": Out(row_bits),
            "dqm": Out(2),
            "dq_o": Out(_WORD),
            "dq_oe": Out(1),
            "dq_i": In(_WORD),
        })


class _Command(enum.Enum, shape=3):
    """``{we, cas, ras}``, active high."""

    NOP = 0b000
    ACTIVATE = 0b001
    READ = 0b010
    REFRESH = 0b011
    PRECHARGE = 0b101
    WRITE = 0b110
    MODE = 0b111


class SdramController(wiring.Component):
    """One access at a time, in the order of their arrival within a direction; rows stay open.

    An access is a burst of data_width / 16 words. The row of each bank stays open until another one
    of the bank is wanted, or a refresh is due. Words lie column first, then bank, then row, so that
    sequential accesses change the bank before the row. Reads and writes take turns of at most 8
    while both wait. Once a refresh is due it comes before the next access.

    B comes when the write command is given: all later reads are behind it.

    Latency from ``ar`` to ``r`` where the row is open: ``read_latency`` cycles; where another one
    is, tRP and tRCD and two cycles more. Throughput one access in ``burst`` cycles in open rows, in
    one direction.

    Parameters
    ----------
    config : NodeConfig
        The node whose ``m_axi`` is served: widths. Data of 32 or 64 bits.
    chip : SdramChip
        What is at the pins.
    clock_hz : float
        Of the ``sync`` domain.
    inverted_clock : bool
        Whether the chip's clock is the inverse of ours, and so the chip half a cycle earlier.

    Attributes
    ----------
    burst : int
        Words, and cycles, of an access.
    read_latency : int
        Cycles from ``ar`` to ``r`` in an open row.

    Members
    -------
    aw, w, b, ar, r : streams of the AXI4 channels' structs
        A slave for transactions of one beat: AxLEN, AxSIZE and AxBURST are not looked at. Beyond
        the chip's size nothing is written, and the answer is SLVERR.
    pins : Out, `SdramPins`
    ready : Out(1)
        The chip is initialized. Accesses before that wait.

    Raises
    ------
    TypeError
        If ``config`` or ``chip`` is none.
    SdramError
        If the data width or the clock is out of range.
    """

    def __init__(self, *, config, chip, clock_hz, inverted_clock=False):
        self._config = checked_config(config)
        if not isinstance(chip, SdramChip):
            raise TypeError(f"chip must be an SdramChip, not {chip!r}")
        if config.data_width not in (32, 64):
            raise SdramError(f"data_width must be 32 or 64, not {config.data_width!r}")
        self._chip = chip
        self._clock_hz = clock_hz
        self._cas = chip.cas_latency(clock_hz)
        self._inverted = bool(inverted_clock)
        address = axi_address(config, M_AXI_ID_WIDTH)
        super().__init__({
            "aw": In(stream.Signature(address)),
            "w": In(stream.Signature(axi_write_data(config))),
            "b": Out(stream.Signature(axi_write_response(config, M_AXI_ID_WIDTH))),
            "ar": In(stream.Signature(address)),
            "r": Out(stream.Signature(axi_read_data(config, M_AXI_ID_WIDTH))),
            "pins": Out(SdramPins(row_bits=chip.row_bits)),
            "ready": Out(1),
        })

    @property
    def burst(self):
        """Words, and cycles, of an access."""
        return self._config.data_width // _WORD

    @property
    def _capture(self):
        """Cycles from a read's decision to the cycle with its first word in the input register."""
        # Command register, CAS latency, input register.
        return 2 + self._cas - self._inverted

    @property
    def read_latency(self):
        """Cycles from ``ar`` to ``r`` in an open row."""
        # Queue, head, what the head needs, then the command; answer's queue.
        return 3 + self._capture + self.burst - 1 + 1

    def elaborate(self, platform):
        m = Module()

        config, chip, burst = self._config, self._chip, self.burst

        def cycles(time):
            return chip.cycles(time, self._clock_hz)

        t_rp, t_wr, t_rfc = cycles(chip.t_rp), cycles(chip.t_wr), cycles(chip.t_rfc)
        # A column comes between two activates, and at least two cycles after it the next command.
        t_rcd = max(cycles(chip.t_rcd), cycles(chip.t_rrd) - 2)
        # A bank's next activate is a precharge later, and so tRC is kept too.
        t_ras = max(cycles(chip.t_ras), cycles(chip.t_rc) - t_rp)
        pins = self.pins

        # What waits.
        m.submodules.aw_queue = aw = StreamQueue(shape=self.aw.payload.shape(), depth=2)
        m.submodules.w_queue = w = StreamQueue(shape=self.w.payload.shape(), depth=2)
        m.submodules.ar_queue = ar = StreamQueue(shape=self.ar.payload.shape(), depth=2)
        m.submodules.b_queue = b = StreamQueue(shape=self.b.payload.shape(), depth=_ANSWERS)
        m.submodules.r_queue = r = StreamQueue(shape=self.r.payload.shape(), depth=_ANSWERS)
        for inner, outer in ((aw.i, self.aw), (w.i, self.w), (ar.i, self.ar)):
            wiring.connect(m, wiring.flipped(outer), inner)
        wiring.connect(m, b.o, wiring.flipped(self.b))
        wiring.connect(m, r.o, wiring.flipped(self.r))

        # The head: the next access. What it needs of its bank is known one cycle after it.
        word_shift = ceil_log2(config.beat_bytes) - 1
        low = chip.column_bits - word_shift
        head_layout = data.StructLayout({
            "write": 1, "id": M_AXI_ID_WIDTH, "outside": 1,
            "column": low, "bank": 2, "row": chip.row_bits,
            "data": config.data_width, "strobe": config.beat_bytes,
        })
        head = Signal(head_layout)
        head_valid = Signal()
        issued = Signal()
        turn = Signal(range(_TURN + 1))
        write_waits = aw.o.valid & w.o.valid
        read_waits = ar.o.valid
        go_on = Mux(head.write, write_waits, read_waits)
        change = Mux(head.write, read_waits, write_waits) & (~go_on | (turn == _TURN))
        next_write = head.write ^ change
        take = Signal()
        loads = Signal()
        m.d.comb += [
            loads.eq(~head_valid | issued),
            take.eq(loads & (read_waits | write_waits)),
            ar.o.ready.eq(take & ~next_write),
            aw.o.ready.eq(take & next_write),
            w.o.ready.eq(take & next_write),
        ]
        chosen = Signal(self.aw.payload.shape())
        m.d.comb += chosen.eq(Mux(next_write, aw.o.payload.as_value(), ar.o.payload.as_value()))
        address = chosen.addr[1 + word_shift:]
        with m.If(loads):
            m.d.sync += [
                head_valid.eq(take),
                head.write.eq(next_write),
                head.id.eq(chosen.id),
                Cat(head.column, head.bank, head.row).eq(address),
                head.outside.eq(address[low + 2 + chip.row_bits:].any()),
                head.data.eq(w.o.payload.data),
                head.strobe.eq(w.o.payload.strb),
            ]
        with m.If(take):
            m.d.sync += turn.eq(Mux(change, 1, Mux(turn == _TURN, turn, turn + 1)))

        open_rows = Array(Signal(chip.row_bits, name=f"row_{bank}") for bank in range(_BANKS))
        is_open = Signal(_BANKS)
        row_command = Signal()
        known = Signal()
        hit = Signal()
        miss = Signal()
        opened = is_open.bit_select(head.bank, 1)
        same = open_rows[head.bank] == head.row
        m.d.sync += [
            known.eq(head_valid & ~issued & ~row_command),
            hit.eq(opened & same),
            miss.eq(opened & ~same),
        ]

        # When the next command may come: any, a precharge, and a column. The longest of what was
        # asked for holds.
        longest = max(t_rfc, burst + self._cas + 2, burst + t_wr, t_ras) + 1
        any_in, precharge_in = Signal(range(longest)), Signal(range(longest))
        read_in, write_in = Signal(range(longest)), Signal(range(longest))

        def count(timer):
            return Mux(timer == 0, 0, timer - 1)

        for timer in (any_in, precharge_in, read_in, write_in):
            m.d.sync += timer.eq(count(timer))

        def wait(timer, time):
            """From this cycle, that of a command, on; or as long as before, if that is longer."""
            least = Signal.like(timer, name=f"{timer.name}_least")
            m.d.comb += least.eq(time - 1)
            m.d.sync += timer.eq(Mux(count(timer) > least, count(timer), least))

        # Refreshes that are due.
        interval = int(chip.t_refi * self._clock_hz / 1e9)
        refresh_timer = Signal(range(interval))
        refresh_due = Signal(4)
        refreshed = Signal()
        elapsed = Signal()
        m.d.comb += elapsed.eq(self.ready & (refresh_timer == 0))
        m.d.sync += [
            refresh_timer.eq(Mux(refresh_timer == 0, interval - 1, refresh_timer - 1)),
            refresh_due.eq(refresh_due + elapsed - refreshed),
        ]

        # The answers' places.
        reads_out = Signal(range(_ANSWERS + 1))
        place = Mux(head.write, b.i.ready, reads_out != _ANSWERS)

        # Commands. The pins are registers.
        command = Signal(_Command)
        row_address = Signal(chip.row_bits)
        write_now = Signal()
        read_now = Signal()
        column = Cat(Const(0, word_shift), head.column)
        m.d.comb += [
            row_address.eq(0),
            issued.eq(write_now | read_now),
        ]
        startup = cycles(chip.t_init)
        pause = Signal(range(startup), init=startup - 1)
        todo = Signal(range(_FIRST_REFRESHES + 1))
        with m.FSM(name="state"):
            with m.State("POWER-UP"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.next = "PRECHARGE ALL"
                m.d.sync += todo.eq(_FIRST_REFRESHES)
            with m.State("PRECHARGE ALL"):
                with m.If((precharge_in == 0) & (any_in == 0)):
                    m.d.comb += [
                        command.eq(_Command.PRECHARGE),
                        row_address[10].eq(1),
                        row_command.eq(1),
                    ]
                    m.d.sync += is_open.eq(0)
                    wait(any_in, t_rp)
                    m.next = "REFRESH"
            with m.State("REFRESH"):
                with m.If(any_in == 0):
                    m.d.comb += command.eq(_Command.REFRESH)
                    wait(any_in, t_rfc)
                    with m.If(self.ready):
                        m.d.comb += refreshed.eq(1)
                        m.next = "RUN"
                    with m.Else():
                        m.d.sync += todo.eq(todo - 1)
                        with m.If(todo == 1):
                            m.next = "MODE"
            with m.State("MODE"):
                with m.If(any_in == 0):
                    m.d.comb += [
                        command.eq(_Command.MODE),
                        row_address.eq(self._cas << 4 | ceil_log2(burst)),
                    ]
                    wait(any_in, 3)
                    m.d.sync += self.ready.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(any_in != 0):
                    pass
                with m.Elif(refresh_due != 0):
                    m.next = "PRECHARGE ALL"
                with m.Elif(known & hit):
                    with m.If(place & Mux(head.write, write_in == 0, read_in == 0)):
                        m.d.comb += [
                            command.eq(Mux(head.write, _Command.WRITE, _Command.READ)),
                            row_address.eq(column),
                            write_now.eq(head.write),
                            read_now.eq(~head.write),
                        ]
                        wait(read_in, burst)
                        # After a read the bus is free one cycle later.
                        wait(write_in, Mux(head.write, burst, self._cas + burst + 1))
                        # Of the two reasons to wait the activate's may be the longer one.
                        wait(precharge_in, Mux(head.write, burst + t_wr - 1, burst))
                with m.Elif(known & miss):
                    with m.If(precharge_in == 0):
                        m.d.comb += [
                            command.eq(_Command.PRECHARGE),
                            row_command.eq(1),
                        ]
                        m.d.sync += is_open.bit_select(head.bank, 1).eq(0)
                        wait(any_in, t_rp)
                with m.Elif(known):
                    m.d.comb += [
                        command.eq(_Command.ACTIVATE),
                        row_address.eq(head.row),
                        row_command.eq(1),
                    ]
                    m.d.sync += [
                        is_open.bit_select(head.bank, 1).eq(1),
                        open_rows[head.bank].eq(head.row),
                    ]
                    wait(any_in, t_rcd)
                    wait(precharge_in, t_ras)

        # Words to write follow their command.
        send = Signal(config.data_width)
        mask = Signal(config.beat_bytes)
        sending = Signal(range(burst + 1))
        m.d.sync += [
            pins.clk_en.eq(1),
            pins.cs.eq(1),
            Cat(pins.ras, pins.cas, pins.we).eq(command),
            pins.ba.eq(head.bank),
            pins.a.eq(row_address),
            pins.dq_o.eq(Mux(write_now, head.data[:_WORD], send[:_WORD])),
            pins.dq_oe.eq(write_now | (sending != 0)),
            pins.dqm.eq(Mux(write_now, ~head.strobe[:2] | head.outside.replicate(2), mask[:2])),
            sending.eq(Mux(write_now, burst - 1, Mux(sending == 0, 0, sending - 1))),
            send.eq(Mux(write_now, head.data >> _WORD, send >> _WORD)),
            mask.eq(Mux(write_now, (~head.strobe | head.outside.replicate(config.beat_bytes)) >> 2,
                        mask >> 2)),
        ]

        # Words that were read come a fixed time after their command.
        answer_layout = data.StructLayout({"valid": 1, "id": M_AXI_ID_WIDTH, "outside": 1})
        stages = self._capture + burst - 1
        line = [Signal(answer_layout, name=f"under_way_{stage}") for stage in range(stages + 1)]
        m.d.comb += [
            line[0].valid.eq(read_now),
            line[0].id.eq(head.id),
            line[0].outside.eq(head.outside),
        ]
        for stage, after in zip(line, line[1:]):
            m.d.sync += after.eq(stage)
        seen = Signal(_WORD)
        words = Signal(config.data_width)
        arrived = line[stages]
        m.d.sync += [
            seen.eq(pins.dq_i),
            words.eq(Cat(words[_WORD:], seen)),
            reads_out.eq(reads_out + read_now - (r.o.valid & r.o.ready)),
        ]
        m.d.comb += [
            r.i.valid.eq(arrived.valid),
            r.i.payload.id.eq(arrived.id),
            r.i.payload.last.eq(1),
            r.i.payload.resp.eq(Mux(arrived.outside, _RESP_SLVERR, 0)),
            r.i.payload.data.eq(Mux(arrived.outside, 0, Cat(words[_WORD:], seen))),
            b.i.valid.eq(write_now),
            b.i.payload.id.eq(head.id),
            b.i.payload.resp.eq(Mux(head.outside, _RESP_SLVERR, 0)),
        ]
        return m
