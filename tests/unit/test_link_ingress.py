"""The ingress obeys good packets, refuses every bad one by its cause, and waits for plans."""

import dataclasses
import random

import pytest

from link_packets import (
    STORE, UPDATE, Packet, header_length, packet_words,
)
from region_agents import (
    ADDRESS, USER, Plan, Region, find, getter, monitor, put, random_strobe, set_plans, slot_of,
    strobed, wait_for, write_regions,
)
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.link_ingress import LinkIngress
from t3hw.hdl.seams import ErrorCause, Source, Writer

TINY = NodeConfig.preset("tiny").replace(regions=6)
CONFIGS = {
    "tiny": TINY,
    "default": NodeConfig(regions=6, link_credits=9, plans=3),
    "three words of header": NodeConfig(regions=6, data_width=32, addr_width=64, plans=1,
                                        wf_width=0, burst_beats=8, link_credits=5),
}
LATENCY = LinkIngress.latency
NAMES = {cause.name: cause for cause in ErrorCause}


def successor(epoch):
    return 2 if epoch == 15 else epoch + 1


class Bench:
    """An ingress with its agents; what it asked for and reported, as plain data."""

    def __init__(self, config, *, rng=None, pace=1.0):
        self.config = config
        self.dut = LinkIngress(config=config)
        self.rng = rng
        self.pace = pace
        self.requests, self.errors, self.credits = [], [], 0
        self.update_bytes = self.store_bytes = 0

    async def count(self, ctx):
        """Credits and bytes, cycle by cycle."""
        taken = 0
        while True:
            _, _, valid, ready, credit, update, store = await ctx.tick().sample(
                self.dut.rx.valid, self.dut.rx.ready, self.dut.credit,
                self.dut.events.update_bytes, self.dut.events.store_bytes)
            self.credits += credit
            assert self.credits <= taken, "a credit before its word"
            taken += valid and ready
            assert taken - self.credits <= self.config.link_credits + 1
            self.update_bytes += update
            self.store_bytes += store

    def run(self, *benches):
        simulate(self.dut, *benches, background=[
            getter(self.dut.request, self.requests, rng=self.rng, pace=self.pace, convert=plain),
            monitor(self.dut.error, self.errors), self.count])

    async def send(self, ctx, packets):
        words = [word for packet in packets for word in packet_words(self.config, packet)]
        await put(ctx, self.dut.rx, words, rng=self.rng, pace=self.pace)

    @property
    def causes(self):
        return [error.cause for error in self.errors]


def plain(request):
    """A request as a dict, without what has no meaning."""
    result = {name: getattr(request, name)
              for name in ("op", "dtype", "source", "last", "address", "data", "strobe")}
    if request.touch.enable:
        result["touch"] = (request.touch.parity, request.touch.writer, request.touch.index)
    if request.tile.tracked:
        result["tile"] = tuple(getattr(request.tile, name) for name in ("plan", "slot", "wg", "wf"))
    for name in ("dtype", "op"):
        result[name] = getattr(result[name], "value", result[name])
    return result


