"""The cocotb test that `session.RingSimulation` runs: it does the job in its directory."""

import os
import pickle
import traceback
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.task import bridge
from cocotb.triggers import ClockCycles

from .session import CLOCK_PERIOD, JOB, RESET_CYCLES, RESULT, Session, SimulatorError


def _picklable(error):
    """The exception itself, or one that says the same where it cannot travel to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return SimulatorError(f"{type(error).__name__}: {error}")
    return error


@cocotb.test()
async def do_job(dut):
    """Reset the bench, run the job's function, and write what came of it."""
    function, arguments, config, devices, cycles, trace_bin = pickle.loads(Path(JOB).read_bytes())
    dut.alarm.value = cycles
    for device in range(devices):
        getattr(dut, f"node{device}_command").value = 0
        getattr(dut, f"node{device}_start").value = 0
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_PERIOD, "step").start()
    await ClockCycles(dut.clk, RESET_CYCLES)
    dut.rst.value = 0
    session = Session(dut, config, devices, cycles)
    try:
        result = (await bridge(function)(session, *arguments), None, None)
        pickle.dumps(result)
    except Exception as error:
        result = (None, _picklable(error), "in the simulation:\n" + traceback.format_exc())
    # The trace logs write whole bins.
    await ClockCycles(dut.clk, trace_bin + 1)
    Path(f"{RESULT}.part").write_bytes(pickle.dumps(result))
    os.replace(f"{RESULT}.part", RESULT)
