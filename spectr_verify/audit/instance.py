"""What rules are judged on: a pair with K and L, the built-in suite, and pairs from a user's file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from spectr_verify.bounds import BoundResult, BoundSizeError, closed_forms, stateful_optimum, stateless_optimum
from spectr_verify.rules import Kind
from toy_models import ToyPair, family_pairs, pair_to_json, recorded_pairs

DRAFTS = 2
LENGTH = 2
VOCAB = 3


@dataclass(frozen=True, eq=False)
class Instance:
    """A pair with its K and L. Its bounds are computed when first asked for, and kept: rules share them.

    Attributes:
        pair: the models.
        length: L.
        drafts: K.
    """

    pair: ToyPair
    length: int
    drafts: int

    @classmethod
    def of(cls, pair: ToyPair, *, length: int | None = None, drafts: int | None = None) -> Instance:
        """A pair with the K and L that it states itself, else those given, else 2 and 2 (or what its tables allow).

        A K or L out of range is refused when a law or a bound is computed.
        """
        return cls(
            pair,
            length=pair.length or length or max(1, min(LENGTH, pair.max_length)),
            drafts=pair.drafts or drafts or DRAFTS,
        )

    @property
    def tokens_of_every_round(self) -> int:
        """Length of the texts in which a whole round starts after every context that the tables tell apart."""
        return self.pair.target.depth + self.length

    @cached_property
    def closed(self) -> dict[str, float]:
        """Closed forms by name, see ``spectr_verify.bounds.closed_forms``."""
        return closed_forms(self.pair, self.length, self.drafts)

    @cached_property
    def stateless(self) -> BoundResult | None:
        """The stateless optimum, ``None`` if its program would be too large."""
        return _if_it_fits(stateless_optimum, self)

    @cached_property
    def stateful(self) -> BoundResult | None:
        """The stateful optimum, ``None`` if its program would be too large."""
        return _if_it_fits(stateful_optimum, self)

    def solve(self) -> None:
        """Compute both optima now; those that are too large stay ``None``."""
        _ = self.stateless, self.stateful

    def optimum(self, kind: Kind) -> BoundResult | None:
        """The optimum of a class."""
        return self.stateless if kind == "stateless" else self.stateful

    def attained(self, kind: Kind, drafts: int) -> float:
        """What a lossless rule is known to accept with ``drafts`` of the drafts: below it no program need be solved."""
        if drafts < self.drafts:
            return 0.0
        return self.closed["block_race" if kind == "stateless" else "claimed_bound"]

    def ceiling(self, kind: Kind, drafts: int) -> float:
        """What no lossless rule of a class exceeds when it uses ``drafts`` of the drafts.

        One draft has a closed form. Where the program is too large the level bound stands in: no smaller, so no
        lossless rule exceeds it either.
        """
        if drafts == 1:
            return self.closed["block" if kind == "stateless" else "greedy_block"]
        optimum = self.optimum(kind)
        return self.closed["level_bound"] if optimum is None else optimum.upper

    def as_json(self) -> str:
        """One line of JSON that states the pair with K and L: what ``--pairs`` takes."""
        return json.dumps(pair_to_json(replace(self.pair, drafts=self.drafts, length=self.length)))


def _if_it_fits(solve: Callable[[ToyPair, int, int], BoundResult], where: Instance) -> BoundResult | None:
    try:
        return solve(where.pair, where.length, where.drafts)
    except BoundSizeError:
        return None


def builtin_suite(seed: int = 0, *, length: int = LENGTH, drafts: int = DRAFTS) -> list[Instance]:
    """One pair of every family (V = 3), and the recorded pairs (V = 4) where their tables are deep enough.

    Args:
        seed: draws the families; the recorded pairs are always the same.
        length, drafts: the L and K that the pairs are judged with.
    """
    pairs = [*family_pairs(seed, VOCAB, length), *recorded_pairs()]
    return [Instance(pair, length, drafts) for pair in pairs if length <= pair.max_length]
