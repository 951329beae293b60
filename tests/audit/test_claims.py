"""The paper's claims: which hold, which do not."""

from __future__ import annotations

from spectr_verify.audit import judge_claims


def test_every_claim_gets_the_finding_that_is_known() -> None:
    findings = {(finding.claim, finding.rule): finding for finding in judge_claims()}
    verdicts = {key: finding.holds for key, finding in findings.items()}
    published, released, race = "spectr-gbv-published", "spectr-gbv-released", "block-race"
    one = "the text of one round follows the target"
    several = "the text of several rounds follows the target"
    formula = "E[tau] is C = sum of Q(v)(1 - (1 - r(v))^K)"
    grows = "E[tau] grows with K and tends to L"
    single = "with K = 1 it is greedy block verification"
    assert verdicts == {
        (one, published): False,
        (one, released): False,
        (one, race): True,
        (several, published): False,
        (several, released): False,
        (several, race): True,
        (formula, published): False,
        (formula, released): False,
        (formula, race): False,
        (grows, published): False,
        (grows, released): False,
        (grows, race): True,
        (single, published): True,
        (single, released): False,
        (single, race): False,
        ("C is the largest attainable E[tau]", "(formula)"): False,
    }
    for finding in findings.values():
        assert finding.evidence
        assert finding.instance
        assert finding.holds == (finding.number <= (1e-6 if finding.rule == "(formula)" else 1e-9))
