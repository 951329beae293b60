"""Filling scores: what a token has above every score, and never less of it than the block race makes use of."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spectr_verify.rules._blending import PIECES, Blend, blend
from spectr_verify.rules._ironing import Density, descend
from toy_models.strategies import laws


def filled(density: Density, p: Tensor, q: Tensor, weight: Tensor, left: int) -> Blend:
    """Nothing ironed, on any level."""
    found = blend(density, p, q, weight, left)
    return replace(found, ironed=torch.zeros_like(found.ironed))


@st.composite
def paths(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[int]]:
    """Laws along a path of one to three tokens, [n, V], and its tokens."""
    vocab, length = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    p, q = (np.array([[float(x) for x in draw(laws(vocab))] for _ in range(length)]) for _ in range(2))
    tokens = [draw(st.sampled_from([int(c) for c in np.flatnonzero(row)])) for row in p]
    return torch.from_numpy(p), torch.from_numpy(q), tokens


@given(path=paths(), drafts=st.sampled_from([1, 2, 3, 8, 64]))
@settings(max_examples=40, deadline=None)
def test_filling_is_never_behind_the_block_race(path: tuple, drafts: int) -> None:
    """Of the drafts of the e highest scores, Q(v) min(e, rho(v)) at least run through v."""
    p, q, tokens = path
    ends = np.linspace(0, 1, PIECES + 1) ** (2 / (drafts + 1))
    walk = descend(torch.tensor([tokens]), p[None], q[None], drafts, capped=True, share=filled)
    P, Q, rho = 1.0, 1.0, 1.0
    for i, (_, density) in enumerate(walk):
        P, Q = P * float(p[i, tokens[i]]), Q * float(q[i, tokens[i]])
        rho = min(rho, P / Q) if Q else 0.0
        above = P * (1 - np.interp(ends, density.ends[0].numpy(), density.shares[0].numpy()))
        assert (above[1:-1] >= Q * np.minimum(1 - ends, rho)[1:-1] - 1e-10).all()


@given(path=paths(), drafts=st.sampled_from([2, 3, 8]))
@settings(max_examples=30, deadline=None)
def test_what_the_tokens_have_above_a_score_is_all_that_the_node_has(path: tuple, drafts: int) -> None:
    p, q, tokens = path
    density = Density.of_root(torch.tensor([drafts]))
    for i, token in enumerate(tokens):
        node = blend(density, p[i : i + 1], q[i : i + 1], torch.ones(1, dtype=torch.float64), len(tokens) - i)
        below = node.filling.below(torch.arange(p.shape[1])[None])[0]
        np.testing.assert_allclose((p[i] @ below).numpy(), node.density.shares[0].numpy(), atol=1e-12)
        wins = below.diff(dim=1) @ node.density.slopes()[0]
        np.testing.assert_allclose(node.filling.wins()[0][p[i] > 0], wins[p[i] > 0], rtol=1e-10)
        density = node.children(torch.tensor([[token]]))


def test_equal_laws_are_ironed_and_disjoint_ones_filled() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    for left, parts in ((3, [1, 0]), (0, [1, 1])):
        found = blend(Density.of_root(torch.tensor([3, 3])), p, q, torch.ones(2, dtype=torch.float64), left)
        np.testing.assert_allclose(found.ironed[:, 0].numpy(), parts, atol=1e-15)


def test_the_filled_scores_of_the_page_are_those_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "proofs" / "blended_tournament.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| 0 |", "| 1 |"))]
    assert len(rows) == 2
    p, q = torch.tensor([[1 / 2, 1 / 2]], dtype=torch.float64), torch.tensor([[1 / 3, 2 / 3]], dtype=torch.float64)
    node = filled(Density.of_root(torch.tensor([2])), p, q, torch.ones(1, dtype=torch.float64), 1)
    for token, low, high, wins in ([Fraction(cell) for cell in row] for row in rows):
        scores = node.children(torch.tensor([[int(token)]]))
        below = float(np.interp(1 / 4, scores.ends[0].numpy(), scores.shares[0].numpy()))
        assert below / 2 == pytest.approx(float(low), abs=1e-12)
        assert (1 - below) / 2 == pytest.approx(float(high), abs=1e-12)
        assert float(node.law[0, int(token)]) == pytest.approx(float(wins), abs=1e-12)