def judge(config, regions, plans, packet, magic):
    """(requests, errors) that a packet gives while plans stand still."""
    requests, errors = [], []
    if magic != 0b1011 or packet.op not in (STORE, UPDATE) or not packet.beats:
        return [], [(NAMES["LINK_FORMAT"], 0)]
    if packet.tracked:
        if packet.plan >= config.plans:
            return [], [(NAMES["REFUSED_PACKET"], packet.address)]
        if not plans[packet.plan].armed or packet.epoch != plans[packet.plan].epoch:
            return [], [(NAMES["STALE_PACKET"], packet.address)]
    for number, (data, strobe) in enumerate(packet.beats):
        address = (packet.address + number * config.beat_bytes) % 2**config.addr_width
        if number == config.burst_beats:
            errors.append((NAMES["LINK_FORMAT"], 0))
            break
        bytes_ = strobed(address, strobe, config.beat_bytes)
        if not bytes_:
            continue
        region, straddles = find(regions, bytes_)
        if region is None:
            cause = NAMES["REFUSED_PACKET" if straddles else "UNMAPPED_PACKET"]
            errors.append((cause, address))
            continue
        slot, wg, wf = slot_of(config, region, plans, bytes_[0], packet.wg, packet.wf)
        if ((packet.op == STORE and not region.accept_store)
                or (packet.op == UPDATE and not region.accept_update)
                or packet.tracked != region.tracked
                or (packet.tracked and packet.plan != region.plan)
                or (packet.op == UPDATE and packet.dtype != region.dtype)):
            errors.append((NAMES["REFUSED_PACKET"], address))
        elif packet.tracked and slot is None:
            errors.append((NAMES["UNKNOWN_TILE"], address))
        else:
            request = {"op": packet.op, "dtype": packet.dtype, "source": Source.LINK,
                       "last": int(number == len(packet.beats) - 1), "address": address,
                       "data": data, "strobe": strobe}
            if packet.tracked:
                request["tile"] = (packet.plan, slot, wg, wf)
            if packet.tracked and packet.op == UPDATE and region.first_touch:
                index = (address // config.beat_bytes + region.touch_offset) % config.touch_beats
                request["touch"] = (packet.epoch & 1, Writer.INCOMING, index)
            requests.append(request)
    return requests, errors


def random_regions(rng, config):
    """Regions in a small window, most of them generous."""
    regions = []
    for number in range(config.regions):
        base = number * 0x280 + rng.randrange(0x40)
        regions.append(Region(
            enable=int(rng.random() < 0.9), base=base, limit=base + rng.randrange(0x200, 0x300),
            mode=rng.choice([USER, ADDRESS]), dtype=rng.randrange(2),
            tracked=int(rng.random() < 0.7), first_touch=rng.randrange(2),
            accept_store=int(rng.random() < 0.9), accept_update=int(rng.random() < 0.9),
            wf_shift=1, plan=rng.randrange(config.plans), first_tile=rng.randrange(4, 12),
            pitch_log2=6, rows_log2=2, row_bytes_log2=4, touch_offset=rng.randrange(2**32)))
    return regions


def random_case(rng, config, regions, plans):
    """A packet that mostly fits a region, with its magic; now and then with a fault."""
    region = rng.choice(regions)
    length = rng.choice([rng.randint(1, config.burst_beats)] * 8 + [0, config.burst_beats + 1,
                                                                     config.burst_beats + 5])
    size = config.beat_bytes
    start = rng.choice([rng.randrange(region.base, region.limit + 1), rng.randrange(0x1400)])
    epochs = [plan.epoch for plan in plans]
    plan = rng.choice([region.plan] * 6 + [rng.randrange(4)])
    plan %= max(2, 2**(config.plans - 1).bit_length())
    epoch = epochs[plan] if plan < config.plans else 3
    if rng.random() < 0.1:
        epoch = rng.choice([other for other in range(16) if other != successor(epoch)])
    packet = Packet(
        address=start - start % size, op=rng.choice([STORE, UPDATE, UPDATE] * 6 + [0, 3]),
        dtype=rng.choice([region.dtype] * 6 + [3]),
        tracked=rng.choice([region.tracked] * 8 + [1 - region.tracked]),
        plan=plan, epoch=epoch, wg=rng.randrange(20), wf=rng.randrange(2**min(config.wf_width, 1)),
        beats=[(rng.randrange(2**config.data_width), random_strobe(rng, size))
               for _ in range(length)])
    return packet, rng.choice([0b1011] * 15 + [rng.randrange(16)])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_random_packets_as_the_model_says(name, seed):
    config = CONFIGS[name]
    rng = random.Random(f"{name} {seed}")
    regions = random_regions(rng, config)
    plans = [Plan(armed=int(rng.random() < 0.95), epoch=rng.randrange(1, 16),
                  first_tile=rng.randrange(6), last_tile=rng.randrange(16, 40))
             for _ in range(config.plans)]
    bench = Bench(config, rng=rng, pace=rng.choice([0.6, 1.0]))
    requests, errors, words = [], [], []
    for _ in range(100):
        packet, magic = random_case(rng, config, regions, plans)
        good, bad = judge(config, regions, plans, packet, magic)
        requests += good
        errors += bad
        packet_on_wire = packet_words(config, packet, magic=magic)
        if not packet.beats:
            packet_on_wire = packet_on_wire[:rng.randint(1, header_length(config))]
            packet_on_wire[-1]["last"] = 1
        words += packet_on_wire

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, regions)
        set_plans(ctx, bench.dut.plans, plans)
        await put(ctx, bench.dut.rx, words, rng=rng, pace=bench.pace)
        await wait_for(ctx, lambda: len(bench.requests) == len(requests)
                       and bench.credits == len(words), cycles=500,
                       what=lambda: f"{name}, seed {seed}: {len(bench.requests)} of "
                                    f"{len(requests)} requests")
        await ctx.tick().repeat(20)

    bench.run(main)
    assert bench.requests == requests, f"{name}, seed {seed}"
    reported = [(error.cause, error.address) for error in bench.errors]
    assert reported == errors, f"{name}, seed {seed}"
    for count, op in ((bench.update_bytes, UPDATE), (bench.store_bytes, STORE)):
        assert count == sum(request["strobe"].bit_count() for request in requests
                            if request["op"] == op)
    assert len(requests) > 20 and len({cause for cause, _ in errors}) >= 3, f"{name}, seed {seed}"


