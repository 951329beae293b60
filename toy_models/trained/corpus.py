"""The text that the pair is trained on: the sources of Python's standard library, which every machine has."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Tests are long and repeat themselves; encodings and pydoc_data are tables.
LEFT_OUT = {"test", "tests", "idle_test", "encodings", "pydoc_data"}
HELD_OUT_ONE_IN = 16


@dataclass(frozen=True)
class Corpus:
    """Whole files, apart for training and for measuring. ``sha256`` is of the names and texts of all of them."""

    training: tuple[str, ...]
    held_out: tuple[str, ...]
    sha256: str


def standard_library(folder: Path | None = None) -> Corpus:
    """The standard library under ``folder``, by default that of the running Python.

    Which files are held out depends on their names alone, so it is nearly the same in every version of Python.

    Raises:
        FileNotFoundError: there are no sources (or so few that none is held out).
    """
    folder = Path(sysconfig.get_path("stdlib")) if folder is None else folder
    training: list[str] = []
    held_out: list[str] = []
    sha = hashlib.sha256()
    for name, path in _sources(folder):
        text = path.read_text(encoding="utf-8", errors="replace")
        sha.update(f"{name}\0{text}\0".encode())
        (held_out if _is_held_out(name) else training).append(text)
    if not training or not held_out:
        raise FileNotFoundError(
            f"{folder} has {len(training) + len(held_out)} sources of the standard library: too few"
        )
    return Corpus(tuple(training), tuple(held_out), sha.hexdigest())


def _sources(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of every source, in the order of their names."""
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    for name, path in sorted(names.items()):
        parts = path.relative_to(folder).with_suffix("").parts
        # Site packages and what a distribution or a build adds are no modules of the standard library.
        if parts[0] in sys.stdlib_module_names and LEFT_OUT.isdisjoint(parts):
            yield name, path


def _is_held_out(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT_ONE_IN == 0
