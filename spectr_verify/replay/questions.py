"""What code may ask of undecided numbers, and of chance at large; every answer is a choice on the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, inf, isinf, isnan, log, nan

import numpy as np

from spectr_verify.replay.monotone import (
    Affine,
    Exp,
    Log,
    Power,
    Undecided,
    Unfollowed,
    Uniform,
    exponential_rates,
    race_law,
)
from spectr_verify.replay.tape import MAX_NUMBERS, Tape

Number = float | Undecided

MOST_INTEGERS = 1024
"""Most whole numbers that rounding an undecided number may lead to."""


class Questions:
    """Answers the questions of one run.

    Attributes:
        tape: the run's record.
        edges: whether uniforms may take the extreme values that their generator really produces; at most one does in
            a run, and the weights of the runs then mean nothing.
        edge: the extreme value that was taken in this run, ``None`` so far.
    """

    def __init__(self, tape: Tape, *, edges: bool = False) -> None:
        """Answer from ``tape``."""
        self.tape, self.edges = tape, edges
        self.edge: float | None = None
        self._drawn = 0
        self._answers: dict[tuple[object, ...], int] = {}

    def uniform(self, below_one: float) -> Number:
        """A number that is uniform on (0, 1), or an extreme value of it: exactly 0, or ``below_one``."""
        self.count(1)
        if self.edges and self.edge is None:
            edge = (None, 0.0, below_one)[self.tape.choose([1 / 3] * 3)]
            if edge is not None:
                self.edge = edge
                return edge
        return Undecided(Uniform())

    def exponential(self, rate: float) -> Number:
        """A number that is exponential: the generators keep it away from 0 and infinity, so it has no extreme values."""
        self.count(1)
        return Undecided(Uniform(), (Log(), Affine(-1 / rate, 0.0)))

    def count(self, numbers: int) -> None:
        """Count numbers drawn, to notice code that draws without end."""
        self._drawn += numbers
        if self._drawn > MAX_NUMBERS:
            self.tape.refuse(f"it drew more than {MAX_NUMBERS:,} random numbers in one run; it seems to draw without end")

    def category(self, weights: Sequence[float]) -> int:
        """An index in proportion to finite weights, none negative, not all zero."""
        total = sum(weights)
        return self.tape.choose([weight / total for weight in weights])

    def less(self, a: Number, b: Number) -> bool:
        """Whether ``a < b``. Equality has probability zero where one of them is undecided."""
        if isinstance(a, Undecided) and isinstance(b, Undecided):
            return a.key != b.key and self.winner([a, b], largest=False) == 0
        if isinstance(a, Undecided):
            assert not isinstance(b, Undecided)
            return not isnan(b) and self._below(a, b)
        if isinstance(b, Undecided):
            return not isnan(a) and not self._below(b, a)
        return a < b

    def _below(self, value: Undecided, bound: float) -> bool:
        low, high = value.range()
        if bound <= low or bound >= high:
            return bound >= high
        self._refuse_spent([value])
        at, probability = float(value.threshold(bound)), float(value.below(bound))
        below = self.tape.choose([1 - probability, probability]) == 1
        if below == value.increasing():
            value.uniform.high = at
        else:
            value.uniform.low = at
        return below

    def place(self, value: Number, edges: Sequence[float]) -> int:
        """How many of the edges, which do not fall, ``value`` is not below."""
        if not isinstance(value, Undecided):
            return int(np.searchsorted(np.asarray(edges), value, side="right"))
        if any(isnan(edge) for edge in edges) or any(a > b for a, b in zip(edges, edges[1:], strict=False)):
            raise Unfollowed
        low, high = value.range()
        inside = [edge for edge in dict.fromkeys(edges) if low < edge < high]
        if not inside:
            return sum(edge <= low for edge in edges)
        self._refuse_spent([value])
        ends = [low, *inside, high]
        below = [0.0, *(float(value.below(edge)) for edge in inside), 1.0]
        at = [float(value.threshold(end)) for end in ends]
        cell = self.tape.choose([b - a for a, b in zip(below, below[1:], strict=False)])
        value.uniform.low, value.uniform.high = sorted(at[cell : cell + 2])
        return sum(edge <= ends[cell] for edge in edges)

    def floor(self, value: Number) -> float:
        """The largest whole number that ``value`` is not below."""
        if not isinstance(value, Undecided):
            return float(floor(value)) if not (isnan(value) or isinf(value)) else value
        low, high = value.range()
        if isinf(low) or isinf(high) or high - low > MOST_INTEGERS:
            raise Unfollowed
        steps = [float(step) for step in range(floor(low) + 1, floor(high) + 1)]
        return float(floor(low) + self.place(value, steps))

    def winner(self, values: Sequence[Number], *, largest: bool) -> int:
        """Which value is the largest (smallest); the first among equals, a value that is not a number before all."""
        fixed = [nan if isinstance(value, Undecided) else value for value in values]
        for i, value in enumerate(values):
            if not isinstance(value, Undecided) and isnan(value):
                return i
        best = max((value for value in fixed if not isnan(value)), key=lambda x: x if largest else -x, default=None)
        racing = [i for i, value in enumerate(values) if isinstance(value, Undecided) and not self._loses(value, best, largest)]
        if not racing:
            assert best is not None
            return fixed.index(best)
        racers = [value for i in racing if isinstance(value := values[i], Undecided)]
        if best is not None and any(racer.range()[0 if largest else 1] != best and self._in_reach(racer, best) for racer in racers):
            # A value that is decided is in the middle of the race: settle first which of the racers are past it.
            past = [self.less(best, racer) if largest else self.less(racer, best) for racer in racers]
            if not any(past):
                return fixed.index(best)
            racing = [i for i, beats in zip(racing, past, strict=True) if beats]
            racers = [racer for racer, beats in zip(racers, past, strict=True) if beats]
        if len(racing) == 1:
            return racing[0]
        return racing[self._race(racers, largest)]

    def _loses(self, value: Undecided, best: float | None, largest: bool) -> bool:
        low, high = value.range()
        return best is not None and (high <= best if largest else low >= best)

    def _in_reach(self, value: Undecided, bound: float) -> bool:
        low, high = value.range()
        return low < bound < high

    def _race(self, racers: list[Undecided], largest: bool) -> int:
        key = (largest, *(racer.key for racer in racers))
        if key not in self._answers:
            if len({id(racer.uniform) for racer in racers}) < len(racers):
                self._refuse_shared()
            self._refuse_spent(racers)
            law = race_law(racers, largest=largest)
            self._answers[key] = self.tape.choose(law)
            for racer in racers:
                racer.uniform.spent = True
        return self._answers[key]

    def order(self, values: Sequence[Number], count: int, *, largest: bool) -> list[int]:
        """The ``count`` largest (smallest) values, from the first on, for values that race as exponentials do."""
        racing = [i for i, value in enumerate(values) if isinstance(value, Undecided)]
        fixed = [i for i in range(len(values)) if i not in racing]
        racers = [value for value in values if isinstance(value, Undecided)]
        # What is decided must come behind all that races: a probability of zero, an infinite time.
        ahead = [self._loses(racer, float(value), largest) or self._in_reach(racer, float(value))
                 for racer in racers for i in fixed if not isinstance(value := values[i], Undecided)]
        if any(ahead) or len({id(racer.uniform) for racer in racers}) < len(racers):
            raise Unfollowed
        self._refuse_spent(racers)
        if len(racers) > 1:
            rates = exponential_rates(racers, largest=largest)
            if rates is None:
                raise Unfollowed
            left = dict(zip(racing, rates, strict=True))
            racing = []
            while left and len(racing) < count:
                chosen = list(left)[self.category(list(left.values()))]
                racing.append(chosen)
                del left[chosen]
            for racer in racers:
                racer.uniform.spent = True
        behind = sorted(fixed, key=lambda i: self._plain(values[i]), reverse=largest)
        return (racing + behind)[:count]

    def _plain(self, value: Number) -> float:
        assert not isinstance(value, Undecided)
        return value

    def _refuse_spent(self, values: Sequence[Undecided]) -> None:
        if any(value.uniform.spent for value in values):
            raise Reused

    def _refuse_shared(self) -> None:
        raise Reused


class Reused(Unfollowed):
    """A random number that decided a race is asked about again."""


def combine(operation: str, *operands: Number) -> Number:
    """The result of an elementwise operation where at least one operand is undecided.

    Raises:
        Unfollowed: the operation is not one that is followed.
    """
    if operation in _UNARY:
        (value,) = operands
        assert isinstance(value, Undecided)
        return _UNARY[operation](value)
    if operation in _BINARY and len(operands) == 2:
        a, b = operands
        if isinstance(a, Undecided) and isinstance(b, Undecided):
            raise Unfollowed
        return _BINARY[operation](a, b)
    raise Unfollowed


def _add(a: Number, b: Number) -> Number:
    value, shift = (a, b) if isinstance(a, Undecided) else (b, a)
    assert isinstance(value, Undecided) and not isinstance(shift, Undecided)
    return value.then(Affine(1.0, shift)) if np.isfinite(shift) else shift


def _subtract(a: Number, b: Number) -> Number:
    return _add(a, -b) if not isinstance(b, Undecided) else _add(_multiply(b, -1.0), a)


def _multiply(a: Number, b: Number) -> Number:
    value, factor = (a, b) if isinstance(a, Undecided) else (b, a)
    assert isinstance(value, Undecided) and not isinstance(factor, Undecided)
    if factor == 0 or isnan(factor):
        return factor
    if isinf(factor):
        low, high = value.range()
        if low < 0 < high:
            raise Unfollowed
        return factor if low >= 0 else -factor
    return value.then(Affine(factor, 0.0))


def _divide(a: Number, b: Number) -> Number:
    if isinstance(b, Undecided):
        return _multiply(_reciprocal(b), a)
    if b == 0:
        return _multiply(a, inf if np.copysign(1.0, b) > 0 else -inf)
    return _multiply(a, 1 / b if not isinf(b) else 0.0) if not isinstance(a, Undecided) or isinf(b) else _scaled(a, b)


def _scaled(a: Undecided, b: float) -> Number:
    return nan if isnan(b) else a.then(Affine(1 / b, 0.0))


def _reciprocal(value: Undecided) -> Undecided:
    if value.range()[1] <= 0:
        return value.then(Affine(-1.0, 0.0)).then(Power(-1.0)).then(Affine(-1.0, 0.0))
    return value.then(Power(-1.0))


def _power(a: Number, b: Number) -> Number:
    if isinstance(b, Undecided):
        assert not isinstance(a, Undecided)
        if not a > 0:
            raise Unfollowed
        return 1.0 if a == 1 else b.then(Affine(log(a), 0.0)).then(Exp())
    assert isinstance(a, Undecided)
    if b == 0:
        return 1.0
    if isinf(b) or isnan(b):
        low, high = a.range()
        if isnan(b):
            return nan
        if low < 0 or high > 1:
            raise Unfollowed
        return 0.0 if b > 0 else inf  # a number below 1, to an infinite power
    return a.then(Power(b))


def _absolute(value: Undecided) -> Undecided:
    low, high = value.range()
    if low >= 0:
        return value
    if high > 0:
        raise Unfollowed
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
