"""Plan state: which plans are armed, how far they are, and what ends them."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import checked_config
from .seams import (ErrorCause, Table, clear_range, command_done, error_event, next_epoch,
                    plan_status, plan_views, plan_width, table_write, tile_full)

__all__ = ["PlanState"]


class PlanState(wiring.Component):
    """Keep the state of every plan, and tell all blocks of it.

    *Arm* takes a plan to its next epoch (`t3hw.hdl.seams.next_epoch`: 1 after reset, then
    2, …, 15, 2, …, so that parities alternate), forgets its counts and starts its timer. When as
    many tiles are full and as many commands are done as the plan has, it is *done* and not armed
    any more; a plan without tiles and commands at once. A plan that is armed for ``timeout`` cycles
    reports ``PLAN_TIMEOUT`` once, and stays armed.

    *Clear* disarms a plan at once. When nothing of it is under way any more (``busy`` is low, and
    low again `drain_cycles` later, when what was between tracker and trigger has become a fire) the
    range that it owns goes out as ``clear``, and when that is taken the plan is as after reset, but
    goes on from the epoch, an even one, that the clear gave it.
    Plans that wait for a clear get it one after another; a busy one holds up no other. Arm is
    ignored while the plan is armed or being cleared, and in a write that also clears.

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
        The plan table is taken; word 0 is the control word. The others must have been written 2
        cycles before it.
    full : In, stream of `tile_full`, always ready
        A tile is full. Ignored for a plan that is not armed.
    command_done : In, stream of `command_done`, always ready
        A command is done. Ignored for a plan that is not armed.
    busy : In(plans)
        A bit a plan: requests of its tiles are between a port and their commit, or a fire of it is
        queued, or the DMA has a command of it. Only looked at when a clear waits, and a cycle late.
        With 0 a clear does not wait for any of these, and the software must see to it.
    plans : Out(plan_views)
        What all blocks need to know, registered.
    status : Out(plan_status)
        What software sees, registered.
    clear : Out, stream of `clear_range`
        What a stopped plan leaves behind; to be taken when it is gone.
    done : Out(plans)
        A bit a plan, high for one cycle when it is done, in the first cycle in which it is not
        armed.
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
    #: A commit counted in the last cycle of ``armed`` makes its plan busy as a fire 9 cycles later.
    drain_cycles = 11

    def __init__(self, *, config):
        self._config = checked_config(config)
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

        # The plans' words, from word 1 on. What a field cannot hold becomes its largest value,
        # which is beyond the table too.
        words_layout = data.StructLayout({
            "first_tile": tiles_shape,
            "tiles": tiles_shape,
            "first_command": commands_shape,
            "commands": commands_shape,
            "timeout": timer_shape,
            "first_touch": touch_shape,
            "touch_beats": touch_shape,
        })
        all_words = Signal(data.ArrayLayout(words_layout, config.plans))
        before_last_tile = Signal(data.ArrayLayout(tiles_shape, config.plans))
        before_last_command = Signal(data.ArrayLayout(commands_shape, config.plans))
        # They are taken a cycle later, when their values have been judged;
        # for a slow clock, at once.
        domain = "sync" if config.pipelined else "comb"
        was_written = Signal(config.plans)
        was_word = Signal.like(table.word)
        m.d[domain] += was_word.eq(table.word)
        saturated = {}
        for width in {field.width for _name, field in words_layout}:
            saturated[width] = Signal(width, name=f"saturated{width}", reset_less=config.pipelined)
            m.d[domain] += saturated[width].eq(_saturated(table.data, width))

        clearing = Signal(config.plans)
        cleared = Signal(config.plans)
        finished = Signal(config.plans)
        timed_out = Signal(config.plans)
        unreported = Signal(config.plans)
        report = Signal(config.plans)

        for index in range(config.plans):
            view = self.plans[index]
            status = self.status[index]
            words = all_words[index]
            # The entry exists, so its low bits tell it.
            written = (self.table.valid & (table.table == Table.PLAN)
                       & (table.entry[:plan_width(config)] == index))
            m.d[domain] += was_written[index].eq(written)
            for number, (name, field) in enumerate(words_layout, start=1):
                with m.If(was_written[index] & (was_word == number)):
                    value = saturated[field.width]
                    m.d.sync += words[name].eq(value)
                    if name == "tiles":
                        m.d.sync += before_last_tile[index].eq(value - 1)
                    if name == "commands":
                        m.d.sync += before_last_command[index].eq(value - 1)

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
            tiles_done = Signal(tiles_shape, name=f"tiles_done{index}")
            commands_done = Signal(commands_shape, name=f"commands_done{index}")
            # Whether it runs, and whether this is its last cycle, is known a cycle before.
            timer = Signal(timer_shape, name=f"timer{index}")
            runs = Signal(name=f"timer_runs{index}")
            expires = Signal(name=f"timer_expires{index}")
            # An event is judged beside the count: is it the last?
            all_tiles = Signal(name=f"all_tiles{index}")
            all_commands = Signal(name=f"all_commands{index}")
            m.d.comb += finish.eq(view.armed & all_tiles & all_commands)
            with m.If(view.armed):
                for event, count, all_, before_last in (
                        (self.full, tiles_done, all_tiles, before_last_tile[index]),
                        (self.command_done, commands_done, all_commands,
                         before_last_command[index])):
                    with m.If(event.valid & (event.payload.plan == index)):
                        m.d.sync += [count.eq(count + 1), all_.eq(count == before_last)]
                m.d.sync += [
                    timer.eq(timer - 1),
                    expires.eq(runs & (timer == 2)),
                ]
                with m.If(expires):
                    m.d.sync += runs.eq(0)
                with m.If(expires & ~finish & ~asked):
                    m.d.sync += [
                        timed_out[index].eq(1),
                        unreported[index].eq(1),
                    ]

            _any_tiles, first_tile, last_tile = _cut(words.first_tile, words.tiles, config.tiles)
            m.d.sync += [
                self.done[index].eq(finish & ~asked),
                view.first_tile.eq(first_tile),
                view.last_tile.eq(last_tile),
            ]
            with m.If(arm):
                m.d.sync += [
                    view.armed.eq(1),
                    view.epoch.eq(next_epoch(view.epoch)),
                    finished[index].eq(0),
                    timed_out[index].eq(0),
                    tiles_done.eq(0),
                    commands_done.eq(0),
                    all_tiles.eq(words.tiles == 0),
                    all_commands.eq(words.commands == 0),
                    timer.eq(words.timeout),
                    runs.eq(words.timeout != 0),
                    expires.eq(words.timeout == 1),
                ]
            with m.If(finish):
                m.d.sync += [
                    view.armed.eq(0),
                    finished[index].eq(1),
                ]
            with m.If(cleared[index]):
                m.d.sync += [
                    clearing[index].eq(0),
                    finished[index].eq(0),
                    timed_out[index].eq(0),
                ]
            with m.If(asked):
                # Last, so it wins; also over the end of the clear before.
                # The epoch changes at once, so that packets of the stopped run are stale from now
                # on, and those of the run after it hold no link. An even one, since what a clear
                # leaves in the first-touch map means "not written" in an odd epoch.
                m.d.sync += [
                    clearing[index].eq(1),
                    view.armed.eq(0),
                    view.epoch.eq(Cat(0, table.data[4:7])),
                ]
            m.d.comb += [
                status.armed.eq(view.armed),
                status.done.eq(finished[index]),
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
                    self.error.payload.tile.slot.eq(self.plans[index].first_tile),
                ]

        # One clear after another. Its range is computed, for one plan at a time, while it drains.
        may_clear = Signal(config.plans)
        # It is gathered from all over the node, and comes late in its cycle.
        was_busy = Signal(config.plans)
        drain = Signal(range(self.drain_cycles))
        range_ = self.clear.payload
        words = all_words[range_.plan]
        m.d.sync += was_busy.eq(self.busy)
        m.d.comb += may_clear.eq(clearing & ~was_busy)
        with m.FSM(name="clear_state"):
            with m.State("IDLE"):
                m.d.sync += drain.eq(self.drain_cycles - 1)
                with m.If(may_clear.any()):
                    m.next = "DRAIN"
                for index in reversed(range(config.plans)):
                    with m.If(may_clear[index]):
                        m.d.sync += range_.plan.eq(index)
            with m.State("DRAIN"):
                m.d.sync += drain.eq(drain - 1)
                for targets, values in (
                        ((range_.any_tiles, range_.first_tile, range_.last_tile),
                         _cut(words.first_tile, words.tiles, config.tiles)),
                        ((range_.any_commands, range_.first_command, range_.last_command),
                         _cut(words.first_command, words.commands, config.commands)),
                        ((range_.any_touch, range_.first_touch, range_.last_touch),
                         _cut(words.first_touch, words.touch_beats, config.touch_beats))):
                    m.d.sync += [target.eq(value) for target, value in zip(targets, values)]
                with m.If(drain == 0):
                    # Busy again: what was between tracker and fire queue has become a fire.
                    with m.If(was_busy.bit_select(range_.plan, 1)):
                        m.next = "IDLE"
                    with m.Else():
                        m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += self.clear.valid.eq(1)
                with m.If(self.clear.ready):
                    m.d.comb += cleared.eq(1 << range_.plan)
                    m.next = "IDLE"

        return m


def _saturated(value, width):
    """``value`` in ``width`` bits, all ones if it is too large."""
    if width >= len(value):
        return value
    return Mux(value[width:].any(), 2 ** width - 1, value[:width])


def _cut(first, count, size):
    """Whether ``count`` entries from ``first`` on are in a table of ``size``,
    the first, the last."""
    any_ = (count != 0) & (first < size)
    end = first + count - 1
    return any_, Mux(any_, first, size - 1), Mux(any_, Mux(end < size, end, size - 1), 0)
