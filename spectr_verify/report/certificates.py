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
        InputError: two would have one name, or a file cannot be written.
    """
    paths = [folder / file_name(found) for found in certificates]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"two certificates would be written to {path}; give their pairs different names")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, found in zip(paths, certificates, strict=True):
            replace_file(path.resolve(), json.dumps(found.to_json(), indent=1) + "\n")
    except OSError as error:
        raise InputError(f"{folder}: the certificates cannot be written: {error.strerror}") from error


def file_name(found: Certificate) -> str:
    """The pair's name, with a hyphen for what a file name should not have, and the class."""
    name = re.sub(r"[^\w.]+", "-", found.pair.name).strip("-.") or "pair"
    return f"{name}.{found.kind}.json"
