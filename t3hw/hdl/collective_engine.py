"""Collective engine: a ring's reduce-scatter and all-gather as kernels of a GPU do them."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import DTYPE_NAMES
from .collective_steps import LONGEST_BURST, CollectiveSteps
from .near_memory_adder import NearMemoryAdder
from .seams import (
    Dtype, axi_address, axi_read_data, axi_write_data, axi_write_response, collective_settings,
    collective_write,
)
from .stream_queue import StreamQueue

__all__ = ["CollectiveEngine"]

#: AxBURST of incrementing addresses.
_INCR = 1


class CollectiveEngine(wiring.Component):
    """Run a table of steps: read, perhaps add, write, burst by burst, as an AXI4 master.

    A step moves ``beats`` beats in bursts of ``burst`` beats, the last of them shorter where that
    does not divide. Each burst is read from ``source_a`` and, with ``add``, from ``source_b``; the
    sum, or what was read, is written to ``destination``. A destination may lie in a region that the
    node sends to the neighbour; the engine does not know.

    A burst of a step with ``wait`` is begun when as many beats have come from the neighbour, beyond
    those that earlier bursts waited for, as the burst has. Beats of a run that no step waits for,
    up to ``expected``, are waited for at its end, and count as used too: what has come beyond them
    belongs to the next run, so a neighbour may be ahead, across runs as well. `clear`, not `start`,
    forgets what has come; give it before any neighbour starts its first run.

    The first beats to arrive must be those that the first waiting step reads. The memory may make
    them visible in another order if a read of a beat waits for the older writes to it.

    Steps overlap: a step must not read what an earlier one of the same run writes.

    `burst` must be a power of two, and addresses multiples of a burst, so that no burst crosses
    4 KiB; the longest possible one, 64 beats of 64 bytes, fills it. Settings that break a rule
    (`burst`, more steps than the table has, a dtype that is not built) are refused: the run ends at
    once, with ``error``. A step whose addresses break the rule is refused likewise when its turn
    comes, and the steps behind it are not run.

    Read data always has room: a burst is asked for when there is a place for each of its beats, in
    the queue of each operand. All reads have the id 0, and so have all writes.

    Latency 4 cycles from ``start`` to the first ``ar``; from the last operand on ``r`` 2 cycles to
    the burst's ``aw`` and `latency` to the beat on ``w``; 2 cycles from the last ``b`` to ``done``.
    Throughput one beat a cycle on each of ``r`` and ``w``, across bursts and steps, while
    ``buffer`` is at least a burst, the memory's latency from ``ar`` to ``r``, and 2.

    Parameters
    ----------
    config : NodeConfig
        Widths, and the dtypes that can be added.
    steps : int
        Entries of the table, 2 to 65535.
    buffer : int
        Places for beats of each operand, under way or waiting, at least 64.

    Attributes
    ----------
    latency : int
        Cycles from the last operand on ``r`` to the result on ``w``, if nothing stalls.

    Members
    -------
    aw, w, b, ar, r : AXI4 master
        As AXI4 has them. AxUSER is 0.
    table : In, stream of `collective_write`
        Writes to the table of steps, in the idle engine; beyond the table nothing is written.
    settings : In(collective_settings)
        Must be stable from ``start`` to ``done``.
    start : In(1)
        Pulse: run the steps. Ignored while ``busy``.
    clear : In(1)
        Pulse: forget what has come before this cycle. In a run, begin no further burst: the run
        ends when those under way are answered.
    arrived : In(1)
        Pulse for each beat of the neighbour that a read from now on will see.
    busy : Out(1)
        A run is under way.
    done : Out(1)
        Pulse: all bursts of the run have been answered, all expected beats have come.
    error : Out(1)
        Since ``start`` a setting or a step was refused, or an answer was not OKAY.
    cycles : Out(32)
        Cycles from ``start`` to ``done``, or until now.
    read_beats, write_beats : Out(32)
        Beats of the run on ``r`` and on ``w``.
    unused : Out(32)
        Beats that have come and that no run has used yet.

    Raises
    ------
    ValueError
        If ``steps`` or ``buffer`` is out of range.
    """

    def __init__(self, *, config, steps=64, buffer=256):
        if type(steps) is not int or not 2 <= steps <= 0xFFFF:
            raise ValueError(f"steps must be an integer from 2 to 65535, not {steps!r}")
        if type(buffer) is not int or buffer < LONGEST_BURST:
            raise ValueError(
                f"buffer must be an integer of at least {LONGEST_BURST}, not {buffer!r}")
        self._config = config
        self._steps = steps
        self._buffer = buffer
        self._adder = NearMemoryAdder(config=config, meta=data.StructLayout({"last": 1}))
        self.latency = 1 + self._adder.latency
        address = axi_address(config, config.id_width)
        super().__init__({
            "aw": Out(stream.Signature(address)),
            "w": Out(stream.Signature(axi_write_data(config))),
            "b": In(stream.Signature(axi_write_response(config, config.id_width))),
            "ar": Out(stream.Signature(address)),
            "r": In(stream.Signature(axi_read_data(config, config.id_width))),
            "table": In(stream.Signature(collective_write(config), always_ready=True)),
            "settings": In(collective_settings(config)),
            "start": In(1),
            "clear": In(1),
            "arrived": In(1),
            "busy": Out(1),
            "done": Out(1),
            "error": Out(1),
            "cycles": Out(32),
            "read_beats": Out(32),
            "write_beats": Out(32),
            "unused": Out(32),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        settings = self.settings
        m.submodules.steps = steps = CollectiveSteps(config=config, steps=self._steps)
        # What the write side must know of a burst; and of each read, whose operand its beats are.
        m.submodules.bursts = bursts = StreamQueue(shape=data.StructLayout({
            "destination": config.addr_width, "last": range(LONGEST_BURST), "add": 1,
        }), depth=self._buffer)
        m.submodules.reads = reads = StreamQueue(shape=1, depth=2 * self._buffer)
        m.submodules.operand_a = operand_a = StreamQueue(
            shape=config.data_width, depth=self._buffer)
        m.submodules.operand_b = operand_b = StreamQueue(
            shape=config.data_width, depth=self._buffer)

        starts = Signal()
        finishes = Signal()
        stopping = Signal()
        wiring.connect(m, wiring.flipped(self.table), steps.table)
        m.d.comb += [
            starts.eq(self.start & ~self.busy),
            steps.count.eq(settings.steps),
            steps.longest.eq(settings.burst),
            steps.start.eq(starts),
            steps.stop.eq(stopping),
        ]

        # Ask: for one operand a cycle. A place is taken for each beat of a burst when it begins,
        # and given back beat by beat; since operands are joined in pairs, the second one's queue
        # has room where the first one's has. There are no more bursts than places, nor reads of
        # an operand.
        burst = steps.burst.payload
        places = Signal(range(self._buffer + 1), init=self._buffer)
        begins = Signal()
        asks = Signal()
        asks_b = Signal()
        source_b = Signal(config.addr_width)
        address = Signal(config.addr_width)
        length = Signal(range(LONGEST_BURST))
        m.d.comb += [
            asks.eq(~self.ar.valid | self.ar.ready),
            steps.burst.ready.eq(
                asks & ~asks_b & (places >= burst.beats)
                & (~burst.wait | (self.unused >= burst.beats))),
            begins.eq(steps.burst.valid & steps.burst.ready),
            bursts.i.valid.eq(begins),
            bursts.i.payload.destination.eq(burst.destination),
            bursts.i.payload.last.eq(burst.beats - 1),
            bursts.i.payload.add.eq(burst.add),
            reads.i.valid.eq(begins | asks & asks_b),
            reads.i.payload.eq(asks_b),
        ]
        self._address(m, self.ar, address, length)
        with m.If(asks):
            m.d.sync += [
                self.ar.valid.eq(begins | asks_b),
                address.eq(Mux(asks_b, source_b, burst.source_a)),
                asks_b.eq(begins & burst.add),
            ]
        with m.If(begins):
            m.d.sync += [length.eq(burst.beats - 1), source_b.eq(burst.source_b)]

        # Read.
        for number, queue in enumerate((operand_a, operand_b)):
            m.d.comb += [
                queue.i.valid.eq(self.r.valid & (reads.o.payload == number)),
                queue.i.payload.eq(self.r.payload.data),
            ]
        m.d.comb += [
            self.r.ready.eq(1),
            reads.o.ready.eq(self.r.valid & self.r.payload.last),
        ]
        m.d.sync += places.eq(places - Mux(begins, burst.beats, 0)
                              + (operand_a.o.valid & operand_a.o.ready))
        self._write(m, bursts.o, operand_a.o, operand_b.o)

        # What has come, and what of it the run has still to see.
        owed = Signal(32)
        used = Signal(32)
        with m.If(begins & burst.wait):
            m.d.comb += used.eq(burst.beats)
        with m.Elif(finishes & ~stopping):
            m.d.comb += used.eq(owed)
        m.d.sync += self.unused.eq(Mux(self.clear, 0, self.unused - used) + self.arrived)
        with m.If(starts):
            m.d.sync += owed.eq(settings.expected)
        with m.Else():
            m.d.sync += owed.eq(Mux(owed > used, owed - used, 0))

        # Begin and end.
        refused = Signal()
        wrong = Signal()
        unanswered = Signal(32)
        m.d.comb += [
            refused.eq(
                (settings.burst == 0) | (settings.burst & (settings.burst - 1)).any()
                | (settings.steps > self._steps)
                | ~Cat(settings.dtype == Dtype(DTYPE_NAMES.index(name))
                       for name in config.dtypes).any()),
            wrong.eq(steps.refused | self.r.valid & (self.r.payload.resp != 0)
                     | self.b.valid & (self.b.payload.resp != 0)),
            finishes.eq(self.busy & ~steps.active & (unanswered == 0)
                        & (stopping | (self.unused >= owed))),
            self.b.ready.eq(1),
        ]
        m.d.sync += [
            unanswered.eq(unanswered + begins - self.b.valid),
            self.done.eq(finishes),
        ]
        with m.If(self.busy):
            m.d.sync += [
                self.busy.eq(~finishes),
                self.error.eq(self.error | wrong),
                stopping.eq((stopping | self.clear | steps.refused) & ~finishes),
                self.cycles.eq(self.cycles + 1),
                self.read_beats.eq(self.read_beats + self.r.valid),
                self.write_beats.eq(self.write_beats + (self.w.valid & self.w.ready)),
            ]
        with m.Elif(self.start):
            m.d.sync += [
                self.busy.eq(1),
                self.error.eq(refused),
                stopping.eq(refused),
                # The cycle of ``start`` counts.
                self.cycles.eq(1),
                self.read_beats.eq(0),
                self.write_beats.eq(0),
            ]

        return m

    def _address(self, m, channel, address, length):
        """What AR or AW say of a burst."""
        m.d.comb += [
            channel.payload.addr.eq(address),
            channel.payload.len.eq(length),
            channel.payload.size.eq(self._config.beat_shift),
            channel.payload.burst.eq(_INCR),
        ]

    def _write(self, m, bursts, operand_a, operand_b):
        """Join operands, add, and write; a burst's address goes when its first beat is there."""
        config = self._config
        m.submodules.adder = adder = self._adder
        number = Signal(range(LONGEST_BURST))
        last = Signal()
        moves = Signal()
        address_free = Signal()
        address = Signal(config.addr_width)
        length = Signal.like(number)
        burst = bursts.payload
        m.d.comb += [
            last.eq(number == burst.last),
            # AW of the burst before may wait for W: its beats are all in the adder, which drains.
            address_free.eq(~self.aw.valid | self.aw.ready),
            adder.i.valid.eq(bursts.valid & operand_a.valid & (~burst.add | operand_b.valid)
                             & ((number != 0) | address_free)),
            adder.i.payload.dtype.eq(self.settings.dtype),
            adder.i.payload.add.eq(burst.add.replicate(config.lanes)),
            adder.i.payload.old.eq(operand_a.payload),
            adder.i.payload.new.eq(Mux(burst.add, operand_b.payload, operand_a.payload)),
            adder.i.payload.meta.last.eq(last),
            moves.eq(adder.i.valid & adder.i.ready),
            operand_a.ready.eq(moves),
            operand_b.ready.eq(moves & burst.add),
            bursts.ready.eq(moves & last),
            self.w.valid.eq(adder.o.valid),
            self.w.payload.data.eq(adder.o.payload.data),
            self.w.payload.strb.eq(~0),
            self.w.payload.last.eq(adder.o.payload.meta.last),
            adder.o.ready.eq(self.w.ready),
        ]
        self._address(m, self.aw, address, length)
        with m.If(address_free):
            m.d.sync += self.aw.valid.eq(0)
        with m.If(moves):
            m.d.sync += number.eq(Mux(last, 0, number + 1))
            with m.If(number == 0):
                m.d.sync += [
                    self.aw.valid.eq(1),
                    address.eq(burst.destination),
                    length.eq(burst.last),
                ]
