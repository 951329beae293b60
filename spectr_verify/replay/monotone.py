"""Monotone functions of one uniform random number, as chains of steps that can be run backwards.

A number that was derived from a uniform u by ``1 - u``, ``-log(u)``, ``q * u``, ``u ** (1 / w)`` and the like is kept
as its chain. ``value <= t`` is then ``u <= t'`` for the threshold ``t'`` that the chain, run backwards, gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite, log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


GUARD = 1e-15
"""Less probability than this is below the rounding of float64: what only guards against a zero is passed over."""


ADDS_UP = 1e-11
"""How far from 1 the integrated probabilities of a race's winners may sum."""


class UnfollowedError(Exception):
    """The function is not monotone here, or not one that is followed; whoever asked says where.

    Its message, where it has one, says what else is the matter.
    """


class Step(ABC):
    """A strictly monotone function.

    Attributes:
        from_zero: whether it is only defined from 0 on.
    """

    from_zero: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, x: Numbers) -> Numbers:
        """Its value at ``x``."""

    @abstractmethod
    def backward(self, y: Numbers) -> Numbers:
        """Where the function has the value ``y``."""

    def increasing(self) -> bool:
        """Whether it rises; otherwise it falls."""
        return True


@dataclass(frozen=True)
class Affine(Step):
    """``a x + b``, a not zero."""

    a: float
    b: float

    def __call__(self, x: Numbers) -> Numbers:
        """See ``Step``."""
        return self.a * x + self.b

    def backward(self, y: Numbers) -> Numbers:
        """See ``Step.backward``."""
        return (y - self.b) / self.a

    def increasing(self) -> bool:
        """See ``Step.increasing``."""
        return self.a > 0


@dataclass(frozen=True)
class Log(Step):
    """The natural logarithm."""

    from_zero = True

    def __call__(self, x: Numbers) -> Numbers:
        """See ``Step``."""
        return np.log(np.maximum(x, 0.0))  # rounding may reach below 0

    def backward(self, y: Numbers) -> Numbers:
        """See ``Step.backward``."""
        return np.exp(y)


@dataclass(frozen=True)
class Exp(Step):
    """The exponential function."""

    def __call__(self, x: Numbers) -> Numbers:
        """See ``Step``."""
        return np.exp(x)

    def backward(self, y: Numbers) -> Numbers:
        """See ``Step.backward``."""
        return np.log(y)


@dataclass(frozen=True)
class Power(Step):
    """``x ** k``, k not zero."""

    k: float
    from_zero = True

    def __call__(self, x: Numbers) -> Numbers:
        """See ``Step``."""
        return np.maximum(x, 0.0) ** self.k

    def backward(self, y: Numbers) -> Numbers:
        """See ``Step.backward``."""
        return y ** (1 / self.k)

    def increasing(self) -> bool:
        """See ``Step.increasing``."""
        return self.k > 0


Key = tuple[int, tuple[Step, ...]]


@dataclass(eq=False)
class Uniform:
    """A random number that is uniform on [low, high], which shrinks as questions about it are answered.

    Attributes:
        spent: whether it took part in a race, whose result says more about it than an interval can.
    """

    low: float = 0.0
    high: float = 1.0
    spent: bool = False


@dataclass(frozen=True)
class Lost:
    """Where a number format made one value of many.

    Attributes:
        low, high: it did for uniforms below ``low``, and for those above ``high``.
        says: which operation did, and where.
    """

    low: float
    high: float
    says: str


