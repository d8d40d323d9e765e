"""The arbiter is exactly fair, keeps each requester's order, bounds how long anyone starves, and
lets no communication through while it is closed."""

import collections
import random

import pytest
from memory_agents import monitor, sender, taker, wait_until
from simulation import simulate

from t3hw.hdl.arbiter import Arbiter
from t3hw.hdl.seams import Policy


def always_asking(dut, number):
    """A bench that sends (number, 0), (number, 1), … as 16-bit payloads without a pause."""
    return sender(dut.i[number], (number << 12 | count for count in range(1 << 12)))


def run(dut, cycles, *, policy=Policy.ROUND_ROBIN, limit=0, asking=None, ready=None):
    """(cycle, requester) of each transfer while those in ``asking`` never pause."""
    received = []
    asking = range(len(dut.i)) if asking is None else asking

    async def control(ctx):
        ctx.set(dut.policy, policy)
        ctx.set(dut.starvation_limit, limit)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(cycles)

    background = [always_asking(dut, number) for number in asking]
    background += [monitor(dut.o, received)] + ([ready] if ready else [])
    simulate(dut, control, background=background)
    return [(cycle, payload >> 12) for cycle, payload in received]


@pytest.mark.parametrize("spare", [False, True])
@pytest.mark.parametrize("requesters", [2, 3, 5])
@pytest.mark.parametrize("pace", [1.0, 0.5])
def test_round_robin_gives_each_exactly_its_share(requesters, pace, spare):
    dut = Arbiter(shape=16, requesters=requesters, spare=spare)
    served = [number for _, number in run(
        dut, 400, ready=taker(dut.o, rng=random.Random(requesters), pace=pace))]
    assert len(served) > 100
    assert served == [turn % requesters for turn in range(len(served))]


@pytest.mark.parametrize("spare", [False, True])
@pytest.mark.parametrize("policy", [Policy.ROUND_ROBIN, Policy.COMPUTE_FIRST, Policy.MCA])
@pytest.mark.parametrize("alone", [0, 1, 2])
def test_who_asks_alone_is_served_in_every_cycle(policy, alone, spare):
    dut = Arbiter(shape=16, requesters=3, spare=spare)
    served = run(dut, 50, policy=policy, limit=7, asking=[alone])
    assert served == [(cycle, alone) for cycle in range(1, 50)]


def test_those_that_ask_share_what_the_others_leave():
    dut = Arbiter(shape=16, requesters=5)
    served = [number for _, number in run(dut, 100, asking=[0, 3, 4])]
    assert served[:99] == [0, 3, 4] * 33


@pytest.mark.parametrize("policy", [Policy.COMPUTE_FIRST, Policy.MCA])
@pytest.mark.parametrize("limit", [1, 2, 9])
def test_starvation_limit_is_the_longest_wait(policy, limit):
    dut = Arbiter(shape=16, requesters=2)
    served = [number for _, number in run(dut, 200, policy=policy, limit=limit)]
    assert served[:190] == [int(turn % (limit + 1) == limit) for turn in range(190)]


def test_no_starvation_limit_starves_for_ever():
    dut = Arbiter(shape=16, requesters=3)
    assert {number for _, number in run(dut, 300, policy=Policy.COMPUTE_FIRST)} == {0}


def test_starved_requesters_take_turns():
    dut = Arbiter(shape=16, requesters=4)
    served = [number for _, number in run(dut, 300, policy=Policy.COMPUTE_FIRST, limit=3)]
    assert [number for number in served if number][:60] == [1, 2, 3] * 20
    assert served.count(0) == pytest.approx(len(served) * 3 / 4, abs=2)


def test_forced_marks_exactly_the_transfers_that_pass_requester_0():
    dut = Arbiter(shape=16, requesters=2)
    forced, taken = [], []

    async def bench(ctx):
        ctx.set(dut.policy, Policy.COMPUTE_FIRST)
        ctx.set(dut.starvation_limit, 4)
        ctx.set(dut.o.ready, 1)
        for cycle in range(100):
            ctx.set(dut.i[0].valid, cycle < 60)
            ctx.set(dut.i[1].valid, cycle % 16 < 12)
            _, _, ready, now_forced = await ctx.tick().sample(dut.i[1].ready, dut.forced)
            if now_forced:
                forced.append(cycle)
            if cycle < 60 and cycle % 16 < 12 and ready:
                taken.append(cycle)

    simulate(dut, bench)
    assert taken == forced == [4, 9, 20, 25, 36, 41, 52, 57]


Cycle = collections.namedtuple("Cycle", "closed asks taken forced held open")


def watched(dut, cycles, *, policy, drive):
    """What the arbiter did in each cycle; ``drive(ctx, cycle, taken)`` sets its inputs before it,
    and knows whose transfers the cycle before has taken."""
    seen = []

    async def bench(ctx):
        # It holds from the next cycle on.
        ctx.set(dut.policy, policy)
        await ctx.tick()
        for cycle in range(cycles):
            drive(ctx, cycle, seen[-1].taken if seen else [1] * len(dut.i))
            values = {
                "closed": ctx.get(dut.closed),
                "asks": [ctx.get(port.valid) for port in dut.i],
                "taken": [ctx.get(port.valid) & ctx.get(port.ready) for port in dut.i],
                "forced": ctx.get(dut.forced), "held": ctx.get(dut.held),
                "open": (1 - ctx.get(dut.o.valid)) | ctx.get(dut.o.ready)}
            seen.append(Cycle(**values))
            await ctx.tick()

    simulate(dut, bench)
    return seen


