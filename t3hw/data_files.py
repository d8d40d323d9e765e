"""Where the data of the experiments is, and TOML files that are read into checked dataclasses."""

import tomllib
from pathlib import Path

from .workloads.errors import InputError

__all__ = ["DATA", "check_fields", "read_toml"]

#: Models, machines, memories and published figures.
DATA = Path(__file__).parent / "sim"


def read_toml(path):
    """The content of a TOML file.

    Raises
    ------
    InputError
        If the file cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: {reason}") from None


def check_fields(where, given, known, optional=()):
    """Refuse a table that has a field too many or too few."""
    if not isinstance(given, dict):
        raise InputError(f"{where} must be a table, not {given!r}")
    for name in given:
        if name not in known:
            raise InputError(f"{where}: no field {name!r}; fields are {', '.join(known)}")
    for name in known:
        if name not in given and name not in optional:
            raise InputError(f"{where}: {name} is missing")
