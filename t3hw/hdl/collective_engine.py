"""Collective engine: a ring's reduce-scatter and all-gather as kernels of a GPU do them."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import DTYPE_NAMES
from .near_memory_adder import NearMemoryAdder
from .seams import (
    axi_address, axi_read_data, axi_write_data, axi_write_response, collective_settings,
    collective_step, collective_write,
)
from .stream_queue import StreamQueue

__all__ = ["CollectiveEngine"]

#: Longest burst, in beats: 4 KiB at the widest bus.
_LONGEST = 64
_INCR = 1


class CollectiveEngine(wiring.Component):
    """Run a table of steps: read, perhaps add, write, burst by burst, as an AXI4 master.

    A step moves ``beats`` beats in bursts of ``burst`` beats, the last of them shorter where that
    does not divide. Each burst is read from ``source_a`` and, with ``add``, from ``source_b``; the
    sum, or what was read, is written to ``destination``. A destination may lie in a region that the
    node sends to the neighbour; the engine does not know.

    A burst of a step with ``wait`` is begun when as many beats have come from the neighbour, beyond
    those that earlier bursts waited for, as the burst has. Beats of a run that no step waits for,
    up to ``expected``, are waited for at its end, and count as used too: what has come beyond them
    belongs to the next run, so a neighbour may be ahead, across runs as well. `clear`, not `start`,
    forgets what has come; give it before any neighbour starts its first run.

    The first beats to arrive must be those that the first waiting step reads. The memory may make
    them visible in another order if a read of a beat waits for the older writes to it.

    Steps overlap: a step must not read what an earlier one of the same run writes.

    `burst` must be a power of two, and addresses multiples of a burst, so that no burst crosses
    4 KiB; the longest possible one, 64 beats of 64 bytes, fills it. Settings that break a rule
    (`burst`, more steps than the table has, a dtype that is not built) are refused: the run ends at
    once, with ``error``. A step whose addresses break the rule is refused likewise when its turn
    comes, and the steps behind it are not run.

    Read data always has room: a burst is asked for when there is a place for each of its beats, in
    the queue of each operand. All reads have the id 0, and so have all writes.

    Latency 4 cycles from ``start`` to the first ``ar``; from the last operand on ``r`` 2 cycles to
    the burst's ``aw`` and `latency` to the beat on ``w``; 2 cycles from the last ``b`` to ``done``.
    Throughput one beat a cycle on each of ``r`` and ``w``, across bursts and steps of 2 beats and
    more, while ``buffer`` beats last for the memory's latency, the burst's length and 3 cycles.

    Parameters
    ----------
    config : NodeConfig
        Widths, and the dtypes that can be added.
    steps : int
        Entries of the table, 1 to 65535.
    buffer : int
        Places for beats of each operand, under way or waiting, at least 64.

    Attributes
    ----------
    latency : int
        Cycles from the last operand on ``r`` to the result on ``w``, if nothing stalls.

    Members
    -------
    aw, w, b, ar, r : AXI4 master
        As AXI4 has them. AxUSER is 0.
    table : In, stream of `collective_write`
        Writes to the table of steps, in the idle engine; beyond the table nothing is written.
    settings : In(collective_settings)
        Must be stable from ``start`` to ``done``.
    start : In(1)
        Pulse: run the steps. Ignored while ``busy``.
    clear : In(1)
        Pulse: forget what has come, also in this cycle. In a run, begin no further burst: the run
        ends when those under way are answered.
    arrived : In(1)
        Pulse for each beat of the neighbour that a read from now on will see.
    busy : Out(1)
        A run is under way.
    done : Out(1)
        Pulse: all bursts of the run have been answered, all expected beats have come.
    error : Out(1)
        Since ``start`` a setting or a step was refused, or an answer was not OKAY.
    cycles : Out(32)
        Cycles from ``start`` to ``done``, or until now.
    read_beats, write_beats : Out(32)
        Beats of the run on ``r`` and on ``w``.
    unused : Out(32)
        Beats that have come and that no run has used yet.

    Raises
    ------
    ValueError
        If ``steps`` or ``buffer`` is out of range.
    """

    def __init__(self, *, config, steps=64, buffer=256):
        if type(steps) is not int or not 1 <= steps <= 0xFFFF:
            raise ValueError(f"steps must be an integer from 1 to 65535, not {steps!r}")
        if type(buffer) is not int or buffer < _LONGEST:
            raise ValueError(f"buffer must be an integer of at least {_LONGEST}, not {buffer!r}")
        self._config = config
        self._steps = steps
        self._buffer = buffer
        self._adder = NearMemoryAdder(config=config, meta=data.StructLayout({"last": 1}))
        self.latency = 1 + self._adder.latency
        address = axi_address(config, config.id_width)
        super().__init__({
            "aw": Out(stream.Signature(address)),
            "w": Out(stream.Signature(axi_write_data(config))),
            "b": In(stream.Signature(axi_write_response(config, config.id_width))),
            "ar": Out(stream.Signature(address)),
            "r": In(stream.Signature(axi_read_data(config, config.id_width))),
            "table": In(stream.Signature(collective_write(config), always_ready=True)),
            "settings": In(collective_settings(config)),
            "start": In(1),
            "clear": In(1),
            "arrived": In(1),
            "busy": Out(1),
            "done": Out(1),
            "error": Out(1),
            "cycles": Out(32),
            "read_beats": Out(32),
            "write_beats": Out(32),
            "unused": Out(32),
        })
