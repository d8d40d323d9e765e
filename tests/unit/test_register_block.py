"""Every address answers as the register map says, whatever the bus does, and no event is lost."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator
from shallow_dram import shallow

from t3hw import __version__
from t3hw.config import DTYPE_NAMES, PRESETS, NodeConfig
from t3hw.hdl.register_block import RegisterBlock
from t3hw.hdl.seams import ErrorCause, Policy
from t3hw.registers import COUNTERS, MAP_HASH, REGISTERS, TABLES, decode_register, register_address

TINY = PRESETS["tiny"]
SOURCES = 3
OKAY, SLVERR = 0, 2
ALL = 0xFFFFFFFF


class Bus:
    """AXI4-Lite master with random delays, and time-outs in cycles.

    ``eager`` leaves out the delays. Every tick goes through `tick`, which also plays the plan state
    (commands take effect) and the tracker (look-ups take ``lookup_cycles``), and notes table
    writes.
    """

    def __init__(self, ctx, dut, rng, eager=False):
        self.ctx, self.dut, self.rng, self.eager = ctx, dut, rng, eager
        self.cycle = 0
        self.table = []
        self.plans = [dict(armed=0, clearing=0) for _plan in range(dut.status.shape().length)]
        self.lookups = []
        self.lookup_cycles = 5
        self.lookup_at = None
        self.hooks = []

    async def tick(self):
        ctx, dut = self.ctx, self.dut
        if self.lookup_at == self.cycle:
            ctx.set(dut.state, 0x8000_0000 | self.lookups[-1])
            ctx.set(dut.state_done, 1)
        for hook in self.hooks:
            hook(self.cycle)
        starts = ctx.get(dut.state_start)
        if starts:
            assert self.lookup_at is None or self.lookup_at < self.cycle
            self.lookups.append(ctx.get(dut.state_index))
            self.lookup_at = self.cycle + self.lookup_cycles
        await ctx.tick()
        self.cycle += 1
        ctx.set(dut.state_done, 0)
        ctx.set(dut.state, 0)
        if ctx.get(dut.table.valid):
            write = (ctx.get(dut.table.p.table).name, ctx.get(dut.table.p.entry),
                     ctx.get(dut.table.p.word), ctx.get(dut.table.p.data))
            self.table.append(write)
            if write[0] == "PLAN" and write[2] == 0:
                plan = self.plans[write[1]]
                plan.update(armed=write[3] & 1, clearing=write[3] >> 1 & 1)
                self.show_plans()

    def show_plans(self):
        self.ctx.set(self.dut.status, self.plans)

    def delay(self):
        return 0 if self.eager else self.rng.choice([0, 0, 1, 2, 7])

    async def write(self, address, word, strobe=0xF, answer_after=None):
        """Returns the response. AW and W come in any order, B may have to wait."""
        ctx, dut = self.ctx, self.dut
        at = {"aw": self.cycle + self.delay(), "w": self.cycle + self.delay()}
        take_at = None
        pending = {"aw": dut.aw, "w": dut.w}
        ctx.set(dut.aw.p, {"addr": address})
        ctx.set(dut.w.p, {"data": word, "strb": strobe})
        for _cycle in range(400):
            for name, channel in pending.items():
                ctx.set(channel.valid, self.cycle >= at[name])
            valid = ctx.get(dut.b.valid)
            if valid:
                assert not pending, "answered before it was asked"
                response = ctx.get(dut.b.p.resp)
                if take_at is None:
                    take_at = self.cycle + (self.delay() if answer_after is None else answer_after)
                    first = response
                assert response == first, "response changes while it waits"
                ctx.set(dut.b.ready, self.cycle >= take_at)
            else:
                assert take_at is None, "response goes before it is taken"
                ctx.set(dut.b.ready, not pending and self.eager)
            taken = [name for name, channel in pending.items()
                     if ctx.get(channel.valid) and ctx.get(channel.ready)]
            done = valid and ctx.get(dut.b.ready)
            await self.tick()
            for name in taken:
                ctx.set(pending.pop(name).valid, 0)
            if done:
                ctx.set(dut.b.ready, 0)
                return response
        pytest.fail(f"no response to a write of {word:#x} to {address:#x} in 400 cycles")

    async def read(self, address, answer_after=None):
        """Returns (response, word)."""
        ctx, dut = self.ctx, self.dut
        at = self.cycle + self.delay()
        take_at = None
        asked = False
        ctx.set(dut.ar.p, {"addr": address})
        for _cycle in range(400):
            ctx.set(dut.ar.valid, not asked and self.cycle >= at)
            valid = ctx.get(dut.r.valid)
            if valid:
                answer = (ctx.get(dut.r.p.resp), ctx.get(dut.r.p.data))
                if take_at is None:
                    take_at = self.cycle + (self.delay() if answer_after is None else answer_after)
                    first = answer
                assert answer == first, "answer changes while it waits"
                ctx.set(dut.r.ready, self.cycle >= take_at)
            else:
                assert take_at is None, "answer goes before it is taken"
                ctx.set(dut.r.ready, asked and self.eager)
            taken = ctx.get(dut.ar.valid) and ctx.get(dut.ar.ready)
            done = valid and ctx.get(dut.r.ready)
            await self.tick()
            asked = asked or taken
            if done:
                ctx.set(dut.r.ready, 0)
                return answer
        pytest.fail(f"no answer to a read of {address:#x} in 400 cycles")

    async def value(self, name, index=0):
        """Read a register that can be read."""
        response, word = await self.read(register_address(name, index))
        assert response == OKAY, name
        return word

    async def set(self, name, word):
        assert await self.write(register_address(name), word) == OKAY, name


def simulate(bench, *, config=TINY, seed=0, eager=False, reset=None):
    dut = RegisterBlock(config=config, error_sources=SOURCES)

    async def testbench(ctx):
        await bench(Bus(ctx, dut, random.Random(seed), eager))

    sim = Simulator(dut if reset is None else ResetInserter(reset)(dut))
    sim.add_clock(10e-9)
    sim.add_testbench(testbench)
    sim.run()


def reset_value(name, config):
    """What a register reads as after reset, told apart from `t3hw.registers.capabilities`."""
    major, minor, patch = map(int, __version__.split("."))
    dtypes = sum(1 << index for index, name in enumerate(DTYPE_NAMES) if name in config.dtypes)
    told = {
        "VERSION": major << 16 | minor << 8 | patch,
        "CONFIG_HASH": config.hash,
        "MAP_HASH": MAP_HASH,
        "CAP_WIDTHS": config.data_width // 8 | config.addr_width << 8 | dtypes << 16
                      | (config.memory != "axi") << 20 | config.monitoring << 21
                      | config.address_tiles << 22 | config.collective << 23
                      | config.wg_width << 24,
        "CAP_TABLES0": config.tiles - 1 | config.commands - 1 << 16,
        "CAP_TABLES1": config.regions | config.routes << 8 | config.plans << 16
                       | config.wf_width << 24,
        "CAP_TRACKER": config.tracker_sets | config.tracker_ways << 16
                       | config.expected_width << 24,
        "CAP_TOUCH": config.collective * config.touch_bytes // (config.data_width // 8),
        "CAP_DMA": config.outstanding_reads | config.burst_beats - 1 << 8,
        "CAP_MEMORY": min(config.memory_bytes, 0xFFFFFFFF),
        "CAP_LATENCY": config.memory_max_latency | config.link_max_latency << 16,
        "CAP_QUEUES": (config.dram.window if config.memory == "dram" else 0)
                      | config.compute_queue - 1 << 12 | config.communication_queue - 1 << 22,
        "TILE_STATE": 0x8000_0000,
        "MCA_STATUS": 0,
    }
    if config.memory == "dram":
        told |= {"MCA_THRESHOLD_0": 5, "MCA_THRESHOLD_1": 10,
                 "MCA_THRESHOLD_2": min(30, config.dram.window), "MCA_THRESHOLD_3": 0}
    if not config.monitoring:
        told |= dict.fromkeys((other for other in REGISTERS if other.startswith("MCA_")), 0)
    return told.get(name, REGISTERS[name].reset)


@pytest.mark.parametrize("config", [
    PRESETS["tiny"], PRESETS["nano"], PRESETS["axi"], shallow(16),
    NodeConfig(name="odd", data_width=512, addr_width=64, dtypes=("float16",), plans=8, routes=16,
               regions=32, wf_width=0, memory="axi", memory_bytes=1 << 40, burst_beats=64)],
    ids=lambda config: config.name)
def test_every_address_below_the_tables_after_reset(config):
    readable = {register.offset + index * register.stride: name
                for name, register in REGISTERS.items() if register.access != "wo"
                for index in range(config.plans if register.stride else 1)}

    async def bench(bus):
        for address in [*range(0, 0x400, 4), 0x400, 0x1000, 0x3FFFC]:
            answer = await bus.read(address)
            name = readable.get(address)
            assert answer == ((SLVERR, 0) if name is None else (OKAY, reset_value(name, config))), \
                f"{name or 'nothing'} at {address:#x}"
        assert not bus.table and len(bus.lookups) == 1

    simulate(bench, config=config, eager=True)


def test_reads_of_tables_and_misaligned_addresses_are_refused():
    async def bench(bus):
        for table in TABLES.values():
            for address in (table.base, table.base + 4, table.base + table.stride):
                assert await bus.read(address) == (SLVERR, 0)
        for address in (1, 2, 3, 0x2D, 0x2E, 0x2F, 0xA5, 0x211):
            assert await bus.read(address) == (SLVERR, 0), hex(address)
        assert not bus.lookups

    simulate(bench)


#: Fields that a tiny node limits, and their largest values.
LIMITS = {"CONTROL": {"policy": 2}, "MEMORY_LATENCY": {"cycles": 64},
          "LINK_LATENCY": {"cycles": 64}, "TILE_STATE_INDEX": {"slot": 63}}


def outputs(dut):
    """Where what software sets leaves the block, by (register, field)."""
    levels = {(f"MCA_BOUNDARY_{level}", "intensity"): port
              for level, port in enumerate(dut.boundaries)}
    levels |= {(f"MCA_THRESHOLD_{level}", "accesses"): port
               for level, port in enumerate(dut.thresholds)}
    return levels | {
        ("STARVATION_LIMIT", "cycles"): dut.starvation_limit,
        ("MEMORY_LATENCY", "cycles"): dut.memory_latency,
        ("LINK_LATENCY", "cycles"): dut.link_latency,
        ("LINK_INTERVAL", "cycles"): dut.link_interval,
        ("LINK_INTERVAL", "fraction"): dut.link_fraction,
        ("LINK_HEADER_INTERVAL", "cycles"): dut.link_header_interval,
        ("LINK_HEADER_INTERVAL", "fraction"): dut.link_header_fraction,
        ("HOLD_TIMEOUT", "cycles"): dut.hold_timeout,
        ("MCA_CONTROL", "fixed"): dut.fixed,
        ("MCA_CONTROL", "threshold"): dut.fixed_threshold}


@pytest.mark.parametrize("name", [name for name, register in REGISTERS.items()
                                  if register.access == "rw"])
def test_a_register_that_can_be_written(name):
    """All that fits is kept, one more refused; partial strobes and odd addresses change nothing."""
    rng = random.Random(name)
    address = register_address(name)
    fields = REGISTERS[name].fields
    mask = sum((1 << field.width) - 1 << field.low for field in fields.values())

    async def bench(bus):
        kept = reset_value(name, TINY)
        assert await bus.value(name) == kept
        for key, field in fields.items():
            largest = LIMITS.get(name, {}).get(key, (1 << field.width) - 1)
            for value in (largest, 1, 0, rng.randint(0, largest)):
                kept = kept & ~((1 << field.width) - 1 << field.low) | value << field.low
                assert await bus.write(address, kept | ALL & ~mask & rng.getrandbits(32)) == OKAY
                assert await bus.value(name) == kept
            if largest < (1 << field.width) - 1:
                for value in (largest + 1, (1 << field.width) - 1):
                    assert await bus.write(address, value << field.low) == SLVERR
        for strobe in range(15):
            assert await bus.write(address, ~kept & ALL, strobe) == SLVERR
        for odd in (1, 2, 3):
            assert await bus.write(address + odd, ~kept & ALL) == SLVERR
        assert await bus.value(name) == kept
        for (register, key), output in outputs(bus.dut).items():
            if register == name:
                assert bus.ctx.get(output) == decode_register(name, kept)[key]
        for other, register in REGISTERS.items():
            if other != name and register.access == "rw":
                assert await bus.value(other) == reset_value(other, TINY), other

    simulate(bench)


@pytest.mark.parametrize("window", [16, 64])
@pytest.mark.parametrize("name, key", [("MCA_CONTROL", "threshold"), (
    "MCA_THRESHOLD_0", "accesses"), ("MCA_THRESHOLD_3", "accesses")])
def test_a_threshold_above_the_depth_of_a_drams_queue_is_refused(name, key, window):
    async def bench(bus):
        before = await bus.value(name)
        assert (await bus.value("CAP_QUEUES")) & 0xFFF == window
        for value in (window + 1, 0xFFFF):
            assert await bus.write(register_address(name), value) == SLVERR
            assert await bus.value(name) == before
        for value in (window, 0):
            await bus.set(name, value)
            assert bus.ctx.get(outputs(bus.dut)[name, key]) == value

    simulate(bench, config=shallow(window))


def test_without_monitoring_nothing_is_counted_and_mca_cannot_be_set():
    async def bench(bus):
        ctx, dut = bus.ctx, bus.dut
        ctx.set(dut.events.commits, 1)
        ctx.set(dut.levels.tracker_occupancy, 3)
        ctx.set(dut.intensity, {"intensity": 0x1FF, "threshold": 7})
        event(bus, "error", 1)
        await bus.tick()
        event(bus, "error", 0)
        for name, register in REGISTERS.items():
            if name.startswith("MCA_"):
                assert await bus.write(register.offset, 0) == SLVERR, name
                assert await bus.value(name) == 0, name
        await bus.set("COUNTER_CONTROL", 1)
        for counter in COUNTERS:
            for half in range(counter.width // 32):
                assert await bus.read(counter.offset + 4 * half) == (OKAY, 0), counter.name
        assert await bus.value("ERROR_COUNT") == SOURCES
        marks = []
        bus.hooks.append(lambda _cycle: marks.append(ctx.get(dut.clear_marks)))
        await bus.set("COUNTER_CONTROL", 2)
        assert sum(marks) == 1
        assert await bus.value("ERROR_COUNT") == 0

    simulate(bench, config=TINY.replace(monitoring=False))


def test_intensity_is_shown_as_it_is():
    async def bench(bus):
        for fields, word in (({"intensity": 0x1FF}, 0x1FF), ({"level": 3}, 0x3000),
                             ({"measuring": 1}, 0x4000), ({"complete": 1}, 0x8000),
                             ({"threshold": 0xBEEF}, 0xBEEF0000)):
            bus.ctx.set(bus.dut.intensity, fields)
            assert await bus.value("MCA_STATUS") == word

    simulate(bench)


def test_control_reaches_its_ports():
    async def bench(bus):
        for policy in Policy:
            for hold in (0, 1):
                await bus.set("CONTROL", policy.value | hold << 8)
                assert bus.ctx.get(bus.dut.policy) == policy
                assert bus.ctx.get(bus.dut.hold) == hold

    simulate(bench)


def test_writes_to_what_cannot_be_written_are_refused():
    async def bench(bus):
        writable = {register.offset for register in REGISTERS.values() if register.access != "ro"}
        for address in [*range(0, 0x300, 4), 0x400, 0x1000, 0x1002C, 0x3FFFC, 0x43000, 0x5FFFC]:
            if address not in writable:
                assert await bus.write(address, 3) == SLVERR, hex(address)
        for name in ("SCRATCH", "CONTROL", "TILE_STATE_INDEX", "IRQ_ENABLE", "MCA_THRESHOLD_1"):
            assert await bus.value(name) == reset_value(name, TINY)
        assert not bus.table

    simulate(bench, eager=True)


@pytest.mark.parametrize("seed", range(2))
def test_table_writes_pass_and_locked_or_missing_ones_are_refused(seed):
    """Windows, entries and words by address; `t3hw.hdl.table_guard` has the rules in full."""
    sizes = {"PLAN": 2, "REGION": 8, "ROUTE": 2, "COMMAND": 64, "TILE": 64}
    rng = random.Random(seed)

    async def bench(bus):
        wanted = []
        for _write in range(80):
            table = rng.choice(list(TABLES))
            layout = TABLES[table]
            entry = rng.choice([0, 1, sizes[table] - 1, sizes[table], layout.entries - 1])
            word = rng.randrange(layout.stride // 4)
            address = layout.base + entry * layout.stride + 4 * word
            strobe = rng.choice([15, 15, 15, 7])
            odd = rng.choice([0, 0, 0, 2])
            # No command to a plan, and no address beyond 32 bits.
            high = {"PLAN": [0], "REGION": [2, 4], "ROUTE": [2, 4, 8]}.get(table, [])
            value = 0 if word in high else rng.randrange(4)
            exists = entry < sizes[table] and word < layout.words and strobe == 15 and not odd
            response = await bus.write(address + odd, value, strobe)
            assert response == (OKAY if exists else SLVERR), f"seed {seed}: {address + odd:#x}"
            if exists and not (table == "PLAN" and word == 0):
                wanted.append((table, entry, word, value))
        assert bus.table == wanted, f"seed {seed}"

    simulate(bench, seed=seed)


def test_an_armed_plan_locks_what_it_uses_and_a_second_arm_is_refused():
    async def bench(bus):
        plan = TABLES["PLAN"].base + TABLES["PLAN"].stride
        tile = TABLES["TILE"].base
        command = TABLES["COMMAND"].base
        region = TABLES["REGION"].base
        route = TABLES["ROUTE"].base
        for word, value in ((1, 4), (2, 3), (3, 2), (4, 1)):
            assert await bus.write(plan + 4 * word, value) == OKAY
        assert await bus.write(region, 1 | 1 << 6 | 1 << 14) == OKAY
        assert await bus.write(route, 1 << 12) == OKAY
        assert await bus.write(plan, 1) == OKAY
        assert bus.plans[1]["armed"]
        assert await bus.value("PLAN_STATUS_STATE", 1) == 1
        before = list(bus.table)
        refused = [(plan, 1), (plan + 4, 4), (plan + 28, 0), (tile + 4 * 16, 0), (tile + 6 * 16, 0),
                   (command + 2 * 8, 0), (region + 4, 0), (region, 0), (route + 4, 0), (route, 0),
                   (region + 64, 1 | 1 << 6 | 1 << 14), (route + 64, 1 << 12)]
        for address, value in refused:
            assert await bus.write(address, value) == SLVERR, hex(address)
        assert bus.table == before
        for address in (tile + 3 * 16, tile + 7 * 16, command + 8, command + 3 * 8, region + 64):
            assert await bus.write(address, 0) == OKAY, hex(address)
        assert await bus.write(plan, 2) == OKAY
        assert await bus.value("PLAN_STATUS_STATE", 1) == 8
        assert await bus.write(plan, 2) == SLVERR
        for address, _value in refused[1:-2]:
            assert await bus.write(address, 0) == SLVERR, hex(address)
        bus.plans[1].update(clearing=0)
        bus.show_plans()
        for address, value in refused[1:]:
            assert await bus.write(address, value) == OKAY, hex(address)

    simulate(bench)


def event(bus, kind, high):
    """Raise or drop one event; errors come from all sources at once, each with its own cause."""
    ctx, dut = bus.ctx, bus.dut
    if kind == "plan_done":
        ctx.set(dut.plan_done, 2 * high)
    elif kind == "command":
        ctx.set(dut.interrupt, high)
    else:
        for index, source in enumerate(dut.error):
            ctx.set(source.valid, high)
            ctx.set(source.p, {"cause": ErrorCause(index), "address": 0x40 + index,
                               "tile": {"tracked": 1, "plan": 1, "slot": 9, "wg": 0x123, "wf": 5}})


@pytest.mark.parametrize("register, kind, mask", [
    ("IRQ_STATUS", "plan_done", 1 << 1), ("IRQ_STATUS", "command", 1 << 9),
    ("IRQ_STATUS", "error", 1 << 8), ("ERROR_STATUS", "error", 7)])
@pytest.mark.parametrize("pending", [0, 1])
def test_no_event_is_lost_to_a_clear_near_it(register, kind, mask, pending):
    """The event's cycle sweeps over the clear's: set wins, and only older events are cleared."""
    outcomes = {}

    async def bench(bus):
        ctx = bus.ctx
        await bus.set("IRQ_ENABLE", 0x3FF)
        for offset in range(10):
            if pending:
                event(bus, kind, 1)
                await bus.tick()
                event(bus, kind, 0)
                await bus.tick()
            at = bus.cycle + offset
            irqs = []

            def hook(cycle, at=at, irqs=irqs):
                event(bus, kind, cycle == at)
                irqs.append(ctx.get(bus.dut.irq))

            bus.hooks = [hook]
            await bus.set(register, mask)
            for _cycle in range(8):
                await bus.tick()
            bus.hooks = []
            assert any(irqs), "the event did not even show as an interrupt"
            left = await bus.value(register) & mask
            assert left in (0, mask)
            outcomes[offset] = left == mask
            await bus.set("IRQ_STATUS", 0x3FF)
            await bus.set("ERROR_STATUS", 0x3FFF)
            await bus.tick()
            assert await bus.value("IRQ_STATUS") == await bus.value("ERROR_STATUS") == 0
            assert not ctx.get(bus.dut.irq)

    simulate(bench, eager=True)
    # The clear takes effect 4 cycles after AW and W; an error shows in IRQ_STATUS one cycle later.
    survives = 4 - (register == "IRQ_STATUS" and kind == "error")
    assert outcomes == {offset: offset >= survives for offset in range(10)}


def test_clearing_takes_only_the_bits_written():
    async def bench(bus):
        bus.ctx.set(bus.dut.plan_done, 3)
        event(bus, "error", 1)
        await bus.tick()
        bus.ctx.set(bus.dut.plan_done, 0)
        event(bus, "error", 0)
        await bus.tick()
        assert await bus.value("IRQ_STATUS") == 0x103
        await bus.set("IRQ_STATUS", 0x002)
        assert await bus.value("IRQ_STATUS") == 0x101
        await bus.set("ERROR_STATUS", 0b101)
        assert await bus.value("ERROR_STATUS") == 0b010
        assert await bus.write(register_address("IRQ_STATUS"), ALL, 7) == SLVERR
        assert await bus.value("IRQ_STATUS") == 0x101
        for enable, irq in ((0x100, 1), (0x0FE, 0), (0x001, 1), (0x200, 0)):
            await bus.set("IRQ_ENABLE", enable)
            await bus.tick()
            assert bus.ctx.get(bus.dut.irq) == irq

    simulate(bench)


def test_the_first_error_is_shown_until_all_is_cleared():
    async def bench(bus):
        event(bus, "error", 1)
        await bus.tick()
        event(bus, "error", 0)
        assert await bus.value("FIRST_ERROR_CAUSE") == 1 << 31 | 0
        assert await bus.value("FIRST_ERROR_ADDRESS_LO") == 0x40
        assert await bus.value("FIRST_ERROR_ADDRESS_HI") == 0
        assert await bus.value("FIRST_ERROR_TILE") == 1 << 31 | 1 << 16 | 9
        assert await bus.value("FIRST_ERROR_IDS") == 5 << 16 | 0x123
        assert await bus.value("ERROR_COUNT") == SOURCES
        bus.ctx.set(bus.dut.error[2].p, {"cause": ErrorCause.LINK_FORMAT, "address": 0xFFFFFFFF})
        bus.ctx.set(bus.dut.error[2].valid, 1)
        await bus.tick()
        bus.ctx.set(bus.dut.error[2].valid, 0)
        await bus.set("ERROR_STATUS", 7)
        assert await bus.value("FIRST_ERROR_CAUSE") == 1 << 31
        await bus.set("ERROR_STATUS", 1 << 10)
        assert await bus.value("FIRST_ERROR_CAUSE") >> 31 == 0
        bus.ctx.set(bus.dut.error[2].valid, 1)
        await bus.tick()
        bus.ctx.set(bus.dut.error[2].valid, 0)
        assert await bus.value("FIRST_ERROR_CAUSE") == 1 << 31 | 10
        assert await bus.value("FIRST_ERROR_ADDRESS_LO") == 0xFFFFFFFF
        assert await bus.value("ERROR_COUNT") == SOURCES + 2
        await bus.set("COUNTER_CONTROL", 2)
        assert await bus.value("ERROR_COUNT") == 0

    simulate(bench)


def test_a_wide_address_shows_in_both_words():
    async def bench(bus):
        bus.ctx.set(bus.dut.error[0].p, {"address": 0x12_3456_789A})
        bus.ctx.set(bus.dut.error[0].valid, 1)
        await bus.tick()
        bus.ctx.set(bus.dut.error[0].valid, 0)
        assert await bus.value("FIRST_ERROR_ADDRESS_LO") == 0x3456789A
        assert await bus.value("FIRST_ERROR_ADDRESS_HI") == 0x12

    simulate(bench, config=TINY.replace(addr_width=40))


def test_a_read_or_write_that_waits_for_its_answer_acts_once():
    async def bench(bus):
        clears = []
        bus.hooks = [lambda cycle: clears.append(bus.ctx.get(bus.dut.clear_marks))]
        for wait in range(1, 11):
            await bus.set("TILE_STATE_INDEX", wait)
            assert await bus.read(register_address("TILE_STATE"), answer_after=wait) == \
                (OKAY, 0x8000_0000 | wait)
            assert bus.lookups == list(range(1, wait + 1))
            address = register_address("COUNTER_CONTROL")
            assert await bus.write(address, 2, answer_after=wait) == OKAY
            assert sum(clears) == wait
            bus.plans[0]["armed"] = 0
            bus.show_plans()
            await bus.tick()
            assert await bus.write(TABLES["PLAN"].base, 1, answer_after=wait) == OKAY
            assert bus.table == [("PLAN", 0, 0, 1)] * wait

    simulate(bench)


@pytest.mark.parametrize("cycles", [1, 2, 40])
def test_tile_state_uses_the_index_just_written_and_waits_for_the_tracker(cycles):
    async def bench(bus):
        bus.lookup_cycles = cycles
        for slot in (1, 63, 0, 5):
            await bus.set("TILE_STATE_INDEX", slot)
            assert await bus.value("TILE_STATE") == 0x8000_0000 | slot
            assert await bus.write(register_address("TILE_STATE_INDEX"), 64) == SLVERR
            assert await bus.value("TILE_STATE") == 0x8000_0000 | slot
        assert bus.lookups == [1, 1, 63, 63, 0, 0, 5, 5]

    simulate(bench, eager=True)


def test_status_of_plans_and_link():
    async def bench(bus):
        bus.plans[0] = dict(armed=1, epoch=9, tiles_done=0x1ABCD, commands_done=3)
        bus.plans[1] = dict(done=1, timed_out=1, clearing=1, epoch=6, tiles_done=7,
                            commands_done=0x10000)
        bus.show_plans()
        assert decode_register("PLAN_STATUS_STATE", await bus.value("PLAN_STATUS_STATE", 0)) == {
            "armed": 1, "done": 0, "timed_out": 0, "clearing": 0, "epoch": 9}
        assert decode_register("PLAN_STATUS_STATE", await bus.value("PLAN_STATUS_STATE", 1)) == {
            "armed": 0, "done": 1, "timed_out": 1, "clearing": 1, "epoch": 6}
        assert await bus.value("PLAN_STATUS_TILES_DONE", 0) == 0x1ABCD
        assert await bus.value("PLAN_STATUS_COMMANDS_DONE", 0) == 3
        assert await bus.value("PLAN_STATUS_TILES_DONE", 1) == 7
        assert await bus.value("PLAN_STATUS_COMMANDS_DONE", 1) == 0x10000
        bus.ctx.set(bus.dut.holding, 1)
        bus.ctx.set(bus.dut.holding_plan, 1)
        assert await bus.value("LINK_STATUS") == 1 | 1 << 8

    simulate(bench)


async def counters(bus):
    values = {}
    for counter in COUNTERS:
        values[counter.name] = 0
        for half in range(counter.width // 32):
            response, word = await bus.read(counter.offset + 4 * half)
            assert response == OKAY
            values[counter.name] |= word << 32 * half
    return values


def test_each_counter_is_at_its_address_and_read_from_the_snapshot():
    async def bench(bus):
        ctx, dut = bus.ctx, bus.dut
        names = [name for name, _field in dut.events.shape()]
        await bus.set("COUNTER_CONTROL", 2)
        for cycle in range(len(names) + 1):
            ctx.set(dut.events, {name: cycle <= index for index, name in enumerate(names)})
            await bus.tick()
        ctx.set(dut.events, dict.fromkeys(names, 0))
        ctx.set(dut.levels, {"tracker_occupancy": 1, "tracker_high_water": 2,
                             "overflow_occupancy": 33, "overflow_high_water": 34})
        for latency in (40, 12, 100):
            ctx.set(dut.first_read.p.stamp, ctx.get(dut.cycle) - latency & 2 ** 24 - 1)
            ctx.set(dut.first_read.valid, 1)
            await bus.tick()
        ctx.set(dut.first_read.valid, 0)
        event(bus, "error", 1)
        await bus.tick()
        event(bus, "error", 0)
        before = await counters(bus)
        assert not any(before.values()), "shown without a snapshot"
        await bus.set("COUNTER_CONTROL", 3)
        values = await counters(bus)
        for index, name in enumerate(names):
            assert values.pop(name.upper()) == index + 1, name
        assert values.pop("CYCLES") > 200
        assert values == {
            "TRACKER_OCCUPANCY": 1, "TRACKER_HIGH_WATER": 2, "OVERFLOW_OCCUPANCY": 33,
            "OVERFLOW_HIGH_WATER": 34, "TRIGGER_LATENCY_MIN": 12, "TRIGGER_LATENCY_MAX": 100,
            "TRIGGER_LATENCY_SUM": 152, "TRIGGER_LATENCY_COUNT": 3, "ERRORS": SOURCES}
        await bus.set("COUNTER_CONTROL", 0)
        assert (await counters(bus))["TRIGGER_LATENCY_SUM"] == 152
        await bus.set("COUNTER_CONTROL", 1)
        values = await counters(bus)
        assert values["ERRORS"] == values["TX_WORDS"] == values["TRIGGER_LATENCY_MIN"] == 0

    simulate(bench, eager=True)


@pytest.mark.parametrize("is_write", [0, 1])
def test_access_during_and_right_after_reset(is_write):
    """An access that starts in reset or right after it is answered once, after it."""
    reset = Signal()

    async def bench(bus):
        ctx = bus.ctx
        fired = register_address("COMMANDS_FIRED_LO")
        for offset in range(12):
            await bus.set("SCRATCH", 0xDEAD)
            ctx.set(bus.dut.events.commands_fired, 1)
            await bus.tick()
            ctx.set(bus.dut.events.commands_fired, 0)
            await bus.set("COUNTER_CONTROL", 1)
            assert await bus.read(fired) == (OKAY, 1)
            begin = bus.cycle

            def hook(cycle, begin=begin):
                ctx.set(reset, begin <= cycle < begin + 8)

            bus.hooks = [hook]
            await bus.tick()
            for _cycle in range(offset):
                await bus.tick()
            if is_write:
                await bus.set("SCRATCH", 0xBEEF)
                assert await bus.value("SCRATCH") == 0xBEEF
            else:
                assert await bus.value("SCRATCH") == 0
            assert bus.cycle > begin + 8
            # The memory behind the counters keeps its words, but does not show them.
            assert await bus.read(fired) == (OKAY, 0)

    simulate(bench, eager=True, reset=reset)


@pytest.mark.parametrize("seed", range(3))
def test_random_traffic_against_a_model(seed):
    """Reads and writes anywhere, delays on all channels; only the addressed word changes."""
    rng = random.Random(seed)
    masks = {name: sum((1 << field.width) - 1 << field.low for field in register.fields.values())
             for name, register in REGISTERS.items()}
    plain = {register.offset: name for name, register in REGISTERS.items() if not register.stride}

    async def bench(bus):
        state = {name: reset_value(name, TINY) for name in REGISTERS
                 if REGISTERS[name].stride == 0 and REGISTERS[name].access != "wo"}
        readable = {address: name for address, name in plain.items() if name in state}
        wanted = []
        for step in range(220):
            where = rng.random()
            if where < 0.8:
                address = rng.choice(list(plain))
            elif where < 0.9:
                address = rng.randrange(1 << 20)
            else:
                address = TABLES["TILE"].base + 4 * rng.randrange(300)
            odd = rng.choice([0] * 8 + [1, 2, 3])
            address = address & ~3 | odd
            note = f"seed {seed}, step {step}, address {address:#x}"
            if rng.random() < 0.5:
                name = readable.get(address)
                answer = await bus.read(address)
                if name == "TILE_STATE":
                    assert answer == (OKAY, 0x8000_0000 | state["TILE_STATE_INDEX"]), note
                else:
                    assert answer == ((SLVERR, 0) if name is None else (OKAY, state[name])), note
                continue
            word = rng.choice([rng.getrandbits(32), rng.randrange(4), rng.randrange(70)])
            strobe = rng.choice([15, 15, 15, rng.randrange(15)])
            response = await bus.write(address, word, strobe)
            name = plain.get(address)
            allowed = strobe == 15 and not odd
            if 0x80000 <= address < 0x80000 + 64 * 16:
                # TILE: wavefront of 3 bits in word 0, command in word 1; the others take anything.
                slot, index = divmod(address - 0x80000, 16)
                allowed = allowed and not (index == 0 and word >> 24 > 7) and not (
                    index == 4 and 64 <= word & 0xFFFF < 0xFFFF)
                if allowed:
                    wanted.append(("TILE", slot, index // 4, word))
            elif name is None or REGISTERS[name].access == "ro":
                allowed = allowed and in_small_tables(address, word, wanted)
            else:
                fields = decode_register(name, word)
                allowed = allowed and all(fields[key] <= limit for key, limit
                                          in LIMITS.get(name, {}).items())
                if allowed and REGISTERS[name].access == "rw":
                    state[name] = word & masks[name]
                if allowed and name == "COUNTER_CONTROL" and word & 1:
                    # From now on CYCLES shows a number of which the model knows nothing.
                    readable.pop(0x210, None)
                    plain.pop(0x210, None)
            assert response == (OKAY if allowed else SLVERR), f"{note}, {word:#x}, {strobe:#x}"
        for name in ("SCRATCH", "CONTROL", "IRQ_ENABLE", "HOLD_TIMEOUT", "LINK_INTERVAL"):
            assert await bus.value(name) == state[name]
        assert bus.table == wanted, f"seed {seed}"

    def in_small_tables(address, word, wanted):
        """Random addresses hardly ever meet an entry; where they do, COMMAND of a tiny node."""
        if not 0x60000 <= address < 0x60000 + 64 * 8:
            return False
        entry, index = divmod(address - 0x60000, 8)
        if index == 0:
            fits = word >> 16 & 15 < 2 and word >> 20 & 7 < 2
        else:
            fits = (word & 0xFFFF) + (word >> 16) < 64
        if fits:
            wanted.append(("COMMAND", entry, index // 4, word))
        return fits

    simulate(bench, seed=seed)


def test_reads_and_writes_go_side_by_side():
    """A read is answered while a write waits for its counters' snapshot, and while B waits."""
    async def bench(bus):
        ctx, dut = bus.ctx, bus.dut
        await bus.set("SCRATCH", 0)
        ctx.set(dut.aw.p, {"addr": register_address("COUNTER_CONTROL")})
        ctx.set(dut.w.p, {"data": 1, "strb": 15})
        for channel in (dut.aw, dut.w):
            ctx.set(channel.valid, 1)
        await bus.tick()
        for channel in (dut.aw, dut.w):
            ctx.set(channel.valid, 0)
        start = bus.cycle
        assert await bus.value("PRODUCT_ID") == 0x54334857
        assert bus.cycle < start + 10 and not ctx.get(dut.b.valid)
        for _cycle in range(100):
            await bus.tick()
        assert ctx.get(dut.b.valid)
        assert await bus.value("PRODUCT_ID") == 0x54334857

    simulate(bench, eager=True)


