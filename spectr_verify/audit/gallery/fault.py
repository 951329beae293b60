"""The record that the gallery keeps of each of its functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spectr_verify.rules import Rule

Calls = Literal["probabilities", "step", "round"]

GAMMA = {"gamma": "L"}
STEP = {"gamma": "L", "temperature": "temperature"}
SEVERAL = {"gamma": "L", "num_drafts": "2"}
"""Arguments of step functions: of one draft, of one draft at a temperature, of two drafts."""


@dataclass(frozen=True)
class Fault:
    """A function of the gallery: a planted fault, or a control, which is the same without the fault.

    Attributes:
        name: kebab-case, unique in the gallery.
        says: what goes wrong, in one sentence; of a control, what it does.
        calls: how it is called, as ``spectr-verify audit --calls`` has it.
        function: the code, or a whole ``Rule`` (calls "round" only) where later rounds are part of it.
        arguments: further keyword arguments, name to expression, as ``spectr-verify audit --arg`` has them.
        drafts: K that it is audited with.
        length: L that it is audited with, ``None`` for 1 and 2.
        temperature: calls "step" only: the temperature of the request.
        link: a public report or paper of a fault of this kind, "" if none is known.
    """

    name: str
    says: str
    calls: Calls
    function: Callable[..., object] | Rule
    arguments: Mapping[str, str] = field(default_factory=dict)
    drafts: int = 1
    length: int | None = None
    temperature: float = 1.0
    link: str = ""


def planted(function: Callable[..., object], calls: Calls = "probabilities", **details: Any) -> Fault:
    """The record of a function that is named as the fault is, and whose docstring begins with what it says.

    Args:
        function, calls: see ``Fault``.
        details: the other fields of ``Fault``.
    """
    says = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return Fault(function.__name__.replace("_", "-"), says, calls, function, **details)
