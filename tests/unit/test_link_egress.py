"""The egress sends every packet whole, in order, fairly, at the rate set, none without credits."""

import collections
import itertools
import math
import random
from fractions import Fraction

import pytest
from amaranth import Module, Mux, Signal
from amaranth.lib import wiring

from link_packets import (
    Packet, header_length, packet_words, parse, random_packet, random_payload, receiver,
    remote_beats,
)
from region_agents import monitor, put, wait_for
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.link_delay import LinkDelay
from t3hw.hdl.link_egress import LinkEgress
from t3hw.hdl.link_header import header_words
from t3hw.hdl.packet_queue import PacketQueue
from t3hw.hdl.seams import ErrorCause

TINY = NodeConfig.preset("tiny")
WIDE_HEADER = NodeConfig(data_width=32, addr_width=64, plans=5, wf_width=0, burst_beats=8,
                         link_credits=6, link_max_latency=0)
CONFIGS = {"tiny": TINY, "three words of header": WIDE_HEADER,
           "one word of header": TINY.replace(data_width=128, link_credits=9)}


def beats_of(config, packets):
    return [beat for packet in packets for beat in remote_beats(config, packet)]


def in_order(received, sent):
    """The received packets that are of ``sent``, by a constant that only those have."""
    return [packet for packet in received if packet.wg % 2 == sent[0].wg % 2]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_random_packets_of_both_sources_arrive(name, seed):
    config = CONFIGS[name]
    rng = random.Random(seed)
    dut = LinkEgress(config=config)
    sources = {}
    for number, source in enumerate(("producer", "dma")):
        sources[source] = [random_packet(rng, config) for _ in range(20)]
        for packet in sources[source]:
            packet.wg = packet.wg & ~1 | number
    words, errors = [], []
    total = sum(len(packet_words(config, packet))
                for packets in sources.values() for packet in packets)

    def sender(source):
        async def bench(ctx):
            await put(ctx, getattr(dut, source), beats_of(config, sources[source]),
                      rng=random.Random(f"{source} {seed}"), pace=rng.choice([0.4, 1.0]))
            await wait_for(ctx, lambda: len(words) == total, cycles=20000,
                           what=lambda: f"seed {seed}: {len(words)} of {total} words")
        return bench

    async def knobs(ctx):
        ctx.set(dut.latency, rng.choice([0, 3, config.link_max_latency]))
        ctx.set(dut.interval, rng.choice([0, 1, 2, 5]))
        ctx.set(dut.fraction, rng.choice([0, 1, 40000, 0xFFFF]))
        ctx.set(dut.header_interval, rng.choice([0, 1, 2, 5]))
        ctx.set(dut.header_fraction, rng.choice([0, 1, 40000, 0xFFFF]))

    simulate(dut, sender("producer"), sender("dma"), knobs, background=[
        receiver(config, dut, words, rng=rng, pace=rng.choice([0.5, 1.0]),
                 credit_pace=rng.choice([0.2, 1.0])),
        monitor(dut.error, errors)])
    received = parse(config, words)
    for packets in sources.values():
        assert in_order(received, packets) == packets, f"seed {seed}"
    assert not errors


@pytest.mark.parametrize("name", CONFIGS)
def test_the_header_has_the_words_that_the_document_says(name):
    assert header_words(CONFIGS[name]) == header_length(CONFIGS[name])
    assert {"tiny": 2, "three words of header": 3, "one word of header": 1}[name] == header_length(
        CONFIGS[name])


def test_sources_take_turns_a_packet_each():
    rng = random.Random(0)
    config = TINY.replace(link_credits=64)
    dut = LinkEgress(config=config)
    words, total = [], 600

    def sender(source, number):
        async def bench(ctx):
            while len(words) < total:
                packet = random_packet(rng, config, length=rng.choice([1, 4]))
                packet.wg = number
                await put(ctx, source, remote_beats(config, packet))
        return bench

    simulate(dut, sender(dut.producer, 1), sender(dut.dma, 2),
             background=[receiver(config, dut, words, rng=rng)])
    cut = max(index for index, word in enumerate(words) if word[2]) + 1
    order = [packet.wg for packet in parse(config, words[:cut])]
    # The first packet of the producer is collected while the first of the DMA engine goes.
    assert all(left != right for left, right in itertools.pairwise(order[1:])), order


