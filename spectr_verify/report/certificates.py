"""Certificates of exact optima as files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spectr_verify.errors import InputError
from toy_models.files import replace_file

if TYPE_CHECKING:
    from spectr_verify.bounds.rational import Certificate


def write_certificates(folder: Path, certificates: Sequence[Certificate]) -> None:
    """Write ``PAIR.CLASS.json`` for each certificate, the folder too where it is missing.

    Raises:
        InputError: two would have one name, a certificate of another pair, L or K is there, or a file cannot be
            written.
    """
    paths = [folder / file_name(found) for found in certificates]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"two certificates would be written to {path}; give their pairs different names")
    for path, found in zip(paths, certificates, strict=True):
        if path.exists() and not _is_of(path, found):
            raise InputError(f"{path} is there already, of another pair, L or K; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, found in zip(paths, certificates, strict=True):
            replace_file(path.resolve(), json.dumps(found.to_json(), indent=1) + "\n")
    except OSError as error:
        raise InputError(f"{folder}: the certificates cannot be written: {error.strerror}") from error


def _is_of(path: Path, found: Certificate) -> bool:
    """Whether a file holds a certificate of the same optimum."""
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    new = found.to_json()
    return isinstance(there, dict) and all(there.get(part) == new[part] for part in ("pair", "length", "drafts"))


def file_name(found: Certificate) -> str:
    """The pair's name, with a hyphen for what a file name should not have, and the class."""
    name = re.sub(r"[^\w.]+", "-", found.pair.name).strip("-.") or "pair"
    return f"{name}.{found.kind}.json"
