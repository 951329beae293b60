"""What several rules share: weights along a draft, stopping points, corrections.

All functions take any leading shape ``..``: [B] for one draft a row, [B, K] for all drafts at once.
Quantities along a path are float64 whatever the laws are; sums over the vocabulary accumulate in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round

_LARGEST = 1e300
"""Ratios of probabilities stop here; what lies beyond has a weight below 1e-300."""


def on_path(laws: Tensor, tokens: Tensor) -> Tensor:
    """Probability of each token under the law at its position: [.., L, V] and [.., L] to float64 [.., L]."""
    return laws.gather(-1, tokens[..., None])[..., 0].to(torch.float64)


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """``numerator / denominator``, 0 where the numerator is 0, finite everywhere."""
    quotient = torch.where(numerator > 0, numerator / denominator, torch.zeros_like(numerator))
    return quotient.clamp(max=_LARGEST)


def any_of(probability: Tensor, count: Tensor | int) -> Tensor:
    """1 - (1 - x)^n, the probability that one of n independent events happens, without cancellation."""
    return -torch.expm1(count * torch.log1p(-probability.clamp(max=1.0)))


def residual(weight: Tensor, target: Tensor, draft: Tensor) -> Tensor:
    """(w q - p)+ / max(w, 1) over the vocabulary: weights [..], laws [.., V].

    Dividing by max(w, 1) keeps the numbers finite for every w and changes no law that they are weights of.
    """
    up = weight.clamp(max=1.0)[..., None].to(target.dtype)
    down = weight.clamp(min=1.0)[..., None].to(draft.dtype)
    return (up * target - draft / down).clamp(min=0.0)


def or_target(weights: Tensor, target: Tensor) -> Tensor:
    """The residual weights [.., V], or the target's law in rows where nothing is left of them.

    Exactly zero rows have probability zero; rounding can reach them, and the target is then the right law
    to within that rounding.
    """
    return torch.where((weights > 0).any(dim=-1, keepdim=True), weights, target)


def stopping_law(success: Tensor) -> Tensor:
    """P(largest success = i) of independent coins: [.., L+1] to [.., L+1]. The first coin should be 1."""
    failures = (1 - success[..., 1:]).flip(-1).cumprod(dim=-1).flip(-1)
    return success * torch.cat([failures, torch.ones_like(success[..., :1])], dim=-1)


def stop_at_first_rejection(accept: Tensor) -> Tensor:
    """P(tau = i) when tokens are accepted in turn with probabilities ``accept`` [.., L]: [.., L+1]."""
    reached = torch.cat([torch.ones_like(accept[..., :1]), accept.cumprod(dim=-1)], dim=-1)
    return reached * torch.cat([1 - accept, torch.ones_like(accept[..., :1])], dim=-1)


@dataclass(frozen=True, eq=False)
class Stop:
    """A draft, where its acceptance stopped, and the weights of the token that follows.

    Attributes:
        accepted: int64 [..], the accepted length tau.
        correction: [.., V], weights of the next token (the target's law when the whole draft was accepted).
    """

    accepted: Tensor
    correction: Tensor


def stop_on_path(stops: Tensor, weight: Tensor, draft_probs: Tensor, target_probs: Tensor, chance: Chance) -> Stop:
    """Draw the accepted length and find the correction (w q - p)+ there, q after a whole draft.

    Args:
        stops: [B, L+1], law of the accepted length.
        weight: [B, L+1], running weight w after each prefix.
        draft_probs: [B, L, V], target_probs: [B, L+1, V].
    """
    B, L = draft_probs.shape[:2]
    row = torch.arange(B, device=stops.device)
    accepted = chance.categorical(stops)
    target = target_probs[row, accepted]
    draft = draft_probs[row, accepted.clamp(max=L - 1)]
    left = or_target(residual(weight[row, accepted], target, draft), target)
    return Stop(accepted, torch.where((accepted == L)[:, None], target, left))


def emit(round: Round, draft: Tensor, accepted: Tensor, extra: Tensor) -> Emission:
    """The first ``accepted`` [B] tokens of draft number ``draft`` [B], then ``extra`` [B]."""
    B, L = round.rows, round.length
    row = torch.arange(B, device=draft.device)
    position = torch.arange(L + 1, device=draft.device)
    path = torch.cat([round.drafts[row, draft], extra[:, None]], dim=-1)
    tokens = torch.where(position < accepted[:, None], path, -1)
    tokens[row, accepted] = extra
    return Emission(tokens, accepted + 1, torch.where(accepted > 0, draft, -1))
