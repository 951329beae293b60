"""Blended tournaments (this project): scores that leave the deeper levels a choice, then verify the winner alone."""

from __future__ import annotations

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._blending import blend
from spectr_verify.rules._winner import tournament_of_scores


def blended_tournament_block(round: Round, chance: Chance) -> Emission:
    """Block verification of the winner. Stateless, any K; the optimum itself for L = 1.

    As the ironed tournament where few levels are left or draft and target are close, and better at depth elsewhere.
    """
    return tournament_of_scores(round, chance, blend, capped=True)
