"""Tournaments (after Thomas & Pal 2026): select one draft by a strict order, then verify it as a single draft.

The children of a node are ordered by q/p, low to high, ties by token. A draft beats another if, where they first
differ, its token comes later. The winner's law is known in closed form and takes the draft law's place.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import _winner
from spectr_verify.rules._winner import verify_winner


def tournament_block(round: Round, chance: Chance) -> Emission:
    """Block verification of the tournament's winner. Stateless, any K."""
    return verify_winner(round, chance, winning_draft(round), winner_law, capped=True)


def tournament_greedy_block(round: Round, chance: Chance) -> Emission:
    """Greedy block verification of the tournament's winner; needs ``modified_target``."""
    return verify_winner(round, chance, winning_draft(round), winner_law, capped=False)


def modified_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """See ``_winner.modified_target``."""
    return _winner.modified_target(tokens, draft_probs, target_probs, drafts, winner_law)


def winning_draft(round: Round) -> Tensor:
    """Index of the draft that beats all others: int64 [B] (the first of equal ones)."""
    p, q = round.draft_probs, round.target_probs[:, :, :-1]
    score = _score(p, q)
    own = score.gather(-1, round.drafts[..., None])
    token = torch.arange(round.vocab, device=own.device)
    before = (score < own) | (score == own) & (token < round.drafts[..., None])
    rank = before.sum(dim=-1)  # [B, K, L]
    leading = torch.ones_like(rank[..., 0], dtype=torch.bool)
    for i in range(round.length):
        best = torch.where(leading, rank[..., i], -1)
        leading = best == best.max(dim=-1, keepdim=True).values
    return leading.int().argmax(dim=-1)


def winner_law(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """Next-token laws of the winner along a path: float64 [B, n, V].

    With b(v) the draft probability of all texts below v's subtree, the winner reaches v with probability
    (b + P)^K - b^K = P(v) S(v), S = sum over j of (b + P)^j b^(K-1-j), so its law is p(c|v) S(vc)/S(v).

    Args:
        tokens: int64 [B, n]; draft_probs, target_probs: [B, n, V].
    """
    B, n, _ = draft_probs.shape
    # b and P of the node, in units of their sum b + P: S is homogeneous, and long paths do not underflow.
    below = torch.zeros(B, 1, dtype=torch.float64, device=tokens.device)
    mass = torch.ones_like(below)
    laws = []
    for i in range(n):
        p, q = draft_probs[:, i].to(torch.float64), target_probs[:, i]
        order = _score(draft_probs[:, i], q).argsort(dim=-1, stable=True)
        ordered = p.gather(-1, order)
        lower = torch.zeros_like(p).scatter(-1, order, ordered.cumsum(dim=-1) - ordered)
        child_below, child_mass = below + mass * lower, mass * p
        top = child_below + child_mass
        unit = torch.where(top > 0, top, 1.0)
        growth = top ** (drafts - 1) * _geometric(child_below / unit, drafts) / _geometric(below, drafts)
        laws.append(p * growth)
        token = tokens[:, i : i + 1]
        below, mass = (child_below / unit).gather(-1, token), (child_mass / unit).gather(-1, token)
    return torch.stack(laws, dim=1)


def _score(p: Tensor, q: Tensor) -> Tensor:
    """q/p in float64: the order of the children (infinite where p = 0, where no draft goes)."""
    return torch.where(p > 0, q.to(torch.float64) / p.to(torch.float64), torch.inf)


def _geometric(x: Tensor, terms: int) -> Tensor:
    """1 + x + .. + x^(terms-1)."""
    total = torch.ones_like(x)
    for _ in range(terms - 1):
        total = total * x + 1
    return total
