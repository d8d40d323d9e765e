"""A node with its memory in a simulated SDRAM, in the place of a node for the ring's bench."""

from pathlib import Path

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import t3hw.cosim
from t3hw.generate import sidecar, to_verilog
from t3hw.hdl.amba import AxiPorts
from t3hw.hdl.axi_memory import M_AXI_ID_WIDTH
from t3hw.hdl.node import Node
from t3hw.hdl.sdram_controller import SdramController

MODEL = Path(t3hw.cosim.__file__).parent / "verilog" / "sdram_model.v"


class SdramNode(wiring.Component):
    """The node's ports but ``m_axi``, and the chip's pins as ``sdram_*``."""

    def __init__(self, config, **options):
        self._config = config
        self._node = Node(config=config)
        self._controller = SdramController(config=config, **options)
        self._inner = {name: member for name, member in self._node.signature.members.items()
                       if not name.startswith("m_axi_")}
        pins = self._controller.signature.members["pins"].signature.members
        self._pins = {name: (Out if member.flow is Out else In)(member.shape)
                      for name, member in pins.items()}
        super().__init__(self._inner | {f"sdram_{name}": pin for name, pin in self._pins.items()})

    def elaborate(self, platform):
        m = Module()
        m.submodules.node = node = self._node
        m.submodules.controller = controller = self._controller
        AxiPorts(prefix="m_axi", master=True, config=self._config, id_width=M_AXI_ID_WIDTH).connect(
            m, node, {name: getattr(controller, name) for name in ("aw", "w", "b", "ar", "r")},
            from_outside=True)
        pairs = [(getattr(self, name), getattr(node, name), member.flow)
                 for name, member in self._inner.items()]
        pairs += [(getattr(self, f"sdram_{name}"), getattr(controller.pins, name), pin.flow)
                  for name, pin in self._pins.items()]
        for outside, inside, flow in pairs:
            m.d.comb += outside.eq(inside) if flow is Out else inside.eq(outside)
        return m


def sdram_node(config, rules, **options):
    """Verilog of module ``t3_node``, with the chip inside, and its ports."""
    component = SdramNode(config, **options)
    ports = sidecar(component, "t3_node", config)["ports"]
    text = to_verilog(component, "t3_sdram_node")
    outer = [port for port in ports if not port["name"].startswith("sdram_")]
    heads = ", ".join(f"{port['direction']} wire [{port['width'] - 1}:0] {port['name']}"
                      for port in outer)
    wires = "".join(f"    wire [{port['width'] - 1}:0] {port['name']};\n"
                    for port in ports if port["name"].startswith("sdram_"))
    inner = ", ".join(f".{port['name']}({port['name']})" for port in ports)
    values = ", ".join(f".{name}({value})" for name, value in rules.items())
    chip = ", ".join(f".{name}(sdram_{name})" for name in
                     ("clk_en", "cs", "ras", "cas", "we", "ba", "a", "dqm"))
    wrapper = f"""
module t3_node({heads});
{wires}    t3_sdram_node node({inner});
    t3_sdram_model #({values}, .STORED_ROW_BITS(5)) chip(.clk(clk), {chip}, .dq_i(sdram_dq_o),
        .dq_driven(sdram_dq_oe), .dq_o(sdram_dq_i), .refreshes());
endmodule
"""
    return text + wrapper + MODEL.read_text(), outer
