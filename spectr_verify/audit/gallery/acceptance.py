"""Faults in the decision how many draft tokens are kept; the correction is right.

Each differs from ``controls.token_by_token`` or ``controls.token_at_once`` in a line.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.audit.gallery.fault import Fault, planted
from spectr_verify.audit.gallery.pieces import joined, leading, left_over, on_path, race, sample
from spectr_verify.rules import RULES


def ended(n: int, draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The first ``n`` draft tokens and the right token after them."""
    whole = n == len(draft_tokens)
    return joined(draft_tokens[:n], sample(target_probs[n] if whole else left_over(target_probs[n], draft_probs[n])))


def ratios(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """q/p of each draft token: [L]."""
    return on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)


def equal_to_argmax(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A sampled request keeps a draft token only if it is the target's likeliest one."""
    n = leading(draft_tokens == target_probs[:-1].argmax(dim=-1))
    return joined(draft_tokens[:n], sample(target_probs[n]))


def everything_accepted(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The coin is the constant 0, so every draft token that the target can write is accepted."""
    # A placeholder for a generator that the device does not have.
    coins = torch.zeros(len(draft_tokens))
    log_p, log_q = on_path(draft_probs, draft_tokens).log(), on_path(target_probs[:-1], draft_tokens).log()
    n = leading(log_q > coins.log() + log_p)
    return ended(n, draft_tokens, draft_probs, target_probs)


def first_token_unverified(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The first draft token is kept without looking at the target's law of it."""
    ratio = ratios(draft_tokens, draft_probs, target_probs)
    n = 1 + leading(torch.rand(len(ratio) - 1) < ratio[1:])
    return ended(n, draft_tokens, draft_probs, target_probs)


def ratio_inverted(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A token is accepted with min(1, p/q) instead of min(1, q/p)."""
    n = leading(torch.rand(len(draft_tokens)) < 1 / ratios(draft_tokens, draft_probs, target_probs))
    return ended(n, draft_tokens, draft_probs, target_probs)


def logits_taken_for_log_probs(draft_tokens: Tensor, draft_logits: Tensor, target_logits: Tensor) -> Tensor:
    """The softmax is forgotten: what is compared are exponentials of raw logits, which do not sum to 1."""
    draft_probs, target_probs = draft_logits.exp(), target_logits.exp()
    n = leading(torch.rand(len(draft_tokens)) < ratios(draft_tokens, draft_probs, target_probs))
    return ended(n, draft_tokens, draft_probs, target_probs)


def ratio_to_the_likeliest(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The target's probability is divided by the target's largest one instead of the draft's."""
    # The draft's law is not at hand, so the target's largest probability stands in for it.
    ratio = on_path(target_probs[:-1], draft_tokens) / target_probs[:-1].amax(dim=-1)
    n = leading(torch.rand_like(ratio) < ratio)
    return ended(n, draft_tokens, draft_probs, target_probs)


def accepted_on_a_second_look(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A token is accepted if a sample from the target equals it, or else if its coin succeeds."""
    guessed = race(target_probs[:-1]).squeeze(-1) == draft_tokens
    n = leading(guessed | (torch.rand(len(draft_tokens)) < ratios(draft_tokens, draft_probs, target_probs)))
    return ended(n, draft_tokens, draft_probs, target_probs)


def later_tokens_accepted(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The accepted tokens are counted over the whole draft, so tokens behind a rejection lengthen the prefix."""
    accepted = torch.rand(len(draft_tokens)) < ratios(draft_tokens, draft_probs, target_probs)
    n = int(accepted.sum())  # counts those behind a rejection too
    return ended(n, draft_tokens, draft_probs, target_probs)


def target_read_one_late(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Draft token i is judged by the target's law of position i + 1."""
    ratio = on_path(target_probs[1:], draft_tokens) / on_path(draft_probs, draft_tokens)
    n = leading(torch.rand_like(ratio) < ratio)
    return ended(n, draft_tokens, draft_probs, target_probs)


def threshold_below_one(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The acceptance probability is clamped to 0.99, so tokens that must be accepted are sometimes not."""
    ratio = ratios(draft_tokens, draft_probs, target_probs).clamp(max=0.99)
    return ended(leading(torch.rand_like(ratio) < ratio), draft_tokens, draft_probs, target_probs)


def lenient(
    draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, *, accept_threshold: float = 0.8
) -> Tensor:
    """An acceptance threshold of 0.8 divides the ratio, so tokens are accepted too often."""
    ratio = ratios(draft_tokens, draft_probs, target_probs) / accept_threshold
    return ended(leading(torch.rand_like(ratio) < ratio), draft_tokens, draft_probs, target_probs)


def ratio_in_bfloat16(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The acceptance probability is rounded to bfloat16."""
    ratio = ratios(draft_tokens, draft_probs, target_probs).to(torch.bfloat16)
    return ended(leading(torch.rand(len(ratio)) < ratio), draft_tokens, draft_probs, target_probs)


FAULTS = (
    planted(equal_to_argmax, link="https://github.com/sgl-project/sglang/pull/31214"),
    planted(everything_accepted, link="https://github.com/vllm-project/vllm-ascend/pull/13766"),
    planted(first_token_unverified, link="https://github.com/ohdearquant/lattice/issues/243"),
    planted(ratio_inverted),
    planted(
        logits_taken_for_log_probs,
        arguments={name: name for name in ("draft_tokens", "draft_logits", "target_logits")},
    ),
    planted(ratio_to_the_likeliest, link="https://github.com/1bit-MONSTER/1bit-MONSTER/issues/637"),
    planted(accepted_on_a_second_look, link="https://github.com/alibaba/rtp-llm/pull/1295"),
    planted(later_tokens_accepted, length=2, link="https://github.com/huggingface/transformers/pull/28508"),
    planted(target_read_one_late),
    planted(threshold_below_one),
    planted(lenient, link="https://github.com/sgl-project/sglang/pull/7702"),
    planted(ratio_in_bfloat16),
    Fault(
        "typical-acceptance",
        "Tokens are accepted for being likely enough under the target, whatever the draft's law.",
        "round",
        RULES["typical"],
        link="https://github.com/vllm-project/vllm/pull/5131",
    ),
)
