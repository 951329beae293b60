"""What the gallery's functions share: the small pieces that every serving engine has, all of them right.

One request, no batch: ``draft_tokens`` int64 [L], ``draft_probs`` [L, V], ``target_probs`` [L+1, V]; with K drafts each
has a leading K.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor


class Model(Protocol):
    """A causal language model, called as Hugging Face's are."""

    def __call__(self, input_ids: Tensor) -> Any:
        """Answer ``input_ids`` [1, n] with an object whose ``logits`` are [1, n, V]."""


# Laws


def law(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Next-token laws of logits [.., V]; at temperature 0 all is on the largest logit."""
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
    return (logits / temperature).softmax(dim=-1)


def top_k(laws: Tensor, k: int) -> Tensor:
    """The k likeliest tokens of laws [.., V], renormalised; of equal ones those that ``topk`` takes."""
    kept = torch.zeros_like(laws).scatter(-1, laws.topk(min(k, laws.shape[-1])).indices, 1.0) * laws
    return kept / kept.sum(dim=-1, keepdim=True)


def top_p(laws: Tensor, mass: float) -> Tensor:
    """The fewest likeliest tokens of laws [.., V] that hold ``mass``, renormalised."""
    ordered, tokens = laws.sort(dim=-1, descending=True)
    ordered = ordered.masked_fill(ordered.cumsum(dim=-1) - ordered >= mass, 0.0)
    kept = torch.zeros_like(laws).scatter(-1, tokens, ordered)
    return kept / kept.sum(dim=-1, keepdim=True)


def on_path(laws: Tensor, tokens: Tensor) -> Tensor:
    """Probability of each token under the law at its position: [L, V] and [L] to [L]."""
    return laws.gather(-1, tokens[:, None]).squeeze(-1)


def left_over(target: Tensor, draft: Tensor) -> Tensor:
    """(q - p)+ [V], or q where rounding leaves nothing of it."""
    rest = (target - draft).clamp(min=0.0)
    return rest if rest.sum() > 0 else target


# Drawing


def sample(weights: Tensor) -> Tensor:
    """One token in proportion to weights [V]: int64 [1]."""
    return torch.multinomial(weights, num_samples=1)


def race(weights: Tensor) -> Tensor:
    """The same by a race of exponential clocks, which needs no synchronisation on a GPU."""
    return (weights / torch.empty_like(weights).exponential_()).argmax(dim=-1, keepdim=True)


def gumbel(weights: Tensor) -> Tensor:
    """The same by adding Gumbel noise to log-weights."""
    return (weights.log() - torch.empty_like(weights).exponential_().log()).argmax(dim=-1, keepdim=True)


def inverse_cdf(weights: Tensor, coin: Tensor) -> Tensor:
    """The same from a uniform coin [1]: the first token whose cumulative weight is above it."""
    steps = weights.cumsum(dim=-1)
    return torch.searchsorted(steps, coin * steps[-1], right=True)


# Emitting


def leading(accepted: Tensor) -> int:
    """How many of [L] are accepted before the first rejection."""
    return int(accepted.int().cumprod(dim=-1).sum())


def last(accepted: Tensor) -> int:
    """The length of the longest prefix that [L] accepts, whatever it says of shorter ones."""
    return max((i + 1 for i, kept in enumerate(accepted.tolist()) if kept), default=0)


def joined(tokens: Tensor, extra: Tensor) -> Tensor:
    """The accepted tokens and one more."""
    return torch.cat([tokens, extra.reshape(1)])


# Block verification


def prefix_weights(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Q/P of each prefix, held at 1 after every token: [L+1], starting at 1."""
    weights = [torch.ones((), dtype=target_probs.dtype)]
    for x, p, q in zip(draft_tokens.tolist(), draft_probs, target_probs, strict=False):
        weights.append((weights[-1] * q[x] / p[x]).clamp(max=1.0))
    return torch.stack(weights)


def prefix_coins(weights: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Acceptance probability of the prefixes of 1 to L tokens: A / (A + 1 - W) with A = sum of (W q - p)+, then W."""
    inner = weights[1:-1]
    mass = (inner[:, None] * target_probs[1:-1] - draft_probs[1:]).clamp(min=0.0).sum(dim=-1)
    return torch.cat([torch.where(inner < 1, mass / (mass + 1 - inner), 1.0), weights[-1:]])


# Several drafts

Offer = Callable[[Tensor, Tensor, list[int]], tuple[int | None, Tensor]]
"""(p [V], q [V], the drafts' tokens here) to the number of the accepted one, ``None`` if none, and the weights [V]
of the token that is emitted if none was."""


def level_by_level(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, offer: Offer) -> Tensor:
    """Offer the tokens of K drafts position by position, and go on with the drafts that share the accepted one."""
    active = list(range(len(draft_tokens)))
    for i in range(draft_tokens.shape[1]):
        lead = active[0]
        tokens = [int(draft_tokens[k, i]) for k in active]
        winner, rest = offer(draft_probs[lead, i], target_probs[lead, i], tokens)
        if winner is None:
            return joined(draft_tokens[lead, :i], sample(rest))
        active = [k for k, x in zip(active, tokens, strict=True) if x == tokens[winner]]
    return joined(draft_tokens[active[0]], sample(target_probs[active[0], -1]))


# Whole steps


def drafted(model: Model, input_ids: Tensor, gamma: int, draws: Callable[[Tensor], Tensor] = law) -> Tensor:
    """Draft ``gamma`` tokens, each from the law that ``draws`` makes of its logits: int64 [gamma]."""
    text = input_ids
    for _ in range(gamma):
        token = sample(draws(model(text).logits[0, -1]))
        text = torch.cat([text, token[None]], dim=1)
    return text[0, input_ids.shape[1] :]


def scored(model: Model, input_ids: Tensor, tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """The model's laws before each token and after the last: [gamma + 1, V], from one call."""
    logits = model(torch.cat([input_ids, tokens[None]], dim=1)).logits[0]
    return law(logits[input_ids.shape[1] - 1 :], temperature)


def longer(input_ids: Tensor, emitted: Tensor) -> Tensor:
    """The text with the emitted tokens behind it."""
    return torch.cat([input_ids, emitted[None]], dim=1)
