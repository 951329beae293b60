"""Token verification (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2)."""

from __future__ import annotations

import torch

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, on_path, ratio, stop_at_first_rejection, stop_on_path


def token(round: Round, chance: Chance) -> Emission:
    """Accept token after token with probability min(1, q/p); at the first rejection emit from (q - p)+.

    E[tau] is the sum over prefixes v of the product of min(p, q) along v.
    """
    p, q = round.draft_probs[:, 0], round.target_probs[:, 0]
    tokens = round.drafts[:, 0]
    accept = ratio(on_path(q[:, :-1], tokens), on_path(p, tokens)).clamp(max=1.0)
    stops = stop_at_first_rejection(accept)
    stop = stop_on_path(stops, torch.ones_like(stops), p, q, chance)
    return emit(round, torch.zeros_like(stop.accepted), stop.accepted, chance.categorical(stop.correction))
