"""The gallery: every planted fault is caught, no control is flagged, and the register is complete."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from spectr_verify.audit import gallery
from spectr_verify.audit.gallery import CONTROLS, FAULTS, Fault, judge_record, run_gallery
from spectr_verify.audit.gallery.block import block_by_products_of_uniforms
from spectr_verify.audit.gallery.run import FILTERED, NARROW
from spectr_verify.audit.instance import Instance
from spectr_verify.audit.verdict import Stage, judge
from spectr_verify.chance import Chance
from spectr_verify.errors import InputError
from spectr_verify.exact import sample_round
from spectr_verify.replay import verifier
from spectr_verify.rules import Rule

EVERYTHING = (*FAULTS, *CONTROLS)

THEMES = {
    "drawn-at-another-temperature",
    "drawn-with-another-top-p",
    "drawn-in-bfloat16",
    "equal-to-argmax",
    "correction-by-argmax",
    "residual-not-subtracted",
    "residual-not-clamped",
    "residual-swapped",
    "residual-not-normalised",
    "bonus-from-the-draft",
    "bonus-from-the-position-before",
    "bonus-missing",
    "ratio-inverted",
    "uniform-zero-accepts",
    "one-uniform-for-all-positions",
    "rejecting-uniform-corrects",
    "block-by-token-criterion",
    "block-by-products-of-uniforms",
    "block-residual-without-weight",
    "block-mass-of-the-position-before",
    "greedy-block-forgetful",
    "longest-of-the-blocks",
    "residual-not-updated",
    "duplicate-tried-again",
    "k-seq-unscaled",
    "k-seq-without-the-factor",
    "second-draft-avoids-the-first",
    "second-draft-copies-the-first",
    "spectr-gbv-published",
    "spectr-gbv-released",
    "typical-acceptance",
    "filtered-after-acceptance",
    "zero-read-as-the-default",
    "nan-row-becomes-token-0",
}
"""Kinds of fault that must never drop out of the gallery."""

EDGES = {"uniform-zero-accepts", "uniform-zero-draws-the-impossible", "uniform-zero-ends-the-gumbel-race"}


def named(name: str) -> Fault:
    return next(record for record in EVERYTHING if record.name == name)


@pytest.mark.slow  # ``spectr-verify gallery`` runs them all as well
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught(fault: Fault) -> None:
    row = judge_record(fault, planted=True, quick=True)
    assert row.word == "caught", row.evidence
    assert row.counterexample is not None
    assert (row.counterexample.stage is Stage.EDGE_COINS) == (fault.name in EDGES)
    assert row.counterexample.reasons[0] in row.evidence


@pytest.mark.slow
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_a_control_is_cleared(control: Fault) -> None:
    row = judge_record(control, planted=False, quick=True)
    assert (row.word, row.evidence) == ("cleared", "")


def test_names_are_kebab_case_and_unique() -> None:
    names = [record.name for record in EVERYTHING]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_no_required_kind_is_missing() -> None:
    assert not THEMES - {fault.name for fault in FAULTS}


@pytest.mark.parametrize("record", EVERYTHING, ids=lambda record: record.name)
def test_says_is_one_sentence(record: Fault) -> None:
    assert re.fullmatch(r"[A-Z][^\n]*[^.\n]\.", record.says)
    assert not re.search(r"[.!?] [A-Z]", record.says)


def test_links_are_addresses() -> None:
    links = [record.link for record in EVERYTHING if record.link]
    assert links
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(pull|issues)/\d+", link) for link in links)


def test_the_whole_gallery_is_reported_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery.run, "FAULTS", (named("ratio-inverted"),))
    monkeypatch.setattr(gallery.run, "CONTROLS", (named("block-race"),))
    lines: list[str] = []
    rows = run_gallery(progress=lines.append, quick=True)
    assert lines == ["1 of 2: ratio-inverted", "2 of 2: block-race"]
    assert [(row.word, row.planted, row.right) for row in rows] == [("caught", True, True), ("cleared", False, True)]
    assert rows[0].paths > 0
    assert rows[0].to_json()["stage"] == "first token"
    assert "V = 2, L = 1" in rows[0].to_json()["evidence"]


@pytest.mark.parametrize(
    ("name", "planted", "word"), [("block-race", True, "missed"), ("ratio-inverted", False, "flagged")]
)
def test_a_wrong_judgement_is_called_wrong(name: str, planted: bool, word: str) -> None:
    row = judge_record(named(name), planted=planted, quick=True)
    assert row.word == word
    assert not row.right


@pytest.mark.parametrize("quick", [False, True])
def test_a_fault_is_judged_up_to_its_first_counterexample(quick: bool) -> None:
    row = judge_record(named("ratio-inverted"), planted=True, quick=quick)
    assert row.word == "caught"
    assert 0 < row.paths < 100  # the whole suite takes thousands


def test_what_cannot_be_judged_is_refused_and_not_right() -> None:
    def silent(draft_tokens: torch.Tensor, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> None:
        """It returns nothing."""

    row = judge_record(Fault("silent", "It returns nothing.", "probabilities", silent), planted=True)
    assert (row.word, row.right) == ("refused", False)
    assert "None" in row.evidence


# Laws that are known without any replay


def first_token(name: str) -> np.ndarray:
    record = named(name)
    assert not isinstance(record.function, Rule)
    subject = verifier(record.function, record.calls, name=name)
    return judge(subject, Instance(NARROW, 1, 1)).round.first_token


P, Q = np.array([2 / 3, 1 / 3]), np.array([1 / 3, 2 / 3])
"""The first laws of the narrow pair: token 0 is over-drafted, and the residual holds token 1 alone."""


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("equal-to-argmax", P * [0, 1] + P[0] * Q),
        ("everything-accepted", P),
        ("accepted-on-a-second-look", [P[0] * (1 - (1 - Q[0]) * (1 - Q[0] / P[0])), np.nan]),
        ("lenient", [P[0] * Q[0] / P[0] / 0.8, np.nan]),
        ("residual-not-subtracted", np.minimum(P, Q) + (1 - np.minimum(P, Q).sum()) * Q),
        ("residual-not-clamped", np.minimum(P, Q) + (1 - np.minimum(P, Q).sum()) * 0.5),
        ("residual-swapped", P),
        ("residual-with-a-floor", [Q[0] + (P[0] - Q[0]) * 1e-5 / (1e-5 + Q[1] - P[1]), np.nan]),
    ],
)
def test_the_first_token_is_as_wrong_as_computed_by_hand(name: str, law: np.ndarray) -> None:
    law = np.array([law[0], 1 - law[0]])
    assert np.allclose(first_token(name), law, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", sorted(EDGES))
def test_a_uniform_of_zero_emits_the_impossible(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zero is put into torch itself, on a draft that the target forbids; only token 1 can correct it."""
    coin = 0.0 if name == "uniform-zero-accepts" else 0.5
    draws = iter([torch.tensor([coin]), torch.tensor([0.0], dtype=torch.float64)])
    monkeypatch.setattr(torch, "rand", lambda *shape, **options: next(draws))
    monkeypatch.setattr(torch, "rand_like", lambda like: torch.tensor([0.5, 0.0, 0.5], dtype=like.dtype))
    record = named(name)
    assert not isinstance(record.function, Rule)
    draft, target = np.array([FILTERED.draft.law(())]), np.array([FILTERED.target.law(()), FILTERED.target.law((0,))])
    emitted = record.function(torch.tensor([0]), torch.from_numpy(draft), torch.from_numpy(target))
    assert isinstance(emitted, torch.Tensor)
    assert emitted[0] == 0


