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

BLOCK = 512
"""A choice among many is made in two steps, block and entry: about the square root of a large vocabulary."""

_CACHED = 2**17
"""So many weights are looked through at once."""


class ChanceError(InputError):
    """A rule asked for an impossible choice: the message names the row."""


Success = Callable[[Tensor, Tensor], Tensor]
"""(path int64 [m], counted over B and K; place int64 [m]) to the probabilities [m] of these coins."""


class Chance(Protocol):
    """The random primitives that every rule is written with."""

    def categorical(self, weights: Tensor) -> Tensor:
        """Choose an index in proportion to ``weights`` (no need to sum to 1).

        Args:
            weights: [B, n] for one choice a row, [B, K, n] for K independent ones.

        Returns:
            int64 [B] or [B, K].

        Raises:
            ChanceError: weights are all zero, or one is negative or not finite, or their sum is infinite.
        """
        ...

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        """Draw E_k uniform on (low_k, high_k], [B, K] each, and tell which is the smallest: int64 [B].

        An interval of width zero is the point itself; equal points go to the lower index.

        Raises:
            ChanceError: an interval is upside down or not finite.
        """
        ...

    def last_success(self, bound: Tensor, success: Success) -> Tensor:
        """Toss independent coins, one for each place of a path, and tell the last that succeeds: int64 [B, K].

        One categorical choice for all coins of a path, by ``stopping_law``.

        Args:
            bound: [B, K, n], no coin is likelier to succeed, and one whose bound is 1 is sure. The first coin must be.
            success: tells the coins' probabilities.
        """
        path, place = torch.ones_like(bound.flatten(0, 1)).nonzero(as_tuple=True)
        coins = torch.minimum(success(path, place).view(bound.shape), bound)
        return self.categorical(stopping_law(torch.where(bound >= 1, 1.0, coins)))


class Sampled(Chance):
    """Draws each choice from a torch generator, on the generator's device."""

    def __init__(self, generator: torch.Generator) -> None:
        """Draw from ``generator``; seed it to make a run repeatable."""
        self.generator = generator

    def categorical(self, weights: Tensor) -> Tensor:
        """See ``Chance.categorical``."""
        _check_form(weights)
        if weights.ndim == 3:
            return self.categorical(weights.flatten(0, 1)).view(weights.shape[:2])
        masses, smallest = _looked_through(weights)
        total = masses.sum(dim=-1, keepdim=True)
        _check_values(weights, total[:, 0], smallest)
        block = _first_beyond(masses, masses.cumsum(dim=-1) / total, self._uniform(len(weights), 1))
        if masses.shape[1] == weights.shape[1]:
            return block
        inside = _some_block(weights, block[:, None]).to(torch.float64)
        steps = inside.cumsum(dim=-1)
        entry = _first_beyond(inside, steps / steps[:, -1:], self._uniform(len(weights), 1))
        return block * BLOCK + entry

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        """See ``Chance.smallest_uniform``."""
        check_intervals(low, high)
        low, high = low.to(torch.float64), high.to(torch.float64)
        return (high - self._uniform(*low.shape) * (high - low)).argmin(dim=-1)

    def last_success(self, bound: Tensor, success: Success) -> Tensor:
        """See ``Chance.last_success``: here without looking at most of the coins' probabilities.

        Not at those before the last coin that is sure, and not where the uniform number lies above the bound already.
        """
        paths = bound.flatten(0, 1)
        luck = self._uniform(*paths.shape)
        place = torch.arange(paths.shape[1], device=bound.device)
        sure = torch.where(paths >= 1, place, 0).amax(dim=-1)
        path, at = ((luck < paths) & (place > sure[:, None])).nonzero(as_tuple=True)
        won = torch.where(luck[path, at] < success(path, at), at, 0)
        return sure.scatter_reduce(0, path, won, "amax").view(bound.shape[:2])

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator, device=self.generator.device, dtype=torch.float64)


class Fork(BaseException):
    """Raised at the first choice that the record does not hold.

    Derived from ``BaseException`` so that a rule which catches every ``Exception`` does not swallow it.

    Attributes:
        probabilities: float64 [B, n], the law of the choice in every row.
    """

    def __init__(self, probabilities: Tensor) -> None:
        """Carry the law of the choice to whoever enumerates."""
        super().__init__()
        self.probabilities = probabilities


