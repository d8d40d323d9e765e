"""What the tests of the collective engine share: devices that are a memory and a link each."""

import collections

from amaranth import Value

#: Addresses from here on are the neighbour's.
DELTA = 1 << 20
OKAY, SLVERR, DECERR = 0, 2, 3


class Device:
    """An engine, behind it an AXI4 memory at a random pace, and a link to the neighbour.

    The memory takes AW and W in any order, and applies a burst when it answers it, as late as that
    may be. A read finds what is there when its address is taken, as early as that may be. So a
    read that is too early shows. What is written from `DELTA` on goes to ``neighbour``, a beat at a
    time, some cycles later.

    Parameters
    ----------
    engine : CollectiveEngine
        The master.
    config : NodeConfig
        Its configuration.
    rng : random.Random
        For all that is random.
    pace : float
        Probability of each handshake.
    latency : callable
        Cycles that a read or a write takes, each time anew.
    link : callable
        Cycles to the neighbour.
    """

    def __init__(self, engine, *, config, rng, pace=1.0, latency=lambda: 3, link=lambda: 5):
        self.engine = engine
        self.config = config
        self.rng = rng
        self.pace = pace
        self.latency = latency
        self.link = link
        self.neighbour = None
        self.memory = {}
        self.poison = set()
        #: Beats on their way here: when, address, data.
        self.coming = collections.deque()
        #: Every burst, as (cycle, address, beats); every beat of a channel, as its cycle.
        self.read_bursts, self.write_bursts = [], []
        self.read_cycles, self.write_cycles, self.answer_cycles = [], [], []
        self.arrivals = 0
        self.bad_reads, self.bad_writes = {}, {}
        self.started, self.finished = [], []
        self.write_start = 0
        self.cycle = 0

    def write(self, address, value):
        """One beat becomes visible."""
        self.memory[address] = value
        self.poison.discard(address)

    def _burst(self, kind, payload):
        """Check an address against the rules; returns those of its beats."""
        size = self.config.beat_bytes
        count = payload.len + 1
        assert (payload.size, payload.burst, payload.user, payload.id) == (
            self.config.beat_shift, 1, 0, 0)
        assert payload.addr % size == 0
        assert payload.addr // 4096 == (payload.addr + count * size - 1) // 4096, "crosses 4 KiB"
        (self.read_bursts if kind == "read" else self.write_bursts).append(
            (self.cycle, payload.addr, count))
        return [payload.addr + number * size for number in range(count)]

    async def bench(self, ctx):
        """Runs for ever."""
        engine, rng = self.engine, self.rng
        steady = self.pace >= 1
        address_layout = engine.ar.payload.shape()
        data_layout = engine.w.payload.shape()
        reads, answers, addresses, values = (collections.deque() for _ in range(4))
        ones = (1 << self.config.beat_bytes) - 1
        read = answer = None
        held = {}
        # A slave may take AW only with W, or W only after AW.
        order = "any" if steady else rng.choice(["any", "aw first", "w first"])

        def luck():
            return steady or rng.random() < self.pace

        def offer():
            """What is ready and what is valid in this cycle."""
            nonlocal read, answer
            ctx.set(engine.ar.ready, luck())
            writable = self.cycle >= self.write_start
            ctx.set(engine.aw.ready,
                    writable and luck() and (order != "w first" or len(values) > 0))
            ctx.set(engine.w.ready,
                    writable and luck() and (order != "aw first" or len(addresses) > 0))
            if read is None and reads and reads[0][0] <= self.cycle and luck():
                _, value, resp, last = read = reads.popleft()
                ctx.set(engine.r.payload, {"id": 0, "data": value, "resp": resp, "last": last})
            if answer is None and answers and answers[0][0] <= self.cycle and luck():
                _, resp, _ = answer = answers.popleft()
                ctx.set(engine.b.payload, {"id": 0, "resp": resp})
            ctx.set(engine.r.valid, read is not None)
            ctx.set(engine.b.valid, answer is not None)
            arrives = bool(self.coming) and self.coming[0][0] <= self.cycle
            if arrives:
                _, address, value = self.coming.popleft()
                self.write(address, value)
                self.arrivals += 1
            ctx.set(engine.arrived, arrives)

        def stable(name, valid, ready, bits):
            """What is refused stays as it is."""
            assert held.get(name) in (None, bits if valid else "gone"), f"{name} changed"
            held[name] = bits if valid and not ready else None

        offer()
        async for (_, _, ar_valid, ar_ready, ar, aw_valid, aw_ready, aw, w_valid, w_ready, w,
                   r_ready, b_ready, start, done) in ctx.tick().sample(
                engine.ar.valid, engine.ar.ready, Value.cast(engine.ar.payload),
                engine.aw.valid, engine.aw.ready, Value.cast(engine.aw.payload),
                engine.w.valid, engine.w.ready, Value.cast(engine.w.payload),
                engine.r.ready, engine.b.ready, engine.start, engine.done):
            stable("ar", ar_valid, ar_ready, ar)
            stable("aw", aw_valid, aw_ready, aw)
            stable("w", w_valid, w_ready, w)
            if read is not None and r_ready:
                self.read_cycles.append(self.cycle)
                read = None
            if answer is not None and b_ready:
                self.answer_cycles.append(self.cycle)
                for address, value in answer[2]:
                    if address < DELTA:
                        self.write(address, value)
                answer = None
            if ar_valid and ar_ready:
                burst = self._burst("read", address_layout.from_bits(ar))
                due = self.cycle + self.latency()
                for address in burst:
                    assert address not in self.poison, (
                        f"cycle {self.cycle}: {address:#x} is read before it has come")
                    due = max(due, reads[-1][0] + 1 if reads else 0)
                    reads.append((due, self.memory[address], self.bad_reads.get(address, OKAY),
                                  address == burst[-1]))
            if aw_valid and aw_ready:
                addresses.append(self._burst("write", address_layout.from_bits(aw)))
            if w_valid and w_ready:
                payload = data_layout.from_bits(w)
                assert payload.strb == ones
                values.append((payload.data, payload.last))
                self.write_cycles.append(self.cycle)
            while addresses and len(values) >= len(addresses[0]):
                written = []
                burst = addresses.popleft()
                for address in burst:
                    value, last = values.popleft()
                    assert last == (address == burst[-1]), "WLAST"
                    written.append((address, value))
                    if address >= DELTA:
                        self._send(address - DELTA, value)
                due = max(self.cycle + self.latency(), answers[-1][0] if answers else 0)
                answers.append((due, self.bad_writes.get(burst[0], OKAY), written))
            if start:
                self.started.append(self.cycle)
            if done:
                assert not (addresses or values or reads or answers), "done too early"
                self.finished.append(self.cycle)
            self.cycle += 1
            offer()

    def _send(self, address, value):
        coming = self.neighbour.coming
        due = self.neighbour.cycle + self.link()
        coming.append((max(due, coming[-1][0] if coming else 0), address, value))


