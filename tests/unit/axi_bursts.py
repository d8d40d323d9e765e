"""AXI bursts as the tests of the producer's side see them, with the specification's addresses."""

import dataclasses

FIXED, INCR, WRAP, RESERVED = range(4)
OKAY, SLVERR = 0, 2


@dataclasses.dataclass(kw_only=True)
class Burst:
    """An address, and for a write the data and strobes of each beat."""

    addr: int
    len: int
    size: int
    burst: int = INCR
    id: int = 0
    user: int = 0
    beats: list = dataclasses.field(default_factory=list)

    @property
    def channel(self):
        """Payload of AW or AR."""
        return {name: getattr(self, name)
                for name in ("addr", "len", "size", "burst", "id", "user")}

    @property
    def data(self):
        """Payloads of W."""
        return [{"data": data, "strb": strobe, "last": int(number == self.len)}
                for number, (data, strobe) in enumerate(self.beats)]

    def legal(self, config):
        return self.burst != RESERVED and 2**self.size <= config.beat_bytes

    def addresses(self, config):
        """Byte address of each beat."""
        step = 2**self.size
        numbers = range(self.len + 1)
        start = self.addr - self.addr % step
        if self.burst == FIXED:
            return [self.addr for _ in numbers]
        later = [start + number * step for number in numbers]
        if self.burst == WRAP:
            block = step * (self.len + 1)
            low = self.addr - self.addr % block
            later = [low + (address - low) % block for address in later]
        return [address % 2**config.addr_width for address in [self.addr, *later[1:]]]


def lanes(config, burst, number, address):
    """Strobes that a well-behaved master may set in a beat."""
    step = 2**burst.size
    first = address % config.beat_bytes
    end = (address - address % step) % config.beat_bytes + step
    return sum(1 << lane for lane in range(first, end))


def random_burst(rng, config, *, addr, illegal=0.0, longest=16, writes=False):
    """A burst at or near ``addr``; some unaligned, narrow, fixed or wrapping, a few illegal."""
    full = (config.beat_bytes - 1).bit_length()
    size = rng.choice([full, full, rng.randrange(full + 1)])
    kind = rng.choice([INCR] * 6 + [FIXED, WRAP])
    length = rng.choice([0, rng.randrange(longest)])
    if kind == WRAP:
        length = rng.choice([1, 3, 7, 15])
        addr -= addr % 2**size
    if kind == FIXED:
        length = min(length, 15)
    if rng.random() < illegal:
        kind, size = rng.choice([(RESERVED, size), (INCR, full + 1), (INCR, 7)])
    burst = Burst(addr=addr, len=length, size=size, burst=kind,
                  id=rng.randrange(2**config.id_width), user=rng.randrange(2**config.user_width))
    if writes:
        for number, address in enumerate(burst.addresses(config)):
            allowed = lanes(config, burst, number, address) % 2**config.beat_bytes
            some = allowed & rng.randrange(2**config.beat_bytes)
            strobe = rng.choice([allowed, allowed, allowed, some, 0])
            burst.beats.append((rng.randrange(2**config.data_width), strobe))
    return burst
