"""Agents, and a model of the region table, for tests of the address map, producer port and link."""

import dataclasses

LOCAL_STORE, LOCAL_UPDATE, REMOTE_STORE, REMOTE_UPDATE = range(4)
USER, ADDRESS = range(2)
REGION_TABLE = 1


async def put(ctx, stream, payloads, *, rng=None, pace=1.0):
    """Send payloads; with ``pace`` below 1 pause now and then."""
    for payload in payloads:
        while pace < 1 and rng.random() >= pace:
            await ctx.tick()
        ctx.set(stream.payload, payload)
        ctx.set(stream.valid, 1)
        await ctx.tick().until(stream.ready)
        ctx.set(stream.valid, 0)


def getter(stream, received, *, rng=None, pace=1.0, convert=lambda payload: payload):
    """A background bench that appends what comes to ``received``; what is not taken must stay."""
    async def bench(ctx):
        refused = None
        while True:
            ready = int(pace >= 1 or rng.random() < pace)
            ctx.set(stream.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(stream.valid, stream.payload)
            bits = payload.as_bits() if valid else None
            assert refused is None or bits == refused, "valid or payload changed before ready"
            refused = bits if valid and not ready else None
            if valid and ready:
                received.append(convert(payload))
    return bench


def monitor(stream, received, *, convert=lambda payload: payload):
    """A background bench that appends the pulses of an always-ready stream to ``received``."""
    async def bench(ctx):
        while True:
            _, _, valid, payload = await ctx.tick().sample(stream.valid, stream.payload)
            if valid:
                received.append(convert(payload))
    return bench


async def wait_for(ctx, condition, *, cycles, what):
    """Wait until ``condition()`` holds; fail with ``what`` after so many cycles."""
    for _cycle in range(cycles):
        if condition():
            return
        await ctx.tick()
    raise AssertionError(f"{what() if callable(what) else what} after {cycles} cycles")


@dataclasses.dataclass(kw_only=True)
class Region:
    """One entry of the region table, with the programmer's names."""

    base: int
    limit: int
    enable: int = 1
    action: int = LOCAL_STORE
    mode: int = USER
    dtype: int = 0
    tracked: int = 0
    first_touch: int = 0
    accept_store: int = 0
    accept_update: int = 0
    wf_shift: int = 0
    plan: int = 0
    first_tile: int = 0
    remote_delta: int = 0
    pitch_log2: int = 0
    rows_log2: int = 0
    row_bytes_log2: int = 0
    touch_offset: int = 0

    def words(self):
        """Table words by number; the word that enables comes last."""
        control = (self.enable | self.action << 1 | self.mode << 3 | self.dtype << 4
                   | self.tracked << 6 | self.first_touch << 7 | self.accept_store << 8
                   | self.accept_update << 9 | self.wf_shift << 10 | self.plan << 14)
        low, high = 0xFFFFFFFF, 32
        return {
            1: self.base & low, 2: self.base >> high, 3: self.limit & low, 4: self.limit >> high,
            5: self.first_tile, 6: self.remote_delta & low, 7: self.remote_delta >> high,
            8: self.pitch_log2 | self.rows_log2 << 8 | self.row_bytes_log2 << 16,
            9: self.touch_offset, 0: control,
        }


@dataclasses.dataclass(kw_only=True)
class Plan:
    """What the hardware knows of a plan."""

    armed: int = 0
    epoch: int = 0
    first_tile: int = 0
    last_tile: int = 0


async def write_table(ctx, table, entry, words, *, number=REGION_TABLE):
    """Write words of a table's entry, one a cycle."""
    for word, value in words.items():
        ctx.set(table.payload, {"table": number, "entry": entry, "word": word, "data": value})
        ctx.set(table.valid, 1)
        await ctx.tick()
    ctx.set(table.valid, 0)


async def write_regions(ctx, table, regions):
    """Program regions from entry 0 on."""
    for entry, region in enumerate(regions):
        await write_table(ctx, table, entry, region.words())


def set_plans(ctx, signal, plans):
    """Drive the plan views."""
    ctx.set(signal, [dataclasses.asdict(plan) for plan in plans])


def strobed(address, strobe, beat_bytes):
    """Byte addresses of the strobes of the beat that holds ``address``."""
    start = address - address % beat_bytes
    return [start + byte for byte in range(beat_bytes) if strobe >> byte & 1]


def find(regions, bytes_):
    """(region, straddles) for a beat's byte addresses: the region holds the first to the last."""
    if not bytes_:
        return None, False
    span = set(range(bytes_[0], bytes_[-1] + 1))
    straddles = False
    for region in regions:
        if region.enable:
            held = [region.base <= byte <= region.limit for byte in span]
            if all(held):
                return region, False
            straddles |= any(held)
    return None, straddles


def tile_of(region, byte, wg, wf):
    """(number in the region, wg, wf) of the tile that a byte belongs to."""
    if region.mode == USER:
        return wg * 2**region.wf_shift + wf, wg, wf
    row, column = divmod(byte - region.base, 2**region.pitch_log2)
    columns = 2**(region.pitch_log2 - region.row_bytes_log2)
    number = row // 2**region.rows_log2 * columns + column // 2**region.row_bytes_log2
    return number, number, 0


def slot_of(config, region, plans, byte, wg, wf):
    """(slot or None, wg, wf): None if the tile is none of the tiles of the region's plan."""
    number, wg, wf = tile_of(region, byte, wg, wf)
    slot = region.first_tile + number
    plan = plans[region.plan] if region.plan < len(plans) else None
    known = (plan is not None and plan.first_tile <= slot <= plan.last_tile
             and wg < 2**config.wg_width
             and (region.mode != USER or wf < 2**region.wf_shift))
    return (slot if known else None), wg, wf


def random_strobe(rng, beat_bytes):
    """All bytes, a run, any pattern, one byte, or none."""
    full = 2**beat_bytes - 1
    first, last = sorted(rng.randrange(beat_bytes) for _ in range(2))
    run = 2**(last + 1) - 2**first
    return rng.choice([full, full, run, rng.randrange(full + 1), 1 << first, 0])
