"""Linear programs solved exactly: HiGHS finds a basis in floating point, and the rest is done in fractions.

A basis that is optimal in floats is nearly always optimal, and then its two solutions are all there is to compute.
Where it is not, the simplex method goes on from it in exact arithmetic: first dual steps until nothing is negative,
then primal ones. Bland's rule lets neither run in circles, so the end is the optimum whatever the first basis was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from spectr_verify.bounds.rational.factor import ZERO, Factors, SingularError, Sparse
from spectr_verify.bounds.result import BoundError

MAX_PIVOTS = 10_000
"""Exact steps after which a program is given up. Most of HiGHS's bases need none, laws over decades dozens."""


@dataclass(frozen=True, eq=False)
class Program:
    """Maximise ``costs`` x subject to A x <= ``limits`` and x >= 0.

    No limit is negative, so that x = 0 is allowed and every program has a solution unless it is unbounded.

    Attributes:
        columns: A by column, entries by row.
        costs: one for each column.
        limits: one for each row.
    """

    columns: Sequence[Sparse]
    costs: Sequence[Fraction]
    limits: Sequence[Fraction]

    @property
    def rows(self) -> int:
        """How many constraints there are."""
        return len(self.limits)

    def column(self, number: int) -> Sparse:
        """A column, or beyond them the slack of a row."""
        count = len(self.columns)
        return self.columns[number] if number < count else {number - count: Fraction(1)}

    def proved_by(self, primal: Sequence[Fraction], dual: Sequence[Fraction]) -> bool:
        """Whether two points are allowed and have one value, so that both are optimal by weak duality."""
        used = [ZERO] * self.rows
        for column, x in zip(self.columns, primal, strict=True):
            for row, entry in column.items():
                used[row] += entry * x
        allowed = all(x >= 0 for x in primal) and all(u <= limit for u, limit in zip(used, self.limits, strict=True))
        dear = all(cost <= _product(dual, column) for cost, column in zip(self.costs, self.columns, strict=True))
        return allowed and dear and all(y >= 0 for y in dual) and _dot(self.costs, primal) == _dot(self.limits, dual)

    def slacks(self) -> list[int]:
        """The basis of the point 0."""
        return list(range(len(self.columns), len(self.columns) + self.rows))


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimum: x by column, the multipliers by row, their common value, and how many exact steps it took."""

    primal: list[Fraction]
    dual: list[Fraction]
    value: Fraction
    pivots: int


def solve(program: Program, basis: Sequence[int]) -> Solution:
    """The exact optimum, from a basis that is at best optimal already.

    Args:
        program: what to solve.
        basis: as many columns as there are rows; the slack of row r counts as column ``len(columns) + r``.

    Raises:
        BoundError: there is no optimum, or it takes more than ``MAX_PIVOTS`` steps.
    """
    costs = [*program.costs, *([ZERO] * program.rows)]
    try:
        point = _Point(program, sorted(basis), costs)
    except SingularError:  # in floats it was not
        point = _Point(program, program.slacks(), costs)
    pivots = 0
    # Prices at which nothing is worth entering: with them the dual steps lead to a point that is allowed.
    lowered = [cost - max(gain, ZERO) for cost, gain in zip(costs, point.gains, strict=True)]
    for phase, step in ((lowered, _dual_step), (costs, _primal_step)):
        point = _Point(program, point.basis, phase)
        while (following := step(point)) is not None:
            pivots += 1
            if pivots > MAX_PIVOTS:
                raise BoundError(f"the exact optimum is not reached in {MAX_PIVOTS:,} steps; take a smaller L or K")
            point = _Point(program, following, phase)
    primal = [ZERO] * len(costs)
    for number, value in zip(point.basis, point.values, strict=True):
        primal[number] = value
    found = Solution(primal[: len(program.columns)], point.prices, _dot(costs, primal), pivots)
    if not program.proved_by(found.primal, found.dual):
        raise BoundError("the exact solution does not prove itself, which is a fault of this program; please report it")
    return found


class _Point:
    """A basis with its values, prices, and what each column would gain (0 for those in the basis)."""

    def __init__(self, program: Program, basis: list[int], costs: Sequence[Fraction]) -> None:
        self.program, self.basis, self.costs = program, basis, costs
        self.factors = Factors([program.column(number) for number in basis])
        self.values = self.factors.solve(dict(enumerate(program.limits)))
        self.prices = self.factors.solve_transposed({place: costs[number] for place, number in enumerate(basis)})
        self.gains = [cost - _product(self.prices, program.column(number)) for number, cost in enumerate(costs)]

    def exchanged(self, place: int, number: int) -> list[int]:
        """The basis with another column at one place."""
        return sorted([*self.basis[:place], *self.basis[place + 1 :], number])


def _primal_step(point: _Point) -> list[int] | None:
    """Bland's rule: the first column that gains enters, the first of those that run out first leaves."""
    entering = next((number for number, gain in enumerate(point.gains) if gain > 0), None)
    if entering is None:
        return None
    rates = point.factors.solve(point.program.column(entering))
    ratios = [(point.values[place] / rate, place) for place, rate in enumerate(rates) if rate > 0]
    if not ratios:
        raise BoundError("the program has no largest value")
    return point.exchanged(min(ratios)[1], entering)


