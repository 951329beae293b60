"""Exact matching: sample from the target and go on while a draft has guessed the token."""

from __future__ import annotations

import torch

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit


def exact_match(round: Round, chance: Chance) -> Emission:
    """Draw each token from the target itself; a draft that shows the same token saves a target call.

    The oldest and simplest lossless rule (greedy decoding's rule, applied to samples).
    """
    B, K, L = round.drafts.shape
    row = torch.arange(B, device=round.drafts.device)
    active = torch.ones(B, K, dtype=torch.bool, device=row.device)
    running = torch.ones(B, dtype=torch.bool, device=row.device)
    accepted = torch.zeros(B, dtype=torch.int64, device=row.device)
    lead = torch.zeros_like(accepted)
    extra = torch.zeros_like(accepted)
    for i in range(L + 1):
        q = round.target_probs[row, lead, i]
        # Rows that stopped keep their token: a point mass has one outcome.
        kept = torch.nn.functional.one_hot(extra, round.vocab).to(q.dtype)
        extra = chance.categorical(torch.where(running[:, None], q, kept))
        if i < L:
            active &= round.drafts[:, :, i] == extra[:, None]
            running &= active.any(dim=-1)
            accepted = accepted + running
            lead = torch.where(running, active.int().argmax(dim=-1), lead)
    return emit(round, lead, accepted, extra)
