"""E-values against "every token follows the target", and how much of a fault the texts leave possible.

Let q be the target's law of the next token and r any law that is fixed before the token is seen. The product of
r(token)/q(token) over a text has mean at most 1 if every token follows q, and so have its products over independent
texts and the mean over several r. Such an *e-value* reaches 1/alpha with probability at most alpha, whenever one stops:
no test at the end, and no asymptotics (Ville's inequality).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

TOWARD_DRAFT = (0.01, 0.03, 0.1, 0.3)
TILTS = (-0.3, -0.1, -0.03, 0.03, 0.1, 0.3)

ALTERNATIVES = (
    *(f"toward the draft, {share:g} of it" for share in TOWARD_DRAFT),
    *(f"along (q/p)^{tilt:g}" for tilt in TILTS),
    *(f"{'sharper' if tilt > 0 else 'flatter'}, q^{1 + tilt:g}" for tilt in TILTS),
)
"""The laws r that are always tried: (1 - x) q + x p, and q (q/p)^x and q^(1 + x) normalised, for several x."""

MOST = 6.0
"""Log ratios of the two models count at most this much in a tilt: a single token then decides nothing."""

LEAST = -15.0
"""Log-probabilities count at least this much in a sharper or flatter law."""

LARGEST = 1e300
"""Ratios p/q count at most this much: beyond it they are no numbers."""

REMAINDER = 1e-6
"""Every alternative keeps this share of the law that is tested, so that one token cannot end its product."""

SHARES = torch.cat([torch.zeros(1, dtype=torch.float64), torch.logspace(-4, 0, 161, dtype=torch.float64)])
"""The shares of the draft in the output that are tried for the bound on the effect."""


def log_ratios(target: Tensor, draft: Tensor, tokens: Tensor) -> Tensor:
    """log r(token)/q(token) of every alternative r.

    Args:
        target, draft: the laws q and p, [n, V].
        tokens: int64 [n].

    Returns:
        float64 [n, J], in the order of ``ALTERNATIVES``; 0 in rows whose token has q = 0.
    """
    log_q, log_p = target.log(), draft.log()
    possible = target > 0
    along = torch.where(possible, (log_q - log_p).clamp(-MOST, MOST), 0.0)
    sharper = torch.where(possible, log_q.clamp(min=LEAST), 0.0)
    ratio = (_at(draft, tokens).to(torch.float64) / _at(target, tokens)).clamp(max=LARGEST)
    mixed = [torch.log1p(share * (ratio - 1)) for share in TOWARD_DRAFT]
    tilted = [
        tilt * _at(feature, tokens).to(torch.float64) - (log_q + tilt * feature).logsumexp(dim=-1).to(torch.float64)
        for feature in (along, sharper)
        for tilt in TILTS
    ]
    found = torch.stack([*mixed, *tilted], dim=-1)
    return torch.where(_at(possible, tokens)[:, None], found, 0.0)


def _at(rows: Tensor, tokens: Tensor) -> Tensor:
    return rows.gather(-1, tokens[:, None])[:, 0]


class Evidence:
    """The running e-value of independent texts.

    Attributes:
        sums: float64 [J], for every alternative the sum of log r/q over all tokens.
        tokens: how many tokens.
        impossible: how many of them had probability zero; one is enough to reject.
    """

    def __init__(self, alternatives: Sequence[str] = ALTERNATIVES) -> None:
        """No text yet; ``alternatives`` are the names of the laws r."""
        self.alternatives = tuple(alternatives)
        self.sums = torch.zeros(len(self.alternatives), dtype=torch.float64)
        self.tokens = self.impossible = 0
        self._shares = torch.zeros_like(SHARES)

    def add(self, log_r: Tensor, log_q: Tensor, log_p: Tensor) -> None:
        """More tokens.

        Args:
            log_r: float64 [n, J], log-probability of each token under every alternative.
            log_q: float64 [n], under the law that is tested; minus infinity where it is impossible.
            log_p: float64 [n], under the draft model.
        """
        possible = log_q > -math.inf
        self.tokens += len(log_q)
        self.impossible += int((~possible).sum())
        log_q, log_p, log_r = log_q[possible], log_p[possible], log_r[possible]
        kept = torch.tensor(REMAINDER, dtype=torch.float64, device=log_q.device)
        self.sums += torch.logaddexp(log_r - log_q[:, None] + (-kept).log1p(), kept.log()).sum(dim=0).cpu()
        ratio = (log_p - log_q).exp().clamp(max=LARGEST)[:, None]
        self._shares += torch.log1p(SHARES.to(ratio.device) * (ratio - 1)).sum(dim=0).cpu()

    @property
    def log10_e(self) -> float:
        """Decimal logarithm of the e-value, the mean over the alternatives; infinite after an impossible token."""
        return math.inf if self.impossible else self._log_mean / math.log(10)

    @property
    def _log_mean(self) -> float:
        return float(self.sums.logsumexp(dim=0)) - math.log(len(self.sums))

    @property
    def by_alternative(self) -> dict[str, float]:
        """Decimal logarithm of the e-value of each alternative by itself."""
        return dict(zip(self.alternatives, (self.sums / math.log(10)).tolist(), strict=True))

    @property
    def worst_alternative(self) -> str:
        """The law that explains the texts best."""
        return self.alternatives[int(self.sums.argmax())]

    def effect_upper_bound(self, alpha: float) -> float | None:
        """Largest share of the draft that the output may still hold, at confidence 1 - alpha.

        A share x is excluded where the same alternatives, tested against (1 - x) q + x p in place of q, reach 1/alpha.
        q itself is one alternative more, for the one at 0.01 is no evidence against that very share. Between two
        shares of the grid the larger one is told. ``None`` after an impossible token, and where all are excluded: then
        it is no such mixture.
        """
        with_q = torch.cat([self.sums, torch.zeros(1, dtype=torch.float64)])
        against = float(with_q.logsumexp(dim=0)) - math.log(len(with_q)) - self._shares
        kept = (against < -math.log(alpha)).nonzero()
        if self.impossible or not len(kept):
            return None
        return float(SHARES[min(int(kept.max()) + 1, len(SHARES) - 1)])
