"""Sweeps in the terminal and as plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, groupby, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spectr_verify.report.figures import figure_of, saved
from spectr_verify.simulate.speed import modelled_speed_up
from spectr_verify.simulate.sweep import ALONE, Cell
from spectr_verify.simulate.tally import Ratio

if TYPE_CHECKING:
    from spectr_verify.simulate import Difference, Sweep, TimeModel

FEW = 3
"""Pairs of rules whose intervals are all listed."""

MOST_LISTED = 4
"""Settings whose pairs within noise are listed; of more they are only counted."""


def simulate_tables(found: Sweep, compared: list[Difference], given: TimeModel | None) -> RenderableType:
    """Block efficiency and speed-up of every cell, times, what is within noise, and how to read all of it."""
    parts: list[RenderableType] = []
    for corpus, temperature in product(found.timed, found.axes.temperatures):
        if not any(_belongs(cell, corpus, temperature) for cell in found.outcomes):
            continue
        parts += [_efficiency(found, corpus, temperature, given), Text("")]
        if found.timed[corpus]:
            parts += [_times(found, corpus, temperature), Text("")]
    return Group(*parts, *_noise(compared), *_notes(found, given))


def _belongs(cell: Cell, corpus: str, temperature: float) -> bool:
    return (cell.corpus, cell.temperature) == (corpus, temperature)


def _rows(found: Sweep, corpus: str, temperature: float) -> Iterator[list[Cell]]:
    """The finished cells of every rule."""
    for name in found.rules:
        here = [cell for cell in found.outcomes if _belongs(cell, corpus, temperature) and cell.rule == name]
        if here:
            yield sorted(here, key=lambda cell: (cell.drafts, cell.length))


def _efficiency(found: Sweep, corpus: str, temperature: float, given: TimeModel | None) -> Table:
    table = _table(f"{corpus}, temperature {temperature:g}")
    bounds = {bound.what for cell, bound in found.headrooms.items() if _belongs(cell, corpus, temperature)}
    timed = found.timed[corpus]
    wanted = ["K", "L", "tokens a round", "sd", "accepted", *(["measured"] if timed else []), "modelled"]
    wanted += [f"of {what}" for what in sorted(bounds)]
    table.add_column("rule", no_wrap=True)
    table.add_column("lossless")
    for column in wanted:
        table.add_column(column, justify="right")
    own = {"K": "-", "L": "-", "tokens a round": "1.00", "measured": "1.00", "modelled": "1.00"}
    table.add_row(Text(ALONE), _lossless(True), *(own.get(column, "") for column in wanted))
    for cells in _rows(found, corpus, temperature):
        if len(cells) > 1:
            table.add_section()
        for cell in cells:
            shown = _cells(found, cell, given)
            name = (Text(cell.rule), _lossless(found.rules[cell.rule].lossless)) if cell is cells[0] else ("", "")
            table.add_row(*name, *(shown.get(column, "") for column in wanted))
    return table


def _cells(found: Sweep, cell: Cell, given: TimeModel | None) -> dict[str, str]:
    outcome, share = found.outcomes[cell], found.share(cell)
    efficiency = outcome.block_efficiency
    shown = {
        "K": str(cell.drafts),
        "L": str(cell.length),
        "tokens a round": _with_error(efficiency),
        "sd": "" if efficiency.spread is None else f"{efficiency.spread:.2f}",
        "accepted": f"{outcome.acceptance_rate:.0%}",
        "measured": _with_error(outcome.speed_up) if found.timed[cell.corpus] else "",
        "modelled": f"{modelled_speed_up(found, cell, given):.2f}",
    }
    if share is not None:
        lossless = found.rules[cell.rule].lossless is not False
        words = f"{share.value:.0%}" + ("" if share.error is None else f" ± {share.error:.0%}")
        shown[f"of {found.headrooms[cell].what}"] = words if lossless else f"({words})"
    return shown


def _times(found: Sweep, corpus: str, temperature: float) -> Table:
    table = _table(f"{corpus}, temperature {temperature:g}: time")
    table.add_column("rule", no_wrap=True)
    for column in ("K", "L", "tokens a second", "sd", "ms a round: draft", "target", "verification", "target alone"):
        table.add_column(column, justify="right")
    for cell in chain(*_rows(found, corpus, temperature)):
        outcome, total = found.outcomes[cell], found.outcomes[cell].total
        pace = outcome.tokens_per_second
        spent = [1e3 * seconds / total.calls for seconds in (total.draft, total.target, total.verify)]
        table.add_row(
            Text(cell.rule),
            str(cell.drafts),
            str(cell.length),
            f"{pace.value:,.0f}",
            "" if pace.spread is None else f"{pace.spread:,.0f}",
            *(f"{each:.2f}" for each in (*spent, 1e3 * total.alone / total.longest)),
        )
    return table


def _table(title: str) -> Table:
    return Table(box=SIMPLE_HEAD, title=Text(title), title_style="bold", title_justify="left", show_edge=False)


def _lossless(lossless: bool | None) -> Text:
    if lossless is None:
        return Text("?")
    return Text("yes", style="green") if lossless else Text("NO", style="bold red")


def _with_error(ratio: Ratio) -> str:
    return f"{ratio.value:.2f}" if ratio.error is None else f"{ratio.value:.2f} ± {ratio.error:.2f}"


def _noise(compared: list[Difference]) -> list[Text]:
    """What the bootstrap says, as short as it can be said."""
    settings = [
        (where, list(group))
        for where, group in groupby(
            compared, key=lambda each: (each.measure, each.corpus, each.temperature, each.drafts, each.length)
        )
    ]
    if len({where[1:] for where, _ in settings}) > MOST_LISTED:
        return [
            Text(
                f"{measure}: {sum(each.within_noise for each in pairs):,} of {len(pairs):,} differences between two "
                "rules are within noise (95% paired bootstrap over prompts); --json has the intervals"
            )
            for measure in dict.fromkeys(each.measure for each in compared)
            for pairs in [[each for each in compared if each.measure == measure]]
        ]
    lines = []
    for (measure, corpus, temperature, drafts, length), pairs in settings:
        where = f"{measure}, {corpus}, temperature {temperature:g}, K = {drafts}, L = {length}"
        if len(pairs) <= FEW:
            lines += [
                f"{where}: {' - '.join(each.rules)} = {each.value:+.3g} ({each.low:+.3g} to {each.high:+.3g})"
                + (", within noise" if each.within_noise else "")
                for each in pairs
            ]
        else:
            alike = [" ~ ".join(each.rules) for each in pairs if each.within_noise]
            lines.append(
                f"{where}: {len(alike)} of {len(pairs)} differences are within noise"
                + (f": {', '.join(alike)}" if alike else "")
            )
    return [Text(line) for line in lines]


def _notes(found: Sweep, given: TimeModel | None) -> Iterator[Text]:
    settings = found.settings
    yield Text(
        f"tokens a round: block efficiency ± its standard error over prompts, sd of one prompt's; "
        f"{settings.texts:,} texts a prompt of {settings.tokens:,} tokens, {settings.batch:,} at once; seed "
        f"{settings.seed}."
    )
    if any(rule.lossless is not True for rule in found.axes.rules):
        yield Text(
            "lossless NO: the text does not follow the target, so the rule's efficiency and speed are of another task "
            "and not comparable. ?: nobody has judged it; `spectr-verify audit` does."
        )
    if any(found.timed.values()):
        yield Text(
            "measured: speed-up by the clock over the target alone, which is timed beside every rule and prompt."
        )
    yield Text(f"modelled: tokens a round / (L draft steps + 1 + overhead), in target calls; {_costs(found, given)}.")
    if found.headrooms:
        yield Text(
            "of optimum, of level bound: what the first round after each prompt accepts, as a share of what any "
            "lossless rule could there at this K and L. The level bound is an estimate, in the mean at least the bound."
        )
    if found.restored:
        yield Text(f"{found.restored:,} of {len(found.outcomes):,} cells were finished by an earlier run.")
    for note in found.notes:
        yield Text(note)
    if found.interrupted:
        yield Text(f"interrupted: {len(found.outcomes):,} of {found.planned:,} cells are finished", style="bold yellow")


def _costs(found: Sweep, given: TimeModel | None) -> str:
    if given is not None:
        return (
            f"a draft step costs {given.draft:g} (each further draft adds {given.further:g} of it), overhead "
            f"{given.verification:g}"
        )
    told = ["measured in the same run"] if any(found.timed.values()) else []
    if not all(found.timed.values()):
        told.append("a draft step costs 0.05 where laws stand in for models, --draft-cost says otherwise")
    return "; ".join(told)


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
    """Two plots against one axis; speed-ups are the modelled ones, and dotted those by the clock."""

    def modelled(cell: Cell) -> float:
        return modelled_speed_up(found, cell, given)

    def measured(cell: Cell) -> float | None:
        return found.outcomes[cell].speed_up.value if found.timed[cell.corpus] else None

    rest = {each: value for each, value in first.items() if each != name}
    for axis, label, lines in (
        (row[0], "tokens a round", [(_block_efficiency(found), "-o")]),
        (row[1], "speed-up (dotted: by the clock)", [(modelled, "-o"), (measured, ":x")]),
    ):
        for number, rule in enumerate(found.axes.rules):
            places = [rest | {name: value} for value in values]
            for value_of, style in lines:
                points = _points(found, rule.name, places, name, value_of)
                axis.plot(*points, style, markersize=3, color=f"C{number}", label=rule.name if style == "-o" else None)
        axis.set_xticks(values)
        axis.set_xlabel(LABELS[name])
        axis.set_ylabel(label)
        axis.set_title(_at(rest), fontsize="small")


def _block_efficiency(found: Sweep) -> Callable[[Cell], float]:
    return lambda cell: found.outcomes[cell].block_efficiency.value


def _points(
    found: Sweep,
    rule: str,
    places: list[dict[str, Any]],
    name: str,
    value_of: Callable[[Cell], float | None],
) -> tuple[list[Any], list[float]]:
    points = []
    for place in places:
        cell = _finished(found, rule, place)
        value = None if cell is None else value_of(cell)
        if value is not None:
            points.append((place[name], value))
    return [x for x, _ in points], [y for _, y in points]


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
        reached = found.outcomes[cell].by_position
        of_those = [now / before if before else float("nan") for before, now in pairwise([1.0, *reached])]
        for axis, shares in zip(row, (reached, of_those), strict=True):
            axis.plot(range(1, len(shares) + 1), shares, "-o", markersize=3, color=f"C{number}", label=rule.name)
    for axis, label in zip(row, ("rounds that accept it", ".. of those that accepted all before"), strict=True):
        axis.set_xlabel("position in the draft")
        axis.set_ylabel(label)
        axis.set_ylim(0, 1.02)
        axis.set_title(_at(place), fontsize="small")
    if not row[0].get_legend_handles_labels()[0]:
        row[0].set_title("nothing is finished there", fontsize="small")


def _at(place: dict[str, Any]) -> str:
    signs = {"length": "L = ", "drafts": "K = ", "temperature": "temperature ", "corpus": ""}
    return ", ".join(f"{signs[name]}{value:g}" if name != "corpus" else str(value) for name, value in place.items())
