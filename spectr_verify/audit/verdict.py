"""The verdict on one rule and one pair: its exact law against the target's, its accepted length against the optimum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import torch

from spectr_verify.audit.instance import Instance
from spectr_verify.errors import InputError
from spectr_verify.exact import Limits, RoundLaw, TextLaw, first_tokens, round_law, text_law
from spectr_verify.replay import EdgeViolation, Verifier, edge_violation, replayed_laws
from spectr_verify.rules import Rule

Subject = Rule | Verifier
"""What can be judged: a rule, or anybody's function replayed."""

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
"""Largest total-variation error, and largest excess over the optimum, that rounding is held responsible for."""


class Stage(IntEnum):
    """Where a rule's fault shows first, from the plainest on."""

    FIRST_TOKEN = 0
    ONE_ROUND = 1
    LATER_ROUNDS = 2
    ACCEPTED_LENGTH = 3
    EDGE_COINS = 4
    NONE = 5


@dataclass(frozen=True, eq=False)
class Verdict:
    """What was found about one rule on one pair.

    Attributes:
        rule: what was judged.
        instance: what it was judged on.
        round: law of one round.
        text: law of several rounds, ``None`` when not run.
        dtype: number format of the laws that the rule saw.
        tolerance: largest error that counts as rounding.
        edge: what an extreme uniform led to, ``None`` if to nothing or where none was tried.
    """

    rule: Subject
    instance: Instance
    round: RoundLaw
    text: TextLaw | None
    dtype: torch.dtype
    tolerance: float
    edge: EdgeViolation | None = None

    @property
    def lossless(self) -> bool:
        """Whether nothing was found against the rule."""
        return self.stage is Stage.NONE

    @cached_property
    def exceeds_optimum(self) -> bool:
        """Whether it accepts more than any lossless rule of its class can: a proof of bias by itself."""
        if isinstance(self.rule, Verifier):
            one_round = len(self.round.emissions) <= self.instance.length + 1
            if not (one_round and self.rule.accepts_within):
                return False  # how much a lossless one could accept is not known
        used, accepted = self.rule.used_drafts(self.instance.drafts), self.round.expected_accepted
        if accepted <= self.instance.attained(self.rule.kind, used) + self.tolerance:
            return False  # a program need not be solved
        return accepted > self.instance.ceiling(self.rule.kind, used) + self.tolerance

    @cached_property
    def impossible(self) -> WrongText | None:
        """The shortest text that comes out and that the target never writes, the likeliest of those; else ``None``."""
        V, n = self.instance.pair.vocab, 1
        while V**n <= len(self.round.target):
            made, owed = (first_tokens(law, V**n) for law in (self.round.completed, self.round.target))
            worst = int(np.argmax(np.where(owed == 0, made, 0.0)))
            if owed[worst] == 0 and made[worst] > self.tolerance:
                return WrongText(_tokens(worst, n, V), float(made[worst]), 0.0)
            n += 1
        return None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the rule is biased, one sentence each; empty for a lossless rule."""
        found = []
        if self.round.tv_first_token > self.tolerance:
            found.append(f"its first token is {self.round.tv_first_token:.3g} from the target's law in total variation")
        if self.round.tv_round > self.tolerance:
            found.append(f"the text of one round is {self.round.tv_round:.3g} from the target's law in total variation")
        if self.text is not None and self.text.tv_text > self.tolerance:
            tokens, error = self.text.tokens, self.text.tv_text
            found.append(
                f"the first {tokens} tokens of a text are {error:.3g} from the target's law in total variation"
            )
        if self.exceeds_optimum:
            ceiling = self.instance.ceiling(self.rule.kind, self.rule.used_drafts(self.instance.drafts))
            found.append(
                f"it accepts {_apart(self.round.expected_accepted, ceiling)} tokens a round; no lossless "
                f"{self.rule.kind} rule can accept more than {_apart(ceiling, self.round.expected_accepted)}"
            )
        if self.impossible is not None:
            found.append(
                f"it emits {list(self.impossible.tokens)} with probability {self.impossible.produced:.3g}, which the "
                "target never does"
            )
        if self.edge is not None:
            found.append(str(self.edge))
        return tuple(found)

    @property
    def stage(self) -> Stage:
        """Where the fault shows first."""
        if self.round.tv_first_token > self.tolerance:
            return Stage.FIRST_TOKEN
        if self.round.tv_round > self.tolerance:
            return Stage.ONE_ROUND
        if self.text is not None and self.text.tv_text > self.tolerance:
            return Stage.LATER_ROUNDS
        if self.exceeds_optimum:
            return Stage.ACCEPTED_LENGTH
        return Stage.NONE if self.edge is None else Stage.EDGE_COINS

    @property
    def worst_error(self) -> float:
        """Largest total-variation error of the laws that were computed."""
        return max(self.round.tv_round, self.text.tv_text if self.text else 0.0)

    @property
    def share(self) -> float | None:
        """Accepted length as a share of the class's optimum; ``None`` where that is zero or too large to compute."""
        optimum = self.instance.optimum(self.rule.kind)
        if optimum is None or optimum.value <= 1e-12:
            return None
        return self.round.expected_accepted / optimum.value

    def to_json(self) -> dict[str, Any]:
        """One row of the schema ``spectr-verify/compare/1``; an optimum that is too large to compute is null."""
        stateless, stateful = self.instance.stateless, self.instance.stateful
        return {
            "pair": self.instance.pair.name,
            "vocab": self.instance.pair.vocab,
            "length": self.instance.length,
            "drafts": self.instance.drafts,
            "rule": self.rule.name,
            "class": self.rule.kind,
            "lossless": self.lossless,
            "tv_round": self.round.tv_round,
            "tv_first_token": self.round.tv_first_token,
            "tv_text": self.text.tv_text if self.text else None,
            "expected_accepted": self.round.expected_accepted,
            "optimum_stateless": stateless.value if stateless else None,
            "optimum_stateful": stateful.value if stateful else None,
            "level_bound": self.instance.closed["level_bound"],
            "claimed_bound": self.instance.closed["claimed_bound"],
            "total_weight": self.round.total,
            "worlds": self.round.worlds + (self.text.worlds if self.text else 0),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True)
