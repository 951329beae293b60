"""The main job: many rules on many pairs."""

from __future__ import annotations

import torch

from spectr_verify.audit.instance import Instance
from spectr_verify.audit.progress import Progress
from spectr_verify.audit.verdict import Verdict, judge
from spectr_verify.exact import Limits
from spectr_verify.rules import Rule


def compare(
    rules: list[Rule],
    instances: list[Instance],
    *,
    rounds: int = 1,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    limits: Limits | None = None,
    progress: Progress = lambda _: None,
) -> list[Verdict]:
    """Judge every rule on every pair, pair after pair, and solve both optima of each.

    Args:
        rules, instances: what is compared, and on what.
        rounds: with 2 or more, also compare the law of ``rounds * (L + 1)`` tokens.
        dtype, tolerance, limits: as ``judge``.
        progress: called with a line before every verdict.

    Raises:
        InputError: no verdict on some rule and pair; the message names them.
    """
    verdicts = []
    for number, where in enumerate(instances):
        at = f"pair {number + 1} of {len(instances)}, {where.pair.name}"
        progress(f"{at}: optima")
        where.solve()
        for rule in rules:
            progress(f"{at}: {rule.name}")
            tokens = rounds * (where.length + 1) if rounds > 1 else None
            verdicts.append(judge(rule, where, tokens=tokens, dtype=dtype, tolerance=tolerance, limits=limits))
    return verdicts