class Enumerated(Chance):
    """Replays recorded choices and stops with a ``Fork`` at the first one that is not recorded.

    Attributes:
        record: int64 [B, D], the recorded choices.
        weight: float64 [B], the probability of the choices replayed so far.
        asked: how many choices were replayed so far.
    """

    def __init__(self, record: Tensor) -> None:
        """Replay ``record``, int64 [B, D]: in column d every row's answer to the d-th question."""
        self.record = record
        self.weight = torch.ones(record.shape[0], dtype=torch.float64)
        self.asked = 0
        self._next: Tensor | None = None

    @property
    def stopped(self) -> bool:
        """Whether a ``Fork`` was raised; every further question raises the same one."""
        return self._next is not None

    def categorical(self, weights: Tensor) -> Tensor:
        """See ``Chance.categorical``."""
        _check_form(weights)
        if weights.ndim == 3:
            return torch.stack([self.categorical(each) for each in weights.unbind(dim=1)], dim=1)
        total = check_weights(weights)
        return self._answer(weights.detach(), total.detach())

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        """See ``Chance.smallest_uniform``."""
        check_intervals(low, high)
        law = smallest_uniform_law(low.detach(), high.detach())
        return self._answer(law, torch.ones_like(law[:, 0]))

    def _answer(self, weights: Tensor, total: Tensor) -> Tensor:
        rows, recorded = self.record.shape
        if len(weights) != rows:
            raise ChanceError(
                f"a choice was asked for {len(weights)} rows of a round with {rows}; ask for every row at once"
            )
        if self.asked == recorded:
            # Kept in case that the rule swallows the Fork; keeping the exception itself would keep every frame alive.
            self._next = weights.to(torch.float64) / total[:, None] if self._next is None else self._next
            raise Fork(self._next)
        answer = self.record[:, self.asked].clone()  # the rule may write into it
        if int(answer.max()) >= weights.shape[1]:
            raise ChanceError(
                f"choice number {self.asked} is among {weights.shape[1]} outcomes, fewer than in the same worlds before"
            )
        self.weight = self.weight * (weights.gather(1, answer[:, None])[:, 0].to(torch.float64) / total)
        self.asked += 1
        return answer


def stopping_law(success: Tensor) -> Tensor:
    """P(largest success = i) of independent coins: [.., n] to [.., n]. The first coin should be 1."""
    failures = (1 - success[..., 1:]).flip(-1).cumprod(dim=-1).flip(-1)
    return success * torch.cat([failures, torch.ones_like(success[..., :1])], dim=-1)


