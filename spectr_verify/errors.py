"""The root of the package's refusals (``toy_models`` has its own, ``TableError``)."""


class InputError(ValueError):
    """Something given to the package cannot be used; the message says what, where, and what to do.

    A command prints it and ends with status 2. It never stands for a verdict.
    """


def said(error: BaseException) -> str:
    """What an exception of anybody's code says: its type and message, even where the message cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ is broken
        return type(error).__name__
