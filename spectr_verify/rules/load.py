"""Find a rule by what a user types: a registered name, ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from inspect import signature
from operator import attrgetter
from pathlib import Path
from types import FunctionType, ModuleType

from spectr_verify.errors import said
from spectr_verify.rules import RULES, Rule, RuleError


def load_rule(spec: str) -> Rule:
    """The rule that ``spec`` names.

    A function ``(round, chance) -> Emission`` becomes a stateless rule of any number of drafts; a ``Rule``, which
    is how a stateful rule is given, is taken as it is but for its name: ``spec``, by which it can be found again. The
    user's code may import what lies in the working folder and, from a file, what lies beside it.

    Args:
        spec: a registered name, ``package.module:function`` or ``path/file.py:function``.

    Raises:
        RuleError: nothing is there; the message says what was looked for and what there is.
    """
    if spec in RULES:
        return RULES[spec]
    if not all(spec.rpartition(":")):
        raise RuleError(
            f"no rule is called {spec!r}; the registered ones are {', '.join(RULES)}. "
            "Your own is named as module:function or file.py:function"
        )
    found = load_object(spec)
    if isinstance(found, Rule):
        return replace(found, name=spec)  # by which it can be found again, and told from others
    if not callable(found) or isinstance(found, type):
        raise RuleError(
            f"{spec}: {spec.rpartition(':')[2]!r} is of type {type(found).__name__}; it must be a function "
            "(round, chance) or a Rule"
        )
    _check_contract(found, spec)
    return Rule(spec, found, summary="given by the user")


def _check_contract(function: Callable[..., object], spec: str) -> None:
    """Refuse a function that does not take a round and a chance: it is meant to be called in another way."""
    try:
        taken = signature(function)
    except (TypeError, ValueError):  # some builtin functions do not tell
        return
    try:
        taken.bind(None, None)
    except TypeError:
        raise RuleError(
            f"{spec} takes {taken}, and a rule takes (round, chance); code that is called in another way is audited "
            "with --calls probabilities or --calls step"
        ) from None


def load_object(spec: str) -> object:
    """What ``module:name`` or ``file.py:name`` names.

    Raises:
        RuleError: nothing is there; the message says what was looked for and what there is.
    """
    source, _, attribute = spec.rpartition(":")
    if not source or not attribute:
        raise RuleError(f"{spec!r} names nothing; write module:function or file.py:function")
    module = _import(source, spec)
    try:
        found: object = attrgetter(attribute)(module)
    except AttributeError:
        raise RuleError(f"{spec}: {source} has no {attribute!r}; it has {_offers(module)}") from None
    except Exception as error:  # the user's code may answer look-ups itself
        raise RuleError(f"{spec}: looking it up failed: {said(error)}") from error
    return found


def _offers(module: ModuleType) -> str:
    """The names in a module that could be meant."""
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, Rule) or (isinstance(value, FunctionType) and value.__module__ == module.__name__)
    ]
    return ", ".join(names[:10]) or "no function of its own"


def _import(source: str, spec: str) -> ModuleType:
    """Import a file or a module; whatever the user's code raises on the way becomes one plain message."""
    try:
        with redirect_stdout(sys.stderr):  # standard output may carry the result
            return _import_file(Path(source)) if source.endswith(".py") else _import_module(source)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything, a script may even exit
        raise RuleError(f"{spec}: importing {source} failed: {said(error)}") from error


def _import_module(name: str) -> ModuleType:
    # A console command does not look in the working folder for modules; `python -m` does.
    with _looking_in(Path.cwd()):
        return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    # Files of one name in different folders are different modules.
    name = f"_spectr_verify_user_{hashlib.sha256(bytes(path)).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        with _looking_in(Path.cwd()), _looking_in(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _looking_in(folder: Path) -> Iterator[None]:
    """Let imports look in a folder first."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # the file may be younger than what Python remembers of its folder
    try:
        yield
    finally:
        if str(folder) in sys.path:  # the user's code may have put its own paths in, which stay
            sys.path.remove(str(folder))
