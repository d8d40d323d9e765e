"""Trigger: counts the full tiles that each command waits for, and fires it when all are there."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .seams import (EPOCH_WIDTH, STAMP_WIDTH, Table, clear_range, fire, plan_views, plan_width,
                    slot_width, small_memory, table_write, tile_full)
from .stream_queue import StreamQueue

__all__ = ["Trigger"]


class Trigger(wiring.Component):
    """Count full tiles per command; queue a `fire` for each command that has all it needs.

    A command fires once an epoch of its plan, whatever comes: further tiles that name it are
    ignored, and so are tiles of another plan. A command that needs 0 tiles, or more than there are
    in the tile table, never fires. As a plan is armed again only after all its fires were used, the
    queue, which has a place for each command, never overflows.

    A clear zeroes the counts in cycles without ``full`` (there are always some: plans have a finite
    number of tiles, and a plan that is to be cleared is not armed any more), and fires of the plan
    that come to the queue's head meanwhile are thrown away. It ends when the queue has none left,
    so it may wait until the fires before them are taken. One that is on offer already must stand
    until it is taken; whoever takes a fire of a plan that is not armed must not carry it out.

    Latency 3 cycles from ``full`` to ``fire`` when the queue is empty; throughput one full tile a
    cycle, any number of them for the same command included, and one fire a cycle. A fire thrown
    away takes a cycle. The cycles: memories are read; their outputs go to registers; the command
    counts or fires.

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
        one cycle when it is done: one cycle without ``full`` for each command, and `clear_cycles`
        more. The plan must not be armed, and its last ``full`` must be 3 cycles old.
    fire : Out, stream of `fire`
        Commands to carry out, in the order in which they became complete.
    queued : Out(plans)
        A bit a plan: it has fires in the queue. Comes up to 4 cycles after ``full``.

    Attributes
    ----------
    latency : int
        Cycles from ``full`` to ``fire``.
    clear_cycles : int
        Cycles that a clear needs beyond one for each command.

    Raises
    ------
    TypeError
        If ``config`` is no `NodeConfig`.
    """

    latency = 3
    clear_cycles = 3

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

        # Software's two words, and what has come. What is kept is how many tiles are to come before
        # the last one, and whether that is none: so nothing is counted or compared on the way to a
        # fire. A command whose first tile has not come has ``begun`` 0, and starts from its need.
        left_layout = data.StructLayout({"tiles": slot_width(config), "none": 1})
        need_layout = data.StructLayout({
            "left": left_layout, "any": 1, "route": fire(config)["route"].shape,
            "plan": plan_width(config)})
        tiles_layout = data.StructLayout({
            "first": slot_width(config), "count": fire(config)["count"].shape})
        seen_layout = data.StructLayout({
            "left": left_layout, "begun": 1, "epoch": EPOCH_WIDTH})

        # What the last two steps make of their commands comes from registers, so it does not
        # matter what a memory returns that is written in the same cycle.
        def memory(shape):
            return Memory(shape=shape, depth=config.commands, init=[],
                          attrs={"no_rw_check": 1} | small_memory(config))

        m.submodules.need = need_memory = memory(need_layout)
        m.submodules.tiles = tiles_memory = memory(tiles_layout)
        m.submodules.seen = seen_memory = memory(seen_layout)
        need_read = need_memory.read_port()
        tiles_read = tiles_memory.read_port()
        seen_write = seen_memory.write_port()
        seen_read = seen_memory.read_port()

        table = self.table.payload
        need_write = need_memory.write_port()
        tiles_write = tiles_memory.write_port()
        before_last = Signal(16)
        m.d.comb += [
            before_last.eq(table.data[:16] - 1),
            need_write.data.left.tiles.eq(before_last),
            need_write.data.left.none.eq(before_last == 0),
            # A need of 0 is too large here, too.
            need_write.data.any.eq(before_last < config.tiles),
            need_write.data.route.eq(table.data[16:20]),
            need_write.data.plan.eq(table.data[20:23]),
            tiles_write.data.first.eq(table.data[:16]),
            tiles_write.data.count.eq(table.data[16:] + 1),
        ]
        for word, write in enumerate((need_write, tiles_write)):
            m.d.comb += [
                write.addr.eq(table.entry),
                write.en.eq(self.table.valid & (table.table == Table.COMMAND)
                            & (table.word == word)),
            ]

        # Stage 0: the read ports take the full tile's command, or the next step of a clear. A
        # list's index is the number of the stage.
        step_layout = data.StructLayout({
            "command": range(config.commands), "plan": plan_width(config), "epoch": EPOCH_WIDTH,
            "stamp": STAMP_WIDTH})
        take = [Signal(name=f"take{stage}") for stage in range(3)]
        zero = [Signal(name=f"zero{stage}") for stage in range(3)]
        step = [Signal(step_layout, name=f"step{stage}", reset_less=True) for stage in range(4)]
        for chain in (take, zero, step):
            m.d.sync += [after.eq(before) for before, after in zip(chain, chain[1:])]
        new = self.full.payload
        walk = Signal(range(config.commands))
        m.d.comb += [
            # The table's size is a power of two of at most half of NO_COMMAND's range, so this is
            # false for NO_COMMAND too.
            take[0].eq(self.full.valid & (new.command < config.commands)),
            step[0].command.eq(Mux(self.full.valid, new.command, walk)),
            step[0].plan.eq(new.plan),
            step[0].epoch.eq(self.plans[new.plan].epoch),
            step[0].stamp.eq(new.stamp),
        ]
        for port in (need_read, tiles_read, seen_read):
            m.d.comb += port.addr.eq(step[0].command)

        clear = self.clear.payload
        standing = Signal()
        with m.FSM(name="walk"):
            with m.State("IDLE"):
                m.d.sync += walk.eq(clear.first_command)
                with m.If(self.clear.valid):
                    with m.If(clear.any_commands):
                        m.next = "CLEAR"
                    with m.Else():
                        m.next = "CLEARED"
            with m.State("CLEAR"):
                m.d.comb += zero[0].eq(~self.full.valid)
                with m.If(~self.full.valid):
                    m.d.sync += walk.eq(walk + 1)
                    with m.If(walk == clear.last_command):
                        m.next = "CLEARED"
            with m.State("CLEARED"):
                # When the last step writes; what enters after this cycle reads behind it.
                m.d.comb += self.clear.ready.eq(
                    ~zero[1] & ~self.queued.bit_select(clear.plan, 1))
                with m.If(self.clear.ready):
                    m.next = "IDLE"

        # Stage 1: the memories' outputs go to registers. Is one of the two steps ahead for the same
        # command, and counts? In stage 2 those in front by 1 and 2 cycles are in stages 3 and 4.
        need = Signal(need_layout, reset_less=True)
        tiles = Signal(tiles_layout, reset_less=True)
        seen = Signal(seen_layout, reset_less=True)
        counts = [None, None] + [Signal(name=f"counts{stage}") for stage in (2, 3)]
        ahead = [None] + [Signal(name=f"ahead{distance}") for distance in (1, 2)]
        m.d.comb += counts[2].eq(take[2] & need.any & (need.plan == step[2].plan))
        m.d.sync += [
            need.eq(need_read.data),
            tiles.eq(tiles_read.data),
            seen.eq(seen_read.data),
            counts[3].eq(counts[2]),
            *(ahead[distance].eq(counts[1 + distance]
                                 & (step[1].command == step[1 + distance].command))
              for distance in (1, 2)),
        ]

        # Stage 2: count, or fire. ``over``: it has fired in this epoch. The memory's epoch is that
        # of a command which counts, since a step ahead that changes it fires.
        over = [None, None] + [Signal(name=f"over{stage}") for stage in (2, 3, 4)]
        left = [None, None] + [Signal(left_layout, name=f"left{stage}") for stage in (2, 3, 4)]
        fires = Signal()
        m.d.comb += [
            over[2].eq(Mux(ahead[1], over[3],
                           Mux(ahead[2], over[4], seen.epoch == step[2].epoch))),
            left[2].eq(Mux(ahead[1], left[3],
                           Mux(ahead[2], left[4], Mux(seen.begun, seen.left, need.left)))),
            fires.eq(counts[2] & ~over[2] & left[2].none),
        ]
        m.d.sync += [
            over[3].eq(over[2] | left[2].none),
            left[3].tiles.eq(left[2].tiles - 1),
            left[3].none.eq(left[2].tiles == 1),
            over[4].eq(over[3]),
            left[4].eq(left[3]),
        ]
        m.d.comb += [
            seen_write.addr.eq(step[2].command),
            seen_write.data.left.tiles.eq(left[2].tiles - 1),
            seen_write.data.left.none.eq(left[2].tiles == 1),
            seen_write.data.begun.eq(~left[2].none & ~zero[2]),
            seen_write.data.epoch.eq(
                Mux(zero[2], 0, Mux(left[2].none, step[2].epoch, seen.epoch))),
            seen_write.en.eq((counts[2] & ~over[2]) | zero[2]),
        ]

        m.submodules.queue = queue = StreamQueue(shape=fire(config), depth=config.commands)
        put = queue.i.payload
        m.d.comb += [
            queue.i.valid.eq(fires),
            put.plan.eq(step[2].plan),
            put.route.eq(need.route),
            put.first.eq(tiles.first),
            put.count.eq(tiles.count),
            put.stamp.eq(step[2].stamp),
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
        came_plan = Signal(plan_width(config))
        gone = Signal()
        gone_plan = Signal.like(came_plan)
        m.d.sync += [
            came.eq(queue.i.valid & queue.i.ready),
            came_plan.eq(put.plan),
            gone.eq(queue.o.valid & queue.o.ready),
            gone_plan.eq(head.plan),
        ]
        for index in range(config.plans):
            count = Signal(range(config.commands + 1), name=f"queued{index}")
            up = Signal(name=f"up{index}")
            down = Signal(name=f"down{index}")
            m.d.comb += [
                up.eq(came & (came_plan == index)),
                down.eq(gone & (gone_plan == index)),
            ]
            with m.If(up & ~down):
                m.d.sync += [count.eq(count + 1), self.queued[index].eq(1)]
            with m.If(down & ~up):
                m.d.sync += [count.eq(count - 1), self.queued[index].eq(count != 1)]

        return m
