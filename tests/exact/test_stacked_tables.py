"""The arithmetic of stacked tables against loops over prefixes."""

from __future__ import annotations

from itertools import product
from math import prod

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spectr_verify.exact.tables import (
    Floats,
    along_every_path,
    count_tuples,
    digits,
    draft_tuples,
    from_every_path,
    index,
    paths,
    round_builder,
    tails,
)
from spectr_verify.rounds import check_round

Prefix = tuple[int, ...]


def make_levels(seed: int, C: int, V: int, depth: int) -> list[Floats]:
    """Laws after C contexts with about a third of zeros: ``[i]`` float64 [C, V**i, V]."""
    generator = np.random.default_rng(seed)
    levels = []
    for i in range(depth):
        laws = generator.random((C, V**i, V)) * (generator.random((C, V**i, V)) < 0.67)
        laws[laws.sum(axis=-1) == 0] = 1
        levels.append(laws / laws.sum(axis=-1, keepdims=True))
    return levels


def texts(V: int, length: int) -> list[Prefix]:
    """In lexicographic order."""
    return list(product(range(V), repeat=length))


def law_after(levels: list[Floats], c: int, prefix: Prefix) -> Floats:
    level = levels[len(prefix)][c]
    found: Floats = level[texts(level.shape[-1], len(prefix)).index(prefix)]
    return found


def probability(levels: list[Floats], c: int, text: Prefix, start: int = 0) -> float:
    """Of the tokens of a text from position ``start`` on, given those before."""
    return prod(float(law_after(levels, c, text[:i])[text[i]]) for i in range(start, len(text)))


stacks = st.builds(
    lambda seed, C, V, depth: make_levels(seed, C, V, depth),
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.integers(2, 3),
    st.integers(1, 3),
)


def sizes_of(levels: list[Floats]) -> tuple[int, int, int]:
    """C, V and the number of levels."""
    return levels[0].shape[0], levels[0].shape[-1], len(levels)


@given(stacks, st.data())
def test_tails_are_products_of_laws(levels: list[Floats], data: st.DataObject) -> None:
    C, V, depth = sizes_of(levels)
    start = data.draw(st.integers(0, depth))
    count = data.draw(st.integers(0, depth - start))
    found = tails(levels, start, count)
    assert found.shape == (C, V**start, V**count)
    for c in range(C):
        expected = [probability(levels, c, text, start) for text in texts(V, start + count)]
        assert found[c].ravel() == pytest.approx(expected, abs=1e-15)


@given(stacks)
def test_paths_are_the_drafts_and_their_probabilities(levels: list[Floats]) -> None:
    C, V, L = sizes_of(levels)
    found = paths(levels)
    for c in range(C):
        assert found[c] == pytest.approx([probability(levels, c, text) for text in texts(V, L)], abs=1e-15)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@given(stacks.filter(lambda levels: levels[0].shape[-1] ** len(levels) <= 9), st.integers(1, 3), st.integers(1, 50))
@settings(max_examples=60)
def test_draft_tuples_are_all_that_can_be_drafted(levels: list[Floats], K: int, chunk: int) -> None:
    C, V, L = sizes_of(levels)
    expected = []
    for c in range(C):
        for drafts in product(range(V**L), repeat=K):
            likelihood = prod(probability(levels, c, texts(V, L)[draft]) for draft in drafts)
            if likelihood > 0:
                expected.append((c, drafts, likelihood))
    pieces = list(draft_tuples(levels, K, chunk))
    assert all(len(context) <= chunk for context, _, _ in pieces)
    found = [row for piece in pieces for row in zip(*(part.tolist() for part in piece), strict=True)]
    found.sort()
    assert [(c, tuple(drafts)) for c, drafts, _ in found] == [(c, drafts) for c, drafts, _ in expected]
    assert [weight for _, _, weight in found] == pytest.approx([likelihood for _, _, likelihood in expected], rel=1e-12)
    assert count_tuples(levels, K) == len(expected)


def test_every_piece_of_the_draft_tuples_comes_from_all_over() -> None:
    """Each draft is first, second or third about equally often in every piece: a piece foretells the others."""
    levels = [np.full((1, 3**i, 3), 1 / 3) for i in range(2)]
    for _, drafted, _ in draft_tuples(levels, 3, 85):
        assert 70 <= len(drafted) <= 85
        for column in drafted.T:
            counts = np.bincount(column, minlength=9)
            assert counts.max() <= 2 * counts.min()


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(2, 3), st.integers(1, 3), st.integers(1, 3), st.data())
@settings(max_examples=60)
def test_rounds_hold_the_laws_along_their_drafts(
    seed: int, C: int, V: int, L: int, K: int, data: st.DataObject
) -> None:
    draft, target = make_levels(seed, C, V, L), make_levels(seed + 1, C, V, L + 1)
    context, drafted, _ = next(draft_tuples(draft, K, 1000))
    rows = data.draw(st.lists(st.integers(0, len(context) - 1), min_size=1, max_size=4))
    dtype = data.draw(st.sampled_from([torch.float64, torch.float32]))
    round = round_builder(context, drafted, draft, target, dtype)(torch.tensor(rows))
    check_round(round)
    assert round.draft_probs.dtype == round.target_probs.dtype == dtype
    assert (round.rows, round.num_drafts, round.length, round.vocab) == (len(rows), K, L, V)
    for b, row in enumerate(rows):
        for k in range(K):
            text = texts(V, L)[drafted[row, k]]
            assert round.drafts[b, k].tolist() == list(text)
            for i in range(L + 1):
                q = torch.from_numpy(law_after(target, context[row], text[:i])).to(dtype)
                assert torch.equal(round.target_probs[b, k, i], q)
            for i in range(L):
                p = torch.from_numpy(law_after(draft, context[row], text[:i])).to(dtype)
                assert torch.equal(round.draft_probs[b, k, i], p)


def test_rounds_are_copies_of_the_tables() -> None:
    draft, target = make_levels(0, 1, 2, 2), make_levels(1, 1, 2, 3)
    context, drafted, _ = next(draft_tuples(draft, 2, 1000))
    build = round_builder(context, drafted, draft, target, torch.float64)
    everything = torch.arange(len(context))
    first = build(everything)
    for tensor in (first.drafts, first.draft_probs, first.target_probs):
        tensor.zero_()
    check_round(build(everything))


@given(stacks)
def test_laws_along_every_path_and_back(levels: list[Floats]) -> None:
    C, V, L = sizes_of(levels)
    along = along_every_path(levels)
    assert along.shape == (C * V ** (L - 1), L, V)
    for c in range(C):
        for number, text in enumerate(texts(V, L - 1)):
            for i in range(L):
                np.testing.assert_array_equal(along[c * V ** (L - 1) + number, i], law_after(levels, c, text[:i]))
    back = from_every_path(along, C)
    for level, again in zip(levels, back, strict=True):
        np.testing.assert_array_equal(level, again)


@given(st.integers(2, 7), st.integers(1, 5))
def test_digits_and_index_are_inverse(base: int, count: int) -> None:
    numbers = np.arange(min(base**count, 500))
    found = digits(numbers, count, base)
    assert found.tolist() == [list(text) for text in texts(base, count)[:500]]
    np.testing.assert_array_equal(index(found, base), numbers)


@given(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 3))
def test_index_ignores_the_padding(tokens: list[int], padding: int) -> None:
    row = np.array([tokens + [-1] * padding], dtype=np.int64)
    assert index(row, 4)[0] == texts(4, len(tokens)).index(tuple(tokens))
