"""AXI select: the selected master has the slave, the others have nothing."""

import random

import pytest
from amaranth.sim import Simulator

from t3hw.config import NodeConfig
from t3hw.hdl.axi_select import AxiSelect

CONFIG = NodeConfig.preset("tiny")


@pytest.mark.parametrize("masters, seed", [(2, 1), (3, 2)])
def test_signals_pass_at_once_and_to_one_master_only(masters, seed):
    print("seed", seed)
    rng = random.Random(seed)
    dut = AxiSelect(config=CONFIG, masters=masters)

    def random_bits(payload):
        return payload.shape().from_bits(rng.getrandbits(len(payload.as_value())))

    async def bench(ctx):
        for _round in range(200):
            chosen = rng.randrange(masters)
            ctx.set(dut.select, chosen)
            for name in ("aw", "w", "ar"):
                slave, ports = getattr(dut, name), getattr(dut, f"i_{name}")
                ready, valid = rng.randrange(2), [rng.randrange(2) for _ in ports]
                payloads = [random_bits(port.payload) for port in ports]
                ctx.set(slave.ready, ready)
                for port, payload, offered in zip(ports, payloads, valid):
                    ctx.set(port.payload, payload)
                    ctx.set(port.valid, offered)
                assert ctx.get(slave.valid) == valid[chosen]
                assert ctx.get(slave.payload) == payloads[chosen]
                assert [ctx.get(port.ready) for port in ports] == [
                    ready if number == chosen else 0 for number in range(masters)]
            for name in ("b", "r"):
                slave, ports = getattr(dut, name), getattr(dut, f"i_{name}")
                valid, ready = rng.randrange(2), [rng.randrange(2) for _ in ports]
                payload = random_bits(slave.payload)
                ctx.set(slave.valid, valid)
                ctx.set(slave.payload, payload)
                for port, taken in zip(ports, ready):
                    ctx.set(port.ready, taken)
                assert ctx.get(slave.ready) == ready[chosen]
                assert ctx.get(ports[chosen].payload) == payload
                assert [ctx.get(port.valid) for port in ports] == [
                    valid if number == chosen else 0 for number in range(masters)]
            await ctx.delay(1e-9)

    # There is nothing to clock.
    sim = Simulator(dut)
    sim.add_testbench(bench)
    sim.run()
