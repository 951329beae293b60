"""Audits find what is wrong without being told where to look, and flag nothing that is right."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from costly import costly

from spectr_verify.audit import AuditReport, Instance, audit, judge
from spectr_verify.audit.verdict import Stage
from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, EmissionError, Round
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules.load import load_rule
from toy_models import read_pairs


def largest_denominator(report: AuditReport) -> int:
    assert report.counterexample is not None
    pair = report.counterexample.instance.pair
    assert pair.draft.fractions is not None
    assert pair.target.fractions is not None
    laws = [law for model in (pair.draft, pair.target) for level in model.fractions for law in level]
    return max(Fraction(p).denominator for law in laws for p in law)


@pytest.mark.parametrize("name", costly(name for name, rule in RULES.items() if rule.lossless))
def test_lossless_rules_are_cleared(name: str) -> None:
    report = audit(RULES[name], max_examples=30)
    assert report.lossless
    assert report.judged >= 26 + 10  # the suite, and drawn pairs, equal ones counted once
    assert report.worst_error <= 1e-12


@pytest.mark.parametrize("name", ["spectr-gbv-published", "spectr-gbv-released"])
def test_spectr_gbv_is_found_biased_on_its_first_token_with_two_drafts(name: str) -> None:
    report = audit(RULES[name])
    found = report.counterexample
    assert found is not None
    assert found.stage is Stage.FIRST_TOKEN
    assert (found.instance.pair.vocab, found.instance.length, found.instance.drafts) == (2, 1, 2)
    assert largest_denominator(report) <= 3
    assert report.wrong is not None
    assert len(report.wrong.tokens) == 1


def test_greedy_block_without_its_modification_is_found_biased_though_its_first_token_is_right() -> None:
    report = audit(load_rule("spectr_verify.rules.greedy_block:greedy_block"))
    found = report.counterexample
    assert found is not None
    assert found.stage is Stage.ONE_ROUND
    assert found.round.tv_first_token <= 1e-12
    assert report.wrong is not None
    assert len(report.wrong.tokens) == 2
    assert (found.instance.pair.vocab, found.instance.length, found.instance.drafts) == (2, 2, 1)


def test_a_rule_that_is_wrong_from_the_third_position_on_is_found() -> None:
    def forgetful(round: Round, chance: Chance) -> Emission:
        """Accepts the third token whatever it is, once the first two are."""
        emission = RULES["token"].verify(round, chance)
        if round.length < 3:
            return emission
        third = emission.length == 3
        tokens = emission.tokens.clone()
        tokens[third, 2] = round.drafts[third, 0, 2]
        return replace(emission, tokens=tokens)

    report = audit(Rule("forgetful", forgetful, max_drafts=1), max_examples=60)
    assert report.counterexample is not None
    assert report.counterexample.instance.length == 3


def test_best_of_k_is_found_biased() -> None:
    examples = Path(__file__).parent.parent.parent / "examples"
    report = audit(load_rule(f"{examples}/best_of_k.py:best_of_k"))
    assert report.counterexample is not None
    assert report.counterexample.instance.drafts == 2


@pytest.mark.slow
def test_the_examples_of_stateful_rules_are_what_they_say() -> None:
    examples = Path(__file__).parent.parent.parent / "examples"
    assert audit(load_rule(f"{examples}/stateful_rule.py:GREEDY"), max_examples=30).lossless
    forgetful = audit(load_rule(f"{examples}/stateful_rule.py:FORGETFUL"), max_examples=60).counterexample
    assert forgetful is not None
    assert forgetful.round.tv_first_token <= 1e-12


def test_typical_acceptance_is_found_biased_and_beyond_the_optimum() -> None:
    report = audit(RULES["typical"])
    assert report.counterexample is not None
    assert any("can accept more" in reason for reason in report.counterexample.reasons)


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    one, other = (audit(RULES["spectr-gbv-released"], seed=3, max_examples=40) for _ in range(2))
    assert one.counterexample is not None
    assert other.counterexample is not None
    assert one.counterexample.instance.as_json() == other.counterexample.instance.as_json()
    assert one.judged == other.judged


@pytest.mark.slow
def test_the_counterexample_as_json_gives_the_same_verdict() -> None:
    found = audit(RULES["spectr-gbv-released"], max_examples=40).counterexample
    assert found is not None
    again = judge(RULES["spectr-gbv-released"], Instance.of(read_pairs(found.instance.as_json())[0]))
    assert again.reasons == found.reasons


def test_given_instances_are_judged_alone() -> None:
    where = Instance.of(
        read_pairs(
            '{"draft": [[[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], "target": [[[0.25, 0.75]], [[0.5, 0.5], [0.5, 0.5]]]}'
        )[0]
    )
    report = audit(RULES["spectr-gbv-published"], instances=[where])
    assert report.judged == 1
    assert report.counterexample is not None
    assert report.counterexample.instance is where


LATER = """{"name": "later", "drafts": 2, "length": 1, "draft": [[["1/2", "1/2"]], [["1/2", "1/2"], ["1/2", "1/2"]]],
"target": [[["1/2", "1/2"]], [["1/3", "2/3"], ["1/3", "2/3"]]]}"""


def test_a_given_pair_is_judged_after_every_context() -> None:
    """The first round is right, the models being equal there; the second, after any token, is not."""
    where = Instance.of(read_pairs(LATER)[0])
    rule = RULES["spectr-gbv-released"]
    assert judge(rule, where).lossless
    report = audit(rule, instances=[where])
    assert report.counterexample is not None
    assert report.counterexample.stage is Stage.LATER_ROUNDS
    assert report.wrong is not None
    assert len(report.wrong.tokens) == 2
    assert audit(RULES["block-race"], instances=[where]).lossless


@pytest.mark.slow
def test_only_a_shrunk_counterexample_is_called_the_smallest() -> None:
    where = Instance.of(read_pairs(LATER)[0])
    assert not audit(RULES["spectr-gbv-released"], instances=[where]).shrunk
    assert audit(RULES["spectr-gbv-released"], max_examples=20).shrunk


def test_a_broken_rule_gets_no_verdict_but_the_pair_it_broke_on() -> None:
    def broken(round: Round, chance: Chance) -> Emission:
        B = round.rows
        return Emission(torch.full((B, round.length + 1), 7), torch.full((B,), 1), torch.full((B,), -1))

    with pytest.raises(EmissionError, match=r'vocabulary(.|\n)*on the pair \{"name"'):
        audit(Rule("broken", broken))


def test_a_rule_that_is_wrong_only_on_drawn_pairs_is_found() -> None:
    """Right on every built-in pair (K = 2): only the search, which draws other K, meets the fault."""

    def wrong_with_three(round: Round, chance: Chance) -> Emission:
        from spectr_verify.rules.block_race import block_race
        from spectr_verify.rules.spectr_gbv import spectr_gbv_released

        return (spectr_gbv_released if round.num_drafts == 3 else block_race)(round, chance)

    report = audit(Rule("wrong-with-three", wrong_with_three))
    assert report.counterexample is not None
    assert report.counterexample.instance.drafts == 3


def test_without_shrinking_the_audit_ends_at_the_first_counterexample() -> None:
    report = audit(RULES["spectr-gbv-released"], shrink=False)
    assert report.verdict == "biased"
    assert not report.shrunk
    assert report.judged < 10
    assert audit(RULES["token"], shrink=False, max_examples=5).judged == audit(RULES["token"], max_examples=5).judged