class WrongText:
    """The shortest text whose probability is wrong, and of those the one that is furthest off.

    Attributes:
        tokens: the text.
        produced: its probability under the rule.
        target: its probability under the target.
    """

    tokens: tuple[int, ...]
    produced: float
    target: float


def judge(
    rule: Subject,
    instance: Instance,
    *,
    tokens: int | None = None,
    edges: bool = False,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    limits: Limits | None = None,
) -> Verdict:
    """Judge a rule on one pair.

    Args:
        rule: the rule, or a replayed function.
        instance: the pair with K and L; one object for all rules, so that they share its bounds.
        tokens: if given, also compare the law of the first ``tokens`` tokens, written over many rounds.
        edges: also try uniforms at the extreme values of their generators, if all else is right; replayed code only.
        dtype: number format of the laws that the rule sees.
        tolerance: largest error that counts as rounding; by default ``TOLERANCE`` of the number format, and that of
            float32 for replayed code that decides in float32 or less, whatever it was given.
        limits: how large the enumeration may get.

    Raises:
        InputError: no verdict; the message says why.
    """
    if dtype not in TOLERANCE:
        raise InputError(f"rules are judged in float64 or float32, not in {dtype}")
    allowed = TOLERANCE[dtype] if tolerance is None else tolerance
    if not 0 <= allowed < inf:
        raise InputError(f"the tolerance is {allowed}; it must be a number from 0 on")
    pair, K, L = instance.pair, instance.drafts, instance.length
    if isinstance(rule, Verifier):
        laws = replayed_laws(rule, pair, L, K, tokens, dtype=dtype, limits=limits)
        if tolerance is None and rule.seen.single:
            allowed = TOLERANCE[torch.float32]
        verdict = Verdict(rule, instance, *laws, dtype, allowed)
        if edges and verdict.lossless:
            return replace(verdict, edge=edge_violation(rule, pair, L, K, dtype=dtype))
        return verdict
    round = round_law(rule, pair, L, K, dtype=dtype, limits=limits)
    text = text_law(rule, pair, L, K, tokens, dtype=dtype, limits=limits) if tokens is not None else None
    return Verdict(rule, instance, round, text, dtype, allowed)


def wrong_text(verdict: Verdict) -> WrongText | None:
    """Where a biased law is wrong first: ``None`` if it is right everywhere (or only accepts too much)."""
    V = verdict.instance.pair.vocab
    one_round = (verdict.round.completed, verdict.round.target)
    laws = [one_round] if verdict.text is None else [one_round, (verdict.text.law, verdict.text.target)]
    for produced, target in laws:
        n = 1
        while V**n <= len(target):
            made, owed = first_tokens(produced, V**n), first_tokens(target, V**n)
            worst = int(np.argmax(np.abs(made - owed)))
            if np.abs(made - owed).sum() / 2 > verdict.tolerance:
                return WrongText(_tokens(worst, n, V), float(made[worst]), float(owed[worst]))
            n += 1
    return None


def _apart(value: float, other: float) -> str:
    """A number with as many digits as it takes to tell it from another."""
    return next(f"{value:.{n}g}" for n in range(6, 18) if n == 17 or f"{value:.{n}g}" != f"{other:.{n}g}")


def _tokens(index: int, count: int, V: int) -> tuple[int, ...]:
    """The text of a lexicographic index."""
    return tuple(index // V ** (count - 1 - i) % V for i in range(count))
