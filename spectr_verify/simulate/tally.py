"""What is counted of decoded texts, and what follows from the counts.

*Block efficiency* is the mean over rounds of the tokens that a round emits, accepted ones and one more. A round that
ends a text counts with all that it emitted, beyond the text's end too: whether a text goes on for another round is
decided before that round, so the mean sum of the emissions is the mean number of rounds times their mean (Wald), and
the ratio of the two is off by a share of one over the number of texts only. Tokens of a text over its rounds would
be less, however many texts there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectr_verify.decoding import Seconds, Texts


@dataclass(frozen=True)
class Tally:
    """What the texts of one prompt counted.

    Attributes:
        texts: how many.
        tokens: that they have.
        longest: those of the longest text of each batch; the target alone would be called as often.
        calls: rounds of the batches, each one call of the target for all its texts.
        accepted: at t how many rounds accepted t tokens, 0 to L; probabilities where the law of a round is known.
        first: the same of the first round of each text.
        draft, target, verify: seconds in each.
        wall: seconds from begin to end.
        alone: seconds that the target alone would take, measured beside; 0 where time means nothing.
    """

    texts: int
    tokens: int
    longest: int
    calls: int
    accepted: tuple[float, ...]
    first: tuple[float, ...]
    draft: float = 0.0
    target: float = 0.0
    verify: float = 0.0
    wall: float = 0.0
    alone: float = 0.0

    @classmethod
    def of(cls, texts: Texts, length: int, seconds: Seconds, wall: float, alone: float) -> Tally:
        """Count texts that were decoded together with drafts of ``length`` tokens; times as the attributes."""
        return cls(
            len(texts.prompts),
            int(texts.lengths.sum()),
            int(texts.lengths.max()),
            len(texts.drafted),
            _histogram(texts.accepted[texts.starts >= 0], length),
            _histogram(texts.accepted[:, 0], length),
            seconds.draft,
            seconds.target,
            seconds.verify,
            wall,
            alone,
        )

    @classmethod
    def of_law(cls, law: Sequence[float]) -> Tally:
        """What the only round of one text accepts, from the probabilities of 0 to L tokens: nothing was decoded."""
        return cls(1, 0, 0, 0, tuple(law), tuple(law))

    def first_rounds(self) -> Tally:
        """The same as if every text had ended with its first round."""
        return replace(self, accepted=self.first)

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """The sum of several."""
        return cls(
            sum(part.texts for part in parts),
            sum(part.tokens for part in parts),
            sum(part.longest for part in parts),
            sum(part.calls for part in parts),
            _added([part.accepted for part in parts]),
            _added([part.first for part in parts]),
            sum(part.draft for part in parts),
            sum(part.target for part in parts),
            sum(part.verify for part in parts),
            sum(part.wall for part in parts),
            sum(part.alone for part in parts),
        )

    @property
    def exact(self) -> bool:
        """Whether it is the law of a round, not a count of decoded ones."""
        return self.calls == 0

    @property
    def rounds(self) -> float:
        """How many rounds there were."""
        return sum(self.accepted)

    @property
    def emitted(self) -> float:
        """Tokens that the rounds emitted, beyond the ends of texts too."""
        return self.rounds + sum(t * count for t, count in enumerate(self.accepted))


def _added(counts: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*counts, strict=True)))


def _histogram(accepted: torch.Tensor, length: int) -> tuple[int, ...]:
    return tuple(torch.bincount(accepted.cpu(), minlength=length + 1).tolist())


@dataclass(frozen=True)
class Ratio:
    """A ratio of two sums over prompts.

    Attributes:
        value: the ratio.
        error: its standard error, prompts being independent; ``None`` of a single one.
        spread: standard deviation over prompts of each prompt's own ratio; ``None`` of a single one, and where one
            has nothing below the line.
    """

    value: float
    error: float | None
    spread: float | None

    @classmethod
    def of(cls, above: NDArray[np.float64], below: NDArray[np.float64]) -> Ratio:
        """From the two numbers of every prompt: float64 [prompts] each, ``below`` with a positive sum."""
        n, value = len(above), float(above.sum() / below.sum())
        if n == 1:
            return cls(value, None, None)
        error = np.sqrt(((above - value * below) ** 2).sum() * n / (n - 1)) / below.sum()
        spread = float((above / below).std(ddof=1)) if (below > 0).all() else None
        return cls(value, float(error), spread)


@dataclass(frozen=True)
class Outcome:
    """What one cell of a sweep counted, prompt by prompt.

    Attributes:
        prompts: one tally each.
        first_rounds: whether texts ended with their first round. The prompts are then pairs that somebody wrote down
            and no sample of others: errors are those of the texts, and there is none where laws are known.
    """

    prompts: tuple[Tally, ...]
    first_rounds: bool = False

    @cached_property
    def total(self) -> Tally:
        """All prompts together."""
        return Tally.joined(self.prompts)

    def column(self, name: str) -> NDArray[np.float64]:
        """One count of every prompt: float64 [prompts]."""
        return np.array([getattr(tally, name) for tally in self.prompts], dtype=np.float64)

    @property
    def exact(self) -> bool:
        """Whether it is the law of a round after every prompt."""
        return all(tally.exact for tally in self.prompts)

    @property
    def block_efficiency(self) -> Ratio:
        """Tokens a round."""
        found = Ratio.of(self.column("emitted"), self.column("rounds"))
        return replace(found, error=self.sampling_error) if self.first_rounds else found

    @property
    def sampling_error(self) -> float | None:
        """The standard error of the mean accepted tokens of first rounds on these very prompts; ``None`` if exact."""
        if self.exact:
            return None
        variances = [_variance(tally.first) / tally.texts for tally in self.prompts if not tally.exact]
        return float(np.sqrt(sum(variances)) / len(self.prompts))

    def share(self, most: NDArray[np.float64]) -> Ratio:
        """What first rounds accept, as a share of ``most`` after every prompt: float64 [prompts], of positive sum."""
        found = Ratio.of(self.first_accepted, most)
        if not self.first_rounds:
            return found
        error = self.sampling_error
        return replace(found, error=None if error is None else error / float(most.mean()))

    @property
    def acceptance_rate(self) -> float:
        """Share of the drafted positions that were accepted."""
        total = self.total
        return (total.emitted - total.rounds) / (total.rounds * (len(total.accepted) - 1))

    @property
    def by_position(self) -> list[float]:
        """At i the share of rounds that accepted more than i tokens, i = 0..L-1."""
        return [share.value for share in self.reached]

    @property
    def reached(self) -> list[Ratio]:
        """The same with standard errors."""
        counts = np.array([tally.accepted for tally in self.prompts], dtype=np.float64)
        beyond = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        shares = [Ratio.of(beyond[:, i], beyond[:, 0]) for i in range(1, beyond.shape[1])]
        if not self.first_rounds:
            return shares
        texts = np.array([np.inf if tally.exact else tally.texts for tally in self.prompts])
        each = beyond[:, 1:] / beyond[:, :1]
        errors = np.sqrt((each * (1 - each) / texts[:, None]).sum(axis=0)) / len(texts)
        return [replace(share, error=float(error)) for share, error in zip(shares, errors, strict=True)]

    @property
    def first_accepted(self) -> NDArray[np.float64]:
        """Mean accepted tokens of the first rounds of each prompt's texts: float64 [prompts]."""
        counts = np.array([tally.first for tally in self.prompts], dtype=np.float64)
        mean: NDArray[np.float64] = counts @ np.arange(counts.shape[1]) / counts.sum(axis=1)
        return mean

    @property
    def tokens_per_second(self) -> Ratio:
        """Tokens of the texts, by the clock."""
        return Ratio.of(self.column("tokens"), self.column("wall"))

    @property
    def speed_up(self) -> Ratio:
        """The time that the target alone takes for as long texts, over the time that they took."""
        return Ratio.of(self.column("alone"), self.column("wall"))

    def to_json(self) -> list[dict[str, Any]]:
        """The tallies as plain values."""
        return [vars(tally) for tally in self.prompts]

    @classmethod
    def from_json(cls, prompts: Any, *, first_rounds: bool = False) -> Outcome:
        """The outcome whose tallies ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        return cls(tuple(_tally(each) for each in prompts), first_rounds)


def _variance(counts: Sequence[float]) -> float:
    """Of the accepted tokens of rounds that are counted by how many they accept; of one round as of none."""
    weights, accepted = np.array(counts, dtype=np.float64), np.arange(len(counts))
    total = weights.sum()
    mean = weights @ accepted / total
    return float(weights @ (accepted - mean) ** 2 / max(total - 1, 1))


def _tally(written: Any) -> Tally:
    texts, tokens, longest, calls = (_whole(written[name]) for name in ("texts", "tokens", "longest", "calls"))
    number = _whole if calls else _probability
    accepted, first = (tuple(number(count) for count in written[name]) for name in ("accepted", "first"))
    times = [float(written[name]) for name in ("draft", "target", "verify", "wall", "alone")]
    if len(accepted) != len(first) or not _nearly(sum(first), texts) or sum(accepted) < sum(first) or not texts:
        raise ValueError("its counts contradict each other")
    rounds = sum(accepted)
    if calls and not (calls <= rounds <= calls * texts and 0 < longest <= tokens <= texts * longest):
        raise ValueError("its counts of calls, rounds and tokens contradict each other")
    if not all(0 <= time < float("inf") for time in times):
        raise ValueError("it has a time that is no number of seconds")
    return Tally(texts, tokens, longest, calls, accepted, first, *times)


def _nearly(total: float, wanted: float) -> bool:
    """Whole numbers are compared exactly by it, sums of probabilities as far as they are known."""
    return abs(total - wanted) <= 1e-6


def _whole(count: Any) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"{count!r} is no count")
    return count


def _probability(weight: Any) -> float:
    if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 <= weight <= 1 + 1e-6:
        raise ValueError(f"{weight!r} is no probability")
    return float(weight)