@dataclass(frozen=True, eq=False)
class Undecided:
    """A monotone function of one uniform.

    Attributes:
        uniform: the random number.
        chain: the steps from it to this value.
        lost: where this is not what the code under test has, ``None`` where that is as good as nowhere.
    """

    uniform: Uniform
    chain: tuple[Step, ...] = ()
    lost: Lost | None = None

    @property
    def key(self) -> Key:
        """Equal for the same function of the same number."""
        return id(self.uniform), self.chain

    def then(self, step: Step) -> Undecided:
        """The value after one more step; raises ``UnfollowedError`` where it would not be defined."""
        if step.from_zero and not self.range()[0] >= 0:
            self._keep_off_below_zero()
        rest, last = self.chain[:-1], self.chain[-1:]
        if isinstance(step, Affine) and last and isinstance(last[0], Affine):
            step, last = Affine(last[0].a * step.a, step.a * last[0].b + step.b), ()
        if isinstance(step, Affine) and (step.a == 0 or not isfinite(step.a) or not isfinite(step.b)):
            raise UnfollowedError  # beyond what the numbers can hold
        return replace(self, chain=(*rest, *last) if step == Affine(1.0, 0.0) else (*rest, *last, step))

    def _keep_off_below_zero(self) -> None:
        """Leave out the values below 0 where only rounding gives them any weight: log(u + 1e-20) at u = 1."""
        zero = float(self.threshold(0.0))
        if float(self.below(0.0)) > GUARD:
            raise UnfollowedError
        if self.increasing():
            self.uniform.low = zero
        else:
            self.uniform.high = zero

    def increasing(self) -> bool:
        """Whether the value grows with the uniform."""
        return sum(not step.increasing() for step in self.chain) % 2 == 0

    def at(self, u: Any) -> Any:
        """The value where the uniform is ``u``."""
        with np.errstate(all="ignore"):
            x = np.asarray(u, dtype=np.float64)
            for step in self.chain:
                x = step(x)
        return x

    def range(self) -> tuple[float, float]:
        """The smallest and the largest value that it can still have."""
        ends = self.at([self.uniform.low, self.uniform.high])
        if np.isnan(ends).any():
            raise UnfollowedError
        return (float(ends[0]), float(ends[1])) if self.increasing() else (float(ends[1]), float(ends[0]))

    def threshold(self, value: Any) -> Any:
        """Where the uniform must be for this to have ``value``, at most the ends of what it can still be."""
        low, high = self.range()
        with np.errstate(all="ignore"):
            y = np.clip(np.asarray(value, dtype=np.float64), low, high)
            for step in reversed(self.chain):
                y = step.backward(y)
        # Run backwards, infinite ends may come out undefined; they are the ends of the uniform.
        grows = self.increasing()
        y = np.where(np.asarray(value) <= low, self.uniform.low if grows else self.uniform.high, y)
        y = np.where(np.asarray(value) >= high, self.uniform.high if grows else self.uniform.low, y)
        return np.clip(y, self.uniform.low, self.uniform.high)

    def below(self, value: Any) -> Any:
        """The probability that this is less than ``value``."""
        return self.below_at(self.threshold(value))

    def below_at(self, threshold: Any) -> Any:
        """The probability that this is less than at a threshold of its uniform."""
        low, high = self.uniform.low, self.uniform.high
        share = (threshold - low) / (high - low)
        return share if self.increasing() else 1 - share


@dataclass(frozen=True)
class ExponentialForm:
    """A chain rewritten in ``e``, an exponential number of rate 1.

    One of ``sign * exp(scale * e) `` ("exp"), ``scale * e + shift`` ("linear"), ``sign * exp(scale * log e + offset) +
    shift`` ("power") and ``scale * log e + offset`` ("log").
    """

    kind: str
    sign: float
    scale: float
    offset: float
    shift: float

    def log_rate(self) -> float:
        """Values of a common form race as exponentials do; this is the logarithm of this one's rate."""
        return -log(abs(self.scale)) if self.kind in ("exp", "linear") else -self.offset / self.scale

    def common(self) -> tuple[str, float, float, float]:
        """What values must have in common to race as exponentials."""
        scale = 0.0 if self.kind in ("exp", "linear") else self.scale
        direction = 1.0 if self.sign * self.scale > 0 else -1.0
        return self.kind, self.shift, scale, direction


def exponential_form(value: Undecided) -> ExponentialForm | None:
    """The chain in terms of an exponential number, ``None`` if it is not of such a form."""
    if (value.uniform.low, value.uniform.high) != (0.0, 1.0):
        return None
    chain = value.chain[1:] if value.chain[:1] == (Affine(-1.0, 1.0),) else value.chain
    form: ExponentialForm | None = ExponentialForm("exp", 1.0, -1.0, 0.0, 0.0)  # u = exp(-e)
    for step in chain:
        form = None if form is None else _after(form, step)
    return form


