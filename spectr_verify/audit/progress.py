"""How long work says where it is."""

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with one line before every step that takes a while."""