@pytest.mark.parametrize("interval, distance", [(0, 1), (1, 1), (2, 2), (7, 7), (100, 100)])
def test_a_word_every_interval_header_words_too_if_they_have_it(interval, distance):
    dut = LinkEgress(config=TINY.replace(link_credits=64))
    packets = [random_packet(random.Random(number), TINY, length=3) for number in range(3)]
    times = []

    async def sender(ctx):
        ctx.set(dut.interval, interval)
        ctx.set(dut.header_interval, interval)
        ctx.set(dut.tx.ready, 1)
        await put(ctx, dut.dma, beats_of(TINY, packets))
        # The last beats are still inside.
        await ctx.tick().repeat(10 + 3 * distance)

    async def watch(ctx):
        cycle = 0
        while True:
            cycle += 1
            if (await ctx.tick().sample(dut.tx.valid))[2]:
                times.append(cycle)

    simulate(dut, sender, background=[watch])
    assert len(times) == 3 * (header_length(TINY) + 3)
    distances = [right - left for left, right in itertools.pairwise(times)]
    assert distances == [distance] * (len(times) - 1)


class FedEgress(wiring.Component):
    """An egress that always has something to send, in packets of ``length`` beats, and gets its
    credits back. In hardware, since a bench would take longer for that than for all else."""

    def __init__(self, *, config, length):
        self.egress = LinkEgress(config=config)
        self._length = length
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.egress = egress = self.egress
        beat = Signal(range(self._length))
        m.d.comb += [
            egress.dma.valid.eq(1),
            egress.dma.payload.last.eq(beat == self._length - 1),
            egress.tx.ready.eq(1),
        ]
        m.d.sync += egress.credit.eq(egress.tx.valid)
        with m.If(egress.dma.ready):
            m.d.sync += beat.eq(Mux(egress.dma.payload.last, 0, beat + 1))
        return m


#: 13.65 and 3.4 cycles, as near as 1/65536 comes.
STEPS = 65536
BEAT = dict(interval=13, fraction=round(0.65 * STEPS))
HEADER = dict(header_interval=3, header_fraction=round(0.4 * STEPS))


@pytest.mark.parametrize("packets, header, settings", [
    (40, Fraction(0), {}),
    (4, Fraction(0), {"header_fraction": 60000}),
    (40, 3 + Fraction(HEADER["header_fraction"], STEPS), HEADER)],
    ids=["at 0", "below 1", "at 3.4"])
def test_the_average_rate_is_exact_and_no_word_is_early(packets, header, settings):
    """Beats at 13.65 cycles, up to 10,000: each word leaves in the first cycle after its time.

    Header words that take no time go behind the beat before them.
    """
    length = 250
    config = TINY.replace(burst_beats=256, link_max_latency=0)
    beat = 13 + Fraction(BEAT["fraction"], STEPS)
    costs = ([header] * header_length(config) + [beat] * length) * packets
    headers = packets * header_length(config)
    dut = FedEgress(config=config, length=length)
    egress = dut.egress
    times = []

    async def bench(ctx):
        for name, value in (BEAT | settings).items():
            ctx.set(getattr(egress, name), value)
        cycle = 0
        async for _, _, valid in ctx.tick().sample(egress.tx.valid):
            if valid:
                times.append(cycle)
            if len(times) == len(costs):
                return
            cycle += 1
            assert cycle < 14 * len(costs), f"{len(times)} words"

    simulate(dut, bench)
    due = None
    wanted = []
    for cost in costs:
        cycle = wanted[-1] + 1 if wanted else times[0]
        if cost:
            due = Fraction(cycle) if due is None else due
            cycle = max(cycle, math.ceil(due))
            due += cost
        wanted.append(cycle)
    assert times == wanted
    beats = packets * length - 1
    first = 0 if header else header_length(config)
    assert times[-1] - times[0] == pytest.approx(
        first + 13.65 * beats + float(header) * headers, abs=1.5)


