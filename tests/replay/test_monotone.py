"""Functions of one uniform, run forwards and backwards; laws of races."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from scipy.integrate import quad

from spectr_verify.chance import smallest_uniform_law
from spectr_verify.replay.monotone import (
    Affine,
    Exp,
    Log,
    Power,
    Step,
    Undecided,
    UnfollowedError,
    Uniform,
    exponential_form,
    exponential_rates,
    race_law,
)

factors = st.floats(0.1, 4) | st.floats(-4, -0.1)
steps = st.one_of(
    st.builds(Affine, factors, st.floats(-2, 2)),
    st.just(Log()),
    st.just(Exp()),
    st.builds(Power, st.sampled_from([-2.0, -1.0, 0.5, 2.0, 3.0])),
)


def chained(uniform: Uniform, parts: list[Step]) -> Undecided:
    value = Undecided(uniform)
    for part in parts:
        try:
            value = value.then(part)
        except UnfollowedError:
            assume(False)
    return value


@given(st.lists(steps, max_size=4), st.floats(0.05, 0.95), st.floats(0, 0.4), st.floats(0.6, 1))
def test_thresholds_run_chains_backwards(parts: list[Step], u: float, low: float, high: float) -> None:
    assume(low < u < high)
    value = chained(Uniform(low, high), parts)
    at = float(value.at(u))
    slope = abs(float(value.at(u + 1e-6)) - float(value.at(u - 1e-6))) / 2e-6
    assume(1e-6 * (1 + abs(at)) < slope < 1e6 and abs(at) < 1e6)  # else rounding hides the uniform
    assert float(value.threshold(at)) == pytest.approx(u, abs=1e-6)
    share = (u - low) / (high - low)
    assert float(value.below(at)) == pytest.approx(share if value.increasing() else 1 - share, abs=1e-5)


@given(st.lists(steps, max_size=4))
def test_ranges_and_directions_are_those_of_the_values(parts: list[Step]) -> None:
    value = chained(Uniform(), parts)
    inside = value.at(np.linspace(0, 1, 101)[1:-1])
    low, high = value.range()
    assert low <= inside.min()
    assert inside.max() <= high
    assume(np.isfinite(inside).all())
    rises = np.diff(inside)
    assert (rises >= 0).all() if value.increasing() else (rises <= 0).all()


@pytest.mark.parametrize("step", [Log(), Power(0.5), Power(-1.0)])
def test_nothing_is_followed_below_zero(step: Step) -> None:
    with pytest.raises(UnfollowedError):
        Undecided(Uniform()).then(Affine(1.0, -0.5)).then(step)


def test_a_guard_against_zero_is_passed_over() -> None:
    value = Undecided(Uniform()).then(Affine(1.0, 1e-20)).then(Log()).then(Affine(-1.0, 0.0)).then(Log())
    assert value.range()[1] == pytest.approx(math.log(-math.log(1e-20)))


@pytest.mark.parametrize("step", [Affine(0.0, 1.0), Affine(math.inf, 0.0), Affine(1.0, math.nan)])
def test_a_line_that_is_none_is_not_followed(step: Step) -> None:
    with pytest.raises(UnfollowedError):
        Undecided(Uniform()).then(step)


def test_products_of_factors_do_not_underflow_silently() -> None:
    with pytest.raises(UnfollowedError):
        Undecided(Uniform()).then(Affine(1e-200, 0.0)).then(Affine(1e-200, 0.0))


def exponential(rate: float) -> Undecided:
    return Undecided(Uniform(), (Log(), Affine(-1 / rate, 0.0)))


def gumbel(location: float, scale: float = 1.0) -> Undecided:
    return Undecided(Uniform(), (Log(), Affine(-1.0, 0.0), Log(), Affine(-scale, location)))


rates = st.lists(st.floats(0.05, 5), min_size=2, max_size=4)


@given(rates)
def test_exponential_races_are_won_in_proportion_to_rates(weights: list[float]) -> None:
    law = [w / sum(weights) for w in weights]
    forms = {
        "time": ([exponential(w) for w in weights], False),
        "ratio": ([exponential(w).then(Power(-1.0)) for w in weights], True),
        "power": ([Undecided(Uniform()).then(Power(1 / w)) for w in weights], True),
        "log": ([Undecided(Uniform()).then(Log()).then(Affine(1 / w, 0.0)) for w in weights], True),
        "one minus": ([Undecided(Uniform()).then(Affine(-1.0, 1.0)).then(Power(1 / w)) for w in weights], True),
        "gumbel": ([gumbel(math.log(w)) for w in weights], True),
        "gumbel with temperature": ([gumbel(0.5 * math.log(w), 0.5) for w in weights], True),
        "gumbel's exponential": ([gumbel(math.log(w)).then(Exp()) for w in weights], True),
    }
    for racers, largest in forms.values():
        assert exponential_rates(racers, largest=largest) is not None  # in closed form
        assert race_law(racers, largest=largest) == pytest.approx(law, abs=1e-14)


@given(rates)
def test_the_last_of_exponentials_is_no_race_of_rates(weights: list[float]) -> None:
    racers = [exponential(w) for w in weights[:2]]
    assert race_law(racers, largest=True) == pytest.approx([x / sum(weights[:2]) for x in weights[:2][::-1]], abs=1e-11)


@pytest.mark.parametrize("parts", [[Log(), Affine(-2.0, 1.0)], [Power(0.3)], [Log(), Affine(-1.0, 0.0), Log()]])
def test_exponential_forms_say_what_the_chain_is(parts: list[Step]) -> None:
    """At u = exp(-e), for several e."""
    value = chained(Uniform(), parts)
    form = exponential_form(value)
    assert form is not None
    for e in (0.1, 1.0, 3.0):
        inner = {
            "exp": lambda e: form.sign * math.exp(form.scale * e),
            "linear": lambda e: form.scale * e + form.shift,
            "power": lambda e: form.sign * math.exp(form.scale * math.log(e) + form.offset) + form.shift,
            "log": lambda e: form.scale * math.log(e) + form.offset,
        }[form.kind](e)
        assert inner == pytest.approx(float(value.at(math.exp(-e))))


def test_a_number_that_was_asked_about_has_no_exponential_form() -> None:
    value = exponential(1.0)
    value.uniform.high = 0.5
    assert exponential_form(value) is None


intervals = st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 2)), min_size=2, max_size=4)


@given(intervals)
def test_races_of_uniforms_agree_with_the_sampled_engine(ends: list[tuple[float, float]]) -> None:
    low = torch.tensor([[start for start, _ in ends]], dtype=torch.float64)
    high = torch.tensor([[start + width for start, width in ends]], dtype=torch.float64)
    racers = [Undecided(Uniform()).then(Affine(width, start)) for start, width in ends]
    assert race_law(racers, largest=False) == pytest.approx(smallest_uniform_law(low, high)[0].tolist(), abs=1e-11)


@given(intervals)
def test_turning_a_race_upside_down_changes_nothing(ends: list[tuple[float, float]]) -> None:
    racers = [Undecided(Uniform()).then(Affine(width, start)) for start, width in ends]
    turned = [racer.then(Affine(-1.0, 0.0)) for racer in racers]
    assert race_law(turned, largest=True) == pytest.approx(race_law(racers, largest=False), abs=1e-12)


@given(st.lists(st.lists(steps, max_size=2), min_size=2, max_size=2), st.booleans())
def test_races_of_two_agree_with_quadrature(parts: list[list[Step]], largest: bool) -> None:
    a, b = (chained(Uniform(0.1, 0.9), each) for each in parts)
    try:
        law = race_law([a, b], largest=largest)
    except UnfollowedError:
        assume(False)
    grid = np.linspace(0.1, 0.9, 2001)[:-1] + 0.8 / 4000
    wins = b.below(a.at(grid)) if largest else 1 - b.below(a.at(grid))
    assert law[0] == pytest.approx(float(wins.mean()), abs=2e-3)


def test_a_race_of_different_kinds_agrees_with_quadrature() -> None:
    racers = [exponential(1.0), Undecided(Uniform()).then(Affine(2.0, 0.0)), gumbel(0.3)]
    gumbel_above = lambda x: 1 - math.exp(-math.exp(-(x - 0.3)))  # noqa: E731 - three survival functions
    first = quad(lambda x: math.exp(-x) * max(0.0, 1 - x / 2) * gumbel_above(x), 0, 2, epsabs=1e-13)[0]
    second = quad(lambda x: 0.5 * math.exp(-x) * gumbel_above(x), 0, 2, epsabs=1e-13)[0]
    assert race_law(racers, largest=False) == pytest.approx([first, second, 1 - first - second], abs=1e-11)
