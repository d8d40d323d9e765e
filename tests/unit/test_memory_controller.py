"""Three ports at once: memory and answers are, byte for byte, those of the order of issue."""

import random

import numpy as np
import pytest
from amaranth import Value
from memory_agents import (
    BFLOAT16, DMA, DUPLICATE_UPDATE, FLOAT16, INCOMING, INT32, LINK, LOCAL, MEMORY_ERROR,
    MISSING_DTYPE, NO_TILE, PARTIAL_ELEMENT, PRODUCER, READ, STORE, UPDATE, Access, AxiModel,
    ReferenceMemory, TouchModel, beat, expected_responses, make_request, monitor, plain_commit,
    plain_read, random_data, random_elements, random_tile, sender, wait_until,
)
from simulation import simulate

from t3hw.config import DTYPE_NAMES, NodeConfig
from t3hw.hdl.memory_controller import MemoryController, memory_events
from t3hw.hdl.seams import Policy
from t3hw.reference.arithmetic import NUMPY_DTYPES, add

BUILTIN = NodeConfig.preset("tiny").replace(
    memory_bytes=1024, memory_max_latency=300, touch_bytes=64, compute_queue=3,
    communication_queue=4, dtypes=("int32",))
AXI = BUILTIN.replace(memory="axi", memory_bytes=0, memory_outstanding=16)
MEMORIES = pytest.mark.parametrize("config", [BUILTIN, AXI], ids=["builtin", "axi"])
ALL = (1 << BUILTIN.beat_bytes) - 1


