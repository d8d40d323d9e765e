"""Whether a plan fits a node, and plans beside each other. Refusals name value and limit."""

import itertools

from t3hw.registers import TABLES, table_sizes

from .records import PlanError

__all__ = ["check_device", "check_together"]


def check_device(plan, config):
    """Refuse, with `PlanError`, a `DevicePlan` that a node of this configuration cannot do."""
    where = f"plan {plan.plan}, device {plan.device}"

    def at_most(what, value, limit):
        if value > limit:
            raise PlanError(f"{where}: {what} {value} exceeds the limit of {limit}")

    def in_field(what, value, table, field):
        at_most(what, value, (1 << TABLES[table].fields[field].width) - 1)

    sizes = {table: min(size, TABLES[table].entries) for table, size in table_sizes(config).items()}
    at_most("plan number", plan.plan, sizes["PLAN"] - 1)
    at_most("tiles up to slot", plan.first_tile + len(plan.tiles) - 1, sizes["TILE"] - 1)
    at_most("commands up to number", plan.first_command + len(plan.commands) - 1,
            sizes["COMMAND"] - 1)
    at_most("regions up to number", max(region.index for region in plan.regions),
            sizes["REGION"] - 1)
    at_most("routes up to number", max(route.index for route in plan.routes), sizes["ROUTE"] - 1)
    at_most("first-touch map up to beat", plan.first_touch + plan.touch_beats - 1,
            config.touch_beats - 1)
    in_field("timeout", plan.timeout, "PLAN", "timeout")
    if not config.collective:
        _check_alone(plan, where)

    memory = config.memory_bytes or 1 << config.addr_width
    for region in plan.regions:
        if config.collective and region.dtype not in config.dtypes:
            raise PlanError(f"{where}: dtype {region.dtype} is not built into the node, which has "
                            f"{', '.join(config.dtypes)}")
        at_most(f"last byte of region {region.index}", region.limit, memory - 1)
        at_most(f"wavefront bits of region {region.index}", region.wf_shift, config.wf_width)
    for route in plan.routes:
        in_field(f"pitch of route {route.index}", max(route.source_pitch, route.destination_pitch),
                 "ROUTE", "source_pitch")
    for entry in plan.tiles:
        what = f"of tile slot {entry.slot}"
        in_field(f"rows {what}", entry.tile.rows, "TILE", "rows")
        in_field(f"row bytes {what}", entry.tile.row_bytes, "TILE", "row_bytes")
        at_most(f"expected bytes {what}", entry.expected, (1 << config.expected_width) - 1)
        in_field(f"offset {what}", entry.offset, "TILE", "offset")
        at_most(f"workgroup {what}", entry.tile.wg, (1 << config.wg_width) - 1)
    _check_regions(plan.regions, where)
    _check_commands(plan, where)


def _check_alone(plan, where):
    """Refuse what needs a neighbour, or a memory that adds."""
    for region in plan.regions:
        if region.action != "LOCAL_STORE" or region.first_touch:
            what = f"action {region.action}" if region.action != "LOCAL_STORE" else "first_touch"
            raise PlanError(f"{where}: {what} of region {region.index} needs a node with "
                            "collective = true")
    for route in plan.routes:
        if route.op != "STORE" or route.tracked or route.doorbell_remote:
            what = (f"op {route.op}" if route.op != "STORE" else
                    "tracked" if route.tracked else "doorbell_remote")
            raise PlanError(f"{where}: {what} of route {route.index} needs a node with collective "
                            "= true")


def _check_regions(regions, where):
    ordered = sorted(regions, key=lambda region: region.base)
    for region, after in itertools.pairwise(ordered):
        if region.limit >= after.base:
            raise PlanError(f"{where}: regions {region.index} and {after.index} overlap at "
                            f"{after.base:#x}, limit {region.limit:#x}")


def _check_commands(plan, where):
    claims = {}
    slots = {entry.slot: entry for entry in plan.tiles}
    if sorted(slots) != list(range(plan.first_tile, plan.first_tile + len(plan.tiles))):
        raise PlanError(f"{where}: tile slots must be {plan.first_tile} to "
                        f"{plan.first_tile + len(plan.tiles) - 1}, each once")
    routes = {route.index for route in plan.routes}
    waiting = {command.index: 0 for command in plan.commands}
    for command in plan.commands:
        if command.route not in routes:
            raise PlanError(f"{where}: command {command.index} has route {command.route}, "
                            f"which is none of {sorted(routes)}")
        for slot in range(command.first, command.first + command.count):
            if slot not in slots:
                raise PlanError(f"{where}: command {command.index} sends slot {slot}, "
                                "which is not in the plan")
            if slot in claims:
                raise PlanError(f"{where}: tile slot {slot} is claimed by commands {claims[slot]} "
                                f"and {command.index}")
            claims[slot] = command.index
    for entry in plan.tiles:
        if entry.command is None:
            continue
        if entry.command not in waiting:
            raise PlanError(f"{where}: tile slot {entry.slot} is for command {entry.command}, "
                            "which is not in the plan")
        waiting[entry.command] += 1
    for command in plan.commands:
        if command.need != waiting[command.index]:
            raise PlanError(f"{where}: command {command.index} needs {command.need} tiles, and "
                            f"{waiting[command.index]} are for it")


def check_together(plans):
    """Refuse, with `PlanError`, plans that claim the same number, table places, map or memory."""
    for one, other in itertools.combinations(plans, 2):
        pair = f"plans {one.index} and {other.index}"
        if one.index == other.index:
            raise PlanError(f"two plans have the number {one.index}")
        for mine, theirs in zip(one.device_plans, other.device_plans):
            where = f"{pair}, device {mine.device}"
            for what, first, count in (
                    ("tile slots", "first_tile", lambda plan: len(plan.tiles)),
                    ("commands", "first_command", lambda plan: len(plan.commands)),
                    ("first-touch map", "first_touch", lambda plan: plan.touch_beats)):
                low = max(getattr(mine, first), getattr(theirs, first))
                if low < min(getattr(plan, first) + count(plan) for plan in (mine, theirs)):
                    raise PlanError(f"{where}: both claim {what} from {low} on")
            for what in ("regions", "routes"):
                common = {entry.index for entry in getattr(mine, what)} & {
                    entry.index for entry in getattr(theirs, what)}
                if common:
                    raise PlanError(f"{where}: both claim {what} {sorted(common)}")
            _check_regions((*mine.regions, *theirs.regions), where)
