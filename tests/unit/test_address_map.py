"""The address map against a model of the region table; limits to the byte; latency; throughput."""

import dataclasses
import random

import pytest

from region_agents import (
    ADDRESS, USER, Plan, Region, find, getter, put, random_strobe, set_plans, slot_of, strobed,
    wait_for, write_regions, write_table,
)
from simulation import simulate
from t3hw.config import NodeConfig
from t3hw.hdl.address_map import AddressMap

TINY = NodeConfig.preset("tiny").replace(regions=5)
CONFIGS = {
    "tiny": TINY,
    "not pipelined": TINY.replace(pipelined=False),
    "wide addresses": NodeConfig(addr_width=64, regions=4, tiles=256, plans=3, wg_width=6,
                                 wf_width=0, touch_bytes=1 << 10),
    "narrow addresses": TINY.replace(addr_width=16, data_width=128, plans=1, tiles=32768,
                                     memory_bytes=1 << 14, wg_width=16, wf_width=4),
    "without tiles by address": TINY.replace(address_tiles=False, pipelined=False, addr_width=20),
}


def random_region(rng, config):
    """A region of up to some hundred bytes at no special boundary."""
    space = 2**config.addr_width
    base = rng.choice([rng.randrange(1024), rng.randrange(space - 4096), space - 600])
    row_bytes = rng.randrange(2, 6)
    return Region(
        enable=int(rng.random() < 0.9), base=base, limit=base + rng.randrange(512),
        action=rng.randrange(4),
        mode=rng.choice([USER, ADDRESS] if config.address_tiles else [USER]),
        dtype=rng.randrange(4), tracked=rng.randrange(2), first_touch=rng.randrange(2),
        accept_store=rng.randrange(2), accept_update=rng.randrange(2),
        wf_shift=rng.choice([0, 1, 3, rng.randrange(8)]),
        plan=rng.choice([rng.randrange(config.plans), rng.randrange(8)]),
        first_tile=rng.randrange(config.tiles // 2), remote_delta=rng.randrange(space),
        pitch_log2=row_bytes + rng.randrange(4), rows_log2=rng.randrange(4),
        row_bytes_log2=row_bytes, touch_offset=rng.randrange(2**32))


def random_plans(rng, config):
    return [Plan(armed=int(rng.random() < 0.7), epoch=rng.randrange(16),
                 first_tile=rng.randrange(config.tiles // 4),
                 last_tile=rng.randrange(config.tiles // 2, config.tiles))
            for _ in range(config.plans)]


def random_beat(rng, config, regions):
    region = rng.choice(regions)
    address = rng.choice([rng.randrange(region.base, region.limit + 1), region.base - 1,
                          region.base, region.limit, region.limit + 1,
                          rng.randrange(2**config.addr_width)])
    return {
        "address": address % 2**config.addr_width,
        "strobe": random_strobe(rng, config.beat_bytes),
        "wg": rng.choice([rng.randrange(8), rng.randrange(8), rng.randrange(2**config.wg_width)]),
        "wf": rng.randrange(2**config.wf_width),
    }


def expected(config, regions, plans, beat):
    """What of the answer has a meaning, by the model."""
    size = config.beat_bytes
    bytes_ = strobed(beat["address"], beat["strobe"], size)
    region, straddles = find(regions, bytes_)
    start = beat["address"] - beat["address"] % size
    answer = {"any": int(bool(bytes_)), "address": start}
    if not bytes_:
        return answer
    answer |= {"match": int(region is not None), "straddle": int(straddles)}
    if region is None:
        return answer
    slot, wg, wf = slot_of(config, region, plans, bytes_[0], beat["wg"], beat["wf"])
    delta = region.remote_delta - region.remote_delta % size
    answer |= {
        name: getattr(region, name)
        for name in ("action", "dtype", "tracked", "first_touch", "accept_store", "accept_update")
    } | {
        "touch_index": (start // size + region.touch_offset) % config.touch_beats,
        "destination": (start + delta) % 2**config.addr_width,
        "wg": wg % 2**config.wg_width, "wf": wf, "tile_known": int(slot is not None), "armed": 0,
    }
    if slot is not None:
        answer["slot"] = slot
    if region.plan < config.plans:
        answer |= {"armed": plans[region.plan].armed, "epoch": plans[region.plan].epoch,
                   "plan": region.plan}
    return answer


def look_up(config, regions, plans, beats, *, rng=None, pace=1.0):
    """The hardware's answers."""
    dut = AddressMap(config=config, meta=24)
    answers = []

    async def bench(ctx):
        await write_regions(ctx, dut.table, regions)
        set_plans(ctx, dut.plans, plans)
        await put(ctx, dut.i, [beat | {"meta": number} for number, beat in enumerate(beats)],
                  rng=rng, pace=pace)
        await wait_for(ctx, lambda: len(answers) == len(beats), cycles=300 + 20 * len(beats),
                       what=lambda: f"{len(answers)} of {len(beats)} answers")

    simulate(dut, bench, background=[getter(dut.o, answers, rng=rng, pace=pace)])
    return answers


def check(config, regions, plans, beats, answers, note=""):
    for number, (beat, answer) in enumerate(zip(beats, answers, strict=True)):
        want = expected(config, regions, plans, beat)
        got = {name: getattr(answer, name) for name in want}
        got = {name: getattr(value, "value", value) for name, value in got.items()}
        assert got == want, f"{note} beat {number}: {beat}"
        assert answer.meta == number


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_random_beats_as_the_model_says(name, seed):
    config = CONFIGS[name]
    rng = random.Random(seed)
    regions = [random_region(rng, config) for _ in range(config.regions)]
    plans = random_plans(rng, config)
    beats = [random_beat(rng, config, regions) for _ in range(300)]
    answers = look_up(config, regions, plans, beats, rng=rng, pace=0.7)
    check(config, regions, plans, beats, answers, f"seed {seed}")
    matches = [answer for answer in answers if answer.any and answer.match]
    assert any(answer.tile_known for answer in matches), f"seed {seed} tries too little"


@pytest.mark.parametrize("base, limit", [(0, 0), (0, 3), (1, 2), (3, 4), (64, 127), (65, 126),
                                         (0xFFF0, 0x1000F), (0xFFFFFFFC, 0xFFFFFFFF)])
def test_the_last_byte_is_inside_and_the_next_is_not(base, limit):
    regions = [Region(base=0x5000, limit=0x5FFF), Region(base=base, limit=limit)]
    places = [place for edge in (base, limit) for place in range(edge - 5, edge + 6)
              if 0 <= place < 2**32]
    beats = [{"address": place, "strobe": 1 << place % 4, "wg": 0, "wf": 0} for place in places]
    answers = look_up(TINY, regions, [Plan(), Plan()], beats)
    for place, answer in zip(places, answers, strict=True):
        assert answer.match == (base <= place <= limit), hex(place)
        assert not answer.straddle


def test_a_beat_across_an_edge_straddles_and_does_not_match():
    regions = [Region(base=0x102, limit=0x10D)]
    cases = [(0x100, 0b1111), (0x100, 0b1010), (0x10C, 0b1111), (0x10C, 0b0101)]
    for answer in look_up(TINY, regions, [Plan(), Plan()],
                          [{"address": address, "strobe": strobe} for address, strobe in cases]):
        assert (answer.match, answer.straddle) == (0, 1)
    cases = [(0x100, 0b1100), (0x104, 0b1111), (0x10C, 0b0011), (0x10C, 0b0010)]
    for answer in look_up(TINY, regions, [Plan(), Plan()],
                          [{"address": address, "strobe": strobe} for address, strobe in cases]):
        assert (answer.match, answer.straddle) == (1, 0)


def test_of_regions_that_overlap_the_lowest_that_holds_the_beat_wins():
    regions = [Region(base=0x110, limit=0x11F, dtype=1), Region(base=0x100, limit=0x1FF, dtype=2),
               Region(base=0x100, limit=0x1FF, dtype=3)]
    beats = [{"address": address, "strobe": 0xF} for address in (0x100, 0x110, 0x11C, 0x120)]
    answers = look_up(TINY, regions, [Plan(), Plan()], beats)
    assert [answer.dtype.value for answer in answers] == [2, 1, 1, 2]


def test_no_region_matches_after_reset_nor_once_switched_off():
    dut = AddressMap(config=TINY, meta=8)
    answers = []

    async def bench(ctx):
        region = Region(base=0, limit=0xFFFF)
        for regions in ([], [region], [dataclasses.replace(region, enable=0)]):
            await write_regions(ctx, dut.table, regions)
            await put(ctx, dut.i, [{"address": 0, "strobe": 0xF}])
            await ctx.tick().repeat(AddressMap.latency + 1)

    simulate(dut, bench, background=[getter(dut.o, answers)])
    assert [answer.match for answer in answers] == [0, 1, 0]


def test_other_tables_and_entries_that_do_not_exist_change_nothing():
    dut = AddressMap(config=TINY, meta=8)
    answers = []
    words = Region(base=0x8000, limit=0x8FFF, action=1).words()

    async def bench(ctx):
        await write_regions(ctx, dut.table, [Region(base=0, limit=0xFFF, dtype=2)])
        for table in (0, 2, 3, 4):
            await write_table(ctx, dut.table, 0, words, number=table)
        for entry in (TINY.regions, 8, 0x100):
            await write_table(ctx, dut.table, entry, words)
        await put(ctx, dut.i, [{"address": address, "strobe": 0xF} for address in (0x10, 0x8000)])
        await ctx.tick().repeat(AddressMap.latency + 1)

    simulate(dut, bench, background=[getter(dut.o, answers)])
    assert [(answer.match, answer.dtype.value) for answer in answers][0] == (1, 2)
    assert not answers[1].match


def test_a_wavefront_beyond_its_workgroup_is_never_another_tile():
    """Wavefront 2 of workgroup 0 is not workgroup 1's first where a workgroup has two."""
    config = TINY.replace(wg_width=16)
    plans = [Plan(armed=1, epoch=1, first_tile=0, last_tile=config.tiles - 1), Plan()]
    region = Region(base=0, limit=0xFF, tracked=1, wf_shift=1, first_tile=0)
    beats = [{"address": 0, "strobe": 0xF, "wg": 0, "wf": wf} for wf in range(4)]
    answers = look_up(config, [region], plans, beats)
    assert [answer.tile_known for answer in answers] == [1, 1, 0, 0]


def test_a_number_beyond_the_table_is_never_another_tile():
    """Tile numbers that agree with a good one in their low bits."""
    config = TINY.replace(wg_width=16)
    plans = [Plan(armed=1, epoch=1, first_tile=0, last_tile=config.tiles - 1), Plan()]
    user = Region(base=0, limit=0xFF, tracked=1, wf_shift=3, first_tile=config.tiles - 2)
    by_address = Region(base=0x1000, limit=0xFFFFFF, tracked=1, mode=ADDRESS, pitch_log2=4,
                        row_bytes_log2=4, first_tile=0)
    beats = [{"address": 0, "strobe": 0xF, "wg": wg, "wf": wf}
             for wg, wf in [(0, 0), (0, 1), (0, 2), (8, 0), (0x2000, 0), (0xFFFF, 7)]]
    beats += [{"address": 0x1000 + 16 * number, "strobe": 0xF}
              for number in [0, 63, 64, 128, 0x10000, 0x10001]]
    answers = look_up(config, [user, by_address], plans, beats)
    assert [answer.tile_known for answer in answers] == [1, 1, 0, 0, 0, 0] + [1, 1, 0, 0, 0, 0]
    assert [answer.slot for answer in answers if answer.tile_known] == [62, 63, 0, 63]


def test_a_tile_number_that_does_not_fit_in_wg_is_no_tile():
    """The neighbour would get another tile's id."""
    config = TINY.replace(wg_width=4)
    region = Region(base=0, limit=0xFFFF, tracked=1, mode=ADDRESS, pitch_log2=4, row_bytes_log2=4)
    plans = [Plan(armed=1, epoch=1, last_tile=config.tiles - 1), Plan()]
    answers = look_up(config, [region], plans, [{"address": 16 * number, "strobe": 1}
                                                for number in (0, 15, 16, 63)])
    assert [answer.tile_known for answer in answers] == [1, 1, 0, 0]


@pytest.mark.parametrize("name, latency", [("tiny", 10), ("not pipelined", 1)])
def test_latency_and_throughput_as_stated(name, latency):
    dut = AddressMap(config=CONFIGS[name], meta=24)
    assert dut.latency == latency
    seen = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(100):
            ctx.set(dut.i.payload.meta, cycle)
            ctx.set(dut.i.valid, 1)
            _, _, valid, meta, ready = await ctx.tick().sample(
                dut.o.valid, dut.o.payload.meta, dut.i.ready)
            assert ready
            if valid:
                seen.append((cycle, meta))

    simulate(dut, bench)
    assert seen == [(cycle, cycle - latency) for cycle in range(latency, 100)]
