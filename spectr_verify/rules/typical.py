"""Typical acceptance (Cai et al. 2024, Medusa, section 2.3.1): lossy by design."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, on_path

EPSILON = 0.09
DELTA = 0.3
"""Medusa's released thresholds: posterior_threshold 0.09, posterior_alpha 0.3 = sqrt(0.09)."""


def typical(round: Round, chance: Chance) -> Emission:
    """Accept a token if its target probability exceeds min(epsilon, delta exp(-entropy)); keep the longest draft.

    Among equally long ones the likelier under the target wins. The extra token follows the target.
    """
    q = round.target_probs[:, :, :-1]
    on = on_path(q, round.drafts)
    accept = on > threshold(q)
    lengths = accept.int().cumprod(dim=-1).sum(dim=-1)
    log_on = torch.where(accept, on, 1.0).log()
    position = torch.arange(round.length, device=on.device)
    likelihood = torch.where(position < lengths[..., None], log_on, 0.0).sum(dim=-1)
    longest = lengths == lengths.max(dim=-1, keepdim=True).values
    best = torch.where(longest, likelihood, -torch.inf).argmax(dim=-1)
    row = torch.arange(round.rows, device=best.device)
    accepted = lengths[row, best]
    return emit(round, best, accepted, chance.categorical(round.target_probs[row, best, accepted]))


def threshold(laws: Tensor) -> Tensor:
    """min(epsilon, delta exp(-H)) of laws [.., V]: float64 [..]."""
    entropy = torch.special.entr(laws.to(torch.float64)).sum(dim=-1)
    return (DELTA * torch.exp(-entropy)).clamp(max=EPSILON)
