"""How a command ends: exit statuses, and what brings a verdict to them."""

from __future__ import annotations

STATUS_BIASED = 1

STATUS_REFUSED = 2

STATUS_UNDECIDED = 3

STATUS_BROKEN = 70

STATUS_INTERRUPTED = 130


class Ended(Exception):  # noqa: N818 - no error
    """A command that has told what it has, on its way to the exit status."""

    status: int


class Biased(Ended):
    """An audit's verdict, whose status nothing else may use."""

    status = STATUS_BIASED


class Undecided(Ended):
    """An audit that a bound ended."""

    status = STATUS_UNDECIDED


class Interrupted(Ended):
    """A run that was interrupted."""

    status = STATUS_INTERRUPTED
