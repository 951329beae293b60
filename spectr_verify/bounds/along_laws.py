"""Accepted length along a text that the target wrote, of rules that need both models' whole laws at its places.

As in ``along_text``, E[tau] is the mean over texts Y of L tokens from the target of a sum of phi_i(Y), where phi_i is
the probability that a round which starts before the text accepts its first i tokens, given that the text comes out.

Functions take tokens int64 [N, L], the draft's and the target's laws of each of them, [N, L, V] in any format, and K,
and return phi, float64 [N, L], of drafts of L tokens. The target gives every token a probability above zero; where the
draft gives one none, nothing is accepted from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from math import comb

import numpy as np
import torch
from torch import Tensor

from spectr_verify.bounds.along_text import block
from spectr_verify.rules._blending import blend
from spectr_verify.rules._ironing import Density, share_out, winner_law
from spectr_verify.rules._path import on_path, ratio
from spectr_verify.rules._winner import WinnerLaw
from spectr_verify.rules.tournament import winner_law as tournament_law

AcceptsOfLaws = Callable[[Tensor, Tensor, Tensor, int], Tensor]

NUMBERS = 2**21
"""So many numbers of a law are worked on at once: a dozen intermediates of that size are held."""


def _in_parts(accepts: AcceptsOfLaws) -> AcceptsOfLaws:
    """The same for a few texts at a time."""

    @wraps(accepts)
    def accepts_in_parts(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
        rows = max(1, NUMBERS // draft_probs[0].numel())
        parts = zip(*(values.split(rows) for values in (tokens, draft_probs, target_probs)), strict=True)
        return torch.cat([accepts(text, p.to(torch.float64), q.to(torch.float64), drafts) for text, p, q in parts])

    return accepts_in_parts


def verified(law: WinnerLaw) -> AcceptsOfLaws:
    """Block verification of a draft with this law: rho~, the smallest min(P~/Q, 1) on the way, with its law P~."""

    @_in_parts
    def accepts(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
        laws = law(tokens, draft_probs, target_probs, drafts)
        accepted = block(on_path(laws, tokens).log(), on_path(target_probs, tokens).log(), 1)
        drafted = (on_path(draft_probs, tokens) > 0).cumprod(dim=1) > 0  # where no draft goes the winner has no law
        return torch.where(drafted, accepted, 0.0)

    return accepts


@_in_parts
def optimal_token(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """Level by level: what is accepted with each number of drafts that are still active."""
    reached = torch.zeros(len(tokens), drafts, dtype=torch.float64, device=tokens.device)
    reached[:, -1] = 1.0
    accepted = []
    for i in range(tokens.shape[1]):
        laws = tokens[:, i : i + 1], draft_probs[:, i], target_probs[:, i]
        kept = torch.stack([_kept(*laws, active, drafts) for active in range(1, drafts + 1)], dim=1)
        reached = (reached[:, :, None] * kept).sum(dim=1)
        accepted.append(reached.sum(dim=1))
    return torch.stack(accepted, dim=1)


def _kept(token: Tensor, p: Tensor, q: Tensor, active: int, drafts: int) -> Tensor:
    """P(the token is accepted and 1, .., K drafts go on), of some active drafts, over q of it: [N, K].

    Args:
        token: int64 [N, 1]; p, q: float64 [N, V].
        active: how many drafts are.
        drafts: K.
    """
    every = torch.full((len(token),), float(active), dtype=torch.float64, device=token.device)
    sharing = share_out(Density.of_root(every), p, q, torch.ones_like(every))
    on, due = p.gather(1, token), q.gather(1, token)
    won = _won(sharing.children(token), on, active) * ratio(due, sharing.law_of(token)).clamp(max=1.0) / due
    return torch.nn.functional.pad(torch.where(on > 0, won, 0.0), (0, drafts - active))


def _won(scores: Density, mass: Tensor, active: int) -> Tensor:
    """P(1, .., k of k drafts have a token, and one of them wins): [N, k].

    With u the largest of their scores it is the integral of C(k, j) j (p F)^(j-1) (u - p F)^(k-j) p dF, on each piece a
    polynomial of degree k - 1, which Gauss-Legendre quadrature integrates exactly.

    Args:
        scores: of a draft that has the token, whose distribution function is F; those of all drafts are uniform.
        mass: p, [N, 1].
    """
    count = torch.arange(1, active + 1, device=mass.device)
    ways = torch.tensor([comb(active, j) * j for j in range(1, active + 1)], dtype=torch.float64, device=mass.device)
    share, width = scores.shares.diff(dim=1), scores.ends.diff(dim=1)
    won = torch.zeros(len(mass), active, dtype=torch.float64, device=mass.device)
    nodes, masses = np.polynomial.legendre.leggauss((active + 1) // 2)
    for node, part in zip((1 + nodes) / 2, masses / 2, strict=True):
        below = mass * (scores.shares[:, :-1] + node * share)
        others = (scores.ends[:, :-1] + node * width - below).clamp(min=0.0)
        powers = below[..., None] ** (count - 1) * others[..., None] ** (active - count)
        won += part * (share[..., None] * powers).sum(dim=1)
    return won * mass * ways


WINNERS: dict[str, WinnerLaw] = {
    "tournament-block": tournament_law,
    "ironed-tournament-block": partial(winner_law, share=share_out, capped=True),
    "blended-tournament-block": partial(winner_law, share=blend, capped=True),
}
"""Registered rules that select one draft and verify it by block verification, by the winner's law."""

ALONG_LAWS: dict[str, AcceptsOfLaws] = {
    "optimal-token": optimal_token,
    **{name: verified(law) for name, law in WINNERS.items()},
}
"""Registered rules whose accepted length has a closed form given whole laws."""

OF_LENGTH = ("blended-tournament-block",)
"""Rules of which phi_i depends on L too: they select a draft with a view to all levels that are left."""