@pytest.mark.parametrize("seed", range(3))
def test_no_word_is_early_whenever_settings_change(seed):
    """Between any two words lies all the time that they and those between
    were given as they left."""
    print("seed", seed)
    rng = random.Random(seed)
    config = TINY.replace(burst_beats=256, link_max_latency=0)
    length = rng.choice([1, 3, 16])
    dut = FedEgress(config=config, length=length)
    egress = dut.egress
    names = ("interval", "fraction", "header_interval", "header_fraction")
    words = []

    async def bench(ctx):
        number = 0
        # A word is seen one cycle after it has left, and what is set counts one cycle later.
        settings = collections.deque(2 * [(0, 0, 0, 0)])
        for cycle in range(5000):
            interval, fraction, header_interval, header_fraction = settings.popleft()
            if ctx.get(egress.tx.valid):
                if number % (header_length(config) + length) >= header_length(config):
                    words.append((cycle, interval + Fraction(fraction, STEPS) if interval else 1))
                elif header_interval:
                    words.append((cycle, header_interval + Fraction(header_fraction, STEPS)))
                number += 1
            settings.append(tuple(ctx.get(getattr(egress, name)) for name in names))
            await ctx.tick()
            if rng.random() < 0.01:
                for name, value in zip(names, (
                        rng.choice([0, 1, 2, 5]), rng.randrange(STEPS), rng.choice([0, 0, 1, 3]),
                        rng.randrange(STEPS))):
                    ctx.set(getattr(egress, name), value)

    simulate(dut, bench)
    assert len(words) > 500
    for number, (start, _) in enumerate(words):
        given = 0
        for (_, cost), (cycle, _) in zip(words[number:number + 40], words[number + 1:]):
            given += cost
            assert cycle - start > given - 1, f"{start} to {cycle}: {given} cycles"


