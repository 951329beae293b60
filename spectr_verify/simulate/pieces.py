"""Pieces of text that the target wrote, one behind the other, with both models' whole laws of every token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MOST_SHARED = 200_000_000
"""About how many probabilities a what-if works on; a minute's work of one core."""

MOST_KEPT = 1 << 27
"""And how many are kept, of each model: half a gigabyte in float32."""

FEWEST = 20
"""So many pieces are looked at, however long it takes."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of texts.

    Attributes:
        tokens: int64 [n, L].
        draft_probs, target_probs: [n, L, V], the laws of each token, in the format that they came in.
        text: int64 [n], which text each is of.
    """

    tokens: Tensor
    draft_probs: Tensor
    target_probs: Tensor
    text: Tensor

    @classmethod
    def joined(cls, parts: list[Pieces]) -> Pieces:
        """All of them."""
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


def chosen_pieces(texts: int, each: int, *, most: int, seed: int) -> Tensor:
    """Some of the pieces of all texts, one as likely as another: bool [texts, each]."""
    chosen = torch.zeros(texts * each, dtype=torch.bool)
    chosen[torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))[:most]] = True
    return chosen.view(texts, each)


def affordable(vocab: int, drafts: int, length: int) -> int:
    """How many pieces of L tokens a what-if looks at for up to K drafts.

    Rules that look ahead run for every K and L by itself.
    """
    return max(FEWEST, min(MOST_SHARED // (vocab * drafts * length**2), MOST_KEPT // (vocab * length)))


class Keeper:
    """Keeps the laws of some pieces while texts are written."""

    def __init__(self, chosen: Tensor, length: int) -> None:
        """``chosen`` bool [B, m]: which of the first m pieces of each of B texts, of ``length`` tokens each."""
        self._chosen, self._length = chosen, length
        self._laws: list[tuple[Tensor, ...]] = []

    def see(self, *laws: Tensor) -> None:
        """The laws of the next token of all texts, [B, V] each: the draft's, the target's."""
        number = len(self._laws) // self._length
        rows = self._chosen[:, number : number + 1].nonzero()[:, 0]  # none behind the last piece
        self._laws.append(tuple(law[rows.to(law.device)].cpu() for law in laws))

    def pieces(self, tokens: Tensor, lengths: Tensor, first: int) -> Pieces:
        """The pieces that lie within the texts.

        Args:
            tokens: int64 [B, N], all that was written.
            lengths: int64 [B], how many of them count.
            first: the number of the first text.
        """
        found = []
        for number in range(self._chosen.shape[1]):
            place = slice(number * self._length, (number + 1) * self._length)
            rows = self._chosen[:, number].nonzero()[:, 0]
            within = lengths[rows] >= place.stop
            p, q = (torch.stack(laws, dim=1)[within] for laws in zip(*self._laws[place], strict=True))
            found.append(Pieces(tokens[rows[within], place], p, q, first + rows[within]))
        return Pieces.joined(found)
