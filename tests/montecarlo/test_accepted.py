"""The accepted length: the terms of every closed form, and what rules reach beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_models import small_pair

from spectr_verify.bounds.along_text import ALONG_TEXT
from spectr_verify.chance import Chance
from spectr_verify.decoding import Filters, decode
from spectr_verify.montecarlo import AcceptedLength, Reference, Settings, monte_carlo
from spectr_verify.montecarlo.accepted import AcceptedRounds, exceeds
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import RULES, Rule

PROMPTS = [[1, 2, 3], [4], [5, 6, 0, 1]]


def compared(rule: Rule, seed: int = 0, **changed: int) -> AcceptedLength | None:
    asked = {"drafts": 3, "length": 3, "tokens": 12, "texts": 400, "batch": 400} | changed
    # No run is ended by its e-value: that would leave a biased rule too few texts.
    return monte_carlo(small_pair(), rule, PROMPTS, Settings(**asked, seed=seed, enough=1e9)).accepted


@pytest.mark.parametrize("name", ALONG_TEXT)
def test_rules_reach_their_closed_form(name: str) -> None:
    found = compared(RULES[name])
    assert found is not None
    assert found.exact
    assert abs(found.measured - found.expected) < 4 * found.error
    assert found.error < 0.05 * found.expected
    assert not exceeds(found, 1e-5)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.lossless and name not in ALONG_TEXT])
def test_other_rules_stay_below_the_bound(name: str) -> None:
    found = compared(RULES[name])
    assert found is not None
    assert not found.exact
    assert found.measured < found.expected + 4 * found.error
    assert not exceeds(found, 1e-3)


def test_another_rule_under_a_registered_name_is_held_against_the_bound() -> None:
    found = compared(replace(RULES["token"], summary="not the registered one"), texts=100)
    assert found is not None
    assert not found.exact


def test_a_registered_rule_that_reaches_another_length_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A race of which only the first draft takes part: lossless, but it does not reach the length."""

    def first_draft_alone(round: Round, chance: Chance) -> Emission:
        return RULES["block"].verify(round.first_drafts(1), chance)

    slow = replace(RULES["block-race"], verify=first_draft_alone)
    monkeypatch.setattr("spectr_verify.montecarlo.accepted.RULES", {"block-race": slow})
    found = compared(slow, texts=200)
    assert found is not None
    assert found.exact
    assert found.measured < found.expected
    assert exceeds(found, 1e-6)


def accept_everything(round: Round, chance: Chance) -> Emission:
    last = chance.categorical(round.target_probs[:, 0, -1])
    B, L = round.rows, round.length
    return Emission(
        torch.cat([round.drafts[:, 0], last[:, None]], dim=1), torch.full((B,), L + 1), torch.zeros(B).long()
    )


def test_a_rule_that_accepts_more_than_any_lossless_one_is_noticed() -> None:
    """Its text is the draft's, on which the bound is large, and exceeded nevertheless; the e-value sees it too."""
    rule = Rule("accept-everything", accept_everything, max_drafts=1)
    found = compared(rule)
    assert found is not None
    assert found.measured == 3
    assert exceeds(found, 1e-6)
    report = monte_carlo(small_pair(), rule, PROMPTS, Settings(texts=400, tokens=12, length=3, enough=6.0))
    assert report.log10_e > 6
    assert "it accepts more than any lossless rule can" in report.reasons


def test_stateful_rules_are_compared_in_their_first_rounds() -> None:
    texts, greedy = 300, compared(RULES["greedy-block"], texts=300)
    assert greedy is not None
    assert greedy.rounds == texts
    block = compared(RULES["block"], texts=300)
    assert block is not None
    assert block.rounds > 2 * texts


def test_rounds_whose_text_ends_early_do_not_count() -> None:
    """Of texts of L tokens only the first rounds can be compared."""
    found = compared(RULES["token"], tokens=3, texts=300)
    assert found is not None
    assert found.rounds == 300


def test_nothing_is_compared_where_there_is_nothing() -> None:
    assert AcceptedRounds(RULES["token"], 1).compare() is None
    assert not exceeds(None, 0.5)


@pytest.mark.parametrize("name", [*ALONG_TEXT, "k-seq", "recursive-rejection"])
@pytest.mark.parametrize("temperature", [0.02, 1.0, 100.0])
def test_where_rejections_are_rare_or_certain_no_rule_is_rejected(name: str, temperature: float) -> None:
    """Then the differences of all texts are tiny, of one sign, and no measure of their own scatter."""
    for seed in range(4):
        asked = Settings(3, 3, 9, 150, Filters(temperature), batch=150, seed=seed, enough=1e9)
        found = monte_carlo(small_pair(), RULES[name], PROMPTS, asked).accepted
        assert not exceeds(found, 1e-4), found


@pytest.mark.slow
def test_the_bet_is_fair() -> None:
    """The e-value's mean is at most 1: of block verification, over many runs of few rounds."""
    asked = [Settings(1, 3, 6, 10, batch=10, seed=seed, enough=1e9) for seed in range(150)]
    found = [monte_carlo(small_pair(), RULES["block"], PROMPTS, each).accepted for each in asked]
    values = torch.tensor([10**one.log10_e for one in found if one is not None])
    assert len(values) == 150
    assert float(values.mean()) < 1 + 4 * float(values.std()) / 150**0.5
    assert float(values.std()) > 0


def test_texts_may_come_in_parts() -> None:
    reference, whole, parts = Reference(small_pair(), Filters()), *(AcceptedRounds(RULES["block"], 1) for _ in "ab")
    texts = decode(
        small_pair(),
        RULES["block"],
        PROMPTS * 40,
        tokens=8,
        length=3,
        generator=torch.Generator().manual_seed(2),
    )
    scored = reference.score(texts)
    whole.add(texts, scored.log_draft, scored.log_target)
    for rows in (slice(0, 50), slice(50, 120)):
        some = replace(
            texts,
            prompts=texts.prompts[rows],
            **{name: getattr(texts, name)[rows] for name in ("tokens", "source", "target_probs", "starts", "accepted")},
        )
        parts.add(some, scored.log_draft[rows], scored.log_target[rows])
    one, other = parts.compare(), whole.compare()
    assert one is not None
    assert other is not None
    assert vars(one) == pytest.approx(vars(other))
