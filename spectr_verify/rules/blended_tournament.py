"""Blended tournaments (this project): scores that leave the deeper levels a choice, then verify the winner alone."""

from __future__ import annotations

from functools import partial

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._blending import blend
from spectr_verify.rules._ironing import win_chances, winner_law
from spectr_verify.rules._winner import verify_winner


def blended_tournament_block(round: Round, chance: Chance) -> Emission:
    """Block verification of the winner. Stateless, any K; the optimum itself for L = 1.

    As the ironed tournament where few levels are left or draft and target are close, and better at depth elsewhere.
    """
    winner = chance.categorical(win_chances(round, blend, capped=True))
    return verify_winner(round, chance, winner, partial(winner_law, share=blend, capped=True), capped=True)
