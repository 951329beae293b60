"""From logits to the law that tokens are sampled from: temperature, top-k, top-p and min-p, in this order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spectr_verify.decoding.source import ModelError
from spectr_verify.errors import InputError

EDGE = 1e-4
"""How far logits, and at temperature 1 or more probabilities, may be from a filter's edge for rounding to decide."""

NEGLIGIBLE = 1e-3
"""Share of what the filters keep of which it is no matter whether they do."""

COLD = 100 * EDGE
"""Below this temperature rounding decides what is likely, and not only at a filter's edge."""


@dataclass(frozen=True)
class Filters:
    """What is done to the logits of both models.

    Attributes:
        temperature: logits are divided by it; 0 takes the likeliest token, of equals the first.
        top_k: keep the k likeliest tokens, and what is as likely as the last of them; ``None``: all.
        top_p: keep the likeliest tokens up to the one with which they reach this probability; 1: all.
        min_p: keep what is at least this share of the likeliest token's probability; 0: all.

    Raises:
        InputError: a number is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise InputError(f"the temperature is {self.temperature}; it must be a number from 0 on")
        if self.top_k is not None and not (isinstance(self.top_k, int) and self.top_k >= 1):
            raise InputError(f"top-k is {self.top_k}; it must be a whole number from 1 on, or left out")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top-p is {self.top_p}; it must be above 0 and at most 1, which keeps all tokens")
        if not 0 <= self.min_p <= 1:
            raise InputError(f"min-p is {self.min_p}; it must be 0, which keeps all tokens, to 1")

    def law(self, logits: Tensor) -> Tensor:
        """The law of the next token: logits [.., V] to probabilities [.., V] in float32, of float64 logits in float64.

        A row with NaN or infinity among its logits (minus infinity excepted) is NaN.
        """
        logits = _at_least_float32(logits)
        if self.temperature == 0:
            first = logits.argmax(dim=-1, keepdim=True)
            law = torch.zeros_like(logits).scatter_(-1, first, 1.0)
            return torch.where((logits.amax(dim=-1, keepdim=True)).isfinite(), law, torch.nan)
        scaled = self._scaled(logits)
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            last = scaled.topk(self.top_k, dim=-1).values[..., -1:]
            scaled = scaled.masked_fill(scaled < last, -torch.inf)
        law = _normalised(scaled.softmax(dim=-1))
        if self.top_p < 1:
            ordered, order = law.sort(dim=-1, descending=True, stable=True)
            before = ordered.cumsum(dim=-1, dtype=torch.float64) - ordered
            law = _kept(law, torch.zeros_like(law, dtype=torch.bool).scatter(-1, order, before < self.top_p))
        if self.min_p > 0:
            law = _kept(law, law >= self.min_p * law.amax(dim=-1, keepdim=True))
        return law

    def law_of_model(self, logits: Tensor, name: str) -> Tensor:
        """``law`` of what a model gives.

        Raises:
            ModelError: a row has none.
        """
        law = self.law(logits)
        if bool(law.isnan().any()):
            raise ModelError(f"{name} gives logits that are not finite numbers; no law follows from them")
        return law

    def nearly_possible(self, logits: Tensor) -> Tensor:
        """Tokens that the filters keep, or would keep were the logits [.., V] rounded otherwise: bool [.., V]."""
        logits = _at_least_float32(logits)
        ties = logits >= logits.amax(dim=-1, keepdim=True) - EDGE
        return ties if self.temperature == 0 else ties | self._possible(logits, EDGE)[0]

    def undecided(self, logits: Tensor) -> Tensor:
        """Laws [.., V] of which rounding may decide more than a negligible part: bool [..].

        Whether it does is no matter, nor is the token that came: who leaves these laws out of a test leaves it fair.
        """
        logits = _at_least_float32(logits)
        if self.temperature < COLD and logits.shape[-1] > 1:
            first, second = logits.topk(2, dim=-1).values.unbind(dim=-1)
            close = second - first + 2 * EDGE >= self.temperature * math.log(NEGLIGIBLE)
        else:
            close = torch.zeros_like(logits[..., 0], dtype=torch.bool)
        if self.temperature == 0 or not (self.top_k or self.top_p < 1 or self.min_p > 0):
            return close
        (nearly, law), (surely, _) = self._possible(logits, EDGE), self._possible(logits, -EDGE)
        unsure, kept = (torch.where(tokens, law, 0.0).sum(dim=-1) for tokens in (nearly & ~surely, nearly))
        return close | (unsure > NEGLIGIBLE * kept)

    def _possible(self, logits: Tensor, slack: float) -> tuple[Tensor, Tensor]:
        """What the filters would keep, and the law of it, were each token favoured by ``slack`` over the others.

        Top-p measures a token by what is likelier by more than the slack, as a share of the top k with all their ties.
        """
        plain = self._scaled(logits).softmax(dim=-1)
        possible = plain > 0
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            # With a disadvantage a token has to be ahead of the one behind the last.
            last = logits.topk(self.top_k + (slack < 0), dim=-1).values[..., -1:]
            possible &= (logits >= last - slack) if slack > 0 else (logits > last - slack)
        # NaN where no token is kept for sure, as of nothing but ties: comparisons with it are false.
        law = _normalised(torch.where(possible, plain, 0.0))
        tolerance = slack / min(max(self.temperature, EDGE), 1.0)
        if self.top_p < 1:
            ordered, order = logits.sort(dim=-1, descending=True)
            likelier = torch.searchsorted(-ordered, -ordered - slack, right=slack < 0)
            mass = law.gather(-1, order).to(torch.float64)
            reached = torch.cat([torch.zeros_like(mass[..., :1]), mass.cumsum(dim=-1)], dim=-1)
            before = reached.gather(-1, likelier) - (mass if slack < 0 else 0.0)
            possible &= torch.zeros_like(possible).scatter(-1, order, before < self.top_p + tolerance)
        possible &= plain >= self.min_p * (1 - tolerance) * plain.amax(dim=-1, keepdim=True)
        return possible, law

    def _scaled(self, logits: Tensor) -> Tensor:
        """Logits over the temperature, the largest at 0.

        Shifted first: a small temperature then sends the unlikely to minus infinity and the likeliest nowhere. One
        that the number format takes for zero or infinity would make NaN of them.
        """
        numbers = torch.finfo(logits.dtype)
        return (logits - logits.amax(dim=-1, keepdim=True)) / min(max(self.temperature, numbers.tiny), numbers.max)


def _at_least_float32(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.to(torch.float32)


def _kept(law: Tensor, kept: Tensor) -> Tensor:
    """The law of what is kept. NaN stays NaN."""
    return _normalised(torch.where(kept | law.isnan(), law, 0.0))


def _normalised(law: Tensor) -> Tensor:
    """Sums are float64: in float32 those of a large vocabulary miss 1 in the fifth digit, in every law alike."""
    return law / law.sum(dim=-1, keepdim=True, dtype=torch.float64).to(law.dtype)