# One packet of each kind of badness, between two good ones.
REGIONS = [
    Region(base=0x100, limit=0x1FF, tracked=1, plan=1, dtype=2, accept_update=1, first_touch=1,
           first_tile=8, wf_shift=0),
    Region(base=0x200, limit=0x2FF, accept_store=1),
    Region(base=0x304, limit=0x30D, accept_store=1, accept_update=1, dtype=1),
]
PLANS = [Plan(armed=0, epoch=4), Plan(armed=1, epoch=15, first_tile=8, last_tile=11)]
GOOD = Packet(address=0x100, beats=[(1, 15), (2, 15), (3, 15), (4, 15)], op=UPDATE, dtype=2,
              tracked=1, plan=1, epoch=15, wg=3)
UNTRACKED = Packet(address=0x200, beats=[(5, 15), (6, 9)], op=STORE)


def changed(packet, **changes):
    return dataclasses.replace(packet, **changes)


BAD = {
    "no region": (changed(UNTRACKED, address=0x400), "UNMAPPED_PACKET", 2, None),
    "beyond the last byte": (changed(UNTRACKED, address=0x2FC), "UNMAPPED_PACKET", 1, None),
    "across the last byte": (Packet(address=0x30C, beats=[(7, 15)]), "REFUSED_PACKET", 1, None),
    "no store here": (changed(GOOD, op=STORE), "REFUSED_PACKET", 4, 11),
    "no update here": (changed(UNTRACKED, op=UPDATE), "REFUSED_PACKET", 2, None),
    "untracked packet, tracked region": (changed(GOOD, tracked=0), "REFUSED_PACKET", 4, None),
    "tracked packet, untracked region": (changed(GOOD, address=0x304, dtype=1, beats=[(1, 15)]),
                                         "REFUSED_PACKET", 1, None),
    "another dtype": (changed(GOOD, dtype=3), "REFUSED_PACKET", 4, 11),
    "older epoch": (changed(GOOD, epoch=14), "STALE_PACKET", 1, 11),
    "epoch 0": (changed(GOOD, epoch=0), "STALE_PACKET", 1, 11),
    "epoch 1 does not follow 15": (changed(GOOD, epoch=1), "STALE_PACKET", 1, 11),
    "plan's run is over": (changed(GOOD, plan=0, epoch=4), "STALE_PACKET", 1, 11),
    "tile beyond the plan": (changed(GOOD, wg=4), "UNKNOWN_TILE", 4, None),
    "tile beyond the table": (changed(GOOD, wg=0x4000), "UNKNOWN_TILE", 4, None),
    "reads": (changed(GOOD, op=0), "LINK_FORMAT", 1, None),
    "operation 3": (changed(GOOD, op=3), "LINK_FORMAT", 1, None),
    "too long": (changed(UNTRACKED, address=0x210, beats=[(1, 0)] * 4 + [(9, 15)] * 3),
                 "LINK_FORMAT", 1, None),
    "no payload": (changed(GOOD, beats=[]), "LINK_FORMAT", 1, None),
}


