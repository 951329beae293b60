"""A node shares out its scores in two ways at once: ironed, which is best for its own level, and filled, for the next.

Filled: at every score, from the highest down, the drafts there follow the target, restricted to the tokens that have
drafts left. A token c of which the share A is handed out already gets on with q(c), until its p(c) is used up; so the
share that it has above some score is min(1, theta q(c)/p(c)), with one theta for all tokens. Children keep nearly all
of the node's range, and their own children find drafts of high and of low scores, K drafts in effect.

Ironing pays where few levels are left and where draft and target are close. The share of it is the fidelity of the
two laws, (sum of sqrt(p q))^2, to the power of the levels left: that of the texts of these levels, were they all
alike. A mixture of two sharings is a sharing, so the rule stays lossless. See ``proofs/blended_tournament.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spectr_verify.rules._ironing import Density, Sharing, share_out

PIECES = 16
"""Pieces that the root's scores are cut into; filling is even within a piece."""

_LEAST = 1e-12
"""The smallest ratio q/p that filling tells from others: tokens of less are filled last, as if they had it."""


@dataclass(frozen=True, eq=False)
class Filling:
    """Scores filled from the highest down.

    Attributes:
        density: the node's.
        ratios: float64 [N, V], q/p of each token, at least ``_LEAST``.
        theta: float64 [N, n+1], at the ends of the pieces: a token has the share min(1, theta q/p) of its drafts above.
    """

    density: Density
    ratios: Tensor
    theta: Tensor

    @classmethod
    def of(cls, sharing: Sharing, p: Tensor, q: Tensor) -> Filling:
        """From the ironed sharing, which has the tokens in order; p, q float64 [N, V]."""
        shares = sharing.density.shares
        order = torch.empty_like(sharing.place).scatter_(
            1, sharing.place, torch.arange(p.shape[1], device=p.device).expand_as(sharing.place)
        )
        ratios = torch.where(p > 0, q / p, torch.inf).clamp(_LEAST, 1 / _LEAST)
        ordered = ratios.gather(1, order)
        filled = torch.cat([torch.zeros_like(shares[:, :1]), (ordered * sharing.mass).cumsum(dim=1)], dim=1)
        # The share of all drafts that is handed out when a token is used up, and with it all of higher ratios.
        used_up = 1 - sharing.t[:, :-1] + filled[:, :-1] / ordered
        going = torch.searchsorted(-used_up, shares.sub(1).contiguous())
        left, rate = sharing.t.gather(1, going) - shares, filled.gather(1, going)
        theta = torch.where(rate > 0, left.clamp(min=0.0) / rate, 1 / _LEAST).clamp(max=1 / _LEAST)
        theta = theta.flip(1).cummax(dim=1).values.flip(1)
        theta[:, 0], theta[:, -1] = 1 / _LEAST, 0.0
        return cls(sharing.density, ratios, theta)

    def wins(self) -> Tensor:
        """How many wins a draft of each token has: [N, V]; see ``above``.

        Summed by parts it is g at the last end above which the token has all its drafts, and from there on the rises of
        g times what it has above them, in proportion to q/p: g is the node's mean number of wins on a piece.
        """
        slopes = self.density.slopes()
        rises = torch.cat([torch.zeros_like(slopes[:, :1]), slopes.diff(dim=1), -slopes[:, -1:]], dim=1) * self.theta
        beyond = rises.flip(1).cumsum(dim=1).flip(1)
        end = torch.searchsorted(-self.theta, -1 / self.ratios, right=True) - 1
        end = end.clamp(0, slopes.shape[1] - 1)
        return slopes.gather(1, end) + self.ratios * beyond.gather(1, end + 1)

    def below(self, tokens: Tensor) -> Tensor:
        """The part of some tokens' drafts below the ends of the pieces: int64 [N, m] to [N, m, n+1]."""
        return 1 - (self.ratios.gather(1, tokens)[..., None] * self.theta[:, None]).clamp(max=1.0)


@dataclass(frozen=True, eq=False)
class Blend:
    """Scores of which a part is ironed and the rest is filled.

    Attributes:
        sharing: the ironed part.
        filling: the rest.
        ironed: float64 [N, 1], how much of each child's drafts is ironed.
        filled: float64 [N, V], law of the winner's next token if all were filled.
    """

    sharing: Sharing
    filling: Filling
    ironed: Tensor
    filled: Tensor

    @property
    def law(self) -> Tensor:
        """Law of the winner's next token: [N, V], by token."""
        return self.filled + self.ironed * (self.sharing.law - self.filled)

    @property
    def density(self) -> Density:
        """The node's."""
        return self.sharing.density

    def law_of(self, tokens: Tensor) -> Tensor:
        """The same of some tokens: int64 [N, m] to [N, m]."""
        return self.law.gather(1, tokens)

    def children(self, tokens: Tensor) -> Density:
        """The scores of some children, ``tokens`` int64 [N, m]: N m rows of n + 3 pieces."""
        m = tokens.shape[1]
        node, stretches = self.density.repeated(m), self.sharing.stretches(tokens)
        cuts, filled = stretches.cuts.flatten(0, 1), self.filling.below(tokens).flatten(0, 1)
        # A node may have no drafts on some piece: ends stand where they stood, and only cuts are looked for.
        ends, order = torch.cat([node.ends, node.score(cuts)], dim=1).sort(dim=1, stable=True)
        t = torch.cat([node.shares, cuts], dim=1).gather(1, order)
        filled = torch.cat([filled, node.interpolated(filled, cuts)], dim=1).gather(1, order)
        ironed = self.ironed.repeat_interleave(m, dim=0)
        return Density.of(ends, filled + ironed * (stretches.below(t) - filled), node.drafts)


def blend(density: Density, p: Tensor, q: Tensor, weight: Tensor, left: int) -> Blend:
    """Share out the scores of nodes, arguments as of ``share_out``; where no level is left all is ironed."""
    if density.whole:
        density = density.cut(_root_ends(density))
    sharing = share_out(density, p, q, weight)
    filling = Filling.of(sharing, p, q)
    fidelity = (p * q).sqrt().sum(dim=1, keepdim=True) ** 2
    ironed = fidelity.clamp(max=1.0) ** left
    filled = p * filling.wins()
    return Blend(sharing, filling, ironed, filled / filled.sum(dim=1, keepdim=True))


def _root_ends(density: Density) -> Tensor:
    """Ends of pieces, closer where a score decides more: float64 [PIECES + 1]."""
    even = torch.linspace(0.0, 1.0, PIECES + 1, dtype=torch.float64, device=density.ends.device)
    return even ** (2 / (density.drafts[:1, 0] + 1))
