"""An engine's verification of one draft, written as engines write it: plain torch, with random numbers of its own."""

import torch
from torch import Tensor


def verify(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The accepted tokens and one more: int64 [n] from int64 [L], [L, V] and [L + 1, V]."""
    for i, token in enumerate(draft_tokens):
        if torch.rand(()) >= target_probs[i, token] / draft_probs[i, token]:
            residual = (target_probs[i] - draft_probs[i]).clamp(min=0)
            return torch.cat([draft_tokens[:i], torch.multinomial(residual, 1)])
    return torch.cat([draft_tokens, torch.multinomial(target_probs[-1], 1)])
