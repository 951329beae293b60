"""Chance: the exact law of the smallest uniform, draws that follow their laws, replays, refusals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.stats import chi2
from torch import Tensor

import spectr_verify.chance
from spectr_verify.chance import Chance, ChanceError, Enumerated, Fork, Sampled, smallest_uniform_law

Interval = tuple[float, float]
LARGEST_UNIFORM = 1 - 2.0**-53
TINY = 5e-324


def doubles(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def ends(intervals: list[Interval]) -> tuple[Tensor, Tensor]:
    return doubles([low for low, _ in intervals]), doubles([high for _, high in intervals])


def law_of(intervals: list[Interval]) -> list[float]:
    law: list[float] = smallest_uniform_law(*ends(intervals))[0].tolist()
    return law


# --- the exact law of the smallest uniform, against rational arithmetic -------------------------------------------

Polynomial = list[Fraction]


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    product = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return product


def integral(a: Polynomial, low: Fraction, high: Fraction) -> Fraction:
    return sum((c * (high ** (i + 1) - low ** (i + 1)) / (i + 1) for i, c in enumerate(a)), Fraction(0))


def exact_law(intervals: list[Interval]) -> list[Fraction]:
    """The definition, in fractions: what is P(E_k < E_j for all j), points of equal place going to the lower index?"""
    exact = [(Fraction(low), Fraction(high)) for low, high in intervals]
    return [exact_winning_probability(exact, k) for k in range(len(exact))]


def exact_winning_probability(exact: list[tuple[Fraction, Fraction]], k: int) -> Fraction:
    low, high = exact[k]
    if low == high:
        chances = (exact_survival_of_point(exact, k, j) for j in range(len(exact)) if j != k)
        return math.prod(chances, start=Fraction(1))
    breaks = sorted({low, high, *(end for interval in exact for end in interval if low < end < high)})
    total = Fraction(0)
    for left, right in pairwise(breaks):
        integrand = [1 / (high - low)]
        for j, other in enumerate(exact):
            if j != k:
                integrand = times(integrand, survival_between(other, left, right))
        total += integral(integrand, left, right)
    return total


def survival_between(interval: tuple[Fraction, Fraction], left: Fraction, right: Fraction) -> Polynomial:
    """P(E > x) for x between two neighbouring ends, as a polynomial in x."""
    low, high = interval
    if high <= left:
        return [Fraction(0)]
    if low >= right:
        return [Fraction(1)]
    return [high / (high - low), -1 / (high - low)]


def exact_survival_of_point(exact: list[tuple[Fraction, Fraction]], k: int, j: int) -> Fraction:
    """P(the point k comes before E_j)."""
    point, (low, high) = exact[k][0], exact[j]
    if low == high:
        return Fraction(point < low or (point == low and k < j))
    return min(max((high - point) / (high - low), Fraction(0)), Fraction(1))


def interval_of(a: float, b: float) -> Interval:
    return min(a, b), max(a, b)


def narrow(low: float, steps: int) -> Interval:
    high = low
    for _ in range(steps):
        high = math.nextafter(high, math.inf)
    return low, high


grid = st.integers(0, 6).map(lambda n: n / 4)
"""Few places, so that ends meet, intervals coincide, lie apart, and shrink to points."""
anywhere = st.floats(0, 1)
intervals = st.one_of(
    st.builds(interval_of, grid, grid),
    st.builds(interval_of, anywhere, anywhere),
    st.builds(narrow, st.sampled_from([0.0, 1e-300, 0.25, 1.0, LARGEST_UNIFORM]), st.integers(0, 3)),
    st.builds(interval_of, grid, st.sampled_from([TINY, 1e-310, 1e-300, 1e-20])),
)
"""Also as narrow as one rounding step, and near zero, where a width has few digits or an infinite reciprocal."""


@given(st.lists(intervals, min_size=1, max_size=4))
@settings(max_examples=400)
def test_the_law_of_the_smallest_uniform_is_the_exact_integral(drawn: list[Interval]) -> None:
    reference = exact_law(drawn)
    assert sum(reference) == 1  # the reference itself
    assert law_of(drawn) == pytest.approx([float(p) for p in reference], abs=1e-14)


@pytest.mark.parametrize(
    ("drawn", "law"),
    [
        ([(0.0, 1.0)], [1]),
        ([(0.0, 1.0), (0.0, 1.0)], [1 / 2, 1 / 2]),
        ([(0.0, 1.0), (0.5, 1.0)], [3 / 4, 1 / 4]),
        ([(0.0, 1.0), (1.0, 2.0)], [1, 0]),
        ([(0.5, 0.5), (0.0, 1.0)], [1 / 2, 1 / 2]),
        ([(1.0, 1.0), (0.0, 1.0)], [0, 1]),
        ([(0.0, 0.0), (0.0, 1.0)], [1, 0]),
        ([(0.5, 0.5), (0.5, 0.5)], [1, 0]),
        ([(0.0, 1.0), (0.5, 0.5), (0.5, 0.5)], [1 / 2, 1 / 2, 0]),
        ([(LARGEST_UNIFORM, 1.0), (LARGEST_UNIFORM, 1.0)], [1 / 2, 1 / 2]),
        ([(0.0, TINY), (0.0, 2 * TINY)], [3 / 4, 1 / 4]),
    ],
)
def test_laws_worked_by_hand(drawn: list[Interval], law: list[float]) -> None:
    assert law_of(drawn) == pytest.approx(law, abs=1e-15)


@given(st.lists(st.lists(intervals, min_size=3, max_size=3), min_size=1, max_size=5))
def test_each_row_has_a_law_of_its_own(rows: list[list[Interval]]) -> None:
    low = doubles(*([a for a, _ in row] for row in rows))
    high = doubles(*([b for _, b in row] for row in rows))
    law = smallest_uniform_law(low, high)
    assert law.dtype == torch.float64
    assert (law >= 0).all()
    torch.testing.assert_close(law.sum(dim=1), torch.ones(len(rows), dtype=torch.float64), rtol=0, atol=1e-15)
    torch.testing.assert_close(law, doubles(*map(law_of, rows)), rtol=0, atol=1e-15)


@given(st.lists(intervals, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_order_does_not_matter_where_no_points_are_tied(drawn: list[Interval], random: Random) -> None:
    points = [low for low, high in drawn if low == high]
    if len(set(points)) < len(points):
        drawn = list(dict.fromkeys(drawn))  # each once
    order = list(range(len(drawn)))
    random.shuffle(order)
    law = law_of(drawn)
    assert law_of([drawn[k] for k in order]) == pytest.approx([law[k] for k in order], abs=1e-14)


@given(st.lists(st.builds(interval_of, anywhere, anywhere), min_size=1, max_size=5), st.integers(-60, 60))
def test_the_unit_of_length_does_not_matter(drawn: list[Interval], exponent: int) -> None:
    scaled = [(math.ldexp(low, exponent), math.ldexp(high, exponent)) for low, high in drawn]
    if all(math.ldexp(end, -exponent) in pair for long, pair in zip(scaled, drawn, strict=True) for end in long):
        assert law_of(scaled) == pytest.approx(law_of(drawn), abs=1e-15)


@pytest.mark.parametrize("K", [2, 3, 16, 63, 64])
def test_equal_intervals_are_equally_likely(K: int) -> None:
    assert law_of([(0.25, 0.75)] * K) == pytest.approx([1 / K] * K, rel=1e-12)


def test_sixty_four_intervals_of_every_kind() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.random((50, 64)), generator.random((50, 64))
    b[:, ::7] = a[:, ::7]  # some points
    law = smallest_uniform_law(torch.from_numpy(np.minimum(a, b)), torch.from_numpy(np.maximum(a, b)))
    assert torch.isfinite(law).all()
    assert (law >= 0).all()
    torch.testing.assert_close(law.sum(dim=1), torch.ones(50, dtype=torch.float64), rtol=0, atol=1e-15)


# --- draws follow the laws ----------------------------------------------------------------------------------------

SAMPLE = 200_000


def follows(index: Tensor, law: list[float]) -> bool:
    """The likelihood-ratio (G) test at 1e-6, seeds fixed: whether a sample could come from a law."""
    counts = torch.bincount(index, minlength=len(law)).numpy()
    expected = np.array(law) * len(index)
    seen = counts > 0
    if (expected[seen] == 0).any():
        return False
    statistic = 2 * float((counts[seen] * np.log(counts[seen] / expected[seen])).sum())
    return statistic <= chi2.isf(1e-6, max(1, np.count_nonzero(expected) - 1))


def seeded(seed: int = 0) -> Sampled:
    return Sampled(torch.Generator().manual_seed(seed))


def many(row: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(row, dtype=dtype).expand(SAMPLE, -1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "weights",
    [
        [1.0, 1.0],
        [0.125, 0.0, 0.5, 0.375],
        [3.0, 1.0, 4.0, 1.0, 5.0],
        [0.0, 0.0, 7.0],
        [2e-38, 6e-38],
        [1e30, 3e30],
        [0.98, 0.005, 0.0, 0.005, 0.01],
    ],
)
def test_categorical_draws_follow_the_weights(weights: list[float], dtype: torch.dtype) -> None:
    rows = many(weights, dtype)
    law = rows[0].double() / rows[0].double().sum()
    assert follows(seeded().categorical(rows), law.tolist())


@pytest.mark.parametrize("weights", [[1e-300, 3e-300], [1e300, 3e300], [TINY, 3 * TINY]])
def test_categorical_draws_follow_weights_of_any_size(weights: list[float]) -> None:
    assert follows(seeded().categorical(many(weights)), [0.25, 0.75])


@pytest.mark.parametrize(
    "drawn",
    [
        [(0.0, 1.0), (0.0, 1.0)],
        [(0.0, 1.0), (0.5, 0.75), (0.25, 2.0)],
        [(0.0, 1.0), (0.5, 0.5), (0.5, 0.5), (0.25, 0.75)],
        [(0.5, 0.5), (0.5, 0.5)],
        [(0.0, 0.1), (0.2, 0.3), (0.05, 0.25)],
        [(0.0, 1e-300), (0.0, 2e-300)],
        [(0.0, 1.0)],
    ],
)
def test_draws_of_the_smallest_uniform_follow_its_law(drawn: list[Interval]) -> None:
    low, high = ends(drawn)
    index = seeded().smallest_uniform(low.expand(SAMPLE, -1), high.expand(SAMPLE, -1))
    assert follows(index, law_of(drawn))


def test_the_sample_test_sees_a_law_that_is_off_by_one_percent() -> None:
    index = seeded().categorical(many([0.5, 0.5]))
    assert follows(index, [0.5, 0.5])
    assert not follows(index, [0.51, 0.49])
    assert not follows(index, [0.0, 1.0])


def test_rows_are_drawn_independently() -> None:
    pairs = seeded().categorical(many([1.0, 2.0])).reshape(-1, 2)
    assert follows(pairs[:, 0] * 2 + pairs[:, 1], [1 / 9, 2 / 9, 2 / 9, 4 / 9])


@pytest.mark.parametrize("ask", [lambda c: c.categorical(many([1.0, 2.0, 3.0])), lambda c: c.smallest_uniform(*WIDE)])
def test_a_seed_makes_the_draws_repeatable(ask: Callable[[Chance], Tensor]) -> None:
    one, other, third = seeded(7), seeded(7), seeded(8)
    first = ask(one)
    assert first.dtype == torch.int64
    assert torch.equal(first, ask(other))
    assert torch.equal(ask(one), ask(other))
    assert not torch.equal(first, ask(third))


WIDE = torch.zeros(1000, 3), torch.ones(1000, 3)


class FixedUniform(Sampled):
    """Draws one chosen number instead of a random one."""

    def __init__(self, uniform: float) -> None:
        super().__init__(torch.Generator())
        self.uniform = uniform

    def _uniform(self, *shape: int) -> Tensor:
        return torch.full(shape, self.uniform, dtype=torch.float64)


weight = st.one_of(
    st.just(0.0), st.floats(0, 1), st.sampled_from([TINY, 1e-300, 1e-40, 1e300]), st.integers(1, 9).map(float)
)


@given(
    st.lists(weight, min_size=1, max_size=8).filter(any),
    st.one_of(st.sampled_from([0.0, LARGEST_UNIFORM]), st.floats(0, LARGEST_UNIFORM)),
)
@settings(max_examples=400)
def test_an_index_of_weight_zero_is_never_drawn(weights: list[float], uniform: float) -> None:
    index = int(FixedUniform(uniform).categorical(doubles(weights)))
    assert weights[index] > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("uniform", [0.0, 0.5, LARGEST_UNIFORM])
def test_the_only_possible_index_is_drawn_wherever_it_stands(dtype: torch.dtype, uniform: float) -> None:
    for value in (1.0, torch.finfo(dtype).tiny, torch.finfo(dtype).max):
        weights = torch.where(torch.eye(9, dtype=torch.bool), value, torch.zeros((), dtype=dtype))
        assert FixedUniform(uniform).categorical(weights).tolist() == list(range(9))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.integers(0, 15))
def test_an_index_is_drawn_where_the_running_sum_passes_the_point(weights: list[int], step: int) -> None:
    """Numbers that floats hold exactly, so that the definition decides every case."""
    point = Fraction(step, 16) * sum(weights)
    running = [sum(weights[: i + 1]) for i in range(len(weights))]
    expected = next(i for i, reached in enumerate(running) if reached > point)
    assert int(FixedUniform(step / 16).categorical(doubles([float(w) for w in weights]))) == expected


@pytest.mark.parametrize("size", [1, 5])
def test_a_running_sum_that_rounds_up_at_a_weight_of_zero_draws_no_impossible_index(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Sums in parallel, as on a GPU, need not be flat where the weights are zero: over blocks, and inside of one."""
    uneven, exact = doubles([0.0, 1.0, 1 + 4e-16, 2.0, 2 + 4e-16]), Tensor.cumsum
    monkeypatch.setattr(spectr_verify.chance, "BLOCK", size)
    monkeypatch.setattr(
        Tensor, "cumsum", lambda self, **form: uneven.clone() if self.shape == uneven.shape else exact(self, **form)
    )
    weights = doubles([0.0, 1.0, 0.0, 1.0, 0.0])
    drawn = [int(FixedUniform(uniform).categorical(weights)) for uniform in (0.0, 0.5, LARGEST_UNIFORM)]
    assert drawn == [1, 3, 3]


