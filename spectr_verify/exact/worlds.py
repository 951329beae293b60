"""All worlds of a rule on a batch of rounds: every random choice taken, with its weight.

All worlds run in lock-step with their recorded choices. At the first choice that is not recorded every world forks
into its outcomes of positive weight and the rule runs again, so D choices cost D + 1 vectorised runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spectr_verify.chance import ChanceError, Enumerated, Fork
from spectr_verify.rounds import Emission, EmissionError, Round, check_emission
from spectr_verify.rules import Rule

MAX_CHOICES = 10_000
"""A rule that asks for more random choices than this in one round is taken to ask without end."""


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


def worlds(rule: Rule, build: Callable[[Tensor], Round], rows: int, chunk: int) -> Iterator[Worlds]:
    """Enumerate the worlds of ``rows`` rounds, never more than ``chunk`` at once in the rule.

    Args:
        rule: the rule.
        build: makes the round of some rows of the batch, int64 [W] to W rows. Called anew for every run, so that a
            rule that writes into its round harms only itself.
        rows: how many rows the batch has.
        chunk: the most rows that a round may have.

    Raises:
        EmissionError: the rule broke its contract, or is random other than through its ``Chance``.
        ChanceError: the rule asked for an impossible choice.
    """
    everything = torch.arange(rows)
    empty = torch.zeros(rows, 0, dtype=torch.int64)
    stack = [(everything, empty, torch.ones(rows, dtype=torch.float64))]
    checked = False
    while stack:
        row, record, weight = stack.pop()
        if len(row) > chunk:
            stack.extend(
                (row[i : i + chunk], record[i : i + chunk], weight[i : i + chunk]) for i in range(0, len(row), chunk)
            )
            continue
        round = build(row)
        try:
            emission = _run(rule, round, record)
        except Fork as fork:
            stack.append(_forked(rule, row, record, weight, fork.probabilities))
            continue
        if not checked:
            _check_repeatable(rule, build, row, record, emission)
            checked = True
        yield Worlds(row, weight, emission)


def _run(rule: Rule, round: Round, record: Tensor) -> Emission:
    chance = Enumerated(record)
    before = _global_randomness()
    try:
        emission = rule.verify(round, chance)
    except (ChanceError, EmissionError):
        raise
    except Exception as error:  # the rule is anybody's code
        raise EmissionError(f"rule {rule.name!r} raised {type(error).__name__}: {error}") from error
    finally:
        if not _same_randomness(before, _global_randomness()):
            raise EmissionError(
                f"rule {rule.name!r} drew random numbers by itself (torch, numpy or random); an exact law needs every "
                "random choice to go through the Chance that the rule is given"
            )
    if chance.asked < record.shape[1]:
        raise EmissionError(
            f"rule {rule.name!r} asked for {chance.asked} random choices and for {record.shape[1]} before, in the same "
            "worlds; every row must be asked the same number of choices (a point mass where a row has none)"
        )
    return check_emission(round, emission)


def _forked(
    rule: Rule, row: Tensor, record: Tensor, weight: Tensor, probabilities: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    if record.shape[1] >= MAX_CHOICES:
        raise EmissionError(f"rule {rule.name!r} asked for more than {MAX_CHOICES} random choices in one round")
    world, outcome = (probabilities > 0).nonzero(as_tuple=True)
    forked = weight[world] * probabilities[world, outcome]
    return row[world], torch.cat([record[world], outcome[:, None]], dim=1), forked


def _check_repeatable(
    rule: Rule, build: Callable[[Tensor], Round], row: Tensor, record: Tensor, emission: Emission
) -> None:
    """Run the same worlds in reverse order: a rule whose rows depend on each other or on hidden state differs."""
    again = _run(rule, build(row.flip(0)), record.flip(0))
    for name in ("tokens", "length", "draft"):
        if not torch.equal(getattr(again, name).flip(0), getattr(emission, name)):
            raise EmissionError(
                f"rule {rule.name!r} gave another emission when the same worlds ran again in reverse order; rows must "
                "not depend on each other, and nothing may be random or remembered outside the Chance"
            )


def _global_randomness() -> tuple[Tensor, object, object]:
    return torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - whose use it is to notice


def _same_randomness(one: tuple[Tensor, object, object], other: tuple[Tensor, object, object]) -> bool:
    if not torch.equal(one[0], other[0]) or one[2] != other[2]:
        return False
    return all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))  # type: ignore[call-overload]
