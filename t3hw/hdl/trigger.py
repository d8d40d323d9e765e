"""Trigger: counts the full tiles that each command waits for, and fires it when all are there."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .seams import (EPOCH_WIDTH, STAMP_WIDTH, Table, clear_range, fire, plan_views, table_write,
                    tile_full)
from .stream_queue import StreamQueue

__all__ = ["Trigger"]


class Trigger(wiring.Component):
    """Count full tiles per command; queue a `fire` for each command that has all it needs.

    A command fires once an epoch of its plan, whatever comes: further tiles that name it are
    ignored, and so are tiles of another plan. A command that needs 0 tiles never fires. As a plan
    is armed again only after all its fires were used, the queue, which has a place for each
    command, never overflows.

    A clear zeroes the counts in cycles without ``full`` (there are always some: plans have a finite
    number of tiles, and a plan that is to be cleared is not armed any more), and fires of the plan
    that come to the queue's head meanwhile are thrown away. It ends when the queue has none left,
    so it may wait until the fires before them are taken. One that is on offer already must stand
    until it is taken; whoever takes a fire of a plan that is not armed must not carry it out.

    Latency 2 cycles from ``full`` to ``fire`` when the queue is empty; throughput one full tile a
    cycle, any number of them for the same command included, and one fire a cycle. A fire thrown
    away takes a cycle.

    A reset does not empty the counts: after one that is not a power-up software clears each plan
    before it arms it.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Members
    -------
    full : In, stream of `tile_full`, always ready
        Full tiles. Commands that do not exist, `NO_COMMAND` among them, are ignored.
    table : In, stream of `table_write`, always ready
        The command table is taken.
    plans : In(plan_views)
        Only ``epoch`` matters, in the cycle of ``full``.
    clear : In, stream of `clear_range`
        Forget commands ``first_command`` to ``last_command`` and the fires of ``plan``. Ready for
        one cycle when it is done: one cycle without ``full`` for each command, and 2 more. The plan
        must not be armed, and its last ``full`` must be 2 cycles old.
    fire : Out, stream of `fire`
        Commands to carry out, in the order in which they became complete.
    queued : Out(plans)
        A bit a plan: it has fires in the queue. Comes up to 3 cycles after ``full``.

    Attributes
    ----------
    latency : int
        Cycles from ``full`` to ``fire``.

    Raises
    ------
    TypeError
        If ``config`` is no `NodeConfig`.
    """

    latency = 2

    def __init__(self, *, config):
        self._config = checked_config(config)
        super().__init__({
            "full": In(stream.Signature(tile_full(config), always_ready=True)),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "plans": In(plan_views(config)),
            "clear": In(stream.Signature(clear_range(config))),
            "fire": Out(stream.Signature(fire(config))),
            "queued": Out(config.plans),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        fire_layout = fire(config)

        # Software's two words, and what has come: the count, and when the command fired last. The
        # need is kept as the count that a command has before its last tile, so nothing is added
        # before it is compared.
        need_layout = data.StructLayout({"last": 16, "any": 1, "route": 4, "plan": 3})
        tiles_layout = data.StructLayout({"first": 16, "count": 16})
        seen_layout = data.StructLayout({"epoch": EPOCH_WIDTH, "tiles": 16})
        m.submodules.need = need_memory = Memory(
            shape=need_layout, depth=config.commands, init=[])
        m.submodules.tiles = tiles_memory = Memory(
            shape=tiles_layout, depth=config.commands, init=[])
        m.submodules.seen = seen_memory = Memory(
            shape=seen_layout, depth=config.commands, init=[])
        need_read = need_memory.read_port()
        tiles_read = tiles_memory.read_port()
        seen_write = seen_memory.write_port()
        seen_read = seen_memory.read_port(transparent_for=[seen_write])

        table = self.table.payload
        need_write = need_memory.write_port()
        tiles_write = tiles_memory.write_port()
        m.d.comb += [
            need_write.data.last.eq(table.data[:16] - 1),
            need_write.data.any.eq(table.data[:16] != 0),
            need_write.data.route.eq(table.data[16:20]),
            need_write.data.plan.eq(table.data[20:23]),
            tiles_write.data.eq(table.data),
        ]
        for word, write in enumerate((need_write, tiles_write)):
            m.d.comb += [
                write.addr.eq(table.entry),
                write.en.eq(self.table.valid & (table.table == Table.COMMAND)
                            & (table.word == word)),
            ]

        # First cycle: the read ports take the full tile's command, or the next step of a clear.
        new = self.full.payload
        take = Signal()
        walk = Signal(range(config.commands))
        command_now = Signal.like(walk)
        m.d.comb += [
            # The table's size is a power of two of at most half of NO_COMMAND's range, so this is
            # false for NO_COMMAND too.
            take.eq(self.full.valid & (new.command < config.commands)),
            command_now.eq(Mux(take, new.command, walk)),
        ]
        for port in (need_read, tiles_read, seen_read):
            m.d.comb += port.addr.eq(command_now)

        counting = Signal()
        command = Signal.like(walk)
        plan = Signal.like(new.plan)
        epoch = Signal(EPOCH_WIDTH)
        stamp = Signal(STAMP_WIDTH)
        m.d.sync += [
            counting.eq(take),
            command.eq(command_now),
            plan.eq(new.plan),
            epoch.eq(self.plans[new.plan].epoch),
            stamp.eq(new.stamp),
        ]

        clear = self.clear.payload
        zero = Signal()
        standing = Signal()
        m.d.sync += zero.eq(0)
        with m.FSM(name="walk"):
            with m.State("IDLE"):
                m.d.sync += walk.eq(clear.first_command)
                with m.If(self.clear.valid):
                    with m.If(clear.any_commands):
                        m.next = "CLEAR"
                    with m.Else():
                        m.next = "CLEARED"
            with m.State("CLEAR"):
                with m.If(~take):
                    m.d.sync += [
                        zero.eq(1),
                        walk.eq(walk + 1),
                    ]
                    with m.If(walk == clear.last_command):
                        m.next = "CLEARED"
            with m.State("CLEARED"):
                # The last step writes in this cycle, and what enters now reads behind it.
                m.d.comb += self.clear.ready.eq(~self.queued.bit_select(clear.plan, 1))
                with m.If(self.clear.ready):
                    m.next = "IDLE"

        # Second cycle: count, or fire.
        need = need_read.data
        seen = seen_read.data
        counts = Signal()
        fires = Signal()
        m.d.comb += [
            counts.eq(counting & need.any & (need.plan == plan) & (seen.epoch != epoch)),
            fires.eq(counts & (seen.tiles == need.last)),
            seen_write.addr.eq(command),
            seen_write.data.epoch.eq(Mux(zero, 0, Mux(fires, epoch, seen.epoch))),
            seen_write.data.tiles.eq(Mux(zero | fires, 0, seen.tiles + 1)),
            seen_write.en.eq(counts | zero),
        ]

        m.submodules.queue = queue = StreamQueue(shape=fire_layout, depth=config.commands)
        put = queue.i.payload
        m.d.comb += [
            queue.i.valid.eq(fires),
            put.plan.eq(plan),
            put.route.eq(need.route),
            put.first.eq(tiles_read.data.first),
            put.count.eq(tiles_read.data.count + 1),
            put.stamp.eq(stamp),
        ]

        # Out, but for fires of a plan that is being cleared, unless it is on offer already.
        head = queue.o.payload
        drop = Signal()
        m.d.comb += [
            drop.eq(self.clear.valid & (head.plan == clear.plan) & ~standing),
            self.fire.valid.eq(queue.o.valid & ~drop),
            self.fire.payload.eq(head),
            queue.o.ready.eq(self.fire.ready | drop),
        ]
        m.d.sync += standing.eq(self.fire.valid & ~self.fire.ready)

        # How many fires each plan has in the queue, counted one cycle late on both sides.
        came = Signal()
        came_plan = Signal.like(plan)
        left = Signal()
        left_plan = Signal.like(plan)
        m.d.sync += [
            came.eq(queue.i.valid & queue.i.ready),
            came_plan.eq(put.plan),
            left.eq(queue.o.valid & queue.o.ready),
            left_plan.eq(head.plan),
        ]
        for index in range(config.plans):
            count = Signal(range(config.commands + 1), name=f"queued{index}")
            m.d.comb += self.queued[index].eq(count != 0)
            m.d.sync += count.eq(count + (came & (came_plan == index))
                                 - (left & (left_plan == index)))

        return m
