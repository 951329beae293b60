"""Which rules differ by more than noise: paired bootstrap intervals over prompts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from spectr_verify.simulate.sweep import Cell, Sweep
from spectr_verify.simulate.tally import Outcome

CONFIDENCE = 0.95
"""Of the intervals."""

RESAMPLES = 2_000
"""How often prompts are drawn anew."""

MEASURES = {"block efficiency": ("emitted", "rounds"), "speed-up": ("alone", "wall")}
"""Ratios of sums over prompts."""


@dataclass(frozen=True)
class Difference:
    """How much larger a measure of the first rule is than of the second, on the same prompts.

    Attributes:
        corpus, temperature, length: where.
        drafts: the K that was asked for; a rule of a single draft has one.
        rules: the two.
        measure: of ``MEASURES``.
        value: the difference.
        low, high: ends of the bootstrap interval.
    """

    corpus: str
    temperature: float
    drafts: int
    length: int
    rules: tuple[str, str]
    measure: str
    value: float
    low: float
    high: float

    @property
    def within_noise(self) -> bool:
        """Whether the interval has zero in it."""
        return self.low <= 0 <= self.high


def differences(found: Sweep) -> list[Difference]:
    """Every pair of rules, wherever both have the same prompts, K, L and temperature; none of a single prompt.

    Speed-ups are compared where they were measured. All pairs are resampled alike.
    """
    axes, compared = found.axes, []
    seen: set[tuple[int, int, str]] = set()
    for corpus, temperature, drafts, length in product(found.timed, axes.temperatures, axes.drafts, axes.lengths):
        here = dict(_outcomes(found, corpus, temperature, drafts, length))
        for measure in list(MEASURES)[: 2 if found.timed[corpus] else 1]:
            for one, other in combinations(here, 2):
                same = (id(here[one]), id(here[other]), measure)  # two rules of a single draft are so at every K
                if len(here[one].prompts) > 1 and same not in seen:
                    seen.add(same)
                    interval = _interval(here[one], here[other], measure, found.settings.seed)
                    compared.append(Difference(corpus, temperature, drafts, length, (one, other), measure, *interval))
    return compared


def _outcomes(found: Sweep, corpus: str, temperature: float, drafts: int, length: int) -> Iterator[tuple[str, Outcome]]:
    for rule in found.axes.rules:
        cell = Cell(corpus, temperature, rule.name, rule.used_drafts(drafts), length)
        if cell in found.outcomes:
            yield rule.name, found.outcomes[cell]


def _interval(one: Outcome, other: Outcome, measure: str, seed: int) -> tuple[float, float, float]:
    """Difference of the measures, and the ends of its interval."""
    from scipy.stats import bootstrap

    above, below = MEASURES[measure]
    columns = (one.column(above), one.column(below), other.column(above), other.column(below))
    interval = bootstrap(
        columns,
        _difference,
        paired=True,
        vectorized=True,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="percentile",  # the corrected one is undefined where all prompts agree
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(_difference(*columns)), float(interval.low), float(interval.high)


def _difference(
    above: NDArray[np.float64],
    below: NDArray[np.float64],
    other_above: NDArray[np.float64],
    other_below: NDArray[np.float64],
    *,
    axis: int = -1,
) -> NDArray[np.float64]:
    one: NDArray[np.float64] = above.sum(axis=axis) / below.sum(axis=axis)
    other: NDArray[np.float64] = other_above.sum(axis=axis) / other_below.sum(axis=axis)
    return one - other
