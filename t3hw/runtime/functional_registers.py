"""Register block of the functional device: what answers, what is refused, what is locked."""

from t3hw.registers import (ENUMS, NO_COMMAND, REGISTERS, TABLES, absent_registers, capabilities,
                            decode_entry, decode_register, encode_register, field_limits,
                            register_limits, reset_values, table_sizes)

from .transport import BusError

__all__ = ["FunctionalRegisters"]


class FunctionalRegisters:
    """Registers and tables of a `FunctionalDevice`, ``node``, by their addresses in the map."""

    def __init__(self, config, node):
        self._node = node
        self._sizes = {table: min(size, TABLES[table].entries)
                       for table, size in table_sizes(config).items()}
        self._field_limits = field_limits(config)
        self._register_limits = register_limits(config)
        self._absent = absent_registers(config)
        self._constants = capabilities(config) | dict.fromkeys(self._absent, 0)
        self._places = {}
        for name, register in REGISTERS.items():
            count = config.plans if name.startswith("PLAN_STATUS") else register.count
            for index in range(count):
                self._places[register.offset + index * register.stride] = name, index
        self._words = {table: [[0] * TABLES[table].words for _ in range(size)]
                       for table, size in self._sizes.items()}
        self._entries = {}
        self._written = set()
        self._touch_beats = config.touch_beats
        self.values = {name: 0 if name in self._absent else register.reset or 0
                       for name, register in REGISTERS.items()}
        resets = reset_values(config)
        for name in {name for name, _ in resets}:
            self.values[name] = encode_register(name, **{
                field: resets[name, field] for field in REGISTERS[name].fields})

    def field(self, register, name):
        """A field of a register that can be written."""
        return decode_register(register, self.values[register])[name]

    def entry(self, table, index):
        """Fields of a table's entry, by name."""
        if (table, index) not in self._entries:
            self._entries[table, index] = decode_entry(table, self._words[table][index])
        return self._entries[table, index]

    def size(self, table):
        """Entries of a table."""
        return self._sizes[table]

    def read(self, address):
        """Word at an address."""
        name, index = self._places.get(address, (None, None))
        if name is None or REGISTERS[name].access == "wo":
            raise BusError("read", address)
        if name in self._constants:
            return self._constants[name]
        live = self._node.live_register(name, index)
        return self.values[name] if live is None else encode_register(name, **live)

    def write(self, address, value):
        """Write a word."""
        for name, table in TABLES.items():
            if table.base <= address < table.base + table.entries * table.stride:
                self._write_table(name, address, value)
                return
        name, _ = self._places.get(address, (None, None))
        if name is None or REGISTERS[name].access == "ro" or name in self._absent:
            raise BusError("write", address)
        fields = decode_register(name, value)
        for (register, field), limit in self._register_limits.items():
            if register == name and fields[field] > limit:
                raise BusError("write", address)
        word = encode_register(name, **fields)
        if REGISTERS[name].access == "w1c":
            self.values[name] &= ~word
        elif REGISTERS[name].access == "rw":
            self.values[name] = word
        self._node.register_written(name, fields)

    def _write_table(self, name, address, value):
        table = TABLES[name]
        index, offset = divmod(address - table.base, table.stride)
        word = offset // 4
        if index >= self._sizes[name] or offset % 4 or word >= table.words:
            raise BusError("write", address)
        words = list(self._words[name][index])
        words[word] = value
        fields = decode_entry(name, words)
        if name == "PLAN" and word == 0:
            self._control(index, fields, address)
            return
        if self._locked(name, index, fields if word == 0 else None):
            raise BusError("write", address)
        if name == "COMMAND" and word == 1 and \
                fields["first"] + fields["count_minus_1"] >= self._sizes["TILE"]:
            raise BusError("write", address)
        for field, place in table.fields.items():
            if not place.word <= word <= place.word + (place.low + place.width - 1) // 32:
                continue
            limit = self._field_limits.get((name, field))
            if (name, field) == ("TILE", "command") and fields[field] == NO_COMMAND:
                limit = None
            if limit is not None and fields[field] > limit:
                raise BusError("write", address)
        self._words[name][index] = words
        if word == 0:
            self._written.add((name, index))
        self._entries.pop((name, index), None)
        self._node.table_written(name)

    def _owned(self, plan):
        """What a plan owns: first and count by table, and the table's size."""
        entry = self.entry("PLAN", plan)
        return {"TILE": (entry["first_tile"], entry["tiles"], self._sizes["TILE"]),
                "COMMAND": (entry["first_command"], entry["commands"], self._sizes["COMMAND"]),
                "touch": (entry["first_touch"], entry["touch_beats"], self._touch_beats)}

    def _control(self, plan, fields, address):
        """Arm or clear a plan, unless it would harm another."""
        state = self._node.plans[plan]
        arm, clear = fields["arm"], fields["clear"]
        refused = arm and (clear or state.armed or state.clearing) or clear and state.clearing
        for name, (first, count, size) in self._owned(plan).items():
            refused |= count > 0 and first + count > size
            for other in self._node.plans.busy():
                start, length, _ = self._owned(other)[name]
                refused |= other != plan and count > 0 and length > 0 and \
                    first < start + length and start < first + count
        if refused and (arm or clear):
            raise BusError("write", address)
        if arm:
            self._node.plans.arm(plan)
        if clear:
            self._node.plans.clear(plan, 2 * fields["epoch_half"])

    def _locked(self, name, index, control):
        """Whether an entry belongs to a plan that is busy, or, by the new ``control``, would."""
        busy = self._node.plans.busy()
        if name == "PLAN":
            return index in busy
        if name in ("TILE", "COMMAND"):
            owned = [self._owned(plan)[name] for plan in busy]
            return any(0 <= index - first < count for first, count, _ in owned)
        entries = [self.entry(name, index)] if (name, index) in self._written else []
        entries += [] if control is None else [control]
        return any(entry["plan"] in busy
                   and (name == "ROUTE" or entry["enable"] and entry["tracked"])
                   for entry in entries)


def enum_name(enum, value):
    """Member of an enum of the map by its value."""
    return next((name for name, number in ENUMS[enum].items() if number == value), None)

