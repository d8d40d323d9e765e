"""Generated Verilog begins with the same values in every simulator."""

import re
import subprocess

from amaranth import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from t3hw.config import NodeConfig
from t3hw.generate import to_verilog
from t3hw.hdl.node import Node

_BENCH = """
module bench;
    reg clk = 0, rst = 1, select = 0;
    wire chosen;
    top top (.clk(clk), .rst(rst), .select(select), .chosen(chosen));
    initial begin
        repeat (4) #1 clk = !clk;
        $display("chosen %b", chosen);
    end
endmodule
"""


class Choice(wiring.Component):
    """A combinational block that reads registers only, which keep their first values."""

    select: In(1)
    chosen: Out(1)

    def elaborate(self, platform):
        m = Module()
        place = Signal()
        registers = Array(Signal(name=f"register_{index}") for index in range(2))
        m.d.sync += place.eq(place + self.chosen)
        for register in registers:
            m.d.sync += register.eq(register | self.select)
        m.d.comb += self.chosen.eq(registers[place])
        return m


def test_a_block_whose_inputs_never_change_has_its_value_in_icarus(tmp_path):
    text = to_verilog(Choice(), "top")
    assert "always @*" in text
    (tmp_path / "top.v").write_text(text + _BENCH)
    subprocess.run(["iverilog", "-g2012", "-o", "bench", "-s", "bench", "top.v"],
                   cwd=tmp_path, check=True)
    done = subprocess.run(["vvp", "bench"], cwd=tmp_path, check=True, capture_output=True,
                          text=True)
    assert "chosen 0" in done.stdout


def test_no_block_of_a_node_is_without_a_start():
    """Yosys starts blocks of several statements, but not those of one: part of a signal, say."""
    text = to_verilog(Node(config=NodeConfig.preset("tiny")), "node")
    blocks = re.findall(r"always @\*( begin)?\n *(.*)", text)
    assert len(blocks) > 100
    assert all(begin and re.match(r"if \(\\\S+ \) begin end$", first) for begin, first in blocks)
