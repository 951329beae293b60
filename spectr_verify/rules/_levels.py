"""The walk of token-level rules with several drafts: level by level among the drafts that still agree."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import Places, emit, stop_at_first_rejection, working_format

Correction = Callable[[Tensor], Tensor]
"""Some places of a level, int64 [m], to the weights of the token that follows where no draft is accepted, [m, V]."""

Step = Callable[[Places, Tensor, Tensor, Tensor], tuple[Tensor, Correction]]
"""(n places, both models' probability of the drafted tokens there p [n, K] and q [n, K], active [n, K]) to the
probability with which each active draft's token is accepted once the active ones before it were rejected, [n, K], and
the correction."""


def level_by_level(round: Round, chance: Chance, step: Step) -> Emission:
    """Offer the active drafts' tokens in turn; go on with the drafts that share the accepted one.

    The laws of a level are read in the rows that get there.
    """
    B, K, L = round.drafts.shape
    row = torch.arange(B, device=round.drafts.device)
    active = torch.ones(B, K, dtype=torch.bool, device=row.device)
    accepted = torch.zeros(B, dtype=torch.int64, device=row.device)
    lead = torch.zeros_like(accepted)  # a draft that runs through the accepted prefix
    running = row  # the rows where every level so far accepted a token
    left = torch.empty(B, round.vocab, dtype=working_format(round.target_probs, round.draft_probs), device=row.device)
    for i in range(L):
        tokens = round.drafts[:, :, i]
        accept = torch.zeros(B, K, dtype=torch.float64, device=row.device)
        if len(running):
            leads = lead[running]
            places = Places.on_drafts(round, running * K + leads, torch.full_like(running, i))
            p, q = (
                laws[running[:, None], leads[:, None], i, tokens[running]].to(torch.float64)
                for laws in (round.draft_probs, round.target_probs)
            )
            offers, correction = step(places, p, q, active[running])
            accept[running] = torch.where(active[running], offers, 0.0)
        choice = chance.categorical(stop_at_first_acceptance(accept))
        none = choice == K
        if len(running):
            stopped = none[running].nonzero()[:, 0]
            if len(stopped):
                left[running[stopped]] = correction(stopped)
            running = running[~none[running]]
        lead = torch.where(none, lead, choice)
        accepted = accepted + ~none
        active &= tokens == tokens.gather(1, lead[:, None])
    left[running] = round.target_probs[running, lead[running], L].to(left.dtype)
    return emit(round, lead, accepted, chance.categorical(left))


def stop_at_first_acceptance(accept: Tensor) -> Tensor:
    """P(k is the first accepted), k = 0..K-1, then P(none): [B, K] to [B, K+1]."""
    return stop_at_first_rejection(1 - accept)
