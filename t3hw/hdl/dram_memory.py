"""DRAM memory: block RAM that adds, in the time and in the order of a DRAM and its controller."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..config import checked_config
from .dram_banks import DramBanks
from .dram_location import dram_location
from .dram_scheduler import DramScheduler
from .memory_array import MemoryArray
from .one_hot import index_of
from .read_reorder import ReadReorder
from .seams import (ColumnCommand, ErrorCause, RowCommand, commit, dram_command, dram_events,
                    error_event, memory_access, read_beat)

__all__ = ["DramMemory"]


class DramMemory(wiring.Component):
    """Memory of ``config.memory_bytes`` bytes behind one channel of a DRAM, and its controller.

    A beat is a column, whatever its width: all timing is in beats. `DramScheduler` chooses among
    the accesses in its window, `DramBanks` says what the timing allows, and refreshes. An access
    takes effect with its column command. Accesses to one beat keep their order; reads come back in
    the order of each source; commits come in the order in which the writes took effect, whatever
    their source.

    Latency where nothing is in the way: from ``access`` to the column command on ``command`` 3
    cycles if the row is open, tRCD more if the bank is closed, tRP + tRCD more if another row is
    open. From the column command to ``read`` `read_latency` cycles, to ``commit`` `write_latency`.
    Throughput one access a cycle, as far as the timing allows it.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration, with ``dram``.

    Attributes
    ----------
    read_latency : int
        CL and the burst, or as long as the adder and the reordering take.
    write_latency : int
        CWL and the burst, or as long as the adder takes.
    interlock : int
        Cycles from the column command of a write to that of the next access which needs its result,
        at least.

    Members
    -------
    access : In, stream of `memory_access`
        What to do. Beyond the memory's size: nothing is written, reads give 0, and the response has
        ``error`` set.
    read : Out, stream of `read_beat`, always ready
        What reads found, in the order of each source.
    commit : Out, stream of `commit`, always ready
        What was written. A read whose column command comes later finds it.
    error : Out, stream of `error_event`, always ready
        ``MEMORY_ERROR``, for each response that has ``error`` set.
    occupancy : Out(16)
        Accesses that have not been issued.
    leaves : Out(1)
        One of them is issued: it does not count from the next cycle on.
    events : Out(dram_events)
        What ``command`` is, for counters.
    command : Out(dram_command)
        What is on the DRAM's command bus.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    ValueError
        If it has no DRAM.
    """

    def __init__(self, *, config):
        checked_config(config)
        if config.dram is None:
            raise ValueError(f"config must have a DRAM, not memory {config.memory!r}")
        self._config = config
        # Enough for all accesses in the window and in the array, and for those that wait for them.
        self._places = max(1 << ceil_log2(4 * config.dram.window), 32)
        self._array = MemoryArray(config=config, meta=range(self._places))
        super().__init__({
            "access": In(stream.Signature(memory_access(config))),
            "read": Out(stream.Signature(read_beat(config), always_ready=True)),
            "commit": Out(stream.Signature(commit(config), always_ready=True)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "occupancy": Out(16),
            "leaves": Out(1),
            "events": Out(dram_events),
            "command": Out(dram_command(config)),
        })

    @property
    def read_latency(self):
        """Cycles from a column command to ``read``, if no earlier read of its source waits."""
        # Array, reordering.
        return max(self._config.dram.read_data, self._array.latency + 2)

    @property
    def write_latency(self):
        """Cycles from a column command to ``commit``."""
        # Array, response.
        return max(self._config.dram.write_data, self._array.latency + 1)

    @property
    def interlock(self):
        """Cycles from a write's column command to that of an access which needs its result."""
        return self._array.interlock

    def elaborate(self, platform):
        m = Module()

        config = self._config
        timing = config.dram
        access_layout = memory_access(config)
        size_shift = ceil_log2(config.memory_bytes)

        m.submodules.array = array = self._array
        m.submodules.banks = banks = DramBanks(timing=timing)
        m.submodules.scheduler = scheduler = DramScheduler(
            timing=timing, beat_width=size_shift - config.beat_shift, interlock=self.interlock)
        m.submodules.reorder = reorder = ReadReorder(config=config, places=self._places)

        # Head: a register, so that all comparisons with the window start at flip-flops.
        head_valid = Signal()
        head = Signal(access_layout)
        head_bank = Signal(timing.bank_groups * timing.banks)
        enters = Signal()
        next_address = self.access.payload.address
        next_bank = dram_location(timing, next_address[config.beat_shift:size_shift]).bank
        m.d.comb += self.access.ready.eq(~head_valid | enters)
        with m.If(self.access.ready):
            m.d.sync += [
                head_valid.eq(self.access.valid),
                head.eq(self.access.payload),
                head_bank.eq(Mux(next_address[size_shift:].any(), 0, 1 << next_bank)),
            ]

        # Into the window, with a place for what it reads.
        waiting = scheduler.access.payload
        m.d.comb += [
            enters.eq(head_valid & scheduler.access.ready & (head.write | reorder.reserve.ready)),
            scheduler.access.valid.eq(head_valid & (head.write | reorder.reserve.ready)),
            waiting.write.eq(head.write),
            waiting.adds.eq(head.write & head.add.any()),
            waiting.outside.eq(head.address[size_shift:].any()),
            waiting.bank.eq(head_bank),
            waiting.row.eq(dram_location(timing, head.address[config.beat_shift:size_shift]).row),
            waiting.beat.eq(head.address[config.beat_shift:size_shift]),
            reorder.reserve.valid.eq(head_valid & scheduler.access.ready & ~head.write),
            reorder.reserve.payload.eq(head.source),
        ]
        m.d.comb += self.leaves.eq(scheduler.issue.valid)
        m.d.sync += self.occupancy.eq(
            self.occupancy + (self.access.valid & self.access.ready) - self.leaves)

        # Whatever the scheduler need not know lies in a memory, by slot.
        stored_layout = data.StructLayout({"access": access_layout, "place": reorder.place.shape()})
        m.submodules.stored = stored = Memory(shape=stored_layout, depth=timing.window, init=[])
        put = stored.write_port()
        get = stored.read_port()
        issued = Signal()
        m.d.comb += [
            put.addr.eq(scheduler.slot),
            put.data.access.eq(head),
            put.data.place.eq(reorder.place),
            put.en.eq(enters),
            get.addr.eq(scheduler.issue.slot),
            array.i.valid.eq(issued),
            array.i.payload.access.eq(get.data.access),
            array.i.payload.meta.eq(get.data.place),
        ]
        m.d.sync += issued.eq(scheduler.issue.valid)

        # Commands to the banks, and one cycle later to the outside.
        for name in ("open", "activate", "precharge", "read", "write"):
            m.d.comb += getattr(scheduler, name).eq(getattr(banks, name))
        told = scheduler.command
        command = self.command
        column_location = dram_location(
            timing, get.data.access.address[config.beat_shift:size_shift])
        m.d.comb += [
            scheduler.close.eq(banks.precharge_all),
            banks.command.eq(told),
            command.column.eq(column_location.column),
            command.column_bank.eq(column_location.bank),
        ]
        m.d.sync += [
            command.row_valid.eq(told.activate.any() | told.precharge.any() | banks.precharge_all
                                 | banks.refresh),
            command.row_op.eq(Mux(told.activate.any(), RowCommand.ACTIVATE,
                                  Mux(banks.precharge_all, RowCommand.PRECHARGE_ALL,
                                      Mux(banks.refresh, RowCommand.REFRESH,
                                          RowCommand.PRECHARGE)))),
            command.row_bank.eq(index_of(told.activate | told.precharge)),
            command.row.eq(scheduler.row),
            command.column_valid.eq(told.read.any() | told.write.any()),
            command.column_op.eq(Mux(told.read.any(), ColumnCommand.READ,
                                     Mux(told.update.any(), ColumnCommand.UPDATE,
                                         ColumnCommand.WRITE))),
        ]
        events = self.events
        for event, valid, operation, codes in (
                (events.activate, command.row_valid, command.row_op, (RowCommand.ACTIVATE,)),
                (events.precharge, command.row_valid, command.row_op,
                 (RowCommand.PRECHARGE, RowCommand.PRECHARGE_ALL)),
                (events.refresh, command.row_valid, command.row_op, (RowCommand.REFRESH,)),
                (events.read, command.column_valid, command.column_op, (ColumnCommand.READ,)),
                (events.write, command.column_valid, command.column_op, (ColumnCommand.WRITE,)),
                (events.update, command.column_valid, command.column_op, (ColumnCommand.UPDATE,))):
            m.d.comb += event.eq(valid & Cat(operation == code for code in codes).any())

        # Responses, in the time of a DRAM.
        result = array.o
        m.d.sync += [
            self.error.valid.eq(result.valid & result.payload.commit.error),
            self.error.payload.cause.eq(ErrorCause.MEMORY_ERROR),
            self.error.payload.address.eq(result.payload.commit.address),
            self.error.payload.tile.eq(result.payload.commit.tile),
        ]
        committed = Signal()
        written = Signal(commit(config))
        found = Signal()
        beat = Signal(reorder.i.payload.shape())
        m.d.comb += [
            committed.eq(result.valid & result.payload.write),
            written.eq(result.payload.commit),
            found.eq(result.valid & ~result.payload.write),
            beat.place.eq(result.payload.meta),
            beat.beat.data.eq(result.payload.data),
        ]
        for field in ("source", "last", "error"):
            m.d.comb += beat.beat[field].eq(result.payload.commit[field])
        _delay(m, "write", (committed, written), (self.commit.valid, self.commit.payload),
               cycles=self.write_latency - array.latency)
        _delay(m, "read", (found, beat), (reorder.i.valid, reorder.i.payload),
               cycles=self.read_latency - array.latency - 2)
        m.d.comb += [
            self.read.valid.eq(reorder.o.valid),
            self.read.payload.eq(reorder.o.payload),
        ]

        return m


def _delay(m, name, source, target, *, cycles):
    """``target`` is ``source`` some cycles ago."""
    for stage in range(cycles):
        later = [Signal.like(signal, name=f"{name}_{stage}_{part}")
                 for part, signal in enumerate(source)]
        m.d.sync += [after.eq(before) for after, before in zip(later, source)]
        source = later
    m.d.comb += [after.eq(before) for after, before in zip(target, source)]
