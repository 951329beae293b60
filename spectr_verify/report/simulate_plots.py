"""Sweeps as plots."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectr_verify.report.figures import figure_of, saved, shown
from spectr_verify.simulate.plan import Cell
from spectr_verify.simulate.speed import round_time

if TYPE_CHECKING:
    from spectr_verify.simulate import Sweep, TimeModel

Value = tuple[float, float | None]
"""What is drawn, and its standard error."""


def draw(found: Sweep, given: TimeModel | None, file: Path) -> None:
    """Efficiency and speed-up against whatever is swept, and acceptance by position, one line a rule.

    In every plot all that it is not against is at its first value.

    Raises:
        InputError: matplotlib is missing, or cannot write such a file.
    """
    axes = found.axes
    every: dict[str, list[Any]] = {
        "length": list(axes.lengths),
        "drafts": list(axes.drafts),
        "temperature": list(axes.temperatures),
        "corpus": list(found.timed),
    }
    swept = [name for name, values in every.items() if len(values) > 1]
    figure = figure_of(10, 4 * (len(swept) + 1))
    panels: Any = figure.subplots(len(swept) + 1, 2, squeeze=False)
    first = {name: values[0] for name, values in every.items()}
    for row, name in zip(panels, swept, strict=False):
        _against(found, given, row, name, every[name], first)
    _by_position(found, panels[-1], first | {"length": max(axes.lengths)})
    if panels[0][0].get_legend_handles_labels()[0]:
        panels[0][0].legend(fontsize="small")
    saved(figure, file)


LABELS = {
    "length": "L, tokens a draft",
    "drafts": "K, drafts a round (single-draft rules: 1)",
    "temperature": "temperature",
    "corpus": "prompts",
}


def _against(
    found: Sweep, given: TimeModel | None, row: Any, name: str, values: list[Any], first: dict[str, Any]
) -> None:
    """Two plots against one axis, bars of one standard error; speed-ups are modelled, and dotted those by the clock."""

    def efficiency(cell: Cell) -> Value:
        ratio = found.outcomes[cell].block_efficiency
        return ratio.value, ratio.error

    def modelled(cell: Cell) -> Value:
        (value, error), time = efficiency(cell), round_time(found, cell, given)
        return value / time, None if error is None else error / time

    def measured(cell: Cell) -> Value | None:
        ratio = found.outcomes[cell].speed_up if found.timed[cell.corpus] else None
        return None if ratio is None else (ratio.value, ratio.error)

    rest = {each: value for each, value in first.items() if each != name}
    for axis, label, lines in (
        (row[0], "tokens a round", [(efficiency, "-o")]),
        (row[1], "speed-up (dotted: by the clock)", [(modelled, "-o"), (measured, ":x")]),
    ):
        for number, rule in enumerate(found.axes.rules):
            places = [rest | {name: value} for value in values]
            for value_of, style in lines:
                x, y, errors = _points(found, rule.name, places, name, value_of)
                label_of = shown(rule.name) if style == "-o" else None
                axis.errorbar(x, y, errors, fmt=style, markersize=3, capsize=2, color=f"C{number}", label=label_of)
        axis.set_xticks(values, [shown(value) for value in values] if name == "corpus" else None)
        axis.set_xlabel(LABELS[name])
        axis.set_ylabel(label)
        axis.set_title(_at(rest), fontsize="small")


def _points(
    found: Sweep,
    rule: str,
    places: list[dict[str, Any]],
    name: str,
    value_of: Callable[[Cell], Value | None],
) -> tuple[list[Any], list[float], list[float]]:
    """Places, values and standard errors; an error that is not known is drawn as none."""
    points = []
    for place in places:
        cell = _finished(found, rule, place)
        value = None if cell is None else value_of(cell)
        if value is not None:
            points.append((place[name], value[0], value[1] or 0.0))
    return [x for x, _, _ in points], [y for _, y, _ in points], [error for _, _, error in points]


def _finished(found: Sweep, rule: str, place: dict[str, Any]) -> Cell | None:
    """The cell there, if it is finished."""
    cell = Cell(**{**place, "rule": rule, "drafts": found.rules[rule].used_drafts(place["drafts"])})
    return cell if cell in found.outcomes else None


def _by_position(found: Sweep, row: Any, place: dict[str, Any]) -> None:
    """How many rounds accept a position, of all and of those that accepted all before it."""
    for number, rule in enumerate(found.axes.rules):
        cell = _finished(found, rule.name, place)
        if cell is None:
            continue
        reached, errors = zip(
            *((share.value, share.error or 0.0) for share in found.outcomes[cell].reached), strict=True
        )
        of_those = [now / before if before else float("nan") for before, now in pairwise([1.0, *reached])]
        for axis, shares, bars in zip(row, (reached, of_those), (errors, None), strict=True):
            line = {"fmt": "-o", "markersize": 3, "capsize": 2, "color": f"C{number}", "label": shown(rule.name)}
            axis.errorbar(range(1, len(shares) + 1), shares, bars, **line)
    for axis, label in zip(row, ("rounds that accept it", ".. of those that accepted all before"), strict=True):
        axis.set_xlabel("position in the draft")
        axis.set_ylabel(label)
        axis.set_ylim(0, 1.02)
        axis.set_title(_at(place), fontsize="small")
    if not row[0].get_legend_handles_labels()[0]:
        row[0].set_title("nothing is finished there", fontsize="small")


def _at(place: dict[str, Any]) -> str:
    signs = {"length": "L = ", "drafts": "K = ", "temperature": "temperature ", "corpus": ""}
    return ", ".join(f"{signs[name]}{value:g}" if name != "corpus" else shown(value) for name, value in place.items())
