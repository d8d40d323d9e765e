"""Egress and ingress back to back: every beat arrives, once, in order, whatever the wire."""

import random

import pytest
from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from link_packets import STORE, Packet, random_payload, remote_beats
from region_agents import Region, getter, monitor, put, wait_for, write_regions
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.link_delay import LinkDelay
from t3hw.hdl.link_egress import LinkEgress
from t3hw.hdl.link_ingress import LinkIngress
from t3hw.hdl.prefetch_queue import PrefetchQueue
from t3hw.hdl.seams import memory_request, remote_beat, table_write

TINY = NodeConfig.preset("tiny").replace(regions=2)


class Loop(wiring.Component):
    """An egress whose link ends in an ingress."""

    def __init__(self, *, config):
        self.egress = LinkEgress(config=config)
        self.ingress = LinkIngress(config=config)
        super().__init__({
            "producer": In(stream.Signature(remote_beat(config))),
            "dma": In(stream.Signature(remote_beat(config))),
            "request": Out(stream.Signature(memory_request(config))),
            "table": In(stream.Signature(table_write(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.egress = egress = self.egress
        m.submodules.ingress = ingress = self.ingress
        wiring.connect(m, wiring.flipped(self.producer), egress.producer)
        wiring.connect(m, wiring.flipped(self.dma), egress.dma)
        wiring.connect(m, egress.tx, ingress.rx)
        wiring.connect(m, wiring.flipped(self.request), ingress.request)
        wiring.connect(m, wiring.flipped(self.table), ingress.table)
        m.d.comb += egress.credit.eq(ingress.credit)
        return m


@pytest.mark.parametrize("credits, max_latency, latency, interval", [
    (4, 0, 0, 1), (4, 64, 0, 1), (4, 64, 64, 1), (5, 64, 1, 7), (4, 64, 13, 3), (64, 1024, 1000, 1),
    (2100, 1024, 1000, 1), (64, 1024, 1000, 7), (7, 0, 0, 2),
])
@pytest.mark.parametrize("pace", [0.5, 1.0])
def test_every_beat_comes_through(credits, max_latency, latency, interval, pace):
    config = TINY.replace(link_credits=credits, link_max_latency=max_latency)
    rng = random.Random(f"{credits} {latency} {interval} {pace}")
    dut = Loop(config=config)
    received, errors = [], []
    sources = {}
    for number, source in enumerate((dut.producer, dut.dma)):
        packets = []
        for _ in range(40 if credits > 1000 else 10):
            address = number << 15 | rng.randrange(0x1000) * 4
            payload = random_payload(rng, config, rng.randint(1, config.burst_beats))
            # A beat without strobes asks for nothing.
            payload = [(data, strobe or 1) for data, strobe in payload]
            packets.append(Packet(address=address, op=STORE, beats=payload))
        sources[source] = packets
    total = sum(len(packet.beats) for packets in sources.values() for packet in packets)
    written = False

    def sender(source, seed):
        async def bench(ctx):
            await wait_for(ctx, lambda: written, cycles=100, what="table")
            beats = [beat for packet in sources[source] for beat in remote_beats(config, packet)]
            await put(ctx, source, beats, rng=random.Random(seed), pace=pace)
        return bench

    async def main(ctx):
        nonlocal written
        ctx.set(dut.egress.latency, latency)
        ctx.set(dut.egress.interval, interval)
        await write_regions(ctx, dut.table, [Region(base=0, limit=0xFFFF, accept_store=1)])
        written = True
        # Rounds of credits, each as long as the wire is, and a reserve.
        rounds = 3 * total / credits + 2
        await wait_for(ctx, lambda: len(received) == total,
                       cycles=int(rounds * (2 * latency + 40) + 4 * total * interval / pace),
                       what=lambda: f"{len(received)} of {total} beats")

    simulate(dut, main, sender(dut.producer, 1), sender(dut.dma, 2), background=[
        getter(dut.request, received, rng=rng, pace=pace,
               convert=lambda request: tuple(
                   getattr(request, name) for name in ("address", "data", "strobe", "last"))),
        monitor(dut.egress.error, errors), monitor(dut.ingress.error, errors)])
    assert not errors
    for number, packets in enumerate(sources.values()):
        assert [beat for beat in received if beat[0] >> 15 == number] == [
            (beat["address"], beat["data"], beat["strobe"], beat["last"])
            for packet in packets for beat in remote_beats(config, packet)]


@pytest.mark.parametrize("missing", [0, 1])
def test_the_link_is_full_with_credits_for_a_round_trip_and_not_with_one_less(missing):
    latency = 50
    # Each way through the delay line, through the buffer, to the credit's pulse 1, and 1 to count.
    round_trip = 2 * (LinkDelay.shortest + latency) + PrefetchQueue.latency + 2
    config = TINY.replace(link_max_latency=64, link_credits=round_trip - missing)
    dut = Loop(config=config)
    times = []

    async def main(ctx):
        ctx.set(dut.egress.latency, latency)
        ctx.set(dut.request.ready, 1)
        await write_regions(ctx, dut.table, [Region(base=0, limit=0xFFFF, accept_store=1)])
        payload = [(number, 15) for number in range(4)]
        await put(ctx, dut.dma, remote_beats(config, Packet(address=0, beats=payload)) * 80)
        await ctx.tick().repeat(round_trip)

    async def watch(ctx):
        cycle = 0
        while True:
            cycle += 1
            if (await ctx.tick().sample(dut.request.valid))[2]:
                times.append(cycle)

    simulate(dut, main, background=[watch])
    assert len(times) == 320
    # Four beats in six cycles, for a packet has two words of header; a cycle lost a round trip.
    ideal = 79 * 6 + 3
    assert times[-1] - times[0] == ideal + missing * (ideal // config.link_credits)
