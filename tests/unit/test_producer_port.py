"""The producer port against a model: what each store becomes, and when it is answered."""

import dataclasses
import random

import pytest

from axi_bursts import INCR, OKAY, RESERVED, SLVERR, Burst, random_burst
from region_agents import (
    ADDRESS, LOCAL_STORE, LOCAL_UPDATE, REMOTE_UPDATE, USER, Plan, Region, find, getter, monitor,
    put, set_plans, slot_of, strobed, wait_for, write_regions,
)
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.producer_port import ProducerPort
from t3hw.hdl.seams import ErrorCause, MemoryOp, Source, Writer

TINY = NodeConfig.preset("tiny").replace(regions=6)
CONFIGS = {
    "tiny": TINY,
    "default": NodeConfig(regions=6, plans=3, outstanding_writes=16),
    "wide": NodeConfig(regions=4, data_width=256, addr_width=48, wf_width=0, burst_beats=8),
}
STORE, UPDATE = 1, 2


@dataclasses.dataclass
class Fate:
    """What the model says of one beat: one of a request, a remote beat, an error, or nothing."""

    request: dict = None
    remote: dict = None
    error: tuple = None


def judge(config, regions, plans, burst):
    """The fate of each beat of a write burst, while plans stand still."""
    size = config.beat_bytes
    wg, wf = burst.user % 2**config.wg_width, burst.user >> config.wg_width
    fates = []
    for number, (address, (data, strobe)) in enumerate(
            zip(burst.addresses(config), burst.beats, strict=True)):
        bytes_ = strobed(address, strobe, size)
        start = address - address % size
        if not burst.legal(config):
            fates.append(Fate(error=(ErrorCause.REFUSED_STORE, start)))
            continue
        if not bytes_:
            fates.append(Fate())
            continue
        region, straddles = find(regions, bytes_)
        if straddles:
            fates.append(Fate(error=(ErrorCause.REFUSED_STORE, start)))
            continue
        request = {"op": STORE, "address": start, "data": data, "strobe": strobe,
                   "last": int(number == burst.len)}
        if region is None:
            fates.append(Fate(request=request))
            continue
        update = region.action in (LOCAL_UPDATE, REMOTE_UPDATE)
        request |= {"op": UPDATE if update else STORE, "dtype": region.dtype}
        slot, tile_wg, tile_wf = slot_of(config, region, plans, bytes_[0], wg, wf)
        plan = plans[region.plan] if region.plan < len(plans) else Plan()
        local = region.action in (LOCAL_STORE, LOCAL_UPDATE)
        known = slot is not None if local else tile_wg < 2**config.wg_width
        if region.tracked and not plan.armed:
            fates.append(Fate(error=(ErrorCause.REFUSED_STORE, start)))
        elif region.tracked and not known:
            fates.append(Fate(error=(ErrorCause.UNKNOWN_TILE, start)))
        elif local:
            if region.tracked:
                request["tile"] = (region.plan, slot, tile_wg, tile_wf)
            if region.tracked and region.first_touch and update:
                index = (start // size + region.touch_offset) % config.touch_beats
                request["touch"] = (plan.epoch & 1, Writer.LOCAL, index)
            fates.append(Fate(request=request))
        else:
            delta = region.remote_delta - region.remote_delta % size
            request["address"] = (start + delta) % 2**config.addr_width
            request["tracked"] = region.tracked
            if region.tracked:
                request |= {"plan": region.plan, "epoch": plan.epoch, "wg": tile_wg, "wf": tile_wf}
            # For the model of packets: all that must be the same within one.
            plan_field = region.plan % 2**max(config.plans - 1, 1).bit_length()
            key = (request["op"], region.dtype, region.tracked, plan_field, plan.epoch,
                   tile_wg % 2**config.wg_width, tile_wf)
            fates.append(Fate(remote=request | {
                "key": key, "narrow": 2**burst.size < size, "last": int(number == burst.len)}))
    return fates


def set_lasts(config, fates):
    """Where packets end, among all beats in order."""
    length = 0
    for fate, after in zip(fates, [*fates[1:], Fate()], strict=True):
        if fate.remote is None:
            continue
        length += 1
        now, then = fate.remote, after.remote
        ends = (now["last"] or now["narrow"] or length == config.burst_beats or then is None
                or then["narrow"] or then["key"] != now["key"]
                or then["address"] != (now["address"] + config.beat_bytes) % 2**config.addr_width)
        now["last"] = int(ends)
        length = 0 if ends else length
    for fate in fates:
        if fate.remote is not None:
            del fate.remote["key"], fate.remote["narrow"]


def plain_request(request):
    result = {name: getattr(request, name) for name in ("address", "data", "strobe", "last")}
    result |= {"op": request.op.value, "dtype": request.dtype.value}
    if request.tile.tracked:
        result["tile"] = tuple(getattr(request.tile, name) for name in ("plan", "slot", "wg", "wf"))
    if request.touch.enable:
        result["touch"] = (request.touch.parity, request.touch.writer, request.touch.index)
    return result


def plain_remote(beat):
    result = {name: getattr(beat, name)
              for name in ("address", "data", "strobe", "last", "tracked")}
    result |= {"op": beat.op.value, "dtype": beat.dtype.value}
    if beat.tracked:
        result |= {name: getattr(beat, name) for name in ("plan", "epoch", "wg", "wf")}
    return result


class Bench:
    """A producer port with a memory that commits in any order, and a link; what came out."""

    def __init__(self, config, *, rng=None, pace=1.0, failing=0.0, delay=lambda: 1):
        self.config = config
        self.dut = ProducerPort(config=config)
        self.rng = rng or random.Random(0)
        self.pace, self.failing, self.delay = pace, failing, delay
        self.requests, self.reads_asked, self.remote, self.errors = [], [], [], []
        self.answers, self.loaded = [], []
        #: Numbers of requests that have been committed, and of those, the failed ones.
        self.committed, self.failed = set(), set()
        self.totals = dict.fromkeys(("write_bytes", "read_bytes", "remote_bytes"), 0)
        self.link_open = True
        self.memory_open = True
        #: Called when an answer to a store is first offered.
        self.on_answer = lambda number, resp: None

    async def memory(self, ctx):
        dut, rng = self.dut, self.rng
        writes, reads, cycle = [], [], 0
        while True:
            cycle += 1
            due = [entry for entry in writes if entry[0] <= cycle]
            commit = rng.choice(due) if due and self.memory_open else None
            failed = commit is not None and rng.random() < self.failing
            ctx.set(dut.commit.valid, 1)
            if commit is not None:
                writes.remove(commit)
                ctx.set(dut.commit.payload, {
                    "source": Source.PRODUCER, "tag": commit[1], "error": int(failed)})
            else:
                ctx.set(dut.commit.payload, {"source": rng.choice([Source.LINK, Source.DMA]),
                                             "tag": rng.randrange(self.config.outstanding_writes),
                                             "error": 1})
            answer = reads.pop(0) if reads and reads[0][0] <= cycle else None
            ctx.set(dut.read.valid, answer is not None)
            if answer is not None:
                ctx.set(dut.read.payload, {"source": Source.PRODUCER, "data": answer[1] // 4,
                                           "last": answer[2], "error": 0})
            ready = int(self.memory_open and rng.random() < self.pace)
            ctx.set(dut.compute.ready, ready)
            _, _, valid, request = await ctx.tick().sample(dut.compute.valid, dut.compute.payload)
            if commit is not None:
                self.committed.add(commit[2])
                if failed:
                    self.failed.add(commit[2])
            if valid and ready:
                assert request.source == Source.PRODUCER
                if request.op == MemoryOp.READ:
                    reads.append((cycle + self.delay(), request.address, request.last))
                    self.reads_asked.append(request.address)
                else:
                    writes.append((cycle + self.delay(), request.tag, len(self.requests)))
                    self.requests.append(plain_request(request))

    async def link(self, ctx):
        refused = None
        while True:
            ready = int(self.link_open and self.rng.random() < self.pace)
            ctx.set(self.dut.remote.ready, ready)
            _, _, valid, beat = await ctx.tick().sample(
                self.dut.remote.valid, self.dut.remote.payload)
            assert refused is None or (valid and beat.as_bits() == refused)
            refused = beat.as_bits() if valid and not ready else None
            if valid and ready:
                self.remote.append(plain_remote(beat))

    async def answer(self, ctx):
        while True:
            ready = int(self.rng.random() < self.pace)
            ctx.set(self.dut.b.ready, ready)
            _, _, valid, response = await ctx.tick().sample(self.dut.b.valid, self.dut.b.payload)
            if valid:
                self.on_answer(len(self.answers), response.resp)
                if ready:
                    self.answers.append((response.id, response.resp))

    async def count(self, ctx):
        while True:
            _, _, events = await ctx.tick().sample(self.dut.events)
            for name in self.totals:
                self.totals[name] += getattr(events, name)

    def run(self, *benches):
        simulate(self.dut, *benches, background=[
            self.memory, self.link, self.answer, self.count, monitor(self.dut.error, self.errors),
            getter(self.dut.r, self.loaded, rng=self.rng, pace=self.pace,
                   convert=lambda beat: (beat.id, beat.data, beat.resp, beat.last))])

    async def program(self, ctx, regions, plans):
        await write_regions(ctx, self.dut.table, regions)
        set_plans(ctx, self.dut.plans, plans)

    async def write(self, ctx, bursts):
        """Bursts one after the other, the data behind the address."""
        for burst in bursts:
            await put(ctx, self.dut.aw, [burst.channel])
            await put(ctx, self.dut.w, burst.data)

    async def settle(self, ctx, answers):
        await wait_for(ctx, lambda: len(self.answers) == answers, cycles=3000,
                       what=lambda: f"{len(self.answers)} of {answers} answers")
        await ctx.tick().repeat(3)


def random_region(rng, config, number):
    base = number * 0x600 + rng.randrange(0x40)
    return Region(
        enable=int(rng.random() < 0.9), base=base, limit=base + rng.randrange(0x400, 0x680),
        action=rng.randrange(4), mode=rng.choice([USER, ADDRESS]), dtype=rng.randrange(4),
        tracked=int(rng.random() < 0.7), first_touch=rng.randrange(2), wf_shift=rng.randrange(3),
        plan=rng.choice([rng.randrange(config.plans)] * 6 + [7]), first_tile=rng.randrange(4, 12),
        remote_delta=rng.randrange(2**config.addr_width), pitch_log2=8, rows_log2=1,
        row_bytes_log2=6, touch_offset=rng.randrange(2**32))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_random_stores_and_loads_as_the_model_says(name, seed):
    config = CONFIGS[name]
    rng = random.Random(f"{name} {seed}")
    regions = [random_region(rng, config, number) for number in range(config.regions)]
    plans = [Plan(armed=int(rng.random() < 0.8), epoch=rng.randrange(16),
                  first_tile=rng.randrange(6), last_tile=rng.randrange(24, 60))
             for _ in range(config.plans)]
    bursts = [random_burst(rng, config, addr=rng.randrange(0x600 * config.regions + 0x100),
                           illegal=0.05, writes=True) for _ in range(40)]
    for burst in bursts:
        burst.user = rng.randrange(16) | rng.randrange(2**config.wf_width) << config.wg_width
    loads = [random_burst(rng, config, addr=rng.randrange(0x4000)) for _ in range(20)]

    fates = [judge(config, regions, plans, burst) for burst in bursts]
    everything = [fate for burst in fates for fate in burst]
    set_lasts(config, everything)
    requests = [fate.request for fate in everything if fate.request]
    remote = [fate.remote for fate in everything if fate.remote]
    errors = [fate.error for fate in everything if fate.error]
    bench = Bench(config.replace(producer_reads=rng.choice([2, 32])), rng=rng,
                  pace=rng.choice([0.5, 1.0]), failing=0.03, delay=lambda: rng.choice([1, 2, 40]))
    # How many requests and remote beats each burst and those before it have.
    sums = [(sum(bool(fate.request) for burst in fates[:number + 1] for fate in burst),
             sum(bool(fate.remote) for burst in fates[:number + 1] for fate in burst))
            for number in range(len(fates))]

    def on_answer(number, resp):
        here, there = sums[number]
        before = sums[number - 1][0] if number else 0
        early = f"seed {seed}: answer {number} came before its"
        assert bench.committed.issuperset(range(here)), f"{early} commits"
        assert len(bench.remote) >= there, f"{early} beats had gone"
        bad = any(fate.error for fate in fates[number]) or bench.failed & set(range(before, here))
        assert resp == (SLVERR if bad else OKAY), f"seed {seed}: answer {number}"

    bench.on_answer = on_answer
    programmed = False

    def after_programming(agent):
        async def run(ctx):
            await wait_for(ctx, lambda: programmed, cycles=200, what="tables")
            await agent(ctx)
        return run

    async def main(ctx):
        nonlocal programmed
        await bench.program(ctx, regions, plans)
        programmed = True
        await wait_for(ctx, lambda: len(bench.answers) == len(bursts)
                       and len(bench.loaded) == sum(load.len + 1 for load in loads), cycles=20000,
                       what=lambda: f"seed {seed}: {len(bench.answers)} of {len(bursts)} answers, "
                                    f"{len(bench.loaded)} beats loaded")
        await ctx.tick().repeat(3)

    @after_programming
    async def addresses(ctx):
        await put(ctx, bench.dut.aw, [burst.channel for burst in bursts],
                  rng=random.Random(seed), pace=0.7)

    @after_programming
    async def data(ctx):
        await put(ctx, bench.dut.w, [beat for burst in bursts for beat in burst.data],
                  rng=random.Random(seed + 1), pace=rng.choice([0.5, 1.0]))

    @after_programming
    async def load(ctx):
        await put(ctx, bench.dut.ar, [burst.channel for burst in loads],
                  rng=random.Random(seed + 2), pace=0.2)

    bench.run(main, addresses, data, load)
    for got, want in zip(bench.requests, requests, strict=True):
        # A plain store's dtype means nothing.
        if "dtype" not in want:
            del got["dtype"]
        assert got == want, f"seed {seed}"
    assert bench.remote == remote, f"seed {seed}"
    assert [(error.cause, error.address) for error in bench.errors] == errors, f"seed {seed}"
    assert [id_ for id_, _ in bench.answers] == [burst.id for burst in bursts]
    assert bench.loaded == [
        (burst.id, (address - address % config.beat_bytes) // 4, OKAY, int(number == burst.len))
        for burst in loads for number, address in enumerate(burst.addresses(config))]
    assert bench.totals["write_bytes"] == sum(
        request["strobe"].bit_count() for request in requests)
    assert bench.totals["remote_bytes"] == sum(beat["strobe"].bit_count() for beat in remote)
    assert len(requests) > 10 and errors, f"seed {seed} tries too little"


# Directed tests: a region of each kind, on one plan.
PLAN = Plan(armed=1, epoch=5, first_tile=8, last_tile=11)
UPDATES = Region(base=0x1000, limit=0x1FFF, action=LOCAL_UPDATE, dtype=2, tracked=1, first_touch=1,
                 plan=1, first_tile=8, touch_offset=3)
REMOTE = Region(base=0x2000, limit=0x2FFF, action=REMOTE_UPDATE, dtype=1, tracked=1, plan=1,
                first_tile=8, remote_delta=0x7000)
PLAIN = Region(base=0x3000, limit=0x3FFF, action=LOCAL_STORE)
ADDRESSED = Region(base=0x4000, limit=0x40FF, action=LOCAL_UPDATE, tracked=1, plan=1, first_tile=8,
                   mode=ADDRESS, pitch_log2=5, rows_log2=2, row_bytes_log2=4)
REGIONS = [UPDATES, REMOTE, PLAIN, ADDRESSED]
PLANS = [Plan(), PLAN]


def stores(addr, count, *, user=0, id_=0, strobe=15, size=2, start=1):
    return Burst(addr=addr, len=count - 1, size=size, id=id_, user=user,
                 beats=[(start + number, strobe) for number in range(count)])


def run_bursts(bursts, *, config=TINY, plans=PLANS, regions=REGIONS):
    """Send bursts and wait for all answers."""
    bench = Bench(config)

    async def main(ctx):
        await bench.program(ctx, regions, plans)
        await bench.write(ctx, bursts)
        await bench.settle(ctx, len(bursts))

    bench.run(main)
    return bench


def test_a_local_update_of_a_tile():
    bench = run_bursts([stores(0x1004, 1, user=2)])
    assert bench.requests == [{
        "op": UPDATE, "dtype": 2, "address": 0x1004, "data": 1, "strobe": 15, "last": 1,
        "tile": (1, 10, 2, 0), "touch": (1, Writer.LOCAL, 0x401 + 3)}]
    assert bench.answers == [(0, OKAY)]


def test_a_remote_update_of_a_tile():
    bench = run_bursts([stores(0x2010, 2, user=1)])
    common = {"op": UPDATE, "dtype": 1, "strobe": 15, "tracked": 1, "plan": 1, "epoch": 5,
              "wg": 1, "wf": 0}
    assert bench.remote == [common | {"address": 0x9010, "data": 1, "last": 0},
                            common | {"address": 0x9014, "data": 2, "last": 1}]
    assert bench.answers == [(0, OKAY)] and not bench.requests


def test_tiles_by_address():
    """Rows of 32 bytes with two tiles of 16 bytes, four rows high."""
    places = [0x4000, 0x4010, 0x4060, 0x4070, 0x4080, 0x40F0]
    bench = run_bursts([stores(place, 1, user=77) for place in places])
    assert [request["tile"] for request in bench.requests] == [
        (1, 8 + number, number, 0) for number in (0, 1, 0, 1, 2, 3)]


def test_a_remote_tile_needs_no_slot_here_but_a_number_that_fits():
    """Beyond that the neighbour would count it for another tile."""
    config = TINY.replace(wg_width=6)
    region = Region(base=0x10000, limit=0x1FFFF, action=REMOTE_UPDATE, tracked=1, plan=1,
                    mode=ADDRESS, pitch_log2=4, row_bytes_log2=4)
    bench = run_bursts([stores(0x10000 + 16 * number, 1) for number in (0, 63, 64)], config=config,
                       regions=[region])
    assert [beat["wg"] for beat in bench.remote] == [0, 63]
    assert [error.cause for error in bench.errors] == [ErrorCause.UNKNOWN_TILE]
    assert [resp for _, resp in bench.answers] == [OKAY, OKAY, SLVERR]


def test_stores_outside_all_regions_pass_untouched():
    bench = run_bursts([stores(0x8000, 2), stores(0x3000, 1)])
    assert [(request["op"], request["address"]) for request in bench.requests] == [
        (STORE, 0x8000), (STORE, 0x8004), (STORE, 0x3000)]
    assert not any("tile" in request for request in bench.requests)


def test_the_last_byte_of_a_region_and_the_next():
    region = Region(base=0x1000, limit=0x1005, action=LOCAL_UPDATE)
    cases = [(0b0011, UPDATE), (0b0001, UPDATE), (0b0010, UPDATE), (0b0100, STORE), (0b1000, STORE),
             (0b0110, None), (0b1001, None), (0b1111, None)]
    bench = run_bursts([stores(0x1004, 1, strobe=strobe) for strobe, _ in cases], regions=[region])
    ops = [op for _, op in cases]
    assert [request["op"] for request in bench.requests] == [op for op in ops if op is not None]
    assert [resp for _, resp in bench.answers] == [SLVERR if op is None else OKAY for op in ops]
    assert [error.cause for error in bench.errors] == 3 * [ErrorCause.REFUSED_STORE]


@pytest.mark.parametrize("plans, cause", [
    ([Plan(), dataclasses.replace(PLAN, armed=0)], ErrorCause.REFUSED_STORE),
    ([Plan(), dataclasses.replace(PLAN, last_tile=8)], ErrorCause.UNKNOWN_TILE)])
def test_a_refused_beat_answers_slverr_and_others_go_on(plans, cause):
    """A burst that begins outside the region, crosses it, and others around it."""
    bench = run_bursts([stores(0x3FF8, 1, id_=1), stores(0x0FF8, 4, user=1, id_=2),
                        stores(0x8000, 1, id_=3)], plans=plans)
    assert bench.answers == [(1, OKAY), (2, SLVERR), (3, OKAY)]
    assert [request["address"] for request in bench.requests] == [0x3FF8, 0x0FF8, 0x0FFC, 0x8000]
    assert [(error.cause, error.address) for error in bench.errors] == [
        (cause, 0x1000), (cause, 0x1004)]
    tile = bench.errors[0].tile
    assert (tile.tracked, tile.plan, tile.slot, tile.wg) == (1, 1, 9, 1)


def test_bursts_that_axi_does_not_allow_change_nothing():
    bench = run_bursts([dataclasses.replace(stores(0x8000, 2), burst=RESERVED),
                        dataclasses.replace(stores(0x8000, 2), size=3), stores(0x9000, 1)])
    assert [resp for _, resp in bench.answers] == [SLVERR, SLVERR, OKAY]
    assert [request["address"] for request in bench.requests] == [0x9000]


def test_a_beat_without_strobes_does_nothing_and_is_answered():
    burst = stores(0x1000, 3, user=3, strobe=0)
    bench = run_bursts([burst, stores(0x2000, 2, strobe=0)], plans=[Plan(), Plan()])
    assert [resp for _, resp in bench.answers] == [OKAY, OKAY]
    assert not bench.requests and not bench.remote and not bench.errors


def test_narrow_remote_beats_go_alone():
    beats = [(1, 12), (2, 3), (3, 12), (4, 3)]
    bench = run_bursts([Burst(addr=0x2002, len=3, size=1, beats=beats)])
    assert [(beat["address"], beat["strobe"], beat["last"]) for beat in bench.remote] == [
        (0x9000, 12, 1), (0x9004, 3, 1), (0x9004, 12, 1), (0x9008, 3, 1)]


@pytest.mark.parametrize("count", [1, 4, 5, 255, 256])
def test_remote_bursts_are_cut_into_packets(count):
    bench = run_bursts([stores(0x2000, count)])
    assert [beat["last"] for beat in bench.remote] == [
        int(number % 4 == 3 or number == count - 1) for number in range(count)]
    assert [beat["data"] for beat in bench.remote] == list(range(1, count + 1))


@pytest.mark.parametrize("count", [1, 255, 256])
def test_long_local_bursts(count):
    bench = run_bursts([stores(0x1000, count)])
    assert [request["address"] for request in bench.requests] == [
        0x1000 + 4 * number for number in range(count)]
    assert bench.answers == [(0, OKAY)]


def test_all_ids_come_back_in_order():
    bench = run_bursts([stores(0x8000 + 4 * id_, 1, id_=id_ % 16) for id_ in range(40)])
    assert [id_ for id_, _ in bench.answers] == [id_ % 16 for id_ in range(40)]


def test_commits_may_come_in_any_order():
    """The second burst is committed first: neither is answered before the first is, too."""
    dut = ProducerPort(config=TINY)
    tags, answers = [], []

    async def commit(ctx, tag):
        ctx.set(dut.commit.valid, 1)
        ctx.set(dut.commit.payload, {"source": Source.PRODUCER, "tag": tag})
        await ctx.tick()
        ctx.set(dut.commit.valid, 0)
        await ctx.tick().repeat(20)

    async def bench(ctx):
        for id_ in (3, 4):
            await put(ctx, dut.aw, [stores(0x8000, 2, id_=id_).channel])
            await put(ctx, dut.w, stores(0x8000, 2).data)
        await ctx.tick().repeat(20)
        assert len(set(tags)) == 2 and len(tags) == 4
        for tag in (tags[2], tags[0], tags[2]):
            await commit(ctx, tag)
            assert not answers
        await commit(ctx, tags[0])
        assert answers == [3, 4]

    simulate(dut, bench, background=[
        getter(dut.compute, tags, convert=lambda request: request.tag),
        getter(dut.b, answers, convert=lambda response: response.id)])


def test_a_remote_store_is_answered_when_the_link_took_all_of_it():
    bench = Bench(TINY)
    bench.link_open = False

    async def main(ctx):
        await bench.program(ctx, REGIONS, PLANS)
        await bench.write(ctx, [stores(0x2000, 1)])
        await ctx.tick().repeat(50)
        assert not bench.answers
        bench.link_open = True
        await bench.settle(ctx, 1)

    bench.run(main)


def test_a_blocked_remote_store_blocks_no_load():
    bench = Bench(TINY)
    bench.link_open = False

    async def main(ctx):
        await bench.program(ctx, REGIONS, PLANS)
        await put(ctx, bench.dut.aw, [stores(0x2000, 16).channel])
        ctx.set(bench.dut.w.valid, 1)
        ctx.set(bench.dut.w.payload, {"strb": 15})
        await ctx.tick().repeat(100)
        assert not ctx.get(bench.dut.w.ready) and ctx.get(bench.dut.events.write_stall)
        await put(ctx, bench.dut.ar, [Burst(addr=0x100, len=99, size=2).channel])
        await wait_for(ctx, lambda: len(bench.loaded) == 100, cycles=500, what="loads")

    bench.run(main)
    assert not bench.remote


def test_loads_and_stores_take_turns():
    order = []
    bench = Bench(TINY.replace(producer_reads=512))

    async def main(ctx):
        await put(ctx, bench.dut.aw, [stores(0x8000, 256).channel])
        await put(ctx, bench.dut.ar, [Burst(addr=0, len=255, size=2).channel])
        await put(ctx, bench.dut.w, stores(0x8000, 256).data)
        await bench.settle(ctx, 1)

    async def watch(ctx):
        while True:
            _, _, valid, ready, op = await ctx.tick().sample(
                bench.dut.compute.valid, bench.dut.compute.ready, bench.dut.compute.payload.op)
            if valid and ready:
                order.append(op)

    simulate(bench.dut, main, background=[
        watch, bench.memory, bench.answer, getter(bench.dut.r, bench.loaded)])
    begin = order.index(MemoryOp.STORE)
    both = order[begin:begin + 200]
    assert all(left != right for left, right in zip(both, both[1:], strict=False))


def test_a_beat_that_was_found_good_keeps_its_plan_busy_until_memory_has_it():
    bench = Bench(TINY)
    bench.memory_open = False
    times = []

    async def main(ctx):
        await bench.program(ctx, REGIONS, PLANS)
        await bench.write(ctx, [stores(0x1000, 2)])
        await ctx.tick().repeat(20)
        set_plans(ctx, bench.dut.plans, [Plan(), Plan()])
        await ctx.tick().repeat(5)
        assert ctx.get(bench.dut.busy) == 0b10
        bench.memory_open = True
        await bench.settle(ctx, 1)
        assert ctx.get(bench.dut.busy) == 0
        # Now the plan is not armed, so what comes is no plan's.
        await bench.write(ctx, [stores(0x1000, 1), stores(0x8000, 1)])
        for _cycle in range(20):
            times.append((await ctx.tick().sample(bench.dut.busy))[2])

    bench.run(main)
    assert not any(times)
    assert len(bench.requests) == 3 and len(bench.errors) == 1


def test_latency_and_throughput_as_stated():
    """A burst of local, then one of remote beats, without a pause; times of the first of each."""
    dut = ProducerPort(config=TINY)
    bursts = [stores(0x1000, 64), stores(0x2000, 64)]
    beats = [beat for burst in bursts for beat in burst.data]
    local, remote = [], []

    async def bench(ctx):
        await write_regions(ctx, dut.table, REGIONS)
        set_plans(ctx, dut.plans, PLANS)
        await put(ctx, dut.aw, [burst.channel for burst in bursts])
        ctx.set(dut.compute.ready, 1)
        ctx.set(dut.remote.ready, 1)
        for cycle in range(150):
            ctx.set(dut.w.valid, cycle < len(beats))
            if cycle < len(beats):
                ctx.set(dut.w.payload, beats[cycle])
            _, _, ready, here, there = await ctx.tick().sample(
                dut.w.ready, dut.compute.valid, dut.remote.valid)
            assert ready or cycle >= len(beats)
            if here:
                local.append(cycle)
            if there:
                remote.append(cycle)

    simulate(dut, bench)
    latency = dut.latency
    assert local == [cycle + latency for cycle in range(64)]
    assert remote == [cycle + latency for cycle in range(64, 128)]


def test_a_load_takes_two_cycles_to_memory():
    dut = ProducerPort(config=TINY)

    async def bench(ctx):
        ctx.set(dut.compute.ready, 1)
        await put(ctx, dut.ar, [Burst(addr=0, len=0, size=2, burst=INCR).channel])
        for cycle in range(1, 4):
            assert (await ctx.tick().sample(dut.compute.valid))[2] == (cycle == 2)

    simulate(dut, bench)
