"""Block verification (Sun et al. 2024, algorithm 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, on_path, ratio, residual, stop_on_path, stopping_law


def running_weight(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, *, capped: bool) -> Tensor:
    """Q/P along a draft, after each prefix: float64 [.., L+1], starting at 1.

    Block verification caps it at 1 after every token (W), so that P W = Q rho with rho the smallest
    min(P/Q, 1) on the way. Greedy block verification does not.

    Args:
        tokens: int64 [.., L]; draft_probs: [.., L, V]; target_probs: [.., L or L+1, V].
    """
    p = on_path(draft_probs, tokens)
    q = on_path(target_probs[..., : tokens.shape[-1], :], tokens)
    weights = [torch.ones_like(p[..., 0])]
    for i in range(tokens.shape[-1]):
        weight = ratio(weights[-1] * q[..., i], p[..., i])
        weights.append(weight.clamp(max=1.0) if capped else weight)
    return torch.stack(weights, dim=-1)


def block_success(weight: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Acceptance probability h_i of each prefix of a draft: float64 [.., L+1].

    With A = sum of (w q - p)+, h = A / (A + 1 - w) where w < 1, else 1; the whole draft has h = min(w, 1).
    The same formula serves greedy block verification, whose weight is not capped.
    """
    length = draft_probs.shape[-2]
    before = weight[..., :-1]
    left = residual(before, target_probs[..., :length, :], draft_probs).sum(dim=-1, dtype=torch.float64)
    success = torch.where(before >= 1, 1.0, left / (left + (1 - before).clamp(min=0.0)))
    return torch.cat([success, weight[..., -1:].clamp(max=1.0)], dim=-1)


def verify_block(round: Round, chance: Chance, *, capped: bool) -> Emission:
    """Block verification of the first draft, with the running weight capped at 1 or not."""
    tokens, p, q = round.drafts[:, 0], round.draft_probs[:, 0], round.target_probs[:, 0]
    weight = running_weight(tokens, p, q, capped=capped)
    stop = stop_on_path(stopping_law(block_success(weight, p, q)), weight, p, q, chance)
    return emit(round, torch.zeros_like(stop.accepted), stop.accepted, chance.categorical(stop.correction))


def block(round: Round, chance: Chance) -> Emission:
    """Keep the longest prefix whose own coin h_i succeeds, then emit a token from (W q - p)+.

    E[tau] = sum over v of Q(v) rho(v), the most that a stateless lossless rule can reach with one draft.
    """
    return verify_block(round, chance, capped=True)
