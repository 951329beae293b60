"""Block verification (Sun et al. 2024, algorithm 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, on_paths, ratio
from spectr_verify.rules._residuals import Residuals

_LARGEST_LOG = 690.0
"""Running weights stop at exp of this, about 1e300."""


def log_weight(p: Tensor, q: Tensor) -> Tensor:
    """log Q/P along a draft, after each prefix: [.., L] and [.., L] to float64 [.., L+1], starting at 0."""
    steps = ratio(q, p).log()
    return torch.cat([torch.zeros_like(steps[..., :1]), steps.cumsum(dim=-1)], dim=-1)


def running_weight(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, *, capped: bool) -> Tensor:
    """Q/P along a draft, after each prefix: float64 [.., L+1], starting at 1.

    Block verification caps it at 1 after every token (W), so that P W = Q rho with rho the smallest
    min(P/Q, 1) on the way. Greedy block verification does not.

    Args:
        tokens: int64 [.., L]; draft_probs: [.., L, V]; target_probs: [.., L or L+1, V].
    """
    logs = log_weight(*on_paths(tokens, draft_probs, target_probs))
    if capped:
        return (logs - logs.cummax(dim=-1).values).exp()
    return logs.clamp(max=_LARGEST_LOG).exp()


def stop_block(residuals: Residuals, p: Tensor, q: Tensor, chance: Chance) -> Tensor:
    """The last prefix of each draft whose own coin succeeds: its length, int64 [B, K].

    With A = sum of (w q - p)+ over the vocabulary the coin is h = A / (A + 1 - w) where w < 1, else 1; the whole
    draft has h = min(w, 1). The same formula serves greedy block verification, whose weight is not capped.

    Args:
        residuals: with the running weight after each prefix.
        p, q: float64 [B, K, L], both models' probability of each drafted token.
        chance: draws.
    """
    weight, length = residuals.weight.clamp(max=1.0), p.shape[-1]

    def success(path: Tensor, place: Tensor) -> Tensor:
        w = weight[path, place]
        open = ((w < 1) & (place < length)).nonzero()[:, 0]
        mass = residuals.masses(path[open], place[open])
        return w.index_copy(0, open, mass / (mass + 1 - w[open]))

    return chance.last_success(coin_bound(weight.view(*p.shape[:-1], -1), p, q), success)


def coin_bound(weight: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """What no coin of block verification is likelier than, by the drafted tokens alone: float64 [.., L+1].

    The mass A is at most what the next drafted token x leaves, (w q(x) - p(x))+, and w (1 - q(x)) for all others.

    Args:
        weight: float64 [.., L+1], the running weights, 1 at most; p, q: [.., L], probability of each drafted token.
    """
    before = weight[..., :-1]
    mass = (before * q - p).clamp(min=0.0) + before * (1 - q).clamp(min=0.0)
    bound = torch.where(before < 1, mass / (mass + 1 - before), 1.0)
    return torch.cat([bound, weight[..., -1:]], dim=-1)


def verify_block(round: Round, chance: Chance, *, capped: bool) -> Emission:
    """Block verification of the first draft, with the running weight capped at 1 or not."""
    round = round.first_drafts(1)
    weight = running_weight(round.drafts, round.draft_probs, round.target_probs, capped=capped)
    p, q = on_paths(round.drafts, round.draft_probs, round.target_probs)
    residuals = Residuals(round, weight)
    accepted = stop_block(residuals, p, q, chance)
    extra = residuals.choose(accepted, chance)
    return emit(round, torch.zeros_like(accepted[:, 0]), accepted[:, 0], extra[:, 0])


def block(round: Round, chance: Chance) -> Emission:
    """Keep the longest prefix whose own coin h_i succeeds, then emit a token from (W q - p)+.

    E[tau] = sum over v of Q(v) rho(v), the most that a stateless lossless rule can reach with one draft.
    """
    return verify_block(round, chance, capped=True)