@given(st.lists(intervals, min_size=1, max_size=5), st.sampled_from([0.0, 0.5, LARGEST_UNIFORM]))
def test_equal_values_go_to_the_lower_index(drawn: list[Interval], uniform: float) -> None:
    """At 0 every interval gives its high end, which belongs to it."""
    index = int(FixedUniform(uniform).smallest_uniform(*ends(drawn)))
    values = [high - uniform * (high - low) for low, high in drawn]
    assert index == values.index(min(values))


# --- replays ------------------------------------------------------------------------------------------------------


def record(*rows: list[int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64)


def test_an_unrecorded_choice_stops_the_rule_with_its_law() -> None:
    chance = Enumerated(torch.zeros(2, 0, dtype=torch.int64))
    assert not chance.stopped
    with pytest.raises(Fork) as stop:
        chance.categorical(torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.5, 0.5]], dtype=torch.float32))
    assert stop.value.probabilities.dtype == torch.float64
    assert stop.value.probabilities.tolist() == [[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]]
    assert chance.stopped


def test_an_unrecorded_smallest_uniform_stops_the_rule_with_its_law() -> None:
    low, high = ends([(0.0, 1.0), (0.5, 1.0)])
    with pytest.raises(Fork) as stop:
        Enumerated(torch.zeros(1, 0, dtype=torch.int64)).smallest_uniform(low, high)
    assert stop.value.probabilities.tolist() == [[0.75, 0.25]]


