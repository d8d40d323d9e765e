"""GEMM engine: the memory traffic of a device's compute units, in their own time."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .seams import (
    axi_address, axi_read_data, axi_write_data, axi_write_response, gemm_results, gemm_settings,
    gemm_stage,
)
from .stream_queue import StreamQueue

__all__ = ["GemmEngine"]

#: Fraction bits of times and of beats.
FRACTION = 8
TIME_WIDTH = 32
#: Read bursts under way at most.
READ_BURSTS = 256
#: Largest logarithms of a read burst's beats, of the streams and of a tile's beats.
BURST_LOG2, STREAMS_LOG2, TILE_LOG2 = 6, 4, 8
#: First step of the hash of a word: it times this, plus that; and the step from seed to seed.
HASH_FACTOR = 1 + (1 << 12)
HASH_OFFSET = 0x7ED55D16
SEED_FACTOR = 0x9E3779B9 * HASH_FACTOR
#: Beats of stores from their address to W: at least as many as there are stages.
WORDS = 16
#: Least cycles between two looks at a unit: what one look changes, the next one finds.
LOOK_CYCLES = 3


def _mix(m, name, multiple, word):
    """The rest of a mix of 32-bit values (Bob Jenkins's integer hash; no multiplier, every bit is
    reached) for the word of that number in a beat; and the cycles that it takes."""
    stage = 0

    def register(value):
        nonlocal stage
        signal = Signal(32, name=f"{name}_{stage}")
        m.d.sync += signal.eq(value)
        stage += 1
        return signal

    x = register(multiple + word * HASH_FACTOR)
    x = x ^ (x >> 19) ^ Const(0xC761C23C, 32)
    x = register(x + (x << 5))
    x = register(x + Const(0x165667B1, 32))
    x = register((x + Const(0xD3A2646C, 32))[:32] ^ (x << 9)[:32])
    x = register(x + (x << 3))
    x = register(x + Const(0xFD7046C5, 32))
    return x ^ (x >> 16) ^ Const(0xB55A4F09, 32), stage


def _ones(count, width):
    """The lowest ``count`` of ``width`` bits."""
    return Cat(count > bit for bit in range(width))


class GemmEngine(wiring.Component):
    """Behave at the memory as the compute units of one device do that run a GEMM.

    Workgroups are dispatched in order to units as they become free. A workgroup runs ``steps``
    steps of ``step_cycles``, double buffered: the reads of a step are asked for when the step
    before it starts (those of the first at dispatch), and a step starts when the one before it has
    ended and its own reads are there. At the end of its last step the workgroup joins a queue, and
    the store unit writes its tiles, one INCR burst each. Stores are posted: the unit is free, and
    takes the next workgroup, in the cycle after its last beat was accepted.

    Ends of steps and arrivals of reads are kept exactly, in 1/256 cycle, so lateness in looking at
    them does not add up. Units are looked at in turn, one a cycle, each of them in `looks` cycles:
    a shorter step takes that long.

    A step reads ``reads`` beats, from the stage table by the workgroup's stage: workgroups that
    were dispatched before it, divided by ``units``; stages beyond the table have its last entry.
    The fractions of all steps add up in one accumulator. Whenever that holds a burst, the burst is
    read and the workgroup whose step filled it waits for it. Bursts go to ``streams`` sequential
    streams in turn: stream s starts at ``read_base + s * stream_bytes``, and begins again after
    ``stream_bytes``.

    Workgroup w lies at ``base + n * workgroup_bytes``, where n = (first_workgroup + w) mod
    workgroups. Its AWUSER is {wf, n mod chunk_workgroups}. Each 32-bit word has the value of
    `t3hw.reference.traffic.gemm_words`.

    Latency, if nothing waits: from ``start`` to the first dispatch `start_latency` cycles, one more
    for each further unit; from dispatch, or from the start of a step, to AR `ask_latency`; from the
    last R of a step's reads to its beginning 1; from the end of the last step, which is seen within
    `looks` cycles, to AW `look_latency` and from there to W `store_latency`; from W's last beat to
    the next dispatch `free_latency`; from the last B to ``done`` 1. Throughput: one beat a cycle of
    reads and of stores, also from tile to tile and workgroup to workgroup; AR has a burst a cycle,
    and a pause of one from step to step.

    Parameters
    ----------
    config : NodeConfig
        Widths.
    units : int
        Compute units at most, 1 to 256.
    stages : int
        Entries of the stage table, 1 to 256.

    Attributes
    ----------
    start_latency, ask_latency, look_latency, store_latency, free_latency, looks : int
        Cycles, as above.

    Members
    -------
    settings : In(gemm_settings)
        What to do. Constant from ``start`` to ``done``.
    stage : In, stream of `gemm_stage`
        Writes an entry of the stage table. Not while ``busy``.
    legal : Out(1)
        The settings of two cycles before can be run: 1 to ``units`` units; workgroups, chunks,
        steps and wavefronts not 0; ids that fit in AWUSER; first_workgroup below workgroups; bursts
        and tiles of at most 64 and 256 beats and 4 KiB, which start on multiples of their size;
        streams of at least a burst.
    start : In(1)
        Begin; taken if ``legal`` and not ``busy``. In the first ``units`` cycles after reset the
        run waits for their end.
    busy : Out(1)
        From ``start`` until all stores have been answered.
    done : Out(1)
        One cycle, the last of ``busy``.
    error : Out(1)
        An answer since ``start`` was not OKAY.
    results : Out(gemm_results)
        Measurements since ``start``.
    aw, w, b, ar, r : AXI4 master
        One ID; B and R are always taken. Data may be valid before its address was accepted.

    Raises
    ------
    ValueError
        If ``units`` or ``stages`` is out of its range.
    """

    #: Cycles from ``start`` to the first dispatch; from there to AR.
    start_latency = 18
    ask_latency = 4
    #: Cycles from the end of a last step to AW, if its unit is looked at; from AW to W.
    look_latency = 3
    store_latency = 10
    #: Cycles from W's last beat to the next dispatch.
    free_latency = 2

    def __init__(self, *, config, units=128, stages=128):
        for name, value in (("units", units), ("stages", stages)):
            if type(value) is not int or not 1 <= value <= 256:
                raise ValueError(f"{name} must be an integer from 1 to 256, not {value!r}")
        self._config = config
        self._units = units
        self._stages = stages
        #: Cycles in which each unit is looked at once.
        self.looks = max(units, LOOK_CYCLES)
        super().__init__({
            "settings": In(gemm_settings(config)),
            "stage": In(stream.Signature(gemm_stage, always_ready=True)),
            "legal": Out(1),
            "start": In(1),
            "busy": Out(1),
            "done": Out(1),
            "error": Out(1),
            "results": Out(gemm_results),
            "aw": Out(stream.Signature(axi_address(config, config.id_width))),
            "w": Out(stream.Signature(axi_write_data(config))),
            "b": In(stream.Signature(axi_write_response(config, config.id_width))),
            "ar": Out(stream.Signature(axi_address(config, config.id_width))),
            "r": In(stream.Signature(axi_read_data(config, config.id_width))),
        })

    def elaborate(self, platform):
        m = Module()

        config = self._config
        settings = self.settings
        # Not less than two places, since Verilog has no signals without bits.
        places = max(self._units, 2)
        context_index = range(places)
        place = data.StructLayout({"address": config.addr_width, "wg": config.wg_width})
        time = data.StructLayout({"fraction": FRACTION, "cycle": TIME_WIDTH})
        m.submodules.store_queue = store_queue = StreamQueue(
            shape=data.StructLayout({"context": Signal(context_index).shape(), "place": place}),
            depth=places)
        m.submodules.read_jobs = read_jobs = StreamQueue(
            shape=data.StructLayout({"context": Signal(context_index).shape(), "reads": 16}),
            depth=places)

        # Memories by context, each with one writer. ``asked`` and ``returned`` count bursts, modulo
        # more than one step can ask for. ``turn`` changes when a step's reads are wanted, and when
        # all of them have been asked for.
        burst_count = 10
        m.submodules.contexts = contexts = Memory(shape=data.StructLayout({
            "running": 1,
            "turn": 1,
            "steps": 16,            # that have not begun
            "reads": 16,
            "due": time,            # end of the step that runs
        }), depth=places, init=[])
        m.submodules.asked = asked = Memory(shape=data.StructLayout({
            "turn": 1,
            "any": 1,
            "bursts": burst_count,
        }), depth=places, init=[])
        m.submodules.returned = returned = Memory(shape=data.StructLayout({
            "bursts": burst_count,
            "cycle": TIME_WIDTH,
        }), depth=places, init=[])
        m.submodules.places = place_memory = Memory(shape=place, depth=places, init=[])
        m.submodules.stages = stages = Memory(shape=16, depth=max(self._stages, 2), init=[])
        context_write = contexts.write_port()
        asked_write = asked.write_port()
        returned_write = returned.write_port()
        place_write = place_memory.write_port()
        stage_write = stages.write_port()
        # What these miss of the same cycle the next look finds.
        context_read = contexts.read_port()
        asked_read = asked.read_port()
        returned_read = returned.read_port()
        place_read = place_memory.read_port()
        stage_read = stages.read_port()
        asked_before = asked.read_port(transparent_for=[asked_write])
        returned_before = returned.read_port(transparent_for=[returned_write])
        m.d.comb += [
            stage_write.addr.eq(self.stage.payload.index),
            stage_write.data.eq(self.stage.payload.reads),
            stage_write.en.eq(self.stage.valid & (self.stage.payload.index < self._stages)),
        ]

        # Begin and end.
        checks = self._checks()
        passed = Signal(len(checks))
        cleared = Signal(range(places))
        clearing = Signal()
        digit = Signal(4)
        number = Signal(16)
        offset = Signal(config.addr_width)
        place_in_chunk = Signal(16)
        seeded = Signal(32)
        last_digit = Signal()
        seed_digits = Signal(32)
        workgroup_digits = Signal(16)
        running = Signal()
        now = Signal(TIME_WIDTH)
        next_cycle = Signal(TIME_WIDTH)
        m.d.comb += next_cycle.eq(now + 1)
        begin = Signal()
        m.d.sync += [passed.eq(checks), self.legal.eq(passed.all())]
        stored = Signal(16)
        unanswered = Signal(17)
        m.d.comb += begin.eq(self.start & self.legal & ~self.busy)
        with m.FSM():
            # A reset in the middle of a run leaves contexts behind.
            with m.State("CLEAR"):
                m.d.comb += clearing.eq(1)
                m.d.sync += cleared.eq(cleared + 1)
                with m.If(cleared == places - 1):
                    m.next = "IDLE"
            with m.State("IDLE"):
                m.d.sync += [
                    digit.eq(15), number.eq(settings.first_workgroup), offset.eq(0),
                    last_digit.eq(0), seed_digits.eq(settings.seed),
                    workgroup_digits.eq(settings.first_workgroup),
                    place_in_chunk.eq(0),
                ]
                # Busy: started while contexts were cleared.
                with m.If(begin | self.busy):
                    m.next = "PREPARE"
            # first_workgroup * workgroup_bytes and first_workgroup mod chunk_workgroups, digit by
            # digit.
            with m.State("PREPARE"):
                bit = workgroup_digits[-1]
                rest = Signal(17)
                # Two bits of the seed a digit; the last one brings the hash's constant.
                pair = seed_digits[-2:]
                times = [Const(n * SEED_FACTOR & 0xFFFFFFFF, 32) for n in range(4)]
                last_times = [Const(n * SEED_FACTOR + HASH_OFFSET & 0xFFFFFFFF, 32)
                              for n in range(4)]
                m.d.comb += rest.eq(Cat(bit, place_in_chunk))
                m.d.sync += [
                    offset.eq((offset << 1) + Mux(bit, settings.workgroup_bytes, 0)),
                    place_in_chunk.eq(Mux(rest >= settings.chunk_workgroups,
                                          rest - settings.chunk_workgroups, rest)),
                    seeded.eq((seeded << 2) + Mux(last_digit, Array(last_times)[pair],
                                                  Array(times)[pair])),
                    digit.eq(digit - 1),
                    last_digit.eq(digit == 1),
                    seed_digits.eq(seed_digits << 2),
                    workgroup_digits.eq(workgroup_digits << 1),
                ]
                with m.If(last_digit):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                with m.If((stored == settings.workgroups) & (unanswered == 0)):
                    m.d.comb += self.done.eq(1)
                    m.d.sync += self.busy.eq(0)
                    m.next = "IDLE"
        with m.If(begin):
            m.d.sync += [self.busy.eq(1), self.error.eq(0), now.eq(0)]
        with m.Elif(self.busy):
            m.d.sync += now.eq(next_cycle)

        # What is constant in a run, from registers.
        last_unit = Signal(9)
        last_workgroup = Signal(16)
        last_in_chunk = Signal(16)
        last_look = Signal(9)
        m.d.sync += [
            last_unit.eq(settings.units - 1),
            last_workgroup.eq(settings.workgroups - 1),
            last_in_chunk.eq(settings.chunk_workgroups - 1),
            last_look.eq(Mux(settings.units < LOOK_CYCLES, LOOK_CYCLES - 1, settings.units - 1)),
        ]

        # First stage: which context, and whether it gets a workgroup. A unit that has become free
        # comes first, then those that have had no workgroup yet, then the context whose turn it is.
        freed = Signal()
        stores = Signal()
        freed_context = Signal(context_index)
        dispatched = Signal(16)
        swept = Signal(9)
        turn = Signal(9)
        stage = Signal(range(max(self._stages, 2)))
        in_stage = Signal(9)
        left = Signal()
        sweeping = Signal()
        dispatch = Signal()
        index = Signal(context_index)
        sweep = Signal()
        m.d.comb += [
            sweep.eq(~freed & left & sweeping),
            dispatch.eq(running & left & (freed | sweep)),
            index.eq(Mux(freed & left, freed_context, Mux(sweep, swept, turn))),
            context_read.addr.eq(index),
            asked_read.addr.eq(index),
            returned_read.addr.eq(index),
            place_read.addr.eq(index),
            stage_read.addr.eq(stage),
            place_write.addr.eq(index),
            place_write.data.address.eq(settings.base + offset),
            place_write.data.wg.eq(place_in_chunk),
            place_write.en.eq(dispatch),
        ]
        with m.If(begin):
            m.d.sync += [dispatched.eq(0), swept.eq(0), turn.eq(0), stage.eq(0), in_stage.eq(0),
                         left.eq(1), sweeping.eq(1)]
        with m.If(dispatch):
            m.d.sync += [
                dispatched.eq(dispatched + 1),
                left.eq(dispatched != last_workgroup),
                number.eq(number + 1),
                offset.eq(offset + settings.workgroup_bytes),
                place_in_chunk.eq(
                    Mux(place_in_chunk == last_in_chunk, 0, place_in_chunk + 1)),
                in_stage.eq(in_stage + 1),
            ]
            with m.If(number == last_workgroup):
                m.d.sync += [number.eq(0), offset.eq(0), place_in_chunk.eq(0)]
            with m.If(in_stage == last_unit):
                m.d.sync += in_stage.eq(0)
                with m.If(stage != self._stages - 1):
                    m.d.sync += stage.eq(stage + 1)
            with m.If(sweep):
                m.d.sync += [swept.eq(swept + 1), sweeping.eq(swept != last_unit)]
        with m.Elif(running):
            m.d.sync += turn.eq(Mux(turn == last_look, 0, turn + 1))

        # Second stage: what has become of the context, compared. A context's next look comes after
        # what this one writes.
        found = Signal(data.StructLayout({
            "dispatch": 1, "visit": 1, "index": Signal(context_index).shape()}))
        m.d.sync += [
            found.dispatch.eq(dispatch),
            found.visit.eq(running & ~dispatch & (turn <= last_unit)),
            found.index.eq(index),
        ]
        context = context_read.data
        due = context.due.as_value()
        arrival = Signal(time)
        waited = Signal(TIME_WIDTH + FRACTION)
        lateness = Signal(TIME_WIDTH + FRACTION + 1)
        late = Signal()
        m.d.comb += [
            arrival.cycle.eq(returned_read.data.cycle),
            # On time to the cycle is late by nothing: one subtraction does for both.
            lateness.eq(arrival.as_value() - due),
            late.eq(asked_read.data.any & ~lateness[-1]),
        ]
        is_dispatch = Signal()
        visited = Signal(context_index)
        ended = Signal()
        came = Signal()
        was_late = Signal()
        turned = Signal()
        steps_left = Signal(16)
        any_left = Signal()
        last_left = Signal()
        reads = Signal(16)
        begun = Signal(TIME_WIDTH + FRACTION)
        visited_place = Signal(place)
        m.d.sync += [
            is_dispatch.eq(found.dispatch),
            visited.eq(found.index),
            # The present is a whole cycle: what is due after its start is due in the next.
            ended.eq(found.visit & context.running
                     & (Cat(~context.due.fraction.any(), now)
                       > Cat(Const(0, 1), context.due.cycle))),
            came.eq((asked_read.data.turn == context.turn)
                    & (asked_read.data.bursts == returned_read.data.bursts)),
            was_late.eq(late),
            waited.eq(lateness),
            begun.eq(Mux(found.dispatch, Cat(Const(0, FRACTION), now),
                         Mux(late, arrival.as_value(), due))),
            turned.eq(context.turn),
            steps_left.eq(context.steps),
            any_left.eq(context.steps != 0),
            last_left.eq(context.steps == 1),
            reads.eq(Mux(found.dispatch, stage_read.data, context.reads)),
            visited_place.eq(place_read.data),
        ]

        # Third stage: what it does next.
        step = Signal()
        reads_wanted = Signal()
        m.d.comb += [
            step.eq(ended & any_left & came),
            reads_wanted.eq(is_dispatch | step & ~last_left),
            read_jobs.i.valid.eq(reads_wanted),
            read_jobs.i.payload.context.eq(visited),
            read_jobs.i.payload.reads.eq(reads),
            store_queue.i.valid.eq(ended & ~any_left),
            store_queue.i.payload.context.eq(visited),
            store_queue.i.payload.place.eq(visited_place),
            context_write.addr.eq(visited),
            context_write.en.eq(is_dispatch | step | store_queue.i.valid),
            context_write.data.running.eq(is_dispatch | step),
            context_write.data.turn.eq(turned ^ reads_wanted),
            context_write.data.steps.eq(Mux(is_dispatch, settings.steps, steps_left - 1)),
            context_write.data.reads.eq(reads),
            context_write.data.due.eq(begun + Mux(is_dispatch, 0, settings.step_cycles)),
        ]

        # Ask for reads.
        asking = Signal()
        asker = Signal(context_index)
        owed = Signal(10 + FRACTION)        # beats
        bursts = Signal(burst_count)
        stream_ = Signal(STREAMS_LOG2)
        stream_base = Signal(config.addr_width)
        last_stream = Signal(STREAMS_LOG2)
        position = Signal(config.addr_width)
        # Of an address in a stream, the bits that stay; its other bits count. Less this is more by
        # ``stream_bytes``.
        fixed = Signal(config.addr_width)
        issue = Signal()
        all_asked = Signal()
        next_job = Signal()
        m.submodules.owners = owners = StreamQueue(shape=Signal(context_index).shape(),
                                                   depth=READ_BURSTS)
        burst_beats = Signal(BURST_LOG2 + 1)
        burst = self.ar.payload
        full = Signal()
        m.d.comb += [
            full.eq(owed[FRACTION:] >= burst_beats),
            issue.eq(asking & full & (~self.ar.valid | self.ar.ready) & owners.i.ready),
            all_asked.eq(asking & ~full),
            next_job.eq(read_jobs.o.valid & (~asking | all_asked)),
            read_jobs.o.ready.eq(next_job),
            owners.i.valid.eq(issue),
            owners.i.payload.eq(asker),
            asked_before.addr.eq(Mux(next_job, read_jobs.o.payload.context, asker)),
            asked_write.addr.eq(Mux(clearing, cleared, asker)),
            asked_write.en.eq(all_asked | clearing),
        ]
        m.d.sync += [
            burst_beats.eq(1 << settings.burst_log2),
            fixed.eq(~_ones(settings.stream_bytes_log2, config.addr_width)),
            last_stream.eq(_ones(settings.streams_log2, STREAMS_LOG2)),
        ]
        with m.If(~clearing):
            m.d.comb += [
                asked_write.data.turn.eq(~asked_before.data.turn),
                asked_write.data.any.eq(bursts != 0),
                asked_write.data.bursts.eq(asked_before.data.bursts + bursts),
            ]
        with m.If(next_job):
            m.d.sync += [
                asking.eq(1),
                asker.eq(read_jobs.o.payload.context),
                owed.eq(owed + read_jobs.o.payload.reads),
                bursts.eq(0),
            ]
        with m.Elif(all_asked):
            m.d.sync += asking.eq(0)
        with m.If(self.ar.ready):
            m.d.sync += self.ar.valid.eq(0)
        with m.If(issue):
            m.d.sync += [
                self.ar.valid.eq(1),
                burst.addr.eq(stream_base + position),
                owed.eq(owed - (burst_beats << FRACTION)),
                bursts.eq(bursts + 1),
                stream_.eq(stream_ + 1),
                stream_base.eq(stream_base - fixed),
            ]
            with m.If(stream_ == last_stream):
                m.d.sync += [
                    stream_.eq(0),
                    stream_base.eq(settings.read_base),
                    position.eq((position + (burst_beats << config.beat_shift)) & ~fixed),
                ]
        with m.If(begin):
            m.d.sync += [owed.eq(0), stream_.eq(0), stream_base.eq(settings.read_base),
                         position.eq(0)]
        m.d.comb += [
            burst.len.eq(burst_beats - 1),
            burst.size.eq(config.beat_shift),
            burst.burst.eq(1),
        ]

        # Reads come back.
        landed = Signal()
        landed_for = Signal(context_index)
        m.d.comb += [
            self.r.ready.eq(1),
            owners.o.ready.eq(self.r.valid & self.r.payload.last),
            returned_before.addr.eq(owners.o.payload),
            returned_write.addr.eq(Mux(clearing, cleared, landed_for)),
            returned_write.en.eq(landed | clearing),
        ]
        with m.If(~clearing):
            m.d.comb += [
                returned_write.data.bursts.eq(returned_before.data.bursts + 1),
                returned_write.data.cycle.eq(now),
            ]
        m.d.sync += [
            landed.eq(self.r.valid & self.r.payload.last),
            landed_for.eq(owners.o.payload),
        ]
        with m.If(clearing):
            m.d.comb += [context_write.addr.eq(cleared), context_write.en.eq(1),
                         context_write.data.eq(0)]

        # Addresses of stores: a burst a tile.
        m.submodules.tiles = tiles = StreamQueue(shape=data.StructLayout({
            "address": config.addr_width,
            "context": Signal(context_index).shape(),
            "frees": 1,
        }), depth=2)
        wavefront = Signal(4)
        tile_offset = Signal(17)
        tile_address = Signal(config.addr_width)
        sent = Signal()
        last_tile = Signal()
        tile_beats = Signal(TILE_LOG2 + 1)
        last_wavefront = Signal(5)
        m.d.sync += [
            tile_beats.eq(1 << settings.tile_beats_log2),
            last_wavefront.eq(settings.wavefronts - 1),
        ]
        m.d.comb += [
            last_tile.eq(wavefront == last_wavefront),
            tile_address.eq(store_queue.o.payload.place.address + tile_offset),
            sent.eq(store_queue.o.valid & (~self.aw.valid | self.aw.ready) & tiles.i.ready),
            store_queue.o.ready.eq(sent & last_tile),
            tiles.i.valid.eq(sent),
            tiles.i.payload.address.eq(tile_address),
            tiles.i.payload.context.eq(store_queue.o.payload.context),
            tiles.i.payload.frees.eq(last_tile),
            self.aw.payload.len.eq(tile_beats - 1),
            self.aw.payload.size.eq(config.beat_shift),
            self.aw.payload.burst.eq(1),
        ]
        with m.If(self.aw.ready):
            m.d.sync += self.aw.valid.eq(0)
        with m.If(sent):
            m.d.sync += [
                self.aw.valid.eq(1),
                self.aw.payload.addr.eq(tile_address),
                self.aw.payload.user.eq(Cat(store_queue.o.payload.place.wg,
                                            wavefront[:config.wf_width])),
                wavefront.eq(Mux(last_tile, 0, wavefront + 1)),
                tile_offset.eq(Mux(last_tile, 0, tile_offset + (tile_beats << config.beat_shift))),
            ]

        # Data of stores, in stages that never stand still: a beat is begun when there is room for
        # it at the end.
        beat_layout = data.StructLayout({
            "valid": 1, "first": 1, "last": 1, "frees": 1,
            "context": Signal(context_index).shape()})
        m.submodules.words = words = StreamQueue(shape=data.StructLayout({
            "data": config.data_width, "last": 1, "frees": 1,
            "context": Signal(context_index).shape()}), depth=WORDS)
        beat = Signal(TILE_LOG2)
        last_beat_number = Signal(TILE_LOG2)
        loading = Signal(beat_layout)
        under_way = Signal(range(WORDS + 1))
        room = Signal(init=1)
        accepted = Signal()
        m.d.comb += [
            loading.valid.eq(tiles.o.valid & room),
            loading.first.eq(beat == 0),
            loading.last.eq(beat == last_beat_number),
            loading.frees.eq(loading.last & tiles.o.payload.frees),
            loading.context.eq(tiles.o.payload.context),
            tiles.o.ready.eq(room & loading.last),
            accepted.eq(self.w.valid & self.w.ready),
        ]
        m.d.sync += [
            last_beat_number.eq(tile_beats - 1),
            under_way.eq(under_way + loading.valid - accepted),
            room.eq((under_way < WORDS - 1) | accepted | (room & ~loading.valid)),
        ]
        with m.If(loading.valid):
            m.d.sync += beat.eq(Mux(loading.last, 0, beat + 1))

        # 32-bit word number n of a run is a hash of n + seed * stride; its first step is a
        # multiplication of that, of which only the tile's part is done for each tile.
        multiple = Signal(32)
        first_multiple = Signal(32)
        at = tiles.o.payload.address[2:]
        beats = [loading]
        for stage in range(1, 4):
            beats.append(Signal(beat_layout, name=f"beat_{stage}"))
            m.d.sync += beats[stage].eq(beats[stage - 1])
        scaled = Signal(32)
        words_a_beat = config.data_width // 32
        m.d.sync += [
            scaled.eq((at + (at << 12))[:32]),
            first_multiple.eq(scaled + seeded),
        ]
        with m.If(beats[2].valid):
            m.d.sync += multiple.eq(Mux(beats[2].first, first_multiple,
                                        multiple + words_a_beat * HASH_FACTOR))
        mixed = []
        for word in range(words_a_beat):
            value, delay = _mix(m, f"word_{word}", multiple, word)
            mixed.append(value & settings.and_mask | settings.or_mask)
        ends = beats[3]
        for stage in range(delay):
            later = Signal(beat_layout, name=f"mixed_{stage}")
            m.d.sync += later.eq(ends)
            ends = later
        m.d.comb += [
            words.i.valid.eq(ends.valid),
            words.i.payload.data.eq(Cat(mixed)),
            *(words.i.payload[key].eq(ends[key]) for key in ("last", "frees", "context")),
            self.w.valid.eq(words.o.valid),
            words.o.ready.eq(self.w.ready),
            self.w.payload.data.eq(words.o.payload.data),
            self.w.payload.last.eq(words.o.payload.last),
            self.w.payload.strb.eq(~0),
            stores.eq(accepted & words.o.payload.frees),
        ]
        m.d.sync += [freed.eq(stores), freed_context.eq(words.o.payload.context)]

        # Answers.
        m.d.comb += self.b.ready.eq(1)
        m.d.sync += [
            unanswered.eq(unanswered + sent - self.b.valid),
            stored.eq(stored + stores),
        ]
        with m.If(begin):
            m.d.sync += stored.eq(0)
        with m.If(self.b.valid & (self.b.payload.resp != 0)
                  | self.r.valid & (self.r.payload.resp != 0)):
            m.d.sync += self.error.eq(1)

        self._measure(m, begin=begin, now=now, next_cycle=next_cycle, step=step & was_late,
                      waited=waited)
        return m

    def _checks(self):
        """A bit for each rule of the settings."""
        config = self._config
        settings = self.settings
        burst_log2 = settings.burst_log2 + config.beat_shift
        tile_log2 = settings.tile_beats_log2 + config.beat_shift
        return Cat(
            settings.units != 0, settings.units <= self._units,
            settings.workgroups != 0, settings.first_workgroup < settings.workgroups,
            settings.chunk_workgroups != 0,
            settings.chunk_workgroups <= 1 << config.wg_width,
            settings.steps != 0,
            settings.wavefronts != 0, settings.wavefronts <= 1 << config.wf_width,
            settings.burst_log2 <= BURST_LOG2, burst_log2 <= 12,
            settings.streams_log2 <= STREAMS_LOG2,
            settings.stream_bytes_log2 >= burst_log2,
            settings.stream_bytes_log2 <= config.addr_width,
            settings.tile_beats_log2 <= TILE_LOG2, tile_log2 <= 12,
            (settings.read_base & _ones(burst_log2, 12)) == 0,
            ((settings.base | settings.workgroup_bytes)
             & _ones(tile_log2, 12)) == 0,
        )

    def _measure(self, m, *, begin, now, next_cycle, step, waited):
        measured = Signal(gemm_results)
        wait = Signal(measured.read_wait.shape().width + FRACTION)
        accepted = self.w.valid & self.w.ready
        any_stored = Signal()
        m.d.comb += [
            self.results.eq(measured),
            self.results.cycles.eq(now),
            self.results.read_wait.eq(wait[FRACTION:]),
        ]
        with m.If(begin):
            m.d.sync += [measured.eq(0), wait.eq(0), any_stored.eq(0)]
        with m.Elif(self.busy):
            m.d.sync += [
                measured.read_beats.eq(measured.read_beats + self.r.valid),
                measured.write_beats.eq(measured.write_beats + accepted),
                measured.store_stall.eq(measured.store_stall + (self.w.valid & ~self.w.ready)),
            ]
            with m.If(accepted):
                m.d.sync += measured.last_store.eq(next_cycle)
                m.d.sync += any_stored.eq(1)
                with m.If(~any_stored):
                    m.d.sync += measured.first_store.eq(next_cycle)
            with m.If(step):
                m.d.sync += wait.eq(wait + waited[:TIME_WIDTH + FRACTION])
