"""A simulated ring that synchronous code programs and drives.

`RingSimulation` builds the bench and starts the simulator as a process of its own; in there a
function of the caller's runs with a `Session`, which has a transport for each node, the players and
the clock. Job and result travel as files.
"""

import pickle
import shutil
import struct
import tempfile
from pathlib import Path

from t3hw.runtime.transport import BusError, Memory, Transport

from . import simulators
from .bench import CLOCK_PERIOD, TOP, bench_sources
from .script import read_bursts, write_bursts, write_script
from .simulators import SimulatorError

__all__ = ["AxilTransport", "CycleLimit", "PlayerMemory", "RingSimulation", "Session"]

JOB = "job.pickle"
RESULT = "result.pickle"

#: Cycles of reset. The longest pipeline of a node is shorter.
RESET_CYCLES = 8


class CycleLimit(SimulatorError):
    """A simulation, or a wait in it, took more cycles than it may."""


class RingSimulation:
    """A ring of nodes in a simulator, built once, that can run any number of jobs.

    Parameters
    ----------
    config : NodeConfig
        The nodes.
    devices : int
        How many.
    simulator : str
        ``"verilator"`` or ``"icarus"``.
    ring : bool
        Whether to simulate ``t3_ring`` rather than nodes with stall injectors between them.
    waves : bool
        Whether runs can record waveforms.
    node : tuple of (str, list of dict) or None
        Verilog and ports of another node, for tests of the bench.

    Raises
    ------
    SimulatorError
        If the simulator is not installed or the build fails.
    """

    def __init__(self, config, devices, *, simulator="verilator", ring=False, waves=False,
                 node=None):
        self.config = config
        self.devices = devices
        self._build = simulators.build(
            simulator=simulator, top=TOP, waves=waves,
            sources=bench_sources(config, devices, ring=ring, node=node))

    def run(self, function, *arguments, cycles=1_000_000, directory=None, seed=1, link_stall=0.0,
            memory_latency=16, memory_jitter=0, trace_bin=0, waves=False, seconds=None):
        """Run ``function(session, *arguments)`` in the simulation, from reset on.

        Parameters
        ----------
        function : callable
            A function of an importable module.
        arguments
            For the function; they and what it returns must be picklable.
        cycles : int
            Limit of the simulation.
        directory : path-like or None
            Where the run's files are kept: scripts, logs, traces, waveforms. None keeps none.
        seed : int
            Of all that is random in the bench.
        link_stall : float
            Chance, 0 to 0.99, that a link does not move in a cycle.
        memory_latency, memory_jitter : int
            Least latency in cycles of the memories behind ``m_axi``, and what chance may add.
        trace_bin : int
            Cycles of one entry of the trace logs ``trace<device>.txt``; 0 writes none.
        waves : bool
            Whether to record ``waves.fst``.
        seconds : float or None
            Limit of real time, as a safety net.

        Returns
        -------
        object
            What the function returned. What it raised is raised here, with its traceback as a note.

        Raises
        ------
        CycleLimit
            If the function was not ready after ``cycles``.
        SimulatorError
            If the simulator failed.
        """
        if not 0 <= link_stall <= 0.99:
            raise ValueError(f"link_stall must be from 0 to 0.99, not {link_stall!r}")
        if getattr(function, "__module__", None) == "__main__":
            raise ValueError(f"{function.__qualname__} must be in a module that can be imported, "
                             "not in the script that is run")
        keep = directory is not None
        directory = Path(directory if keep else tempfile.mkdtemp(prefix="t3hw-"))
        try:
            directory.mkdir(parents=True, exist_ok=True)
            result = directory / RESULT
            result.unlink(missing_ok=True)
            job = (function, arguments, self.config, self.devices, cycles, trace_bin)
            (directory / JOB).write_bytes(pickle.dumps(job))
            simulators.run(
                self._build, test_module=f"{__package__}.ring_test", directory=directory,
                waves=waves, seconds=seconds,
                plusargs=[f"+t3_seed={seed}", f"+t3_link_stall={int(link_stall * 256)}",
                          f"+t3_memory_latency={memory_latency}",
                          f"+t3_memory_jitter={memory_jitter}", f"+t3_trace_bin={trace_bin}"])
            value, error, note = pickle.loads(result.read_bytes())
        finally:
            if not keep:
                shutil.rmtree(directory, ignore_errors=True)
        if error is not None:
            error.add_note(note)
            raise error
        return value


