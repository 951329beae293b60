"""Functions that are handed drafts and laws: the law is exact, the call is what was asked for, faults are said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from torch import Tensor

from spectr_verify.errors import InputError
from spectr_verify.exact import round_law
from spectr_verify.replay import Budget, ReplayError, edge_violation, replayed_laws, verifier
from spectr_verify.replay.arguments import ArgumentError
from spectr_verify.rounds import EmissionError
from spectr_verify.rules import RULES
from toy_models import TableModel, ToyPair, family_pairs, recorded_pairs, strategies


def token(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Token verification as an engine has it."""
    position = torch.arange(len(draft_tokens))
    ratio = target_probs[position, draft_tokens] / draft_probs[position, draft_tokens]
    accepted = int((torch.rand(len(draft_tokens)) < ratio).long().cumprod(0).sum())
    law = target_probs[-1]
    if accepted < len(draft_tokens):
        law = (target_probs[accepted] - draft_probs[accepted]).clamp(min=0)
    return torch.cat([draft_tokens[:accepted], torch.multinomial(law, 1)])


def k_seq_first(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Recursive rejection at the first position alone: int64 [K, L] and laws [K, ..]."""
    left = target_probs[0, 0]
    for k in range(len(draft_tokens)):
        x, p = draft_tokens[k, 0], draft_probs[k, 0]
        if torch.rand(()) * p[x] < left[x]:
            return torch.stack([x, torch.multinomial(target_probs[k, 1], 1)[0]])
        left = (left - p).clamp(min=0) / (left - p).clamp(min=0).sum()
    return torch.multinomial(left, 1)


@hypothesis.settings(max_examples=20)
@hypothesis.given(strategies.pairs(max_vocab=3, max_length=2, max_drafts=1))
def test_the_law_is_that_of_the_rule(pair: ToyPair) -> None:
    L = pair.length or 1
    replayed, _ = replayed_laws(verifier(token, "probabilities"), pair, L, 1)
    ruled = round_law(RULES["token"], pair, L, 1)
    assert replayed.tv_round <= 1e-12
    for ours, theirs in zip(replayed.emissions, ruled.emissions, strict=True):
        assert abs(ours - theirs).max() <= 1e-12


def test_the_text_of_many_rounds_is_that_of_the_rule() -> None:
    pair = family_pairs(0, 2, 2)[3]
    _, text = replayed_laws(verifier(token, "probabilities"), pair, 2, 1, 4)
    assert text is not None
    assert text.tv_text <= 1e-12


@pytest.mark.parametrize("pair", [*family_pairs(0, 3, 1), *recorded_pairs()[:3]], ids=lambda pair: pair.name)
def test_several_drafts_come_stacked(pair: ToyPair) -> None:
    law, _ = replayed_laws(verifier(k_seq_first, "probabilities"), pair, 1, 3)
    assert law.tv_round <= 1e-12
    ruled = round_law(RULES["recursive-rejection"], pair, 1, 3)
    assert law.expected_accepted == pytest.approx(ruled.expected_accepted, abs=1e-12)


VARIANTS: list[tuple[Callable[..., Any], dict[str, str]]] = [
    (lambda tokens, p, q: token(tokens, p, q).tolist(), {}),
    (lambda tokens, p, q: (token(tokens, p, q), "more"), {}),
    (lambda x, p, q: token(x[0], p[0], q[0])[None], {n: f"{m}[None]" for n, m in
     (("x", "draft_tokens"), ("p", "draft_probs"), ("q", "target_probs"))}),
    (lambda x, p, q: token(x, p.softmax(-1), q.softmax(-1)),
     {"x": "draft_tokens", "p": "draft_logits", "q": "target_logits"}),
    (lambda x, p, q: token(x, p.exp(), q.exp()),
     {"x": "draft_tokens", "p": "draft_logprobs", "q": "target_logprobs"}),
    (lambda x, p, q, bonus, ends: token(x[: ends[0]], p, torch.cat([q, bonus])),
     {"x": "draft_tokens", "p": "draft_probs", "q": "target_probs[:-1]", "bonus": "target_probs[-1:]",
      "ends": "torch.tensor([L])"}),
    (lambda tokens, p, q, gamma: token(tokens, p, q) if gamma == len(tokens) else None, {"gamma": "L"}),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments"), VARIANTS)
@pytest.mark.parametrize("pair", family_pairs(1, 3, 2)[:5], ids=lambda pair: pair.name)
def test_near_variants_are_called_by_arguments(
    function: Callable[..., Any], arguments: dict[str, str], pair: ToyPair
) -> None:
    law, _ = replayed_laws(verifier(function, "probabilities", arguments=arguments), pair, 2, 1)
    assert law.tv_round <= 1e-12


def _law_of(function: Callable[..., Any], **options: Any) -> Any:
    return replayed_laws(verifier(function, "probabilities", name="mine", **options), family_pairs(0, 2, 1)[3], 1, 1)


def test_what_it_is_called_with_is_its_own() -> None:
    def writes(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
        emitted = token(tokens, p, q)
        for tensor in (tokens, p, q):
            tensor.zero_()
        return emitted

    writer = verifier(writes, "probabilities")
    law, _ = replayed_laws(writer, family_pairs(0, 2, 1)[3], 1, 1)
    assert law.tv_round <= 1e-12
    assert any("writes into the tensors" in note for note in writer.seen.notes)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x, p, q: [0, 1, 0], "mine returned 3 tokens"),
        (lambda x, p, q: [1 - int(x[0]), 0], "all but the last must be the accepted beginning of a draft"),
        (lambda x, p, q: x.undefined, "mine raised AttributeError.*test_probabilities.py"),
        (lambda x, p, q: torch.ones(1), "mine returned a tensor of torch.float32"),
    ],
)
def test_what_it_returns_is_checked(function: Callable[..., Any], says: str) -> None:
    with pytest.raises((EmissionError, ReplayError), match=says):
        _law_of(function)


def test_arguments_are_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match=r"mine.*cannot be called as \(draft_tokens, draft_probs, target_probs\)"):
        _law_of(lambda x: x)
    with pytest.raises(ArgumentError, match="gamma=M fails"):
        _law_of(lambda x, p, q, gamma: x, arguments={"gamma": "M"})
    with pytest.raises(InputError, match="a temperature is for calls='step'"):
        _law_of(token, temperature=0.5)


def test_no_law_from_half_the_paths() -> None:
    with pytest.raises(InputError, match="the limit of 3 paths"):
        _law_of(token, budget=Budget(paths=3))


def test_float32_is_judged_as_such() -> None:
    single = verifier(lambda x, p, q: token(x, p.float(), q.float()), "probabilities")
    law, _ = replayed_laws(single, recorded_pairs()[0], 2, 1)
    assert 1e-12 < law.tv_round < 1e-6
    assert single.seen.single
    double = verifier(token, "probabilities")
    replayed_laws(double, recorded_pairs()[0], 2, 1)
    assert not double.seen.single


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cumulative_sum_that_ends_just_below_one_is_not_run_past(dtype: torch.dtype) -> None:
    """1/19 + 6/19 + 12/19 is 1 - 2^-24 in float32, ten times 1/10 is 1 - 2^-53 in float64: nothing is drawn above."""
    laws = {torch.float32: ["1/19", "6/19", "12/19"], torch.float64: ["1/10"] * 10}
    model = TableModel.parse([[laws[dtype]], [laws[dtype]] * len(laws[dtype])])
    ends = torch.tensor(model.levels[0][0]).to(dtype).cumsum(0)[-1]
    assert 0 < 1 - ends <= torch.finfo(dtype).eps

    def by_count(x: Tensor, p: Tensor, q: Tensor) -> list[int]:
        return [int((q[0].to(dtype).cumsum(0) < torch.rand((), dtype=dtype)).sum())]

    def by_search(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return torch.searchsorted(q[0].to(dtype).cumsum(0), torch.rand(1, dtype=dtype))

    for function in (by_count, by_search):
        subject = verifier(function, "probabilities")
        law, _ = replayed_laws(subject, ToyPair("nearly", model, model), 1, 1)
        assert law.tv_round <= (1e-7 if dtype == torch.float32 else 1e-15)
        assert edge_violation(subject, ToyPair("nearly", model, model), 1, 1) is None


def test_what_goes_wrong_on_a_path_that_rounding_opens_does_not_end_the_audit() -> None:
    """Nearly identical laws: a rejection of probability 1e-7, after which nothing is left of the residual."""
    near = TableModel(tuple(np.array(level) for level in ([[0.5, 0.5]], [[0.5, 0.5]] * 2)))
    off = TableModel(tuple(np.array(level) for level in ([[0.5 + 6e-8, 0.5 - 6e-8]], [[0.5, 0.5]] * 2)))

    def raising(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        accepted = torch.rand(1) < (q.float()[0] / p.float()[0])[x]
        if not accepted:
            raise RuntimeError("nothing is left of the residual")
        return torch.cat([x, torch.multinomial(q[1], 1)])

    subject = verifier(raising, "probabilities")
    law, _ = replayed_laws(subject, ToyPair("near", near, off), 1, 1)
    assert law.tv_round <= 1e-6
    (note,) = subject.seen.notes
    assert "goes wrong on paths of little probability, here 1e-07" in note
    assert "nothing is left of the residual" in note
    clearly = TableModel(tuple(np.array(level) for level in ([[0.6, 0.4]], [[0.5, 0.5]] * 2)))
    with pytest.raises(ReplayError, match=r"nothing is left.*with probability 0\.2"):
        replayed_laws(verifier(raising, "probabilities"), ToyPair("off", near, clearly), 1, 1)


def test_rounding_of_identical_laws_opens_no_path_that_matters() -> None:
    """p / p.sum() differs from p in the last digit: the rejection has probability 1e-16 and no residual."""

    def renormalised(x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return token(x, p / p.sum(-1, keepdim=True), q.log().softmax(-1))

    for pair in [pair for pair in family_pairs(0, 3, 2) if "identical" in pair.name]:
        subject = verifier(renormalised, "probabilities")
        law, _ = replayed_laws(subject, pair, 2, 1)
        assert law.tv_round <= 1e-12
        assert not subject.seen.notes
