"""All worlds of a rule on a batch of rounds: every random choice taken, with its weight.

All worlds run in lock-step with their recorded choices. At the first choice that is not recorded every world forks
into its outcomes of positive weight and the rule runs again, so D choices cost D + 1 vectorised runs (and the first
finished batch one more, in parts, which checks that its rows do not depend on each other).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectr_verify.chance import ChanceError, Enumerated, Fork
from spectr_verify.errors import InputError, said
from spectr_verify.exact.limits import Limits
from spectr_verify.rounds import Emission, EmissionError, Round, check_emission
from spectr_verify.rules import Rule

MAX_CHOICES = 256
"""A rule that asks for more random choices than this in one round is taken to ask without end."""

MAX_RECORDED = 2**25
"""Most choices that unfinished worlds may have on record, 8 bytes each: a rule without end must not fill memory."""

SAME = 1e-6
"""How far apart the probabilities of the same worlds may be in two runs: the rounding of float32."""

_AGAIN = (
    "the same worlds ran again in another batch; rows must not depend on each other, and nothing may be random or "
    "remembered outside the Chance"
)


@dataclass(frozen=True, eq=False)
class Worlds:
    """Finished worlds of one batch.

    Attributes:
        row: int64 [W], which row of the batch each world belongs to.
        weight: float64 [W], its probability given that row.
        emission: what the rule emitted, W rows.
    """

    row: Tensor
    weight: Tensor
    emission: Emission


def worlds(
    rule: Rule, build: Callable[[Tensor], Round], rows: int, chunk: int, limits: Limits | None = None
) -> Iterator[Worlds]:
    """Enumerate the worlds of ``rows`` rounds, never more than ``chunk`` at once in the rule.

    Args:
        rule: the rule.
        build: makes the round of some rows of the batch, int64 [W] to W rows. Called anew for every run, so that a
            rule that writes into its round harms only itself.
        rows: how many rows the batch has.
        chunk: the most rows that a round may have.
        limits: no more worlds than these allow may be open at once.

    Raises:
        LimitError: the rule's choices have too many outcomes at once.
        EmissionError: the rule broke its contract, is random other than through its ``Chance``, lets its rows depend
            on each other, or asks for choices without end.
        ChanceError: the rule asked for an impossible choice.
    """
    limits = limits or Limits()
    everything = torch.arange(rows)
    stack = [_Open(everything, torch.zeros(rows, 0, dtype=torch.int64), torch.ones(rows, dtype=torch.float64))]
    recorded = 0
    checked = False
    while stack:
        batch = stack.pop()
        if len(batch.row) > chunk:
            stack.extend(batch.take(slice(i, i + chunk)) for i in range(0, len(batch.row), chunk))
            continue
        recorded -= batch.record.numel()
        try:
            emission = _run(rule, build, batch)
        except Fork as fork:
            outcomes = int((fork.probabilities > 0).sum())
            limits.check_worlds(0, outcomes, f"rule {rule.name!r}, choice {batch.record.shape[1]} of one batch")
            stack.append(batch.forked(fork.probabilities))
            recorded += stack[-1].record.numel()
            _refuse_endless(rule, stack[-1], recorded)
            continue
        if not checked:
            _check_repeatable(rule, build, batch, emission)
            checked = True
        yield Worlds(batch.row, batch.weight, emission)


@dataclass(frozen=True, eq=False)
class _Open:
    """Worlds that are not known to be finished: their rows, the choices on record [W, D], and their weights."""

    row: Tensor
    record: Tensor
    weight: Tensor

    def take(self, worlds: Tensor | slice) -> _Open:
        return _Open(self.row[worlds], self.record[worlds], self.weight[worlds])

    def forked(self, probabilities: Tensor) -> _Open:
        """Every world once for each outcome of positive weight of its next choice: [W, n]."""
        world, outcome = (probabilities > 0).nonzero(as_tuple=True)
        record = torch.cat([self.record[world], outcome[:, None]], dim=1)
        return _Open(self.row[world], record, self.weight[world] * probabilities[world, outcome])


def _refuse_endless(rule: Rule, batch: _Open, recorded: int) -> None:
    choices = batch.record.shape[1]
    if choices > MAX_CHOICES or recorded > MAX_RECORDED:
        raise EmissionError(
            f"rule {rule.name!r} still asks for more after {choices} random choices in one round; a rule that draws "
            "until something happens has no exact law: draw what happens in the end as one choice"
        )


def _run(rule: Rule, build: Callable[[Tensor], Round], batch: _Open) -> Emission:
    """One run of the rule on a batch, checked: what it emits, or a ``Fork`` at the first choice not on record."""
    round, chance = build(batch.row), Enumerated(batch.record)
    untouched = _versions(round)
    emission = _verify(rule, round, chance)
    _check_replay(rule, batch, chance)
    # Judged by what it was given, not by what it made of it.
    given = round if _versions(round) == untouched else build(batch.row)
    try:
        checked = check_emission(given, emission)
    except EmissionError as error:
        raise EmissionError(f"rule {rule.name!r}: {error}") from error
    # Copied, because the rule may use its tensors again in the next run.
    return Emission(checked.tokens.clone(), checked.length.clone(), checked.draft.clone())


def _verify(rule: Rule, round: Round, chance: Enumerated) -> object:
    """What the rule returns; whatever it raises, save a ``Fork``, becomes one error that names the rule."""
    before = _global_randomness()
    try:
        return rule.verify(round, chance)
    except Fork:
        if not chance.stopped:
            raise EmissionError(f"rule {rule.name!r} raised a Fork by itself; that is for its Chance to do") from None
        raise
    except KeyboardInterrupt:
        raise
    except ChanceError as error:
        raise ChanceError(f"rule {rule.name!r}: {error}") from error
    except EmissionError as error:
        if str(error).startswith(rule.name):  # replayed code, which names itself
            raise
        raise EmissionError(f"rule {rule.name!r}: {error}") from error
    except InputError:  # a refusal of the package's own, with its own words
        raise
    except BaseException as error:  # the rule is anybody's code
        raise EmissionError(f"rule {rule.name!r} raised {said(error)}") from error
    finally:
        if not _same_randomness(before, _global_randomness()):
            raise EmissionError(
                f"rule {rule.name!r} drew random numbers by itself (torch, numpy or random); an exact law needs every "
                "random choice to go through the Chance that the rule is given"
            )


def _check_replay(rule: Rule, batch: _Open, chance: Enumerated) -> None:
    """The rule asked for the choices on record, all of them, and gave them the probabilities of before."""
    if chance.stopped:
        raise EmissionError(
            f"rule {rule.name!r} went on after the exception with which its Chance stops it; it must not catch "
            "BaseException, nor return from a finally clause"
        )
    if chance.asked < batch.record.shape[1]:
        raise EmissionError(
            f"rule {rule.name!r} asked for {chance.asked} random choices and for {batch.record.shape[1]} before, in "
            "the same worlds; every row must be asked the same number of choices (a point mass where a row has none)"
        )
    apart = torch.zeros(int(batch.row.max()) + 1, dtype=torch.float64)
    apart.index_add_(0, batch.row, (chance.weight - batch.weight).abs())
    if apart.max() > SAME:
        raise EmissionError(f"rule {rule.name!r} gave its choices other probabilities when {_AGAIN}")


def _check_repeatable(rule: Rule, build: Callable[[Tensor], Round], batch: _Open, emission: Emission) -> None:
    """Run the same worlds again, shuffled: one alone, a few, some more, the rest. Rows that depend on others differ."""
    shuffled = torch.randperm(len(batch.row), generator=torch.Generator().manual_seed(0))
    for part in shuffled.tensor_split([1, 5, 21]):
        if len(part) == 0:
            continue
        try:
            again = _run(rule, build, batch.take(part))
        except Fork:
            raise EmissionError(f"rule {rule.name!r} asked for more random choices when {_AGAIN}") from None
        for name in ("tokens", "length", "draft"):
            if not torch.equal(getattr(again, name), getattr(emission, name)[part]):
                raise EmissionError(f"rule {rule.name!r} gave another emission when {_AGAIN}")


def _versions(round: Round) -> list[int]:
    """How often each tensor of a round has been written into."""
    return [tensor._version for tensor in (round.drafts, round.draft_probs, round.target_probs)]


_Randomness = tuple[Tensor, tuple[Any, ...], tuple[Any, ...]]


def _global_randomness() -> _Randomness:
    """States of the generators that a rule must leave alone: torch's, numpy's and Python's."""
    return torch.get_rng_state(), tuple(np.random.get_state()), random.getstate()  # noqa: NPY002 - to notice its use


def _same_randomness(one: _Randomness, other: _Randomness) -> bool:
    if not torch.equal(one[0], other[0]) or one[2] != other[2]:
        return False
    return all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))
