"""A guess at the kind of fault, from the laws that it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spectr_verify.audit.verdict import Stage, Verdict
from spectr_verify.exact import first_tokens, total_variation
from toy_models.tables import Floats

ROUNDING = 1e-6
"""An error of this size has no law that a kind of fault could be told by."""

FIRST = {
    Stage.ACCEPTED_LENGTH: "over-acceptance: it accepts more than any lossless rule can",
    Stage.LATER_ROUNDS: "the first round is right, later ones are not: what a round leaves the next is lost or stale",
    Stage.EDGE_COINS: "a test that holds at zero, as u <= 0 does for u = 0, or a search that runs past the last token",
}
"""What is said of a fault that shows at this stage and no earlier."""


def diagnose(verdicts: Sequence[Verdict]) -> str | None:
    """One sentence on what kind of fault leaves such laws, ``None`` where none that is known fits, or several do.

    Args:
        verdicts: all that are biased; on small models many faults leave the same law, and only what fits everywhere
            is said. Those that show the fault later than others do are left aside.
    """
    stage = min((verdict.stage for verdict in verdicts), default=Stage.NONE)
    if stage is Stage.NONE or stage in FIRST:
        return FIRST.get(stage)
    earliest = [verdict for verdict in verdicts if verdict.stage is stage]
    if max(verdict.worst_error for verdict in earliest) <= ROUNDING:
        return None
    fitting = [set(_first_token(v) if stage is Stage.FIRST_TOKEN else _last_token(v)) for v in earliest]
    common = set.intersection(*fitting)
    if len(common) == 1:
        return common.pop()
    if any(verdict.impossible is not None for verdict in earliest):
        return "support violated: tokens come out that the target never writes"
    if all(verdict.exceeds_optimum for verdict in earliest):
        return FIRST[Stage.ACCEPTED_LENGTH]
    return None


def _first_token(verdict: Verdict) -> Iterator[str]:
    """The faults that leave this law of the first token; known with one draft alone."""
    if verdict.rule.used_drafts(verdict.instance.drafts) > 1:
        return
    produced, owed = verdict.round.first_token, first_tokens(verdict.round.target, verdict.round.vocab)
    for law, guess in _first_token_faults(verdict.instance.pair.draft.levels[0][0], owed):
        if total_variation(produced, law) <= verdict.tolerance:
            yield guess


def _first_token_faults(p: Floats, q: Floats) -> Iterator[tuple[Floats, str]]:
    """Laws of the first token under each fault: draft law p, target law q."""
    kept = np.minimum(p, q)
    rest, residual, best = 1 - kept.sum(), np.maximum(q - p, 0.0), np.eye(len(q))
    yield p, "the first token follows the draft: nothing is rejected, or what is rejected comes back"
    yield kept + rest * q, "the residual is not subtracted: the correction comes from the target instead of (q - p)+"
    yield kept + rest * p, "the correction comes from the draft instead of (q - p)+"
    yield kept + rest * best[q.argmax()], "the correction is the target's likeliest token instead of a sample"
    yield best[q.argmax()], "the first token is always the target's likeliest: nothing is sampled"
    greedy = p * best[q.argmax()]
    accepted_greedily = "a token is accepted if it is the target's likeliest, not with min(1, q/p)"
    yield greedy + (1 - greedy.sum()) * q, accepted_greedily
    if residual.sum() > 0:
        residual /= residual.sum()
        yield kept + rest * best[residual.argmax()], "the correction is the residual's likeliest token, not a sample"
        turned = p * np.minimum(1.0, np.divide(p, q, out=np.full_like(p, np.inf), where=q > 0))
        yield turned + (1 - turned.sum()) * residual, "the acceptance ratio is p/q instead of q/p"
        yield greedy + (1 - greedy.sum()) * residual, accepted_greedily
        swapped = np.maximum(p - q, 0.0) / np.maximum(p - q, 0.0).sum()
        yield turned + (1 - turned.sum()) * swapped, "draft and target are exchanged throughout"


def _last_token(verdict: Verdict) -> Iterator[str]:
    """The laws that the token after a wholly accepted block follows, of the wrong place or the wrong model."""
    pair, L, V = verdict.instance.pair, verdict.instance.length, verdict.instance.pair.vocab
    if len(verdict.round.emissions) != L + 1:
        return
    whole = verdict.round.emissions[L].reshape(-1, V)
    reached = np.flatnonzero(whole.sum(axis=1) > 1e-6)
    if not reached.size:
        return
    bonus = whole[reached] / whole[reached].sum(axis=1, keepdims=True)
    prefixes = [tuple(int(row) // V ** (L - 1 - i) % V for i in range(L)) for row in reached]
    # A probability that was divided by a small weight has lost as many digits.
    allowed = verdict.tolerance / float(whole[reached].sum(axis=1).min())

    def follows(laws: list[Floats]) -> bool:
        return float(np.abs(bonus - np.array(laws)).sum(axis=1).max()) / 2 <= allowed

    if follows([pair.target.law(prefix) for prefix in prefixes]):
        return
    if follows([pair.target.law(prefix[:-1]) for prefix in prefixes]):
        yield "the bonus token comes from the target's law of the position before"
    if follows([pair.draft.law(prefix) for prefix in prefixes]):
        yield "the bonus token comes from the draft"
