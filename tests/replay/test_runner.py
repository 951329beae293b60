"""Runs of code under test: what it does besides returning a result."""

# ruff: noqa: NPY002 - people use numpy.random

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from replayed import EXACT, fresh, law, refusal

from spectr_verify.replay import Budget, BudgetError, ReplayError, Seen
from spectr_verify.replay.runner import Failure, outcomes


def coin(probability: float = 0.5) -> bool:
    return bool(torch.rand((), dtype=torch.float64) < probability)


def edge_results(call: Callable[[], Any]) -> list[tuple[Any, float | None]]:
    return [(outcome.result, outcome.edge) for outcome in outcomes(call, "code", Budget(), fresh(), edges=True)]


# What the code raises, prints and catches -----------------------------------------------------------------------------


def test_what_it_raises_is_told_with_its_line() -> None:
    def call() -> None:
        if coin():
            raise KeyError("mask")

    message = refusal(call)
    assert message.startswith("code raised KeyError: 'mask', at ")
    assert "test_runner.py:" in message
    assert '`raise KeyError("mask")`' in message


@pytest.mark.parametrize("error", [SystemExit(1), RecursionError("deep"), AssertionError()])
def test_whatever_it_raises_is_told(error: BaseException) -> None:
    def call() -> None:
        raise error

    assert refusal(call).startswith(f"code raised {type(error).__name__}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="with CUDA this is no error")
@pytest.mark.parametrize("use", [lambda: torch.zeros(1).cuda(), lambda: torch.zeros(1, device="cuda")])
def test_code_for_cuda_is_told_to_run_on_the_cpu(use: Callable[[], Any]) -> None:
    message = refusal(use)
    assert message.endswith("audit on the CPU, with the device an argument or that of the inputs")


def test_an_interrupt_is_passed_on() -> None:
    def call() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        law(call)


def test_what_it_prints_is_kept_and_noted_once(capfd: pytest.CaptureFixture[str]) -> None:
    def call() -> bool:
        print("accepted", file=sys.stderr)
        print("token", int(coin()))
        return True

    seen = fresh()
    law(call, seen=seen)
    assert list(seen.notes) == ["it prints; what it printed first begins 'token 0'", *list(seen.notes)[1:]]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("caught", [Exception, BaseException])
def test_a_refusal_that_is_caught_is_still_one(caught: type[BaseException]) -> None:
    def call() -> int:
        try:
            return int(torch.rand(2).sum() < 1)
        except caught:
            return 0

    assert "torch's sum is done to" in refusal(call)


# Endless code ---------------------------------------------------------------------------------------------------------


def test_a_loop_without_end_is_stopped() -> None:
    def call() -> None:
        while True:
            time.sleep(0.001)

    assert "did not return within 0.2 seconds" in refusal(call, budget=Budget(run_seconds=0.2))


def test_a_loop_that_catches_everything_once_is_stopped() -> None:
    def call() -> None:
        try:
            while True:
                time.sleep(0.001)
        except BaseException:
            while True:
                time.sleep(0.001)

    assert "did not return within 0.2 seconds" in refusal(call, budget=Budget(run_seconds=0.2))


def test_code_that_comes_late_and_catches_that_is_refused() -> None:
    def call() -> int:
        try:
            time.sleep(10)
        except BaseException:
            return 0
        return 1

    assert "did not return within 0.2 seconds" in refusal(call, budget=Budget(run_seconds=0.2))


def test_the_seconds_of_a_budget_end_a_run() -> None:
    with pytest.raises(BudgetError, match=r"limit of 0.2 seconds is reached; raise it \(--max-seconds\)"):
        law(lambda: time.sleep(10), budget=Budget(seconds=0.2))


def test_the_paths_of_a_budget_end_a_walk() -> None:
    with pytest.raises(BudgetError, match=r"limit of 5 paths is reached; raise it \(--max-paths\)"):
        law(lambda: [coin() for _ in range(3)], budget=Budget(paths=5))


def test_drawing_until_something_happens_is_refused() -> None:
    def call() -> int:
        tries = 0
        while torch.multinomial(torch.tensor([0.95, 0.05]), 1) == 0:
            tries += 1
        return tries

    message = refusal(call)
    assert "it still draws after 256 random choices in one run, at " in message
    assert "bound the number of tries" in message


def test_drawing_without_asking_is_refused() -> None:
    def call() -> None:
        while True:
            torch.rand(1000)

    assert "it drew more than 100,000 random numbers in one run" in refusal(call)


# State between calls --------------------------------------------------------------------------------------------------


def counting() -> Callable[[], Any]:
    calls = 0

    def call() -> int:
        nonlocal calls
        calls += 1
        return calls % 2

    return call


def drawing_more_and_more() -> Callable[[], Any]:
    calls = 0

    def call() -> list[bool]:
        nonlocal calls
        calls += 1
        return [coin() for _ in range(calls)]

    return call


def remembering_answers() -> Callable[[], Any]:
    return cache(coin)


def keeping_noise() -> Callable[[], Any]:
    noise = cache(lambda: torch.rand(2))
    return lambda: (noise() < 0.5).int()


def keeping_items() -> Callable[[], Any]:
    noise = cache(lambda: torch.rand(2).tolist())
    return lambda: [bool(noise()[1] < 0.5)]


def numpy_generator() -> Callable[[], Any]:
    generator = np.random.default_rng(0)
    return lambda: generator.random() < 0.5


def numpy_random_state() -> Callable[[], Any]:
    generator = np.random.RandomState(0)
    return lambda: [generator.rand() < 0.5, coin()]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (counting, "it returned something else when it ran again with the same inputs and the same random choices"),
        (drawing_more_and_more, "it asked for other random choices when it ran again with the same inputs"),
        (remembering_answers, "it asked for other random choices when it ran again with the same inputs"),
        (keeping_noise, "it asks about random numbers that it has kept, undecided, from an earlier call, at "),
        (keeping_items, "it asks about random numbers that it has kept, undecided, from an earlier call, at "),
        (numpy_generator, "it drew from a random generator that could not be answered for it (a numpy Generator made"),
        (
            numpy_random_state,
            "it drew from a random generator that could not be answered for it (a numpy Generator made",
        ),
    ],
)
def test_state_between_calls_is_refused(code: Callable[[], Callable[[], Any]], says: str) -> None:
    assert says in refusal(code(), seen=Seen())


