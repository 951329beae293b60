"""How a command ends: exit statuses, and what brings a verdict to them."""

from __future__ import annotations

STATUS_BIASED = 1

STATUS_REFUSED = 2

STATUS_UNDECIDED = 3

STATUS_BROKEN = 70

STATUS_INTERRUPTED = 130


class Biased(Exception):  # noqa: N818 - a verdict, not an error
    """An audit's verdict on its way to the exit status, which nothing else may use."""


class Undecided(Exception):  # noqa: N818 - no verdict, and no error
    """An audit that a bound ended, on its way to the exit status."""


class Interrupted(Exception):  # noqa: N818 - asked for by the user
    """A run that was interrupted and has told what it has, on its way to the exit status."""
