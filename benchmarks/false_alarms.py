"""How often the Monte Carlo test rejects rules that are lossless: each runs with 20 seeds on the shipped pair.

    python benchmarks/false_alarms.py [--texts 400] [--seeds 20]

Prints for every lossless rule how many runs reject it, the largest e-value (a run ends where 1/alpha is reached), and
the smallest p-values of the two other tests. At alpha = 0.001 one run in some hundreds may reject.
"""

from __future__ import annotations

import argparse

from spectr_verify.decoding import load_pair
from spectr_verify.montecarlo import Reference, Settings, monte_carlo
from spectr_verify.rules import RULES
from toy_models.prompts import prompts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    pair = load_pair()
    encoded, reference = pair.encode(prompts("code")), Reference(pair, Settings().filters)
    print(
        f"{'rule':24} {'rejected':>8} {'log10 e':>8} {'first token p':>13} {'accepted p':>10}   ({asked.texts} texts)"
    )
    for name, rule in RULES.items():
        if not rule.lossless:
            continue
        found = [
            monte_carlo(pair, rule, encoded, Settings(texts=asked.texts, seed=seed), reference=reference)
            for seed in range(asked.seeds)
        ]
        rejected = sum(report.lossless_rejected or report.end_to_end_rejected for report in found)
        largest = max(report.log10_e for report in found)
        first = min(report.first_token.p for report in found if report.first_token)
        accepted = min(report.accepted.p for report in found if report.accepted)
        print(f"{name:24} {rejected:>3} of {asked.seeds} {largest:8.2f} {first:13.4f} {accepted:10.4f}", flush=True)


if __name__ == "__main__":
    main()
