"""Exact laws: of one round's emission, and of the first N tokens of a text that many rounds write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from spectr_verify.exact.worlds import worlds
from spectr_verify.rounds import Round, check_round
from spectr_verify.rules import Rule
from toy_models import ToyPair

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOTAL_TOLERANCE = 1e-9
"""How far the total weight of all worlds may be from 1 before the enumeration itself is refused."""

ROUND_BYTES = 16_000_000
"""Size of the rounds that one vectorised run of a rule gets; its temporaries are a few times that."""


class LimitError(ValueError):
    """The enumeration would be too large: the message has the count and what would fit."""


class EnumerationError(RuntimeError):
    """The worlds' weights do not sum to 1: the law cannot be trusted and is not returned."""


@dataclass(frozen=True)
class Limits:
    """How large an enumeration may get.

    Attributes:
        drafts: most draft tuples (contexts x K drafts of L tokens), counted before anything runs.
        worlds: most finished worlds, estimated from the first part of the drafts and counted on.
        texts: most texts in one array.
    """

    drafts: int = 2**24
    worlds: int = 2**26
    texts: int = 2**24


@dataclass(frozen=True, eq=False)
class RoundLaw:
    """Law of one round's emission.

    Attributes:
        emissions: ``[t]`` is float64 [V**(t+1)]: probabilities of the emissions of t+1 tokens, lexicographic.
        completed: float64 [V**(L+1)]: law of the next L+1 tokens, each emission completed with the target that the
            next rounds use (the plain target for a stateless rule).
        target: float64 [V**(L+1)]: the target's law of the same tokens.
        total: sum of all worlds' weights; 1 within ``TOTAL_TOLERANCE``.
        worlds: how many worlds there were.
    """

    emissions: tuple[Floats, ...]
    completed: Floats
    target: Floats
    total: float
    worlds: int

    @property
    def vocab(self) -> int:
        """V."""
        return len(self.emissions[0])

    @property
    def expected_accepted(self) -> float:
        """E[tau], the mean accepted length."""
        return float(sum(length * law.sum() for length, law in enumerate(self.emissions)))

    @property
    def first_token(self) -> Floats:
        """Law of the first emitted token: float64 [V]."""
        return self.completed.reshape(self.vocab, -1).sum(axis=1)

    @property
    def tv_round(self) -> float:
        """Total-variation distance of the completed law from the target's."""
        return total_variation(self.completed, self.target)

    @property
    def tv_first_token(self) -> float:
        """Total-variation distance of the first token's law from the target's."""
        return total_variation(self.first_token, self.target.reshape(self.vocab, -1).sum(axis=1))


@dataclass(frozen=True, eq=False)
class TextLaw:
    """Law of the first N tokens of a text written over as many rounds as it takes.

    Attributes:
        law: float64 [V**N], lexicographic.
        target: float64 [V**N], the target's law.
        tokens: N.
        total: sum of all weights; 1 within ``TOTAL_TOLERANCE``.
        worlds: how many worlds were enumerated.
    """

    law: Floats
    target: Floats
    tokens: int
    total: float
    worlds: int

    @property
    def tv_text(self) -> float:
        """Total-variation distance from the target's law."""
        return total_variation(self.law, self.target)


def total_variation(law: Floats, other: Floats) -> float:
    """Half the sum of absolute differences."""
    return float(np.abs(law - other).sum() / 2)


