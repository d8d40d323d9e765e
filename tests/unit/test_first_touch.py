"""First touch stores, second touch adds, in either order, run after run, without a clear."""

import collections
import random

import pytest
from memory_agents import (
    BFLOAT16, DUPLICATE_UPDATE, FLOAT16, FLOAT32, INCOMING, INT32, LOCAL, MISSING_DTYPE,
    PARTIAL_ELEMENT, READ, STORE, UPDATE, TouchModel, elements, make_request, monitor, random_data,
    random_tile, sender, taker, wait_until,
)
from simulation import simulate

from t3hw.config import DTYPE_NAMES, NodeConfig
from t3hw.hdl.first_touch import FirstTouch

CONFIG = NodeConfig.preset("tiny").replace(touch_bytes=64)
WIDE = CONFIG.replace(data_width=128)


class Bench:
    """The block, its agents, and what the model expects of the requests that were accepted."""

    def __init__(self, config, *, seed=0, pace=1.0, ready=1.0):
        self.config = config
        self.seed = seed
        self.rng = random.Random(seed)
        self.dut = FirstTouch(config=config)
        self.model = TouchModel(config)
        self.pace = pace
        self.ready = ready
        self.accesses, self.errors = [], []
        self.expected, self.expected_errors = [], []

    def expect(self, request):
        """Let the model do a request; returns it for the sender."""
        write, strobe, add, causes = self.model.request(request)
        self.expected.append((int(write), strobe, add, request))
        self.expected_errors += [(cause, request["address"], request["tile"].get("slot", 0))
                                 for cause in causes]
        return request

    def run(self, requests, *, extra=(), cycles=20000):
        """Send all requests and compare all accesses and errors."""
        dut = self.dut
        exhausted = False

        def feed():
            nonlocal exhausted
            for request in requests:
                yield self.expect(request)
            exhausted = True

        async def wait(ctx):
            await wait_until(ctx, lambda: exhausted and len(self.accesses) >= len(self.expected),
                             cycles=cycles, what=lambda: f"seed {self.seed}: "
                             f"{len(self.accesses)} of {len(self.expected)} accesses")
            await ctx.tick().repeat(5)

        simulate(dut, wait, background=[
            sender(dut.request, feed(), rng=self.rng, pace=self.pace),
            taker(dut.access, rng=self.rng, pace=self.ready),
            monitor(dut.access, self.accesses), monitor(dut.error, self.errors), *extra])
        self.check()

    def check(self):
        """Accesses and errors are those that the model expects."""
        for number, ((_, access), (write, strobe, add, request)) in enumerate(
                zip(self.accesses, self.expected, strict=True)):
            where = f"seed {self.seed}, access {number}, {request}"
            assert access.write == write, where
            if write:
                assert (access.strobe, access.add) == (strobe, add), where
                assert access.data == request["data"], where
            else:
                assert access.add == 0, where
            assert access.address == request["address"], where
            assert (access.source.value, access.tag, access.last, access.dtype.value) == (
                request["source"], request["tag"], request["last"], request["dtype"]), where
            for field, value in request["tile"].items():
                assert access.tile[field] == value, where
        found = [(error.cause.value, error.address, error.tile.slot) for _, error in self.errors]
        assert found == self.expected_errors, f"seed {self.seed}"


def clear_bench(dut, *, first, last, start, done, any_touch=1):
    """A bench that clears a range when ``start(cycle)``; ``done`` gets the cycle of its ready."""
    async def bench(ctx):
        ctx.set(dut.clear.payload,
                {"any_touch": any_touch, "first_touch": first, "last_touch": last})
        cycle = ready = 0
        while not ready:
            if start(cycle):
                ctx.set(dut.clear.valid, 1)
            _, _, ready = await ctx.tick().sample(dut.clear.valid & dut.clear.ready)
            cycle += 1
        done.append(cycle - 1)
        ctx.set(dut.clear.valid, 0)
    return bench


