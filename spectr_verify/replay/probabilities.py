"""Functions that are handed drafts and laws, ``f(draft_tokens, draft_probs, target_probs)``, as acceptance rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.replay.arguments import check_call
from spectr_verify.replay.runner import Failure, Outcome, outcomes
from spectr_verify.replay.tape import ReplayError
from spectr_verify.replay.tokens import emitted_tokens
from spectr_verify.replay.toy_lm import logits
from spectr_verify.replay.verifier import Verifier
from spectr_verify.rounds import Emission, EmissionError, Round

REMEMBERED = 20_000
"""Most rounds whose law is kept: the same ones come back in every run of the enumeration."""

INPUTS = ("draft_tokens", "draft_probs", "target_probs")
LOGITS = ("draft_logits", "target_logits", "draft_logprobs", "target_logprobs")


class Replayed:
    """A replayed function as a rule: its law in one round is enumerated, and the emission is one choice from it."""

    def __init__(self, verifier: Verifier) -> None:
        """Judge ``verifier``, which is called "probabilities"."""
        self.verifier = verifier
        self._laws: dict[bytes, Tensor] = {}

    def __call__(self, round: Round, chance: Chance) -> Emission:
        """Choose an emission of every row, see ``spectr_verify.rules.Rule``."""
        laws = torch.stack([self._law(round, row) for row in range(round.rows)])
        return _emission(round, chance.categorical(laws))

    def _law(self, round: Round, row: int) -> Tensor:
        """Probabilities of all emissions of one row, shorter ones first, then lexicographically."""
        parts = (round.drafts[row], round.draft_probs[row], round.target_probs[row])
        key = b"".join(part.numpy().tobytes() for part in parts)
        if key not in self._laws:
            if len(self._laws) >= REMEMBERED:
                self._laws.clear()
            law = torch.zeros(_count(round), dtype=torch.float64)
            for tokens, weight, _ in self.emissions(round, row):
                if isinstance(tokens, Failure):
                    self.verifier.seen.note_failure(tokens, weight)
                else:
                    law[_number(tokens, round.vocab)] += weight
            self._laws[key] = law / law.sum()
        return self._laws[key]

    def emissions(
        self, round: Round, row: int, *, edges: bool = False
    ) -> Iterator[tuple[tuple[int, ...] | Failure, float, float | None]]:
        """Every path of one row: tokens, weight, and the extreme value that a uniform took.

        Raises:
            EmissionError: what it returns is no emission.
        """
        verifier, name = self.verifier, self.verifier.name
        call = _call(verifier, round, row)
        for outcome in _explained(outcomes(call, name, verifier.budget, verifier.seen, edges=edges), round):
            if isinstance(outcome.result, Failure):
                yield outcome.result, outcome.weight, outcome.edge
                continue
            yield self._tokens(outcome, round, row), outcome.weight, outcome.edge

    def _tokens(self, outcome: Outcome, round: Round, row: int) -> tuple[int, ...] | Failure:
        try:
            return _accepted(self.verifier.name, outcome.result, round, row)[0]
        except EmissionError as error:
            if not outcome.excused:
                raise
            return Failure(str(error))


class Drawn:
    """A function as a rule that runs as it is: it draws from its own generators, and one emission comes of it."""

    def __init__(self, verifier: Verifier) -> None:
        """Run ``verifier``, which is called "probabilities"."""
        self.verifier = verifier

    def __call__(self, round: Round, chance: Chance) -> Emission:
        """Emit for every row in turn, see ``spectr_verify.rules.Rule``; nothing is asked of ``chance``."""
        emitted = [self._emitted(round, row) for row in range(round.rows)]
        tokens = torch.full((round.rows, round.length + 1), -1, dtype=torch.int64)
        for row, (found, _) in enumerate(emitted):
            tokens[row, : len(found)] = torch.tensor(found)
        length, draft = (torch.tensor(column) for column in zip(*((len(t), k) for t, k in emitted), strict=True))
        place = round.drafts.device
        return Emission(tokens.to(place), length.to(place), torch.where(length > 1, draft, -1).to(place))

    def _emitted(self, round: Round, row: int) -> tuple[tuple[int, ...], int]:
        return _accepted(self.verifier.name, _call(self.verifier, round, row)(), round, row)


def _accepted(name: str, result: object, round: Round, row: int) -> tuple[tuple[int, ...], int]:
    """The tokens that a function returned for one row, and the first draft that begins with all but the last.

    Raises:
        EmissionError: it is no emission.
    """
    tokens = emitted_tokens(result, name, round.vocab, round.length + 1)
    drafts = round.drafts[row].tolist()
    for number, draft in enumerate(drafts):
        if tuple(draft[: len(tokens) - 1]) == tokens[:-1]:
            return tokens, number
    raise EmissionError(
        f"{name} returned the tokens {list(tokens)} for the drafts {drafts}; all but the last must be the accepted "
        "beginning of a draft"
    )


def _explained(found: Iterator[Outcome], round: Round) -> Iterator[Outcome]:
    """The same; where the function raised, the error says with which shapes it was called."""
    try:
        yield from found
    except ReplayError as error:
        if " raised " not in str(error):
            raise
        inputs = _Inputs(round, 0).names()
        shapes = ", ".join(f"{name} {list(inputs[name].shape)}" for name in INPUTS)
        raise ReplayError(
            f"{error}. What there is for one request: {shapes}; other forms are passed by --arg, as a batch of one is "
            "by --arg NAME=draft_tokens[None]"
        ) from error


@dataclass
class _Inputs:
    """What the function may be called with, new tensors each time: the function may write into them."""

    round: Round
    row: int

    def names(self) -> dict[str, Any]:
        drafts, p, q = (part[self.row] for part in (self.round.drafts, self.round.draft_probs, self.round.target_probs))
        if self.round.num_drafts == 1:
            drafts, p, q = drafts[0], p[0], q[0]
        drafts, p, q = drafts.clone(), p.clone(), q.clone()
        sizes = {"L": self.round.length, "K": self.round.num_drafts, "V": self.round.vocab, "torch": torch}
        logs = dict(zip(LOGITS, (logits(p), logits(q), p.log(), q.log()), strict=True))
        return {**sizes, **dict(zip(INPUTS, (drafts, p, q), strict=True)), **logs}


def _call(verifier: Verifier, round: Round, row: int) -> Any:
    inputs = _Inputs(round, row)
    mapped = verifier.arguments.use(*INPUTS, *LOGITS)
    check_call(verifier.function, verifier.name, () if mapped else INPUTS, verifier.arguments.expressions)

    def call() -> Any:
        names = inputs.names()
        given = verifier.arguments.values(names)
        positional = [] if mapped else [names[name] for name in INPUTS]
        before = [_version(value) for value in (*positional, *given.values())]
        result = verifier.function(*positional, **given)
        if before != [_version(value) for value in (*positional, *given.values())]:
            verifier.seen.note(
                "it writes into the tensors that it is given, which changes the engine's laws for whoever comes next"
            )
        return result

    return call


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) else 0


def _count(round: Round) -> int:
    """How many emissions there are: 1 to L+1 tokens."""
    return _before(round.vocab, round.length + 2)


def _number(tokens: tuple[int, ...], vocab: int) -> int:
    number: int = 0
    for token in tokens:
        number = number * vocab + token
    return number + _before(vocab, len(tokens))


def _before(vocab: int, length: int) -> int:
    """How many emissions are shorter than ``length``."""
    return sum(int(vocab**n) for n in range(1, length))


def _emission(round: Round, number: Tensor) -> Emission:
    """Emissions [B] by their numbers; of the drafts that begin with the accepted tokens the first is named."""
    B, L, V = round.rows, round.length, round.vocab
    starts = torch.tensor([_before(V, length) for length in range(1, L + 2)])
    length = torch.searchsorted(starts, number, right=True)
    within = number - starts[length - 1]
    position = torch.arange(L + 1)
    power = (length[:, None] - 1 - position).clamp(min=0)
    tokens = torch.where(position < length[:, None], within[:, None] // V**power % V, -1)
    agree = (round.drafts == tokens[:, None, :L]) | (position[:L] >= length[:, None, None] - 1)
    draft = agree.all(-1).int().argmax(-1)
    return Emission(tokens, length, torch.where(length > 1, draft, torch.full((B,), -1)))
