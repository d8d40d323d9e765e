"""A board in Python: functional nodes, a model of their engines, the board's registers,
and the bridge.

It stands behind a pseudo-terminal, and can be told to misbehave. It shares the register map with
the software that it tests, and no code of the link.
"""

import functools
import os
import pty
import select
import threading
import time
import tty
import types
import zlib

import numpy as np

from t3hw.config import PRESETS
from t3hw.reference.traffic import gemm_words
from t3hw.registers import board as board_map
from t3hw.registers import traffic as traffic_map
from t3hw.runtime.functional_ring import FunctionalRing
from t3hw.runtime.transport import BusError

ONES = 0xFFFFFFFF
#: Cycles that pass while the host reads the time.
CYCLES_A_LOOK = 40


def design(**changes):
    """What stands for a board's design here: the fields that software looks at."""
    fields = {"name": "model", "hash": 0x12345678, "node": PRESETS["tiny"], "devices": 2,
              "traffic": False, "memory": "block-ram", "clock_hz": 1_000_000}
    return types.SimpleNamespace(**fields | changes)


class EngineModel:
    """The GEMM engine of a node, without reads; registers of the collective engine do nothing."""

    UNITS, STAGES, STEPS = 8, 4, 4

    def __init__(self, ring, device):
        self.ring = ring
        self.device = device
        self.words = {}
        for name, word in traffic_map.capabilities(units=self.UNITS, stages=self.STAGES,
                                                   steps=self.STEPS).items():
            self.words[traffic_map.register_address(name)] = word
        self.busy = False
        self.cycles = 0
        self.status = 0
        self.dispatched = 0

    def _field(self, name, field):
        word = self.words.get(traffic_map.register_address(name), 0)
        return traffic_map.decode_register(name, word)[field]

    def read(self, address):
        if address == traffic_map.register_address("IRQ_STATUS"):
            return self.status
        if address == traffic_map.register_address("GEMM_STATUS"):
            return traffic_map.encode_register("GEMM_STATUS", busy=int(self.busy), legal=1)
        if address == traffic_map.register_address("GEMM_CYCLES"):
            return self.cycles
        return self.words.get(address, 0)

    def write(self, address, word):
        if address == traffic_map.register_address("IRQ_STATUS"):
            self.status &= ~word
        elif address == traffic_map.register_address("GEMM_CONTROL"):
            if self.busy:
                raise BusError("write", address)
            self.busy, self.cycles, self.dispatched = True, 0, 0
        else:
            self.words[address] = word

    @property
    def interrupt(self):
        return bool(self.status & self.words.get(traffic_map.register_address("IRQ_ENABLE"), 0))

    def tick(self):
        """A cycle: units that have computed long enough store their workgroups."""
        if not self.busy:
            return
        self.cycles += 1
        workgroups = self._field("GEMM_WORKGROUPS", "workgroups")
        time_of_one = (self._field("GEMM_STEPS", "steps")
                       * self._field("GEMM_STEP_CYCLES", "step_cycles") / 256)
        while self.dispatched < workgroups:
            rounds = self.dispatched // self._field("GEMM_UNITS", "units") + 1
            if self.cycles < rounds * time_of_one:
                return
            self._store((self._field("GEMM_FIRST_WORKGROUP", "first_workgroup") + self.dispatched)
                        % workgroups)
            self.dispatched += 1
        device = self.ring.devices[self.device]
        if not self.ring._work[self.device] and not device._compute:
            self.busy = False
            self.status |= 1

    def _store(self, number):
        beat = self.ring.devices[self.device].config.beat_bytes
        beats = 1 << self._field("GEMM_TILES", "tile_beats_log2")
        address = (self._field("GEMM_BASE_LO", "value")
                   + number * self._field("GEMM_WORKGROUP_BYTES", "workgroup_bytes"))
        data = gemm_words(address // 4, beats * beat // 4, self._field("GEMM_SEED", "seed"),
                          self._field("GEMM_AND_MASK", "mask"),
                          self._field("GEMM_OR_MASK", "mask")).tobytes()
        chunk = self._field("GEMM_CHUNK_WORKGROUPS", "chunk_workgroups")
        self.ring.produce(self.device, [
            (address + start, data[start:start + beat], None, number % chunk, 0)
            for start in range(0, beats * beat, beat)])


