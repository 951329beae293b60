"""Ironed tournaments (this project): select one draft by scores that verification can use, then verify it alone."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import _winner
from spectr_verify.rules._ironing import share_out, winner_law
from spectr_verify.rules._winner import tournament_of_scores


def ironed_tournament_block(round: Round, chance: Chance) -> Emission:
    """Block verification of the winner. Stateless, any K; the optimum itself for L = 1."""
    return tournament_of_scores(round, chance, share_out, capped=True)


def ironed_tournament_greedy_block(round: Round, chance: Chance) -> Emission:
    """Greedy block verification of the winner; needs ``modified_target``. The optimum itself for L = 1."""
    return tournament_of_scores(round, chance, share_out, capped=False)


def modified_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """See ``_winner.modified_target``."""
    law = partial(winner_law, share=share_out, capped=False)
    return _winner.modified_target(tokens, draft_probs, target_probs, drafts, law)