def test_noise_that_is_kept_from_another_instance_is_refused() -> None:
    """It is asked about on the second one only."""
    noise = cache(lambda: torch.rand(()))
    seen = fresh()
    assert law(lambda: noise().numel(), seen=seen) == {1: 1.0}
    assert "kept, undecided, from an earlier call" in refusal(lambda: bool(noise() < 0.5), seen=seen)


def test_a_buffer_may_be_kept_when_it_is_drawn_anew() -> None:
    buffer = torch.empty(2, dtype=torch.float64)
    seen = fresh()
    for _ in range(2):
        found = law(lambda: bool(buffer.uniform_()[1] < 0.25), seen=seen)
        assert found[True] == pytest.approx(0.25, abs=EXACT)


def test_what_is_not_kept_is_forgotten() -> None:
    seen = fresh()
    law(lambda: [bool(x < 0.5) for x in torch.rand(2)], seen=seen)
    assert seen.kept == []


def test_python_generators_are_answered_wherever_they_were_made() -> None:
    generator = random.Random(0)
    assert law(lambda: generator.random() < 0.25)[True] == pytest.approx(0.25, abs=EXACT)


def test_functions_kept_from_before_are_refused() -> None:
    kept = random.random, np.random.rand
    for draw in kept:
        assert "it drew from a random generator that could not be answered for it" in refusal(
            lambda draw=draw: draw() < 2
        )


