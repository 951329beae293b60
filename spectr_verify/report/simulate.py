"""Sweeps in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby, product
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spectr_verify.simulate.plan import ALONE, Cell
from spectr_verify.simulate.speed import modelled_speed_up

if TYPE_CHECKING:
    from spectr_verify.simulate import Behind, Difference, Outcome, Ratio, Sweep, TimeModel
    from spectr_verify.simulate.headroom import Headroom

FEW = 3
"""Pairs of rules whose intervals are all listed."""

EFFICIENCY = "tokens\na round"
"""The heading of block efficiencies, over two lines: the longest names of rules leave it no more room."""

MOST_LISTED = 4
"""Settings whose pairs within noise are listed; of more they are only counted."""


def simulate_tables(
    found: Sweep, compared: list[Difference], behind: list[Behind], given: TimeModel | None
) -> RenderableType:
    """Block efficiency and speed-up of every cell, times, what is within noise, and how to read all of it."""
    parts: list[RenderableType] = []
    for corpus, temperature in product(found.timed, found.axes.temperatures):
        if not any(_belongs(cell, corpus, temperature) for cell in found.outcomes):
            continue
        parts += [_efficiency(found, corpus, temperature, given), Text("")]
        own = [each for each in behind if _belongs(each.cell, corpus, temperature)]
        if own:
            parts += [_behind(own, f"{corpus}, temperature {temperature:g}"), _smallest(own), Text("")]
        if found.timed[corpus]:
            parts += [_times(found, corpus, temperature), Text("")]
    return Group(*parts, *_noise(compared), *_notes(found, bool(compared), bool(behind), given))


def _belongs(cell: Cell, corpus: str, temperature: float) -> bool:
    return (cell.corpus, cell.temperature) == (corpus, temperature)


def _rows(found: Sweep, corpus: str, temperature: float) -> Iterator[list[Cell]]:
    """The finished cells of every rule."""
    for name in found.rules:
        here = [cell for cell in found.outcomes if _belongs(cell, corpus, temperature) and cell.rule == name]
        if here:
            yield sorted(here, key=lambda cell: (cell.drafts, cell.length))


def _efficiency(found: Sweep, corpus: str, temperature: float, given: TimeModel | None) -> Table:
    here = [cell for cell in found.outcomes if _belongs(cell, corpus, temperature)]
    first = any(found.outcomes[cell].first_rounds for cell in here)
    table = _table(f"{corpus}, temperature {temperature:g}" + (": first rounds" if first else ""))
    bounds = {_share_of(found.headrooms[cell]) for cell in here if cell in found.headrooms}
    timed = found.timed[corpus]
    wanted = ["K", "L", EFFICIENCY, "sd", "accepted", *(["measured"] if timed else []), "modelled"]
    wanted += sorted(bounds)
    table.add_column("rule", no_wrap=True)
    table.add_column("lossless")
    for column in wanted:
        table.add_column(column, justify="right")
    own = {"K": "-", "L": "-", EFFICIENCY: "1.00", "measured": "1.00", "modelled": "1.00"}
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
        EFFICIENCY: f"{efficiency.value:.4f}" if outcome.exact else _with_error(efficiency),
        "sd": "" if efficiency.spread is None else f"{efficiency.spread:.2f}",
        "accepted": f"{outcome.acceptance_rate:.0%}",
        "measured": _with_error(outcome.speed_up) if found.timed[cell.corpus] else "",
        "modelled": f"{modelled_speed_up(found, cell, given):.2f}",
    }
    if share is not None:
        lossless = found.rules[cell.rule].lossless is not False
        words = f"{share.value:.1%}" if outcome.exact else _percent_with_error(share)
        shown[_share_of(found.headrooms[cell])] = words if lossless else f"({words})"
    return shown


def _share_of(headroom: Headroom) -> str:
    return "of level\nbound\n(est.)" if headroom.estimated else "of optimum"


def _behind(own: list[Behind], where: str) -> Table:
    """How much slower every cell is than the fastest of its rule."""
    measures = list(dict.fromkeys(each.measure for each in own))
    table = _table(f"{where}: behind each rule's fastest")
    table.add_column("rule", no_wrap=True)
    for column in ("K", "L", *chain.from_iterable((measure, "behind by (95% interval)") for measure in measures)):
        table.add_column(column, justify="right")
    by_cell: dict[Cell, dict[str, Behind]] = {}
    for each in own:
        by_cell.setdefault(each.cell, {})[each.measure] = each
    for rule, cells in groupby(by_cell, key=lambda cell: cell.rule):
        table.add_section()
        name = rule
        for cell in cells:
            shown = chain.from_iterable(_one_behind(by_cell[cell].get(measure)) for measure in measures)
            table.add_row(Text(name), str(cell.drafts), str(cell.length), *shown)
            name = ""
    return table


def _smallest(own: list[Behind]) -> Text:
    """The cheapest K and L that are not told from the fastest."""
    alike: dict[tuple[str, str], list[Cell]] = {}
    for each in own:
        if each.within_noise:
            alike.setdefault((each.cell.rule, each.measure), []).append(each.cell)
    found = []
    for (rule, measure), cells in alike.items():
        least = min(cells, key=lambda cell: (cell.drafts * cell.length, cell.drafts))
        found.append(f"{rule} K = {least.drafts}, L = {least.length} ({measure})")
    return Text(f"fewest drafted tokens a round within noise of the fastest: {'; '.join(found)}")


def _one_behind(each: Behind | None) -> tuple[str, str]:
    if each is None:
        return "", ""
    if each.cell == each.best:
        return f"{each.speed_up:.2f}", "fastest"
    apart = f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f})"
    return f"{each.speed_up:.2f}", f"~ {apart}" if each.within_noise else apart


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
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title_style="bold", title_justify="left")
    table.title = Text(title)
    return table


def _lossless(lossless: bool | None) -> Text:
    if lossless is None:
        return Text("?")
    return Text("yes", style="green") if lossless else Text("NO", style="bold red")


def _with_error(ratio: Ratio) -> str:
    return f"{ratio.value:.2f}" if ratio.error is None else f"{ratio.value:.2f} ± {ratio.error:.2f}"


def _percent_with_error(ratio: Ratio) -> str:
    return f"{ratio.value:.0%}" if ratio.error is None else f"{ratio.value:.0%} ± {ratio.error:.0%}"


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
                "rules are within noise; --json has the intervals"
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


def _notes(found: Sweep, compared: bool, behind: bool, given: TimeModel | None) -> Iterator[Text]:
    """How to read it, what is missing and why, and what happened."""
    lines = chain(
        _what_is_counted(found),
        _what_noise_is(found, compared or behind, behind),
        _what_speed_is(found, given),
        _what_bounds_are(found),
        _what_is_missing(found),
        [f"{found.restored:,} of {len(found.outcomes):,} cells were finished by an earlier run."]
        * (found.restored > 0),
        found.notes,
    )
    yield from map(Text, lines)
    if found.interrupted:
        yield Text(f"interrupted: {len(found.outcomes):,} of {found.planned:,} cells are finished", style="bold yellow")


def _what_is_counted(found: Sweep) -> Iterator[str]:
    settings = found.settings
    texts = "1 text" if settings.texts == 1 else f"{settings.texts:,} texts"
    tables = [outcome for outcome in found.outcomes.values() if outcome.first_rounds]
    if len(tables) < len(found.outcomes):
        yield (
            f"tokens a round: block efficiency ± its standard error over prompts, sd of one prompt's; {texts} a prompt "
            f"of {settings.tokens:,} tokens, {settings.batch:,} at once; seed {settings.seed}."
        )
    if tables:
        yield "tokens a round: of the round from the start of each pair, mean and sd over the pairs; " + _how_known(
            tables, f"of {texts} a pair, seed {settings.seed}"
        )
        if any(found.rules[cell.rule].kind == "stateful" for cell in found.outcomes):
            yield "Rules that hand on a modified target accept less in later rounds of a text."
    if any(rule.lossless is not True for rule in found.axes.rules):
        yield (
            "lossless NO: the text does not follow the target, so the rule's efficiency and speed are of another task "
            "and not comparable. ?: nobody has judged it; `spectr-verify audit` does."
        )


def _how_known(tables: list[Outcome], sampled: str) -> str:
    """Of which cells of pairs the law is known."""
    exact = sum(outcome.exact for outcome in tables)
    if exact == len(tables):
        return "exact, without any error."
    words = f"± the standard error of sampling, {sampled}"
    return f"{words}." if not exact else f"exact where there is no ±, else {words}: too many drafts to enumerate."


def _what_noise_is(found: Sweep, any_interval: bool, behind: bool) -> Iterator[str]:
    if any_interval:
        several = {outcome.first_rounds for outcome in found.outcomes.values() if not outcome.exact}
        of_texts, of_tables = "paired bootstraps over prompts", "of the sampling alone"
        words = {True: of_tables, False: of_texts}
        if several:
            kinds = f"{of_texts} (of pairs of tables: {of_tables})" if len(several) > 1 else words[several.pop()]
            yield (
                f"Intervals are 95% {kinds}, each by itself and not all together: of 20 differences that are none "
                "about one looks like one."
            )
    if behind:
        yield "~ is within noise. The fastest cell is picked from the same numbers, which flatters it a little."
    single = [name for name, source in found.sources.items() if _prompts(found, name) == 1]
    single = [name for name in single if found.sources[name].get("kind") != "tables"]
    if single:
        yield f"no ± and no intervals of {', '.join(single)}: they are over prompts, and there is one."


def _prompts(found: Sweep, corpus: str) -> int:
    return next((len(outcome.prompts) for cell, outcome in found.outcomes.items() if cell.corpus == corpus), 0)


def _what_speed_is(found: Sweep, given: TimeModel | None) -> Iterator[str]:
    if any(found.timed.values()):
        yield "measured: speed-up by the clock over the target alone, which is timed beside every rule and prompt."
    if not all(found.timed.values()):
        yield "measured: there is none, and no table of times, where laws stand in for models: they cost nothing real."
    yield f"modelled: tokens a round / (L draft steps + 1 + overhead), in target calls; {_costs(found, given)}."


def _what_bounds_are(found: Sweep) -> Iterator[str]:
    if found.headrooms:
        yield (
            "of optimum, of level bound (est.): what the first round after each prompt accepts, as a share of what any "
            "lossless rule could there at this K and L."
        )
    for (corpus, temperature), several in groupby(
        sorted(found.headrooms, key=lambda cell: (cell.corpus, cell.temperature, cell.drafts, cell.length)),
        key=lambda cell: (cell.corpus, cell.temperature),
    ):
        values = {
            f"K = {cell.drafts}, L = {cell.length}: {bound.values.mean():.2f} ± {bound.error:.2f}": None
            for cell in several
            if (bound := found.headrooms[cell]).estimated
        }
        if values:
            yield (
                f"level bound, {corpus}, temperature {temperature:g}: estimated from {found.settings.samples:,} texts "
                f"a prompt, in the mean no less than the bound, ± its standard error: {'; '.join(values)} tokens."
            )


def _what_is_missing(found: Sweep) -> Iterator[str]:
    if not found.settings.samples:
        yield "no shares of what is possible: --samples is 0."
    for reason in dict.fromkeys(found.unbounded.values()):
        cells = [cell for cell, why in found.unbounded.items() if why == reason]
        places = dict.fromkeys(f"{cell.corpus} at K = {cell.drafts}, L = {cell.length}" for cell in cells)
        yield f"no share of what is possible for {'; '.join(places)}: {reason}."


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
