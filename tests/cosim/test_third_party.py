"""Bus parts that others wrote drive a node, on both simulators: AXI4, AXI4-Lite and AXI4-Stream."""

import pytest

from t3hw.config import NodeConfig
from t3hw.cosim import simulators
from t3hw.generate import generate

#: As the files that the checks read. Credits for a whole packet, since the wire there keeps it.
CONFIGS = {
    "builtin": 'preset = "tiny"\nlink_credits = 8\ntiles = 8\ncommands = 8\n',
    "axi": 'preset = "tiny"\nlink_credits = 8\ntiles = 8\ncommands = 8\ndata_width = 64\n'
           'memory = "axi"\nmemory_bytes = 0\nmemory_outstanding = 8\n',
}


@pytest.fixture(scope="module", params=CONFIGS)
def node(request, tmp_path_factory):
    """Verilog of a node, and the file with its configuration."""
    directory = tmp_path_factory.mktemp(request.param)
    toml = directory / f"{request.param}.toml"
    toml.write_text(CONFIGS[request.param])
    verilog, _sidecar = generate(NodeConfig.from_toml(toml), directory)
    return verilog.read_text(), toml


@pytest.mark.parametrize("simulator", simulators.SIMULATORS)
def test_third_party_parts(node, simulator, tmp_path):
    text, toml = node
    build = simulators.build(simulator=simulator, sources={"t3_node.v": text}, top="t3_node")
    simulators.run(build, test_module="third_party_checks", directory=tmp_path, seconds=300,
                   environment={"CONFIG": str(toml)})
