"""Rules that select one draft and then verify it alone, with the winner's law in the place of the draft law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import greedy_block as greedy
from spectr_verify.rules._ironing import Share, win_chances, winner_law
from spectr_verify.rules.block import verify_block

WinnerLaw = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""Next-token laws of the winner along paths: of tokens int64 [B, n], draft_probs and target_probs [B, n, V], and K, to
float64 [B, n, V]."""


def tournament_of_scores(round: Round, chance: Chance, share: Share, *, capped: bool) -> Emission:
    """Select the draft of the largest score and verify it; ``share`` says how nodes share out their scores."""
    winner = chance.categorical(win_chances(round, share, capped=capped))
    return verify_winner(round, chance, winner, partial(winner_law, share=share, capped=capped), capped=capped)


def verify_winner(round: Round, chance: Chance, winner: Tensor, law: WinnerLaw, *, capped: bool) -> Emission:
    """Verify one draft of each row, ``winner`` int64 [B], by block verification or, not ``capped``, greedy block."""
    path = round.draft(winner)
    winners = law(path.drafts[:, 0], path.draft_probs[:, 0], path.target_probs[:, 0, :-1], round.num_drafts)
    emission = verify_block(replace(path, draft_probs=winners[:, None]), chance, capped=capped)
    return replace(emission, draft=torch.where(emission.draft < 0, -1, winner))


def modified_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int, law: WinnerLaw) -> Tensor:
    """Greedy block verification's modified target with the winner's law in the draft law's place.

    Args:
        tokens: int64 [B, n], the text; draft_probs, target_probs: [B, n, V], laws after its first i tokens.
        drafts: K.
        law: the winner's.

    Returns:
        Weights [B, n, V]; rows need not sum to 1.
    """
    return greedy.modified_target(tokens, law(tokens, draft_probs, target_probs, drafts), target_probs, 1)