class Bench:
    """The controller and its memory, a sender a port, and all that came back, with its cycle.

    Parameters
    ----------
    config : NodeConfig
    compute, ingress, dma : iterables of requests
        What the ports ask for.
    policy, limit, threshold, latency
        The controller's inputs.
    pace : float
        How often a port that could send does.
    axi : dict
        Arguments of `AxiModel`.
    """

    def __init__(self, config, *, compute=(), ingress=(), dma=(), policy=Policy.ROUND_ROBIN,
                 limit=0, threshold=0, latency=0, pace=1.0, seed=0, axi=None):
        self.config = config
        self.seed = seed
        self.rng = random.Random(seed)
        self.dut = dut = MemoryController(config=config)
        self.inputs = {"policy": policy, "starvation_limit": limit, "threshold": threshold,
                       "latency": latency}
        self.reads, self.commits, self.errors, self.events = [], [], [], []
        # Occupancy in each cycle, of all and of the memory alone.
        self.occupancies = []
        # One list for both ports: their requests enter the communication queue one at a time.
        self.compute_log, self.communication_log = [], []
        self.memory = ReferenceMemory(config)
        self.background = [
            sender(dut.compute, compute, rng=self.rng, pace=pace, log=self.compute_log),
            sender(dut.ingress, ingress, rng=self.rng, pace=pace, log=self.communication_log),
            sender(dut.dma, dma, rng=self.rng, pace=pace, log=self.communication_log),
            monitor(dut.read, self.reads), monitor(dut.commit, self.commits),
            monitor(dut.error, self.errors), self._watch_events]
        if config.memory == "axi":
            options = {"read_latency": lambda: 1, "write_latency": lambda: 1} | (axi or {})
            self.model = AxiModel(config, dut, self.rng, **options)
            self.background += self.model.benches()

    async def _watch_events(self, ctx):
        async for _, _, events, *occupancies in ctx.tick().sample(
                Value.cast(self.dut.events), self.dut.occupancy, self.dut.memory.occupancy):
            self.events.append(memory_events.from_bits(events))
            self.occupancies.append(occupancies)

    def count(self, event):
        """Cycles in which an event was high."""
        return sum(events[event] for events in self.events)

    @property
    def answers(self):
        """Reads and commits that came back."""
        return len(self.reads) + len(self.commits)

    def run(self, *, answers=None, cycles=None, extra=()):
        """Until so many answers have come, or for so many cycles."""
        async def control(ctx):
            for name, value in self.inputs.items():
                ctx.set(getattr(self.dut, name), value)
            if cycles is not None:
                await ctx.tick().repeat(cycles)
                return
            await wait_until(ctx, lambda: self.answers >= answers, cycles=20000,
                             what=lambda: f"seed {self.seed}: {self.answers} of {answers} answers")
            # Errors may wait for each other.
            await ctx.tick().repeat(16)

        simulate(self.dut, control, background=[*self.background, *extra])

    def issued(self):
        """All requests in the order in which the arbiter issued them."""
        compute, communication = iter(self.compute_log), iter(self.communication_log)
        order = []
        for events in self.events:
            assert not (events.compute_issue and events.communication_issue)
            if events.compute_issue:
                order.append(next(compute))
            if events.communication_issue:
                order.append(next(communication))
        return order

    def check(self, *, touch=None, forget=None):
        """Compare answers, errors and memory with one request at a time, in the order of issue.

        ``forget(number)`` says which entries of the first-touch map start anew before a request.
        """
        touch = touch or TouchModel(self.config)
        accesses, errors = [], []
        for number, request in enumerate(self.issued()):
            if forget is not None:
                touch.forget(forget(number))
            write, strobe, added, causes = touch.request(request)
            accesses.append(Access(write=int(write), add=added, strobe=strobe, **{
                field: request[field]
                for field in ("dtype", "source", "tag", "last", "address", "data", "tile")}))
            errors += [(cause, request["address"]) for cause in causes]
        size = self.config.memory_bytes
        reads, commits, failed = expected_responses(self.memory, accesses, size=size)
        errors += [(MEMORY_ERROR, address) for address, _ in failed]
        where = f"seed {self.seed}"
        # Reads and commits of one source each come in order; so do all of them, as it is.
        assert [plain_read(read) for _, read in self.reads] == reads, where
        assert [plain_commit(commit) for _, commit in self.commits] == commits, where
        found = [(error.cause.value, error.address) for _, error in self.errors]
        assert sorted(found) == sorted(errors), where
        assert self.count("access") == len(accesses), where
        self.check_occupancy()
        if self.config.memory == "axi":
            assert self.model.memory.contents() == self.memory.contents(), where


    def check_occupancy(self):
        """It counts each request from its issue on, and never communication above a threshold."""
        under_way = 0
        threshold = self.inputs["threshold"]
        for cycle, (events, (occupancy, memory)) in enumerate(zip(self.events, self.occupancies)):
            where = f"seed {self.seed}, cycle {cycle}"
            assert occupancy == under_way + memory, where
            if self.inputs["policy"] == Policy.MCA and threshold:
                below = occupancy < threshold
                assert below or events.forced or not events.communication_issue, where
            under_way += events.compute_issue + events.communication_issue - events.access


def random_requests(rng, config, source, addresses, types, count):
    """Reads, stores, updates with and without first touch, and updates that are wrong."""
    requests = []
    for _request in range(count):
        op = rng.choice([READ, STORE, UPDATE, UPDATE])
        address = rng.choice(addresses)
        dtype = rng.choice(types)
        if op == UPDATE and rng.random() < 0.9:
            strobe = random_elements(rng, config, dtype)
        else:
            strobe = rng.randrange(1 << config.beat_bytes)
        touch = None
        if op == UPDATE and rng.random() < 0.4:
            touch = (address // config.beat_bytes % config.touch_beats,
                     INCOMING if source == LINK else LOCAL, 1)
        requests.append(make_request(
            config, op, source=source, address=address, dtype=dtype, strobe=strobe, touch=touch,
            data=random_data(rng, config), tile=random_tile(rng, config), last=rng.randrange(2),
            tag=rng.randrange(config.outstanding_writes)))
    return requests


