"""The synthesized node: how its memories are mapped, no X after reset,
and the ring test with it."""

import functools
import re
import subprocess

from t3hw.cosim.session import RingSimulation
from t3hw.fpga.gate_level import GATE_NODE, check_ring, netlist

#: Few-bit queues and tables of few entries, for which a LUT RAM would be larger.
SMALL_ENOUGH_FOR_FLIP_FLOPS = {
    "producer.reads.answers.storage", "front_end.outcomes.storage", "registers.guard.owners_route",
    "ingress.address_map.mode_0", "producer.address_map.mode_0"}

_BENCH = """
module bench;
    reg clk = 0, rst = 1;
{declarations}
    t3_node node (.clk(clk), .rst(rst){connections});
    integer edges;
    initial begin
        for (edges = 0; edges < 40; edges = edges + 1) begin
            #1 clk = 1;
            #1 clk = 0;
            if (edges == 7) rst = 0;
{checks}
            #1;
        end
        $display("checked %0d edges", edges);
        $finish;
    end
endmodule
"""


@functools.cache
def gate_node():
    return netlist(GATE_NODE)


def test_resets_of_block_ram_are_constant():
    made = gate_node()
    assert len(made.block_rams) == made.cells["DP16KD"] > 4
    assert all("RSTA" in ports and "RSTB" in ports for ports in made.block_rams.values())
    assert made.driven_resets() == []


def test_memories_stay_memories():
    made = gate_node()
    spread = {name for name, cell in made.memories.items() if cell == "flip-flops"}
    assert spread <= SMALL_ENOUGH_FOR_FLIP_FLOPS
    assert {"$__PDPW16KD_", "$__DP16KD_", "$__TRELLIS_DPR16X4_"} <= set(made.memories.values())
    # A memory's mapping adds the read registers of LUT RAMs, and nothing that grows with its depth.
    assert made.registers < made.cells["TRELLIS_FF"] < 1.15 * made.registers


def test_a_driven_reset_is_found():
    made = gate_node()
    name, ports = next(iter(made.block_rams.items()))
    made.block_rams[name] = ports | {"RSTB": "some_signal"}
    try:
        assert made.driven_resets() == [name]
    finally:
        made.block_rams[name] = ports


def test_no_output_is_unknown_from_the_first_edge_on(tmp_path):
    text, ports = gate_node().node("ecp5")
    ports = [port for port in ports if port["name"] not in ("clk", "rst")]
    outputs = [port["name"] for port in ports if port["direction"] == "output"]
    (tmp_path / "node.v").write_text(text)
    (tmp_path / "bench.v").write_text(_BENCH.format(
        declarations="\n".join(
            f"    {'reg' if port['direction'] == 'input' else 'wire'} [{port['width'] - 1}:0] "
            f"{port['name']}{' = 0' if port['direction'] == 'input' else ''};" for port in ports),
        connections="".join(f", .{port['name']}({port['name']})" for port in ports),
        checks="\n".join(f'            if (^{name} === 1\'bx) '
                         f'$display("%0d: {name} is %b", edges, {name});'
                         for name in outputs)))
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", "bench", "bench.v", "node.v"],
                   cwd=tmp_path, check=True)
    output = subprocess.run(["vvp", "-n", "bench"], cwd=tmp_path, check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    assert re.fullmatch(r"checked 40 edges\n", output), output


def test_a_ring_of_netlists_gives_the_same_bits_in_the_same_cycles():
    before = check_ring(RingSimulation(GATE_NODE, 2))
    after = check_ring(RingSimulation(GATE_NODE, 2, node=gate_node().node("generic")))
    assert (after.start, after.done, after.counters) == (before.start, before.done, before.counters)
