"""A memory for AXI4 masters with streams:
bursts, in order, as slow and as irregular as a test asks."""

import collections

from memory_agents import monitor


class AxiSlaveAgent:
    """Answers the channels ``aw, w, b, ar, r`` of ``dut``, and keeps what it saw.

    Parameters
    ----------
    config, dut, rng
        Of the test.
    pace : float
        How often AW, W and AR are ready, and B and R come although they could.
    read_latency, write_latency : callable
        Cycles from AR to the burst's first beat, and from the last of AW and W to B, at least 1.
    read : callable
        Data of the beat at an address.
    bad : set of int
        Addresses of bursts that are answered with SLVERR.
    """

    def __init__(self, config, dut, rng, *, pace=1.0, read_latency=lambda: 1,
                 write_latency=lambda: 1, read=lambda address: 0, bad=()):
        self.config, self.dut, self.rng, self.pace = config, dut, rng, pace
        self.read_latency, self.write_latency = read_latency, write_latency
        self.read, self.bad = read, bad
        #: (cycle, address, beats, id) of AR; (cycle, address, beats, user) of AW; (cycle, data) of
        #: W.
        self.reads, self.writes, self.beats = [], [], []
        #: Cycles of the last beats of R, and of B.
        self.read_ends, self.answers = [], []
        self.memory = {}
        self.cycle = 0

    def benches(self):
        """Background benches: the memory, and monitors that check the master's handshakes."""
        return [self._bench, *(monitor(channel, []) for channel in
                               (self.dut.aw, self.dut.w, self.dut.ar))]

    def _check(self, payload):
        beats = payload.len + 1
        size = self.config.beat_bytes
        assert (1 << payload.size, payload.burst) == (size, 1)
        assert payload.addr % size == 0
        assert payload.addr // 4096 == (payload.addr + beats * size - 1) // 4096, (
            f"burst of {beats} beats at {payload.addr:#x} crosses 4 KiB")
        return payload.addr, beats

    async def _bench(self, ctx):
        dut, size = self.dut, self.config.beat_bytes
        addresses, data = collections.deque(), collections.deque()
        read_queue, answer_queue = collections.deque(), collections.deque()
        reading = answering = None
        go = self._chance

        ctx.set(dut.aw.ready, go())
        ctx.set(dut.w.ready, go())
        ctx.set(dut.ar.ready, go())
        async for _, _, *seen in ctx.tick().sample(
                dut.aw.valid, dut.aw.ready, dut.aw.payload, dut.w.valid, dut.w.ready, dut.w.payload,
                dut.ar.valid, dut.ar.ready, dut.ar.payload, dut.r.ready, dut.b.ready):
            (aw_valid, aw_ready, aw, w_valid, w_ready, w, ar_valid, ar_ready, ar, r_ready,
             b_ready) = seen
            if aw_valid and aw_ready:
                address, beats = self._check(aw)
                self.writes.append((self.cycle, address, beats, aw.user))
                addresses.append((address, beats, aw.id))
            if w_valid and w_ready:
                self.beats.append((self.cycle, w.data))
                data.append((w.data, w.strb, w.last))
            if ar_valid and ar_ready:
                address, beats = self._check(ar)
                self.reads.append((self.cycle, address, beats, ar.id))
                due = self.cycle + self.read_latency()
                for beat in range(beats):
                    read_queue.append((due, address, address + beat * size, ar.id,
                                       int(beat == beats - 1)))
            while addresses and len(data) >= addresses[0][1]:
                address, beats, id_ = addresses.popleft()
                for beat in range(beats):
                    value, strobe, last = data.popleft()
                    assert last == (beat == beats - 1), f"WLAST of beat {beat} of {beats}"
                    old = self.memory.get(address + beat * size, 0).to_bytes(size, "little")
                    new = value.to_bytes(size, "little")
                    self.memory[address + beat * size] = int.from_bytes(
                        bytes((new if strobe >> at & 1 else old)[at] for at in range(size)),
                        "little")
                answer_queue.append((self.cycle + self.write_latency(), address, id_))
            if reading is not None and r_ready:
                if reading[-1]:
                    self.read_ends.append(self.cycle)
                reading = None
            if answering is not None and b_ready:
                self.answers.append(self.cycle)
                answering = None
            # The next cycle.
            self.cycle += 1
            if reading is None and read_queue and read_queue[0][0] <= self.cycle and go():
                reading = read_queue.popleft()
                _, first, address, id_, last = reading
                ctx.set(dut.r.payload, {
                    "id": id_, "data": self.memory.get(address, self.read(address)),
                    "resp": 2 if first in self.bad else 0, "last": last})
            if answering is None and answer_queue and answer_queue[0][0] <= self.cycle and go():
                answering = answer_queue.popleft()
                ctx.set(dut.b.payload, {"id": answering[2],
                                        "resp": 2 if answering[1] in self.bad else 0})
            ctx.set(dut.r.valid, reading is not None)
            ctx.set(dut.b.valid, answering is not None)
            ctx.set(dut.aw.ready, go())
            ctx.set(dut.w.ready, go())
            ctx.set(dut.ar.ready, go())

    def _chance(self):
        return self.pace >= 1 or self.rng.random() < self.pace
