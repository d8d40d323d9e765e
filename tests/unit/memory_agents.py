"""What the tests of the memory side share: agents, models, and a memory behind AXI4."""

import collections
import dataclasses

import numpy as np
from amaranth import ShapeCastable, Value

from t3hw.config import DTYPE_NAMES
from t3hw.reference.arithmetic import NUMPY_DTYPES, add

INT32, FLOAT32, BFLOAT16, FLOAT16 = range(4)
READ, STORE, UPDATE = range(3)
PRODUCER, LINK, DMA = range(3)
LOCAL, INCOMING = range(2)
DUPLICATE_UPDATE, PARTIAL_ELEMENT, MEMORY_ERROR, MISSING_DTYPE = 4, 6, 8, 13
ELEMENT_BYTES = (4, 4, 2, 2)
#: Bit patterns that a careless adder or a careless strobe changes: -0.0, NaNs with payloads,
#: subnormals.
ODD_HALVES = (0x8000, 0x7FC1, 0xFFFF, 0x7F80, 0x0001, 0x7E03, 0xFC00, 0x0000)


def sender(stream, payloads, *, rng=None, pace=1.0, log=None):
    """A bench that sends payloads, with pauses if ``pace`` is below 1; None is a pause, too.

    ``log`` gets each payload in the cycle of its transfer. Here and below one trigger serves a
    whole loop, since to make a new one takes longer than a cycle of most designs.
    """
    async def bench(ctx):
        source = iter(payloads)
        payload = None

        def offer():
            nonlocal payload
            if pace >= 1 or rng.random() < pace:
                payload = next(source, None)
            if payload is not None:
                ctx.set(stream.payload, payload)
            ctx.set(stream.valid, payload is not None)

        offer()
        async for _, _, ready in ctx.tick().sample(stream.ready):
            if payload is None or ready:
                if payload is not None and log is not None:
                    log.append(payload)
                payload = None
                offer()
    return bench


def monitor(stream, received):
    """A background bench that appends (cycle, payload) of each transfer to ``received``.

    Of a stream that is not always ready it also checks that a refused transfer stays as it is.
    """
    async def bench(ctx):
        shape = stream.payload.shape()
        cycle = 0
        refused = None
        async for _, _, valid, ready, bits in ctx.tick().sample(
                stream.valid, stream.ready, Value.cast(stream.payload)):
            assert refused is None or (valid and bits == refused), (
                f"cycle {cycle}: a transfer changed while it was refused")
            refused = bits if valid and not ready else None
            if valid and ready:
                received.append((cycle, _from_bits(shape, bits)))
            cycle += 1
    return bench


def _from_bits(shape, bits):
    return shape.from_bits(bits) if isinstance(shape, ShapeCastable) else bits


def taker(stream, *, rng, pace):
    """A background bench that is ready now and then."""
    async def bench(ctx):
        ctx.set(stream.ready, rng.random() < pace)
        async for _ in ctx.tick():
            ctx.set(stream.ready, rng.random() < pace)
    return bench


async def wait_until(ctx, condition, *, cycles, what):
    """Wait until ``condition()`` holds, or fail with ``what()`` after so many cycles."""
    if condition():
        return
    cycle = 0
    async for _ in ctx.tick():
        cycle += 1
        if condition():
            return
        assert cycle < cycles, f"{what()} after {cycles} cycles"


#: The tag of a write that belongs to no tile.
NO_TILE = {"tracked": 0, "plan": 0, "slot": 0, "wg": 0, "wf": 0}


def beat(config, number):
    """Byte address of a beat."""
    return number * config.beat_bytes


def random_data(rng, config):
    """A beat of random bits, odd patterns among them."""
    halves = [rng.choice(ODD_HALVES) if rng.random() < 0.3 else rng.randrange(1 << 16)
              for _ in range(config.lanes)]
    return int.from_bytes(np.array(halves, np.uint16).tobytes(), "little")


def elements(config, dtype):
    """The strobes of each element of a beat."""
    size = ELEMENT_BYTES[dtype]
    return [((1 << size) - 1) << at for at in range(0, config.beat_bytes, size)]


