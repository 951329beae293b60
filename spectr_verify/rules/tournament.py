"""Tournaments (after Thomas & Pal 2026): select one draft by a strict order, then verify it as a single draft.

The children of a node are ordered by q/p, low to high, ties by token. A draft beats another if, where they first
differ, its token comes later. The winner's law is known in closed form and takes the draft law's place.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import greedy_block as greedy
from spectr_verify.rules.block import verify_block


def tournament_block(round: Round, chance: Chance) -> Emission:
    """Block verification of the tournament's winner. Stateless, any K."""
    return _verify_winner(round, chance, capped=True)


def tournament_greedy_block(round: Round, chance: Chance) -> Emission:
    """Greedy block verification of the tournament's winner; needs ``modified_target``."""
    return _verify_winner(round, chance, capped=False)


def modified_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """Greedy block verification's modified target with the winner's law in the draft law's place.

    Args:
        tokens: int64 [B, n], the text; draft_probs, target_probs: [B, n, V], laws after its first i tokens.
        drafts: K.

    Returns:
        Weights [B, n, V]; rows need not sum to 1.
    """
    winner = winner_law(tokens, draft_probs, target_probs, drafts)
    return greedy.modified_target(tokens, winner, target_probs, 1)


def _verify_winner(round: Round, chance: Chance, *, capped: bool) -> Emission:
    winner = winning_draft(round)
    path = round.draft(winner)
    law = winner_law(path.drafts[:, 0], path.draft_probs[:, 0], path.target_probs[:, 0, :-1], round.num_drafts)
    emission = verify_block(replace(path, draft_probs=law[:, None]), chance, capped=capped)
    return replace(emission, draft=torch.where(emission.draft < 0, -1, winner))


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
