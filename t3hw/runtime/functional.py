"""Functional device: what a node does, without its timing, behind the same registers.

It shares no code with the hardware: it knows the register map, the configuration, and how the reference
adds. Time is a sequence of steps, each of which carries out one thing that could happen next, chosen at
random. So a plan, the runtime and a workload can be tried in seconds, in many orders of events.
"""

import collections
import dataclasses
import random

import numpy as np

from t3hw.registers import NO_COMMAND

from .functional_memory import INCOMING, LOCAL, Request, UpdateMemory
from .functional_registers import COUNTER_NAMES, FunctionalRegisters, enum_name
from .transport import BusError, Memory, Transport

__all__ = ["FunctionalDevice", "Packet"]


@dataclasses.dataclass(frozen=True)
class Packet:
    """What goes over a link: a header, and whole beats from ``address`` on."""

    op: str
    dtype: str
    tracked: bool
    plan: int
    epoch: int
    wg: int
    wf: int
    address: int
    data: np.ndarray
    strobe: np.ndarray


class _Plan:
    """One plan's state. ``full``: slots that are full; ``bytes``: those that are partly counted."""

    def __init__(self):
        self.armed = self.done = self.timed_out = self.clearing = False
        self.epoch = 0
        self.age = 0
        self.forget()

    def forget(self):
        self.full = set()
        self.bytes = {}
        self.waiting = collections.Counter()
        self.commands_done = 0
        self.age = 0

    def next_epoch(self):
        """The epoch after this one; 0 is kept for never, and parities alternate."""
        return 2 if self.epoch == 15 else self.epoch + 1