def expected_bursts(steps, burst, config):
    """(address, beats) of each read and of each write, in order."""
    reads, writes = [], []
    for step in steps:
        for first in range(0, step.beats, burst):
            count = min(burst, step.beats - first)
            offset = first * config.beat_bytes
            reads.append((step.source_a + offset, count))
            if step.add:
                reads.append((step.source_b + offset, count))
            writes.append((step.destination + offset, count))
    return reads, writes


def check_traffic(device, steps, burst):
    """The bursts of a run are exactly those of its table; forgets them."""
    reads, writes = expected_bursts(steps, burst, device.config)
    assert [entry[1:] for entry in device.read_bursts] == reads
    assert [entry[1:] for entry in device.write_bursts] == writes
    device.read_bursts.clear()
    device.write_bursts.clear()


async def write_table(ctx, engine, steps):
    """Program the engine's table."""
    for entry, step in enumerate(steps):
        for word, value in enumerate(step.words()):
            ctx.set(engine.table.payload, {"entry": entry, "word": word, "data": value})
            ctx.set(engine.table.valid, 1)
            await ctx.tick()
    ctx.set(engine.table.valid, 0)


async def pulse(ctx, signal):
    """One cycle of a one."""
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def run(ctx, engine, *, steps, burst, expected=0, dtype=0, limit, what=""):
    """Program, start, and wait until it is done."""
    await write_table(ctx, engine, steps)
    ctx.set(engine.settings, {"steps": len(steps), "burst": burst, "dtype": dtype,
                              "expected": expected})
    await pulse(ctx, engine.start)
    await finish(ctx, engine, limit=limit, what=what)


async def finish(ctx, engine, *, limit, what=""):
    """Wait for ``done``."""
    cycle = 0
    if ctx.get(engine.done):
        return
    async for _, _, done in ctx.tick().sample(engine.done):
        if done:
            return
        cycle += 1
        assert cycle < limit, f"{what}: not done after {limit} cycles"
