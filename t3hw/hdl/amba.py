"""AMBA ports: flat members with the names of the specification, and their wiring to streams.

Inside the design a channel is one stream of a struct. Vendor tools and verification parts find a
bus by the names of its flat ports, so the top levels, and only they, carry these.
"""

from amaranth.lib.wiring import In, Out

from . import seams

__all__ = ["AxiLitePorts", "AxiPorts", "AxiStreamPorts"]


class _Channel:
    """One channel: a struct that travels with valid and ready, as flat ports."""

    def __init__(self, letters, layout, fields, *, to_slave):
        self.letters = letters
        self.fields = {field: layout[field].shape for field in fields}
        self.to_slave = to_slave


class _Ports:
    """A bundle of channels under one prefix.

    Parameters
    ----------
    prefix : str
        Start of every port's name, such as ``"s_axi"``.
    master : bool
        Whether the component that carries the ports is the bus's master.
    """

    channels = ()

    def __init__(self, *, prefix, master):
        self.prefix = prefix
        self.master = master

    def _name(self, channel, signal):
        return f"{self.prefix}_{channel.letters}{signal}"

    def members(self):
        """Members for the signature of the component that carries the ports."""
        members = {}
        for channel in self.channels:
            forward, backward = (Out, In) if channel.to_slave == self.master else (In, Out)
            for field, shape in channel.fields.items():
                members[self._name(channel, field)] = forward(shape)
            members[self._name(channel, "valid")] = forward(1)
            members[self._name(channel, "ready")] = backward(1)
        return members

    def connect(self, m, component, streams, *, from_outside=False):
        """Wire the ports of ``component`` to streams inside it, given by channel letters.

        ``from_outside``: to streams beside it, in the component that it is a part of.
        """
        for channel in self.channels:
            stream = streams[channel.letters]
            ports = {signal: getattr(component, self._name(channel, signal))
                     for signal in (*channel.fields, "valid", "ready")}
            outward = (channel.to_slave == self.master) != from_outside
            for field in channel.fields:
                inner = stream.payload[field]
                m.d.comb += ports[field].eq(inner) if outward else inner.eq(ports[field])
            if outward:
                m.d.comb += [ports["valid"].eq(stream.valid), stream.ready.eq(ports["ready"])]
            else:
                m.d.comb += [stream.valid.eq(ports["valid"]), ports["ready"].eq(stream.ready)]


class AxiPorts(_Ports):
    """AXI4, with AxUSER where the configuration's tile ids go with it (slaves)."""

    def __init__(self, *, prefix, master, config, id_width):
        super().__init__(prefix=prefix, master=master)
        address = seams.axi_address(config, id_width)
        fields = ["id", "addr", "len", "size", "burst"]
        write = seams.axi_write_data(config)
        response = seams.axi_write_response(config, id_width)
        read = seams.axi_read_data(config, id_width)
        self.channels = (
            _Channel("aw", address, fields if master else [*fields, "user"], to_slave=True),
            _Channel("w", write, ["data", "strb", "last"], to_slave=True),
            _Channel("b", response, ["id", "resp"], to_slave=False),
            _Channel("ar", address, fields, to_slave=True),
            _Channel("r", read, ["id", "data", "resp", "last"], to_slave=False),
        )


class AxiLitePorts(_Ports):
    """AXI4-Lite of 32 bits. AxPROT is not used, and left out."""

    def __init__(self, *, prefix, master):
        super().__init__(prefix=prefix, master=master)
        self.channels = (
            _Channel("aw", seams.axil_address, ["addr"], to_slave=True),
            _Channel("w", seams.axil_write_data, ["data", "strb"], to_slave=True),
            _Channel("b", seams.axil_write_response, ["resp"], to_slave=False),
            _Channel("ar", seams.axil_address, ["addr"], to_slave=True),
            _Channel("r", seams.axil_read_data, ["data", "resp"], to_slave=False),
        )


class AxiStreamPorts(_Ports):
    """AXI4-Stream with TKEEP and TLAST."""

    def __init__(self, *, prefix, master, config):
        super().__init__(prefix=prefix, master=master)
        self.channels = (
            _Channel("t", seams.link_word(config), ["data", "keep", "last"], to_slave=True),
        )
