"""Synthetic language models: a pair of any vocabulary whose laws are hashed from the context, none of them stored.

After every context each token has a score from an exponential law, and the target's logits are s times the scores. The
r-th largest of V such scores is about log(V / r), so the r-th likeliest token has a probability of about r^-s: Zipf's
law. The exponent s is drawn for every context, so that some contexts are nearly certain and others wide open. The
draft's logits are the target's and normal noise; how much of it decides how much the two laws overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from toy_models.tables import TableError

EXPONENTS = (0.8, 2.4)
"""Least and largest exponent s of a context's law."""

CHUNK = 1 << 22
"""How many numbers are hashed at once."""

PROBED = 1 << 24
"""About how many logits the noise is fitted on."""

MOST_PROBES = 1024
"""The most contexts that it is fitted on."""

LOUDEST = 64.0
"""The largest standard deviation of the noise."""

_STEP = 0x9E3779B97F4A7C15 - (1 << 64)
_FACTORS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))
"""Constants of the generator SplitMix64 (Steele, Lea and Flood 2014), as signed numbers."""

_SCORES, _EXPONENT, _NOISE, _PROBES, _PROMPTS = range(5)
"""What numbers are drawn for; each has a stream of its own."""


@dataclass(frozen=True)
class SyntheticPair:
    """A target and a draft whose laws follow from the last tokens of a text.

    Attributes:
        vocab: V.
        overlap: mean over contexts of the sum of min(p, q) at temperature 1, above 0; 1 makes the models the same.
        seed: draws everything; the same seed, the same laws.
        order: how many tokens back the laws look.
        noise: the standard deviation of the draft's noise that reaches the overlap.

    Raises:
        TableError: a number is out of its range, or no noise makes the overlap so small.
    """

    vocab: int
    overlap: float
    seed: int = 0
    order: int = 4
    noise: float = field(init=False)

    def __post_init__(self) -> None:
        if not 2 <= self.vocab <= 1 << 20:
            raise TableError(f"the vocabulary is {self.vocab}; it must be 2 to {1 << 20:,} tokens")
        if not 0 < self.overlap <= 1:
            raise TableError(f"the overlap is {self.overlap}; it must be above 0 and at most 1")
        if not 0 <= self.seed < 1 << 63:
            raise TableError(f"the seed is {self.seed}; it must be a whole number from 0 on, below 2^63")
        if self.order < 1:
            raise TableError(f"the order is {self.order}; it must be at least 1")
        object.__setattr__(self, "noise", self._fitted())

    def target(self, contexts: Tensor) -> Tensor:
        """Logits of the target.

        Args:
            contexts: int64 [N, order], the last tokens of N texts; -1 to the left of a shorter one.

        Returns:
            float32 [N, V]; their softmax is the law of the next token.
        """
        return self._filled(contexts, self._target)

    def draft(self, contexts: Tensor) -> Tensor:
        """Logits of the draft: as ``target``."""
        return self._filled(contexts, lambda keys: self._target(keys) + self.noise * self._normal(keys))

    def contexts(self, count: int, stream: int = _PROMPTS) -> Tensor:
        """Contexts drawn evenly, to begin texts with: int64 [count, order]."""
        keys = torch.arange(count * self.order).view(count, self.order) + _signed(self.seed)
        return (_uniform(keys, stream) * self.vocab).long().clamp(max=self.vocab - 1)

    def _filled(self, contexts: Tensor, logits: Callable[[Tensor], Tensor]) -> Tensor:
        """Logits of all contexts, some at a time: hashing takes several times the memory of its result."""
        found = torch.empty(len(contexts), self.vocab, device=contexts.device)
        keys = self._keys(contexts)
        for rows in _chunks(len(contexts), self.vocab):
            found[rows] = logits(keys[rows])
        return found

    def _keys(self, contexts: Tensor) -> Tensor:
        """One number a context: int64 [N]."""
        keys = torch.full_like(contexts[:, 0], _signed(self.seed))
        for position in range(self.order):
            keys = _mixed(keys + (contexts[:, position] + 2) * _STEP)
        return keys

    def _target(self, keys: Tensor) -> Tensor:
        low, high = EXPONENTS
        exponent = low + (high - low) * _uniform(keys, _EXPONENT)
        return _uniform(self._places(keys), _SCORES).log_().mul_(-exponent[:, None])

    def _normal(self, keys: Tensor) -> Tensor:
        return _uniform(self._places(keys), _NOISE).mul_(2).sub_(1).erfinv_().mul_(math.sqrt(2))

    def _places(self, keys: Tensor) -> Tensor:
        """One number a context and token: int64 [n, V]."""
        return keys[:, None] + torch.arange(1, self.vocab + 1, device=keys.device) * _STEP

    def _fitted(self) -> float:
        """The noise at which the mean overlap over some contexts is the one that was asked for."""
        if self.overlap == 1:
            return 0.0
        contexts = self.contexts(min(max(PROBED // self.vocab, 1), MOST_PROBES), _PROBES)
        target, normal = (self._filled(contexts, part) for part in (self._target, self._normal))
        law = target.softmax(dim=-1)

        def reached(noise: float) -> float:
            both = [
                torch.minimum(law[rows], (target[rows] + noise * normal[rows]).softmax(dim=-1)).sum(dim=-1)
                for rows in _chunks(len(law), self.vocab)
            ]
            return float(torch.cat(both).mean())

        low, high = 0.0, LOUDEST
        if reached(high) > self.overlap:
            raise TableError(
                f"no noise makes {self.vocab:,} tokens overlap as little as {self.overlap:g}; ask for more than "
                f"{reached(high):.2g}"
            )
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if reached(middle) > self.overlap else (low, middle)
        return high


def _chunks(count: int, vocab: int) -> Iterator[slice]:
    """Rows whose laws are few enough to be worked on at once."""
    rows = max(1, CHUNK // vocab)
    for begin in range(0, count, rows):
        yield slice(begin, begin + rows)


def _signed(number: int) -> int:
    """A seed as a 64-bit number, scrambled so that neighbours have nothing in common."""
    return int(_mixed(torch.tensor([number]) * _STEP + 1))


def _mixed(numbers: Tensor) -> Tensor:
    """Scramble int64 numbers, in their place."""
    numbers ^= numbers >> 30
    numbers *= _FACTORS[0]
    numbers ^= numbers >> 27
    numbers *= _FACTORS[1]
    numbers ^= numbers >> 31
    return numbers


def _uniform(keys: Tensor, stream: int) -> Tensor:
    """Numbers between 0 and 1, both excluded, that only depend on the key and the stream: float32, shape kept."""
    bits = _mixed(keys + _signed(stream))
    bits >>= 20
    bits &= (1 << 23) - 1
    return bits.to(torch.float32).add_(0.5).mul_(2.0**-23)
