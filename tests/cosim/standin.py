"""The stand-in node as the bench wants it: Verilog text and a list of ports."""

import re
from pathlib import Path

from t3hw.config import NodeConfig

#: The widths that the stand-in has.
CONFIG = NodeConfig()

_TEXT = Path(__file__).with_name("standin_node.sv").read_text()
_PORT = re.compile(r"^    (input|output)\s+(?:wire|reg)\s+(?:\[(\d+):0\])?\s*(\w+)(?=,|\n\))", re.M)

NODE = (_TEXT, [{"name": name, "direction": direction, "width": int(high or 0) + 1}
                for direction, high, name in _PORT.findall(_TEXT)])
