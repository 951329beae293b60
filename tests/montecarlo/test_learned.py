"""Learned alternatives: laws whatever was learned, predictable, and they find what the fixed ones do not."""

from __future__ import annotations

import math

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from small_models import small_pair
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.montecarlo import Settings, monte_carlo
from spectr_verify.montecarlo.learned import LEARNED, MOST, RANKS, Alternatives
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import RULES, Rule

PROMPTS = [[1, 2, 3], [4], [5, 6, 0, 1]]
LEARNS = len(LEARNED)


def drawn(seed: int, rows: int, vocab: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Laws with zeros, and tokens that are possible."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(2, rows, vocab, generator=generator, dtype=torch.float64) ** 3
    weights *= torch.rand(weights.shape, generator=generator) > 0.3
    weights[:, :, seed % vocab] += 1e-3
    q, p = (weights / weights.sum(dim=-1, keepdim=True)).to(dtype)
    return q, p, torch.multinomial(q, 1, generator=generator)[:, 0]


@hypothesis.given(st.integers(0, 1_000), st.integers(1, 2 * RANKS), st.sampled_from([torch.float64, torch.float32]))
def test_what_is_learned_is_a_law(seed: int, vocab: int, dtype: torch.dtype) -> None:
    """After any past, for every target: the mean of r/q under q is 1."""
    alternatives = Alternatives(vocab, torch.device("cpu"))
    q, p, _ = drawn(seed, 400, vocab, dtype)
    alternatives(q, p, torch.full((400,), seed % vocab))  # always the same token: much to learn
    alternatives.learn()
    law, draft, _ = drawn(seed + 1, 1, vocab, dtype)
    found = alternatives(law.expand(vocab, -1), draft.expand(vocab, -1), torch.arange(vocab))[:, -LEARNS:]
    total = (law[0].double()[:, None] * found.exp())[law[0] > 0].sum(dim=0)
    # Each of the V terms is rounded, and the largest tilt multiplies it.
    tolerance = math.exp(MOST) * vocab * torch.finfo(dtype).eps
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=tolerance)
    assert float(found.abs().max()) <= 2 * MOST


def test_nothing_is_learned_before_a_batch_is_over_and_of_noise() -> None:
    alternatives = Alternatives(50, torch.device("cpu"))
    q, p, tokens = drawn(3, 5_000, 50, torch.float64)
    for _ in range(2):
        assert float(alternatives(q, p, tokens)[:, -LEARNS:].abs().max()) == 0.0
    alternatives.learn()
    learned = alternatives(q, p, tokens)[:, -LEARNS:]
    assert float(learned.sum()) > -5.0  # a few counts of 50 pass for telling and cost next to nothing
    assert float(learned.mean(dim=0).abs().max()) < 1e-2


def banned(round: Round, chance: Chance) -> Emission:
    """The block race, whose corrections are never the token 2 where another is possible."""
    emission = RULES["block-race"].verify(round, chance)
    row = torch.arange(round.rows, device=emission.length.device)
    at = emission.length - 1
    others = round.target_probs[row, emission.draft.clamp(min=0), at].clone()
    others[:, 2] = 1e-12
    tokens = emission.tokens.clone()
    redrawn = chance.categorical(others)
    tokens[row, at] = torch.where(tokens[row, at] == 2, redrawn, tokens[row, at])
    return Emission(tokens, emission.length, emission.draft)


def swapped(round: Round, chance: Chance) -> Emission:
    """The block race, where one in ten corrections with the likeliest token becomes the second likeliest."""
    emission = RULES["block-race"].verify(round, chance)
    row = torch.arange(round.rows, device=emission.length.device)
    at = emission.length - 1
    first, second = round.target_probs[row, emission.draft.clamp(min=0), at].topk(2, dim=-1).indices.T
    coin = torch.full((round.rows, 2), 0.5, dtype=torch.float64, device=row.device)
    coin[:, 0], coin[:, 1] = 0.9, 0.1
    tokens = emission.tokens.clone()
    falls = (chance.categorical(coin) == 1) & (tokens[row, at] == first)
    tokens[row, at] = torch.where(falls, second, tokens[row, at])
    return Emission(tokens, emission.length, emission.draft)


@pytest.mark.parametrize(("rule", "finds"), [(banned, LEARNED[0]), (swapped, LEARNED[1])])
def test_faults_that_no_fixed_law_points_to_are_found(rule: object, finds: str) -> None:
    asked = Settings(drafts=2, length=3, tokens=12, texts=3_000, batch=100, seed=1, enough=20)
    report = monte_carlo(small_pair(), Rule("faulty", rule), PROMPTS, asked)
    assert report.lossless_rejected
    assert report.worst_alternative == finds
    assert report.by_alternative[finds] > 8
