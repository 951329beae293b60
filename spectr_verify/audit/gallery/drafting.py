"""Faults in how the draft is made: the verifier is right, and is told another law than the draft was drawn from.

Each differs from ``controls.speculative_step`` or ``controls.several_drafts_step`` in the line that drafts.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from spectr_verify.audit.gallery.controls import recursive_rejection, token_by_token
from spectr_verify.audit.gallery.fault import GAMMA, SEVERAL, planted
from spectr_verify.audit.gallery.pieces import Model, drafted, law, longer, sample, scored, top_k, top_p


def finished(draft_model: Model, target_model: Model, input_ids: Tensor, tokens: Tensor) -> Tensor:
    """Score the draft in one call of each model, declare the draft model's plain law, and verify."""
    draft_probs = scored(draft_model, input_ids, tokens)[:-1]
    return longer(input_ids, token_by_token(tokens, draft_probs, scored(target_model, input_ids, tokens)))


def drawn_at_another_temperature(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, draft_temperature: float = 0.6
) -> Tensor:
    """The draft is drawn at temperature 0.6 and declared at 1."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: law(logits, draft_temperature))
    return finished(draft_model, target_model, input_ids, tokens)


def drawn_with_another_top_p(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, draft_top_p: float = 0.6
) -> Tensor:
    """The draft is drawn from the top-p part of the law and declared to come from all of it."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: top_p(law(logits), draft_top_p))
    return finished(draft_model, target_model, input_ids, tokens)


def drawn_with_another_top_k(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, draft_top_k: int = 2
) -> Tensor:
    """The draft is drawn from the two likeliest tokens and declared to come from all."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: top_k(law(logits), draft_top_k))
    return finished(draft_model, target_model, input_ids, tokens)


def drawn_in_bfloat16(draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int) -> Tensor:
    """The draft is drawn from logits in bfloat16 and declared from logits in full precision."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: law(logits.to(torch.bfloat16).to(logits.dtype)))
    return finished(draft_model, target_model, input_ids, tokens)


def drawn_greedily(draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int) -> Tensor:
    """The draft is the likeliest token and declared as a sample."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: law(logits, temperature=0.0))
    return finished(draft_model, target_model, input_ids, tokens)


def drawn_from_the_prompt_alone(draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int) -> Tensor:
    """Every draft token is drawn as if the draft's own tokens before it were not there."""
    first = law(draft_model(input_ids).logits[0, -1])  # a cache that the drafted tokens never enter
    tokens = torch.cat([sample(first) for _ in range(gamma)])
    return finished(draft_model, target_model, input_ids, tokens)


def declared_one_position_late(draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int) -> Tensor:
    """The law declared for a draft token is the one after it."""
    tokens = drafted(draft_model, input_ids, gamma)
    draft_probs = scored(draft_model, input_ids, tokens)[1:]  # the laws after each token, not before it
    return longer(input_ids, token_by_token(tokens, draft_probs, scored(target_model, input_ids, tokens)))


def several_finished(draft_model: Model, target_model: Model, input_ids: Tensor, drafts: Tensor) -> Tensor:
    """The same for drafts [K, L], verified as independent ones."""
    draft_probs = torch.stack([scored(draft_model, input_ids, tokens)[:-1] for tokens in drafts])
    target_probs = torch.stack([scored(target_model, input_ids, tokens) for tokens in drafts])
    return longer(input_ids, recursive_rejection(drafts, draft_probs, target_probs))


def branched(draft_model: Model, input_ids: Tensor, gamma: int, roots: Callable[[Tensor], Tensor]) -> Tensor:
    """Drafts that ``roots`` gives first tokens, int64 [K], and that go on independently: [K, gamma]."""
    first = roots(law(draft_model(input_ids).logits[0, -1]))
    drafts = []
    for token in first.split(1):
        text = torch.cat([input_ids, token[None]], dim=1)
        drafts.append(torch.cat([token, drafted(draft_model, text, gamma - 1)]))
    return torch.stack(drafts)


def second_draft_avoids_the_first(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, num_drafts: int
) -> Tensor:
    """The drafts are drawn without replacement and verified as independent ones."""

    def roots(p: Tensor) -> Tensor:
        possible = int((p > 0).sum())
        return torch.multinomial(p, min(num_drafts, possible))  # without replacement, which is the default

    drafts = branched(draft_model, input_ids, gamma, roots)
    return several_finished(draft_model, target_model, input_ids, drafts)


def second_draft_copies_the_first(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, num_drafts: int
) -> Tensor:
    """All drafts are drawn from the same seed and verified as independent ones."""
    drafts = drafted(draft_model, input_ids, gamma).repeat(num_drafts, 1)  # every draft from the same seed
    return several_finished(draft_model, target_model, input_ids, drafts)


def drafts_are_the_likeliest(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, num_drafts: int
) -> Tensor:
    """The drafts begin with the draft model's likeliest tokens and are verified as sampled ones."""
    drafts = branched(draft_model, input_ids, gamma, lambda p: p.topk(min(num_drafts, int((p > 0).sum()))).indices)
    return several_finished(draft_model, target_model, input_ids, drafts)


FAULTS = (
    planted(drawn_at_another_temperature, "step", arguments=GAMMA),
    planted(
        drawn_with_another_top_p,
        "step",
        arguments=GAMMA,
        link="https://github.com/huggingface/transformers/issues/47932",
    ),
    planted(
        drawn_with_another_top_k,
        "step",
        arguments=GAMMA,
        link="https://github.com/huggingface/transformers/issues/47932",
    ),
    planted(drawn_in_bfloat16, "step", arguments=GAMMA, link="https://github.com/deepseek-ai/DeepSpec/issues/31"),
    planted(drawn_greedily, "step", arguments=GAMMA, link="https://github.com/huggingface/transformers/issues/32867"),
    planted(drawn_from_the_prompt_alone, "step", arguments=GAMMA, length=2),
    planted(declared_one_position_late, "step", arguments=GAMMA),
    planted(
        second_draft_avoids_the_first,
        "step",
        arguments=SEVERAL,
        drafts=2,
        link="https://github.com/SafeAILab/EAGLE/issues/74",
    ),
    planted(second_draft_copies_the_first, "step", arguments=SEVERAL, drafts=2),
    planted(
        drafts_are_the_likeliest,
        "step",
        arguments=SEVERAL,
        drafts=2,
        link="https://github.com/SafeAILab/EAGLE/issues/221",
    ),
)
