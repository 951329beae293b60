"""How much any lossless rule could accept after a prompt: optima of small tables, else the level bound from samples.

The level bound (theory.md, section 5) says that of its i-th drafted token no lossless rule accepts more than
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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectr_verify.bounds import BoundError, BoundResult, stateful_optimum, stateless_optimum
from spectr_verify.decoding import Filters
from spectr_verify.errors import InputError
from spectr_verify.rules import Kind
from spectr_verify.simulate.corpus import Corpus, Start
from spectr_verify.simulate.plain import continuations
from toy_models import TableModel, ToyPair

OPTIMA: dict[str, Callable[[ToyPair, int, int], BoundResult]] = {
    "stateless": stateless_optimum,
    "stateful": stateful_optimum,
}


@dataclass(frozen=True, eq=False)
class Headroom:
    """The most that a round from each prompt's end accepts, in tokens.

    Attributes:
        what: "optimum" of the rule's class, or "level bound" where it is estimated.
        values: float64 [prompts].
    """

    what: str
    values: NDArray[np.float64]


class Headrooms:
    """Bounds of one set of prompts at one temperature, for every K and L; what was computed is kept."""

    def __init__(self, corpus: Corpus, filters: Filters, length: int, samples: int, seed: int) -> None:
        """Bounds up to drafts of ``length``, from ``samples`` texts a prompt."""
        if samples < 2:
            raise InputError(f"samples is {samples}; the level bound needs two halves, so at least 2 texts a prompt")
        self.corpus, self.filters, self.length, self.samples = corpus, filters, length, samples
        self.generator = torch.Generator(device=corpus.starts[0].source.device).manual_seed(seed)
        self._optimum = cache(self._solved)
        self._logs = cache(self._sampled)

    def bound(self, kind: Kind, drafts: int, length: int) -> Headroom | None:
        """The bound for rules of a class; ``None`` for tables that are too short or too large, or too few samples."""
        if self.corpus.starts[0].tables is not None:
            values = self._optimum(kind, drafts, length)
            return None if values is None else Headroom("optimum", values)
        if self.samples // 2 < drafts:
            return None
        found = [sampled_level_bound(log_p, log_q, drafts)[length - 1] for log_p, log_q in self._logs()]
        return Headroom("level bound", np.array(found))

    def _solved(self, kind: Kind, drafts: int, length: int) -> NDArray[np.float64] | None:
        values = []
        for start in self.corpus.starts:
            assert start.tables is not None, "a set has tables for all prompts or for none"
            if length > start.tables.max_length:
                return None
            try:
                values.append(OPTIMA[kind](_filtered(start.tables, self.filters), length, drafts).value)
            except BoundError:  # too large to be solved
                return None
        return np.array(values)

    def _sampled(self) -> list[tuple[Tensor, Tensor]]:
        return [self._continued(start) for start in self.corpus.starts]

    def _continued(self, start: Start) -> tuple[Tensor, Tensor]:
        return continuations(
            start.source,
            start.prompt,
            count=self.samples,
            length=self.length,
            filters=self.filters,
            generator=self.generator,
        )


LARGEST_RATIO = 2.0
"""The largest P/Q at which the sets of the level bound are cut."""


def sampled_level_bound(log_p: Tensor, log_q: Tensor, drafts: int) -> NDArray[np.float64]:
    """The level bound of one context, estimated from texts that the target wrote after it.

    Args:
        log_p, log_q: float64 [n, L], log-probabilities of their tokens; n at least 2 K.
        drafts: K.

    Returns:
        float64 [L]: at l - 1 the bound for drafts of l tokens. Its mean is not below the level bound.
    """
    weights = (log_p - log_q).cumsum(dim=-1).exp()
    halves = weights[::2], weights[1::2]
    levels = sum(_value(judged, _threshold(chosen, drafts), drafts) for chosen, judged in (halves, halves[::-1])) / 2
    return np.cumsum(levels)


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
    inside = weights >= threshold
    factors = 1 - torch.where(inside, 0.0, weights)
    # The mean product over K different texts: elementary symmetric means, one more text at a time.
    means = [torch.ones_like(threshold), *(torch.zeros_like(threshold) for _ in range(drafts))]
    for count, factor in enumerate(factors, start=1):
        for k in range(min(drafts, count), 0, -1):
            means[k] = means[k] * (count - k) / count + means[k - 1] * factor * k / count
    found: NDArray[np.float64] = (inside.to(weights.dtype).mean(dim=0) + 1 - means[drafts]).numpy()
    return found


def _filtered(pair: ToyPair, filters: Filters) -> ToyPair:
    """The tables that texts follow: at another temperature, or with tokens left out."""

    def filtered(model: TableModel) -> TableModel:
        return TableModel(tuple(filters.law(torch.tensor(level).log()).numpy() for level in model.levels))

    return ToyPair(pair.name, filtered(pair.draft), filtered(pair.target))
