"""Driver of one node: find out what it is, program a plan, arm, wait, and see what happened."""

import dataclasses
import math

import t3hw
from t3hw.config import DTYPE_NAMES, PRESETS, NodeConfig
from t3hw.registers import (COUNTERS, ENUMS, MAP_HASH, NO_COMMAND, REGISTERS, TABLES,
                            decode_register, encode_entry, encode_register, entry_address,
                            register_address)

from .limits import check_device

__all__ = ["Device", "DeviceError", "Errors", "FirstError", "McaStatus", "PlanStatus",
           "PlanTimeout", "clear_all"]

_NAMED_TILES = 8
_INTENSITY_STEPS = 256
#: Cycles that a look at a plan's state takes at least: some reads of registers.
_LOOK_CYCLES = 16
_INTERVAL_STEPS = 65536
_MCA_BOUNDARIES = [name for name in REGISTERS if name.startswith("MCA_BOUNDARY_")]
_MCA_THRESHOLDS = [name for name in REGISTERS if name.startswith("MCA_THRESHOLD_")]


class DeviceError(RuntimeError):
    """A node that this software cannot use, or a request that does not fit its state."""


class PlanTimeout(TimeoutError):
    """A plan was not done in time; the message names what it still waits for.

    ``missing`` holds the first missing `TileEntry` objects, at most 8 of them.
    """

    def __init__(self, message, missing):
        super().__init__(message)
        self.missing = missing


@dataclasses.dataclass(frozen=True)
class PlanStatus:
    """Progress of a plan."""

    armed: bool
    done: bool
    timed_out: bool
    clearing: bool
    epoch: int
    tiles_done: int
    commands_done: int


@dataclasses.dataclass(frozen=True)
class FirstError:
    """The first error since errors were last cleared. ``tile`` is (plan, slot, wg, wf), or None."""

    cause: str
    address: int
    tile: tuple | None


@dataclasses.dataclass(frozen=True)
class Errors:
    """Sticky errors: names of causes, how many there were, and the first of them."""

    causes: tuple
    count: int
    first: FirstError | None

    def __bool__(self):
        return bool(self.causes)


@dataclasses.dataclass(frozen=True)
class McaStatus:
    """What the hardware measured of a kernel's first stage, and the threshold in force.

    ``intensity`` is in accesses a cycle, of the last measurement that is complete. ``level`` is its
    place in the table, 0 while the one of the current run is not ``complete``. ``threshold`` 0:
    none.
    """

    intensity: float
    level: int
    measuring: bool
    complete: bool
    threshold: int


