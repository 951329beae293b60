"""The controls: lossless code in the styles of serving engines, of which every fault is a small variation.

The styles of drawing differ on purpose, so that an audit of the gallery exercises all that the replay can follow.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor

from spectr_verify.audit.gallery.fault import SEVERAL, STEP, Fault, planted
from spectr_verify.audit.gallery.pieces import (
    Model,
    drafted,
    gumbel,
    inverse_cdf,
    joined,
    last,
    law,
    leading,
    left_over,
    level_by_level,
    longer,
    on_path,
    prefix_coins,
    prefix_weights,
    race,
    sample,
    scored,
)
from spectr_verify.rules import RULES


def token_by_token(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Token verification, one coin at a time."""
    for i, x in enumerate(draft_tokens.tolist()):
        p, q = draft_probs[i], target_probs[i]
        if torch.rand(()) * p[x] >= q[x]:
            return joined(draft_tokens[:i], sample(left_over(q, p)))
    return joined(draft_tokens, sample(target_probs[-1]))


def token_at_once(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Token verification without branches: all coins at once, exponential clocks, an output padded with -1."""
    gamma = len(draft_tokens)
    ratio = on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)
    n = leading(torch.rand_like(ratio) < ratio)
    output = torch.full((1, gamma + 1), -1)
    output[0, :n] = draft_tokens[:n]
    output[0, n] = race(target_probs[n] if n == gamma else left_over(target_probs[n], draft_probs[n]))
    return output


def token_in_log_space(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Token verification on log-probabilities, with Gumbel noise."""
    log_p, log_q = on_path(draft_probs, draft_tokens).log(), on_path(target_probs[:-1], draft_tokens).log()
    n = leading(torch.rand_like(log_p).log() < log_q - log_p)
    whole = n == len(draft_tokens)
    return joined(draft_tokens[:n], gumbel(target_probs[n] if whole else left_over(target_probs[n], draft_probs[n])))


def token_by_inverse_cdf(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Token verification from L + 1 uniforms, the last of which draws the extra token from cumulative weights."""
    gamma = len(draft_tokens)
    coins = torch.rand(gamma + 1, dtype=target_probs.dtype)
    n = leading(coins[:gamma] < on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens))
    weights = target_probs[n] if n == gamma else left_over(target_probs[n], draft_probs[n])
    return joined(draft_tokens[:n], inverse_cdf(weights, coins[gamma:]))


def token_with_bernoulli(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Token verification with coins from ``torch.bernoulli``."""
    ratio = on_path(target_probs[:-1], draft_tokens) / on_path(draft_probs, draft_tokens)
    n = leading(torch.bernoulli(ratio.clamp(max=1.0)) == 1)
    whole = n == len(draft_tokens)
    return joined(draft_tokens[:n], sample(target_probs[n] if whole else left_over(target_probs[n], draft_probs[n])))


def token_in_plain_python(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> list[int]:
    """Token verification on lists, with the ``random`` module."""
    emitted: list[int] = []
    for x, p, q in zip(draft_tokens.tolist(), draft_probs.tolist(), target_probs.tolist(), strict=False):
        if random.random() >= q[x] / p[x]:
            rest = [max(b - a, 0.0) for a, b in zip(p, q, strict=True)]
            return [*emitted, *random.choices(range(len(q)), rest if sum(rest) > 0 else q)]
        emitted.append(x)
    q = target_probs[-1].tolist()
    return [*emitted, *random.choices(range(len(q)), q)]


def exact_match(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Sample the target at every position and keep what the draft guessed, and the first token that it did not."""
    tokens = torch.multinomial(target_probs, num_samples=1).squeeze(-1)
    return tokens[: leading(tokens[:-1] == draft_tokens) + 1]


def block_verification(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Block verification: the longest prefix whose own coin succeeds, then a token from (W q - p)+."""
    weights = prefix_weights(draft_tokens, draft_probs, target_probs)
    coins = prefix_coins(weights, draft_probs, target_probs)
    n = last(torch.rand_like(coins) < coins)
    if n == len(draft_tokens):
        return joined(draft_tokens, sample(target_probs[-1]))
    return joined(draft_tokens[:n], sample(left_over(weights[n] * target_probs[n], draft_probs[n])))


def recursive_rejection(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """K drafts, offered in turn; every rejection turns q into (q - p)+ for the next."""

    def offer(p: Tensor, q: Tensor, tokens: list[int]) -> tuple[int | None, Tensor]:
        for k, x in enumerate(tokens):
            if torch.rand(()) * p[x] < q[x]:
                return k, q
            q = left_over(q, p)
            q = q / q.sum()
        return None, q

    return level_by_level(draft_tokens, draft_probs, target_probs, offer)


def k_seq(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """K drafts, accepted in turn with min(1, q/(s p)); s = k is valid for k drafts, though not the best."""

    def offer(p: Tensor, q: Tensor, tokens: list[int]) -> tuple[int | None, Tensor]:
        s = len(tokens)
        for k, x in enumerate(tokens):
            if torch.rand(()) < q[x] / (s * p[x]):
                return k, q
        capped = torch.minimum(p, q / s)
        beta = capped.sum()
        return None, (q - capped * (1 - (1 - beta) ** s) / beta.clamp(min=1e-30)).clamp(min=0.0)

    return level_by_level(draft_tokens, draft_probs, target_probs, offer)


def speculative_step(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, temperature: float
) -> Tensor:
    """Draft, score in one call, verify: one step of assisted generation."""
    tokens = drafted(draft_model, input_ids, gamma, lambda logits: law(logits, temperature))
    draft_probs = scored(draft_model, input_ids, tokens, temperature)[:-1]
    target_probs = scored(target_model, input_ids, tokens, temperature)
    return longer(input_ids, token_by_token(tokens, draft_probs, target_probs))


def several_drafts_step(
    draft_model: Model, target_model: Model, input_ids: Tensor, *, gamma: int, num_drafts: int
) -> Tensor:
    """A whole step with K drafts, each drawn by itself: draft, score each path in one call, verify."""
    tokens = torch.stack([drafted(draft_model, input_ids, gamma) for _ in range(num_drafts)])
    draft_probs = torch.stack([scored(draft_model, input_ids, path)[:-1] for path in tokens])
    target_probs = torch.stack([scored(target_model, input_ids, path) for path in tokens])
    return longer(input_ids, recursive_rejection(tokens, draft_probs, target_probs))


CONTROLS = (
    planted(token_by_token),
    planted(token_at_once),
    planted(token_in_log_space),
    planted(token_by_inverse_cdf),
    planted(token_with_bernoulli),
    planted(token_in_plain_python),
    planted(exact_match),
    planted(block_verification),
    planted(recursive_rejection, drafts=2),
    planted(k_seq, drafts=2),
    planted(speculative_step, "step", arguments=STEP),
    Fault("tempered-step", "A whole step at temperature 0.5.", "step", speculative_step, STEP, temperature=0.5),
    Fault("greedy-step", "A whole step at temperature 0.", "step", speculative_step, STEP, temperature=0.0),
    planted(several_drafts_step, "step", arguments=SEVERAL, drafts=2, length=1),
    Fault("greedy-block", "Greedy block verification with its modified target.", "round", RULES["greedy-block"]),
    Fault(
        "block-race",
        "Two block verifications, the smaller of two fair scores wins.",
        "round",
        RULES["block-race"],
        drafts=2,
    ),
)
