"""Models small enough to write down: one array of next-token laws a level.

A law is a row of V probabilities. Prefixes of one length stand in lexicographic order, so the prefix
``(x_1, .., x_i)`` is row ``x_1 V^(i-1) + .. + x_i`` of level ``i``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Fractions = tuple[tuple[tuple[Fraction, ...], ...], ...]

SUM_TOLERANCE = 1e-6
"""How far from 1 a law written in floats may sum; it is then divided by its sum. Fractions must be exact."""


MAX_DRAFTS = 10**9
"""More is a slip of the pen, and would not fit the numbers that are computed with it."""


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

    A law of floats is divided by its sum, unless that sum is 1 to the last digits: then it is kept bit for bit, so
    that a model survives being written and read again.

    Raises:
        TableError: a level has the wrong shape, a row is not a law, or the fractions are not those of the levels.
    """

    levels: tuple[Floats, ...]
    fractions: Fractions | None = None

    def __post_init__(self) -> None:
        if self.fractions is not None:
            _check_exact_laws(self.fractions)
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
            _normalise(level)
            level.setflags(write=False)
        object.__setattr__(self, "levels", tuple(arrays))
        if self.fractions is not None:
            _check_agreement(self.fractions, self.levels)

    def __repr__(self) -> str:
        """Python text that builds the same model, so that a counterexample can be pasted from a report."""
        return f"TableModel.parse({self.to_json()!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same for Hypothesis, which prints the fields of a dataclass unless it is told otherwise."""
        printer.text(repr(self))

    @classmethod
    def parse(cls, levels: Sequence[Sequence[Sequence[Any]]]) -> TableModel:
        """Build a model from nested lists of numbers or fraction strings such as ``"3/7"``.

        The model keeps exact fractions when every entry is a string, an integer or a ``Fraction``.

        Raises:
            TableError: the lists are nested wrongly, an entry is not a number, or a row is not a law; the message
                names the level, the row and the token.
        """
        entries = _read_entries(levels)
        arrays = tuple(np.array(level, dtype=np.float64) for level in entries)
        if any(isinstance(entry, float) for level in entries for law in level for entry in law):
            return cls(arrays)
        return cls(arrays, tuple(tuple(tuple(Fraction(entry) for entry in law) for law in level) for level in entries))

    @property
    def vocab(self) -> int:
        """V, the number of tokens."""
        return len(self.levels[0][0])

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

        Raises:
            TableError: an index does not belong to a prefix of that length.
        """
        if contexts.size and not 0 <= int(contexts.min()) <= int(contexts.max()) < self.vocab**context_length:
            raise TableError(
                f"contexts lie in {contexts.min()}..{contexts.max()}; with {self.vocab} tokens the prefixes of length "
                f"{context_length} are numbered 0..{self.vocab**context_length - 1}"
            )
        level = min(context_length + offset, self.depth - 1)
        # Only the last `level` tokens count: all of them, or the order of the Markov chain. Taking the remainder
        # before the product too keeps the numbers small.
        recent = contexts % self.vocab ** min(context_length, self.depth - 1)
        index = recent[:, None] * self.vocab**offset + np.arange(self.vocab**offset)
        return level, index % self.vocab**level

    def continuations(self, contexts: NDArray[np.int64], context_length: int, depth: int) -> list[Floats]:
        """Tables of the next ``depth`` levels after each of C contexts: ``[i]`` is float64 [C, V**i, V]."""
        found = (self.rows(contexts, context_length, offset) for offset in range(depth))
        return [self.levels[level][rows] for level, rows in found]

    def after(self, prefix: Sequence[int], depth: int) -> TableModel:
        """The model of what follows ``prefix``, ``depth`` levels deep, exact where this one is.

        The two models agree on texts of up to ``depth`` tokens; beyond, each is the Markov chain of its own order.

        Raises:
            TableError: a token of the prefix is not in the vocabulary, or ``depth`` is less than 1.
        """
        context, length = self._recent(prefix)
        levels, fractions = [], []
        for offset in range(depth):
            level, rows = self.rows(context, length, offset)
            levels.append(self.levels[level][rows[0]])
            if self.fractions is not None:
                fractions.append(tuple(self.fractions[level][row] for row in rows[0]))
        return TableModel(tuple(levels), tuple(fractions) if self.fractions is not None else None)

    def index(self, prefix: Sequence[int]) -> int:
        """Lexicographic index of a prefix among those of its length.

        Raises:
            TableError: a token of the prefix is not in the vocabulary.
        """
        index = 0
        for position, token in enumerate(prefix):
            if not 0 <= token < self.vocab:
                raise TableError(f"token {token} at position {position} is outside the vocabulary 0..{self.vocab - 1}")
            index = index * self.vocab + int(token)
        return index

    def _recent(self, prefix: Sequence[int]) -> tuple[NDArray[np.int64], int]:
        """The tokens of a prefix that laws still depend on, as contexts [1] and their length."""
        length = min(len(prefix), self.depth - 1)
        # The index of a long prefix does not fit into 64 bits, that of its recent tokens does.
        return np.array([self.index(prefix) % self.vocab**length]), length

    def law(self, prefix: Sequence[int]) -> Floats:
        """Law of the token after ``prefix``: float64 [V].

        Raises:
            TableError: a token of the prefix is not in the vocabulary.
        """
        context, length = self._recent(prefix)
        level, rows = self.rows(context, length, 0)
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
        if not self.name.isprintable():
            raise TableError(f"pair {self.name!r}: the name must be one line of printable characters")
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
        self.check_size(self.length, self.drafts)

    def exact(self) -> ToyPair:
        """The same pair with fractions: its own where it has them, and floats as the decimals that they print as.

        Raises:
            TableError: the decimals of a law do not sum to exactly 1.
        """
        return replace(self, draft=self._exact(self.draft, "draft"), target=self._exact(self.target, "target"))

    def _exact(self, model: TableModel, role: str) -> TableModel:
        if model.fractions is not None:
            return model
        try:
            return TableModel.parse([[[repr(p) for p in law] for law in level.tolist()] for level in model.levels])
        except TableError as error:
            raise TableError(
                f'pair {self.name!r}: {role}: {error}. Write the laws as fractions, "1/3", or as decimals that sum to 1'
            ) from error

    def check_size(self, length: int | None, drafts: int | None) -> None:
        """Refuse an L or K that the pair cannot be judged with; ``None`` is not checked.

        Raises:
            TableError: L is not 1 to ``max_length``, or K is below 1.
        """
        if drafts is not None and drafts < 1:
            raise TableError(f"pair {self.name!r}: drafts (K) is {drafts}; it must be at least 1")
        if drafts is not None and drafts > MAX_DRAFTS:
            raise TableError(f"pair {self.name!r}: drafts (K) is above {MAX_DRAFTS:,}; take fewer")
        if length is not None and length < 1:
            raise TableError(f"pair {self.name!r}: length (L) is {length}; it must be at least 1")
        if length is not None and length > self.max_length:
            raise TableError(
                f"pair {self.name!r}: length (L) is {length}, but {self.draft.depth} levels reach blocks of at "
                f"most {self.max_length} tokens; write {length + 1} levels, for the law after the whole block too"
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
    with np.errstate(over="ignore", invalid="ignore"):  # infinite entries are reported below, not warned about
        sums: Floats = level.sum(axis=-1)
    faults = (
        (~np.isfinite(level).all(axis=-1), "has an entry that is not a finite number"),
        ((level < 0).any(axis=-1), "has a negative probability"),
        (np.abs(sums - 1) > SUM_TOLERANCE, f"does not sum to 1 within {SUM_TOLERANCE:g}"),
    )
    for bad, fault in faults:
        rows = np.flatnonzero(bad)
        if rows.size:
            row = int(rows[0])
            raise TableError(
                f"{where}, row {row}: {level[row].tolist()} {fault}; write one law of {vocab} probabilities"
            )


def _normalise(level: Floats) -> None:
    """Divide, in place, the rows whose sum differs from 1 by more than the rounding of V numbers and their sum."""
    sums = level.sum(axis=-1, keepdims=True)
    rounding = level.shape[-1] * np.finfo(np.float64).eps
    level /= np.where(np.abs(sums - 1) <= rounding, 1.0, sums)


def _check_exact_laws(fractions: Fractions) -> None:
    """Raise ``TableError`` at the first row of fractions that does not sum to exactly 1 or goes below 0."""
    for depth, level in enumerate(fractions):
        for row, law in enumerate(level):
            if min(law, default=0) < 0:
                raise TableError(f"{_at(depth, row)}: the probability {min(law)} is negative")
            if sum(law) != 1:
                raise TableError(
                    f"{_at(depth, row)}: the fractions sum to {_sum_that_is_not_1(sum(law, Fraction(0)))}, not to 1; "
                    "exact laws must be exact"
                )


def _check_agreement(fractions: Fractions, levels: tuple[Floats, ...]) -> None:
    """Raise ``TableError`` where fractions and floats do not tell the same model."""
    if len(fractions) != len(levels):
        raise TableError(f"there are {len(fractions)} levels of fractions and {len(levels)} of floats")
    for depth, (exact, level) in enumerate(zip(fractions, levels, strict=True)):
        if [len(law) for law in exact] != [level.shape[-1]] * len(level):
            raise TableError(f"level {depth}: the fractions have another shape than the floats, {level.shape}")
        if not np.allclose(np.array(exact, dtype=np.float64), level, rtol=1e-12, atol=0.0):
            raise TableError(f"level {depth}: fractions and floats differ; build exact models with TableModel.parse")


def _at(depth: int, row: int) -> str:
    return f"level {depth}, row {row}"


def _read_entries(levels: Any) -> list[list[list[float | Fraction]]]:
    """Nested lists of floats and fractions, all laws equally long, from what a user wrote."""
    read: list[list[list[float | Fraction]]] = []
    vocab: int | None = None
    for depth, level in enumerate(_items(levels, "the table", "levels")):
        laws = []
        for row, law in enumerate(_items(level, f"level {depth}", "laws")):
            where = _at(depth, row)
            law_entries = [
                _entry(p, f"{where}, token {token}") for token, p in enumerate(_items(law, where, "numbers"))
            ]
            vocab = len(law_entries) if vocab is None else vocab
            if len(law_entries) != vocab:
                raise TableError(
                    f"{where}: the law lists {len(law_entries)} probabilities where the laws before it list {vocab}; "
                    "every law needs one for each token"
                )
            laws.append(law_entries)
        read.append(laws)
    return read


def _items(value: Any, where: str, content: str) -> Iterable[Any]:
    """``value`` if it can be read as a list, else an error that says what belongs there."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TableError(
            f"{where}: expected a list of {content}, found {_shown(value)}; a table is a list of levels, "
            "a level a list of laws, a law a list of numbers"
        )
    return value


