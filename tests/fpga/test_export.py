"""Projects and packages for a vendor's tools: complete, and what the hardware's ports say."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
from stand_in import SmallCore

from t3hw.config import ConfigError, NodeConfig
from t3hw.fpga import top
from t3hw.fpga.boards import BoardDesign
from t3hw.fpga.ip_package import component_xml, export_ip, infer_interfaces
from t3hw.fpga.vivado import export_vivado
from t3hw.generate import sidecar
from t3hw.hdl.node import Node

S = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"


@pytest.mark.parametrize("name, part, pins", [
    ("arty-a7", "xc7a35ticsg324-1L", {"E3", "A9", "D10"}),
    ("kcu105", "xcku040-ffva1156-2-e", {"G10", "F10", "G25", "K26"}),
])
def test_a_vivado_project_is_whole(monkeypatch, tmp_path, name, part, pins):
    monkeypatch.setattr(top, "Board", SmallCore)
    design = BoardDesign.stock(name)
    files = {path.name: path.read_text() for path in export_vivado(design, tmp_path)}
    script = next(text for file, text in files.items() if file.endswith(".tcl"))
    assert f"-part {part}" in script
    # What the script adds is there, and its brackets close.
    for file in re.findall(r"add_files .*\$here (\S+)\]", script):
        assert file in files
    for opening, closing in ("{}", "[]"):
        assert script.count(opening) == script.count(closing)
    assert f"hash {design.hash:08x}" in script
    assert pins <= set(re.findall(r"set_property LOC (\w+)", files["top.xdc"]))
    period = re.search(r"create_clock .*-period ([\d.]+)", files["top.xdc"]).group(1)
    assert float(period) == pytest.approx(1e9 / design.clock_hz)
    ports = set(re.findall(r"get_ports \"?(\w+)", files["top.xdc"]))
    for port in ports:
        assert re.search(rf"(input|output|inout) (wire )?(\[\d+:0\] )?{port}\b", files["top.v"])
    assert json.loads(files[f"{name}.json"])["board_hash"] == f"{design.hash:08x}"


def test_only_xilinx_boards_are_exported(tmp_path):
    with pytest.raises(ConfigError, match="t3hw fpga build"):
        export_vivado(BoardDesign.stock("icebreaker"), tmp_path)


def package(memory):
    changes = {"memory": "axi", "memory_bytes": 0} if memory == "axi" else {}
    node = Node(config=NodeConfig.preset("tiny").replace(**changes))
    description = sidecar(node, "t3_node", node._config)
    return description, ET.fromstring(component_xml(description, ["t3_node.v"]))


def test_interfaces_are_inferred_from_port_names():
    description, _root = package("axi")
    found = {name: (item["kind"], item["master"], item["lite"])
             for name, item in infer_interfaces(description["ports"]).items()}
    assert found == {
        "s_axil": ("aximm", False, True), "s_axi": ("aximm", False, False),
        "m_axi": ("aximm", True, False), "link_tx": ("axis", True, False),
        "link_rx": ("axis", False, False)}


@pytest.mark.parametrize("memory", ["builtin", "axi"])
def test_the_package_is_what_its_standard_wants(memory):
    description, root = package(memory)
    ports = {port["name"]: port for port in description["ports"]}
    # Elements in the standard's order.
    order = ["vendor", "library", "name", "version", "busInterfaces", "addressSpaces", "memoryMaps",
             "model", "fileSets", "description"]
    found = [child.tag.removeprefix(S) for child in root]
    assert found == [name for name in order if name in found]
    assert ("addressSpaces" in found) == (memory == "axi")

    declared = {port.findtext(f"{S}name"): port for port in root.iter(f"{S}port")}
    assert set(declared) == set(ports)
    for name, port in declared.items():
        wire = port.find(f"{S}wire")
        assert wire.findtext(f"{S}direction") == ports[name]["direction"].removesuffix("put")
        assert int(wire.findtext(f"{S}vector/{S}left") or 0) + 1 == ports[name]["width"]

    spaces = {item.findtext(f"{S}name") for kind in ("addressSpace", "memoryMap")
              for item in root.iter(f"{S}{kind}")}
    mapped = []
    interfaces = {item.findtext(f"{S}name"): item for item in root.iter(f"{S}busInterface")}
    for interface in interfaces.values():
        roles = [role for role in ("master", "slave") if interface.find(f"{S}{role}") is not None]
        assert len(roles) == 1
        for reference in interface.find(f"{S}{roles[0]}"):
            assert set(reference.attrib.values()) <= spaces
        maps = interface.findall(f"{S}portMaps/{S}portMap")
        assert maps
        for entry in maps:
            physical = entry.findtext(f"{S}physicalPort/{S}name")
            assert physical in ports
            mapped.append(physical)
    assert len(mapped) == len(set(mapped)), "a port in two interfaces"
    # All but what no interface has.
    assert {name for name in set(ports) - set(mapped)
            if not name.startswith("trace_")} == {"link_tx_credit", "link_rx_credit"}
    parameters = {item.findtext(f"{S}name"): item.findtext(f"{S}value")
                  for item in interfaces["clk"].iter(f"{S}parameter")}
    assert set(parameters["ASSOCIATED_BUSIF"].split(":")) == set(interfaces) - {"clk", "rst", "irq"}
    assert parameters["ASSOCIATED_RESET"] == "rst"
    views = [view.findtext(f"{S}fileSetRef/{S}localName") for view in root.iter(f"{S}view")]
    assert set(views) == {item.findtext(f"{S}name") for item in root.iter(f"{S}fileSet")}


def test_the_package_has_its_verilog(tmp_path):
    design = BoardDesign.stock("icebreaker")
    files = export_ip(design, tmp_path)
    root = ET.parse(tmp_path / "component.xml").getroot()
    (file,) = root.iter(f"{S}file")
    verilog = tmp_path / file.findtext(f"{S}name")
    assert set(files) == {verilog, tmp_path / "component.xml"}
    assert f"module {root.findtext(f'{S}name')}(" in verilog.read_text()
