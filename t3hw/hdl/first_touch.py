"""First touch: decides, lane by lane, whether an update stores or adds."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import DTYPE_BYTES, DTYPE_NAMES, checked_config
from .seams import (Dtype, ErrorCause, MemoryOp, Writer, clear_range, error_event, memory_access,
                    memory_request)

__all__ = ["FirstTouch"]


class FirstTouch(wiring.Component):
    """Turn requests into accesses: the first of an element's two writers stores, the second adds.

    The map has an entry for each beat of update buffers, and in it a bit for each writer and 16-bit
    lane. A bit is set when it equals the parity of the plan's epoch, so the next epoch finds it
    unset and nothing is cleared between runs. Therefore both writers must touch an element in each
    run.

    An update that has ``touch.enable`` adds where the other writer's bit is set, stores elsewhere,
    and sets its own bits. Where its own bit is set already it is a duplicate. Other updates add
    everywhere, stores store, and reads pass. What an update must not do is taken out of its strobe
    and reported: elements of which only some bytes are strobed (``PARTIAL_ELEMENT``), duplicates
    (``DUPLICATE_UPDATE``), and all of it if no adder for its type was built (``MISSING_DTYPE``).
    What is left, nothing at all perhaps, goes on, since a response depends on it.

    Latency 2 cycles from ``request`` to ``access``; throughput one request a cycle, any two for the
    same entry included. A request with two causes of error takes one cycle more, and while a range
    is being cleared every other cycle may be lost.

    Parameters
    ----------
    config : NodeConfig
        The node's configuration.

    Members
    -------
    request : In, stream of `memory_request`
        What to do.
    access : Out, stream of `memory_access`
        The same, in the same order, registered.
    clear : In, stream of `clear_range`
        Forget the map's entries ``first_touch`` to ``last_touch`` (modulo the map's size), one a
        cycle while no request comes. Ready for one cycle when requests accepted from then on find
        them clear.
    error : Out, stream of `error_event`, always ready
        What was wrong with a request.

    Raises
    ------
    TypeError
        If ``config`` is not a NodeConfig.
    """

    def __init__(self, *, config):
        self._config = checked_config(config)
        super().__init__({
            "request": In(stream.Signature(memory_request(config))),
            "access": Out(stream.Signature(memory_access(config))),
            "clear": In(stream.Signature(clear_range(config))),
            "error": Out(stream.Signature(error_event(config), always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        lanes = config.lanes

        entry = data.StructLayout({"local": lanes, "incoming": lanes})
        m.submodules.map = map_ = Memory(shape=entry, depth=config.touch_beats, init=[])
        write = map_.write_port()
        read = map_.read_port(transparent_for=[write])

        # One stage behind the map's read: it holds a request, or a step of the clear. Both write
        # the map when they leave, and what enters in that cycle sees it already.
        held = Signal()
        request = Signal(memory_request(config))
        clearing = Signal()
        clear_index = Signal.like(read.addr)
        enter_clear = Signal()
        advance = Signal()
        leave = Signal()
        m.d.comb += [
            advance.eq(leave | ~held),
            self.request.ready.eq(advance & ~enter_clear),
            read.addr.eq(self.request.payload.touch.index),
            read.en.eq(advance),
        ]
        with m.If(advance):
            m.d.sync += [
                held.eq(self.request.valid & self.request.ready),
                request.eq(self.request.payload),
                clearing.eq(enter_clear),
            ]

        # The clear walks through the same stage; a request that waits has every other turn.
        walk = Signal.like(clear_index)
        with m.FSM(name="clear_state"):
            with m.State("IDLE"):
                m.d.sync += walk.eq(self.clear.payload.first_touch)
                with m.If(self.clear.valid):
                    with m.If(self.clear.payload.any_touch):
                        m.next = "WALK"
                    with m.Else():
                        m.next = "DONE"
            with m.State("WALK"):
                m.d.comb += enter_clear.eq(advance & ~(clearing & self.request.valid))
                with m.If(enter_clear):
                    m.d.sync += [
                        clear_index.eq(walk),
                        walk.eq(walk + 1),
                    ]
                    with m.If(walk == self.clear.payload.last_touch):
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.clear.ready.eq(1)
                m.next = "IDLE"

        # The rules, a bit per 16-bit lane. The two lanes of a 32-bit element always agree.
        wide_dtypes = [name for name in DTYPE_NAMES if DTYPE_BYTES[name] == 4]
        local = Signal()
        wide = Signal()
        known = Signal()
        update = Signal()
        m.d.comb += [
            local.eq(request.touch.writer == Writer.LOCAL),
            wide.eq(_one_of(request.dtype, wide_dtypes)),
            known.eq(_one_of(request.dtype, config.dtypes)),
            update.eq(request.op == MemoryOp.UPDATE),
        ]

        def per_element(bits):
            """``bits`` of each lane, or-ed over the lanes of its element."""
            bits = list(bits)
            return Cat(bits[lane] | (bits[lane ^ 1] & wide) for lane in range(lanes))

        strobed = Signal(lanes)
        whole = Signal(lanes)
        partial = Signal(lanes)
        own = Signal(lanes)
        other = Signal(lanes)
        duplicate = Signal(lanes)
        active = Signal(lanes)
        lane_strobes = [request.strobe[2 * lane:2 * lane + 2] for lane in range(lanes)]
        parity = request.touch.parity.replicate(lanes)
        touches = (update & request.touch.enable).replicate(lanes)
        m.d.comb += [
            strobed.eq(per_element(strobes.any() for strobes in lane_strobes)),
            whole.eq(~per_element(~strobes.all() for strobes in lane_strobes)),
            partial.eq(strobed & ~whole),
            own.eq(per_element(~(Mux(local, read.data.local, read.data.incoming) ^ parity))),
            other.eq(per_element(~(Mux(local, read.data.incoming, read.data.local) ^ parity))),
            duplicate.eq(whole & own & touches),
            active.eq(whole & ~duplicate & known.replicate(lanes)),
        ]

        # The error stream takes one event a cycle, so a request with two causes stays for a second
        # one.
        any_partial = Signal()
        any_duplicate = Signal()
        again = Signal()
        reported = Signal()
        m.d.comb += [
            any_partial.eq(update & known & partial.any()),
            any_duplicate.eq(update & known & duplicate.any()),
            again.eq(held & any_partial & any_duplicate & ~reported),
            leave.eq(held & ~again & (~self.access.valid | self.access.ready)),
        ]
        with m.If(again):
            m.d.sync += reported.eq(1)
        with m.If(leave):
            m.d.sync += reported.eq(0)

        m.d.sync += [
            self.error.valid.eq(again | (leave & update & (~known | any_partial | any_duplicate))),
            self.error.payload.address.eq(request.address),
            self.error.payload.tile.eq(request.tile),
        ]
        with m.If(~known):
            m.d.sync += self.error.payload.cause.eq(ErrorCause.MISSING_DTYPE)
        with m.Elif(any_partial & ~reported):
            m.d.sync += self.error.payload.cause.eq(ErrorCause.PARTIAL_ELEMENT)
        with m.Else():
            m.d.sync += self.error.payload.cause.eq(ErrorCause.DUPLICATE_UPDATE)

        m.d.comb += [
            write.addr.eq(Mux(clearing, clear_index, request.touch.index)),
            write.en.eq(clearing | (leave & update & request.touch.enable)),
        ]
        with m.If(~clearing):
            after = Mux(local, read.data.local, read.data.incoming)
            after = (after & ~active) | (parity & active)
            m.d.comb += [
                write.data.local.eq(Mux(local, after, read.data.local)),
                write.data.incoming.eq(Mux(local, read.data.incoming, after)),
            ]

        with m.If(~self.access.valid | self.access.ready):
            m.d.sync += [
                self.access.valid.eq(leave),
                self.access.payload.write.eq(request.op != MemoryOp.READ),
                self.access.payload.add.eq(0),
            ]
            for field in ("dtype", "source", "tag", "last", "address", "data", "strobe", "tile"):
                m.d.sync += self.access.payload[field].eq(request[field])
            with m.If(update):
                m.d.sync += [
                    self.access.payload.add.eq(active & (other | ~touches)),
                    self.access.payload.strobe.eq(Cat(lane.replicate(2) for lane in active)),
                ]

        return m


def _one_of(dtype, names):
    """Whether ``dtype`` is one of those names."""
    return Cat(dtype == Dtype(DTYPE_NAMES.index(name)) for name in names).any()