def _after(form: ExponentialForm, step: Step) -> ExponentialForm | None:
    kind, sign, scale, offset, shift = form.kind, form.sign, form.scale, form.offset, form.shift
    if isinstance(step, Affine):
        if kind == "linear":
            return ExponentialForm("linear", 1.0, scale * step.a, 0.0, shift * step.a + step.b)
        if kind == "log":
            return ExponentialForm("log", 1.0, scale * step.a, offset * step.a + step.b, 0.0)
        if kind == "power":
            turned = sign if step.a > 0 else -sign
            return ExponentialForm("power", turned, scale, offset + log(abs(step.a)), shift * step.a + step.b)
        return None
    if isinstance(step, Log):
        if kind == "exp" and sign > 0:
            return ExponentialForm("linear", 1.0, scale, 0.0, 0.0)
        if kind == "linear" and shift == 0 and scale > 0:
            return ExponentialForm("log", 1.0, 1.0, log(scale), 0.0)
        return ExponentialForm("log", 1.0, scale, offset, 0.0) if kind == "power" and shift == 0 and sign > 0 else None
    if isinstance(step, Exp):
        if kind == "linear" and shift == 0:
            return ExponentialForm("exp", 1.0, scale, 0.0, 0.0)
        return ExponentialForm("power", 1.0, scale, offset, 0.0) if kind == "log" else None
    if not isinstance(step, Power):
        return None
    if kind == "exp" and sign > 0:
        return ExponentialForm("exp", 1.0, scale * step.k, 0.0, 0.0)
    if kind == "linear" and shift == 0 and scale > 0:
        return ExponentialForm("power", 1.0, step.k, step.k * log(scale), 0.0)
    if kind == "power" and shift == 0 and sign > 0:
        return ExponentialForm("power", 1.0, scale * step.k, offset * step.k, 0.0)
    return None


def race_law(racers: list[Undecided], *, largest: bool) -> list[float]:
    """Probabilities that each of several independent values is the largest (smallest) of them.

    In closed form for exponential and Gumbel races, else by tanh-sinh quadrature.

    Raises:
        UnfollowedError: the quadrature does not add up.
    """
    rates = exponential_rates(racers, largest=largest)
    if rates is not None:
        return rates
    return list(_race_quadrature(tuple((r.uniform.low, r.uniform.high, r.chain) for r in racers), largest))


def exponential_rates(racers: list[Undecided], *, largest: bool) -> list[float] | None:
    """Rates, normalised to sum 1, of values that race as exponentials do; ``None`` if they do not."""
    forms = [exponential_form(racer) for racer in racers]
    first = forms[0]
    if first is None or any(form is None or form.common() != first.common() for form in forms):
        return None
    grows_with_e = first.common()[3] > 0
    if grows_with_e == largest:  # the winner has the largest e: no race of exponentials
        return None
    logs = np.array([form.log_rate() for form in forms if form is not None])
    rates = np.exp(logs - logs.max())
    return list(map(float, rates / rates.sum()))


@lru_cache(maxsize=4096)
def _race_quadrature(entries: tuple[tuple[float, float, tuple[Step, ...]], ...], largest: bool) -> tuple[float, ...]:
    """The same race comes back on path after path."""
    from scipy.integrate import tanhsinh  # costs a second to import

    racers = [Undecided(Uniform(low, high), chain) for low, high, chain in entries]
    law = []
    for i, racer in enumerate(racers):
        others = [other for j, other in enumerate(racers) if j != i]

        def beats_all(u: Numbers, racer: Undecided = racer, others: list[Undecided] = others) -> Numbers:
            value = racer.at(u)
            below = [other.below(value) for other in others]
            product: Numbers = np.prod(below if largest else [1 - b for b in below], axis=0)
            return product

        low, high = racer.uniform.low, racer.uniform.high
        ends = [low, high, *(float(racer.threshold(end)) for other in others for end in other.range())]
        shares = np.unique(np.round((np.array(ends) - low) / (high - low), 15))  # pieces below rounding are none
        cuts = low + shares * (high - low)
        found = tanhsinh(beats_all, cuts[:-1], cuts[1:], atol=1e-15, rtol=1e-13)
        law.append(float(np.sum(found.integral)) / (high - low))
    total = sum(law)
    if not abs(total - 1) <= ADDS_UP:
        raise UnfollowedError(
            f"the race of {len(racers)} of them could not be integrated to {ADDS_UP:g}: the probabilities of its "
            f"winners add up to {total:.12g}"
        )
    return tuple(max(probability, 0.0) / total for probability in law)
