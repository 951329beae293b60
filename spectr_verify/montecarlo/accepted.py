"""The accepted length against closed forms, along the very texts that were decoded.

Where a stateless lossless rule starts a round, what follows in the text follows the target, however it is divided into
rounds. So E[tau] is the mean of a closed form's phi over the texts themselves, and
D = tau - sum of phi_i over the L tokens after the round's start has mean zero, given all that was before. D lies
between -L and L: the product of 1 + x D/L over rounds that do not overlap is an e-value for every x between -1 and 1, a
bet that needs no law of a mean and may be looked at all the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spectr_verify.bounds.along_text import ALONG_TEXT, relaxed_bound
from spectr_verify.decoding import Texts
from spectr_verify.rules import RULES, Rule

STAKES = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares x that are bet, upwards and, where the closed form is to be reached, downwards."""


@dataclass(frozen=True)
class AcceptedLength:
    """The mean accepted length of a round beside what it should or could be.

    Attributes:
        measured: its mean over the rounds that are compared.
        expected: the same of the closed form, or of the relaxed bound.
        error: standard error of the difference, to be read and not to be tested with.
        exact: whether ``expected`` is what the rule should reach; else no lossless rule reaches more.
        log10_e: decimal logarithm of the e-value against that.
        rounds: how many rounds.
    """

    measured: float
    expected: float
    error: float
    exact: bool
    log10_e: float
    rounds: int


class AcceptedRounds:
    """Collects rounds, text by text."""

    def __init__(self, rule: Rule, drafts: int) -> None:
        """``drafts``: K."""
        self.rule, self.drafts = rule, rule.used_drafts(drafts)
        # Anybody's rule may be called as one of ours.
        self.exact = rule.name in ALONG_TEXT and RULES[rule.name] is rule
        self._accepts = ALONG_TEXT[rule.name] if self.exact else relaxed_bound
        stakes = [*STAKES, *(-stake for stake in STAKES)] if self.exact else STAKES
        self._stakes = torch.tensor(stakes, dtype=torch.float64)
        self._log_e = torch.zeros_like(self._stakes)
        self._sums = torch.zeros(4, dtype=torch.float64)  # measured, expected, squared difference, rounds

    def add(self, texts: Texts, log_p: Tensor, log_q: Tensor) -> None:
        """Texts and the log-probabilities float64 [B, N] of their tokens."""
        accepted, L = texts.accepted.cpu(), int(texts.drafted.max())
        log_p, log_q = log_p.cpu(), log_q.cpu()
        starts = texts.starts.cpu()
        counts = self._compared(starts, texts.drafted.cpu() == L, L, log_p.shape[1])
        place = starts.clamp(0, log_p.shape[1] - L)[..., None] + torch.arange(L)
        row = torch.arange(len(starts))[:, None, None]
        counts &= (log_q[row, place] > -torch.inf).all(dim=-1)
        should = self._accepts(log_p[row, place], log_q[row, place], self.drafts).sum(dim=-1)[counts]
        reached = accepted[counts].to(torch.float64)
        difference = reached - should
        self._log_e += torch.log1p(self._stakes * difference[:, None] / L).sum(dim=0)
        columns = (reached, should, difference.square(), torch.ones_like(should))
        self._sums += torch.stack([column.sum() for column in columns])

    def _compared(self, starts: Tensor, whole: Tensor, length: int, tokens: int) -> Tensor:
        """Which rounds are compared: bool [B, R].

        Those whose text goes on for L tokens, which the start alone decides, and that start behind the L tokens of the
        one before. A stateful rule's later rounds follow a modified target: only the first ones are compared.
        """
        counts = torch.zeros_like(starts, dtype=torch.bool)
        free = torch.zeros_like(starts[:, 0])
        for r in range(starts.shape[1]):
            start = starts[:, r]
            counts[:, r] = (start >= free) & (start + length <= tokens) & whole[r]
            if self.rule.kind == "stateful":
                counts[:, r] &= start == 0
            free = torch.where(counts[:, r], start + length, free)
        return counts

    def compare(self) -> AcceptedLength | None:
        """The comparison; ``None`` of no round. Rounds with impossible tokens, which have no closed form, are none."""
        measured, expected, squares, rounds = self._sums.tolist()
        if rounds == 0:
            return None
        log_e = float(self._log_e.logsumexp(dim=0)) - math.log(len(self._log_e))
        error = math.sqrt(squares) / rounds
        return AcceptedLength(
            measured / rounds, expected / rounds, error, self.exact, log_e / math.log(10), round(rounds)
        )


def exceeds(found: AcceptedLength | None, alpha: float) -> bool:
    """Whether the comparison speaks against the rule at level ``alpha``."""
    return found is not None and found.log10_e >= -math.log10(alpha)
