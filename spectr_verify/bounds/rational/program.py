"""The selection programs in fractions (see ``spectr_verify.bounds.optimum`` for the theorems that they rest on).

Variables, all at least 0: how much each set of drafts gives to each of its members, the winner's mass t(v) of every
node, and its accepted mass a(v). Constraints, each with its multiplier:

    sum over x in S of f(S, x) <= w(S)                            one a set         lambda(S)
    t(x) <= sum over S of f(S, x), t(v) <= sum over c of t(vc)    one a node
    a(v) <= t(v)                                                  one a node        y(v)
    stateful: a(v) <= Q(v); stateless: a(vc) <= q(c|v) a(v)       one a node        z(v)

and the sum of all a(v) is largest. Nothing is lost by "at most": a node gains nothing by less mass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb

from spectr_verify.bounds.problem import MAX_DRAFTS
from spectr_verify.bounds.rational.factor import ZERO
from spectr_verify.bounds.rational.simplex import Program
from spectr_verify.bounds.result import BoundSizeError
from toy_models import ToyPair
from toy_models.tables import Fractions

Text = tuple[int, ...]
Masses = dict[Text, Fraction]
Set = tuple[Text, ...]

MAX_FLOWS = 20_000
"""Members of all sets of drafts, above which a program is refused. At the limit a certificate takes some seconds,
and minutes where laws span many decades."""

ONE = Fraction(1)


@dataclass(frozen=True, eq=False)
class Tree:
    """A pair at one L and K in fractions.

    Attributes:
        nodes: texts of 1 to L tokens, the shorter ones first, in lexicographic order.
        step: q(c|v) of every node vc.
        target: Q(v) of every node.
        weights: w(S), the probability that K drafts show exactly the texts S of L tokens.
    """

    nodes: list[Text]
    step: Masses
    target: Masses
    weights: dict[Set, Fraction]

    @classmethod
    def of(cls, pair: ToyPair, length: int, drafts: int) -> Tree:
        """Lay out a pair with fractions.

        Raises:
            TableError: L or K is out of range.
            BoundSizeError: there are too many sets of drafts.
        """
        pair.check_size(length, drafts)
        assert pair.draft.fractions is not None
        assert pair.target.fractions is not None
        nodes = [text for size in range(1, length + 1) for text in product(range(pair.vocab), repeat=size)]
        draft_step, step = (_steps(model, nodes, pair.vocab) for model in (pair.draft.fractions, pair.target.fractions))
        draft = _joint(draft_step)
        possible = {text: draft[text] for text in nodes if len(text) == length and draft[text]}
        _require_fit(pair, length, drafts, len(possible))
        return cls(nodes, step, _joint(step), _set_weights(possible, drafts))


def _steps(laws: Fractions, nodes: Sequence[Text], vocab: int) -> Masses:
    """The probability of each node's last token after the ones before."""
    return {text: laws[len(text) - 1][_index(text[:-1], vocab)][text[-1]] for text in nodes}


def _index(text: Text, vocab: int) -> int:
    return sum(token * vocab**place for place, token in enumerate(reversed(text)))


def _joint(steps: Masses) -> Masses:
    """The probability of each node, which stands after its parent."""
    joint: Masses = {(): ONE}
    for text, step in steps.items():
        joint[text] = joint[text[:-1]] * step
    return joint


def _require_fit(pair: ToyPair, length: int, drafts: int, support: int) -> None:
    where = f"pair {pair.name!r} at L = {length}, K = {drafts}"
    if drafts > MAX_DRAFTS:
        raise BoundSizeError(f"{where}: programs in fractions take at most K = {MAX_DRAFTS}")
    flows = 0
    for size in range(1, min(drafts, support) + 1):
        flows += size * comb(support, size)
        if flows > MAX_FLOWS:
            raise BoundSizeError(
                f"{where}: {support} drafts of positive probability make too many sets for exact fractions (more than "
                f"{MAX_FLOWS:,} members of all sets); take a smaller L or K"
            )


def _set_weights(draft: Masses, drafts: int) -> dict[Set, Fraction]:
    """Of every set that the draws can show, by inclusion and exclusion, in order of size and then of text."""
    within: dict[Set, Fraction] = {}  # the probability that nothing but these texts is shown
    weights = {}
    for size in range(1, min(drafts, len(draft)) + 1):
        for shown in combinations(draft, size):
            within[shown] = sum((draft[text] for text in shown), ZERO) ** drafts
            parts = (part for count in range(1, size + 1) for part in combinations(shown, count))
            weights[shown] = sum(((-1) ** (size - len(part)) * within[part] for part in parts), ZERO)
    return weights


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the variables and constraints of a program stand.

    Attributes:
        flow: the column of each set and member.
        winner, accepted: the columns of t(v) and a(v).
        shared: the row of each set.
        summed, covered, capped: the rows of each node, in the order of the module's text.
    """

    flow: dict[tuple[Set, Text], int]
    winner: dict[Text, int]
    accepted: dict[Text, int]
    shared: dict[Set, int]
    summed: dict[Text, int]
    covered: dict[Text, int]
    capped: dict[Text, int]

    @classmethod
    def of(cls, tree: Tree) -> Layout:
        """Number everything once."""
        column, row = _counter(), _counter()
        flow = {(shown, text): next(column) for shown in tree.weights for text in shown}
        winner, accepted = ({text: next(column) for text in tree.nodes} for _ in range(2))
        shared = {shown: next(row) for shown in tree.weights}
        return cls(flow, winner, accepted, shared, *({text: next(row) for text in tree.nodes} for _ in range(3)))


def _counter() -> Iterator[int]:
    return iter(range(10**9))


def selection_program(tree: Tree, layout: Layout, *, stateful: bool) -> Program:
    """The program of one class."""
    columns: list[dict[int, Fraction]] = []
    for shown, text in layout.flow:
        columns.append({layout.shared[shown]: ONE, layout.summed[text]: -ONE})
    for text in layout.winner:
        above = {layout.summed[text[:-1]]: -ONE} if len(text) > 1 else {}
        columns.append({layout.summed[text]: ONE, layout.covered[text]: -ONE} | above)
    for text in layout.accepted:
        columns.append({layout.covered[text]: ONE, layout.capped[text]: ONE})
    limits = [*tree.weights.values(), *([ZERO] * (3 * len(tree.nodes)))]
    for text, row in layout.capped.items():
        if stateful or len(text) == 1:
            limits[row] = tree.target[text]
        elif tree.step[text]:
            columns[layout.accepted[text[:-1]]][row] = -tree.step[text]
    gains = [ZERO] * (len(layout.flow) + len(layout.winner)) + [ONE] * len(layout.accepted)
    return Program(columns, gains, limits)