class ModelRing(FunctionalRing):
    """A ring with engines, and a count of cycles."""

    def __init__(self, *arguments, engines=False, **options):
        super().__init__(*arguments, **options)
        self.paces = [1] * len(self.paces)
        self.cycles = 0
        # Cycle from which on each link is free again.
        self.free = [0] * len(self.devices)
        self.link_takes_time = True
        for index, device in enumerate(self.devices):
            device._send = functools.partial(self._send, index, device._send)
        self.engines = [EngineModel(self, index) for index in range(len(self.devices))
                        ] if engines else []

    def _send(self, index, send, packet):
        """A packet takes the time on the link that the node is set to."""
        if self.cycles < self.free[index] or not send(packet):
            return False
        device = self.devices[index]
        beats = len(packet.data) // device.config.beat_bytes
        interval = device.registers.field("LINK_INTERVAL", "cycles")
        self.free[index] = self.cycles + self.link_takes_time * interval * beats
        return True

    def run(self, steps):
        for _ in range(steps):
            super().run(1)
            self.cycles += 1
            for engine in self.engines:
                engine.tick()


class BoardModel:
    """What the host's bus reaches. ``flaws`` are functions (kind, address, word) -> word."""

    def __init__(self, of=None, *, seed=0):
        self.design = of or design()
        self.ring = ModelRing(self.design.devices, self.design.node, seed=seed,
                              engines=self.design.traffic)
        self.registers = board_map.identity(self.design) | {"SCRATCH": 0, "LEDS": 0}
        self.flaws = []
        self.captured = 0
        self.clock_runs = True

    def read(self, address):
        word = self._read(address)
        for flaw in self.flaws:
            word = flaw("read", address, word)
        return word

    def write(self, address, word):
        for flaw in self.flaws:
            word = flaw("write", address, word)
        if word is not None:
            self._write(address, word)

    def _node(self, address):
        index, offset = divmod(address, board_map.NODE_WINDOW)
        if index >= self.design.devices:
            raise BusError("access", address)
        engine = self.ring.engines[index] if self.ring.engines else None
        return self.ring.devices[index], engine, offset

    def _read(self, address):
        if address >= board_map.MEMORY_BASE:
            index, offset = divmod(address - board_map.MEMORY_BASE, board_map.MEMORY_WINDOW)
            if index >= self.design.devices:
                raise BusError("read", address)
            self._settle(index)
            return int.from_bytes(self.ring.devices[index].read_memory(offset, 4), "little")
        if address >= board_map.BOARD_BASE:
            return self._read_board(address)
        node, engine, offset = self._node(address)
        if offset >> 16 == 1 and engine:
            self.ring.run(1)
            return engine.read(offset)
        return node.read32(offset)

    def _read_board(self, address):
        name = self._name(address)
        if name == "CYCLES_LO":
            if self.clock_runs:
                self.ring.run(CYCLES_A_LOOK)
            self.captured = self.ring.cycles
            return self.captured & ONES
        if name == "CYCLES_HI":
            return self.captured >> 32
        if name == "IRQ":
            engines = self.ring.engines or [None] * self.design.devices
            return sum((device.status.interrupt or bool(engine and engine.interrupt)) << index
                       for index, (device, engine) in enumerate(zip(self.ring.devices, engines)))
        return self.registers.get(name, 0)

    @staticmethod
    def _name(address):
        for name, register in board_map.REGISTERS.items():
            if board_map.BOARD_BASE + register.offset == address:
                return name
        raise BusError("access", address)

    def _write(self, address, word):
        if address >= board_map.MEMORY_BASE:
            index, offset = divmod(address - board_map.MEMORY_BASE, board_map.MEMORY_WINDOW)
            if index >= self.design.devices or offset >= self.design.node.memory_bytes:
                raise BusError("write", address)
            while (answer := self.ring.devices[index].store(
                    offset, word.to_bytes(4, "little"))) is None:
                self.ring.run(1)
            if answer != "okay":
                raise BusError("write", address)
            self._settle(index)
        elif address >= board_map.BOARD_BASE:
            name = self._name(address)
            if board_map.REGISTERS[name].access == "ro":
                raise BusError("write", address)
            self.registers[name] = word
        else:
            node, engine, offset = self._node(address)
            if offset >> 16 == 1 and engine:
                self.ring.run(1)
                engine.write(offset, word)
            else:
                node.write32(offset, word)

    def _settle(self, index):
        while self.ring.devices[index]._compute:
            self.ring.run(1)


