"""Cocotb tests for test_simulators.py: one ends well, one fails, one goes on for ever."""

import os
from pathlib import Path

import cocotb
from cocotb.triggers import Timer


@cocotb.test(skip="CHECK" not in os.environ)
async def check(dut):
    Path("process").write_text(str(os.getpid()))
    match os.environ["CHECK"]:
        case "pass":
            await Timer(10, "step")
        case "fail":
            raise AssertionError("this test fails")
        case "for ever":
            while True:
                await Timer(10, "step")
