"""What benchmarks/gpu.sh runs: audits, planted faults, efficiencies and verification times on one device, as JSON."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spectr_verify.chance import Sampled
from spectr_verify.decoding import ModelPair, load_pair
from spectr_verify.montecarlo import Reference, Settings, monte_carlo, power
from spectr_verify.rounds import Round
from spectr_verify.rules import RULES
from toy_models.prompts import prompts

SECONDS = {"float32": 12.0, "bfloat16": 8.0}
"""For each rule, by the models' number format."""

VOCABULARIES = (49_152, 151_936)
DRAFTS, LENGTH, ROWS = 3, 4, 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a second for every part, and small vocabularies")
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(asked.device), "torch": torch.__version__, "small": asked.small}
    for dtype, seconds in SECONDS.items():
        pair = load_pair(dtype=dtype, device=asked.device)
        found[dtype] = audits(pair, 0.5 if asked.small else seconds, asked.small)
    found["power"] = planted(load_pair(device=asked.device), 1.0 if asked.small else 10.0, asked.small)
    found["verification"] = [
        row for V in ((2_048,) if asked.small else VOCABULARIES) for row in verification(asked.device, V)
    ]
    asked.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {asked.json}")


def machine(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "CPU"


def settings(seconds: float, small: bool, **others: Any) -> Settings:
    return Settings(texts=10**9, batch=50 if small else 2_000, seconds=seconds, **others)


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


def verification(device: str, vocab: int) -> list[dict[str, Any]]:
    """Milliseconds of each rule, and its ratio to one pass over both models' laws, which it must read."""
    round = random_round(device, vocab)
    chance = Sampled(torch.Generator(device).manual_seed(0))
    one_pass = milliseconds(device, lambda: (round.draft_probs.sum(), round.target_probs.sum()))
    rows = []
    for rule in RULES.values():
        given = round.first_drafts(rule.used_drafts(DRAFTS))
        spent = milliseconds(device, lambda rule=rule, given=given: rule.verify(given, chance))
        rows.append({"rule": rule.name, "V": vocab, "K": given.num_drafts, "L": LENGTH, "rows": ROWS, "ms": spent})
        rows[-1]["ratio_to_one_pass"] = spent / one_pass
        print(f"{rule.name:24} V = {vocab:,}: {spent:.3f} ms, {spent / one_pass:.1f} times one pass over the laws")
    return rows


def random_round(device: str, vocab: int) -> Round:
    generator = torch.Generator(device).manual_seed(0)
    logits = torch.randn(ROWS, 1, LENGTH + 1, vocab, generator=generator, device=device) * 3
    noise = torch.randn(logits.shape, generator=generator, device=device)
    target = logits.softmax(dim=-1).expand(-1, DRAFTS, -1, -1).contiguous()
    draft = (logits + noise)[:, :, :LENGTH].softmax(dim=-1).expand(-1, DRAFTS, -1, -1).contiguous()
    drawn = torch.multinomial(draft.flatten(0, 2), 1, generator=generator).view(ROWS, DRAFTS, LENGTH)
    return Round(drawn, draft, target)


def milliseconds(device: str, call: Callable[[], object], runs: int = 20) -> float:
    """Median of some runs, after two that warm up."""
    spent = []
    for _ in range(runs + 2):
        started = now(device)
        call()
        spent.append(now(device) - started)
    return 1000 * statistics.median(spent[2:])


def now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    main()
