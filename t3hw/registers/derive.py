"""Derive all that follows from the register descriptions
``t3.rdl``, ``traffic.rdl``, ``board.rdl``.

``python -m t3hw.registers.derive`` writes the Python maps, the C headers and the HTML manual;
``--check`` writes nothing and fails if one of them is not what it would write.
"""

import argparse
import hashlib
import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from t3hw.registers.description import Counter, Field, Register, Table, TableField

__all__ = ["Description", "NODE", "TRAFFIC", "BOARD", "ALL", "load", "map_hash", "derive", "check",
           "main"]


class Description(NamedTuple):
    """A register description, and what is derived from it alone."""

    source: Path
    map: Path
    header: Path


#: A node, and the traffic engines beside it.
NODE = Description(Path(__file__).with_name("t3.rdl"), Path("t3hw/registers/map.py"),
                   Path("rtl/t3_registers.h"))
TRAFFIC = Description(Path(__file__).with_name("traffic.rdl"),
                      Path("t3hw/registers/traffic_map.py"),
                      Path("rtl/t3_traffic_registers.h"))
#: A design for a board, around its nodes.
BOARD = Description(Path(__file__).with_name("board.rdl"), Path("t3hw/registers/board_map.py"),
                    Path("rtl/t3_board_registers.h"))
ALL = (NODE, TRAFFIC, BOARD)
ROOT = Path(__file__).resolve().parents[2]
#: The manual has all.
MANUAL = Path("docs/registers")


def _compile(description):
    from systemrdl import RDLCompiler
    compiler = RDLCompiler()
    compiler.compile_file(str(description.source))
    return compiler.elaborate().top


def _access(field):
    if field.get_property("onwrite") is not None:
        return field.get_property("onwrite").name.replace("woclr", "w1c")
    return {"r": "ro", "w": "wo", "rw": "rw"}[field.get_property("sw").name]


def _enum(field, enums):
    """Name of the field's enum, which is noted in ``enums``."""
    encoding = field.get_property("encode")
    if encoding is None:
        return None
    name = encoding.type_name.removesuffix("_e")
    enums[name] = {member.name: member.value for member in encoding}
    return name


def _register(node, enums, count=1, stride=0):
    fields = {}
    for field in node.fields():
        fields[field.inst_name] = Field(field.low, field.width, _access(field),
                                        field.get_property("reset"), _enum(field, enums))
    accesses = {field.access for field in fields.values()}
    if len(accesses) != 1 or node.get_property("regwidth") != 32:
        raise ValueError(f"{node.get_path()}: a register has 32 bits and one kind of access, "
                         f"not {node.get_property('regwidth')} bits and {sorted(accesses)}")
    resets = [field.reset for field in fields.values()]
    reset = None if None in resets else sum(
        field.reset << field.low for field in fields.values())
    return Register(node.raw_absolute_address if count == 1 else
                    node.parent.raw_absolute_address + node.raw_address_offset,
                    accesses.pop(), reset, fields, count, stride)


def _table(node, enums):
    fields = {}
    registers = list(node.registers())
    for word, register in enumerate(registers):
        if register.raw_address_offset != 4 * word:
            raise ValueError(f"{register.get_path()} must be at offset {4 * word}, "
                             f"not {register.raw_address_offset}")
        for field in register.fields():
            name = field.inst_name
            if register.inst_name.endswith("_HI") and name in fields:
                low_half = fields[name]
                fields[name] = low_half._replace(width=low_half.width + field.width)
            elif name in fields:
                raise ValueError(f"{field.get_path()}: the name is taken in this table")
            else:
                fields[name] = TableField(word, field.low, field.width, _enum(field, enums))
    return Table(node.raw_absolute_address, node.array_stride, len(registers),
                 node.array_dimensions[0], fields)


def load(description=NODE):
    """Read a description.

    Returns
    -------
    dict
        ``REGISTERS``, ``COUNTERS``, ``TABLES`` and ``ENUMS``, as in `t3hw.registers.map`.
    """
    from systemrdl.node import RegfileNode, RegNode
    registers, counters, tables, enums = {}, [], {}, {}
    for node in _compile(description).children(unroll=False):
        name = node.inst_name
        if isinstance(node, RegNode):
            registers[name] = _register(node, enums)
            if node.type_name.startswith("counter32"):
                counters.append(Counter(name, node.absolute_address, 32))
        elif isinstance(node, RegfileNode) and node.external:
            tables[name] = _table(node, enums)
        elif isinstance(node, RegfileNode):
            array = (node.array_dimensions[0], node.array_stride) if node.is_array else ()
            for register in node.registers():
                registers[f"{name}_{register.inst_name}"] = _register(register, enums, *array)
            if node.type_name.startswith("counter64"):
                counters.append(Counter(name, node.absolute_address, 64))
        else:
            raise ValueError(f"{node.get_path()}: a {type(node).__name__} has no place in this map")
    return {"REGISTERS": registers, "COUNTERS": counters, "TABLES": tables, "ENUMS": enums}


