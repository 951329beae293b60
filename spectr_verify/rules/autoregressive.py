"""No speculation: the drafts are ignored and one token is sampled from the target."""

from __future__ import annotations

import torch

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit


def autoregressive(round: Round, chance: Chance) -> Emission:
    """Accept nothing; emit a token from the target's law. E[tau] = 0: the baseline of every speed-up."""
    extra = chance.categorical(round.target_probs[:, 0, 0])
    nothing = torch.zeros_like(extra)
    return emit(round, nothing, nothing, extra)
