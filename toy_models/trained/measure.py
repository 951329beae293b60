"""What is measured of a pair: how well each model predicts a text, and how much their laws overlap along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import log_softmax

ROWS_AT_ONCE = 8


@dataclass(frozen=True)
class Measurement:
    """Means over the positions of a text.

    ``overlap`` is the mean of sum_c min(p(c), q(c)) at temperature 1, the probability that token verification accepts
    a draft token there. Perplexities are those of a token.
    """

    overlap: float
    target_perplexity: float
    draft_perplexity: float
    positions: int


@torch.no_grad()
def measure(target: nn.Module, draft: nn.Module, windows: torch.Tensor, first: int = 1) -> Measurement:
    """Measure a pair on ``windows``, int64 [N, T], each row by itself: the laws of tokens ``first``, .. T-1."""
    overlap = target_nll = draft_nll = 0.0
    for rows in windows.split(ROWS_AT_ONCE):
        q, p = (log_softmax(model(rows, use_cache=False).logits[:, first - 1 : -1], -1) for model in (target, draft))
        following = rows[:, first:, None]
        overlap += torch.minimum(p, q).exp().sum(dtype=torch.float64).item()
        target_nll -= q.gather(-1, following).sum(dtype=torch.float64).item()
        draft_nll -= p.gather(-1, following).sum(dtype=torch.float64).item()
    positions = windows[:, first:].numel()
    return Measurement(
        overlap / positions, math.exp(target_nll / positions), math.exp(draft_nll / positions), positions
    )


def spread_windows(tokens: torch.Tensor, count: int, context: int) -> torch.Tensor:
    """Windows at even distances over ``tokens`` [N], int64 [count, context]; fewer where they would overlap."""
    whole = tokens[: len(tokens) // context * context].view(-1, context)
    count = min(count, len(whole))
    return whole[torch.arange(count) * len(whole) // count]
