"""What a sweep is asked for: rules, K, L, temperatures, and what all its cells have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from spectr_verify.decoding import Filters
from spectr_verify.errors import InputError
from spectr_verify.rules import Rule
from spectr_verify.simulate.corpus import Corpus
from spectr_verify.simulate.headroom import FEWEST

ALONE = "autoregressive"
"""The rule that is no cell: the target alone is timed beside every other one."""


@dataclass(frozen=True)
class Cell:
    """One cell of a sweep.

    Attributes:
        corpus: the set of prompts.
        temperature: of both models' laws.
        rule: its name.
        drafts: K, as many as the rule uses.
        length: L.
    """

    corpus: str
    temperature: float
    rule: str
    drafts: int
    length: int


@dataclass(frozen=True)
class Axes:
    """What is swept; of every list no value twice.

    Attributes:
        rules: acceptance rules.
        drafts: values of K.
        lengths: values of L.
        temperatures: of both models' laws.
    """

    rules: Sequence[Rule]
    drafts: Sequence[int]
    lengths: Sequence[int]
    temperatures: Sequence[float]

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        if ALONE in names:
            raise InputError(f"{ALONE} is what all rules are compared with, and in every table: leave it out of them")
        axes = {"rule": names, "drafts": self.drafts, "length": self.lengths, "temperature": self.temperatures}
        for axis, values in axes.items():
            if not values:
                raise InputError(f"there is no {axis} to sweep over")
            for value in values:
                if list(values).count(value) > 1:
                    raise InputError(f"{axis}: {value} is asked for more than once; name every value once")
        for axis, values in (("drafts", self.drafts), ("length", self.lengths)):
            if min(values) < 1:
                raise InputError(f"{axis} is {min(values)}; it must be at least 1")


@dataclass(frozen=True)
class Settings:
    """What all cells of a sweep have in common.

    Attributes:
        texts: after each prompt.
        tokens: N of each text.
        batch: texts of one prompt that are decoded together.
        top_k, top_p, min_p: as in ``Filters``.
        samples: texts a prompt that level bounds are estimated from; 0: no bounds at all.
        seed: draws everything.

    Raises:
        InputError: a number is out of its range.
    """

    texts: int = 1
    tokens: int = 64
    batch: int = 1
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    samples: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("texts", "tokens", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.samples and self.samples < FEWEST:
            raise InputError(f"samples is {self.samples}; it must be {FEWEST} or more, or 0 for no bounds")
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"seed is {self.seed}; it must be a whole number from 0 on, below 2^63")

    def filters(self, temperature: float) -> Filters:
        """The filters of a cell."""
        return Filters(temperature, self.top_k, self.top_p, self.min_p)


def cells(corpora: Sequence[Corpus], axes: Axes) -> list[Cell]:
    """All cells, each once: a rule of a single draft has one for all K."""
    every = product(corpora, axes.temperatures, axes.lengths, axes.drafts, axes.rules)
    return list(
        dict.fromkeys(
            Cell(corpus.name, temperature, rule.name, rule.used_drafts(drafts), length)
            for corpus, temperature, length, drafts, rule in every
        )
    )


def said(cell: Cell) -> str:
    """A cell in words."""
    where = f"{cell.corpus}, temperature {cell.temperature:g}"
    return f"{cell.rule}, {where}, K = {cell.drafts}, L = {cell.length}"
