"""The edge pass: uniforms at the extreme values that their generators really produce.

torch.rand draws multiples of 2^-24 (float32) below 1, exactly 0 among them. ``u <= p / q`` accepts a token of
probability zero when u is 0, ``searchsorted`` may run past the last token when u is the largest: about once in 16
million draws, which a busy engine makes in minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from spectr_verify.exact.tables import draft_tuples, round_builder
from spectr_verify.replay.probabilities import Replayed
from spectr_verify.replay.runner import Failure
from spectr_verify.replay.step import Stepper
from spectr_verify.replay.verifier import Verifier
from toy_models import TableModel, ToyPair


@dataclass(frozen=True)
class EdgeViolation:
    """What an extreme uniform led to.

    Attributes:
        edge: the extreme value: 0, or the largest below 1.
        tokens: what was emitted, empty where the function raised.
        position: which of the tokens the target gives probability zero.
        says: what the function raised, empty where it did not.
    """

    edge: float
    tokens: tuple[int, ...]
    position: int
    says: str = ""

    def __str__(self) -> str:
        number = "exactly 0" if self.edge == 0 else "the largest below 1"
        if self.says:
            return f"when a uniform random number is {number}: {self.says}"
        token = self.tokens[self.position]
        return (
            f"when a uniform random number is {number} it emits {list(self.tokens)}, although the target gives token "
            f"{token} at position {self.position} probability zero"
        )


def edge_violation(
    verifier: Verifier, pair: ToyPair, length: int, drafts: int, *, dtype: torch.dtype = torch.float64
) -> EdgeViolation | None:
    """The first path on which one extreme uniform leads to a token that the target cannot emit, or to an error.

    Args:
        verifier: replayed code.
        pair, length, drafts: the models, L and K.
        dtype: the number format of the laws that it sees.

    Raises:
        BudgetError, ReplayError, EmissionError: as for the law.
    """
    if verifier.calls == "step":
        stepper = Stepper(verifier, pair, length, drafts, dtype)
        found, reference = stepper.appended((), edges=True), stepper.reference
    else:
        found, reference = _rounds(verifier, pair, length, drafts, dtype), pair.target
    for tokens, edge in ((tokens, edge) for tokens, _, edge in found if edge is not None):
        if isinstance(tokens, Failure):
            return EdgeViolation(edge, (), 0, tokens.says)
        position = _impossible(reference, tokens)
        if position is not None:
            return EdgeViolation(edge, tokens, position)
    return None


def _rounds(
    verifier: Verifier, pair: ToyPair, length: int, drafts: int, dtype: torch.dtype
) -> Iterator[tuple[tuple[int, ...] | Failure, float, float | None]]:
    root = np.zeros(1, dtype=np.int64)
    draft, target = pair.draft.continuations(root, 0, length), pair.target.continuations(root, 0, length + 1)
    replayed = Replayed(verifier)
    for context, drafted, _ in draft_tuples(draft, drafts, 1024):
        round = round_builder(context, drafted, draft, target, dtype)(torch.arange(len(context)))
        for row in range(round.rows):
            yield from replayed.emissions(round, row, edges=True)


def _impossible(reference: TableModel, tokens: tuple[int, ...]) -> int | None:
    """The first position whose token has probability zero."""
    for position, token in enumerate(tokens):
        if reference.law(tokens[:position])[token] == 0:
            return position
    return None