def pieces(rng, config, dtype):
    """Strobes that together cover a beat, each of whole elements."""
    parts = [0] * rng.randrange(1, 4)
    for element in elements(config, dtype):
        parts[rng.randrange(len(parts))] |= element
    return [part for part in parts if part]


def run_of_plan(rng, config, indices, parity):
    """All updates of one run: each beat by each writer, in pieces, in any order."""
    updates = []
    for index in indices:
        dtype = index % 4
        for writer in (LOCAL, INCOMING):
            for strobe in pieces(rng, config, dtype):
                updates.append(make_request(
                    config, UPDATE, dtype=dtype, strobe=strobe, data=random_data(rng, config),
                    source=rng.randrange(3), tag=rng.randrange(config.outstanding_writes),
                    last=rng.randrange(2), tile=random_tile(rng, config),
                    address=index * config.beat_bytes, touch=(index, writer, parity)))
    rng.shuffle(updates)
    return updates


@pytest.mark.parametrize("first, second", [(LOCAL, INCOMING), (INCOMING, LOCAL)])
@pytest.mark.parametrize("parity", [0, 1])
def test_first_writer_stores_and_second_adds_in_either_order(first, second, parity):
    bench = Bench(CONFIG)
    # Parity 0 is that of an even run, so an odd one must have been before.
    runs = [1, 0] if parity == 0 else [1]

    def requests():
        for run in runs:
            bench.model.forget({3})
            for writer in (first, second):
                yield make_request(CONFIG, UPDATE, touch=(3, writer, run))

    bench.run(requests())
    assert [access.add for _, access in bench.accesses] == [0, 0b11] * len(runs)
    assert bench.errors == []


@pytest.mark.parametrize("config", [CONFIG, WIDE], ids=["32", "128"])
@pytest.mark.parametrize("ready", [1.0, 0.6])
def test_fifty_runs_without_a_clear(config, ready):
    bench = Bench(config, seed=5, ready=ready, pace=1.0 if ready == 1 else 0.8)
    rng = random.Random(6)
    indices = range(config.touch_beats)

    def requests():
        for run in range(1, 51):
            bench.model.forget(indices)
            yield from run_of_plan(rng, config, indices, run & 1)

    bench.run(requests())
    assert bench.errors == []
    # Each element was stored once and added to once in each run.
    kept = collections.Counter()
    for _, access in bench.accesses:
        kept["bytes"] += access.strobe.bit_count()
        kept["added"] += 2 * access.add.bit_count()
    assert kept["bytes"] == 2 * kept["added"] == 2 * 50 * len(indices) * config.beat_bytes


@pytest.mark.parametrize("seed", range(4))
def test_random_requests_with_every_kind_of_mistake(seed):
    rng = random.Random(seed)
    config = WIDE if seed % 2 else CONFIG
    bench = Bench(config, seed=seed, pace=0.8, ready=0.7)
    requests = []
    for _request in range(500):
        op = rng.choices([READ, STORE, UPDATE], [1, 1, 6])[0]
        index = rng.choice([2, 2, 2, 3, 5])
        strobes = 1 << config.beat_bytes
        strobe = rng.choice([strobes - 1, rng.randrange(strobes), 0])
        touch = (index, rng.randrange(2), 1) if op == UPDATE and rng.random() < 0.8 else None
        requests.append(make_request(
            config, op, dtype=rng.randrange(4), strobe=strobe, data=random_data(rng, config),
            address=rng.randrange(64) * config.beat_bytes, tile=random_tile(rng, config),
            touch=touch))
    bench.run(requests)
    causes = {error.cause.value for _, error in bench.errors}
    assert causes == {PARTIAL_ELEMENT, DUPLICATE_UPDATE}


