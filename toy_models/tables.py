"""Models small enough to write down: one array of next-token laws a level.

A law is a row of V probabilities. Prefixes of one length stand in lexicographic order, so the prefix
``(x_1, .., x_i)`` is row ``x_1 V^(i-1) + .. + x_i`` of level ``i``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SUM_TOLERANCE = 1e-6
"""How far from 1 a law written in floats may sum; it is then divided by its sum. Fractions must be exact."""


class TableError(ValueError):
    """A table that is not a model: the message names the level, the row and what to do."""


@dataclass(frozen=True, eq=False)
class TableModel:
    """Next-token laws after every prefix shorter than ``depth``.

    Longer texts continue as a Markov chain: after more than ``depth - 1`` tokens the law is the one that the
    last level keeps for the last ``depth - 1`` tokens. A table therefore gives texts of any length a law.

    Attributes:
        levels: ``levels[i]`` is float64 [V**i, V], read-only; row r is the law after the r-th prefix of length i.
        fractions: the same numbers as exact fractions where the model was written with them, else ``None``.
    """

    levels: tuple[Floats, ...]
    fractions: tuple[tuple[tuple[Fraction, ...], ...], ...] | None = None

    def __post_init__(self) -> None:
        if not self.levels:
            raise TableError("a table needs at least one level: the law of the first token")
        arrays = [np.array(level, dtype=np.float64) for level in self.levels]
        vocab = arrays[0].shape[-1] if arrays[0].ndim == 2 else 0
        if vocab < 2:
            raise TableError(
                f"level 0 has shape {arrays[0].shape}; write it as [[p_0, .., p_(V-1)]] with V of at least 2"
            )
        for depth, level in enumerate(arrays):
            if level.shape != (vocab**depth, vocab):
                raise TableError(
                    f"level {depth} has shape {level.shape}; with {vocab} tokens it needs one law for each of the "
                    f"{vocab**depth} prefixes of length {depth}: shape {(vocab**depth, vocab)}"
                )
            _check_laws(level, f"level {depth}", vocab)
            level /= level.sum(axis=-1, keepdims=True)
            level.setflags(write=False)
        object.__setattr__(self, "levels", tuple(arrays))

    @classmethod
    def parse(cls, levels: Sequence[Sequence[Sequence[Any]]]) -> TableModel:
        """Build a model from nested lists of numbers or fraction strings such as ``"3/7"``.

        The model keeps exact fractions when every entry is a string, an integer or a ``Fraction``.

        Raises:
            TableError: an entry is not a number, rows have unequal lengths, or a row is not a law.
        """
        nested = [[list(row) for row in level] for level in levels]
        entries = [entry for level in nested for row in level for entry in row]
        if any(isinstance(entry, bool) or not isinstance(entry, str | int | float | Fraction) for entry in entries):
            raise TableError('every probability must be a number or a fraction in a string such as "3/7"')
        if len({len(row) for level in nested for row in level}) > 1:
            raise TableError("every law must list one probability for each token, and all must be equally long")
        if any(isinstance(entry, float) for entry in entries):
            return cls(
                tuple(np.array([[_number(e) for e in row] for row in level], dtype=np.float64) for level in nested)
            )
        fractions = tuple(tuple(tuple(_fraction(entry) for entry in row) for row in level) for level in nested)
        for depth, level in enumerate(fractions):
            for row, law in enumerate(level):
                if sum(law) != 1:
                    raise TableError(
                        f"level {depth}, row {row}: the fractions sum to {sum(law)}, not to 1; exact laws must be exact"
                    )
        return cls(tuple(np.array(level, dtype=np.float64) for level in fractions), fractions)

    @property
    def vocab(self) -> int:
        """V, the number of tokens."""
        return self.levels[0].shape[-1]

    @property
    def depth(self) -> int:
        """How many levels are written down."""
        return len(self.levels)

    def rows(self, contexts: NDArray[np.int64], context_length: int, offset: int) -> tuple[int, NDArray[np.int64]]:
        """Where the laws after ``context + x`` stand, for every x of length ``offset``.

        Args:
            contexts: int64 [C], lexicographic indices of prefixes.
            context_length: their length.
            offset: the length of the continuations.

        Returns:
            The level, and the rows in it, int64 [C, V**offset].
        """
        level = min(context_length + offset, self.depth - 1)
        index = contexts[:, None] * self.vocab**offset + np.arange(self.vocab**offset)
        # Only the last `level` tokens count: all of them, or the order of the Markov chain.
        return level, index % self.vocab**level

    def continuations(self, contexts: NDArray[np.int64], context_length: int, depth: int) -> list[Floats]:
        """Tables of the next ``depth`` levels after each of C contexts: ``[i]`` is float64 [C, V**i, V]."""
        found = (self.rows(contexts, context_length, offset) for offset in range(depth))
        return [self.levels[level][rows] for level, rows in found]

    def after(self, prefix: Sequence[int], depth: int) -> TableModel:
        """The model of what follows ``prefix``, ``depth`` levels deep, exact where this one is.

        Raises:
            TableError: a token of the prefix is not in the vocabulary.
        """
        context = np.array([self.index(prefix)])
        levels, fractions = [], []
        for offset in range(depth):
            level, rows = self.rows(context, len(prefix), offset)
            levels.append(self.levels[level][rows[0]])
            if self.fractions is not None:
                fractions.append(tuple(self.fractions[level][row] for row in rows[0]))
        return TableModel(tuple(levels), tuple(fractions) if self.fractions is not None else None)

    def index(self, prefix: Sequence[int]) -> int:
        """Lexicographic index of a prefix among those of its length."""
        index = 0
        for position, token in enumerate(prefix):
            if not 0 <= token < self.vocab:
                raise TableError(f"token {token} at position {position} is outside the vocabulary 0..{self.vocab - 1}")
            index = index * self.vocab + int(token)
        return index

    def law(self, prefix: Sequence[int]) -> Floats:
        """Law of the token after ``prefix``: float64 [V]."""
        level, rows = self.rows(np.array([self.index(prefix)]), len(prefix), 0)
        law: Floats = self.levels[level][rows[0, 0]]
        return law

    def joint(self, length: int) -> Floats:
        """Probabilities of all texts of one length, in lexicographic order: float64 [V**length]."""
        return self.joints(length)[-1]

    def joints(self, length: int) -> list[Floats]:
        """``[i]`` is the joint law of the first i tokens, float64 [V**i], for i = 0..length."""
        root = np.zeros(1, dtype=np.int64)
        laws = [np.ones(1)]
        for offset, level in enumerate(self.continuations(root, 0, length)):
            laws.append((laws[offset][:, None] * level[0]).ravel())
        return laws

    def to_json(self) -> list[list[list[str | float]]]:
        """Nested lists as in the JSON form: fraction strings where the model is exact, else floats."""
        if self.fractions is not None:
            return [[[str(p) for p in row] for row in level] for level in self.fractions]
        return [[[float(p) for p in row] for row in level] for level in self.levels]


@dataclass(frozen=True, eq=False)
class ToyPair:
    """A draft and a target table over one vocabulary.

    Attributes:
        name: how reports call the pair.
        draft, target: tables of equal vocabulary and depth.
        drafts, length: the K and L that the pair was made for; ``None`` leaves them to the user.
    """

    name: str
    draft: TableModel
    target: TableModel
    drafts: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        if self.draft.vocab != self.target.vocab:
            raise TableError(
                f"pair {self.name!r}: the draft has {self.draft.vocab} tokens and the target {self.target.vocab}; "
                "both models must share one vocabulary"
            )
        if self.draft.depth != self.target.depth:
            raise TableError(
                f"pair {self.name!r}: the draft has {self.draft.depth} levels and the target {self.target.depth}; "
                "both tables must be equally deep"
            )
        if self.drafts is not None and self.drafts < 1:
            raise TableError(f"pair {self.name!r}: drafts is {self.drafts}; it must be at least 1")
        if self.length is not None and not 1 <= self.length <= self.max_length:
            raise TableError(
                f"pair {self.name!r}: length is {self.length}; with {self.draft.depth} levels a block can have "
                f"1 to {self.max_length} tokens (the level after the whole block is needed too)"
            )

    @property
    def vocab(self) -> int:
        """V, the number of tokens."""
        return self.target.vocab

    @property
    def max_length(self) -> int:
        """Longest block that the tables cover: the target's law after the whole block must be written down."""
        return self.target.depth - 1


def _check_laws(level: Floats, where: str, vocab: int) -> None:
    """Raise ``TableError`` at the first row that is not a probability law."""
    sums = level.sum(axis=-1)
    faults = (
        (~np.isfinite(level).all(axis=-1), "has an entry that is not a finite number"),
        ((level < 0).any(axis=-1), "has a negative probability"),
        (~(np.abs(sums - 1) <= SUM_TOLERANCE), f"does not sum to 1 within {SUM_TOLERANCE:g}"),
    )
    for bad, fault in faults:
        if bad.any():
            row = int(np.argmax(bad))
            raise TableError(
                f"{where}, row {row}: {level[row].tolist()} {fault}; write one law of {vocab} probabilities"
            )


def _fraction(entry: str | int | float | Fraction) -> Fraction:
    try:
        return Fraction(entry)
    except (ValueError, ZeroDivisionError) as error:
        raise TableError(f'{entry!r} is not a number or a fraction such as "3/7"') from error


def _number(entry: str | int | float | Fraction) -> float:
    return float(entry) if isinstance(entry, float) else float(_fraction(entry))
