"""The instance that a bound is about, and the sums over its tree of texts.

A node is a text of 1 to L tokens. Whatever belongs to the nodes is kept as one array a level, lexicographic:
entry ``i`` of such a list is float64 [V**(i+1)], and the children of row r stand in rows rV .. rV + V - 1 of
the next array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectr_verify.bounds.result import BoundSizeError, Floats
from toy_models import ToyPair

MAX_DRAFTS = 1000
"""Largest K of a program: the number of orders in which more drafts can come overflows float64."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A pair at one draft length and number of drafts.

    Attributes:
        pair: the models.
        length: L, tokens a draft.
        drafts: K, independent drafts a round.
        draft: P(v), levels 1..L.
        target: Q(v), levels 1..L.
    """

    pair: ToyPair
    length: int
    drafts: int
    draft: tuple[Floats, ...]
    target: tuple[Floats, ...]

    @classmethod
    def of(cls, pair: ToyPair, length: int, drafts: int = 1) -> Problem:
        """Lay out a pair.

        Raises:
            TableError: L is not within what the tables cover, or K is below 1.
        """
        pair.check_size(length, drafts)
        draft, target = pair.draft.joints(length)[1:], pair.target.joints(length)[1:]
        return cls(pair, length, drafts, tuple(draft), tuple(target))

    @property
    def vocab(self) -> int:
        """V, the number of tokens."""
        return self.pair.vocab

    @property
    def nodes(self) -> int:
        """How many nodes the tree has."""
        return sum(level.size for level in self.target)

    def __str__(self) -> str:
        return f"pair {self.pair.name!r} at L = {self.length}, K = {self.drafts}"


def gather(masses: Floats, place: NDArray[np.int64], size: int) -> Floats:
    """Total mass at each of ``size`` places."""
    # numpy counts in integers when there is nothing to count, and its annotation says so for all weights.
    return np.bincount(place, masses, minlength=size).astype(np.float64)


def marginals(leaves: Floats, problem: Problem) -> list[Floats]:
    """Mass of every node from the mass of the full-length texts, float64 [V**L]."""
    levels = [leaves]
    for _ in range(problem.length - 1):
        levels.append(levels[-1].reshape(-1, problem.vocab).sum(axis=1))
    return levels[::-1]


def path_sums(levels: Sequence[Floats], vocab: int) -> Floats:
    """Sum of the node values along every full-length text: float64 [V**L]."""
    total = np.zeros(1)
    for level in levels:
        total = np.repeat(total, vocab) + level
    return total


def ratios(draft: Sequence[Floats], target: Sequence[Floats]) -> list[Floats]:
    """r(v) = min(P(v)/Q(v), 1) at every node, 1 where Q(v) = 0."""
    # Dividing only where the ratio is below 1 leaves nothing to overflow, and no zero to divide by.
    return [np.divide(p, q, out=np.ones_like(q), where=q > p) for p, q in zip(draft, target, strict=True)]


def smallest_ratios(draft: Sequence[Floats], target: Sequence[Floats], vocab: int) -> list[Floats]:
    """rho(v), the smallest r over the prefixes of v, v included, at every node."""
    smallest, levels = np.ones(1), []
    for ratio in ratios(draft, target):
        smallest = np.minimum(np.repeat(smallest, vocab), ratio)
        levels.append(smallest)
    return levels


def require_fit(problem: Problem, program: str, count: Callable[[Problem], int], limit: int) -> int:
    """How many variables a program will have, counted before anything is built.

    Raises:
        BoundSizeError: more than ``limit``, in which case the message gives the count and the largest L and K that
            would fit, or more drafts than ``MAX_DRAFTS``.
    """
    if problem.drafts > MAX_DRAFTS:
        raise BoundSizeError(f"{problem}: programs take at most K = {MAX_DRAFTS}; closed forms take any K")
    variables = count(problem)
    if variables <= limit:
        return variables
    shorter = (Problem.of(problem.pair, length, problem.drafts) for length in range(problem.length - 1, 0, -1))
    fewer = (Problem.of(problem.pair, problem.length, drafts) for drafts in range(problem.drafts - 1, 0, -1))
    largest = [next((smaller for smaller in sizes if count(smaller) <= limit), None) for sizes in (fewer, shorter)]
    fits = [f"L = {smaller.length} with K = {smaller.drafts}" for smaller in largest if smaller is not None]
    raise BoundSizeError(
        f"{problem}: the {program} has {variables:,} variables, more than the {limit:,} allowed. "
        f"What fits: {' or '.join(fits) or 'nothing with this L or this K'}. Take that, or raise max_variables"
    )
