"""The full programs: equal to the selection programs, right by hand, and as ready to refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectr_verify.bounds import (
    BoundError,
    BoundResult,
    stateful_optimum,
    stateful_transport,
    stateless_optimum,
    stateless_transport,
)
from spectr_verify.bounds import transport as module
from toy_models import FAMILIES, TableError, TableModel, ToyPair, recorded_pairs
from toy_models.strategies import pairs

SMALL = (
    pairs(max_vocab=3, max_length=2, max_drafts=2)
    | pairs(max_vocab=2, max_length=3, max_drafts=2)
    | pairs(max_vocab=2, max_length=2, max_drafts=3)
    | pairs(max_vocab=4, max_length=1, max_drafts=3)
)
CLASSES = {"stateful": (stateful_optimum, stateful_transport), "stateless": (stateless_optimum, stateless_transport)}
BOTH = pytest.mark.parametrize(("select", "transport"), CLASSES.values(), ids=CLASSES)

Solve = Callable[..., BoundResult]


@BOTH
@given(pair=SMALL)
@pytest.mark.slow
def test_selection_and_transport_have_one_optimum(select: Solve, transport: Solve, pair: ToyPair) -> None:
    short, full = (solve(pair, pair.length, pair.drafts) for solve in (select, transport))
    assert full.gap <= 1e-9
    assert short.value <= full.upper + 1e-12
    assert full.value <= short.upper + 1e-12


@BOTH
def test_selection_and_transport_agree_on_recorded_laws(select: Solve, transport: Solve) -> None:
    for pair in recorded_pairs():
        assert transport(pair, 1, 3).value == pytest.approx(select(pair, 1, 3).value, abs=1e-9), pair.name


@pytest.mark.parametrize("transport", [stateful_transport, stateless_transport])
def test_a_token_that_is_written_but_not_accepted_does_not_count(transport: Solve) -> None:
    """One draft of two tokens that never shows the second token of the target: at most the first is accepted.

    An emission of the first token and then the right second one stops one short, whatever it writes.
    """
    draft = TableModel.parse([[[1, 0]], [[1, 0], [1, 0]], [[1, 0]] * 4])
    target = TableModel.parse([[[1, 0]], [["0", "1"], [1, 0]], [[1, 0]] * 4])
    assert transport(ToyPair("short", draft, target), 2, 1).value == pytest.approx(1, abs=1e-12)


def test_stateless_rules_lose_what_a_modified_target_could_win_back() -> None:
    """One draft: 0 with chance 1/4, then always 0. The target: always 0, then 0 with chance 1/4.

    The draft shows 00 as often as the target writes it, so a stateful rule accepts it whenever it is shown:
    1/4 + 1/4. A stateless rule accepts the first token in 1/4 of the rounds, and after the others 00 is written with
    chance 1/4 by plain q, so that only 1/4 of a quarter is left for acceptance: 1/4 + 1/16.
    """
    draft = TableModel.parse([[["1/4", "3/4"]], [[1, 0], [1, 0]], [[1, 0]] * 4])
    target = TableModel.parse([[[1, 0]], [["1/4", "3/4"], [1, 0]], [[1, 0]] * 4])
    pair = ToyPair("hand", draft, target)
    assert stateful_transport(pair, 2, 1).value == pytest.approx(1 / 2, abs=1e-12)
    assert stateless_transport(pair, 2, 1).value == pytest.approx(5 / 16, abs=1e-12)


@pytest.mark.parametrize(
    ("transport", "count"),
    [(stateful_transport, module._coupling_count), (stateless_transport, module._emission_count)],
)
@settings(max_examples=40)
@given(pair=SMALL)
def test_the_count_is_the_size_of_the_program(transport: Solve, count: Callable[..., int], pair: ToyPair) -> None:
    problem = module.Problem.of(pair, pair.length, pair.drafts)
    multisets, weights = module._multisets(problem)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    if transport is stateful_transport:
        built = len(multisets) * np.count_nonzero(problem.target[-1])
    else:
        emissions = module._Emissions.of(problem, multisets)
        built = emissions.owner.size + emissions.chance.size
    assert count(problem) == built == transport(pair, pair.length, pair.drafts).variables


@pytest.mark.parametrize("transport", [stateful_transport, stateless_transport])
def test_large_programs_short_times_and_wrong_sizes_are_refused(transport: Solve) -> None:
    pair = FAMILIES["random"](np.random.default_rng(0), 4, 3)
    with pytest.raises(BoundError, match=r"transport program has [\d,]+ variables, more than the 200,000 allowed"):
        transport(pair, 3, 3)
    with pytest.raises(BoundError, match="status 'user_limit' instead of 'optimal'"):
        transport(pair, 2, 2, time_limit=0.0)
    with pytest.raises(TableError, match="is 4"):
        transport(pair, 4, 1)


def test_the_full_program_is_the_larger() -> None:
    pair = FAMILIES["random"](np.random.default_rng(0), 3, 2)
    for select, transport in CLASSES.values():
        assert transport(pair, 2, 2).variables > 5 * select(pair, 2, 2).variables


@given(pair=SMALL, data=st.data())
@pytest.mark.slow
def test_any_masses_become_a_lossless_rule_and_any_prices_a_bound(pair: ToyPair, data: st.DataObject) -> None:
    """Whatever the solver says, the value stays below the optimum and the upper side above it."""
    problem = module.Problem.of(pair, pair.length, pair.drafts)
    multisets, weights = module._multisets(problem)
    space = module._Emissions.of(problem, multisets)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    optimum = stateless_optimum(pair, pair.length, pair.drafts)

    masses = random.uniform(-0.5, 1, space.owner.size) * weights[space.owner]
    within = module._within(masses, space.owner, weights)
    assert (np.bincount(space.owner, within, weights.size) <= weights + 1e-15).all()
    assert module._lossless_part(problem, space.levels(within)) <= optimum.upper + 1e-12

    prices, rent = random.normal(0, 2, space.texts.size), random.exponential(1, weights.size)
    raised = space.raised(prices, rent)
    assert (raised >= prices).all()
    gain = space.payoff - space.cost(raised)
    assert (gain[space.emission] <= rent[space.owner] + 1e-9).all()
    assert space.upper(raised, weights) <= space.texts @ raised + weights @ rent + 1e-9
    for priced in (prices, raised):
        assert space.upper(priced, weights) >= optimum.value - 1e-9


@given(pair=SMALL, data=st.data())
def test_any_coupling_is_cut_to_fit_both_marginals(pair: ToyPair, data: st.DataObject) -> None:
    problem = module.Problem.of(pair, pair.length, pair.drafts)
    weights, texts = module._multisets(problem)[1], problem.target[-1][problem.target[-1] > 0]
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    fitted = module._sub_coupling(random.normal(0, 1, (weights.size, texts.size)), weights, texts)
    assert (fitted >= 0).all()
    assert (fitted.sum(axis=1) <= weights + 1e-15).all()
    assert (fitted.sum(axis=0) <= texts + 1e-15).all()


def test_what_is_accepted_below_a_cut_is_cut_in_proportion() -> None:
    """The target writes 0 first in half of the rounds, then 00 always; the emissions claim 0 always and 00 in half.

    Half of the emissions beyond 0 have to go, and with them half of those beyond 00: 1/2 + 1/4.
    """
    target = TableModel.parse([[["1/2", "1/2"]], [[1, 0], [1, 0]], [[1, 0]] * 4])
    problem = module.Problem.of(ToyPair("cut", target, target), 2)
    emitted = [np.zeros(2), np.array([0.5, 0, 0, 0]), np.array([0.5, 0, 0, 0, 0, 0, 0, 0])]
    assert module._lossless_part(problem, emitted) == pytest.approx(3 / 4, abs=1e-12)