def random_drive(dut, rng, *, limit):
    """Everything changes at random; who asks goes on until it is served."""
    def drive(ctx, _cycle, taken):
        for port, gone in zip(dut.i, taken):
            if gone or not ctx.get(port.valid):
                ctx.set(port.valid, rng.random() < 0.4)
        ctx.set(dut.starvation_limit, limit)
        ctx.set(dut.closed, rng.random() < 0.5)
        ctx.set(dut.o.ready, rng.random() < 0.7)

    return drive


@pytest.mark.parametrize("requesters", [2, 3])
def test_mca_issues_while_open_and_never_while_closed(requesters):
    """Without a starvation limit each cycle follows from its own inputs."""
    dut = Arbiter(shape=16, requesters=requesters)
    rng = random.Random(requesters)
    seen = watched(dut, 3000, policy=Policy.MCA, drive=random_drive(dut, rng, limit=0))
    kinds = collections.Counter()
    for cycle in seen:
        others = any(cycle.asks[1:])
        assert cycle.taken[0] == (cycle.open and cycle.asks[0])
        assert any(cycle.taken[1:]) == bool(
            cycle.open and others and not cycle.asks[0] and not cycle.closed)
        assert cycle.held == (cycle.open and others and not any(cycle.taken[1:]))
        assert not cycle.forced and sum(cycle.taken) <= 1
        if others:
            kinds[cycle.closed, cycle.asks[0], cycle.open] += 1
    assert len(kinds) == 8 and min(kinds.values()) > 50


@pytest.mark.parametrize("policy", list(Policy))
def test_holds_and_forced_transfers_are_those_of_the_policy(policy):
    """With a limit: what is forced would be held without it. Turns are no holds."""
    dut = Arbiter(shape=16, requesters=2)
    rng = random.Random(policy.value)
    limit = 4
    waited = 0
    forced = 0
    for cycle in watched(dut, 3000, policy=policy, drive=random_drive(dut, rng, limit=limit)):
        blocked = policy != Policy.ROUND_ROBIN and (cycle.asks[0] or cycle.closed)
        if policy != Policy.ROUND_ROBIN:
            starved = cycle.asks[1] and waited >= limit
            assert cycle.taken[1] == (cycle.open and cycle.asks[1] and (starved or not blocked))
            assert cycle.forced == (cycle.open and starved and blocked)
        else:
            assert not cycle.forced
        assert cycle.held == (cycle.open and cycle.asks[1] and not cycle.taken[1]
                              and policy != Policy.ROUND_ROBIN)
        forced += cycle.forced
        waited = 0 if cycle.taken[1] or not cycle.asks[1] else waited + 1
    assert forced > 50 or policy == Policy.ROUND_ROBIN


@pytest.mark.parametrize("compute", [0, 1])
@pytest.mark.parametrize("limit", [1, 7])
def test_the_starvation_limit_forces_while_closed(limit, compute):
    """Once a limit, whether compute asks or not."""
    dut = Arbiter(shape=16, requesters=2)

    def drive(ctx, _cycle, _taken):
        ctx.set(dut.starvation_limit, limit)
        ctx.set(dut.closed, 1)
        ctx.set(dut.i[0].valid, compute)
        ctx.set(dut.i[1].valid, 1)
        ctx.set(dut.o.ready, 1)

    seen = watched(dut, 160, policy=Policy.MCA, drive=drive)
    assert [cycle.taken[1] for cycle in seen] == [
        int(turn % (limit + 1) == limit) for turn in range(160)]
    assert all(cycle.forced == cycle.taken[1] == 1 - cycle.held for cycle in seen)


@pytest.mark.parametrize("alone", [0, 1])
def test_mca_takes_one_a_cycle_while_open(alone):
    dut = Arbiter(shape=16, requesters=2)

    def drive(ctx, _cycle, _taken):
        ctx.set(dut.i[alone].valid, 1)
        ctx.set(dut.o.ready, 1)

    assert all(cycle.taken[alone] for cycle in watched(dut, 50, policy=Policy.MCA, drive=drive))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("requesters", [2, 3])
def test_random_traffic_and_changing_policy_lose_nothing(requesters, seed):
    rng = random.Random(seed)
    dut = Arbiter(shape=16, requesters=requesters)
    sent = [[number << 12 | count for count in range(150)] for number in range(requesters)]
    received = []

    async def control(ctx):
        def finished():
            return len(received) == 150 * requesters

        for _change in range(100):
            ctx.set(dut.policy, rng.randrange(3))
            ctx.set(dut.starvation_limit, rng.choice([1, 3, 20]))
            ctx.set(dut.closed, rng.choice([0, 1]))
            if finished():
                return
            await ctx.tick().repeat(rng.randrange(1, 40))
        ctx.set(dut.policy, Policy.ROUND_ROBIN)
        await wait_until(ctx, finished, cycles=3000,
                         what=lambda: f"seed {seed}: {len(received)} transfers")

    simulate(dut, control, background=[
        *(sender(port, values, rng=rng, pace=0.6) for port, values in zip(dut.i, sent)),
        taker(dut.o, rng=rng, pace=0.7), monitor(dut.o, received)])
    for number, values in enumerate(sent):
        passed = [payload for _, payload in received if payload >> 12 == number]
        assert passed == values, f"seed {seed}"


@pytest.mark.parametrize("requesters", [1, 0, 2.0, None])
def test_bad_number_of_requesters_is_refused_with_its_value(requesters):
    with pytest.raises(ValueError, match=rf"not {requesters!r}"):
        Arbiter(shape=16, requesters=requesters)
