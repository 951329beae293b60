"""K-SEQ (Sun et al. 2023, SpecTr, algorithm 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._levels import level_by_level
from spectr_verify.rules._path import any_of, ratio

_BISECTIONS = 60


def k_seq(round: Round, chance: Chance) -> Emission:
    """Accept each active draft's token in turn with min(1, q/(s p)), s chosen as small as is valid."""
    return level_by_level(round, chance, _step)


def _step(p: Tensor, q: Tensor, tokens: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    # Scalars s, beta are float64; the products below take the laws' precision back only in `left`.
    p64, q64 = p.to(torch.float64), q.to(torch.float64)
    k = active.sum(dim=-1).clamp(min=1).to(torch.float64)
    s = smallest_scale(p64, q64, k)
    capped = torch.minimum(p64, q64 / s[:, None])
    beta = capped.sum(dim=-1)
    gain = ratio(any_of(beta, k), beta)
    accept = ratio(q64.gather(1, tokens) / s[:, None], p64.gather(1, tokens)).clamp(max=1.0)
    left = (q64 - capped * gain[:, None]).clamp(min=0.0)
    return accept, left.to(q.dtype)


def smallest_scale(p: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Smallest valid s in [1, k]: 1 - (1 - beta(s))^k <= s beta(s), found by bisection from above: float64 [B].

    Args:
        p, q: float64 [B, V], draft's and target's laws.
        k: float64 [B], number of active drafts.
    """
    low, high = torch.ones_like(k), k.clone()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        beta = torch.minimum(p, q / middle[:, None]).sum(dim=-1)
        valid = any_of(beta, k) <= middle * beta
        low, high = torch.where(valid, low, middle), torch.where(valid, middle, high)
    beta_one = torch.minimum(p, q).sum(dim=-1)
    return torch.where(any_of(beta_one, k) <= beta_one, 1.0, high)
