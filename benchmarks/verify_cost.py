"""What one round of verification costs at the vocabularies of real models.

    python benchmarks/verify_cost.py [--device cpu] [--threads 1] [--clock cpu] [--rules block-race,k-seq]
        [--drafts 3] [--length 12] [--json FILE]

For every rule the median milliseconds of one round, with K = 3 drafts of L = 12 tokens, laws in float32 that are as
peaked as a language model's, and as close to each other as a draft model that overlaps its target by 0.7. Beside it
two ratios: to *one pass*, a sum over both models' laws (of the draft that it uses, for a rule that uses one: it is
given all), the time that reading everything once takes; and to k-seq. Every repeat times everything once, on drafts
of its own, so that a busy machine slows all alike; ``--clock cpu`` counts the process's own time, to be had for one
thread on the CPU of a machine that others use. ``check`` is ``check_round``, which a caller runs on laws that it does
not trust.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spectr_verify.chance import Sampled
from spectr_verify.rounds import Round, check_round
from spectr_verify.rules import RULES

VOCABULARIES = (49_152, 151_936)
BATCHES = (1, 8)
DRAFTS, LENGTH = 3, 12
SHARPNESS, DIFFERENCE = 4.0, 0.8
"""Standard deviation of the logits, and of the difference between the draft's and the target's."""

WARM_UP = 2

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

EVERYTHING = ("check", *RULES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of torch on the CPU")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--rules", default=",".join(EVERYTHING), help="names with commas, check among them")
    parser.add_argument("--vocab", type=int, nargs="+", default=VOCABULARIES)
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--drafts", type=int, choices=range(1, 65), default=DRAFTS, metavar="K")
    parser.add_argument("--length", type=int, choices=range(1, 65), default=LENGTH, metavar="L")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    unknown = sorted(set(asked.rules.split(",")) - set(EVERYTHING))
    if unknown:
        parser.error(f"there is no rule {unknown[0]!r}; there are {', '.join(EVERYTHING)}")
    torch.set_num_threads(asked.threads)
    found = []
    for vocab in asked.vocab:
        for rows in asked.batch:
            found += costs(
                asked.device,
                vocab,
                rows,
                drafts=asked.drafts,
                length=asked.length,
                names=asked.rules.split(","),
                repeats=asked.repeats,
                clock=asked.clock,
            )
    if asked.json:
        head = {"machine": machine(asked.device), "torch": torch.__version__, "threads": asked.threads}
        head |= {"clock": asked.clock, "repeats": asked.repeats}
        asked.json.write_text(json.dumps(head | {"costs": found}, indent=1) + "\n")


def costs(
    device: str,
    vocab: int,
    rows: int,
    *,
    drafts: int = DRAFTS,
    length: int = LENGTH,
    names: Sequence[str] = EVERYTHING,
    repeats: int = 15,
    clock: str = "wall",
) -> list[dict[str, Any]]:
    """Time the rules on rounds of one size; print a table and return its lines as records."""
    generator = torch.Generator(device).manual_seed(0)
    laws = language_like_laws(generator, rows, length, vocab)
    several = [drawn_round(generator, *laws, drafts)] * (WARM_UP + repeats)
    several = [replace(several[0], drafts=drawn(generator, several[0].draft_probs)) for _ in several]
    alone = contiguous(several[0].first_drafts(1))
    chance = Sampled(generator)
    calls: dict[str, Callable[[int], object]] = {
        "one pass": lambda number: read(several[number]),
        "one pass, one draft": lambda _: read(alone),
    }
    for name in names:
        if name == "check":
            calls[name] = lambda number: check_round(several[number])
        else:
            calls[name] = lambda number, name=name: RULES[name].verify(several[number], chance)
    spent = interleaved(device, calls, WARM_UP + repeats, CLOCKS[clock])
    print(f"\nV = {vocab:,}, batch {rows}, K = {drafts}, L = {length}, overlap {overlap(*laws):.2f}; milliseconds")
    print(f"{'':30} {'K':>2} {'ms':>9} {'of one pass':>12} {'of k-seq':>9}")
    found = []
    for name, ms in spent.items():
        one = name.endswith("one draft") or (name in RULES and RULES[name].max_drafts == 1)
        record = {"name": name, "V": vocab, "rows": rows, "K": 1 if one else drafts, "L": length, "ms": ms}
        record["of_one_pass"] = ms / spent["one pass, one draft" if one else "one pass"]
        record["of_k_seq"] = ms / spent["k-seq"] if "k-seq" in spent else None
        to_k_seq = "" if record["of_k_seq"] is None else f"{record['of_k_seq']:9.2f}"
        print(f"{name:30} {record['K']:2} {ms:9.3f} {record['of_one_pass']:12.2f} {to_k_seq}", flush=True)
        found.append(record)
    return found


def read(round: Round) -> tuple[Tensor, Tensor]:
    """One pass over the laws."""
    return round.draft_probs.sum(), round.target_probs.sum()


def language_like_laws(generator: torch.Generator, rows: int, length: int, vocab: int) -> tuple[Tensor, Tensor]:
    """Laws of both models at every position of one text a row: [B, L, V] and [B, L+1, V], float32."""
    shape, device = (rows, length + 1, vocab), generator.device
    logits = torch.randn(shape, generator=generator, device=device).mul_(SHARPNESS)
    other = torch.randn(shape, generator=generator, device=device).mul_(DIFFERENCE).add_(logits)
    return other[:, :length].softmax(dim=-1), logits.softmax(dim=-1)


def drawn_round(generator: torch.Generator, draft: Tensor, target: Tensor, drafts: int) -> Round:
    """A round whose laws depend on the row and the position alone, so that any drafts have laws that fit."""
    laws = [law[:, None].expand(-1, drafts, -1, -1).contiguous() for law in (draft, target)]
    return Round(drawn(generator, laws[0]), *laws)


def drawn(generator: torch.Generator, laws: Tensor) -> Tensor:
    tokens = torch.multinomial(laws.flatten(0, 2), 1, generator=generator)
    return tokens.view(laws.shape[:3])


def contiguous(round: Round) -> Round:
    return Round(round.drafts.contiguous(), round.draft_probs.contiguous(), round.target_probs.contiguous())


def overlap(draft: Tensor, target: Tensor) -> float:
    """Mean over positions of the sum of min(p, q)."""
    return float(torch.minimum(draft, target[:, : draft.shape[1]]).sum(dim=-1).mean())


def interleaved(
    device: str, calls: dict[str, Callable[[int], object]], runs: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Median milliseconds of each call; every run makes all of them, and the first ones only warm up."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(runs):
        for name, call in calls.items():
            finish(device)
            started = clock()
            call(number)
            finish(device)
            spent[name].append(clock() - started)
    return {name: 1000 * statistics.median(seconds[WARM_UP:]) for name, seconds in spent.items()}


def finish(device: str) -> None:
    """Wait for what the device was asked to do."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def machine(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "CPU"


if __name__ == "__main__":
    main()
