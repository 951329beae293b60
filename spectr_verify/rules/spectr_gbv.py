"""SpecTr-GBV (Lin et al. 2026), as its paper describes it and as its authors released it. Neither is lossless.

Both rules share one scan of the drafts and differ in three places: the correction's weights, whether a full block
that was rejected is tried again when another draft repeats it, and whether later rounds get a modified target.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from spectr_verify.chance import Chance, stopping_law
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import any_of, emit, on_path, or_target, ratio

Correction = Callable[[Tensor, Tensor, int], Tensor]
"""Target law [.., V], ratios r(vc) [.., V] and K to the weights of the correction, float64 [.., V]."""


def spectr_gbv_published(round: Round, chance: Chance) -> Emission:
    """Scan the drafts with the acceptance h(v) of the paper; correct from Q(vc) (1 - r(vc))^K.

    This is our reading of the paper's description. Biased for K >= 2 from the first token on: h divides by the
    probability that some draft shows v, as if tests on different branches could not pre-empt each other.
    """
    return _scan(round, chance, retry_whole=False, correction=_published_correction)


def spectr_gbv_released(round: Round, chance: Chance) -> Emission:
    """The released code (github.com/junemily/SpecTr-GBV, commit e399f44).

    It corrects from Q(vc) (1 - r(vc)^K), tries a rejected full block again, and never modifies the target.
    """
    return _scan(round, chance, retry_whole=True, correction=_released_correction)


def modified_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """The next rounds' target as published: Q(vc) (1 - r(vc))^K along the text, plain q where that is zero.

    Args:
        tokens: int64 [B, n], the text; draft_probs, target_probs: [B, n, V], laws after its first i tokens.
        drafts: K.

    Returns:
        Weights [B, n, V]; rows need not sum to 1.
    """
    P, Q = _prefix_probs(draft_probs, tokens), _prefix_probs(target_probs, tokens)
    r = _child_ratio(P[..., :-1], Q[..., :-1], draft_probs, target_probs)
    return or_target(_published_correction(target_probs, r, drafts), target_probs)


def _published_correction(target: Tensor, r: Tensor, drafts: int) -> Tensor:
    return target * (1 - r) ** drafts


def _released_correction(target: Tensor, r: Tensor, drafts: int) -> Tensor:
    return target * (1 - r**drafts)


def _scan(round: Round, chance: Chance, *, retry_whole: bool, correction: Correction) -> Emission:
    B, K, L = round.drafts.shape
    success = acceptance(round)
    seen = _shared_prefix(round.drafts)  # [B, K, L]: an earlier draft showed this sub-block
    if retry_whole:
        seen[:, :, -1] = False
    level = torch.arange(1, L + 1, device=success.device)
    row = torch.arange(B, device=success.device)
    accepted = torch.zeros(B, dtype=torch.int64, device=success.device)
    lead = torch.zeros_like(accepted)
    for k in range(K):
        # Every sub-block longer than the record is tested with its own coin and the longest success is kept. One
        # that an earlier draft showed was rejected there, or the record would be at least as long.
        testable = (level > accepted[:, None]) & ~seen[:, k]
        coins = torch.where(testable, success[:, k], 0.0)
        stops = stopping_law(torch.cat([torch.ones_like(coins[:, :1]), coins], dim=-1))
        longest = chance.categorical(stops)
        lead = torch.where(longest > accepted, k, lead)
        accepted = torch.maximum(longest, accepted)
    path = round.draft(lead)
    p, q, tokens = path.draft_probs[:, 0], path.target_probs[:, 0], path.drafts[:, 0]
    at = accepted.clamp(max=L - 1)
    P, Q = _prefix_probs(p, tokens)[row, at], _prefix_probs(q[:, :-1], tokens)[row, at]
    target = q[row, accepted]
    r = _child_ratio(P, Q, p[row, at], q[row, at])
    left = or_target(correction(target, r, K), target)
    weights = torch.where((accepted == L)[:, None], target, left)
    return emit(round, lead, accepted, chance.categorical(weights))


def acceptance(round: Round) -> Tensor:
    """h of every sub-block of every draft: float64 [B, K, L], at i the sub-block of i+1 tokens.

    With C(v) = Q(v)(1 - (1 - r(v))^K) and s(v) = 1 - (1 - P(v))^K, h(v) = (C(v) - sum C(vc)) / (s(v) - sum C(vc)),
    and C(v)/s(v) for the full block.
    """
    K = round.num_drafts
    P = _prefix_probs(round.draft_probs, round.drafts)
    Q = _prefix_probs(round.target_probs[:, :, :-1], round.drafts)
    C = Q * any_of(torch.where(Q > 0, ratio(P, Q), 1.0).clamp(max=1.0), K)
    s = any_of(P, K)
    p, q = round.draft_probs[:, :, 1:], round.target_probs[:, :, 1:-1]
    r = _child_ratio(P[..., 1:-1], Q[..., 1:-1], p, q)
    children = (Q[..., 1:-1, None] * q * any_of(r, K)).sum(dim=-1)
    inner = ratio((C[..., 1:-1] - children).clamp(min=0.0), s[..., 1:-1] - children)
    whole = ratio(C[..., -1:], s[..., -1:])
    return torch.cat([inner, whole], dim=-1).clamp(0.0, 1.0)


def _prefix_probs(laws: Tensor, tokens: Tensor) -> Tensor:
    """Probability of each prefix of a path: [.., L, V] and [.., L] to float64 [.., L+1], starting at 1."""
    steps = on_path(laws, tokens)
    return torch.cat([torch.ones_like(steps[..., :1]), steps.cumprod(dim=-1)], dim=-1)


def _child_ratio(P: Tensor, Q: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """r(vc) = min(P(vc)/Q(vc), 1) for every token c: float64 [.., V]; 1 where Q(vc) = 0."""
    below = Q[..., None] * q.to(torch.float64)
    above = P[..., None] * p.to(torch.float64)
    return torch.where(below > 0, ratio(above, below).clamp(max=1.0), 1.0)


def _shared_prefix(drafts: Tensor) -> Tensor:
    """Whether an earlier draft has the same first i+1 tokens: bool [B, K, L]."""
    same = (drafts[:, :, None] == drafts[:, None]).int().cumprod(dim=-1).bool()  # [B, K, K, L]
    K = drafts.shape[1]
    earlier = torch.ones(K, K, dtype=torch.bool, device=drafts.device).tril(diagonal=-1)
    return (same & earlier[:, :, None]).any(dim=2)
