"""Find a rule by what a user types: a registered name, ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from spectr_verify.rules import RULES, Rule, UnknownRuleError


def load_rule(spec: str) -> Rule:
    """The rule that ``spec`` names.

    A function ``(round, chance) -> Emission`` becomes a stateless rule of any number of drafts; a ``Rule`` object is
    taken as it is, which is how a stateful rule is given.

    Args:
        spec: a registered name, ``package.module:function`` or ``path/file.py:function``.

    Raises:
        UnknownRuleError: nothing is there; the message says what was looked for and what there is.
    """
    if spec in RULES:
        return RULES[spec]
    source, separator, attribute = spec.rpartition(":")
    if not separator or not source or not attribute:
        raise UnknownRuleError(
            f"no rule is called {spec!r}; the registered ones are {', '.join(RULES)}. "
            "Your own is named as module:function or file.py:function"
        )
    found: object = _import(source, spec)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise UnknownRuleError(f"{spec}: {source} has no {attribute!r}")
        found = getattr(found, name)
    if isinstance(found, Rule):
        return found
    if not callable(found) or isinstance(found, type):
        raise UnknownRuleError(f"{spec}: {attribute!r} is {type(found).__name__}; it must be a function or a Rule")
    return Rule(spec, found, summary="given by the user")


def _import(source: str, spec: str) -> ModuleType:
    """Import a file or a module; whatever the user's code raises on the way becomes one plain message."""
    try:
        return _import_file(Path(source)) if source.endswith(".py") else _import_module(source)
    except Exception as error:  # the user's code may raise anything
        raise UnknownRuleError(f"{spec}: importing {source} failed: {type(error).__name__}: {error}") from error


def _import_module(name: str) -> ModuleType:
    # A console command does not look in the working folder for modules; `python -m` does.
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(Path.cwd()))


def _import_file(path: Path) -> ModuleType:
    name = f"_spectr_verify_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
