"""Recursive rejection sampling with replacement (Miao et al. 2023, SpecInfer, multi-step speculative sampling)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._levels import Correction, level_by_level
from spectr_verify.rules._path import Places, or_target, ratio, residual


def recursive_rejection(round: Round, chance: Chance) -> Emission:
    """Offer the drafts in turn with min(1, q'/p); every rejection replaces q' by (q' - p)+ normalised.

    After any number of rejections q' is (q - c p)+ normalised, where every rejection adds to c what mass there is.
    """
    return level_by_level(round, chance, _step)


def _step(places: Places, p: Tensor, q: Tensor, active: Tensor) -> tuple[Tensor, Correction]:
    taken = torch.zeros_like(p[:, 0])  # c
    mass = torch.ones_like(taken)
    accept = []
    for k in range(active.shape[1]):
        if k:
            mass = torch.where(taken > 0, places.masses(taken.reciprocal()) * taken, mass)
        rest = (q[:, k] - taken * p[:, k]).clamp(min=0.0)
        accept.append(ratio(rest, mass * p[:, k]).clamp(max=1.0))
        taken = torch.where(active[:, k], taken + mass, taken)

    def correction(at: Tensor) -> Tensor:
        c = taken[at].reciprocal()
        return torch.cat([or_target(residual(c[part], q, p), q) for part, q, p in places.take(at).laws()])

    return torch.stack(accept, dim=-1), correction
