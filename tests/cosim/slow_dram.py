"""A DRAM model that takes one access at a time: what the bench is tried with."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from t3hw.cosim.dram_checker import DramRules
from t3hw.hdl.seams import (ColumnCommand, RowCommand, commit, dram_command, dram_events,
                            error_event, memory_access, read_beat)


class SlowDram(wiring.Component):
    """For each access: ACT, the column command, PRE, each as early as the bank's rules allow.

    A refresh comes in each tREFI. Beats lie with the group in their address's low bits, then
    columns, banks and rows.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.
    hasty : str or None
        A rule of `DramRules` whose distance is taken a cycle too short.
    refuses : bool
        Whether every response has an error.
    """

    def __init__(self, *, config, hasty=None, refuses=False):
        self._config = config
        self._rules = DramRules.derive(config.dram)
        self._hasty = hasty
        self._refuses = refuses
        super().__init__({
            "access": In(stream.Signature(memory_access(config))),
            "read": Out(stream.Signature(read_beat(config), always_ready=True)),
            "commit": Out(stream.Signature(commit(config), always_ready=True)),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
            "occupancy": Out(16),
            "events": Out(dram_events),
            "command": Out(dram_command(config)),
        })

    def _distance(self, name):
        return getattr(self._rules, name) - (name == self._hasty)

    def elaborate(self, platform):
        m = Module()

        rules, config = self._rules, self._config
        beat = Signal(range(config.memory_bytes // config.beat_bytes))
        m.d.comb += beat.eq(self.access.payload.address >> config.beat_shift)
        group_bits, column_bits, bank_bits = (
            size.bit_length() - 1 for size in (rules.bank_groups, rules.columns, rules.banks))
        group, rest = beat[:group_bits], beat[group_bits:]
        column, rest = rest[:column_bits], rest[column_bits:]
        bank, row = rest[:bank_bits], rest[bank_bits:]

        write, update = Signal(), Signal()
        m.d.comb += [write.eq(self.access.payload.write), update.eq(self.access.payload.add.any())]

        since = Signal(16)  # the last ACT, or the last REF
        wait = Signal(16)   # until the bank can be closed
        closed = Signal(16)  # cycles since PRE
        due = Signal(range(2 * int(rules.refresh_interval)))
        command = self.command
        m.d.sync += [command.eq(0), since.eq(since + 1), closed.eq(closed + 1), due.eq(due + 1),
                     command.row_bank.eq(group | bank << group_bits), command.row.eq(row),
                     command.column_bank.eq(group | bank << group_bits), command.column.eq(column),
                     command.column_op.eq(Mux(update, ColumnCommand.UPDATE,
                                              Mux(write, ColumnCommand.WRITE, ColumnCommand.READ))),
                     self.read.valid.eq(0), self.commit.valid.eq(0), self.error.valid.eq(0)]
        m.d.comb += self.occupancy.eq(self.access.valid)

        with m.FSM():
            with m.State("CLOSED"):
                with m.If(due >= int(rules.refresh_interval) - 40):
                    with m.If(closed >= self._distance("rp")):
                        m.d.sync += [command.row_valid.eq(1), command.row_op.eq(RowCommand.REFRESH),
                                     since.eq(1), due.eq(0)]
                        m.next = "REFRESH"
                with m.Elif(self.access.valid & (closed >= self._distance("rp"))):
                    with m.If(since >= self._distance("rc")):
                        m.d.sync += [command.row_valid.eq(1), since.eq(1),
                                     command.row_op.eq(RowCommand.ACTIVATE)]
                        m.next = "OPEN"
            with m.State("REFRESH"):
                with m.If(since >= self._distance("rfc") - 1):
                    m.next = "CLOSED"
            with m.State("OPEN"):
                with m.If(since >= self._distance("rcd")):
                    m.d.comb += self.access.ready.eq(1)
                    m.d.sync += [
                        command.column_valid.eq(1), self.read.valid.eq(~write),
                        self.commit.valid.eq(write), self.error.valid.eq(int(self._refuses)),
                        wait.eq(Mux(write, self._distance("write_recovery"),
                                    self._distance("rtp"))),
                    ]
                    m.next = "USED"
            with m.State("USED"):
                m.d.sync += wait.eq(Mux(wait == 0, 0, wait - 1))
                with m.If((wait <= 1) & (since >= self._distance("ras"))):
                    # Also where other banks are open, which none is.
                    m.d.sync += [command.row_valid.eq(1), closed.eq(1),
                                 command.row_op.eq(RowCommand.PRECHARGE_ALL)]
                    m.next = "CLOSED"

        return m
