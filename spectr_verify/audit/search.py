"""The audit of a rule: the built-in suite, then a search by Hypothesis for the smallest counterexample."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import hypothesis
import torch

from spectr_verify.audit.instance import Instance, builtin_suite, instance
from spectr_verify.audit.verdict import Verdict, WrongText, judge, wrong_text
from spectr_verify.chance import ChanceError
from spectr_verify.exact import Limits
from spectr_verify.rounds import EmissionError
from spectr_verify.rules import Rule
from toy_models import strategies

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
    """Judges pair after pair and remembers what it saw."""

    def __init__(self, rule: Rule, dtype: torch.dtype, tolerance: float | None, limits: Limits | None) -> None:
        self.rule, self.dtype, self.tolerance, self.limits = rule, dtype, tolerance, limits
        self.judged = 0
        self.worst_error = 0.0

    def __call__(self, where: Instance, tokens: int | None = None) -> Verdict:
        try:
            verdict = judge(
                self.rule,
                where,
                tokens=tokens,
                dtype=self.dtype,
                tolerance=self.tolerance,
                limits=self.limits,
            )
        except (EmissionError, ChanceError) as error:
            raise type(error)(f"{error}\n  on the pair {where.as_json()}") from error
        self.judged += 1
        self.worst_error = max(self.worst_error, verdict.worst_error)
        return verdict

    def over_rounds(self, where: Instance) -> Verdict:
        """A stateful rule's later rounds count as well; a stateless rule's one round decides."""
        return self(where, where.length + 2 if self.rule.kind == "stateful" else None)


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
    biased = None
    suite = builtin_suite(seed) if instances is None else instances
    for number, where in enumerate(suite):
        progress(f"pair {number + 1} of {len(suite)}: {where.pair.name}")
        verdict = look(where) if instances is None else look.over_rounds(where)
        biased = biased or (None if verdict.lossless else verdict)
    if instances is None:
        progress(f"searching {max_examples} drawn pairs")
        biased = _smallest(look, seed, max_examples) or biased
    wrong = None if biased is None else wrong_text(biased)
    return AuditReport(rule, look.judged, look.worst_error, biased, wrong, seed)


def _smallest(look: _Judge, seed: int, max_examples: int) -> Verdict | None:
    """The smallest biased pair that Hypothesis finds, judged anew."""
    settings = hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        pair = hypothesis.find(
            SMALL_PAIRS,
            lambda candidate: not look.over_rounds(instance(candidate)).lossless,
            settings=settings,
            random=random.Random(seed),
        )
    except hypothesis.errors.NoSuchExample:
        return None
    return look.over_rounds(instance(pair))
