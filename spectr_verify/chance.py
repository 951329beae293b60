"""The only way a rule may be random.

A rule asks a ``Chance`` for its random choices. *Sampled* chance draws them, *enumerated* chance takes them all:
the same rule gives text in the one and an exact law in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from spectr_verify.errors import InputError


class ChanceError(InputError):
    """A rule asked for an impossible choice: the message names the row."""


class Chance(Protocol):
    """The two random primitives that every rule is written with."""

    def categorical(self, weights: Tensor) -> Tensor:
        """Choose an index a row in proportion to ``weights`` [B, n] (no need to sum to 1): int64 [B].

        Raises:
            ChanceError: a row is all zero, negative, or not finite.
        """
        ...

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        """Draw E_k uniform on (low_k, high_k], [B, K] each, and tell which is the smallest: int64 [B].

        An interval of width zero is the point itself; equal points go to the lower index.

        Raises:
            ChanceError: an interval is upside down or not finite.
        """
        ...


class Sampled:
    """Draws each choice from a torch generator, on the generator's device."""

    def __init__(self, generator: torch.Generator) -> None:
        """Draw from ``generator``; seed it to make a run repeatable."""
        self.generator = generator

    def categorical(self, weights: Tensor) -> Tensor:
        """See ``Chance.categorical``."""
        check_weights(weights)
        steps = weights.to(torch.float64).cumsum(dim=-1)
        point = self._uniform(weights.shape[0], 1) * steps[:, -1:]
        index = torch.searchsorted(steps, point, right=True)[:, 0]
        # u * total can round up to the total; the last token of positive weight is then the right one.
        last = weights.shape[1] - 1 - (weights > 0).flip(-1).int().argmax(dim=-1)
        return torch.minimum(index, last)

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        """See ``Chance.smallest_uniform``."""
        check_intervals(low, high)
        low, high = low.to(torch.float64), high.to(torch.float64)
        return (high - self._uniform(*low.shape) * (high - low)).argmin(dim=-1)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator, device=self.generator.device, dtype=torch.float64)


class Fork(BaseException):
    """Raised at the first choice that the record does not hold.

    Not an ``Exception``: a rule's own ``except Exception`` must not swallow it.

    Attributes:
        probabilities: float64 [B, n], the law of the choice in every row.
    """

    def __init__(self, probabilities: Tensor) -> None:
        """Carry the law of the choice to whoever enumerates."""
        super().__init__()
        self.probabilities = probabilities


class Enumerated:
    """Replays recorded choices and stops with a ``Fork`` at the first one that is not recorded."""

    def __init__(self, record: Tensor) -> None:
        """Replay ``record``, int64 [B, D]: in column d every row's answer to the d-th question."""
        self.record = record
        self.asked = 0

    def categorical(self, weights: Tensor) -> Tensor:
        """See ``Chance.categorical``."""
        check_weights(weights)
        return self._answer(weights.shape, lambda: _normalised(weights))

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        """See ``Chance.smallest_uniform``."""
        check_intervals(low, high)
        return self._answer(low.shape, lambda: smallest_uniform_law(low, high))

    def _answer(self, shape: torch.Size, law: Callable[[], Tensor]) -> Tensor:
        rows, recorded = self.record.shape
        if shape[0] != rows:
            raise ChanceError(
                f"a choice was asked for {shape[0]} rows of a round with {rows}; ask for every row at once"
            )
        if self.asked == recorded:
            raise Fork(law())
        answer = self.record[:, self.asked]
        self.asked += 1
        return answer


