"""Functions that draft by themselves: what one call appends, what many calls write, temperatures, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spectr_verify.audit import Instance, judge
from spectr_verify.replay import replayed_laws, verifier
from spectr_verify.replay.step import tempered
from spectr_verify.rounds import EmissionError
from toy_models import TableModel, ToyPair, family_pairs, strategies


def decode(draft: nn.Module, target: nn.Module, ids: Tensor, gamma: int, temperature: float = 1.0) -> Tensor:
    """One round; at temperature 0 the likeliest token of each model."""

    def law(logits: Tensor) -> Tensor:
        if temperature == 0:
            return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
        return (logits / temperature).softmax(-1)

    start, laws = ids.shape[1], []
    for _ in range(gamma):
        laws.append(law(draft(ids).logits[0, -1]))
        ids = torch.cat([ids, torch.multinomial(laws[-1], 1)[None]], dim=1)
    q = law(target(ids).logits[0, start - 1 :])
    for i, p in enumerate(laws):
        token = ids[0, start + i]
        if torch.rand(()) * p[token] >= q[i, token]:
            return torch.cat([ids[:, : start + i], torch.multinomial((q[i] - p).clamp(min=0), 1)[None]], dim=1)
    return torch.cat([ids, torch.multinomial(q[gamma], 1)[None]], dim=1)


def generate(draft: nn.Module, target: nn.Module, ids: Tensor, gamma: int, tokens: int) -> Tensor:
    """A text of fixed length, over as many rounds as it takes."""
    end = ids.shape[1] + tokens
    while ids.shape[1] < end:
        ids = decode(draft, target, ids, gamma)
    return ids[:, :end]


@hypothesis.settings(max_examples=10)
@hypothesis.given(strategies.pairs(max_vocab=2, max_length=2, max_drafts=1))
def test_one_round_is_exact(pair: ToyPair) -> None:
    law, _ = replayed_laws(verifier(decode, "step", arguments={"gamma": "L"}), pair, pair.length or 1, 1)
    assert law.tv_round <= 1e-12
    assert len(law.emissions) <= (pair.length or 1) + 1


@pytest.mark.parametrize("pair", family_pairs(0, 2, 1), ids=lambda pair: pair.name)
def test_the_text_of_many_calls_is_exact(pair: ToyPair) -> None:
    _, text = replayed_laws(verifier(decode, "step", arguments={"gamma": "L"}), pair, 1, 1, 3)
    assert text is not None
    assert text.tv_text <= 1e-12


@pytest.mark.parametrize("pair", family_pairs(0, 2, 2)[:4], ids=lambda pair: pair.name)
def test_a_call_may_write_many_rounds(pair: ToyPair) -> None:
    law, _ = replayed_laws(verifier(generate, "step", arguments={"gamma": "L", "tokens": "3"}), pair, 2, 1)
    assert law.tv_round <= 1e-12
    assert [float(part.sum()) for part in law.emissions[:-1]] == [0.0, 0.0]


@pytest.mark.parametrize("temperature", [0.0, 0.5, 2.0])
def test_the_text_follows_the_target_at_the_temperature(temperature: float) -> None:
    pair = family_pairs(3, 3, 1)[2]
    asked = {"gamma": "L", "temperature": "temperature"}
    law, _ = replayed_laws(verifier(decode, "step", arguments=asked, temperature=temperature), pair, 1, 1)
    assert law.tv_round <= 1e-12
    deaf, _ = replayed_laws(verifier(decode, "step", arguments={"gamma": "L"}, temperature=temperature), pair, 1, 1)
    assert deaf.tv_round > 1e-3


def test_tempered_laws() -> None:
    model = family_pairs(3, 3, 1)[2].target
    law = model.levels[0][0]
    assert tempered(model, 1.0) is model
    np.testing.assert_allclose(tempered(model, 0.5).levels[0][0], law**2 / (law**2).sum(), rtol=1e-12)
    assert tempered(model, 0.0).levels[0][0].tolist() == [float(i == law.argmax()) for i in range(3)]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda d, t, ids: ids, "with no new token"),
        (lambda d, t, ids: ids[:, 1:], "returned no token"),
        (lambda d, t, ids: torch.cat([ids + 1, ids], 1), "it must return those and behind them the new tokens"),
        (lambda d, t, ids: torch.cat([ids, ids + 7], 1), "must be in the vocabulary"),
        (lambda d, t, ids: None, "returned None"),
    ],
)
def test_what_it_returns_is_checked(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(EmissionError, match=says):
        replayed_laws(verifier(function, "step", name="mine"), family_pairs(0, 2, 1)[0], 1, 1)


def test_a_step_that_forgets_the_context_is_wrong_later() -> None:
    def forgetful(draft: nn.Module, target: nn.Module, ids: Tensor, gamma: int) -> Tensor:
        fresh = decode(draft, target, ids[:, :1], gamma)
        return torch.cat([ids, fresh[:, 1:]], dim=1)

    law, text = replayed_laws(verifier(forgetful, "step", arguments={"gamma": "L"}), family_pairs(0, 2, 1)[3], 1, 1, 3)
    assert law.tv_round <= 1e-12
    assert text is not None
    assert text.tv_text > 1e-3


def test_half_steps_of_float32() -> None:
    single = verifier(decode, "step", arguments={"gamma": "L"})
    law, _ = replayed_laws(single, family_pairs(0, 3, 1)[3], 1, 1, dtype=torch.float32)
    assert law.tv_round < 1e-6
    assert single.seen.single


def test_a_step_that_drafts_from_a_law_of_its_own_is_not_held_to_the_optimum_of_another() -> None:
    def sharp(draft: nn.Module, target: nn.Module, ids: Tensor) -> Tensor:
        guess = draft(ids).logits[0, -1].argmax()
        q = target(ids).logits[0, -1].softmax(-1)
        if (torch.rand(()) < q[guess]).item():
            ids = torch.cat([ids, guess.reshape(1, 1)], dim=1)
            return torch.cat([ids, torch.multinomial(target(ids).logits[0, -1].softmax(-1), 1)[None]], dim=1)
        left = q.clone()
        left[guess] = 0
        return torch.cat([ids, torch.multinomial(left, 1)[None]], dim=1)

    pair = ToyPair(
        "a sharp target",
        TableModel.parse([[["3/5", "2/5"]], [["1/2", "1/2"]] * 2]),
        TableModel.parse([[["9/10", "1/10"]], [["1/2", "1/2"]] * 2]),
    )
    verdict = judge(verifier(sharp, "step"), Instance(pair, 1, 1))
    assert verdict.round.expected_accepted == pytest.approx(0.9)
    assert verdict.round.expected_accepted > verdict.instance.ceiling("stateless", 1)
    assert verdict.lossless
