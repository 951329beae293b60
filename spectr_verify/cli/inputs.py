"""What commands read: pairs, prompts, bounds and seeds, as the rooms below take them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectr_verify.cli.options import Format
from spectr_verify.errors import InputError, said
from toy_models import read_pairs

if TYPE_CHECKING:
    from spectr_verify.audit import Instance
    from spectr_verify.exact import Limits
    from spectr_verify.rules import Rule


def instances(
    sources: Iterable[str] | None, drafts: int | None, length: int | None, seed: int, *, replayed: bool = False
) -> list[Instance]:
    """The pairs of some files, or the built-in suite. Replayed code is handed one draft where nobody says otherwise."""
    from spectr_verify.audit.instance import DRAFTS, LENGTH, Instance, builtin_suite

    if not sources:
        return builtin_suite(seed, length=length or LENGTH, drafts=drafts or DRAFTS)
    drafts = drafts or (1 if replayed else None)
    return [Instance.of(pair, length=length, drafts=drafts) for source in sources for pair in read_pairs(source)]


def torch_dtype(name: Format) -> Any:
    """The number format as torch names it."""
    import torch

    return getattr(torch, name.value)


def limits_of(tuples: int | None, worlds: int | None, texts: int | None) -> Limits:
    """The limits that are given, and the usual ones."""
    from spectr_verify.exact import Limits

    given = {"tuples": tuples, "worlds": worlds, "texts": texts}
    return Limits(**{name: limit for name, limit in given.items() if limit is not None})


def files_of(functions: Iterable[str]) -> list[str]:
    """Where functions may be written that are named as module:function or file.py:function."""
    sources = [name.rpartition(":")[0] for name in functions]
    modules = [source.replace(".", "/") for source in sources if source and not source.endswith(".py")]
    return [*sources, *(f"{module}{end}" for module in modules for end in (".py", "/__init__.py"))]


def rule_of(name: str, command: str) -> Rule:
    """A rule, for a command that knows no other way of calling a function.

    Raises:
        RuleError: there is none of that name; of code that is called otherwise it says what takes that.
    """
    from spectr_verify.rules import RuleError
    from spectr_verify.rules.load import load_rule

    try:
        return load_rule(name)
    except RuleError as error:
        if "--calls" not in str(error):
            raise
        raise RuleError(
            f"{error}. `{command}` takes rules alone and has no --calls; `mc --calls` decodes with such code and counts"
        ) from error


def prompts_of(source: str) -> tuple[str, ...]:
    """The prompts of a set or a file."""
    from toy_models.prompts import SEPARATOR, prompt_sets, prompts

    if source in prompt_sets():
        return prompts(source)
    try:
        return tuple(Path(source).read_text(encoding="utf-8").removesuffix("\n").split(SEPARATOR))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{source!r} is no prompt set ({', '.join(prompt_sets())}) and no file that can be read: {said(error)}"
        ) from error


def seed_everything(seed: int) -> None:
    """Seed the generators that code under test may draw from."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the code under test may draw from it
    torch.manual_seed(seed)
