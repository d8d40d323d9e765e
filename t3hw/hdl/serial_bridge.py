"""Serial bridge: a protocol of bytes in front, the host bus behind."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .byte_queue import ByteQueue
from .host_bus import host_bus

__all__ = ["Command", "SerialBridge", "checked_byte"]


class Command(enum.Enum, shape=8):
    """First byte of a command."""

    #: Write words to addresses that follow each other.
    WRITE = 1
    #: Read words from such addresses.
    READ = 2
    #: Write all words to one address.
    WRITE_FIXED = 3
    #: Read all words from one address.
    READ_FIXED = 4


#: A byte of a word on the line, that a checksum covers; ``sent``: from here.
checked_byte = data.StructLayout({"byte": 8, "sent": 1})


class SerialBridge(wiring.Component):
    """Obey commands that come byte by byte.

    A command is a byte of `Command`, a byte with the number of words, four bytes with the address
    of the first word (its byte address divided by 4), and the words, if they are written. It is
    answered with the words, if they are read, and else with nothing. Words and addresses are sent
    with the most significant byte first. A command with 0 words does nothing. A byte that no
    command begins with is dropped.

    Bytes that come while a command is at work wait in a queue. When the line was silent for
    ``silence`` cycles within a command, the command is forgotten. When a byte was damaged, or lost
    since the queue was full, nobody knows what the bytes behind it are: they are dropped until the
    line was silent for so long.

    Latency from a byte to what it causes 4 cycles. Throughput: what comes and goes on a line of at
    least 4 cycles a bit, without a pause, as far as the host bus needs at most 10 cycles a word
    that is written.

    Parameters
    ----------
    silence : int
        Cycles, at least 64.
    depth : int
        Bytes of the queue, a power of two.
    uncounted_writes, uncounted_reads : collections of int
        Byte addresses of words that checksums leave out.

    Members
    -------
    i : stream of 8 bits, always ready
        Bytes from the line.
    damaged : In(1)
        Pulse: a byte from the line was not understood.
    active : In(1)
        The line is not at rest.
    o : stream of 8 bits
        Bytes to the line.
    host : Out(host_bus)
        Accesses. A read that is refused gives what its answer has.
    checked : stream of `checked_byte`
        What checksums cover.
    lost, abandoned : Out(1)
        Pulses: a byte was lost in a full queue; a command was forgotten.

    Raises
    ------
    ValueError
        If ``silence`` or ``depth`` is out of its range.
    """

    def __init__(self, *, silence, depth=512, uncounted_writes=(), uncounted_reads=()):
        if type(silence) is not int or silence < 64:
            raise ValueError(f"silence must be an integer of at least 64, not {silence!r}")
        self._silence = silence
        self._queue = ByteQueue(depth=depth)
        self._uncounted = (sorted(uncounted_writes), sorted(uncounted_reads))
        super().__init__({
            "i": In(stream.Signature(8, always_ready=True)),
            "damaged": In(1),
            "active": In(1),
            "o": Out(stream.Signature(8)),
            "host": Out(host_bus),
            "checked": Out(stream.Signature(checked_byte)),
            "lost": Out(1),
            "abandoned": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.queue = queue = self._queue

        # The line: how long it has been silent, and whether its bytes can be trusted.
        left = Signal(range(self._silence))
        silent = Signal()
        deaf = Signal()
        first = Signal()
        m.d.sync += silent.eq(left == 0)
        with m.If(self.active | self.i.valid):
            m.d.sync += left.eq(self._silence - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        m.d.comb += [
            queue.i.valid.eq(self.i.valid & ~deaf),
            queue.i.payload.byte.eq(self.i.payload),
            queue.i.payload.first.eq(first),
            self.lost.eq(queue.i.valid & ~queue.i.ready),
        ]
        with m.If(silent):
            m.d.sync += first.eq(1)
        with m.Elif(queue.i.valid):
            m.d.sync += first.eq(0)
        with m.If(self.damaged | self.lost):
            m.d.sync += deaf.eq(1)
        with m.Elif(silent):
            m.d.sync += deaf.eq(0)

        access, answer = self.host.access, self.host.answer
        is_read = Signal()
        is_fixed = Signal()
        words = Signal(8)
        number = Signal(2)
        address = access.payload.address
        word = access.payload.data
        byte = queue.o.payload.byte
        come = Signal()
        take = Signal()
        counted = Signal()
        m.d.comb += [
            access.payload.write.eq(~is_read),
            # Not what belongs to a later command.
            come.eq(queue.o.valid & ~queue.o.payload.first),
            queue.o.ready.eq(take),
            self.o.payload.eq(word[24:]),
            self.checked.payload.sent.eq(is_read),
        ]
        writes, reads = (self._one_of(address, addresses) for addresses in self._uncounted)
        # The address has been there for a cycle when a word's first byte comes or goes.
        with m.If(is_read):
            m.d.comb += self.checked.payload.byte.eq(word[24:])
            m.d.sync += counted.eq(~reads)
        with m.Else():
            m.d.comb += self.checked.payload.byte.eq(byte)
            m.d.sync += counted.eq(~writes)

        # The line may have been silent for long while an earlier command was at work: what comes
        # from the queue tells the silence behind it.
        def or_forget():
            with m.Elif(queue.o.valid | silent & ~queue.waiting):
                m.d.comb += self.abandoned.eq(1)
                m.next = "COMMAND"

        with m.FSM():
            with m.State("COMMAND"):
                m.d.comb += take.eq(1)
                m.d.sync += [
                    is_read.eq((byte == Command.READ) | (byte == Command.READ_FIXED)),
                    is_fixed.eq((byte == Command.WRITE_FIXED) | (byte == Command.READ_FIXED)),
                    number.eq(0),
                ]
                with m.If(queue.o.valid & (byte >= 1) & (byte <= 4)):
                    m.next = "WORDS"
            with m.State("WORDS"):
                m.d.comb += take.eq(come)
                m.d.sync += words.eq(byte)
                with m.If(come):
                    m.next = "ADDRESS"
                or_forget()
            with m.State("ADDRESS"):
                m.d.comb += take.eq(come)
                with m.If(come):
                    m.d.sync += [address.eq(Cat(byte, address)), number.eq(number + 1)]
                    with m.If(number == 3):
                        m.next = "BEGIN"
                or_forget()
            with m.State("BEGIN"):
                with m.If(words == 0):
                    m.next = "COMMAND"
                with m.Elif(is_read):
                    m.next = "ACCESS"
                with m.Else():
                    m.next = "RECEIVE"
            with m.State("RECEIVE"):
                m.d.comb += [
                    take.eq(come & self.checked.ready),
                    self.checked.valid.eq(come & counted),
                ]
                with m.If(come):
                    with m.If(take):
                        m.d.sync += [word.eq(Cat(byte, word)), number.eq(number + 1)]
                        with m.If(number == 3):
                            m.next = "ACCESS"
                or_forget()
            with m.State("ACCESS"):
                m.d.comb += access.valid.eq(1)
                m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(is_read):
                    m.d.sync += word.eq(answer.payload.data)
                with m.If(answer.valid):
                    m.d.sync += words.eq(words - 1)
                    m.next = "NEXT"
                    with m.If(is_read):
                        m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [
                    self.o.valid.eq(self.checked.ready),
                    self.checked.valid.eq(self.o.ready & counted),
                ]
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += [word.eq(Cat(byte, word)), number.eq(number + 1)]
                    with m.If(number == 3):
                        m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(~is_fixed):
                    m.d.sync += address.eq(address + 1)
                m.next = "BEGIN"

        return m

    @staticmethod
    def _one_of(address, addresses):
        """Whether a word's address is among some byte addresses."""
        return Cat(address == known >> 2 for known in addresses).any()
