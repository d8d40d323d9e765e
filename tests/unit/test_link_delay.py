"""The delay line keeps every word and credit, in order and at its time, also when that changes."""

import random

import pytest
from amaranth import ResetInserter, Signal

from region_agents import getter, put, wait_for
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.link_delay import LinkDelay, PulseDelay

TINY = NodeConfig.preset("tiny").replace(link_credits=40, link_max_latency=100)


@pytest.mark.parametrize("max_latency, latency", [(100, 0), (100, 7), (100, 100), (1, 1),
                                                  (63, 63), (64, 64)])
@pytest.mark.parametrize("pace", [0.3, 1.0])
def test_each_word_and_credit_takes_the_stated_time(max_latency, latency, pace):
    rng = random.Random(latency)
    dut = LinkDelay(config=TINY.replace(link_credits=200, link_max_latency=max_latency))
    went, came, credits_went, credits_came = [], [], [], []

    async def bench(ctx):
        ctx.set(dut.latency, latency)
        ctx.set(dut.o.ready, 1)
        for cycle in range(400):
            valid, credit = int(rng.random() < pace), int(rng.random() < pace)
            if cycle >= 250:
                valid = credit = 0
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, {"data": cycle, "keep": cycle % 16, "last": cycle % 2})
            ctx.set(dut.credit_i, credit)
            _, _, ready, out, word, credit_out = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.payload, dut.credit_o)
            if valid:
                assert ready
                went.append(cycle)
            if credit:
                credits_went.append(cycle)
            if out:
                assert (word.keep, word.last) == (word.data % 16, word.data % 2)
                came.append((cycle, word.data))
            if credit_out:
                credits_came.append(cycle)

    simulate(dut, bench)
    assert came == [(cycle + LinkDelay.shortest + latency, cycle) for cycle in went]
    assert credits_came == [cycle + LinkDelay.shortest + latency for cycle in credits_went]


@pytest.mark.parametrize("max_latency", [0, 1, 63, 64])
@pytest.mark.parametrize("seed", range(2))
def test_no_word_is_lost_whatever_latency_and_back_pressure_do(max_latency, seed):
    rng = random.Random(seed)
    config = TINY.replace(link_max_latency=max_latency)
    dut = LinkDelay(config=config)
    words = [{"data": number, "keep": 0, "last": 0} for number in range(300)]
    received = []
    credits_sent = credits_received = 0

    async def sender(ctx):
        sent = []
        for word in words:
            # As credits would have it: so many words under way and no more.
            await wait_for(ctx, lambda: len(sent) - len(received) < config.link_credits,
                           cycles=1000, what=f"seed {seed}: no word came")
            sent.append(word)
            await put(ctx, dut.i, [word], rng=rng, pace=0.8)
        await wait_for(ctx, lambda: len(received) == len(words) and credits_received == 200,
                       cycles=1000, what=lambda: f"seed {seed}: {len(received)} words, "
                                                 f"{credits_received} of {credits_sent} credits")

    async def credits(ctx):
        nonlocal credits_sent, credits_received
        while True:
            give = int(credits_sent < min(200, credits_received + config.link_credits)
                       and rng.random() < 0.6)
            ctx.set(dut.credit_i, give)
            credits_sent += give
            credits_received += (await ctx.tick().sample(dut.credit_o))[2]

    async def knob(ctx):
        while True:
            if rng.random() < 0.02:
                ctx.set(dut.latency, rng.choice([0, max_latency, rng.randrange(max_latency + 1)]))
            await ctx.tick()

    simulate(dut, sender, background=[
        getter(dut.o, received, rng=rng, pace=0.9, convert=lambda word: word.data),
        credits, knob])
    assert received == [word["data"] for word in words]


def test_a_receiver_that_stops_for_long_gets_its_words_at_once_afterwards():
    """The stop is longer than the delay line's period: a time that wrapped would hold words."""
    dut = LinkDelay(config=TINY)
    received = []

    async def bench(ctx):
        ctx.set(dut.latency, 90)
        await put(ctx, dut.i, [{"data": number} for number in range(TINY.link_credits)])
        for stop in (100, 256, 300, 77):
            await ctx.tick().repeat(stop)
        ctx.set(dut.o.ready, 1)
        for _cycle in range(TINY.link_credits):
            _, _, valid, word = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            assert valid
            received.append(word.data)

    simulate(dut, bench)
    assert received == list(range(TINY.link_credits))


def test_without_a_delay_line_a_word_takes_a_cycle_and_a_credit_none():
    dut = LinkDelay(config=TINY.replace(link_max_latency=0))

    async def bench(ctx):
        ctx.set(dut.latency, 9)
        ctx.set(dut.o.ready, 1)
        for cycle in range(20):
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload.data, cycle)
            ctx.set(dut.credit_i, cycle % 2)
            _, _, ready, valid, word, credit = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.payload, dut.credit_o)
            assert ready and credit == cycle % 2
            assert (valid, word.data) == ((1, cycle - 1) if cycle else (0, 0))

    simulate(dut, bench)


@pytest.mark.parametrize("latency", [0, 5, 30, 62])
def test_a_reset_forgets_what_was_under_way(latency):
    """The memory keeps it, and must not be believed before it is written again."""
    dut = PulseDelay(depth=100, max_latency=62)
    reset = Signal()
    came = []

    async def bench(ctx):
        ctx.set(dut.latency, latency)
        for cycle in range(300):
            ctx.set(dut.i, cycle < 97 or cycle == 230)
            ctx.set(reset, cycle == 97)
            if (await ctx.tick().sample(dut.o))[2]:
                came.append(cycle)

    simulate(ResetInserter(reset)(dut), bench)
    assert [cycle for cycle in came if cycle > 97] == [230 + dut.shortest + latency]
    assert came[0] == dut.shortest + latency


@pytest.mark.parametrize("name, value", [("depth", 0), ("depth", 1.5), ("max_latency", -1),
                                         ("max_latency", None)])
def test_bad_parameters_are_refused_with_their_value(name, value):
    with pytest.raises(ValueError, match=rf"{name}.*not {value!r}"):
        PulseDelay(**({"depth": 4, "max_latency": 4} | {name: value}))
