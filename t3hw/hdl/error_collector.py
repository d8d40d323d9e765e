"""Error collector: remembers what went wrong, from any number of blocks at once."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import checked_config
from .popcount import popcount
from .seams import ErrorCause, error_event

__all__ = ["ErrorCollector"]

COUNT_WIDTH = 32


class ErrorCollector(wiring.Component):
    """Turn error reports into sticky bits, a capture of the first error, and a count.

    Every source may report in every cycle, all of them in the same one; no cause is lost and each
    report is counted. Where bits are cleared and set in one cycle, the set wins.

    Latency 1 cycle from a report to ``status``, ``first`` and ``reported``, 2 cycles to ``count``;
    throughput one report a source and cycle.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.
    sources : int
        Number of reporting blocks, at least 1.

    Members
    -------
    error : In, ``sources`` streams of `error_event`, always ready
        The reports.
    clear : In(causes)
        Bits of ``status`` to clear, for one cycle.
    clear_count : In(1)
        Count from 0 on, beginning with those in ``reported``.
    status : Out(causes)
        Bit per `ErrorCause`: it was reported since it was last cleared.
    first_valid : Out(1), first : Out(error_event)
        The first report since ``status`` was last 0, or was cleared to 0; of several in one cycle
        that of the lowest source.
    reported : Out(range(sources + 1))
        Number of reports in the cycle before.
    count : Out(32)
        Reports since ``clear_count``; stays at its largest value.

    Raises
    ------
    ValueError
        If ``sources`` is not at least 1.
    """

    def __init__(self, *, config, sources):
        checked_config(config)
        if not isinstance(sources, int) or sources < 1:
            raise ValueError(f"sources must be an integer of at least 1, not {sources!r}")
        self._config = config
        self._sources = sources
        causes = max(cause.value for cause in ErrorCause) + 1
        super().__init__({
            "error": In(stream.Signature(error_event(config), always_ready=True)).array(sources),
            "clear": In(causes),
            "clear_count": In(1),
            "status": Out(causes),
            "first_valid": Out(1),
            "first": Out(error_event(config)),
            "reported": Out(range(sources + 1)),
            "count": Out(COUNT_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()

        valid = Signal(self._sources)
        m.d.comb += [valid[index].eq(source.valid) for index, source in enumerate(self.error)]

        # Each source's cause as a bit of its own vector, so that no source can mask another.
        causes = len(self.status)
        incoming = Signal(causes)
        reports = []
        for index, source in enumerate(self.error):
            reports.append(hot := Signal(causes, name=f"causes_{index}"))
            m.d.comb += hot.eq(Mux(source.valid, 1 << source.p.cause.as_value(), 0))
        for hot in reports:
            incoming = incoming | hot

        left = Signal(causes)
        m.d.comb += left.eq(self.status & ~self.clear)
        m.d.sync += [
            self.status.eq(left | incoming),
            self.reported.eq(popcount(valid)),
        ]

        # With no bit left from before, whatever comes in this cycle is the first error.
        with m.If(left == 0):
            m.d.sync += self.first_valid.eq(valid.any())
            for index, source in reversed(list(enumerate(self.error))):
                with m.If(source.valid):
                    m.d.sync += self.first.eq(source.payload)

        total = Signal(COUNT_WIDTH + 1)
        m.d.comb += total.eq(Mux(self.clear_count, 0, self.count) + self.reported)
        m.d.sync += self.count.eq(Mux(total[COUNT_WIDTH], 2 ** COUNT_WIDTH - 1, total))

        return m
