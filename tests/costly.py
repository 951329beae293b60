"""Rules that share scores out at every node: what the others do in a second takes them half a minute."""

from collections.abc import Iterable
from typing import Any

import pytest

COSTLY = ("ironed", "blended", "optimal-token")


def costly(names: Iterable[str]) -> list[Any]:
    """The names of rules as parameters, of which the costly ones are marked slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name.startswith(COSTLY) else name for name in names]
