"""Filters against the logits processors of transformers, and where those have no answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from spectr_verify.decoding import Filters
from spectr_verify.decoding.filters import EDGE, NEGLIGIBLE
from spectr_verify.errors import InputError

INF, NAN = float("inf"), float("nan")

FILTERS = st.builds(
    Filters,
    temperature=st.one_of(st.just(1.0), st.floats(0.05, 20)),
    top_k=st.none() | st.integers(1, 12),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.99)),
    min_p=st.one_of(st.just(0.0), st.floats(0.01, 1.0)),
)

ANY_LOGITS = st.lists(st.floats(-30, 30), min_size=1, max_size=10)

DISTINCT_LOGITS = st.lists(st.integers(-900, 900), min_size=1, max_size=10, unique=True).map(
    lambda found: [number / 100 for number in found]
)


def theirs(filters: Filters, logits: Tensor) -> Tensor:
    """The law that ``generate`` of transformers draws from."""
    chain = LogitsProcessorList()
    if filters.temperature != 1:
        chain.append(TemperatureLogitsWarper(filters.temperature))
    if filters.top_k is not None:
        chain.append(TopKLogitsWarper(filters.top_k))
    if filters.top_p < 1:
        chain.append(TopPLogitsWarper(filters.top_p))
    if filters.min_p > 0:
        chain.append(MinPLogitsWarper(filters.min_p))
    rows: Tensor = chain(torch.zeros(len(logits), 1, dtype=torch.int64), logits)
    return rows.softmax(dim=-1)


def near_a_threshold(filters: Filters, logits: Tensor) -> bool:
    """Whether rounding decides what is kept: then two right programs may differ."""
    ordered = Filters(filters.temperature, filters.top_k).law(logits).sort(dim=-1, descending=True).values
    reached = (ordered.cumsum(dim=-1) - filters.top_p).abs().min()
    share = (ordered / ordered[..., :1] - filters.min_p).abs()[..., 1:]
    return float(reached) < 1e-9 or bool((share < 1e-9).any())


@hypothesis.given(logits=DISTINCT_LOGITS, impossible=st.sets(st.integers(0, 9)), filters=FILTERS)
def test_the_laws_are_those_of_transformers(logits: list[float], impossible: set[int], filters: Filters) -> None:
    """No two logits are equal here: of tokens that are equally likely top-p keeps others than transformers does."""
    row = torch.tensor([[-INF if i in impossible else logit for i, logit in enumerate(logits)]], dtype=torch.float64)
    assume(bool(row.isfinite().any()))
    assume(filters.top_p == 1 or not near_a_threshold(filters, row))
    torch.testing.assert_close(filters.law(row), theirs(filters, row), rtol=1e-12, atol=1e-300)


def test_of_equally_likely_tokens_top_p_keeps_the_first() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0, 2.0]])
    ours, other = Filters(top_p=0.5).law(logits), theirs(Filters(top_p=0.5), logits)
    assert ours.tolist() == [[0.0, 0.5, 0.5, 0.0]]
    assert ours.sort().values.tolist() == other.sort().values.tolist(), "transformers keeps as many, but not those"


def test_top_k_and_min_p_keep_all_that_are_equally_likely() -> None:
    logits = torch.tensor([[3.0, 1.0, 3.0, 2.0, 2.0, 1.0]])
    for filters, kept in ((Filters(top_k=3), 4), (Filters(min_p=1.0), 2)):
        assert int((filters.law(logits) > 0).sum()) == kept
        torch.testing.assert_close(filters.law(logits), theirs(filters, logits))


@hypothesis.given(logits=ANY_LOGITS, filters=FILTERS)
def test_laws(logits: list[float], filters: Filters) -> None:
    row = torch.tensor(logits, dtype=torch.float64)
    law = filters.law(row)
    assert float(law.sum()) == pytest.approx(1, abs=1e-12)
    assert bool((law >= 0).all())
    # Logits may differ where the probabilities round to one number: then either is the likeliest.
    alone = Filters(temperature=filters.temperature).law(row)
    likeliest = law[alone == alone.max()]
    assert float(likeliest.max()) == float(law.max()) > 0, "a likeliest token is always kept"


@hypothesis.given(logits=ANY_LOGITS, top_p=st.floats(1e-9, 1, exclude_max=True))
def test_top_p_keeps_the_token_that_crosses(logits: list[float], top_p: float) -> None:
    plain = torch.tensor(logits, dtype=torch.float64).softmax(dim=-1)
    kept = plain[Filters(top_p=top_p).law(torch.tensor(logits, dtype=torch.float64)) > 0]
    assert float(kept.sum()) >= top_p - 1e-12
    assert float(kept.sum() - kept.min()) < top_p + 1e-12, "one token less would have been enough"


def test_the_order_of_the_filters() -> None:
    """Top-p and min-p measure what temperature and top-k have left."""
    logits = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    assert (Filters(top_k=2, top_p=0.6).law(logits) > 0).tolist() == [True, False, False]
    assert (Filters(top_p=0.6).law(logits) > 0).tolist() == [True, True, False]
    assert (Filters(min_p=0.5).law(logits) > 0).tolist() == [True, True, False]
    assert (Filters(temperature=0.5, min_p=0.5).law(logits) > 0).tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_temperature_0_takes_the_first_of_the_likeliest(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 4.0, 4.0], [-INF, -INF, -7.0]], dtype=dtype)
    assert Filters(temperature=0).law(logits).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-6, 1e-44, 1e-60, 5e-324])
def test_tiny_temperatures(temperature: float, dtype: torch.dtype) -> None:
    """Equals stay equal, which sets them apart from temperature 0. Some of these numbers are zero in float32."""
    logits = torch.tensor([80.0, 79.0, 80.0, -1e30, -INF], dtype=dtype)
    assert Filters(temperature=temperature).law(logits).tolist() == [0.5, 0.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e12, 1e60, 1.7e308])
def test_huge_temperatures(temperature: float, dtype: torch.dtype) -> None:
    """Nothing becomes possible that is not. Some of these numbers are infinite in float32."""
    law = Filters(temperature=temperature).law(torch.tensor([80.0, -80.0, 0.0, -INF], dtype=dtype))
    torch.testing.assert_close(law, torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=dtype) / 3, rtol=1e-6, atol=0)


EVERY_FILTER = [
    Filters(),
    Filters(temperature=0),
    Filters(temperature=0.1),
    Filters(top_k=1),
    Filters(top_p=0.5),
    Filters(min_p=0.5),
    Filters(0.5, 2, 0.9, 0.1),
]


NEAR_FILTERS = st.builds(
    Filters,
    temperature=st.floats(0.3, 5),
    top_k=st.none() | st.integers(1, 8),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.99)),
    min_p=st.one_of(st.just(0.0), st.floats(0.01, 1.0)),
)
# Whole numbers tie, and their sums with fractions of EDGE nearly do.
NEAR_LOGITS = st.lists(
    st.builds(lambda whole, part: whole + part * EDGE, st.integers(-6, 6), st.sampled_from([0, 0.05, -0.05, 0.5, 3])),
    min_size=1,
    max_size=10,
).map(lambda found: torch.tensor(found, dtype=torch.float64))


@hypothesis.given(logits=NEAR_LOGITS, filters=NEAR_FILTERS, data=st.data())
def test_what_rounding_makes_possible_is_nearly_possible(logits: Tensor, filters: Filters, data: st.DataObject) -> None:
    moves = st.lists(st.sampled_from([-0.1, 0.0, 0.1]), min_size=len(logits), max_size=len(logits))
    moved = logits + EDGE * torch.tensor(data.draw(moves), dtype=torch.float64)
    nearly = filters.nearly_possible(logits)
    assert bool((nearly | (filters.law(logits) == 0)).all())
    assert bool((nearly | (filters.law(moved) == 0)).all())


@hypothesis.given(logits=NEAR_LOGITS, filters=NEAR_FILTERS, where=st.integers(0, 9))
def test_what_is_nearly_possible_is_possible_a_little_further(logits: Tensor, filters: Filters, where: int) -> None:
    """Nothing is excused that is not at an edge, whatever filters stand together."""
    token = where % len(logits)
    assume(bool(filters.nearly_possible(logits)[token]))
    moved = logits.clone()
    if filters.top_k is not None and filters.top_k < len(logits):
        last = logits.topk(filters.top_k).values[-1]
        moved[(logits - last).abs() <= EDGE] = last  # all of them are kept then
    moved[token] += 2 * EDGE
    looser = replace(filters, top_p=min(1.0, filters.top_p + 20 * EDGE), min_p=filters.min_p * (1 - 20 * EDGE))
    assert float(looser.law(moved)[token]) > 0


@hypothesis.given(logits=NEAR_LOGITS, filters=NEAR_FILTERS, data=st.data())
def test_where_nothing_is_undecided_rounding_changes_little(
    logits: Tensor, filters: Filters, data: st.DataObject
) -> None:
    assume(not bool(filters.undecided(logits)))
    moves = st.lists(st.sampled_from([-0.1, 0.0, 0.1]), min_size=len(logits), max_size=len(logits))
    moved = logits + EDGE * torch.tensor(data.draw(moves), dtype=torch.float64)
    apart = (filters.law(moved) - filters.law(logits)).clamp(min=0).sum()
    assert float(apart) < 2 * NEGLIGIBLE


@pytest.mark.parametrize(
    ("filters", "laws", "undecided"),
    [
        (Filters(), [0.4, 0.3, 0.3], False),
        (Filters(top_k=2), [0.4, 0.3, 0.3], True),
        (Filters(top_k=2), [0.4, 0.3, 0.29], False),
        (Filters(top_k=3), [0.4, 0.3, 0.3], False),
        (Filters(top_k=1), [0.5, 0.5, 0.0], True),
        (Filters(top_p=0.6), [0.4, 0.3, 0.3], True),
        (Filters(top_p=0.8), [0.4, 0.3, 0.3], False),
        (Filters(top_p=0.7), [0.4, 0.3, 0.2, 0.1], True),
        (Filters(top_p=0.9), [0.5, 0.4, *[0.0001] * 10], False),
        (Filters(min_p=0.5), [0.5, 0.25, 0.25], True),
        (Filters(min_p=0.4), [0.5, 0.25, 0.25], False),
        (Filters(0.0), [0.5, 0.5, 0.0], True),
        (Filters(0.0), [0.5, 0.4, 0.1], False),
        (Filters(1e-6), [0.5, 0.49999, 0.00001], True),
        (Filters(1e-6), [0.5, 0.49, 0.01], False),
        (Filters(1e-3), [0.5, 0.4999, 0.0001], True),
        (Filters(min_p=0.5), [1.0, 0.5, *[0.4] * 2500], True),
        (Filters(top_p=0.001), [*[0.0005] * 2, *[0.0004] * 2500], True),
        (Filters(1.0), [1.0], False),
        (Filters(0.0), [1.0], False),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_rounding_decides(filters: Filters, laws: list[float], undecided: bool, dtype: torch.dtype) -> None:
    logits = torch.tensor(laws, dtype=torch.float64).log().to(dtype)
    assert filters.undecided(logits[None]).tolist() == [undecided]


def test_top_p_measures_within_the_top_k_what_is_nearly_possible() -> None:
    """Of the whole law the fifth token has 0.65 before it, but of the five likeliest 0.93."""
    laws = torch.tensor([0.3, 0.15, 0.12, 0.08, 0.05, *[0.03] * 10], dtype=torch.float64)
    nearly = Filters(top_k=5, top_p=0.7).nearly_possible(laws.log())
    assert nearly.tolist() == [True, True, True, *[False] * 12]


@pytest.mark.parametrize("filters", EVERY_FILTER, ids=str)
def test_what_underflows_is_not_nearly_possible(filters: Filters) -> None:
    """A filter's edge is no excuse for what has no probability to begin with."""
    logits = torch.tensor([0.0, -1.0, -200.0, -INF])
    assert filters.nearly_possible(logits)[2:].tolist() == [False, False]


