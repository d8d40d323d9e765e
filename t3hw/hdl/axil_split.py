"""AXI4-Lite split: one master, two slaves, by address."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .seams import axil_address, axil_read_data, axil_write_data, axil_write_response

__all__ = ["AxilSplit"]

#: Address bits within a window of 64 KiB.
WINDOW_BITS = 16


class AxilSplit(wiring.Component):
    """Send the accesses to one window of 64 KiB to one slave, all others to another.

    One write and one read are under way at a time. Addresses go on as they are. Nothing is accepted
    during reset.

    Latency 1 cycle from AW and AR to a slave's, 0 from W once the address was taken, and 0 for
    answers. Throughput: as the slave, and one access in 2 cycles at most.

    Parameters
    ----------
    window : int
        Bits 19 to 16 of the addresses that go to ``inside``.

    Members
    -------
    aw, w, b, ar, r : In and Out, streams of the ``axil_`` structs
        From the master.
    inside, outside : Out, with members aw, w, b, ar, r
        To the slaves.
    """

    def __init__(self, *, window):
        if type(window) is not int or not 0 <= window <= 15:
            raise ValueError(f"window must be an integer from 0 to 15, not {window!r}")
        self._window = window
        bus = wiring.Signature({
            "aw": Out(stream.Signature(axil_address)),
            "w": Out(stream.Signature(axil_write_data)),
            "b": In(stream.Signature(axil_write_response)),
            "ar": Out(stream.Signature(axil_address)),
            "r": In(stream.Signature(axil_read_data)),
        })
        super().__init__({
            **{name: In(member.signature) if member.flow is Out else Out(member.signature)
               for name, member in bus.members.items()},
            "inside": Out(bus),
            "outside": Out(bus),
        })

    def elaborate(self, platform):
        m = Module()

        # Low during reset, so that nobody takes for accepted what the reset forgets.
        running = Signal()
        m.d.sync += running.eq(1)
        self._path(m, running, "aw", "b", data="w")
        self._path(m, running, "ar", "r")
        return m

    def _path(self, m, running, ask, answer, data=None):
        """An address, perhaps with data, goes to a slave, and its answer comes back."""
        asks, answers = getattr(self, ask), getattr(self, answer)
        address = Signal(asks.payload.shape())
        under_way = Signal(name=f"{ask}_under_way")
        address_sent = Signal(name=f"{ask}_sent")
        data_sent = Signal(name=f"{ask}_data_sent")
        is_inside = Signal(name=f"{ask}_inside")
        m.d.comb += [
            asks.ready.eq(running & ~under_way),
            is_inside.eq(address.addr[WINDOW_BITS:] == self._window),
        ]
        with m.If(asks.valid & asks.ready):
            m.d.sync += [
                address.eq(asks.payload), under_way.eq(1), address_sent.eq(0), data_sent.eq(0),
            ]
        with m.If(answers.valid & answers.ready):
            m.d.sync += under_way.eq(0)
        chosen = {True: self.inside, False: self.outside}
        for inside, slave in chosen.items():
            selected = under_way & (is_inside == inside)
            out, back = getattr(slave, ask), getattr(slave, answer)
            m.d.comb += [
                out.payload.eq(address),
                out.valid.eq(selected & ~address_sent),
                back.ready.eq(selected & answers.ready),
            ]
            with m.If(out.valid & out.ready):
                m.d.sync += address_sent.eq(1)
            if data is not None:
                words, sent = getattr(self, data), getattr(slave, data)
                m.d.comb += [
                    sent.payload.eq(words.payload),
                    sent.valid.eq(selected & ~data_sent & words.valid),
                ]
                with m.If(sent.valid & sent.ready):
                    m.d.sync += data_sent.eq(1)

        def of_chosen(channel, member):
            return Mux(is_inside, getattr(getattr(self.inside, channel), member),
                       getattr(getattr(self.outside, channel), member))

        m.d.comb += [
            answers.valid.eq(under_way & of_chosen(answer, "valid")),
            answers.payload.eq(Mux(is_inside, getattr(self.inside, answer).payload.as_value(),
                                   getattr(self.outside, answer).payload.as_value())),
        ]
        if data is not None:
            m.d.comb += getattr(self, data).ready.eq(
                under_way & ~data_sent & of_chosen(data, "ready"))
