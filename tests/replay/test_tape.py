"""The walk through all runs."""

from __future__ import annotations

import itertools
import time

import hypothesis.strategies as st
import pytest
from hypothesis import given

from spectr_verify.errors import InputError
from spectr_verify.replay.tape import MAX_CHOICES, Budget, BudgetError, ReplayError, Tape, paths

laws = st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any).map(lambda w: [x / sum(w) for x in w])


def walk(run):
    return list(paths(run, Budget()))


@given(st.lists(laws, max_size=4))
def test_independent_choices_give_the_product_law(choices: list[list[float]]) -> None:
    found = {result: weight for weight, result in walk(lambda tape: tuple(tape.choose(law) for law in choices))}
    for result in itertools.product(*(range(len(law)) for law in choices)):
        weight = 1.0
        for law, outcome in zip(choices, result, strict=True):
            weight *= law[outcome]
        assert found.get(result, 0.0) == pytest.approx(weight, abs=1e-15)


def test_choices_may_depend_on_choices() -> None:
    def run(tape: Tape) -> tuple[int, ...]:
        taken = [tape.choose([0.25, 0.75])]
        while taken[-1] and len(taken) < 3:
            taken.append(tape.choose([0.5, 0.5]))
        return tuple(taken)

    assert walk(run) == [(0.25, (0,)), (0.375, (1, 0)), (0.1875, (1, 1, 0)), (0.1875, (1, 1, 1))]


def test_each_path_runs_once_and_certain_choices_cost_nothing() -> None:
    budget = Budget()
    list(paths(lambda tape: (tape.choose([0.0, 1.0]), tape.choose([0.5, 0.5])), budget))
    assert budget.used == 2


def test_what_is_below_rounding_is_not_run() -> None:
    assert walk(lambda tape: tape.choose([1e-18, 1 - 1e-18])) == [(1 - 1e-18, 1)]
    assert len(walk(lambda tape: [tape.choose([1e-9, 1 - 1e-9]) for _ in range(2)])) == 3


def test_a_choice_without_outcome_is_refused() -> None:
    with pytest.raises(ReplayError, match="no outcome of positive probability"):
        walk(lambda tape: tape.choose([0.0, 0.0]))


def test_more_choices_than_the_limit_are_refused() -> None:
    with pytest.raises(ReplayError, match=f"still draws after {MAX_CHOICES} random choices"):
        walk(lambda tape: [tape.choose([1e-5, 1 - 1e-5]) for _ in range(MAX_CHOICES + 1)])


def test_a_path_at_the_edge_of_what_counts_is_run_to_its_end() -> None:
    """A loop that ends after each coin with probability one half: what is left after 56 coins is below rounding."""

    def run(tape: Tape) -> int:
        tosses = 0
        while tape.choose([0.5, 0.5]):
            tosses += 1
        return tosses

    found = walk(run)
    assert [result for _, result in found] == list(range(57))
    assert sum(weight for weight, _ in found) == pytest.approx(1, abs=1e-15)


def test_a_path_at_the_edge_that_never_ends_is_refused() -> None:
    def run(tape: Tape) -> None:
        while tape.choose([0.4, 0.6]):
            pass

    with pytest.raises(ReplayError, match=r"still draws after \d+ random choices"):
        walk(run)


def test_more_paths_than_there_are_is_no_law() -> None:
    with pytest.raises(BudgetError, match="1,000 paths"):
        list(paths(lambda tape: [tape.choose([0.5, 0.5]) for _ in range(60)], Budget(paths=1000)))


@pytest.mark.parametrize(
    "questions",
    [
        [[0.5, 0.5], [0.4, 0.6]],  # other probabilities
        [[0.5, 0.5], [0.25, 0.25, 0.5]],  # other outcomes
        [[0.5, 0.5], None],  # no question
    ],
)
def test_other_questions_in_the_same_place_are_refused(questions: list[list[float] | None]) -> None:
    asked = iter(questions)

    def run(tape: Tape) -> None:
        question = next(asked)
        if question is not None:
            tape.choose(question)

    with pytest.raises(ReplayError, match="it asked for other random choices"):
        walk(run)


def test_the_first_refusal_is_the_one_that_counts() -> None:
    tape = Tape([])
    for message in ("first", "second"):
        with pytest.raises(ReplayError, match="first"):
            tape.refuse(message)
    assert str(tape.refusal).startswith("first, at ")


def test_a_budget_counts_paths() -> None:
    budget = Budget(paths=3)
    with pytest.raises(BudgetError, match="limit of 3 paths"):
        list(paths(lambda tape: [tape.choose([0.5, 0.5]) for _ in range(2)], budget))
    assert budget.used == 3


def test_a_budget_counts_seconds_from_its_creation() -> None:
    with pytest.raises(BudgetError, match=r"limit of 0.05 seconds"):
        list(paths(lambda tape: time.sleep(0.02) or [tape.choose([0.5, 0.5]) for _ in range(4)], Budget(seconds=0.05)))


@pytest.mark.parametrize("name", ["paths", "seconds", "run_seconds"])
def test_a_budget_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"the budget's {name} is 0"):
        Budget(**{name: 0})
