"""Which rules, and which K and L of a rule, differ by more than noise: intervals over the same prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from spectr_verify.simulate.plan import Cell
from spectr_verify.simulate.speed import TimeModel, modelled_speed_up, round_time
from spectr_verify.simulate.sweep import Sweep
from spectr_verify.simulate.tally import Outcome

CONFIDENCE = 0.95
"""Of each interval by itself; of many that are asked for together some do not hold what they should."""

DEVIATIONS = 1.959964
"""Standard errors to each side, where an error is known: the normal quantile at ``CONFIDENCE``."""

ROUNDING = 1e-9
"""Figures of laws that are known exactly may differ by so much and be equal."""

RESAMPLES = 2_000
"""How often prompts are drawn anew."""

EFFICIENCY, MEASURED, MODELLED = "block efficiency", "measured speed-up", "modelled speed-up"

SUMS = {EFFICIENCY: ("emitted", "rounds"), MEASURED: ("alone", "wall"), MODELLED: ("emitted", "rounds")}
"""What is summed over prompts above and below the line of each measure."""


@dataclass(frozen=True)
class Interval:
    """A difference and the ends of its interval."""

    value: float
    low: float
    high: float

    @property
    def within_noise(self) -> bool:
        """Whether zero is in it."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class Difference(Interval):
    """How much larger a measure of the first rule is than of the second, on the same prompts.

    Attributes:
        corpus, temperature, length: where.
        drafts: the K that was asked for; a rule of a single draft has one.
        rules: the two.
        measure: block efficiency, or the speed-up by the clock.
    """

    corpus: str
    temperature: float
    drafts: int
    length: int
    rules: tuple[str, str]
    measure: str


@dataclass(frozen=True)
class Behind(Interval):
    """How much slower a cell is than the fastest one of its rule, on the same prompts.

    Attributes:
        cell, best: the two; of the fastest itself they are the same.
        measure: the speed-up by the clock, or modelled.
        speed_up: of the cell.
    """

    cell: Cell
    best: Cell
    measure: str
    speed_up: float


def differences(found: Sweep) -> list[Difference]:
    """Every pair of rules, wherever both have the same prompts, K, L and temperature.

    None of a single prompt that is a sample of others. Speed-ups are compared where they were measured.
    """
    axes, compared = found.axes, []
    seen: set[tuple[Cell, Cell, str]] = set()
    for corpus, temperature, drafts, length in product(found.timed, axes.temperatures, axes.drafts, axes.lengths):
        here = dict(_cells_there(found, corpus, temperature, drafts, length))
        for measure in (EFFICIENCY, MEASURED) if found.timed[corpus] else (EFFICIENCY,):
            for one, other in combinations(here, 2):
                same = (here[one], here[other], measure)  # two rules of a single draft are so at every K
                interval = None if same in seen else _interval(found, *same)
                if interval is not None:
                    seen.add(same)
                    rules = (one, other)
                    compared.append(Difference(*_ends(interval), corpus, temperature, drafts, length, rules, measure))
    return compared


def behind_best(found: Sweep, given: TimeModel | None) -> list[Behind]:
    """Every rule's cells of one set of prompts and one temperature, where there are several, against the fastest.

    Args:
        found: the sweep.
        given: the costs that speed-ups are modelled with; ``None``: those that were measured.
    """
    compared = []
    for corpus, temperature, rule in product(found.timed, found.axes.temperatures, found.rules):
        own = [
            cell for cell in found.outcomes if (cell.corpus, cell.temperature, cell.rule) == (corpus, temperature, rule)
        ]
        own.sort(key=lambda cell: (cell.drafts, cell.length))
        for measure in (MEASURED, MODELLED) if found.timed[corpus] else (MODELLED,):
            speed = {cell: _speed_up(found, cell, measure, given) for cell in own}
            best = max(own, key=speed.__getitem__, default=None)
            for cell in own if len(own) > 1 else ():
                interval = _interval(found, best or cell, cell, measure, given)
                if interval is not None:
                    compared.append(Behind(*_ends(interval), cell, best or cell, measure, speed[cell]))
    return compared


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _speed_up(found: Sweep, cell: Cell, measure: str, given: TimeModel | None) -> float:
    return found.outcomes[cell].speed_up.value if measure == MEASURED else modelled_speed_up(found, cell, given)


def _cells_there(found: Sweep, corpus: str, temperature: float, drafts: int, length: int) -> Iterator[tuple[str, Cell]]:
    for rule in found.axes.rules:
        cell = Cell(corpus, temperature, rule.name, rule.used_drafts(drafts), length)
        if cell in found.outcomes:
            yield rule.name, cell


def _interval(found: Sweep, one: Cell, other: Cell, measure: str, given: TimeModel | None = None) -> Interval | None:
    """The difference of two cells' measures; ``None`` where there is no telling how sure it is.

    Modelled speed-ups are block efficiencies over the times of a round, which are taken as they are.
    """
    outcomes = found.outcomes[one], found.outcomes[other]
    times = [round_time(found, cell, given) if measure == MODELLED else 1.0 for cell in (one, other)]
    if one == other:
        return Interval(0.0, 0.0, 0.0)
    if outcomes[0].first_rounds:
        return _of_known_errors(outcomes, times)
    if len(outcomes[0].prompts) == 1:
        return None
    return _resampled(outcomes, times, measure, found.settings.seed)


def _of_known_errors(outcomes: tuple[Outcome, Outcome], times: list[float]) -> Interval:
    """Of rounds that were drawn independently, or that are known exactly."""
    value = outcomes[0].block_efficiency.value / times[0] - outcomes[1].block_efficiency.value / times[1]
    errors = [(outcome.sampling_error or 0.0) / time for outcome, time in zip(outcomes, times, strict=True)]
    reach = max(DEVIATIONS * math.hypot(*errors), ROUNDING)
    return Interval(value, value - reach, value + reach)


def _resampled(outcomes: tuple[Outcome, Outcome], times: list[float], measure: str, seed: int) -> Interval:
    """A paired bootstrap over prompts: both are resampled alike, and so are all pairs of a sweep."""
    above, below = SUMS[measure]
    weights = _resamples(len(outcomes[0].prompts), seed)

    def difference(weighted: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
        one, other = (
            weighted(outcome.column(above)) / weighted(outcome.column(below)) / time
            for outcome, time in zip(outcomes, times, strict=True)
        )
        return one - other

    low, high = np.quantile(difference(lambda column: weights @ column), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(difference(lambda column: column.sum())), float(low), float(high))


@cache
def _resamples(prompts: int, seed: int) -> NDArray[np.float64]:
    """How often each prompt is in each resample: float64 [RESAMPLES, prompts]."""
    drawn = np.random.default_rng(seed).multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES)
    return drawn.astype(np.float64)
