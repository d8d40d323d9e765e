"""The cocotb test that `dram_bench` runs: it gives the clock until the bench is done."""

import json
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer

#: Where the test writes what the bench counted.
RESULT = "result.json"

#: What it counted: the bench's ports.
COUNTS = ("cycles", "accepted", "reads", "commits", "errors", "commands", "window_cycles",
          "window_responses")

_RESET_CYCLES = 8


@cocotb.test()
async def run(dut):
    """Reset the bench and wait for it; it limits itself by cycles."""
    dut.rst.value = 1
    Clock(dut.clk, 10, "step").start()
    await ClockCycles(dut.clk, _RESET_CYCLES)
    dut.rst.value = 0
    await RisingEdge(dut.done)
    await Timer(1, "step")
    Path(RESULT).write_text(json.dumps({name: int(getattr(dut, name).value) for name in COUNTS}))
