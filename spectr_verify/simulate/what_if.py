"""What if drafts were K of L tokens? Every closed form, for all K and L at once, from text of the target alone.

A round may start at any token of a text that the target wrote; what follows is a sample of the target, so the mean of
phi over all places is E[tau] there. No draft is drawn and no text is decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectr_verify.bounds.along_text import ALONG_TEXT, Accepts, relaxed_bound
from spectr_verify.errors import InputError
from spectr_verify.simulate.identity import versions
from spectr_verify.simulate.logs import TokenLogs
from spectr_verify.simulate.speed import TimeModel

RULES: dict[str, Accepts] = {**ALONG_TEXT, "relaxed bound": relaxed_bound}
"""What is estimated: rules with a closed form, and what no lossless rule exceeds."""

FIRST_ROUNDS = ("greedy-block",)
"""Rules that hand on a modified target: estimated are rounds that start from the plain one, as the first of a text."""

ONE_DRAFT = ("token", "block", "greedy-block")
"""Rules of a single draft, which gain nothing from more."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """Block efficiencies by rule, K and L.

    Attributes:
        rules: names, in the order of the first axis.
        efficiency: float64 [rules, K, L], tokens a round; at [r, k, l] of K = k+1 drafts of l+1 tokens.
        error: float64 [rules, K, L], standard errors, texts being independent.
        places: how many starts of a round were averaged over.
        texts: how many texts they are in.
        tokens: how many tokens the texts have.
    """

    rules: tuple[str, ...]
    efficiency: NDArray[np.float64]
    error: NDArray[np.float64]
    places: int
    texts: int
    tokens: int

    def speed_up(self, time: TimeModel) -> NDArray[np.float64]:
        """Speed-up over autoregression: float64 [rules, K, L]; a rule of a single draft pays for one."""
        _, K, L = self.efficiency.shape
        cost: NDArray[np.float64] = np.array(
            [[[time.seconds(k, n + 1) for n in range(L)] for k in _used(name, K)] for name in self.rules]
        )
        return self.efficiency / cost

    def best(self, time: TimeModel) -> list[tuple[str, int, int]]:
        """For every rule the K and L of the largest speed-up; of equals the fewest drafts."""
        found = []
        for name, speed in zip(self.rules, self.speed_up(time), strict=True):
            k, n = np.unravel_index(int(speed.argmax()), speed.shape)
            found.append((name, int(k) + 1, int(n) + 1))
        return found

    def to_json(self, time: TimeModel, source: dict[str, Any]) -> dict[str, Any]:
        """The estimates in the schema ``spectr-verify/what-if/1``; ``source`` says what the texts are of."""
        speed = self.speed_up(time)
        best = {name: (k, n) for name, k, n in self.best(time)}
        return {
            "versions": versions(),
            "source": source,
            "texts": self.texts,
            "tokens": self.tokens,
            "places": self.places,
            "time_model": vars(time),
            "rules": [
                {
                    "rule": name,
                    "first_rounds_only": name in FIRST_ROUNDS,
                    "best": {"drafts": best[name][0], "length": best[name][1]},
                    "block_efficiency": self.efficiency[r].tolist(),
                    "standard_error": self.error[r].tolist(),
                    "speed_up": speed[r].tolist(),
                }
                for r, name in enumerate(self.rules)
            ],
        }


def what_if(logs: TokenLogs, *, drafts: int = 7, length: int = 12) -> Estimates:
    """Estimate the block efficiency of every rule with a closed form for K up to ``drafts`` and L up to ``length``.

    Places with fewer than ``length`` tokens behind them are left out, for every L alike.

    Raises:
        InputError: a count below 1, or fewer than two texts with ``length`` tokens.
    """
    for name, count in (("drafts", drafts), ("length", length)):
        if count < 1:
            raise InputError(f"{name} is {count}; it must be at least 1")
    places, text = _places(logs.lengths, length)
    if not len(places):
        raise InputError(f"no text has {length} tokens; the longest has {logs.lengths.max()}: ask for shorter drafts")
    texts = len(np.unique(text))
    if texts == 1:
        raise InputError(
            f"only one text has {length} tokens, and a standard error needs two: give more texts, or ask for "
            "shorter drafts"
        )
    window = torch.from_numpy(places[:, None] + np.arange(length))
    log_p, log_q = (torch.from_numpy(values)[window] for values in (logs.log_draft, logs.log_target))
    means, errors = [], []
    for name, accepts in RULES.items():
        used = _used(name, drafts)
        found = {k: _mean(accepts(log_p, log_q, k).cumsum(dim=-1).numpy(), text) for k in set(used)}
        columns = [found[k] for k in used]
        means.append([1 + mean for mean, _ in columns])
        errors.append([error for _, error in columns])
    return Estimates(tuple(RULES), np.array(means), np.array(errors), len(places), texts, int(logs.lengths.sum()))


def _used(rule: str, drafts: int) -> list[int]:
    """How many drafts the rule uses of 1, .., K."""
    return [1 if rule in ONE_DRAFT else k for k in range(1, drafts + 1)]


def _places(lengths: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where a round may start, and in which text."""
    begins = np.concatenate([[0], lengths.cumsum()[:-1]])
    counts = np.maximum(lengths - length + 1, 0)
    text = np.repeat(np.arange(len(lengths)), counts)
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    return begins[text] + within, text


def _mean(values: NDArray[np.float64], text: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean over places [n, L], and its standard error: places of one text are not independent, texts are."""
    mean: NDArray[np.float64] = values.mean(axis=0)
    _, first = np.unique(text, return_index=True)
    deviation = np.add.reduceat(values - mean, first, axis=0)
    texts = len(first)
    error: NDArray[np.float64] = np.sqrt((deviation**2).sum(axis=0) * texts / (texts - 1)) / len(values)
    return mean, error