@pytest.mark.parametrize("name", BAD)
def test_each_cause_and_the_packets_around_it_unharmed(name):
    packet, cause, count, slot = BAD[name]
    bench = Bench(TINY)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        set_plans(ctx, bench.dut.plans, PLANS)
        words = packet_words(TINY, packet)
        words[-1]["last"] = 1
        await bench.send(ctx, [GOOD, UNTRACKED])
        await put(ctx, bench.dut.rx, words)
        await bench.send(ctx, [GOOD, UNTRACKED])
        await ctx.tick().repeat(30)

    bench.run(main)
    good = [1, 2, 3, 4, 5, 6]
    first_beat = [5] if name == "beyond the last byte" else []
    assert [request["data"] for request in bench.requests] == good + first_beat + good
    assert bench.causes == count * [NAMES[cause]]
    for error in bench.errors:
        if slot is not None:
            assert (error.tile.tracked, error.tile.slot, error.tile.wg) == (1, slot, 3)
            assert error.tile.plan == packet.plan


def test_a_plan_that_does_not_exist_is_refused():
    config = TINY.replace(plans=3)
    bench = Bench(config)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        set_plans(ctx, bench.dut.plans, [*PLANS, Plan()])
        await bench.send(ctx, [changed(GOOD, plan=3, epoch=1), GOOD])
        await ctx.tick().repeat(30)

    bench.run(main)
    assert bench.causes == [ErrorCause.REFUSED_PACKET]
    assert len(bench.requests) == 4


def test_garbage_does_no_harm_and_the_next_packet_is_understood():
    """Random words, most with a wrong magic; all that get through must lie in regions."""
    rng = random.Random(1)
    bench = Bench(TINY)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        set_plans(ctx, bench.dut.plans, PLANS)
        ctx.set(bench.dut.hold_timeout, 5)
        words = [{"data": rng.randrange(2**32), "keep": rng.randrange(16),
                  "last": int(rng.random() < 0.3)} for _ in range(400)]
        words[-1]["last"] = 1
        await put(ctx, bench.dut.rx, words)
        await bench.send(ctx, [GOOD])
        await ctx.tick().repeat(30)

    bench.run(main)
    assert [request["data"] for request in bench.requests[-4:]] == [1, 2, 3, 4]
    assert all(find(REGIONS, strobed(request["address"], request["strobe"], 4))[0]
               for request in bench.requests)
    assert ErrorCause.LINK_FORMAT in bench.causes


@pytest.mark.parametrize("before, epoch", [
    (Plan(epoch=0), 1), (Plan(epoch=1), 2), (Plan(epoch=15), 2), (Plan(armed=1, epoch=7), 8),
    (Plan(armed=1, epoch=15), 2)])
def test_an_early_packet_holds_the_link_until_its_plan_is_armed(before, epoch):
    config = TINY.replace(link_credits=16)
    bench = Bench(config)
    tiles = {"first_tile": 8, "last_tile": 11}
    early = changed(GOOD, epoch=epoch)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        set_plans(ctx, bench.dut.plans, [Plan(), dataclasses.replace(before, **tiles)])
        await bench.send(ctx, [UNTRACKED, early, UNTRACKED])
        await ctx.tick().repeat(200)
        assert [request["data"] for request in bench.requests] == [5, 6]
        assert ctx.get(bench.dut.holding) == 1 and ctx.get(bench.dut.holding_plan) == 1
        # The words before, the early packet's header, and the beat that waits behind the buffer.
        assert bench.credits == 4 + 2 + 1
        if before.armed:
            # The run before ends.
            set_plans(ctx, bench.dut.plans, [Plan(), Plan(epoch=before.epoch, **tiles)])
            await ctx.tick().repeat(50)
            assert len(bench.requests) == 2
        set_plans(ctx, bench.dut.plans, [Plan(), Plan(armed=1, epoch=epoch, **tiles)])
        await ctx.tick().repeat(30)
        assert ctx.get(bench.dut.holding) == 0

    bench.run(main)
    assert [request["data"] for request in bench.requests] == [5, 6, 1, 2, 3, 4, 5, 6]
    assert bench.requests[2]["touch"][0] == epoch % 2
    assert not bench.errors