def map_hash(content):
    """32-bit hash of a map as `load` returns it: changes with names, places and encodings."""
    digest = hashlib.sha256(repr(content).encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _map_text(content, source):
    def number(value):
        return "None" if value is None else f"{value:#x}" if value > 9 else str(value)

    def quoted(text):
        return f'"{text}"'

    def fields_text(fields, indent):
        lines = []
        for name, field in fields.items():
            values = [str(field.width) if key == "width" else
                      quoted(value) if key in ("access", "enum") else
                      number(value) if key == "reset" else str(value)
                      for key, value in zip(field._fields, field)]
            if field.enum is None:
                values.pop()
            lines.append(f"{indent}{quoted(name)}: {type(field).__name__}({', '.join(values)}),\n")
        return "".join(lines)

    # Not all maps have counters and tables.
    types = [kind for kind, used in (("Counter", content["COUNTERS"]), ("Field", True),
                                     ("Register", True), ("Table", content["TABLES"]),
                                     ("TableField", content["TABLES"])) if used]
    parts = [f'"""Register map. Derived from {source.name} by `python -m t3hw.registers.derive`; '
             'do not edit."""\n\n'
             f"from t3hw.registers.description import {', '.join(types)}\n\n"
             '__all__ = ["MAP_HASH", "ENUMS", "REGISTERS", "COUNTERS", "TABLES"]\n\n'
             "#: 32-bit hash of this map, readable in the register MAP_HASH.\n"
             f"MAP_HASH = {map_hash(content):#010x}\n\n"
             "#: Encodings of fields: name, value by name.\n"
             "ENUMS = {\n"]
    for name, members in content["ENUMS"].items():
        parts.append(f"    {quoted(name)}: {{\n")
        parts += [f"        {quoted(member)}: {value},\n" for member, value in members.items()]
        parts.append("    },\n")
    parts.append("}\n\n#: Registers by name.\nREGISTERS = {\n")
    for name, register in content["REGISTERS"].items():
        parts.append(f"    {quoted(name)}: Register({register.offset:#05x}, "
                     f"{quoted(register.access)}, {number(register.reset)}, {{\n")
        parts.append(fields_text(register.fields, " " * 8))
        array = f", {register.count}, {register.stride}" if register.stride else ""
        parts.append(f"    }}{array}),\n")
    parts.append("}\n\n#: Counters in the order of their addresses.\nCOUNTERS = [\n")
    parts += [f"    Counter({quoted(counter.name)}, {counter.offset:#05x}, {counter.width}),\n"
              for counter in content["COUNTERS"]]
    parts.append("]\n\n#: Tables by name.\nTABLES = {\n")
    for name, table in content["TABLES"].items():
        parts.append(f"    {quoted(name)}: Table({table.base:#x}, {table.stride}, {table.words}, "
                     f"{table.entries}, {{\n")
        parts.append(fields_text(table.fields, " " * 8))
        parts.append("    }),\n")
    parts.append("}\n")
    return "".join(parts)


def _write_header(top, path, hash_):
    from peakrdl_cheader.exporter import CHeaderExporter
    CHeaderExporter().export(top, str(path))
    text = path.read_text()
    define = ("// Hash of this map; the register MAP_HASH of a matching node reads the same.\n"
              f"#define {top.inst_name.upper()}_MAP_HASH {hash_:#010x}u\n\n")
    path.write_text(text.replace("// reg - ", define + "// reg - ", 1))


def _write_manual(tops, path, hash_):
    from peakrdl_html import HTMLExporter
    HTMLExporter().export(tops, str(path), title="t3hw registers")
    # Icons stay; text fonts fall back to the reader's own. Nothing is loaded from other hosts.
    for font in path.glob("fonts/**/*"):
        if font.is_file() and not (font.parent.name == "FontAwesome" and font.suffix == ".woff2"):
            font.unlink()
    for left in [*path.glob("launcher-*"), *path.glob(".launcher_data/**/*")]:
        if left.is_file():
            left.unlink()
    for folder in sorted(path.glob("**/*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    index = path / "index.html"
    text = index.read_text()
    text = re.sub(r" *<script [^>]*(cdn\.|x-mathjax).*?</script>\n", "", text, flags=re.DOTALL)
    text = text.replace("var BUILD_TS", "var MathJax = {Hub: {Queue: function () {}}};\n"
                        "        var BUILD_TS")
    # The time of the build serves only to outdate a browser's cache; the map's hash does it better.
    stamp = re.search(r"BUILD_TS = (\d+)", text).group(1)
    index.write_text(text.replace(stamp, str(hash_)))


def derive(root=ROOT):
    """Write everything below ``root``."""
    root = Path(root)
    tops, hashes = [], []
    for description in ALL:
        content = load(description)
        top = _compile(description)
        for path in (description.map, description.header):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / description.map).write_text(_map_text(content, description.source))
        _write_header(top, root / description.header, map_hash(content))
        tops.append(top)
        hashes.append(map_hash(content))
    (root / MANUAL).mkdir(parents=True, exist_ok=True)
    for old in sorted((root / MANUAL).glob("**/*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    _write_manual(tops, root / MANUAL, map_hash(hashes))


def check(root=ROOT):
    """Names of the derived files that are not what `derive` would write."""
    root = Path(root)
    with tempfile.TemporaryDirectory() as folder:
        derive(folder)
        wanted = {path.relative_to(folder): path.read_bytes()
                  for path in Path(folder).glob("**/*") if path.is_file()}
    derived = [root / path for description in ALL
               for path in (description.map, description.header)]
    found = {path.relative_to(root): path.read_bytes()
             for path in [*derived, *(root / MANUAL).glob("**/*")] if path.is_file()}
    return sorted(str(path) for path in wanted.keys() | found.keys()
                  if wanted.get(path) != found.get(path))


def main(arguments=None):
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m t3hw.registers.derive", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only fail if a file is out of date")
    options = parser.parse_args(arguments)
    if not options.check:
        derive()
        return 0
    drifted = check()
    for path in drifted:
        print(f"{path} is not what the descriptions say; run python -m t3hw.registers.derive",
              file=sys.stderr)
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main())
