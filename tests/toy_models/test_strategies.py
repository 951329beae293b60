"""What the strategies draw, and how small their counterexamples become."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import find, given, settings
from hypothesis.errors import InvalidArgument

from toy_models.strategies import laws, pairs, tables
from toy_models.tables import TableModel, ToyPair

UNIFORM = (Fraction(1, 2), Fraction(1, 2))
SHRINK = settings(max_examples=2000, database=None)


def smallest(condition: Callable[[ToyPair], bool], **bounds: Any) -> ToyPair:
    return find(pairs(**bounds), condition, settings=SHRINK, random=Random(1))


def exact(model: TableModel) -> tuple[tuple[tuple[Fraction, ...], ...], ...]:
    assert model.fractions is not None
    return model.fractions


def all_laws(pair: ToyPair) -> list[tuple[Fraction, ...]]:
    return [law for model in (pair.draft, pair.target) for level in exact(model) for law in level]


@given(st.data(), st.integers(2, 5), st.integers(1, 9), st.booleans())
def test_laws_sum_to_one_with_weights_in_bounds(data: st.DataObject, vocab: int, weight: int, zeros: bool) -> None:
    law = data.draw(laws(vocab, max_weight=weight, zeros=zeros))
    assert len(law) == vocab
    assert sum(law) == 1
    positive = [p for p in law if p]
    assert max(positive) / min(positive) <= weight
    assert zeros or len(positive) == vocab


@given(st.data(), st.integers(2, 4), st.integers(1, 3))
def test_tables_have_the_depth_asked_for(data: st.DataObject, vocab: int, depth: int) -> None:
    model = data.draw(tables(vocab, depth))
    assert (model.vocab, model.depth) == (vocab, depth)
    assert model.fractions is not None


@given(pairs(min_vocab=2, max_vocab=4, min_length=1, max_length=2, min_drafts=2, max_drafts=5))
def test_pairs_stay_in_bounds_and_are_one_level_deeper_than_the_block(pair: ToyPair) -> None:
    assert 2 <= pair.vocab <= 4
    assert pair.length in (1, 2)
    assert pair.drafts in (2, 3, 4, 5)
    assert pair.draft.depth == pair.target.depth == pair.length + 1
    assert all(sum(law) == 1 for law in all_laws(pair))


@given(pairs(zeros=False))
def test_no_zeros_where_they_are_not_wanted(pair: ToyPair) -> None:
    assert all(min(law) > 0 for law in all_laws(pair))


def test_simplest_pair_is_uniform() -> None:
    pair = smallest(lambda pair: True)
    assert (pair.vocab, pair.length, pair.drafts) == (2, 1, 1)
    assert set(all_laws(pair)) == {UNIFORM}


def test_models_that_differ_at_the_root_shrink_to_one_small_law() -> None:
    pair = smallest(lambda pair: exact(pair.draft)[0] != exact(pair.target)[0])
    assert (pair.vocab, pair.length, pair.drafts) == (2, 1, 1)
    different = [law for law in all_laws(pair) if law != UNIFORM]
    assert len(different) == 1
    assert max(p.denominator for p in different[0]) == 3


@pytest.mark.slow
def test_a_fault_deep_in_the_tree_keeps_the_depth_it_needs_and_nothing_else() -> None:
    pair = smallest(lambda pair: pair.length == 2 and exact(pair.draft)[2] != exact(pair.target)[2], max_vocab=2)
    assert (pair.vocab, pair.length, pair.drafts) == (2, 2, 1)
    assert len([law for law in all_laws(pair) if law != UNIFORM]) == 1


def test_a_zero_stays_only_where_it_is_needed() -> None:
    pair = smallest(lambda pair: 0 in exact(pair.target)[0][0], min_drafts=2)
    assert (pair.vocab, pair.length, pair.drafts) == (2, 1, 2)
    assert [law for law in all_laws(pair) if law != UNIFORM] in ([(0, 1)], [(1, 0)])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: laws(0), "vocab is 0; it must be at least 1"),
        (lambda: laws(2, max_weight=0), "max_weight is 0; it must be at least 1"),
        (lambda: tables(1, 1), "vocab is 1; it must be at least 2"),
        (lambda: tables(2, 0), "depth is 0; it must be at least 1"),
        (lambda: pairs(min_vocab=1), "min_vocab is 1; it must be at least 2"),
        (lambda: pairs(min_vocab=4, max_vocab=3), "max_vocab is 3; it must be at least 4"),
        (lambda: pairs(min_length=0), "min_length is 0; it must be at least 1"),
        (lambda: pairs(min_length=3, max_length=2), "max_length is 2; it must be at least 3"),
        (lambda: pairs(min_drafts=0), "min_drafts is 0; it must be at least 1"),
        (lambda: pairs(min_drafts=2, max_drafts=1), "max_drafts is 1; it must be at least 2"),
        (lambda: pairs(max_weight=0), "max_weight is 0; it must be at least 1"),
    ],
)
def test_arguments_out_of_range_are_named_at_once(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build()