def random_elements(rng, config, dtype):
    """Strobes of some whole elements; mostly all of them."""
    if rng.random() < 0.5:
        return (1 << config.beat_bytes) - 1
    return sum(strobes for strobes in elements(config, dtype) if rng.random() < 0.6)


def lanes_of(strobe, config):
    """A bit for each 16-bit lane whose bytes are all strobed."""
    return sum(1 << lane for lane in range(config.lanes) if strobe >> 2 * lane & 3 == 3)


class ReferenceMemory:
    """Memory as bytes, one operation at a time."""

    def __init__(self, config):
        self.config = config
        self.bytes = collections.defaultdict(int)

    def read(self, address):
        """The beat at ``address``."""
        beat_ = (self.bytes[address + offset] for offset in range(self.config.beat_bytes))
        return int.from_bytes(beat_, "little")

    def contents(self):
        """All bytes that are not 0, by address."""
        return {address: byte for address, byte in self.bytes.items() if byte}

    def write(self, address, value, strobe, *, added=0, dtype=INT32):
        """Write the strobed bytes; those with a bit in ``added`` belong to elements that add."""
        size = self.config.beat_bytes
        old = self.read(address).to_bytes(size, "little")
        new = value.to_bytes(size, "little")
        name = DTYPE_NAMES[dtype]
        kind = NUMPY_DTYPES[name]
        if added:
            total = add(np.frombuffer(old, kind), np.frombuffer(new, kind), name).tobytes()
        for offset in range(size):
            if strobe >> offset & 1:
                self.bytes[address + offset] = (total if added >> offset & 1 else new)[offset]


@dataclasses.dataclass(kw_only=True)
class Access:
    """One access as `memory_access` has it."""

    write: int
    address: int
    source: int = PRODUCER
    add: int = 0
    dtype: int = INT32
    tag: int = 0
    last: int = 1
    data: int = 0
    strobe: int = 0
    tile: dict = dataclasses.field(default_factory=lambda: dict(NO_TILE))

    @property
    def payload(self):
        """For ``ctx.set``."""
        return dataclasses.asdict(self)

    def added_bytes(self):
        """A bit for each byte that is added to."""
        return sum(3 << 2 * lane for lane in range(self.add.bit_length()) if self.add >> lane & 1)


def random_tile(rng, config):
    """A tile tag of random bits."""
    return {"tracked": rng.randrange(2), "plan": rng.randrange(config.plans),
            "slot": rng.randrange(config.tiles), "wg": rng.randrange(1 << config.wg_width),
            "wf": rng.randrange(1 << max(config.wf_width, 1))}


def random_access(rng, config, addresses, dtypes):
    """A read, a store, an update, or one that stores in some elements and adds in others."""
    access = Access(write=0, address=rng.choice(addresses), source=rng.randrange(3),
                    tag=rng.randrange(config.outstanding_writes), last=rng.randrange(2),
                    data=random_data(rng, config), strobe=rng.randrange(1 << config.beat_bytes),
                    tile=random_tile(rng, config))
    kind = rng.random()
    if kind > 0.3:
        access.write = 1
    if kind > 0.55:
        access.dtype = rng.choice(dtypes)
        access.strobe = random_elements(rng, config, access.dtype)
        added = access.strobe & random_elements(rng, config, access.dtype)
        access.add = lanes_of(added, config)
    return access


def expected_responses(memory, accesses, *, size=0, bad_reads=(), bad_writes=()):
    """Carry accesses out on a `ReferenceMemory`: reads, commits and failed addresses, in order."""
    reads, commits, failed = [], [], []
    for access in accesses:
        address = access.address
        error = bool(size and address >= size)
        if access.write:
            error |= address in bad_writes or bool(access.add and address in bad_reads)
            if not error:
                memory.write(address, access.data, access.strobe, added=access.added_bytes(),
                             dtype=access.dtype)
            commits.append((access.source, access.tag, access.last, int(error),
                            0 if error else access.strobe.bit_count(), address, access.tile))
        else:
            error |= address in bad_reads
            reads.append((access.source, access.last, int(error),
                          0 if error else memory.read(address)))
        if error:
            failed.append((address, access.tile if access.write else None))
    return reads, commits, failed


