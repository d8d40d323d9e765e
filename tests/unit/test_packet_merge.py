"""Packets of two streams come out whole, in each stream's order, in turn."""

import random

import pytest
from amaranth.lib import data
from amaranth.sim import Simulator

from t3hw.hdl.packet_merge import PacketMerge

SHAPE = data.StructLayout({"value": 8, "last": 1})


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_packets_stay_whole_and_in_order(seed, ahead):
    rng = random.Random(seed)
    dut = PacketMerge(shape=SHAPE, ahead=ahead)
    sent = {which: [[(which << 7) | rng.randrange(128) for _ in range(rng.randint(1, 5))]
                    for _ in range(30)] for which in (0, 1)}
    received = []

    def source(port, packets):
        async def bench(ctx):
            for packet in packets:
                for number, value in enumerate(packet):
                    while rng.random() < 0.3:
                        await ctx.tick()
                    ctx.set(port.payload, {"value": value, "last": number == len(packet) - 1})
                    ctx.set(port.valid, 1)
                    await ctx.tick().until(port.ready)
                    ctx.set(port.valid, 0)
        return bench

    async def sink(ctx):
        wanted = sum(len(packet) for packets in sent.values() for packet in packets)
        before = None
        for _cycle in range(6000):
            ctx.set(dut.o.ready, rng.random() < 0.7)
            _, _, valid, ready, payload = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload)
            now = (payload.value, payload.last) if valid else None
            assert before is None or now == before, f"seed {seed}: an offer was withdrawn"
            before = None
            if valid and ready:
                received.append((payload.value, payload.last))
                if len(received) == wanted:
                    return
            elif valid:
                before = now
        pytest.fail(f"seed {seed}: {len(received)} of {wanted} beats after 6000 cycles")

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(source(dut.a, sent[0]))
    sim.add_testbench(source(dut.b, sent[1]))
    sim.add_testbench(sink)
    sim.run()
    packets, packet = {0: [], 1: []}, []
    for value, last in received:
        packet.append(value)
        if last:
            packets[packet[0] >> 7].append(packet)
            packet = []
    assert packets == sent


@pytest.mark.parametrize("ahead", [False, True])
def test_latency_is_zero_throughput_one_and_turns_are_fair(ahead):
    dut = PacketMerge(shape=SHAPE, ahead=ahead)
    values = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.a.valid, 1)
        ctx.set(dut.a.payload, {"value": 1, "last": 1})
        ctx.set(dut.b.valid, 1)
        ctx.set(dut.b.payload, {"value": 2, "last": 1})
        for _cycle in range(40):
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            assert valid
            values.append(payload.value)

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
    assert values.count(1) == values.count(2) == 20
    assert all(one != other for one, other in zip(values, values[1:]))


def test_if_the_choice_is_made_ahead_the_second_waits_a_cycle_alone():
    dut = PacketMerge(shape=SHAPE, ahead=True)
    valids = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.b.valid, 1)
        ctx.set(dut.b.payload, {"value": 2, "last": 1})
        for _cycle in range(6):
            valids.append((await ctx.tick().sample(dut.o.valid))[2])

    sim = Simulator(dut)
    sim.add_clock(10e-9)
    sim.add_testbench(bench)
    sim.run()
    assert valids == [0, 1, 0, 1, 0, 1]
