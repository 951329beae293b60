"""A sweep in the schema ``spectr-verify/simulate/1``."""

from __future__ import annotations

from typing import Any

from spectr_verify.simulate.compare import CONFIDENCE, RESAMPLES, Difference
from spectr_verify.simulate.speed import costs, modelled_speed_up
from spectr_verify.simulate.sweep import Cell, Sweep
from spectr_verify.simulate.what_if import TimeModel


def to_json(found: Sweep, compared: list[Difference], given: TimeModel | None) -> dict[str, Any]:
    """Everything that a sweep found, as plain values.

    Args:
        found: the sweep.
        compared: its ``differences``.
        given: the costs that speed-ups are modelled with; ``None``: those that were measured.
    """
    axes = found.axes
    return {
        "settings": dict(vars(found.settings)),
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
        "resamples": RESAMPLES,
        "differences": [vars(each) | {"within_noise": each.within_noise} for each in compared],
    }


def _cell(found: Sweep, cell: Cell, given: TimeModel | None) -> dict[str, Any]:
    outcome, bound, timed = found.outcomes[cell], None, found.timed[cell.corpus]
    if (share := found.share(cell)) is not None:
        headroom = found.headrooms[cell]
        bound = {"what": headroom.what, "accepted": float(headroom.values.mean()), "share": vars(share)}
    total = outcome.total
    return {
        **vars(cell),
        "lossless": found.rules[cell.rule].lossless,
        "block_efficiency": vars(outcome.block_efficiency),
        "acceptance_rate": outcome.acceptance_rate,
        "accepted_by_position": outcome.by_position,
        "tokens_per_second": vars(outcome.tokens_per_second) if timed else None,
        "seconds": {name: getattr(total, name) for name in ("draft", "target", "verify", "wall", "alone")},
        "speed_up": {
            "measured": vars(outcome.speed_up) if timed else None,
            "modelled": modelled_speed_up(found, cell, given),
            "costs": vars(costs(found, cell, given)),
        },
        "first_rounds": {"accepted": float(outcome.first_accepted.mean()), "bound": bound},
        "prompts": outcome.to_json(),
    }
