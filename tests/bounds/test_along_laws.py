"""Closed forms along texts of the target, given whole laws: weighted by Q they are what the rules accept."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
import torch
from torch import Tensor

from spectr_verify.bounds import along_laws, closed_form
from spectr_verify.bounds.along_laws import ALONG_LAWS, OF_LENGTH
from spectr_verify.exact import round_law
from spectr_verify.rules import RULES
from toy_models import FAMILIES, ToyPair
from toy_models.strategies import pairs

RANDOM = FAMILIES["random"](np.random.default_rng(3), 3, 2)


def every_text(pair: ToyPair, length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Texts that the target can write, int64 [n, L], both models' laws of each token, and the texts' probabilities."""
    tokens = torch.cartesian_prod(*[torch.arange(pair.vocab)] * length).view(-1, length)
    row, laws = torch.zeros(len(tokens), dtype=torch.int64), []
    for i in range(length):
        laws.append([torch.tensor(model.levels[i])[row] for model in (pair.draft, pair.target)])
        row = row * pair.vocab + tokens[:, i]
    p, q = (torch.stack(each, dim=1) for each in zip(*laws, strict=True))
    weight = q.gather(-1, tokens[..., None])[..., 0].prod(dim=1)
    return tokens[weight > 0], p[weight > 0], q[weight > 0], weight[weight > 0]


def accepted(name: str, pair: ToyPair, length: int, drafts: int) -> float:
    *texts, weight = every_text(pair, length)
    phi = ALONG_LAWS[name](*texts, drafts)
    assert phi.shape == texts[0].shape
    assert ((phi >= 0) & (phi <= 1 + 1e-12)).all()
    return float((weight[:, None] * phi).sum())


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(pairs(max_drafts=2))
def test_the_mean_over_texts_is_what_the_rule_accepts(pair: ToyPair) -> None:
    assert pair.length is not None
    assert pair.drafts is not None
    for name in ALONG_LAWS:
        law = round_law(RULES[name], pair, pair.length, pair.drafts)
        assert accepted(name, pair, pair.length, pair.drafts) == pytest.approx(law.expected_accepted, abs=1e-12), name


@pytest.mark.parametrize("name", ALONG_LAWS)
def test_of_three_drafts_too(name: str) -> None:
    law = round_law(RULES[name], RANDOM, 2, 3)
    assert accepted(name, RANDOM, 2, 3) == pytest.approx(law.expected_accepted, abs=1e-12)


@pytest.mark.parametrize("drafts", [4, 5, 64])
@pytest.mark.parametrize("name", ["optimal-token", "ironed-tournament-block", "blended-tournament-block"])
def test_the_optimum_of_one_position_for_many_drafts(name: str, drafts: int) -> None:
    for family in ("random", "adversarial", "barely-different"):
        pair = FAMILIES[family](np.random.default_rng(1), 5, 1)
        assert accepted(name, pair, 1, drafts) == pytest.approx(closed_form.level_bound(pair, 1, drafts), abs=1e-12)


def test_one_draft_is_token_or_block_verification() -> None:
    for name in ALONG_LAWS:
        form = closed_form.token if name == "optimal-token" else closed_form.block
        assert accepted(name, RANDOM, 2, 1) == pytest.approx(form(RANDOM, 2), abs=1e-12), name


@pytest.mark.parametrize("name", ALONG_LAWS)
def test_a_few_texts_at_a_time_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, p, q, _ = every_text(RANDOM, 2)
    whole = ALONG_LAWS[name](tokens, p, q, 3)
    monkeypatch.setattr(along_laws, "NUMBERS", 4 * p[0].numel())
    np.testing.assert_allclose(ALONG_LAWS[name](tokens, p, q, 3).numpy(), whole.numpy(), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ALONG_LAWS)
def test_nothing_is_accepted_from_where_no_draft_goes(name: str) -> None:
    """The draft never writes the second token; before and elsewhere it is the target."""
    q = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64).expand(1, 3, 3)
    p = q.clone()
    p[0, 1] = torch.tensor([0.0, 0.5, 0.5], dtype=torch.float64)
    phi = ALONG_LAWS[name](torch.tensor([[0, 0, 1]]), p, q, 3)
    assert phi[0, 0] > 0
    assert phi[0, 1:].tolist() == [0, 0]


def test_only_some_rules_look_at_the_length() -> None:
    """The first tokens of longer drafts are accepted as those of shorter ones, or with a view to what follows."""
    tokens, p, q, _ = every_text(RANDOM, 2)
    for name, accepts in ALONG_LAWS.items():
        alone = accepts(tokens[:, :1], p[:, :1], q[:, :1], 3)
        same = torch.allclose(alone, accepts(tokens, p, q, 3)[:, :1], rtol=0, atol=1e-15)
        assert same == (name not in OF_LENGTH)
