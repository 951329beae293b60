"""The record of one run's random choices, and the walk through all runs.

A run asks its *tape* for every choice. The tape answers from its record and, past it, with the first outcome of
positive weight; ``paths`` then changes the last choice that has another outcome and runs again, depth first, until
every outcome of every choice was taken. Each path is one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from spectr_verify.errors import InputError
from spectr_verify.replay.where import where

MAX_CHOICES = 256
"""Code that makes more random choices than this in one run is taken to draw without end."""

MAX_NUMBERS = 100_000
"""Code that draws more random numbers than this in one run is taken to draw without end."""

NEGLIGIBLE = 1e-17
"""Paths of less weight than this are not run: all of them together are below the rounding of the sums."""

SAME = 1e-6
"""How far apart the probabilities of one choice may be in two runs of the same path."""

Result = TypeVar("Result")


class ReplayError(InputError):
    """No exact law of this code: the message says what was seen, where, and what to do."""


class BudgetError(InputError):
    """The work that was allowed is used up: the message says how much it was. Never a verdict."""


@dataclass
class Budget:
    """How much work an audit may do, shared by all that it runs.

    Attributes:
        paths: most runs of the code under test.
        seconds: most seconds, counted from the creation of the budget.
        run_seconds: most seconds for one run; past it the code is taken to loop.
        used: runs so far.
    """

    paths: int = 500_000
    seconds: float = 600.0
    run_seconds: float = 20.0
    used: int = 0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for name in ("paths", "seconds", "run_seconds"):
            if not getattr(self, name) > 0:
                raise InputError(f"the budget's {name} is {getattr(self, name)}; it must be above 0")

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.started + self.seconds - time.monotonic()

    def spend(self) -> None:
        """Count one run; raise ``BudgetError`` if there may be no more."""
        if self.used >= self.paths:
            raise BudgetError(f"the limit of {self.paths:,} paths is reached; raise it (--max-paths)")
        if self.left <= 0:
            raise BudgetError(f"the limit of {self.seconds:g} seconds is reached; raise it (--max-seconds)")
        self.used += 1


@dataclass
class _Choice:
    law: tuple[float, ...]
    taken: int


class Tape:
    """Answers one run's random choices.

    Attributes:
        weight: probability of the choices made so far.
        refusal: the first refusal of this run, in case the code under test swallowed it.
    """

    def __init__(self, trail: list[_Choice]) -> None:
        """Answer from ``trail`` as far as it goes."""
        self.trail = trail
        self.asked = 0
        self.asked_at_the_edge = 0
        self.weight = 1.0
        self.refusal: InputError | None = None

    def choose(self, law: Sequence[float]) -> int:
        """One outcome of a choice with these probabilities.

        They sum to 1, or are all 1 where every outcome is to be taken and none has a probability.
        """
        weights = tuple(law)
        if not any(weight > 0 for weight in weights):
            self.refuse(f"a choice among {len(weights)} outcomes has no outcome of positive probability")
        likely = [i for i, w in enumerate(weights) if w > 0 and self.weight * w >= NEGLIGIBLE]
        if not likely:  # the path itself is at the edge of what counts: it is run to its end, and branches no more
            likely = [max(range(len(weights)), key=weights.__getitem__)]
            self.asked_at_the_edge += 1
            if self.asked_at_the_edge > MAX_CHOICES:
                self.refuse(f"it still draws after {self.asked} random choices in one run", ENDLESS)
        first_visit = self.asked == len(self.trail)
        if len(likely) == 1:
            self.weight *= weights[likely[0]]
            return likely[0]
        if first_visit:
            if self.asked >= MAX_CHOICES:
                self.refuse(f"it still draws after {MAX_CHOICES} random choices in one run", ENDLESS)
            self.trail.append(_Choice(weights, likely[0]))
        choice = self.trail[self.asked]
        if len(choice.law) != len(weights) or any(abs(a - b) > SAME for a, b in zip(choice.law, weights, strict=True)):
            self.refuse(*STATE)
        self.asked += 1
        self.weight *= weights[choice.taken]
        return choice.taken

    def refuse(self, what: str, advice: str = "") -> NoReturn:
        """Raise ``ReplayError``, with the line where it happens, and remember it in case that it is swallowed."""
        self.refusal = self.refusal or ReplayError(f"{what}{where()}" + f". {advice}" * bool(advice))
        raise self.refusal


ENDLESS = (
    "Code that draws until something happens has no law that can be enumerated: bound the number of tries, or take "
    "fewer tokens"
)

STATE = (
    "it asked for other random choices when it ran again with the same inputs and the same answers: it keeps state "
    "between calls, or draws randomness that cannot be answered for it (from a numpy Generator or other source of its "
    "own)",
    "Make each call start afresh, or draw from torch, numpy.random or random inside the call",
)


def paths(run: Callable[[Tape], Result], budget: Budget) -> Iterator[tuple[float, Result]]:
    """Every path of ``run``: its weight and what the run returned.

    Args:
        run: makes every random choice through the tape that it is given, and is otherwise a function of nothing.
        budget: counts the runs.

    Raises:
        BudgetError: the budget is used up before the last path.
        ReplayError: the same choices did not lead to the same questions again.
    """
    trail: list[_Choice] = []
    while True:
        budget.spend()
        tape = Tape(trail)
        result = run(tape)
        if tape.asked < len(trail):
            raise ReplayError(". ".join(STATE))
        yield tape.weight, result
        if not _advance(trail):
            return


def _advance(trail: list[_Choice]) -> bool:
    """Turn the trail to the next path; False after the last one."""
    weight = [1.0]
    for choice in trail:
        weight.append(weight[-1] * choice.law[choice.taken])
    while trail:
        choice, reached = trail[-1], weight[len(trail) - 1]
        for outcome in range(choice.taken + 1, len(choice.law)):
            if choice.law[outcome] > 0 and reached * choice.law[outcome] >= NEGLIGIBLE:
                choice.taken = outcome
                return True
        trail.pop()
    return False