@pytest.mark.parametrize("policy", [Policy.ROUND_ROBIN, Policy.MCA])
@pytest.mark.parametrize("dtypes, width", [(("int32",), 32), (DTYPE_NAMES, 64)],
                         ids=["int32", "all"])
@MEMORIES
def test_random_traffic_from_three_sources(config, dtypes, width, policy):
    seed = policy.value + 3 * width
    rng = random.Random(seed)
    config = config.replace(dtypes=dtypes, data_width=width)
    # Some updates are of a type that is not built, if there is one.
    types = [INT32, INT32, INT32, BFLOAT16] if len(dtypes) == 1 else [*range(4)]
    beats = [beat(config, number) for number in range(6)]
    addresses = beats * 3 + ([1024] if config.memory == "builtin" else [])
    ports = {name: random_requests(rng, config, source, addresses, types, 60)
             for name, source in (("compute", PRODUCER), ("ingress", LINK), ("dma", DMA))}
    # What is in memory at the end, read by the last requests of all.
    last = [make_request(config, READ, source=DMA, address=address) for address in beats]

    def dma():
        yield from ports["dma"]
        while bench.answers < 180:
            yield None
        yield from last

    def latency():
        return rng.choice([1, 1, 2, 5, rng.randrange(1, 40)])

    bench = Bench(config, compute=ports["compute"], ingress=ports["ingress"], dma=dma(), pace=0.9,
                  policy=policy, limit=5, threshold=4, latency=rng.choice([0, 1, 30]), seed=seed,
                  axi={"read_latency": latency, "write_latency": latency, "pace": 0.8,
                       "early_writes": 0.3})
    bench.run(answers=180 + len(last))
    bench.check()
    causes = {error.cause.value for _, error in bench.errors}
    missing = {MISSING_DTYPE} if len(dtypes) == 1 else set()
    outside = {MEMORY_ERROR} if config.memory == "builtin" else set()
    assert causes == {DUPLICATE_UPDATE, PARTIAL_ELEMENT} | missing | outside


@pytest.mark.parametrize("dtype", [INT32, FLOAT16])
@MEMORIES
def test_first_touch_gives_the_same_bits_in_both_orders(config, dtype):
    """Producer and neighbour update the same beats, six runs, no clear; the DMA reads the sums."""
    rng = random.Random(dtype)
    name = DTYPE_NAMES[dtype]
    config = config.replace(dtypes=(name,))
    beats = range(config.touch_beats)
    expected, late = [], []

    def updates(source, writer):
        for run in range(1, 7):
            order = list(beats)
            rng.shuffle(order)
            # A run begins when the one before has been read.
            while len(bench.reads) < (run - 1) * len(beats):
                yield None
            for number in order:
                yield make_request(config, UPDATE, source=source, address=beat(config, number),
                                   dtype=dtype, data=values[run][writer][number],
                                   touch=(number, writer, run & 1))

    def reads():
        for run in range(1, 7):
            while len(bench.commits) < run * 2 * len(beats):
                yield None
            for number in beats:
                yield make_request(config, READ, source=DMA, address=beat(config, number))

    values = {}
    for run in range(1, 7):
        values[run] = {writer: [random_data(rng, config) for _ in beats]
                       for writer in (LOCAL, INCOMING)}
        for pair in zip(*values[run].values()):
            operands = (value.to_bytes(config.beat_bytes, "little") for value in pair)
            total = add(*(np.frombuffer(value, NUMPY_DTYPES[name]) for value in operands), name)
            expected.append(int.from_bytes(total.tobytes(), "little"))
    bench = Bench(config, compute=updates(PRODUCER, LOCAL), ingress=updates(LINK, INCOMING),
                  dma=reads(), pace=0.7, latency=3)
    bench.run(answers=6 * 3 * len(beats))
    assert [read.data for _, read in bench.reads] == expected
    assert bench.errors == []
    # Both orders did occur.
    for request in bench.issued():
        if request["op"] == UPDATE:
            late.append((request["address"], request["touch"]["writer"]))
    assert {writer for number, (address, writer) in enumerate(late)
            if (address, 1 - writer) in late[max(0, number - 2 * len(beats)):number]} == {0, 1}


