"""The most that any lossless rule can accept, as linear programs over *selection kernels*.

A selection kernel chooses one of the K drafts; P~(v) is then the probability that the chosen draft, the winner,
starts with v. Two theorems turn optimal verification into optimal selection:

*Stateful*, where a rule may hand a modified target to the rounds that follow: the optimum is the largest
sum over v of min(P~(v), Q(v)). No rule accepts more, for let the kernel choose a draft that agrees longest with the
text that the rule writes: acceptance is then the common prefix of two texts with laws P~ and Q. Greedy block
verification of the winner reaches it.

*Stateless*, where every round starts afresh with the plain target: the optimum is the largest sum over v of
D(v), with D(v) <= P~(v) and D(vc) <= D(v) q(c|v). No rule accepts more: text through v that was not accepted through
v goes on with plain q, so losslessness leaves D(v) q(c|v) for acceptance through vc, and the accepted prefix belongs
to some draft. Block verification of the winner reaches it.

Source of the two single-draft rules and of their optimality for K = 1: Sun et al. 2024 (arXiv 2403.10444).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from spectr_verify.bounds.problem import Problem, marginals, path_sums, require_fit, smallest_ratios
from spectr_verify.bounds.result import BoundResult, Floats
from spectr_verify.bounds.selection import DraftSets, flow_count
from spectr_verify.bounds.solve import MAX_VARIABLES, TOLERANCE, certified, maximise
from toy_models import ToyPair

Levels = Sequence[Floats]


def stateful_optimum(
    pair: ToyPair,
    length: int,
    drafts: int,
    *,
    max_variables: int = MAX_VARIABLES,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> BoundResult:
    """The largest mean accepted length of a lossless rule that may modify the target of later rounds.

    Args:
        pair: the models.
        length: L, tokens a draft.
        drafts: K, independent drafts a round.
        max_variables: refuse programs with more variables than this, before building them.
        tolerance: the largest gap to accept, in tokens a round.
        time_limit: seconds for HiGHS; ``None`` for no limit.

    Raises:
        BoundError: L or K is out of range, the program is too large, HiGHS does not reach optimality, or the
            two sides stay further apart than ``tolerance``.
    """
    problem = Problem.of(pair, length, drafts)
    return _solve(problem, _target_caps, stateful_value, stateful_upper, max_variables, tolerance, time_limit)


def stateless_optimum(
    pair: ToyPair,
    length: int,
    drafts: int,
    *,
    max_variables: int = MAX_VARIABLES,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> BoundResult:
    """The largest mean accepted length of a lossless rule whose every round starts with the plain target.

    Arguments and errors are those of ``stateful_optimum``.
    """
    problem = Problem.of(pair, length, drafts)
    return _solve(problem, _path_caps, stateless_value, stateless_upper, max_variables, tolerance, time_limit)


def variable_count(problem: Problem) -> int:
    """Variables of the selection program: flows, the winner's law over whole drafts, and the nodes."""
    support = int(np.count_nonzero(problem.draft[-1]))
    return flow_count(support, problem.drafts) + problem.draft[-1].size + problem.nodes


def stateful_value(problem: Problem, winner: Levels) -> float:
    """What greedy block verification of the winner accepts, from the levels of P~: the sum of min(P~(v), Q(v))."""
    return sum(float(np.minimum(p, q).sum()) for p, q in zip(winner, problem.target, strict=True))


def stateless_value(problem: Problem, winner: Levels) -> float:
    """What block verification of the winner accepts, from the levels of P~: the sum of Q(v) rho~(v)."""
    smallest = smallest_ratios(winner, problem.target, problem.vocab)
    return sum(float(q @ rho) for q, rho in zip(problem.target, smallest, strict=True))


def stateful_upper(problem: Problem, sets: DraftSets, prices: Levels) -> float:
    """Weak duality: an upper bound from any prices y_v, which are first brought into [0, 1].

    min(P~, Q) <= (1 - y) Q + y P~, and the sum of y_v P~(v) is largest where every set gives its weight to the
    member of dearest path.
    """
    prices = [np.clip(y, 0.0, 1.0) for y in prices]
    kept = sum(float((1 - y) @ q) for y, q in zip(prices, problem.target, strict=True))
    return kept + _dearest(problem, sets, prices)


