"""How often the Monte Carlo test rejects rules that are lossless: each runs with 20 seeds on the shipped pair.

    python benchmarks/false_alarms.py [--texts 400] [--seeds 0-19] [--temperature 1] [--rule NAME ..]
        [--prompt-tokens N] [--log FILE]

Prints for every lossless rule how many runs reject it, the largest e-values (a run ends where 1/alpha is reached), and
the smallest p-value of the first tokens. At alpha = 0.001 one run in some hundreds may reject. Prompts cut to a few
tokens make the runs faster and change nothing about what is tested. With the default budget all runs take hours:
``--log`` keeps each as a line of JSON, runs that stand there with the same settings are not run again, and several
processes with other seeds may share it. Lines tell releases apart and not revisions of the code: a new revision wants a
new file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from spectr_verify import __version__
from spectr_verify.decoding import Filters, load_pair
from spectr_verify.montecarlo import Reference, Settings, monte_carlo
from spectr_verify.rules import RULES
from toy_models.prompts import prompts

LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=Settings.texts)
    parser.add_argument("--seeds", default="0-19", help="first and last")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--rule", action="append", choices=LOSSLESS)
    parser.add_argument("--prompt-tokens", type=int)
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    settings = {"texts": asked.texts, "temperature": asked.temperature, "prompt_tokens": asked.prompt_tokens}
    settings["version"] = __version__
    there = asked.log.read_text().splitlines() if asked.log and asked.log.exists() else []
    runs = [run for run in map(json.loads, there) if run["settings"] == settings]
    done = {(run["rule"], run["seed"]) for run in runs}
    pair, filters = load_pair(), Filters(asked.temperature)
    encoded = [prompt[: asked.prompt_tokens] for prompt in pair.encode(prompts("code"))]
    reference = Reference(pair, filters)
    for seed in range(int(first), int(last or first) + 1):
        for name in asked.rule or LOSSLESS:
            if (name, seed) in done:
                continue
            budget = Settings(texts=asked.texts, seed=seed, filters=filters)
            report = monte_carlo(pair, RULES[name], encoded, budget, reference=reference)
            runs.append({"rule": name, "seed": seed, "settings": settings} | told(report))
            if asked.log:
                with asked.log.open("a") as log:
                    log.write(json.dumps(runs[-1]) + "\n")
    print(f"{asked.texts:,} texts a run, temperature {asked.temperature:g}")
    print(f"{'rule':30} {'rejected':>9} {'tokens':>10} {'log10 e':>8} {'accepted':>8} {'first token p':>13}")
    for name in asked.rule or LOSSLESS:
        print(line(name, [run for run in runs if run["rule"] == name]), flush=True)


def told(report: Any) -> dict[str, Any]:
    """What is kept of a run."""
    return {
        "rejected": report.lossless_rejected or report.end_to_end_rejected,
        "tokens": report.tokens,
        "log10_e": report.log10_e,
        "accepted_log10_e": report.accepted.log10_e if report.accepted else None,
        "first_token_p": report.first_token.p if report.first_token else None,
    }


def line(name: str, runs: list[dict[str, Any]]) -> str:
    rejected, tokens = sum(run["rejected"] for run in runs), sum(run["tokens"] for run in runs)
    largest = max(run["log10_e"] for run in runs)
    accepted = max(
        (run["accepted_log10_e"] for run in runs if run["accepted_log10_e"] is not None), default=float("nan")
    )
    first = min((run["first_token_p"] for run in runs if run["first_token_p"] is not None), default=float("nan"))
    return f"{name:30} {rejected:>2} of {len(runs):<3} {tokens:>10,} {largest:8.2f} {accepted:8.2f} {first:13.4f}"


if __name__ == "__main__":
    main()
