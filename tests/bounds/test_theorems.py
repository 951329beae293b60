"""What is known of the bounds, as properties of drawn pairs.

Where an optimum stands on the larger side of an inequality its certified upper side is compared, and its value on the
smaller side, so that no tolerance but rounding is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from spectr_verify.bounds import (
    Bounds,
    block_race,
    bounds,
    claimed_bound,
    closed_forms,
    level_bound,
    relaxed_bound,
    stateful_optimum,
    stateless_optimum,
)
from toy_models import TableModel, ToyPair
from toy_models.strategies import pairs

SMALL = pairs(max_vocab=3, max_length=2, max_drafts=3) | pairs(max_vocab=2, max_length=3, max_drafts=2)
ROUNDING = 1e-12


def of(pair: ToyPair) -> Bounds:
    return bounds(pair, pair.length, pair.drafts)


def ascending(values: Sequence[float]) -> bool:
    return all(low <= high + ROUNDING for low, high in pairwise(values))


@given(SMALL)
def test_the_whole_chain_of_inequalities(pair: ToyPair) -> None:
    found = of(pair)
    closed, stateless, stateful = found.closed, found.stateless, found.stateful
    assert ascending([0.0, closed["token"], closed["block"], closed["block_race"], stateless.upper])
    assert ascending([stateless.value, stateful.upper])
    assert ascending([stateful.value, closed["level_bound"], closed["relaxed_bound"], pair.length])
    assert ascending([closed["greedy_block"], closed["claimed_bound"], stateful.upper])
    assert ascending([closed["block_race"], closed["claimed_bound"]])
    assert ascending([closed["block"], closed["greedy_block"]])


@given(pairs(max_vocab=3, max_length=2, max_drafts=1) | pairs(max_vocab=2, max_length=4, max_drafts=1))
@pytest.mark.slow
def test_one_draft_has_its_optima_in_closed_form(pair: ToyPair) -> None:
    found = of(pair)
    closed = found.closed
    assert closed["block_race"] == pytest.approx(closed["block"], abs=ROUNDING)
    assert found.stateless.value == pytest.approx(closed["block"], abs=ROUNDING)
    assert found.stateless.upper == pytest.approx(closed["block"], abs=1e-8)
    for name in ("claimed_bound", "level_bound"):
        assert closed[name] == pytest.approx(closed["greedy_block"], abs=ROUNDING)
    assert found.stateful.value == pytest.approx(closed["greedy_block"], abs=ROUNDING)
    assert found.stateful.upper == pytest.approx(closed["greedy_block"], abs=1e-8)


@given(pairs(max_vocab=3, max_length=2, max_drafts=2) | pairs(max_vocab=2, max_length=2, max_drafts=6))
@pytest.mark.slow
def test_one_draft_more_never_lowers_a_bound(pair: ToyPair) -> None:
    fewer, more = pair.drafts, pair.drafts + 1
    for bound in (block_race, claimed_bound, level_bound, relaxed_bound):
        assert ascending([bound(pair, pair.length, fewer), bound(pair, pair.length, more)]), bound.__name__
    for optimum in (stateless_optimum, stateful_optimum):
        assert ascending([optimum(pair, pair.length, fewer).value, optimum(pair, pair.length, more).upper])


@given(SMALL)
@pytest.mark.slow
def test_identical_models_accept_everything(pair: ToyPair) -> None:
    found = of(ToyPair("same", pair.draft, pair.draft, pair.drafts, pair.length))
    values = [*found.closed.values(), found.stateless.value, found.stateful.value]
    assert values == pytest.approx([pair.length] * len(values), abs=ROUNDING)


@given(SMALL)
@pytest.mark.slow
def test_disjoint_first_tokens_accept_nothing(pair: ToyPair) -> None:
    found = of(ToyPair("apart", starting_with(pair.draft, 0), starting_with(pair.target, 1), pair.drafts, pair.length))
    assert [*found.closed.values(), found.stateless.value, found.stateful.value] == [0.0] * 9
    assert max(found.stateless.upper, found.stateful.upper) <= 1e-8


def starting_with(model: TableModel, token: int) -> TableModel:
    return TableModel((np.eye(1, model.vocab, token), *model.levels[1:]))


@given(pairs(max_vocab=5, max_length=1, max_drafts=4))
@pytest.mark.slow
def test_for_one_token_the_level_bound_is_both_optima(pair: ToyPair) -> None:
    found = of(pair)
    for optimum in (found.stateless, found.stateful):
        assert optimum.value <= found.closed["level_bound"] + ROUNDING
        assert optimum.upper >= found.closed["level_bound"] - ROUNDING


@given(pairs(max_vocab=4, max_length=1, max_drafts=4))
def test_for_one_token_the_block_race_reaches_the_claimed_bound(pair: ToyPair) -> None:
    closed = closed_forms(pair, 1, pair.drafts)
    assert closed["block_race"] == pytest.approx(closed["claimed_bound"], abs=ROUNDING)


@given(pairs(max_vocab=3, max_length=2, zeros=False))
def test_ever_more_drafts_accept_all_that_the_draft_model_can_write(pair: ToyPair) -> None:
    assert block_race(pair, pair.length, 10**6) == pytest.approx(pair.length, abs=ROUNDING)