class Bridge:
    """Bytes of the line into accesses, as the bridge of the hardware does it."""

    def __init__(self, board, *, silence=0.03):
        self.board = board
        self.silence = silence
        self.pending = b""
        self.last = time.monotonic()
        self.errors, self.first = 0, 0
        self.abandoned = 0
        self.rx = self.tx = 0

    def feed(self, data):
        """Bytes that came; returns those that go back."""
        now = time.monotonic()
        if self.pending and now - self.last > self.silence:
            self.pending = b""
            self.abandoned += 1
        answer = self._take(data)
        # What this model needs for it is no silence of the line.
        self.last = time.monotonic()
        return answer

    def _take(self, data):
        self.pending += data
        answer = b""
        while self.pending:
            what = self.pending[0]
            if what not in (1, 2, 3, 4):
                self.pending = self.pending[1:]
                continue
            if len(self.pending) < 2:
                break
            count = self.pending[1]
            size = 6 + 4 * count * (what in (1, 3))
            if count == 0:
                size = 6
            if len(self.pending) < size:
                break
            command, self.pending = self.pending[:size], self.pending[size:]
            address = int.from_bytes(command[2:6], "big") * 4
            for index in range(count):
                at = address + 4 * index * (what < 3)
                if what in (1, 3):
                    self._write(at, command[6 + 4 * index:10 + 4 * index])
                else:
                    answer += self._read(at)
        return answer

    def _write(self, address, data):
        own = self._own(address)
        if own == "RX_CRC":
            self.rx = 0
            return
        self.rx = zlib.crc32(data, self.rx)
        if own == "TX_CRC":
            self.tx = 0
        elif own == "ACCESS_ERRORS":
            self.errors = self.first = 0
        elif own == "LINE_ERRORS":
            self.abandoned = 0
        else:
            try:
                self.board.write(address, int.from_bytes(data, "big"))
            except BusError:
                self._refuse(address)

    def _read(self, address):
        own = self._own(address)
        counted = True
        if own:
            counted = own == "LINE_ERRORS"
            word = {"RX_CRC": self.rx, "TX_CRC": self.tx, "ACCESS_ERRORS": self.errors,
                    "ACCESS_ERROR_ADDRESS": self.first, "LINE_ERRORS": self.abandoned << 8}[own]
        else:
            try:
                word = self.board.read(address)
            except BusError:
                self._refuse(address)
                word = ONES
        data = word.to_bytes(4, "big")
        if counted:
            self.tx = zlib.crc32(data, self.tx)
        return data

    def _refuse(self, address):
        self.first = self.first if self.errors else address
        self.errors += 1

    @staticmethod
    def _own(address):
        for name in ("RX_CRC", "TX_CRC", "ACCESS_ERRORS", "ACCESS_ERROR_ADDRESS", "LINE_ERRORS"):
            if address == board_map.register_address(name):
                return name
        return None


class PtyBoard:
    """A board at a pseudo-terminal, ``port``, in a thread.

    ``spoil_in`` and ``spoil_out`` are functions of bytes and of how many came before, that return
    what becomes of them; ``drop_after`` bytes from the host the cable is pulled.
    """

    def __init__(self, board=None, *, silence=0.03):
        self.board = board or BoardModel()
        self.bridge = Bridge(self.board, silence=silence)
        self.spoil_in = self.spoil_out = lambda data, before: data
        self.drop_after = None
        self.came = self.went = 0
        self.failure = None
        self._stop = threading.Event()

    def __enter__(self):
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        self.port = os.ttyname(slave)
        # Kept open, so that the terminal stays while nobody uses it.
        self._slave = slave
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(10)
        self.pull()
        if self.failure is not None:
            raise self.failure

    def pull(self):
        """Pull the cable: the terminal is gone."""
        for name in ("_master", "_slave"):
            file = getattr(self, name)
            if file is not None:
                setattr(self, name, None)
                os.close(file)

    def _serve(self):
        try:
            while not self._stop.is_set():
                if not select.select([self._master], [], [], 0.01)[0]:
                    continue
                data = os.read(self._master, 4096)
                if self.drop_after is not None and self.came + len(data) >= self.drop_after:
                    self.pull()
                    return
                spoiled = self.spoil_in(data, self.came)
                self.came += len(data)
                answer = self.bridge.feed(spoiled)
                sent = self.spoil_out(answer, self.went)
                self.went += len(answer)
                while sent:
                    sent = sent[os.write(self._master, sent):]
        except OSError:
            return
        except BaseException as error:
            self.failure = error
            self.pull()


def as_words(data):
    """Bytes as words of memory."""
    return np.frombuffer(bytes(data), "<u4")
