"""What a function under test is called with: ``NAME=EXPRESSION`` options over the sizes and laws of the moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from types import CodeType
from typing import Any

from spectr_verify.errors import InputError, said


class ArgumentError(InputError):
    """An argument's expression cannot be used: the message has the expression and the names there are."""


@dataclass(frozen=True)
class Arguments:
    """Expressions by the name of the argument that each is for.

    Attributes:
        expressions: Python expressions; which names they may use depends on how the function is called.

    Raises:
        ArgumentError: a name is no identifier, or an expression is not Python.
    """

    expressions: Mapping[str, str] = field(default_factory=dict)
    _codes: dict[str, CodeType] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, expression in self.expressions.items():
            if not str(name).isidentifier():
                raise ArgumentError(f"the argument {name!r} is not a name; write it as NAME=EXPRESSION")
            try:
                self._codes[name] = compile(str(expression).strip(), f"<argument {name}>", "eval")
            except (SyntaxError, ValueError) as error:
                raise ArgumentError(
                    f"the argument {name}={expression} is not a Python expression: {said(error)}"
                ) from error

    @classmethod
    def parse(cls, options: list[str]) -> Arguments:
        """Read options as they are typed, ``["gamma=L", "temperature=0.7"]``."""
        expressions: dict[str, str] = {}
        for option in options:
            name, separator, expression = option.partition("=")
            if not separator or not expression.strip():
                raise ArgumentError(f"the argument {option!r} has no value; write it as NAME=EXPRESSION, as in gamma=L")
            if name.strip() in expressions:
                raise ArgumentError(f"the argument {name.strip()!r} is given twice")
            expressions[name.strip()] = expression
        return cls(expressions)

    def use(self, *names: str) -> bool:
        """Whether any expression uses one of these names."""
        return any(name in _names(code) for code in self._codes.values() for name in names)

    def values(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, evaluated where these names stand for these values.

        Raises:
            ArgumentError: an expression fails.
        """
        found = {}
        for argument, code in self._codes.items():
            try:
                found[argument] = eval(code, dict(names))  # the user's own expression, as is the function
            except Exception as error:  # whatever an expression may raise
                hint = " (a text is written in quotes)" if isinstance(error, NameError) else ""
                raise ArgumentError(
                    f"the argument {argument}={self.expressions[argument]} fails: {said(error)}; "
                    f"it may use {', '.join(names)}{hint}"
                ) from error
        return found


def _names(code: CodeType) -> set[str]:
    """The names that an expression uses, within comprehensions and lambdas too."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def check_call(function: Callable[..., Any], name: str, positional: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuse a call that the function's signature does not take, before it is made.

    Raises:
        ArgumentError: names the signature and what it would be called with.
    """
    try:
        taken = signature(function)
    except (TypeError, ValueError):  # some builtin functions do not tell
        return
    try:
        taken.bind(*positional, **given)
    except TypeError as error:
        called = ", ".join([*positional, *(f"{argument}=.." for argument in given)])
        raise ArgumentError(
            f"{name}{taken} cannot be called as ({called}): {error}. Pass what it needs by name, --arg NAME=EXPRESSION"
        ) from None
