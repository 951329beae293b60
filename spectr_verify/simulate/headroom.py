"""How much any lossless rule could accept after a prompt: optima of small laws, else the level bound from samples.

The level bound (``proofs/level_bound.md``) says that of its i-th drafted token no lossless rule accepts more than
Q(A) + 1 - P(A)^K, for every set A of texts of i tokens. Where Q and P are the laws of large models, neither side can be
summed up, but both are means over texts Y of the target: Q(A) that of the indicator of A, and 1 - P(A) that of
P(Y)/Q(Y) off A. A set {P/Q >= t} is chosen on one half of some texts and its value estimated without bias on the other,
K factors of P(A)^K from K different texts; then the halves change places. So the estimate's mean is the value of true
bounds: never below the level bound, and above it by what the choice of t costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectr_verify.bounds import MAX_VARIABLES, BoundError, BoundResult, stateful_optimum, stateless_optimum
from spectr_verify.decoding import Filters
from spectr_verify.errors import InputError
from spectr_verify.rules import Kind
from spectr_verify.simulate.corpus import Corpus, Start
from spectr_verify.simulate.plain import continuations
from toy_models import TableModel, ToyPair

OPTIMA: dict[str, Callable[..., BoundResult]] = {"stateless": stateless_optimum, "stateful": stateful_optimum}

OPTIMUM, LEVEL_BOUND = "optimum", "level bound"

FEWEST = 4
"""The fewest samples: two halves, of which each must show how much its texts differ."""

MOST_WRITTEN = 1 << 14
"""How many numbers the laws after one prompt may have to be written down."""

MOST_VARIABLES = 20_000
"""How large the programs of laws that are no tables may be; there is one for every prompt."""

MOST_LOGITS = 1 << 26
"""About how many logits are held at once."""


@dataclass(frozen=True, eq=False)
class Headroom:
    """The most that a round from each prompt's end accepts, in tokens.

    Attributes:
        what: "optimum" of the rule's class, or "level bound", which is an estimate.
        values: float64 [prompts].
        errors: float64 [prompts], standard errors of the estimates; 0 of an optimum.
    """

    what: str
    values: NDArray[np.float64]
    errors: NDArray[np.float64]

    @property
    def estimated(self) -> bool:
        """Whether it is no optimum."""
        return self.what == LEVEL_BOUND

    @property
    def error(self) -> float | None:
        """The standard error of the mean over these prompts."""
        return float(np.sqrt((self.errors**2).sum()) / len(self.errors)) if self.estimated else None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"what": self.what, "values": self.values.tolist(), "errors": self.errors.tolist()}

    @classmethod
    def from_json(cls, written: Any) -> Headroom:
        """The bound that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        if written["what"] not in (OPTIMUM, LEVEL_BOUND):
            raise ValueError(f"{written['what']!r} is no bound")
        values, errors = (np.array(written[name], dtype=np.float64) for name in ("values", "errors"))
        if not (np.isfinite(values).all() and np.isfinite(errors).all()):
            raise ValueError("a bound is no number")
        return cls(written["what"], values, errors)


