"""The test of first tokens: valid at every level, and it finds wrong laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, power_divergence

from spectr_verify.montecarlo import first_token_test

RNG_LAWS = np.random.default_rng(11)
LAWS = {
    "even": [np.full(5, 0.2)],
    "skewed": [np.array([0.9, 0.07, 0.02, 0.007, 0.003])],
    "sparse": [np.array([0.7, 0.3, 0.0, 0.0])],
    "one token": [np.array([1.0, 0.0])],
    "many rare tokens": [RNG_LAWS.dirichlet([0.05] * 200).astype(np.float32)],
    "three prompts": [*RNG_LAWS.dirichlet([1.0] * 6, size=3)],
}


@pytest.mark.parametrize("name", LAWS)
def test_p_values_are_valid(name: str) -> None:
    """A p-value is at most a with probability at most a, here up to a number of hits that is one in a million."""
    runs, generator = 400, np.random.default_rng(5)
    found = []
    for seed in range(runs):
        counts = [generator.multinomial(40, law / law.sum(dtype=np.float64)) for law in LAWS[name]]
        test = first_token_test(LAWS[name], counts, seed=seed, simulations=399)
        found.append(1.0 if test is None else test.p)
    for level in (0.01, 0.1, 0.5):
        assert sum(p <= level for p in found) <= binom.isf(1e-6, runs, level), level
    assert 0 < min(found) <= max(found) <= 1


def test_p_values_are_not_wasted() -> None:
    """Where many counts are possible a p-value is at most 1/2 about half of the time."""
    generator, law = np.random.default_rng(2), np.array([0.3, 0.3, 0.2, 0.2])
    found = [
        first_token_test([law], [generator.multinomial(200, law)], seed=seed, simulations=399).p for seed in range(400)
    ]
    assert 0.38 < np.mean(np.array(found) <= 0.5) < 0.62


def test_a_wrong_law_is_found() -> None:
    law, wrong = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.4, 0.35, 0.15, 0.1])
    counts = np.random.default_rng(0).multinomial(2_000, wrong)
    found = first_token_test([law], [counts], seed=1)
    assert found.p == 1e-4  # the smallest of 9,999 simulations
    assert (found.draws, found.prompts) == (2_000, 1)


def test_small_faults_after_many_prompts_add_up() -> None:
    generator = np.random.default_rng(4)
    laws = [*generator.dirichlet([1.0] * 4, size=40)]
    counts = [generator.multinomial(80, 0.9 * law + 0.1 / 4) for law in laws]
    alone = [
        first_token_test([law], [count], seed=0, simulations=999).p for law, count in zip(laws, counts, strict=True)
    ]
    assert np.median(alone) > 0.05
    assert first_token_test(laws, counts, seed=0).p <= 1e-3


@pytest.mark.parametrize(
    "law",
    [
        pytest.param([0.5, 0.5, 0.0], id="no other is rare"),
        pytest.param([0.5, 0.497, 0.0, 0.003], id="beside a rare token"),
        pytest.param([1.0, 0.0], id="only one is possible"),
    ],
)
def test_one_impossible_token_is_enough(law: list[float]) -> None:
    counts = np.random.default_rng(3).multinomial(100, law)
    before = first_token_test([np.array(law)], [counts], seed=0)
    assert before is None or before.p > 0.05
    counts[np.argmin(law)] += 1
    assert first_token_test([np.array(law)], [counts], seed=0).p == 1e-4


@pytest.mark.parametrize("seed", range(6))
def test_the_same_as_the_g_test_where_counts_are_large(seed: int) -> None:
    generator = np.random.default_rng(seed)
    law = generator.dirichlet([5.0] * 4)
    counts = generator.multinomial(20_000, law)
    expected = power_divergence(counts, law * counts.sum(), lambda_="log-likelihood").pvalue
    found = first_token_test([law], [counts], seed=seed).p
    # Five standard errors of 9,999 simulations, and what the table is off by at such counts.
    assert found == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 - expected) / 9_999) + 2e-3)


@pytest.mark.parametrize("seed", range(20))
def test_one_draw_after_each_prompt_says_nothing(seed: int) -> None:
    """All tokens are rare and counted as one: there is no p-value, rather than one of 1."""
    generator = np.random.default_rng(seed)
    laws = [*generator.dirichlet([0.3] * 50, size=5).astype(np.float32)]
    counts = [generator.multinomial(1, law / law.sum(dtype=np.float64)) for law in laws]
    assert first_token_test(laws, counts, seed=seed, simulations=99) is None


@pytest.mark.parametrize("draws", [2, 3, 30])
def test_counts_as_they_are_expected_fit_best(draws: int) -> None:
    """Nothing that is drawn fits better, and a tie is one however it is rounded."""
    laws = [np.full(size, 1 / size, dtype=np.float32) for size in (1, 2, 3, 5, 6, 7)]
    counts = [np.full(len(law), draws) for law in laws]
    assert first_token_test(laws, counts, seed=0, simulations=99).p == 1


def test_the_same_seed_gives_the_same_p() -> None:
    law, counts = np.array([0.6, 0.4]), np.array([50, 50])
    first, again, other = (first_token_test([law], [counts], seed=seed).p for seed in (1, 1, 2))
    assert first == again
    assert other == pytest.approx(first, abs=0.02)