def test_a_pause_is_not_made_up_for():
    """After it the next words are again no faster than the link."""
    config = TINY.replace(link_max_latency=0)
    packets = [random_packet(random.Random(number), config, length=4) for number in range(3)]
    words, times = [], []
    dut = LinkEgress(config=config)

    async def bench(ctx):
        ctx.set(dut.interval, 1)
        ctx.set(dut.fraction, STEPS // 2)
        for packet in packets:
            await put(ctx, dut.dma, remote_beats(config, packet))
            await ctx.tick().repeat(30)

    async def watch(ctx):
        cycle = 0
        async for _, _, valid in ctx.tick().sample(dut.tx.valid):
            if valid:
                times.append(cycle)
            cycle += 1

    simulate(dut, bench, background=[watch, receiver(config, dut, words, rng=random.Random(0))])
    headers = header_length(config)
    packet = [*range(headers), *(headers + math.ceil(number * 1.5) for number in range(4))]
    assert len(times) == 3 * len(packet)
    for start in range(0, len(times), len(packet)):
        assert [time - times[start] for time in times[start:start + len(packet)]] == packet


@pytest.mark.parametrize("max_latency, latency", [(0, 0), (1024, 0), (1024, 1), (1024, 1000)])
def test_latency_as_stated_and_a_word_a_cycle_given_enough_credits(max_latency, latency):
    """Credits for a round trip are enough at any latency."""
    config = TINY.replace(link_credits=2 * latency + 12, link_max_latency=max_latency)
    packets = [random_packet(random.Random(number), config, length=4) for number in range(500)]
    base = 1 + (LinkDelay.shortest if max_latency else 1)
    dut = LinkEgress(config=config)
    times = []

    async def sender(ctx):
        ctx.set(dut.latency, latency)
        ctx.set(dut.tx.ready, 1)
        await put(ctx, dut.dma, beats_of(config, packets))

    async def watch(ctx):
        cycle = 0
        credit = 0
        while True:
            # A receiver that takes each word in the next cycle and gives the credit one later.
            ctx.set(dut.credit, credit)
            credit = (await ctx.tick().sample(dut.tx.valid))[2]
            if credit:
                times.append(cycle)
            cycle += 1

    simulate(dut, sender, background=[watch])
    assert len(times) > 2900 - latency
    assert times == list(range(base + latency, base + latency + len(times)))


def test_latency_from_the_producer_counts_from_its_last_beat():
    dut = LinkEgress(config=TINY)

    async def bench(ctx):
        ctx.set(dut.tx.ready, 1)
        packet = random_packet(random.Random(0), TINY, length=4)
        await put(ctx, dut.producer, remote_beats(TINY, packet))
        latency = 1 + PacketQueue.latency + LinkDelay.shortest
        for cycle in range(1, latency + 1):
            _, _, valid = await ctx.tick().sample(dut.tx.valid)
            assert valid == (cycle == latency)

    simulate(dut, bench)


@pytest.mark.parametrize("max_latency", [0, 64])
def test_a_credit_too_many_is_reported_and_not_counted(max_latency):
    config = TINY.replace(link_max_latency=max_latency)
    dut = LinkEgress(config=config)
    words, errors = [], []
    packet = random_packet(random.Random(0), config, length=config.link_credits - 2)

    async def bench(ctx):
        ctx.set(dut.latency, 5)
        ctx.set(dut.tx.ready, 1)
        await put(ctx, dut.dma, remote_beats(config, packet))
        await ctx.tick().repeat(20)
        assert len(words) == config.link_credits
        ctx.set(dut.credit, 1)
        await ctx.tick().repeat(config.link_credits + 3)
        ctx.set(dut.credit, 0)
        await ctx.tick().repeat(20)
        assert len(errors) == 3
        # No more credits have come back than were out: one more packet, and not a word of the next.
        await put(ctx, dut.dma, remote_beats(config, packet))
        ctx.set(dut.dma.valid, 1)
        await ctx.tick().repeat(100)
        assert len(words) == 2 * config.link_credits

    simulate(dut, bench, background=[monitor(dut.tx, words), monitor(dut.error, errors)])
    assert {error.cause for error in errors} == {ErrorCause.LINK_OVERFLOW}
    assert not any(error.tile.tracked for error in errors)


def test_credits_before_the_first_word_are_all_too_many():
    dut = LinkEgress(config=TINY)
    errors = []

    async def bench(ctx):
        ctx.set(dut.credit, 1)
        await ctx.tick().repeat(2)
        ctx.set(dut.credit, 0)
        await ctx.tick().repeat(2)

    simulate(dut, bench, background=[monitor(dut.error, errors)])
    assert len(errors) == 2


def test_a_producer_that_stops_within_a_burst_does_not_keep_the_dma_engine_from_the_link():
    rng = random.Random(0)
    dut = LinkEgress(config=TINY)
    words = []
    stopped = random_packet(rng, TINY, length=4)
    packets = [random_packet(rng, TINY) for _ in range(5)]
    total = sum(len(packet_words(TINY, packet)) for packet in packets)

    async def bench(ctx):
        await put(ctx, dut.producer, remote_beats(TINY, stopped)[:3])
        await put(ctx, dut.dma, beats_of(TINY, packets))
        await wait_for(ctx, lambda: len(words) == total, cycles=200, what="packets of the DMA")
        await put(ctx, dut.producer, remote_beats(TINY, stopped)[3:])
        await wait_for(ctx, lambda: len(words) == total + 6, cycles=200, what="the last packet")

    simulate(dut, bench, background=[receiver(TINY, dut, words, rng=rng)])
    assert parse(TINY, words) == [*packets, stopped]


def test_stall_tells_of_words_that_wait():
    config = TINY.replace(link_max_latency=0, link_credits=4)
    dut = LinkEgress(config=config)
    packet = Packet(address=0, beats=random_payload(random.Random(0), config, 2))

    async def stalls(ctx, cycles):
        total = 0
        for _cycle in range(cycles):
            total += (await ctx.tick().sample(dut.stall))[2]
        return total

    async def bench(ctx):
        assert await stalls(ctx, 5) == 0
        ctx.set(dut.tx.ready, 1)
        await put(ctx, dut.dma, remote_beats(config, packet))
        assert await stalls(ctx, 5) == 0
        # No credit is left: the next packet's header waits.
        ctx.set(dut.dma.payload, remote_beats(config, packet)[0])
        ctx.set(dut.dma.valid, 1)
        await ctx.tick()
        ctx.set(dut.dma.valid, 0)
        assert await stalls(ctx, 10) == 9
        ctx.set(dut.credit, 1)
        await ctx.tick().repeat(header_length(config) + 1)
        ctx.set(dut.credit, 0)
        await ctx.tick().repeat(2 * LinkDelay.shortest)
        assert await stalls(ctx, 5) == 0

    simulate(dut, bench)
