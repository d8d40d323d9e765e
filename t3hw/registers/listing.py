"""The register map as text: what `t3hw registers` prints."""

from t3hw.registers import ENUMS, MAP_HASH, REGISTERS, TABLES

__all__ = ["listing"]


def listing():
    """All registers with their fields, all tables with their words, and all encodings, as text."""
    lines = [f"Register map {MAP_HASH:08x}: AXI4-Lite, 32-bit words, byte addresses",
             "access: ro read only, rw read and write, wo write only, w1c write 1 to clear",
             "reset -: shows state, or depends on the node's configuration",
             "",
             "REGISTERS"]
    for name, register in REGISTERS.items():
        lines += ["", *_register(name, register)]
    lines += ["", "", "TABLES (write only)"]
    for name, table in TABLES.items():
        lines += ["", *_table(name, table)]
    lines += ["", "", "ENCODINGS"]
    for name, members in ENUMS.items():
        lines += ["", name, *(f"    {value:2}  {member}" for member, value in members.items())]
    return "\n".join(lines)


def _register(name, register):
    if register.count > 1:
        last = register.offset + (register.count - 1) * register.stride
        name += f"[{register.count}], to 0x{last:05x} in steps of 0x{register.stride:x}"
    yield f"0x{register.offset:05x}  {register.access:3}  {_reset(register, 8):10}  {name}"
    for key, field in sorted(register.fields.items(), key=lambda item: item[1].low):
        yield (f"    {_bits(field.low, field.width):>7}  {key}{_encoding(field)}"
               f"{_unlike(field, register)}")


def _table(name, table):
    last = table.base + (table.entries - 1) * table.stride
    yield (f"0x{table.base:05x}  {name}, at most {table.entries} entries, to 0x{last:05x} in steps "
           f"of 0x{table.stride:x}, {table.words} words each")
    for key, field in sorted(table.fields.items(), key=lambda item: item[1][:2]):
        words = f"word {field.word}"
        if field.low + field.width > 32:
            words = f"words {field.word}, {field.word + 1}"
        yield f"    {words:10} {_bits(field.low, field.width):>7}  {key}{_encoding(field)}"


def _reset(item, digits=1):
    return "-" if item.reset is None else f"0x{item.reset:0{digits}x}"


def _unlike(field, register):
    """The field's reset value, where the register's does not say it at a glance."""
    if len(register.fields) == 1 or field.reset in (None, 0):
        return ""
    return f", reset {_reset(field)}"


def _bits(low, width):
    return f"[{low + width - 1}:{low}]" if width > 1 else f"[{low}]"


def _encoding(field):
    return f": {field.enum}" if field.enum else ""