@pytest.mark.parametrize(
    ("seed", "source"),
    [(torch.manual_seed, "torch"), (np.random.seed, "numpy.random"), (random.seed, "random")],
)
def test_seeding_is_noted_and_undone(seed: Callable[[int], Any], source: str) -> None:
    def call() -> bool:
        seed(11)
        return coin(0.25)

    def go_on() -> tuple[float, ...]:
        return float(torch.rand(1)), np.random.rand(), random.random()

    def start() -> None:
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)

    start()
    expected = go_on(), go_on()
    start()
    assert go_on() == expected[0]
    seen = fresh()
    assert law(call, seen=seen)[True] == pytest.approx(0.25, abs=EXACT)
    (note,) = seen.notes
    assert note.startswith(f"it seeds {source}: in real use every call then draws the same numbers")
    assert go_on() == expected[1]


def test_drawing_after_seeding_is_refused_where_it_is_not_answered() -> None:
    kept = random.random

    def call() -> bool:
        random.seed(3)
        return kept() < 0.5

    assert "could not be answered for it" in refusal(call)


def test_a_thread_is_refused() -> None:
    from threading import Thread

    def call() -> None:
        thread = Thread(target=lambda: torch.rand(1))
        thread.start()
        thread.join()

    assert "it starts a thread; random numbers in other threads cannot be answered, at " in refusal(call)


# Edges ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "largest"),
    [
        (lambda: torch.rand(1, dtype=torch.float64), 1 - 2**-53),
        (lambda: torch.rand(1), 1 - 2**-24),
        (lambda: np.random.rand(), 1 - 2**-53),
        (lambda: random.random(), 1 - 2**-53),
    ],
)
def test_the_extreme_values_are_those_of_the_generator(draw: Callable[[], Any], largest: float) -> None:
    results = edge_results(lambda: [bool(draw() == 0), bool(draw() == largest)])
    assert ([True, False], 0.0) in results
    assert ([False, True], largest) in results
    assert results[0] == ([False, False], None)
    assert {edge for _, edge in results} == {None, 0.0, largest}


def test_float32_really_draws_its_largest_value() -> None:
    assert float(torch.tensor(1 - 2**-24, dtype=torch.float32)) < 1


def test_an_interval_has_the_extreme_values_at_its_ends() -> None:
    def call() -> list[bool]:
        number = torch.empty((), dtype=torch.float64).uniform_(-1, 1)
        return [bool(number == -1), bool(number == 1 - 2**-52)]

    assert edge_results(call) == [([False, False], None), ([True, False], 0.0), ([False, True], 1 - 2**-53)]


def test_one_number_is_extreme_in_a_run() -> None:
    results = edge_results(lambda: (torch.rand(3) == 0).tolist())
    assert all(sum(zeros) == (edge == 0.0) for zeros, edge in results)
    assert [edge for _, edge in results].count(0.0) == 3


def test_what_an_extreme_value_makes_it_raise_is_a_result() -> None:
    def call() -> int:
        return [1, 2][int(torch.rand(1) / 0.5 >= 0) + int(torch.rand(1) == 0)]

    failures = [(result, edge) for result, edge in edge_results(call) if isinstance(result, Failure)]
    assert [edge for _, edge in failures] == [0.0]
    assert failures[0][0].says.startswith("code raised IndexError: list index out of range, at ")


def test_what_it_raises_without_an_extreme_value_is_refused() -> None:
    def call() -> None:
        torch.rand(1)
        raise ValueError("always")

    with pytest.raises(ReplayError, match="code raised ValueError: always"):
        edge_results(call)


def test_gumbel_noise_of_an_extreme_value_is_what_torch_makes_of_it() -> None:
    """-log(-log(0)) is minus infinity: the first token cannot win."""

    def call() -> int:
        return int((-torch.log(-torch.log(torch.rand(2)))).argmax())

    assert ((1, 0.0)) in edge_results(call)
    assert ((0, 0.0)) in edge_results(call)
