"""Optima: golden values, certificates recomputed from scratch, size limits, and solvers that fail or lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectr_verify.bounds import BoundError, BoundResult, optimum, stateful_optimum, stateless_optimum
from spectr_verify.bounds.problem import Problem
from spectr_verify.bounds.selection import DraftSets
from toy_models import FAMILIES, TableError, TableModel, ToyPair, read_pairs
from toy_models.strategies import pairs

GOLDEN = Path(__file__).parent.parent / "data" / "golden.json"
SMALL = pairs(max_vocab=3, max_length=2, max_drafts=3) | pairs(max_vocab=2, max_length=3, max_drafts=2)
OPTIMA = {"optimum_stateful": stateful_optimum, "optimum_stateless": stateless_optimum}
BOTH = pytest.mark.parametrize("solve", OPTIMA.values(), ids=OPTIMA)

Prices = list[list[float]]


def random_pair(vocab: int, length: int, seed: int = 0) -> ToyPair:
    return FAMILIES["random"](np.random.default_rng(seed), vocab, length)


def dearest_by_enumeration(pair: ToyPair, length: int, drafts: int, prices: Prices) -> float:
    """Mean price of the dearest of K drafts, over all ordered draws."""
    law = pair.draft.joint(length)
    vocab = pair.vocab
    cost = [sum(prices[i - 1][text // vocab ** (length - i)] for i in range(1, length + 1)) for text in range(law.size)]
    possible = np.flatnonzero(law).tolist()
    return sum(prod(law[list(T)]) * max(cost[x] for x in T) for T in product(possible, repeat=drafts))


def stateful_certificate(pair: ToyPair, length: int, drafts: int, prices: Prices) -> float:
    target = pair.target.joints(length)[1:]
    kept = sum((1 - y) * q for level, Q in zip(prices, target, strict=True) for y, q in zip(level, Q, strict=True))
    return kept + dearest_by_enumeration(pair, length, drafts, prices)


def stateless_certificate(pair: ToyPair, length: int, drafts: int, prices: Prices) -> float:
    target = pair.target.joints(length)

    def gain(level: int, row: int) -> float:
        below = [row * pair.vocab + token for token in range(pair.vocab)] if level < length else []
        own = target[level][row] * (1 - prices[level - 1][row])
        return max(0.0, own + sum(gain(level + 1, child) for child in below))

    return sum(gain(1, row) for row in range(pair.vocab)) + dearest_by_enumeration(pair, length, drafts, prices)


CERTIFICATES: dict[Callable[..., BoundResult], Callable[..., float]] = {
    stateful_optimum: stateful_certificate,
    stateless_optimum: stateless_certificate,
}


@pytest.mark.parametrize("number", range(14))
def test_golden_values(number: int) -> None:
    pair = read_pairs(GOLDEN)[number]
    expected = json.loads(GOLDEN.read_text())["instances"][number]["expected"]
    for name, solve in OPTIMA.items():
        result = solve(pair, pair.length, pair.drafts)
        assert result.value == pytest.approx(expected[name], abs=1e-9), name
        assert result.upper == pytest.approx(expected[name], abs=1e-9), name
        assert result.status == "optimal"


@BOTH
def test_two_drafts_of_a_coin_reach_a_point_mass_when_either_shows_it(solve: Callable[..., BoundResult]) -> None:
    models = (TableModel(tuple(np.array([law] * rows) for rows in (1, 2))) for law in ([0.5, 0.5], [1.0, 0.0]))
    assert solve(ToyPair("coin", *models), 1, 2).value == pytest.approx(3 / 4, abs=1e-12)


@BOTH
@given(pair=SMALL)
@pytest.mark.slow
def test_duals_certify_the_upper_side(solve: Callable[..., BoundResult], pair: ToyPair) -> None:
    result = solve(pair, pair.length, pair.drafts)
    assert [level.size for level in result.duals] == [pair.vocab**i for i in range(1, pair.length + 1)]
    assert all((level >= 0).all() for level in result.duals)
    if solve is stateful_optimum:
        assert all((level <= 1).all() for level in result.duals)
    recomputed = CERTIFICATES[solve](pair, pair.length, pair.drafts, [level.tolist() for level in result.duals])
    assert result.upper == pytest.approx(recomputed, abs=1e-12)
    assert -1e-12 <= result.gap <= optimum.TOLERANCE


@BOTH
@given(pair=SMALL, data=st.data())
@pytest.mark.slow
def test_any_prices_bound_the_optimum(solve: Callable[..., BoundResult], pair: ToyPair, data: st.DataObject) -> None:
    problem = Problem.of(pair, pair.length, pair.drafts)
    price = st.floats(0, 1 if solve is stateful_optimum else 3)
    prices = [np.array(data.draw(st.tuples(*[price] * level.size))) for level in problem.target]
    sets = DraftSets.of(problem.draft[-1], problem.target[-1], problem.drafts)
    weak = {stateful_optimum: optimum.stateful_upper, stateless_optimum: optimum.stateless_upper}[solve]
    assert solve(pair, pair.length, pair.drafts).value <= weak(problem, sets, prices) + 1e-12


@BOTH
def test_sixty_four_drafts_on_four_texts_are_a_small_program(solve: Callable[..., BoundResult]) -> None:
    models = (TableModel(tuple(np.array([law] * rows) for rows in (1, 2, 4))) for law in ([0.99, 0.01], [0.5, 0.5]))
    pair = ToyPair("seldom", *models)
    result = solve(pair, 2, 64)
    assert result.variables < 50
    assert result.gap <= 1e-10
    assert solve(pair, 2, 8).upper < result.value < 2


@BOTH
@pytest.mark.parametrize(
    ("draft", "target"),
    [([1.0, 0.0], [1e-300, 1.0]), ([1e-12, 1.0], [1.0, 1e-12]), ([1 - 1e-9, 1e-9], [0.5, 0.5])],
)
def test_extreme_laws_are_certified(solve: Callable[..., BoundResult], draft: list[float], target: list[float]) -> None:
    models = (TableModel(tuple(np.array([law] * rows) for rows in (1, 2, 4, 8))) for law in (draft, target))
    pair = ToyPair("extreme", *models)
    for length, drafts in product((1, 2, 3), (1, 2, 5)):
        assert abs(solve(pair, length, drafts).gap) <= optimum.TOLERANCE


@BOTH
def test_laws_with_small_tails_are_certified(solve: Callable[..., BoundResult]) -> None:
    """32,896 sets of drafts, most of them far rarer than the solver's own tolerance."""
    random = np.random.default_rng(8)
    models = [TableModel(tuple(random.dirichlet(np.full(4, 0.1), 4**i) for i in range(5))) for _ in range(2)]
    assert solve(ToyPair("tails", *models), 4, 2).gap <= optimum.TOLERANCE


