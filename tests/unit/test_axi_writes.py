"""AXI writes: beats with the right addresses; answers in order, none before its time."""

import random

import pytest

from axi_bursts import OKAY, RESERVED, SLVERR, Burst, random_burst
from region_agents import getter, put, wait_for
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.axi_writes import AxiWrites
from t3hw.hdl.seams import Source

TINY = NodeConfig.preset("tiny")
CONFIGS = {
    "tiny": TINY,
    "wide": NodeConfig(data_width=128, addr_width=40, outstanding_writes=16, wf_width=0),
}


def flat(beat):
    """A beat without its tag."""
    return {name: getattr(beat, name) for name in
            ("address", "data", "strobe", "wg", "wf", "last", "narrow", "illegal")}


def expected_beats(config, burst):
    return [{"address": address, "data": data, "strobe": strobe,
             "wg": burst.user % 2**config.wg_width, "wf": burst.user >> config.wg_width,
             "last": int(number == burst.len), "narrow": int(2**burst.size < config.beat_bytes),
             "illegal": int(not burst.legal(config))}
            for number, (address, (data, strobe)) in enumerate(
                zip(burst.addresses(config), burst.beats, strict=True))]


class Settler:
    """Takes beats, decides at random what becomes of each, and settles them in any order."""

    def __init__(self, config, dut, rng, *, pace=0.7):
        self.config, self.dut, self.rng, self.pace = config, dut, rng, pace
        self.beats, self.open, self.responses = [], [], []
        #: Burst number → [settlements to come, error], bursts counted by their last beats.
        self.state = {}
        self.patience = 0.3

    async def bench(self, ctx):
        dut, rng = self.dut, self.rng
        number, answered = 0, 0
        while True:
            # Settle: a commit, an accepted beat, or both; commits of others in between.
            ctx.set(dut.accepted.valid, 0)
            ctx.set(dut.commit.valid, 1)
            ctx.set(dut.commit.payload, {"source": rng.choice([Source.LINK, Source.DMA]),
                                         "tag": rng.randrange(self.config.outstanding_writes),
                                         "error": 1})
            settled = []
            for kind in ("commit", "accepted"):
                ours = [entry for entry in self.open if entry[2] == kind]
                if ours and rng.random() < self.patience:
                    entry = rng.choice(ours) if kind == "commit" else ours[0]
                    self.open.remove(entry)
                    tag, burst, _ = entry
                    error = 0
                    if kind == "commit":
                        error = int(rng.random() < 0.05)
                        ctx.set(dut.commit.payload, {
                            "source": Source.PRODUCER, "tag": tag, "error": error})
                    else:
                        ctx.set(dut.accepted.valid, 1)
                        ctx.set(dut.accepted.payload, tag)
                    settled.append((burst, error))
            beat_ready = int(rng.random() < self.pace)
            ctx.set(dut.beat.ready, beat_ready)
            ctx.set(dut.routed.valid, 0)
            if beat_ready and ctx.get(dut.beat.valid):
                beat = ctx.get(dut.beat.payload)
                self.beats.append(flat(beat))
                fate = "refused" if beat.illegal else rng.choice(["commit"] * 5 + ["accepted"] * 3
                                                                 + ["dropped", "refused"])
                self.state.setdefault(number, [0, 0])
                ctx.set(dut.routed.valid, 1)
                ctx.set(dut.routed.payload, {
                    "tag": beat.tag, "last": beat.last, "refused": int(fate == "refused"),
                    "pending": int(fate in ("commit", "accepted"))})
                if fate in ("commit", "accepted"):
                    self.open.append((beat.tag, number, fate))
                    self.state[number][0] += 1
                self.state[number][1] |= fate == "refused"
                if beat.last:
                    number += 1
                    self.state[number - 1].append("complete")
            ready = int(rng.random() < self.pace)
            ctx.set(dut.b.ready, ready)
            _, _, valid, response = await ctx.tick().sample(dut.b.valid, dut.b.payload)
            if valid:
                # Whether or not it is taken: it must not even be offered before its time.
                to_come, error, *complete = self.state[answered]
                assert to_come == 0 and complete, f"answer {answered} before its burst was settled"
                assert response.resp == (SLVERR if error else OKAY), f"answer {answered}"
                if ready:
                    self.responses.append(response.id)
                    answered += 1
            for burst, error in settled:
                self.state[burst][0] -= 1
                self.state[burst][1] |= error


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_random_bursts_are_answered_in_order_when_settled(name, seed):
    config = CONFIGS[name]
    rng = random.Random(f"{name} {seed}")
    dut = AxiWrites(config=config)
    bursts = [random_burst(rng, config, addr=rng.randrange(2**16), illegal=0.1, writes=True)
              for _ in range(60)]
    settler = Settler(config, dut, rng)
    settler.patience = rng.choice([0.05, 0.5])

    async def addresses(ctx):
        await put(ctx, dut.aw, [burst.channel for burst in bursts],
                  rng=random.Random(seed), pace=0.5)

    async def data(ctx):
        await put(ctx, dut.w, [beat for burst in bursts for beat in burst.data],
                  rng=random.Random(seed + 1), pace=rng.choice([0.5, 1]))
        await wait_for(ctx, lambda: len(settler.responses) == len(bursts), cycles=12000,
                       what=lambda: f"{name}, seed {seed}: {len(settler.responses)} answers")

    simulate(dut, addresses, data, background=[settler.bench])
    assert settler.beats == [beat for burst in bursts for beat in expected_beats(config, burst)]
    assert settler.responses == [burst.id for burst in bursts], f"{name}, seed {seed}"


