"""Top of a board: clock, reset and pins around the design."""

import importlib
import math

from amaranth import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.build import Attrs, Pins, Resource, ResourceError, Subsignal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from ..config import ConfigError
from ..hdl.board import Board
from ..shared_nodes import share_nodes
from .clocks import ecp5_pll, gowin_pll, ice40_pll
from .devices import gowin_family

__all__ = ["BoardTop", "ResetHold", "open_platform"]

#: How long reset lasts after the clock is good.
#: iCE40's block RAM reads 0 in the first microseconds.
RESET_SECONDS = 20e-6


def open_platform(design):
    """A new platform of amaranth-boards for a design.

    Raises
    ------
    ConfigError
        If amaranth-boards or the platform is not there.
    """
    module, _, name = design.platform.partition(":")
    try:
        return getattr(importlib.import_module(module), name)()
    except ModuleNotFoundError as error:
        raise ConfigError(f"platform {design.platform!r}: no module {error.name!r}; "
                          "`pip install 't3hw[fpga]'` brings amaranth-boards") from None
    except AttributeError:
        raise ConfigError(f"platform {design.platform!r}: no {name} in {module}") from None


class ResetHold(Elaboratable):
    """Reset of the domain ``sync``: at once when something is bad, and ``cycles`` longer than that.

    Needs a domain ``early`` with the same clock, whose reset it makes too.

    Parameters
    ----------
    bad : Signal(1)
        The clock cannot be trusted, or someone presses the button; asynchronous.
    cycles : int
        From the end of ``bad``, or from configuration, to the end of reset, at least.
    """

    def __init__(self, bad, cycles):
        self._bad = bad
        self._cycles = cycles

    def elaborate(self, platform):
        m = Module()
        m.submodules.early = ResetSynchronizer(self._bad, domain="early")
        count = Signal(range(self._cycles + 1))
        over = Signal()
        with m.If(count == self._cycles):
            m.d.early += over.eq(1)
        with m.Else():
            m.d.early += count.eq(count + 1)
        # ``bad`` itself, too: without a clock ``over`` would stay as it is.
        held = Signal()
        m.d.comb += held.eq(~over | self._bad)
        m.submodules.late = ResetSynchronizer(held, domain="sync")
        return m