class Asked(Chance):
    """Answers 0 and keeps the weights of the first question."""

    weights: torch.Tensor | None = None

    def categorical(self, weights: torch.Tensor) -> torch.Tensor:
        self.weights = weights if self.weights is None else self.weights
        return torch.zeros(weights.shape[:-1], dtype=torch.int64)

    def smallest_uniform(self, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        raise AssertionError("it races nothing")


def test_products_of_uniforms_have_the_law_that_integration_gives() -> None:
    round = sample_round(NARROW, 2, 1, rows=40, generator=torch.Generator().manual_seed(0))
    chance = Asked()
    block_by_products_of_uniforms(round, chance)
    assert chance.weights is not None
    for row in range(round.rows):
        first, a, b = (1.0, *_weights(round.drafts[row, 0], round.draft_probs[row, 0], round.target_probs[row, 0]))
        whole = quad(lambda u, b=b: min(1.0, b / u), 0, 1, points=[b], epsabs=1e-12)[0]
        reached = quad(lambda u, b=b: 1 - min(1.0, b / u), 0, a, points=[min(b, a)], epsabs=1e-12)[0]
        assert np.allclose(chance.weights[row].numpy(), [first - whole - reached, reached, whole], atol=1e-9)


def _weights(tokens: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> tuple[float, float]:
    x, y = tokens.tolist()
    a = min(1.0, float(q[0, x] / p[0, x]))
    return a, min(1.0, a * float(q[1, y] / p[1, y]))


def test_products_of_uniforms_refuses_longer_drafts() -> None:
    from toy_models import family_pairs

    round = sample_round(family_pairs(0, 2, 3)[0], 3, 1, rows=1, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="take L = 1 or 2"):
        block_by_products_of_uniforms(round, Asked())
