"""What if drafts were K of L tokens? Every closed form, for all K and L at once, from text of the target alone.

A round may start at any token of a text that the target wrote; what follows is a sample of the target, so the mean of
phi over all places is E[tau] there. No draft is drawn and no text is decoded. Some rules need both models' whole laws
of every token; where texts have pieces with these, a round may start at any of the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectr_verify.bounds.along_laws import ALONG_LAWS, OF_LENGTH
from spectr_verify.bounds.along_text import ALONG_TEXT, Accepts, relaxed_bound
from spectr_verify.errors import InputError
from spectr_verify.rules._path import on_path
from spectr_verify.simulate.identity import versions
from spectr_verify.simulate.logs import TokenLogs
from spectr_verify.simulate.pieces import Pieces
from spectr_verify.simulate.speed import TimeModel

BOUND = "relaxed bound"

RULES: dict[str, Accepts] = {**ALONG_TEXT, BOUND: relaxed_bound}
"""What is estimated: rules with a closed form, and what no lossless rule exceeds."""

FIRST_ROUNDS = ("greedy-block",)
"""Rules that hand on a modified target: estimated are rounds that start from the plain one, as the first of a text."""

ONE_DRAFT = ("token", "block", "greedy-block")
"""Rules of a single draft, which gain nothing from more."""

Floats = NDArray[np.float64]

Accepted = Callable[[int], Tensor]
"""K to what a round of K drafts of 1, .., L tokens accepts in the mean before each of n texts: [n, L]."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """Block efficiencies by rule, K and L.

    Attributes:
        rules: names, in the order of the first axis.
        efficiency: float64 [rules, K, L], tokens a round; at [r, k, l] of K = k+1 drafts of l+1 tokens.
        error: float64 [rules, K, L], standard errors, texts being independent.
        bound: float64 [rules, K, L], tokens that the relaxed bound has accepted at the same places, with as many drafts
            as the rule uses.
        places: int64 [rules], how many starts of a round were averaged over.
        texts: int64 [rules], how many texts they are in.
        tokens: how many tokens the texts have.
    """

    rules: tuple[str, ...]
    efficiency: Floats
    error: Floats
    bound: Floats
    places: NDArray[np.int64]
    texts: NDArray[np.int64]
    tokens: int

    @property
    def of_bound(self) -> Floats:
        """Accepted tokens as a share of the bound's: float64 [rules, K, L], NaN where that is zero."""
        return np.divide(self.efficiency - 1, self.bound, out=np.full_like(self.bound, np.nan), where=self.bound > 0)

    def speed_up(self, time: TimeModel) -> Floats:
        """Speed-up over autoregression: float64 [rules, K, L]; a rule of a single draft pays for one."""
        _, K, L = self.efficiency.shape
        cost: Floats = np.array(
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
        speed, best = self.speed_up(time), self.best(time)
        shares = self.of_bound.astype(object)
        shares[np.isnan(self.of_bound)] = None  # JSON has no NaN
        places = [{"texts": int(texts), "places": int(n)} for texts, n in zip(self.texts, self.places, strict=True)]
        return {
            "versions": versions(),
            "source": source,
            "tokens": self.tokens,
            **places[0],
            "time_model": vars(time),
            "rules": [
                {
                    "rule": name,
                    "first_rounds_only": name in FIRST_ROUNDS,
                    **places[r],
                    "best": {"drafts": best[r][1], "length": best[r][2]},
                    "block_efficiency": self.efficiency[r].tolist(),
                    "standard_error": self.error[r].tolist(),
                    "speed_up": speed[r].tolist(),
                    "of_bound": shares[r].tolist(),
                }
                for r, name in enumerate(self.rules)
            ],
        }


def what_if(
    logs: TokenLogs, *, drafts: int = 7, length: int = 12, progress: Callable[[str], None] = lambda _: None
) -> Estimates:
    """Estimate the block efficiency of every rule with a closed form for K up to ``drafts`` and L up to ``length``.

    Places with fewer than ``length`` tokens behind them are left out, for every L alike. Where the texts have pieces
    with whole laws, rules that need these follow the others.

    Args:
        logs: the texts.
        drafts: the largest K.
        length: the largest L.
        progress: called with a line before each of the estimates that take their time.

    Raises:
        InputError: a count below 1, fewer than two texts with ``length`` tokens or with pieces, or pieces that are
            shorter.
    """
    for name, count in (("drafts", drafts), ("length", length)):
        if count < 1:
            raise InputError(f"{name} is {count}; it must be at least 1")
    places, text = _places(logs, length)
    if not len(places):
        raise InputError(f"no text has {length} tokens; the longest has {logs.lengths.max()}: ask for shorter drafts")
    if len(np.unique(text)) == 1:
        raise InputError(
            f"only one text has {length} tokens, and a standard error needs two: give more texts, or ask for "
            "shorter drafts"
        )
    window = torch.from_numpy(places[:, None] + np.arange(length))
    log_p, log_q = (torch.from_numpy(values)[window] for values in (logs.log_draft, logs.log_target))
    rules = {name: partial(_along_text, accepts, log_p, log_q) for name, accepts in RULES.items()}
    tokens = int(logs.lengths.sum())
    found = _estimated(rules, rules[BOUND], drafts, text, tokens)
    if logs.pieces is None:
        return found
    return _joined(found, _of_pieces(logs.pieces, drafts, length, tokens, progress))


def _of_pieces(pieces: Pieces, drafts: int, length: int, tokens: int, progress: Callable[[str], None]) -> Estimates:
    """Estimates of the rules that need whole laws."""
    if pieces.tokens.shape[1] < length:
        raise InputError(
            f"pieces have {pieces.tokens.shape[1]} tokens, and drafts {length}: keep longer pieces, or ask for less"
        )
    if len(pieces.text.unique()) < 2:
        raise InputError(
            f"{len(pieces.tokens)} pieces with whole laws are in fewer than two texts, and a standard error needs two: "
            "let the target write more texts"
        )
    log_p, log_q = (
        on_path(laws, pieces.tokens)[:, :length].log() for laws in (pieces.draft_probs, pieces.target_probs)
    )

    def accepted(name: str, used: int) -> Tensor:
        progress(f"{name}, K = {used}")
        return _along_laws(name, pieces, length, used)

    rules = {name: partial(accepted, name) for name in ALONG_LAWS}
    return _estimated(rules, partial(_along_text, relaxed_bound, log_p, log_q), drafts, pieces.text.numpy(), tokens)


def _along_text(accepts: Accepts, log_p: Tensor, log_q: Tensor, drafts: int) -> Tensor:
    return accepts(log_p, log_q, drafts).cumsum(dim=-1)


def _along_laws(rule: str, pieces: Pieces, length: int, drafts: int) -> Tensor:
    def phi(n: int) -> Tensor:
        return ALONG_LAWS[rule](pieces.tokens[:, :n], pieces.draft_probs[:, :n], pieces.target_probs[:, :n], drafts)

    if rule in OF_LENGTH:
        return torch.stack([phi(n).sum(dim=1) for n in range(1, length + 1)], dim=1)
    return phi(length).cumsum(dim=1)


def _estimated(
    rules: Mapping[str, Accepted], bound: Accepted, drafts: int, text: NDArray[np.int64], tokens: int
) -> Estimates:
    """Means over places, of which ``text`` int64 [n] says in which text each is."""
    order = text.argsort(kind="stable")
    text = text[order]
    most = {k: bound(k).mean(dim=0).numpy() for k in range(1, drafts + 1)}
    means, errors, bounds = [], [], []
    for name, accepted in rules.items():
        used = _used(name, drafts)
        found = {k: _mean(accepted(k).numpy()[order], text) for k in sorted(set(used))}
        means.append([1 + found[k][0] for k in used])
        errors.append([found[k][1] for k in used])
        bounds.append([most[k] for k in used])
    places, texts = (np.full(len(rules), count) for count in (len(text), len(np.unique(text))))
    return Estimates(tuple(rules), np.array(means), np.array(errors), np.array(bounds), places, texts, tokens)


def _joined(first: Estimates, then: Estimates) -> Estimates:
    """The rules of both, of the same texts."""
    names = ("efficiency", "error", "bound", "places", "texts")
    both = {name: np.concatenate([getattr(first, name), getattr(then, name)]) for name in names}
    return Estimates(rules=first.rules + then.rules, tokens=first.tokens, **both)


def _used(rule: str, drafts: int) -> list[int]:
    """How many drafts the rule uses of 1, .., K."""
    return [1 if rule in ONE_DRAFT else k for k in range(1, drafts + 1)]


def _places(logs: TokenLogs, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where a round may start, and in which text."""
    lengths = logs.lengths
    begins = np.concatenate([[0], lengths.cumsum()[:-1]])
    counts = np.maximum(np.minimum(lengths - length + 1, lengths if logs.starts is None else logs.starts), 0)
    text = np.repeat(np.arange(len(lengths)), counts)
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    return begins[text] + within, text


def _mean(values: Floats, text: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Mean over places [n, L], and its standard error: places of one text are not independent, texts are."""
    mean: Floats = values.mean(axis=0)
    _, first = np.unique(text, return_index=True)
    deviation = np.add.reduceat(values - mean, first, axis=0)
    texts = len(first)
    error: Floats = np.sqrt((deviation**2).sum(axis=0) * texts / (texts - 1)) / len(values)
    return mean, error
