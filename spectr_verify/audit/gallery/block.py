"""Faults in block verification, each a slip in ``controls.block_verification``."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.audit.gallery.fault import Fault, planted
from spectr_verify.audit.gallery.pieces import (
    joined,
    last,
    leading,
    left_over,
    on_path,
    prefix_coins,
    prefix_weights,
    sample,
)
from spectr_verify.chance import Chance
from spectr_verify.errors import InputError
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules._path import emit, or_target, ratio, residual
from spectr_verify.rules.block import running_weight
from spectr_verify.rules.greedy_block import greedy_block


def ended(n: int, weight: Tensor, draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The first ``n`` draft tokens and a token from (w q - p)+, or from q after the whole draft."""
    if n == len(draft_tokens):
        return joined(draft_tokens, sample(target_probs[-1]))
    return joined(draft_tokens[:n], sample(left_over(weight * target_probs[n], draft_probs[n])))


def block_by_token_criterion(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The longest prefix is kept whose last token alone passes the token-level test."""
    weights = prefix_weights(draft_tokens, draft_probs, target_probs)
    coins = on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)
    n = last(torch.rand_like(coins) < coins)
    return ended(n, weights[n], draft_tokens, draft_probs, target_probs)


def block_by_products_of_uniforms(round: Round, chance: Chance) -> Emission:
    """Products of uniforms are compared with products of clamped ratios, which is not the block's coin.

    The longest prefix with u_1 .. u_i < W_i is kept and corrected from (q - p)+. Products of uniforms cannot be
    replayed, so the law of the accepted length is written down, up to L = 2. With a = W_1, b = W_2 and m = min(a, b):
    P(u_1 u_2 < b) = b (1 - log b), and P(u_1 < a, u_1 u_2 < b) = m + b log(a / m).

    Raises:
        InputError: the draft is longer than two tokens.
    """
    if round.length > 2:
        raise InputError(
            f"products-of-uniforms is written for drafts of 1 or 2 tokens, not of {round.length}: take L = 1 or 2"
        )
    tokens, p, q = round.drafts[:, 0], round.draft_probs[:, 0], round.target_probs[:, 0]
    weight = running_weight(tokens, p, q, capped=True)
    a, b = weight[:, 1], weight[:, -1]
    both = b + torch.special.entr(b)
    first = torch.minimum(a, b) + torch.xlogy(b, ratio(a, torch.minimum(a, b)).clamp(min=1.0))
    stops = [1 - a, a] if round.length == 1 else [1 - both - (a - first), a - first, both]
    accepted = chance.categorical(torch.stack(stops, dim=-1).clamp(min=0.0))
    row = torch.arange(round.rows, device=accepted.device)
    target = q[row, accepted]
    left = or_target(residual(torch.ones_like(a), target, p[row, accepted.clamp(max=round.length - 1)]), target)
    whole = (accepted == round.length)[:, None]
    return emit(round, torch.zeros_like(accepted), accepted, chance.categorical(torch.where(whole, target, left)))


def block_residual_without_weight(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The correction is drawn from (q - p)+ without the running weight of the prefix."""
    weights = prefix_weights(draft_tokens, draft_probs, target_probs)
    coins = prefix_coins(weights, draft_probs, target_probs)
    n = last(torch.rand_like(coins) < coins)
    return ended(n, torch.ones_like(weights[n]), draft_tokens, draft_probs, target_probs)


def block_mass_of_the_position_before(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The coin of a prefix uses the residual mass of the position before it."""
    weights = prefix_weights(draft_tokens, draft_probs, target_probs)
    inner = weights[1:-1]
    mass = (inner[:, None] * target_probs[:-2] - draft_probs[:-1]).clamp(min=0.0).sum(dim=-1)  # of i, not i + 1
    coins = torch.cat([torch.where(inner < 1, mass / (mass + 1 - inner), 1.0), weights[-1:]])
    n = last(torch.rand_like(coins) < coins)
    return ended(n, weights[n], draft_tokens, draft_probs, target_probs)


def block_stopped_at_the_first_failure(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The scan of the prefixes ends at the first coin that fails, though a longer prefix may succeed."""
    weights = prefix_weights(draft_tokens, draft_probs, target_probs)
    coins = prefix_coins(weights, draft_probs, target_probs)
    n = leading(torch.rand_like(coins) < coins)
    return ended(n, weights[n], draft_tokens, draft_probs, target_probs)


def block_then_tokens(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A draft that was rejected as a whole is offered again token by token."""
    ratios = on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)
    if torch.rand(()) < ratios.prod():
        return joined(draft_tokens, sample(target_probs[-1]))
    n = leading(torch.rand_like(ratios) < ratios)  # a second chance for tokens that were just rejected together
    return ended(n, torch.ones(()), draft_tokens, draft_probs, target_probs)


FAULTS = (
    planted(block_by_token_criterion, length=2, link="https://github.com/vllm-project/vllm-ascend/issues/7807"),
    planted(
        block_by_products_of_uniforms, "round", length=2, link="https://github.com/vllm-project/vllm-ascend/pull/7808"
    ),
    planted(block_residual_without_weight, length=2, link="https://github.com/vllm-project/vllm-ascend/issues/7807"),
    planted(block_mass_of_the_position_before, length=2),
    planted(
        block_stopped_at_the_first_failure, length=2, link="https://github.com/vllm-project/vllm-ascend/pull/11985"
    ),
    planted(block_then_tokens),
    Fault(
        "greedy-block-forgetful",
        "Greedy block verification goes on with the plain target instead of the modified one.",
        "round",
        greedy_block,
        length=2,
    ),
)
