"""What code may ask of undecided numbers, and of chance at large; every answer is a choice on the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import copysign, floor, inf, isinf, isnan, log, nan

import numpy as np

from spectr_verify.replay.monotone import (
    Affine,
    Exp,
    Key,
    Log,
    Power,
    Undecided,
    UnfollowedError,
    Uniform,
    exponential_rates,
    race_law,
)
from spectr_verify.replay.tape import MAX_NUMBERS, Tape

Number = float | Undecided

BELOW_ONE = 1 - 2.0**-53
"""The largest uniform number that there is in float64, as torch, numpy and Python draw it."""

BELOW_ONE_SINGLE = 1 - 2.0**-24
"""The same in float32."""

MOST_INTEGERS = 1024
"""Most whole numbers that rounding an undecided number may lead to."""


class Questions:
    """Answers the questions of one run.

    Attributes:
        tape: the run's record.
        edges: whether uniforms may take the extreme values that their generator really produces; at most one does in
            a run, and the weights of the runs then mean nothing.
        edge: the extreme value that was taken in this run, ``None`` so far.
        single: whether a number less precise than float64 took part in a decision.
    """

    def __init__(self, tape: Tape, *, edges: bool = False) -> None:
        """Answer from ``tape``."""
        self.tape, self.edges = tape, edges
        self.edge: float | None = None
        self.single = False
        self._drawn = 0
        self._races: list[tuple[bool, frozenset[Key], Key]] = []

    def uniform(self, below_one: float, low: float = 0.0, high: float = 1.0) -> Number:
        """A number that is uniform on (low, high); where ``edges`` are asked for also an extreme value of it.

        The extreme values are those of a number on (0, 1): exactly 0, and ``below_one``.
        """
        self.count(1)
        if low == high:
            return low
        if self.edges and self.edge is None:
            self.edge = (None, 0.0, below_one)[self.tape.choose([1.0] * 3)]
            if self.edge is not None:
                return low + (high - low) * self.edge
        return Undecided(Uniform()).then(Affine(high - low, low))

    def exponential(self, rate: float) -> Number:
        """A number that is exponential. It has no extreme values: the generators keep it off 0 and infinity."""
        self.count(1)
        return Undecided(Uniform(), (Log(), Affine(-1 / rate, 0.0)))

    def count(self, numbers: int) -> None:
        """Count numbers drawn, to notice code that draws without end."""
        self._drawn += numbers
        if self._drawn > MAX_NUMBERS:
            self.tape.refuse(
                f"it drew more than {MAX_NUMBERS:,} random numbers in one run; it seems to draw without end"
            )

    def category(self, weights: Sequence[float]) -> int:
        """An index in proportion to finite weights, none negative, not all zero."""
        total = sum(weights)
        return self.tape.choose([weight / total for weight in weights])

    def sample(self, weights: Sequence[float], count: int, *, replacement: bool) -> list[int]:
        """Indices in proportion to weights, one after the other."""
        self.count(count)
        left, drawn = list(weights), []
        for _ in range(count):
            drawn.append(self.category(left))
            if not replacement:
                left[drawn[-1]] = 0.0
        return drawn

    def below(self, end: int) -> int:
        """A whole number from 0 to ``end - 1``, all equally likely."""
        self.count(1)
        if end > MOST_INTEGERS:
            self.tape.refuse(
                f"it draws a whole number below {end:,}; more than {MOST_INTEGERS:,} are too many to enumerate"
            )
        return self.category([1.0] * end)

    def equal(self, a: Number, b: Number) -> bool:
        """Whether ``a == b``: where one of them is undecided, only if they are the same number."""
        if isinstance(a, Undecided) and isinstance(b, Undecided):
            if a.uniform is b.uniform and a.chain != b.chain:
                raise UnfollowedError
            return a.key == b.key
        return not isinstance(a, Undecided) and not isinstance(b, Undecided) and a == b

    def less(self, a: Number, b: Number) -> bool:
        """Whether ``a < b``. Equality has probability zero where one of them is undecided."""
        if isinstance(a, Undecided) and isinstance(b, Undecided):
            return a.key != b.key and self.winner([a, b], largest=False) == 0
        if isinstance(a, Undecided):
            return not isinstance(b, Undecided) and not isnan(b) and self._below(a, b)
        if isinstance(b, Undecided):
            return not isnan(a) and not self._below(b, a)
        return a < b

    def _below(self, value: Undecided, bound: float) -> bool:
        low, high = value.range()
        if bound <= low or bound >= high:
            return bound >= high
        self._refuse_entangled([value])
        at = self._threshold(value, bound)
        probability = value.below_at(at)
        below = self.tape.choose([1 - probability, probability]) == 1
        if below == value.increasing():
            value.uniform.high = at
        else:
            value.uniform.low = at
        return below

    def _threshold(self, value: Undecided, bound: float) -> float:
        """Where the uniform must be for ``value`` to be at ``bound``.

        Above their largest value generators draw nothing: a sum of probabilities that rounding leaves just below 1 is
        as good as 1.
        """
        at = float(value.threshold(bound))
        largest = BELOW_ONE_SINGLE if self.single else BELOW_ONE
        return value.uniform.high if at >= largest else at

    def place(self, value: Number, edges: Sequence[float]) -> int:
        """How many of the edges, which do not fall, ``value`` is not below."""
        if not isinstance(value, Undecided):
            return int(np.searchsorted(np.asarray(edges), value, side="right"))
        if any(isnan(edge) for edge in edges) or any(a > b for a, b in pairwise(edges)):
            raise UnfollowedError
        low, high = value.range()
        inside = [edge for edge in dict.fromkeys(edges) if low < edge < high]
        if not inside:
            return sum(edge <= low for edge in edges)
        self._refuse_entangled([value])
        ends = [low, *inside, high]
        at = [self._threshold(value, end) for end in ends]
        below = [value.below_at(threshold) for threshold in at]
        cell = self.tape.choose([b - a for a, b in pairwise(below)])
        value.uniform.low, value.uniform.high = sorted(at[cell : cell + 2])
        return sum(edge <= ends[cell] for edge in edges)

    def floor(self, value: Number) -> float:
        """The largest whole number that ``value`` is not below."""
        if not isinstance(value, Undecided):
            return float(floor(value)) if not (isnan(value) or isinf(value)) else value
        low, high = value.range()
        if isinf(low) or isinf(high) or high - low > MOST_INTEGERS:
            raise UnfollowedError
        steps = [float(step) for step in range(floor(low) + 1, floor(high) + 1)]
        return float(floor(low) + self.place(value, steps))

    def winner(self, values: Sequence[Number], *, largest: bool) -> int:
        """Which value is the largest (smallest); the first among equals, a value that is not a number before all."""
        fixed = {i: value for i, value in enumerate(values) if not isinstance(value, Undecided)}
        for i, value in fixed.items():
            if isnan(value):
                return i
        best = (max if largest else min)(fixed, key=fixed.__getitem__) if fixed else None
        racing: dict[Key, tuple[int, Undecided]] = {}
        for i, racer in enumerate(values):
            if not isinstance(racer, Undecided) or racer.key in racing:
                continue
            if best is None or self._passes(racer, fixed[best], largest):
                racing[racer.key] = i, racer
        if not racing:
            assert best is not None
            return best
        places, racers = zip(*racing.values(), strict=True)
        return int(places[self._race(racers, largest)] if len(racers) > 1 else places[0])

    def _passes(self, racer: Undecided, best: float, largest: bool) -> bool:
        """Whether a racer beats the best of what is decided; settled before the race."""
        return self.less(best, racer) if largest else self.less(racer, best)

    def _race(self, racers: Sequence[Undecided], largest: bool) -> int:
        keys = [racer.key for racer in racers]
        known = self._known(keys, largest)
        if known is not None:
            return known
        self._refuse_entangled(racers)
        winner = self.tape.choose(self._race_law(list(racers), largest))
        self._races.append((largest, frozenset(keys), keys[winner]))
        for racer in racers:
            racer.uniform.spent = True
        return winner

    def _race_law(self, racers: list[Undecided], largest: bool) -> list[float]:
        try:
            return race_law(racers, largest=largest)
        except UnfollowedError:
            if not self.edges:
                raise
            # An extreme value leaves the others an interval too short to integrate over, and weights mean nothing here.
            ranges = [racer.range() for racer in racers]
            if largest:
                reach = max(low for low, _ in ranges)
                return [float(high > reach) for _, high in ranges]
            reach = min(high for _, high in ranges)
            return [float(low < reach) for low, _ in ranges]

    def _known(self, keys: list[Key], largest: bool) -> int | None:
        """Who wins among some that took part in an earlier race: its winner, and in a pair the other one loses."""
        for race_of_largest, racers, winner in self._races:
            if winner in keys and racers.issuperset(keys):
                if race_of_largest == largest:
                    return keys.index(winner)
                if len(keys) == 2:
                    return 1 - keys.index(winner)
        return None

    def order(self, values: Sequence[Number], count: int, *, largest: bool) -> list[int]:
        """The ``count`` largest (smallest) values, from the first on, for values that race as exponentials do."""
        racing = {i: value for i, value in enumerate(values) if isinstance(value, Undecided)}
        fixed = {i: value for i, value in enumerate(values) if not isinstance(value, Undecided)}
        racers = list(racing.values())
        # What is decided must come behind all that races: a probability of zero, an infinite time.
        if not all(self._loses_to(racer, value, largest) for racer in racers for value in fixed.values()):
            raise UnfollowedError
        first = list(racing)
        if len(racers) > 1:
            self._refuse_entangled(racers)
            rates = exponential_rates(racers, largest=largest)
            if rates is None:
                raise UnfollowedError
            chosen = self.sample(rates, min(count, len(rates)), replacement=False)
            first = [first[i] for i in chosen]
            for racer in racers:
                racer.uniform.spent = True
        behind = sorted(fixed, key=lambda i: fixed[i], reverse=largest)
        return (first + behind)[:count]

    def _loses_to(self, racer: Undecided, value: float, largest: bool) -> bool:
        """Whether the decided value loses for sure."""
        low, high = racer.range()
        return value <= low if largest else value >= high

    def _refuse_entangled(self, racers: Sequence[Undecided]) -> None:
        if len({id(racer.uniform) for racer in racers}) < len(racers) or any(r.uniform.spent for r in racers):
            raise ReusedError


class ReusedError(UnfollowedError):
    """A random number that decided a race is asked about again."""


def combine(operation: str, *operands: Number) -> Number:
    """The result of an elementwise operation where at least one operand is undecided.

    Raises:
        UnfollowedError: the operation is not one that is followed.
    """
    if operation in _UNARY:
        (value,) = operands
        assert isinstance(value, Undecided)
        return _UNARY[operation](value)
    if operation in _BINARY and len(operands) == 2:
        a, b = operands
        if isinstance(a, Undecided) and isinstance(b, Undecided):
            raise UnfollowedError
        return _BINARY[operation](a, b)
    raise UnfollowedError


def _add(a: Number, b: Number) -> Number:
    value, shift = (a, b) if isinstance(a, Undecided) else (b, a)
    assert isinstance(value, Undecided)
    assert not isinstance(shift, Undecided)
    return value.then(Affine(1.0, shift)) if np.isfinite(shift) else shift


def _subtract(a: Number, b: Number) -> Number:
    return _add(a, -b) if not isinstance(b, Undecided) else _add(_multiply(b, -1.0), a)


def _multiply(a: Number, b: Number) -> Number:
    value, factor = (a, b) if isinstance(a, Undecided) else (b, a)
    assert isinstance(value, Undecided)
    assert not isinstance(factor, Undecided)
    if factor == 0 or isnan(factor):
        return factor
    if isinf(factor):
        low, high = value.range()
        if low < 0 < high:
            raise UnfollowedError
        return factor if low >= 0 else -factor
    return value.then(Affine(factor, 0.0))


def _divide(a: Number, b: Number) -> Number:
    if isinstance(b, Undecided):
        return _multiply(_reciprocal(b), a)
    if b == 0:
        return _multiply(a, inf if copysign(1.0, b) > 0 else -inf)
    return _multiply(a, 1 / b)


def _reciprocal(value: Undecided) -> Undecided:
    if value.range()[1] <= 0:
        return value.then(Affine(-1.0, 0.0)).then(Power(-1.0)).then(Affine(-1.0, 0.0))
    return value.then(Power(-1.0))


def _power(a: Number, b: Number) -> Number:
    if isinstance(b, Undecided):
        assert not isinstance(a, Undecided)
        if not a > 0:
            raise UnfollowedError
        return 1.0 if a == 1 else b.then(Affine(log(a), 0.0)).then(Exp())
    assert isinstance(a, Undecided)
    if b == 0:
        return 1.0
    if isinf(b) or isnan(b):
        low, high = a.range()
        if isnan(b):
            return nan
        if low < 0 or high > 1:
            raise UnfollowedError
        return 0.0 if b > 0 else inf  # a number below 1, to an infinite power
    return a.then(Power(b))


def _absolute(value: Undecided) -> Undecided:
    low, high = value.range()
    if low >= 0:
        return value
    if high > 0:
        raise UnfollowedError
    return value.then(Affine(-1.0, 0.0))


_UNARY: dict[str, Callable[[Undecided], Number]] = {
    "neg": lambda x: x.then(Affine(-1.0, 0.0)),
    "positive": lambda x: x,
    "log": lambda x: x.then(Log()),
    "log2": lambda x: x.then(Log()).then(Affine(1 / log(2), 0.0)),
    "log10": lambda x: x.then(Log()).then(Affine(1 / log(10), 0.0)),
    "log1p": lambda x: x.then(Affine(1.0, 1.0)).then(Log()),
    "exp": lambda x: x.then(Exp()),
    "exp2": lambda x: x.then(Affine(log(2), 0.0)).then(Exp()),
    "expm1": lambda x: x.then(Exp()).then(Affine(1.0, -1.0)),
    "reciprocal": _reciprocal,
    "sqrt": lambda x: x.then(Power(0.5)),
    "rsqrt": lambda x: x.then(Power(-0.5)),
    "square": lambda x: _absolute(x).then(Power(2.0)),
    "abs": _absolute,
    "nan_to_num": lambda x: x,
}

_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "add": _add,
    "sub": _subtract,
    "rsub": lambda a, b: _subtract(b, a),
    "mul": _multiply,
    "div": _divide,
    "pow": _power,
}