def stateless_upper(problem: Problem, sets: DraftSets, prices: Levels) -> float:
    """Weak duality: an upper bound from any prices y_v, which are first made non-negative.

    Beyond y_v P~(v), the most that a falling rho can earn below v is g(v) = max(0, Q(v)(1 - y_v) + sum of g(vc)).
    """
    prices = [np.maximum(y, 0.0) for y in prices]
    earned = np.zeros_like(problem.target[-1])
    for y, q in zip(reversed(prices), reversed(problem.target), strict=True):
        gain = np.maximum(0.0, q * (1 - y) + earned)
        earned = gain.reshape(-1, problem.vocab).sum(axis=1)
    return float(earned.sum()) + _dearest(problem, sets, prices)


def _dearest(problem: Problem, sets: DraftSets, prices: Levels) -> float:
    """The mean price of the dearest draft in the round, a draft costing the sum of y_v along it."""
    return float(sets.weights @ sets.largest(path_sums(prices, problem.vocab)))


def _solve(
    problem: Problem,
    caps: Callable[[Problem, Any], list[Any]],
    value: Callable[[Problem, Levels], float],
    upper: Callable[[Problem, DraftSets, Levels], float],
    max_variables: int,
    tolerance: float,
    time_limit: float | None,
) -> BoundResult:
    """Maximise the accepted mass of the nodes, below the winner's law and below the caps of the class."""
    import cvxpy as cp
    import scipy.sparse as sp

    started = perf_counter()
    variables = require_fit(problem, "selection program", variable_count, max_variables)
    sets = DraftSets.of(problem.draft[-1], problem.drafts)
    flows = cp.Variable(sets.member.size, nonneg=True)
    winner = cp.Variable(problem.draft[-1].size)
    accepted = cp.Variable(problem.nodes, nonneg=True)
    ones, order = np.ones(sets.member.size), np.arange(sets.member.size)
    shared_out = sp.csr_array((ones, (sets.owner, order))) @ flows == sets.weights
    chosen = sp.csr_array((ones, (sets.member, order)), shape=(winner.size, flows.size)) @ flows == winner
    # The winner's law gets variables of its own: without them each flow stands in L rows, not in one.
    covered = accepted <= _prefix_sums(problem) @ winner
    constraints = [shared_out, chosen, covered, *caps(problem, accepted)]
    solved = maximise(problem, cp.sum(accepted), constraints, time_limit)
    prices = _levels(problem, covered.dual_value)
    law = np.bincount(sets.member, sets.kernel(flows.value), minlength=winner.size)
    result = BoundResult(
        value=value(problem, marginals(law, problem)),
        upper=upper(problem, sets, prices),
        status=solved.status,
        seconds=perf_counter() - started,
        solver_seconds=solved.seconds,
        variables=variables,
        duals=tuple(prices),
    )
    return certified(problem, result, tolerance)


def _target_caps(problem: Problem, accepted: Any) -> list[Any]:
    """Stateful: no node is accepted more often than the target writes it."""
    return [accepted <= np.concatenate(problem.target)]


def _path_caps(problem: Problem, accepted: Any) -> list[Any]:
    """Stateless: acceptance goes on to a child at most as often as plain q does."""
    steps = np.concatenate([level.ravel() for level in problem.pair.target.levels[: problem.length]])
    first, inner = problem.vocab, problem.nodes - problem.target[-1].size
    caps = [accepted[:first] <= steps[:first]]
    if inner:
        import scipy.sparse as sp

        child = np.arange(first, problem.nodes)
        parent = np.repeat(np.arange(inner), problem.vocab)
        onward = sp.csr_array((steps[first:], (child - first, parent)), shape=(child.size, inner))
        caps.append(accepted[first:] <= onward @ accepted[:inner])
    return caps


def _prefix_sums(problem: Problem) -> Any:
    """Sparse 0-1 matrix [nodes, V**L] that sums the mass of whole texts at every node."""
    import scipy.sparse as sp

    texts = problem.target[-1].size
    rows = [sp.kron(sp.eye_array(level.size), np.ones((1, texts // level.size))) for level in problem.target]
    return sp.csr_array(sp.vstack(rows))


def _levels(problem: Problem, nodes: Floats) -> list[Floats]:
    """Cut an array over all nodes into one array a level."""
    return np.split(nodes, np.cumsum([level.size for level in problem.target])[:-1])
