"""How far rounding alone moves the law of one round, rule by rule, for laws in float32 and bfloat16.

    python benchmarks/rounding.py [--json FILE]

The rule is given laws in the format, and its exact law is enumerated; and again with the same rounded numbers in
float64. The total-variation distance of the two laws of the emission is what the rule's arithmetic does; what rounding
the laws themselves does is in both. Printed are the largest error over the built-in suite, and the bound of the pair
that came nearest to its own. docs/speed.md derives the bounds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spectr_verify.audit import builtin_suite
from spectr_verify.chance import Chance
from spectr_verify.exact import round_law, total_variation
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import RULES, Rule
from toy_models import ToyPair

FORMATS = (torch.float32, torch.bfloat16)
UNIT = 2.0**-24
DOUBLE = 1e-13
"""What float64 does, of which there is always some: generous, and a millionth of float32's."""

SCALE = 1e-6
"""How exactly k-seq finds its s in float32."""

BOUNDS: dict[str, Callable[[int, int, float], float]] = {
    "token": lambda L, K, off: 2 * UNIT,
    "block": lambda L, K, off: 6 * L * UNIT,
    "greedy-block": lambda L, K, off: 8 * L * UNIT,
    "block-race": lambda L, K, off: 6 * L * K * UNIT,
    "recursive-rejection": lambda L, K, off: 10 * L * K**2 * UNIT,
    "k-seq": lambda L, K, off: L * (K * (SCALE + 6 * UNIT) + off),
    "optimal-token": lambda L, K, off: UNIT,  # only the correction's weights are rounded, each once
}
"""Of L, K and how far the target's laws are from summing to 1; rules that are not here work in float64 throughout."""


def bound(name: str, pair: ToyPair, length: int, drafts: int, form: torch.dtype) -> float:
    """The largest error that rounding can make."""
    used = RULES[name].used_drafts(drafts)
    of_rule = BOUNDS.get(name, lambda L, K, off: 0.0)
    return DOUBLE + of_rule(length, used, off_one(pair, length, form))


def off_one(pair: ToyPair, length: int, form: torch.dtype) -> float:
    """How far from 1 the target's laws sum once they are rounded to a format."""
    levels = pair.target.continuations(np.zeros(1, dtype=np.int64), 0, length + 1)
    sums = [torch.from_numpy(level.copy()).to(form).sum(dim=-1, dtype=torch.float64) for level in levels]
    return max(float((total - 1).abs().max()) for total in sums)


def in_double(rule: Rule, form: torch.dtype) -> Rule:
    """The rule, which is given laws in float64 and sees what rounding them to a format leaves, in float64."""

    def verify(round: Round, chance: Chance) -> Emission:
        p, q = (laws.to(form).to(torch.float64) for laws in (round.draft_probs, round.target_probs))
        return rule.verify(Round(round.drafts, p, q), chance)

    return replace(rule, verify=verify)


def rounding_error(rule: Rule, pair: ToyPair, length: int, drafts: int, form: torch.dtype) -> float:
    """Total-variation distance between the emission's law in a format and in float64 from the same rounded laws."""
    single = round_law(rule, pair, length, drafts, dtype=form)
    double = round_law(in_double(rule, form), pair, length, drafts)
    return sum(total_variation(a, b) for a, b in zip(single.emissions, double.emissions, strict=True))


def errors() -> Iterator[dict[str, Any]]:
    for form in FORMATS:
        for name, rule in RULES.items():
            found = []
            for where in builtin_suite():
                error = rounding_error(rule, where.pair, where.length, where.drafts, form)
                found.append((error, bound(name, where.pair, where.length, where.drafts, form)))
            largest = max(error for error, _ in found)
            nearest = max(found, key=lambda each: each[0] / each[1])
            yield {"format": str(form)[6:], "rule": name, "error": largest, "bound": nearest[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    print(f"{'format':9} {'rule':30} {'error':>9} {'bound':>9}")
    found = []
    for row in errors():
        print(f"{row['format']:9} {row['rule']:30} {row['error']:9.1e} {row['bound']:9.1e}", flush=True)
        found.append(row)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
