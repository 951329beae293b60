"""The accepted length against closed forms, along the very texts that were decoded.

Where a stateless lossless rule starts a round, what follows in the text follows the target, however it is divided into
rounds. So E[tau] is the mean of a closed form's phi over the texts themselves (theory.md, section 6), and tau minus
the sum of phi_i over the L tokens after the round's start has mean zero: no further sample is needed, and most of the
noise is in both and goes away.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.stats import norm
from torch import Tensor

from spectr_verify.bounds.along_text import ALONG_TEXT, relaxed_bound
from spectr_verify.decoding import Texts
from spectr_verify.rules import RULES, Rule

LEAST_TEXTS = 100
"""Fewer texts give no normal law of a mean."""


@dataclass(frozen=True)
class AcceptedLength:
    """The mean accepted length of a round beside what it should or could be.

    Attributes:
        measured: its mean over the rounds that can be compared.
        expected: the same of the closed form, or of the relaxed bound.
        error: standard error of the difference.
        exact: whether ``expected`` is what the rule should reach; else no lossless rule reaches more.
        p: probability of such a difference of a lossless rule, of its size where exact, upwards where not.
        rounds: how many rounds.
    """

    measured: float
    expected: float
    error: float
    exact: bool
    p: float
    rounds: int


class AcceptedRounds:
    """Collects rounds, text by text."""

    def __init__(self, rule: Rule, drafts: int) -> None:
        """``drafts``: K."""
        self.rule, self.drafts = rule, rule.used_drafts(drafts)
        # Anybody's rule may be called as one of ours.
        self.exact = rule.name in ALONG_TEXT and RULES[rule.name] is rule
        self._accepts = ALONG_TEXT[rule.name] if self.exact else relaxed_bound
        self._sums: list[Tensor] = []

    def add(self, texts: Texts, log_p: Tensor, log_q: Tensor) -> None:
        """Texts and the log-probabilities float64 [B, N] of their tokens.

        A round counts if the text goes on for L tokens from its start, which its start alone decides. A stateful rule's
        later rounds follow a modified target: only the first ones are compared.
        """
        starts, accepted, L = texts.starts.cpu(), texts.accepted.cpu(), int(texts.drafted.max())
        log_p, log_q = log_p.cpu(), log_q.cpu()
        counts = (starts >= 0) & (starts + L <= log_p.shape[1]) & (texts.drafted == L)
        if self.rule.kind == "stateful":
            counts &= starts == 0
        place = starts.clamp(0, log_p.shape[1] - L)[..., None] + torch.arange(L)
        row = torch.arange(len(starts))[:, None, None]
        should = self._accepts(log_p[row, place], log_q[row, place], self.drafts).sum(dim=-1)
        columns = (torch.where(counts, part, 0).to(torch.float64).sum(dim=1) for part in (accepted, should))
        self._sums.append(torch.stack([*columns, counts.sum(dim=1).to(torch.float64)], dim=1))

    def compare(self) -> AcceptedLength | None:
        """The comparison; ``None`` of fewer than ``LEAST_TEXTS`` texts, and of texts with impossible tokens."""
        sums = torch.cat(self._sums) if self._sums else torch.zeros(0, 3)
        rounds = float(sums[:, 2].sum())
        if len(sums) < LEAST_TEXTS or rounds == 0 or not bool(sums.isfinite().all()):
            return None
        difference = sums[:, 0] - sums[:, 1]  # of each text: rounds of one text are not independent, texts are
        error = float(difference.square().sum().sqrt())
        z = float(difference.sum()) / error if error > 0 else 0.0
        p = 2 * norm.sf(abs(z)) if self.exact else norm.sf(z)
        measured, expected = (float(sums[:, column].sum()) / rounds for column in (0, 1))
        return AcceptedLength(measured, expected, error / rounds, self.exact, float(p), int(rounds))


def exceeds(found: AcceptedLength | None, alpha: float) -> bool:
    """Whether the comparison speaks against the rule at level ``alpha``."""
    return found is not None and found.p <= alpha
