"""Named fields of a register map into words, and back."""

__all__ = ["RegisterError", "RegisterMap"]


class RegisterError(ValueError):
    """A name that the map does not have or a value that does not fit; the message quotes both."""


def _look_up(kind, known, name):
    if name not in known:
        raise RegisterError(f"no {kind} {name!r}; there are {', '.join(known)}")
    return known[name]


class RegisterMap:
    """What software needs of a register map.

    Parameters
    ----------
    registers, tables, enums : dict
        As in a derived map.
    """

    def __init__(self, *, registers, tables, enums):
        self._registers = registers
        self._tables = tables
        self._enums = enums

    def _number(self, where, value, field, limit=None):
        """``value`` as an integer that fits; a string is a member of the field's enum."""
        if isinstance(value, str):
            if field.enum is None:
                raise RegisterError(f"{where} takes a number, not {value!r}")
            return _look_up(f"value of {where}", self._enums[field.enum], value)
        number = getattr(value, "value", value)
        try:
            number = number.__index__()
        except AttributeError:
            raise RegisterError(f"{where} takes an integer, not {value!r}") from None
        largest = (1 << field.width) - 1
        if limit is not None:
            largest = min(largest, limit)
        if not 0 <= number <= largest:
            raise RegisterError(f"{where} must be from 0 to {largest}, not {number}")
        return number

    def register_address(self, name, index=0):
        """Byte address of a register; ``index`` for one that is an array."""
        register = _look_up("register", self._registers, name)
        if not 0 <= index < register.count:
            raise RegisterError(
                f"index of {name} must be from 0 to {register.count - 1}, not {index}")
        return register.offset + index * register.stride

    def entry_address(self, table, entry, word=0):
        """Byte address of a word of a table's entry."""
        layout = _look_up("table", self._tables, table)
        if not 0 <= entry < layout.entries:
            raise RegisterError(
                f"entry of {table} must be from 0 to {layout.entries - 1}, not {entry}")
        if not 0 <= word < layout.words:
            raise RegisterError(
                f"word of {table} must be from 0 to {layout.words - 1}, not {word}")
        return layout.base + entry * layout.stride + 4 * word

    def encode_register(self, name, **fields):
        """Word of a register from its fields; those that are not given are 0.

        Raises
        ------
        RegisterError
            If the register or a field does not exist, or a value does not fit.
        """
        register = _look_up("register", self._registers, name)
        word = 0
        for key, value in fields.items():
            field = _look_up(f"field in {name}:", register.fields, key)
            word |= self._number(f"{name}.{key}", value, field) << field.low
        return word

    def decode_register(self, name, word):
        """Fields of a register's word, as integers by name."""
        register = _look_up("register", self._registers, name)
        return {key: word >> field.low & (1 << field.width) - 1
                for key, field in register.fields.items()}

    def encode_entry(self, table, limits=None, /, **fields):
        """Words of a table's entry from its fields; those that are not given are 0.

        ``limits`` has largest values by (table, field), where a node limits them.

        Raises
        ------
        RegisterError
            If the table or a field does not exist, or a value does not fit.
        """
        layout = _look_up("table", self._tables, table)
        entry = 0
        for key, value in fields.items():
            field = _look_up(f"field in {table}:", layout.fields, key)
            number = self._number(f"{table}.{key}", value, field, (limits or {}).get((table, key)))
            entry |= number << 32 * field.word + field.low
        return [entry >> 32 * word & 0xFFFFFFFF for word in range(layout.words)]

    def decode_entry(self, table, words):
        """Fields of a table's entry, as integers by name."""
        layout = _look_up("table", self._tables, table)
        if len(words) != layout.words:
            raise RegisterError(f"an entry of {table} has {layout.words} words, not {len(words)}")
        entry = sum(word << 32 * index for index, word in enumerate(words))
        return {key: entry >> 32 * field.word + field.low & (1 << field.width) - 1
                for key, field in layout.fields.items()}
