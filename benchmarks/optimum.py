"""Time of the two optima by selection program, at V = 4, L = 4, K = 2 unless told otherwise.

    python benchmarks/optimum.py [V L K]

Prints the median of several runs of the whole call, imports left out, the share of it that HiGHS reports as its own,
and how far apart the two certified sides end.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
from importlib.metadata import version

import numpy as np

from spectr_verify.bounds import stateful_optimum, stateless_optimum
from spectr_verify.bounds.problem import Problem
from spectr_verify.bounds.selection import DraftSets
from toy_models import FAMILIES

RUNS = 7


def main() -> None:
    V, L, K = (int(argument) for argument in sys.argv[1:4] or (4, 4, 2))
    pair = FAMILIES["random"](np.random.default_rng(0), V, L)
    problem = Problem.of(pair, L, K)
    flows = DraftSets.of(problem.draft[-1], problem.target[-1], K).member.size
    print(f"{platform.platform()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"cvxpy {version('cvxpy')}, highspy {version('highspy')}; median of {RUNS} runs after one to warm up")
    print(f"V = {V}, L = {L}, K = {K}: {flows:,} flows")
    print("class      variables  seconds  in HiGHS  share  gap")
    for name, solve in (("stateless", stateless_optimum), ("stateful", stateful_optimum)):
        solve(pair, L, K)
        results = [solve(pair, L, K) for _ in range(RUNS)]
        total = statistics.median(result.seconds for result in results)
        solver = statistics.median(result.solver_seconds for result in results)
        gap = max(abs(result.gap) for result in results)
        print(f"{name:9} {results[0].variables:10,} {total:8.2f} {solver:9.2f} {solver / total:6.0%}  {gap:.0e}")


if __name__ == "__main__":
    main()
