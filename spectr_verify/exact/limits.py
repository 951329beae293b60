"""How large an enumeration may get, and the refusal when it would be larger."""

from __future__ import annotations

from dataclasses import dataclass

from spectr_verify.errors import InputError


class LimitError(InputError):
    """The enumeration would be too large: the message has the count and what would fit."""


@dataclass(frozen=True)
class Limits:
    """How large an enumeration may get.

    Attributes:
        drafts: most draft tuples (K drafts of L tokens after every context), counted before anything runs.
        worlds: most finished worlds (draft tuples times the rule's own random choices), foretold from the first
            draft tuples and counted on.
        texts: most texts in one array.
    """

    drafts: int = 2**22
    worlds: int = 2**26
    texts: int = 2**22

    def check_drafts(self, count: int, V: int, L: int, K: int, what: str) -> None:
        """Raise ``LimitError`` if ``count`` draft tuples are too many, naming the K and L that would fit."""
        if count <= self.drafts:
            return
        per_tuple = count / float(V) ** (L * K)
        fitting = {
            shorter: max(k for k in range(K + 1) if per_tuple * float(V) ** (shorter * k) <= self.drafts)
            for shorter in range(L, 0, -1)
        }
        sizes = [f"L={shorter} with K={k}" for shorter, k in fitting.items() if k > 0]
        raise LimitError(
            f"{what} with V={V}, L={L}, K={K} has {count:,} draft tuples; the limit is {self.drafts:,}. "
            f"What fits: {', '.join(sizes) or 'no K and L of this pair'}. Or raise the limit."
        )

    def check_worlds(self, finished: int, expected: int, what: str) -> None:
        """Raise ``LimitError`` if the rule's random choices make more worlds than allowed."""
        if expected > self.worlds:
            raise LimitError(
                f"{what}: the rule's random choices make about {expected:,} worlds ({finished:,} enumerated so far); "
                f"the limit is {self.worlds:,}. Use a smaller K or L, or fewer tokens of text, or raise the limit."
            )

    def check_texts(self, V: int, tokens: int, what: str) -> None:
        """Raise ``LimitError`` if an array over all texts of that many tokens is too large."""
        if V**tokens > self.texts:
            fits = max(n for n in range(tokens) if V**n <= self.texts)
            raise LimitError(
                f"{what}: there are {V**tokens:,} texts of {tokens} tokens with V={V}; the limit is {self.texts:,}, "
                f"which texts of {fits} tokens keep. Or raise the limit."
            )