def test_an_untracked_packet_never_waits():
    bench = Bench(TINY)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        await bench.send(ctx, [changed(UNTRACKED, epoch=1, plan=1)])
        await ctx.tick().repeat(30)

    bench.run(main)
    assert len(bench.requests) == 2 and not bench.errors


def test_a_held_packet_is_stale_once_its_plan_has_gone_elsewhere():
    bench = Bench(TINY)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        set_plans(ctx, bench.dut.plans, [Plan(), Plan(epoch=6)])
        await bench.send(ctx, [changed(GOOD, epoch=7, beats=GOOD.beats[:2])])
        await ctx.tick().repeat(30)
        assert ctx.get(bench.dut.holding)
        # Cleared: the epoch starts again.
        set_plans(ctx, bench.dut.plans, [Plan(), Plan(epoch=0)])
        await ctx.tick().repeat(5)
        assert not ctx.get(bench.dut.holding)
        await bench.send(ctx, [UNTRACKED])
        await ctx.tick().repeat(30)

    bench.run(main)
    assert bench.causes == [ErrorCause.STALE_PACKET]
    assert [request["data"] for request in bench.requests] == [5, 6]


@pytest.mark.parametrize("timeout", [1, 2, 50])
def test_a_held_packet_is_dropped_after_the_time_that_is_set(timeout):
    bench = Bench(TINY)
    held = []

    async def watch(ctx):
        while True:
            held.append((await ctx.tick().sample(bench.dut.holding))[2])

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        set_plans(ctx, bench.dut.plans, [Plan(), Plan(epoch=6)])
        ctx.set(bench.dut.hold_timeout, timeout)
        for _ in range(2):
            await bench.send(ctx, [changed(GOOD, epoch=7), UNTRACKED])
            await ctx.tick().repeat(timeout + 30)

    simulate(bench.dut, main, background=[
        getter(bench.dut.request, bench.requests, convert=plain),
        monitor(bench.dut.error, bench.errors), watch])
    assert bench.causes == 2 * [ErrorCause.HOLD_TIMEOUT]
    assert (bench.errors[0].address, bench.errors[0].tile.wg) == (0x100, 3)
    assert [request["data"] for request in bench.requests] == 2 * [5, 6]
    # The cycle of the drop itself still counts as held.
    assert sum(held) == 2 * (timeout + 1)


@pytest.mark.parametrize("rearmed", [False, True])
def test_the_rest_of_a_packet_whose_plan_was_stopped_is_stale(rearmed):
    """Also when the plan is armed again before the rest comes: that is of the run before."""
    bench = Bench(TINY)
    words = packet_words(TINY, GOOD)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        set_plans(ctx, bench.dut.plans, PLANS)
        await put(ctx, bench.dut.rx, words[:4])
        await ctx.tick().repeat(30)
        set_plans(ctx, bench.dut.plans, [Plan(), Plan(armed=int(rearmed), epoch=1, first_tile=8,
                                                      last_tile=11)])
        await put(ctx, bench.dut.rx, words[4:])
        await bench.send(ctx, [UNTRACKED])
        await ctx.tick().repeat(30)

    bench.run(main)
    assert [request["data"] for request in bench.requests] == [1, 2, 5, 6]
    assert bench.causes == 2 * [ErrorCause.STALE_PACKET]