class Session:
    """What a function that runs in the simulation has in its hands.

    Every method that waits lets the simulation go on; between two calls it stands still.

    Members
    -------
    config : NodeConfig
    devices : int
    transports : list of AxilTransport
    memories : list of PlayerMemory
        One of each for each node, for the runtime.
    """

    def __init__(self, dut, config, devices, cycles):
        import cocotb.task
        from cocotb.simtime import get_sim_time
        from cocotb.triggers import Timer, ValueChange

        self.config = config
        self.devices = devices
        self._time = get_sim_time
        self._reset_end = get_sim_time("step")
        self._alarm = dut.alarm
        self._limit = cycles
        self._wake = ValueChange(dut.wake)
        self._settle = Timer(1, "step")
        self._start = [getattr(dut, f"node{device}_start") for device in range(devices)]
        self._busy = [getattr(dut, f"node{device}_busy") for device in range(devices)]
        self._errors = [getattr(dut, f"node{device}_errors") for device in range(devices)]
        self._runs = [0] * devices
        self._resumed = cocotb.task.resume(self._wait_until)
        self.transports = [AxilTransport(self, dut, device) for device in range(devices)]
        self.memories = [PlayerMemory(self, device) for device in range(devices)]

    @property
    def cycle(self):
        """Cycles since reset."""
        # Not the bench's counter, for nothing but ports can be read.
        return (self._time("step") - self._reset_end) // CLOCK_PERIOD

    def wait_until(self, condition, cycles=None):
        """Let the simulation go on until ``condition()`` holds, at most ``cycles``.

        Returns whether it holds. The condition is looked at again whenever a node's interrupt, a
        player's ``busy`` or a mailbox's answer changes.
        """
        return self._resumed(condition, cycles)

    async def _wait_until(self, condition, cycles):
        alarm = self._limit
        if cycles is not None:
            alarm = min(self.cycle + cycles, alarm)
            self._alarm.value = alarm
        try:
            while not condition():
                if self.cycle >= alarm:
                    if alarm == self._limit:
                        raise CycleLimit(f"the simulation was not ready after {alarm} cycles")
                    return False
                await self._wake
                # In the middle of a clock edge, simulators differ on what a signal shows.
                await self._settle
        finally:
            if cycles is not None:
                self._alarm.value = self._limit
        return True

    def wait(self, cycles):
        """Let ``cycles`` cycles pass."""
        self.wait_until(lambda: False, cycles)

    def write_all(self, address, value):
        """Write a word to every node, in one and the same cycle: what starts them all."""
        for transport in self.transports:
            transport.begin_write(address, value)
        for transport in self.transports:
            transport.end_write(address)

    def play(self, scripts, **options):
        """Let players play, all from the same cycle on. Returns at once; `wait_players` waits.

        Parameters
        ----------
        scripts : mapping of int to (iterable of Burst, or path of a script file)
            What each device's producer does.
        options
            For `write_script`: seed, stalls and limits.
        """
        for device, script in scripts.items():
            if self._busy[device].value:
                raise RuntimeError(f"the player of device {device} is still busy")
            self._runs[device] += 1
            path = Path(f"player{device}_{self._runs[device]}.bin")
            if isinstance(script, (str, Path)):
                path.symlink_to(Path(script).absolute())
            else:
                write_script(path, script, beat_bytes=self.config.beat_bytes, **options)
        for device in scripts:
            self._start[device].value = 1
        self.wait_until(lambda: all(self._busy[device].value for device in scripts), 10)
        for device in scripts:
            self._start[device].value = 0

    def is_busy(self, device):
        """Whether the device's player is still playing."""
        return bool(self._busy[device].value)

    def wait_players(self, *devices, cycles=None):
        """Wait until the players of these devices, or of all, are ready; whether they are."""
        watched = [self._busy[device] for device in devices or range(self.devices)]
        return self.wait_until(lambda: not any(busy.value for busy in watched), cycles)

    def errors(self, device):
        """Responses other than OKAY, and other faults, that the device's player saw in its run."""
        return int(self._errors[device].value)

    def write(self, device, address, data):
        """Store bytes through the device's ``s_axi``."""
        self._transfer(device, address, write_bursts(
            address, data, beat_bytes=self.config.beat_bytes))

    def read(self, device, address, length):
        """Bytes read through the device's ``s_axi``."""
        beat_bytes = self.config.beat_bytes
        self._transfer(device, address, read_bursts(
            address, length, beat_bytes=beat_bytes, keep=True))
        content = Path(f"player{device}_{self._runs[device]}.out").read_bytes()
        skipped = address % beat_bytes
        return content[skipped:skipped + length]

    def _transfer(self, device, address, bursts):
        self.play({device: bursts})
        self.wait_players(device)
        if self.errors(device):
            raise RuntimeError(f"device {device}: {self.errors(device)} of the accesses from "
                               f"{address:#x} on were answered with an error")