def _entry(entry: Any, where: str) -> float | Fraction:
    """A float as it is, anything exact as a fraction between 0 and 1."""
    if isinstance(entry, bool) or not isinstance(entry, str | int | float | Fraction):
        raise TableError(f'{where}: {_shown(entry)} is not a number or a fraction in a string such as "3/7"')
    if isinstance(entry, float):
        return entry
    if isinstance(entry, str) and (len(entry) > 700 or any(len(e) > 4 for e in re.findall(r"[eE]([+-]?\d+)", entry))):
        raise TableError(f"{where}: {_shown(entry)} has too many digits; no probability needs an exponent beyond -999")
    try:
        fraction = Fraction(entry)
    except (ValueError, ZeroDivisionError) as error:
        raise TableError(f'{where}: {_shown(entry)} is not a number or a fraction such as "3/7"') from error
    if not 0 <= fraction <= 1:
        raise TableError(f"{where}: {_shown(entry)} is not a probability; it must lie between 0 and 1")
    return fraction


def _sum_that_is_not_1(total: Fraction) -> str:
    """A sum that should be 1, or by how much it is not where it would fill the screen."""
    return str(total) if total.denominator < 10**20 else f"1 {float(total - 1):+.2g}"


def _shown(value: Any) -> str:
    """A value as an error message shows it: on one line, and cut where it would fill the screen."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
