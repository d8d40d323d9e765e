"""Drives the DRAM's command log, run by cocotb: the environment's STIMULUS has an entry a cycle."""

import json
import os

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge


@cocotb.test()
async def drive(dut):
    dut.rst.value = 1
    dut.row_valid.value = dut.column_valid.value = 1
    Clock(dut.clk, 10, "step").start()
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    for cycle, inputs in enumerate(json.loads(os.environ["STIMULUS"])):
        dut.cycle.value = cycle
        dut.row_valid.value = dut.column_valid.value = 0
        for name, value in inputs.items():
            getattr(dut, name).value = value
        await FallingEdge(dut.clk)