class AxilTransport(Transport):
    """The runtime's way to a simulated node: its AXI4-Lite port.

    One access costs Python one write and one read of a signal and one wait, whatever the bus does;
    so does one block of writes.
    """

    _READ, _WRITE, _FILE = range(3)

    def __init__(self, session, dut, device):
        self._session = session
        self._device = device
        self._command = getattr(dut, f"node{device}_command")
        self._response = getattr(dut, f"node{device}_response")
        self._interrupt = getattr(dut, f"node{device}_interrupt")
        self._turn = 0

    def _begin(self, operation, address=0, value=0):
        self._turn ^= 1
        self._command.value = self._turn << 63 | operation << 60 | address << 32 | value

    def _access(self, *access):
        self._begin(*access)
        return self._end()

    def _end(self):
        self._session.wait_until(lambda: int(self._response.value) >> 63 == self._turn)
        answer = int(self._response.value)
        return answer >> 32 & 3, answer & 0xFFFFFFFF

    def read32(self, address):
        """Read a word; raises `BusError` if the node refuses."""
        response, value = self._access(self._READ, address)
        if response:
            raise BusError("read", address)
        return value

    def write32(self, address, value):
        """Write a word; raises `BusError` if the node refuses."""
        self.begin_write(address, value)
        self.end_write(address)

    def begin_write(self, address, value):
        """Begin to write a word, and wait for nothing; `end_write` does."""
        self._begin(self._WRITE, address, value)

    def end_write(self, address):
        """Wait for the end of a write; raises `BusError` if the node refused."""
        response, _ = self._end()
        if response:
            raise BusError("write", address)

    def write_words(self, writes):
        """Write words anywhere, given as pairs of address and value: fastest for many."""
        writes = list(writes)
        Path(f"axil{self._device}.bin").write_bytes(
            b"".join(struct.pack(">II", address, value) for address, value in writes))
        response, done = self._access(self._FILE)
        if response:
            raise BusError("write", writes[done][0])

    def write_block(self, address, words):
        """Write words that follow each other, the first one first."""
        self.write_words((address + 4 * index, word) for index, word in enumerate(words))

    @property
    def interrupt(self):
        """Whether the interrupt is high."""
        return bool(self._interrupt.value)

    def wait_interrupt(self, cycles):
        """Wait until the interrupt is high, for ``cycles`` cycles at most; whether it is."""
        return self._session.wait_until(lambda: self.interrupt, cycles)


class PlayerMemory(Memory):
    """Memory of a simulated node, by way of the bursts of its producer's player."""

    def __init__(self, session, device):
        self._session = session
        self._device = device

    def read_memory(self, address, length):
        """Bytes from ``address`` on."""
        return self._session.read(self._device, address, length)

    def write_memory(self, address, data):
        """Replace bytes from ``address`` on."""
        self._session.write(self._device, address, data)
