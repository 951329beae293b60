"""Greedy block verification (Sun et al. 2024, appendix)."""

from __future__ import annotations

from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import or_target, residual
from spectr_verify.rules.block import running_weight, verify_block


def greedy_block(round: Round, chance: Chance) -> Emission:
    """Block verification with the weight Q/P itself: accepts v with probability min(P(v), Q(v)).

    E[tau] = sum over v of min(P(v), Q(v)), the most that any lossless rule can reach with one draft. Only lossless if
    the following rounds use ``modified_target``: without it the first token is right and later text is not.
    """
    return verify_block(round, chance, capped=False)


def modified_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """The target that the next rounds owe, along a text counted from the round's start.

    After the prefix v of the text the law of token c is (Q(vc) - P(vc))+, normalised; plain q where that is zero.

    Args:
        tokens: int64 [B, n], the text; draft_probs, target_probs: [B, n, V], laws after its first i tokens.
        drafts: K of the round (1 here).

    Returns:
        Weights [B, n, V]; rows need not sum to 1.
    """
    weight = running_weight(tokens, draft_probs, target_probs, capped=False)[..., :-1]
    return or_target(residual(weight, target_probs, draft_probs), target_probs)
