"""What is under way is counted by plan."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.in_flight import InFlight


@pytest.mark.parametrize("seed", range(3))
def test_busy_equals_a_count_by_plan(seed):
    rng = random.Random(seed)
    config = NodeConfig(plans=3)
    dut = InFlight(config=config, starts=2, ends=1, limit=20)

    async def bench(ctx):
        counts = [0] * config.plans
        for cycle in range(500):
            busy = ctx.get(dut.busy)
            assert busy == sum((count != 0) << plan for plan, count in enumerate(counts)), \
                f"seed {seed}, cycle {cycle}"
            events = []
            for _ in range(2):
                plan = rng.randrange(config.plans)
                valid = rng.random() < 0.4 and sum(counts) < 18
                counts[plan] += valid
                events.append({"valid": valid, "plan": plan})
            ctx.set(dut.start, events)
            running = [plan for plan, count in enumerate(counts) if count]
            valid = bool(running) and rng.random() < 0.7
            plan = rng.choice(running) if running else 0
            counts[plan] -= valid
            ctx.set(dut.end, [{"valid": valid, "plan": plan}])
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
