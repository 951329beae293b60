"""The audit of a rule: the built-in suite, then a search by Hypothesis for the smallest counterexample."""

from __future__ import annotations

import random
from dataclasses import dataclass

import hypothesis
import torch

from spectr_verify.audit.instance import Instance, builtin_suite
from spectr_verify.audit.progress import Progress
from spectr_verify.audit.verdict import Stage, Verdict, WrongText, judge, wrong_text
from spectr_verify.errors import InputError
from spectr_verify.exact import Limits
from spectr_verify.rules import Rule
from toy_models import ToyPair, strategies

SMALL_PAIRS = (
    strategies.pairs(max_vocab=3, max_length=2, max_drafts=2)
    | strategies.pairs(max_vocab=2, max_length=2, max_drafts=3)
    | strategies.pairs(max_vocab=4, max_length=1, max_drafts=2)
)
"""What Hypothesis draws from: small enough for hundreds of exact laws in seconds."""


@dataclass(frozen=True, eq=False)
class AuditReport:
    """The outcome of an audit.

    Attributes:
        rule: what was audited.
        judged: how many pairs a verdict was reached on.
        worst_error: largest total-variation error met.
        counterexample: a biased verdict, ``None`` if the rule was right everywhere.
        shrunk: whether that is the smallest one that Hypothesis could find.
        wrong: the text whose probability is wrong there.
        seed: the seed of the search.
    """

    rule: Rule
    judged: int
    worst_error: float
    counterexample: Verdict | None
    shrunk: bool
    wrong: WrongText | None
    seed: int

    @property
    def lossless(self) -> bool:
        """Whether no fault was found."""
        return self.counterexample is None


class _Judge:
    """Judges instance after instance and remembers what it saw."""

    def __init__(self, rule: Rule, dtype: torch.dtype, tolerance: float | None, limits: Limits | None) -> None:
        self.rule, self.dtype, self.tolerance, self.limits = rule, dtype, tolerance, limits
        self.judged = 0
        self.worst_error = 0.0
        self.earliest: Verdict | None = None

    def __call__(self, where: Instance, tokens: int | None = None) -> Verdict:
        """Judge one round, and if asked the law of the first ``tokens`` tokens."""
        try:
            verdict = judge(
                self.rule,
                where,
                tokens=tokens,
                dtype=self.dtype,
                tolerance=self.tolerance,
                limits=self.limits,
            )
        except InputError as error:  # no verdict: the pair is what it takes to see the same again
            raise type(error)(f"{error}\n  on the pair {where.as_json()}") from error
        self.judged += 1
        self.worst_error = max(self.worst_error, verdict.worst_error)
        if not verdict.lossless and (self.earliest is None or verdict.stage < self.earliest.stage):
            self.earliest = verdict
        return verdict


def audit(
    rule: Rule,
    *,
    instances: list[Instance] | None = None,
    tokens: int | None = None,
    seed: int = 0,
    max_examples: int = 200,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    limits: Limits | None = None,
    progress: Progress = lambda _: None,
) -> AuditReport:
    """Look for a pair on which the rule is biased, and for the smallest such pair.

    ``max_examples`` pairs are drawn by Hypothesis, which shrinks a biased one: fewest tokens, shortest block, fewest
    drafts, smallest denominators. Then the built-in suite is judged. Every pair stands for its first round; for a
    stateful rule the drawn pairs also for L + 2 tokens of text, so that modified targets are used and nest.

    Args:
        rule: what to audit.
        instances: judge these and search no further, each over text that has a round after every context.
        tokens: with ``instances``: the length of that text instead.
        seed: of the search and of the families in the suite.
        max_examples: how many pairs Hypothesis draws.
        dtype, tolerance, limits: as ``judge``.
        progress: called with a line before every step that takes a while.

    Raises:
        InputError: no verdict; the message names the pair.
    """
    look = _Judge(rule, dtype, tolerance, limits)
    shrunk = None
    if instances is None:
        progress(f"searching {max_examples} drawn pairs")
        shrunk = _search(look, seed, max_examples)
    suite = builtin_suite(seed) if instances is None else instances
    for number, where in enumerate(suite):
        progress(f"pair {number + 1} of {len(suite)}: {where.pair.name}")
        look(where, None if instances is None else tokens or where.tokens_of_every_round)
    biased = shrunk or look.earliest
    wrong = None if biased is None else wrong_text(biased)
    return AuditReport(rule, look.judged, look.worst_error, biased, shrunk is not None, wrong, seed)


def _search(look: _Judge, seed: int, max_examples: int) -> Verdict | None:
    """Draw pairs; if any was biased, let Hypothesis find the smallest that is wrong as early in the text.

    A wrong first token is the plainest fault, so it is looked for first; when none turns up, the search is run again
    for the earliest fault that did.
    """
    smallest = _smallest(look, Stage.FIRST_TOKEN, seed, max_examples)
    if smallest is None and look.earliest is not None:
        smallest = _smallest(look, look.earliest.stage, seed, max_examples) or look.earliest
    return smallest


def _smallest(look: _Judge, stage: Stage, seed: int, max_examples: int) -> Verdict | None:
    """The smallest drawn pair whose law is wrong at ``stage`` or earlier."""
    settings = hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    def verdict(pair: ToyPair) -> Verdict:
        where = Instance.of(pair)
        return look(where, where.length + 2 if look.rule.kind == "stateful" else None)

    def wrong(pair: ToyPair) -> bool:
        return verdict(pair).stage <= stage

    try:
        found = hypothesis.find(SMALL_PAIRS, wrong, settings=settings, random=random.Random(seed))
    except hypothesis.errors.NoSuchExample:
        return None
    return verdict(found)
