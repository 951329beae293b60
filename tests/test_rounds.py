"""Rounds and emissions: right ones pass, and every kind of wrong one is refused where it is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from spectr_verify.rounds import SUM_TOLERANCE, Emission, EmissionError, Round, RoundError, check_emission, check_round

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@dataclass(frozen=True)
class Sizes:
    B: int
    K: int
    L: int
    V: int
    seed: int


sizes = st.builds(Sizes, st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(2, 6), st.integers(0, 99))


def make_round(size: Sizes, dtype: torch.dtype = torch.float64) -> Round:
    """Laws with some zeros, and drafts that are possible under them; the target gives every token something."""
    B, K, L, V = size.B, size.K, size.L, size.V
    generator = np.random.default_rng(size.seed)
    drafts = generator.integers(V, size=(B, K, L))
    draft_laws = generator.random((B, K, L, V)) * (generator.random((B, K, L, V)) < 0.6)
    np.put_along_axis(draft_laws, drafts[..., None], 0.5, axis=-1)
    target_laws = generator.random((B, K, L + 1, V)) + 0.1
    p, q = (torch.from_numpy(laws / laws.sum(axis=-1, keepdims=True)).to(dtype) for laws in (draft_laws, target_laws))
    return Round(torch.from_numpy(drafts), p, q)


def place_in(data: st.DataObject, *shape: int) -> tuple[int, ...]:
    return tuple(data.draw(st.integers(0, n - 1)) for n in shape)


def written(tensor: Tensor, place: tuple[int, ...], value: object) -> Tensor:
    changed = tensor.clone()
    changed[place] = torch.as_tensor(value, dtype=tensor.dtype)
    return changed


# --- rounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@given(sizes)
@settings(max_examples=30)
def test_a_right_round_passes_in_any_format(dtype: torch.dtype, size: Sizes) -> None:
    check_round(make_round(size, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_laws_over_a_large_vocabulary_pass_in_any_format(dtype: torch.dtype) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).normal(scale=3, size=(1, 2, 3, 32_000)))
    laws = logits.softmax(dim=-1).to(dtype)
    drafts = laws[:, :, :2].argmax(dim=-1)
    check_round(Round(drafts, laws[:, :, :2], laws))


def test_sizes_of_a_round() -> None:
    round = make_round(Sizes(2, 3, 4, 5, 0))
    assert (round.rows, round.num_drafts, round.length, round.vocab) == (2, 3, 4, 5)


@given(sizes, st.data())
def test_parts_of_a_round_are_rounds(size: Sizes, data: st.DataObject) -> None:
    round = make_round(size)
    count = data.draw(st.integers(1, size.K))
    first = round.first_drafts(count)
    check_round(first)
    assert (first.rows, first.num_drafts, first.length, first.vocab) == (size.B, count, size.L, size.V)
    index = torch.tensor([data.draw(st.integers(0, size.K - 1)) for _ in range(size.B)])
    chosen = round.draft(index)
    check_round(chosen)
    assert chosen.num_drafts == 1
    for row, k in enumerate(index.tolist()):
        assert torch.equal(chosen.drafts[row, 0], round.drafts[row, k])
        assert torch.equal(chosen.draft_probs[row, 0], round.draft_probs[row, k])
        assert torch.equal(chosen.target_probs[row, 0], round.target_probs[row, k])


LAW_FAULTS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "nan": (lambda law: written(law, (0,), math.nan), "not a finite number"),
    "infinite": (lambda law: written(law, (-1,), math.inf), "not a finite number"),
    "minus infinite": (lambda law: written(law, (-1,), -math.inf), "not a finite number"),
    "negative": (lambda law: law + torch.tensor([-1.5, 1.5] + [0.0] * (len(law) - 2)).to(law), "negative probability"),
    "too much": (lambda law: law * 1.25, "does not sum to 1"),
    "too little": (lambda law: law * 0.75, "does not sum to 1"),
    "nothing": (lambda law: law * 0, "does not sum to 1"),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", list(LAW_FAULTS))
@pytest.mark.parametrize("name", ["draft_probs", "target_probs"])
@given(sizes, st.data())
@settings(max_examples=8)
def test_a_law_that_is_none_is_named(
    dtype: torch.dtype, fault: str, name: str, size: Sizes, data: st.DataObject
) -> None:
    round = make_round(size, dtype)
    laws = getattr(round, name)
    place = place_in(data, *laws.shape[:3])
    break_law, what = LAW_FAULTS[fault]
    wrong = replace(round, **{name: written(laws, place, break_law(laws[place]))})
    row, k, i = place
    with pytest.raises(RoundError, match=f"^{name}, row {row}, draft {k}, position {i}: .*{what}"):
        check_round(wrong)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["draft_probs", "target_probs"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_sum_may_miss_one_by_the_tolerance_of_its_format_and_no_more(
    dtype: torch.dtype, name: str, sign: int
) -> None:
    round = make_round(Sizes(2, 2, 2, 2, 0), dtype)
    assert SUM_TOLERANCE[dtype] < {torch.float64: 1e-8, torch.float32: 1e-3}.get(dtype, 0.05)
    for factor, passes in ((0.5, True), (2.0, False)):
        law = torch.tensor([0.5, 0.5 + sign * factor * SUM_TOLERANCE[dtype]], dtype=torch.float64).to(dtype)
        changed = replace(round, **{name: written(getattr(round, name), (1, 0, 1), law)})
        if passes:
            check_round(changed)
        else:
            with pytest.raises(RoundError, match=f"{name}, row 1, draft 0, position 1: .*does not sum to 1 within"):
                check_round(changed)


@given(sizes, st.data())
def test_a_token_outside_the_vocabulary_is_named(size: Sizes, data: st.DataObject) -> None:
    round = make_round(size)
    place = place_in(data, *round.drafts.shape)
    token = data.draw(st.sampled_from([-(2**62), -1, size.V, size.V + 7, 2**62]))
    row, k, i = place
    with pytest.raises(
        RoundError, match=f"row {row}, draft {k}, position {i}: token {token} is outside 0..{size.V - 1}"
    ):
        check_round(replace(round, drafts=written(round.drafts, place, token)))


@pytest.mark.parametrize("dtype", DTYPES)
@given(sizes, st.data())
@settings(max_examples=20)
def test_a_token_that_the_draft_model_cannot_have_drawn_is_named(
    dtype: torch.dtype, size: Sizes, data: st.DataObject
) -> None:
    round = make_round(size, dtype)
    place = place_in(data, *round.drafts.shape)
    law = torch.zeros(size.V, dtype=dtype)
    law[(round.drafts[place] + 1) % size.V] = 1
    row, k, i = place
    with pytest.raises(RoundError, match=f"row {row}, draft {k}, position {i}: token .* probability zero"):
        check_round(replace(round, draft_probs=written(round.draft_probs, place, law)))


@given(sizes, st.data())
def test_of_several_faults_the_first_is_named(size: Sizes, data: st.DataObject) -> None:
    round = make_round(size)
    places = sorted(place_in(data, *round.drafts.shape) for _ in range(2))
    drafts = written(written(round.drafts, places[0], -1), places[1], -1)
    row, k, i = places[0]
    with pytest.raises(RoundError, match=f"^row {row}, draft {k}, position {i}: "):
        check_round(replace(round, drafts=drafts))


R = make_round(Sizes(2, 3, 2, 4, 0))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (replace(R, drafts=R.drafts[0]), r"drafts must be int64 \[B, K, L\].*\[3, 2\]"),
        (replace(R, drafts=R.drafts[None]), r"drafts must be int64 \[B, K, L\].*\[1, 2, 3, 2\]"),
        (replace(R, drafts=R.drafts.int()), "drafts must be int64.*int32"),
        (replace(R, drafts=R.drafts.double()), "drafts must be int64.*float64"),
        (replace(R, drafts=R.drafts[:0]), r"at least one row.*\[0, 3, 2\]"),
        (replace(R, drafts=R.drafts[:, :0]), r"at least one row, draft.*\[2, 0, 2\]"),
        (replace(R, drafts=R.drafts[:, :, :0]), r"at least one row, draft and token.*\[2, 3, 0\]"),
        (replace(R, draft_probs=R.draft_probs[:, :, :1]), r"draft_probs must have shape \[2, 3, 2, 4\].*\[2, 3, 1"),
        (replace(R, draft_probs=R.target_probs), r"draft_probs must have shape \[2, 3, 2, 4\].*\[2, 3, 3, 4\]"),
        (replace(R, target_probs=R.draft_probs), r"target_probs must have shape \[2, 3, 3, 4\].*\[2, 3, 2, 4\]"),
        (replace(R, target_probs=R.target_probs[:1]), r"target_probs must have shape \[2, 3, 3, 4\]"),
        (replace(R, target_probs=R.target_probs[:, :1]), r"target_probs must have shape \[2, 3, 3, 4\]"),
        (replace(R, target_probs=R.target_probs[:, 0]), r"target_probs must have shape \[2, 3, 3, 4\].*\[2, 3, 4\]"),
        (replace(R, target_probs=R.target_probs[..., :3]), "_probs must have shape"),
        (replace(R, draft_probs=R.draft_probs[..., :3]), "draft_probs must have shape"),
        (replace(R, target_probs=torch.tensor(1.0)), "_probs must have shape"),
        (Round(R.drafts, R.draft_probs[..., :0], R.target_probs[..., :0]), "does not sum to 1"),
        (replace(R, draft_probs=R.draft_probs.round().long()), "draft_probs holds torch.int64; laws must be floating"),
        (replace(R, target_probs=R.target_probs.round().int()), "target_probs holds torch.int32; laws must be"),
        (replace(R, target_probs=R.target_probs > 0), "target_probs holds torch.bool"),
        (replace(R, target_probs=R.target_probs.to(torch.complex64)), "target_probs holds torch.complex64"),
        (replace(R, drafts=[[[0, 1]]]), "drafts must be a tensor; it is list"),
        (replace(R, draft_probs=R.draft_probs.numpy()), "draft_probs must be a tensor; it is ndarray"),
        (replace(R, target_probs=None), "target_probs must be a tensor; it is NoneType"),
    ],
)  # fmt: skip
def test_a_round_of_the_wrong_form_is_refused(wrong: Round, what: str) -> None:
    with pytest.raises(RoundError, match=what):
        check_round(wrong)


def test_a_long_law_is_not_printed_whole() -> None:
    laws = torch.full((1, 1, 2, 10_000), 1e-4, dtype=torch.float64)
    with pytest.raises(RoundError, match=r"\[0\.0001, .*, \.\.\] does not sum.*sum 0\.9999\)") as refusal:
        check_round(Round(torch.zeros(1, 1, 1, dtype=torch.int64), laws[:, :, :1], written(laws, (0, 0, 1, 9_999), 0)))
    assert len(str(refusal.value)) < 300


# --- emissions ----------------------------------------------------------------------------------------------------


def make_emission(round: Round, data: st.DataObject) -> Emission:
    """Any emission that keeps the contract."""
    B, K, L = round.drafts.shape
    tokens = torch.full((B, L + 1), -1)
    length = torch.empty(B, dtype=torch.int64)
    draft = torch.empty(B, dtype=torch.int64)
    for row in range(B):
        accepted = data.draw(st.integers(0, L))
        draft[row] = data.draw(st.integers(0 if accepted else -1, K - 1))
        tokens[row, :accepted] = round.drafts[row, draft[row], :accepted]
        tokens[row, accepted] = data.draw(st.integers(0, round.vocab - 1))
        length[row] = accepted + 1
    return Emission(tokens, length, draft)


@given(sizes, st.sampled_from(DTYPES), st.data())
@settings(max_examples=200)
def test_a_right_emission_passes_as_it_is(size: Sizes, dtype: torch.dtype, data: st.DataObject) -> None:
    round = make_round(size, dtype)
    emission = make_emission(round, data)
    assert check_emission(round, emission) is emission


@given(sizes, st.data())
def test_tokens_that_the_target_never_writes_keep_the_contract(size: Sizes, data: st.DataObject) -> None:
    """They are a bias, which is for the law to show, and no fault of form."""
    round = make_round(size)
    emission = make_emission(round, data)
    nothing = replace(round, target_probs=torch.zeros_like(round.target_probs))
    assert check_emission(nothing, emission) is emission


def broken(round: Round, right: Emission, row: int, data: st.DataObject, fault: str) -> Emission:
    """The same emission with one row broken; the row may first be made one that can be broken in this way."""
    L, V, K = round.length, round.vocab, round.num_drafts
    tokens, length, draft = right.tokens.clone(), right.length.clone(), right.draft.clone()

    def accept(count: int) -> None:
        draft[row] = data.draw(st.integers(0, K - 1))
        length[row] = count + 1
        tokens[row] = -1
        tokens[row, :count] = round.drafts[row, draft[row], :count]
        tokens[row, count] = 0

    if fault == "length 0 or less":
        length[row] = data.draw(st.sampled_from([0, -1, -(2**62)]))
    elif fault == "length beyond L + 1":
        length[row] = data.draw(st.sampled_from([L + 2, 2**62]))
    elif fault == "extra token outside the vocabulary":
        tokens[row, length[row] - 1] = data.draw(st.sampled_from([-1, -2, V, 2**62]))
    elif fault == "accepted token outside the vocabulary":
        accept(data.draw(st.integers(1, L)))
        tokens[row, data.draw(st.integers(0, int(length[row]) - 2))] = data.draw(st.sampled_from([-1, V]))
    elif fault == "something behind the last token":
        accept(data.draw(st.integers(0, L - 1)))
        tokens[row, data.draw(st.integers(int(length[row]), L))] = data.draw(st.sampled_from([-2, 0, V - 1, V]))
    elif fault == "no draft named":
        accept(data.draw(st.integers(1, L)))
        draft[row] = -1
    elif fault == "no such draft":
        draft[row] = data.draw(st.sampled_from([-2, -(2**62), K, 2**62]))
    else:
        assert fault == "not a prefix"
        accept(data.draw(st.integers(1, L)))
        place = data.draw(st.integers(0, int(length[row]) - 2))
        tokens[row, place] = (tokens[row, place] + data.draw(st.integers(1, V - 1))) % V
    return Emission(tokens, length, draft)


ROW_FAULTS = {
    "length 0 or less": "length must be 1 to",
    "length beyond L + 1": "length must be 1 to",
    "extra token outside the vocabulary": "must be in the vocabulary",
    "accepted token outside the vocabulary": "must be in the vocabulary",
    "something behind the last token": "must hold -1",
    "no draft named": "must name its draft",
    "no such draft": "must name its draft",
    "not a prefix": "not a prefix of the draft",
}


@pytest.mark.parametrize("fault", list(ROW_FAULTS))
@given(sizes, st.data())
@settings(max_examples=50)
def test_a_row_that_breaks_the_contract_is_named(fault: str, size: Sizes, data: st.DataObject) -> None:
    round = make_round(size)
    right = make_emission(round, data)
    row = data.draw(st.integers(0, size.B - 1))
    wrong = broken(round, right, row, data, fault)
    with pytest.raises(EmissionError, match=f"^row {row}: tokens .*{ROW_FAULTS[fault]}"):
        check_emission(round, wrong)


def test_the_message_shows_what_was_emitted() -> None:
    wrong = Emission(torch.tensor([[0, -1, -1], [1, 9, -1]]), torch.tensor([1, 2]), torch.tensor([-1, 0]))
    with pytest.raises(
        EmissionError,
        match=r"row 1: tokens \[1, 9, -1\], length 2, draft 0: every emitted token must be in the vocabulary 0\.\.3",
    ):
        check_emission(R, wrong)


E = Emission(torch.tensor([[0, -1, -1], [1, -1, -1]]), torch.tensor([1, 1]), torch.tensor([-1, -1]))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (None, "must return an Emission; it returned NoneType"),
        ((E.tokens, E.length, E.draft), "must return an Emission; it returned tuple"),
        (E.tokens, "must return an Emission; it returned Tensor"),
        (replace(E, tokens=E.tokens[:, :2]), r"Emission.tokens must be an int64 tensor of shape \[2, 3\].*\[2, 2\]"),
        (replace(E, tokens=E.tokens[:1]), r"Emission.tokens must be an int64 tensor of shape \[2, 3\].*\[1, 3\]"),
        (replace(E, tokens=E.tokens.int()), r"Emission.tokens must be an int64 tensor .* torch.int32 \[2, 3\]"),
        (replace(E, tokens=E.tokens.double()), "Emission.tokens must be an int64 tensor"),
        (replace(E, tokens=E.tokens.tolist()), "Emission.tokens must be an int64 tensor .* list"),
        (replace(E, length=E.length[:, None]), r"Emission.length must be an int64 tensor of shape \[2\].*\[2, 1\]"),
        (replace(E, length=E.length.int()), "Emission.length must be an int64 tensor"),
        (replace(E, length=1), "Emission.length must be an int64 tensor .* int"),
        (replace(E, draft=E.draft[:1]), r"Emission.draft must be an int64 tensor of shape \[2\].*\[1\]"),
        (replace(E, draft=E.draft > 0), "Emission.draft must be an int64 tensor .*torch.bool"),
        (replace(E, draft=None), "Emission.draft must be an int64 tensor .* NoneType"),
    ],
)
def test_an_emission_of_the_wrong_form_is_refused(wrong: object, what: str) -> None:
    assert check_emission(R, E) is E
    with pytest.raises(EmissionError, match=what):
        check_emission(R, wrong)
