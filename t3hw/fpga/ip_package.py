"""A node as an IP package (IP-XACT, as Vivado reads it),
its AXI interfaces inferred from port names."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from .. import __version__
from ..generate import sidecar, to_verilog
from ..hdl.node import Node

__all__ = ["component_xml", "export_ip", "infer_interfaces"]

_SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_XILINX = "http://www.xilinx.com"

#: Names of AXI4's signals without the channel's letters, by channel; what AXI4-Lite has too.
_ADDRESS = "ADDR PROT VALID READY"
_ADDRESS_FULL = "ID LEN SIZE BURST LOCK CACHE QOS REGION USER"
_CHANNELS = {
    "AW": (_ADDRESS, _ADDRESS_FULL), "AR": (_ADDRESS, _ADDRESS_FULL),
    "W": ("DATA STRB VALID READY", "LAST USER"),
    "B": ("RESP VALID READY", "ID USER"),
    "R": ("DATA RESP VALID READY", "ID LAST USER"),
}
_LITE = {channel + name for channel, (lite, _full) in _CHANNELS.items() for name in lite.split()}
_FULL = _LITE | {channel + name for channel, (_lite, full) in _CHANNELS.items()
                 for name in full.split()}
_STREAM = {"TDATA", "TKEEP", "TSTRB", "TLAST", "TVALID", "TREADY", "TID", "TDEST", "TUSER"}
#: What an interface must have to be one.
_NEEDED = {"aximm": _LITE - {"AWPROT", "ARPROT"}, "axis": {"TDATA", "TVALID", "TREADY"}}


def infer_interfaces(ports):
    """Bus interfaces among ports, by prefix.

    Parameters
    ----------
    ports : list of dict
        ``name``, ``direction`` and ``width`` of each.

    Returns
    -------
    dict
        By name: ``kind`` (``"aximm"`` or ``"axis"``), ``master``, ``lite``, and ``ports``: name by
        the signal's name in the standard.
    """
    groups = {}
    for port in ports:
        prefix, _, name = port["name"].rpartition("_")
        if prefix and (name.upper() in _FULL or name.upper() in _STREAM):
            groups.setdefault(prefix, {})[name.upper()] = port
    found = {}
    for prefix, group in groups.items():
        for kind, needed in _NEEDED.items():
            if needed <= set(group):
                valid = group["AWVALID" if kind == "aximm" else "TVALID"]
                found[prefix] = {
                    "kind": kind, "master": valid["direction"] == "output",
                    "lite": kind == "aximm" and set(group) <= _LITE,
                    "ports": {signal: port["name"] for signal, port in group.items()}}
    return found


def _spirit(parent, tag, text=None, /, **attributes):
    element = ET.SubElement(parent, f"{{{_SPIRIT}}}{tag}",
                            {f"{{{_SPIRIT}}}{key}": value for key, value in attributes.items()})
    if text is not None:
        element.text = str(text)
    return element


def _vlnv(parent, tag, vlnv):
    vendor, library, name, version = vlnv.split(":")
    _spirit(parent, tag, vendor=vendor, library=library, name=name, version=version)


def _parameter(parent, owner, name, value):
    parameter = _spirit(parent, "parameter")
    _spirit(parameter, "name", name)
    _spirit(parameter, "value", value, id=f"BUSIFPARAM_VALUE.{owner.upper()}.{name}")


def _port_maps(interface, ports):
    maps = _spirit(interface, "portMaps")
    for logical, physical in ports.items():
        entry = _spirit(maps, "portMap")
        _spirit(_spirit(entry, "logicalPort"), "name", logical)
        _spirit(_spirit(entry, "physicalPort"), "name", physical)


def _interface(parent, name, bus, ports, *, master, reference=None, parameters=()):
    interface = _spirit(parent, "busInterface")
    _spirit(interface, "name", name)
    library = "interface" if bus in ("aximm", "axis") else "signal"
    _vlnv(interface, "busType", f"xilinx.com:{library}:{bus}:1.0")
    _vlnv(interface, "abstractionType", f"xilinx.com:{library}:{bus}_rtl:1.0")
    role = _spirit(interface, "master" if master else "slave")
    if reference:
        tag, target = reference
        key = "memoryMapRef" if tag == "memoryMaps" else "addressSpaceRef"
        _spirit(role, key, **{key: target})
    _port_maps(interface, ports)
    if parameters:
        owner = _spirit(interface, "parameters")
        for key, value in parameters:
            _parameter(owner, name, key, value)
    return interface


def component_xml(description, files):
    """The package's description.

    Parameters
    ----------
    description : dict
        A sidecar of `t3hw.generate`.
    files : list of str
        Verilog, relative to the package.

    Returns
    -------
    str
        XML.
    """
    ET.register_namespace("spirit", _SPIRIT)
    ET.register_namespace("xilinx", _XILINX)
    ports = description["ports"]
    interfaces = infer_interfaces(ports)
    width = {port["name"]: port["width"] for port in ports}
    root = ET.Element(f"{{{_SPIRIT}}}component")
    _spirit(root, "vendor", "t3hw")
    _spirit(root, "library", "t3")
    _spirit(root, "name", description["module"])
    _spirit(root, "version", ".".join(__version__.split(".")[:2]))

    buses = _spirit(root, "busInterfaces")
    spaces, maps = [], []
    for name, found in interfaces.items():
        reference = None
        if found["kind"] == "aximm":
            chosen, tag = (spaces, "addressSpaces") if found["master"] else (maps, "memoryMaps")
            chosen.append((name, width[found["ports"]["AWADDR"]]))
            reference = (tag, name)
        parameters = [("PROTOCOL", "AXI4LITE" if found["lite"] else "AXI4")] if reference else ()
        _interface(buses, name, found["kind"], found["ports"], master=found["master"],
                   reference=reference, parameters=parameters)
    _interface(buses, "clk", "clock", {"CLK": "clk"}, master=False, parameters=[
        ("ASSOCIATED_BUSIF", ":".join(interfaces)), ("ASSOCIATED_RESET", "rst")])
    _interface(buses, "rst", "reset", {"RST": "rst"}, master=False,
               parameters=[("POLARITY", "ACTIVE_HIGH")])
    if "irq" in width:
        _interface(buses, "irq", "interrupt", {"INTERRUPT": "irq"}, master=True,
                   parameters=[("SENSITIVITY", "LEVEL_HIGH")])

    if spaces:
        parent = _spirit(root, "addressSpaces")
        for name, bits in spaces:
            space = _spirit(parent, "addressSpace")
            _spirit(space, "name", name)
            _spirit(space, "range", 1 << bits)
            _spirit(space, "width", width[interfaces[name]["ports"]["WDATA"]])
    if maps:
        parent = _spirit(root, "memoryMaps")
        for name, bits in maps:
            memory_map = _spirit(parent, "memoryMap")
            _spirit(memory_map, "name", name)
            block = _spirit(memory_map, "addressBlock")
            _spirit(block, "name", "registers" if interfaces[name]["lite"] else "memory")
            _spirit(block, "baseAddress", 0)
            _spirit(block, "range", 1 << bits)
            _spirit(block, "width", width[interfaces[name]["ports"]["WDATA"]])
            _spirit(block, "usage", "register" if interfaces[name]["lite"] else "memory")

    model = _spirit(root, "model")
    views = _spirit(model, "views")
    for view, environment in (("xilinx_anylanguagesynthesis", ":vivado.xilinx.com:synthesis"),
                              ("xilinx_anylanguagebehavioralsimulation",
                               ":vivado.xilinx.com:simulation")):
        entry = _spirit(views, "view")
        _spirit(entry, "name", view)
        _spirit(entry, "envIdentifier", environment)
        _spirit(entry, "language", "Verilog")
        _spirit(entry, "modelName", description["module"])
        _spirit(_spirit(entry, "fileSetRef"), "localName", "verilog")
    parent = _spirit(model, "ports")
    for port in ports:
        entry = _spirit(parent, "port")
        _spirit(entry, "name", port["name"])
        wire = _spirit(entry, "wire")
        _spirit(wire, "direction", {"input": "in", "output": "out"}[port["direction"]])
        if port["width"] > 1:
            vector = _spirit(wire, "vector")
            _spirit(vector, "left", port["width"] - 1)
            _spirit(vector, "right", 0)

    file_set = _spirit(_spirit(root, "fileSets"), "fileSet")
    _spirit(file_set, "name", "verilog")
    for name in files:
        entry = _spirit(file_set, "file")
        _spirit(entry, "name", name)
        _spirit(entry, "fileType", "verilogSource")
    _spirit(root, "description", "A node of t3hw: tracker, trigger, DMA and near-memory compute; "
            f"configuration {description['config_hash']}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def export_ip(design, folder):
    """Write a board's node as an IP package: ``component.xml`` and its Verilog.

    Parameters
    ----------
    design : BoardDesign
        Whose node.
    folder : path-like
        Where; made if it is not there. Add it to Vivado's IP repositories.

    Returns
    -------
    list of Path
        The files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = "t3_node_" + re.sub(r"\W", "_", design.name)
    node = Node(config=design.node)
    description = sidecar(node, name, design.node)
    files = {f"{name}.v": to_verilog(node, name),
             "component.xml": component_xml(description, [f"{name}.v"])}
    for file, content in files.items():
        (folder / file).write_text(content)
    return [folder / file for file in files]
