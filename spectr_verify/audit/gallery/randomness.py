"""Faults in the random numbers alone: the formulas are right, the coins are not independent or not in [0, 1).

Each differs from ``controls.token_by_inverse_cdf`` in the numbers that it draws or in how it compares them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.audit.gallery.fault import GAMMA, planted
from spectr_verify.audit.gallery.pieces import (
    Model,
    inverse_cdf,
    joined,
    law,
    leading,
    left_over,
    longer,
    on_path,
    scored,
)


def ratios(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """q/p of each draft token: [L]."""
    return on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)


def weights_after(n: int, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """What the token after ``n`` accepted ones is drawn from: [V]."""
    return target_probs[n] if n == len(draft_probs) else left_over(target_probs[n], draft_probs[n])


def one_uniform_for_all_positions(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """All draft tokens of a request are judged by the same uniform."""
    coin, extra = torch.rand(2, dtype=target_probs.dtype).split(1)  # one a request instead of one a position
    n = leading(coin < ratios(draft_tokens, draft_probs, target_probs))
    return joined(draft_tokens[:n], inverse_cdf(weights_after(n, draft_probs, target_probs), extra))


def rejecting_uniform_corrects(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The uniform that rejected a token, which is a large one, also draws the correction."""
    gamma = len(draft_tokens)
    coins = torch.rand(gamma + 1, dtype=target_probs.dtype)
    n = leading(coins[:gamma] < ratios(draft_tokens, draft_probs, target_probs))
    return joined(draft_tokens[:n], inverse_cdf(weights_after(n, draft_probs, target_probs), coins[n : n + 1]))


def last_uniform_draws_the_bonus(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The uniform that accepted the last draft token, which is a small one, also draws the bonus."""
    coins = torch.rand(len(draft_tokens), dtype=target_probs.dtype)  # one too few
    n = leading(coins < ratios(draft_tokens, draft_probs, target_probs))
    extra = coins[-1:] if n == len(draft_tokens) else torch.rand(1, dtype=target_probs.dtype)
    return joined(draft_tokens[:n], inverse_cdf(weights_after(n, draft_probs, target_probs), extra))


def neighbours_share_a_uniform(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """An index that is off by one makes the first two positions read the same uniform."""
    coins = torch.rand(len(draft_tokens), dtype=target_probs.dtype)
    shifted = coins[torch.arange(len(coins)).sub(1).clamp(min=0)]  # positions 0 and 1 read the same one
    n = leading(shifted < ratios(draft_tokens, draft_probs, target_probs))
    extra = torch.rand(1, dtype=target_probs.dtype)
    return joined(draft_tokens[:n], inverse_cdf(weights_after(n, draft_probs, target_probs), extra))


def one_uniform_samples_all_positions(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The target is sampled at all positions with the same uniform, from a generator that is seeded anew each time."""
    coin = torch.rand(1, dtype=target_probs.dtype)
    tokens = torch.cat([inverse_cdf(weights, coin) for weights in target_probs])
    return tokens[: leading(tokens[:-1] == draft_tokens) + 1]


def uniform_zero_accepts(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A uniform of exactly 0 accepts a token of target probability zero, because the comparison is <=."""
    n = leading(torch.rand(len(draft_tokens)) <= ratios(draft_tokens, draft_probs, target_probs))
    extra = torch.rand(1, dtype=target_probs.dtype)
    return joined(draft_tokens[:n], inverse_cdf(weights_after(n, draft_probs, target_probs), extra))


def uniform_zero_draws_the_impossible(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A uniform of exactly 0 draws the first token even where its weight is zero."""
    n = leading(torch.rand(len(draft_tokens)) < ratios(draft_tokens, draft_probs, target_probs))
    steps = weights_after(n, draft_probs, target_probs).cumsum(dim=-1)
    # The first step that is not below the coin: for 0 the first of all, even one of height 0.
    return joined(draft_tokens[:n], torch.searchsorted(steps / steps[-1], torch.rand(1, dtype=steps.dtype)))


def uniform_zero_ends_the_gumbel_race(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A uniform of exactly 0 makes the Gumbel noise of the only possible token -inf, and an impossible one wins."""
    n = leading(torch.rand(len(draft_tokens)) < ratios(draft_tokens, draft_probs, target_probs))
    weights = weights_after(n, draft_probs, target_probs)
    noise = -(-torch.rand_like(weights).log()).log()
    return joined(draft_tokens[:n], (weights.log() + noise).argmax(dim=-1))


def drafting_uniform_corrects(draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int) -> Tensor:
    """The random number that drew a draft token, which is known to have drawn it, also draws its correction."""
    coins, text = torch.rand(gamma, dtype=torch.float64), input_ids
    for coin in coins.split(1):
        token = inverse_cdf(law(draft_model(text).logits[0, -1]), coin)
        text = torch.cat([text, token[None]], dim=1)
    tokens = text[0, input_ids.shape[1] :]
    draft_probs, target_probs = scored(draft_model, input_ids, tokens)[:-1], scored(target_model, input_ids, tokens)
    n = leading(torch.rand(gamma) < ratios(tokens, draft_probs, target_probs))
    extra = coins[n : n + 1] if n < gamma else torch.rand(1, dtype=torch.float64)
    return longer(input_ids, joined(tokens[:n], inverse_cdf(weights_after(n, draft_probs, target_probs), extra)))


FAULTS = (
    planted(one_uniform_for_all_positions, length=2),
    planted(rejecting_uniform_corrects, link="https://github.com/vllm-project/vllm-ascend/pull/16370"),
    planted(last_uniform_draws_the_bonus),
    planted(neighbours_share_a_uniform, length=2),
    planted(one_uniform_samples_all_positions),
    planted(
        drafting_uniform_corrects,
        "step",
        arguments=GAMMA,
        link="https://github.com/local-inference-lab/vllm/pull/209",
    ),
    planted(uniform_zero_accepts, link="https://github.com/pytorch/pytorch/issues/16706"),
    planted(uniform_zero_draws_the_impossible, link="https://github.com/pytorch/pytorch/issues/16706"),
    planted(uniform_zero_ends_the_gumbel_race, link="https://github.com/pytorch/pytorch/issues/16706"),
)