def test_latency_and_throughput_are_as_stated():
    async def bench(bus):
        ctx, dut = bus.ctx, bus.dut

        async def measure(start, answer, transfers):
            """(cycles from the first request to its answer, cycles a transfer) with all valid."""
            for channel in start:
                ctx.set(channel.valid, 1)
            ctx.set(answer.ready, 1)
            asked, answered = [], []
            while len(answered) < transfers:
                if ctx.get(start[0].ready):
                    asked.append(bus.cycle)
                if ctx.get(answer.valid):
                    answered.append(bus.cycle)
                await bus.tick()
                assert bus.cycle < 2000
            for channel in start:
                ctx.set(channel.valid, 0)
            while ctx.get(answer.valid) or len(asked) > len(answered):
                if ctx.get(answer.valid):
                    answered.append(bus.cycle)
                await bus.tick()
            return answered[0] - asked[0], (answered[9] - answered[0]) / 9

        await bus.tick()
        ctx.set(dut.aw.p, {"addr": register_address("SCRATCH")})
        ctx.set(dut.w.p, {"data": 1, "strb": 15})
        assert await measure((dut.aw, dut.w), dut.b, 10) == (4, 5)
        ctx.set(dut.aw.p, {"addr": TABLES["TILE"].base})
        assert await measure((dut.aw, dut.w), dut.b, 10) == (5, 6)
        ctx.set(dut.ar.p, {"addr": register_address("SCRATCH")})
        assert await measure((dut.ar,), dut.r, 10) == (4, 5)
        bus.lookup_cycles = 1
        ctx.set(dut.ar.p, {"addr": register_address("TILE_STATE")})
        assert await measure((dut.ar,), dut.r, 10) == (5, 6)
        # From an event to the interrupt.
        await bus.set("IRQ_ENABLE", 0x3FF)
        for kind, latency in (("plan_done", 2), ("command", 2), ("error", 3)):
            event(bus, kind, 1)
            start = bus.cycle
            await bus.tick()
            event(bus, kind, 0)
            while not ctx.get(dut.irq):
                await bus.tick()
            assert bus.cycle - start == latency, kind
            await bus.set("IRQ_STATUS", 0x3FF)
            await bus.tick()

    simulate(bench, eager=True)


@pytest.mark.parametrize("sources", [0, -1, 1.5, None])
def test_bad_sources_are_refused_with_their_value(sources):
    with pytest.raises(ValueError, match=rf"not {sources!r}"):
        RegisterBlock(config=TINY, error_sources=sources)


def test_bad_config_is_refused_with_its_value():
    with pytest.raises(TypeError, match="not {}"):
        RegisterBlock(config={}, error_sources=1)
