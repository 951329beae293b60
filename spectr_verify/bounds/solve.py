"""HiGHS through cvxpy, and the refusal of everything that is not a certified optimum."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from spectr_verify.bounds.problem import Problem
from spectr_verify.bounds.result import BoundError, BoundResult

MAX_VARIABLES = 200_000
"""Programs above this are refused unless the caller raises the limit. At the limit a solve takes seconds."""

TOLERANCE = 1e-8
"""Largest gap between the two certified sides of an optimum, in accepted tokens a round."""

# HiGHS's tolerances are absolute and meant for numbers around 1, but one set of drafts has little mass. With mass in
# units of 2**-20 the largest gap in 4000 solves of drawn pairs with long tails was 2e-9; without, gaps reached 4e-6. By
# default HiGHS also drops coefficients below 1e-9, and next-token probabilities are coefficients. highspy 1.11 got
# user_bound_scale wrong (the gap shows it), hence the least version that pyproject.toml asks for.
_HIGHS_OPTIONS = {"user_bound_scale": 20, "small_matrix_value": 1e-12}


@dataclass(frozen=True)
class Solved:
    """How a solve ended: HiGHS's status in cvxpy's words, and the seconds that HiGHS reports."""

    status: str
    seconds: float


def modelling() -> Any:
    """cvxpy, imported when the first program is built: it takes a second that other commands need not wait."""
    return import_module("cvxpy")


def maximise(problem: Problem, objective: Any, constraints: list[Any], time_limit: float | None) -> Solved:
    """Solve a linear program; the variables and constraints then carry its primal and dual point.

    Args:
        problem: named in errors.
        objective: the cvxpy expression to maximise.
        constraints: cvxpy constraints.
        time_limit: seconds after which HiGHS gives up; ``None`` never.

    Raises:
        BoundError: the solver ended with any other status than optimal.
    """
    cp = modelling()
    program = cp.Problem(cp.Maximize(objective), constraints)
    options = _HIGHS_OPTIONS | ({} if time_limit is None else {"time_limit": time_limit})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the point may be inaccurate: it is refused below
            program.solve(solver=cp.HIGHS, **options)
    except cp.error.SolverError as error:
        raise BoundError(f"{problem}: HiGHS failed: {error}") from error
    if program.status != cp.OPTIMAL:
        raise BoundError(
            f"{problem}: HiGHS ended with status {program.status!r} instead of 'optimal', so there is no bound and "
            "no gap to report; give it more time, or take a smaller L or K"
        )
    return Solved(program.status, float(program.solver_stats.solve_time))


def certified(problem: Problem, result: BoundResult, tolerance: float) -> BoundResult:
    """The result, if its two sides meet.

    Raises:
        BoundError: the gap is above ``tolerance``, or not a number.
    """
    if not result.gap <= tolerance:
        raise BoundError(
            f"{problem}: HiGHS ended with status {result.status!r}, but its point only shows that the optimum lies "
            f"between {result.value!r} and {result.upper!r}: gap {result.gap:.3g}, allowed {tolerance:.3g}"
        )
    return result
