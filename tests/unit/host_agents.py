"""The host's side of the host bus, as tests of its slaves see it."""

import dataclasses

__all__ = ["Answer", "host_master", "late_taker", "random_accesses"]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of an access, and the cycles in which it began and was answered."""

    asked: int
    cycle: int
    error: int
    data: int


def random_accesses(rng, count, addresses):
    """Accesses as `host_master` takes them, with word addresses from ``addresses()``."""
    return [{"write": rng.randrange(2), "address": addresses(), "data": rng.randrange(1 << 32)}
            for _ in range(count)]


def host_master(bus, accesses, answers, *, rng, pace=1.0, cycles=400, gives_up=False):
    """A bench that makes accesses one after the other, and appends an `Answer` of each.

    A payload stays until the answer; then, and before, it is anything. With ``gives_up`` it is
    already after the pulse, as when another slave is asked in the meantime. An answer that nobody
    has asked for is an error, and so is one that takes more than so many cycles. ``pace`` is how
    often an access begins in a cycle in which it may.
    """
    async def bench(ctx):
        source = iter(accesses)
        asked = None
        cycle = made = 0
        ended = False

        def anything():
            return {"write": rng.randrange(2), "address": rng.randrange(1 << 32),
                    "data": rng.randrange(1 << 32)}

        def drive():
            nonlocal asked, made, ended
            ctx.set(bus.access.valid, 0)
            if asked is not None:
                if gives_up:
                    ctx.set(bus.access.payload, anything())
                return
            access = next(source, None) if pace >= 1 or rng.random() < pace else ()
            ended = access is None
            if access:
                asked = cycle
                made += 1
            ctx.set(bus.access.valid, asked is not None)
            ctx.set(bus.access.payload, access or anything())

        drive()
        async for _, _, valid, payload in ctx.tick().sample(bus.answer.valid, bus.answer.payload):
            if valid:
                assert asked is not None and asked < cycle, f"cycle {cycle}: nobody asked"
                answers.append(Answer(asked, cycle, payload.error, payload.data))
                asked = None
            assert asked is None or cycle - asked < cycles, (
                f"access {made} without an answer after {cycles} cycles")
            cycle += 1
            drive()
            if ended:
                # Nothing may come afterwards.
                for _ in range(20):
                    _, _, valid = await ctx.tick().sample(bus.answer.valid)
                    assert not valid, "an answer after the last"
                return
    return bench


def late_taker(stream, *, rng, pace):
    """A background bench that is never ready before it has seen valid: who waits for it hangs."""
    async def bench(ctx):
        async for _, _, valid, ready in ctx.tick().sample(stream.valid, stream.ready):
            ctx.set(stream.ready, valid and not ready and rng.random() < pace)
    return bench
