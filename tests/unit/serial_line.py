"""A serial line, as tests of boards see it: levels, bytes, and the protocol's commands."""

__all__ = ["LineReader", "read_command", "send_bytes", "write_command"]


def write_command(address, words, *, fixed=False):
    """Bytes that write words from a byte address on."""
    return (bytes([3 if fixed else 1, len(words)]) + (address >> 2).to_bytes(4, "big")
            + b"".join(word.to_bytes(4, "big") for word in words))


def read_command(address, words, *, fixed=False):
    """Bytes that read words from a byte address on."""
    return bytes([4 if fixed else 2, words]) + (address >> 2).to_bytes(4, "big")


async def send_bytes(ctx, rx, data, *, bit_cycles, stop_bits=1, level=1):
    """Send bytes on a line, without gaps; ``level`` is that of the stop bits."""
    time, done = 0.0, 0
    for byte in data:
        for bit in [0, *(byte >> index & 1 for index in range(8)), *[level] * stop_bits]:
            ctx.set(rx, bit)
            time += bit_cycles
            while done < round(time):
                await ctx.tick()
                done += 1
    ctx.set(rx, 1)


class LineReader:
    """A background bench that listens in the middle of each bit.

    Parameters
    ----------
    tx : Signal
        The line.
    bit_cycles : number
        Cycles of a bit.

    Attributes
    ----------
    data : bytearray
        What was heard.
    starts : list of int
        Cycles in which start bits began.
    """

    def __init__(self, tx, *, bit_cycles):
        self.tx, self.bit_cycles = tx, bit_cycles
        self.data, self.starts = bytearray(), []

    async def bench(self, ctx):
        """The bench."""
        cycle, bits, next_ = 0, None, 0
        async for _, _, level in ctx.tick().sample(self.tx):
            cycle += 1
            if bits is None:
                if not level:
                    bits, next_ = [], cycle + self.bit_cycles / 2
                    self.starts.append(cycle)
            elif cycle >= next_:
                next_ += self.bit_cycles
                bits.append(level)
                if len(bits) == 10:
                    assert bits[0] == 0 and bits[9] == 1, f"bad frame {bits} in cycle {cycle}"
                    self.data.append(sum(bit << index for index, bit in enumerate(bits[1:9])))
                    bits = None
