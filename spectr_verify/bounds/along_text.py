"""Accepted length along a text that the target wrote: closed forms as means over texts.

Every closed form is a sum over texts v weighted by Q(v), so it is E[sum of phi_i(Y)] over texts Y of L tokens from the
target, where phi_i needs only the log-probabilities that both models give to the first i tokens of Y.

Functions take log p and log q of the tokens, [.., L] each, and K, and return phi, [.., L]: the probability that a round
which starts before the text accepts its first i tokens, given that the text comes out. Single-draft rules ignore K.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

UNLIKELY = -50.0
"""The log-probability below which 1 - (1 - P)^K is K P to every digit."""

Accepts = Callable[[Tensor, Tensor, int], Tensor]


def token(log_p: Tensor, log_q: Tensor, drafts: int) -> Tensor:
    """Token verification: the product of min(p/q, 1)."""
    return (log_p - log_q).clamp(max=0.0).cumsum(dim=-1).exp()


def block(log_p: Tensor, log_q: Tensor, drafts: int) -> Tensor:
    """Block verification: rho, the smallest min(P/Q, 1) on the way."""
    return (log_p - log_q).cumsum(dim=-1).cummin(dim=-1).values.clamp(max=0.0).exp()


def greedy_block(log_p: Tensor, log_q: Tensor, drafts: int) -> Tensor:
    """Greedy block verification: r = min(P/Q, 1)."""
    return (log_p - log_q).cumsum(dim=-1).clamp(max=0.0).exp()


def block_race(log_p: Tensor, log_q: Tensor, drafts: int) -> Tensor:
    """The block race: 1 - (1 - rho)^K."""
    return _any_of(block(log_p, log_q, 1), drafts)


def relaxed_bound(log_p: Tensor, log_q: Tensor, drafts: int) -> Tensor:
    """min(1, (1 - (1 - P)^K) / Q), which no lossless rule exceeds in the mean."""
    log_text = log_p.cumsum(dim=-1).clamp(max=0.0)
    # Of an unlikely text it is K P, and P may be too small for a number.
    log_shown = torch.where(log_text < UNLIKELY, log_text + math.log(drafts), _any_of(log_text.exp(), drafts).log())
    return (log_shown - log_q.cumsum(dim=-1)).clamp(max=0.0).exp()


ALONG_TEXT: dict[str, Accepts] = {
    "token": token,
    "block": block,
    "greedy-block": greedy_block,
    "block-race": block_race,
}
"""Registered rules whose accepted length has a closed form."""


def _any_of(probability: Tensor, drafts: int) -> Tensor:
    """1 - (1 - x)^K, to full relative precision however small x is."""
    return -torch.expm1(drafts * torch.log1p(-probability))
