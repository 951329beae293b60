"""A verifier as it stands in an engine: it draws from torch, and takes the drafted tokens and both models' laws.

    spectr-verify audit examples/called_with_laws.py:verify --calls probabilities               # lossless
    spectr-verify audit examples/called_with_laws.py:forgetful --calls probabilities            # biased
    spectr-verify audit examples/called_with_laws.py:scaled --calls probabilities \\
        --arg draft_tokens=draft_tokens[None] --arg draft_logits=draft_logits[None] \\
        --arg target_logits=target_logits[None] --arg lenience=1.0                              # lossless

The last one takes logits and a batch dimension: ``--arg`` says what each argument gets, as a Python expression.
"""

import torch
from torch import Tensor


def verify(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Token verification: int64 [L], [L, V], [L+1, V] to the accepted tokens and one more."""
    return _verify(draft_tokens, draft_probs, target_probs, (target_probs[:-1] - draft_probs).clamp(min=0))


def forgetful(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The same, but what the draft had its chance at is not taken out of the correction."""
    return _verify(draft_tokens, draft_probs, target_probs, target_probs[:-1])


def scaled(draft_tokens: Tensor, draft_logits: Tensor, target_logits: Tensor, lenience: float) -> Tensor:
    """The same for a batch of logits: int64 [B, L], [B, L, V], [B, L+1, V] to [B, L+1], padded with -1."""
    rows = []
    for tokens, p, q in zip(draft_tokens, draft_logits.softmax(-1), target_logits.softmax(-1), strict=True):
        emitted = _verify(tokens, p / lenience, q, (q[:-1] - p / lenience).clamp(min=0))
        rows.append(torch.nn.functional.pad(emitted, (0, len(tokens) + 1 - len(emitted)), value=-1))
    return torch.stack(rows)


def _verify(tokens: Tensor, p: Tensor, q: Tensor, corrections: Tensor) -> Tensor:
    position = torch.arange(len(tokens))
    accepted = torch.rand(len(tokens)) < q[position, tokens] / p[position, tokens]
    count = int(accepted.long().cumprod(0).sum())
    law = q[-1] if count == len(tokens) else corrections[count]
    return torch.cat([tokens[:count], torch.multinomial(law, 1)])
