"""Sparse systems of equations over the rationals, solved without rounding.

Bases of the selection programs are nearly triangular: most columns are slacks or the one flow of a set. Elimination in
the order of fewest entries leaves little to fill in, so fractions stay short and plain ``Fraction`` is fast enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush

Sparse = Mapping[int, Fraction]

ZERO = Fraction(0)


class SingularError(ArithmeticError):
    """The columns are linearly dependent."""


@dataclass(frozen=True)
class _Step:
    """One step of the elimination: its pivot, what it was taken from, and what is left of its row."""

    row: int
    column: int
    pivot: Fraction
    factors: list[tuple[int, Fraction]]
    rest: dict[int, Fraction]


class Factors:
    """A square sparse matrix, factored once to solve with it and with its transpose."""

    def __init__(self, columns: Sequence[Sparse]) -> None:
        """Factor the matrix of these columns, entries by row.

        Raises:
            SingularError: it has no inverse.
        """
        self.size = len(columns)
        self.steps = list(_eliminate(columns))

    def solve(self, right: Sparse) -> list[Fraction]:
        """x with A x = right, by column."""
        left = [right.get(row, ZERO) for row in range(self.size)]
        for step in self.steps:
            if left[step.row]:
                for row, factor in step.factors:
                    left[row] -= factor * left[step.row]
        found = [ZERO] * self.size
        for step in reversed(self.steps):
            known = sum((entry * found[column] for column, entry in step.rest.items() if found[column]), ZERO)
            found[step.column] = (left[step.row] - known) / step.pivot
        return found

    def solve_transposed(self, right: Sparse) -> list[Fraction]:
        """y with A^T y = right, by row."""
        left = [right.get(column, ZERO) for column in range(self.size)]
        found = [ZERO] * self.size
        for step in self.steps:
            if value := left[step.column] / step.pivot:
                found[step.row] = value
                for column, entry in step.rest.items():
                    left[column] -= entry * value
        for step in reversed(self.steps):
            found[step.row] -= sum((factor * found[row] for row, factor in step.factors if found[row]), ZERO)
        return found


def _eliminate(columns: Sequence[Sparse]) -> list[_Step]:
    """Gauss's elimination, the column of fewest entries next and in it the row of fewest."""
    rows: list[dict[int, Fraction]] = [{} for _ in columns]
    places = [set(column.keys()) for column in columns]
    for number, entries in enumerate(columns):
        for row, entry in entries.items():
            rows[row][number] = entry
    queue = [(len(place), number) for number, place in enumerate(places)]
    heapify(queue)
    steps: list[_Step] = []
    waiting = set(range(len(columns)))
    while queue:
        count, column = heappop(queue)
        if column not in waiting or count != len(places[column]):
            continue  # it has changed since, and stands in the queue again
        waiting.remove(column)
        if count == 0:
            raise SingularError("the columns are linearly dependent")
        row = min(places[column], key=lambda at: len(rows[at]))
        pivot = rows[row].pop(column)
        factors = []
        for other in places[column] - {row}:
            factor = rows[other].pop(column) / pivot
            factors.append((other, factor))
            _subtract(rows[other], factor, rows[row], other, places)
        for touched in rows[row]:
            places[touched].discard(row)
            heappush(queue, (len(places[touched]), touched))
        steps.append(_Step(row, column, pivot, factors, rows[row]))
    return steps


def _subtract(
    row: dict[int, Fraction], factor: Fraction, other: dict[int, Fraction], number: int, places: list[set[int]]
) -> None:
    """Take ``factor`` times another row from row ``number``, and keep the record of which places are filled."""
    for column, entry in other.items():
        value = row.get(column, ZERO) - factor * entry
        if value:
            row[column] = value
            places[column].add(number)
        else:
            row.pop(column, None)
            places[column].discard(number)
