"""The root of the package's refusals (``toy_models`` has its own, ``TableError``)."""


class InputError(ValueError):
    """Something given to the package cannot be used; the message says what, where, and what to do.

    A command prints it and ends with status 2. It never stands for a verdict.
    """
