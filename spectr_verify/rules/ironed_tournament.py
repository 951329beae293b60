"""Ironed tournaments (this project): select one draft by scores that verification can use, then verify it alone."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import greedy_block as greedy
from spectr_verify.rules._ironing import descend, largest_score_law
from spectr_verify.rules.block import verify_block


def ironed_tournament_block(round: Round, chance: Chance) -> Emission:
    """Block verification of the winner. Stateless, any K; the optimum itself for L = 1."""
    return _verify_winner(round, chance, capped=True)


def ironed_tournament_greedy_block(round: Round, chance: Chance) -> Emission:
    """Greedy block verification of the winner; needs ``modified_target``. The optimum itself for L = 1."""
    return _verify_winner(round, chance, capped=False)


def modified_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """Greedy block verification's modified target with the winner's law in the draft law's place.

    Args:
        tokens: int64 [B, n], the text; draft_probs, target_probs: [B, n, V], laws after its first i tokens.
        drafts: K.

    Returns:
        Weights [B, n, V]; rows need not sum to 1.
    """
    winner = winner_law(tokens, draft_probs, target_probs, drafts, capped=False)
    return greedy.modified_target(tokens, winner, target_probs, 1)


def _verify_winner(round: Round, chance: Chance, *, capped: bool) -> Emission:
    winner = chance.categorical(win_chances(round, capped=capped))
    path = round.draft(winner)
    law = winner_law(
        path.drafts[:, 0], path.draft_probs[:, 0], path.target_probs[:, 0, :-1], round.num_drafts, capped=capped
    )
    emission = verify_block(replace(path, draft_probs=law[:, None]), chance, capped=capped)
    return replace(emission, draft=torch.where(emission.draft < 0, -1, winner))


def win_chances(round: Round, *, capped: bool) -> Tensor:
    """Probability that each draft has the largest score, given the drafts: float64 [B, K]."""
    tokens, p, q = (part.flatten(0, 1) for part in (round.drafts, round.draft_probs, round.target_probs[:, :, :-1]))
    for _, density in descend(tokens, p, q, round.num_drafts, capped=capped):
        scores = density
    return largest_score_law(*(part.unflatten(0, round.drafts.shape[:2]) for part in (scores.ends, scores.shares)))


def winner_law(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int, *, capped: bool) -> Tensor:
    """Next-token laws of the winner along a path: float64 [B, n, V].

    Args:
        tokens: int64 [B, n]; draft_probs, target_probs: [B, n, V].
        drafts: K.
        capped: whether block verification follows, or greedy block verification.
    """
    return torch.stack([law for law, _ in descend(tokens, draft_probs, target_probs, drafts, capped=capped)], dim=1)
