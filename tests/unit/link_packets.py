"""Packets as the link's tests see them: constants and beats, their words on the wire, and back."""

import dataclasses

STORE, UPDATE = 1, 2
MAGIC = 0b1011


@dataclasses.dataclass(kw_only=True)
class Packet:
    """Constants of a packet, the address of its first beat, and (data, strobe) a beat."""

    address: int
    beats: list
    op: int = STORE
    dtype: int = 0
    tracked: int = 0
    plan: int = 0
    epoch: int = 0
    wg: int = 0
    wf: int = 0


CONSTANTS = ("op", "dtype", "tracked", "plan", "epoch", "wg", "wf")


def plan_bits(config):
    return max((config.plans - 1).bit_length(), 1)


def header_fields(config):
    """(name, bits) from the lowest bit on."""
    return (("magic", 4), ("op", 2), ("dtype", 2), ("tracked", 1), ("plan", plan_bits(config)),
            ("epoch", 4), ("wg", config.wg_width), ("wf", max(config.wf_width, 1)),
            ("beat", config.addr_width - (config.beat_bytes - 1).bit_length()))


def header_length(config):
    return -(-sum(bits for _, bits in header_fields(config)) // config.data_width)


def remote_beats(config, packet):
    """The packet as beats at the egress."""
    constants = {name: getattr(packet, name) for name in CONSTANTS}
    return [constants | {
        "address": (packet.address + number * config.beat_bytes) % 2**config.addr_width,
        "data": data, "strobe": strobe, "last": int(number == len(packet.beats) - 1),
    } for number, (data, strobe) in enumerate(packet.beats)]


def packet_words(config, packet, *, magic=MAGIC):
    """The packet as words on the wire."""
    fields = dataclasses.asdict(packet) | {
        "magic": magic, "beat": packet.address // config.beat_bytes}
    header = position = 0
    for name, bits in header_fields(config):
        header |= fields[name] << position
        position += bits
    ones = 2**config.data_width - 1
    words = [{"data": header >> config.data_width * number & ones, "keep": 2**config.beat_bytes - 1,
              "last": 0} for number in range(header_length(config))]
    return words + [{"data": data, "keep": strobe, "last": int(number == len(packet.beats) - 1)}
                    for number, (data, strobe) in enumerate(packet.beats)]


def parse(config, words):
    """Words on the wire, as (data, keep, last), back to packets."""
    packets, packet = [], []
    for word in words:
        packet.append(word)
        if not word[2]:
            continue
        length = header_length(config)
        header = sum(data << config.data_width * number
                     for number, (data, _, _) in enumerate(packet[:length]))
        assert all(keep == 2**config.beat_bytes - 1 for _, keep, _ in packet[:length])
        fields = {}
        for name, bits in header_fields(config):
            fields[name] = header & 2**bits - 1
            header >>= bits
        assert header == 0 and fields.pop("magic") == MAGIC
        packets.append(Packet(address=fields.pop("beat") * config.beat_bytes, **fields,
                              beats=[(data, keep) for data, keep, _ in packet[length:]]))
        packet = []
    assert not packet, "the last packet has no end"
    return packets


def random_payload(rng, config, length):
    return [(rng.randrange(2**config.data_width), rng.randrange(2**config.beat_bytes))
            for _ in range(length)]


def random_packet(rng, config, *, length=None):
    length = length or rng.randint(1, config.burst_beats)
    space = 2**config.addr_width // config.beat_bytes
    return Packet(
        address=rng.randrange(space - length) * config.beat_bytes, op=rng.choice([STORE, UPDATE]),
        dtype=rng.randrange(4), tracked=rng.randrange(2), plan=rng.randrange(config.plans),
        epoch=rng.randrange(16), wg=rng.randrange(2**config.wg_width),
        wf=rng.randrange(2**config.wf_width), beats=random_payload(rng, config, length))


def receiver(config, dut, words, *, rng, pace=1.0, credit_pace=1.0):
    """A background bench that takes words off ``dut.tx`` and gives credits; fails at an overrun."""
    async def bench(ctx):
        held = 0
        refused = None
        while True:
            ready = int(rng.random() < pace)
            give = int(held > 0 and rng.random() < credit_pace)
            ctx.set(dut.tx.ready, ready)
            ctx.set(dut.credit, give)
            _, _, valid, word = await ctx.tick().sample(dut.tx.valid, dut.tx.payload)
            held -= give
            assert refused is None or (valid and word.as_bits() == refused), "tx did not stay"
            refused = word.as_bits() if valid and not ready else None
            if valid and ready:
                held += 1
                assert held <= config.link_credits, "overrun"
                words.append((word.data, word.keep, word.last))
    return bench
