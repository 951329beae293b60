"""What counted: digests of the code, which tell the cells of a log from others of the same name, and versions."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import platform
import secrets
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path

import torch

import toy_models
from spectr_verify import __version__
from spectr_verify.rules import RULES, Rule

PACKAGE = Path(__file__).parents[1]

COUNTING = [
    *(PACKAGE / name for name in ("chance.py", "rounds.py", "rules", "decoding", "exact", "bounds")),
    *(PACKAGE / "simulate" / f"{name}.py" for name in ("corpus", "counting", "headroom", "plain", "plan", "tally")),
    *(Path(toy_models.__file__).parent / f"{name}.py" for name in ("synthetic", "tables")),
]
"""What decides what a cell counts and what bounds it: files, and folders of them."""


@cache
def code_digest() -> str:
    """Of this package's version, and of the sources that decide what a cell counts."""
    return digest_of(file for place in COUNTING for file in sorted(place.rglob("*.py")) or [place])


def rule_digest(rule: Rule) -> str:
    """Of the files that anybody's rule is written in, and of what lies beside them and is imported.

    A rule that is written in no file is never the same.
    """
    if RULES.get(rule.name) is rule:
        return "registered"
    functions = [rule.verify] if rule.modified_target is None else [rule.verify, rule.modified_target]
    try:
        return digest_of(sorted({file for function in functions for file in _files(function)}))
    except (TypeError, OSError, SyntaxError):
        return f"written in no file ({secrets.token_hex(8)})"


def digest_of(files: Iterable[Path]) -> str:
    """Of what some files hold."""
    found = hashlib.sha256(__version__.encode())
    for file in files:
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:16]


def _files(function: object) -> set[Path]:
    """Where a function is written, what that imports from its folder or the working folder, and what this imports."""
    whole = inspect.unwrap(function) if inspect.isfunction(function) else getattr(function, "func", type(function))
    own = Path(inspect.getsourcefile(whole) or "").resolve()
    package = getattr(sys.modules.get(whole.__module__), "__package__", None)
    above = own.parents[package.count(".") + 1] if package else own.parent
    found, waiting = set[Path](), [own]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported(file, {own.parent, above, Path.cwd().resolve()})
    return found


def _imported(file: Path, places: set[Path]) -> Iterator[Path]:
    """The files in some folders that its import statements name, inside functions too."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        roots, names = places, list[str]()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            names = [".".join([*base, *more]) for more in ([], *([alias.name] for alias in node.names))]
            roots = {file.parents[min(node.level, len(file.parents)) - 1]} if node.level else places
        for root, name in product(roots, filter(None, names)):
            for end in range(1, name.count(".") + 2):
                there = root.joinpath(*name.split(".")[:end])
                both = there.with_name(f"{there.name}.py"), there / "__init__.py"
                yield from (each.resolve() for each in both if each.is_file())


def machine_digest(device: torch.device | None) -> str:
    """Of the versions that count, and, where the time of a device means anything, of what it is spent on."""
    parts: dict[str, object] = {**versions()}
    if device is None:
        parts.pop("transformers", None)  # which laws that stand in for models do not use
    else:
        parts["machine"] = platform.node(), os.cpu_count(), torch.get_num_threads()
        parts["gpu"] = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """What counted: Python, and the packages that compute."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # laws that stand in for models need no transformers
            continue
    return found
