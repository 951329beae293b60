"""The claims of the SpecTr-GBV paper (Lin et al. 2026), each put to a test that can fail.

Every claim is judged for the rule as published, the rule as released, and the block race, on exact laws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from spectr_verify import bounds
from spectr_verify.audit.instance import Instance, builtin_suite
from spectr_verify.audit.progress import Progress
from spectr_verify.audit.verdict import TOLERANCE
from spectr_verify.exact import round_law, text_law, total_variation
from spectr_verify.rules import RULES, Rule
from toy_models import FAMILIES, family_pairs

ON_TRIAL = ("spectr-gbv-published", "spectr-gbv-released", "block-race")
MOST_DRAFTS = 5


@dataclass(frozen=True)
class Finding:
    """One claim about one rule.

    Attributes:
        claim: the claim in one sentence.
        rule: the rule it was tested on, or "(formula)" where it is about the formula alone.
        holds: whether it held on every instance.
        evidence: what was measured.
        instance: the pair that the number comes from: the worst one.
        number: by how much the claim is missed there; rounding where it holds.
    """

    claim: str
    rule: str
    holds: bool
    evidence: str
    instance: str
    number: float


Test = Callable[[Rule, list[Instance]], Finding]


def judge_claims(seed: int = 0, progress: Progress = lambda _: None) -> list[Finding]:
    """Judge every claim. ``seed`` draws the family instances."""
    suite = builtin_suite(seed)
    families = suite[: len(FAMILIES)]
    # C tends to L only where the draft can show whatever the target says.
    growing = [Instance(pair, 1, 1) for pair in family_pairs(seed, 2, 1) if (pair.draft.levels[0] > 0).all()]
    tests: tuple[tuple[Test, list[Instance]], ...] = (
        (_one_round, suite),
        (_several_rounds, families),
        (_formula, suite),
        (_grows, growing),
        (_single_draft, [replace(where, drafts=1) for where in families]),
    )
    findings = []
    for test, instances in tests:
        for name in ON_TRIAL:
            progress(f"{test.__name__.strip('_').replace('_', ' ')}: {name}")
            findings.append(test(RULES[name], instances))
    progress("the formula against the optimum")
    return [*findings, _largest(suite)]


def _one_round(rule: Rule, instances: list[Instance]) -> Finding:
    errors = [round_law(rule, at.pair, at.length, at.drafts).tv_round for at in instances]
    return _error_finding("the text of one round follows the target", rule, instances, errors)


def _several_rounds(rule: Rule, instances: list[Instance]) -> Finding:
    errors = [text_law(rule, at.pair, at.length, at.drafts, at.length + 2).tv_text for at in instances]
    return _error_finding("the text of several rounds follows the target", rule, instances, errors)


def _error_finding(claim: str, rule: Rule, instances: list[Instance], errors: list[float]) -> Finding:
    biased = sum(error > TOLERANCE[torch.float64] for error in errors)
    evidence = f"biased on {biased} of {len(instances)} pairs, total variation up to {max(errors):.2g}"
    return _finding(claim, rule.name, instances, errors, lambda worst: evidence)


def _formula(rule: Rule, instances: list[Instance]) -> Finding:
    accepted = [round_law(rule, at.pair, at.length, at.drafts).expected_accepted for at in instances]
    claimed = [at.closed["claimed_bound"] for at in instances]
    return _finding(
        "E[tau] is C = sum of Q(v)(1 - (1 - r(v))^K)",
        rule.name,
        instances,
        [abs(a - c) for a, c in zip(accepted, claimed, strict=True)],
        lambda worst: f"E[tau] is {accepted[worst]:.4g} where C is {claimed[worst]:.4g}",
    )


def _grows(rule: Rule, instances: list[Instance]) -> Finding:
    """Both halves at once: E[tau] must never fall, and must reach C at the largest K that is enumerated.

    C tends to L on these pairs, so a rule that keeps up with C does; one that stays below might still, which nothing
    on trial does.
    """
    lags, series = [], []
    for at in instances:
        accepted = [round_law(rule, at.pair, 1, K).expected_accepted for K in range(1, MOST_DRAFTS + 1)]
        falls = max(before - after for before, after in pairwise(accepted))
        behind = bounds.claimed_bound(at.pair, 1, MOST_DRAFTS) - accepted[-1]
        lags.append(max(falls, behind))
        series.append(", ".join(f"{value:.3g}" for value in accepted))
    return _finding(
        "E[tau] grows with K and tends to L",
        rule.name,
        instances,
        lags,
        lambda worst: f"E[tau] for K = 1 to {MOST_DRAFTS} is {series[worst]}; L = 1",
    )


def _single_draft(rule: Rule, instances: list[Instance]) -> Finding:
    emitted, written = [], []
    for at in instances:
        ours, greedy = (round_law(one, at.pair, at.length, 1) for one in (rule, RULES["greedy-block"]))
        emitted.append(sum(total_variation(a, b) for a, b in zip(ours.emissions, greedy.emissions, strict=True)))
        texts = (text_law(one, at.pair, at.length, 1, at.length + 2).law for one in (rule, RULES["greedy-block"]))
        written.append(total_variation(*texts))
    return _finding(
        "with K = 1 it is greedy block verification",
        rule.name,
        instances,
        [max(distances) for distances in zip(emitted, written, strict=True)],
        lambda worst: (
            f"total variation from greedy-block: {emitted[worst]:.2g} in what a round emits, "
            f"{written[worst]:.2g} in the text of several rounds"
        ),
    )


def _largest(instances: list[Instance]) -> Finding:
    optima = [bounds.stateful_optimum(at.pair, at.length, at.drafts).value for at in instances]
    claimed = [at.closed["claimed_bound"] for at in instances]
    beyond = [optimum - c for optimum, c in zip(optima, claimed, strict=True)]
    above = sum(excess > bounds.TOLERANCE for excess in beyond)
    return _finding(
        "C is the largest attainable E[tau]",
        "(formula)",
        instances,
        beyond,
        lambda worst: (
            f"the optimum is above C on {above} of {len(instances)} pairs, "
            f"here {optima[worst]:.4g} against {claimed[worst]:.4g}"
        ),
        tolerance=bounds.TOLERANCE,
    )


def _finding(
    claim: str,
    rule: str,
    instances: list[Instance],
    errors: list[float],
    evidence: Callable[[int], str],
    tolerance: float = TOLERANCE[torch.float64],
) -> Finding:
    worst = max(range(len(errors)), key=errors.__getitem__)
    return Finding(claim, rule, errors[worst] <= tolerance, evidence(worst), instances[worst].pair.name, errors[worst])