@pytest.mark.parametrize("addr, size, addresses", [
    (0x1003, 2, [0x1003] + list(range(0x1004, 0x1400, 4))),
    (0x1FFC, 2, list(range(0x1FFC, 0x23FC, 4))), (0x1001, 0, list(range(0x1001, 0x1101))),
    (0x1001, 1, [0x1001] + list(range(0x1002, 0x1200, 2)))])
def test_addresses_of_256_beats(addr, size, addresses):
    """Spelled out, so that the model of the other tests is tested too."""
    dut = AxiWrites(config=TINY)
    burst = Burst(addr=addr, len=255, size=size, beats=[(0, 15)] * 256)
    seen = []

    async def bench(ctx):
        await put(ctx, dut.aw, [burst.channel])
        await put(ctx, dut.w, burst.data)

    simulate(dut, bench, background=[getter(dut.beat, seen, convert=lambda beat: beat.address)])
    assert seen == addresses == burst.addresses(TINY)


def test_wrapping_addresses_as_in_the_specification():
    dut = AxiWrites(config=TINY)
    burst = Burst(addr=0x34, len=7, size=2, burst=2, beats=[(0, 15)] * 8)
    seen = []

    async def bench(ctx):
        await put(ctx, dut.aw, [burst.channel])
        await put(ctx, dut.w, burst.data)

    simulate(dut, bench, background=[getter(dut.beat, seen, convert=lambda beat: beat.address)])
    assert seen == [0x34, 0x38, 0x3C, 0x20, 0x24, 0x28, 0x2C, 0x30] == burst.addresses(TINY)


def test_no_more_bursts_are_taken_than_there_are_tags():
    dut = AxiWrites(config=TINY)
    taken = 0

    async def bench(ctx):
        nonlocal taken
        ctx.set(dut.aw.valid, 1)
        for _cycle in range(20):
            taken += (await ctx.tick().sample(dut.aw.ready))[2]

    simulate(dut, bench)
    assert taken == TINY.outstanding_writes


@pytest.mark.parametrize("lasts", [[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]])
def test_wlast_in_the_wrong_place_is_illegal_and_the_next_burst_is_not(lasts):
    dut = AxiWrites(config=TINY)
    seen = []

    async def bench(ctx):
        await put(ctx, dut.aw, [Burst(addr=0, len=3, size=2).channel,
                                Burst(addr=64, len=0, size=2).channel])
        await put(ctx, dut.w, [{"last": last} for last in [*lasts, 1]])

    simulate(dut, bench, background=[
        getter(dut.beat, seen, convert=lambda beat: (beat.address, beat.last, beat.illegal))])
    wrong = [int(last != (number == 3)) for number, last in enumerate(lasts)]
    assert seen == [(0, 0, wrong[0]), (4, 0, wrong[1]), (8, 0, wrong[2]), (12, 1, wrong[3]),
                    (64, 1, 0)]


@pytest.mark.parametrize("burst", [Burst(addr=0, len=0, size=3),
                                   Burst(addr=0, len=0, size=2, burst=RESERVED)])
def test_bursts_that_axi_does_not_allow_are_illegal(burst):
    dut = AxiWrites(config=TINY)
    seen = []

    async def bench(ctx):
        await put(ctx, dut.aw, [burst.channel])
        await put(ctx, dut.w, [{"last": 1}])

    simulate(dut, bench, background=[getter(dut.beat, seen, convert=lambda beat: beat.illegal)])
    assert seen == [1]


def test_latency_and_throughput_as_stated():
    """Bursts of one beat, one a cycle: a beat 1 cycle after AW, an answer 4 after the commit."""
    config = TINY.replace(outstanding_writes=16)
    dut = AxiWrites(config=config)
    beats, answers = [], []

    async def bench(ctx):
        ctx.set(dut.beat.ready, 1)
        ctx.set(dut.b.ready, 1)
        ctx.set(dut.aw.valid, 1)
        ctx.set(dut.w.valid, 1)
        ctx.set(dut.w.payload.last, 1)
        for cycle in range(60):
            _, _, aw_ready, valid, tag, answer = await ctx.tick().sample(
                dut.aw.ready, dut.beat.valid, dut.beat.payload.tag, dut.b.valid)
            assert aw_ready
            if valid:
                beats.append(cycle)
            if answer:
                answers.append(cycle)
            # Routed in the cycle after the beat, committed in the one after that.
            ctx.set(dut.commit.valid, ctx.get(dut.routed.valid))
            ctx.set(dut.commit.payload, {"source": Source.PRODUCER,
                                         "tag": ctx.get(dut.routed.payload.tag)})
            ctx.set(dut.routed.valid, valid)
            ctx.set(dut.routed.payload, {"tag": tag, "last": 1, "pending": 1})

    simulate(dut, bench)
    assert beats == list(range(1, 60))
    # Beat at 1, routed at 2, committed at 3, answered at 7.
    assert answers == list(range(7, 60))