def test_a_rule_cannot_swallow_the_stop_by_catching_exceptions() -> None:
    def careless() -> None:
        try:
            Enumerated(torch.zeros(1, 0, dtype=torch.int64)).categorical(doubles([1.0, 1.0]))
        except Exception:  # as careless rules do
            pytest.fail("a Fork is no Exception")

    with pytest.raises(Fork):
        careless()


def test_a_rule_that_swallows_the_stop_is_stopped_again_at_the_same_choice() -> None:
    chance = Enumerated(torch.zeros(1, 0, dtype=torch.int64))
    with pytest.raises(Fork) as first:
        chance.categorical(doubles([1.0, 1.0]))
    with pytest.raises(Fork) as second:
        chance.categorical(doubles([1.0, 2.0, 5.0]))
    assert torch.equal(first.value.probabilities, second.value.probabilities)


def test_recorded_choices_are_replayed_in_order_with_their_probability() -> None:
    chance = Enumerated(record([0, 1], [1, 0]))
    assert chance.categorical(doubles([1.0, 3.0], [1.0, 3.0])).tolist() == [0, 1]
    assert chance.weight.tolist() == [0.25, 0.75]
    assert chance.smallest_uniform(doubles([0.0, 0.5], [0.0, 0.5]), doubles([1.0, 1.0], [1.0, 1.0])).tolist() == [1, 0]
    assert chance.weight.tolist() == [0.25 * 0.25, 0.75 * 0.75]
    assert chance.asked == 2


