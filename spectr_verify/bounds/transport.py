"""Optimal verification written out in full, as a cross-check of the selection programs on small instances.

Nothing here uses the theorems that turn verification into selection, nor the sets of distinct drafts that stand
in for the multisets there: these programs follow from the definitions of the two classes alone. They have
V**L times as many variables, so they serve only where V, L and K are small.

*Stateful*: a coupling of the draft multiset T with a block Y of L tokens from the target; the payoff is the
longest prefix of Y that T shows. A modified target can continue any such coupling without bias, so this is the
whole class. Compare Sun et al. 2023 (arXiv 2310.15141), where the problem is posed for one token.

*Stateless*: a law pi(T, u) of the emission u, an accepted prefix of a draft in T and one token more, such that the
text of L + 1 tokens follows the target when plain q completes every emission. The payoff is |u| - 1, also where T
shows all of u: the last token of an emission is written, not accepted, and a rule that accepts it as well
emits one token more, which is another u. So every emission has one payoff, and a round emits payoff + 1 tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectr_verify.bounds.problem import Problem, gather, marginals, require_fit
from spectr_verify.bounds.result import BoundResult, Floats
from spectr_verify.bounds.selection import Indices
from spectr_verify.bounds.solve import MAX_VARIABLES, TOLERANCE, certified, maximise, modelling
from toy_models import ToyPair


def stateful_transport(
    pair: ToyPair,
    length: int,
    drafts: int,
    *,
    max_variables: int = MAX_VARIABLES,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> BoundResult:
    """The stateful optimum from the coupling of draft multisets with target blocks.

    Arguments and errors are those of ``stateful_optimum``.
    """
    cp, started = modelling(), perf_counter()
    problem = Problem.of(pair, length, drafts)
    variables = require_fit(problem, "stateful transport program", _coupling_count, max_variables)
    multisets, weights = _multisets(problem)
    texts = np.flatnonzero(problem.target[-1])
    text_law = problem.target[-1][texts]
    payoff = _agreement(problem, texts)[multisets].max(axis=1)
    coupling = cp.Variable(payoff.shape, nonneg=True)
    # No payoff is negative, so mass that the two inequalities leave over can be coupled in any way.
    from_texts = cp.sum(coupling, axis=0) <= text_law
    constraints = [cp.sum(coupling, axis=1) <= weights, from_texts]
    solved = maximise(problem, cp.sum(cp.multiply(payoff, coupling)), constraints, time_limit)
    prices = from_texts.dual_value
    result = BoundResult(
        value=float(np.sum(payoff * _sub_coupling(coupling.value, weights, text_law))),
        upper=float(text_law @ prices + weights @ np.max(payoff - prices, axis=1)),
        status=solved.status,
        seconds=perf_counter() - started,
        solver_seconds=solved.seconds,
        variables=variables,
        duals=(prices,),
    )
    return certified(problem, result, tolerance)


def stateless_transport(
    pair: ToyPair,
    length: int,
    drafts: int,
    *,
    max_variables: int = MAX_VARIABLES,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> BoundResult:
    """The stateless optimum from the laws of emissions that leave the text of L + 1 tokens lossless.

    Arguments and errors are those of ``stateful_optimum``.
    """
    import scipy.sparse as sp

    cp, started = modelling(), perf_counter()
    problem = Problem.of(pair, length, drafts)
    variables = require_fit(problem, "stateless transport program", _emission_count, max_variables)
    multisets, weights = _multisets(problem)
    space = _Emissions.of(problem, multisets)
    masses = cp.Variable(space.owner.size, nonneg=True)
    # The law of the emission u in units of Q(u): the sum over the beginnings of a text is 1, however rare the text.
    stops = cp.Variable(space.chance.size, nonneg=True)
    owned, law = (
        sp.csr_array((np.ones(place.size), (place, np.arange(place.size))), shape=(size, place.size)) @ masses
        for place, size in ((space.owner, weights.size), (space.emission, space.chance.size))
    )
    longer = space.payoff > 0
    lossless = space.begins @ stops == 1
    shared_out = owned <= weights
    constraints = [shared_out, lossless, law[longer] == cp.multiply(space.chance[longer], stops[longer])]
    solved = maximise(problem, space.payoff @ law, constraints, time_limit)
    prices = space.raised(lossless.dual_value / space.texts, shared_out.dual_value)
    result = BoundResult(
        value=_lossless_part(problem, space.levels(_within(masses.value, space.owner, weights))),
        upper=space.upper(prices, weights),
        status=solved.status,
        seconds=perf_counter() - started,
        solver_seconds=solved.seconds,
        variables=variables,
        duals=(prices,),
    )
    return certified(problem, result, tolerance)


@dataclass(frozen=True, eq=False)
class _Emissions:
    """Emissions u, numbered level by level from 1 to L + 1 tokens, and the pairs (T, u) that drafts allow.

    Only pairs with |u| >= 2 are listed: emissions of one token are open to every T, so whatever mass a T leaves over
    goes to them.

    Attributes:
        chance: Q(u), float64 [E].
        payoff: |u| - 1, int64 [E].
        texts: Q(y) > 0, float64 [Y], of the texts of L + 1 tokens.
        begins: sparse 0-1 matrix [Y, E]: which emissions each of these texts begins with.
        owner, emission: int64 [F], the T and the u of each pair.
    """

    chance: Floats
    payoff: Indices
    texts: Floats
    begins: Any
    owner: Indices
    emission: Indices

    @classmethod
    def of(cls, problem: Problem, multisets: Indices) -> _Emissions:
        import scipy.sparse as sp

        written = problem.pair.target.joints(problem.length + 1)[1:]
        sizes = [level.size for level in written]
        possible = np.flatnonzero(written[-1])
        spread = sp.hstack([sp.kron(sp.eye_array(size), np.ones((sizes[-1] // size, 1))) for size in sizes])
        payoff = np.repeat(np.arange(len(sizes)), sizes)
        pairs = _longer_emissions(problem, multisets, written)
        return cls(np.concatenate(written), payoff, written[-1][possible], sp.csr_array(spread)[possible], *pairs)

    def cost(self, prices: Floats) -> Floats:
        """Mean price, float64 [E], of the text that an emission is completed to; infinite where Q(u) = 0."""
        total = self.begins.T @ (prices * self.texts)
        mean: Floats = np.divide(total, self.chance, out=np.full_like(self.chance, np.inf), where=self.chance > 0)
        return mean

    def raised(self, prices: Floats, rent: Floats) -> Floats:
        """Prices [Y] raised until payoff - cost(u) exceeds the rent of T for no pair (T, u).

        The solver's tolerance on a dual row leaves nearly nothing of a common emission unpaid, but any part of a very
        rare one; the texts that begin with it can be charged for that, being as rare.
        """
        lowest = np.where(self.payoff > 0, np.inf, rent.min())
        np.minimum.at(lowest, self.emission, rent[self.owner])
        unpaid = np.maximum(0.0, self.payoff - self.cost(prices) - lowest)
        raised: Floats = prices + self.begins.multiply(unpaid).max(axis=1).toarray().ravel()
        return raised

    def upper(self, prices: Floats, weights: Floats) -> float:
        """Weak duality: a bound from any prices, every T taking its emission of largest payoff - cost(u)."""
        gain = self.payoff - self.cost(prices)
        best = np.full(weights.size, np.max(gain[self.payoff == 0]))
        np.maximum.at(best, self.owner, gain[self.emission])
        return float(self.texts @ prices + weights @ best)

    def levels(self, masses: Floats) -> list[Floats]:
        """The masses of the pairs, summed for every emission and cut into one array a level."""
        tokens = self.payoff.max() + 1
        return np.split(gather(masses, self.emission, self.chance.size), np.searchsorted(self.payoff, range(1, tokens)))


def _multisets(problem: Problem) -> tuple[Indices, Floats]:
    """Every multiset of K possible drafts, int64 [M, K], and its multinomial probability, float64 [M]."""
    law = problem.draft[-1]
    members = list(combinations_with_replacement(np.flatnonzero(law).tolist(), problem.drafts))
    orders = [factorial(problem.drafts) // prod(map(factorial, Counter(drawn).values())) for drawn in members]
    multisets = np.array(members, dtype=np.int64)
    return multisets, np.array(orders, dtype=np.float64) * law[multisets].prod(axis=1)


def _agreement(problem: Problem, texts: Indices) -> NDArray[np.int64]:
    """Length of the common prefix of every draft and every text: int64 [V**L, len(texts)]."""
    drafts = np.arange(problem.draft[-1].size)[:, None]
    below = [problem.vocab**level for level in range(problem.length)]
    common: NDArray[np.int64] = np.sum([drafts // size == texts // size for size in below], axis=0, dtype=np.int64)
    return common


def _coupling_count(problem: Problem) -> int:
    """Variables of the stateful program: multisets times blocks that the target can write."""
    support = int(np.count_nonzero(problem.draft[-1]))
    return comb(support + problem.drafts - 1, problem.drafts) * int(np.count_nonzero(problem.target[-1]))


def _emission_count(problem: Problem) -> int:
    """Variables of the stateless program: for every node, the multisets that show it times the tokens to go on."""
    through = marginals((problem.draft[-1] > 0).astype(np.float64), problem)
    written = problem.pair.target.joints(problem.length + 1)[1:]
    onward = [np.count_nonzero(level.reshape(-1, problem.vocab), axis=1) for level in written[1:]]
    support = int(np.count_nonzero(problem.draft[-1]))

    def drawn_from(drafts: int) -> int:
        return comb(drafts + problem.drafts - 1, problem.drafts)

    nodes = zip(np.concatenate(through), np.concatenate(onward), strict=True)
    showing = sum((drawn_from(support) - drawn_from(support - int(texts))) * int(tokens) for texts, tokens in nodes)
    return showing + sum(level.size for level in written)


def _longer_emissions(problem: Problem, multisets: Indices, written: Sequence[Floats]) -> tuple[Indices, Indices]:
    """Which emissions of two or more tokens each multiset allows: ``owner`` and ``emission`` of ``_Emissions``."""
    owners, emissions, before = [], [], problem.vocab
    for depth, target in enumerate(written[1:], start=1):
        prefixes = multisets // problem.vocab ** (problem.length - depth)
        shown = np.zeros((len(multisets), problem.vocab**depth), dtype=bool)
        np.put_along_axis(shown, prefixes, True, axis=1)
        owner, emission = np.nonzero(np.repeat(shown, problem.vocab, axis=1) & (target > 0))
        owners.append(owner)
        emissions.append(emission + before)
        before += target.size
    return np.concatenate(owners), np.concatenate(emissions)


def _within(masses: Floats, owner: Indices, weights: Floats) -> Floats:
    """The masses without negative ones, scaled down where those of one multiset exceed its weight."""
    clipped = np.maximum(masses, 0.0)
    total = gather(clipped, owner, weights.size)
    scaled: Floats = clipped * np.minimum(1.0, weights / np.maximum(total, weights))[owner]
    return scaled


def _sub_coupling(coupling: Floats, rows: Floats, columns: Floats) -> Floats:
    """The coupling without negative masses, scaled down to fit below both marginals."""
    fitted: Floats = np.maximum(coupling, 0.0)
    fitted *= (rows / np.maximum(fitted.sum(axis=1), rows))[:, None]
    fitted *= columns / np.maximum(fitted.sum(axis=0), columns)
    return fitted


def _lossless_part(problem: Problem, emitted: Sequence[Floats]) -> float:
    """Mean accepted length once the emissions are cut back until they are lossless.

    D(v), the mass of the emissions that go on beyond v, may pass on to vc at most D(v) q(c|v). Where it passes on more,
    all that is accepted below vc is scaled down, and the mass stops at v instead: what stops there then has
    D(v) q(c|v) - D(vc) >= 0 left for the last token c, which is exactly what losslessness wants.

    Args:
        problem: the instance.
        emitted: the mass of the emissions, levels 1..L+1.
    """
    through = list(emitted)
    for depth in range(problem.length - 1, -1, -1):
        through[depth] = emitted[depth] + through[depth + 1].reshape(-1, problem.vocab).sum(axis=1)
    reached, share, total = np.ones(1), np.ones(1), 0.0
    for depth in range(problem.length):
        beyond = through[depth] - emitted[depth]
        allowed = (reached[:, None] * problem.pair.target.levels[depth]).ravel()
        reached = np.minimum(beyond * np.repeat(share, problem.vocab), allowed)
        share = np.divide(reached, beyond, out=np.zeros_like(beyond), where=beyond > 0)
        total += float(reached.sum())
    return total