def _dual_step(point: _Point) -> list[int] | None:
    """The same on the other side: the first negative value leaves, the first of the nearest gains enters."""
    leaving = next((place for place, value in enumerate(point.values) if value < 0), None)
    if leaving is None:
        return None
    row = point.factors.solve_transposed({leaving: Fraction(1)})
    inside = set(point.basis)
    rates = (
        (number, _product(row, point.program.column(number)))
        for number in range(len(point.costs))
        if number not in inside
    )
    ratios = [(point.gains[number] / rate, number) for number, rate in rates if rate < 0]
    if not ratios:
        raise BoundError("the program has no point at all")
    return point.exchanged(leaving, min(ratios)[1])


def _product(values: Sequence[Fraction], column: Sparse) -> Fraction:
    return sum((entry * values[row] for row, entry in column.items() if values[row]), ZERO)


def _dot(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True) if b), ZERO)


def float_basis(program: Program) -> list[int]:
    """The basis that HiGHS ends with on the program in floating point; that of the point 0 where it ends with none."""
    highspy = import_module("highspy")
    solver = highspy.Highs()
    # Of sets of drafts that are rarer than HiGHS's tolerance the basis may say anything: mass counts in 2**-20.
    for option, value in (("output_flag", False), ("user_bound_scale", 20), ("small_matrix_value", 1e-12)):
        solver.setOptionValue(option, value)
    solver.passModel(_as_highs(program, highspy))
    solver.run()
    found = solver.getBasis()
    if not found.valid:
        return program.slacks()
    basic = highspy.HighsBasisStatus.kBasic
    chosen = [number for number, status in enumerate([*found.col_status, *found.row_status]) if status == basic]
    return chosen if len(chosen) == program.rows else program.slacks()


def _as_highs(program: Program, highspy: Any) -> Any:
    """The program in HiGHS's own form."""
    count, rows = len(program.columns), program.rows
    model = highspy.HighsLp()
    model.num_col_, model.num_row_, model.sense_ = count, rows, highspy.ObjSense.kMaximize
    model.col_cost_ = np.array([float(cost) for cost in program.costs])
    model.col_lower_, model.col_upper_ = np.zeros(count), np.full(count, highspy.kHighsInf)
    model.row_lower_ = np.full(rows, -highspy.kHighsInf)
    model.row_upper_ = np.array([float(limit) for limit in program.limits])
    entries = list(_entries(program))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(column) for column in program.columns)])
    model.a_matrix_.index_ = np.array([row for row, _ in entries])
    model.a_matrix_.value_ = np.array([value for _, value in entries])
    return model


def _entries(program: Program) -> Iterator[tuple[int, float]]:
    return ((row, float(value)) for column in program.columns for row, value in column.items())
