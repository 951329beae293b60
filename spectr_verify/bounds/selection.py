"""The sets of distinct drafts that a round can show, and their probabilities.

A selection kernel chooses one of K drafts. Which one it chooses may depend on how often a draft came up, but the
law of the winner does not gain from that: averaging the kernel over the rounds that show one set of distinct
drafts keeps the law. The programs therefore need one row for each set of at most K drafts, which is never more
than one for each multiset of K, and far fewer when K exceeds the number of possible drafts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from spectr_verify.bounds.problem import gather
from spectr_verify.bounds.result import Floats

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DraftSets:
    """S sets of drafts, and F flows: one for each member of each set.

    Attributes:
        weights: float64 [S], the probability that the K drafts show exactly this set.
        starts: int64 [S], where the flows of a set begin; those of one set stand together, the favourite first.
        owner: int64 [F], the set of a flow.
        member: int64 [F], the draft of a flow: its lexicographic index among the texts of length L.
    """

    weights: Floats
    starts: Indices
    owner: Indices
    member: Indices

    @classmethod
    def of(cls, draft: Floats, target: Floats, drafts: int) -> DraftSets:
        """Every set that K drafts from the law ``draft``, float64 [V**L], show with positive probability.

        The favourite of a set is the member of largest ratio of ``target`` to ``draft``, the text that is short of
        winner's mass: a kernel that always chooses it is a start from which the optimum is near.
        """
        support = np.flatnonzero(draft)
        with np.errstate(over="ignore"):
            support = support[np.argsort(-target[support] / draft[support], kind="stable")]
        law = draft[support]
        sets, covered = np.empty((1, 0), dtype=np.int64), np.eye(1, drafts + 1)
        binomials = _binomials(drafts)
        weights: list[Floats] = []
        members: list[Indices] = []
        sizes: list[Indices] = []
        for size in range(1, min(drafts, support.size) + 1):
            sets, covered = _extended(sets, covered, law, binomials)
            weights.append(covered[:, drafts])
            members.append(support[sets].ravel())
            sizes.append(np.full(len(sets), size))
        return cls._joined(np.concatenate(weights), np.concatenate(members), np.concatenate(sizes))

    @classmethod
    def _joined(cls, weights: Floats, member: Indices, sizes: Indices) -> DraftSets:
        """Number the flows, leaving out sets whose probability is zero in float64."""
        seen = weights > 0
        member, sizes = member[np.repeat(seen, sizes)], sizes[seen]
        starts = np.cumsum(sizes) - sizes
        return cls(weights[seen], starts, np.repeat(np.arange(sizes.size), sizes), member)

    def largest(self, draft_values: Floats) -> Floats:
        """The largest value, float64 [S], among the members of each set, from a value for every draft [V**L]."""
        best: Floats = np.maximum.reduceat(draft_values[self.member], self.starts)
        return best

    @property
    def free(self) -> Indices:
        """int64 [F - S], the flows that a kernel may choose: the favourite of each set takes what they leave."""
        return np.delete(np.arange(self.member.size), self.starts)

    def kernel(self, free: Floats) -> Floats:
        """All flows [F] of the kernel nearest to these free flows: none negative, and each set's weight shared out.

        Flows of one set above its weight are scaled down to it.
        """
        others = np.zeros(self.member.size)
        others[self.free] = np.maximum(free, 0.0)
        taken = gather(others, self.owner, self.starts.size)
        flows = others * np.minimum(1.0, self.weights / np.maximum(taken, self.weights))[self.owner]
        flows[self.starts] = np.maximum(0.0, self.weights - taken)
        return flows


def free_flow_count(support: int, drafts: int) -> int:
    """How many free flows the sets of at most K out of ``support`` drafts have."""
    return sum((size - 1) * comb(support, size) for size in range(1, min(drafts, support) + 1))


def _extended(sets: Indices, covered: Floats, law: Floats, binomials: Floats) -> tuple[Indices, Floats]:
    """Every set of one member more, in lexicographic order.

    Args:
        sets: int64 [S, size], ascending positions in ``law``.
        covered: float64 [S, K+1]; entry k is the probability that k drafts show exactly the set.
        law: float64 [n], the probability of each possible draft.
        binomials: see ``_binomials``.
    """
    last = sets[:, -1] if sets.shape[1] else np.full(len(sets), -1)
    room = law.size - 1 - last
    parent = np.repeat(np.arange(len(sets)), room)
    added = np.arange(parent.size) - np.repeat(np.cumsum(room) - room, room) + last[parent] + 1
    return np.column_stack([sets[parent], added]), _covered(covered[parent], law[added], binomials)


def _covered(covered: Floats, probability: Floats, binomials: Floats) -> Floats:
    """Probabilities that k drafts show exactly a set, once a member is added that comes up at least once.

    A sum of positive terms, where inclusion and exclusion would cancel.
    """
    drafts = covered.shape[1] - 1
    after = np.zeros_like(covered)
    for times in range(1, drafts + 1):
        orders = binomials[times, times:]
        after[:, times:] += orders * probability[:, None] ** times * covered[:, : drafts + 1 - times]
    return after


def _binomials(drafts: int) -> Floats:
    """Pascal's triangle: entry [t, k] is k choose t, for t and k up to K."""
    triangle = np.eye(drafts + 1)
    triangle[0] = 1
    for k in range(1, drafts + 1):
        triangle[1:, k] = triangle[1:, k - 1] + triangle[:-1, k - 1]
    return triangle
