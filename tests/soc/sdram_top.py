"""The SDRAM controller with flat ports, for benches in Verilog."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from t3hw.config import NodeConfig
from t3hw.hdl.sdram_controller import SdramController

CONFIG = NodeConfig.preset("tiny").replace(data_width=64, memory="axi", memory_bytes=0)


class SdramTop(wiring.Component):
    """The controller; of AXI only what it looks at."""

    def __init__(self, config, **options):
        self.controller = SdramController(config=config, **options)
        self._fields = {
            "aw": ({"addr": config.addr_width}, In), "ar": ({"addr": config.addr_width}, In),
            "w": ({"data": config.data_width, "strb": config.beat_bytes}, In),
            "b": ({"resp": 2}, Out), "r": ({"data": config.data_width, "resp": 2}, Out)}
        members = {"ready": Out(1)}
        for name, (fields, way) in self._fields.items():
            back = In if way is Out else Out
            members |= {f"{name}_valid": way(1), f"{name}_ready": back(1)}
            members |= {f"{name}_{field}": way(width) for field, width in fields.items()}
        pins = self.controller.signature.members["pins"].signature
        members |= {name: Out(member.shape) if member.flow is Out else In(member.shape)
                    for name, member in pins.members.items()}
        self._pins = list(pins.members)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = controller = self.controller
        m.d.comb += self.ready.eq(controller.ready)
        for name, (fields, way) in self._fields.items():
            stream = getattr(controller, name)
            pairs = [(getattr(self, f"{name}_valid"), stream.valid)]
            pairs += [(getattr(self, f"{name}_{field}"), stream.payload[field]) for field in fields]
            back = (stream.ready, getattr(self, f"{name}_ready"))
            for ours, its in [*pairs, back]:
                m.d.comb += its.eq(ours) if way is In else ours.eq(its)
        for name in self._pins:
            ours, its = getattr(self, name), getattr(controller.pins, name)
            m.d.comb += its.eq(ours) if name == "dq_i" else ours.eq(its)
        return m
