"""Plan state: which plans are armed, how far they are, and what ends them."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import NodeConfig
from .seams import (ErrorCause, Table, clear_range, command_done, error_event, next_epoch,
                    plan_status, plan_views, table_write, tile_full)

__all__ = ["PlanState"]


class PlanState(wiring.Component):
    """Keep the state of every plan, and tell all blocks of it.

    *Arm* takes a plan to its next epoch (`t3hw.hdl.seams.next_epoch`: 1 after reset or clear, then 2,
    …, 15, 2, …, so that parities alternate), forgets its counts and starts its timer. When as many
    tiles are full and as many commands are done as the plan has, it is *done* and not armed any more; a
    plan without tiles and commands at once. A plan that is armed for ``timeout`` cycles reports
    ``PLAN_TIMEOUT`` once, and stays armed.

    *Clear* disarms a plan at once. When nothing of it is under way any more (``busy`` is low, and then
    `drain_cycles` for what is between tracker and trigger) the range that it owns goes out as ``clear``,
    and when that is taken the plan is as after reset. Plans that wait for a clear get it one after
    another; a busy one holds up no other. Arm is ignored while the plan is armed or being cleared, and
    in a write that also clears.

    Ranges are those of the plan's table words. What reaches over the end of a table is cut off in
    ``clear`` and ``plans``, where an empty range has its first after its last. A number of tiles or
    commands that is larger than the table never completes.

    Latency: 1 cycle from the table write to ``armed``; 2 cycles from the last ``full`` or
    ``command_done`` to ``done``; throughput one event of each kind a cycle.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Members
    -------
    table : In, stream of `table_write`, always ready
        The plan table is taken; word 0 is the control word.
    full : In, stream of `tile_full`, always ready
        A tile is full. Ignored for a plan that is not armed.
    command_done : In, stream of `command_done`, always ready
        A command is done. Ignored for a plan that is not armed.
    busy : In(plans)
        A bit a plan: requests of its tiles are between a port and their commit, or the DMA has a
        command of it. Only looked at when a clear waits. 0 is allowed if the software sees to it.
    plans : Out(plan_views)
        What all blocks need to know, registered.
    status : Out(plan_status)
        What software sees, registered.
    clear : Out, stream of `clear_range`
        What a stopped plan leaves behind; to be taken when it is gone.
    done : Out(plans)
        A bit a plan, high for one cycle when it is done, in the first cycle in which it is not armed.
    error : Out, stream of `error_event`, always ready
        ``PLAN_TIMEOUT``; the tile's ``plan`` is the plan and its ``slot`` the plan's first.

    Attributes
    ----------
    latency : int
        Cycles from the last event to ``done``.
    drain_cycles : int
        Cycles between the choice of a plan to clear and ``clear``.

    Raises
    ------
    TypeError
        If ``config`` is no `NodeConfig`.
    """

    latency = 2
    #: A commit that was counted in the last cycle of ``armed`` reaches the fire queue 4 cycles later.
    drain_cycles = 8

    def __init__(self, *, config):
        if not isinstance(config, NodeConfig):
            raise TypeError(f"config must be a NodeConfig, not {config!r}")
        self._config = config
        super().__init__({
            "table": In(stream.Signature(table_write(config), always_ready=True)),
            "full": In(stream.Signature(tile_full(config), always_ready=True)),
            "command_done": In(stream.Signature(command_done(config), always_ready=True)),
            "busy": In(config.plans),
            "plans": Out(plan_views(config)),
            "status": Out(plan_status(config)),
            "clear": Out(stream.Signature(clear_range(config))),
            "done": Out(config.plans),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        table = self.table.payload
        tiles_shape = unsigned(bits_for(config.tiles))
        commands_shape = unsigned(bits_for(config.commands))
        touch_shape = unsigned(bits_for(config.touch_beats))
        timer_shape = unsigned(32)

        ranges = Signal(data.ArrayLayout(clear_range(config), config.plans))
        clearing = Signal(config.plans)
        cleared = Signal(config.plans)
        timed_out = Signal(config.plans)
        unreported = Signal(config.plans)
        report = Signal(config.plans)

        for index in range(config.plans):
            view = self.plans[index]
            status = self.status[index]

            def register(name, shape, plan=index):
                return Signal(shape, name=f"{name}{plan}")

            # The plan's words. What a register cannot hold becomes its largest value, which is beyond
            # the table too.
            first_tile = register("first_tile", tiles_shape)
            tiles = register("tiles", tiles_shape)
            first_command = register("first_command", commands_shape)
            commands = register("commands", commands_shape)
            first_touch = register("first_touch", touch_shape)
            touch_beats = register("touch_beats", touch_shape)
            timeout = register("timeout", timer_shape)
            written = self.table.valid & (table.table == Table.PLAN) & (table.entry == index)
            with m.If(written):
                with m.Switch(table.word):
                    for word, target in enumerate((first_tile, tiles, first_command, commands, timeout,
                                                   first_touch, touch_beats), start=1):
                        with m.Case(word):
                            m.d.sync += target.eq(_saturated(table.data, len(target)))

            range_ = ranges[index]
            m.d.comb += range_.plan.eq(index)
            for any_, first, last, start, length, size in (
                    (range_.any_tiles, range_.first_tile, range_.last_tile,
                     first_tile, tiles, config.tiles),
                    (range_.any_commands, range_.first_command, range_.last_command,
                     first_command, commands, config.commands),
                    (range_.any_touch, range_.first_touch, range_.last_touch,
                     first_touch, touch_beats, config.touch_beats)):
                end = start + length - 1
                m.d.comb += [
                    any_.eq((length != 0) & (start < size)),
                    first.eq(Mux(any_, start, size - 1)),
                    last.eq(Mux(any_, Mux(end < size, end, size - 1), 0)),
                ]

            # Control.
            asked = Signal(name=f"asked{index}")
            arm = Signal(name=f"arm{index}")
            finish = Signal(name=f"finish{index}")
            m.d.comb += [
                asked.eq(written & (table.word == 0) & table.data[1]),
                arm.eq(written & (table.word == 0) & table.data[0] & ~asked
                       & ~view.armed & ~clearing[index]),
            ]

            # Progress.
            with m.If(report[index]):
                m.d.sync += unreported[index].eq(0)
            tiles_done = register("tiles_done", tiles_shape)
            commands_done = register("commands_done", commands_shape)
            timer = register("timer", timer_shape)
            m.d.comb += finish.eq(view.armed & (tiles_done == tiles) & (commands_done == commands))
            with m.If(view.armed):
                with m.If(self.full.valid & (self.full.payload.plan == index)):
                    m.d.sync += tiles_done.eq(tiles_done + 1)
                with m.If(self.command_done.valid & (self.command_done.payload.plan == index)):
                    m.d.sync += commands_done.eq(commands_done + 1)
                with m.If(timer != 0):
                    m.d.sync += timer.eq(timer - 1)
                with m.If((timer == 1) & ~finish & ~asked):
                    m.d.sync += [
                        timed_out[index].eq(1),
                        unreported[index].eq(1),
                    ]

            m.d.sync += [
                self.done[index].eq(finish & ~asked),
                view.first_tile.eq(range_.first_tile),
                view.last_tile.eq(range_.last_tile),
            ]
            with m.If(arm):
                m.d.sync += [
                    view.armed.eq(1),
                    view.epoch.eq(next_epoch(view.epoch)),
                    status.done.eq(0),
                    timed_out[index].eq(0),
                    tiles_done.eq(0),
                    commands_done.eq(0),
                    timer.eq(timeout),
                ]
            with m.If(finish):
                m.d.sync += [
                    view.armed.eq(0),
                    status.done.eq(1),
                ]
            with m.If(cleared[index]):
                m.d.sync += [
                    clearing[index].eq(0),
                    view.epoch.eq(0),
                    status.done.eq(0),
                    timed_out[index].eq(0),
                ]
            with m.If(asked):
                # Last, so it wins; also over the end of the clear before.
                m.d.sync += [
                    clearing[index].eq(1),
                    view.armed.eq(0),
                ]
            m.d.comb += [
                status.armed.eq(view.armed),
                status.timed_out.eq(timed_out[index]),
                status.clearing.eq(clearing[index]),
                status.epoch.eq(view.epoch),
                status.tiles_done.eq(tiles_done),
                status.commands_done.eq(commands_done),
            ]

        # One time-out report a cycle; several plans may time out in one.
        m.d.comb += report.eq(unreported & -unreported)
        m.d.sync += [
            self.error.valid.eq(unreported.any()),
            self.error.payload.cause.eq(ErrorCause.PLAN_TIMEOUT),
            self.error.payload.tile.tracked.eq(1),
        ]
        for index in range(config.plans):
            with m.If(report[index]):
                m.d.sync += [
                    self.error.payload.tile.plan.eq(index),
                    self.error.payload.tile.slot.eq(ranges[index].first_tile),
                ]

        # One clear after another.
        may_clear = Signal(config.plans)
        drain = Signal(range(self.drain_cycles))
        m.d.comb += may_clear.eq(clearing & ~self.busy)
        with m.FSM(name="clear_state"):
            with m.State("IDLE"):
                m.d.sync += drain.eq(self.drain_cycles - 1)
                with m.If(may_clear.any()):
                    m.next = "DRAIN"
                for index in reversed(range(config.plans)):
                    with m.If(may_clear[index]):
                        m.d.sync += self.clear.payload.eq(ranges[index])
            with m.State("DRAIN"):
                m.d.sync += drain.eq(drain - 1)
                with m.If(drain == 0):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += self.clear.valid.eq(1)
                with m.If(self.clear.ready):
                    m.d.comb += cleared.eq(1 << self.clear.payload.plan)
                    m.next = "IDLE"

        return m


def _saturated(value, width):
    """``value`` in ``width`` bits, all ones if it is too large."""
    if width >= len(value):
        return value
    return Mux(value[width:].any(), 2 ** width - 1, value[:width])
