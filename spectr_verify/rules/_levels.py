"""The walk of token-level rules with several drafts: level by level among the drafts that still agree."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, or_target, stop_at_first_rejection

Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(p [B, V], q [B, V], tokens [B, K], active [B, K]) to the probability with which each active draft's token is
accepted once the active ones before it were rejected, [B, K], and the weights of the correction, [B, V]."""


def level_by_level(round: Round, chance: Chance, step: Step) -> Emission:
    """Offer the active drafts' tokens in turn; go on with the drafts that share the accepted one."""
    B, K, L = round.drafts.shape
    row = torch.arange(B, device=round.drafts.device)
    active = torch.ones(B, K, dtype=torch.bool, device=row.device)
    running = torch.ones(B, dtype=torch.bool, device=row.device)
    accepted = torch.zeros(B, dtype=torch.int64, device=row.device)
    lead = torch.zeros_like(accepted)  # a draft that runs through the accepted prefix
    correction = round.target_probs[row, lead, 0]
    for i in range(L):
        p, q = round.draft_probs[row, lead, i], round.target_probs[row, lead, i]
        tokens = round.drafts[:, :, i]
        accept, left = step(p, q, tokens, active)
        correction = torch.where(running[:, None], or_target(left, q), correction)
        accept = torch.where(active & running[:, None], accept, 0.0)
        choice = chance.categorical(stop_at_first_acceptance(accept))
        running = choice < K
        lead = torch.where(running, choice, lead)
        accepted = accepted + running
        active &= tokens == tokens.gather(1, lead[:, None])
    whole = round.target_probs[row, lead, L]
    correction = torch.where(running[:, None], whole, correction)
    return emit(round, lead, accepted, chance.categorical(correction))


def stop_at_first_acceptance(accept: Tensor) -> Tensor:
    """P(k is the first accepted), k = 0..K-1, then P(none): [B, K] to [B, K+1]."""
    return stop_at_first_rejection(1 - accept)