class FunctionalDevice(Transport, Memory):
    """One node as a model.

    Parameters
    ----------
    config : NodeConfig
        What it is.
    memory_bytes : int, optional
        Size of its memory; that of the configuration if not given.
    seed : int
        Of the order of events while it stands alone.

    Attributes
    ----------
    rx : deque of Packet
        What has come over the link.
    neighbour : FunctionalDevice or None
        Where its packets go.
    advance : callable
        ``advance(steps)`` lets time pass. A ring puts its own here.
    counts : Counter
        Counters by name in lower case, live.
    """

    def __init__(self, config, *, memory_bytes=None, seed=0):
        self.config = config
        self.plans = [_Plan() for _ in range(config.plans)]
        self.registers = FunctionalRegisters(config, self)
        self.memory = UpdateMemory(config, memory_bytes or config.memory_bytes or 1 << 20, self._error)
        self.rx = collections.deque()
        self.neighbour = None
        self.counts = collections.Counter()
        # A packet of the largest size and its header; at least one is under way.
        header_bits = 13 + (config.plans > 2) + config.wg_width + config.wf_width + config.addr_width
        self._header_words = -(-header_bits // config.data_width)
        self._link_packets = max(1, config.link_credits // (config.burst_beats + self._header_words))
        self._random = random.Random(seed)
        self._compute = collections.deque()
        self._communication = collections.deque()
        self._fires = collections.deque()
        self._transfer = None
        self._outgoing = None
        self._regions = []
        self._last_full = {}
        self._shadow = collections.Counter()
        self._first_error = None
        self._held = 0
        self.advance = self._run_alone

    # Transport and memory.

    def read32(self, address):
        self.advance(1)
        return self.registers.read(address)

    def write32(self, address, value):
        self.advance(1)
        self.registers.write(address, value)

    def wait_interrupt(self, cycles):
        for _ in range(cycles):
            if self.interrupt:
                return True
            self.advance(1)
        return self.interrupt

    def read_memory(self, address, length):
        if not 0 <= address <= address + length <= len(self.memory.data):
            raise BusError("memory read", address)
        return self.memory.data[address:address + length].tobytes()

    def write_memory(self, address, data):
        if not 0 <= address <= address + len(data) <= len(self.memory.data):
            raise BusError("memory write", address)
        self.memory.data[address:address + len(data)] = np.frombuffer(bytes(data), np.uint8)

    @property
    def interrupt(self):
        """Level of the interrupt output."""
        values = self.registers.values
        return bool(values["IRQ_STATUS"] & values["IRQ_ENABLE"])

    # Time.

    def _run_alone(self, steps):
        for _ in range(steps):
            self.step(self._random)
            self.tick()

    def step(self, rng):
        """Carry out one thing that can happen now; whether there was one."""
        actions = [self._memory_step, self._ingress_step, self._dma_step]
        rng.shuffle(actions)
        return any(action(rng) for action in actions)

    def tick(self):
        """Let one cycle pass."""
        self.counts["cycles"] += 1
        for number, plan in enumerate(self.plans):
            if plan.armed:
                plan.age += 1
                if plan.age == self.registers.entry("PLAN", number)["timeout"]:
                    plan.timed_out = True
                    self._error("PLAN_TIMEOUT", 0, (
                        number, self.registers.entry("PLAN", number)["first_tile"], 0, 0))
                self._finish(number)
            if plan.clearing and not self._under_way(number):
                self._forget(number)
        held = self._is_held()
        self._held = self._held + 1 if held else 0
        limit = self.registers.field("HOLD_TIMEOUT", "cycles")
        if held and limit and self._held >= limit:
            self._error("HOLD_TIMEOUT", self.rx.popleft().address, None)

    # Producer.

    def store(self, address, data, strobe=None, *, wg=0, wf=0):
        """One beat of the producer, or a part of one, from ``address`` on.

        Returns ``"okay"``, ``"slverr"``, or None if it must wait: then nothing has happened.
        """
        address, data, strobe = self._whole_beat(address, data, strobe)
        if not strobe.any():
            return "okay"
        region = self._look_up(address, strobe)
        if region is None:
            return self._queue_store(Request("STORE", "INT32", "PRODUCER", address, data, strobe))
        tile = None
        if region != "straddle":
            tile = self._tile(region, self._first_byte(address, strobe), wg, wf)
        if region == "straddle" or region["tracked"] and not self._is_armed(region["plan"]):
            self._error("REFUSED_STORE", address, None)
            return "slverr"
        plan = region["plan"]
        action = enum_name("region_action", region["action"])
        dtype = enum_name("dtype", region["dtype"])
        where, op = action.split("_")
        if where == "REMOTE":
            _, wg, wf = self._ids(region, self._first_byte(address, strobe), wg, wf)
            sent = self._send(Packet(
                op, dtype, bool(region["tracked"]), plan, self.plans[plan].epoch, wg, wf,
                (address + region["remote_delta"]) % (1 << self.config.addr_width), data, strobe))
            if not sent:
                return None
            self.counts["remote_write_bytes"] += int(strobe.sum())
            return "okay"
        if region["tracked"] and tile is None:
            self._error("UNKNOWN_TILE", address, None)
            return "slverr"
        return self._queue_store(Request(
            op, dtype.lower(), "PRODUCER", address, data, strobe,
            self._touch(region, LOCAL), tile if region["tracked"] else None))

    def _queue_store(self, request):
        if len(self._compute) >= self.config.compute_queue:
            return None
        self._compute.append(request)
        return "okay"

    def _whole_beat(self, address, data, strobe):
        """The beat around some bytes."""
        beat = self.config.beat_bytes
        offset = address % beat
        data = np.frombuffer(bytes(data), np.uint8)
        if offset + len(data) > beat:
            raise ValueError(f"{len(data)} bytes at {address:#x} cross a beat of {beat} bytes")
        whole = np.zeros(beat, np.uint8)
        whole[offset:offset + len(data)] = data
        mask = np.zeros(beat, bool)
        mask[offset:offset + len(data)] = True if strobe is None else np.asarray(strobe, bool)
        return address - offset, whole, mask

    # Regions and tiles.

    def table_written(self, table):
        """A table has changed."""
        if table == "REGION":
            regions = [self.registers.entry("REGION", index)
                       for index in range(self.registers.size("REGION"))]
            self._regions = [region for region in regions if region["enable"]]

    @staticmethod
    def _first_byte(address, strobe):
        return address + int(np.argmax(strobe))

    def _look_up(self, address, strobe):
        """The region that holds all strobed bytes, ``"straddle"``, or None."""
        first = self._first_byte(address, strobe)
        last = address + int(np.flatnonzero(strobe)[-1])
        for region in self._regions:
            if region["base"] <= first and last <= region["limit"]:
                return region
        if any(region["base"] <= last and first <= region["limit"] for region in self._regions):
            return "straddle"
        return None

    @staticmethod
    def _ids(region, address, wg, wf):
        """Number within the region, workgroup and wavefront of the tile at an address."""
        if region["tile_id_mode"] == 0:
            return (wg << region["wf_shift"]) + wf, wg, wf
        row, column = divmod(address - region["base"], 1 << region["pitch_log2"])
        columns = region["pitch_log2"] - region["row_bytes_log2"]
        number = (row >> region["rows_log2"] << columns) + (column >> region["row_bytes_log2"])
        return number, number, 0

    def _tile(self, region, address, wg, wf):
        """(plan, slot, wg, wf) of a write, or None if that is none of the plan's tiles."""
        number, wg, wf = self._ids(region, address, wg, wf)
        slot = region["first_tile"] + number
        if region["plan"] >= len(self.plans):
            return None
        owned = self.registers.entry("PLAN", region["plan"])
        known = owned["first_tile"] <= slot < owned["first_tile"] + owned["tiles"]
        return (region["plan"], slot, wg, wf) if known else None

    def _touch(self, region, writer):
        if not region["first_touch"]:
            return None
        return region["touch_offset"], self.plans[region["plan"]].epoch & 1, writer

    # Link.

    def _send(self, packet):
        """Hand a packet to the neighbour; whether there was room."""
        if self.neighbour is None or len(self.neighbour.rx) >= self._link_packets:
            return False
        self.neighbour.rx.append(packet)
        words = self._header_words + len(packet.data) // self.config.beat_bytes
        self.counts["tx_words"] += words
        self.neighbour.counts["rx_words"] += words
        return True

    def _is_armed(self, plan):
        return plan < len(self.plans) and self.plans[plan].armed

    def _is_held(self):
        """Whether the packet at the head waits for its plan's next run."""
        if not self.rx or not self.rx[0].tracked or self.rx[0].plan >= len(self.plans):
            return False
        plan = self.plans[self.rx[0].plan]
        is_current = plan.armed and self.rx[0].epoch == plan.epoch
        return not is_current and self.rx[0].epoch == plan.next_epoch()

    def _ingress_step(self, rng):
        if not self.rx or self._is_held() or \
                len(self._communication) >= self.config.communication_queue:
            return False
        packet = self.rx.popleft()
        if packet.tracked and packet.plan >= len(self.plans):
            self._error("REFUSED_PACKET", packet.address, None)
            return True
        plan = self.plans[packet.plan] if packet.tracked else None
        if packet.tracked and not (plan.armed and packet.epoch == plan.epoch):
            self._error("STALE_PACKET", packet.address, None)
            return True
        beat = self.config.beat_bytes
        for start in range(0, len(packet.data), beat):
            self._take_beat(packet, packet.address + start, packet.data[start:start + beat],
                            packet.strobe[start:start + beat])
        return True

    def _take_beat(self, packet, address, data, strobe):
        if not strobe.any():
            return
        region = self._look_up(address, strobe)
        if region is None:
            self._error("UNMAPPED_PACKET", address, None)
            return
        if region == "straddle" or not region[f"accept_{packet.op.lower()}"] or \
                packet.tracked != bool(region["tracked"]) or \
                packet.tracked and packet.plan != region["plan"] or \
                packet.op == "UPDATE" and packet.dtype != enum_name("dtype", region["dtype"]):
            self._error("REFUSED_PACKET", address, None)
            return
        tile = None
        if packet.tracked:
            tile = self._tile(region, self._first_byte(address, strobe), packet.wg, packet.wf)
            if tile is None:
                self._error("UNKNOWN_TILE", address, None)
                return
        touch = self._touch(region, INCOMING) if packet.tracked and packet.op == "UPDATE" else None
        self._communication.append(Request(
            packet.op, packet.dtype.lower(), "LINK", address, data, strobe, touch, tile))

    # Memory and tracking.

    def _memory_step(self, rng):
        queues = [queue for queue in (self._compute, self._communication) if queue]
        if not queues:
            return False
        request = rng.choice(queues).popleft()
        done = self.memory.write(request)
        self.counts["commits"] += 1
        self.counts["memory_busy"] += 1
        if request.source == "PRODUCER":
            self.counts["producer_write_bytes"] += done
        elif request.source == "LINK":
            self.counts[f"incoming_{request.op.lower()}_bytes"] += done
        if request.tile is not None and done:
            self._count(request.tile, request.address, done)
        return True

    def _count(self, tile, address, done):
        number, slot, _, _ = tile
        plan = self.plans[number]
        if not plan.armed:
            return
        entry = self.registers.entry("TILE", slot)
        if entry["expected"] == 0:
            self._error("UNKNOWN_TILE", address, tile)
            return
        total = plan.bytes.get(slot, 0) + done
        if slot in plan.full or total > entry["expected"]:
            self._error("OVER_COUNT", address, tile)
            return
        if total < entry["expected"]:
            plan.bytes[slot] = total
            return
        plan.bytes.pop(slot, None)
        plan.full.add(slot)
        self._last_full[slot] = plan.epoch
        self.counts["tiles_full"] += 1
        number_of_command = entry["command"]
        if number_of_command != NO_COMMAND:
            command = self.registers.entry("COMMAND", number_of_command)
            plan.waiting[number_of_command] += 1
            if plan.waiting[number_of_command] == command["need"] and command["plan"] == number:
                self.counts["commands_fired"] += 1
                self._fires.append(command)

    # DMA.

    def _dma_step(self, rng):
        if self._transfer is None:
            if not self._fires or self.registers.field("CONTROL", "hold"):
                return False
            command = self._fires.popleft()
            if self.plans[command["plan"]].armed:
                self._transfer = command, self._packets(command)
            return True
        if self._outgoing is None:
            self._outgoing = next(self._transfer[1], None)
            if self._outgoing is None:
                return self._end_command(self._transfer[0])
        if not self._send(self._outgoing):
            return False
        self.counts["dma_packets"] += 1
        self.counts["dma_read_bytes"] += int(self._outgoing.strobe.sum())
        self._outgoing = None
        return True

    def _packets(self, command):
        """Packets of a command's tiles, read from memory as they are sent."""
        route = self.registers.entry("ROUTE", command["route"])
        if not route["dma"]:
            return
        beat = self.config.beat_bytes
        for slot in range(command["first"], command["first"] + command["count_minus_1"] + 1):
            tile = self.registers.entry("TILE", slot)
            for row in range(tile["rows"]):
                source = route["source"] + tile["offset"] + row * route["source_pitch"]
                target = route["destination"] + tile["offset"] + row * route["destination_pitch"]
                end = source + tile["row_bytes"]
                start = source
                while start < end:
                    low = start - start % beat
                    high = min(low + self.config.burst_beats * beat, end + -end % beat)
                    stop = min(high, end)
                    strobe = np.zeros(high - low, bool)
                    strobe[start - low:stop - low] = True
                    yield Packet(
                        enum_name("memory_op", route["op"]), enum_name("dtype", route["dtype"]),
                        bool(route["tracked"]), command["plan"], self.plans[command["plan"]].epoch,
                        tile["wg"], tile["wf"], low - source + target,
                        self.memory.data[low:high].copy(), strobe)
                    start = stop

    def _end_command(self, command):
        route = self.registers.entry("ROUTE", command["route"])
        if route["doorbell"]:
            address, data, strobe = self._whole_beat(
                route["doorbell_address"] & ~3, route["doorbell_data"].to_bytes(4, "little"), None)
            if route["doorbell_remote"]:
                plan = self.plans[command["plan"]]
                if not self._send(Packet("STORE", "INT32", False, command["plan"], plan.epoch, 0, 0,
                                         address, data, strobe)):
                    return False
            else:
                self._communication.append(Request("STORE", "int32", "DMA", address, data, strobe))
        if route["interrupt"]:
            self._raise("command", 1)
        self.plans[command["plan"]].commands_done += 1
        self._transfer = None
        return True

    # Plans.

    def arm_plan(self, number):
        """Start a run."""
        plan = self.plans[number]
        plan.epoch = plan.next_epoch()
        plan.forget()
        plan.armed, plan.done, plan.timed_out = True, False, False

    def clear_plan(self, number):
        """Stop a plan; it is forgotten when nothing of it is under way."""
        self.plans[number].armed = False
        self.plans[number].clearing = True

    def _under_way(self, number):
        return (any(request.tile and request.tile[0] == number
                    for request in (*self._compute, *self._communication))
                or self._transfer is not None and self._transfer[0]["plan"] == number)

    def _forget(self, number):
        owned = self.registers.entry("PLAN", number)
        self._fires = collections.deque(fire for fire in self._fires if fire["plan"] != number)
        for slot in range(owned["first_tile"], owned["first_tile"] + owned["tiles"]):
            self._last_full.pop(slot, None)
        self.memory.clear_touched(owned["first_touch"], owned["touch_beats"])
        self.plans[number] = _Plan()

    def _finish(self, number):
        plan = self.plans[number]
        owned = self.registers.entry("PLAN", number)
        if len(plan.full) == owned["tiles"] and plan.commands_done == owned["commands"]:
            plan.armed, plan.done = False, True
            self._raise("plan_done", 1 << number)

    # Registers that show state.

    def _raise(self, field, value):
        values = self.registers.values
        shift = {"plan_done": 0, "error": 8, "command": 9}[field]
        values["IRQ_STATUS"] |= value << shift

    def _error(self, cause, address, tile):
        self.counts["errors"] += 1
        bit = 1 << _CAUSES.index(cause)
        if not self.registers.values["ERROR_STATUS"]:
            self._first_error = cause, address, tile
        self.registers.values["ERROR_STATUS"] |= bit
        self._raise("error", 1)

    def register_written(self, name, fields):
        """A register has been written."""
        if name == "COUNTER_CONTROL":
            if fields["snapshot"]:
                self._shadow = self.counts.copy()
                self._shadow["tracker_occupancy"] = sum(len(plan.bytes) for plan in self.plans)
            if fields["clear"]:
                self.counts.clear()
        if name == "ERROR_STATUS" and not self.registers.values["ERROR_STATUS"]:
            self._first_error = None

    def live_register(self, name, index):
        """Fields of a register that shows state, or None for one that keeps what was written."""
        for counter in COUNTER_NAMES:
            if name.lower() == counter or name.lower() in (f"{counter}_lo", f"{counter}_hi"):
                value = self._shadow[counter] >> (32 if name.endswith("_HI") else 0)
                return {"value": value & 0xFFFFFFFF}
        if name.startswith("PLAN_STATUS"):
            plan = self.plans[index]
            return {
                "PLAN_STATUS_STATE": {
                    "armed": int(plan.armed), "done": int(plan.done), "epoch": plan.epoch,
                    "timed_out": int(plan.timed_out), "clearing": int(plan.clearing)},
                "PLAN_STATUS_TILES_DONE": {"tiles": len(plan.full)},
                "PLAN_STATUS_COMMANDS_DONE": {"commands": plan.commands_done},
            }[name]
        if name.startswith("FIRST_ERROR"):
            return self._first_error_register(name)
        if name == "ERROR_COUNT":
            return {"count": min(self.counts["errors"], 0xFFFFFFFF)}
        if name == "LINK_STATUS":
            held = self._is_held()
            return {"holding": int(held), "plan": self.rx[0].plan if held else 0}
        if name == "TILE_STATE":
            slot = self.registers.field("TILE_STATE_INDEX", "slot")
            counted = [plan.bytes[slot] for plan in self.plans if slot in plan.bytes]
            return {"bytes": sum(counted), "open": len(counted),
                    "epoch": self._last_full.get(slot, 0)}
        return None

    def _first_error_register(self, name):
        cause, address, tile = self._first_error or ("UNMAPPED_PACKET", 0, None)
        plan, slot, wg, wf = tile or (0, 0, 0, 0)
        return {
            "FIRST_ERROR_CAUSE": {"cause": _CAUSES.index(cause),
                                  "valid": int(self._first_error is not None)},
            "FIRST_ERROR_ADDRESS_LO": {"value": address & 0xFFFFFFFF},
            "FIRST_ERROR_ADDRESS_HI": {"value": address >> 32},
            "FIRST_ERROR_TILE": {"slot": slot, "plan": plan, "tracked": int(tile is not None)},
            "FIRST_ERROR_IDS": {"wg": wg, "wf": wf},
        }[name]


_CAUSES = tuple(enum_name("error_cause", value) for value in range(14))