@MEMORIES
@pytest.mark.parametrize("late", [1, 60, 300])
def test_store_and_dma_read_in_consecutive_cycles(config, late):
    ports = {"ingress": [], "dma": []}
    for number in range(4):
        ports["ingress"].append(
            make_request(config, STORE, source=LINK, address=8, data=number + 1))
        ports["dma"].append(make_request(config, READ, source=DMA, address=8))
    bench = Bench(config, **ports, latency=late - 1, axi={"write_latency": lambda: late})
    bench.run(answers=8)
    assert [request["op"] for request in bench.issued()] == [STORE, READ] * 4
    assert [read.data for _, read in bench.reads] == [1, 2, 3, 4]


@MEMORIES
def test_adds_from_producer_and_link_to_one_beat_with_a_late_response(config):
    """Back to back, read latency 1, response 60 cycles late, data applied with the response."""
    def updates(source, value):
        return [make_request(config, UPDATE, source=source, address=16, data=value)] * 20

    def dma():
        while len(bench.commits) < 40:
            yield None
        yield make_request(config, READ, source=DMA, address=16)

    bench = Bench(config, compute=updates(PRODUCER, 1), ingress=updates(LINK, 1 << 16), dma=dma(),
                  latency=60, axi={"write_latency": lambda: 60})
    bench.run(answers=41)
    assert [read.data for _, read in bench.reads] == [20 << 16 | 20]


@MEMORIES
def test_commit_comes_when_a_later_read_finds_the_data(config):
    """A DMA read that is asked for in the cycle of the commit returns what was written."""
    for late in (1, 40):
        def dma():
            for number in range(4):
                while len(bench.commits) <= number:
                    yield None
                yield make_request(config, READ, source=DMA, address=beat(config, number))

        stores = [make_request(config, STORE, address=beat(config, number), data=number + 5)
                  for number in range(4)]
        bench = Bench(config, compute=stores, dma=dma(), latency=late,
                      axi={"write_latency": lambda: late})
        bench.run(answers=8)
        assert [read.data for _, read in bench.reads] == [5, 6, 7, 8]


def saturated(config, source):
    """Stores without end, to other beats than those of the other ports."""
    number = 0
    while True:
        address = beat(config, 64 * source + number % 64)
        yield make_request(config, STORE, source=source, address=address)
        number += 1


def all_ports(config):
    """Every port asks in every cycle."""
    return {"compute": saturated(config, PRODUCER), "ingress": saturated(config, LINK),
            "dma": saturated(config, DMA)}


@MEMORIES
def test_round_robin_shares_exactly(config):
    bench = Bench(config.replace(memory_outstanding=64), **all_ports(config))
    bench.run(cycles=300)
    sources = [commit.source.value for _, commit in bench.commits]
    assert len(sources) > 250
    start = sources.index(LINK)
    turns = sources[start:start + 240]
    assert turns[0::4] == [LINK] * 60
    assert turns[1::2] == [PRODUCER] * 120
    assert turns[2::4] == [DMA] * 60


@pytest.mark.parametrize("limit, link", [(0, 0), (3, 60)])
def test_starvation_limit_holds_with_compute_first(limit, link):
    bench = Bench(BUILTIN, compute=saturated(BUILTIN, PRODUCER), ingress=saturated(BUILTIN, LINK),
                  policy=Policy.COMPUTE_FIRST, limit=limit)
    bench.run(cycles=260)
    issues = [events.communication_issue for events in bench.events
              if events.communication_issue or events.compute_issue]
    assert len(issues) > 250
    assert sum(issues[10:250]) == link
    assert bench.count("forced") == sum(issues)


