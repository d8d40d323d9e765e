"""Trigger: counts the full tiles that each command waits for, and fires it when all are there."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import NodeConfig
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
    number of tiles, and a plan that is to be cleared is not armed any more). Fires of the plan that
    are in the queue when the clear begins are thrown away as they come to its head, however late.
    For this there are two counters a plan, fires in the queue and how many of them, the oldest, are
    stale; so a clear need not wait until the queue moves, and the plan may be armed again at once.
    Only a fire that is on offer already must stand, and the clear waits until it is taken. Whoever
    takes a fire of a plan that is not armed must not carry it out.

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
        must not be armed.
    fire : Out, stream of `fire`
        Commands to carry out, in the order in which they became complete.

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
        if not isinstance(config, NodeConfig):
            raise TypeError(f"config must be a NodeConfig, not {config!r}")
        self._config = config
        super().__init__({
            "full": In(stream.Signature(tile_full(config), always_ready=True)),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "plans": In(plan_views(config)),
            "clear": In(stream.Signature(clear_range(config))),
            "fire": Out(stream.Signature(fire(config))),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        fire_layout = fire(config)

        # Software's two words, and what has come: the count, and when the command fired last.
        need_layout = data.StructLayout({"need": 16, "route": 4, "plan": 3})
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
        for word, memory in enumerate((need_memory, tiles_memory)):
            write = memory.write_port()
            m.d.comb += [
                write.addr.eq(table.entry),
                write.data.eq(table.data),
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
        begin_clear = Signal()
        standing = Signal()
        m.d.sync += zero.eq(0)
        with m.FSM(name="walk"):
            with m.State("IDLE"):
                m.d.sync += walk.eq(clear.first_command)
                with m.If(self.clear.valid):
                    m.d.comb += begin_clear.eq(1)
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
                m.d.comb += self.clear.ready.eq(~standing)
                with m.If(~standing):
                    m.next = "IDLE"

        # Second cycle: count, or fire.
        need = need_read.data
        seen = seen_read.data
        tiles_seen = Signal(16)
        counts = Signal()
        fires = Signal()
        m.d.comb += [
            tiles_seen.eq(seen.tiles + 1),
            counts.eq(counting & (need.need != 0) & (need.plan == plan) & (seen.epoch != epoch)),
            fires.eq(counts & (tiles_seen == need.need)),
            seen_write.addr.eq(command),
            seen_write.data.epoch.eq(Mux(zero, 0, Mux(fires, epoch, seen.epoch))),
            seen_write.data.tiles.eq(Mux(zero | fires, 0, tiles_seen)),
            seen_write.en.eq(counts | zero),
        ]

        m.submodules.queue = queue = StreamQueue(shape=fire_layout, depth=config.commands)
        put = queue.i.payload
        m.d.comb += [
            queue.i.valid.eq(fires),
            put.plan.eq(need.plan),
            put.route.eq(need.route),
            put.first.eq(tiles_read.data.first),
            put.count.eq(tiles_read.data.count + 1),
            put.stamp.eq(stamp),
        ]

        # Out, but for stale fires. A plan's fires keep their order, so its stale ones come first;
        # before them stands at most the one that was on offer when the clear began.
        head = queue.o.payload
        stands = Signal()
        drop = Signal()
        pushed = Signal(config.plans)
        left = Signal(config.plans)
        stale = Signal(config.plans)
        m.d.comb += [
            stands.eq(self.fire.valid & ~self.fire.ready & (head.plan == clear.plan)),
            drop.eq(stale.any() & ~standing),
            self.fire.valid.eq(queue.o.valid & ~drop),
            self.fire.payload.eq(head),
            queue.o.ready.eq(self.fire.ready | drop),
        ]
        with m.If(begin_clear & stands):
            m.d.sync += standing.eq(1)
        with m.Elif(self.fire.ready):
            m.d.sync += standing.eq(0)
        for index in range(config.plans):
            in_queue = Signal(range(config.commands + 1), name=f"in_queue{index}")
            in_queue_next = Signal.like(in_queue, name=f"in_queue_next{index}")
            stale_count = Signal.like(in_queue, name=f"stale_count{index}")
            m.d.comb += [
                pushed[index].eq(queue.i.valid & queue.i.ready & (put.plan == index)),
                left[index].eq(queue.o.valid & queue.o.ready & (head.plan == index)),
                stale[index].eq((head.plan == index) & (stale_count != 0)),
                in_queue_next.eq(in_queue + pushed[index] - left[index]),
            ]
            m.d.sync += in_queue.eq(in_queue_next)
            with m.If(begin_clear & (clear.plan == index)):
                m.d.sync += stale_count.eq(in_queue_next - stands)
            with m.Elif(left[index] & drop):
                m.d.sync += stale_count.eq(stale_count - 1)

        return m
