"""Certificates of optima: a primal and a dual point in fractions with one value, and what is needed to check them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from spectr_verify.bounds.rational.factor import ZERO
from spectr_verify.bounds.rational.program import Layout, Masses, Set, Text, Tree, selection_program
from spectr_verify.bounds.rational.simplex import Solution, float_basis, solve
from toy_models import ToyPair, pair_to_json

SCHEMA = "spectr-verify/certificate/1"


@dataclass(frozen=True, eq=False)
class Certificate:
    """That ``value`` is the largest E[tau] of a class of lossless rules on a pair.

    Attributes:
        pair: the models, with fractions.
        length, drafts: L and K.
        kind: the class of the rules.
        value: the optimum.
        kernel: the primal point: how the weight of each set of drafts is shared out among its members.
        accepted: its accepted mass a(v) of each node.
        set_prices, prices, cap_prices: the dual point: lambda(S), y(v) and z(v).
        pivots: how many exact steps it took after HiGHS.
    """

    pair: ToyPair
    length: int
    drafts: int
    kind: Literal["stateless", "stateful"]
    value: Fraction
    kernel: dict[Set, tuple[Fraction, ...]]
    accepted: Masses
    set_prices: dict[Set, Fraction]
    prices: Masses
    cap_prices: Masses
    pivots: int

    def to_json(self) -> dict[str, Any]:
        """The certificate file: fractions and texts as strings, a text being its tokens with commas between them."""
        return {
            "schema": SCHEMA,
            "class": self.kind,
            "length": self.length,
            "drafts": self.drafts,
            "pair": pair_to_json(self.pair),
            "value": str(self.value),
            "primal": {
                "kernel": [
                    {"drafts": [_written(text) for text in shown], "mass": [str(mass) for mass in masses]}
                    for shown, masses in self.kernel.items()
                ],
                "accepted": _by_text(self.accepted),
            },
            "dual": {
                "sets": [str(price) for price in self.set_prices.values()],
                "cover": _by_text(self.prices),
                "cap": _by_text(self.cap_prices),
            },
        }


def certify(pair: ToyPair, length: int, drafts: int, kind: Literal["stateless", "stateful"]) -> Certificate:
    """The optimum of a class as an exact fraction, with its certificate.

    Args:
        pair: the models; floats are read as the decimals that they print as.
        length: L, tokens a draft.
        drafts: K, independent drafts a round.
        kind: the class of rules.

    Raises:
        TableError: L or K is out of range, or the decimals of a law do not sum to 1.
        BoundError: the program is too large for fractions.
    """
    pair = pair.exact()
    tree = Tree.of(pair, length, drafts)
    layout = Layout.of(tree)
    program = selection_program(tree, layout, stateful=kind == "stateful")
    found = solve(program, float_basis(program))
    return Certificate(
        pair=pair,
        length=length,
        drafts=drafts,
        kind=kind,
        value=found.value,
        kernel=_kernel(tree, layout, found),
        accepted={text: found.primal[column] for text, column in layout.accepted.items()},
        set_prices={shown: found.dual[row] for shown, row in layout.shared.items()},
        prices={text: found.dual[row] for text, row in layout.covered.items()},
        cap_prices={text: found.dual[row] for text, row in layout.capped.items()},
        pivots=found.pivots,
    )


def _kernel(tree: Tree, layout: Layout, found: Solution) -> dict[Set, tuple[Fraction, ...]]:
    """The flows; the first member of a set takes what the program left over, which can do no harm."""
    kernel = {}
    for shown, weight in tree.weights.items():
        flows = [found.primal[layout.flow[shown, text]] for text in shown]
        flows[0] += weight - sum(flows, ZERO)
        kernel[shown] = tuple(flows)
    return kernel


def _written(text: Text) -> str:
    return ",".join(map(str, text))


def _by_text(masses: Masses) -> dict[str, str]:
    return {_written(text): str(mass) for text, mass in masses.items()}