@pytest.mark.parametrize("threshold", [1, 5, 30])
@MEMORIES
def test_a_threshold_is_reached_and_not_exceeded(config, threshold):
    """Communication alone, before a slow memory: it goes on, with so many accesses at most."""
    config = config.replace(memory_outstanding=64)
    bench = Bench(config, ingress=saturated(config, LINK), policy=Policy.MCA, threshold=threshold,
                  latency=60, axi={"write_latency": lambda: 60})
    bench.run(cycles=400)
    bench.check_occupancy()
    assert max(occupancy for occupancy, _ in bench.occupancies) == threshold
    assert len(bench.commits) >= 3 * threshold
    assert bench.count("forced") == 0
    # From the second cycle on there is always something that could issue.
    assert bench.count("communication_hold") + bench.count("communication_issue") > 395


@MEMORIES
def test_compute_is_held_by_no_threshold(config):
    config = config.replace(memory_outstanding=64)
    bench = Bench(config, **all_ports(config), policy=Policy.MCA, threshold=5, latency=50,
                  axi={"write_latency": lambda: 50})
    bench.run(cycles=300)
    bench.check_occupancy()
    assert max(occupancy for occupancy, _ in bench.occupancies) > 40
    # Only until the first request of compute is there.
    assert bench.count("communication_issue") == 0
    assert bench.count("communication_hold") > 250


@pytest.mark.parametrize("limit", [1, 10])
def test_a_starvation_limit_passes_threshold_and_compute(limit):
    """The memory is full of compute's accesses throughout."""
    bench = Bench(BUILTIN, **all_ports(BUILTIN), policy=Policy.MCA, threshold=5, limit=limit,
                  latency=50)
    bench.run(cycles=300)
    bench.check_occupancy()
    issues = [events.communication_issue for events in bench.events[60:300]]
    assert sum(issues) == pytest.approx(240 / (limit + 1), abs=2)
    assert bench.count("forced") == bench.count("communication_issue")


@pytest.mark.parametrize("name, before, after, others, cycles", [
    ("threshold", 0, 1, {"policy": Policy.MCA}, 2),
    ("policy", Policy.COMPUTE_FIRST, Policy.MCA, {"threshold": 1}, 2),
])
def test_a_change_of_threshold_or_policy_holds_some_cycles_later(name, before, after, others,
                                                                 cycles):
    """Communication alone, before a slow memory that is full of it, is held and let go again."""
    bench = Bench(BUILTIN, ingress=saturated(BUILTIN, LINK), latency=60, **{name: before}, **others)
    held, let_go = 50, 80

    async def change(ctx):
        await ctx.tick().repeat(held)
        ctx.set(getattr(bench.dut, name), after)
        await ctx.tick().repeat(let_go - held)
        ctx.set(getattr(bench.dut, name), before)

    bench.run(cycles=100, extra=[change])
    issues = [events.communication_issue for events in bench.events]
    assert all(issues[held - 20:held + cycles])
    assert not any(issues[held + cycles:let_go + cycles])
    assert all(issues[let_go + cycles:])


def test_a_memory_that_is_no_dram_has_no_events_of_one():
    bench = Bench(BUILTIN, **all_ports(BUILTIN))
    seen = []

    async def watch(ctx):
        async for _, _, events in ctx.tick().sample(Value.cast(bench.dut.dram_events)):
            seen.append(events)

    bench.run(cycles=40, extra=[watch])
    assert not any(seen)


def test_stalls_are_seen_where_a_queue_is_full():
    bench = Bench(BUILTIN, compute=saturated(BUILTIN, PRODUCER), policy=Policy.COMPUTE_FIRST,
                  ingress=[make_request(BUILTIN, READ, source=LINK)] * 9)
    bench.run(cycles=100)
    # Compute has every cycle, and never waits.
    assert bench.count("compute_stall") == 0
    assert bench.count("compute_issue") == 99
    # Four of the others are in the queue; the next waits for it from cycle 5 on.
    assert bench.count("communication_issue") == 0
    assert bench.count("communication_stall") == 95