def round_law(
    rule: Rule,
    pair: ToyPair,
    length: int,
    drafts: int,
    *,
    dtype: torch.dtype = torch.float64,
    limits: Limits | None = None,
) -> RoundLaw:
    """Exact law of one round of ``rule`` on a pair with K = ``drafts`` and L = ``length``.

    Args:
        rule: a registered or any other rule; rules with ``max_drafts`` get the first ones.
        pair: the models.
        length: L, 1 to ``pair.max_length``.
        drafts: K, at least 1.
        dtype: number format of the laws that the rule sees; weights are float64 always.
        limits: how large the enumeration may get.

    Raises:
        LimitError: it would be larger than ``limits``.
        EmissionError, ChanceError: the rule broke its contract.
        ValueError: K or L out of range.
    """
    engine = _Engine(rule, pair, length, drafts, dtype, limits or Limits())
    engine.check_texts(length + 1)
    root = np.zeros(1, dtype=np.int64)
    draft, target = engine.draft_tables(root, 0), engine.plain_target(root, 0)
    engine.check_count(engine.count_drafts(draft), "one round")
    emissions = engine.emissions(draft, target)
    onward = engine.next_target(draft, target)
    completed = np.zeros(pair.vocab ** (length + 1))
    for t, law in enumerate(emissions):
        tails = _tails(onward, t + 1, length - t)
        completed += (law[0][:, None] * tails[0]).ravel()
    flat = tuple(law[0] for law in emissions)
    total = _checked_total(float(sum(law.sum() for law in flat)), rule, pair)
    return RoundLaw(flat, completed, pair.target.joint(length + 1), total, engine.finished)


def text_law(
    rule: Rule,
    pair: ToyPair,
    length: int,
    drafts: int,
    tokens: int,
    *,
    dtype: torch.dtype = torch.float64,
    limits: Limits | None = None,
) -> TextLaw:
    """Exact law of the first ``tokens`` tokens of a text, written over as many rounds as it takes.

    Every round drafts L tokens from where the last one stopped; beyond their last level the pair's tables continue as
    Markov chains. A stateful rule's modified targets are applied, nested: a round treats the modified target it was
    handed as its target.

    Args, Raises: as ``round_law``; ``tokens`` is N, at least 1.
    """
    if tokens < 1:
        raise ValueError(f"tokens is {tokens}; a text needs at least 1")
    engine = _Engine(rule, pair, length, drafts, dtype, limits or Limits())
    engine.check_texts(tokens)
    text = np.zeros(pair.vocab**tokens)
    starts: list[_Starts] = [_Starts() for _ in range(tokens)]
    starts[0].add(np.zeros(1, dtype=np.int64), np.ones(1), None)
    engine.check_count(engine.count_text(tokens), f"the law of {tokens} tokens")
    for position in range(tokens):
        for group in starts[position].groups():
            engine.advance(group, position, starts, text)
    total = _checked_total(float(text.sum()), rule, pair)
    return TextLaw(text, pair.target.joint(tokens), tokens, total, engine.finished)


def _checked_total(total: float, rule: Rule, pair: ToyPair) -> float:
    if not abs(total - 1) <= TOTAL_TOLERANCE:
        raise EnumerationError(
            f"rule {rule.name!r} on pair {pair.name!r}: the worlds' weights sum to {total!r}, not to 1"
        )
    return total


@dataclass(frozen=True, eq=False)
class _Group:
    """Places where a round starts, all at one position of the text.

    Attributes:
        context: int64 [C], the texts so far.
        weight: float64 [C], the probability that a round starts there.
        pending: the modified target's laws of the next L-1 positions, ``[j]`` float64 [C, V**j, V]; ``None``: plain.
    """

    context: Ints
    weight: Floats
    pending: list[Floats] | None


