"""A rule that looks right and is not: verify every draft by itself and keep the one that was accepted longest.

    spectr-verify audit examples/best_of_k.py:best_of_k

Each draft's own verification is lossless, but choosing by length chooses by text: long acceptances come with likely
tokens, so likely tokens come out too often.
"""

import torch

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules.block import block


def best_of_k(round: Round, chance: Chance) -> Emission:
    """Block verification of each draft; the longest emission wins, the first among equals."""
    emissions = [block(single(round, k), chance) for k in range(round.num_drafts)]
    lengths = torch.stack([emission.length for emission in emissions], dim=1)
    best = lengths.argmax(dim=1)
    row = torch.arange(round.rows, device=best.device)
    tokens = torch.stack([emission.tokens for emission in emissions], dim=1)[row, best]
    length = lengths[row, best]
    return Emission(tokens, length, torch.where(length > 1, best, -1))


def single(round: Round, k: int) -> Round:
    """The round of the k-th draft alone."""
    return round.draft(torch.full((round.rows,), k, device=round.drafts.device))