def smallest_uniform_law(low: Tensor, high: Tensor) -> Tensor:
    """Exact probabilities that E_k is the smallest of K independent uniforms on (low_k, high_k].

    P(k) is the integral of E_k's density times the others' survival functions. The 2K interval ends cut the line into
    segments. On each the survival functions are linear, so their products are polynomials of degree K - 1, which
    Gauss-Legendre quadrature integrates exactly. Everything is counted in shares of an interval, never in its own
    units: intervals as narrow as one rounding step of the numbers are no harder than others.

    Args:
        low, high: [B, K], low <= high.

    Returns:
        float64 [B, K], rows sum to 1.
    """
    low, high = low.to(torch.float64).T.contiguous(), high.to(torch.float64).T.contiguous()  # [K, B]: rows side by side
    ends = torch.cat([low, high]).sort(dim=0).values
    at_ends = _survival(ends, low, high)
    begin = at_ends[:, :-1]  # [K, 2K-1, B]
    is_point = high <= low
    share = (begin - at_ends[:, 1:]).masked_fill(is_point[:, None], 0.0)  # P(E_k lies in the segment)
    law = torch.zeros_like(low)
    nodes, masses = np.polynomial.legendre.leggauss((len(low) + 1) // 2)
    for node, mass in zip((1 + nodes) / 2, masses / 2, strict=True):
        law += mass * (share * _product_of_others(begin - node * share)).sum(dim=1)
    if is_point.any():
        law = torch.where(is_point, _law_of_points(low, high), law)
    return (law / law.sum(dim=0)).T


def _law_of_points(low: Tensor, high: Tensor) -> Tensor:
    """P(all others lie above high_k), equal points of lower index excepted: [K, B]. It holds where low_k = high_k."""
    above = _survival(high, low, high)  # [j, k, B]: P(E_j > high_k)
    index = torch.arange(len(low), device=low.device)
    later = (index[:, None] > index)[..., None]
    tie = (high <= low)[:, None] & (high[:, None] == high) & later
    itself = (index[:, None] == index)[..., None]
    return above.masked_fill(tie | itself, 1.0).prod(dim=0)


def _survival(at: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """P(E_k > at): [K, M, B] for ``at`` [M, B] and intervals [K, B]."""
    low, high = low[:, None], high[:, None]
    is_point = high <= low
    inside = ((high - at) / (high - low).masked_fill(is_point, 1.0)).clamp(0.0, 1.0)
    return torch.where(is_point, (at < high).to(at.dtype), inside)


def _product_of_others(factors: Tensor) -> Tensor:
    """Product over the first axis without the factor itself, without dividing: shape kept."""
    ones = torch.ones_like(factors[:1])
    before = torch.cat([ones, factors[:-1]]).cumprod(dim=0)
    after = torch.cat([factors[1:], ones]).flip(0).cumprod(dim=0).flip(0)
    return before * after


def _looked_through(weights: Tensor) -> tuple[Tensor, Tensor]:
    """``block_masses`` and the smallest weight of each row [B]: a few rows at a time, which a CPU then reads once."""
    size = max(1, _CACHED // max(1, weights.shape[1])) if weights.is_cpu else max(1, len(weights))
    masses, smallest = zip(*((block_masses(part), _smallest(part)) for part in weights.split(size)), strict=True)
    return torch.cat(masses), torch.cat(smallest)


def _smallest(weights: Tensor) -> Tensor:
    return weights.amin(dim=-1) if weights.shape[1] else weights.new_zeros(len(weights))


def block_masses(weights: Tensor) -> Tensor:
    """Sums over blocks of ``BLOCK`` weights, or the weights themselves where they are no more: float64 [B, blocks].

    Within a block the sum is in the weights' own format, float32 at least. Many weights are added up so in a seventh of
    the time, and every sum keeps its relative precision.
    """
    outcomes = weights.shape[1]
    if outcomes <= BLOCK:
        return weights.to(torch.float64)
    whole = outcomes // BLOCK * BLOCK
    form = torch.promote_types(weights.dtype, torch.float32)
    masses = [weights[:, :whole].reshape(len(weights), whole // BLOCK, BLOCK).sum(dim=-1, dtype=form)]
    if whole < outcomes:
        masses.append(weights[:, whole:].sum(dim=-1, keepdim=True, dtype=form))
    return torch.cat(masses, dim=1).to(torch.float64)


def _some_block(weights: Tensor, block: Tensor) -> Tensor:
    """One block of each row, filled up with zeros: [B, n] and int64 [B, 1] to [B, size]."""
    index = block * BLOCK + torch.arange(BLOCK, device=block.device)
    beyond = index >= weights.shape[1]
    return weights.gather(1, index.masked_fill(beyond, 0)).masked_fill(beyond, 0.0)


def _first_beyond(weights: Tensor, steps: Tensor, point: Tensor) -> Tensor:
    """The first index of positive weight whose step lies above the point, or one of the highest step: int64 [B].

    A parallel sum, as on a GPU, can step up where the weight is zero, and end above the last positive weight.
    """
    reached = torch.where(weights > 0, steps, -1.0)
    found, first = (reached > point).max(dim=-1)
    return torch.where(found, first, reached.argmax(dim=-1))


def check_weights(weights: Tensor) -> Tensor:
    """Sums of the rows of ``weights`` [B, n], float64 [B]; ``ChanceError`` unless every row can be chosen from."""
    _check_form(weights)
    total = weights.sum(dim=-1, dtype=torch.float64)
    _check_values(weights, total, _smallest(weights))
    return total


def _check_form(weights: object) -> None:
    if not isinstance(weights, Tensor) or weights.ndim not in (2, 3) or not weights.is_floating_point():
        raise ChanceError(f"categorical takes floating-point weights [B, n] or [B, K, n]; it got {_describe(weights)}")


def _check_values(weights: Tensor, total: Tensor, smallest: Tensor) -> None:
    # Finite weights can have an infinite sum, and then nothing could be chosen; one that is no number makes it none.
    fine = (total > 0) & (total < torch.inf) & (smallest >= 0)
    if not fine.all():
        row = int(fine.int().argmin())
        raise ChanceError(
            f"categorical, row {row}: {_fault(weights[row])} in the weights {_short(weights[row])}; "
            "they must be finite, with a finite sum, none negative, not all zero"
        )


def _fault(weights: Tensor) -> str:
    wrong = (~torch.isfinite(weights) | (weights < 0)).nonzero()
    if wrong.numel():
        return f"{float(weights[wrong[0]]):.6g} at index {int(wrong[0])}"
    return "an infinite sum" if (weights > 0).any() else "no positive entry"


def check_intervals(low: Tensor, high: Tensor) -> None:
    """Raise ``ChanceError`` unless ``low`` and ``high`` [B, K] are the ends of finite intervals, K at least 1."""
    if not (isinstance(low, Tensor) and isinstance(high, Tensor)) or low.ndim != 2 or low.shape != high.shape:
        raise ChanceError(f"smallest_uniform takes two tensors [B, K]; it got {_describe(low)} and {_describe(high)}")
    if low.shape[1] == 0:
        raise ChanceError("smallest_uniform takes at least one interval a row; it got none")
    bad = ~(torch.isfinite(high - low) & (low <= high))
    if bad.any():
        row, k = bad.nonzero()[0].tolist()
        raise ChanceError(
            f"smallest_uniform, row {row}, interval {k}: its ends are {float(low[row, k]):.6g} and "
            f"{float(high[row, k]):.6g}; they must be finite, the low one at most the high one"
        )


def _describe(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def _short(values: Tensor) -> str:
    """At most eight numbers, as an error message shows them."""
    shown = ", ".join(f"{value:.6g}" for value in values[:8].tolist())
    return f"[{shown}, ..]" if values.numel() > 8 else f"[{shown}]"
