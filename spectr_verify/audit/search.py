"""The audit of a rule: the built-in suite, then a search by Hypothesis for the smallest counterexample."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import hypothesis
import torch

from spectr_verify.audit.instance import Instance, builtin_suite
from spectr_verify.audit.verdict import Stage, Verdict, WrongText, judge, wrong_text
from spectr_verify.chance import ChanceError
from spectr_verify.exact import Limits
from spectr_verify.rounds import EmissionError
from spectr_verify.rules import Rule
from toy_models import ToyPair, strategies

Progress = Callable[[str], None]


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
        counterexample: the smallest biased verdict found, ``None`` if the rule was right everywhere.
        wrong: the text whose probability is wrong there.
        seed: the seed of the search.
    """

    rule: Rule
    judged: int
    worst_error: float
    counterexample: Verdict | None
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

    def __call__(self, where: Instance, *, later_rounds: bool) -> Verdict:
        """Judge one round; for a stateful rule, if asked, also text that needs a second one.

        A stateless rule's one round decides: rounds compose exactly if that law is right.
        """
        several = later_rounds and self.rule.kind == "stateful"
        try:
            verdict = judge(
                self.rule,
                where,
                tokens=where.length + 2 if several else None,
                dtype=self.dtype,
                tolerance=self.tolerance,
                limits=self.limits,
            )
        except (EmissionError, ChanceError) as error:
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
    seed: int = 0,
    max_examples: int = 200,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    limits: Limits | None = None,
    progress: Progress = lambda _: None,
) -> AuditReport:
    """Look for a pair on which the rule is biased, and for the smallest such pair.

    The built-in suite is judged first, then ``max_examples`` pairs drawn by Hypothesis. Where one is biased
    Hypothesis shrinks it: fewest tokens, shortest block, fewest drafts, smallest denominators.

    Args:
        rule: what to audit.
        instances: judge these and search no further.
        seed: of the families in the suite and of the search.
        max_examples: how many pairs Hypothesis draws.
        dtype, tolerance, limits: as ``judge``.
        progress: called with a line before every step that takes a while.

    Raises:
        EmissionError, ChanceError, LimitError, BoundError: no verdict; the message names the pair.
    """
    look = _Judge(rule, dtype, tolerance, limits)
    suite = builtin_suite(seed) if instances is None else instances
    for number, where in enumerate(suite):
        progress(f"pair {number + 1} of {len(suite)}: {where.pair.name}")
        look(where, later_rounds=instances is not None)
    if instances is None:
        progress(f"searching {max_examples} drawn pairs")
        _search(look, seed, max_examples)
    biased = look.earliest
    wrong = None if biased is None else wrong_text(biased)
    return AuditReport(rule, look.judged, look.worst_error, biased, wrong, seed)


def _search(look: _Judge, seed: int, max_examples: int) -> None:
    """Draw pairs; if any was biased, let Hypothesis find the smallest that is wrong as early in the text.

    A wrong first token is the plainest fault, so it is looked for first; when none turns up, the search is run again
    for the earliest fault that did.
    """
    smallest = _smallest(look, Stage.FIRST_TOKEN, seed, max_examples)
    if smallest is None and look.earliest is not None:
        smallest = _smallest(look, look.earliest.stage, seed, max_examples)
    look.earliest = smallest or look.earliest


def _smallest(look: _Judge, stage: Stage, seed: int, max_examples: int) -> Verdict | None:
    """The smallest drawn pair whose law is wrong at ``stage`` or earlier."""
    settings = hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    def wrong(pair: ToyPair) -> bool:
        return look(Instance.of(pair), later_rounds=True).stage <= stage

    try:
        found = hypothesis.find(SMALL_PAIRS, wrong, settings=settings, random=random.Random(seed))
    except hypothesis.errors.NoSuchExample:
        return None
    return look(Instance.of(found), later_rounds=True)
