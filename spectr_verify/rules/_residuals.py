"""What is left of the target after its drafts: masses for coins, and the token that follows what was accepted."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import BLOCK, Chance
from spectr_verify.rounds import Round
from spectr_verify.rules._path import Places, or_target


class Residuals:
    """The residuals (w q - p)+ along the drafts of a round.

    Their sums are kept by blocks of the vocabulary: where a coin was tossed, the token that follows is chosen without a
    second look at the laws but for one block.

    Attributes:
        round: where the laws are.
        weight: float64 [B K, L+1], the running weight w after each prefix.
    """

    def __init__(self, round: Round, weight: Tensor) -> None:
        """Of a round with the weights [B, K, L+1]."""
        self.round, self.weight = round, weight.flatten(0, 1)
        # The sums that are known, and of which place each is: none to begin with.
        self._known: list[tuple[Tensor, Tensor, Tensor]] = []

    def masses(self, path: Tensor, place: Tensor) -> Tensor:
        """Sums of the residuals over the vocabulary: float64 [n].

        Args:
            path: int64 [n], counted over B and K; place: int64 [n], below L.
        """
        found = self._summed(path, place)
        self._known.append((path, place, found))
        return found.sum(dim=-1) * self.weight[path, place]

    def choose(self, accepted: Tensor, chance: Chance) -> Tensor:
        """The token after each draft's accepted ones: int64 [B, K].

        From the residual there; from q after a whole draft, and where nothing is left: that has probability zero, but
        rounding can come there. In two choices where the vocabulary is large: a block of it, and a token in that.

        Args:
            accepted: int64 [B, K], the accepted length of each draft.
            chance: draws.
        """
        place, shape = accepted.flatten(), (*accepted.shape, -1)
        path = torch.arange(len(place), device=place.device)
        places = Places.on_drafts(self.round, path, place)
        sums, plain = self._sums(path, place, places)
        block = chance.categorical(sums.view(shape))
        if sums.shape[1] == self.round.vocab:  # no more tokens than fit into a block: each is a block of its own
            return block
        q, p = places.block(block.flatten())
        left = places.left(self.weight[path, place], q, p)
        inside = torch.where(plain[:, None], q, or_target(left, q))
        return block * BLOCK + chance.categorical(inside.view(shape))

    def _sums(self, path: Tensor, place: Tensor, places: Places) -> tuple[Tensor, Tensor]:
        """What to choose a block by, float64 [n, blocks], and bool [n] where that is the target itself."""
        blocks = self.round.vocab if self.round.vocab <= BLOCK else -(-self.round.vocab // BLOCK)
        sums = torch.zeros(len(path), blocks, dtype=torch.float64, device=path.device)
        plain = place == self.round.length
        new = ~plain
        for paths, at, found in self._known:
            here = (place[paths] == at).nonzero()[:, 0]
            sums[paths[here]], new[paths[here]] = found[here], False
        if bool(new.any()):
            some = new.nonzero()[:, 0]
            sums[some] = self._summed(path[some], place[some])
        plain |= sums.sum(dim=-1) <= 0
        if bool(plain.any()):
            sums[plain] = places.take(plain.nonzero()[:, 0]).target_sums()
        return sums, plain

    def _summed(self, path: Tensor, place: Tensor) -> Tensor:
        """Sums of the residuals, in units of w, over blocks of the vocabulary: float64 [n, blocks]."""
        return Places.on_drafts(self.round, path, place).sums(self.weight[path, place])