def test_a_rule_that_writes_into_an_answer_does_not_change_the_record() -> None:
    kept = record([1], [0])
    Enumerated(kept).categorical(doubles([1.0, 1.0], [1.0, 1.0])).fill_(5)
    assert kept.tolist() == [[1], [0]]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_choice_for_another_number_of_rows_is_refused(rows: int) -> None:
    for ask in (
        lambda chance: chance.categorical(torch.ones(rows, 2)),
        lambda chance: chance.smallest_uniform(torch.zeros(rows, 2), torch.ones(rows, 2)),
    ):
        for columns in (0, 1):
            with pytest.raises(ChanceError, match=f"{rows} rows of a round with 2"):
                ask(Enumerated(torch.zeros(2, columns, dtype=torch.int64)))


def test_a_recorded_choice_that_is_no_longer_among_the_outcomes_is_refused() -> None:
    with pytest.raises(ChanceError, match="number 0 is among 2 outcomes, fewer than"):
        Enumerated(record([0], [2])).categorical(torch.ones(2, 2))


# --- refusals -----------------------------------------------------------------------------------------------------


def chances(rows: int) -> Iterator[Chance]:
    yield seeded()
    yield Enumerated(torch.zeros(rows, 0, dtype=torch.int64))
    yield Enumerated(torch.zeros(rows, 1, dtype=torch.int64))