class BoardTop(Elaboratable):
    """A `Board` on its pins, with a clock of ``design.clock_hz`` and a clean reset.

    Reset is held until the PLL, if there is one, has locked, and `RESET_SECONDS` longer; it comes
    at once when the lock is lost or the board's reset button is pressed, and ends in step with the
    clock.

    Parameters
    ----------
    design : BoardDesign
        What to build.
    share : bool
        Nodes become instances of one module, which is not in the top's RTLIL.

    Attributes
    ----------
    shared : str or None
        Verilog of that module, when the top has been elaborated.
    """

    def __init__(self, design, *, share=False):
        self._design = design
        self._share = share
        self.shared = None

    def elaborate(self, platform):
        m = Module()

        m.submodules.core = core = Board(self._design)
        nodes = getattr(core, "nodes", ())
        if self._share and nodes:
            self.shared = share_nodes(nodes)
        self._clock(m, platform)
        self._serial(m, platform, core)
        self._leds(m, platform, core)
        if self._design.memory == "sdram":
            self._sdram(m, platform, core.sdram)
        return m

    def _clock(self, m, platform):
        design = self._design
        # Runs before the reset of the design ends.
        m.domains.early = early = ClockDomain("early")
        m.domains.sync = sync = ClockDomain("sync")
        pads = platform.request(platform.default_clk, dir="-")
        bad = Signal()
        locked = Const(1)
        if platform.default_clk_frequency == design.clock_hz:
            m.submodules.clock_buffer = buffer = io.Buffer("i", pads)
            m.d.comb += early.clk.eq(buffer.i)
        else:
            locked = Signal()
            self._pll(m, platform, pads, early.clk, locked)
        m.d.comb += sync.clk.eq(early.clk)

        pressed = Const(0)
        if platform.default_rst is not None:
            m.submodules.button = button = io.Buffer(
                "i", platform.request(platform.default_rst, dir="-"))
            pressed = button.i
        m.d.comb += bad.eq(~locked | pressed)
        m.submodules.reset = ResetHold(bad, math.ceil(RESET_SECONDS * design.clock_hz))

    def _pll(self, m, platform, pads, clock, locked):
        design = self._design
        reference = platform.default_clk_frequency
        make = {"ecp5": self._ecp5_pll, "ice40": self._ice40_pll, "gowin": self._gowin_pll,
                "xilinx": self._xilinx_pll}[design.family]
        make(m, pads, reference, clock, locked)
        platform.add_clock_constraint(clock, design.clock_hz)

    def _ecp5_pll(self, m, pads, reference, clock, locked):
        setting = ecp5_pll(reference, self._design.clock_hz)
        m.submodules.clock_buffer = buffer = io.Buffer("i", pads)
        m.submodules.pll = Instance(
            "EHXPLLL",
            p_CLKI_DIV=setting["input"], p_CLKFB_DIV=setting["feedback"],
            p_CLKOP_DIV=setting["output"], p_CLKOP_ENABLE="ENABLED", p_FEEDBK_PATH="CLKOP",
            # The output's edges fall on those of the reference.
            p_CLKOP_CPHASE=setting["output"] - 1, p_CLKOP_FPHASE=0,
            p_OUTDIVIDER_MUXA="DIVA", p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED", p_DPHASE_SOURCE="DISABLED",
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            i_CLKI=buffer.i, i_CLKFB=clock, i_RST=Const(0), i_STDBY=Const(0),
            i_PHASESEL0=Const(0), i_PHASESEL1=Const(0), i_PHASEDIR=Const(0),
            i_PHASESTEP=Const(0), i_PHASELOADREG=Const(0), i_PLLWAKESYNC=Const(0),
            i_ENCLKOP=Const(0),
            o_CLKOP=clock, o_LOCK=locked)

    def _ice40_pll(self, m, pads, reference, clock, locked):
        setting = ice40_pll(reference, self._design.clock_hz)
        # The oscillator's pin is the PLL's own, which therefore can be no input of another kind.
        m.submodules.pll = Instance(
            "SB_PLL40_PAD",
            p_FEEDBACK_PATH="SIMPLE", p_DIVR=Const(setting["divr"], 4),
            p_DIVF=Const(setting["divf"], 7), p_DIVQ=Const(setting["divq"], 3),
            p_FILTER_RANGE=Const(setting["filter_range"], 3),
            i_PACKAGEPIN=pads.io, i_RESETB=Const(1), i_BYPASS=Const(0),
            o_PLLOUTGLOBAL=clock, o_LOCK=locked)

    def _gowin_pll(self, m, pads, reference, clock, locked):
        setting = gowin_pll(reference, self._design.clock_hz)
        m.submodules.clock_buffer = buffer = io.Buffer("i", pads)
        m.submodules.pll = Instance(
            "rPLL",
            p_FCLKIN=f"{reference / 1e6:g}", p_DEVICE=gowin_family(self._design.part),
            p_IDIV_SEL=setting["input"], p_FBDIV_SEL=setting["feedback"],
            p_ODIV_SEL=setting["output"], p_DYN_IDIV_SEL="false", p_DYN_FBDIV_SEL="false",
            p_DYN_ODIV_SEL="false", p_CLKFB_SEL="internal",
            i_CLKIN=buffer.i, i_CLKFB=Const(0), i_RESET=Const(0), i_RESET_P=Const(0),
            i_FBDSEL=Const(0, 6), i_IDSEL=Const(0, 6), i_ODSEL=Const(0, 6),
            i_PSDA=Const(0, 4), i_DUTYDA=Const(0, 4), i_FDLY=Const(0, 4),
            o_CLKOUT=clock, o_LOCK=locked)

    def _xilinx_pll(self, m, pads, reference, clock, locked):
        raise ConfigError(f"clock_hz must be that of the board's oscillator, {reference:.0f}, on "
                          f"Xilinx parts, not {self._design.clock_hz}")

    def _serial(self, m, platform, core):
        uart = dict(self._design.uart)
        if uart:
            pins = {name: uart.pop(name) for name in ("rx", "tx")}
            platform.add_resources([Resource(
                "t3_uart", 0, Subsignal("rx", Pins(pins["rx"], dir="i")),
                Subsignal("tx", Pins(pins["tx"], dir="o")), Attrs(**uart))])
        name = "t3_uart" if uart or self._design.uart else "uart"
        try:
            port = platform.request(name, 0, dir="-")
        except ResourceError:
            raise ConfigError(f"{self._design.platform} has no serial port; a table uart in the "
                              "board's file says which pins are rx and tx") from None
        m.submodules.rx_buffer = rx = io.Buffer("i", port.rx)
        m.submodules.tx_buffer = tx = io.Buffer("o", port.tx)
        m.d.comb += [core.rx.eq(rx.i), tx.o.eq(core.tx)]

    def _leds(self, m, platform, core):
        for number in range(len(core.leds)):
            try:
                pad = platform.request("led", number, dir="-")
            except ResourceError:
                break
            m.submodules[f"led{number}"] = led = io.Buffer("o", pad)
            m.d.comb += led.o.eq(core.leds[number])

    def _sdram(self, m, platform, pins):
        if self._design.family != "ecp5":
            raise ConfigError("memory must be 'block-ram' but on ECP5 parts, not 'sdram'")
        try:
            port = platform.request("sdram", 0, dir="-")
        except ResourceError:
            raise ConfigError(f"{self._design.platform} has no SDRAM; memory must be 'block-ram', "
                              "not 'sdram'") from None
        # The inverse of our clock: the chip's edges are in the middle of what we send.
        m.submodules.sdram_clock = clock = io.DDRBuffer("o", port.clk)
        m.d.comb += [clock.o[0].eq(0), clock.o[1].eq(1)]
        for name in ("clk_en", "cs", "ras", "cas", "we", "ba", "a", "dqm"):
            m.submodules[f"sdram_{name}"] = buffer = io.Buffer("o", getattr(port, name))
            m.d.comb += buffer.o.eq(getattr(pins, name))
        m.submodules.sdram_dq = dq = io.Buffer("io", port.dq)
        m.d.comb += [dq.o.eq(pins.dq_o), dq.oe.eq(pins.dq_oe)]
        # Registers in the I/O cells: no time is left for wires.
        for bit in range(len(pins.dq_i)):
            m.submodules[f"sdram_dq_i{bit}"] = Instance(
                "IFS1P3DX", p_GSR="DISABLED", i_SCLK=ClockSignal(), i_SP=Const(1),
                i_CD=Const(0), i_D=dq.i[bit], o_Q=pins.dq_i[bit])
