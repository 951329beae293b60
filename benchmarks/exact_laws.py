"""Time and memory of exact laws, against the floor of gathering every world's round once.

    python benchmarks/exact_laws.py

Prints one row a case: worlds, seconds (median of several runs), the ratio to the floor, and peak memory of the process
so far, cases in order of size.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import time

import numpy as np
import torch

from spectr_verify.exact import RoundLaw, round_law
from spectr_verify.exact.engine import ROUND_BYTES, one_thread
from spectr_verify.exact.tables import round_builder
from spectr_verify.rules import RULES
from toy_models import FAMILIES, ToyPair

CASES = (("block-race", 3, 3, 2, 7), ("k-seq", 4, 3, 2, 5), ("block-race", 4, 3, 2, 5))
"""Rule, V, L, K, runs."""


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"torch {torch.__version__}, numpy {np.__version__}, one thread")
    print("rule          V  L  K    worlds  seconds   floor  ratio  peak MB")
    for name, V, L, K, runs in CASES:
        pair = FAMILIES["random"](np.random.default_rng(0), V, L)
        laws, seconds = zip(*(_timed(name, pair, L, K) for _ in range(runs)), strict=True)
        floor = statistics.median(_floor(pair, L, K, laws[0].worlds) for _ in range(runs))
        median = statistics.median(seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sizes = f"{name:12} {V:2} {L:2} {K:2} {laws[0].worlds:9,}"
        print(f"{sizes} {median:8.3f} {floor:7.3f} {median / floor:6.1f} {peak:8.0f}")


def _timed(name: str, pair: ToyPair, L: int, K: int) -> tuple[RoundLaw, float]:
    start = time.perf_counter()
    law = round_law(RULES[name], pair, L, K)
    return law, time.perf_counter() - start


def _floor(pair: ToyPair, L: int, K: int, worlds: int) -> float:
    """Seconds to gather the rounds of as many worlds once, in pieces of the same size, and do nothing with them."""
    V = pair.vocab
    chunk = ROUND_BYTES // (K * (2 * L + 1) * V * 8)
    root = np.zeros(1, dtype=np.int64)
    draft, target = pair.draft.continuations(root, 0, L), pair.target.continuations(root, 0, L + 1)
    drafted = np.random.default_rng(0).integers(V**L, size=(chunk, K))
    build = round_builder(np.zeros(chunk, dtype=np.int64), drafted, draft, target, torch.float64)
    rows = torch.arange(chunk)
    with one_thread():
        start = time.perf_counter()
        for first in range(0, worlds, chunk):
            build(rows[: min(chunk, worlds - first)])
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
