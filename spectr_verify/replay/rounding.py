"""What number formats make of undecided numbers that are too small or too large for them.

Undecided numbers follow real arithmetic. In float32 ``u ** 500`` is zero for most u: questions about such numbers are
answered as long as it does not matter which of the rounded ones they were, and refused otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import torch

from spectr_verify.replay.monotone import Lost, Step, Undecided, UnfollowedError, Uniform

Number = float | Undecided

RARE = 1e-6
"""Less probability than this may be rounded away without a word: it is of the size of one float32 rounding step."""

SMALLEST = {dtype: torch.finfo(dtype).smallest_normal for dtype in (torch.float64, torch.float32)}
"""What is closer to zero than this counts as zero."""


def rounded_to(number: Undecided, dtype: torch.dtype, operation: str, line: Callable[[], str]) -> Undecided:
    """The number, with what is lost of it when it is stored as ``dtype``.

    Args:
        number: follows real arithmetic.
        dtype: the format of the tensor that it is put into.
        operation: what messages call the operation whose result it is.
        line: tells where the code under test is, for messages.
    """
    if dtype not in SMALLEST:
        return number
    low, high, how = _lost(number.uniform.low, number.uniform.high, number.chain, dtype)
    if how is None:
        return number
    before = number.lost
    says = f"{operation} {how}{line()}"
    if before is not None:
        says = says if low > before.low or high < before.high else before.says
        low, high = max(low, before.low), min(high, before.high)
    return replace(number, lost=Lost(low, high, says))


@lru_cache(maxsize=65536)
def _lost(low: float, high: float, chain: tuple[Step, ...], dtype: torch.dtype) -> tuple[float, float, str | None]:
    """Below which and above which uniform all values round to one, and what happens to them, if to many."""
    number = Undecided(Uniform(low, high), chain)
    smallest, largest = SMALLEST[dtype], torch.finfo(dtype).max
    bottom, top = number.range()
    below = smallest if 0 <= bottom < smallest else -largest
    above = -smallest if -smallest < top <= 0 else largest
    shares = float(number.below(below)), 1 - float(number.below(above))
    if max(shares) <= RARE:
        return low, high, None
    low, high = sorted((float(number.threshold(below)), float(number.threshold(above))))
    is_zero = (below if shares[0] >= shares[1] else -above) > 0
    how = f"{'rounds to zero' if is_zero else 'overflows'} in {str(dtype)[6:]} with probability {max(shares):.2g}"
    return low, high, how


def check_kept(values: Sequence[Number]) -> None:
    """Raise ``UnfollowedError`` where any value was probably rounded away."""
    _refuse_if_likely([(value, sum(_shares(value))) for value in values if isinstance(value, Undecided)])


def check_comparison(a: Number, b: Number) -> None:
    """Raise ``UnfollowedError`` where rounding probably decides how ``a`` compares with ``b``."""
    if isinstance(a, Undecided) and isinstance(b, Undecided):
        check_race([a, b], 2, largest=True)
    elif isinstance(a, Undecided):
        _check_bound(a, b)
    elif isinstance(b, Undecided):
        _check_bound(b, a)


def _check_bound(value: Undecided, bound: Number) -> None:
    if value.lost is None:
        return
    at = float(value.threshold(bound))
    low, high = _shares(value)
    _refuse_if_likely([(value, low * (at <= value.lost.low) + high * (at >= value.lost.high))])


def check_race(values: Sequence[Number], count: int, *, largest: bool) -> None:
    """Raise ``UnfollowedError`` where rounding probably decides which are the ``count`` largest (smallest) values."""
    racers = [value for value in values if isinstance(value, Undecided)]
    _refuse_if_likely([(racer, _chance_to_matter(racer, values, count, largest)) for racer in racers if racer.lost])


def _chance_to_matter(racer: Undecided, values: Sequence[Number], count: int, largest: bool) -> float:
    """The probability, at most, that a racer is rounded and that it then matters.

    Rounded towards the winners, it may win where it should not. Rounded away from them, it must have been among them.
    """
    assert racer.lost is not None
    low, high = _shares(racer)
    low_end_wins = racer.increasing() != largest
    towards, away = (low, high) if low_end_wins else (high, low)
    if away == 0:
        return towards
    limit = float(racer.at(racer.lost.high if low_end_wins else racer.lost.low))
    behind = [_behind(other, limit, largest) for other in values if other is not racer]
    return towards + away * _at_least(len(values) - count, behind)


def _behind(value: Number, limit: float, largest: bool) -> float:
    """The probability that a value is not before ``limit``."""
    if isinstance(value, Undecided):
        below = float(value.below(limit))
        return below if largest else 1 - below
    return float(value <= limit if largest else value >= limit)


def _at_least(count: int, chances: Sequence[float]) -> float:
    """The probability that at least ``count`` of independent events happen."""
    law = [1.0]
    for chance in chances:
        law = [stay * (1 - chance) + come * chance for stay, come in zip([*law, 0.0], [0.0, *law], strict=True)]
    return sum(law[max(count, 0) :])


def _shares(value: Undecided) -> tuple[float, float]:
    """How likely the uniform is where low, and where high, numbers were rounded away."""
    if value.lost is None:
        return 0.0, 0.0
    low, high = value.uniform.low, value.uniform.high
    rounded = max(0.0, min(value.lost.low, high) - low), max(0.0, high - max(value.lost.high, low))
    return rounded[0] / (high - low), rounded[1] / (high - low)


def _refuse_if_likely(chances: Sequence[tuple[Undecided, float]]) -> None:
    if sum(chance for _, chance in chances) > RARE:
        worst = max(chances, key=lambda each: each[1])[0]
        assert worst.lost is not None
        raise UnfollowedError(f"{worst.lost.says}, which the answer depends on. Take logarithms, or a wider format")
