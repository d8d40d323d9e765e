"""How unit tests run a design in Amaranth's simulator."""

from amaranth.sim import Simulator

__all__ = ["simulate"]


def simulate(dut, *benches, background=()):
    """Run until all benches have ended; those in ``background`` may go on for ever."""
    sim = Simulator(dut)
    sim.add_clock(10e-9)
    for bench in benches:
        sim.add_testbench(bench)
    for bench in background:
        sim.add_testbench(bench, background=True)
    sim.run()
