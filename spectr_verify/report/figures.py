"""Figures, where matplotlib is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spectr_verify.errors import InputError, said
from toy_models.files import replacing

WITHOUT = 'plots need the package matplotlib: pip install -c constraints.txt ".[plot]" in the folder of spectr-verify'
"""What is said where matplotlib is missing."""


def figure_of(width: float, height: float) -> Any:
    """An empty figure, sizes in inches.

    Raises:
        InputError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(WITHOUT) from error
    return Figure(figsize=(width, height), layout="constrained")


def shown(name: str) -> str:
    """A name as matplotlib draws it: no mathematics between dollar signs, and nothing that no font can have."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8").replace("$", r"\$")


def saved(figure: Any, file: Path) -> None:
    """Write a figure in one step; the format by the name's ending.

    Raises:
        InputError: it cannot be written.
    """
    try:
        with replacing(file) as beside:
            figure.savefig(beside)
    except (ValueError, OSError) as error:
        raise InputError(f"{file} cannot be drawn: {said(error)}") from error
