"""A biased verdict in plain lines: the pair, the reasons, the text whose probability is wrong."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from toy_models import TableModel

if TYPE_CHECKING:  # these bring torch, and listing the rules must not wait for it
    from spectr_verify.audit import Instance, Verdict, WrongText

ROWS = 12
"""Most texts of a law that are shown."""


def sizes(where: Instance) -> str:
    """V, L and K of a pair."""
    return f"V = {where.pair.vocab}, L = {where.length}, K = {where.drafts}"


def models(where: Instance) -> list[str]:
    """Both tables, one a line: laws between semicolons, levels between bars."""
    return [f"  draft   {_laws(where.pair.draft)}", f"  target  {_laws(where.pair.target)}"]


def faults(verdict: Verdict, wrong: WrongText | None) -> list[str]:
    """What is wrong, one line each; ``wrong`` is ``wrong_text(verdict)``."""
    lines = [f"- {reason}" for reason in verdict.reasons]
    if wrong is not None:
        text = " ".join(map(str, wrong.tokens))
        digits = next(n for n in range(6, 18) if f"{wrong.produced:.{n}g}" != f"{wrong.target:.{n}g}" or n == 17)
        produced, target = (_number(value, digits) for value in (wrong.produced, wrong.target))
        lines.append(f"- the text «{text}» has probability {produced} and should have {target}")
    return lines


def laws_beside(verdict: Verdict, wrong: WrongText) -> list[str]:
    """The law of as many first tokens as the wrong text has, as it is produced beside the target's: one text a line.

    Of a long law only the ``ROWS`` texts that are furthest off.
    """
    V, n = verdict.instance.pair.vocab, len(wrong.tokens)
    laws = (verdict.round.completed, verdict.round.target)
    if verdict.text is not None and verdict.round.tv_round <= verdict.tolerance:
        laws = (verdict.text.law, verdict.text.target)
    made, due = (law.reshape(V**n, -1).sum(axis=1) for law in laws)
    furthest = sorted(np.argsort(-np.abs(made - due), kind="stable")[:ROWS].tolist())
    texts = list(product(range(V), repeat=n))
    rows = [(" ".join(map(str, texts[i])), f"{made[i]:.6g}", f"{due[i]:.6g}") for i in furthest]
    table = [("text", "produced", "due"), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    some = f", the {ROWS} of {len(texts)} texts that are furthest off" if len(texts) > ROWS else ""
    return [
        f"law of the first {'token' if n == 1 else f'{n} tokens'}{some}:",
        *("  " + "  ".join(map(str.rjust, row, widths)) for row in table),
    ]


def _laws(model: TableModel) -> str:
    levels = model.to_json()
    rows = (" ; ".join(" ".join(_entry(p) for p in row) for row in level) for level in levels)
    return "  |  ".join(rows)


def _entry(probability: str | float) -> str:
    return probability if isinstance(probability, str) else f"{probability:.6g}"


def _number(value: float, digits: int) -> str:
    """A probability, as a fraction too where a small one fits to the last digits."""
    fraction = Fraction(value).limit_denominator(10_000)
    exact = abs(float(fraction) - value) < 1e-13
    shown = f"{value:.{digits}g}"
    return f"{fraction} = {shown}" if exact and fraction.denominator > 1 else shown
