"""The cocotb test that `session.RingSimulation` runs: it does the job in its directory."""

import os
import pickle
import traceback
from pathlib import Path

import cocotb
from cocotb.task import bridge
from cocotb.triggers import Timer

from .bench import CLOCK_PERIOD
from .session import JOB, RESET_CYCLES, RESULT, Session, SimulatorError


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
    await Timer(RESET_CYCLES * CLOCK_PERIOD, "step")
    dut.rst.value = 0
    # The bench has the reset in a register. Begin just after its clock's edge, as after each wait.
    await Timer(CLOCK_PERIOD // 2 + 1, "step")
    session = Session(dut, config, devices, cycles)
    try:
        result = (await bridge(function)(session, *arguments), None, None)
        pickle.dumps(result)
    except Exception as error:
        result = (None, _picklable(error), "in the simulation:\n" + traceback.format_exc())
    # The trace logs write whole bins.
    await Timer((trace_bin + 1) * CLOCK_PERIOD, "step")
    Path(f"{RESULT}.part").write_bytes(pickle.dumps(result))
    os.replace(f"{RESULT}.part", RESULT)
