"""How large an enumeration may get, and the refusal when it would be larger."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import log2, log10

from spectr_verify.errors import InputError


class LimitError(InputError):
    """The enumeration would be too large: the message has the count and what would fit."""


@dataclass(frozen=True)
class Limits:
    """How large an enumeration may get.

    Attributes:
        tuples: most draft tuples (K drafts of L tokens after every context), counted before anything runs.
        worlds: most finished worlds (draft tuples times the rule's own random choices), foretold from the first
            draft tuples and counted on.
        texts: most texts in one array.
    """

    tuples: int = 2**22
    worlds: int = 2**24
    texts: int = 2**22

    def __post_init__(self) -> None:
        for name in ("tuples", "worlds", "texts"):
            if getattr(self, name) < 1:
                raise InputError(f"the limit of {name} is {getattr(self, name)}; it must be at least 1")

    def check_tuples(self, count: Callable[[int, int], int], V: int, L: int, K: int, what: str) -> None:
        """Raise ``LimitError`` if there are too many draft tuples, naming the K and L that would fit.

        Args:
            count: the number of draft tuples for any L and K up to those asked for; it grows with K.
            V, L, K: the sizes asked for.
            what: what is to be enumerated.
        """
        if count(L, K) <= self.tuples:
            return
        fitting = {shorter: self._most_drafts(count, shorter, K) for shorter in range(L, 0, -1)}
        sizes = [f"L={shorter} with K={k}" for shorter, k in fitting.items() if k > 0]
        raise LimitError(
            f"{what} with V={V}, L={L}, K={K} has {_shown(count(L, K))} draft tuples; the limit is {self.tuples:,}. "
            f"What fits: {', '.join(sizes) or 'no K and L of this pair'}. Or raise the limit (--max-tuples)."
        )

    def _most_drafts(self, count: Callable[[int, int], int], L: int, K: int) -> int:
        """The largest of 0..K drafts of L tokens that are not too many."""
        return bisect_right(range(1, K + 1), self.tuples, key=lambda k: count(L, k))

    def check_worlds(self, finished: int, expected: int, what: str) -> None:
        """Raise ``LimitError`` if the rule's random choices make more worlds than allowed."""
        if expected > self.worlds:
            raise LimitError(
                f"{what}: the rule's random choices make about {_shown(expected)} worlds "
                f"({finished:,} enumerated so far); the limit is {self.worlds:,}. "
                "Use a smaller K or L, or fewer tokens of text, or raise the limit (--max-worlds)."
            )

    def check_entries(self, count: int, what: str) -> None:
        """Raise ``LimitError`` if the emission laws of all contexts have too many entries together."""
        if count > self.worlds:
            raise LimitError(
                f"{what}: the laws of what its rounds emit have {_shown(count)} entries; the limit, that of worlds, is "
                f"{self.worlds:,}. Use a smaller L, or fewer tokens of text, or raise the limit (--max-worlds)."
            )

    def check_texts(self, V: int, tokens: int, what: str) -> None:
        """Raise ``LimitError`` if an array over all texts of that many tokens is too large."""
        if tokens * log2(V) > 63 or V**tokens > self.texts:
            fits = 0
            while V ** (fits + 1) <= self.texts:
                fits += 1
            raise LimitError(
                f"{what}: there are {_shown_power(V, tokens)} texts of {tokens:,} tokens with V={V}; the limit is "
                f"{self.texts:,}, which texts of {fits} tokens keep. Or raise the limit (--max-texts)."
            )


def _shown_power(base: int, exponent: int) -> str:
    return f"about 10^{exponent * log10(base):.0f}" if exponent * log10(base) > 15 else f"{base**exponent:,}"


def _shown(count: int) -> str:
    """A count as a person reads it; Python refuses to write out very large ones."""
    return f"{count:,}" if count < 10**15 else f"about 10^{log10(count):.0f}"
