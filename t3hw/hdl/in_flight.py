"""In flight: which plans have requests or commands under way."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .seams import plan_width

__all__ = ["InFlight"]


class InFlight(wiring.Component):
    """Count, for each plan, what has begun and has not ended.

    Latency 1 cycle from an event to ``busy``; throughput ``starts`` + ``ends`` events a cycle.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.
    starts, ends : int
        Number of places where something may begin and end in each cycle.
    limit : int
        Most that can be under way for a plan.

    Members
    -------
    start, end : In, arrays of ``{valid, plan}``
        Something of the plan begins or ends in this cycle.
    busy : Out(plans)
        A bit a plan: something of it is under way.
    """

    def __init__(self, *, config, starts, ends, limit):
        self._config = config
        self._limit = limit
        event = data.StructLayout({"valid": 1, "plan": plan_width(config)})
        super().__init__({
            "start": In(data.ArrayLayout(event, starts)),
            "end": In(data.ArrayLayout(event, ends)),
            "busy": Out(config.plans),
        })

    def elaborate(self, platform):
        m = Module()

        for plan in range(self._config.plans):
            def of_plan(events):
                return sum((event.valid & (event.plan == plan) for event in events), start=0)

            count = Signal(range(self._limit + 1), name=f"count_{plan}")
            m.d.sync += count.eq(count + of_plan(self.start) - of_plan(self.end))
            m.d.comb += self.busy[plan].eq(count != 0)

        return m
