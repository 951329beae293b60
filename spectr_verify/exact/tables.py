"""Arithmetic of stacked tables: next-token laws after C contexts at once, ``levels[i]`` float64 [C, V**i, V]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectr_verify.rounds import Round
from toy_models.tables import Floats

Ints = NDArray[np.int64]


def tails(levels: list[Floats], start: int, count: int) -> Floats:
    """Probability of each continuation of ``count`` tokens after each prefix of ``start``: [C, V**start, V**count]."""
    C, V = levels[0].shape[0], levels[0].shape[-1]
    tail = np.ones((C, V**start, 1))
    for level in levels[start : start + count]:
        tail = (tail.reshape(C, -1)[:, :, None] * level).reshape(C, V**start, -1)
    return tail


def paths(draft: list[Floats]) -> Floats:
    """Probability of every draft of ``len(draft)`` tokens after each context: float64 [C, V**L]."""
    drafted: Floats = tails(draft, 0, len(draft))[:, 0]
    return drafted


def count_tuples(draft: list[Floats], K: int) -> int:
    """Number of K-tuples of drafts of positive probability, over all contexts."""
    return sum(int(support) ** K for support in (paths(draft) > 0).sum(axis=1))


def draft_tuples(draft: list[Floats], K: int, chunk: int) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Every K-tuple of drafts of positive probability, at most ``chunk`` at a time.

    Each piece takes tuples from all over, so that what it costs foretells what the others will.

    Yields:
        Context int64 [W], drafts as lexicographic indices int64 [W, K], and the tuple's probability float64 [W].
    """
    path_probs = paths(draft)
    _, leaves = np.nonzero(path_probs > 0)  # one context after the other
    support = (path_probs > 0).sum(axis=1)
    first_leaf = np.cumsum(support) - support
    ends = np.cumsum(support**K)
    total = int(ends[-1])
    pieces = -(-total // chunk)
    while gcd(pieces, total) > 1:  # or every piece would see the same last tokens
        pieces += 1
    for piece in range(pieces):
        number = np.arange(piece, total, pieces)
        context = np.searchsorted(ends, number, side="right")
        base = support[context][:, None]
        within = (number - (ends - support**K)[context])[:, None]
        drafted = leaves[first_leaf[context][:, None] + within // base ** np.arange(K - 1, -1, -1) % base]
        yield context, drafted, path_probs[context[:, None], drafted].prod(axis=1)


def round_builder(
    context: Ints, drafted: Ints, draft: list[Floats], target: list[Floats], dtype: torch.dtype
) -> Callable[[Tensor], Round]:
    """A function that gathers the rounds of some draft tuples (int64 [W], indices into the tuples) from the tables."""
    L, V = len(draft), draft[0].shape[-1]
    p, q = ([torch.from_numpy(np.ascontiguousarray(t)).to(dtype) for t in tables] for tables in (draft, target))
    contexts, leaves = torch.from_numpy(context), torch.from_numpy(drafted)

    def build(row: Tensor) -> Round:
        at, leaf = contexts[row][:, None], leaves[row]
        prefix = [leaf // V ** (L - i) for i in range(L + 1)]
        return Round(
            torch.stack([prefix[i + 1] % V for i in range(L)], dim=-1),
            torch.stack([p[i][at, prefix[i]] for i in range(L)], dim=2),
            torch.stack([q[i][at, prefix[i]] for i in range(L + 1)], dim=2),
        )

    return build


def along_every_path(levels: list[Floats]) -> Floats:
    """Laws of L levels along every text of L-1 tokens: float64 [C * V**(L-1), L, V]."""
    C, V, L = levels[0].shape[0], levels[0].shape[-1], len(levels)
    spread = [np.repeat(level, V ** (L - 1 - i), axis=1) for i, level in enumerate(levels)]
    return np.stack(spread, axis=2).reshape(C * V ** (L - 1), L, V)


def from_every_path(laws: Floats, C: int) -> list[Floats]:
    """The inverse of ``along_every_path``: levels of laws that depend on the tokens before them only."""
    _, L, V = laws.shape
    stacked = laws.reshape(C, V ** (L - 1), L, V)
    return [stacked[:, :: V ** (L - 1 - i), i] for i in range(L)]


def digits(number: Ints, count: int, base: int) -> Ints:
    """Digits of numbers, most significant first: int64 [W, count]."""
    found: Ints = number[:, None] // base ** np.arange(count - 1, -1, -1) % base
    return found


def index(tokens: Ints, V: int) -> Ints:
    """Lexicographic index of each row of tokens, padding of -1 ignored: int64 [W]."""
    found = np.zeros(len(tokens), dtype=np.int64)
    for column in tokens.T:
        found = np.where(column >= 0, found * V + column, found)
    return found
