"""How far the estimated level bound of `simulate` lies above what it estimates, by how many texts it is from.

    python benchmarks/level_bound.py [--vocab 1000] [--samples 1024]

The 20 prompts of a synthetic pair with a small and a large gap, K = 3 drafts of L = 4 tokens. Of many texts the choice
of the sets costs next to nothing; the relaxed bound, beside it, caps every text by itself.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from spectr_verify.bounds.along_text import relaxed_bound
from spectr_verify.decoding import Filters
from spectr_verify.simulate import synthetic_corpus
from spectr_verify.simulate.headroom import sampled_level_bound
from spectr_verify.simulate.plain import continuations
from toy_models.synthetic import SyntheticPair

DRAFTS, LENGTH = 3, 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=1_024)
    asked = parser.parse_args()
    counts = [count for count in (16, 64, 256, 1_024, 4_096) if count <= asked.samples]
    print(f"{'overlap':>7} {'relaxed':>8}" + "".join(f"{f'level, {count}':>13}" for count in counts))
    for overlap in (0.9, 0.6):
        generator = torch.Generator().manual_seed(0)
        logs = [
            continuations(
                start.source,
                [start.prompt] * asked.samples,
                tokens=LENGTH,
                filters=Filters(),
                generator=generator,
            )
            for start in synthetic_corpus(SyntheticPair(asked.vocab, overlap)).starts
        ]
        relaxed = np.mean([float(relaxed_bound(p, q, DRAFTS).sum(dim=-1).mean()) for _, p, q in logs])
        levels = [
            np.mean(
                [
                    sampled_level_bound(p[begin : begin + count], q[begin : begin + count], DRAFTS)[0][-1]
                    for _, p, q in logs
                    for begin in range(0, asked.samples - count + 1, count)
                ]
            )
            for count in counts
        ]
        print(f"{overlap:7.2f} {relaxed:8.3f}" + "".join(f"{level:13.3f}" for level in levels), flush=True)


if __name__ == "__main__":
    main()