@BOTH
def test_programs_above_the_limit_are_refused_before_they_are_built(
    solve: Callable[..., BoundResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(*_: Any) -> None:
        raise AssertionError("the program was built")

    monkeypatch.setattr(DraftSets, "of", built)
    with pytest.raises(BoundError) as refusal:
        solve(random_pair(4, 4), 4, 3)
    message = str(refusal.value)
    # Sets of 2 and 3 out of 256 texts, 256 texts, and 4 + 16 + 64 + 256 nodes.
    assert f"{32_640 + 2 * 2_763_520 + 256 + 340:,} variables, more than the 200,000 allowed" in message
    assert "L = 4 with K = 2 or L = 3 with K = 3" in message
    with pytest.raises(BoundError, match="nothing with this L or this K"):
        solve(random_pair(4, 4), 4, 3, max_variables=3)


@BOTH
def test_the_limit_itself_is_allowed_and_what_the_refusal_names_fits(solve: Callable[..., BoundResult]) -> None:
    pair = random_pair(2, 3)
    size = solve(pair, 3, 3).variables
    assert solve(pair, 3, 3, max_variables=size).variables == size
    with pytest.raises(BoundError, match="L = 3 with K = 2 or L = 2 with K = 3"):
        solve(pair, 3, 3, max_variables=size - 1)
    assert solve(pair, 3, 2, max_variables=size - 1).variables < size
    assert solve(pair, 2, 3, max_variables=size - 1).variables < size


@BOTH
def test_more_drafts_than_float64_can_order_are_refused(solve: Callable[..., BoundResult]) -> None:
    with pytest.raises(BoundError, match="K = 1001: programs take at most K = 1000"):
        solve(random_pair(2, 1), 1, 1001)


@BOTH
def test_a_solve_that_is_cut_short_is_an_error(solve: Callable[..., BoundResult], recwarn: Any) -> None:
    with pytest.raises(BoundError, match=r"'random'.*status 'user_limit' instead of 'optimal'.*no bound"):
        solve(random_pair(4, 3), 3, 2, time_limit=0.0)
    assert not recwarn.list


@BOTH
@pytest.mark.parametrize("lie", ["primal", "dual"])
def test_a_solver_that_lies_is_caught_by_the_gap(
    solve: Callable[..., BoundResult], lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lying(problem: Problem, objective: Any, constraints: list[Any], time_limit: float | None) -> Any:
        solved = honest(problem, objective, constraints, time_limit)
        if lie == "dual":
            constraints[2].save_dual_value(np.zeros(constraints[2].shape))
        else:
            flows = next(variable for variable in constraints[0].variables())
            flows.value = flows.bounds[1]
        return solved

    honest = optimum.maximise
    monkeypatch.setattr(optimum, "maximise", lying)
    pair = read_pairs(GOLDEN)[8]
    with pytest.raises(BoundError, match=r"status 'optimal', but .*gap 0\.\d+, allowed 1e-08"):
        solve(pair, pair.length, pair.drafts)


@BOTH
@pytest.mark.parametrize(("length", "drafts"), [(0, 1), (3, 1), (1, 0)])
def test_sizes_out_of_range_are_refused(solve: Callable[..., BoundResult], length: int, drafts: int) -> None:
    with pytest.raises(TableError, match=rf"'random'.* is {drafts if drafts < 1 else length}\b"):
        solve(random_pair(2, 2), length, drafts)
