"""The stand-in node as the bench wants it: Verilog text and a list of ports."""

import re
from pathlib import Path

from t3hw.config import NodeConfig

_TEXT = Path(__file__).with_name("standin_node.sv").read_text()
_PORT = re.compile(
    r"^    (input|output)\s+(?:wire|reg)\s+(?:\[([^:]+):0\])?\s*(\w+)(?=,|\n\))", re.M)


def standin(data_width=64):
    """The stand-in: its configuration, and Verilog and ports."""
    highest = {"DATA_WIDTH-1": data_width - 1, "DATA_WIDTH/8-1": data_width // 8 - 1}
    ports = [{"name": name, "direction": direction, "width": int(highest.get(high, high or 0)) + 1}
             for direction, high, name in _PORT.findall(_TEXT)]
    text = _TEXT.replace("DATA_WIDTH = 64", f"DATA_WIDTH = {data_width}")
    return NodeConfig(data_width=data_width, burst_beats=8), (text, ports)
