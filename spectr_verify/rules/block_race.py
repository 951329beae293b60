"""The block race: block verification of every draft, and a fair race between what comes out (this project)."""

from __future__ import annotations

import torch

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, on_paths, ratio
from spectr_verify.rules._residuals import Residuals
from spectr_verify.rules.block import log_weight, stop_block


def block_race(round: Round, chance: Chance) -> Emission:
    """Run block verification on each draft by itself and emit what the smallest score brings.

    A draft that stops at v and goes on with c scores uniformly on (rho(vc), rho(v)], from 0 after a whole draft.
    Given the text that a draft would complete to, its score is then uniform on (0, 1]: which score is the smallest
    says nothing about the texts, so the winner's text follows the target. Stateless, any K;
    E[tau] = sum over v of Q(v) (1 - (1 - rho(v))^K).
    """
    p, q = on_paths(round.drafts, round.draft_probs, round.target_probs)
    logs = log_weight(p, q)
    largest = logs.cummax(dim=-1).values
    weights = (logs - largest).exp()
    residuals = Residuals(round, weights)
    accepted = stop_block(residuals, p, q, chance)
    weight, high = (along.gather(-1, accepted[..., None])[..., 0] for along in (weights, (-largest).exp()))
    extra = residuals.choose(accepted, chance)
    # high is rho there, the smallest min(P/Q, 1) on the way. The correction's weight (W q - p)+ is positive only where
    # rho(vc) = rho(v) p / (W q) lies below rho(v).
    row, draft = torch.arange(round.rows, device=extra.device), torch.arange(round.num_drafts, device=extra.device)
    whole = accepted == round.length
    p_extra = round.draft_probs[row[:, None], draft, accepted - whole.long(), extra].to(torch.float64)
    q_extra = round.target_probs[row[:, None], draft, accepted, extra].to(torch.float64)
    step = ratio(p_extra, weight * q_extra).clamp(max=1.0)
    winner = chance.smallest_uniform(torch.where(whole, 0.0, high * step), high)
    return emit(round, winner, accepted[row, winner], extra[row, winner])
