"""Planted faults that the Monte Carlo test must reject: a test that has never rejected anything proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules.block import block
from spectr_verify.rules.greedy_block import greedy_block
from spectr_verify.rules.token import token

DECLARED_TEMPERATURE = 1.1


@dataclass(frozen=True)
class PlantedFault:
    """A rule that is biased on purpose.

    Attributes:
        rule: the rule.
        says: what is wrong, in one sentence.
    """

    rule: Rule
    says: str


def longest_of_the_blocks(round: Round, chance: Chance) -> Emission:
    """Block verification of each draft by itself, and the longest result of all."""
    found = [block(round.draft(torch.full_like(round.drafts[:, 0, 0], k)), chance) for k in range(round.num_drafts)]
    lengths = torch.stack([emission.length for emission in found], dim=1)
    best, row = lengths.argmax(dim=1), torch.arange(round.rows, device=lengths.device)
    tokens = torch.stack([emission.tokens for emission in found], dim=1)[row, best]
    return Emission(tokens, lengths[row, best], torch.where(lengths[row, best] > 1, best, -1))


def declared_at_another_temperature(round: Round, chance: Chance) -> Emission:
    """Token verification that takes drafts for flatter than what they were sampled from."""
    flatter = round.draft_probs ** (1 / DECLARED_TEMPERATURE)
    return token(replace(round, draft_probs=flatter / flatter.sum(dim=-1, keepdim=True)), chance)


def residual_not_subtracted(round: Round, chance: Chance) -> Emission:
    """Token verification that corrects from q where it should from (q - p)+."""
    emission = token(round, chance)
    row = torch.arange(round.rows, device=emission.length.device)
    at = emission.length - 1
    law = round.target_probs[row, emission.draft.clamp(min=0), at]
    tokens = emission.tokens.clone()
    tokens[row, at] = chance.categorical(law)
    return replace(emission, tokens=tokens)


def _fault(verify: Callable[[Round, Chance], Emission], says: str, max_drafts: int | None = None) -> PlantedFault:
    return PlantedFault(Rule(verify.__name__.replace("_", "-"), verify, max_drafts=max_drafts), says)


FAULTS = (
    PlantedFault(RULES["spectr-gbv-published"], "SpecTr-GBV as its paper describes it."),
    PlantedFault(RULES["spectr-gbv-released"], "SpecTr-GBV as its authors' code does it."),
    PlantedFault(
        Rule("greedy-block-forgetful", greedy_block, max_drafts=1),
        "Greedy block verification without its modified target.",
    ),
    _fault(longest_of_the_blocks, "Every draft is verified by itself and the longest result is taken."),
    _fault(declared_at_another_temperature, "Drafts are sampled at temperature 1 and declared at 1.1.", 1),
    _fault(residual_not_subtracted, "A rejected token is replaced by one from q, not from (q - p)+.", 1),
)
"""The faults that ``power`` runs."""

DRAFTS, LENGTH = 3, 4
"""K and L that ``power`` runs them with: some of them are lossless with one draft, or with drafts of one token."""