class Headrooms:
    """Bounds of one set of prompts at one temperature, for every K and L; what was computed is kept."""

    def __init__(self, corpus: Corpus, filters: Filters, length: int, samples: int, seed: int) -> None:
        """Bounds up to drafts of ``length``, from ``samples`` texts a prompt."""
        if samples < FEWEST:
            raise InputError(f"samples is {samples}; the level bound needs at least {FEWEST} texts a prompt")
        self.corpus, self.filters, self.length, self.samples, self.seed = corpus, filters, length, samples, seed
        self._optimum, self._pairs = cache(self._solved), cache(self._written_down)
        self._logs, self._levels = cache(self._sampled), cache(self._estimated)

    def bound(self, kind: Kind, drafts: int, length: int) -> Headroom | str:
        """The bound for rules of a class, or why there is none."""
        optimum = self._optimum(kind, drafts, length)
        if isinstance(optimum, Headroom) or self.corpus.written_down:
            return optimum
        if self.samples // 2 < drafts:
            return f"the level bound of {drafts} drafts needs {2 * drafts} texts a prompt (--samples)"
        values, errors = self._levels(drafts)
        return Headroom(LEVEL_BOUND, values[:, length - 1], errors[:, length - 1])

    def _solved(self, kind: Kind, drafts: int, length: int) -> Headroom | str:
        """The optimum after every prompt, where the laws are small enough."""
        pairs = self._pairs(length)
        if isinstance(pairs, str):
            return pairs
        most = MAX_VARIABLES if self.corpus.written_down else MOST_VARIABLES
        try:
            values = [OPTIMA[kind](pair, length, drafts, max_variables=most).value for pair in pairs]
        except BoundError as error:
            return str(error)
        return Headroom(OPTIMUM, np.array(values), np.zeros(len(values)))

    def _written_down(self, length: int) -> list[ToyPair] | str:
        """The laws of a round from each prompt's end as tables, or why there are none."""
        found = []
        for start in self.corpus.starts:
            if start.tables is None:
                if start.source.vocab ** (length + 1) > MOST_WRITTEN:
                    return f"laws of {start.source.vocab:,} tokens are too many to be written down"
                found.append(written_down(start, self.filters, length))
            elif length > start.tables.max_length:
                return f"the tables of {start.tables.name} reach drafts of {start.tables.max_length} tokens"
            else:
                found.append(filtered(start.tables, self.filters))
        return found

    def _estimated(self, drafts: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Level bounds up to every length, and their standard errors: float64 [prompts, L] each."""
        found = [sampled_level_bound(log_p, log_q, drafts) for log_p, log_q in self._logs()]
        values, errors = (np.array(column) for column in zip(*found, strict=True))
        return values, errors

    def _sampled(self) -> list[tuple[Tensor, Tensor]]:
        return [self._continued(number, start) for number, start in enumerate(self.corpus.starts)]

    def _continued(self, number: int, start: Start) -> tuple[Tensor, Tensor]:
        """Texts after a prompt, drawn so that the first tokens do not depend on how many there are."""
        rows, parts = max(1, MOST_LOGITS // start.source.vocab), []
        for begin in range(0, self.samples, rows):
            generator = torch.Generator(device=start.source.device)
            generator.manual_seed(self.seed + number * self.samples + begin)
            prompts = [start.prompt] * min(rows, self.samples - begin)
            parts.append(
                continuations(start.source, prompts, tokens=self.length, filters=self.filters, generator=generator)
            )
        _, log_p, log_q = (torch.cat(column) for column in zip(*parts, strict=True))
        return log_p, log_q


LARGEST_RATIO = 2.0
"""The largest P/Q at which the sets of the level bound are cut."""


def sampled_level_bound(log_p: Tensor, log_q: Tensor, drafts: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The level bound of one context, estimated from texts that the target wrote after it.

    Args:
        log_p, log_q: float64 [n, L], log-probabilities of their tokens; n at least 2 K, and 4.
        drafts: K.

    Returns:
        float64 [L] each: at l - 1 the bound for drafts of l tokens, whose mean is not below the level bound, and its
        standard error.
    """
    weights = (log_p - log_q).cumsum(dim=-1).exp()
    halves = weights[::2], weights[1::2]
    levels, variance = np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    for chosen, judged in (halves, halves[::-1]):
        threshold = _threshold(chosen, drafts)
        levels += _value(judged, threshold, drafts) / 2
        variance += _variance(judged, threshold, drafts) / 4
    return np.cumsum(levels), np.sqrt(variance)


def _threshold(weights: Tensor, drafts: int) -> Tensor:
    """The t at which {P/Q >= t} gives the least bound on these texts: [L], from weights P/Q [n, L].

    Any set gives a bound. None that leaves texts of a large P/Q off is taken: the products of 1 - P/Q over K of those
    have a mean that few samples come near.
    """
    n = len(weights)
    ordered = weights.sort(dim=0).values
    none, every = torch.zeros_like(ordered[:1]), torch.full_like(ordered[:1], torch.inf)
    # With t at the j-th smallest weight, j texts are off the set; at 0 none is, and the bound is 1.
    largest_off = torch.cat([none, ordered])
    off = largest_off.cumsum(dim=0) / n
    inside = 1 - torch.arange(n + 1, dtype=weights.dtype)[:, None] / n
    bounds = inside + 1 - (1 - off).clamp(min=0) ** drafts
    best = bounds.masked_fill(largest_off > LARGEST_RATIO, torch.inf).argmin(dim=0)
    return torch.cat([none, ordered[1:], every]).gather(0, best[None])[0].clamp(max=LARGEST_RATIO)


def _value(weights: Tensor, threshold: Tensor, drafts: int) -> NDArray[np.float64]:
    """Q(A) + 1 - P(A)^K without bias, for A = {P/Q >= t}: [L], from weights P/Q [n, L] that t does not depend on."""
    inside, factors = _parts(weights, threshold)
    # The mean product over K different texts: elementary symmetric means, one more text at a time.
    means = [torch.ones_like(threshold), *(torch.zeros_like(threshold) for _ in range(drafts))]
    for count, factor in enumerate(factors, start=1):
        for k in range(min(drafts, count), 0, -1):
            means[k] = means[k] * (count - k) / count + means[k - 1] * factor * k / count
    found: NDArray[np.float64] = (inside.mean(dim=0) + 1 - means[drafts]).numpy()
    return found


def _variance(weights: Tensor, threshold: Tensor, drafts: int) -> NDArray[np.float64]:
    """The variance of the sum of the first l levels' ``_value``: [L].

    The mean product of K factors moves with the mean factor m of a text by K m^(K-1), up to terms of higher order.
    """
    inside, factors = _parts(weights, threshold)
    slope = drafts * factors.mean(dim=0).clamp(0, 1) ** (drafts - 1)
    moved = (inside - slope * factors).cumsum(dim=1)
    found: NDArray[np.float64] = (moved.var(dim=0) / len(weights)).numpy()
    return found


def _parts(weights: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """Of every text whether it is in the set, and the factor whose mean is P of the set: [n, L] each."""
    inside = weights >= threshold
    return inside.to(weights.dtype), 1 - torch.where(inside, 0.0, weights)


def written_down(start: Start, filters: Filters, length: int) -> ToyPair:
    """The laws of drafts of ``length`` tokens after a prompt, and of what follows them, as tables.

    The prompt's source reads every text of that many tokens, so that its vocabulary must be small.
    """
    source = start.source
    texts = torch.tensor(list(product(range(source.vocab), repeat=length)), device=source.device)
    read = torch.cat([torch.tensor([start.prompt], device=source.device).expand(len(texts), -1), texts], dim=1)

    def table(number: int) -> TableModel:
        laws = filters.law(source.readers(len(texts))[number].read(read, last=length + 1)).double().cpu()
        # A prefix of i tokens begins every V^(L-i)-th text.
        levels = (laws[:: source.vocab ** (length - i), i] for i in range(length + 1))
        return TableModel(tuple(level.numpy() for level in levels))

    return ToyPair("after a prompt", draft=table(1), target=table(0))


def filtered(pair: ToyPair, filters: Filters) -> ToyPair:
    """The tables that texts follow: at another temperature, or with tokens left out."""

    def kept(model: TableModel) -> TableModel:
        return TableModel(tuple(filters.law(torch.tensor(level).log()).numpy() for level in model.levels))

    return ToyPair(pair.name, kept(pair.draft), kept(pair.target))
