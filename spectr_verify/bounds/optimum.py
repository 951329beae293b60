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
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from spectr_verify.bounds.problem import Problem, gather, marginals, path_sums, require_fit, smallest_ratios
from spectr_verify.bounds.result import BoundResult, Floats
from spectr_verify.bounds.selection import DraftSets, free_flow_count
from spectr_verify.bounds.solve import MAX_VARIABLES, TOLERANCE, certified, maximise, modelling
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
        TableError: L or K is out of range.
        BoundError: the program is too large, HiGHS does not reach optimality, or the two sides stay further apart
            than ``tolerance``.
    """
    return _solve(Problem.of(pair, length, drafts), _STATEFUL, max_variables, tolerance, time_limit)


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
    return _solve(Problem.of(pair, length, drafts), _STATELESS, max_variables, tolerance, time_limit)


def variable_count(problem: Problem) -> int:
    """Variables of the selection program: free flows, the winner's law over whole drafts, and the nodes."""
    support = int(np.count_nonzero(problem.draft[-1]))
    return free_flow_count(support, problem.drafts) + problem.draft[-1].size + problem.nodes


def stateful_value(problem: Problem, winner: Levels) -> float:
    """What greedy block verification of the winner accepts, from the levels of P~: the sum of min(P~(v), Q(v))."""
    return sum(float(np.minimum(p, q).sum()) for p, q in zip(winner, problem.target, strict=True))


def stateless_value(problem: Problem, winner: Levels) -> float:
    """What block verification of the winner accepts, from the levels of P~: the sum of Q(v) rho~(v)."""
    smallest = smallest_ratios(winner, problem.target, problem.vocab)
    return sum(float(q @ rho) for q, rho in zip(problem.target, smallest, strict=True))


def stateful_upper(problem: Problem, sets: DraftSets, prices: Levels) -> float:
    """Weak duality: an upper bound from any prices y_v in [0, 1], one array a level.

    min(P~, Q) <= (1 - y) Q + y P~, and the sum of y_v P~(v) is largest where every set gives its weight to the
    member of dearest path.
    """
    kept = sum(float((1 - y) @ q) for y, q in zip(prices, problem.target, strict=True))
    return kept + _dearest(problem, sets, prices)


def stateless_upper(problem: Problem, sets: DraftSets, prices: Levels) -> float:
    """Weak duality: an upper bound from any prices y_v >= 0, one array a level.

    Beyond y_v P~(v), the most that a falling rho can earn below v is g(v) = max(0, Q(v)(1 - y_v) + sum of g(vc)).
    """
    earned = np.zeros_like(problem.target[-1])
    for y, q in zip(reversed(prices), reversed(problem.target), strict=True):
        gain = np.maximum(0.0, q * (1 - y) + earned)
        earned = gain.reshape(-1, problem.vocab).sum(axis=1)
    return float(earned.sum()) + _dearest(problem, sets, prices)


def _dearest(problem: Problem, sets: DraftSets, prices: Levels) -> float:
    """The mean price of the dearest draft in the round, a draft costing the sum of y_v along it."""
    return float(sets.weights @ sets.largest(path_sums(prices, problem.vocab)))


@dataclass(frozen=True)
class _Class:
    """What sets the two classes of rules apart.

    Attributes:
        caps: constraints on the accepted mass of the nodes, beside the winner's law.
        value: what a lossless rule of the class accepts, from the levels of the winner's law.
        upper: an upper bound on the class, from prices of the nodes.
        dearest: the largest price that a node may have.
    """

    caps: Callable[[Problem, Any], list[Any]]
    value: Callable[[Problem, Levels], float]
    upper: Callable[[Problem, DraftSets, Levels], float]
    dearest: float


def _solve(
    problem: Problem, rules: _Class, max_variables: int, tolerance: float, time_limit: float | None
) -> BoundResult:
    """Maximise the accepted mass of the nodes, below the winner's law and below the caps of the class."""
    cp, started = modelling(), perf_counter()
    variables = require_fit(problem, "selection program", variable_count, max_variables)
    sets = DraftSets.of(problem.draft[-1], problem.target[-1], problem.drafts)
    flows = cp.Variable(sets.free.size, bounds=[0.0, sets.weights[sets.owner[sets.free]]])
    winner = cp.Variable(problem.draft[-1].size)
    accepted = cp.Variable(problem.nodes, nonneg=True)
    # The winner's law gets variables of its own: without them every flow would stand in the rows of 2L nodes.
    covered = accepted <= _prefix_sums(problem) @ winner
    constraints = [*_kernel(sets, flows, winner), covered, *rules.caps(problem, accepted)]
    solved = maximise(problem, cp.sum(accepted), constraints, time_limit)
    law = gather(sets.kernel(flows.value), sets.member, winner.size)
    prices = _levels(problem, np.clip(covered.dual_value, 0.0, rules.dearest))
    result = BoundResult(
        value=rules.value(problem, marginals(law, problem)),
        upper=rules.upper(problem, sets, prices),
        status=solved.status,
        seconds=perf_counter() - started,
        solver_seconds=solved.seconds,
        variables=variables,
        duals=tuple(prices),
    )
    return certified(problem, result, tolerance)


def _kernel(sets: DraftSets, flows: Any, winner: Any) -> list[Any]:
    """The winner's law under a selection kernel, from its free flows.

    The favourite of each set takes what the others leave. With a flow for the favourite as well, an equation for each
    set, and no upper bounds on the flows, the same programs take HiGHS a minute instead of a second at V = 4,
    L = 3, K = 3.
    """
    import scipy.sparse as sp

    owner, order = sets.owner[sets.free], np.arange(flows.size)
    favourite = sets.member[sets.starts]
    taken = sp.csr_array((np.ones(flows.size), (owner, order)), shape=(sets.starts.size, flows.size))
    gains = sp.csr_array((np.ones(flows.size), (sets.member[sets.free], order)), shape=(winner.size, flows.size))
    losses = sp.csr_array((np.ones(flows.size), (favourite[owner], order)), shape=(winner.size, flows.size))
    given = gather(sets.weights, favourite, winner.size)
    return [taken @ flows <= sets.weights, winner == given + (gains - losses) @ flows]


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


_STATEFUL = _Class(_target_caps, stateful_value, stateful_upper, dearest=1.0)
_STATELESS = _Class(_path_caps, stateless_value, stateless_upper, dearest=np.inf)
