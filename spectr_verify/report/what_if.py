"""Estimated efficiencies and speed-ups in the terminal and as plots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spectr_verify.bounds.along_laws import ALONG_LAWS
from spectr_verify.report.figures import figure_of, saved
from spectr_verify.rules import RULES
from spectr_verify.simulate.what_if import BOUND, FIRST_ROUNDS

if TYPE_CHECKING:
    from spectr_verify.simulate import Estimates, TimeModel

SHOWN = (1, 2, 4, 8, 16, 32)
"""Lengths that the table has columns for, and the largest one; of all these the last four."""


def what_if_tables(found: Estimates, time: TimeModel) -> RenderableType:
    """Tokens a round by rule, K and L, and the best K and L of every rule."""
    _, K, L = found.efficiency.shape
    lengths = [*[n for n in SHOWN if n < L][-3:], L]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title="tokens a round", title_style="bold")
    table.title_justify = "left"
    for column in ("rule", "K", *(f"L = {n}" for n in lengths), "best L", "speed-up", "of bound"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    speed, shares = found.speed_up(time), found.of_bound
    for r, name in enumerate(found.rules):
        several = range(K) if (found.efficiency[r] != found.efficiency[r, :1]).any() else range(1)
        for k in several:
            best = int(speed[r, k].argmax())
            cells = [f"{found.efficiency[r, k, n - 1]:.2f} ± {found.error[r, k, n - 1]:.2f}" for n in lengths]
            fastest = ("", "") if name in FIRST_ROUNDS else (str(best + 1), f"{speed[r, k, best]:.2f}")
            share = "" if name == BOUND or np.isnan(shares[r, k, -1]) else f"{shares[r, k, -1]:.0%}"
            table.add_row(name if k == several[0] else "", str(k + 1), *cells, *fastest, share)
        table.add_section()
    return Group(table, Text(""), *_best(found, time))


def _best(found: Estimates, time: TimeModel) -> list[Text]:
    speed = found.speed_up(time)
    _, K, L = found.efficiency.shape
    lines = [
        f"{_places(found, 0)}; ± is a standard error, of each cell by itself. "
        f"Speed-up over autoregression with a draft step of {time.draft:g} target calls (each further draft adds "
        f"{time.further:g} of it), overhead {time.verification:g}.",
        f"of bound: accepted tokens at L = {L} as a share of the relaxed bound's, at the same places. No lossless rule "
        "exceeds the bound, so the share of the best possible is at least that.",
    ]
    whole = [r for r, name in enumerate(found.rules) if name in ALONG_LAWS]
    if whole:
        names = ", ".join(found.rules[r] for r in whole)
        lines.append(f"{names}: {_places(found, whole[0])}, where whole laws were kept")
    for name, k, n in found.best(time):
        if name in FIRST_ROUNDS:
            lines.append(f"{name}: rounds from the plain target; later ones of a text follow a modified one")
            continue
        if name not in RULES:
            continue
        edge = " (at the edge of what was asked for)" if n == L or (k == K and K > 1) else ""
        r = found.rules.index(name)
        lines.append(
            f"{name}: K = {k}, L = {n} is fastest, {speed[r, k - 1, n - 1]:.2f} times{edge}, with "
            f"{found.efficiency[r, k - 1, n - 1]:.2f} tokens a round"
        )
    return [Text(line) for line in lines]


def _places(found: Estimates, rule: int) -> str:
    return f"{found.places[rule]:,} places in {found.texts[rule]:,} texts"


def draw(found: Estimates, time: TimeModel, file: Path) -> None:
    """Tokens a round and speed-up against L, one line a rule, at the largest K, with bars of one standard error.

    Raises:
        InputError: matplotlib is missing, or cannot write such a file.
    """
    figure = figure_of(10, 4)
    _, K, L = found.efficiency.shape
    axes: Any = figure.subplots(1, 2)
    for axis, values, label, left_out in (
        (axes[0], found.efficiency, "tokens a round", ()),
        (axes[1], found.speed_up(time), "speed-up over autoregression", FIRST_ROUNDS),
    ):
        errors = values * found.error / found.efficiency
        for r, name in enumerate(found.rules):
            if name not in left_out:
                style = "-" if name in RULES else "--"
                line = {"label": name, "fmt": style, "color": f"C{r}", "capsize": 2}
                axis.errorbar(range(1, L + 1), values[r, K - 1], errors[r, K - 1], **line)
        axis.set_xlabel("L, tokens a draft")
        axis.set_ylabel(label)
        axis.set_title(f"K = {K} (single-draft rules: 1)", fontsize="medium")
    axes[0].legend(fontsize="small")
    saved(figure, file)
