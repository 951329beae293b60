"""The block race: block verification of every draft, and a fair race between what comes out (this project)."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, on_path, ratio, stop_on_path, stopping_law
from spectr_verify.rules.block import block_success, running_weight


def block_race(round: Round, chance: Chance) -> Emission:
    """Run block verification on each draft by itself and emit what the smallest score brings.

    A draft that stops at v and goes on with c scores uniformly on (rho(vc), rho(v)], from 0 after a whole draft.
    Given the text that a draft would complete to, its score is then uniform on (0, 1]: which score is the smallest
    says nothing about the texts, so the winner's text follows the target. Stateless, any K;
    E[tau] = sum over v of Q(v) (1 - (1 - rho(v))^K).
    """
    weight = running_weight(round.drafts, round.draft_probs, round.target_probs, capped=True)
    stops = stopping_law(block_success(weight, round.draft_probs, round.target_probs))
    rho = smallest_ratio(round)
    lengths, extras, lows, highs = [], [], [], []
    row = torch.arange(round.rows, device=rho.device)
    for k in range(round.num_drafts):
        p, q = round.draft_probs[:, k], round.target_probs[:, k]
        stop = stop_on_path(stops[:, k], weight[:, k], p, q, chance)
        extra = chance.categorical(stop.correction)
        high = rho[row, k, stop.accepted]
        whole = stop.accepted == round.length
        # The correction's weight (W q - p)+ is positive only where rho(vc) = rho(v) p / (W q) lies below rho(v).
        p_extra = on_path(p[row, stop.accepted.clamp(max=round.length - 1)], extra)
        q_extra = on_path(q[row, stop.accepted], extra)
        step = ratio(p_extra, weight[row, k, stop.accepted] * q_extra).clamp(max=1.0)
        lengths.append(stop.accepted)
        extras.append(extra)
        highs.append(high)
        lows.append(torch.where(whole, 0.0, high * step))
    winner = chance.smallest_uniform(torch.stack(lows, dim=-1), torch.stack(highs, dim=-1))
    accepted = torch.stack(lengths, dim=-1)[row, winner]
    return emit(round, winner, accepted, torch.stack(extras, dim=-1)[row, winner])


def smallest_ratio(round: Round) -> Tensor:
    """rho after each prefix of each draft, the smallest min(P/Q, 1) on the way: float64 [B, K, L+1]."""
    p = on_path(round.draft_probs, round.drafts)
    q = on_path(round.target_probs[:, :, :-1], round.drafts)
    ratios = [torch.ones_like(p[..., 0])]
    for i in range(round.length):
        # Where q is 0 no lossless rule arrives, and the value is never used.
        ratios.append(ratio(ratios[-1] * p[..., i], q[..., i]))
    return torch.stack(ratios, dim=-1).cummin(dim=-1).values