def test_a_slow_memory_stalls_both_queues():
    bench = Bench(AXI, **all_ports(AXI), axi={"write_latency": lambda: 50})
    bench.run(cycles=200)
    assert bench.count("compute_stall") > 50
    assert bench.count("communication_stall") > 50


@pytest.mark.parametrize("port, extra", [("compute", 0), ("ingress", 1), ("dma", 1)])
@pytest.mark.parametrize("op", [READ, STORE, UPDATE])
@MEMORIES
def test_latency_and_throughput(config, port, extra, op):
    config = config.replace(memory_outstanding=64)
    requests = [make_request(config, op, address=beat(config, number)) for number in range(80)]
    bench = Bench(config, **{port: requests})
    bench.run(answers=80)
    times = [cycle for cycle, _ in (bench.commits if op else bench.reads)]
    memory = bench.dut.memory
    if config.memory == "builtin":
        own = memory.minimum_latency
    else:
        # AR or AW and W, the bus's 1 cycle each way, the response.
        own = {READ: 4 + 1, STORE: memory.write_latency + 1,
               UPDATE: 4 + 1 + memory.add_latency + 1}[op] + 1
    first = bench.dut.queue_latency + extra + own
    assert times == list(range(first, first + 80))


@MEMORIES
def test_first_touch_and_memory_errors_are_both_reported(config):
    config = config.replace(memory_bytes=1024)
    tile = NO_TILE | {"tracked": 1, "slot": 9}
    bad = [make_request(config, UPDATE, address=1024, strobe=0b0111, tile=tile),
           make_request(config, UPDATE, address=1020, strobe=0b0111, tile=tile),
           make_request(config, STORE, address=1024, tile=tile),
           make_request(config, READ, address=1024)]
    bench = Bench(config, compute=bad)
    bench.run(answers=4)
    assert [(commit.error, commit.bytes) for _, commit in bench.commits] == [(1, 0), (0, 0), (1, 0)]
    assert [(read.error, read.data) for _, read in bench.reads] == [(1, 0)]
    found = sorted((error.cause.value, error.address, error.tile.slot) for _, error in bench.errors)
    assert found == [
        (PARTIAL_ELEMENT, 1020, 9), (PARTIAL_ELEMENT, 1024, 9),
        (MEMORY_ERROR, 1024, 0), (MEMORY_ERROR, 1024, 9), (MEMORY_ERROR, 1024, 9)]


def test_errors_in_every_cycle_hide_no_cause():
    """First touch and the memory report in each cycle, more than the one stream can carry."""
    requests = [make_request(BUILTIN, UPDATE, address=1024, strobe=0b0111) for _ in range(60)]
    bench = Bench(BUILTIN, compute=requests)
    bench.run(answers=60)
    causes = [error.cause.value for _, error in bench.errors]
    assert causes.count(PARTIAL_ELEMENT) == 60
    assert causes.count(MEMORY_ERROR) >= 4


@MEMORIES
def test_clear_reaches_first_touch(config):
    def compute():
        yield make_request(config, UPDATE, data=5, touch=(2, LOCAL, 1))
        while not cleared:
            yield None
        yield make_request(config, UPDATE, data=6, touch=(2, INCOMING, 1))
        yield make_request(config, READ)

    cleared = []
    bench = Bench(config, compute=compute())

    async def clear(ctx):
        ctx.set(bench.dut.clear.payload, {"any_touch": 1, "first_touch": 0, "last_touch": 5})
        async for _, _, ready in ctx.tick().sample(bench.dut.clear.ready):
            ctx.set(bench.dut.clear.valid, bool(bench.commits) and not (cleared or ready))
            if ready:
                cleared.append(True)

    bench.run(answers=3, extra=[clear])
    assert [read.data for _, read in bench.reads] == [6]
    assert bench.errors == []


def test_config_must_be_a_config():
    with pytest.raises(TypeError, match="not 'tiny'"):
        MemoryController(config="tiny")
