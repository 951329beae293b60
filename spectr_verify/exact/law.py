"""Exact laws: of one round's emission, and of the first N tokens of a text that many rounds write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from spectr_verify.errors import InputError
from spectr_verify.exact.engine import Engine, one_thread
from spectr_verify.exact.limits import Limits
from spectr_verify.exact.tables import Ints, tails
from spectr_verify.rules import Rule
from toy_models import ToyPair
from toy_models.tables import Floats

TOTAL_TOLERANCE = 1e-9
"""How far the total weight of all worlds may be from 1 before the enumeration itself is refused."""


class EnumerationError(RuntimeError):
    """The worlds' weights do not sum to 1: the law cannot be trusted and is not returned."""


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
        return first_tokens(self.completed, self.vocab)

    @property
    def tv_round(self) -> float:
        """Total-variation distance of the completed law from the target's."""
        return total_variation(self.completed, self.target)

    @property
    def tv_first_token(self) -> float:
        """Total-variation distance of the first token's law from the target's."""
        return total_variation(self.first_token, first_tokens(self.target, self.vocab))


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


def first_tokens(law: Floats, texts: int) -> Floats:
    """The marginal law of a text's first tokens: float64 [V**N] to [texts], ``texts`` = V**n for the first n."""
    marginal: Floats = law.reshape(texts, -1).sum(axis=1)
    return marginal


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
        TableError: K or L out of range.
    """
    engine = Engine(rule, pair, length, drafts, dtype, limits or Limits())
    engine.limits.check_texts(pair.vocab, length + 1, engine.what)
    root = np.zeros(1, dtype=np.int64)
    draft, target = engine.draft_tables(root, 0), engine.target_tables(root, 0)
    engine.check_tuples([draft], "one round")
    with one_thread():
        emissions = engine.emissions(draft, target)
        onward = engine.next_target(draft, target)
    completed = np.zeros(pair.vocab ** (length + 1))
    for t, law in enumerate(emissions):
        completed += (law[0][:, None] * tails(onward, t + 1, length - t)[0]).ravel()
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
        raise InputError(f"tokens is {tokens}; a text needs at least 1")
    writer = _Writer(Engine(rule, pair, length, drafts, dtype, limits or Limits()), tokens)
    with one_thread():
        writer.write()
    total = _checked_total(float(writer.text.sum()), rule, pair)
    return TextLaw(writer.text, pair.target.joint(tokens), tokens, total, writer.engine.finished)


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
        merged: Floats = np.bincount(place, weight).astype(np.float64)
        return _Group(context, merged, None)
    levels = zip(*(group.pending or [] for group in groups), strict=True)
    return _Group(context, weight, [np.concatenate(level) for level in levels])


class _Writer:
    """Writes every text of N tokens, round after round, from the first position to the last."""

    def __init__(self, engine: Engine, tokens: int) -> None:
        self.engine, self.tokens = engine, tokens
        engine.limits.check_texts(engine.V, tokens, engine.what)
        contexts = sum(engine.V**position for position in range(tokens))
        engine.limits.check_entries(contexts * engine.V ** (engine.L + 1), engine.what)
        engine.check_tuples(self._every_draft(), f"the law of {tokens} tokens")
        self.text = np.zeros(engine.V**tokens)
        self.starts = [_Starts() for _ in range(tokens)]
        self.starts[0].add(np.zeros(1, dtype=np.int64), np.ones(1), None)
        self._plain_laws: dict[int, list[Floats]] = {}

    def write(self) -> None:
        for position in range(self.tokens):
            for group in self.starts[position].groups():
                self._advance(group, position)

    @property
    def _order(self) -> int:
        """How many of the last tokens a law depends on: the order of the Markov chain that the tables are."""
        return self.engine.pair.draft.depth - 1

    def _every_draft(self) -> Iterator[list[Floats]]:
        """Draft tables of all rounds: exact for a stateless rule; a stateful one has at least as many rounds."""
        for length in range(min(self.tokens, self._order + 1)):
            yield self.engine.draft_tables(np.arange(self.engine.V**length), length)

    def _advance(self, group: _Group, position: int) -> None:
        """Run the round that starts at each place of a group; add what it emits to later starts and to the text."""
        V = self.engine.V
        emissions, onward = self._round(group, position)
        for t, law in enumerate(emissions):
            weight = (group.weight[:, None] * law).ravel()
            context = (group.context[:, None] * V ** (t + 1) + np.arange(V ** (t + 1))).ravel()
            end = position + t + 1
            if end >= self.tokens:
                self.text += np.bincount(context // V ** (end - self.tokens), weight, minlength=len(self.text))
            else:
                self.starts[end].add(context, weight, self._pending(onward, t))

    def _round(self, group: _Group, position: int) -> tuple[list[Floats], list[Floats] | None]:
        """Emission laws, and the target that follows (``None``: the plain one)."""
        engine = self.engine
        if engine.rule.modified_target is None:
            return self._plain_emissions(group.context, position), None
        draft, target = engine.draft_tables(group.context, position), engine.target_tables(group.context, position)
        if group.pending is not None:
            target[: len(group.pending)] = group.pending
        engine.check_tuples([draft], f"the rounds that start at position {position}")
        return engine.emissions(draft, target), engine.next_target(draft, target)

    def _plain_emissions(self, context: Ints, position: int) -> list[Floats]:
        """Emission laws of a stateless rule: each context that the tables tell apart is enumerated once."""
        order, engine = min(position, self._order), self.engine
        every = np.arange(engine.V**order)
        if order not in self._plain_laws:
            self._plain_laws[order] = engine.emissions(
                engine.draft_tables(every, order), engine.target_tables(every, order)
            )
        return [law[context % len(every)] for law in self._plain_laws[order]]

    def _pending(self, onward: list[Floats] | None, t: int) -> list[Floats] | None:
        """What is left of a modified target after an emission of t+1 tokens: its levels t+1 .. L-1."""
        if onward is None or t + 1 >= self.engine.L:
            return None
        V = self.engine.V
        return [level.reshape(-1, V**j, V) for j, level in enumerate(onward[t + 1 : self.engine.L])]
