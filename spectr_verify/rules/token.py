"""Token verification (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2)."""

from __future__ import annotations

import torch

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, on_paths, ratio, stop_at_first_rejection
from spectr_verify.rules._residuals import Residuals


def token(round: Round, chance: Chance) -> Emission:
    """Accept token after token with probability min(1, q/p); at the first rejection emit from (q - p)+.

    E[tau] is the sum over prefixes v of the product of min(p, q) along v.
    """
    round = round.first_drafts(1)
    p, q = on_paths(round.drafts, round.draft_probs, round.target_probs)
    stops = stop_at_first_rejection(ratio(q, p).clamp(max=1.0))
    accepted = chance.categorical(stops)
    extra = Residuals(round, torch.ones_like(stops)).choose(accepted, chance)
    return emit(round, torch.zeros_like(accepted[:, 0]), accepted[:, 0], extra[:, 0])
