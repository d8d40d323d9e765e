"""What producers do: GEMMs cut into tiles and stores, and operands to run them on."""

from .errors import InputError
from .operands import Operands, load_operands, random_operands

__all__ = ["InputError", "Operands", "load_operands", "random_operands"]
