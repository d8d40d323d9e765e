"""DMA front end: commands become blocks, and at their end a doorbell and an interrupt."""

import functools

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .seams import (
    EPOCH_WIDTH, STAMP_WIDTH, MemoryOp, Source, Table, block, block_done, command_done, fire,
    memory_request, plan_views, plan_width, remote_beat, slot_width, small_memory, table_write,
)
from .stream_queue import StreamQueue

__all__ = ["DmaFrontEnd"]


def _command(config):
    """What all tiles of a command have in common, while the front end walks through them.

    ``moves``: it has blocks at all.
    """
    return data.StructLayout({
        "plan": plan_width(config),
        "epoch": EPOCH_WIDTH,
        "route": fire(config)["route"].shape,
        "moves": 1,
        "stamp": STAMP_WIDTH,
    })


def _ending(config):
    """A command that has given all its blocks to the engine, and what it does at its end."""
    return data.StructLayout({
        "plan": plan_width(config),
        "epoch": EPOCH_WIDTH,
        "route": fire(config)["route"].shape,
        "moves": 1,
        "doorbell": 1,
        "remote": 1,
        "interrupt": 1,
    })


class DmaFrontEnd(wiring.Component):
    """Turn each command into blocks, one per tile, by its route and the tile table.

    The blocks of the next command follow at once; commands end in the order in which they fired.
    When the engine has handed over the last block, the command rings its doorbell, then raises its
    interrupt, then is done. A route without DMA, or a command of no tiles, does only these. If some
    of a command's data could not be read, none of the three happens: each would say that the data
    are there. The memory has reported the error, and the plan runs into its time-out.

    Latency `latency` cycles from ``fire`` to the first block. From the last block's ``block_done``
    2 cycles to a doorbell or else ``interrupt``, 3 to ``command_done``; from a taken doorbell 1 and
    2. Throughput one block a cycle, and one command a cycle; one in 2 cycles with doorbells.

    Parameters
    ----------
    config : NodeConfig
        Widths and sizes of the tables.

    Members
    -------
    fire : In(stream of fire)
        Commands to execute. ``ready`` comes from a register.
    table : In(always-ready stream of table_write)
        TILE and ROUTE entries are kept, all others ignored. A write counts from the next cycle.
    plans : In(plan_views)
        Packets carry the epoch that the command's plan has when the command is taken from ``fire``.
    block : Out(stream of block)
        To the engine. The addresses come out of adders behind registers.
    block_done : In(always-ready stream of block_done)
        From the engine, in the order of the blocks.
    doorbell_local : Out(stream of memory_request)
        A STORE of 4 bytes, untracked. The lowest two bits of a doorbell's address are not used.
    doorbell_remote : Out(stream of remote_beat)
        A packet of one beat with the same store, for the neighbour.
    interrupt : Out(1)
        High for one cycle for each command whose route asks for it.
    command_done : Out(always-ready stream of command_done)
        A command has done all that its route asked for.
    ended : Out(always-ready stream of command_done)
        The same, and also a command whose data could not all be read.
    busy : Out(1)
        Some command has been taken from ``fire`` and is not at its end.
    """

    #: Cycles from ``fire`` to the first block.
    latency = 2

    def __init__(self, *, config):
        self._config = config
        super().__init__({
            "fire": In(stream.Signature(fire(config))),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "plans": In(plan_views(config)),
            "block": Out(stream.Signature(block(config))),
            "block_done": In(stream.Signature(block_done(config), always_ready=True)),
            "doorbell_local": Out(stream.Signature(memory_request(config))),
            "doorbell_remote": Out(stream.Signature(remote_beat(config))),
            "interrupt": Out(1),
            "command_done": Out(stream.Signature(command_done(config), always_ready=True)),
            "ended": Out(stream.Signature(command_done(config), always_ready=True)),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        # As many commands as the engine can have single-burst blocks under way, and 4 for the
        # cycles between a block's taking and its command's end; 1 where it may wait for these.
        commands = config.outstanding_reads + (4 if config.pipelined else 1)
        m.submodules.endings = endings = StreamQueue(shape=_ending(config), depth=commands)
        m.submodules.outcomes = outcomes = StreamQueue(shape=1, depth=commands)

        taking = self._start_side(m, endings.i)
        ending = self._end_side(m, endings.o, outcomes)
        m.d.comb += self.busy.eq(taking | endings.o.valid | ending)

        return m

    def _read_port(self, m, table, word, *, addr, en=1, low=0, width=32):
        """Keep bits ``low`` to ``low + width - 1`` of a table's word; return the data at ``addr``.

        Every word is a memory of its own, since software writes one at a time.
        """
        entries = 1 << len(addr)
        # Entries do not change while they are in use, so it does not matter what a read gives in
        # the cycle of a write. Without this word synthesis delays the writes, and muxes them in
        # behind the memory.
        memory = Memory(shape=width, depth=entries, init=[],
                        attrs={"no_rw_check": 1} | small_memory(self._config))
        m.submodules[f"{table.name.lower()}_{word}"] = memory
        write = memory.write_port()
        read = memory.read_port()
        m.d.comb += [
            write.addr.eq(self.table.p.entry),
            write.data.eq(self.table.p.data[low:low + width]),
            write.en.eq(self.table.valid & (self.table.p.table == table)
                        & (self.table.p.word == word)),
            read.addr.eq(addr),
            read.en.eq(en),
        ]
        return read.data

    def _read_address(self, m, word, **port):
        """A route's byte address: words ``word`` and, if addresses are that wide, ``word + 1``."""
        width = self._config.addr_width
        low = self._read_port(m, Table.ROUTE, word, width=min(width, 32), **port)
        if width <= 32:
            return low
        return Cat(low, self._read_port(m, Table.ROUTE, word + 1, width=width - 32, **port))

    def _start_side(self, m, ending):
        """From ``fire`` to ``block``. Returns whether a command is between the two.

        Three stages: in the first a tile's address is at the memories, in the second their data go
        to registers, and its command's route is looked up; in the third all that makes the block.
        """
        config = self._config
        count_width = len(self.fire.p.count)
        # The first stage's tile is of a command that is held, for it has more tiles or could not
        # move on; or else of one that comes in. So ``fire.ready`` is a register, and no cycle is
        # lost by it. What its tiles have in common waits aside until the last has left the second.
        holding = Signal()
        held_slot = Signal(slot_width(config))
        held_count = Signal(count_width)  # tiles that are left
        held_last = Signal()  # one of them, or none at all to move
        held_first = Signal()

        # Whether a route moves data must be known before its memories are read, lest the tiles of a
        # command that moves nothing are walked through.
        dma = Signal(1 << len(self.fire.p.route))
        table = self.table
        with m.If(table.valid & (table.p.table == Table.ROUTE) & (table.p.word == 0)):
            entry = table.p.entry[:len(self.fire.p.route)]
            m.d.sync += dma.bit_select(entry, 1).eq(table.p.data[0])

        moves = Signal()
        entering = Signal(_command(config))
        command = Signal(_command(config))  # of the tile in the second stage
        slot_1 = Signal.like(held_slot)
        count_1 = Signal.like(held_count)
        valid_1 = Signal()
        last_1 = Signal()
        valid_2 = Signal()
        first_2 = Signal()
        last_2 = Signal()
        valid_3 = Signal()
        advance_2 = Signal()
        advance_3 = Signal()
        m.d.comb += [
            moves.eq(dma.bit_select(self.fire.p.route, 1) & (self.fire.p.count != 0)),
            entering.plan.eq(self.fire.p.plan),
            entering.epoch.eq(self.plans[self.fire.p.plan].epoch),
            entering.route.eq(self.fire.p.route),
            entering.moves.eq(moves),
            entering.stamp.eq(self.fire.p.stamp),
            self.fire.ready.eq(~holding),
            valid_1.eq(holding | self.fire.valid),
            slot_1.eq(Mux(holding, held_slot, self.fire.p.first)),
            count_1.eq(Mux(holding, held_count, self.fire.p.count)),
            last_1.eq(Mux(holding, held_last, ~moves | (self.fire.p.count == 1))),
            advance_2.eq(~valid_2 | advance_3),
        ]
        m.d.sync += holding.eq(valid_1 & ~(advance_2 & last_1))
        with m.If(advance_2):
            m.d.sync += [
                valid_2.eq(valid_1),
                first_2.eq(~holding | held_first),
                last_2.eq(last_1),
                held_slot.eq(slot_1 + 1),
                held_count.eq(count_1 - 1),
                held_last.eq(count_1 == 2),
                held_first.eq(0),
            ]
        with m.Elif(~holding):
            m.d.sync += [
                held_slot.eq(slot_1),
                held_count.eq(count_1),
                held_last.eq(last_1),
                held_first.eq(1),
            ]

        tile = {"addr": slot_1, "en": advance_2}
        self._keep_command(m, entering, command, put=self.fire.valid & ~holding,
                           get=advance_3 & valid_2 & last_2)
        route = {"addr": command.route, "en": advance_3}
        after = functools.partial(self._register, m, advance_3)
        # Of what is read only the rows' size matters to memory here.
        shape = self._read_port(m, Table.TILE, 2, width=32 if config.collective else 16, **tile)
        rows = self._read_port(m, Table.TILE, 1, low=16, width=16, **tile)
        wf = Const(0, len(self.block.p.wf))
        if config.wf_width and config.collective:
            wf = self._read_port(m, Table.TILE, 0, low=24, width=len(wf), **tile)
        offset = after("offset", self._read_port(
            m, Table.TILE, 3, width=min(config.addr_width, 32), **tile))
        control = self._read_port(m, Table.ROUTE, 0, width=9, **route)
        plan = after("plan", command.plan)
        epoch = after("epoch", command.epoch)
        last = after("last", last_2)
        moves_3 = after("moves", command.moves)
        room = Signal()
        m.d.comb += [
            room.eq(ending.ready | ~last),
            advance_3.eq(~valid_3 | (room & (self.block.ready | ~moves_3))),
            self.block.valid.eq(valid_3 & moves_3 & room),
            self.block.p.source.eq(self._read_address(m, 1, **route) + offset),
            self.block.p.destination.eq(self._read_address(m, 3, **route) + offset),
            self.block.p.rows.eq(after("rows", rows)),
            self.block.p.row_bytes.eq(after("row_bytes", shape[:16])),
            # Modulo the address space, as all that they are added to.
            self.block.p.source_pitch.eq(
                self._read_port(m, Table.ROUTE, 5, width=min(config.addr_width, 32), **route)),
            self.block.p.destination_pitch.eq(
                self._read_port(m, Table.ROUTE, 6, width=min(config.addr_width, 32), **route)),
            self.block.p.op.eq(control[4:6]),
            self.block.p.dtype.eq(control[6:8]),
            self.block.p.tracked.eq(control[8]),
            self.block.p.plan.eq(plan),
            self.block.p.epoch.eq(epoch),
            self.block.p.wg.eq(after("wg", shape[16:]) if config.collective else 0),
            self.block.p.wf.eq(after("wf", wf)),
            self.block.p.first.eq(after("first", first_2)),
            self.block.p.last.eq(last),
            self.block.p.stamp.eq(after("stamp", command.stamp)),

            ending.valid.eq(valid_3 & advance_3 & last),
            ending.p.plan.eq(plan),
            ending.p.epoch.eq(epoch),
            ending.p.route.eq(after("route", command.route)),
            ending.p.moves.eq(moves_3),
            ending.p.doorbell.eq(control[1]),
            ending.p.interrupt.eq(control[2]),
            ending.p.remote.eq(control[3] & config.collective),
        ]
        with m.If(advance_3):
            m.d.sync += valid_3.eq(valid_2)

        return valid_3 | valid_2 | holding

    def _keep_command(self, m, entering, command, *, put, get):
        """Two places: for the command that is held, and for that of the second stage."""
        m.submodules.commands = memory = Memory(shape=_command(self._config), depth=2, init=[])
        write = memory.write_port()
        read = memory.read_port(transparent_for=[write])
        put_at = Signal()
        get_at = Signal()
        m.d.comb += [
            write.en.eq(put),
            write.addr.eq(put_at),
            write.data.eq(entering),
            read.addr.eq(get_at ^ get),
            command.eq(read.data),
        ]
        m.d.sync += [
            put_at.eq(put_at ^ put),
            get_at.eq(get_at ^ get),
        ]

    @staticmethod
    def _register(m, enable, name, value):
        """The value that was there when ``enable`` was last high."""
        register = Signal.like(value, name=name)
        with m.If(enable):
            m.d.sync += register.eq(value)
        return register

    def _end_side(self, m, ending, outcomes):
        """From the blocks' ends to the commands'. Returns whether a command is at its very end."""
        config = self._config

        # The engine's word on each command that moves data, until its turn comes.
        failed = Signal()
        m.d.comb += [
            outcomes.i.valid.eq(self.block_done.valid & self.block_done.p.last),
            outcomes.i.payload.eq(failed | self.block_done.p.error),
        ]
        with m.If(self.block_done.valid):
            m.d.sync += failed.eq(outcomes.i.payload & ~self.block_done.p.last)

        # While ``ringing`` the memories show the doorbell of the route that is first in line.
        address = self._read_address(m, 7, addr=ending.p.route)
        word = self._read_port(m, Table.ROUTE, 9, addr=ending.p.route)
        ringing = Signal()
        rung = Signal()
        over = Signal()
        good = Signal()
        finish = Signal()
        shift = config.beat_shift
        lanes = config.beat_bytes // 4
        local = self.doorbell_local
        remote = self.doorbell_remote
        m.d.comb += [
            over.eq(ending.valid & (outcomes.o.valid | ~ending.p.moves)),
            good.eq(~(ending.p.moves & outcomes.o.payload)),
            local.valid.eq(ringing & ~ending.p.remote),
            remote.valid.eq(ringing & ending.p.remote),
            rung.eq(ringing & Mux(ending.p.remote, remote.ready, local.ready)),
            finish.eq(rung | (over & ~(ending.p.doorbell & good))),
            ending.ready.eq(finish),
            outcomes.o.ready.eq(finish & ending.p.moves),

            local.p.op.eq(MemoryOp.STORE),
            local.p.source.eq(Source.DMA),
            local.p.last.eq(1),
            remote.p.op.eq(MemoryOp.STORE),
            remote.p.plan.eq(ending.p.plan),
            remote.p.epoch.eq(ending.p.epoch),
            remote.p.last.eq(1),
        ]
        for doorbell in (local, remote):
            m.d.comb += [
                doorbell.p.address.eq(address[shift:] << shift),
                doorbell.p.data.eq(word.replicate(lanes)),
                doorbell.p.strobe.eq(Const(0xF) << Cat(Const(0, 2), address[2:shift])),
            ]
        with m.If(ringing):
            m.d.sync += ringing.eq(~rung)
        with m.Else():
            m.d.sync += ringing.eq(over & ending.p.doorbell & good)

        interrupting = Signal()  # the cycle of ``interrupt``, one before ``command_done``
        finishing = Signal()  # the same cycle, also of a command that failed
        plan = Signal(plan_width(config))
        m.d.sync += [
            interrupting.eq(finish & good),
            self.interrupt.eq(finish & good & ending.p.interrupt),
            plan.eq(ending.p.plan),
            self.command_done.valid.eq(interrupting),
            self.command_done.p.plan.eq(plan),
            finishing.eq(finish),
            self.ended.valid.eq(finishing),
            self.ended.p.plan.eq(plan),
        ]

        return finishing | self.ended.valid
