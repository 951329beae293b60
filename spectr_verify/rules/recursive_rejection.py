"""Recursive rejection sampling with replacement (Miao et al. 2023, SpecInfer, multi-step speculative sampling)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._levels import level_by_level
from spectr_verify.rules._path import on_path, or_target, ratio


def recursive_rejection(round: Round, chance: Chance) -> Emission:
    """Offer the drafts in turn with min(1, q'/p); every rejection replaces q' by (q' - p)+ normalised."""
    return level_by_level(round, chance, _step)


def _step(p: Tensor, q: Tensor, tokens: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    residual = q
    accept = []
    for k in range(tokens.shape[1]):
        token = tokens[:, k : k + 1]
        accept.append(ratio(on_path(residual, token[:, 0]), on_path(p, token[:, 0])).clamp(max=1.0))
        rest = or_target((residual - p).clamp(min=0.0), residual)
        rest = rest / rest.sum(dim=-1, keepdim=True)
        residual = torch.where(active[:, k, None], rest, residual)
    return torch.stack(accept, dim=-1), residual
