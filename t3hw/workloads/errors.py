"""What is wrong with a user's input."""

__all__ = ["InputError"]


class InputError(ValueError):
    """An input that cannot be used; the message names the file, the value and what was expected."""
