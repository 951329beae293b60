"""Faults in the token that follows the accepted ones: the correction after a rejection, the bonus after a whole draft.

The acceptance is right; each function differs from ``controls.token_by_token`` in what it draws the last token from.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from spectr_verify.audit.gallery.fault import planted
from spectr_verify.audit.gallery.pieces import inverse_cdf, joined, leading, left_over, on_path, sample, top_k

Draw = Callable[[int], Tensor]
"""The number of accepted tokens to the token that follows, int64 [1]."""


def verified(
    draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, *, correct: Draw, bonus: Draw | None = None
) -> Tensor:
    """Accept as is right; draw the last token with ``correct`` or, after the whole draft, ``bonus``."""
    ratio = on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)
    n = leading(torch.rand_like(ratio) < ratio)
    if n < len(draft_tokens):
        return joined(draft_tokens[:n], correct(n))
    return joined(draft_tokens, sample(target_probs[-1]) if bonus is None else bonus(n))


def correction_by_argmax(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """After a rejection the likeliest token of the residual is taken instead of a sample."""

    def correct(n: int) -> Tensor:
        return left_over(target_probs[n], draft_probs[n]).argmax(dim=-1, keepdim=True)

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def residual_not_subtracted(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """After a rejection the token comes from the target's law itself."""
    return verified(draft_tokens, draft_probs, target_probs, correct=lambda n: sample(target_probs[n]))


def residual_not_clamped(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The correction is drawn from |q - p|, so the over-drafted tokens come back."""

    def correct(n: int) -> Tensor:
        return sample((target_probs[n] - draft_probs[n]).abs())

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def residual_swapped(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The correction is drawn from (p - q)+, with draft and target swapped."""

    def correct(n: int) -> Tensor:
        return sample(left_over(draft_probs[n], target_probs[n]))

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def residual_not_normalised(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The uniform that draws the correction is compared with cumulative weights that do not reach 1."""

    def correct(n: int) -> Tensor:
        steps = left_over(target_probs[n], draft_probs[n]).cumsum(dim=-1)
        token = torch.searchsorted(steps, torch.rand(1, dtype=steps.dtype), right=True)
        return token.clamp(max=len(steps) - 1)

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def residual_with_a_floor(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The residual is clamped to 1e-5 instead of 0, which gives every token a little of it."""

    def correct(n: int) -> Tensor:
        return sample((target_probs[n] - draft_probs[n]).clamp(min=1e-5))

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def rejected_token_masked(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Only the rejected token is struck from the target's law, as if the draft had been certain of it."""

    def correct(n: int) -> Tensor:
        return sample(target_probs[n].index_fill(-1, draft_tokens[n], 0.0))  # right for a one-hot draft

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def nan_row_becomes_token_0(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A token that neither model can write makes the residual 0/0, and a row of NaN is read as token 0."""

    def correct(n: int) -> Tensor:
        q = target_probs[n]
        weights = q * (1 - (draft_probs[n] / q).clamp(max=1.0))  # (q - p)+, but 0/0 where a token has p = q = 0
        steps = (weights / weights.sum()).cumsum(dim=-1).nan_to_num()
        return (steps > torch.rand(1)).int().argmax(dim=-1, keepdim=True)

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def corrected_one_position_late(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """After a rejection the token comes from the target's law behind the rejected token."""
    return verified(draft_tokens, draft_probs, target_probs, correct=lambda n: sample(target_probs[n + 1]))


def residual_of_two_positions(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The residual subtracts the draft's law of one position from the target's law of the next."""

    def correct(n: int) -> Tensor:
        return sample(left_over(target_probs[n + 1], draft_probs[n]))

    return verified(draft_tokens, draft_probs, target_probs, correct=correct)


def filtered_after_acceptance(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, *, k: int = 2) -> Tensor:
    """A request's top-k filters the correction and the bonus, and the acceptance looks at the whole law."""
    allowed = top_k(target_probs, k)
    return verified(
        draft_tokens,
        draft_probs,
        target_probs,
        correct=lambda n: sample(left_over(allowed[n], draft_probs[n])),
        bonus=lambda n: sample(allowed[n]),
    )


def bonus_from_the_draft(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """After a whole draft the bonus token comes from the draft's last law."""
    return verified(
        draft_tokens,
        draft_probs,
        target_probs,
        correct=lambda n: sample(left_over(target_probs[n], draft_probs[n])),
        bonus=lambda n: sample(draft_probs[-1]),
    )


def bonus_from_the_position_before(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """After a whole draft the bonus token comes from the law that the last draft token came from."""
    return verified(
        draft_tokens,
        draft_probs,
        target_probs,
        correct=lambda n: sample(left_over(target_probs[n], draft_probs[n])),
        bonus=lambda n: sample(target_probs[n - 1]),
    )


def bonus_missing(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """After a whole draft no bonus token is drawn, and the buffer's initial zero is emitted in its place."""
    output = draft_tokens.new_zeros(len(draft_tokens) + 1)  # the bonus is never written, and its place is emitted
    output[:-1] = draft_tokens
    ratio = on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)
    n = leading(torch.rand_like(ratio) < ratio)
    if n < len(draft_tokens):
        output[n] = inverse_cdf(left_over(target_probs[n], draft_probs[n]), torch.rand(1))
    return output[: n + 1]


FAULTS = (
    planted(correction_by_argmax),
    planted(residual_not_subtracted, link="https://github.com/SafeAILab/EAGLE/issues/329"),
    planted(residual_not_clamped),
    planted(residual_swapped),
    planted(residual_not_normalised),
    planted(residual_with_a_floor, link="https://github.com/vllm-project/vllm/pull/2336"),
    planted(rejected_token_masked, link="https://github.com/SafeAILab/EAGLE/issues/20"),
    planted(nan_row_becomes_token_0, link="https://github.com/vllm-project/vllm/pull/41834"),
    planted(corrected_one_position_late, link="https://github.com/openvinotoolkit/openvino.genai/issues/4190"),
    planted(residual_of_two_positions),
    planted(filtered_after_acceptance, link="https://github.com/vllm-project/vllm/pull/10198"),
    planted(bonus_from_the_draft),
    planted(bonus_from_the_position_before),
    planted(bonus_missing),
)
