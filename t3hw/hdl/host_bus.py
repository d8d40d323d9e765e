"""Host bus: single accesses to 32-bit words, from a board's link to its nodes and registers."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["HostDecoder", "host_access", "host_answer", "host_bus"]

#: One access. ``address`` is that of a word: a byte address divided by 4.
host_access = data.StructLayout({"write": 1, "address": 32, "data": 32})

#: What came of it. ``data`` of a write means nothing.
host_answer = data.StructLayout({"error": 1, "data": 32})

#: From who asks to who answers. An access begins with a pulse of ``access.valid`` and ends with one
#: of ``answer.valid``, later; its payload stays until then, or until who asks has given up: a slave
#: that may be late keeps what it was asked. There is one at a time.
host_bus = wiring.Signature({
    "access": Out(stream.Signature(host_access, always_ready=True)),
    "answer": In(stream.Signature(host_answer, always_ready=True)),
})


class HostDecoder(wiring.Component):
    """Send each access to the slave in whose window its address lies.

    Refused is an access to no window, one that its slave refuses, one that its slave does not
    answer in time, and one to a slave that still owes such an answer; that comes late, if ever, and
    is dropped. So nothing hangs here when something hangs there.

    Latency 1 cycle from an access to a slave's, 1 from its answer; an access to nowhere is answered
    after 2. Throughput: one access after the other.

    Parameters
    ----------
    windows : list of (int, int)
        First byte and number of bytes of each slave's window; sizes are powers of two, and windows
        lie at multiples of them and do not overlap.
    timeout : int
        Cycles that a slave has for an answer, a power of two.

    Members
    -------
    host : In(host_bus)
        Who asks.
    slaves : array of Out(host_bus)
        In the order of ``windows``. Addresses go on as they are.
    refused : Out, stream of 32 bits, always ready
        Byte address of a refused access, in the cycle of its answer.

    Raises
    ------
    ValueError
        If windows or time-out are not as they must be.
    """

    def __init__(self, *, windows, timeout):
        for first, size in windows:
            if size < 4 or size & size - 1 or first % size or not 0 <= first < 1 << 32:
                raise ValueError("a window must lie at a multiple of its size, a power of two, "
                                 f"not {size:#x} bytes at {first:#x}")
        for (first, size), (behind, _) in zip(sorted(windows), sorted(windows)[1:]):
            if first + size > behind:
                raise ValueError(f"windows at {first:#x} and {behind:#x} overlap")
        if type(timeout) is not int or timeout < 16 or timeout & timeout - 1:
            raise ValueError(f"timeout must be a power of two of at least 16, not {timeout!r}")
        self._windows = list(windows)
        self._timeout = timeout
        super().__init__({
            "host": In(host_bus),
            "slaves": Out(host_bus).array(len(windows)),
            "refused": Out(stream.Signature(32, always_ready=True)),
        })

    def elaborate(self, platform):
        m = Module()

        host = self.host
        address = host.access.payload.address
        hits = Signal(len(self._windows))
        owing = Signal(len(self._windows))
        answers = Signal(len(self._windows))
        for number, ((first, size), slave) in enumerate(zip(self._windows, self.slaves)):
            low = size.bit_length() - 3
            m.d.sync += hits[number].eq(address[low:] == first >> low + 2)
            m.d.comb += [
                slave.access.payload.eq(host.access.payload),
                answers[number].eq(slave.answer.valid),
            ]
        # A late answer pays what is owed.
        m.d.sync += owing.eq(owing & ~answers)

        # The word has no reset, so that to set it costs nothing.
        left = Signal(range(self._timeout))
        error = Signal()
        word = Signal(32, reset_less=True)
        over = Signal()
        done = Signal()
        answer = self._answer(hits)
        m.d.comb += [
            host.answer.payload.error.eq(error),
            host.answer.payload.data.eq(word),
            self.refused.valid.eq(host.answer.valid & error),
            self.refused.payload.eq(Cat(0, 0, address)),
            done.eq((answers & hits).any()),
        ]
        m.d.sync += [
            left.eq(left - 1),
            over.eq(left == 0),
            word.eq(answer.data),
            error.eq(answer.error | ~done),
        ]
        with m.If(answer.error | ~done):
            m.d.sync += word.eq(~0)
        with m.FSM():
            with m.State("REST"):
                m.d.sync += left.eq(self._timeout - 1)
                with m.If(host.access.valid):
                    m.next = "ASK"
            with m.State("ASK"):
                for hit, late, slave in zip(hits, owing, self.slaves):
                    m.d.comb += slave.access.valid.eq(hit & ~late)
                m.next = "WAIT"
                with m.If((hits & ~owing) == 0):
                    m.next = "ANSWER"
            with m.State("WAIT"):
                with m.If(done):
                    m.next = "ANSWER"
                with m.Elif(over):
                    m.d.sync += owing.eq(owing & ~answers | hits)
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += host.answer.valid.eq(1)
                m.next = "REST"

        return m

    def _answer(self, hits):
        """The answer of the slave that is asked."""
        chosen = [Mux(hit, slave.answer.payload.as_value(), 0)
                  for hit, slave in zip(hits, self.slaves)]
        while len(chosen) > 1:
            chosen.append(chosen.pop(0) | chosen.pop(0))
        return host_answer(chosen[0])
