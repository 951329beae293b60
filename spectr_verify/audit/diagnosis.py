"""A guess at the kind of fault, from the law that it leaves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spectr_verify.audit.verdict import Stage, Verdict
from spectr_verify.exact import first_tokens, total_variation
from toy_models.tables import Floats


def diagnose(verdict: Verdict) -> str | None:
    """One sentence on what kind of fault leaves such a law, ``None`` where it is none that is known."""
    if verdict.stage is Stage.NONE:
        return None
    if verdict.stage is Stage.EDGE_COINS:
        return "a test that holds at zero, as u <= 0 does for u = 0, or a search that runs past the last token"
    if verdict.stage is Stage.LATER_ROUNDS:
        return "the first round is right and later ones are not: what a round leaves to the next is lost or stale"
    guess = _first_token(verdict) or _last_token(verdict)
    if guess is not None:
        return guess
    if verdict.impossible is not None:
        return "support violated: tokens come out that the target never writes"
    if verdict.exceeds_optimum:
        return "over-acceptance: it accepts more than any lossless rule can"
    return None


def _first_token(verdict: Verdict) -> str | None:
    """What the first token's law would be under each fault, with one draft."""
    produced, owed = verdict.round.first_token, first_tokens(verdict.round.target, verdict.round.vocab)
    draft = verdict.instance.pair.draft.levels[0][0]
    if total_variation(produced, owed) <= verdict.tolerance:
        return None
    for law, guess in _first_token_faults(draft, owed):
        if total_variation(produced, law) <= verdict.tolerance:
            return guess
    return None


def _first_token_faults(p: Floats, q: Floats) -> Iterator[tuple[Floats, str]]:
    kept = np.minimum(p, q)
    rest, residual = 1 - kept.sum(), np.maximum(q - p, 0.0)
    yield p, "the first token follows the draft: nothing is rejected, or what is rejected comes back"
    yield kept + rest * q, "the residual is not subtracted: the correction comes from the target instead of (q - p)+"
    yield kept + rest * p, "the correction comes from the draft instead of (q - p)+"
    yield kept + rest * np.eye(len(q))[q.argmax()], "the correction is the target's likeliest token instead of a sample"
    if residual.sum() > 0:
        best = np.eye(len(q))[residual.argmax()]
        yield kept + rest * best, "the correction is the residual's likeliest token instead of a sample"
        turned = p * np.minimum(1.0, np.divide(p, q, out=np.full_like(p, np.inf), where=q > 0))
        yield turned + (1 - turned.sum()) * residual / residual.sum(), "the acceptance ratio is p/q instead of q/p"
    greedy = p * (np.arange(len(q)) == q.argmax())
    yield greedy + (1 - greedy.sum()) * q, "a token is accepted if it is the target's likeliest, not with min(1, q/p)"
    yield np.eye(len(q))[q.argmax()], "the first token is always the target's likeliest: nothing is sampled"


def _last_token(verdict: Verdict) -> str | None:
    """The law of the token after a whole accepted block, against the laws of the wrong place and the wrong model."""
    pair, L, V = verdict.instance.pair, verdict.instance.length, verdict.instance.pair.vocab
    if len(verdict.round.emissions) != L + 1 or verdict.stage is not Stage.ONE_ROUND:
        return None
    whole = verdict.round.emissions[L].reshape(-1, V)
    reached = np.flatnonzero(whole.sum(axis=1) > 1e-6)
    if not reached.size:
        return None
    bonus = whole[reached] / whole[reached].sum(axis=1, keepdims=True)
    prefixes = [tuple(int(row) // V ** (L - 1 - i) % V for i in range(L)) for row in reached]
    # A probability that was divided by a small weight has lost as many digits.
    allowed = verdict.tolerance / float(whole[reached].sum(axis=1).min())

    def follows(laws: list[Floats]) -> bool:
        return float(np.abs(bonus - np.array(laws)).sum(axis=1).max()) / 2 <= allowed

    if follows([pair.target.law(prefix) for prefix in prefixes]):
        return None
    if follows([pair.target.law(prefix[:-1]) for prefix in prefixes]):
        return "the bonus token comes from the target's law of the position before"
    if follows([pair.draft.law(prefix) for prefix in prefixes]):
        return "the bonus token comes from the draft"
    return "the token after a wholly accepted block does not follow the target"