def plain_commit(payload):
    """A commit as `expected_responses` has it."""
    tile = {field: payload.tile[field] for field in NO_TILE}
    return (payload.source.value, payload.tag, payload.last, payload.error, payload.bytes,
            payload.address, tile)


def plain_read(payload):
    """A read beat as `expected_responses` has it."""
    return payload.source.value, payload.last, payload.error, payload.data


class TouchModel:
    """First touch: who has written which 16-bit lane in the current run of its plan."""

    def __init__(self, config):
        self.config = config
        self.writers = collections.defaultdict(set)

    def forget(self, indices):
        """A new run, or a clear, of those map entries."""
        for key in [key for key in self.writers if key[0] in indices]:
            del self.writers[key]

    def request(self, request):
        """(write, strobe, add) of the access and the causes of errors."""
        strobe, config = request["strobe"], self.config
        if request["op"] != UPDATE:
            return request["op"] == STORE, strobe, 0, []
        if DTYPE_NAMES[request["dtype"]] not in config.dtypes:
            return True, 0, 0, [MISSING_DTYPE]
        touch = request["touch"]
        kept = add = 0
        causes = set()
        for element in elements(config, request["dtype"]):
            lanes = [lane for lane in range(config.lanes) if element >> 2 * lane & 1]
            if not strobe & element:
                continue
            if strobe & element != element:
                causes.add(PARTIAL_ELEMENT)
                continue
            adds = True
            if touch["enable"]:
                writers = [self.writers[touch["index"], lane] for lane in lanes]
                if any(touch["writer"] in lane for lane in writers):
                    causes.add(DUPLICATE_UPDATE)
                    continue
                adds = any(writers)
                for lane in writers:
                    lane.add(touch["writer"])
            kept |= element
            add |= sum(1 << lane for lane in lanes) if adds else 0
        # Partial elements are reported before duplicates.
        return True, kept, add, sorted(causes, reverse=True)


def make_request(config, op, **fields):
    """A request with those fields; ``touch`` is (index, writer, parity)."""
    touch = fields.pop("touch", None)
    index, writer, parity = touch or (0, 0, 0)
    return {"op": op, "dtype": INT32, "source": 0, "tag": 0, "last": 0, "address": 0, "data": 0,
            "strobe": (1 << config.beat_bytes) - 1, "tile": {},
            "touch": {"enable": int(touch is not None), "index": index, "writer": writer,
                      "parity": parity}} | fields