class _Starts:
    """Collects the places where rounds start at one position: plain ones are merged, modified ones are kept apart."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []

    def add(self, context: Ints, weight: Floats, pending: list[Floats] | None) -> None:
        alive = weight > 0
        if alive.any():
            kept = None if pending is None else [level[alive] for level in pending]
            self._groups.append(_Group(context[alive], weight[alive], kept))

    def groups(self) -> list[_Group]:
        """One group for the plain target and one for each number of positions that a modified target still holds."""
        depths = sorted({len(group.pending or ()) for group in self._groups})
        return [_joined([group for group in self._groups if len(group.pending or ()) == depth]) for depth in depths]


def _joined(groups: list[_Group]) -> _Group:
    context = np.concatenate([group.context for group in groups])
    weight = np.concatenate([group.weight for group in groups])
    if groups[0].pending is None:
        context, place = np.unique(context, return_inverse=True)
        return _Group(context, np.bincount(place, weight), None)
    levels = zip(*(group.pending or [] for group in groups), strict=True)
    return _Group(context, weight, [np.concatenate(level) for level in levels])


class _Engine:
    """One rule on one pair with K, L, number format and limits: what both laws are computed with."""

    def __init__(self, rule: Rule, pair: ToyPair, length: int, drafts: int, dtype: torch.dtype, limits: Limits) -> None:
        check_range(pair, length, drafts)
        self.rule, self.pair, self.L, self.dtype, self.limits = rule, pair, length, dtype, limits
        self.K = used_drafts(rule, drafts)
        self.V = pair.vocab
        self.finished = 0
        self._plain_laws: dict[int, list[Floats]] = {}

    # -- tables -----------------------------------------------------------------------------------------------------

    def draft_tables(self, context: Ints, position: int) -> list[Floats]:
        return self.pair.draft.continuations(context, position, self.L)

    def plain_target(self, context: Ints, position: int) -> list[Floats]:
        return self.pair.target.continuations(context, position, self.L + 1)

    def next_target(self, draft: list[Floats], target: list[Floats]) -> list[Floats]:
        """The target that follows a round, from the round's start: ``[i]`` float64 [C, V**i, V], i = 0..L."""
        if self.rule.modified_target is None:
            return target
        C, L, V = target[0].shape[0], self.L, self.V
        leaves = V ** (L - 1)
        tokens = _digits(np.tile(np.arange(leaves) * V, C), L, V)
        at = [np.repeat(np.arange(V**i), V ** (L - 1 - i)) for i in range(L)]
        p, q = (np.stack([table[i][:, at[i]] for i in range(L)], axis=2) for table in (draft, target))
        p, q = p.reshape(C * leaves, L, V), q.reshape(C * leaves, L, V)
        weights = self.rule.modified_target(
            torch.from_numpy(tokens), *(torch.from_numpy(a).to(self.dtype) for a in (p, q)), self.K
        )
        weights = weights.to(torch.float64).numpy().reshape(C, leaves, L, V)
        modified = [weights[:, :: V ** (L - 1 - i), i] for i in range(L)]
        return [_normalised(m, plain) for m, plain in zip(modified, target, strict=False)] + [target[L]]

    # -- counting ---------------------------------------------------------------------------------------------------

    def count_drafts(self, draft: list[Floats]) -> int:
        """Draft tuples of positive probability."""
        return int(sum(int(support) ** self.K for support in (_paths(draft) > 0).sum(axis=1)))

    def count_text(self, tokens: int) -> int:
        """Draft tuples over all rounds of a text: exact for a stateless rule, at least that for a stateful one."""
        order = self.pair.draft.depth - 1
        total = 0
        for position in range(tokens):
            context = np.arange(self.V ** min(position, order))
            total += self.count_drafts(self.draft_tables(context, min(position, order))) if position <= order else 0
        return total

    def check_count(self, count: int, what: str) -> None:
        if count > self.limits.drafts:
            raise LimitError(
                f"rule {self.rule.name!r} on pair {self.pair.name!r}: {what} with V={self.V}, L={self.L}, K={self.K} has "
                f"{count:,} draft tuples; the limit is {self.limits.drafts:,}. {self._what_fits(count)}"
            )

    def check_texts(self, tokens: int) -> None:
        if self.V**tokens > self.limits.texts:
            fits = max(n for n in range(tokens) if self.V**n <= self.limits.texts)
            raise LimitError(
                f"pair {self.pair.name!r}: there are {self.V**tokens:,} texts of {tokens} tokens; the limit is "
                f"{self.limits.texts:,}, which {fits} tokens would keep"
            )

    def _what_fits(self, count: int) -> str:
        scale = count / float(self.V) ** (self.L * self.K)
        options = [
            (L, K)
            for L, K in product(range(1, self.L + 1), range(1, self.K + 1))
            if scale * float(self.V) ** (L * K) <= self.limits.drafts
        ]
        sizes = [
            f"L={L}, K={max(K for l, K in options if l == L)}" for L in sorted({L for L, _ in options}, reverse=True)
        ]
        return "What would fit: " + ("; ".join(sizes) if sizes else "no L and K on this pair") + ". Or raise the limit."

    # -- enumeration ------------------------------------------------------------------------------------------------

    def emissions(self, draft: list[Floats], target: list[Floats]) -> list[Floats]:
        """Law of the emission after each of C contexts: ``[t]`` is float64 [C, V**(t+1)]."""
        C, K, L, V = target[0].shape[0], self.K, self.L, self.V
        path_probs = _paths(draft)
        tables = [torch.from_numpy(np.ascontiguousarray(level)).to(self.dtype) for level in (*draft, *target)]
        offsets = np.cumsum([0, *(V ** (t + 1) for t in range(L + 1))])
        law = np.zeros(C * offsets[-1])
        chunk = max(256, ROUND_BYTES // (K * (2 * L + 1) * V * 8))
        total = self.count_drafts(draft)
        done = 0
        first = self.finished
        for context, paths, weight in _draft_tuples(path_probs, K, chunk):
            build = _builder(torch.from_numpy(context), torch.from_numpy(paths), tables, L, V)
            if done == 0:
                check_round(build(torch.arange(min(len(context), 1024))))
            for batch in worlds(self.rule, build, len(context), chunk):
                row = batch.row.numpy()
                accepted = batch.emission.length.numpy() - 1
                place = context[row] * offsets[-1] + offsets[accepted] + _index(batch.emission.tokens.numpy(), V)
                law += np.bincount(place, batch.weight.numpy() * weight[row], minlength=len(law))
                self.finished += len(row)
                self._check_worlds(self.finished, self.finished)
            done += len(context)
            self._check_worlds(self.finished, first + (self.finished - first) * total // done)
        by_context = law.reshape(C, -1)
        return [by_context[:, offsets[t] : offsets[t + 1]] for t in range(L + 1)]

    def _check_worlds(self, finished: int, expected: int) -> None:
        if expected > self.limits.worlds:
            raise LimitError(
                f"rule {self.rule.name!r} on pair {self.pair.name!r}: the random choices of V={self.V}, L={self.L}, "
                f"K={self.K} make about {expected:,} worlds ({finished:,} enumerated so far); the limit is "
                f"{self.limits.worlds:,}. Use a smaller K or L, fewer tokens of text, or raise the limit."
            )

    # -- many rounds ------------------------------------------------------------------------------------------------

    def advance(self, group: _Group, position: int, starts: list[_Starts], text: Floats) -> None:
        """Run the round that starts at each place of a group; add what it emits to later starts and to the text."""
        if group.pending is None and self.rule.modified_target is None:
            emissions, onward = self._plain_emissions(group.context, position), None
        else:
            draft, target = self.draft_tables(group.context, position), self.plain_target(group.context, position)
            target[: len(group.pending or [])] = group.pending or []
            self.check_count(self.finished + self.count_drafts(draft), f"the text up to position {position}")
            emissions, onward = self.emissions(draft, target), self.next_target(draft, target)
        for t, law in enumerate(emissions):
            weight = group.weight[:, None] * law
            context = group.context[:, None] * self.V ** (t + 1) + np.arange(self.V ** (t + 1))
            end = position + t + 1
            beyond = end - len(starts)
            if beyond >= 0:
                text += np.bincount((context // self.V**beyond).ravel(), weight.ravel(), minlength=len(text))
            else:
                pending = None if onward is None else self._pending(onward, t)
                starts[end].add(context.ravel(), weight.ravel(), pending)

    def _plain_emissions(self, context: Ints, position: int) -> list[Floats]:
        """Emission laws of a stateless rule: they depend on the last depth-1 tokens only, so each is computed once."""
        order = min(position, self.pair.draft.depth - 1)
        if order not in self._plain_laws:
            every = np.arange(self.V**order)
            self._plain_laws[order] = self.emissions(self.draft_tables(every, order), self.plain_target(every, order))
        return [law[context % self.V**order] for law in self._plain_laws[order]]

    def _pending(self, onward: list[Floats], t: int) -> list[Floats] | None:
        """The modified target after an emission of t+1 tokens: levels 0..L-2, or ``None`` when none is left."""
        if t + 1 >= self.L:
            return None
        C, V = onward[0].shape[0], self.V
        levels = []
        for j in range(self.L - 1):
            if t + 1 + j > self.L - 1:
                break
            levels.append(onward[t + 1 + j].reshape(C * V ** (t + 1), V**j, V))
        return levels


def check_range(pair: ToyPair, length: int, drafts: int) -> None:
    """Raise ``ValueError`` unless K and L are possible for the pair."""
    if not 1 <= length <= pair.max_length:
        raise ValueError(
            f"pair {pair.name!r}: length (L) is {length}; its {pair.target.depth} levels cover 1 to {pair.max_length}"
        )
    if drafts < 1:
        raise ValueError(f"pair {pair.name!r}: drafts (K) is {drafts}; it must be at least 1")


def used_drafts(rule: Rule, drafts: int) -> int:
    """How many of K drafts the rule is given: single-draft rules use the first alone."""
    return drafts if rule.max_drafts is None else min(drafts, rule.max_drafts)


def _normalised(weights: Floats, plain: Floats) -> Floats:
    total = weights.sum(axis=-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), plain)


def _tails(levels: list[Floats], start: int, count: int) -> Floats:
    """Probability of each continuation of ``count`` tokens after each prefix of ``start``: [C, V**start, V**count]."""
    C, V = levels[0].shape[0], levels[0].shape[-1]
    tails = np.ones((C, V**start, 1))
    for level in levels[start : start + count]:
        tails = (tails.reshape(C, -1)[:, :, None] * level).reshape(C, V**start, -1)
    return tails


def _paths(draft: list[Floats]) -> Floats:
    """Probability of every draft after each context: float64 [C, V**L]."""
    return _tails(draft, 0, len(draft))[:, 0]


def _draft_tuples(path_probs: Floats, K: int, chunk: int):  # type: ignore[no-untyped-def]
    """Every K-tuple of drafts of positive probability, in pieces: context [W], paths [W, K], weight [W]."""
    for context, probs in enumerate(path_probs):
        support = np.flatnonzero(probs > 0)
        count = len(support) ** K
        for first in range(0, count, chunk):
            flat = np.arange(first, min(first + chunk, count))
            paths = support[_digits(flat, K, len(support))]
            yield np.full(len(flat), context), paths, probs[paths].prod(axis=1)


def _builder(
    context: torch.Tensor, paths: torch.Tensor, tables: list[torch.Tensor], L: int, V: int
) -> Callable[[torch.Tensor], Round]:
    """A function that gathers the rounds of some draft tuples out of the tables (L levels of draft, L+1 of target)."""

    def build(row: torch.Tensor) -> Round:
        at, path = context[row][:, None], paths[row]
        prefix = [path // V ** (L - i) for i in range(L + 1)]
        laws = [table[at, prefix[i if i < L else i - L]] for i, table in enumerate(tables)]
        tokens = torch.stack([prefix[i + 1] % V for i in range(L)], dim=-1)
        return Round(tokens, torch.stack(laws[:L], dim=2), torch.stack(laws[L:], dim=2))

    return build


def _digits(number: Ints, count: int, base: int) -> Ints:
    """Digits of numbers, most significant first: int64 [W, count]."""
    powers = base ** np.arange(count - 1, -1, -1)
    digits: Ints = number[:, None] // powers % base
    return digits


def _index(tokens: Ints, V: int) -> Ints:
    """Lexicographic index of each emission, padding ignored: int64 [W]."""
    index = np.zeros(len(tokens), dtype=np.int64)
    for column in tokens.T:
        index = np.where(column >= 0, index * V + column, index)
    return index
