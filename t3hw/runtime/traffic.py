"""Driver of a traffic node's engines: a GEMM, and collectives as kernels do them."""

from t3hw.registers.access import RegisterMap
from t3hw.registers.traffic_map import ENUMS, MAP_HASH, REGISTERS, TABLES

from .device import DeviceError
from .transport import BusError

__all__ = ["TrafficEngines"]

_MAP = RegisterMap(registers=REGISTERS, tables=TABLES, enums=ENUMS)

#: Engine: register that says that it is done, and the one that starts it.
_ENGINES = {"gemm": ("gemm_done", "GEMM_CONTROL"),
            "collective": ("collective_done", "COLLECTIVE_CONTROL")}


class TrafficEngines:
    """The two engines of a traffic node; one runs at a time.

    Parameters
    ----------
    transport : Transport
        The node's registers.

    Raises
    ------
    DeviceError
        If there are no such engines, or with another register map.
    """

    def __init__(self, transport):
        self.transport = transport
        try:
            found = self.read("MAP_HASH")["hash"]
        except BusError:
            raise DeviceError("this node has no traffic engines: "
                              "generate it with --traffic") from None
        if found != MAP_HASH:
            raise DeviceError(f"the traffic engines have register map {found:#010x}, "
                              f"software {MAP_HASH:#010x}")

    def read(self, name):
        """Fields of a register."""
        return _MAP.decode_register(name, self.transport.read32(_MAP.register_address(name)))

    def write(self, name, **fields):
        """Write a register; fields that are not given become 0."""
        self.transport.write32(_MAP.register_address(name), _MAP.encode_register(name, **fields))

    def _write_wide(self, name, value):
        self.write(f"{name}_LO", value=value & 0xFFFFFFFF)
        self.write(f"{name}_HI", value=value >> 32)

    def _read_wide(self, name):
        return self.read(f"{name}_HI")["value"] << 32 | self.read(f"{name}_LO")["value"]

    # GEMM.

    def set_gemm(self, *, units, workgroups, first_workgroup=0, chunk_workgroups, steps,
                 step_cycles, burst_beats, streams, stream_bytes, read_base, base,
                 workgroup_bytes, wavefronts, tile_beats, seed=0, and_mask=0xFFFFFFFF,
                 or_mask=0, stage_reads):
        """Set a GEMM up. Names are those of the registers; see the traffic engines' manual.

        ``burst_beats``, ``streams``, ``stream_bytes`` and ``tile_beats`` are powers of two;
        ``step_cycles`` and each of ``stage_reads``, the beats that a step reads by stage, are in
        1/256.

        Raises
        ------
        RegisterError
            If a value does not fit its register.
        DeviceError
            If the node cannot run this.
        """
        self.write("GEMM_UNITS", units=units)
        self.write("GEMM_WORKGROUPS", workgroups=workgroups)
        self.write("GEMM_FIRST_WORKGROUP", first_workgroup=first_workgroup)
        self.write("GEMM_CHUNK_WORKGROUPS", chunk_workgroups=chunk_workgroups)
        self.write("GEMM_STEPS", steps=steps)
        self.write("GEMM_STEP_CYCLES", step_cycles=step_cycles)
        self.write("GEMM_READS", burst_log2=_log2("burst_beats", burst_beats),
                   streams_log2=_log2("streams", streams),
                   stream_bytes_log2=_log2("stream_bytes", stream_bytes))
        self._write_wide("GEMM_READ_BASE", read_base)
        self._write_wide("GEMM_BASE", base)
        self.write("GEMM_WORKGROUP_BYTES", workgroup_bytes=workgroup_bytes)
        self.write("GEMM_TILES", wavefronts=wavefronts,
                   tile_beats_log2=_log2("tile_beats", tile_beats))
        self.write("GEMM_SEED", seed=seed)
        self.write("GEMM_AND_MASK", mask=and_mask)
        self.write("GEMM_OR_MASK", mask=or_mask)
        self.set_stage_reads(stage_reads)
        if not self.read("GEMM_STATUS")["legal"]:
            sizes = self.read("CAP_GEMM")
            raise DeviceError(f"the GEMM engine, of {sizes['units']} units, refuses these "
                              f"settings: {units} units, {workgroups} workgroups in chunks of "
                              f"{chunk_workgroups}, {wavefronts} tiles of {tile_beats} beats each, "
                              f"bursts of {burst_beats} beats")

    def set_stage_reads(self, stage_reads):
        """Beats that a step reads, by stage, in 1/256; later stages have the last entry's."""
        entries = list(stage_reads)
        size = self.read("CAP_GEMM")["stages"]
        if not 1 <= len(entries) <= size:
            raise DeviceError(f"the table of stages has 1 to {size} entries, not {len(entries)}")
        entries += entries[-1:] * (size - len(entries))
        self.transport.write_words(
            (_MAP.entry_address("GEMM_STAGE", index), word)
            for index, reads in enumerate(entries)
            for word in _MAP.encode_entry("GEMM_STAGE", reads=reads))

    def gemm_results(self):
        """What the GEMM engine measured in its last run."""
        names = ("cycles", "first_store", "last_store", "read_beats", "write_beats", "store_stall")
        return {name: self.read(f"GEMM_{name.upper()}")["value"] for name in names} | {
            "read_wait": self._read_wide("GEMM_READ_WAIT")}

    # Collectives.

    def set_collective(self, table, *, burst, dtype):
        """Set a collective up.

        Parameters
        ----------
        table : StepTable
            Its steps, of `t3hw.workloads.collectives`.
        burst : int
            Beats of a burst: a power of two, 1 to 64.
        dtype : str
            Element type of additions.

        Raises
        ------
        DeviceError
            If the node's table is too small.
        """
        size = self.read("CAP_COLLECTIVE")["steps"]
        if len(table.steps) > size:
            raise DeviceError(f"the table of steps has {size} entries, not {len(table.steps)}")
        self.transport.write_words(
            (_MAP.entry_address("COLLECTIVE_STEP", index, word), value)
            for index, step in enumerate(table.steps) for word, value in enumerate(step.words()))
        self.write("COLLECTIVE_STEPS", steps=len(table.steps))
        self.write("COLLECTIVE_BURST", beats=burst, dtype=dtype.upper())
        self.write("COLLECTIVE_EXPECTED", beats=table.expected)

    def forget_arrivals(self):
        """Forget what has come from the neighbour, if anything counts it;
        before any neighbour starts."""
        if self.read("CAP_COLLECTIVE")["steps"]:
            self.write("COLLECTIVE_CONTROL", clear=1)

    def collective_results(self):
        """What the collective engine measured in its last run."""
        return {name: self.read(f"COLLECTIVE_{name.upper()}")["value"]
                for name in ("cycles", "read_beats", "write_beats")}

    # Runs.

    def start_word(self, engine):
        """Address and value of the write that starts an engine, ``"gemm"`` or ``"collective"``."""
        name = _ENGINES[engine][1]
        return _MAP.register_address(name), _MAP.encode_register(name, start=1)

    def prepare(self, engine):
        """Make the engine's end raise the interrupt, and nothing else of the engines."""
        done = _ENGINES[engine][0]
        self.write("IRQ_STATUS", gemm_done=1, collective_done=1)
        self.write("IRQ_ENABLE", **{done: 1})

    def start(self, engine):
        """Start an engine."""
        self.prepare(engine)
        self.transport.write32(*self.start_word(engine))

    def wait(self, engine, *, timeout):
        """Wait until an engine is done.

        Raises
        ------
        TimeoutError
            If it is not after ``timeout`` cycles.
        DeviceError
            If an access of it was answered with an error.
        """
        done = _ENGINES[engine][0]
        while not self.read("IRQ_STATUS")[done]:
            if not self.transport.wait_interrupt(timeout):
                raise TimeoutError(f"the {engine} engine is not done after {timeout} cycles")
        self.write("IRQ_STATUS", **{done: 1})
        self.write("IRQ_ENABLE")
        if self.read(f"{engine.upper()}_STATUS")["error"]:
            raise DeviceError(f"an access of the {engine} engine was answered with an error")

    def read_memory(self, address, length):
        """Bytes of the node's memory, in whole words; no engine may run."""
        if address % 4 or length % 4:
            raise DeviceError("address and length must be multiples of 4, "
                              f"not {address} and {length}")
        self._write_wide("READ_ADDRESS", address)
        where = _MAP.register_address("READ_DATA")
        return b"".join(self.transport.read32(where).to_bytes(4, "little")
                        for _word in range(length // 4))


def _log2(name, value):
    if value < 1 or value & value - 1:
        raise DeviceError(f"{name} must be a power of two, not {value}")
    return value.bit_length() - 1
