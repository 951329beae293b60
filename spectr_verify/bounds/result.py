"""What a bound answers with, and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectr_verify.errors import InputError

Floats = NDArray[np.float64]


class BoundError(InputError):
    """A bound that cannot be given: the message names the pair, what was wrong and what to do."""


class BoundSizeError(BoundError):
    """A program that would be too large to solve: the message has the count and what would fit."""


@dataclass(frozen=True, eq=False)
class BoundResult:
    """An optimum between two sides, each computed from a point that is feasible by construction.

    Neither side is the solver's own figure. ``value`` is reached by a primal point, and ``upper`` follows from a
    dual point by weak duality, so the true optimum lies between them up to the rounding of float64 sums.

    Attributes:
        value: mean accepted tokens a round, reached by a lossless rule of the class.
        upper: no lossless rule of the class accepts more.
        status: what the solver said.
        seconds: wall time of the whole call, imports left out.
        solver_seconds: the part of it that HiGHS reports as its own.
        variables: how many variables the program had.
        duals: selection programs: the price y_v of each node, one float64 [V**i] a level, i = 1..L. Transport
            programs: one array, the price of each target text of positive probability.
    """

    value: float
    upper: float
    status: str
    seconds: float
    solver_seconds: float
    variables: int
    duals: tuple[Floats, ...]

    @property
    def gap(self) -> float:
        """``upper - value``. Rounding can take it below zero by the last bits of a sum."""
        return self.upper - self.value

    def as_dict(self) -> dict[str, float | int | str]:
        """The figures for JSON, without the duals."""
        return {
            "value": self.value,
            "upper": self.upper,
            "gap": self.gap,
            "status": self.status,
            "seconds": self.seconds,
            "variables": self.variables,
        }
