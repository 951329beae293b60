"""Table models against naive definitions, one prefix and one loop at a time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from toy_models.strategies import tables
from toy_models.tables import TableError, TableModel, ToyPair

HALF = [["1/2", "1/2"]]
MIXED = [[["1/3", "2/3"]], [["1", "0"], ["1/4", "3/4"]], [["1/2", "1/2"], ["1/5", "4/5"], ["0", "1"], ["2/3", "1/3"]]]


def prefixes(vocab: int, length: int) -> list[tuple[int, ...]]:
    """All prefixes of one length, in lexicographic order."""
    return list(product(range(vocab), repeat=length))


def naive_law(model: TableModel, prefix: Sequence[int]) -> np.ndarray:
    """The definition: the last ``depth - 1`` tokens choose the row, found by counting through all prefixes."""
    recent = tuple(prefix)[max(0, len(prefix) - (model.depth - 1)) :]
    return model.levels[len(recent)][prefixes(model.vocab, len(recent)).index(recent)]


def naive_probability(model: TableModel, text: Sequence[int]) -> float:
    probability = 1.0
    for position, token in enumerate(text):
        probability *= naive_law(model, text[:position])[token]
    return probability


@given(tables(3, 2), st.integers(0, 4))
def test_joint_law_is_the_product_of_next_token_laws(model: TableModel, length: int) -> None:
    joint = model.joint(length)
    expected = [naive_probability(model, text) for text in prefixes(3, length)]
    np.testing.assert_allclose(joint, expected, rtol=1e-12)
    assert joint.sum() == pytest.approx(1, abs=1e-12)


@given(tables(2, 3))
def test_joints_are_marginals_of_each_other(model: TableModel) -> None:
    joints = model.joints(5)
    assert [len(joint) for joint in joints] == [1, 2, 4, 8, 16, 32]
    for shorter, longer in pairwise(joints):
        np.testing.assert_allclose(longer.reshape(-1, 2).sum(axis=1), shorter, rtol=1e-12, atol=1e-15)


@given(tables(3, 3), st.lists(st.integers(0, 2), max_size=6))
def test_law_after_any_prefix_is_that_of_its_recent_tokens(model: TableModel, prefix: list[int]) -> None:
    np.testing.assert_array_equal(model.law(prefix), naive_law(model, prefix))


@given(
    st.integers(1, 3).flatmap(lambda depth: tables(2, depth)),
    st.lists(st.integers(0, 1), max_size=5),
    st.integers(1, 4),
)
def test_after_gives_the_laws_of_the_continuations(model: TableModel, prefix: list[int], depth: int) -> None:
    rest = model.after(prefix, depth)
    assert rest.depth == depth
    for offset in range(depth):
        for continuation in prefixes(2, offset):
            np.testing.assert_array_equal(rest.law(continuation), naive_law(model, [*prefix, *continuation]))


@given(tables(2, 2), st.integers(0, 3), st.integers(1, 3))
def test_continuations_of_all_contexts_at_once(model: TableModel, context_length: int, depth: int) -> None:
    contexts = np.arange(2**context_length)
    found = model.continuations(contexts, context_length, depth)
    for offset, level in enumerate(found):
        assert level.shape == (len(contexts), 2**offset, 2)
        for row, context in enumerate(prefixes(2, context_length)):
            expected = [naive_law(model, context + continuation) for continuation in prefixes(2, offset)]
            np.testing.assert_array_equal(level[row], expected)


def test_laws_after_a_text_whose_index_exceeds_64_bits() -> None:
    model = TableModel.parse(MIXED)
    text = [1] * 200 + [0, 1]
    np.testing.assert_array_equal(model.law(text), [0.2, 0.8])
    assert model.after(text, 1).fractions == (((Fraction(1, 5), Fraction(4, 5)),),)


def test_continuations_of_contexts_whose_successors_exceed_64_bits() -> None:
    model = TableModel.parse([[["1/3", "1/3", "1/3"]], [["1", "0", "0"], ["0", "1", "0"], ["0", "0", "1"]]])
    last_tokens = model.continuations(3**39 - np.array([3, 2, 1]), 39, 3)[0][:, 0]
    np.testing.assert_array_equal(last_tokens, np.eye(3))
    for level in model.continuations(3**39 - np.array([3, 2, 1]), 39, 3)[1:]:
        np.testing.assert_array_equal(level, np.broadcast_to(np.tile(np.eye(3), (level.shape[1] // 3, 1)), level.shape))


def test_fractions_are_kept_and_floats_are_their_nearest_doubles() -> None:
    model = TableModel.parse(MIXED)
    assert model.fractions is not None
    assert model.fractions[1][1] == (Fraction(1, 4), Fraction(3, 4))
    assert model.levels[2][1, 0] == float(Fraction(1, 5))
    assert model.to_json() == MIXED
    rest = model.after([1, 1], 2)
    assert rest.to_json() == [[["2/3", "1/3"]], [["0", "1"], ["2/3", "1/3"]]]


@given(tables(7, 2))
def test_exact_models_are_not_rounded_further(model: TableModel) -> None:
    assert model.fractions is not None
    for exact, level in zip(model.fractions, model.levels, strict=True):
        assert level.tolist() == [[float(p) for p in law] for law in exact]


def test_integers_and_fractions_are_exact_and_a_float_makes_the_model_a_float_model() -> None:
    assert TableModel.parse([[[0, Fraction(1, 1)]]]).fractions == (((Fraction(0), Fraction(1)),),)
    mixed = TableModel.parse([[["1/3", "2/3"]], [[0.5, 0.5], ["1/4", "3/4"]]])
    assert mixed.fractions is None
    assert mixed.levels[1].tolist() == [[0.5, 0.5], [0.25, 0.75]]


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=9))
def test_a_law_divided_by_its_sum_once_is_not_changed_again(weights: list[float]) -> None:
    law = np.array([weights]) / np.sum(weights)
    once = TableModel((law,))
    assert TableModel(once.levels).levels[0].tolist() == once.levels[0].tolist()


def test_a_law_that_is_a_little_off_is_divided_by_its_sum() -> None:
    level = TableModel.parse([[[0.5, 0.5000004]]]).levels[0]
    assert level[0, 0] == 0.5 / 1.0000004
    assert not level.flags.writeable


def test_the_caller_keeps_a_writeable_array() -> None:
    level = np.array([[0.5, 0.5]])
    model = TableModel((level,))
    level[0] = [1.0, 0.0]
    assert model.levels[0].tolist() == [[0.5, 0.5]]


@given(tables(2, 2))
def test_repr_builds_the_same_model(model: TableModel) -> None:
    assert eval(repr(model)).fractions == model.fractions


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "at least one level"),
        ([[]], r"level 0 has shape \(0,\)"),
        ([[["1"]]], "V of at least 2"),
        ([[[0.5, 0.5]], [[0.5, 0.5]]], r"level 1 has shape \(1, 2\).*each of the 2 prefixes of length 1"),
        ([HALF, [[0.5, 0.5], [0.5, 0.25, 0.25]]], "level 1, row 1: the law lists 3 probabilities.*list 2"),
        ([HALF, [["1/2", "1/2"], ["1/2", "1/3"]]], "level 1, row 1: the fractions sum to 5/6"),
        ([HALF, [["1/2", "1/2"], ["3/2", "-1/2"]]], "level 1, row 1, token 0: '3/2' is not a probability"),
        ([HALF, [[0.5, 0.5], [0.5, 0.51]]], r"level 1, row 1: \[0.5, 0.51\] does not sum to 1 within 1e-06"),
        ([HALF, [[0.5, 0.5], [1.5, -0.5]]], "level 1, row 1: .* negative"),
        ([HALF, [[0.5, 0.5], [float("nan"), 0.5]]], "level 1, row 1: .* not a finite number"),
        ([HALF, [[0.5, 0.5], [float("inf"), float("-inf")]]], "level 1, row 1: .* not a finite number"),
        ([HALF, [["1/2", "1/2"], ["1/0", "1"]]], "level 1, row 1, token 0: '1/0' is not a number"),
        ([HALF, [["1/2", "1/2"], ["half", "1/2"]]], "level 1, row 1, token 0: 'half' is not a number"),
        ([HALF, [["1/2", "1/2"], ["1/2", None]]], "level 1, row 1, token 1: None is not a number"),
        ([HALF, [["1/2", "1/2"], [True, False]]], "level 1, row 1, token 0: True is not a number"),
        ([HALF, [["1/2", "1/2"], "1/2"]], "level 1, row 1: expected a list of numbers, found '1/2'"),
        ([HALF, 3], "level 1: expected a list of laws, found 3"),
        ([HALF, {"0": HALF}], "level 1: expected a list of laws, found {"),
        (None, "the table: expected a list of levels, found None"),
        ([[[10**400, 0.5]]], r"level 0, row 0, token 0: 10{56}\.\.\. is not a probability"),
    ],
)
def test_error_says_where(levels: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        TableModel.parse(levels)


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ((((Fraction(1, 2), Fraction(1, 3)),),), "level 0, row 0: the fractions sum to 5/6"),
        ((((Fraction(3, 2), Fraction(-1, 2)),),), "level 0, row 0: the probability -1/2 is negative"),
        ((((Fraction(1, 4), Fraction(3, 4)),),), "level 0: fractions and floats differ"),
        ((((Fraction(1, 2), Fraction(1, 2)),) * 2,), "level 0: the fractions have another shape"),
        ((((Fraction(1, 2), Fraction(1, 2)),),) * 2, "2 levels of fractions and 1 of floats"),
    ],
)
def test_fractions_that_contradict_the_floats(fractions: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        TableModel((np.array([[0.5, 0.5]]),), fractions)


def test_tokens_and_contexts_outside_the_vocabulary() -> None:
    model = TableModel.parse(MIXED)
    with pytest.raises(TableError, match=r"token 2 at position 1 is outside the vocabulary 0\.\.1"):
        model.law([0, 2])
    with pytest.raises(TableError, match="token -1 at position 0"):
        model.after([-1], 1)
    with pytest.raises(TableError, match=r"contexts lie in 0\.\.4.*length 2 are numbered 0\.\.3"):
        model.continuations(np.array([0, 4]), 2, 1)
    with pytest.raises(TableError, match="at least one level"):
        model.after([0], 0)


def test_index_counts_prefixes_in_lexicographic_order() -> None:
    model = TableModel.parse([[["1/3", "1/3", "1/3"]]])
    assert [model.index(prefix) for prefix in prefixes(3, 3)] == list(range(27))


@pytest.mark.parametrize(
    ("draft", "settings", "message"),
    [
        ([[["1/3", "1/3", "1/3"]]], {}, "the draft has 3 tokens and the target 2"),
        ([HALF], {}, "the draft has 1 levels and the target 2"),
        ([HALF, HALF * 2], {"drafts": 0}, r"drafts \(K\) is 0; it must be at least 1"),
        ([HALF, HALF * 2], {"length": 0}, r"length \(L\) is 0; it must be at least 1"),
        (
            [HALF, HALF * 2],
            {"length": 2},
            r"length \(L\) is 2, but 2 levels reach blocks of at most 1 tokens; write 3 levels",
        ),
    ],
)
def test_pair_error_names_the_pair(draft: Any, settings: dict[str, int], message: str) -> None:
    with pytest.raises(TableError, match=f"pair 'p': {message}"):
        ToyPair("p", TableModel.parse(draft), TableModel.parse([HALF, HALF * 2]), **settings)


def test_pair_of_tables_reaches_blocks_one_shorter_than_its_depth() -> None:
    model = TableModel.parse(MIXED)
    pair = ToyPair("p", model, model, drafts=2, length=2)
    assert (pair.vocab, pair.max_length) == (2, 2)


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[31m", "\ud800"])
def test_a_name_that_would_spoil_a_report_is_refused(name: str) -> None:
    model = TableModel.parse([HALF, HALF * 2])
    with pytest.raises(TableError, match="printable"):
        ToyPair(name, model, model)


def test_an_entry_with_digits_without_end_is_refused() -> None:
    for entry in ("1e-300000000", "0." + "0" * 1000 + "1"):
        with pytest.raises(TableError, match="too many digits"):
            TableModel.parse([[[entry, "1/2"]]])
    with pytest.raises(TableError, match=r"sum to 1 -0\.5, not to 1"):
        TableModel.parse([[["1e-900", "1/2"]]])
