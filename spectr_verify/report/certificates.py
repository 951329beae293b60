"""Certificates of exact optima as files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spectr_verify.errors import InputError
from toy_models.files import replace_file

if TYPE_CHECKING:
    from spectr_verify.bounds.rational import Certificate


LONGEST = 80
"""Characters of a pair's name that go into the name of a file."""


def certificate_files(folder: Path, optima: Iterable[tuple[str, str]]) -> list[Path]:
    """Where the certificates of optima go, each the name of a pair and a class: ``PAIR.CLASS.json``.

    Raises:
        InputError: two would have one name.
    """
    paths = [folder / file_name(*optimum) for optimum in optima]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"two certificates would be written to {path}; give their pairs different names")
    return paths


def write_certificates(folder: Path, certificates: Sequence[Certificate]) -> None:
    """Write a file for each certificate, see ``certificate_files``, and the folder where it is missing.

    Raises:
        InputError: two would have one name, something else than a certificate of the same optimum is there, or a file
            cannot be written.
    """
    paths = certificate_files(folder, ((found.pair.name, found.kind) for found in certificates))
    try:
        for path, found in zip(paths, certificates, strict=True):
            if os.path.lexists(path) and not _is_of(path, found):
                raise InputError(f"{path} is there already, of another pair, L or K; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        for path, found in zip(paths, certificates, strict=True):
            replace_file(path, json.dumps(found.to_json(), indent=1) + "\n")
    except OSError as error:
        raise InputError(f"{folder}: the certificates cannot be written: {error.strerror}") from error


def _is_of(path: Path, found: Certificate) -> bool:
    """Whether a file holds a certificate of the same optimum and nothing that somebody added."""
    if not path.is_file():
        return False
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    new = found.to_json()
    same = ("schema", "class", "pair", "length", "drafts")
    return isinstance(there, dict) and there.keys() == new.keys() and all(there[part] == new[part] for part in same)


def file_name(pair: str, kind: str) -> str:
    """The pair's name, at most so long, with a hyphen for what a file name should not have, and the class."""
    name = re.sub(r"[^\w.]+", "-", pair)[:LONGEST].strip("-.") or "pair"
    return f"{name}.{kind}.json"
