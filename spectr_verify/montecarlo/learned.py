"""Alternatives that earlier texts suggest: tokens, and ranks under the target, that came too often or too seldom.

A law r need only be fixed before the token is seen; what earlier batches of texts showed may shape it. The laws of
``evidence.ALTERNATIVES`` point from the target toward or away from the draft; a fault that bans one token, or that
swaps the two likeliest, moves the text in none of their directions, and these find it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.montecarlo.evidence import ALTERNATIVES, log_ratios

LEARNED = ("what earlier texts say of each token", "what earlier texts say of the ranks under the target")

RANKS = 8
"""So many of the likeliest tokens have a rank of their own; all others share one."""

TELLING = 3.0
"""A count is learned from where it is this many standard deviations from what is expected: noise costs evidence."""

MOST = 3.0
"""The largest log ratio that is learned: a token that never came may still come."""


class Alternatives:
    """All alternatives r, those that are fixed and those that are learned between batches of texts."""

    names = (*ALTERNATIVES, *LEARNED)

    def __init__(self, vocab: int, device: torch.device) -> None:
        """Nothing is learned yet of ``vocab`` tokens."""
        self._tokens, self._ranks = _Counts(vocab, device), _Counts(RANKS + 1, device)

    def __call__(self, target: Tensor, draft: Tensor, tokens: Tensor) -> Tensor:
        """log r(token)/q(token) of every alternative r, and note what is to be learned of them.

        Args:
            target, draft: the laws q and p, [n, V].
            tokens: int64 [n].

        Returns:
            float64 [n, J], in the order of ``names``; 0 in rows whose token has q = 0.
        """
        by_rank, rank = _by_rank(target, tokens)
        learned = [self._tokens.log_ratio(target, tokens), self._ranks.log_ratio(by_rank, rank)]
        possible = target.gather(1, tokens[:, None]) > 0
        found = torch.where(possible, torch.stack(learned, dim=-1), 0.0)
        return torch.cat([log_ratios(target, draft, tokens), found], dim=-1)

    def learn(self) -> None:
        """Let what was seen so far shape the laws from now on. To be called between texts, never within one."""
        self._tokens.learn()
        self._ranks.learn()


def _by_rank(target: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The law of the rank [n, RANKS + 1], and the ranks of the tokens, int64 [n]."""
    likeliest, index = target.topk(min(RANKS, target.shape[1]), dim=-1)
    others = torch.zeros(len(target), RANKS + 1 - likeliest.shape[1], dtype=target.dtype, device=target.device)
    law = torch.cat([likeliest, others], dim=-1)
    law[:, -1] = (1 - likeliest.sum(dim=-1, dtype=torch.float64)).clamp(min=0.0)
    same = index == tokens[:, None]
    return law, torch.where(same.any(dim=-1), same.int().argmax(dim=-1), RANKS)


class _Counts:
    """How often each of C outcomes came, and how often it was to be expected."""

    def __init__(self, outcomes: int, device: torch.device) -> None:
        self.seen = torch.zeros(outcomes, dtype=torch.float64, device=device)
        self.expected = torch.zeros_like(self.seen)
        self.tilt = torch.zeros_like(self.seen)

    def log_ratio(self, law: Tensor, outcome: Tensor) -> Tensor:
        """log of (law tilted by what was learned)/law at each outcome: [n, C] and [n] to float64 [n]."""
        self.seen += torch.bincount(outcome, minlength=len(self.seen))
        self.expected += law.sum(dim=0, dtype=torch.float64)
        norm = (law * self.tilt.expm1().to(law.dtype)).sum(dim=-1, dtype=torch.float64)
        return self.tilt[outcome] - norm.log1p()

    def learn(self) -> None:
        """Tilt by the ratio of the counts where it tells something."""
        telling = (self.seen - self.expected).square() > TELLING**2 * (self.expected + 1)
        ratio = ((self.seen + 1) / (self.expected + 1)).log().clamp(-MOST, MOST)
        self.tilt = torch.where(telling, ratio, 0.0)
