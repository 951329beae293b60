"""Verdicts on one pair."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from spectr_verify.audit import Instance, builtin_suite, judge, wrong_text
from spectr_verify.audit.verdict import Stage
from spectr_verify.bounds import BoundResult
from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules._path import emit
from toy_models import TableError, read_pairs
from toy_models.strategies import pairs

GBV_PAIR = '{"drafts": 2, "length": 1, "draft": [[["1/2", "1/2"]], [["1/2", "1/2"], ["1/2", "1/2"]]], \
"target": [[["1/3", "2/3"]], [["1/2", "1/2"], ["1/2", "1/2"]]]}'


def the(text: str) -> Instance:
    return Instance.of(read_pairs(text)[0])


def test_a_biased_rule_gets_its_reasons_and_its_wrong_text() -> None:
    """Worked by hand on the README's pair: the released rule gives token 0 the probability 49/162 instead of 1/3."""
    verdict = judge(RULES["spectr-gbv-released"], the(GBV_PAIR))
    assert not verdict.lossless
    assert verdict.stage is Stage.FIRST_TOKEN
    assert "first token" in verdict.reasons[0]
    wrong = wrong_text(verdict)
    assert wrong is not None
    assert (wrong.tokens, wrong.produced, wrong.target) == ((0,), pytest.approx(49 / 162), pytest.approx(1 / 3))


def test_a_lossless_rule_has_no_reasons_and_no_wrong_text() -> None:
    verdict = judge(RULES["block-race"], the(GBV_PAIR), tokens=3)
    assert verdict.lossless
    assert verdict.stage is Stage.NONE
    assert wrong_text(verdict) is None
    assert verdict.text is not None
    assert verdict.text.tokens == 3


def _accept_all(round: Round, chance: Chance) -> Emission:
    """Accepts the first draft whole: the text follows the draft model."""
    zero = torch.zeros(round.rows, dtype=torch.int64)
    whole = torch.full_like(zero, round.length)
    return emit(round, zero, whole, chance.categorical(round.target_probs[:, 0, -1]))


def test_a_token_that_the_target_never_writes_is_a_reason_of_its_own() -> None:
    verdict = judge(Rule("accept-all", _accept_all), the(GBV_PAIR.replace('"1/3", "2/3"', '"0", "1"')))
    assert not verdict.lossless
    assert any("with probability 0.5, which the target never does" in reason for reason in verdict.reasons)
    assert judge(RULES["block-race"], the(GBV_PAIR.replace('"1/3", "2/3"', '"0", "1"'))).impossible is None


def test_accepting_more_than_the_optimum_is_a_reason_of_its_own() -> None:
    verdict = judge(Rule("accept-all", _accept_all), the(GBV_PAIR.replace('"1/3", "2/3"', '"1/5", "4/5"')))
    assert any("no lossless stateless rule can accept more" in reason for reason in verdict.reasons)


@given(pair=pairs(max_vocab=2, max_length=2, max_drafts=2))
@settings(max_examples=15)
@pytest.mark.slow
def test_no_lossless_rule_is_said_to_exceed_the_optimum(pair) -> None:
    where = Instance.of(pair)
    for rule in RULES.values():
        if rule.lossless:
            assert judge(rule, where).lossless, rule.name


def test_single_draft_rules_are_measured_against_the_single_draft_optimum() -> None:
    """Greedy-block without its modification accepts more than block verification, the optimum of one draft; with
    K = 2 the two-draft optimum would hide that."""
    pair = read_pairs(
        '{"draft": [[["1/2", "1/2"]], [["1/2", "1/2"], ["1/2", "1/2"]], '
        '[["1/2", "1/2"], ["1/2", "1/2"], ["1/2", "1/2"], ["1/2", "1/2"]]], '
        '"target": [[["2/3", "1/3"]], [["1/3", "2/3"], ["1/2", "1/2"]], '
        '[["1/2", "1/2"], ["1/2", "1/2"], ["1/2", "1/2"], ["1/2", "1/2"]]]}'
    )[0]
    where = Instance.of(pair, drafts=2)
    rule = replace(RULES["greedy-block"], kind="stateless", modified_target=None)
    assert any("can accept more" in reason for reason in judge(rule, where).reasons)


def test_rows_have_the_schema_of_the_compare_command() -> None:
    row = judge(RULES["greedy-block"], the(GBV_PAIR)).to_json()
    assert json.loads(json.dumps(row)) == row
    assert {name: row[name] for name in ("vocab", "length", "drafts", "rule", "class", "lossless", "tv_text")} == {
        "vocab": 2,
        "length": 1,
        "drafts": 2,
        "rule": "greedy-block",
        "class": "stateful",
        "lossless": True,
        "tv_text": None,
    }
    for name in (
        "tv_round",
        "tv_first_token",
        "expected_accepted",
        "optimum_stateless",
        "optimum_stateful",
        "level_bound",
        "claimed_bound",
    ):
        assert isinstance(row[name], float), name


def test_rules_share_the_bounds_of_an_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def counting(pair, length: int, drafts: int) -> BoundResult:
        solved.append(pair.name)
        return BoundResult(1.0, 1.0, "optimal", 0.0, 0.0, 1, ())

    monkeypatch.setattr("spectr_verify.audit.instance.stateless_optimum", counting)
    where = the(GBV_PAIR)
    for name in ("block-race", "k-seq"):
        judge(RULES[name], where).to_json()
    assert len(solved) == 1


@pytest.mark.slow
def test_float32_is_judged_with_its_own_tolerance() -> None:
    for where in builtin_suite():
        verdict = judge(RULES["block-race"], where, dtype=torch.float32)
        assert verdict.lossless, where.pair.name
    assert not judge(RULES["block-race"], builtin_suite()[0], dtype=torch.float32, tolerance=1e-12).lossless


def test_pairs_that_state_their_size_keep_it() -> None:
    stated = read_pairs(GBV_PAIR)[0]
    assert (Instance.of(stated, drafts=5, length=7).drafts, Instance.of(stated, drafts=5, length=7).length) == (2, 1)
    free = replace(stated, drafts=None, length=None)
    assert (Instance.of(free, drafts=5).drafts, Instance.of(free).drafts, Instance.of(free).length) == (5, 2, 1)


def test_a_length_beyond_the_tables_is_refused() -> None:
    free = replace(read_pairs(GBV_PAIR)[0], length=None)
    with pytest.raises(TableError, match="length"):
        judge(RULES["block"], Instance.of(free, length=4))


def test_an_optimum_that_is_too_large_is_left_out_and_the_verdict_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectr_verify.bounds.optimum.MAX_VARIABLES", 1)
    monkeypatch.setattr("spectr_verify.bounds.optimum.variable_count", lambda problem: 10**9)
    where = the(GBV_PAIR.replace('"1/3", "2/3"', '"1/5", "4/5"'))
    row = judge(RULES["block-race"], where).to_json()
    assert row["lossless"]
    assert row["optimum_stateless"] is None
    assert judge(Rule("accept-all", _accept_all), where).exceeds_optimum
