"""What the tests of the DRAM model share: a trace of its commands, and the rules of DRAM."""

import collections
import dataclasses

from amaranth import Value

ACTIVATE, PRECHARGE, PRECHARGE_ALL, REFRESH = "ACT", "PRE", "PREA", "REF"
READ, WRITE, UPDATE = "RD", "WR", "UPD"
_ROW_NAMES = (ACTIVATE, PRECHARGE, PRECHARGE_ALL, REFRESH)
_COLUMN_NAMES = (READ, WRITE, UPDATE)
_EVENTS = {"activate": (ACTIVATE,), "precharge": (PRECHARGE, PRECHARGE_ALL), "refresh": (REFRESH,),
           "read": (READ,), "write": (WRITE,), "update": (UPDATE,)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """A command; ``where`` is its row, or its column."""

    cycle: int
    name: str
    bank: int = 0
    where: int = 0


def command_monitor(dut, commands):
    """A background bench that appends each command of ``dut``, and compares the events with them."""
    async def bench(ctx):
        command_shape, event_shape = dut.command.shape(), dut.events.shape()
        cycle = 0
        async for _, _, command_bits, event_bits in ctx.tick().sample(
                Value.cast(dut.command), Value.cast(dut.events)):
            command = command_shape.from_bits(command_bits)
            names = []
            if command.row_valid:
                names.append(_ROW_NAMES[command.row_op.value])
                commands.append(Command(cycle=cycle, name=names[-1], bank=command.row_bank,
                                        where=command.row))
            if command.column_valid:
                names.append(_COLUMN_NAMES[command.column_op.value])
                commands.append(Command(cycle=cycle, name=names[-1], bank=command.column_bank,
                                        where=command.column))
            events = event_shape.from_bits(event_bits)
            assert {event: getattr(events, event) for event in _EVENTS} == {
                event: int(any(name in names for name in those))
                for event, those in _EVENTS.items()}
            cycle += 1
    return bench


def _distances(timing):
    """(earlier, later, where, cycles): where is "bank", "group" (other banks, too), or "all"."""
    columns = (READ, WRITE, UPDATE)
    writes = (WRITE, UPDATE)
    closes = (PRECHARGE, PRECHARGE_ALL)
    return [
        ((ACTIVATE,), columns, "bank", timing.tRCD),
        ((ACTIVATE,), closes, "bank", timing.tRAS),
        ((ACTIVATE,), (ACTIVATE,), "bank", timing.tRC),
        ((ACTIVATE,), (REFRESH,), "all", timing.tRC),
        ((ACTIVATE,), (ACTIVATE,), "group", timing.tRRD_L),
        ((ACTIVATE,), (ACTIVATE,), "all", timing.tRRD_S),
        (closes, (ACTIVATE,), "bank", timing.tRP),
        (closes, (REFRESH,), "all", timing.tRP),
        ((REFRESH,), (ACTIVATE, *closes, REFRESH), "all", timing.tRFC),
        (columns, columns, "group", timing.tCCD_L),
        ((UPDATE,), columns, "group", timing.tCCD_L_update),
        (columns, columns, "all", timing.tCCD_S),
        ((READ,), writes, "all", timing.tRTW),
        (writes, (READ,), "group", timing.write_to_read_l),
        (writes, (READ,), "all", timing.write_to_read_s),
        ((READ,), closes, "bank", timing.tRTP),
        (writes, closes, "bank", timing.write_to_precharge),
    ]


def check_rules(timing, commands):
    """Compare each command with all that are near enough before it, and keep track of open rows."""
    rules = collections.defaultdict(lambda: collections.defaultdict(list))
    for earlier, later, where, cycles in _distances(timing):
        for name in later:
            for before in earlier:
                rules[name][before].append((where, cycles))
    reach = {name: max(cycles for those in before.values() for _, cycles in those)
             for name, before in rules.items()}
    everywhere = (PRECHARGE_ALL, REFRESH)
    rows = {}
    activates = []
    for number, later in enumerate(commands):
        for earlier in reversed(commands[max(number - 2 * max(reach.values()), 0):number]):
            passed = later.cycle - earlier.cycle
            if passed > reach[later.name]:
                break
            either = earlier.name in everywhere or later.name in everywhere
            for where, cycles in rules[later.name][earlier.name]:
                same = where == "all" or either or (
                    earlier.bank == later.bank if where == "bank" else
                    (earlier.bank - later.bank) % timing.bank_groups == 0)
                assert passed >= cycles or not same, (
                    f"{later} only {passed} cycles after {earlier}, not {cycles}")
        if later.name == ACTIVATE:
            assert later.bank not in rows, f"{later}: the bank is open"
            rows[later.bank] = later.where
            activates.append(later.cycle)
            assert len(activates) < 5 or later.cycle - activates[-5] >= timing.tFAW, f"{later}: tFAW"
        elif later.name == PRECHARGE:
            assert rows.pop(later.bank, None) is not None, f"{later}: the bank is closed"
        elif later.name == PRECHARGE_ALL:
            rows = {}
        elif later.name == REFRESH:
            assert not rows, f"{later}: open are {rows}"
        else:
            assert later.bank in rows, f"{later}: the bank is closed"
    return commands


def beats_of(timing, commands, location):
    """The beats that the column commands go to, by ``location``, the inverse of the mapping."""
    rows = {}
    beats = []
    for command in commands:
        if command.name == ACTIVATE:
            rows[command.bank] = command.where
        elif command.name in _COLUMN_NAMES:
            beats.append(location(timing, command.bank, rows[command.bank], command.where))
    return beats


def beat_at(timing, bank, row, column):
    """The number of the beat there."""
    banks = timing.bank_groups * timing.banks
    if timing.bank_hash:
        bank ^= row % banks
    parts = {"group": (bank % timing.bank_groups, timing.bank_groups),
             "bank": (bank // timing.bank_groups, timing.banks),
             "row": (row, timing.rows), "column": (column, timing.page_columns)}
    beat = 0
    for name in timing.mapping.split():
        value, size = parts[name]
        beat = beat * size + value
    return beat