@pytest.mark.parametrize("filters", EVERY_FILTER, ids=str)
@pytest.mark.parametrize("bad", [[NAN, 0.0, 1.0], [1.0, INF, 0.0], [-INF, -INF, -INF], [INF, -INF, NAN]])
def test_rows_that_are_no_logits_are_nan(filters: Filters, bad: list[float]) -> None:
    law = filters.law(torch.tensor([[0.0, 1.0, 2.0], bad]))
    assert not bool(law[0].isnan().any()), "other rows are as they were"
    assert bool(law[1].isnan().all())


@pytest.mark.parametrize("filters", EVERY_FILTER, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(filters: Filters, dtype: torch.dtype) -> None:
    logits = torch.randn(5, 50, generator=torch.Generator().manual_seed(0)).to(dtype)
    law = filters.law(logits)
    assert law.dtype == torch.float32
    assert torch.equal(law, filters.law(logits.to(torch.float32)))


def test_any_leading_dimensions() -> None:
    logits = torch.randn(2, 3, 4, 10, generator=torch.Generator().manual_seed(0))
    for filters in EVERY_FILTER:
        torch.testing.assert_close(filters.law(logits)[1, 2, 3], filters.law(logits[1, 2, 3]), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": INF}, "temperature is inf"),
        ({"temperature": NAN}, "temperature is nan"),
        ({"top_k": 0}, "top-k is 0"),
        ({"top_k": 1.5}, "top-k is 1.5"),
        ({"top_p": 0.0}, "top-p is 0"),
        ({"top_p": 1.01}, "top-p is 1.01"),
        ({"top_p": NAN}, "top-p is nan"),
        ({"min_p": -0.01}, "min-p is -0.01"),
        ({"min_p": 1.01}, "min-p is 1.01"),
        ({"min_p": NAN}, "min-p is nan"),
    ],
)
def test_numbers_out_of_range(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Filters(**given)
