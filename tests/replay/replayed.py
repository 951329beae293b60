"""What the tests of the replay ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from spectr_verify.replay import Budget, ReplayError, Seen
from spectr_verify.replay.runner import outcomes

EXACT = 1e-12
"""How far an enumerated probability may be from the one that it must be."""


def plain(result: Any) -> Any:
    """A result as nested tuples of Python's numbers."""
    result = result.tolist() if hasattr(result, "tolist") else result
    return tuple(map(plain, result)) if isinstance(result, list | tuple) else result


def fresh() -> Seen:
    """What was noticed so far: nothing; without a search for numpy's generators, which takes a while."""
    return Seen(generators=[])


def law(call: Callable[[], Any], budget: Budget | None = None, seen: Seen | None = None) -> dict[Any, float]:
    """The enumerated law of what ``call`` returns."""
    found: dict[Any, float] = {}
    for outcome in outcomes(call, "code", budget or Budget(), seen or fresh()):
        result = plain(outcome.result)
        found[result] = found.get(result, 0.0) + outcome.weight
    assert sum(found.values()) == pytest.approx(1, abs=EXACT)
    return found


def chances(call: Callable[[], Any], **options: Any) -> list[float]:
    """Probabilities that the entries of a boolean result are true, where they are independent."""
    joint = law(call, **options)
    marginal = [sum(weight for result, weight in joint.items() if result[i]) for i in range(len(next(iter(joint))))]
    for result, weight in joint.items():
        expected = torch.tensor([m if hit else 1 - m for m, hit in zip(marginal, result, strict=True)]).prod()
        assert weight == pytest.approx(float(expected), abs=1e-6)
    return marginal


def refusal(call: Callable[[], Any], **options: Any) -> str:
    """What the replay says when it refuses."""
    with pytest.raises(ReplayError) as refused:
        law(call, **options)
    return str(refused.value)
