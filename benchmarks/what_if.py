"""How far `what-if` is from decoding: rounds start more often where little is accepted, and it weights places alike.

    python benchmarks/what_if.py [--batches 8] [--texts 250] [--tokens 48]

Decodes text with the shipped pair (L = 4) and prints tokens a round as counted, as the closed form has them at the
places where rounds started, and as `what-if` has them from the same texts; and the difference between the last two,
with its standard error over batches. Later rounds of greedy-block follow a modified target, for which there is no such
form: what is counted is less.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from spectr_verify.bounds.along_text import ALONG_TEXT
from spectr_verify.decoding import Filters, ModelPair, decode, load_pair
from spectr_verify.montecarlo import Reference
from spectr_verify.rules import RULES
from spectr_verify.simulate import TokenLogs, what_if
from toy_models.prompts import prompts

LENGTH = 4


def batch(pair: ModelPair, name: str, drafts: int, texts: int, tokens: int, seed: int) -> tuple[float, float, float]:
    """Tokens a round: counted, in closed form where rounds started, and in closed form at all places."""
    encoded = pair.encode(prompts("code"))
    asked = [encoded[number % len(encoded)] for number in range(texts)]
    generator = torch.Generator().manual_seed(seed)
    decoded = decode(
        pair, RULES[name], asked, tokens=tokens, drafts=drafts, length=LENGTH, generator=generator, stops=False
    )
    scored = Reference(pair, Filters()).score(decoded)
    text, number = ((decoded.starts >= 0) & (decoded.starts + LENGTH <= tokens)).nonzero(as_tuple=True)
    place = decoded.starts[text, number][:, None] + torch.arange(LENGTH)
    log_p, log_q = scored.log_draft[text[:, None], place], scored.log_target[text[:, None], place]
    counted = decoded.accepted[text, number].double().mean()
    starts = ALONG_TEXT[name](log_p, log_q, drafts).sum(dim=-1).mean()
    logs = TokenLogs(scored.log_draft.flatten().numpy(), scored.log_target.flatten().numpy(), np.full(texts, tokens))
    found = what_if(logs, drafts=drafts, length=LENGTH)
    estimate = found.efficiency[found.rules.index(name), drafts - 1, LENGTH - 1]
    return 1 + float(counted), 1 + float(starts), float(estimate)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--texts", type=int, default=250)
    parser.add_argument("--tokens", type=int, default=48)
    asked = parser.parse_args()
    pair = load_pair()
    print(f"{'rule':12} {'K':>2} {'counted':>8} {'at starts':>9} {'what-if':>8} {'difference':>10}")
    for name, drafts in (("token", 1), ("block", 1), ("block-race", 3), ("greedy-block", 1)):
        runs = np.array([batch(pair, name, drafts, asked.texts, asked.tokens, seed) for seed in range(asked.batches)])
        counted, starts, estimate = runs.mean(axis=0)
        apart = runs[:, 2] - runs[:, 1]
        error = apart.std(ddof=1) / asked.batches**0.5
        print(
            f"{name:12} {drafts:2} {counted:8.3f} {starts:9.3f} {estimate:8.3f} {apart.mean():10.4f} ± {error:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
