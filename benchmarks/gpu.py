"""What benchmarks/gpu.sh runs: audits, planted faults, efficiencies and verification times on one device, as JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from verify_cost import BATCHES, VOCABULARIES, costs, machine

from spectr_verify.decoding import ModelPair, load_pair
from spectr_verify.montecarlo import Reference, Settings, monte_carlo, power
from spectr_verify.rules import RULES
from toy_models.prompts import prompts

SECONDS = {"float32": 5.0, "bfloat16": 3.0}
"""For each rule, by the models' number format."""

TUNED = (
    "autoregressive",
    "token",
    "block",
    "greedy-block",
    "block-race",
    "k-seq",
    "recursive-rejection",
    "optimal-token",
)
"""The rules whose verification is timed: the others take hundreds of passes over the laws."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a second for every part, and small vocabularies")
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(asked.device), "torch": torch.__version__, "small": asked.small}

    def keep(name: str, part: object) -> None:
        """Write what there is so far: a run that is cut short leaves the parts that it finished."""
        found[name] = part
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{asked.json} has {name}", flush=True)

    sizes = [(2_048, 1)] if asked.small else [(V, rows) for V in VOCABULARIES for rows in BATCHES]
    measured: list[dict[str, Any]] = []
    for V, rows in sizes:
        measured += costs(asked.device, V, rows, names=TUNED)
        keep("verification", measured)
    for dtype, seconds in SECONDS.items():
        pair = load_pair(dtype=dtype, device=asked.device)
        keep(dtype, audits(pair, 0.5 if asked.small else seconds, asked.small))
    keep("power", planted(load_pair(device=asked.device), 1.0 if asked.small else 10.0, asked.small))


def settings(seconds: float, small: bool, **others: Any) -> Settings:
    return Settings(texts=10**9, batch=50 if small else 1_000, seconds=seconds, **others)


def audits(pair: ModelPair, seconds: float, small: bool) -> list[dict[str, Any]]:
    asked = settings(seconds, small)
    encoded, reference = pair.encode(prompts("code")), Reference(pair, asked.filters)
    rows = []
    for rule in RULES.values():
        row = monte_carlo(pair, rule, encoded, asked, reference=reference).to_json() | {"lossless": rule.lossless}
        evidence, efficiency = row["log10_e"], row["block_efficiency"]
        print(f"{rule.name:24} log10 e {evidence}, {row['tokens']:,} tokens, {efficiency:.3f} a round")
        rows.append(row)
    return rows


def planted(pair: ModelPair, seconds: float, small: bool) -> list[dict[str, Any]]:
    asked = settings(seconds, small)
    return [outcome.to_json() for _, outcome in power(pair, pair.encode(prompts("code")), asked)]


if __name__ == "__main__":
    main()
