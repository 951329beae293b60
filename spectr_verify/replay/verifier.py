"""A function under test with how it is called: what an audit of other people's code is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from spectr_verify.errors import InputError
from spectr_verify.replay.arguments import Arguments
from spectr_verify.replay.runner import Seen
from spectr_verify.replay.tape import Budget
from spectr_verify.rules import RULES, Kind, Rule
from spectr_verify.rules.load import load_object, load_rule

Calls = Literal["round", "probabilities", "step"]
"""How a function can be called: ``round`` is a rule's own contract, the others are replayed."""


@dataclass(frozen=True, eq=False)
class Verifier:
    """A function under test, replayed.

    Attributes:
        name: the name in reports, by which it can be found again.
        function: anybody's code.
        calls: "probabilities" or "step".
        arguments: what it is called with besides.
        temperature: "step" only: its text must follow the target at this temperature; 0 is the likeliest token, of
            equals the first.
        budget: how much work may be done, all audits of this object together.
        seen: what was noticed about the function so far.
        models: "step" only: every model that it was given; they live as long as this does, so that none has the
            identity of another.
    """

    name: str
    function: Callable[..., Any]
    calls: Calls
    arguments: Arguments = field(default_factory=Arguments)
    temperature: float = 1.0
    budget: Budget = field(default_factory=Budget)
    seen: Seen = field(default_factory=Seen)
    models: list[Any] = field(default_factory=list, repr=False)
    kind: Kind = "stateless"

    def __post_init__(self) -> None:
        if self.calls not in get_args(Calls) or self.calls == "round":
            raise InputError(f"calls is {self.calls!r}; replayed code is called 'probabilities' or 'step'")
        if not callable(self.function):
            raise InputError(f"{self.name}: {type(self.function).__name__} is not a function")
        if not 0 <= self.temperature < float("inf"):
            raise InputError(f"the temperature is {self.temperature}; it must be a number from 0 on")
        if self.temperature != 1 and self.calls == "probabilities":
            raise InputError(
                "a temperature is for calls='step', where the function sees logits; with calls='probabilities' it sees "
                "laws, which are what temperature and filters leave"
            )

    def used_drafts(self, drafts: int) -> int:
        """How many drafts its optimum is computed for."""
        return drafts

    @property
    def accepts_within(self) -> bool:
        """Whether the most that it may accept is known: a step may draft as it likes, and from any law."""
        return self.calls == "probabilities"


def verifier(
    function: Callable[..., Any] | Rule,
    calls: Calls,
    *,
    name: str | None = None,
    arguments: Mapping[str, str] | Arguments | None = None,
    temperature: float = 1.0,
    budget: Budget | None = None,
) -> Rule | Verifier:
    """Something that can be judged and audited, from a function and how it is called.

    Args:
        function: the code under test; a ``Rule`` too where calls is "round".
        calls: "probabilities": ``f(draft_tokens, draft_probs, target_probs) -> tokens``; "step": ``f(draft_model,
            target_model, input_ids) -> longer ids``; "round": ``f(round, chance) -> Emission``.
        name: what reports call it.
        arguments: Python expressions by argument name, see ``Arguments``.
        temperature: "step" only, see ``Verifier``.
        budget: how much work may be done.

    Raises:
        InputError: the combination makes no sense.
    """
    shown = name or _name(function)
    given = arguments if isinstance(arguments, Arguments) else Arguments(dict(arguments or {}))
    if calls == "round":
        if given.expressions or temperature != 1:
            raise InputError("calls='round' takes no arguments and no temperature: the round has all that a rule sees")
        return function if isinstance(function, Rule) else Rule(shown, function)
    if isinstance(function, Rule):
        raise InputError(f"{function.name!r} is a Rule, which is called as one: calls='round'")
    return Verifier(shown, function, calls, given, temperature, budget or Budget())


def _name(function: Callable[..., Any] | Rule) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{getattr(named, '__qualname__', '?')}"


def load_verifier(
    spec: str,
    calls: Calls = "round",
    *,
    arguments: Mapping[str, str] | Arguments | None = None,
    temperature: float = 1.0,
    budget: Budget | None = None,
) -> Rule | Verifier:
    """What ``spec`` names, ready to be judged.

    Args:
        spec: ``module:function`` or ``file.py:function``; a registered name too where calls is "round".
        calls, arguments, temperature, budget: as ``verifier``.

    Raises:
        RuleError: nothing is there, or it is not something to be called so.
    """
    if calls != "round" and spec in RULES:
        raise InputError(f"{spec} is a registered rule, which is called as a rule: leave --calls away")
    function = load_rule(spec) if calls == "round" else load_object(spec)
    if not isinstance(function, Rule) and (not callable(function) or isinstance(function, type)):
        raise InputError(
            f"{spec} is of type {type(function).__name__}; it must be a function, or an object to be called"
        )
    return verifier(function, calls, name=spec, arguments=arguments, temperature=temperature, budget=budget)
