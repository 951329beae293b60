"""E-values: every alternative is a law, and the bound on the effect covers."""

from __future__ import annotations

import itertools
import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from spectr_verify.montecarlo.evidence import (
    ALTERNATIVES,
    LEAST,
    MOST,
    REMAINDER,
    SHARES,
    TILTS,
    TOWARD_DRAFT,
    Evidence,
    log_ratios,
)


@st.composite
def laws(draw: st.DrawFn, vocab: int) -> Tensor:
    """A law of ``vocab`` tokens: some impossible, some very unlikely, at times a single one possible."""
    weights = [draw(st.sampled_from([0.0, 0.0, 1e-12, 1e-4]) | st.floats(0.01, 1.0)) for _ in range(vocab)]
    weights[draw(st.integers(0, vocab - 1))] = 1.0
    law = torch.tensor(weights, dtype=torch.float64)
    return law / law.sum()


def every_token(q: Tensor, p: Tensor) -> Tensor:
    """log r(y)/q(y) of every alternative, [V, J]."""
    V = len(q)
    return log_ratios(q.expand(V, V), p.expand(V, V), torch.arange(V))


def evidence(q: Tensor, p: Tensor, tokens: Tensor) -> Evidence:
    """What tokens [n] say that should follow one law."""
    found, log_q = Evidence(), q[tokens].log()
    found.add(every_token(q, p)[tokens] + log_q[:, None], log_q, p[tokens].log())
    return found


def sampled(law: Tensor, count: int, seed: int) -> Tensor:
    return torch.multinomial(law, count, replacement=True, generator=torch.Generator().manual_seed(seed))


@hypothesis.given(st.integers(1, 6).flatmap(lambda vocab: st.tuples(laws(vocab), laws(vocab))))
def test_every_alternative_is_a_law(pair: tuple[Tensor, Tensor]) -> None:
    q, p = pair
    total = (q[:, None] * every_token(q, p).exp()).sum(dim=0)
    kept = (q > 0).to(torch.float64) @ p  # toward the draft: what the draft puts where q is zero is lost
    for share, sum_ in zip(TOWARD_DRAFT, total, strict=False):
        assert float(sum_) == pytest.approx(float(1 - share + share * kept), abs=1e-12)
    torch.testing.assert_close(
        total[len(TOWARD_DRAFT) :], torch.ones(2 * len(TILTS), dtype=torch.float64), rtol=0, atol=1e-12
    )


@hypothesis.given(st.integers(1, 6).flatmap(lambda vocab: st.tuples(laws(vocab), laws(vocab))))
def test_every_alternative_is_a_law_in_float32(pair: tuple[Tensor, Tensor]) -> None:
    """Logarithms down to -28 are rounded to 1e-6; even if all went one way, 1e5 tokens would add 10% to an e-value."""
    q, p = (law.float() for law in pair)
    total = (q.double()[:, None] * every_token(q, p).exp()).sum(dim=0)
    assert float(total.max()) <= 1 + 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_the_mean_of_the_e_value_is_at_most_one(seed: int) -> None:
    """Over all texts of three tokens that follow a target which depends on the past."""
    V, generator = 3, torch.Generator().manual_seed(seed)
    weights = torch.rand(2, 1 + V + V * V, V, generator=generator, dtype=torch.float64)
    weights *= torch.rand(weights.shape, generator=generator) > 0.25
    weights[..., seed % V] += 1e-3
    target, draft = weights / weights.sum(dim=-1, keepdim=True)
    mean = mass = 0.0
    for text in itertools.product(range(V), repeat=3):
        a, b, _ = text
        contexts, found = [0, 1 + a, 1 + V + V * a + b], Evidence()
        weight = math.prod(float(target[context, token]) for context, token in zip(contexts, text, strict=True))
        if weight == 0:
            continue
        tokens = torch.tensor(text)
        q, p = target[contexts], draft[contexts]
        log_q = q.gather(1, tokens[:, None])[:, 0].log()
        found.add(log_ratios(q, p, tokens) + log_q[:, None], log_q, p.gather(1, tokens[:, None])[:, 0].log())
        mean += weight * 10**found.log10_e
        mass += weight
    assert mass == pytest.approx(1)
    assert 0.9 < mean <= 1 + 1e-12


def test_the_alternatives_by_hand() -> None:
    """q = (1/2, 1/4, 1/4, 0), p = (1/4, 3/4, 0, 0)."""
    q = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    p = torch.tensor([0.25, 0.75, 0.0, 0.0], dtype=torch.float64)
    found = dict(zip(ALTERNATIVES, every_token(q, p).T.exp(), strict=True))
    assert found["toward the draft, 0.3 of it"].tolist() == pytest.approx([0.85, 1.6, 0.7, 1])
    assert found["toward the draft, 0.01 of it"].tolist() == pytest.approx([0.995, 1.02, 0.99, 1])
    along = [2**0.3, 3**-0.3, math.exp(0.3 * MOST)]
    expected = [each / (0.5 * along[0] + 0.25 * along[1] + 0.25 * along[2]) for each in along]
    assert found["along (q/p)^0.3"].tolist() == pytest.approx([*expected, 1])
    along = [2**-0.1, 3**0.1, math.exp(-0.1 * MOST)]
    expected = [each / (0.5 * along[0] + 0.25 * along[1] + 0.25 * along[2]) for each in along]
    assert found["along (q/p)^-0.1"].tolist() == pytest.approx([*expected, 1])
    norm = 0.5**1.3 + 2 * 0.25**1.3
    assert found["sharper, q^1.3"].tolist() == pytest.approx([0.5**0.3 / norm, *[0.25**0.3 / norm] * 2, 1])
    norm = 0.5**0.7 + 2 * 0.25**0.7
    assert found["flatter, q^0.7"].tolist() == pytest.approx([0.5**-0.3 / norm, *[0.25**-0.3 / norm] * 2, 1])


