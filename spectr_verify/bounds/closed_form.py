"""Mean accepted tokens a round in closed form: what rules reach, and what no lossless rule can exceed.

Each function sums over the nodes of the tree of texts: P(v) and Q(v) are the probabilities that the draft and the
target model give to the text v, r(v) = min(P(v)/Q(v), 1), and rho(v) is the smallest r over the prefixes of v.
Every function raises ``TableError`` when L or K is out of range.
"""

from __future__ import annotations

import numpy as np

from spectr_verify.bounds.problem import Problem, ratios, smallest_ratios
from spectr_verify.bounds.result import Floats
from toy_models import ToyPair


def token(pair: ToyPair, length: int) -> float:
    """Token verification of one draft: the sum over v of the product along v of min(p, q).

    Source: Leviathan et al. 2023 (arXiv 2211.17192), Chen et al. 2023 (arXiv 2302.01318).
    """
    problem = Problem.of(pair, length)
    reached, total = np.ones(1), 0.0
    for p, q in zip(pair.draft.levels[: problem.length], pair.target.levels[: problem.length], strict=True):
        reached = (reached[:, None] * np.minimum(p, q)).ravel()
        total += float(reached.sum())
    return total


def block(pair: ToyPair, length: int) -> float:
    """Block verification of one draft: the sum of Q(v) rho(v), the stateless optimum for K = 1.

    Source: Sun et al. 2024 (arXiv 2403.10444).
    """
    problem = Problem.of(pair, length)
    return _weighted(problem, smallest_ratios(problem.draft, problem.target, problem.vocab))


def greedy_block(pair: ToyPair, length: int) -> float:
    """Greedy block verification of one draft: the sum of min(P(v), Q(v)), the stateful optimum for K = 1.

    Source: Sun et al. 2024 (arXiv 2403.10444), appendix.
    """
    problem = Problem.of(pair, length)
    return sum(float(np.minimum(p, q).sum()) for p, q in zip(problem.draft, problem.target, strict=True))


def block_race(pair: ToyPair, length: int, drafts: int) -> float:
    """Block race over K drafts: the sum of Q(v) (1 - (1 - rho(v))^K).

    Each draft is block-verified by itself, and its emission gets a score that is uniform given the text it would
    complete to; the smallest of K independent scores lies below rho(v) with probability 1 - (1 - rho(v))^K.
    """
    problem = Problem.of(pair, length, drafts)
    smallest = smallest_ratios(problem.draft, problem.target, problem.vocab)
    return _weighted(problem, [any_of(rho, drafts) for rho in smallest])


def claimed_bound(pair: ToyPair, length: int, drafts: int) -> float:
    """The value that SpecTr-GBV claims as its optimum: the sum of Q(v) (1 - (1 - r(v))^K).

    A lossless rule that hands on a modified target can reach it, and for K >= 2 some accept more.
    Source: Lin et al. 2026 (arXiv 2604.25925).
    """
    problem = Problem.of(pair, length, drafts)
    return _weighted(problem, [any_of(r, drafts) for r in ratios(problem.draft, problem.target)])


def level_bound(pair: ToyPair, length: int, drafts: int) -> float:
    """Upper bound on every lossless rule: the optimum of each level by itself, summed.

    Level i gives the least, over its sets A of texts, of Q(A) + 1 - P(A)^K: text in A may always be accepted, other
    text only where a draft left A. The least is reached on a set of smallest Q/P, so one sort finds it.
    For L = 1 it is the optimum of both classes.
    """
    problem = Problem.of(pair, length, drafts)
    return sum(_level(p, q, drafts) for p, q in zip(problem.draft, problem.target, strict=True))


def relaxed_bound(pair: ToyPair, length: int, drafts: int) -> float:
    """Upper bound with every node capped by itself: the sum of min(Q(v), 1 - (1 - P(v))^K).

    Text v is accepted only where the target writes it and a draft shows it.
    """
    problem = Problem.of(pair, length, drafts)
    shown = (any_of(p, drafts) for p in problem.draft)
    return sum(float(np.minimum(s, q).sum()) for s, q in zip(shown, problem.target, strict=True))


def closed_forms(pair: ToyPair, length: int, drafts: int) -> dict[str, float]:
    """All closed forms by name; ``token``, ``block`` and ``greedy_block`` are those of one draft."""
    one = {form.__name__: form(pair, length) for form in (token, block, greedy_block)}
    many = (block_race, claimed_bound, level_bound, relaxed_bound)
    return one | {form.__name__: form(pair, length, drafts) for form in many}


def any_of(probability: Floats, drafts: int) -> Floats:
    """1 - (1 - x)^K, to full relative precision however small x is."""
    with np.errstate(divide="ignore"):  # log1p(-1) is -inf, and the answer 1
        found: Floats = -np.expm1(drafts * np.log1p(-np.minimum(probability, 1.0)))
    return found


def _weighted(problem: Problem, accepted: list[Floats]) -> float:
    """The sum over nodes of Q(v) times the chance that v is accepted where the text runs through it."""
    return sum(float(q @ share) for q, share in zip(problem.target, accepted, strict=True))


def _level(draft: Floats, target: Floats, drafts: int) -> float:
    """The least of Q(A) + 1 - P(A)^K over the sets A of one level."""
    with np.errstate(over="ignore"):
        order = np.argsort(np.divide(target, draft, out=np.full_like(target, np.inf), where=draft > 0))
    inside = np.concatenate([[0.0], np.cumsum(target[order])])
    # Summed from the far end: 1 - P(A) would lose a small complement, or leave one where there is none.
    outside = np.concatenate([np.cumsum(draft[order][::-1])[::-1], [0.0]])
    return float(np.min(inside + any_of(outside, drafts)))