class AxiModel:
    """A memory behind the AXI4 streams of ``dut``, as unhelpful as the protocol allows.

    It answers in order, each read and each write after a latency of its own. It applies a write in
    the cycle of the response, or before (``early_writes``), and reads what is in memory when it
    answers, or when it is asked; both by chance. It checks that each transaction is a single beat
    as it should be.

    Parameters
    ----------
    config, dut, rng
        Of the test.
    read_latency, write_latency : callable
        Give the latency of the next transaction, in cycles from the address (or the last of address
        and data) to the response, at least 1.
    pace : float
        How often a channel is ready, and a response that could come does.
    early_writes : float
        How often a write is applied before its response.
    bad_reads, bad_writes : set of int
        Addresses that are answered with an error.
    first : str, optional
        ``"aw"``: takes no data before its address; ``"w"``: takes no address before its data.
    write_start : int
        Cycle before which neither AW nor W is taken.
    """

    def __init__(self, config, dut, rng, *, read_latency, write_latency, pace=1.0, early_writes=0.0,
                 bad_reads=(), bad_writes=(), first=None, write_start=0):
        self.config = config
        self.dut = dut
        self.rng = rng
        self.read_latency = read_latency
        self.write_latency = write_latency
        self.pace = pace
        self.early_writes = early_writes
        self.bad_reads = bad_reads
        self.bad_writes = bad_writes
        self.first = first
        self.write_start = write_start
        self.memory = ReferenceMemory(config)
        self.refused = {"read": 0, "write": 0}
        self.transactions = {"read": 0, "write": 0}
        self.most_under_way = 0

    def _apply(self, write):
        if not write["bad"]:
            self.memory.write(write["address"], write["data"], write["strobe"])

    def _address(self, payload):
        assert (payload.id, payload.len, payload.burst) == (0, 0, 1)
        assert 1 << payload.size == self.config.beat_bytes
        assert payload.addr % self.config.beat_bytes == 0
        return payload.addr

    def benches(self):
        """Background benches: the memory, and monitors that check the master's handshakes."""
        channels = (self.dut.aw, self.dut.w, self.dut.ar)
        return [self._bench, *(monitor(channel, []) for channel in channels)]

    async def _bench(self, ctx):
        dut, rng = self.dut, self.rng
        address_layout = dut.aw.payload.shape()
        data_layout = dut.w.payload.shape()
        addresses, values, writes, reads = (collections.deque() for _ in range(4))
        answer_write = answer_read = None
        cycle = 0

        def drive():
            """What is ready and what is answered in this cycle."""
            nonlocal answer_write, answer_read
            writable = cycle >= self.write_start
            ctx.set(dut.ar.ready, rng.random() < self.pace)
            ctx.set(dut.aw.ready, writable and rng.random() < self.pace
                    and (self.first != "w" or len(values) > 0))
            ctx.set(dut.w.ready, writable and rng.random() < self.pace
                    and (self.first != "aw" or len(addresses) > 0))
            if (answer_write is None and writes and writes[0]["due"] <= cycle
                    and rng.random() < self.pace):
                answer_write = writes[0]
                ctx.set(dut.b.payload, {"id": 0, "resp": 2 if answer_write["bad"] else 0})
            if (answer_read is None and reads and reads[0]["due"] <= cycle
                    and rng.random() < self.pace):
                answer_read = reads[0]
                found = answer_read["found"]
                ctx.set(dut.r.payload, {
                    "id": 0, "last": 1, "resp": 3 if answer_read["bad"] else 0,
                    "data": self.memory.read(answer_read["address"]) if found is None else found})
            ctx.set(dut.b.valid, answer_write is not None)
            ctx.set(dut.r.valid, answer_read is not None)

        drive()
        async for _, _, aw, w, ar, b, r, aw_bits, w_bits, ar_bits in ctx.tick().sample(
                dut.aw.valid & dut.aw.ready, dut.w.valid & dut.w.ready, dut.ar.valid & dut.ar.ready,
                dut.b.valid & dut.b.ready, dut.r.valid & dut.r.ready,
                *(Value.cast(stream.payload) for stream in (dut.aw, dut.w, dut.ar))):
            self.refused["write"] += answer_write is not None and not b
            self.refused["read"] += answer_read is not None and not r
            if b:
                writes.popleft()
                if not answer_write["early"]:
                    self._apply(answer_write)
                answer_write = None
            if r:
                reads.popleft()
                answer_read = None
            if aw:
                addresses.append(self._address(address_layout.from_bits(aw_bits)))
            if w:
                beat_ = data_layout.from_bits(w_bits)
                assert beat_.last == 1
                values.append((beat_.data, beat_.strb))
            while addresses and values:
                address, (value, strobe) = addresses.popleft(), values.popleft()
                due = cycle + self.write_latency()
                writes.append({"address": address, "data": value, "strobe": strobe,
                               "due": max(due, writes[-1]["due"] if writes else 0),
                               "bad": address in self.bad_writes,
                               "early": rng.random() < self.early_writes})
                if writes[-1]["early"]:
                    self._apply(writes[-1])
                self.transactions["write"] += 1
            if ar:
                address = self._address(address_layout.from_bits(ar_bits))
                due = cycle + self.read_latency()
                reads.append({"address": address, "bad": address in self.bad_reads,
                              "due": max(due, reads[-1]["due"] if reads else 0),
                              "found": self.memory.read(address) if rng.random() < 0.5 else None})
                self.transactions["read"] += 1
            self.most_under_way = max(self.most_under_way, len(reads) + len(writes))
            cycle += 1
            drive()