@pytest.mark.parametrize("dtype, strobe, kept", [
    (INT32, 0b1100, 0), (INT32, 0b0110, 0), (INT32, 0b0000, 0), (INT32, 0b1010, 0),
    (FLOAT32, 0b1111, 0b1111), (FLOAT32, 0b0111, 0),
    (FLOAT16, 0b1100, 0b1100), (FLOAT16, 0b0110, 0), (FLOAT16, 0b0000, 0), (BFLOAT16, 0b1010, 0),
    (BFLOAT16, 0b1011, 0b0011),
])
@pytest.mark.parametrize("touch", [None, (1, LOCAL, 1)])
def test_strobes_that_cut_an_element_are_cleared_and_reported(dtype, strobe, kept, touch):
    bench = Bench(CONFIG)
    bench.run([make_request(CONFIG, UPDATE, dtype=dtype, strobe=strobe, touch=touch)])
    (_, access), = bench.accesses
    assert access.write == 1
    assert access.strobe == kept
    assert [error.cause.value for _, error in bench.errors] == [PARTIAL_ELEMENT] * (kept != strobe)


def test_stores_keep_any_strobe_and_do_not_touch():
    bench = Bench(CONFIG)
    bench.run([make_request(CONFIG, STORE, strobe=0b0110, touch=(1, LOCAL, 1)),
               make_request(CONFIG, UPDATE, touch=(1, LOCAL, 1))])
    assert [(access.strobe, access.add) for _, access in bench.accesses] == [
        (0b0110, 0), (0b1111, 0)]


def test_duplicates_are_dropped_by_lane():
    bench = Bench(CONFIG)
    requests = [make_request(CONFIG, UPDATE, dtype=FLOAT16, strobe=strobe, touch=(7, LOCAL, 1))
                for strobe in (0b0011, 0b1111, 0b1111)]
    bench.run(requests)
    assert [access.strobe for _, access in bench.accesses] == [0b0011, 0b1100, 0]
    assert [error.cause.value for _, error in bench.errors] == [DUPLICATE_UPDATE] * 2


def test_both_causes_of_one_request_are_reported():
    bench = Bench(CONFIG)
    bench.run([make_request(CONFIG, UPDATE, dtype=FLOAT16, strobe=strobe, touch=(7, LOCAL, 1))
               for strobe in (0b1100, 0b1110, 0b0011)])
    assert [access.strobe for _, access in bench.accesses] == [0b1100, 0, 0b0011]
    assert [error.cause.value for _, error in bench.errors] == [PARTIAL_ELEMENT, DUPLICATE_UPDATE]


@pytest.mark.parametrize("built", [("int32",), ("bfloat16", "float16"), ("float32",)])
def test_updates_of_a_type_without_an_adder_write_nothing(built):
    config = CONFIG.replace(dtypes=built)
    bench = Bench(config)
    requests = [make_request(config, op, dtype=dtype, address=4 * dtype, touch=(dtype, LOCAL, 1))
                for op in (STORE, UPDATE, UPDATE) for dtype in range(4)]
    bench.run(requests)
    missing = [dtype for dtype, name in enumerate(DTYPE_NAMES) if name not in built]
    assert [error.address // 4 for _, error in bench.errors
            if error.cause.value == MISSING_DTYPE] == missing * 2


def test_one_plan_is_cleared_and_runs_again_while_another_runs():
    config = CONFIG
    rng = random.Random(8)
    bench = Bench(config, seed=8, pace=0.9, ready=0.9)
    stays, cleared = range(0, 8), range(8, 16)
    stopped, done = [], []

    def requests():
        for run in range(1, 31):
            bench.model.forget(stays)
            updates = run_of_plan(rng, config, stays, run & 1)
            # A plan that stops half-way is cleared, and begins again with its first epoch.
            if run == 4:
                bench.model.forget(cleared)
                updates += run_of_plan(rng, config, cleared, 1)[:9]
                rng.shuffle(updates)
            if run == 5:
                stopped.append(run)
            yield from updates
            if run == 20:
                assert done
                bench.model.forget(cleared)
                yield from run_of_plan(rng, config, cleared, 1)

    bench.run(requests(), extra=[clear_bench(
        bench.dut, first=8, last=15, start=lambda _cycle: stopped, done=done)])
    assert bench.errors == []


