"""Faults in what a request asked for: its temperature does not reach every place that needs it.

Each differs from ``controls.speculative_step`` in one use of ``temperature``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.audit.gallery.controls import speculative_step, token_by_token
from spectr_verify.audit.gallery.fault import STEP, Fault, planted
from spectr_verify.audit.gallery.pieces import Model, drafted, law, longer, scored


def zero_read_as_the_default(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, temperature: float
) -> Tensor:
    """A request at temperature 0 is sampled at temperature 1, because zero counts as not given."""
    temperature = temperature or 1.0
    return speculative_step(draft_model, target_model, input_ids, gamma=gamma, temperature=temperature)


def temperature_missing_in_verification(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, temperature: float
) -> Tensor:
    """The draft is drawn at the request's temperature and verified with both laws at temperature 1."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: law(logits, temperature))
    draft_probs = scored(draft_model, input_ids, tokens)[:-1]
    return longer(input_ids, token_by_token(tokens, draft_probs, scored(target_model, input_ids, tokens)))


def bonus_at_temperature_one(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, temperature: float
) -> Tensor:
    """The bonus token is drawn at temperature 1 whatever the request says."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: law(logits, temperature))
    draft_probs = scored(draft_model, input_ids, tokens, temperature)[:-1]
    target_probs = scored(target_model, input_ids, tokens, temperature)
    bonus = scored(target_model, input_ids, tokens)[-1:]  # computed apart, and the temperature was forgotten
    return longer(input_ids, token_by_token(tokens, draft_probs, torch.cat([target_probs[:-1], bonus])))


FAULTS = (
    planted(zero_read_as_the_default, "step", arguments=STEP, temperature=0.0),
    Fault(
        "greedy-draft-on-the-sampling-path",
        "A request at temperature 0 drafts greedily and is then verified by the ratio of the sampling laws.",
        "step",
        temperature_missing_in_verification,
        STEP,
        temperature=0.0,
        link="https://github.com/jaymody/speculative-sampling/issues/9",
    ),
    planted(
        temperature_missing_in_verification,
        "step",
        arguments=STEP,
        temperature=0.5,
        link="https://github.com/ohdearquant/lattice/issues/388",
    ),
    planted(bonus_at_temperature_one, "step", arguments=STEP, temperature=0.5),
)
