"""A sweep in the schema ``spectr-verify/simulate/1``."""

from __future__ import annotations

from typing import Any

from spectr_verify.simulate.compare import CONFIDENCE, RESAMPLES, Behind, Difference
from spectr_verify.simulate.identity import versions
from spectr_verify.simulate.plan import Cell
from spectr_verify.simulate.speed import TimeModel, costs, modelled_speed_up
from spectr_verify.simulate.sweep import Sweep


def to_json(found: Sweep, compared: list[Difference], behind: list[Behind], given: TimeModel | None) -> dict[str, Any]:
    """Everything that a sweep found, as plain values.

    Args:
        found: the sweep.
        compared: its ``differences``.
        behind: its cells ``behind_best``.
        given: the costs that speed-ups are modelled with; ``None``: those that were measured.
    """
    axes = found.axes
    return {
        "versions": versions(),
        "settings": dict(vars(found.settings)),
        "sources": found.sources,
        "axes": {
            "corpora": list(found.timed),
            "rules": [rule.name for rule in axes.rules],
            "drafts": list(axes.drafts),
            "lengths": list(axes.lengths),
            "temperatures": list(axes.temperatures),
        },
        "planned": found.planned,
        "restored": found.restored,
        "interrupted": found.interrupted,
        "notes": found.notes,
        "cells": [_cell(found, cell, given) for cell in found.outcomes],
        "confidence": CONFIDENCE,
        "confidence_is_of": "each interval by itself, not of all of them together",
        "resamples": RESAMPLES,
        "differences": [vars(each) | {"within_noise": each.within_noise} for each in compared],
        "behind_best": [_behind(each) for each in behind],
    }


def _behind(each: Behind) -> dict[str, Any]:
    best = {"drafts": each.best.drafts, "length": each.best.length}
    rest = {name: value for name, value in vars(each).items() if name not in ("cell", "best")}
    return vars(each.cell) | {"best": best} | rest | {"within_noise": each.within_noise}


def _cell(found: Sweep, cell: Cell, given: TimeModel | None) -> dict[str, Any]:
    outcome, timed = found.outcomes[cell], found.timed[cell.corpus]
    total = outcome.total
    return {
        **vars(cell),
        "lossless": found.rules[cell.rule].lossless,
        "exact": outcome.exact,
        "first_rounds_only": outcome.first_rounds,
        "block_efficiency": vars(outcome.block_efficiency),
        "acceptance_rate": outcome.acceptance_rate,
        "accepted_by_position": outcome.by_position,
        "tokens_per_second": vars(outcome.tokens_per_second) if timed else None,
        "seconds": {name: getattr(total, name) for name in ("draft", "target", "verify", "wall", "alone")}
        if timed
        else None,
        "speed_up": {
            "measured": vars(outcome.speed_up) if timed else None,
            "modelled": modelled_speed_up(found, cell, given),
            "costs": vars(costs(found, cell, given)),
        },
        "first_rounds": {"accepted": float(outcome.first_accepted.mean()), "bound": _bound(found, cell)},
        "prompts": outcome.to_json(),
    }


def _bound(found: Sweep, cell: Cell) -> dict[str, Any] | None:
    headroom, share = found.headrooms.get(cell), found.share(cell)
    if headroom is None:
        return {"missing": found.unbounded[cell]} if cell in found.unbounded else None
    return {
        "what": f"{headroom.what} (estimated)" if headroom.estimated else headroom.what,
        "accepted": float(headroom.values.mean()),
        "error": headroom.error,
        "share": None if share is None else vars(share),
    }
