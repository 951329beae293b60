"""What a Monte Carlo run found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from spectr_verify.decoding import Seconds
from spectr_verify.montecarlo.accepted import AcceptedLength, exceeds
from spectr_verify.montecarlo.first_token import FirstToken


@dataclass(frozen=True)
class EndToEnd:
    """The same test against the independent call, and how far the verifier's own call was from it.

    Attributes:
        log10_e: decimal logarithm of the e-value.
        worst_alternative: the law that explains the texts best.
        impossible: tokens that the independent call gives probability zero.
        numerical: mean total-variation distance of the two calls' laws of the next token, as the texts show it;
            ``None`` of a step, whose own call is not known.
        dtype: number format of the independent call.
        judged: whether the models that decoded compute in float32 or finer. Where they do not, in bfloat16 say, enough
            texts always show it, and nothing is rejected for that.
        edge: tokens that are left out, as rounding decides what a filter keeps or temperature 0 takes: nobody's fault.
        accepted: the accepted length against what the independent call's laws give; ``None`` where there is no round to
            compare, where rounding decides what a filter keeps of either model's law, and of models in coarser formats.
    """

    log10_e: float
    worst_alternative: str
    impossible: int
    numerical: float | None
    dtype: str
    judged: bool
    edge: int
    accepted: AcceptedLength | None


@dataclass(frozen=True)
class MonteCarloReport:
    """The evidence of one run.

    Attributes:
        rule: its name.
        alpha: probability at which each test rejects a lossless rule.
        log10_e: decimal logarithm of the e-value against "the text follows the target", with the target's laws of the
            very calls that the rule saw; infinite after an impossible token.
        worst_alternative: the law that explains the texts best.
        impossible: tokens that the target gave probability zero.
        by_alternative: decimal logarithm of the e-value of each alternative by itself.
        effect_upper_bound: largest share of the draft that the output may still hold, at confidence 1 - alpha; ``None``
            after an impossible token, and where the texts are no mixture of the target and the draft.
        end_to_end: the same against an independent call.
        first_token: the test of first tokens, against the laws that the rule saw.
        accepted: the accepted length against a closed form or a bound, by the laws that the rule saw; ``None`` where
            there is no round to compare.
        texts, tokens, rounds: how much was decoded.
        block_efficiency: tokens a round.
        acceptance_rate: share of the drafted positions that were accepted; ``None`` of a step.
        seconds: time in the draft model, which makes one step more a round than decoding needs, for the tests; in the
            target; and in the rule.
        scoring: seconds of the independent call and the tests.
        ended: why the run ended: "texts", "e-value", "seconds" or "interrupted".
        settings: what was asked for.
    """

    rule: str
    alpha: float
    log10_e: float
    worst_alternative: str
    impossible: int
    by_alternative: dict[str, float]
    effect_upper_bound: float | None
    end_to_end: EndToEnd
    first_token: FirstToken | None
    accepted: AcceptedLength | None
    texts: int
    tokens: int
    rounds: int
    block_efficiency: float
    acceptance_rate: float | None
    seconds: Seconds
    scoring: float
    ended: str
    settings: dict[str, Any]

    @property
    def threshold(self) -> float:
        """The decimal logarithm of the e-value that rejects."""
        return -math.log10(self.alpha)

    @property
    def reasons(self) -> list[str]:
        """Which tests of the rule itself reject, in words."""
        found = []
        if self.impossible:
            found.append(f"{self.impossible} tokens came out that the target gives probability zero")
        elif self.log10_e >= self.threshold:
            found.append(f"the text does not follow the target; the best alternative: {self.worst_alternative}")
        if self.first_token is not None and self.first_token.p <= self.alpha:
            found.append("the counts of first tokens do not fit the target's law")
        if self.accepted is not None and not self.accepted.exact and exceeds(self.accepted, self.alpha):
            found.append("it accepts more than any lossless rule can")
        return found

    @property
    def end_to_end_reasons(self) -> list[str]:
        """Which tests reject that take an independent call of both models for the truth, in words."""
        end, found = self.end_to_end, []
        if not end.judged:
            return []
        if end.impossible:
            found.append(f"{end.impossible} tokens came out that an independent call gives probability zero")
        elif end.log10_e >= self.threshold:
            found.append(
                f"the text does not follow an independent call's laws; the best alternative: {end.worst_alternative}"
            )
        accepted = self.compared_end_to_end
        if accepted is not None and exceeds(accepted, self.alpha):
            differs = "the accepted length is not that of the rule's closed form"
            more = "it accepts more than any lossless rule can by an independent call's laws"
            found.append(differs if accepted.exact else more)
        return found

    @property
    def compared_end_to_end(self) -> AcceptedLength | None:
        """The accepted length against a closed form by the independent call's laws, or else by those the rule saw."""
        own = self.accepted if self.accepted is not None and self.accepted.exact else None
        return self.end_to_end.accepted or own

    @property
    def lossless_rejected(self) -> bool:
        """Whether the rule is shown not to be lossless, the models' own numbers taken as exact."""
        return bool(self.reasons)

    @property
    def end_to_end_rejected(self) -> bool:
        """Whether the whole is shown not to do what it would with the independent call's laws."""
        return bool(self.end_to_end_reasons)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of text by the seconds of decoding."""
        spent = self.seconds.draft + self.seconds.target + self.seconds.verify
        return self.tokens / spent if spent > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """The report in the schema ``spectr-verify/mc/1``; an infinite e-value is null, with ``impossible`` above 0."""
        return {
            "rule": self.rule,
            "lossless_rejected": self.lossless_rejected,
            "reasons": self.reasons,
            "log10_e": _finite(self.log10_e),
            "alpha": self.alpha,
            "worst_alternative": self.worst_alternative,
            "impossible": self.impossible,
            "by_alternative": self.by_alternative,
            "effect_upper_bound": self.effect_upper_bound,
            "end_to_end": {
                "rejected": self.end_to_end_rejected,
                "reasons": self.end_to_end_reasons,
                "log10_e": _finite(self.end_to_end.log10_e),
                "worst_alternative": self.end_to_end.worst_alternative,
                "impossible": self.end_to_end.impossible,
                "numerical_total_variation": self.end_to_end.numerical,
                "dtype": self.end_to_end.dtype,
                "judged": self.end_to_end.judged,
                "edge": self.end_to_end.edge,
                "accepted_length": _values(self.end_to_end.accepted),
            },
            "first_token": _values(self.first_token),
            "accepted_length": _values(self.accepted),
            "texts": self.texts,
            "tokens": self.tokens,
            "rounds": self.rounds,
            "block_efficiency": self.block_efficiency,
            "acceptance_rate": self.acceptance_rate,
            "seconds": {**vars(self.seconds), "scoring": self.scoring},
            "tokens_per_second": self.tokens_per_second,
            "ended": self.ended,
            "settings": self.settings,
        }


def _values(found: FirstToken | AcceptedLength | None) -> dict[str, Any] | None:
    return None if found is None else vars(found)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
