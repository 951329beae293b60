"""Hypothesis strategies for laws, tables and toy pairs, with exact rational probabilities.

Every probability is a small integer weight divided by the sum of its row. All examples shrink towards few tokens,
short blocks, few drafts and uniform laws; a smaller weight is simpler, a zero is the least simple, so that a
counterexample keeps a zero only where it needs one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import hypothesis.strategies as st
from hypothesis.errors import InvalidArgument

from toy_models.tables import TableModel, ToyPair

Law = tuple[Fraction, ...]


def laws(vocab: int, *, max_weight: int = 9, zeros: bool = True) -> st.SearchStrategy[Law]:
    """Laws over ``vocab`` tokens: V fractions that sum to 1.

    Args:
        vocab: V, at least 1.
        max_weight: the largest integer weight, so denominators are at most ``V * max_weight``.
        zeros: whether a token may have probability 0.

    Raises:
        InvalidArgument: an argument is too small.
    """
    _at_least(1, vocab=vocab)
    return _weights(vocab, max_weight, zeros).map(_law)


def tables(vocab: int, depth: int, *, max_weight: int = 9, zeros: bool = True) -> st.SearchStrategy[TableModel]:
    """Exact table models over ``vocab`` tokens, ``depth`` levels deep. The other arguments are those of ``laws``."""
    _at_least(2, vocab=vocab)
    _at_least(1, depth=depth)
    weights = _weights(_entries(vocab, depth), max_weight, zeros)
    return weights.map(lambda flat: TableModel.parse(_levels(flat, vocab, depth)))


def pairs(
    *,
    min_vocab: int = 2,
    max_vocab: int = 3,
    min_length: int = 1,
    max_length: int = 2,
    min_drafts: int = 1,
    max_drafts: int = 3,
    max_weight: int = 9,
    zeros: bool = True,
) -> st.SearchStrategy[ToyPair]:
    """Exact toy pairs with ``drafts`` (K) and ``length`` (L) set and tables of L + 1 levels.

    The simplest pair has uniform laws everywhere. The bounds are inclusive; ``max_weight`` and ``zeros`` are those
    of ``laws``. Both tables together hold ``2 (V + V**2 + .. + V**(L + 1))`` entries, each a draw of its own: keep
    it to a hundred or two, as drawing and above all shrinking take time in proportion.

    Raises:
        InvalidArgument: a bound is too small, or a least value exceeds its greatest.
    """
    _at_least(2, min_vocab=min_vocab)
    _at_least(1, min_length=min_length, min_drafts=min_drafts)
    _at_least(min_vocab, max_vocab=max_vocab)
    _at_least(min_length, max_length=max_length)
    _at_least(min_drafts, max_drafts=max_drafts)
    _at_least(1, max_weight=max_weight)

    @st.composite
    def pair(draw: st.DrawFn) -> ToyPair:
        vocab = draw(st.integers(min_vocab, max_vocab))
        length = draw(st.integers(min_length, max_length))
        drafts = draw(st.integers(min_drafts, max_drafts))
        # The two models' entries alternate level by level, root first: a shorter block then keeps the first laws
        # of both and only drops the end of the list, which is what makes shrinking the length easy.
        flat = draw(_weights(2 * _entries(vocab, length + 1), max_weight, zeros))
        draft, target = (TableModel.parse(levels) for levels in _two_tables(flat, vocab, length + 1))
        return ToyPair("drawn", draft, target, drafts=drafts, length=length)

    return pair()


def _weights(count: int, max_weight: int, zeros: bool) -> st.SearchStrategy[list[int]]:
    """``count`` integer weights in the order 1, 2, .., max_weight, 0 from simple to complex.

    One flat tuple of fixed size, turned into weights as a whole, is the cheapest to draw, and every entry shrinks
    by itself.
    """
    _at_least(1, max_weight=max_weight)
    codes = st.tuples(*[st.integers(0, max_weight if zeros else max_weight - 1)] * count)
    return codes.map(lambda drawn: [(code + 1) % (max_weight + 1) for code in drawn])


def _law(weights: Sequence[int]) -> Law:
    """Weights divided by their sum; all zeros, which are no law, read as the uniform law, so no draw is rejected."""
    total = sum(weights)
    return tuple(Fraction(weight, total) if total else Fraction(1, len(weights)) for weight in weights)


def _entries(vocab: int, depth: int) -> int:
    """How many probabilities a table holds."""
    return sum(vocab ** (level + 1) for level in range(depth))


def _level(flat: Sequence[int], vocab: int) -> list[Law]:
    return [_law(flat[start : start + vocab]) for start in range(0, len(flat), vocab)]


def _levels(flat: Sequence[int], vocab: int, depth: int) -> list[list[Law]]:
    """Cut a flat list of weights into the levels of one table."""
    bounds = [_entries(vocab, level) for level in range(depth + 1)]
    return [_level(flat[start:end], vocab) for start, end in pairwise(bounds)]


def _two_tables(flat: Sequence[int], vocab: int, depth: int) -> tuple[list[list[Law]], list[list[Law]]]:
    """Cut a flat list into draft and target: both level 0, both level 1, and so on."""
    draft, target = [], []
    for level in range(depth):
        start, size = 2 * _entries(vocab, level), vocab ** (level + 1)
        draft.append(_level(flat[start : start + size], vocab))
        target.append(_level(flat[start + size : start + 2 * size], vocab))
    return draft, target


def _at_least(least: int, **arguments: int) -> None:
    for name, value in arguments.items():
        if value < least:
            raise InvalidArgument(f"{name} is {value}; it must be at least {least}")