class Device:
    """One node behind a transport.

    Parameters
    ----------
    transport : Transport
        Its registers.
    config : NodeConfig, optional
        What it must be. If not given, it is made from what the node says of itself.

    Raises
    ------
    DeviceError
        If the node is none, has another register map or version, or is not ``config``.
    """

    def __init__(self, transport, *, config=None):
        self.transport = transport
        self._programmed = {}
        # Plans that are not programmed any more, and the plan that took the place of each.
        self._replaced = {}
        self._identify()
        self.config = self._configuration(config)

    # Registers by name.

    def read(self, name, index=0):
        """Fields of a register."""
        return decode_register(name, self.transport.read32(register_address(name, index)))

    def write(self, name, **fields):
        """Write a register; fields that are not given become 0."""
        self.transport.write32(register_address(name), encode_register(name, **fields))

    def _identify(self):
        found = self.read("PRODUCT_ID")["id"]
        wanted = REGISTERS["PRODUCT_ID"].reset
        if found != wanted:
            raise DeviceError(f"product id {found:#010x} is not {wanted:#010x}: no t3hw node")
        version = self.read("VERSION")
        found = "{major}.{minor}.{patch}".format(**version)
        if found.split(".")[:2] != t3hw.__version__.split(".")[:2]:
            raise DeviceError(f"node has version {found}, software {t3hw.__version__}")
        found = self.read("MAP_HASH")["hash"]
        if found != MAP_HASH:
            raise DeviceError(f"node has register map {found:#010x}, software {MAP_HASH:#010x}")

    def _configuration(self, config):
        found = self.read("CONFIG_HASH")["hash"]
        if config is not None:
            if config.hash != found:
                raise DeviceError(f"node has configuration {found:#010x}, "
                                  f"not {config.hash:#010x} ({config.name})")
            return config
        for preset in PRESETS.values():
            if preset.hash == found:
                return preset
        widths = self.read("CAP_WIDTHS")
        large = self.read("CAP_TABLES0")
        small = self.read("CAP_TABLES1")
        tracker = self.read("CAP_TRACKER")
        dma = self.read("CAP_DMA")
        latency = self.read("CAP_LATENCY")
        queues = self.read("CAP_QUEUES")
        memory = self.read("CAP_MEMORY")["memory_bytes"]
        return NodeConfig(
            name=f"node {found:#010x}",
            data_width=8 * widths["beat_bytes"], addr_width=widths["addr_width"],
            wg_width=widths["wg_width"], wf_width=small["wf_width"],
            dtypes=[name for bit, name in enumerate(DTYPE_NAMES) if widths["dtypes"] >> bit & 1],
            memory="builtin" if widths["memory_builtin"] else "axi",
            monitoring=bool(widths["monitoring"]), address_tiles=bool(widths["address_tiles"]),
            collective=bool(widths["collective"]),
            # The register cannot say more than that.
            memory_bytes=memory + (memory == 0xFFFFFFFF),
            tiles=large["tiles_minus_1"] + 1, commands=large["commands_minus_1"] + 1,
            regions=small["regions"], routes=small["routes"], plans=small["plans"],
            tracker_sets=tracker["sets"], tracker_ways=tracker["ways"],
            expected_width=tracker["expected_width"],
            touch_bytes=max(self.read("CAP_TOUCH")["touch_beats"] * widths["beat_bytes"], 64),
            compute_queue=queues["compute_queue_minus_1"] + 1,
            communication_queue=queues["communication_queue_minus_1"] + 1,
            outstanding_reads=dma["outstanding_reads"],
            burst_beats=dma["burst_beats_minus_1"] + 1, **latency)

    def reset(self, *, timeout=1_000_000):
        """Take over a node in whatever state it is: forget plans, regions, errors and counts.

        Lets go of commands that are held, and sets the policy to ROUND_ROBIN. ``timeout`` is that
        of `clear`, for each plan.
        """
        # A held command of one plan stands in the way of those of others that are cleared.
        self.write("CONTROL")
        plans = range(self.config.plans)
        for plan in plans:
            if self.status(plan).armed:
                self.clear(plan, wait=False)
        for plan in plans:
            self._wait_cleared(plan, timeout)
        # What is left in a plan's words may be beyond the tables: a clear with it is refused.
        for plan in plans:
            self.transport.write_words((entry_address("PLAN", plan, word), 0)
                                       for word in range(1, TABLES["PLAN"].words))
            self.clear(plan, timeout=timeout)
        self.transport.write_words((entry_address("REGION", region), 0)
                                   for region in range(self.config.regions))
        self._programmed.clear()
        self._replaced.clear()
        self.write("IRQ_ENABLE")
        self.clear_errors()
        self.clear_counters()

    # Plans.

    def program(self, device_plan, *, epoch=0):
        """Write a `DevicePlan` into the node's tables, and clear what it uses.

        ``epoch`` is that of `clear`: 0, or what `clear_all` returned if the plan was stopped
        before.

        All devices of a ring must be programmed before one of them is armed: a packet of a plan
        that the receiver has not programmed and cleared yet is lost, or holds up the link. Runs
        after that need no such barrier.

        Plans that were programmed before, and have a place in a table in common with this one, are
        programmed no more: `arm` refuses them until they are programmed again.
        """
        check_device(device_plan, self.config)
        plan = device_plan.plan
        replaced = [number for number, former in self._programmed.items()
                    if number == plan or _has_common_place(former, device_plan)]
        for number in {plan, *replaced}:
            if self.status(number).armed:
                raise DeviceError(f"plan {number} is armed: wait until it is done, or clear it")
        former = [region for number in replaced for region in self._programmed.pop(number).regions]
        self._replaced |= dict.fromkeys(replaced, plan)
        self.transport.write_words(self._table_writes(device_plan, former))
        self._programmed[plan] = device_plan
        self._replaced.pop(plan, None)
        # Whatever runs before have left in these places is forgotten.
        self.clear(plan, epoch=epoch)

    def _table_writes(self, device_plan, former):
        """Address and value of each word to write. ``former``: regions that exist no more."""
        used = {region.index for region in device_plan.regions}
        for region in former:
            if region.index not in used:
                yield entry_address("REGION", region.index), 0
        for table, index, fields in _entries(device_plan):
            words = list(enumerate(encode_entry(table, config=self.config, **fields)))
            # The first word switches a region or a plan on: it comes last, or not at all.
            for word, value in words[1:] + ([] if table == "PLAN" else words[:1]):
                yield entry_address(table, index, word), value

    def arm(self, plan=0):
        """Start a run of a plan."""
        if plan in self._replaced:
            raise DeviceError(f"plan {plan} must be programmed again: plan {self._replaced[plan]} "
                              "took its place in the tables")
        if self.status(plan).armed:
            raise DeviceError(f"plan {plan} is armed already")
        self.write("IRQ_STATUS", plan_done=1 << plan)
        self._control(plan, arm=1)

    def clear(self, plan=0, *, epoch=0, wait=True, timeout=1_000_000):
        """Stop a plan if it runs, and forget all counts that it left behind.

        What of it is under way is waited for, and that may be packets that the neighbour takes only
        when it is cleared too. So clear several devices by `clear_all`, not one after the other.

        Parameters
        ----------
        plan : int
            Its number.
        epoch : int
            Even number, 0 to 14, that the plan goes on from; the same on all devices of a ring.
        wait : bool
            Wait until it is cleared. If not, this only begins it.
        timeout : int
            Cycles of the node to wait at most.

        Raises
        ------
        DeviceError
            If it is still being cleared after that.
        """
        if not self._is_clearing(plan):
            self._control(plan, clear=1, epoch_half=epoch // 2)
        if wait:
            self._wait_cleared(plan, timeout)

    def _is_clearing(self, plan):
        return bool(self.read("PLAN_STATUS_STATE", plan)["clearing"])

    def _wait_cleared(self, plan, timeout=1_000_000):
        if not self._is_clearing(plan):
            return
        start, looks = self.cycles(), 0
        while self._is_clearing(plan):
            # Without counters there is no time but what looking takes at least.
            looks += 1
            cycles = max(self.cycles() - start, looks * _LOOK_CYCLES)
            if cycles >= timeout:
                raise DeviceError(
                    f"plan {plan} is still being cleared after {cycles} cycles: commands are held, "
                    "or the neighbour does not take its packets (clear it too, set HOLD_TIMEOUT)")

    def _control(self, plan, **bits):
        self.transport.write32(entry_address("PLAN", plan), encode_entry("PLAN", **bits)[0])

    def status(self, plan=0):
        """Progress of a plan, as `PlanStatus`."""
        state = self.read("PLAN_STATUS_STATE", plan)
        epoch = state.pop("epoch")
        return PlanStatus(**{name: bool(bit) for name, bit in state.items()}, epoch=epoch,
                          tiles_done=self.read("PLAN_STATUS_TILES_DONE", plan)["tiles"],
                          commands_done=self.read("PLAN_STATUS_COMMANDS_DONE", plan)["commands"])

    def wait(self, plan=0, *, timeout=1_000_000, poll=False):
        """Wait until a plan is done.

        Parameters
        ----------
        plan : int
            Its number.
        timeout : int
            Cycles of the node to wait at most.
        poll : bool
            Read the status again and again, and do without the interrupt.

        Raises
        ------
        PlanTimeout
            If it is not done by then, or the node's own time-out for the plan has passed.
        DeviceError
            If it neither runs nor is done.
        """
        start, waited = self.cycles(), 0
        if not poll:
            enabled = self.read("IRQ_ENABLE")
            self.write("IRQ_ENABLE", plan_done=1 << plan)
        try:
            while True:
                status = self.status(plan)
                if status.done:
                    self.write("IRQ_STATUS", plan_done=1 << plan)
                    return
                if not status.armed:
                    raise DeviceError(f"plan {plan} is not armed: there is nothing to wait for")
                # Without counters there is no time but what was waited, or looking takes at least.
                waited += _LOOK_CYCLES
                left = timeout - max(self.cycles() - start, waited)
                if left <= 0 or status.timed_out:
                    raise self._timeout(plan, timeout - left)
                if not poll:
                    # The node's own time-out raises no interrupt, so look now and then.
                    if not self.transport.wait_interrupt(min(left, 65536)):
                        waited += min(left, 65536)
        finally:
            if not poll:
                self.write("IRQ_ENABLE", **enabled)

    def _timeout(self, plan, cycles):
        status = self.status(plan)
        programmed = self._programmed.get(plan)
        lines = [f"plan {plan} is not done after {cycles} cycles: {status.tiles_done} tiles full"]
        missing = []
        if programmed is not None:
            lines[0] += f" of {len(programmed.tiles)}, {status.commands_done} commands done of " \
                        f"{len(programmed.commands)}"
            for entry in programmed.tiles:
                state = self.tile_state(entry.slot)
                if state["epoch"] == status.epoch and not state["open"]:
                    continue
                missing.append(entry)
                tile = entry.tile
                lines.append(f"slot {entry.slot} (wg {tile.wg}, wf {tile.wf}, chunk {tile.chunk}, "
                             f"row {tile.row}, column {tile.column}): {state['bytes']} of "
                             f"{entry.expected} bytes")
                if len(missing) == _NAMED_TILES:
                    break
        errors = self.errors()
        if errors:
            lines.append(f"errors: {', '.join(errors.causes)}")
        return PlanTimeout("; ".join(lines), missing)

    def tile_state(self, slot):
        """How far a tile is: bytes counted, epoch in which it was last full, whether it is open."""
        self.write("TILE_STATE_INDEX", slot=slot)
        return self.read("TILE_STATE")

    # What happened.

    def counters(self):
        """All counters as of now, by name in lower case; all 0 in a node without monitoring."""
        self.write("COUNTER_CONTROL", snapshot=1)
        first = COUNTERS[0].offset
        last = COUNTERS[-1]
        words = self.transport.read_block(first, (last.offset + last.width // 8 - first) // 4)
        values = {}
        for counter in COUNTERS:
            index = (counter.offset - first) // 4
            value = words[index]
            if counter.width == 64:
                value |= words[index + 1] << 32
            values[counter.name.lower()] = value
        return values

    def clear_counters(self):
        """Set all counters to 0."""
        self.write("COUNTER_CONTROL", snapshot=1, clear=1)

    def cycles(self):
        """Cycles since the counters were last cleared."""
        self.write("COUNTER_CONTROL", snapshot=1)
        low, high = self.transport.read_block(register_address("CYCLES_LO"), 2)
        return high << 32 | low

    def errors(self):
        """Errors since they were last cleared, as `Errors`."""
        status = self.read("ERROR_STATUS")
        cause = self.read("FIRST_ERROR_CAUSE")
        first = None
        if cause["valid"]:
            names = {value: name for name, value in ENUMS["error_cause"].items()}
            address = (self.read("FIRST_ERROR_ADDRESS_HI")["value"] << 32
                       | self.read("FIRST_ERROR_ADDRESS_LO")["value"])
            tile = self.read("FIRST_ERROR_TILE")
            ids = self.read("FIRST_ERROR_IDS")
            first = FirstError(names.get(cause["cause"], str(cause["cause"])), address, (
                tile["plan"], tile["slot"], ids["wg"], ids["wf"]) if tile["tracked"] else None)
        return Errors(tuple(name.upper() for name, bit in status.items() if bit),
                      self.read("ERROR_COUNT")["count"], first)

    def clear_errors(self):
        """Forget all errors, and catch the next first one."""
        fields = REGISTERS["ERROR_STATUS"].fields
        self.write("ERROR_STATUS", **{name: 1 for name in fields})
        self.write("IRQ_STATUS", error=1)

    # Settings.

    def set_policy(self, policy, *, starvation_limit=0, threshold=None):
        """Arbitration between the producer's requests and those of link and DMA.

        Parameters
        ----------
        policy : str
            ROUND_ROBIN, COMPUTE_FIRST or MCA.
        starvation_limit : int
            Cycles that communication waits at most where it is held back; 0: for ever.
        threshold : int, optional
            With MCA, the memory's occupancy from which on communication is held back; 0: none. If
            not given it is that of the level that the hardware measures, see `set_mca_table`.

        Raises
        ------
        DeviceError
            If the threshold is beyond the memory's queue, or the policy has none; if the policy
            is MCA, and the node was built without monitoring; or if the node has no link.
        """
        self._check_collective("an arbitration policy")
        chosen = encode_register("CONTROL", policy=policy)
        if chosen == encode_register("CONTROL", policy="MCA"):
            self._check_monitoring("the policy MCA")
        if threshold is not None:
            if chosen != encode_register("CONTROL", policy="MCA"):
                raise DeviceError(f"a threshold, {threshold}, needs the policy MCA, not {policy}")
            self._check_threshold(threshold)
        self.write("STARVATION_LIMIT", cycles=starvation_limit)
        if self.config.monitoring:
            self.write("MCA_CONTROL", threshold=threshold or 0, fixed=int(threshold is not None))
        self.write("CONTROL", **self.read("CONTROL") | {"policy": policy})

    def set_mca_table(self, *, boundaries=None, thresholds=None):
        """Which threshold MCA takes for which memory intensity.

        Parameters
        ----------
        boundaries : sequence of 3 numbers, optional
            Accesses a cycle from which on a kernel has level 0, 1, 2, in falling order; what
            reaches none has level 3. If not given, as after reset.
        thresholds : sequence of 4 int, optional
            Threshold of each level; 0: none. If not given, as after reset, where none is beyond the
            depth of the memory's queue.

        Raises
        ------
        DeviceError
            If there are not as many, boundaries rise or are not from 0 to 1, or a threshold is
            beyond the memory's queue; or if the node was built without monitoring.
        """
        self._check_monitoring("an MCA table")
        depth = self.read("CAP_QUEUES")["memory_queue"]
        if boundaries is None:
            boundaries = [REGISTERS[name].reset / _INTENSITY_STEPS for name in _MCA_BOUNDARIES]
        if thresholds is None:
            thresholds = [min(REGISTERS[name].reset, depth or 0xFFFF) for name in _MCA_THRESHOLDS]
        if len(boundaries) != len(_MCA_BOUNDARIES) or len(thresholds) != len(_MCA_THRESHOLDS):
            raise DeviceError(f"an MCA table has {len(_MCA_BOUNDARIES)} boundaries and "
                              f"{len(_MCA_THRESHOLDS)} thresholds, "
                              f"not {boundaries} and {thresholds}")
        if not 1 >= boundaries[0] >= boundaries[1] >= boundaries[2] >= 0:
            raise DeviceError(f"boundaries must be from 1 to 0 and not rise, not {boundaries}")
        for threshold in thresholds:
            self._check_threshold(threshold)
        for name, boundary in zip(_MCA_BOUNDARIES, boundaries):
            self.write(name, intensity=math.ceil(boundary * _INTENSITY_STEPS))
        for name, threshold in zip(_MCA_THRESHOLDS, thresholds):
            self.write(name, accesses=threshold)

    def _check_monitoring(self, what):
        if not self.config.monitoring:
            raise DeviceError(f"{what} needs a node with monitoring = true in its configuration, "
                              f"and {self.config.name!r} has none")

    def _check_collective(self, what):
        if not self.config.collective:
            raise DeviceError(f"{what} needs a node with collective = true in its configuration, "
                              f"and {self.config.name!r} is alone")

    def _check_threshold(self, threshold):
        encode_register("MCA_CONTROL", threshold=threshold)
        depth = self.read("CAP_QUEUES")["memory_queue"]
        if depth and threshold > depth:
            raise DeviceError(f"threshold {threshold} exceeds the limit of {depth}, the depth of "
                              "the memory's queue")

    def mca_status(self):
        """Memory intensity as the hardware measured it, as `McaStatus`."""
        status = self.read("MCA_STATUS")
        return McaStatus(status["intensity"] / _INTENSITY_STEPS, status["level"],
                         bool(status["measuring"]), bool(status["complete"]), status["threshold"])

    def hold(self, held=True):
        """Keep commands that fire waiting until they are let go: no overlap, to compare with.

        Let go before a clear: a held command stands in the way of other plans' commands behind it.
        """
        self.write("CONTROL", **self.read("CONTROL") | {"hold": int(held)})

    def set_memory_latency(self, cycles):
        """Delay that the built-in memory adds to each access."""
        self.write("MEMORY_LATENCY", cycles=cycles)

    def set_link(self, *, latency=0, interval=0, header_interval=None):
        """Delay of the link, and the time that a word takes.

        Parameters
        ----------
        latency : int
            Cycles.
        interval : number
            Cycles a beat, in steps of 1/65536, rounded up; less than 1 is as 1.
        header_interval : number, optional
            The same for a header word; less than 1: it takes none of the link's time. As
            ``interval`` if not given.
        """
        self._check_collective("a link's time")
        self.write("LINK_LATENCY", cycles=latency)
        for name, cycles in (("LINK_INTERVAL", interval), ("LINK_HEADER_INTERVAL", (
                interval if header_interval is None else header_interval))):
            whole, fraction = divmod(math.ceil(cycles * _INTERVAL_STEPS), _INTERVAL_STEPS)
            self.write(name, cycles=whole, fraction=fraction)

    def set_hold_timeout(self, cycles):
        """How long a packet of a plan that is not armed may wait; 0 for ever."""
        self._check_collective("a packet's time-out")
        self.write("HOLD_TIMEOUT", cycles=cycles)


def clear_all(devices, plan=0, *, timeout=1_000_000):
    """Stop a plan on several devices: begin on all of them, then wait for each.

    Their links may still hold packets of the run. So the plan goes on from an epoch that no device
    was near: whenever such a packet arrives it is refused as stale.

    Parameters
    ----------
    devices : sequence of Device
        All devices of a ring.
    plan : int
        Its number.
    timeout : int
        Cycles to wait at most for each device.

    Returns
    -------
    int
        The epoch that the plan goes on from, for `Device.program` if it is programmed anew.

    Raises
    ------
    DeviceError
        If it is still being cleared after that.
    """
    # Near is an epoch that a packet may carry, and the two before it: what is armed, and what may
    # wait.
    near = set()
    for device in devices:
        epoch = device.status(plan).epoch
        near |= {epoch, _next_epoch(epoch), _next_epoch(_next_epoch(epoch))} if epoch else set()
    epoch = next((even for even in range(0, 16, 2)
                  if not near & {even, _next_epoch(even), _next_epoch(_next_epoch(even))}), 0)
    for device in devices:
        device.clear(plan, epoch=epoch, wait=False)
    for device in devices:
        device._wait_cleared(plan, timeout)
        if device.status(plan).epoch != epoch:
            # A clear from before this one was under way.
            device.clear(plan, epoch=epoch, timeout=timeout)
    return epoch


def _next_epoch(epoch):
    """As the hardware counts: 0 is never come back to, and odd and even take turns."""
    return 2 if epoch == 15 else epoch + 1


def _has_common_place(one, other):
    """Whether two `DevicePlan` objects use the same entry of a table."""
    def places(plan):
        yield from (range(plan.first_tile, plan.first_tile + len(plan.tiles)),
                    range(plan.first_command, plan.first_command + len(plan.commands)),
                    range(plan.first_touch, plan.first_touch + plan.touch_beats))
        for entries in (plan.regions, plan.routes):
            yield {entry.index for entry in entries}

    return any(not set(mine).isdisjoint(theirs)
               for mine, theirs in zip(places(one), places(other)))


def _entries(device_plan):
    """All table entries of a `DevicePlan`: table, index, fields."""
    for route in device_plan.routes:
        fields = dataclasses.asdict(route)
        yield "ROUTE", fields.pop("index"), fields | {"dtype": route.dtype.upper()}
    for command in device_plan.commands:
        yield "COMMAND", command.index, {
            "need": command.need, "route": command.route, "plan": command.plan,
            "first": command.first, "count_minus_1": command.count - 1}
    for entry in device_plan.tiles:
        tile = entry.tile
        yield "TILE", entry.slot, {
            "expected": entry.expected, "wg": tile.wg, "wf": tile.wf, "offset": entry.offset,
            "rows": tile.rows, "row_bytes": tile.row_bytes,
            "command": NO_COMMAND if entry.command is None else entry.command}
    yield "PLAN", device_plan.plan, {
        "tiles": len(device_plan.tiles), "commands": len(device_plan.commands),
        # A range of nothing may begin behind the table's end.
        "first_tile": device_plan.first_tile if device_plan.tiles else 0,
        "first_command": device_plan.first_command if device_plan.commands else 0,
        "timeout": device_plan.timeout, "first_touch": device_plan.first_touch,
        "touch_beats": device_plan.touch_beats}
    for region in device_plan.regions:
        fields = dataclasses.asdict(region)
        yield "REGION", fields.pop("index"), fields | {"enable": 1, "dtype": region.dtype.upper()}
