"""The deep queue keeps order, and nobody sees which way a transfer took."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.hdl.deep_queue import DeepQueue


def simulate(dut, bench):
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("depth", [1, 3, DeepQueue.front, DeepQueue.front + 1, 100])
@pytest.mark.parametrize("seed", range(3))
def test_each_transfer_comes_one_cycle_after_it_can(depth, seed):
    """Against a list, in every cycle: what is in the queue is on offer in the next cycle."""
    rng = random.Random(seed)
    dut = DeepQueue(shape=16, depth=depth)
    note = f"depth {depth} seed {seed}"

    async def bench(ctx):
        held, number, most = [], 0, 0
        for cycle in range(3000):
            # Now and then it fills up, and empties.
            if cycle % 150 == 0:
                puts, gets = rng.choice(
                    ((1, 0), (0.9, 0.3), (0.5, 0.5), (1, 1), (0.3, 0.9), (0, 1)))
            valid, ready = rng.random() < puts, rng.random() < gets
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, number)
            ctx.set(dut.o.ready, ready)
            _, _, room, offered, payload = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.payload)
            assert offered == bool(held), f"{note} cycle {cycle}"
            assert room or len(held) >= depth, f"{note} cycle {cycle}: full with {len(held)}"
            if offered:
                assert payload == held[0], f"{note} cycle {cycle}"
                if ready:
                    del held[0]
            if valid and room:
                held.append(number)
                number += 1
            most = max(most, len(held))
        assert most >= depth, f"{note}: never full"

    simulate(dut, bench)


@pytest.mark.parametrize("depth", [0, -1, 1.5, None])
def test_bad_depth_is_refused_with_its_value(depth):
    with pytest.raises(ValueError, match=rf"not {depth!r}"):
        DeepQueue(shape=8, depth=depth)
