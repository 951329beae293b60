"""Closed forms along texts of the target: enumerated and weighted by Q, they are the closed forms over the tree."""

from __future__ import annotations

import itertools
import math

import hypothesis
import pytest
import torch
from torch import Tensor

from spectr_verify.bounds import along_text, closed_form
from toy_models import TableModel, ToyPair
from toy_models.strategies import pairs


def log_probabilities(model: TableModel, length: int) -> Tensor:
    """log-probability of every token of every text of ``length`` tokens: [V^L, L]."""
    texts = itertools.product(range(model.vocab), repeat=length)
    rows = [[float(model.law(text[:i])[token]) for i, token in enumerate(text)] for text in texts]
    return torch.tensor(rows, dtype=torch.float64).log()


@hypothesis.settings(max_examples=60)
@hypothesis.given(pairs(max_length=3))
def test_the_mean_over_texts_is_the_closed_form(pair: ToyPair) -> None:
    """Texts are enumerated and weighted by Q; those that the target never writes are never asked about."""
    assert pair.length is not None
    assert pair.drafts is not None
    L, K = pair.length, pair.drafts
    log_p, log_q = (log_probabilities(model, L) for model in (pair.draft, pair.target))
    weight = log_q.sum(dim=1).exp()
    written = weight > 0
    for name in ("token", "block", "greedy_block", "block_race", "relaxed_bound"):
        arguments = (pair, L, K) if name in ("block_race", "relaxed_bound") else (pair, L)
        phi = getattr(along_text, name)(log_p[written], log_q[written], K)
        mean = float((weight[written, None] * phi).sum())
        assert mean == pytest.approx(getattr(closed_form, name)(*arguments), abs=1e-12), name


@pytest.mark.parametrize("drafts", [1, 3])
def test_the_bound_holds_for_long_texts_too(drafts: int) -> None:
    """Of texts too unlikely for a number K drafts show K P: all of Q = P, and K/4 of Q = 4 P."""
    log_p = torch.full((400,), -5.0, dtype=torch.float64)
    log_q = log_p + torch.where(torch.arange(400) == 0, math.log(4), 0.0)
    assert along_text.relaxed_bound(log_p, log_p, drafts).tolist() == pytest.approx([1.0] * 400)
    assert along_text.relaxed_bound(log_p, log_q, drafts)[5:].tolist() == pytest.approx([drafts / 4] * 395)
