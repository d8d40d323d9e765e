"""Functional device: what a node does, without its timing, behind the same registers.

It shares no code with the hardware: it knows the register map, the configuration, and how the
reference adds. Time is a sequence of steps, each of which carries out one thing that could happen
next, chosen at random. So a plan, the runtime and a workload can be tried in seconds, in many
orders of events.
"""

import collections
import random

import numpy as np

from ..config import ConfigError
from .functional_memory import INCOMING, LOCAL, Request, UpdateMemory
from .functional_packets import Packet, command_packets
from .functional_plans import Plans
from .functional_regions import STRADDLES, RegionMap, first_byte
from .functional_registers import FunctionalRegisters, enum_name
from .functional_status import Status
from .transport import BusError, Memory, Transport

__all__ = ["FunctionalDevice"]


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
        if not config.collective:
            raise ConfigError("collective must be true in a functional device, not False")
        self.config = config
        self.registers = FunctionalRegisters(config, self)
        self.status = Status(self.registers.values)
        self.counts = self.status.counts
        self.plans = Plans(config.plans, self.registers, self.status)
        self.regions = RegionMap(self.registers, config.plans)
        self.memory = UpdateMemory(config, memory_bytes or config.memory_bytes or 1 << 20,
                                   self.status.error)
        self.rx = collections.deque()
        self.neighbour = None
        # A packet's header: operation, type, plan, epoch, ids, address. One packet at least may be
        # under way.
        header_bits = (4 + 2 + 2 + 1 + max(config.plans - 1, 1).bit_length() + 4 + config.wg_width
                       + max(config.wf_width, 1) + config.addr_width - config.beat_shift)
        self._header_words = -(-header_bits // config.data_width)
        packet_words = config.burst_beats + self._header_words
        self._link_packets = max(1, config.link_credits // packet_words)
        self._random = random.Random(seed)
        self._compute = collections.deque()
        self._communication = collections.deque()
        self._transfer = None
        self._outgoing = None
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
            if self.status.interrupt:
                return True
            self.advance(1)
        return self.status.interrupt

    def read_memory(self, address, length):
        if not 0 <= address <= address + length <= len(self.memory.data):
            raise BusError("memory read", address)
        return self.memory.data[address:address + length].tobytes()

    def write_memory(self, address, data):
        if not 0 <= address <= address + len(data) <= len(self.memory.data):
            raise BusError("memory write", address)
        self.memory.data[address:address + len(data)] = np.frombuffer(bytes(data), np.uint8)

    # Time.

    def _run_alone(self, steps):
        for _ in range(steps):
            self.step(self._random)
            self.tick()

    def step(self, rng):
        """Carry out one thing that can happen now; whether there was one."""
        actions = self._memory_step, self._ingress_step, self._dma_step
        first = rng.randrange(3)
        return any(actions[first - index](rng) for index in range(3))

    def tick(self):
        """Let one cycle pass."""
        self.counts["cycles"] += 1
        for number in self.plans.tick():
            if not self._is_under_way(number):
                owned = self.registers.entry("PLAN", number)
                self.memory.clear_touched(owned["first_touch"], owned["touch_beats"])
                self.plans.forget(number)
        if not self._is_held():
            self._held = 0
            return
        self._held += 1
        if 0 < self.registers.field("HOLD_TIMEOUT", "cycles") <= self._held:
            self._held = 0
            self.status.error("HOLD_TIMEOUT", self.rx.popleft().address, None)

    def _is_under_way(self, plan):
        """Whether a write of the plan's tiles or one of its commands is on its way or waits."""
        writes = (request.tile for request in (*self._compute, *self._communication))
        return (any(tile is not None and tile[0] == plan for tile in writes)
                or any(command["plan"] == plan for command in self.plans.fires)
                or self._transfer is not None and self._transfer[0]["plan"] == plan)

    # Producer.

    def store(self, address, data, strobe=None, *, wg=0, wf=0):
        """One beat of the producer, or a part of one, from ``address`` on.

        Returns ``"okay"``, ``"slverr"``, or None if it must wait: then nothing has happened.
        """
        if len(self._compute) >= self.config.compute_queue:
            return None
        address, data, strobe = self._whole_beat(address, data, strobe)
        if not strobe.any():
            return "okay"
        region = self.regions.look_up(address, strobe)
        if region is None:
            self._compute.append(Request("STORE", "int32", "PRODUCER", address, data, strobe))
            return "okay"
        if region == STRADDLES or region["tracked"] and not self.plans.is_armed(region["plan"]):
            self.status.error("REFUSED_STORE", address, None)
            return "slverr"
        where, op = enum_name("region_action", region["action"]).split("_")
        dtype = enum_name("dtype", region["dtype"])
        first = first_byte(address, strobe)
        if where == "REMOTE":
            _, wg, wf = self.regions.ids(region, first, wg, wf)
            plan = region["plan"]
            sent = self._send(Packet(
                op, dtype, bool(region["tracked"]), plan, self.plans[plan].epoch, wg, wf,
                (address + region["remote_delta"]) % (1 << self.config.addr_width), data, strobe))
            if not sent:
                return None
            self.counts["remote_write_bytes"] += int(strobe.sum())
            return "okay"
        tile = None
        if region["tracked"]:
            tile = self.regions.tile(region, first, wg, wf)
            if tile is None:
                self.status.error("UNKNOWN_TILE", address, None)
                return "slverr"
        self._compute.append(Request(op, dtype.lower(), "PRODUCER", address, data, strobe,
                                     self._touch(region, LOCAL), tile))
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

    def _touch(self, region, writer):
        if not (region["first_touch"] and region["tracked"]):
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

    def _is_held(self):
        """Whether the packet at the head waits for its plan's next run."""
        if not self.rx or not self.rx[0].tracked or self.rx[0].plan >= len(self.plans):
            return False
        plan = self.plans[self.rx[0].plan]
        is_current = plan.armed and self.rx[0].epoch == plan.epoch
        return not is_current and self.rx[0].epoch == plan.next_epoch

    def _ingress_step(self, rng):
        if not self.rx or self._is_held() or \
                len(self._communication) >= self.config.communication_queue:
            return False
        packet = self.rx.popleft()
        if packet.tracked and packet.plan >= len(self.plans):
            self.status.error("REFUSED_PACKET", packet.address, None)
            return True
        plan = self.plans[packet.plan] if packet.tracked else None
        if packet.tracked and not (plan.armed and packet.epoch == plan.epoch):
            self.status.error("STALE_PACKET", packet.address, None)
            return True
        beat = self.config.beat_bytes
        for start in range(0, len(packet.data), beat):
            self._take_beat(packet, packet.address + start, packet.data[start:start + beat],
                            packet.strobe[start:start + beat])
        return True

    def _take_beat(self, packet, address, data, strobe):
        if not strobe.any():
            return
        region = self.regions.look_up(address, strobe)
        if region is None:
            self.status.error("UNMAPPED_PACKET", address, None)
            return
        if region == STRADDLES or not region[f"accept_{packet.op.lower()}"] or \
                packet.tracked != bool(region["tracked"]) or \
                packet.tracked and packet.plan != region["plan"] or \
                packet.op == "UPDATE" and packet.dtype != enum_name("dtype", region["dtype"]):
            self.status.error("REFUSED_PACKET", address, None)
            return
        tile = None
        if packet.tracked:
            tile = self.regions.tile(region, first_byte(address, strobe), packet.wg, packet.wf)
            if tile is None:
                self.status.error("UNKNOWN_TILE", address, None)
                return
        touch = self._touch(region, INCOMING) if packet.tracked and packet.op == "UPDATE" else None
        self._communication.append(Request(
            packet.op, packet.dtype.lower(), "LINK", address, data, strobe, touch, tile))

    # Memory and tracking.

    def _memory_step(self, rng):
        queues = [queue for queue in (self._compute, self._communication) if queue]
        if not queues:
            return False
        queue = rng.choice(queues)
        request = queue.popleft()
        issues = "compute_issues" if queue is self._compute else "communication_issues"
        self.counts[issues] += 1
        done = self.memory.write(request)
        self.counts["commits"] += 1
        self.counts["memory_busy"] += 1
        # What was sent to memory, whatever became of it.
        sent = int(request.strobe.sum())
        if request.source == "PRODUCER":
            self.counts["producer_write_bytes"] += sent
        elif request.source == "LINK":
            self.counts[f"incoming_{request.op.lower()}_bytes"] += sent
        if request.tile is not None and done:
            self.plans.count(request.tile, request.address, done)
        return True

    # DMA.

    def _dma_step(self, rng):
        fires = self.plans.fires
        if fires and not self.plans.is_armed(fires[0]["plan"]):
            # Its plan was stopped. It goes nowhere, but in its turn, and even while others are
            # held.
            fires.popleft()
            return True
        if self._transfer is None:
            if not fires or self.registers.field("CONTROL", "hold"):
                return False
            command = fires.popleft()
            self._transfer = command, command_packets(
                self.registers, self.config, self.memory.data, command,
                self.plans[command["plan"]].epoch)
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
            self.status.raise_interrupt(command=1)
        self.plans[command["plan"]].commands_done += 1
        self._transfer = None
        return True

    # Registers.

    def table_written(self, table):
        """A table has changed."""
        if table == "REGION":
            self.regions.refresh()

    def register_written(self, name, fields):
        """A register has been written."""
        if name == "COUNTER_CONTROL":
            self.counts["tracker_occupancy"] = sum(len(plan.bytes) for plan in self.plans)
            self.status.control_counters(fields["snapshot"], fields["clear"])
        if name == "ERROR_STATUS":
            self.status.errors_cleared()

    def live_register(self, name, index):
        """Fields of a register that shows state, or None for one that keeps what was written."""
        if name.startswith("PLAN_STATUS"):
            return self.plans.live(name, index)
        if name == "MCA_STATUS":
            # Without time there is no intensity, and so the first threshold stays in force.
            fixed = self.registers.field("MCA_CONTROL", "fixed")
            return {"threshold": self.registers.field("MCA_CONTROL", "threshold") if fixed else
                    self.registers.field("MCA_THRESHOLD_0", "accesses")}
        if name == "LINK_STATUS":
            is_held = self._is_held()
            return {"holding": is_held, "plan": self.rx[0].plan if is_held else 0}
        if name == "TILE_STATE":
            return self.plans.tile_state(self.registers.field("TILE_STATE_INDEX", "slot"))
        return self.status.live(name)