@given(
    st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -TINY]),
    st.integers(1, 5).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows - 1))),
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
)
def test_a_weight_that_is_none_is_refused_with_its_place(
    value: float, place: tuple[int, int], entry: tuple[int, int]
) -> None:
    (rows, row), (n, column) = place, entry
    weights = torch.ones(rows, n, dtype=torch.float64)
    weights[row, column] = value
    for chance in chances(rows):
        with pytest.raises(ChanceError, match=rf"categorical, row {row}: {value:.6g} at index {column} "):
            chance.categorical(weights)


@pytest.mark.parametrize("row", [0, 2])
def test_a_row_without_a_positive_weight_is_refused(row: int) -> None:
    weights = torch.ones(4, 3)
    weights[row] = 0
    for chance in chances(4):
        with pytest.raises(ChanceError, match=f"row {row}: no positive entry"):
            chance.categorical(weights)
        with pytest.raises(ChanceError, match="row 0: no positive entry"):
            chance.categorical(torch.ones(4, 0))


def test_weights_with_an_infinite_sum_are_refused() -> None:
    for chance in chances(2):
        with pytest.raises(ChanceError, match="row 1: an infinite sum"):
            chance.categorical(doubles([1.0, 1.0], [1e308, 1e308]))
        # What overflows in its own format does not in float64.
    assert follows(seeded().categorical(many([1e38, 3e38], torch.float32)), [0.25, 0.75])


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        (torch.ones(3), "float32 [3]"),
        (torch.ones(2, 3, 4, 5), "float32 [2, 3, 4, 5]"),
        (torch.ones(2, 3, dtype=torch.int64), "int64 [2, 3]"),
        (torch.ones(2, 3, dtype=torch.bool), "bool [2, 3]"),
        (np.ones((2, 3)), "ndarray"),
        ([[1.0, 2.0]], "list"),
    ],
)
def test_weights_of_another_form_are_refused(weights: object, what: str) -> None:
    for chance in chances(2):
        with pytest.raises(ChanceError) as refusal:
            chance.categorical(weights)
        assert "floating-point weights [B, n]" in str(refusal.value)
        assert what in str(refusal.value)


