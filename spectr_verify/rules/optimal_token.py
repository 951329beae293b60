"""The optimum of one position, token after token (this project)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._ironing import Density, largest_score_law, share_out
from spectr_verify.rules._levels import Correction, level_by_level
from spectr_verify.rules._path import Places, or_target, ratio


def optimal_token(round: Round, chance: Chance) -> Emission:
    """Select one of the active drafts' tokens by an ironed tournament and accept it with min(1, q/winner's law).

    No lossless rule accepts a round's first token more often: 1 + min over sets A of tokens of Q(A) - P(A)^K. The
    drafts that share the accepted token go on. Stateless, any K; with one draft it is token verification.
    """

    def step(places: Places, p: Tensor, q: Tensor, active: Tensor) -> tuple[Tensor, Correction]:
        of_row = places.draft_at // (round.num_drafts * round.length)
        return _step(places, round.drafts[of_row, :, places.draft_at % round.length], q, active)

    return level_by_level(round, chance, step)


def _step(places: Places, tokens: Tensor, q: Tensor, active: Tensor) -> tuple[Tensor, Correction]:
    drafts, found, winners = active.sum(dim=-1), [], []
    for part, target, draft in places.laws():
        every = torch.ones_like(drafts[part], dtype=torch.float64)
        root = Density.of_root(drafts[part])
        sharing = share_out(root, draft.to(torch.float64), target.to(torch.float64), every)
        kept = ratio(q[part], sharing.law_of(tokens[part])).clamp(max=1.0)
        found.append(_win_chances(sharing.children(tokens[part]), active[part]) * kept)
        winners.append(sharing.law)
    accepted = torch.cat(found)
    missed = (1 - accepted.cumsum(dim=-1) + accepted).clamp(min=0.0)

    def correction(at: Tensor) -> Tensor:
        law = torch.cat(winners)
        left = [or_target((q - law[at][part]).clamp_(min=0.0), q) for part, q, _ in places.take(at).laws()]
        return torch.cat(left).to(places.form)

    return ratio(accepted, missed).clamp(max=1.0), correction


def _win_chances(scores: Density, active: Tensor) -> Tensor:
    """Probability that each active draft has the largest score: [n, K]."""
    ends, shares = (part.unflatten(0, active.shape) for part in (scores.ends, scores.shares))
    return largest_score_law(ends, torch.where(active[..., None], shares, 1.0))
