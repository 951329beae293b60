"""Everything that is known about the best possible acceptance on one pair, in one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spectr_verify.bounds.closed_form import closed_forms
from spectr_verify.bounds.optimum import stateful_optimum, stateless_optimum
from spectr_verify.bounds.result import BoundResult, BoundSizeError
from spectr_verify.bounds.solve import MAX_VARIABLES
from toy_models import ToyPair


@dataclass(frozen=True, eq=False)
class Bounds:
    """Mean accepted tokens a round on one pair; one more token is emitted with them.

    Attributes:
        pair: its name.
        length: L, tokens a draft.
        drafts: K, drafts a round.
        closed: the closed forms by name.
        stateless: the optimum of rules whose every round starts with the plain target, ``None`` if too large.
        stateful: the optimum of rules that may hand on a modified target, ``None`` if too large.
    """

    pair: str
    length: int
    drafts: int
    closed: dict[str, float]
    stateless: BoundResult | None
    stateful: BoundResult | None

    def as_dict(self) -> dict[str, Any]:
        """Nested dictionaries of numbers and strings, ready for JSON."""
        found = {"stateless": self.stateless, "stateful": self.stateful}
        optima = {name: optimum and optimum.as_dict() for name, optimum in found.items()}
        return {"pair": self.pair, "length": self.length, "drafts": self.drafts, "closed": dict(self.closed)} | optima


def bounds(
    pair: ToyPair,
    length: int,
    drafts: int,
    *,
    max_variables: int = MAX_VARIABLES,
    time_limit: float | None = None,
) -> Bounds:
    """All closed forms and both optima of a pair at draft length L and K drafts.

    Arguments and errors are those of ``stateful_optimum``, but a program that is too large leaves its optimum out;
    ``time_limit`` counts for each of the two solves.
    """

    def optimum(solve: Callable[..., BoundResult]) -> BoundResult | None:
        try:
            return solve(pair, length, drafts, max_variables=max_variables, time_limit=time_limit)
        except BoundSizeError:
            return None

    closed = closed_forms(pair, length, drafts)
    return Bounds(pair.name, length, drafts, closed, optimum(stateless_optimum), optimum(stateful_optimum))
