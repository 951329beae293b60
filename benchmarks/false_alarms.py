"""How often the Monte Carlo test rejects rules that are lossless: each runs with 20 seeds on the shipped pair.

    python benchmarks/false_alarms.py [--texts 400] [--seeds 20] [--temperature 1] [--rule NAME ..] [--prompt-tokens N]

Prints for every lossless rule how many runs reject it, the largest e-values (a run ends where 1/alpha is reached), and
the smallest p-value of the first tokens. At alpha = 0.001 one run in some hundreds may reject. Prompts cut to a few
tokens make the runs faster and change nothing about what is tested.
"""

from __future__ import annotations

import argparse

from spectr_verify.decoding import Filters, load_pair
from spectr_verify.montecarlo import Reference, Settings, monte_carlo
from spectr_verify.rules import RULES
from toy_models.prompts import prompts

LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=Settings.texts)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--rule", action="append", choices=LOSSLESS)
    parser.add_argument("--prompt-tokens", type=int)
    asked = parser.parse_args()
    pair, filters = load_pair(), Filters(asked.temperature)
    encoded = [prompt[: asked.prompt_tokens] for prompt in pair.encode(prompts("code"))]
    reference = Reference(pair, filters)
    print(f"{asked.texts:,} texts a run, temperature {asked.temperature:g}")
    print(f"{'rule':24} {'rejected':>8} {'log10 e':>8} {'accepted':>8} {'first token p':>13}")
    for name in asked.rule or LOSSLESS:
        found = [
            monte_carlo(
                pair, RULES[name], encoded, Settings(texts=asked.texts, seed=seed, filters=filters), reference=reference
            )
            for seed in range(asked.seeds)
        ]
        rejected = sum(report.lossless_rejected or report.end_to_end_rejected for report in found)
        largest = max(report.log10_e for report in found)
        accepted = max((report.accepted.log10_e for report in found if report.accepted), default=float("nan"))
        first = min((report.first_token.p for report in found if report.first_token), default=float("nan"))
        print(f"{name:24} {rejected:>2} of {asked.seeds} {largest:8.2f} {accepted:8.2f} {first:13.4f}", flush=True)


if __name__ == "__main__":
    main()