@pytest.mark.parametrize("first, last, cleared", [
    (2, 5, range(2, 6)), (15, 15, [15]), (0, 15, range(16)), (14, 1, [14, 15, 0, 1]),
])
def test_clear_forgets_its_range_and_nothing_else(first, last, cleared):
    bench = Bench(CONFIG)
    done = []

    def requests():
        for index in range(16):
            yield make_request(CONFIG, UPDATE, touch=(index, LOCAL, 1))
        while not done:
            yield make_request(CONFIG, READ)
        bench.model.forget(cleared)
        for index in range(16):
            yield make_request(CONFIG, UPDATE, touch=(index, INCOMING, 1))

    bench.run(requests(), extra=[clear_bench(
        bench.dut, first=first, last=last, start=lambda cycle: cycle == 20, done=done)])
    assert [access.add for _, access in bench.accesses[-16:]] == [
        0 if index in cleared else 0b11 for index in range(16)]


def test_clear_takes_one_entry_a_cycle_and_at_most_every_other_cycle_of_requests():
    alone, beside, empty = [], [], []

    def start(cycle):
        return cycle == 10

    async def wait(ctx):
        ctx.set(dut.access.ready, 1)
        await ctx.tick().repeat(100)

    dut = FirstTouch(config=CONFIG)
    simulate(dut, wait, background=[clear_bench(dut, first=0, last=15, start=start, done=alone)])
    # One cycle to see it, 16 entries.
    assert alone == [10 + 1 + 16]

    dut = FirstTouch(config=CONFIG)
    simulate(dut, wait, background=[
        clear_bench(dut, first=0, last=15, start=start, done=empty, any_touch=0)])
    assert empty == [11]

    dut = FirstTouch(config=CONFIG)
    accesses = []
    busy = sender(dut.request, [make_request(CONFIG, UPDATE, touch=(0, LOCAL, 1))] * 200)
    simulate(dut, wait, background=[
        clear_bench(dut, first=0, last=15, start=start, done=beside), busy,
        monitor(dut.access, accesses)])
    assert beside == [10 + 1 + 16 + 15]
    latency = FirstTouch.latency
    assert [cycle for cycle, _ in accesses] == [latency + cycle for cycle in (
        *range(0, 11), *range(12, 42, 2), *range(42, 100 - latency))]


@pytest.mark.parametrize("indices", [[4], range(16)])
def test_latency_and_throughput_of_one_a_cycle(indices):
    """Same entry back to back included."""
    dut = FirstTouch(config=CONFIG)
    accesses = []
    requests = [make_request(CONFIG, UPDATE, touch=(indices[number % len(indices)], writer, 1))
                for number in range(20) for writer in (LOCAL, INCOMING)]

    async def wait(ctx):
        ctx.set(dut.access.ready, 1)
        await ctx.tick().repeat(50)

    simulate(dut, wait, background=[sender(dut.request, requests), monitor(dut.access, accesses)])
    assert [cycle for cycle, _ in accesses] == [
        dut.latency + cycle for cycle in range(40)]


@pytest.mark.parametrize("seed", range(2))
def test_a_map_in_banks_is_one_map(monkeypatch, seed):
    monkeypatch.setattr("t3hw.hdl.first_touch._BANK", 4)
    bench = Bench(CONFIG, seed=seed, pace=0.9, ready=0.9)

    def requests():
        for run in range(1, 9):
            bench.model.forget(range(16))
            yield from run_of_plan(bench.rng, CONFIG, range(16), run & 1)

    bench.run(requests())
    assert bench.errors == []


def test_config_must_be_a_config():
    with pytest.raises(TypeError, match="not 'tiny'"):
        FirstTouch(config="tiny")