def test_a_long_row_of_weights_is_not_printed_whole() -> None:
    weights = torch.ones(1, 50_000)
    weights[0, 40_000] = math.nan
    with pytest.raises(ChanceError, match="nan at index 40000") as refusal:
        seeded().categorical(weights)
    assert len(str(refusal.value)) < 300


@given(
    st.sampled_from(
        [(0.5, 0.25), (math.nan, 1.0), (0.0, math.nan), (0.0, math.inf), (-math.inf, 0.0), (-1e308, 1e308)]
    ),
    st.integers(1, 5).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows - 1))),
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
)
def test_an_interval_that_is_none_is_refused_with_its_place(
    interval: Interval, place: tuple[int, int], entry: tuple[int, int]
) -> None:
    (rows, row), (K, k) = place, entry
    low, high = torch.zeros(rows, K, dtype=torch.float64), torch.ones(rows, K, dtype=torch.float64)
    low[row, k], high[row, k] = interval
    for chance in chances(rows):
        with pytest.raises(ChanceError, match=rf"smallest_uniform, row {row}, interval {k}: .* finite, the low one"):
            chance.smallest_uniform(low, high)


@pytest.mark.parametrize(
    ("low", "high", "what"),
    [
        (torch.zeros(3), torch.ones(3), "two tensors"),
        (torch.zeros(2, 3), torch.ones(2, 4), r"\[2, 3\] and torch.float32 \[2, 4\]"),
        (torch.zeros(2, 3), torch.ones(1, 3), "two tensors"),
        (torch.zeros(2, 0), torch.ones(2, 0), "at least one interval"),
        (0.0, torch.ones(2, 3), "float and"),
        (torch.zeros(2, 3), None, "NoneType"),
    ],
)
def test_intervals_of_another_form_are_refused(low: Tensor, high: Tensor, what: str) -> None:
    for chance in chances(2):
        with pytest.raises(ChanceError, match=what):
            chance.smallest_uniform(low, high)


@pytest.mark.parametrize("weights", [[[[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [3.0, 0.0]], [[2.0, 0.0], [5.0, 0.0]]]])
def test_several_choices_a_row_are_made_at_once(weights: list[list[list[float]]]) -> None:
    assert seeded().categorical(torch.tensor(weights)).tolist() == [[0, 1], [1, 0], [0, 0]]


def test_several_choices_a_row_are_independent_of_each_other() -> None:
    weights = torch.tensor([[[1.0, 3.0], [2.0, 2.0]]], dtype=torch.float64)
    law = {}
    for first, second in itertools.product(range(2), repeat=2):
        chance = Enumerated(torch.tensor([[first, second]]))
        assert chance.categorical(weights).tolist() == [[first, second]]
        law[first, second] = float(chance.weight)
    assert law == {(0, 0): 0.125, (0, 1): 0.125, (1, 0): 0.375, (1, 1): 0.375}
