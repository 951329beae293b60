"""The first token after prompts that come many times: do the counts fit the target's law?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIMULATIONS = 9_999
"""How many samples of the target the statistic is compared with."""

LEAST_EXPECTED = 1.0
"""Tokens that are expected less often than this are counted as one."""

ROUNDING = 1e-9
"""Statistics that are no further apart are equal."""


@dataclass(frozen=True)
class FirstToken:
    """Outcome of the test.

    Attributes:
        p: probability of counts that fit the target's law as badly or worse; exact but for the simulation's size.
        draws: how many first tokens.
        prompts: how many prompts they follow.
    """

    p: float
    draws: int
    prompts: int


def first_token_test(
    laws: list[NDArray[np.floating]], counts: list[NDArray[np.int64]], *, seed: int, simulations: int = SIMULATIONS
) -> FirstToken | None:
    """Multinomial test of the G statistic, summed over prompts; its law is simulated, not taken from a table.

    ``None`` where there are so few draws that all tokens are counted as one.

    Args:
        laws: the target's law of the first token after each prompt, [V] each.
        counts: how often each token came, [V] each.
        seed: of the simulation.
        simulations: how many; the smallest possible p is 1 / (simulations + 1).
    """
    generator = np.random.default_rng(seed)
    observed, simulated = 0.0, np.zeros(simulations)
    pooled = [_pooled(law, count) for law, count in zip(laws, counts, strict=True)]
    if all(len(expected) < 2 for expected, _ in pooled):
        return None
    for expected, seen in pooled:
        n = int(seen.sum())
        observed += float(_g(seen[None], expected)[0])
        simulated += _g(generator.multinomial(n, expected / expected.sum(), size=simulations), expected)
    # Equal counts may differ in the last digits of their sums, and such a tie is a tie; zero may come out below zero.
    worse = int(((simulated > observed) | np.isclose(simulated, observed, rtol=ROUNDING, atol=ROUNDING)).sum())
    draws = sum(int(count.sum()) for count in counts)
    return FirstToken((1 + worse) / (1 + simulations), draws, len(laws))


def _pooled(law: NDArray[np.floating], count: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Expected and seen counts: all rare tokens are one cell, and impossible ones are cells only if they were seen."""
    n = count.sum()
    expected = law.astype(np.float64) / law.sum(dtype=np.float64) * n
    rare = (expected > 0) & (expected < LEAST_EXPECTED)
    cells = np.append(expected[~rare], expected[rare].sum()), np.append(count[~rare], count[rare].sum())
    keep = (cells[0] > 0) | (cells[1] > 0)
    return cells[0][keep], cells[1][keep]


def _g(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """2 sum c log(c / expected) of every row of ``counts`` [S, n]."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        terms = np.where(counts > 0, counts * np.log(counts / expected), 0.0)
    total: NDArray[np.float64] = 2 * terms.sum(axis=1)
    return total