def smallest_uniform_law(low: Tensor, high: Tensor) -> Tensor:
    """Exact probabilities that E_k is the smallest of K independent uniforms on (low_k, high_k].

    P(k) is the integral of E_k's density times the others' survival functions: a piecewise polynomial of
    degree K - 1 with breaks at the interval ends, which Gauss-Legendre quadrature integrates exactly.

    Args:
        low, high: [B, K], low <= high.

    Returns:
        float64 [B, K], rows sum to 1.
    """
    low, high = low.to(torch.float64), high.to(torch.float64)
    K = low.shape[1]
    if K == 1:
        return torch.ones_like(low)
    is_point = high <= low
    width = torch.where(is_point, 1.0, high - low)

    ends = torch.cat([low, high], dim=1).sort(dim=1).values
    nodes, masses = (torch.as_tensor(a, device=low.device) for a in np.polynomial.legendre.leggauss((K + 1) // 2))
    half = (ends[:, 1:] - ends[:, :-1]) / 2
    middle = (ends[:, 1:] + ends[:, :-1]) / 2
    at = (middle[..., None] + half[..., None] * nodes).flatten(1)  # [B, M]
    mass = (half[..., None] * masses).flatten(1)

    survival = _survival(at, low, high, width, is_point)  # [B, M, K]
    inside = (at[..., None] > low[:, None]) & (at[..., None] < high[:, None]) & ~is_point[:, None]
    density = torch.where(inside, 1 / width[:, None], 0.0)
    by_interval = (mass[..., None] * density * _product_of_others(survival)).sum(dim=1)

    # An interval of width zero is an atom: it wins if all others lie above it, equal atoms of lower index excepted.
    index = torch.arange(K, device=low.device)
    above = _survival(high, low, high, width, is_point)  # [B, K, K]: P(E_j > high_k)
    tie = is_point[:, None, :] & (high[:, None, :] == high[:, :, None]) & (index[None, :] > index[:, None])
    above = torch.where(tie | torch.eye(K, dtype=torch.bool, device=low.device), 1.0, above)
    law = torch.where(is_point, above.prod(dim=-1), by_interval)
    return _normalised(law)


def _survival(at: Tensor, low: Tensor, high: Tensor, width: Tensor, is_point: Tensor) -> Tensor:
    """P(E_k > at): [B, M, K] for ``at`` [B, M]."""
    inside = ((high[:, None] - at[..., None]) / width[:, None]).clamp(0.0, 1.0)
    return torch.where(is_point[:, None], (at[..., None] < high[:, None]).to(at.dtype), inside)


def _product_of_others(factors: Tensor) -> Tensor:
    """Product over the last axis without the factor itself, without dividing: shape kept."""
    ones = torch.ones_like(factors[..., :1])
    before = torch.cat([ones, factors[..., :-1]], dim=-1).cumprod(dim=-1)
    after = torch.cat([factors[..., 1:], ones], dim=-1).flip(-1).cumprod(dim=-1).flip(-1)
    return before * after


def _normalised(weights: Tensor) -> Tensor:
    weights = weights.to(torch.float64)
    return weights / weights.sum(dim=-1, keepdim=True)


def check_weights(weights: Tensor) -> None:
    """Raise ``ChanceError`` unless every row of ``weights`` [B, n] can be chosen from."""
    if weights.ndim != 2 or not weights.is_floating_point():
        raise ChanceError(
            f"categorical takes floating-point weights [B, n]; it got {weights.dtype} {list(weights.shape)}"
        )
    bad = ~((weights >= 0).all(dim=-1) & torch.isfinite(weights).all(dim=-1) & (weights > 0).any(dim=-1))
    if bad.any():
        row = int(bad.int().argmax())
        raise ChanceError(
            f"categorical, row {row}: the weights {weights[row].tolist()[:8]} must be finite, none negative, "
            "not all zero"
        )


def check_intervals(low: Tensor, high: Tensor) -> None:
    """Raise ``ChanceError`` unless ``low`` and ``high`` [B, K] are the ends of finite intervals."""
    if low.ndim != 2 or low.shape != high.shape:
        raise ChanceError(f"smallest_uniform takes two [B, K]; it got {list(low.shape)} and {list(high.shape)}")
    bad = ~(torch.isfinite(low) & torch.isfinite(high) & (low <= high)).all(dim=-1)
    if bad.any():
        row = int(bad.int().argmax())
        raise ChanceError(
            f"smallest_uniform, row {row}: the ends {low[row].tolist()} and {high[row].tolist()} must be finite, "
            "each low at most its high"
        )
