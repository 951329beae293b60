"""Everything that is known about the best possible acceptance on one pair, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectr_verify.bounds.closed_form import closed_forms
from spectr_verify.bounds.optimum import stateful_optimum, stateless_optimum
from spectr_verify.bounds.result import BoundResult
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
        stateless: the optimum of rules whose every round starts with the plain target.
        stateful: the optimum of rules that may hand on a modified target.
    """

    pair: str
    length: int
    drafts: int
    closed: dict[str, float]
    stateless: BoundResult
    stateful: BoundResult

    def as_dict(self) -> dict[str, Any]:
        """Nested dictionaries of numbers and strings, ready for JSON."""
        optima = {"stateless": self.stateless.as_dict(), "stateful": self.stateful.as_dict()}
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

    Arguments and errors are those of ``stateful_optimum``; ``time_limit`` counts for each of the two solves.
    """
    closed = closed_forms(pair, length, drafts)
    stateless = stateless_optimum(pair, length, drafts, max_variables=max_variables, time_limit=time_limit)
    stateful = stateful_optimum(pair, length, drafts, max_variables=max_variables, time_limit=time_limit)
    return Bounds(pair.name, length, drafts, closed, stateless, stateful)