@pytest.mark.parametrize("seed", range(3))
def test_runs_of_two_plans_one_after_the_other_with_a_neighbour_that_is_ahead(seed):
    """The neighbour sends all runs at once; a plan is armed when all of its last run has come."""
    rng = random.Random(seed)
    bench = Bench(TINY, rng=rng, pace=0.8)
    regions = [Region(base=0x1000 * plan, limit=0x1000 * plan + 0xFFF, tracked=1, plan=plan,
                      accept_update=1, accept_store=1, first_touch=1) for plan in range(2)]
    runs = 20
    sent, per_run = [], {}
    for run in range(runs):
        plan = run % 2
        # Run number 16 has epoch 2 again.
        epoch = run // 2 + 1 if run // 2 < 15 else run // 2 - 13
        packets = [Packet(address=0x1000 * plan + 16 * number, op=rng.choice([STORE, UPDATE]),
                          tracked=1, plan=plan, epoch=epoch, wg=number,
                          beats=[(run << 16 | number, 15)] * rng.randint(1, 4))
                   for number in range(4)]
        sent += packets
        per_run[run] = (plan, epoch, sum(len(packet.beats) for packet in packets))

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, regions)
        await bench.send(ctx, sent)
        total = sum(count for *_, count in per_run.values())
        await wait_for(ctx, lambda: len(bench.requests) == total, cycles=2000,
                       what=lambda: f"seed {seed}: {len(bench.requests)} of {total} requests")

    async def arming(ctx):
        plans = [Plan(last_tile=63), Plan(last_tile=63)]
        expected = 0
        for plan, epoch, count in per_run.values():
            for _cycle in range(rng.randrange(60)):
                await ctx.tick()
            plans[plan] = Plan(armed=1, epoch=epoch, last_tile=63)
            set_plans(ctx, bench.dut.plans, plans)
            expected += count
            await wait_for(ctx, lambda: len(bench.requests) == expected, cycles=1000,
                           what=lambda: f"seed {seed}: {len(bench.requests)} of {expected}")
            plans[plan] = Plan(armed=0, epoch=epoch, last_tile=63)
            set_plans(ctx, bench.dut.plans, plans)

    bench.run(main, arming)
    assert not bench.errors, f"seed {seed}"
    assert [request["data"] for request in bench.requests] == [
        data for packet in sent for data, _ in packet.beats]


def test_a_full_buffer_refuses_words_and_gives_no_credit():
    bench = Bench(TINY)

    async def main(ctx):
        await write_regions(ctx, bench.dut.table, REGIONS)
        taken = 0
        ctx.set(bench.dut.rx.payload, packet_words(TINY, UNTRACKED)[0])
        set_plans(ctx, bench.dut.plans, [Plan(), Plan(epoch=6)])
        await bench.send(ctx, [changed(GOOD, epoch=7)])
        ctx.set(bench.dut.rx.valid, 1)
        for _cycle in range(50):
            taken += (await ctx.tick().sample(bench.dut.rx.ready))[2]
        # The header went on, a beat waits behind the buffer, and three in it with one more word.
        assert (taken, bench.credits) == (1, 2 + 1)

    bench.run(main)


def test_latency_and_throughput_as_stated():
    """Packets without a pause, header words included, and the first beat's time."""
    config = TINY.replace(link_credits=8)
    dut = LinkIngress(config=config)
    packets = [changed(UNTRACKED, beats=[(number, 15)] * 4) for number in range(50)]
    words = [word for packet in packets for word in packet_words(config, packet)]
    went, came = [], []

    async def main(ctx):
        await write_regions(ctx, dut.table, REGIONS)
        ctx.set(dut.request.ready, 1)
        for cycle in range(len(words) + 20):
            if cycle < len(words):
                ctx.set(dut.rx.payload, words[cycle])
            ctx.set(dut.rx.valid, cycle < len(words))
            _, _, ready, valid = await ctx.tick().sample(dut.rx.ready, dut.request.valid)
            assert ready
            if valid:
                came.append(cycle)
            if cycle < len(words) and cycle % 6 >= 2:
                went.append(cycle)

    simulate(dut, main)
    assert came == [cycle + LATENCY for cycle in went]
