"""K-SEQ (Sun et al. 2023, SpecTr, algorithm 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._levels import Correction, level_by_level
from spectr_verify.rules._path import Places, any_of, or_target, ratio, total

_TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-6}
"""How far s may lie above the smallest valid one."""


def k_seq(round: Round, chance: Chance) -> Emission:
    """Accept each active draft's token in turn with min(1, q/(s p)), s chosen as small as is valid."""
    return level_by_level(round, chance, _step)


def _step(places: Places, p: Tensor, q: Tensor, active: Tensor) -> tuple[Tensor, Correction]:
    k = active.sum(dim=-1).clamp(min=1).to(torch.float64)
    s = torch.ones_like(k)
    for part, target, draft in places.laws():
        s[part] = smallest_scale(draft, target, k[part])
    accept = ratio(q / s[:, None], p).clamp(max=1.0)
    return accept, lambda at: _correction(places.take(at), s[at], k[at])


def _correction(places: Places, s: Tensor, k: Tensor) -> Tensor:
    """q - min(p, q/s) (1 - (1 - beta)^k) / beta: [n, V]."""
    found = []
    for part, target, draft in places.laws():
        capped = _capped(draft, target, s[part])
        beta = total(capped)
        gain = ratio(any_of(beta, k[part]), beta)[:, None].to(capped.dtype)
        found.append(or_target((target - capped.mul_(gain)).clamp_(min=0.0), target))
    return torch.cat(found)


def smallest_scale(p: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Smallest valid s in [1, k]: s >= G(s) = (1 - (1 - beta(s))^k) / beta(s), beta = sum of min(p, q/s): float64 [B].

    s* is between 1 and k, which is always valid; where it is 1 there is nothing to find. The search is by secants, in
    all rows at once, which aim a little beyond s* and so end at a valid s; every eighth step halves what is left.

    Args:
        p, q: [B, V], draft's and target's laws, float32 or float64.
        k: float64 [B], number of active drafts.
    """
    tolerance = _TOLERANCE[p.dtype]

    def excess(s: Tensor) -> Tensor:
        beta = total(_capped(p, q, s))
        return s - ratio(any_of(beta, k), beta)

    low, high = torch.ones_like(k), k
    at, value = low, excess(low)
    high = torch.where(value >= 0, low, high)
    found = high - low <= tolerance
    distance = value  # the first step is to G(1)
    step = 0
    while not bool(found.all()):
        step += 1
        secant = at - distance + tolerance / 2
        inside = (secant > low) & (secant < high) & (step % 8 > 0)
        last, last_value = at, value
        at = torch.where(inside, secant, (low + high) / 2)
        value = excess(at)
        low, high = torch.where(value < 0, at, low), torch.where(value < 0, high, at)
        distance = value * (at - last) / (value - last_value)
        found |= (value >= 0) & (distance.abs() <= tolerance) | (high - low <= tolerance)
    return high


def _capped(p: Tensor, q: Tensor, s: Tensor) -> Tensor:
    """min(p, q/s): [B, V]."""
    return torch.minimum(q * s.reciprocal()[:, None].to(q.dtype), p)