def test_a_very_unlikely_token_counts_as_one_that_is_less_so() -> None:
    q = torch.tensor([1 - 1e-30, 1e-30], dtype=torch.float64)
    found = every_token(q, q)[1, ALTERNATIVES.index("flatter, q^0.7")]
    assert float(found) == pytest.approx(-0.3 * LEAST, abs=1e-6)


@pytest.mark.parametrize(
    "name", ["toward the draft, 0.3 of it", "along (q/p)^-0.3", "sharper, q^1.3", "flatter, q^0.7"]
)
def test_the_worst_alternative_is_the_one_that_the_tokens_follow(name: str) -> None:
    q = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64)
    p = torch.tensor([0.1, 0.2, 0.4, 0.3], dtype=torch.float64)
    law = q * every_token(q, p)[:, ALTERNATIVES.index(name)].exp()
    found = evidence(q, p, sampled(law, 40_000, 0))
    assert found.worst_alternative == name
    assert found.log10_e > 6
    assert evidence(q, p, sampled(q, 40_000, 0)).log10_e < 3


def test_impossible_tokens_are_counted_and_end_the_matter() -> None:
    q = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    p = torch.tensor([0.2, 0.4, 0.4], dtype=torch.float64)
    found = evidence(q, p, torch.tensor([0, 2, 1, 2]))
    assert (found.tokens, found.impossible, found.log10_e) == (4, 2, math.inf)
    assert found.effect_upper_bound(0.01) is None
    assert found.sums.isfinite().all()
    fine = evidence(q, p, torch.tensor([0, 1]))
    assert (fine.impossible, math.isfinite(fine.log10_e)) == (0, True)


def test_evidence_adds_up_however_the_tokens_come() -> None:
    q, p = torch.tensor([0.6, 0.3, 0.1]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    tokens = sampled(q, 90, 1)
    whole, parts = evidence(q, p, tokens), Evidence()
    for some in tokens.split(40):
        parts.add(every_token(q, p)[some] + q[some].log()[:, None], q[some].log(), p[some].log())
    torch.testing.assert_close(parts.sums, whole.sums)
    assert parts.tokens == 90
    assert parts.effect_upper_bound(0.05) == whole.effect_upper_bound(0.05)


def test_one_token_does_not_end_a_product() -> None:
    """A token to which an alternative gives nothing leaves it a share, from which it can recover."""
    log_r = torch.full((1, len(ALTERNATIVES)), -math.inf, dtype=torch.float64)
    found = Evidence()
    found.add(log_r, torch.tensor([-1.0]).double(), torch.tensor([-1.0]).double())
    assert found.sums.tolist() == pytest.approx([math.log(REMAINDER)] * len(ALTERNATIVES))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 0.7])
def test_the_bound_on_the_effect_covers(share: float) -> None:
    """It lies below the truth in a share alpha of all runs at most."""
    alpha, runs, rng = 0.1, 200, np.random.default_rng(int(share * 100))
    misses = 0
    for seed in range(runs):
        q, p = torch.tensor(rng.dirichlet([1.0] * 5, size=2))
        bound = evidence(q, p, sampled((1 - share) * q + share * p, 300, seed)).effect_upper_bound(alpha)
        misses += bound is None or bound < share
    assert misses <= binom.isf(1e-6, runs, alpha)


def test_the_bound_on_the_effect_shrinks() -> None:
    q, p = torch.tensor([0.6, 0.3, 0.1]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    assert Evidence().effect_upper_bound(0.01) == 1.0
    bounds = [evidence(q, p, sampled(q, count, 3)).effect_upper_bound(0.01) for count in (100, 2_000, 100_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert 0 < bounds[-1] < 0.03


def test_the_bound_is_the_first_share_that_is_excluded() -> None:
    """Between two shares of the grid the truth may be anywhere."""
    q, p = torch.tensor([0.6, 0.3, 0.1]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    tokens, alpha = sampled(q, 2_000, 5), 0.01
    found = evidence(q, p, tokens)

    def log_e(share: float) -> float:
        mixture = (1 - share) * q + share * p
        return found.log10_e * math.log(10) - float((mixture[tokens] / q[tokens]).log().sum())

    bound = found.effect_upper_bound(alpha)
    before = float(SHARES[int((bound == SHARES).nonzero()) - 1])
    assert log_e(before) < -math.log(alpha) <= log_e(bound)


def test_no_share_of_the_draft_explains_texts_of_another_law() -> None:
    q, p = torch.tensor([0.6, 0.3, 0.1]).double(), torch.tensor([0.5, 0.4, 0.1]).double()
    other = torch.tensor([0.2, 0.2, 0.6]).double()
    found = evidence(q, p, sampled(other, 3_000, 3))
    assert found.effect_upper_bound(0.01) is None
    assert found.log10_e > 100
