"""The blocks that `t3hw bench fpga` measures, and their goals."""

import dataclasses
import importlib

from ..config import NodeConfig
from .devices import ECP5_LARGE, ECP5_SMALL

__all__ = ["BLOCKS", "Block", "TARGETS"]

#: Other chips, for which there is only synthesis here: Yosys's command, and cells by kind.
TARGETS = {
    "xilinx": ("synth_xilinx -family xc7 -flatten", {
        "LUT": "LUT[1-6]|RAM(32M|64M|32X1D|64X1D)|SRL16E|SRLC32E", "FF": "FD[CPRS]E(_1)?",
        "block RAM": "RAMB(18|36)E1", "multiplier": "DSP48E1"}),
    "gowin": ("synth_gowin", {
        "LUT": "LUT[1-4]|ALU", "FF": "DFF.*", "block RAM": "(SDP|DP|SP)(B|X9B?|)",
        "multiplier": "MULT.*"}),
}

#: Clock that each block alone is to reach on the ECP5-85, speed 6, and the whole node, in MHz.
_ALONE_MHZ, _NODE_MHZ = 120, 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """A block to measure: one component, or several whose cells are added up.

    Parameters
    ----------
    name : str
        For the command line and the table.
    title : str
        What it is.
    parts : tuple of str
        Components, as ``module:Class`` in `t3hw.hdl`.
    arguments : tuple of dict
        More arguments of each part.
    config : NodeConfig or None
        Of all parts; None: they take none.
    mhz : int
        Clock to reach.
    lut4 : int or None
        Most LUT4, as far as there is a goal.
    options : tuple of str
        Placer and router, as of nextpnr.
    """

    name: str
    title: str
    parts: tuple
    arguments: tuple = ({},)
    config: NodeConfig | None = NodeConfig.preset("small")
    mhz: int = _ALONE_MHZ
    lut4: int | None = None
    options: tuple = ECP5_SMALL

    def components(self):
        """The parts, made anew: name of the class and component."""
        for part, arguments in zip(self.parts, self.arguments, strict=True):
            module, _, name = part.partition(":")
            made = getattr(importlib.import_module(f"t3hw.hdl.{module}"), name)
            # Shapes and the like are made from the configuration.
            given = {key: value(self.config) if callable(value) else value
                     for key, value in arguments.items()}
            if self.config is not None:
                given["config"] = self.config
            yield name, made(**given)


def _one(name, title, part, **more):
    arguments = more.pop("arguments", {})
    return Block(name=name, title=title, parts=(part,), arguments=(arguments,), **more)


def _source(_config):
    from ..hdl.seams import Source

    return Source.DMA


def _packet_token(_config):
    # As wide as what the link's receiver takes along.
    return 8


_SMALL = NodeConfig.preset("small")
_DMA = {
    "parts": ("dma_front_end:DmaFrontEnd", "dma_engine:DmaEngine", "read_splitter:ReadSplitter"),
    "arguments": ({}, {}, {"source": _source}),
}

#: All blocks, by name.
BLOCKS = {block.name: block for block in (
    _one("node", "the whole node, 64 bit", "node:Node", mhz=_NODE_MHZ, options=ECP5_LARGE),
    _one("tracker", "tracker, 256 entries", "tracker:Tracker", lut4=1200),
    _one("trigger", "trigger", "trigger:Trigger"),
    _one("plan-state", "state of the plans", "plan_state:PlanState"),
    Block(name="dma-4", title="DMA engine, 4 reads outstanding", lut4=1000,
          config=_SMALL.replace(outstanding_reads=4), **_DMA),
    Block(name="dma-16", title="DMA engine, 16 reads outstanding", lut4=2000,
          config=_SMALL.replace(outstanding_reads=16), **_DMA),
    _one("nmc-bf16", "near-memory compute, bfloat16", "near_memory_adder:NearMemoryAdder",
         config=_SMALL.replace(dtypes=("bfloat16",)), arguments={"meta": _packet_token}, lut4=1500),
    _one("nmc-fp32", "near-memory compute, float32", "near_memory_adder:NearMemoryAdder",
         config=_SMALL.replace(dtypes=("float32",)), arguments={"meta": _packet_token}, lut4=2000),
    _one("nmc-all", "near-memory compute, all dtypes", "near_memory_adder:NearMemoryAdder",
         arguments={"meta": _packet_token}),
    _one("registers", "register block", "register_block:RegisterBlock",
         arguments={"error_sources": 6}),
    _one("producer", "producer port", "producer_port:ProducerPort"),
    _one("address-map", "address map", "address_map:AddressMap", arguments={"meta": _packet_token}),
    _one("ingress", "link ingress", "link_ingress:LinkIngress"),
    _one("egress", "link egress", "link_egress:LinkEgress"),
    _one("controller", "memory controller, block RAM", "memory_controller:MemoryController"),
    _one("controller-axi", "memory controller, m_axi", "memory_controller:MemoryController",
         config=_SMALL.replace(memory="axi", memory_bytes=0)),
    _one("gemm", "GEMM engine, 8 units", "gemm_engine:GemmEngine",
         arguments={"units": 8, "stages": 16}, lut4=1500),
    # At 1 Mbaud and 100 MHz it forgets a command after 100 ms.
    _one("bridge", "serial bridge", "serial_bridge:SerialBridge", config=None,
         arguments={"silence": 100_000}),
)}
